"""What is shown of a label, and how many columns of a terminal it takes, by two tables that know nothing of each other."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from wcwidth import wcswidth

from tx.cli.cells import cells, flow, label, pad, shorten, stairs

FAMILY, FLAG, KEYCAP, HEART = "👨‍👩‍👧", "🇨🇳", "1\ufe0f\u20e3", "❤\ufe0f"
AWKWARD = [FAMILY, FLAG, KEYCAP, HEART, "👍🏽", "🏴\U000e0067\U000e0062\U000e007f", "e\u0301", "\u0301", "각", "👩‍💻"]
AWKWARD += ["\u200d", "\ufe0f", "\u202e", "\u2066", "\x1b[31m", "\n", "\t", "\r", "\x00", "\x9b", "\ufeff", "\u3000"]
AWKWARD += ["\u0300" * 30, "🇨", "🏽", "\u2028", "\u00ad", "…", "“", "\ud800", ""]
parts = st.one_of(st.sampled_from(AWKWARD), st.text("中国的我们，。ｆ", max_size=4), st.text("abc xyzé-'", max_size=12))
labels = st.lists(parts, max_size=5).map("".join)


@pytest.mark.parametrize(
    ("text", "shown", "width"),
    [
        ("street", "street", 6),
        ("动物", "动物", 4),
        (" the", "the", 3),
        ("a  b", "a b", 3),
        (FAMILY, "👨👩👧", 6),
        (FLAG, "CN", 2),
        (KEYCAP, "1", 1),
        (HEART, "❤", 1),
        ("👍🏽", "👍", 2),
        ("e\u0301", "é", 1),
        ("\u0301", "◌\u0301", 1),
        ("e\u200d\u0301", "é", 1),
        ("x" + "\u0316" * 9, "x\u0316\u0316", 1),
        ("a\nb", "a␤b", 3),
        ("\x1b[31mred", "␛[31mred", 8),
        ("\u202eabc\u202c", "abc", 3),
        ("\ufeffhi", "hi", 2),
        ("\u3000", "␣", 1),
        ("", "∅", 1),
        ("\u200d", "U+200D", 6),
        ("\ud800", "U+D800", 6),
        ("</s>", "</s>", 4),
        ("[bold]", "[bold]", 6),
    ],
)
def test_labels(text: str, shown: str, width: int) -> None:
    assert label(text) == shown
    assert cells(label(text)) == width == wcswidth(label(text))


def test_spaces_at_the_ends_of_pieces() -> None:
    assert label(" the ", spaces=True) == "▁the▁"
    assert label("the", spaces=True) == "the"
    assert label("  ", spaces=True) == "␣"


@given(labels)
def test_a_label_is_one_line_of_a_certain_width(text: str) -> None:
    shown = label(text)
    assert shown and label(shown) == shown
    assert cells(shown) == cell_len(shown) == wcswidth(shown) > 0
    assert not {unicodedata.category(character) for character in shown} & {"Cc", "Cf", "Cs", "Zl", "Zp"}
    shown.encode()


@given(st.text())
def test_any_text_has_a_label_that_can_be_written(text: str) -> None:
    shown = label(text)
    assert label(shown) == shown
    assert "\n" not in shown and "\x1b" not in shown
    shown.encode()


@given(labels.map(label), st.integers(0, 20))
def test_shortening_is_visible_and_fits(text: str, columns: int) -> None:
    short = shorten(text, columns)
    assert wcswidth(short) <= columns
    if wcswidth(text) <= columns:
        assert short == text
    elif columns:
        assert short.endswith("…") and text.startswith(short[:-1])
        assert wcswidth(short) >= columns - 1  # a character of two columns may not fit into the last one


def test_shortening_says_so_with_the_mark_it_is_given() -> None:
    assert shorten("government", 6, "~") == "gover~"
    assert shorten("政府宣布", 6) == "政府…"
    assert shorten("政府", 1) == "…"
    assert shorten("政府", 0) == ""
    assert pad("政府", 6) == "政府  "
    assert pad("政府", 6, right=True) == "  政府"


def test_flow_never_divides_an_item() -> None:
    assert flow(["one 1", "two 2", "three 3"], 13, ", ") == ["one 1, two 2,", "three 3"]
    assert flow(["incomprehensible", "b"], 8, ", ") == ["incomp…,", "b"]
    assert flow([], 8) == []


@given(st.lists(labels.map(label), max_size=12), st.integers(4, 40), st.sampled_from([" ", ", ", "  "]))
def test_flow_fits(items: list[str], columns: int, between: str) -> None:
    assert all(wcswidth(line) <= columns for line in flow(items, columns, between))


def test_stairs() -> None:
    assert stairs(["We", "met", "yesterday", "."], 3, 20) == [
        "We met",
        "│  │  yesterday",
        "│  │  │  .",
    ]
    assert stairs(["昨", "天", "a", "b"], 3, 20) == ["昨 天 a  b"]  # what is short enough shares a line
    assert stairs(["met", "met", "we"], 3, 20) == ["met   we", "│  met│"]  # but does not touch
    assert stairs(["yesterday"], 3, 5, mark="~") == ["yest~"]


@given(st.lists(labels.map(label), min_size=1, max_size=25), st.integers(3, 6), st.integers(0, 6))
def test_every_stair_leads_to_its_name(names: list[str], step: int, more: int) -> None:
    room = step * len(names) + more
    lines = stairs(names, step, room)
    assert len(lines) <= 12
    grid = []
    for line in lines:  # one entry for each column of the terminal
        assert wcswidth(line) <= room
        columns: list[str] = []
        for character in line:
            if wcswidth(character) == 0:
                columns[-1] += character
            else:
                columns += [character] + [""] * (wcswidth(character) - 1)
        grid.append(columns + [" "] * (room - len(columns)))
    for j, name in enumerate(names):
        below = len(grid)
        while grid[below - 1][step * j] == "│":
            below -= 1
        text = "".join(grid[below - 1][step * j :])
        assert text.startswith(name) or name.startswith(text[: text.index("…")])
