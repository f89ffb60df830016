"""Layout: sentences put back in their place to the byte, and the lines of a wrapped text made paragraphs."""

from __future__ import annotations

import itertools
import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tx.model.paragraphs import LONGEST, Unwrapper, paragraphs
from tx.model.segment import join, split


def joined(text: str, outputs: list[str], target: str, limit: int = 1000) -> str:
    return join(split(text, lambda part: len(part) <= limit), outputs, target)


def unchanged(text: str, target: str, limit: int = 1000) -> str:
    segments = split(text, lambda part: len(part) <= limit)
    return join(segments, [segment.text for segment in segments if segment.translate], target)


texts = st.text(
    st.sampled_from(
        "aA1 .!?…,;:—\"'”“’)(\t\n\r\v\x1c\x85\u2028\u00a0\u3000\ufeff。！？，；：」』）「你好Dr \u0301\u200d👍🏽🇨🇳é-あ한"
    )
    | st.characters(codec="utf-8"),
    max_size=80,
)


@settings(deadline=None)
@given(texts, st.integers(1, 30), st.sampled_from(["en", "zh"]))
@example("你好。 你好。\u3000再见。", 30, "zh")  # spaces that a Chinese text has
@example("你好。你是谁？很好😊好。Hello。你好", 30, "en")  # no spaces where it has none
@example("\ufeff Hello.\u00a0How are you?  \r\n\r\n\t你好。\u3000\r", 30, "zh")
@example("我用Node.js。They agreed。然后！OK", 4, "en")
def test_segments_that_stay_as_they_are_give_the_text(text: str, limit: int, target: str) -> None:
    """Of any text, in whatever languages, to the byte."""
    assert unchanged(text, target, limit) == text


@settings(deadline=None)
@given(
    st.lists(
        st.sampled_from(["I am.", "5!", "好。", "是吗？", " ", "  ", "\u00a0", "\u3000", "\n", "\r\n", "\t", "\n\n"])
    )
)
def test_what_stands_around_the_sentences_of_a_line_stays(parts: list[str]) -> None:
    """Line ends, tabs, indentation and spaces at the ends, whatever the outputs are."""
    text = "".join(parts)
    segments = split(text, lambda part: True)
    for target, output in (("zh", "好。"), ("en", "Good.")):
        result = join(segments, [output for segment in segments if segment.translate], target)
        kept = [" ".join(c for c in t if c in "\r\n\t") for t in (text, result)]
        assert kept[0] == kept[1]
        assert len(result) - len(result.lstrip()) == len(text) - len(text.lstrip())
        assert len(result) - len(result.rstrip()) == len(text) - len(text.rstrip())
        for before, after in zip(text.split("\n"), result.split("\n"), strict=True):
            assert after[: len(after) - len(after.lstrip())] == before[: len(before) - len(before.lstrip())]
            assert after[len(after.rstrip()) :] == before[len(before.rstrip()) :]


def test_join_to_chinese() -> None:
    assert (
        joined(" Hello. How are you?  I am fine.\n", ["你好。", "你好吗？", "“我很好。”"], "zh")
        == " 你好。你好吗？“我很好。”\n"
    )
    assert joined("Hello. OK. Bye.", ["你好。", "OK.", "再见。"], "zh") == "你好。 OK. 再见。"
    assert joined("Hello. 5! Bye.", ["你好。", "再见。"], "zh") == "你好。 5! 再见。"
    assert joined("One.\nTwo.\tThree.", ["一。", "二。", "三。"], "zh") == "一。\n二。\t三。"
    assert joined("One.\u00a0Two.", ["一。", "二。"], "zh") == "一。二。"
    assert joined("Hello. 你好。 再见。", ["你好。", "你好。", "再见。"], "zh") == "你好。你好。 再见。"


def test_join_to_english() -> None:
    assert (
        joined("你好。你是谁？ 我很好。", ["Hello.", "Who are you?", "I am fine."], "en")
        == "Hello. Who are you? I am fine."
    )
    assert joined("\u3000你好。\n再见。", ["Hello.", "Goodbye."], "en") == "\u3000Hello.\nGoodbye."
    assert joined("好。5！好。", ["Good.", "Good."], "en") == "Good. 5！ Good."
    assert joined("很好😊", ["Good"], "en") == "Good 😊"
    assert joined("我们都知道，学语言要时间", ["As we know,", "it takes time"], "en", 8) == "As we know, it takes time"
    assert joined("abcdefgh", ["abcd", "efgh"], "en", 4) == "abcdefgh"  # one word of the source, cut by force
    assert joined("好。好。", ["", "Good."], "en") == "Good."
    assert joined("好。好。好。", ["好。", "好。", "Good."], "en") == "好。好。 Good."


def test_join_wants_an_output_for_each_segment() -> None:
    with pytest.raises(ValueError, match="1 outputs for 2 segments"):
        joined("One. Two.", ["一。"], "zh")


