"""One text over several places: cut by length, where a cut reads well."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from ..segment import inseparable

_NOT_FIRST = frozenset("。，、；：？！）】》」』〉”’…,.;:!?)]}%％—~·-")  # no line begins with one of these
_NOT_LAST = frozenset("（【《「『〈“‘([{$￥#@")  # and none ends with one of these
_CLAUSE = frozenset("。！？；：，、.!?;:,—…")
SHORTEST = 6  # columns, of what may stand alone
_TAG = re.compile(r"<[^<>]*>|\{[^{}]*\}")


def width(text: str) -> int:
    """Columns that a text takes on a screen, tags none."""
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in _TAG.sub("", text))


def spread(text: str, lengths: Sequence[int], tags: Sequence[int] = ()) -> list[str]:
    """The text in as many parts as there are `lengths`, each of about its share of the text, without spaces at their ends.
    Cuts are made at spaces, between Chinese characters, and rather after a mark; not in a word or a tag, and rather so that
    each part has as many `tags` as are given. Where a text has less of these places than are needed, parts are empty."""
    text = text.strip()
    if len(lengths) < 2:
        return [text] * len(lengths)
    places = _cuts(text)
    columns, before_tags = _counts(text)
    total, whole = sum(lengths) or 1, columns[-1]
    at = [columns[place] for place in places]
    parts, start, goal, due = [], 0, 0, 0
    for i, length in enumerate(lengths[:-1]):
        goal += length
        due += tags[i] if tags else 0
        target = whole * goal / total
        later = len(lengths) - 2 - i  # cuts that are still to be made
        open_places = [k for k, place in enumerate(places) if place > start]
        usable = open_places[: len(open_places) - later] or open_places[:1]
        if not usable:
            parts.append("")
            continue
        share = max(1.0, whole * length / total)
        before = columns[start]
        costs = []
        for k in usable:  # how far from its share; less after a mark, more where hardly a word is on a side
            after_mark = text[max(start, places[k] - 2) : places[k]].rstrip()[-1:] in _CLAUSE
            short = at[k] - before < SHORTEST or whole - at[k] < SHORTEST
            strays = abs(before_tags[places[k]] - due) if tags else 0
            costs.append((abs(at[k] - target) / share - 0.25 * after_mark + 0.5 * short + strays, k))
        best = min(costs)[1]
        parts.append(text[start : places[best]].strip())
        start = places[best]
    return [*parts, text[start:].strip()]


def _counts(text: str) -> tuple[list[int], list[int]]:
    """For each place in a text the columns and the tags before it."""
    columns, tags = [0], [0]
    ends = {tag.end(): tag.start() for tag in _TAG.finditer(text)}
    inside = {place for end, start in ends.items() for place in range(start, end)}
    for i, char in enumerate(text):
        columns.append(columns[-1] + (0 if i in inside else 1 + _is_wide(char)))
        tags.append(tags[-1] + (i + 1 in ends))
    return columns, tags


def _cuts(text: str) -> list[int]:
    """Where a text may be cut: the start of what comes after."""
    inside = {place for tag in _TAG.finditer(text) for place in range(tag.start() + 1, tag.end())}
    found = []
    for i in range(1, len(text)):
        before, after = text[i - 1], text[i]
        if i in inside or after.isspace():
            continue
        if before.isspace():
            found.append(i)
        elif _is_wide(before) or _is_wide(after):
            bound = after in _NOT_FIRST or before in _NOT_LAST or inseparable(text, i)
            closing = text.startswith(("</", "{"), i)  # belongs to what is before it
            if not bound and not closing and not (before.isdigit() and after.isdigit()):
                found.append(i)
    return found


def _is_wide(char: str) -> bool:
    return unicodedata.east_asian_width(char) in "WF"
