"""Where everything stands in a picture of attention maps: rectangles and texts, in pixels from the top left corner.

attention_picture draws them, as SVG or PNG. How wide a text is, is asked of a `Measure`: an SVG is drawn with whatever fonts
its reader has, so its texts are estimated by the East Asian width of their characters; a PNG measures its own fonts.
"""

from __future__ import annotations

import bisect
import math
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from . import shades
from .attention_export import Selection, Table, add_up, tables
from .cells import label as terminal_label
from .picture_colours import colour

if TYPE_CHECKING:
    from ..model.results import AttentionMap, Token

INK, FAINT_INK, FRAME, PAPER = "#1b1b1f", "#5c5f66", "#c9ccd1", "#ffffff"
MARGIN = 16
GAP = 28  # between two panels of a gallery, and between two sections
TITLE_SIZE, SMALL_SIZE = 15, 12
SLANT = 60  # degrees; steep enough that the labels of neighbouring narrow columns do not touch
LONGEST_LABEL = 150  # pixels
WIDEST_GALLERY = 1500  # pixels, if its panels may be broken into lines
LEGEND = 160, 10  # width, height
STEPS = 64  # colours of the legend
KIND_NAMES = {
    "cross": ("cross-attention", "rows: the output, columns: the source"),
    "encoder": ("encoder self-attention", "rows and columns: the source"),
    "decoder": ("decoder self-attention", "rows: the output, columns: what was read when it was written"),
    "rollout": ("attention rollout of the encoder", "rows and columns: the source"),
}

Measure = Callable[[str, float], float]  # (text, font size) → width in pixels


@dataclass(frozen=True)
class Rectangle:
    x: float
    y: float
    width: float
    height: float
    fill: str
    hint: str = ""  # shown when the pointer rests on it


@dataclass(frozen=True)
class Label:
    """A text whose baseline begins (or ends, by `anchor`) at x, y, turned upwards around that point by `angle` degrees."""

    x: float
    y: float
    text: str
    size: float
    fill: str = INK
    anchor: str = "start"  # "middle", "end"
    angle: int = 0
    bold: bool = False


@dataclass
class Picture:
    width: float = 0.0
    height: float = 0.0
    title: str = ""
    rectangles: list[Rectangle] = field(default_factory=list)
    labels: list[Label] = field(default_factory=list)


SCALE_NAMES = {
    "row": ("0", "the largest of the row"),
    "global": ("0", "{top:.2f}"),
    "log": ("≤ {least:.1g}", "{top:.2f} (logarithmic)"),
}


def estimated_width(text: str, size: float) -> float:
    """Pixels that a text of a sans-serif font takes; rather too many than too few."""
    return sum(_ems(character) for character in text) * size


def _ems(character: str) -> float:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Cf"):
        return 0.0
    if unicodedata.east_asian_width(character) in "WFA":  # ambiguous ones are wide in a Chinese font
        return 1.05
    if character in "mwMW@%":
        return 1.0
    return 0.75 if character.isupper() else 0.4 if character in "iljftr.,:;'|!()[] " else 0.66


_ESCAPES = {code: repr(chr(code))[1:-1] for code in (*range(32), 127)}  # \t, \x1b


def readable(text: str, spaces: bool = False) -> str:
    """What is shown of a token: as on a terminal, but with control characters as they are escaped in Python: fonts that
    have a sign for them (␉) are rare."""
    return terminal_label(text.translate(_ESCAPES), spaces)


def shorten(text: str, size: float, most: float, measure: Measure) -> str:
    """`text`, or as much of its beginning as fits into `most` pixels, with "…"."""
    if measure(text, size) <= most:
        return text
    return text[: _fitting(text, size, most - measure("…", size), measure)] + "…"


def _fitting(text: str, size: float, most: float, measure: Measure) -> int:
    """How many characters from the beginning of a text fit into `most` pixels."""
    return bisect.bisect_right(range(1, len(text) + 1), most, key=lambda length: measure(text[:length], size))


class Section(NamedTuple):
    """One kind of one part: a heatmap, or a gallery of one for each layer (downwards) and head (across)."""

    title: str
    lines: tuple[str, ...]  # under the title
    table: Table


