"""Attention maps as a file: JSON, CSV and NPZ are written here, SVG and PNG by attention_picture, HTML by attention_page.

The JSON schema, "tx-attention/1", is one object:

    schema   "tx-attention/1"; a change that could break a reader changes the number
    model    the model's folder         task     its name in the model: "translate:en", "summarize", "answer"
    words    true: pieces are put together to words (columns add up, rows are averaged); false: the pieces, only the
             bytes of one character put together
    special  false: special pieces (`</s>`, `<translate:zh>`) are left out
    digits   decimal places that the weights are rounded to: 8, so that a row of 100 still adds up to 1 within 1e-6
    parts    a list, one entry for each text that was fed by itself: a text of several sentences is translated one by one
      part     its number, from 1        offset   the character of the whole text at which its source begins
      source, output                     the text that was read, the text that was written (for an answer: pointed at)
      flags    what the run noticed: "cut", "looped", …
      alignment                          of a translation: source_words and output_words, lists of [start, end] in
                                         characters, and links, a list of [source word, output word], from 0
      maps     a list, one entry for each kind
        kind     "cross", "encoder", "decoder" or "rollout"
        layers, heads                    what the two outer lists of `weights` are: "1", "2", …, "mean" or "max"
        rows, columns                    lists of {"text", "start", "end", "special"}; start and end count characters. The text
                                         is that between them, spaces included; only a special piece, a byte that is no
                                         character (`<0xE4>`) and a control character have their name, and the first two start = end
        rows_in, columns_in              "source" or "output": the text that start and end point into
        rows_sum_to_one                  whether every row adds up to 1 within 1e-5: not with special pieces
                                         left out, nor with the largest of all heads
        weights  [layers][heads][rows][columns]: how much the row looked at the column, from 0 to 1

    jq '.parts[0].maps[0] | {rows: [.rows[].text], columns: [.columns[].text], weights: .weights[0][0]}' map.json
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from ..model.errors import UsageError

if TYPE_CHECKING:
    from ..model.results import AttentionMap, Token

LinksOf = Callable[["AttentionMap"], list[tuple[int, int]]]
SCHEMA = "tx-attention/1"
FORMATS = ("json", "csv", "npz", "svg", "png", "html")
DIGITS = 8
TOLERANCE = 1e-5
CSV_HEADER = ("part", "kind", "layer", "head", "row", "row_text", "column", "column_text", "weight")


@dataclass(frozen=True)
class Selection:
    """What of the maps is written. None means each: every kind that the model has, every layer, every head.

    layer: a number from 1, "mean" or "last"; head: a number from 1, "mean" or "max". `scale` and `values` are of pictures:
    what the darkest colour stands for, the largest weight of each row or of all ("row", "global"), or "log", and
    whether the numbers are written into the cells.
    """

    kind: str | None = "cross"
    layer: int | str | None = "last"
    head: int | str | None = "mean"
    words: bool = True
    special: bool = True
    scale: str = "row"
    values: bool = False


class Exported(NamedTuple):
    """A file's content, and what its reader should be told (one line each)."""

    data: bytes
    warnings: tuple[str, ...] = ()


class Table(NamedTuple):
    """One kind of a map as it was selected: weights [layers, heads, rows, columns], float32."""

    kind: str
    layers: tuple[str, ...]
    heads: tuple[str, ...]
    rows: tuple[Token, ...]
    columns: tuple[Token, ...]
    weights: Any


def export(
    format: str, maps: Sequence[AttentionMap], selection: Selection, links_of: LinksOf | None = None
) -> Exported:
    """The maps of one run as a file; JSON has the word alignment that `links_of` finds in each. NPZ and HTML hold all layers and heads, whatever is selected. UsageError for an
    unknown format, and for a kind, layer or head that the model does not have."""
    if format == "json":
        return Exported(to_json(maps, selection, links_of).encode())
    if format == "csv":
        return Exported(to_csv(maps, selection).encode())
    if format == "npz":
        return Exported(to_npz(maps))
    if format in ("svg", "png"):
        from . import attention_picture

        if format == "svg":
            return Exported(attention_picture.to_svg(maps, selection).encode())
        return Exported(*attention_picture.to_png(maps, selection))
    if format == "html":
        from . import attention_page

        return Exported(attention_page.to_html(maps, selection).encode())
    raise UsageError(f"unknown format {format!r}: choose from {', '.join(FORMATS)}")


def tables(one: AttentionMap, selection: Selection) -> list[Table]:
    """What is selected of one map, a table for each kind."""
    if selection.kind is not None:
        return [_table(one, selection.kind, selection)]
    kinds = ("cross", "encoder", "decoder") if one.decoder is not None else ("cross", "encoder")
    return [_table(one, kind, selection) for kind in kinds]


def _table(one: AttentionMap, kind: str, selection: Selection) -> Table:
    import numpy as np

    from ..model import attention_maps

    layers = _each(selection.layer, attention_maps.n_layers(one, kind))
    heads = _each(selection.head, 0 if kind == "rollout" else attention_maps.n_heads(one, kind))
    views = [
        [
            attention_maps.view(one, kind, layer=layer, head=head, words=selection.words, special=selection.special)
            for head in heads
        ]
        for layer in layers
    ]
    return Table(
        kind,
        tuple(row[0].layer for row in views),
        tuple(view.head for view in views[0]),
        views[0][0].rows,
        views[0][0].columns,
        np.array([[view.weights for view in row] for row in views], np.float32),
    )