# Paragraphs: what becomes of the lines, the lines of a paragraph beside what they become.
ENGLISH = """\
The old bridge over the river was built
by two brothers who had never seen the
sea.  It is of stone, and the mayor is
proud of it."""


def lines_of(text: str) -> list[str]:
    return [line for line, _ in paragraphs(text.split("\n"))]


def test_wrapped_lines_become_one() -> None:
    one = " ".join(ENGLISH.split("\n"))
    assert list(paragraphs(ENGLISH.split("\n"))) == [(one, 4)]
    assert list(paragraphs(["", "  ", *ENGLISH.split("\n"), "", *ENGLISH.split("\n")])) == [
        ("", 1), ("  ", 1), (one, 4), ("", 1), (one, 4)
    ]  # fmt: skip
    assert lines_of(ENGLISH.replace("\n", " \n")) == [one]
    for mark in ("> ", ">> ", "# ", "// ", "   ", "-- ", "> # "):
        quoted = "\n".join(mark + line for line in ENGLISH.split("\n"))
        assert lines_of(quoted) == [mark + one]
    assert lines_of("    " + ENGLISH) == ["    " + one]  # a first line that is indented


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("我们明天早上要去河边看那座旧桥，因为它\n是两兄弟用石头建成的。", "我们明天早上要去河边看那座旧桥，因为它是两兄弟用石头建成的。"),
        ("　　我们明天早上要去河边看那座旧桥在\n那里等着。", "　　我们明天早上要去河边看那座旧桥在那里等着。"),
        ("我们明天早上要去河边看那座旧桥，他们用\nPython 写程序。", "我们明天早上要去河边看那座旧桥，他们用 Python 写程序。"),
        ("我们明天早上要去河边看那座旧桥、Python，\nGo 和他们。", "我们明天早上要去河边看那座旧桥、Python，Go 和他们。"),
        ("我们明天早上要去河边看那座旧桥，他说：\n“好的，我也去。”", "我们明天早上要去河边看那座旧桥，他说：“好的，我也去。”"),
        ("我们明天早上要去河边，他问“你去吗？”\n“去。”她说。", "我们明天早上要去河边，他问“你去吗？”“去。”她说。"),
        ("He asked all of them “Will you come?”\n“No,” they said.", "He asked all of them “Will you come?” “No,” they said."),
        ("我们明天早上要去河边看那座旧桥，他说“OK”\n他去。", "我们明天早上要去河边看那座旧桥，他说“OK”他去。"),
        ("我们明天早上要去河边看那座旧桥，他OK了\n“好。”", "我们明天早上要去河边看那座旧桥，他OK了“好。”"),
        ("He saw all of us there, and then he went—\nagain.", "He saw all of us there, and then he went—again."),
        ("He saw all of us there, and he went —\nagain.", "He saw all of us there, and he went — again."),
        ("그는 학교에 갔다 그리고 나서 집으로\n돌아왔다", "그는 학교에 갔다 그리고 나서 집으로 돌아왔다"),
        ("Short,\nbut with a comma.", "Short, but with a comma."),
        ("All people are born free and equal to us\nand good.", "All people are born free and equal to us and good."),
        ("Free they are\nand good.", "Free they are and good."),
        ("- a rope that is long enough for the two\n  of us and the dog", "- a rope that is long enough for the two of us and the dog"),
        ("1. a rope that is long enough for the two\nof us and the dog", "1. a rope that is long enough for the two of us and the dog"),
        ("read it on https://a.example/of/the/river/and/the/sea/\nor in the book about the old river and us", "read it on https://a.example/of/the/river/and/the/sea/ or in the book about the old river and us"),
    ],
)  # fmt: skip
def test_how_lines_are_joined(text: str, expected: str) -> None:
    assert lines_of(text) == [expected]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("an exam-\nple", "an example"),
        ("an exam\u2010\nple", "an example"),
        ("an exam\u00ad\nple", "an example"),
        ("a well-\nknown man", "a well-known man"),
        ("a self-\ncontained one", "a self-contained one"),
        ("a sugar-\nfree drink", "a sugar-free drink"),
        ("state-of-\nthe-art", "state-of-the-art"),
        ("Anglo-\nSaxon", "Anglo-Saxon"),
        ("in 1990-\n1995 there", "in 1990-1995 there"),
        ("a cat-\nlover, a cat-lover", "a cat-lover, a cat-lover"),
        ("a cat-\nlover", "a catlover"),  # the price of it
    ],
)
def test_hyphens_at_the_end_of_a_line(text: str, expected: str) -> None:
    assert lines_of(text) == [expected]


