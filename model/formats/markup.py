"""Running text with inline marks in it (tags, emphasis, links, code) → units, and translations back between the marks.

A translation should have each mark of its unit once, in a sound order. One that has not is put in without the pairs of
marks that broke, never as broken markup; what cannot be mended leaves the document as it was.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..segment import HAN
from .document import Edit, Span, Unit, apply

_WIDE = f"(?:{HAN}|[\u3000-\u303f\uff00-\uffef])"
_BREAK = re.compile(r"[ \t]*[\r\n]\s*")
_SPACES = re.compile(r"\s+")
MOST_NAMED = 8  # marks in a message


@dataclass(frozen=True)
class Piece:
    """A part of running text: text, or a mark. start, end: its place in the document. `text`: what the unit has for it.

    White space at the ends of a text between two marks is a piece of its own.
    """

    start: int
    end: int
    text: str
    kind: str = "text"  # or "open", "close", "alone"
    name: str = ""  # what an opening mark and the one that closes it have in common
    word: bool = (
        True  # of a mark that stands alone: whether it is a part of the sentence, as code is and a picture is not
    )
    inner: tuple[int, ...] = ()  # where the units in it start
    verbatim: bool = True  # whether a mark is written as the document has it, or as `text`

    @property
    def is_mark(self) -> bool:
        return self.kind != "text"

    @property
    def says_something(self) -> bool:
        return self.word and self.kind in ("text", "alone") and bool(self.text.strip())

    def written(self, source: str, edits: Mapping[int, Edit]) -> str:
        """A mark, as the document has to have it."""
        if not self.verbatim:
            return self.text
        return apply(source, self.start, self.end, {start: edits[start] for start in self.inner if start in edits})


def fold(text: str) -> str:
    """Text with single spaces, and none where a line ended between Chinese characters."""
    if "\n" in text or "\r" in text:
        text = _BREAK.sub("\n", text)
        text = re.sub(rf"(?<={_WIDE})\n(?={_WIDE})", "", text)
    return _SPACES.sub(" ", text)


def has_letters(text: str) -> bool:
    return any(map(str.isalpha, text))


def pairs_of(pieces: Sequence[Piece]) -> dict[int, int]:
    """Opening mark → the mark that closes it, as indices, of those that have both among the pieces."""
    waiting: list[int] = []
    found: dict[int, int] = {}
    for i, piece in enumerate(pieces):
        if piece.kind == "open":
            waiting.append(i)
        elif piece.kind == "close":
            for j in reversed(waiting):
                if pieces[j].name == piece.name:
                    found[j] = i
                    del waiting[waiting.index(j) :]
                    break
    return found


def trim(pieces: Sequence[Piece]) -> list[Piece]:
    """The pieces without white space and marks at the ends that need not be in the unit: pictures, marks around all of it,
    marks whose partner is outside, pairs around nothing."""
    first, last, _ = _trimmed(pieces)
    return list(pieces[first:last])


def _trimmed(pieces: Sequence[Piece]) -> tuple[int, int, tuple[int, int] | None]:
    """Where what `trim` leaves begins and ends, and what the unit takes the place of where that is more: from the first
    mark around it on that is not written as the document has it."""
    pairs = pairs_of(pieces)
    partner = pairs | {close: opening for opening, close in pairs.items()}
    first, last = 0, len(pieces)

    def is_layout(i: int) -> bool:
        if pieces[i].kind in ("open", "close"):
            return i not in partner
        return not pieces[i].says_something

    def says_nothing(start: int, end: int) -> bool:
        return not any(piece.says_something for piece in pieces[start:end])

    around: tuple[int, int] | None = None
    while first < last:
        if is_layout(first):
            first += 1
        elif is_layout(last - 1):
            last -= 1
        elif partner.get(first) == last - 1:
            if not pieces[last - 1].verbatim:
                around = around or (first, last)
            first, last = first + 1, last - 1
        elif first in pairs and says_nothing(first, pairs[first]):
            first = pairs[first] + 1
        elif last - 1 in partner and says_nothing(partner[last - 1], last):
            last = partner[last - 1]
        else:
            break
    return first, last, around


class MarkedUnit(Unit):
    """A unit of running text. A format says how text is written between the marks (`escape`), what may have to stand between
    text and marks (`mend`), and what sound markup is (`sound`)."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        first, last, around = _trimmed(pieces)
        self.pieces = _joined(pieces[first:last])
        outer = around or (first, last)
        self.before, self.after = pieces[outer[0] : first], pieces[last : outer[1]]
        spans: list[Span] = []
        length = 0
        for piece in self.pieces:
            end = length + len(piece.text)
            if piece.is_mark and spans and spans[-1][1] == length:
                spans[-1] = (spans[-1][0], end)
            elif piece.is_mark:
                spans.append((length, end))
            length = end
        start, end = (pieces[outer[0]].start, pieces[outer[1] - 1].end) if self.pieces else (0, 0)
        super().__init__("".join(piece.text for piece in self.pieces), start, end, spans)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is to be translated here."""
        return not has_letters("".join(piece.text for piece in self.pieces if not piece.is_mark))

    def escape(self, text: str, first: bool) -> str:
        """Text as it is written in the document; `first`: what stands in the document begins with it."""
        return text

    def mend(self, pieces: list[Piece]) -> list[Piece]:
        return pieces

    def sound(self, pieces: Sequence[Piece], written: str, complete: bool) -> bool:
        """Whether what is written is sound; `complete`: with all the marks of the unit."""
        return True

    def fits(self, output: str, terms: Sequence[tuple[int, int, str]] = ()) -> bool:
        pieces, complete = self._read(output.strip())
        return complete and _nesting(pieces) == _nesting(self.pieces) and self._has_in_place(pieces, terms)

    def _has_in_place(self, pieces: Sequence[Piece], terms: Sequence[tuple[int, int, str]]) -> bool:
        """Whether what each term became stands between the same pairs of marks as the term, as far as it is there."""
        wanted: Counter[tuple[str, frozenset[int]]] = Counter()
        place, own = 0, _around(self.pieces)
        for i, piece in enumerate(self.pieces):
            end = place + len(piece.text)
            if not piece.is_mark:
                wanted.update((term, own[i]) for start, stop, term in terms if place <= start and stop <= end)
            place = end
        found: Counter[tuple[str, frozenset[int]]] = Counter()
        for piece, around in zip(pieces, _around(pieces), strict=True):
            if not piece.is_mark:
                found.update({(term, around): piece.text.count(term) for term in {term for term, _ in wanted}})
        return all(
            (asked <= there) if asked.total() <= there.total() else there <= asked
            for term in {term for term, _ in wanted}
            for asked, there in [[Counter({k: n for k, n in some.items() if k[0] == term}) for some in (wanted, found)]]
        )

    def runs(self) -> list[str]:
        return [piece.text.strip() for piece in self.pieces if not piece.is_mark and has_letters(piece.text)]

    def of_runs(self, outputs: Sequence[str]) -> str:
        waiting, parts = iter(outputs), []
        for piece in self.pieces:
            text = piece.text
            if not piece.is_mark and has_letters(text):
                start, end = len(text) - len(text.lstrip()), len(text.rstrip())
                text = text[:start] + (next(waiting).strip() or text.strip()) + text[end:]
            parts.append(text)
        return "".join(parts)

    def render(self, output: str, source: str, edits: Mapping[int, Edit]) -> tuple[str | None, str | None]:
        pieces, complete = self._read(output.strip())
        pieces = self._tidied(pieces)
        if complete:
            for candidate in (pieces, self.mend(pieces)):
                written = self._write(candidate, source, edits)
                if self.sound(candidate, written, True):
                    return written, None
        for candidate in (self._without_broken(pieces), self._without_pairs(pieces)):
            written = self._write(self.mend(candidate), source, edits)
            if self.sound(candidate, written, False):
                return written, self._what_happened(pieces, candidate)
        return None, "the translation does not fit the markup around it; left as it is"

    def _tidied(self, pieces: Sequence[Piece]) -> list[Piece]:
        """Without spaces that came to stand between a pair of marks, at its ends: they go outside, or, next to Chinese, away."""
        own = self.pieces
        spaced = {id(a) for a, b in itertools.pairwise(own) if a.kind == "open" and b.text[:1] == " "}
        spaced |= {id(b) for a, b in itertools.pairwise(own) if b.kind == "close" and a.text[-1:] == " "}
        found = list(pieces)
        for step, kind in ((1, "open"), (-1, "close")):
            for i in range(len(found))[::-step]:
                outside, inside = i - step, i + step
                if found[i].kind != kind or id(found[i]) in spaced or not 0 <= inside < len(found):
                    continue
                text = found[inside].text
                core = text.lstrip(" ") if step > 0 else text.rstrip(" ")
                if found[inside].is_mark or core == text or not core:
                    continue
                found[inside] = dataclasses.replace(found[inside], text=core)
                other = found[outside] if 0 <= outside < len(found) else None
                if other is not None and not other.is_mark:
                    parts = (other.text, core) if step > 0 else (core, other.text)
                    if not re.search(rf"{_WIDE}$|\s$", parts[0]) and not re.match(rf"{_WIDE}|\s|[,.;:!?)]", parts[1]):
                        spaced_out = f"{other.text} " if step > 0 else f" {other.text}"
                        found[outside] = dataclasses.replace(other, text=spaced_out)
        return found

    def _read(self, output: str) -> tuple[list[Piece], bool]:
        """Text and marks of a translation, and whether it has each mark as often as the unit. Of marks that look alike
        the first is taken for the first of the unit, and so on; what is too many has the kind "surplus"."""
        single = {piece.text for piece in self.pieces if piece.is_mark}
        if not single:
            return _joined([Piece(0, 0, output)]), True
        # marks next to each other are looked for as one first: `***` is `*` and `**` as the unit has it
        pieces, complete = self._read_by(output, single | {self.text[start:end] for start, end in self.protected})
        return (pieces, True) if complete else self._read_by(output, single)

    def _read_by(self, output: str, strings: set[str]) -> tuple[list[Piece], bool]:
        pattern = re.compile("|".join(map(re.escape, sorted(strings, key=len, reverse=True))))
        place, marks = 0, dict[int, Piece]()
        for piece in self.pieces:
            if piece.is_mark:
                marks[place] = piece
            place += len(piece.text)
        left: dict[str, list[list[Piece]]] = {}
        for match in pattern.finditer(self.text):
            here = [marks[i] for i in range(*match.span()) if i in marks]
            if "".join(piece.text for piece in here) != match[0]:
                here = [Piece(0, 0, match[0])]  # looks like a mark and is none: it stays text in the translation
            left.setdefault(match[0], []).append(here)
        found: list[Piece] = []
        done, complete = 0, True
        for match in pattern.finditer(output):
            if done < match.start():
                found.append(Piece(0, 0, output[done : match.start()]))
            surplus = not left.get(match[0])
            found += [Piece(0, 0, match[0], "surplus")] if surplus else left[match[0]].pop(0)
            complete = complete and not surplus
            done = match.end()
        if done < len(output):
            found.append(Piece(0, 0, output[done:]))
        return _joined(found), complete and not any(left.values())

    def _write(self, pieces: Sequence[Piece], source: str, edits: Mapping[int, Edit]) -> str:
        return "".join(
            piece.written(source, edits) if piece.is_mark else self.escape(piece.text, i == 0)
            for i, piece in enumerate([*self.before, *pieces, *self.after])
        )

    def _without_broken(self, pieces: Sequence[Piece]) -> list[Piece]:
        """Without marks that are too many, or have no partner or nothing between them; marks that stand alone and are
        missing come at the end."""
        pieces = [piece for piece in pieces if piece.kind != "surplus"]
        pairs = {i: j for i, j in pairs_of(pieces).items() if any(p.says_something for p in pieces[i + 1 : j])}
        whole = {*pairs, *pairs.values()}
        kept = [p for i, p in enumerate(pieces) if p.kind in ("text", "alone") or i in whole]
        there = set(map(id, kept))
        for mark in self.pieces:
            if mark.kind == "alone" and id(mark) not in there:
                kept += [Piece(0, 0, " "), mark]
        return _joined(kept)

    def _without_pairs(self, pieces: Sequence[Piece]) -> list[Piece]:
        return _joined([piece for piece in self._without_broken(pieces) if piece.kind in ("text", "alone")])

    def _what_happened(self, pieces: Sequence[Piece], kept: Sequence[Piece]) -> str:
        gone = Counter(p.text for p in self.pieces if p.is_mark) - Counter(p.text for p in kept if p.is_mark)
        if gone:
            return f"the translation broke the markup; left out: {_some(list(gone.elements()))}"
        there = set(map(id, pieces))
        moved = [p.text for p in kept if p.is_mark and id(p) not in there]
        if moved:
            return f"the translation lost the place of {_some(moved)}; put at the end"
        return "the translation had marks twice; the first ones are kept"


def _some(marks: Sequence[str]) -> str:
    more = f" and {len(marks) - MOST_NAMED} more" if len(marks) > MOST_NAMED else ""
    return " ".join(marks[:MOST_NAMED]) + more


def _around(pieces: Sequence[Piece]) -> list[frozenset[int]]:
    """For each piece which pairs of marks are around it."""
    pairs = pairs_of(pieces)
    closes = {close: opening for opening, close in pairs.items()}
    found: list[frozenset[int]] = []
    here: frozenset[int] = frozenset()
    for i, piece in enumerate(pieces):
        if i in closes:
            here -= {id(pieces[closes[i]])}
        found.append(here)
        if i in pairs:
            here |= {id(piece)}
    return found


def _nesting(pieces: Sequence[Piece]) -> dict[int, tuple[int, bool]] | None:
    """For each opening mark the one around it (0: none) and whether something stands between it and its partner; None
    where marks are not closed in the order in which they were opened."""
    found: dict[int, tuple[int, bool]] = {}
    pairs = pairs_of(pieces)
    waiting: list[int] = []
    for i, piece in enumerate(pieces):
        if i in pairs:
            says = any(p.says_something for p in pieces[i + 1 : pairs[i]])
            found[id(piece)] = (id(pieces[waiting[-1]]) if waiting else 0, says)
            waiting.append(i)
        elif piece.kind == "close" and (not waiting or pairs[waiting.pop()] != i) or piece.kind == "open":
            return None
    return None if waiting else found


def _joined(pieces: Sequence[Piece]) -> list[Piece]:
    """The pieces with texts that are next to each other as one, folded, without spaces at the ends."""
    found: list[Piece] = []
    for piece in pieces:
        if found and not piece.is_mark and not found[-1].is_mark:
            found[-1] = Piece(found[-1].start, piece.end, found[-1].text + piece.text)
        else:
            found.append(piece)
    for i, piece in enumerate(found):
        if not piece.is_mark:
            text = fold(piece.text)
            text = text.lstrip() if i == 0 else text
            found[i] = Piece(piece.start, piece.end, text.rstrip() if i + 1 == len(found) else text)
    return found
