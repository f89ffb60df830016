"""Markdown: units, marks, and translations that would mean something else in their place."""

from __future__ import annotations

import pytest

from tx.model.formats import parse


@pytest.mark.parametrize(
    ("text", "texts"),
    [
        ("# One ##\n\nTwo\n===\n\nThree\n---\n", ["One", "Two", "Three"]),
        ("a line\nwrapped\n  here\n", ["a line wrapped here"]),
        ("中文\n文字", ["中文文字"]),
        ("- [ ] one\n- **two**\n  more\n  1. three\n", ["one", "**two** more", "three"]),
        ("> one\n> > two\nlazy\n", ["one", "two lazy"]),
        ("---\ntitle: x y\n---\ntext\n\n---\n", ["text"]),
        ("```\nno\n```\n\n    no\n\n~~~\nno\n~~~\n", []),
        ("see `code` and [text](url 'A title') here", ["see `code` and [text](url 'A title') here"]),
        ("| a | b \\| c |\n|---|---|\n| `x` | **d** e |\n|  | f |", ["a", "b | c", "**d** e", "f"]),
        ("![a dog](d.png) and [![x y](b)](u)", ["a dog", "and", "x y"]),
        ("![a dog](d.png)", ["a dog"]),
        ("==All of it==\n\n~~Gone~~\n\n`==x==`\n", ["All of it", "Gone"]),
        ("one  \ntwo\\\nthree<br>four", ["one", "two", "three", "four"]),
        ("[foo] is [bar][] by [x y][foo]\n\n[foo]: /f\n[bar]: /b\n", ["[foo][foo] is [bar][bar] by [x y][foo]"]),
        ("- [foo]\n\n[foo]: /f\n", ["foo"]),
        ("text[^1]\n\n[^1]: note one\n[^2]: note two\n[u]: http://u\n", ["text", "note one", "note two"]),
        ("snake\\_case \\* x &copy; &lt;", ["snake_case * x © &lt;"]),
        ('<div align="center">\n<h1>Title</h1>\n<img alt="logo">\n</div>\n', ["Title", "logo"]),
        ("a <b>bold</b> and <code>k v</code> <!-- c --> end", ["a <b>bold</b> and <code>k v</code> <!-- c --> end"]),
        ("# Title {#anchor}\n\n::: note\nInside\n:::\n", ["Title", "Inside"]),
        ("cost $5 and $x + y$ here", ["cost $5 and $x + y$ here"]),
        ("> | a | b |\n> |---|---|\n> | c | d |\n", ["a", "b", "c", "d"]),
        ("<http://a.example>\n\n`code`\n\n123\n", []),
    ],
)
def test_units(text: str, texts: list[str]) -> None:
    for variant in (text, text.replace("\n", "\r\n")):
        document = parse("markdown", variant)
        assert (document.texts, document.problems) == (texts, [])


@pytest.mark.parametrize(
    ("text", "marks"),
    [
        ("a **b** *c* ***d*** ~~e~~ __f__", ["**", "**", "*", "*", "***", "***", "~~", "~~", "__", "__"]),
        ("a ~~~b~~~ c", ["~~", "~~"]),
        ("a ==b c== d ==e=f== g", ["==", "==", "==", "=="]),
        ("这是==重点==内容", ["==", "=="]),
        ("a ==b [c](u) d== e", ["==", "[", "](u)", "=="]),
        ("a==b and c==d, x == y == z, ===e===, == f ==", []),
        ("a [**b**](u) c", ["[**", "**](u)"]),
        ("a ``x ` y`` <http://u> [^1] &amp; b", ["``x ` y``", "<http://u>", "[^1]", "&amp;"]),
        ("a $x + y$ {{ z }} b", ["$x + y$", "{{ z }}"]),
        ("2 * 3 * 4 a_b_c [y] `", []),
    ],
)
def test_marks_are_protected(text: str, marks: list[str]) -> None:
    document = parse("markdown", text)
    [unit], [spans] = document.texts, document.protected
    assert [unit[start:end] for start, end in spans] == marks


@pytest.mark.parametrize(
    ("text", "output", "filled"),
    [
        (
            "Some **bold.** Text",
            "**粗。**文字",
            "**粗。** 文字",
        ),  # `**` after a full stop and before a letter ends nothing
        ("a\nb _c_ d", "甲_乙_丙", "甲 _乙_ 丙"),
        ("a ==b== ~~c~~", "==乙== 甲 ~~丙~~", "==乙== 甲 ~~丙~~"),
        ("see [a b](u) and *c*", "看[ 甲](u)和* 丙*", "看[甲](u)和*丙*"),
        ("the [a](u ) b", "[the ](u )b", "[the](u ) b"),
        ("Text", "1. Text", "1\\. Text"),
        ("Text", "- Text", "\\- Text"),
        ("Text", "# Text", "\\# Text"),
        ("# Head", "- Head", "# - Head"),
        ("| a |\n|---|\n| b |\n", None, "| x \\| y |\n|---|\n| x \\| y |\n"),
        ("snake\\_case", "snake_case 下", "snake\\_case 下"),
        ("a \\*b\\* c", "甲 *乙* 丙", "甲 \\*乙\\* 丙"),
        ("**a ** *b*", "**甲 ** *乙*", "**甲 ** *乙*"),
        ("| a \\| b ![dog](d) |\n|---|\n", None, "| x \\| y ![x \\| y](d) |\n|---|\n"),
        ("See [foo].\n\n[foo]: /f\n", "看[富][foo]。", "看[富][foo]。\n\n[foo]: /f\n"),
        ("- [foo]\n\n[foo]: /f\n", "富", "- [富][foo]\n\n[foo]: /f\n"),
        ("> one\n> two\n\nend\n", None, "> x | y\n\nx | y\n"),
        ("A ![dog](d) b", None, "A ![x | y](d) b"),
    ],
)
def test_a_translation_means_the_same_in_its_place(text: str, output: str | None, filled: str) -> None:
    document = parse("markdown", text)
    outputs = (
        [output]
        if output
        else ["x | y" if not spans else unit for unit, spans in zip(document.texts, document.protected, strict=True)]
    )
    assert (document.fill(outputs), document.problems) == (filled, [])


@pytest.mark.parametrize(
    ("output", "filled", "problem"),
    [
        ("粗 [l](u)", "粗 [l](u)", "left out: ** **"),
        ("**粗 [l](u)", "粗 [l](u)", "left out: ** **"),
        ("**粗** l", "**粗** l", "left out: [ ](u)"),
        ("**** 粗 [l](u)", "粗 [l](u)", "left out: ** **"),
        ("** 粗 ** [l](u)", "**粗** [l](u)", ""),
        ("**粗** [l](u) <b>x", "a **b** [l](u) c", "does not fit"),
    ],
)
def test_marks_that_were_lost_do_not_break_the_document(output: str, filled: str, problem: str) -> None:
    document = parse("markdown", "a **b** [l](u) c")
    assert document.fill([output]) == filled
    assert problem in "".join(document.problems)
    assert bool(problem) == bool(document.problems)


def test_a_paragraph_that_would_become_a_block_of_html_stays() -> None:
    document = parse("markdown", "Some text\n")
    assert document.fill(["<div>text"]) == "Some text\n"
    assert document.problems == ["line 1: the translation does not fit the markup around it; left as it is"]
