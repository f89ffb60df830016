"""Sentences found, long ones cut, languages told apart. Tests of what is put together again are in test_layout.py."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tx.model.segment import Segment, guess_language, join, script, split, was_split
from tx.model.segment import sentences as places_of_sentences
from tx.model.sentence_ends import QUOTES

GOLDEN = Path(__file__).parent / "golden"


def sentences(text: str) -> list[str]:
    return [segment.text for segment in split(text, lambda part: True) if not segment.text.isspace()]


def cases(language: str) -> list[str]:
    lines = (GOLDEN / f"sentences_{language}.txt").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if not line.startswith("# ")]


def found(text: str) -> list[str]:
    return [text[a:b] for a, b in places_of_sentences(text)]


@pytest.mark.parametrize("case", cases("en"))
def test_english_sentences(case: str) -> None:
    assert found(case.replace(" | ", " ")) == case.split(" | ")


@pytest.mark.parametrize("case", cases("zh"))
def test_chinese_sentences(case: str) -> None:
    parts = [part.strip() for part in case.split("|")]
    assert found(case.replace(" | ", " ").replace("|", "")) == parts
    if "……" not in case:  # before a space it ends a sentence
        assert found("\u3000".join(parts)) == parts


def test_split_finds_the_sentences_of_a_line() -> None:
    for case in cases("en") + cases("zh"):
        text = case.replace(" | ", " ").replace("|", "")
        segments = split(text, lambda part: True)
        ends = {len("".join(s.text for s in segments[: i + 1]).rstrip()) for i in range(len(segments))}
        assert {end for _, end in places_of_sentences(text)} <= ends
        parts = len([s for s in segments if s.translate])
        whole = len([part for part in found(text) if has_letters(part)])
        assert parts == whole or (parts > whole and any(s.text in QUOTES for s in segments))


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ('He said "I see. I will go." Then he left.', ["He said", '"', "I see.", "I will go.", '"', "Then he left."]),
        ("She asked, “Where? I am here.”", ["She asked,", "“", "Where?", "I am here.", "”"]),
        ('"Stop! Come back!" she cried.', ['"', "Stop!", "Come back!", '"', "she cried."]),
        ('"I see," he said. "I will go."', ['"', "I see,", '"', "he said.", '"', "I will go.", '"']),
        ("'I am tired. I don't care,' he said.", ["'", "I am tired.", "I don't care,", "'", "he said."]),
        ("她说：“我累了。我要回家。”然后她走了。", ["她说：", "“", "我累了。", "我要回家。", "”", "然后她走了。"]),
        ('他说"我明白。我会去的。"然后离开了。', ["他说", '"', "我明白。", "我会去的。", '"', "然后离开了。"]),
        ("「你好。」他说。", ["「", "你好。", "」", "他说。"]),
        ("He said: “She told me ‘No. Go.’ and left.”",
         ["He said:", "“", "She told me", "‘", "No.", "Go.", "’", "and left.", "”"]),
        # words of a sentence, apostrophes, inches, and what has no partner
        ('The word "cat" has three letters.', ['The word "cat" has three letters.']),
        ('He chose "red," and "blue."', ['He chose "red," and "blue."']),
        ("It's the dogs' food. I don't care.", ["It's the dogs' food.", "I don't care."]),
        ('A 6" pipe is thin. A 9" pipe is not.', ['A 6" pipe is thin.', 'A 9" pipe is not.']),
        ('He said "I see. I will go.', ['He said "I see.', "I will go."]),
    ],
)  # fmt: skip
def test_speech_is_parted_from_its_quotation_marks(text: str, parts: list[str]) -> None:
    assert sentences(text) == parts
    segments = split(text, lambda part: True)
    assert all(s.translate == has_letters(s.text) for s in segments)
    for target in ("en", "zh"):
        assert join(segments, [s.text for s in segments if s.translate], target) == text


@pytest.mark.parametrize(
    ("text", "outputs", "target", "joined"),
    [
        ('He said, "I see. I go." He left.', ["他说，", "明白。", "我走。", "他走了。"], "zh", '他说，"明白。我走。"他走了。'),
        ("He said, “I see. I go.” He left.", ["他说，", "明白。", "我走。", "他走了。"], "zh", "他说，“明白。我走。”他走了。"),
        ("她说：“累了。走吧。”她走了。", ["She said:", "Tired.", "Go.", "She went."], "en", "She said: “Tired. Go.” She went."),
        ("她说：「累了。走吧。」她走了。", ["She said:", "Tired.", "Go.", "She went."], "en", "She said: “Tired. Go.” She went."),
        ('他说"好。走吧。"她走了。', ["He said:", "Well.", "Go.", "She went."], "en", 'He said: "Well. Go." She went.'),
    ],
)  # fmt: skip
def test_speech_is_put_together_with_the_spaces_of_its_language(
    text: str, outputs: list[str], target: str, joined: str
) -> None:
    assert join(split(text, lambda part: True), outputs, target) == joined


@given(st.lists(st.sampled_from([*QUOTES, " ", "a", "你", ".", "。", ", ", "No! "]), max_size=20).map("".join))
def test_no_quotation_mark_is_lost_or_doubled(text: str) -> None:
    segments = split(text, lambda part: True)
    assert "".join(s.text for s in segments) == text
    outputs = ["X" if QUOTES.isdisjoint(s.text) else s.text for s in segments if s.translate]
    joined = join(segments, outputs, "zh")
    assert [char for char in joined if char in QUOTES] == [char for char in text if char in QUOTES]


def has_letters(text: str) -> bool:
    return any(unicodedata.category(char)[0] == "L" for char in text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hi 😊", [("Hi", True), (" ", False), ("😊", False)]),
        ("😆😆 Hi  👨‍👩‍👧", [("😆😆", False), (" ", False), ("Hi", True), ("  ", False), ("👨‍👩‍👧", False)]),
        ("I ❤️ you", [("I ❤️ you", True)]),
        ("🌷🌷 🌷", [("🌷🌷 🌷", False)]),
        ("😀 😀 Hi 😀 😀", [("😀 😀", False), (" ", False), ("Hi", True), (" ", False), ("😀 😀", False)]),
        ("很好😊", [("很好", True), ("😊", False)]),
    ],
)
def test_emoji_at_the_ends_of_a_sentence_are_copied(text: str, expected: list[tuple[str, bool]]) -> None:
    assert [(segment.text, segment.translate) for segment in split(text, lambda part: True)] == expected


def test_white_space_and_letterless_sentences_are_copied() -> None:
    text = "  Come here. \t 100%! \n\n 00:01 --> 00:02\n好。😀👍🏽！ "
    segments = split(text, lambda part: True)
    assert [s.text for s in segments if s.translate] == ["Come here.", "好。"]
    assert [s.text for s in segments if not s.translate] == [
        "  ", " \t ", "100%!", " \n\n ", "00:01 --> 00:02", "\n", "😀👍🏽！", " "
    ]  # fmt: skip
    assert split("", lambda part: True) == []
    assert split(" \u3000", lambda part: True) == [Segment(" \u3000", translate=False)]


def pieces(text: str, limit: int) -> list[str]:
    segments = split(text, lambda part: len(part) <= limit)
    assert was_split(segments)
    assert [s.hard for s in segments if s.translate] == [True] * (len([s for s in segments if s.translate]) - 1) + [
        False
    ]
    return [segment.text for segment in segments if segment.translate]


@pytest.mark.parametrize(
    ("limit", "text"),
    [
        (27, "When it rained, at 10:30, | we stayed; then we left"),
        (30, "we stayed there; | then we left, and slept"),
        (28, "we stayed, at 10:30, | and then we left and slept"),
        (23, "we all came home | and then we left"),
        (20, "we stayed in | because it rained"),
        (30, "Well, we went home to all of | them once more"),  # a mark that stands early is not taken
        (24, "Well, | extraordinarilylong word"),  # if there is a later place
        (14, "我们都知道，学语言要时间；|要耐心"),
        (12, "我们都知道它在这里|因为我们看见了它"),
        (10, "我们有笔、纸、|书和一张桌子"),
        (9, "one two |  three | four"),
        (14, "it costs | 1,000,000 in | all"),
        (4, "床前明月|光疑是地|上霜"),
        (5, "他说——|你好吗"),
        (6, "他们都来了|（昨天）没人"),  # no opening bracket is left behind
        (6, "“你好吗”他|们说了没"),
        (5, "你们都来|（昨天）|没有人"),
        (19, "请看一看|https://a.cn/b.html|吧"),
        (8, "圆周率大约是|3.14159这|么多"),
        (8, "他们都在|Nanjing大|学学习"),
        (7, "他们都在|Ｎａｎｊ１２大|学学习"),
        (10, "don’t you | isn’t it"),
    ],
)
def test_long_sentences_are_cut_where_it_does_least_harm(limit: int, text: str) -> None:
    whole = text.replace(" | ", " ").replace("|", "")
    assert pieces(whole, limit) == [part.strip() for part in text.split("|")]


TOKENS = [
    "https://a.example/b?c=d.e",
    "1,234.56",
    "me.you@mail.example",
    "word",
    "don’t",
    "é",
    "v1.2.3",
    "山",
    "水",
    "。",
    ",",
]


@settings(deadline=None)
@given(st.lists(st.sampled_from(TOKENS), min_size=1, max_size=40), st.booleans())
def test_no_address_number_or_word_is_cut(tokens: list[str], spaced: bool) -> None:
    """Where each of them fits."""
    text, inside = "", set()
    for token in tokens:
        if text and (spaced or (text[-1] not in "山水。" and token not in "山水。")):
            text += " "
        inside |= set(range(len(text) + 1, len(text) + len(token)))
        text += token
    end = 0
    for segment in split(text, lambda part: len(part) <= 30):
        end += len(segment.text)
        assert end not in inside or end == len(text)


def test_only_the_long_sentence_is_cut() -> None:
    segments = split("Short one. A much longer sentence here. Done.", lambda part: len(part) <= 20)
    assert [(s.text, s.hard) for s in segments if s.translate] == [
        ("Short one.", False), ("A much longer", True), ("sentence here.", False), ("Done.", False)
    ]  # fmt: skip
    assert not was_split(split("Short one. Done.", lambda part: len(part) <= 20))


@pytest.mark.parametrize("unit", ["e\u0301\u0323", "👨‍👩‍👧", "👍🏽", "🇨🇳", "❤️"])
def test_what_is_seen_as_one_is_not_cut(unit: str) -> None:
    text = "a" + unit * 10 + "b"
    for limit in range(len(unit) + 1, 4 * len(unit)):
        segments = split(text, lambda part, limit=limit: len(part) <= limit)  # type: ignore[misc]
        assert len(segments) > 2
        for segment in segments:
            assert segment.text.removeprefix("a").removesuffix("b").replace(unit, "") == ""


def test_what_has_no_letters_is_not_cut() -> None:
    assert split("12 34 56! Go.", lambda part: len(part) <= 4) == [
        Segment("12 34 56!", translate=False), Segment(" ", translate=False), Segment("Go.", translate=True)
    ]  # fmt: skip


@pytest.mark.parametrize(
    "unit",
    [
        "字",
        "x",
        "word and ",
        "https://a.example/",
        "🇨🇳",
        "a\u0301",
        "?!",
        "她说“啊！”然",
        "（啊！）",
        "A.",
        '好。"',
        "， ",
        " ",
    ],
)
def test_the_work_does_not_grow_with_the_square_of_the_text(unit: str) -> None:
    asked = 0

    def fits(part: str) -> bool:
        nonlocal asked
        asked += len(part)
        return len(part) <= 100

    text = "a " + unit * (20_000 // len(unit)) + " b"
    segments = split(text, fits)
    assert "".join(segment.text for segment in segments) == text
    assert asked < 40 * len(text)
    assert all(segment.text for segment in segments)
    assert all(40 <= len(s.text) <= 100 for s in segments[2:-4] if s.hard)


texts = st.text(
    st.sampled_from("aA1 .!?…,;:—\"'”“’)(\t\n\u3000。！？，；：」』）「你好Dr \u0301\u200d👍🏽🇨🇳é-")
    | st.characters(codec="utf-8"),
    max_size=80,
)


@settings(deadline=None)
@given(texts, st.integers(1, 30))
@example("a🇨🇳🇨🇳", 2)
@example("Dr. A. B. e.g. U.S. 5. 。\n", 3)
def test_nothing_is_lost_and_everything_fits(text: str, limit: int) -> None:
    segments = split(text, lambda part: len(part) <= limit)
    assert "".join(segment.text for segment in segments) == text
    for before, segment in zip([None, *segments], segments, strict=False):
        assert segment.text
        has_letters = any(unicodedata.category(char)[0] == "L" for char in segment.text)
        assert segment.translate == has_letters
        if segment.translate:
            assert len(segment.text) <= limit
            assert segment.text == segment.text.strip()
        assert not (before and before.text.isspace() and segment.text.isspace())
    if was_split(segments):
        assert any(len(part) > limit for part in sentences(text))


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("我爱北京", "zh"),
        ("好", "zh"),
        ("I love Beijing.", "en"),
        ("I love 北京", "en"),
        ("我喜欢用 Python 编程", "zh"),
        ("请看 https://www.a.example/b/c/d.html", "zh"),
        ("北京 is big", "en"),
        ("1954?", "en"),
        ("😀", "en"),
        ("", "en"),
        ("OK，没问题", "zh"),
        ("它叫T恤", "zh"),
        ("Привет", "en"),
        ("𠮷野家〇々", "zh"),
        ("OK", "en"),
        ("ＡＢＣ", "en"),
        ("我爱 NLP", "zh"),
        ("これはペンです", "en"),
        ("한국어", "en"),
    ],
)
def test_guess_language(text: str, language: str) -> None:
    assert guess_language(text) == language


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", None),
        ("1954?", None),
        ("😀 — 3 €", None),
        ("OK", "latin"),
        ("ＡＢＣ", "latin"),
        ("𝐛𝐨𝐥𝐝 ⓐ", "latin"),
        ("Café — São Tomé", "latin"),
        ("naïve “quotes”", "latin"),
        ("我爱 NLP", "han"),
        ("请看 https://www.a.example/b/c.html", "han"),
        ("北京人 is big", "han"),
        ("北京 is big", "latin"),
        ("北 is big", "latin"),
        ("𠮷野家々", "han"),
        ("鲜の味", "han"),
        ("他说“ありがとう”是谢谢", "han"),
        ("これはペンです。", "kana"),
        ("日本語を勉強しています", "kana"),
        ("東京で会議", "han"),
        ("ｶﾀｶﾅ", "kana"),
        ("コーヒー", "kana"),
        ("あ", "kana"),
        ("나는 NLP를 좋아해", "hangul"),
        ("Привет, мир", "cyrillic"),
        ("Привет, John Smith", "latin"),
        ("OK, привет", "latin"),
        ("Γειά σου", "greek"),
        ("مرحبا", "arabic"),
        ("שלום", "hebrew"),
        ("नमस्ते", "devanagari"),
        ("สวัสดี", "thai"),
        ("5 µm", "latin"),
    ],
)
def test_script(text: str, expected: str | None) -> None:
    assert script(text) == expected


@given(st.text(max_size=20))
def test_script_is_none_only_without_letters(text: str) -> None:
    assert (script(text) is None) == (not any(map(str.isalpha, text)))


@settings(deadline=None, max_examples=100)
@given(st.text(st.sampled_from("ab A.?!\n\t\r 河上。”😀é1\u3000\u2028\x1f"), max_size=40))
@example("Dr. Bell came. He left!\n 你好。再见")
def test_places_of_sentences(text: str) -> None:
    bounds = places_of_sentences(text)
    assert all(start < end for start, end in bounds)
    assert [place for pair in bounds for place in pair] == sorted(place for pair in bounds for place in pair)
    for start, end in bounds:
        assert text[start:end] == text[start:end].strip()
    kept = {k for start, end in bounds for k in range(start, end)}
    assert all(char.isspace() for k, char in enumerate(text) if k not in kept)
    if text.startswith("Dr."):
        assert [text[a:b] for a, b in bounds] == ["Dr. Bell came.", "He left!", "你好。", "再见"]


@pytest.mark.parametrize(
    "text",
    [
        "提出了一种新方法.|本文用它试验.",
        "效率提高了3.5%.|误差为0.12.|结果可靠.",
        "用GPU加速(见表2).|“很快”.|《桥》一书已出.",
        "分三步:1.选址;2.设计;3.施工.|然后通车.",
        "1.选址|2.设计".replace("|", " "),
        "请看报告.PDF和main.py文件.|网址是www.桥.example.",
        "这是旧的方法.|Chorin的方法更好.",
        "书名为e.g.桥.|它旧了.",
    ],
)
def test_full_stops_between_chinese_characters(text: str) -> None:
    assert found(text.replace("|", "")) == text.split("|")
    assert sentences(text.replace("|", "")) == text.split("|")


WRAPPED = """\
The old bridge over the river was built by two brothers who had
never seen the sea. It was e.g.
the first one of stone; the mayor, Mr.
Hill, was proud of it.
"""
LIST = """\
Things to bring
- a rope that is long enough for the two of us and for the dog
  as well
