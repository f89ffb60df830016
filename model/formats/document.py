"""A document: its text, the units in it, and how their translations get into their places."""

from __future__ import annotations

import bisect
import re
from collections.abc import Callable, Mapping, Sequence

Span = tuple[int, int]
Edit = tuple[int, str]  # where what is replaced ends, and what stands there instead


class Unit:
    """A text in a document that is translated as one.

    text: what the translator gets. start, end: the place in the document that its translation takes. protected: parts of
    `text` that must be in the translation as they are, once each.
    """

    def __init__(self, text: str, start: int, end: int, protected: Sequence[Span] = ()) -> None:
        self.text = text
        self.start, self.end = start, end
        self.protected = list(protected)

    def render(self, output: str, source: str, edits: Mapping[int, Edit]) -> tuple[str | None, str | None]:
        """What stands in the document for a translation that differs from `text`, and what went wrong if something did.
        None for the first leaves the place as it is. `source` is the document's text; `edits`, by where they start, are
        those of the units that stand inside this one."""
        return output, None

    def fits(self, output: str, terms: Sequence[tuple[int, int, str]] = ()) -> bool:
        """Whether a translation has all that must be in it, in a sound order, and what each of the `terms` (start and end
        in `text`, and what it becomes) where the term was: in the same link, say."""
        return True

    def runs(self) -> list[str]:
        """The parts of `text` between its marks, for a translation that does not fit: each is translated by itself."""
        return [self.text]

    def of_runs(self, outputs: Sequence[str]) -> str:
        """`text` with the translations of its parts in their places."""
        return outputs[0]


class Document:
    """The units of a text. Lists of the same length: `texts` to be translated, `protected` spans of each that must come out
    unchanged, `lines` (from 1) where each starts. `problems` says what could not be read as it should, and after `fill`
    what could not be put in its place."""

    def __init__(self, source: str, units: Sequence[Unit], problems: Sequence[str] = ()) -> None:
        self.source = source
        self.units = sorted(units, key=lambda unit: (unit.start, -unit.end))
        self.found = list(problems)
        self.problems = list(problems)
        line_of = line_counter(source)
        self.texts = [unit.text for unit in self.units]
        self.protected = [unit.protected for unit in self.units]
        self.lines = [line_of(unit.start) for unit in self.units]

    def fill(self, outputs: Sequence[str]) -> str:
        """The document with an output in the place of each of `texts`. A unit whose output is its own text keeps its
        bytes, so that fill(texts) is the text that was parsed. Raises ValueError for another number of outputs."""
        check_count(outputs, self.texts)
        self.problems = list(self.found)
        edits: dict[int, Edit] = {}
        problems: dict[int, str] = {}
        # a shorter one may stand in a longer one: in a tag of it
        for i in sorted(range(len(self.units)), key=lambda i: self.units[i].end - self.units[i].start):
            unit, output = self.units[i], outputs[i]
            if output == unit.text:
                continue
            if not output.strip():
                problems[i] = "the translation is empty; left as it is"
                continue
            written, problem = unit.render(output, self.source, edits)
            if problem:
                problems[i] = problem
            if written is not None:
                edits[unit.start] = (unit.end, written)
        self.problems += [f"line {self.lines[i]}: {problems[i]}" for i in sorted(problems)]
        return apply(self.source, 0, len(self.source), edits)


def apply(source: str, start: int, end: int, edits: Mapping[int, Edit]) -> str:
    """source[start:end] with the edits in it; of two, one in the other, the outer one counts."""
    parts: list[str] = []
    done = start
    for place in sorted(edits):
        stop, text = edits[place]
        if place < done or stop > end:  # (what is outside, too)
            continue
        parts += [source[done:place], text]
        done = stop
    return "".join([*parts, source[done:end]])


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def check_count(outputs: Sequence[str], texts: Sequence[str]) -> None:
    if len(outputs) != len(texts):
        raise ValueError(f"{len(outputs)} outputs for {len(texts)} units")


def line_counter(text: str) -> Callable[[int], int]:
    """A function that gives the number of the line, from 1, at a place in a text."""
    starts = line_starts(text)
    return lambda place: bisect.bisect_right(starts, place)


def line_starts(text: str) -> list[int]:
    """Where the lines of a text start; the last one may be empty. "\\r\\n", "\\n" and "\\r" end a line."""
    return [0, *(match.end() for match in re.finditer(r"\r\n?|\n", text))]
