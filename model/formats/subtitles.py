"""SubRip (.srt) and WebVTT (.vtt): numbers, timings, settings and notes stay; a sentence over several cues is translated as one.

Turns (module cues) of cues that follow one another are put together to a *flow* where the sentence goes on; its translation is
spread over the same turns again, by length.
"""

from __future__ import annotations

import bisect
import html
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ..errors import InputError
from ..segment import END_MARKS, sentences, speech_marks
from .cues import Turn, cues
from .document import Document, Span, Unit, check_count, words
from .markup import MarkedUnit, Piece, fold, pairs_of
from .spread import spread, width

LINE_WIDTH = 42  # columns, as subtitles have; a longer text gets a second line
MOST_TURNS = 8  # in one flow
PAUSE = 3.0  # seconds, after which no sentence goes on
_CLOSING = "\"'”’»)]}」』）】》〉"
# After these no sentence ends, whatever follows.
_GOES_ON = words(
    "a an the and or but nor so of to in on at by for from with into onto over under about as than that which who whose is are "
    "was were be been am my your his her its our their this these those if when while because i you he she we they"
)


class _Sentence(MarkedUnit):
    """A sentence of a flow; `span` is its place there, `start` about that in the document."""

    def __init__(self, pieces: Sequence[Piece], vtt: bool) -> None:
        super().__init__(pieces)
        self.vtt = vtt
        self.span = (self.start, self.end)

    def escape(self, text: str, first: bool) -> str:
        return html.escape(text, quote=False) if self.vtt else text

    def sound(self, pieces: Sequence[Piece], written: str, complete: bool) -> bool:
        marks = [piece for piece in pieces if piece.kind in ("open", "close")]
        own = [piece for piece in self.pieces if piece.kind in ("open", "close")]
        return 2 * len(pairs_of(marks)) == len(marks) or marks == own


@dataclass
class Flow:
    turns: list[Turn]
    text: str = ""
    units: list[_Sentence] = field(default_factory=list)


def parse(text: str, name: str) -> Document:
    """The document of a file of subtitles; `name` is "srt" or "vtt". Raises InputError where it is none."""
    vtt = name == "vtt"
    if vtt and text.strip() and not text.startswith("WEBVTT"):
        raise InputError("line 1: not WebVTT: it does not begin with WEBVTT")
    found = cues(text, vtt)
    if text.strip() and not vtt and not found:
        raise InputError("not SubRip: no line like 00:00:01,000 --> 00:00:02,500 found")
    return _Subtitles(text, _flows(found), vtt)


def _flows(cues_: Sequence[Sequence[Turn]]) -> list[Flow]:
    turns = [turn for cue in cues_ for turn in cue]
    marked = sum(_ends_here(turn.text) for turn in turns)
    trusted = 3 * marked >= len(turns)  # sentences have marks in this file: where there is none, it goes on
    flows: list[Flow] = []
    for turn in turns:
        last = flows[-1].turns[-1] if flows else None
        if last and len(flows[-1].turns) < MOST_TURNS and _goes_on(last, turn, trusted):
            flows[-1].turns.append(turn)
        else:
            flows.append(Flow([turn]))
    return flows


def _bare(pieces: Sequence[Piece]) -> str:
    return "".join(piece.text for piece in pieces if not piece.is_mark).strip()


def _ends_here(text: str) -> bool:
    return text.rstrip(_CLOSING + " ")[-1:] in set(END_MARKS)


def _goes_on(before: Turn, after: Turn, trusted: bool) -> bool:
    """Whether a sentence of the one turn goes on in the other, of the next cue."""
    said, following = _bare(before.pieces), _bare(after.pieces)
    pause = after.begins - before.ends
    if not after.opens_cue or not said or not following or not -PAUSE <= pause <= PAUSE:
        return False
    if before.done or after.new or said[-1] in ")]" or following[0] in "([":
        return False
    first = following.lstrip("\"'“‘….")[:1]
    if _ends_here(said):
        return said.rstrip(_CLOSING).endswith(("...", "…")) and (first.islower() or following.startswith(("...", "…")))
    if first.islower() or said[-1] in ",;:，、；：—–-":
        return True
    if said.split()[-1].lower() in _GOES_ON:
        return True
    return trusted and pause <= 1.0 and first.isalnum() and first.upper() != first.lower()


class _Subtitles(Document):
    def __init__(self, source: str, flows: list[Flow], vtt: bool) -> None:
        self.flows = flows
        self.line_end = next(iter(re.findall(r"\r\n|\n|\r", source)), "\n")
        for flow in flows:
            _find_sentences(flow, vtt)
        super().__init__(source, [unit for flow in flows for unit in flow.units])

    def fill(self, outputs: Sequence[str]) -> str:
        check_count(outputs, self.texts)
        self.problems = list(self.found)
        index = {id(unit): i for i, unit in enumerate(self.units)}
        parts: list[str] = []
        done = 0
        for flow in self.flows:
            changed: dict[int, str] = {}
            for k, unit in enumerate(flow.units):
                i = index[id(unit)]
                written = self._written(unit, outputs[i], i)
                if written is not None:
                    changed[k] = written
            for turn, text in _said(flow, changed):
                parts += [self.source[done : turn.first], self._wrapped(text, turn.lines)]
                done = turn.last
        return "".join([*parts, self.source[done:]])

    def _written(self, unit: Unit, output: str, i: int) -> str | None:
        if output == unit.text:
            return None
        if not output.strip():
            self.problems.append(f"line {self.lines[i]}: the translation is empty; left as it is")
            return None
        # a blank line would end the cue, and an arrow be a timing
        written, problem = unit.render(output.replace("-->", "→"), "", {})
        if problem:
            self.problems.append(f"line {self.lines[i]}: {problem}")
        return written

    def _wrapped(self, text: str, lines: int) -> str:
        wanted = min(max(lines, 2), math.ceil(width(text) / LINE_WIDTH))
        return self.line_end.join(filter(None, spread(text, [1] * wanted)))


