"""Sentences found, long ones cut, and everything put back in its place."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tx.model.segment import Segment, guess_language, join, split, was_split
from tx.model.segment import sentences as places_of_sentences


def sentences(text: str) -> list[str]:
    return [segment.text for segment in split(text, lambda part: True) if not segment.text.isspace()]


@pytest.mark.parametrize(
    "text",
    [
        "It rains. | We stay.",
        "Who is it? | It is I! | Come in… | Thanks.",
        'He said: "Go." | "Where?" she asked. | (He left.) | Nobody knew.',
        "“Wait!” | She ran.",
        "Mr. Hill met Mrs. Low and Dr. Ames at St. Mary. | They ate.",
        "Fruit, e.g. Apples, i.e. Food. | Good.",
        "Room No. 5 is on p. 12, see Fig. 3. | No. | It is not.",
        "J. K. Rowling wrote it. | I. M. Pei built it. | George W. Bush did not.",
        "So am I. | He knows.",
        "She left the U.S. in May. | He works for the U.S. Senate. | They moved to the U.K. | The end.",
        "At 5 p.m. Monday we met. | We left at 9 p.m. | It was late.",
        "Smith Inc. Berlin sells. | He owns Smith Inc. | He is rich.",
        "It was 1954. | He was 3.5 feet tall. | It cost $2.99! | OK.",
        "On Jan. 5 it snowed. | Then it thawed.",
        "Well... maybe. | Hm… perhaps. | Hm... | What?",
        "Look at https://a.example/x.y?z=1. | Or write to me.you@mail.example. | Or open main.py now.",
        "1. Wash it. | 2. Dry it.",
        "Is it 1954?! | Yes.",
        "“Really?” he asked. | Yahoo! is a name.",
        "It costs 5. | 😀 | Fine.",
        "I like Vitamin C. | It is good.",
    ],
)
def test_english_sentences(text: str) -> None:
    assert sentences(text.replace(" | ", " ")) == text.split(" | ")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hi 😊", [("Hi", True), (" ", False), ("😊", False)]),
        ("😆😆 Hi  👨‍👩‍👧", [("😆😆", False), (" ", False), ("Hi", True), ("  ", False), ("👨‍👩‍👧", False)]),
        ("I ❤️ you", [("I ❤️ you", True)]),
        ("🌷🌷 🌷", [("🌷🌷 🌷", False)]),
        ("很好😊", [("很好", True), ("😊", False)]),
    ],
)
def test_emoji_at_the_ends_of_a_sentence_are_copied(text: str, expected: list[tuple[str, bool]]) -> None:
    assert [(segment.text, segment.translate) for segment in split(text, lambda part: True)] == expected


@pytest.mark.parametrize(
    "text",
    [
        "下雨了。|我们不出门！|为什么？|因为冷。",
        "“你好！”|他说。|「再见。」|她走了（真的。）|没人知道。",
        "“你好！”，他说。|『是。』|好。",
        "他走了；她没走。|我……我不知道。|圆周率是3.14。",
        "真的？！|当然！！|好",
        "你好!|你是谁?|我是小王。",
        "我用Node.js写程序。|他说OK。|They agreed。",
    ],
)
def test_chinese_sentences(text: str) -> None:
    assert sentences(text.replace("|", "")) == text.split("|")
    assert sentences(text.replace("|", " ")) == text.split("|")


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
    return [segment.text for segment in segments if segment.translate]


def test_long_sentences_are_cut_at_clauses_then_spaces_then_characters() -> None:
    assert pieces("When it rained, at 10:30, we stayed; then we left", 27) == [
        "When it rained, at 10:30,", "we stayed; then we left"
    ]  # fmt: skip
    assert pieces("我们都知道，学语言要时间；要耐心", 14) == ["我们都知道，学语言要时间；", "要耐心"]
    assert pieces("one two  three four", 9) == ["one two", "three", "four"]
    assert pieces("it costs 1,000,000 in all", 14) == ["it costs", "1,000,000 in", "all"]
    assert pieces("床前明月光疑是地上霜", 4) == ["床前明月", "光疑是地", "上霜"]
    assert pieces("他说——你好吗", 5) == ["他说——", "你好吗"]


def test_only_the_long_sentence_is_cut() -> None:
    segments = split("Short one. A much longer sentence here. Done.", lambda part: len(part) <= 20)
    assert [(s.text, s.hard) for s in segments if s.translate] == [
        ("Short one.", False), ("A much longer", True), ("sentence here.", False), ("Done.", False)
    ]  # fmt: skip
    assert not was_split(split("Short one. Done.", lambda part: len(part) <= 20))


@pytest.mark.parametrize("unit", ["e\u0301\u0323", "👨‍👩‍👧", "👍🏽", "🇨🇳", "❤️"])
def test_what_is_seen_as_one_is_not_cut(unit: str) -> None:
    text = "a" + unit * 10
    for limit in range(len(unit) + 1, 4 * len(unit)):
        segments = split(text, lambda part, limit=limit: len(part) <= limit)  # type: ignore[misc]
        for segment in segments:
            assert segment.text.removeprefix("a").replace(unit, "") == ""


def test_the_work_does_not_grow_with_the_square_of_the_text() -> None:
    asked = 0

    def fits(part: str) -> bool:
        nonlocal asked
        asked += len(part)
        return len(part) <= 100

    text = "字" * 20_000
    assert len(split(text, fits)) == 200
    assert asked < 40 * len(text)


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


@settings(deadline=None)
@given(texts, st.integers(1, 30))
def test_join_undoes_split_for_the_same_script(text: str, limit: int) -> None:
    """Only spaces may differ when each segment's output is the segment itself."""
    segments = split(text, lambda part: len(part) <= limit)
    outputs = [segment.text for segment in segments if segment.translate]
    for target in ("en", "zh"):
        joined = join(segments, outputs, target)
        without = ["".join(c for c in t if unicodedata.category(c) != "Zs") for t in (text, joined)]
        assert without[0] == without[1]
        lead, tail = text[: len(text) - len(text.lstrip())], text[len(text.rstrip()) :]
        assert joined.startswith(lead) and joined.endswith(tail)
    assert len(join(segments, outputs, "zh")) <= len(text)
    assert len(join(segments, outputs, "en")) >= len(text)


