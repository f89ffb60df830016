"""Attention maps drawn with the characters of a terminal, from plain numbers.

         We met
         │  │  yesterday     names go down in stairs, a line leads from each to its column
        ┌┴──┴──┴────────┐
      我 │▒▒ ░░ ·        │    a cell: one shade, then a space; where it is blank, a dot to guide the eye
        └───────────────┘

A row is what looks, a column what it looks at. Columns that do not fit go to further blocks; on a terminal narrower than GRID_WIDTH
the strongest cells of each row are listed instead. Shades can be told apart without colour; with it a cell is a patch of
colour in which its character is hidden. Labels go through cells.label first, so that no line is wider than it says.

Terminals set up for Chinese may draw lines and shades two columns wide ("ambiguous width"): there, ascii is the way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from rich.color import ColorSystem
from rich.style import Style as TextStyle
from rich.text import Text

from . import shades
from .cells import cells, flow, label, pad, shorten, stairs
from .shades import Scale

__all__ = ["Grid", "Style", "cells", "draw", "gallery", "label", "listing", "shorten", "to_ansi"]

SMALLEST_WIDTH = 20  # drawn for narrower terminals too, which then break the lines
GRID_WIDTH = 40  # a narrower terminal gets the list
ROW_NAME = 20  # columns that the longest name of a row may take
LISTED = 3  # links of a row in a list, where Style.top does not say
CELL, CELL_WITH_NUMBER, WIDEST_CELL = 3, 4, 6  # columns of the terminal, the space between two cells included
OVERHANG = 4  # columns kept free at the right for the last name of a block


@dataclass(frozen=True)
class Grid:
    """weights[i][j], 0 to 1, says how much row i looks at column j. Rows need not add up to 1."""

    title: str
    rows: Sequence[str]
    columns: Sequence[str]
    weights: Sequence[Sequence[float]]

    def __post_init__(self) -> None:
        if [len(row) for row in self.weights] != [len(self.columns)] * len(self.rows):
            raise ValueError(f"weights are not {len(self.rows)} rows of {len(self.columns)}")


@dataclass(frozen=True)
class Style:
    """How to draw. `width` is in columns of the terminal; `scale` is "row" (each row by its own largest weight), "global" (all by
    one) or "log" (the same, logarithmic); `values` prints the weights; `top` is the number of links a row in a list."""

    width: int = 80
    colour: bool = False
    dark: bool = True
    ascii: bool = False
    scale: str = "row"
    values: bool = False
    top: int | None = None

    def __post_init__(self) -> None:
        if self.scale not in ("row", "global", "log"):
            raise ValueError(f'scale is "row", "global" or "log", not {self.scale!r}')

    @property
    def columns(self) -> int:
        return max(self.width, SMALLEST_WIDTH)

    @property
    def ramp(self) -> str:
        return shades.ASCII_RAMP if self.ascii else shades.RAMP

    @property
    def mark(self) -> str:
        """Ends what was shortened."""
        return "~" if self.ascii else "…"

    def drawn(self, text: str) -> str:
        """Our own text and lines as they are, or in ASCII. Not for labels."""
        return text.translate(TO_ASCII) if self.ascii else text


BOLD = TextStyle(bold=True)
TO_ASCII = str.maketrans({"│": "|", "─": "-", **dict.fromkeys("┌┐└┘┴", "+"), "–": "-", "→": "->"})


def draw(grid: Grid, style: Style) -> list[Text]:
    """The map as lines; all lines of a block take equally many columns, none more than the width."""
    if style.columns < GRID_WIDTH or not grid.rows or not grid.columns:
        return listing(grid, style)
    columns = [label(name) for name in grid.columns]
    names, left = _row_names(grid.rows, style)
    room = style.columns - left - 2  # for the cells, between the two lines of the frame
    cell = CELL_WITH_NUMBER if style.values else CELL
    blocks = _blocks(len(columns), (room - OVERHANG) // cell)
    if not style.values:
        cell = min(WIDEST_CELL, (room - OVERHANG) // len(blocks[0]))
    [scales] = shades.scales(style.scale, [grid.weights])

    lines = _paragraph(grid.title, style, BOLD)
    for chosen in blocks:
        lines += _which(chosen, len(columns), style)
        head = stairs([columns[j] for j in chosen], cell, room + 1, style.drawn("│"), style.mark)
        block = [Text(" " * (left + 1) + line) for line in head]
        block.append(Text(" " * left + style.drawn("┌" + ("┴" + "─" * (cell - 1)) * len(chosen) + "┐")))
        for name, row, scale in zip(names, grid.weights, scales, strict=True):
            line = Text(name + style.drawn("│"))
            for j in chosen:
                _append_cell(line, row[j], scale, cell, style)
            block.append(line.append(style.drawn("│")))
        block.append(Text(" " * left + style.drawn("└" + "─" * cell * len(chosen) + "┘")))
        width = max(cells(line.plain) for line in block)
        lines += [line.append(" " * (width - cells(line.plain))) for line in block]
    return lines + _legend(style, scales[0])


def gallery(grids: Sequence[Grid], style: Style) -> list[Text]:
    """Several maps of the same rows and columns side by side, as many as fit, on one scale; a cell is one character.

    The numbers over the columns count 1…9, 0, 1…; what they stand for is said once, below.
    """
    if not grids:
        return [Text("no maps to draw")]
    first = grids[0]
    if any([*grid.rows, "", *grid.columns] != [*first.rows, "", *first.columns] for grid in grids):
        raise ValueError("the maps of a gallery have the same rows and columns")
    if style.columns < GRID_WIDTH or not first.rows or not first.columns:
        return [line for grid in grids for line in listing(grid, style)]
    style = replace(style, values=False)
    columns = [label(name) for name in first.columns]
    names, left = _row_names(first.rows, style)
    blocks = _blocks(len(columns), style.columns - left - 2)
    widest = max(cells(label(grid.title)) for grid in grids)
    wide = max(len(blocks[0]) + 2, min(widest, style.columns - left))  # of a map, its frame included
    abreast = (style.columns - left + 1) // (wide + 1)
    panels = list(zip(grids, shades.scales(style.scale, [grid.weights for grid in grids]), strict=True))

    lines: list[Text] = []
    for chosen in blocks:
        lines += _which(chosen, len(columns), style)
        for k in range(0, len(panels), abreast):
            lines += _panels(panels[k : k + abreast], chosen, names, wide, style)
    key = ["columns:", *(f"{number} {name}" for number, name in enumerate(columns, 1))]
    lines += [Text(line) for line in flow(key, style.columns, "  ", style.mark)]
    return lines + _legend(style, panels[0][1][0], dots=False)


def listing(grid: Grid, style: Style) -> list[Text]:
    """The strongest cells of each row in words: it → animal 0.31, it 0.22. A name that several columns have is followed by
    the number of its column: the#5."""
    for what, there in (("rows", grid.rows), ("columns", grid.columns)):
        if not there:
            return [Text(shorten(f"no {what} to draw: {label(grid.title)}", style.columns, style.mark))]
    names = [label(name) for name in grid.rows]
    columns = [label(name) for name in grid.columns]
    several = {name for name, count in Counter(columns).items() if count > 1}
    left = min(max(map(cells, names)), style.columns // 3)
    arrow = style.drawn(" → ")
    room = style.columns - left - cells(arrow)
    top = max(1, style.top or LISTED)

    lines = _paragraph(grid.title, style, BOLD)
    shown = 0.0
    for name, row in zip(names, grid.weights, strict=True):
        strongest = [j for j in sorted(range(len(row)), key=lambda j: -row[j])[:top] if row[j] > 0]
        shown += sum(row[j] for j in strongest)
        links = []
        for j in strongest:
            end = (f"#{j + 1}" if columns[j] in several else "") + (f" {row[j]:.2f}" if row[j] >= 0.005 else " <0.01")
            links.append(shorten(columns[j], room - len(end) - 1, style.mark) + end)
        start = pad(shorten(name, left, style.mark), left) + arrow
        for line in flow(links or ["nothing"], room, ", ", style.mark):
            lines.append(Text(start + line))
            start = " " * cells(start)
    if top < len(columns):
        total = sum(map(sum, grid.weights))
        rest = 100 * max(0.0, 1 - shown / total) if total > 0 else 0
        note = f"the {top} strongest of {len(columns)} columns in each row; the others have {rest:.0f} % of the weight"
        lines += _paragraph(note, style)
    return lines


def to_ansi(lines: Sequence[Text], colour: bool, true_colour: bool = False) -> str:
    """The lines, each with a line end. Without colour there is no escape code in them; with it, they use the 256 colours
    that terminals share, or all 16 million where `true_colour` says that the terminal has them (COLORTERM)."""
    system = ColorSystem.TRUECOLOR if true_colour else ColorSystem.EIGHT_BIT
    out = []
    for line in lines:
        at = 0
        for span in sorted(line.spans) if colour else ():  # the spans of our lines do not overlap
            out.append(line.plain[at : span.start])
            look = span.style if isinstance(span.style, TextStyle) else TextStyle.parse(span.style)
            out.append(_for(look, system).render(line.plain[span.start : span.end], color_system=system))
            at = span.end
        out.append(line.plain[at:] + "\n")
    return "".join(out)


def _blocks(count: int, most: int) -> list[range]:
    """The columns in blocks of at most so many, as many in each, so that the last is no splinter."""
    size = -(-count // -(-count // most))
    return [range(start, min(start + size, count)) for start in range(0, count, size)]


def _which(chosen: range, count: int, style: Style) -> list[Text]:
    """The line that says which columns a block has, if it has not all."""
    text = f"columns {chosen[0] + 1}–{chosen[-1] + 1} of {count}" if len(chosen) > 1 else f"column {count} of {count}"
    return [Text(style.drawn(text))] if len(chosen) < count else []


def _row_names(rows: Sequence[str], style: Style) -> tuple[list[str], int]:
    """The names of the rows, all equally wide, and how wide, the space behind them included."""
    names = [label(name) for name in rows]
    left = min(max(map(cells, names)), ROW_NAME, max(8, style.columns // 6))
    return [pad(shorten(name, left, style.mark), left, right=True) + " " for name in names], left + 1


@lru_cache(maxsize=64)
def _for(look: TextStyle, system: ColorSystem) -> TextStyle:
    """The same look: a style of rich's keeps the codes of the colour system that it was rendered for first."""
    return TextStyle(color=look.color, bgcolor=look.bgcolor, bold=look.bold)


@lru_cache(maxsize=64)
def _patch(colour: str, readable: bool) -> TextStyle:
    return TextStyle(color=shades.ink(colour) if readable else colour, bgcolor=colour)


def _append_cell(line: Text, weight: float, scale: Scale, width: int, style: Style) -> None:
    """A cell of so many columns: its shade and a space; the shade and the number; or, one column wide, the shade alone."""
    shade = style.ramp[scale.shade(weight)]
    colour = shades.colour(scale.position(weight), style.dark)
    wide = width > 1 and not style.values
    line.append(_filled(shade, width - 1, style) if wide else shade, _patch(colour, False) if style.colour else None)
    if style.values:
        line.append(shades.number(weight), _patch(colour, True) if style.colour else None)
    line.append(" " * wide)


def _filled(shade: str, width: int, style: Style) -> str:
    return shade * width if shade != " " else (("." if style.ascii else "·") + " " * (width - 1))


def _panels(
    panels: Sequence[tuple[Grid, Sequence[Scale]]], chosen: range, names: Sequence[str], wide: int, style: Style
) -> list[Text]:
    """Maps side by side, each `wide` columns of the terminal, with the names of the rows before the first."""
    left = " " * cells(names[0])
    numbers = "".join(str((j + 1) % 10) for j in chosen)
    titles = [shorten(label(grid.title), wide, style.mark) for grid, _ in panels]
    top, bottom = (style.drawn(start + "─" * len(chosen) + end) for start, end in ("┌┐", "└┘"))
    above = (titles, [f" {numbers}"] * len(panels), [top] * len(panels))
    lines = [Text(left + " ".join(pad(part, wide) for part in parts)) for parts in above]
    for i, name in enumerate(names):
        line = Text(name)
        for k, (grid, scales) in enumerate(panels):
            line.append((" " if k else "") + style.drawn("│"))
            for j in chosen:
                _append_cell(line, grid.weights[i][j], scales[i], 1, style)
            line.append(pad(style.drawn("│"), wide - len(chosen) - 1))
        lines.append(line)
    return [*lines, Text(left + " ".join([pad(bottom, wide)] * len(panels)))]


def _legend(style: Style, scale: Scale, dots: bool = True) -> list[Text]:
    """Which scale, and what each shade means in numbers."""
    heading, meanings = shades.legend(style.scale, scale)
    lines = _paragraph(heading, style)
    for k, meaning in enumerate(meanings):
        if cells(lines[-1].plain) + len(meaning) + 5 > style.columns:
            lines.append(Text())
        else:
            lines[-1].append("  ")
        middle = shades.colour((k + 0.5) / len(meanings), style.dark)
        text = _filled(style.ramp[k], 2, style) if dots else style.ramp[k] * 2
        lines[-1].append(text, _patch(middle, False) if style.colour else None)
        lines[-1].append(f" {meaning}")
    return lines


def _paragraph(text: str, style: Style, look: TextStyle | str = "") -> list[Text]:
    """A text of our own, or a title, in as many lines as it needs; no line without a text."""
    words = label(text).split(" ") if text else []
    return [Text().append(line, look) for line in flow(words, style.columns, " ", style.mark)]
