"""Marks of running text in a translation: kept, mended, or left out, and said."""

from __future__ import annotations

import pytest

from tx.model.formats import parse


def fill(name: str, text: str, *outputs: str) -> tuple[str, list[str]]:
    document = parse(name, text)
    return document.fill(outputs), document.problems


PAGE = '<p>See <b>the <i>old</i> bridge</b> and <a href="u">the river</a>.</p>'


@pytest.mark.parametrize(
    ("output", "filled", "problem"),
    [
        ('看<b><i>旧</i>桥</b>和<a href="u">河</a>。', '<p>看<b><i>旧</i>桥</b>和<a href="u">河</a>。</p>', ""),
        ('<a href="u">河</a>和<b>旧<i>桥</i></b>。', '<p><a href="u">河</a>和<b>旧<i>桥</i></b>。</p>', ""),
        ("看<b><i>旧</i>桥</b>和河。", "<p>看<b><i>旧</i>桥</b>和河。</p>", 'left out: <a href="u"> </a>'),
        ('看<b>旧</i>桥</b>和<a href="u">河</a>。', '<p>看<b>旧桥</b>和<a href="u">河</a>。</p>', "left out: <i> </i>"),
        (
            '看<b><i>旧</b>桥</i>和<a href="u">河</a>。',
            '<p>看<b>旧</b>桥和<a href="u">河</a>。</p>',
            "left out: <i> </i>",
        ),
        (
            '<b>看</b><b><i>旧</i>桥</b>和<a href="u">河</a>。',
            '<p><b>看</b><i>旧</i>桥和<a href="u">河</a>。</p>',
            "had marks twice",
        ),
        ("   ", PAGE, "empty"),
    ],
)
def test_marks_that_a_translation_moved_lost_or_doubled(output: str, filled: str, problem: str) -> None:
    text, problems = fill("html", PAGE, output)
    assert (text, len(problems)) == (filled, bool(problem))
    assert not problem or (problem in problems[0] and problems[0].startswith("line 1: "))


@pytest.mark.parametrize(
    ("name", "text"),
    [("html", "<p>Two\r\n  lines &mdash; here</p>"), ("markdown", "> two\n  > wrapped\\_  lines\n\n[a]\n\n[a]: /b\n")],
)
def test_what_comes_back_as_it_was_keeps_its_bytes(name: str, text: str) -> None:
    assert fill(name, text, *parse(name, text).texts) == (text, [])


def test_problems_are_those_of_the_last_filling() -> None:
    document = parse("html", PAGE)
    document.fill(["河"])
    assert document.problems
    document.fill(document.texts)
    assert not document.problems


def test_what_stands_alone_is_never_lost() -> None:
    text, problems = fill("html", "<p>Press <kbd>Ctrl</kbd> and <code>x</code> now</p>", "按<code>x</code>")
    assert text == "<p>按<code>x</code> <kbd>Ctrl</kbd></p>"
    assert problems == ["line 1: the translation lost the place of <kbd>Ctrl</kbd>; put at the end"]


def test_of_many_marks_that_are_gone_some_are_named() -> None:
    text, problems = fill("html", "<p>One" + " <b>two</b> three" * 20, "一")
    assert text == "<p>一"
    assert problems == [f"line 1: the translation broke the markup; left out: {'<b> ' * 8}and 32 more"]


def test_spaces_at_the_ends_of_marks_go_out_of_them_or_away() -> None:
    page = "<p>See <b>the bridge</b> and <i>it</i> now"
    assert fill("html", page, "看<b> 桥 </b>和<i>它</i>") == ("<p>看<b>桥</b>和<i>它</i>", [])
    assert fill("html", page, "Voir<b> le pont </b>et<i> lui</i>.") == (
        "<p>Voir <b>le pont</b> et <i>lui</i>.",
        [],
    )
    assert fill("html", "<p>See <b> a</b> b", "看<b> 一</b>二") == ("<p>看<b> 一</b>二", [])


def test_marks_that_look_alike_are_told_apart_by_their_order() -> None:
    assert fill("markdown", "Some **bold** and ***more*** 2 * 3 words", "**粗** 和 ***更多*** 2 * 3 词") == (
        "**粗** 和 ***更多*** 2 * 3 词",
        [],
    )


def test_another_number_of_outputs_is_refused() -> None:
    with pytest.raises(ValueError, match="0 outputs for 1 units"):
        parse("html", PAGE).fill([])
    with pytest.raises(ValueError, match="2 outputs for 1 units"):
        parse("srt", "1\n00:00:01,000 --> 00:00:02,000\nHello.\n").fill(["a", "b"])