def sections(maps: Sequence[AttentionMap], selection: Selection) -> list[Section]:
    found = []
    for one in maps:
        part = f"part {one.part} of {one.parts} · " if one.parts > 1 else ""
        for number, table in enumerate(tables(one, selection)):
            name, axes = KIND_NAMES[table.kind]
            texts = (f"source: {_on_a_line(one.source)}", f"output: {_on_a_line(one.output)}") if number == 0 else ()
            note = "" if add_up(table.weights) else "; rows do not add up to 1"
            found.append(Section(f"{part}{name}{_which(table)}", (*texts, axes + note), table))
    return found


def _on_a_line(text: str) -> str:
    return readable(" ".join(text.split()))


def _which(table: Table) -> str:
    """· layer 2 · mean of the heads"""
    words = []
    for name, labels in (("layer", table.layers), ("head", table.heads)):
        if len(labels) == 1 and not (table.kind == "rollout" and name == "head"):
            words.append(_name(name, labels[0]))
    return "".join(f" · {word}" for word in words)


def _panel_name(table: Table, layer: int, head: int) -> str:
    """layer 2 · head 3: what differs between the panels of a gallery"""
    names = [_name("layer", table.layers[layer])] if len(table.layers) > 1 else []
    return " · ".join([*names, *([_name("head", table.heads[head])] if len(table.heads) > 1 else [])])


def _name(what: str, label: str) -> str:
    if label == "max":
        return f"largest of the {what}s"
    return f"mean of the {what}s" if label == "mean" else f"{what} {label}"


def layout(maps: Sequence[AttentionMap], selection: Selection, measure: Measure) -> Picture:
    """Everything that is drawn, section under section."""
    parts = sections(maps, selection)
    picture = Picture(title=f"{maps[0].model} · {maps[0].task} · {parts[0].title}")
    y = float(MARGIN)
    for section in parts:
        y = _place_section(picture, section, selection, measure, y) + GAP
    picture.width = math.ceil(picture.width + MARGIN)
    picture.height = math.ceil(y - GAP + MARGIN)
    return picture


def _place_section(picture: Picture, section: Section, selection: Selection, measure: Measure, y: float) -> float:
    """Adds a section whose top is y and returns the y under it."""
    table = section.table
    size = _Sizes.of(table, selection, measure)
    scales = shades.scales(selection.scale, [panel for layer in table.weights.tolist() for panel in layer])
    n_layers, n_heads = len(table.layers), len(table.heads)
    per_line = n_heads if n_heads > 1 and n_layers > 1 else size.panels_in(WIDEST_GALLERY, n_layers * n_heads)
    lines = math.ceil(n_layers * n_heads / per_line)
    is_gallery = n_layers * n_heads > 1

    width = max(size.left + per_line * (size.panel + GAP) - GAP + size.right, 420.0)
    picture.width = max(picture.width, MARGIN + width)
    y += TITLE_SIZE
    for text, text_size, ink, bold in (
        (section.title, TITLE_SIZE, INK, True),
        *((line, SMALL_SIZE, FAINT_INK, False) for line in section.lines),
    ):
        for line in _wrapped(text, text_size, width, measure):
            picture.labels.append(Label(MARGIN, y, line, text_size, ink, bold=bold))
            y += text_size * 1.45
    y += 6

    every = [(layer, head) for layer in range(n_layers) for head in range(n_heads)]
    for number in range(lines):
        y += size.above + (SMALL_SIZE + 8 if is_gallery else 0)
        for place, (layer, head) in enumerate(every[number * per_line : (number + 1) * per_line]):
            x = MARGIN + size.left + place * (size.panel + GAP)
            if is_gallery:
                name = _panel_name(table, layer, head)
                picture.labels.append(Label(x, y - size.above - 4, name, SMALL_SIZE, bold=True))
            panel = _Panel(table, table.weights[layer, head], scales[layer * n_heads + head])
            _place_panel(picture, panel, selection, size, x, y, rows=place == 0)
        y += size.height + GAP
    return _place_legend(picture, table, selection.scale, y - GAP + 14)