- two apples
* bread
1. a map
2) a lamp

# The way
It is long
| a | b |
"""
MANUAL = """\
NAME
       boat - crosses a river, with or without a bridge in sight

OPTIONS
       -a, --all
              Takes all who wait on the bank, and leaves nobody be‐
              hind. This is slow.
              -b is faster.
"""


def test_sentences_of_wrapped_lines() -> None:
    text = WRAPPED.replace(
        "e.g.\nthe first one of stone; the mayor, Mr.\n", "e.g. the first one of stone; the mayor, Mr.\n"
    )
    assert found(text) == [
        "The old bridge over the river was built by two brothers who had\nnever seen the sea.",
        "It was e.g. the first one of stone; the mayor, Mr.\nHill, was proud of it.",
    ]
    assert found(text.replace("\n", "\r\n"))[1].endswith("Mr.\r\nHill, was proud of it.")


def test_lines_that_are_not_wrapped_stay_apart() -> None:
    assert found("Fix the bridge\nAdd a boat\nupdate the map of the way to the river and the sea\nuse it") == [
        "Fix the bridge",
        "Add a boat",
        "update the map of the way to the river and the sea",
        "use it",
    ]
    assert found("Rain,\nwind\n\nand snow") == ["Rain,\nwind", "and snow"]
    for text in ("Rain,\n\nwind", "Rain,\n- wind", "Rain,\n   wind", "# Rain,\nwind", "| Rain,\nwind"):
        assert found(text) == [line.strip() for line in text.split("\n") if line]
    narrow = "The old bridge over the river was built\nby two brothers who had never seen the\nsea"
    assert found(narrow) == narrow.split("\n")


def test_headings_and_items_are_sentences_by_themselves() -> None:
    assert found(LIST) == [
        "Things to bring",
        "- a rope that is long enough for the two of us and for the dog\n  as well",
        "- two apples",
        "* bread",
        "1. a map",
        "2) a lamp",
        "# The way",
        "It is long",
        "| a | b |",
    ]
    assert found(MANUAL) == [
        "NAME",
        "boat - crosses a river, with or without a bridge in sight",
        "OPTIONS",
        "-a, --all",
        "Takes all who wait on the bank, and leaves nobody be‐\n              hind.",
        "This is slow.",
        "-b is faster.",
    ]


def test_the_paragraphs_of_a_large_text_are_found_in_time() -> None:
    text = WRAPPED * 2000
    assert len(found(text)) > 2000
