"""Plain text: each line that is not blank is a unit, its indentation and line end stay."""

from __future__ import annotations

from collections.abc import Mapping

from .document import Document, Edit, Unit, line_starts


class _Line(Unit):
    def render(self, output: str, source: str, edits: Mapping[int, Edit]) -> tuple[str | None, str | None]:
        return " ".join(output.split("\n")).replace("\r", " "), None


def parse(text: str) -> Document:
    units = []
    starts = [*line_starts(text), len(text)]
    for start, following in zip(starts, starts[1:], strict=False):
        line = text[start:following]
        core = line.strip()
        if core:
            first = start + len(line) - len(line.lstrip())
            units.append(_Line(core, first, first + len(core)))
    return Document(text, units)