@pytest.mark.parametrize(
    "text",
    [
        "Introduction\nThis is the text that goes on for a long while",
        "This is the heading of the whole text\n=====================================",
        "## This is the heading of the whole text\n## and this is another one of the same",
        "- a rope that is long enough for the two\n- another one that is as long as it is",
        "1. a rope that is long enough for the two\n2. another one that is as long as it is",
        "（1）我们明天早上要去河边看那座旧桥在那里\n（2）我们明天早上要去河边看那座旧桥在那里",
        "一、我们明天早上要去河边看那座旧桥在那里等\n二、我们明天早上要去河边看那座旧桥在那里等",
        "| a long cell of a table | another one |\n|------------------------|-------------|",
        "name of the boat      its length in feet\nthe red one by us     twelve and one more",
        "Name: the daughter of the man by the river\nDate: the day after the one that we all met",
        "    total = the_sum_of(all, the, numbers)\n    total = the_sum_of(all, the, numbers)",
        "> a rope that is long enough for the two of\nus, he wrote, and all of the others as well",
        "> a rope that is long enough for the two of\n>> us, he wrote, and all the others as well",
        "The rope is long enough for all the two of\n    us, he wrote, and all the others as well",
        "The rope is long enough for the two of us  \nand the dog, he wrote, and so did others",
        "```\nThe rope is long enough for the two of\nus, he wrote, and so did others\n~~~\n```",
        "Fix the bridge\nAdd a boat",
        "Free they are.\nand good.",
        "The rope is long enough for the two of us.\nIt is.\nSo all the others were very fine with that",
        "<p>The rope is long enough for the two of us\n<b>and the dog, he wrote, and so did others",
        "$ git log of the branch with all the options\n$ git log of the branch with all the options",
        "The rope is long enough for the two of us\n\nand the dog, he wrote, and so did the others",
        "for the rope in the list of all the ropes:\nreturn the rope that is long enough for us",
    ],
)
def test_lines_that_stay_apart(text: str) -> None:
    lines = text.split("\n")
    if lines[1] == "It is.":  # the line before it is full
        assert list(paragraphs(lines)) == [(f"{lines[0]} {lines[1]}", 2), (lines[2], 1)]
    else:
        assert list(paragraphs(lines)) == [(line, 1) for line in lines]


def test_what_follows_a_block_of_code_is_joined_again() -> None:
    text = f"```\n{ENGLISH}\n```\n{ENGLISH}"
    assert [n for _, n in paragraphs(text.split("\n"))] == [1] * 6 + [4]


def test_a_paragraph_comes_when_the_line_after_it_is_read() -> None:
    read = 0

    def lines() -> itertools.chain[str]:
        def counted(line: str) -> str:
            nonlocal read
            read += 1
            return line

        return itertools.chain(
            map(counted, [*ENGLISH.split("\n"), "", "and so on"]), map(counted, itertools.repeat(""))
        )

    found = paragraphs(lines())
    assert next(found)[1] == 4 and read == 5
    assert next(found) == ("", 1) and read == 5
    assert next(found) == ("and so on", 1) and read == 7


def test_a_paragraph_without_end_is_given_in_parts() -> None:
    endless = itertools.cycle(["the old bridge over the river was built", "by two brothers who had never seen that."])
    n_lines = 0
    for text, n in itertools.islice(paragraphs(endless), 20):
        n_lines += n
        assert LONGEST / 2 < len(text) <= 1.1 * LONGEST
        assert text.endswith(".")
    unmarked = itertools.repeat("the rope is long enough for us and for the")
    assert all(len(text) <= 1.1 * LONGEST and n > 400 for text, n in itertools.islice(paragraphs(unmarked), 5))


def test_nothing_is_held_after_finish() -> None:
    unwrapper = Unwrapper()
    assert unwrapper.push("The rope is long enough for the two of us") == []
    assert unwrapper.finish() == [("The rope is long enough for the two of us", 1)]
    assert unwrapper.finish() == []


some_lines = st.lists(
    st.one_of(
        st.sampled_from(
            [*ENGLISH.split("\n"), "", " ", "```", "> a quotation of some forty characters or so", "| a |", "  x", "a-", "ple",
             "我们明天早上要去河边看那座旧桥，因为它", "是两兄弟。", "- item", "# all of it that there is to be said here", "“", "-", "—"]
        ),
        st.text(st.characters(codec="utf-8", exclude_characters="\n"), max_size=40),
    ),
    max_size=30,
)  # fmt: skip


@settings(deadline=None)
@given(some_lines)
def test_no_line_is_lost(lines: list[str]) -> None:
    at = 0
    for text, n in paragraphs(lines):
        part = lines[at : at + n]
        assert n >= 1
        if n == 1:
            assert text == part[0]
        assert letters(text) == letters("".join(part))
        assert text[: len(text) - len(text.lstrip())] == part[0][: len(part[0]) - len(part[0].lstrip())]
        assert text[len(text.rstrip()) :] == part[-1][len(part[-1].rstrip()) :]
        at += n
    assert at == len(lines)


def letters(text: str) -> list[str]:
    return [char for char in text if unicodedata.category(char)[0] in "LN"]
