"""Drawings are parsed back: straight frames by two width tables, every shade from its weight, nothing left out unsaid."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.color import Color, ColorSystem
from rich.text import Text
from wcwidth import wcswidth

from tx.cli import shades
from tx.cli.heatmap import GRID_WIDTH, Grid, Style, draw, gallery, listing, to_ansi

ENGLISH = [
    "We",
    "read",
    "the",
    "old",
    "letters",
    "that",
    "she",
    "had",
    "found",
    "in",
    "a",
    "box",
    "under",
    "the",
    "stairs",
]
ENGLISH += ["of", "the", "lighthouse", "yesterday", "."]
CHINESE = [
    "昨天",
    "我们",
    "读",
    "了",
    "她",
    "在",
    "灯塔",
    "楼梯",
    "下面",
    "的",
    "一个",
    "箱子",
    "里",
    "发现",
    "的",
    "旧",
    "信",
    "。",
]
ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
NAMES = st.sampled_from(
    [
        *ENGLISH,
        *CHINESE,
        "",
        " ",
        "incomprehensibilities",
        "👨‍👩‍👧",
        "🇨🇳",
        "1\ufe0f\u20e3",
        "❤\ufe0f",
        "👍🏽",
        "e\u0301",
        "\u0301",
    ]
    + ["\x1b[31m", "a\nb", "\t", "\u202e", "\u200d", "中" * 30, "</s>", "[b]", "：", "🏴\U000e0067\U000e007f"]
)
STYLES = st.builds(
    Style,
    width=st.integers(20, 200),
    colour=st.booleans(),
    dark=st.booleans(),
    ascii=st.booleans(),
    scale=st.sampled_from(["row", "global", "log"]),
    values=st.booleans(),
    top=st.none() | st.integers(1, 70),
)
slowly = settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))


def some(count: int, words: Sequence[str]) -> list[str]:
    return [words[i % len(words)] for i in range(count)]


def noise(rows: int, columns: int, seed: int = 0) -> list[list[float]]:
    """Weights as those of attention: rows that add up to 1, most of each in a few columns."""
    dice = random.Random(seed)
    raw = [[dice.random() ** 6 + 1e-4 for _ in range(columns)] for _ in range(rows)]
    return [[weight / sum(row) for weight in row] for row in raw]


def grid(rows: int, columns: int, seed: int = 0, title: str = "cross, layer 2, mean of 8 heads") -> Grid:
    return Grid(title, some(rows, CHINESE), some(columns, ENGLISH), noise(rows, columns, seed))


@st.composite
def grids(draw: st.DrawFn) -> Grid:
    names = st.lists(NAMES, min_size=1, max_size=8)
    rows = some(draw(st.integers(0, 40)), draw(names))
    columns = some(draw(st.integers(0, 60)), draw(names))
    weights = noise(len(rows), len(columns), draw(st.integers(0, 9)))
    if rows and draw(st.booleans()):
        weights[0] = [0.0] * len(columns)
    return Grid(draw(NAMES), rows, columns, weights)


def text(lines: Sequence[Text]) -> list[str]:
    return [line.plain for line in lines]


def blocks(lines: Sequence[str]) -> list[list[str]]:
    """The blocks of a drawing, from the names over the frame, which begin with spaces, to its last line."""
    found, end = [], 0
    frames = [
        i for i, line in enumerate(lines) if re.fullmatch(r" +(┌[─┴]+┐|└─+┘|\+[+-]+\+)( +(┌─+┐|└─+┘|\+-+\+))* *", line)
    ]
    for top, bottom in zip(frames[::2], frames[1::2], strict=True):
        start = top
        while start > end and lines[start - 1].startswith("  "):
            start -= 1
        end = bottom + 1
        found.append(list(lines[start:end]))
    return found


def check_lines(lines: Sequence[Text], style: Style) -> None:
    for line in text(lines):
        assert cell_len(line) == wcswidth(line) <= style.width, line
        assert not re.search(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufe0f]", line)
    for block in blocks(text(lines)):
        assert len({wcswidth(line) for line in block}) == 1, "\n".join(block)
        check_frame(block)
    plain = to_ansi(lines, False)
    assert "\x1b" not in plain and plain == "".join(f"{line}\n" for line in text(lines))
    for true_colour in (False, True):
        assert ESCAPE.sub("", to_ansi(lines, True, true_colour)) == plain


def check_frame(block: Sequence[str]) -> None:
    """The lines of a frame stand where its corners are, in columns of the terminal."""
    top = next(i for i, line in enumerate(block) if re.match(r" +[┌+]", line))
    places = [wcswidth(block[top][: match.start()]) for match in re.finditer(r"[┌┐]", block[top])]
    if not places:  # ASCII: corners look like what joins the lines
        places = [len(block[top]) - len(block[top].lstrip(" ")), len(block[top].rstrip(" ")) - 1]
    for line in block[top + 1 : -1]:
        for place in places:
            assert column_of(line, place) in "│|", "\n".join(block)


def column_of(line: str, place: int) -> str:
    """The character at a column of the terminal."""
    at = 0
    for character in line:
        if at == place and wcswidth(character):
            return character
        at += wcswidth(character)
    raise AssertionError(f"nothing at {place} of {line!r}")


@slowly
@given(grids(), STYLES)
def test_any_map_at_any_width(map: Grid, style: Style) -> None:
    lines = draw(map, style)
    assert lines
    check_lines(lines, style)
    assert "\x1b[" in to_ansi(lines, True) or not style.colour or not map.rows or not map.columns
    if not map.rows or not map.columns:
        assert len(lines) == 1 and re.match("no (rows|columns) to draw", lines[0].plain)
        return
    drawn = blocks(text(lines))
    if style.width < GRID_WIDTH:
        assert not drawn
        return
    said = re.findall(r"^columns? (\d+)(?:[–-](\d+))? of (\d+)$", "\n".join(text(lines)), re.MULTILINE)
    ranges = [(int(first), int(last or first)) for first, last, _ in said] or [(1, len(map.columns))]
    assert len(ranges) == len(drawn) and ranges[0][0] == 1 and ranges[-1][1] == len(map.columns)
    assert all(end + 1 == start for (_, end), (start, _) in pairwise(ranges))
    assert all(int(total) == len(map.columns) for *_, total in said)


@slowly
@given(grids(), STYLES, st.integers(1, 9))
def test_any_gallery_at_any_width(map: Grid, style: Style, heads: int) -> None:
    maps = [Grid(f"head {k}", map.rows, map.columns, map.weights) for k in range(heads)]
    lines = gallery(maps, style)
    check_lines(lines, style)
    everything = "\n".join(text(lines))
    assert all(f"head {k}" in everything for k in range(heads)) or not map.rows or not map.columns


@slowly
@given(grids(), STYLES)
def test_any_list_at_any_width(map: Grid, style: Style) -> None:
    lines = listing(map, style)
    check_lines(lines, style)
    if map.rows and len(map.columns) > (style.top or 3):
        assert f"the {style.top or 3} strongest of {len(map.columns)} columns" in " ".join(text(lines))


def weights_of(levels: Sequence[Sequence[int]], scale: str, largest: float) -> list[list[float]]:
    """Weights in the middle of each shade; the first column has the largest of all."""
    share = (
        (lambda level: 10 ** (2.5 * ((level + 0.5) / 5 - 1))) if scale == "log" else (lambda level: (level + 0.5) / 5)
    )
    return [[largest, *(largest * share(level) for level in row)] for row in levels]


@pytest.mark.parametrize("scale", ["row", "global", "log"])
@pytest.mark.parametrize("ascii", [False, True])
@pytest.mark.parametrize("values", [False, True])
def test_every_shade_is_that_of_its_weight(scale: str, ascii: bool, values: bool) -> None:
    dice = random.Random(5)
    levels = [[dice.randrange(5) for _ in range(30)] for _ in range(9)]
    weights = weights_of(levels, scale, 0.61)
    if scale == "row":  # each row has a largest weight of its own
        weights = [[weight * (i + 1) / 9 for weight in row] for i, row in enumerate(weights)]
    map = Grid("t", some(9, CHINESE), some(31, ENGLISH), weights)
    ramp = " :+#@" if ascii else " ░▒▓█"
    seen: list[list[int]] = [[] for _ in range(9)]
    numbers: list[list[str]] = [[] for _ in range(9)]
    for block in blocks(text(draw(map, Style(100, ascii=ascii, values=values, scale=scale)))):
        top = next(i for i, line in enumerate(block) if re.match(r" +[┌+]", line))
        frame = block[top].strip()[1:-1]
        cell = len(frame) // len(re.findall("[┴+]", frame))
        for i, line in enumerate(block[top + 1 : -1]):
            inside = re.split(r"[│|]", line)[1]
            for at in range(0, len(inside), cell):
                seen[i].append(ramp.index(inside[at].replace("." if ascii else "·", " ")))
                if values:
                    numbers[i].append(inside[at + 1 : at + 4])
                else:
                    assert inside[at + 1 : at + cell] == ramp[seen[i][-1]] * (cell - 2) + " "
    assert seen == [[4, *row] for row in levels]
    if values:
        assert numbers == [[f"{weight:.2f}"[1:] for weight in row] for row in weights]


def test_values_have_three_characters() -> None:
    written = [shades.number(weight) for weight in (0.0, 0.004, 0.05, 0.314, 0.994, 0.996, 1.0)]
    assert written == [".00", ".00", ".05", ".31", ".99", "1.0", "1.0"]


def test_the_legend_has_the_numbers_of_the_scale() -> None:
    map = Grid("t", ["a", "b"], ["c", "d"], [[0.5, 0.25], [0.125, 0.0]])
    row, whole, log = (text(draw(map, Style(100, scale=scale)))[-1] for scale in ("row", "global", "log"))
    assert row == "% of the largest in its row:  ·  under 20  ░░ from 20  ▒▒ 40  ▓▓ 60  ██ 80"
    assert whole == "one scale for all:  ·  under .10  ░░ from .10  ▒▒ .20  ▓▓ .30  ██ .40 to .50"
    assert log == "one log scale:  ·  under .0050  ░░ from .0050  ▒▒ .016  ▓▓ .050  ██ .16 to .50"


def test_a_map_as_it_looks() -> None:
    weights = [[0.5, 0.05, 0.3, 0.15], [0.0, 1.0, 0.0, 0.0]]
    map = Grid("cross, layer 2", ["我们", "读"], ["We", "read", "the", "letters"], weights)
    assert text(draw(map, Style(40))) == [
        "cross, layer 2",
        "      We    read  the   letters",
        "     ┌┴─────┴─────┴─────┴─────┐",
        "我们 │█████ ·     ▓▓▓▓▓ ░░░░░ │",
        "  读 │·     █████ ·     ·     │",
        "     └────────────────────────┘",
        "% of the largest in its row:",
        "·  under 20  ░░ from 20  ▒▒ 40  ▓▓ 60",
        "██ 80",
    ]


def test_a_list_as_it_looks() -> None:
    map = Grid("encoder", ["it"], ["animal", "it", "street", "it"], [[0.31, 0.22, 0.11, 0.002]])
    assert text(listing(map, Style(80))) == [
        "encoder",
        "it → animal 0.31, it#2 0.22, street 0.11",
        "the 3 strongest of 4 columns in each row; the others have 0 % of the weight",
    ]
    assert text(listing(map, Style(20, ascii=True, top=9)))[1:] == [
        "it -> animal 0.31,",
        "      it#2 0.22,",
        "      street 0.11,",
        "      it#4 <0.01",
    ]
    assert text(listing(Grid("t", ["it"], ["a"], [[0.0]]), Style(80))) == ["t", "it → nothing"]


def test_a_gallery_as_it_looks() -> None:
    maps = [Grid(f"head {k}", ["我", "读"], ["I", "read"], [[1.0, 0.0], [0.3, 0.7 - 0.7 * k]]) for k in (0, 1)]
    assert text(gallery(maps, Style(40, ascii=True, scale="global"))) == [
        "   head 0 head 1",
        "    12     12   ",
        "   +--+   +--+  ",
        "我 |@ |   |@ |  ",
        "读 |:#|   |: |  ",
        "   +--+   +--+  ",
        "columns:  1 I  2 read",
        "one scale for all:     under .20",
        ":: from .20  ++ .40  ## .60",
        "@@ .80 to 1.0",
    ]


@pytest.mark.parametrize("width", [20, 40, 80, 120, 200])
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (5, 4), (12, 10), (20, 20), (60, 70)])
def test_stated_sizes(width: int, rows: int, columns: int) -> None:
    for style in (Style(width), Style(width, ascii=True, values=True), Style(width, colour=True, scale="log")):
        check_lines(draw(grid(rows, columns), style), style)
        heads = range(8 if rows < 60 else 3)
        check_lines(gallery([grid(rows, columns, k, f"head {k}") for k in heads], style), style)


def test_twenty_by_twenty_fit_into_eighty_columns() -> None:
    assert len(blocks(text(draw(grid(20, 20), Style(80))))) == 1
    assert len(draw(grid(20, 20), Style(80))) < 40


def test_heads_stand_side_by_side() -> None:
    lines = text(gallery([grid(5, 4, k, f"{k}") for k in range(8)], Style(80)))
    assert len(blocks(lines)) == 1 and lines[0].split() == list("01234567")
    lines = text(gallery([grid(5, 40, k, f"head {k}") for k in range(2)], Style(80)))
    assert len(blocks(lines)) == 2  # one under another
    assert "columns 1–35 of 70" in text(gallery([grid(5, 70)], Style(60)))


def test_a_gallery_has_one_scale() -> None:
    weak, strong = Grid("a", ["x"], ["y"], [[0.1]]), Grid("b", ["x"], ["y"], [[0.9]])
    inside = [re.findall("│(.)│", line) for line in text(gallery([weak, strong], Style(80, scale="global")))]
    assert [" ", "█"] in inside
    inside = [re.findall("│(.)│", line) for line in text(gallery([weak, strong], Style(80, scale="row")))]
    assert ["█", "█"] in inside


def test_empty_maps_are_one_line() -> None:
    assert text(draw(Grid("cross", [], ["a"], []), Style(80))) == ["no rows to draw: cross"]
    assert text(draw(Grid("cross", ["a"], [], [[]]), Style(80))) == ["no columns to draw: cross"]
    assert text(gallery([], Style(80))) == ["no maps to draw"]


def test_what_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(ValueError, match="not 1 rows of 2"):
        Grid("t", ["a"], ["b", "c"], [[1.0]])
    with pytest.raises(ValueError, match="same rows and columns"):
        gallery([grid(2, 2), grid(2, 3)], Style())
    with pytest.raises(ValueError, match="scale is"):
        Style(scale="linear")


def test_only_ascii_is_drawn_in_ascii() -> None:
    plain = Grid("t", ["incomprehensibilities", "b"], some(40, ["abc", "incomprehensible"]), noise(2, 40))
    for width in (20, 50, 200):
        for style in (Style(width, ascii=True), Style(width, ascii=True, values=True, scale="log")):
            everything = to_ansi([*draw(plain, style), *gallery([plain], style), *listing(plain, style)], False)
            assert everything.isascii()
            assert "~" in everything or width == 200
    assert "，" in to_ansi(draw(Grid("t", ["，"], ["a"], [[1.0]]), Style(ascii=True)), False)  # a label is text


def test_colours_are_those_of_the_terminal() -> None:
    lines = draw(grid(5, 4), Style(colour=True))
    assert "48;5;" in to_ansi(lines, True) and "48;2;" not in to_ansi(lines, True)
    assert "48;2;" in to_ansi(lines, True, True) and "48;5;" not in to_ansi(lines, True, True)
    assert to_ansi(draw(grid(5, 4), Style(colour=False)), True).count("\x1b[") == 2  # the title, bold


def lightness(colour: str) -> float:
    """L of OKLab (Ottosson 2020), by its forward matrices."""
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    r, g, b = (u / 12.92 if u <= 0.04045 else ((u + 0.055) / 1.055) ** 2.4 for u in channels)
    long = 0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b
    medium = 0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b
    short = 0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b
    return 0.2104542553 * long ** (1 / 3) + 0.7936177850 * medium ** (1 / 3) - 0.0040720468 * short ** (1 / 3)


def luminance(red: float, green: float, blue: float) -> float:
    """Relative luminance of WCAG 2."""
    r, g, b = (
        u / 12.92 if u <= 0.04045 else ((u + 0.055) / 1.055) ** 2.4 for u in (red / 255, green / 255, blue / 255)
    )
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


@pytest.mark.parametrize(("palette", "step"), [(shades.ON_DARK, 0.068), (shades.ON_LIGHT, -0.068)])
def test_the_palettes_are_even(palette: Sequence[str], step: float) -> None:
    """More weight is further from the ground: brighter where it is dark, darker where it is light."""
    assert all(abs(b - a - step) < 0.004 for a, b in pairwise(map(lightness, palette)))
    assert [shades.colour(k / 10, dark=step > 0) for k in range(11)] == list(palette)
    coarse = [Color.parse(colour).downgrade(ColorSystem.EIGHT_BIT).get_truecolor() for colour in palette]
    assert all((luminance(*b) - luminance(*a)) * step >= 0 for a, b in pairwise(coarse))
    assert len(set(coarse)) >= 8


def test_numbers_can_be_read_on_every_colour() -> None:
    for colour in shades.ON_DARK + shades.ON_LIGHT:
        ground = luminance(*Color.parse(colour).get_truecolor())
        ink = luminance(*Color.parse(shades.ink(colour)).get_truecolor())
        assert (max(ground, ink) + 0.05) / (min(ground, ink) + 0.05) >= 4.5, colour


@given(st.floats(0, 1), st.floats(0, 1), st.booleans())
def test_more_weight_is_never_a_lighter_shade(a: float, b: float, logarithmic: bool) -> None:
    scale = shades.Scale(max(a, b), logarithmic)
    assert scale.shade(min(a, b)) <= scale.shade(max(a, b))
    assert scale.position(min(a, b)) <= scale.position(max(a, b))
    assert scale.shade(max(a, b)) == (4 if max(a, b) > 0 else 0)