def joined(text: str, outputs: list[str], target: str, limit: int = 1000) -> str:
    return join(split(text, lambda part: len(part) <= limit), outputs, target)


def test_join_to_chinese() -> None:
    assert (
        joined(" Hello. How are you?  I am fine.\n", ["你好。", "你好吗？", "“我很好。”"], "zh")
        == " 你好。你好吗？“我很好。”\n"
    )
    assert joined("Hello. OK. Bye.", ["你好。", "OK.", "再见。"], "zh") == "你好。 OK. 再见。"
    assert joined("Hello. 5! Bye.", ["你好。", "再见。"], "zh") == "你好。 5! 再见。"
    assert joined("One.\nTwo.\tThree.", ["一。", "二。", "三。"], "zh") == "一。\n二。\t三。"


def test_join_to_english() -> None:
    assert (
        joined("你好。你是谁？ 我很好。", ["Hello.", "Who are you?", "I am fine."], "en")
        == "Hello. Who are you? I am fine."
    )
    assert joined("\u3000你好。\n再见。", ["Hello.", "Goodbye."], "en") == "\u3000Hello.\nGoodbye."
    assert joined("好。5！好。", ["Good.", "Good."], "en") == "Good. 5！ Good."
    assert joined("我们都知道，学语言要时间", ["As we know,", "it takes time"], "en", 8) == "As we know, it takes time"
    assert joined("abcdefgh", ["abcd", "efgh"], "en", 4) == "abcdefgh"  # one word of the source, cut by force
    assert joined("好。好。", ["", "Good."], "en") == "Good."


def test_join_wants_an_output_for_each_segment() -> None:
    with pytest.raises(ValueError, match="1 outputs for 2 segments"):
        joined("One. Two.", ["一。"], "zh")


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
    ],
)
def test_guess_language(text: str, language: str) -> None:
    assert guess_language(text) == language


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


def found(text: str) -> list[str]:
    return [text[a:b] for a, b in places_of_sentences(text)]


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
    whole = text.replace("|", "")
    assert sentences(whole) == [whole] or ". " in whole  # to be translated, they stay together


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
