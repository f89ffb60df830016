"""What a translation made up, and what stayed in its language: found where it is, and nowhere else."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tx.model.strays import invented, left, made_up


@pytest.mark.parametrize(
    ("source", "output", "numbers"),
    [
        ("He went home at nine.", "他50点回家。", ["50"]),
        ("Since November it is closed.", "从1月起关闭。", ["1"]),
        ("They left in 1961.", "他们在1969年离开。", ["1969"]),
        ("我在七时十五分吃晚饭。", "I had dinner at 50.", ["50"]),
        ("超过二十个男孩去了那里。", "There are over 200 boys.", ["200"]),
        ("Two dogs", "5只狗和7只猫", ["5", "7"]),
        ("The number is 12345678901234567890.", "号码是12345678901234567891。", ["12345678901234567891"]),
        ("It costs $3.50.", "它要3.55美元。", ["3.55"]),
        ("No numbers", "没有", []),
    ],
)
def test_numbers_that_the_source_does_not_say(source: str, output: str, numbers: list[str]) -> None:
    assert invented(source, output) == numbers


@pytest.mark.parametrize(
    ("source", "output"),
    [
        ("three cats", "3只猫"), ("三只猫", "3 cats"), ("a hundred people", "100人"), ("twenty-one days", "21天"),
        ("三百五十", "350"), ("三百五", "350"), ("一万二", "12,000"), ("一百二十万", "1.2 million"), ("二〇一三年", "2013"),
        ("three hundred and fifty", "350"), ("nineteen eighty-four", "1984"), ("twelve thousand five hundred", "12500"),
        ("3 million people", "300万人"), ("13.5亿英镑", "£1.35bn"), ("4个亿", "400 million"), ("8.063 billion", "80.63亿"),
        ("12,000 cars", "1.2万辆车"), ("12 000 cars", "12000辆车"), ("a million", "100万"), ("1,5 litres", "1.5升"),
        ("January", "1月"), ("1月", "January 1"), ("Aug. 3", "8月3日"), ("on Monday", "星期1"), ("十二月", "month 12"),
        ("half past three", "3:30"), ("a quarter past five", "5:15"), ("三点一刻", "3:15"), ("at 3 pm", "15点"), ("七时", "7:00 a.m."),
        ("half an hour", "30分钟"), ("一半", "50%"), ("two and a half", "2.5"), ("three point five", "3.5"), ("两个半小时", "2 or 30"),
        ("the 19th century", "19世纪"), ("in the 1800s", "19世纪"), ("in 1984", "84年"), ("the nineties", "90年代"),
        ("a dozen eggs", "12个鸡蛋"), ("twice", "2次"), ("both", "2"), ("the second one", "第2个"), ("twenty-first", "第21"),
        ("World War II", "第2次世界大战"), ("Chapter IX", "第9章"), ("七八个", "7 or 8"), ("call nine one one", "打911"),
        ("１２３", "123"), ("①", "1"), ("2½", "2 1/2"), ("iPhone7", "iPhone 7"), ("3–4 days", "3到4天"), ("a week", "7天"),
    ],
)  # fmt: skip
def test_numbers_that_the_source_says_otherwise(source: str, output: str) -> None:
    assert invented(source, output) == []


@pytest.mark.parametrize(
    ("source", "output", "target", "words"),
    [
        ("How do I gain weight?", "我怎么增加 weight？", "zh", ["weight"]),
        ("Say hello to her, then press it.", "Say hello to her，然后按它。", "zh", ["hello", "to", "her"]),
        ("语法是很复杂的。", "The语法 is very complex.", "en", ["语法"]),
        ("You 我 see", "你 see 我", "zh", ["see"]),
        # names, abbreviations, the word itself, the original of a name, and what is written so in Chinese
        ("I know Anna and NASA.", "我认识 Anna 和 NASA。", "zh", []),
        ('The word "cat" is short.', "“cat”这个词很短。", "zh", []),
        ("The drug ticagrelor helps.", "替卡格雷 (ticagrelor) 有用。", "zh", []),
        ("Wolf of Wall Street", "Wolf of Wall Street这部电影", "zh", []),
        ("Send an email by wifi at 5 pm", "5 pm 用 wifi 发 email", "zh", []),
        ("See a.example/some/page and some_name", "看 a.example/some/page 和 some_name", "zh", []),
        ("Timuçin is in town", "Timuçin在城里", "zh", []),
        # marks before a word, what stands in brackets, and a sentence's first word
        ("_Quit", "_Quit", "zh", ["Quit"]),
        ("[laughs]", "[laughs]", "zh", ["laughs"]),
        ("(laughs)", "（laughs）", "zh", ["laughs"]),
        ("“quotes”", "“quotes”", "zh", ["quotes"]),
        ("&Open", "&Open", "zh", ["Open"]),
        ("Wait here. Visit us.", "在这里等。Visit 我们。", "zh", ["Visit"]),
        ("Mary met Linux and NLP people.", "Mary 见了 Linux 和 NLP 的人。", "zh", []),
        ("Word is open.", "Word 开着。", "zh", []),
        ("Press the Visit button", "按 Visit 按钮", "zh", []),
        ("Open Source Initiative says so.", "Open Source Initiative 这么说。", "zh", []),
    ],
)  # fmt: skip
def test_words_that_stayed(source: str, output: str, target: str, words: list[str]) -> None:
    assert left(source, output, target, {"visit", "open", "quit", "word"}.__contains__) == words


@pytest.mark.parametrize(
    ("source", "output", "runs"),
    [
        ("Visit us now", "现在维维斯it", ["it"]),
        ("“quotes”", "“quoootes”", ["quoootes"]),
        ("A man of Zurich", "Zße人", ["Zße"]),
        ("Encoded text", "Ücödöédéé文本", ["Ücödöédéé"]),
        ("(Jinks)", "（JiNuçs）", ["JiNuçs"]),
        ("[music]", "[mus]", ["mus"]),
        ("**bold**", "**old*", ["old"]),
        # names with and without accents and endings, abbreviations, what Chinese writes so
        ("Café Müller's apps by CEOs", "Cafe Müller 的 app 和 CEO", []),
        ("The basketball league", "NBA 在 app 里", []),
    ],
)
def test_letters_that_are_no_word_of_the_source(source: str, output: str, runs: list[str]) -> None:
    assert made_up(source, output) == runs


@given(st.text(alphabet=string.digits + ".,: 三百十万亿零半月 a k million half of IVX½①１", max_size=40))
def test_a_text_invents_nothing_of_its_own(text: str) -> None:
    assert invented(text, text) == []