class _Sizes(NamedTuple):
    """Pixels of a section: a cell, its font, and the room that labels need around a panel."""

    cell: float
    font: float
    left: float
    above: float
    right: float  # that the slanted label of the last column takes beside the panel
    panel: float  # its width without labels
    height: float
    rows: tuple[str, ...]
    columns: tuple[str, ...]

    @classmethod
    def of(cls, table: Table, selection: Selection, measure: Measure) -> _Sizes:
        panels = len(table.layers) * len(table.heads)
        room = 720 if panels == 1 else 300
        cell = float(min(max(room // max(len(table.columns), len(table.rows), 1), 13), 30))
        if selection.values:
            cell = max(cell, 30.0)
        font = min(13.0, max(9.5, 0.62 * cell))

        def labels(tokens: tuple[Token, ...]) -> tuple[str, ...]:
            return tuple(shorten(_named(token, selection), font, LONGEST_LABEL, measure) for token in tokens)

        rows, columns = labels(table.rows), labels(table.columns)
        longest = max((measure(label, font) for label in columns), default=0.0) + 6
        slant = math.radians(SLANT)
        return cls(
            cell,
            font,
            left=max((measure(label, font) for label in rows), default=0.0) + 8,
            above=longest * math.sin(slant) + font * math.cos(slant) + 4,
            right=longest * math.cos(slant) + font,
            panel=cell * len(table.columns),
            height=cell * len(table.rows),
            rows=rows,
            columns=columns,
        )

    def panels_in(self, width: float, count: int) -> int:
        """How many of `count` panels stand in a line, of lines as equal as can be."""
        most = max(int((width - self.left - self.right + GAP) // (self.panel + GAP)), 1)
        return math.ceil(count / math.ceil(count / most))


class _Panel(NamedTuple):
    table: Table
    weights: Any  # [rows, columns], of one layer and head
    scales: list[shades.Scale]  # one for each row


def _named(token: Token, selection: Selection) -> str:
    return readable(token.text, spaces=not selection.words)


def _place_panel(
    picture: Picture, panel: _Panel, selection: Selection, size: _Sizes, x: float, y: float, rows: bool
) -> None:
    """A heatmap whose top left cell is at x, y, with labels above and, if `rows`, on the left."""
    cell = size.cell
    picture.rectangles.append(Rectangle(x - 1, y - 1, size.panel + 2, size.height + 2, FRAME))
    columns = [_named(token, selection) for token in panel.table.columns]
    for row, (written, weights, scale) in enumerate(
        zip(panel.table.rows, panel.weights.tolist(), panel.scales, strict=True)
    ):
        name = _named(written, selection)
        for column, (read, weight) in enumerate(zip(columns, weights, strict=True)):
            left, top, share = x + column * cell, y + row * cell, scale.position(weight)
            picture.rectangles.append(Rectangle(left, top, cell, cell, colour(share), f"{name} → {read}: {weight:.3f}"))
            if selection.values:
                ink = PAPER if share > 0.5 else INK
                place = left + cell / 2, top + cell / 2 + 4
                picture.labels.append(Label(*place, shades.number(weight), 10, ink, "middle"))
    if rows:
        for row, text in enumerate(size.rows):
            baseline = y + (row + 0.5) * cell + 0.35 * size.font
            picture.labels.append(Label(x - 6, baseline, text, size.font, anchor="end"))
    for column, text in enumerate(size.columns):
        left = x + (column + 0.5) * cell + 0.35 * size.font
        picture.labels.append(Label(left, y - 5, text, size.font, angle=SLANT))


def _place_legend(picture: Picture, table: Table, scale: str, y: float) -> float:
    width, height = LEGEND
    top = float(table.weights.max()) if table.weights.size else 0.0
    least, most = (text.format(top=top, least=top / 10**shades.LOG_DECADES) for text in SCALE_NAMES[scale])
    label = Label(MARGIN, y + height, least, SMALL_SIZE, FAINT_INK)
    start = MARGIN + estimated_width(least, SMALL_SIZE) + 6
    picture.labels += [label, Label(start + width + 6, y + height, most, SMALL_SIZE, FAINT_INK)]
    picture.rectangles.append(Rectangle(start - 1, y - 1, width + 2, height + 2, FRAME))
    for step in range(STEPS):
        at = start + step * width / STEPS
        picture.rectangles.append(Rectangle(at, y, width / STEPS, height, colour(step / (STEPS - 1))))
    return y + height


def _wrapped(text: str, size: float, width: float, measure: Measure) -> list[str]:
    """A text in at most two lines that fit into `width`, broken at a space where there is one."""
    if measure(text, size) <= width:
        return [text]
    end = max(_fitting(text, size, width, measure), 1)
    space = text.rfind(" ", end // 2, end + 1)
    end = space if space > 0 else end
    return [text[:end].rstrip(), shorten(text[end:].lstrip(), size, width, measure)]
