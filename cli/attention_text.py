"""What `tx show-attention` prints: the map of one part of a text as a grid or a list, and in words what it says."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..model.errors import UsageError
from .attention_export import Selection

if TYPE_CHECKING:
    from ..model.attention_maps import View
    from ..model.results import AttentionMap, Token
    from .heatmap import Grid, Style

TITLES = {
    "cross": "cross-attention: what each {unit} written (row) looked at in the text (columns)",
    "encoder": "encoder: what each {unit} of the text (row) looked at in it (columns)",
    "decoder": "decoder: what each {unit} written (row) looked at in what was written before (columns)",
    "rollout": "rollout: how much of each {unit} of the text (columns) is in what the encoder made of it (rows)",
}
ANSWER = "pointing: where the answer starts and ends (rows) in what was read (columns)"
STRONGEST = 5  # links in the summary line


@dataclass(frozen=True)
class Form:
    """What of a map is shown, and how. `row`: only the rows of this word, a line for each layer, or for each head if all are
    selected, or with `one_layer` only for the selected layer. `as_list`: links in words instead of a grid."""

    selection: Selection
    style: Style
    row: str | None = None
    one_layer: bool = False
    as_list: bool = False

    @property
    def kind(self) -> str:
        return self.selection.kind or "cross"

    @property
    def layer(self) -> int | str:
        return "last" if self.selection.layer is None else self.selection.layer

    def view(self, map: AttentionMap, layer: int | str) -> View:
        """One layer, of the selected head or of the mean of all."""
        from ..model import attention_maps

        head = "mean" if self.selection.head is None else self.selection.head
        return attention_maps.view(
            map, self.kind, layer, head, words=self.selection.words, special=self.selection.special
        )

    def heads(self, map: AttentionMap) -> list[View]:
        """Every head of the selected layer."""
        from ..model import attention_maps

        return attention_maps.heads(
            map, self.kind, self.layer, words=self.selection.words, special=self.selection.special
        )

    def columns(self, view: View) -> list[str]:
        return self._labels(view.columns)

    def rows(self, map: AttentionMap, view: View) -> list[str]:
        """The labels of the rows; the two of an answer, which was not written but pointed at, say what they are."""
        if map.points and view.kind in ("cross", "decoder"):
            names = self._labels([self._word_at(map, place) for place in view.rows])
            return [f"{what}: {name}" for what, name in zip(("start", "end"), names, strict=True)]
        return self._labels(view.rows)

    def _word_at(self, map: AttentionMap, place: Token) -> Token:
        """The word, of those that were read, that a piece of an answer is a part of; with pieces, the piece."""
        if not self.selection.words:
            return place
        words = self.view(map, "last").columns if self.kind == "cross" else ()
        return next((word for word in words if word.start <= place.start and place.end <= word.end), place)

    def _labels(self, tokens: Sequence[Token]) -> list[str]:
        """Words are called what they say without the spaces around them, in pieces spaces are shown as ▁, as is usual."""
        from . import cells

        return [cells.label(token.text, spaces=not self.selection.words) for token in tokens]


def drawing(map: AttentionMap, form: Form, links: Sequence[tuple[int, int]] | None = None) -> str:
    """The lines for one map, each with a line end: what was read and written, the grid, and what it says in words; `links`
    are the words (of the source, of the output) that belong together. UsageError for a layer, head or row that there is not."""
    from ..model import attention_maps
    from . import cells, heatmap

    style = form.style
    part = f", part {map.part} of {map.parts}" if map.parts > 1 else ""
    head = f"{map.task}{part}: {cells.label(map.source)} {style.drawn('→')} {cells.label(map.output)}"
    points = map.points and form.kind == "cross"
    title = ANSWER if points else TITLES[form.kind].format(unit="word" if form.selection.words else "piece")
    lines = [*_wrapped(head, style), *_wrapped(title, style)]
    draw = heatmap.listing if form.as_list else heatmap.draw
    said: list[str] = []
    if form.row is not None:
        drawn = [line for grid in _rows(map, form, form.row) for line in draw(grid, style)]
    elif form.selection.head is None:
        views = form.heads(map)
        n_layers = attention_maps.n_layers(map, form.kind)
        layer = (
            f"the mean of {n_layers} layers" if views[0].layer == "mean" else f"layer {views[0].layer} of {n_layers}"
        )
        lines += _wrapped(f"{layer}, {len(views)} heads", style)
        grids = [_grid(map, view, form, f"head {view.head}") for view in views]
        drawn = (
            [line for grid in grids for line in draw(grid, style)] if form.as_list else heatmap.gallery(grids, style)
        )
    else:
        view = form.view(map, form.layer)
        drawn = draw(_grid(map, view, form, _place(map, view)), style)
        said = _in_words(map, view, form, links)
    if not form.selection.special:
        said.append("special pieces are left out, so that a row adds up to less than 1")
    elif form.selection.head == "max":
        said.append("the largest of all heads, so that a row adds up to more than 1")
    true_colour = os.environ.get("COLORTERM", "") in ("truecolor", "24bit")
    said = [line for text in said for line in (_wrapped(text, style) if cells.cells(text) > style.columns else [text])]
    return _lines(lines) + heatmap.to_ansi(drawn, style.colour, true_colour) + _lines(said)


def _lines(lines: Sequence[str]) -> str:
    return "".join(line + "\n" for line in lines)


def _grid(map: AttentionMap, view: View, form: Form, title: str) -> Grid:
    from . import heatmap

    return heatmap.Grid(title, form.rows(map, view), form.columns(view), view.weights.tolist())


def _place(map: AttentionMap, view: View) -> str:
    """Which layer and head a view shows, in words."""
    from ..model import attention_maps

    n_layers = attention_maps.n_layers(map, view.kind)
    if view.kind == "rollout":
        return f"up to layer {view.layer} of {n_layers}"
    n_heads = attention_maps.n_heads(map, view.kind)
    layer = f"mean of {n_layers} layers" if view.layer == "mean" else f"layer {view.layer} of {n_layers}"
    head = {"mean": f"mean of {n_heads} heads", "max": f"largest of {n_heads} heads"}
    return f"{layer}, {head.get(view.head, f'head {view.head} of {n_heads}')}"


def _rows(map: AttentionMap, form: Form, wanted: str) -> list[Grid]:
    """A grid for each row that says `wanted`, or has that number: a line for each layer or, with all heads, for each of these."""
    from ..model import attention_maps
    from . import heatmap

    if form.selection.head is None:
        views = form.heads(map)
        names = [f"head {view.head}" for view in views]
    else:
        n_layers = attention_maps.n_layers(map, form.kind)
        views = [form.view(map, layer) for layer in ([form.layer] if form.one_layer else range(1, n_layers + 1))]
        names = [f"layer {view.layer}" for view in views]
    labels = form.rows(map, views[0])
    word = wanted.strip().casefold()
    # the rows of an answer are called "start: …" and "end: …": either part of that will do
    places = [i for i, label in enumerate(labels) if word in (label.casefold(), *label.casefold().split(": ", 1))]
    if not places and word.isdecimal() and 0 < int(word) <= len(labels):
        places = [int(word) - 1]
    if not places:
        raise UsageError(f"--row {wanted}: there is no such row; there are {', '.join(labels)}")
    columns = form.columns(views[0])
    return [
        heatmap.Grid(
            f"{labels[i]} (row {i + 1} of {len(labels)})", names, columns, [view.weights[i].tolist() for view in views]
        )
        for i in places
    ]


def _in_words(map: AttentionMap, view: View, form: Form, pairs: Sequence[tuple[int, int]] | None) -> list[str]:
    """What a map says: how widely each row looks, its strongest links and, of a translation, which words belong together."""
    from ..model import alignment, attention_maps
    from . import cells

    style = form.style
    longest = max(4, (style.columns - 10) // 2)  # of a name: two of them and a number have to fit on a line
    rows, columns = (
        [cells.shorten(name, longest, style.mark) for name in names]
        for names in (form.rows(map, view), form.columns(view))
    )
    said = []
    if form.selection.special and view.head != "max":
        bits = zip(rows, attention_maps.entropy(view.weights), strict=True)
        most = f"of {math.log2(max(1, len(columns))):.1f} at most"
        said.append(("entropy in bits:", [*(f"{row} {value:.1f}" for row, value in bits), most]))
    to = style.drawn("→")
    links = attention_maps.links(view, style.top or STRONGEST)
    said.append(("strongest:", [f"{rows[r]} {to} {columns[c]} {weight:.2f}" for r, c, weight in links]))
    if pairs is not None:
        source, output = (
            [
                cells.shorten(cells.label(text[start:end]), longest, style.mark)
                for start, end in alignment.word_places(tokens, text)
            ]
            for tokens, text in ((map.src, map.source), (map.tgt, map.output))
        )
        place = alignment.default_method(*map.cross.shape[:2]).place  # not what is drawn above
        said.append((f"aligned by {place}:", [f"{source[i]} = {output[j]}" for i, j in pairs]))
    lines = []
    for what, items in said:
        first, *others = items or ["nothing"]
        if cells.cells(f"{what} {first},") > style.columns:
            lines += [what, *cells.flow([first, *others], style.columns, ", ", style.mark)]
        else:
            lines += cells.flow([f"{what} {first}", *others], style.columns, ", ", style.mark)
    return lines


def _wrapped(text: str, style: Style) -> list[str]:
    """A text in lines that fit; one without spaces, as Chinese is, goes on wherever a line is full."""
    from . import cells

    lines = [""]
    for word in text.split(" "):
        if lines[-1] and cells.cells(f"{lines[-1]} {word}") <= style.columns:
            lines[-1] += f" {word}"
            continue
        if lines[-1]:
            lines.append("")
        for character in word:
            if cells.cells(lines[-1] + character) > style.columns:
                lines.append("")
            lines[-1] += character
    return lines
