"""Attention maps as a web page: one file that fetches nothing. attention_page.html is the page; here its data is made."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Sequence
from html import escape
from importlib import resources
from typing import TYPE_CHECKING, Any

from . import shades
from .attention_export import Selection, tables
from .attention_layout import readable
from .picture_colours import colour

if TYPE_CHECKING:
    from ..model.results import AttentionMap, Token

COLOURS = 64
AXES = {"cross": ("tgt", "src"), "encoder": ("src", "src"), "decoder": ("tgt", "fed"), "rollout": ("src", "src")}
NAMES = {
    "cross": "cross: written → source",
    "encoder": "encoder: source → source",
    "decoder": "decoder: written → written",
    "rollout": "rollout of the encoder",
}
LISTED = 3  # strongest links of a word in the table that is shown without JavaScript


def to_html(maps: Sequence[AttentionMap], selection: Selection) -> str:
    """A page with every layer and head of every kind; the selection is what it shows first."""
    page = resources.files(__package__).joinpath("attention_page.html").read_text(encoding="utf-8")
    values = {
        "title": escape(f"Attention: {maps[0].source[:60]}"),
        "heading": escape(f"{maps[0].model} · {maps[0].task}"),
        "static": _static(maps, selection),
        "data": _inside_script(json.dumps(_data(maps, selection), ensure_ascii=False, separators=(",", ":"))),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda place: values[place[1]], page)


def _inside_script(text: str) -> str:
    """JSON that cannot end the script element that it stands in, nor begin a comment there."""
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _data(maps: Sequence[AttentionMap], selection: Selection) -> dict[str, Any]:
    parts = [
        {
            "part": one.part,
            "source": one.source,
            "output": one.output,
            "texts": _texts(one),
            "maps": [_map(one, kind) for kind in _kinds(one)],
        }
        for one in maps
    ]
    kinds = _kinds(maps[0])
    start = {
        "kind": kinds.index(selection.kind) if selection.kind in kinds else 0,
        "unit": "words" if selection.words else "pieces",
        "special": selection.special,
        "scale": selection.scale,
        "panel": _first_panel(maps[0], selection),
    }
    steps = [number / (COLOURS - 1) for number in range(COLOURS)]
    colours = {"light": [colour(step) for step in steps], "dark": [colour(step, dark=True) for step in steps]}
    return {"start": start, "decades": shades.LOG_DECADES, **colours, "parts": parts}


def _kinds(one: AttentionMap) -> list[str]:
    return [kind for kind in AXES if kind != "decoder" or one.decoder is not None]


def _first_panel(one: AttentionMap, selection: Selection) -> dict[str, str]:
    """The layer and the head that are shown first: a number, "mean" (of all, where each was selected) or "max"."""
    from ..model import attention_maps

    layer = selection.layer
    if layer == "last":
        layer = attention_maps.n_layers(one, selection.kind or "cross")
    return {"layer": str(layer or "mean"), "head": str(selection.head or "mean")}


def _texts(one: AttentionMap) -> dict[str, Any]:
    """What is along the axes: of src, tgt and fed the pieces and the words, each with the range of the map's pieces it is."""
    from ..model import attention_maps as maps

    texts = {}
    for name in ("src", "tgt", "fed"):
        tokens: tuple[Token, ...] = getattr(one, name)
        text = one.source if name == "src" or one.points else one.output
        pieces, words = maps.characters(tokens), maps.words(tokens, text)
        if name != "src" and one.points:  # places in the text, not words
            pieces = words = maps.singles(tokens)
        texts[name] = {"pieces": _axis(tokens, text, pieces, True), "words": _axis(tokens, text, words, False)}
    return texts


def _axis(tokens: tuple[Token, ...], text: str, ranges: list[tuple[int, int]], spaces: bool) -> list[dict[str, Any]]:
    from ..model import attention_maps

    merged = attention_maps.merged(tokens, text, ranges)
    return [
        {"label": readable(token.text, spaces), "text": token.text, "special": token.special, "from": start, "to": end}
        for token, (start, end) in zip(merged, ranges, strict=True)
    ]


def _map(one: AttentionMap, kind: str) -> dict[str, Any]:
    import numpy as np

    from ..model import attention_maps

    if kind == "rollout":
        weights = np.array([[attention_maps.rollout(one.encoder, n + 1)] for n in range(len(one.encoder))])
    else:
        weights = np.asarray(getattr(one, kind))
    rows, columns = AXES[kind]
    return {
        "kind": kind,
        "name": NAMES[kind],
        "layers": weights.shape[0],
        "heads": weights.shape[1],
        "rows": rows,
        "columns": columns,
        "weights": base64.b64encode(np.ascontiguousarray(weights, "<f4").tobytes()).decode(),
    }


def _static(maps: Sequence[AttentionMap], selection: Selection) -> str:
    """The texts, and for each word its strongest links, as plain HTML."""
    lines = []
    for one in maps:
        lines.append(f"<p>source: {escape(one.source)}<br>output: {escape(one.output)}</p>")
        for table in tables(one, selection):
            weights = table.weights.mean(axis=(0, 1))
            lines.append(f'<table class="static"><caption>{escape(NAMES[table.kind])}</caption>')
            for token, row in zip(table.rows, weights.tolist(), strict=True):
                strongest = sorted(range(len(row)), key=lambda column: -row[column])[:LISTED]
                links = ", ".join(f"{readable(table.columns[column].text)} {row[column]:.2f}" for column in strongest)
                lines.append(f"<tr><th>{escape(readable(token.text))}</th><td>{escape(links)}</td></tr>")
            lines.append("</table>")
    return "\n".join(lines)