def _find_sentences(flow: Flow, vtt: bool) -> None:
    """Puts the turns of a flow together and finds the sentences in that."""
    pieces: list[Piece] = []
    blank = ""  # the text, with spaces for marks
    for turn in flow.turns:
        if pieces:
            between = fold(f"{pieces[-1].text}\n{turn.pieces[0].text}")
            if " " in between[len(pieces[-1].text.rstrip()) :][:1]:
                pieces.append(Piece(len(flow.text), len(flow.text) + 1, " "))
                flow.text, blank = flow.text + " ", blank + " "
        start = len(flow.text)
        for piece in turn.pieces:
            place = len(flow.text)
            pieces.append(
                Piece(place, place + len(piece.text), piece.text, piece.kind, piece.name, piece.word, verbatim=False)
            )
            flow.text += piece.text
            blank += " " * len(piece.text) if piece.is_mark and not piece.word else piece.text
        turn.span = (start, len(flow.text))
    pairs = [(pieces[i], pieces[j]) for i, j in pairs_of(pieces).items()]
    done = 0
    for start, end in _with_whole_speech(blank):
        start = min([start, *(o.start for o, c in pairs if done <= o.start < start < c.start < end)])
        end = max(
            [end, *(c.end for o, c in pairs if start <= o.start < end <= c.start and not blank[end : c.start].strip())]
        )
        unit = _Sentence([part for piece in pieces for part in _between(piece, start, end)], vtt)
        done = end
        if unit.is_empty:
            continue
        turn = flow.turns[max(0, bisect.bisect_right([t.span[0] for t in flow.turns], unit.span[0]) - 1)]
        unit.start = min(turn.first + unit.span[0] - turn.span[0], turn.last - 1)
        unit.end = unit.start
        flow.units.append(unit)


def _with_whole_speech(text: str) -> Iterator[Span]:
    """The sentences of a text, those of a speech in quotation marks as one: so both marks are in one unit."""
    bounds = sentences(text)
    marks = speech_marks(text, bounds)
    first = None
    for start, end in bounds:
        first = start if first is None else first
        if bisect.bisect_left(marks, end) % 2 == 0:
            yield first, end
            first = None
    if first is not None:
        yield first, bounds[-1][1]


def _between(piece: Piece, start: int, end: int) -> list[Piece]:
    """The part of a piece in flow.text[start:end], if there is any; marks are not cut."""
    first, last = max(piece.start, start), min(piece.end, end)
    if first >= last or (piece.is_mark and (first, last) != (piece.start, piece.end)):
        return []
    return [piece] if piece.is_mark else [Piece(first, last, piece.text[first - piece.start : last - piece.start])]


def _said(flow: Flow, changed: dict[int, str]) -> Iterator[tuple[Turn, str]]:
    """The turns of a flow with something changed in them, and their new text."""
    texts = [""] * len(flow.turns)
    touched: set[int] = set()
    done = 0
    for k, unit in enumerate(flow.units):
        _add_literal(flow, texts, done, unit.span[0], bool(changed))
        within = [(i, max(t.span[0], unit.span[0]), min(t.span[1], unit.span[1])) for i, t in enumerate(flow.turns)]
        within = [(i, start, end) for i, start, end in within if start < end]
        if k in changed:
            here = [flow.text[start:end] for _, start, end in within]
            tags = [len(re.findall(r"<[^<>]*>", text)) for text in here]
            parts = _balanced(spread(changed[k], [max(1, width(text)) for text in here], tags))
            for (i, _, _), part in zip(within, parts, strict=True):
                texts[i] += part
                touched.add(i)
        else:
            for i, start, end in within:
                own = [part for piece in unit.pieces for part in _between(piece, start, end)]
                texts[i] += "".join(p.text if p.is_mark else unit.escape(p.text, False) for p in own)
        done = unit.span[1]
    _add_literal(flow, texts, done, len(flow.text), bool(changed))
    return ((flow.turns[i], texts[i].strip()) for i in sorted(touched))


def _add_literal(flow: Flow, texts: list[str], start: int, end: int, changed: bool) -> None:
    """Adds what stands between two sentences: marks, and a space where there is none between Chinese ones."""
    for i, turn in enumerate(flow.turns):
        first, last = max(start, turn.span[0]), min(end, turn.span[1])
        if first < last:
            literal = flow.text[first:last]
            after_wide = changed and texts[i][-1:] and texts[i][-1] in "。！？…”’》）"
            texts[i] += literal.lstrip() if after_wide else literal


def _balanced(parts: Sequence[str]) -> list[str]:
    """Tags that a cut parted are closed before it and opened again after it; a part without text has that of another."""
    found: list[str] = []
    opened: list[tuple[str, str]] = []
    for i, part in enumerate(parts):
        if not part:
            found.append(next((other for other in [*found[::-1], *parts[i:]] if other), ""))
            continue
        text = "".join(tag for _, tag in opened) + part
        for match in re.finditer(r"<(/?)([a-zA-Z]+)[^<>]*>", part):
            if not match[1]:
                opened.append((match[2], match[0]))
            elif opened and opened[-1][0] == match[2]:
                opened.pop()
        found.append(text + "".join(f"</{name}>" for name, _ in reversed(opened)))
    return found