def _each(choice: int | str | None, count: int) -> list[int | str]:
    """The choice itself, or all numbers up to `count`; a rollout has no heads: it is of their mean."""
    if choice is not None:
        return [choice]
    return list(range(1, count + 1)) or ["mean"]


def places_in(one: AttentionMap, kind: str) -> tuple[str, str]:
    """Which text the places of the rows and of the columns of a kind point into, "source" or "output"."""
    written = "source" if one.points else "output"
    return {"cross": (written, "source"), "decoder": (written, written)}.get(kind, ("source", "source"))


def token_as_json(token: Token) -> dict[str, Any]:
    return {"text": token.text, "start": token.start, "end": token.end, "special": token.special}


def to_json(maps: Sequence[AttentionMap], selection: Selection, links_of: LinksOf | None = None) -> str:
    """The maps by the schema above, on one line."""
    document = {
        "schema": SCHEMA,
        "model": maps[0].model,
        "task": maps[0].task,
        "words": selection.words,
        "special": selection.special,
        "digits": DIGITS,
        "parts": [_part_as_json(one, selection, links_of) for one in maps],
    }
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")) + "\n"


def _part_as_json(one: AttentionMap, selection: Selection, links_of: LinksOf | None) -> dict[str, Any]:
    part = {
        "part": one.part,
        "offset": one.offset,
        "source": one.source,
        "output": one.output,
        "flags": list(one.flags),
        "maps": [_table_as_json(table, *places_in(one, table.kind)) for table in tables(one, selection)],
    }
    if links_of is not None:
        from ..model import alignment

        part["alignment"] = {
            "source_words": _without_spaces(alignment.word_places(one.src, one.source), one.source),
            "output_words": _without_spaces(alignment.word_places(one.tgt, one.output), one.output),
            "links": links_of(one),
        }
    return part


def _without_spaces(places: Sequence[tuple[int, int]], text: str) -> list[tuple[int, int]]:
    """Places without the spaces that pieces begin with."""
    words = [text[start:end] for start, end in places]
    return [
        (end - len(word.lstrip()), end - len(word) + len(word.rstrip()))
        for (_, end), word in zip(places, words, strict=True)
    ]


def _table_as_json(table: Table, rows_in: str, columns_in: str) -> dict[str, Any]:
    weights = _rounded(table.weights)
    return {
        "kind": table.kind,
        "layers": table.layers,
        "heads": table.heads,
        "rows": [token_as_json(token) for token in table.rows],
        "columns": [token_as_json(token) for token in table.columns],
        "rows_in": rows_in,
        "columns_in": columns_in,
        "rows_sum_to_one": add_up(weights),
        "weights": weights.tolist(),
    }


def add_up(weights: Any) -> bool:
    """Whether each row adds up to 1."""
    return bool((abs(weights.sum(-1, dtype="float64") - 1) <= TOLERANCE).all())


def _rounded(weights: Any) -> Any:
    return weights.astype("float64").round(DIGITS)


def to_csv(maps: Sequence[AttentionMap], selection: Selection) -> str:
    """One long table (RFC 4180), a line for each cell; rows, columns, layers and heads count from 1."""
    file = io.StringIO(newline="")
    writer = csv.writer(file)
    writer.writerow(CSV_HEADER)
    for one in maps:
        for table in tables(one, selection):
            _write_table(writer, one.part, table)
    return file.getvalue()


def _write_table(writer: Any, part: int, table: Table) -> None:
    for layer, of_layer in zip(table.layers, _rounded(table.weights).tolist(), strict=True):
        for head, of_head in zip(table.heads, of_layer, strict=True):
            for row, (written, weights) in enumerate(zip(table.rows, of_head, strict=True), 1):
                for column, (read, weight) in enumerate(zip(table.columns, weights, strict=True), 1):
                    cell = (row, written.text, column, read.text, f"{weight:.{DIGITS}f}")
                    writer.writerow((part, table.kind, layer, head, *cell))


def to_npz(maps: Sequence[AttentionMap]) -> bytes:
    """The arrays as the model made them, for numpy.load: encoder, decoder (if there is one) and cross, [layers, heads,
    rows, columns], float32; src, tgt and fed, the pieces, with src_places, tgt_places and fed_places [pieces, 2] in
    characters and src_special, …; source, output, model, task and offset. If there are several parts, the names end in _1,
    _2, …"""
    import numpy as np

    arrays: dict[str, Any] = {}
    for one in maps:
        suffix = f"_{one.part}" if len(maps) > 1 else ""
        for kind in ("encoder", "decoder", "cross"):
            if getattr(one, kind) is not None:
                arrays[kind + suffix] = np.asarray(getattr(one, kind), np.float32)
        for name in ("src", "tgt", "fed"):
            tokens = getattr(one, name)
            arrays[name + suffix] = np.array([token.text for token in tokens], np.str_)
            arrays[f"{name}_places{suffix}"] = np.array([(token.start, token.end) for token in tokens], np.int64)
            arrays[f"{name}_special{suffix}"] = np.array([token.special for token in tokens], np.bool_)
        for name in ("source", "output", "model", "task", "offset"):
            arrays[name + suffix] = np.array(getattr(one, name))
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    return file.getvalue()
