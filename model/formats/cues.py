"""The cues of SubRip and WebVTT files: when they are shown, and what is said in them by whom.

What speaks at once is a *turn*: the lines of a cue, or those from one dash or name ("ANNA:") to the next. What tells of a
noise ("[music]") is a turn too.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..segment import END_MARKS
from .document import Span, line_starts
from .markup import Piece, fold, trim

_STAMP = r"(?:(\d+):)?(\d{1,2}):(\d{2})[.,](\d{1,3})"
_TIMING = re.compile(rf"[ \t]*{_STAMP}[ \t]*-->[ \t]*{_STAMP}(?:[ \t].*)?")
_NUMBER = re.compile(r"[ \t]*\d+[ \t]*")
_TAGS = r"(?:<[^<>]*>|\{\\[^{}]*\})*"
_DASH = re.compile(r"\s*(?:[-–—‐]+(?!\d)|>>+)\s*")
_SONG = re.compile(rf"{_TAGS}[ \t]*(?:[♪♫]|#\s)")
_NAME = re.compile(rf"{_TAGS}[ \t]*(?P<name>[^\W\d_][\w .'’-]{{0,24}})[:：](?=\s|[\u3400-\u9fff]|$)")
_NOISE = re.compile(rf"{_TAGS}[ \t]*(?:\[[^\[\]]*\]|\([^()]*\)|（[^（）]*）|【[^【】]*】)[ \t]*{_TAGS}")
_MARK = re.compile(
    r"</(?P<again>\w+)>[ \t]*(?:\r\n?|\n)[ \t]*<(?P=again)>"  # italics that end with a line and go on in the next
    r"|(?P<close></\w[^<>]*>)|(?P<open><[a-zA-Z][^<>]*>)|(?P<alone><[\d:.]+>|\{\\[^{}]*\}|&(?:lt|gt);|&amp;(?=#?\w+;))"
    r"|(?P<note>[♪♫]+)"
)
_ENDS = re.compile(r"(\s*)(.*?)(\s*)\Z", re.DOTALL)


@dataclass
class Turn:
    """What is said at once: its pieces without what stands around them. first, last: the place in the document; `new`:
    someone else speaks, `done`: nothing goes on after it."""

    pieces: list[Piece]
    first: int
    last: int
    begins: float  # seconds
    ends: float
    lines: int
    opens_cue: bool
    new: bool = False
    done: bool = False
    span: Span = (0, 0)  # in the text of the flow

    @property
    def text(self) -> str:
        return "".join(piece.text for piece in self.pieces)


def cues(text: str, vtt: bool) -> list[list[Turn]]:
    """The turns of each cue of a file, of WebVTT or of SubRip."""
    return list(_cues(text, list(_lines(text)), vtt))


def _lines(text: str) -> Iterator[Span]:
    """Start and end of each line, without its line end."""
    starts = [*line_starts(text), len(text)]
    for start, following in zip(starts, starts[1:], strict=False):
        yield start, start + len(text[start:following].rstrip("\r\n"))


def _cues(text: str, lines: Sequence[Span], vtt: bool) -> Iterator[list[Turn]]:
    """The turns of each cue. Blank lines may stand inside of a text of SubRip, of WebVTT they end it."""
    timings = [(i, match) for i, (start, end) in enumerate(lines) if (match := _TIMING.fullmatch(text, start, end))]
    for k, (i, match) in enumerate(timings):
        stop = timings[k + 1][0] if k + 1 < len(timings) else len(lines)
        body = list(range(i + 1, stop))
        if vtt:
            blank = next((line for line in body if not text[slice(*lines[line])].strip()), stop)
            body = [line for line in body if line < blank]
        elif stop < len(lines) and body and _NUMBER.fullmatch(text, *lines[stop - 1]):
            body.pop()
        times = _seconds(*match.groups()[:4]), _seconds(*match.groups()[4:])
        yield list(_turns(text, [lines[line] for line in body], *times, vtt))


def _seconds(hours: str | None, minutes: str, seconds: str, parts: str) -> float:
    return int(hours or 0) * 3600 + int(minutes) * 60 + int(seconds) + int(parts) / 10.0 ** len(parts)


def _turns(text: str, lines: Sequence[Span], begins: float, ends: float, vtt: bool) -> Iterator[Turn]:
    runs: list[list[Span]] = []
    for i, (start, end) in enumerate(lines):
        before = text[slice(*lines[i - 1])] if i else ""
        if not text[start:end].strip():
            runs.append([])
        elif not runs or not runs[-1] or _speaks(text, start, end, before) or _NOISE.fullmatch(before):
            runs.append([(start, end)])
        else:
            runs[-1].append((start, end))
    opens = True
    for run in filter(None, runs):
        start, end = run[0][0], run[-1][1]
        pieces = trim(list(_pieces(text, start, end, vtt)))
        if any(piece.says_something for piece in pieces):
            new = _speaks(text, *run[0], "")
            done = bool(_NOISE.fullmatch(text, start, end)) or text[start:end].rstrip()[-1] in "♪♫"
            yield Turn(pieces, pieces[0].start, pieces[-1].end, begins, ends, len(run), opens, new, done)
        opens = False


def _speaks(text: str, start: int, end: int, before: str) -> bool:
    """Whether a line begins what someone else says, sings, or what is heard. A name is one in capitals, or one that comes
    after the end of a sentence (`before` is the line before it)."""
    is_dash = _DASH.match(text, _tags_end(text, start, end), end)
    if is_dash or _SONG.match(text, start, end) or _NOISE.fullmatch(text, start, end):
        return True
    name = _NAME.match(text, start, end)
    if name is None:
        return False
    ended = before.rstrip("\"'”’)]</i> ")[-1:] in set(END_MARKS)
    return name["name"].isupper() or (ended and len(name["name"].split()) < 3 and not name["name"][0].islower())


def _tags_end(text: str, start: int, end: int) -> int:
    """Where the tags end that text[start:end] begins with."""
    tags = re.compile(_TAGS).match(text, start, end)
    return tags.end() if tags else start


def _pieces(text: str, start: int, end: int, vtt: bool) -> Iterator[Piece]:
    part = text[start:end]
    done = 0
    tags = _tags_end(text, start, end) - start
    dash = _DASH.match(part, tags)
    first = [*_MARK.finditer(part, 0, tags), dash] if dash else []
    for match in [*first, *_MARK.finditer(part, dash.end() if dash else 0), None]:
        stop = match.start() if match else len(part)
        ends = _ENDS.match(part[done:stop])
        assert ends  # it matches anything
        for said in ends.groups():
            if said:
                read = fold(html.unescape(said) if vtt else said)
                yield Piece(start + done, start + done + len(said), read)
                done += len(said)
        if match is None:
            return
        done = match.end()
        place = (start + match.start(), start + match.end())
        is_a = match.groupdict()  # of a dash, nothing
        if is_a.get("again"):
            yield Piece(*place, " ")
            continue
        kind = "open" if is_a.get("open") else "close" if is_a.get("close") else "alone"
        tag = re.match(r"</?([a-zA-Z]+)", match[0])
        yield Piece(*place, match[0], kind, tag[1].lower() if tag else "", match[0][0] == "&", verbatim=False)
