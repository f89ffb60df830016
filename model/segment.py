"""Text → segments that are fed at once, and back: sentences, or parts of a sentence that is too long.

Nothing is lost on the way: the segments of a text, put together, are the text. Standard library only.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

# A text, for the pattern is slow to compile and English does without it.
HAN = "[\u3005\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af]"

_WIDE_MARKS = "。！？｡"  # end a sentence without a space after them
_CLOSING = "\"'”’»)\\]}」』）】》〉｣"
_OPENING = "\"'“‘«([{「『（【《〈｢¿¡-–—*•"
END_MARKS = f".!?…{_WIDE_MARKS}"
_END = re.compile(rf"(?P<marks>[{END_MARKS}]+)[{_CLOSING}]*(?P<space>\s*)")
_LINE = re.compile("[^\t\n\r\v\f\x1c-\x1e\x85\u2028\u2029]+")  # a tab parts columns, as line breaks part lines
_CLAUSE = re.compile(rf"[;:,](?=\s)|[，、；：—]+[{_CLOSING}]*")
_SPACES = re.compile(r"\s+")
_WORD = re.compile(r"\w+")
_LINE_BREAK = re.compile(r"[ \t]*(?:\r\n|\n|\r)[ \t]*")
_NO_CONTINUATION = re.compile(
    r"(?:[-*+•·]|#{1,6}|\d{1,3}[.)])[ \t]|[|>]|-{3}|={3}|~{3}|`{3}"
)  # items, headings, tables, rules
_LATIN_WORD = re.compile(r"[A-Z][A-Za-z]*")
WRAPPED_FROM = 55  # characters: shorter lines are not wrapped at a width, they end where their writer wanted


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Words that a full stop follows without ending the sentence, in lower case.
_NEVER_LAST = _words(
    "mr mrs ms messrs dr prof rev hon gen sen rep gov capt cmdr lt col sgt maj pres mt ft st vs e.g i.e cf viz "
    "approx ca incl esp"
)
_BEFORE_NUMBER = _words(
    "no nos fig figs vol vols p pp ch sec art eq tab op ver v jan feb mar apr jun jul aug sep sept oct nov dec"
)
# After these, and after initials and the like ("J.", "U.S."), only a word that often starts a sentence starts one.
_SOMETIMES_LAST = _words("inc ltd co corp bros jr sr ph.d al ave blvd dept est")
_DOTTED = re.compile(r"(?:[a-z]\.)*[a-z]")
_STARTERS = _words(
    "A After All Although An And As At Because Before But By Did Do Does During Even For From He Her Here His How "
    "However I If In Is It Its Let Many Most My No Not On One Our Please She Since So Some That The Their Then There "
    "These They This Those Though To Today Was We Were What When Where While Who Why With Yes Yet You Your"
)


@dataclass(frozen=True)
class Segment:
    """A part of a text. `translate` is False for white space between sentences and for what has no letters: those are
    copied. `hard` is True where the segment ends inside a sentence, because the whole sentence did not fit."""

    text: str
    translate: bool
    hard: bool = False


def split(text: str, fits: Callable[[str], bool]) -> list[Segment]:
    """Splits a text into sentences, and the white space around them; the texts of the segments make up `text`.

    Sentences end at . ! ? … and closing quotes before a space and something that may start a sentence, at 。！？
    without a space too, and at tabs and line breaks. A sentence for which `fits` says no is split after clause marks,
    else at spaces, else between characters, each time as late as fits. Each segment with translate=True fits, if
    single characters do.
    """
    segments: list[Segment] = []
    done = 0
    for start, end, hard in _parts(text, fits):
        if done < start:
            segments.append(Segment(text[done:start], translate=False))
        part = text[start:end]
        segments.append(Segment(part, _has_letters(part), hard))
        done = end
    if done < len(text):
        segments.append(Segment(text[done:], translate=False))
    return segments


def sentences(text: str) -> list[tuple[int, int]]:
    """Where the sentences of a text start and end, without the white space around them.

    They are found as `split` finds them, but one may run on across the line breaks of a text that is wrapped at some
    width (so it may have line breaks in it), and in Chinese a "." without a space after it ends one too. A heading or an
    item of a list is a sentence, with or without a mark at its end."""
    return [s for start, end in _paragraphs(text) for s in _sentences(text, start, end, han_stops=True)]


def was_split(segments: Sequence[Segment]) -> bool:
    """Whether a sentence was too long and is fed in parts, which a reader should be warned of."""
    return any(segment.hard for segment in segments)


def join(segments: Sequence[Segment], outputs: Sequence[str], target: str) -> str:
    """Puts the outputs, one for each segment with translate=True, in the place of those segments.

    Spaces between two sentences are left out where Chinese stands on both sides of them (target "zh"); other targets
    get a space where the Chinese source had none. Everything else between, before and after is kept to the byte.
    """
    if len(outputs) != sum(segment.translate for segment in segments):
        raise ValueError(f"{len(outputs)} outputs for {sum(segment.translate for segment in segments)} segments")
    waiting = iter(outputs)
    texts = [next(waiting) if segment.translate else segment.text for segment in segments]
    joined: list[str] = []
    for i, (segment, text) in enumerate(zip(segments, texts, strict=True)):
        inside = 0 < i < len(segments) - 1
        if segment.text.isspace():
            spaces = all(unicodedata.category(char) == "Zs" for char in segment.text)
            if target == "zh" and inside and spaces and _is_wide(texts[i - 1][-1:]) and _is_wide(texts[i + 1][:1]):
                continue
        elif target != "zh" and i > 0 and not segments[i - 1].text.isspace():
            chinese = _is_wide(segments[i - 1].text[-1]) or _is_wide(segment.text[0])
            parted = texts[i - 1][-1:].isspace() or text[:1].isspace()
            if chinese and not parted and texts[i - 1] and text:
                joined.append(" ")
        joined.append(text)
    return "".join(joined)


def guess_language(text: str) -> str:
    """ "zh" if there are more Han characters than words of other letters (a word is what spaces or Han characters
    enclose, so a web address is one word), else "en": also for a text without letters."""
    if text.isascii():
        return "en"
    han = len(re.findall(HAN, text))
    words = sum(_has_letters(word) for word in re.sub(HAN, " ", text).split())
    return "zh" if han > words else "en"


def _parts(text: str, fits: Callable[[str], bool]) -> Iterator[tuple[int, int, bool]]:
    """Start, end and `hard` of everything in `text` that is not white space between sentences."""
    for line in _LINE.finditer(text):
        for start, end in _sentences(text, line.start(), line.end()):
            first, last = _without_pictures(text, start, end)
            if start < first:
                yield start, first, False
            rest = _skip_space(text, first, last)
            if rest < last and (not _has_letters(text[rest:last]) or fits(text[rest:last])):
                yield rest, last, False
                rest = last
            while rest < last:
                cut = _cut(text, rest, last, fits)
                yield rest, cut, cut < last
                rest = _skip_space(text, cut, last)
            if last < end:
                yield _skip_space(text, last, end), end, False


def _paragraphs(text: str) -> Iterator[tuple[int, int]]:
    """Start and end of the lines of a text that are not blank, those of a wrapped paragraph as one."""
    lines: list[tuple[int, int]] = []  # of the paragraph, as far as it is known
    for line in _LINE.finditer(text):
        start, end = _skip_space(text, *line.span()), line.start() + len(line[0].rstrip())
        if start >= end:
            continue
        if lines and not _may_go_on(text, lines, start):
            yield from _joined(text, lines)
            lines = []
        lines.append((start, end))
    yield from _joined(text, lines)


def _may_go_on(text: str, lines: Sequence[tuple[int, int]], start: int) -> bool:
    """Whether the line from `start` on could belong to the paragraph of the given lines: next to them, no item, not
    indented any further (the lines of an item may be, and a first line may be itself)."""
    (first, _), (last, end) = lines[0], lines[-1]
    if not _LINE_BREAK.fullmatch(text, end, start) or _NO_CONTINUATION.match(text, start) or text[first] in "#|":
        return False
    before, here = _column(text, last), _column(text, start)
    return here == before or (len(lines) == 1 and (here < before or bool(_NO_CONTINUATION.match(text, first))))


def _joined(text: str, lines: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The lines as one part, if each is so full that the first word of the next found no room in it, but for those that
    end where a sentence may: the part ends there; else line by line. Lines that end in a comma go on in any case."""
    widths = [_column(text, start) + end - start for start, end in lines]
    width = max(widths, default=0)
    words = [len(text[start:end].split(maxsplit=1)[0]) for start, end in lines[1:]]
    full = [n + 1 + m >= 0.8 * width for n, m in zip(widths, words, strict=False)]
    ends = [text[end - 1] for _, end in lines]
    wrapped = width >= WRAPPED_FROM and all(f or mark in END_MARKS for f, mark in zip(full, ends, strict=False))
    first = 0
    for i, (_, end) in enumerate(lines):
        if i + 1 == len(lines) or not ((wrapped and full[i]) or ends[i] == ","):
            yield lines[first][0], end
            first = i + 1


def _column(text: str, start: int) -> int:
    """How many characters stand before `start` on its line."""
    line = text.rfind("\n", 0, start) + 1
    return start - max(line, text.rfind("\r", line, start) + 1)


def _sentences(text: str, start: int, end: int, han_stops: bool = False) -> Iterator[tuple[int, int]]:
    """Start and end of the sentences in text[start:end], a line, without the white space around them. With `han_stops`
    they may end at a "." before a Chinese character."""
    start = _skip_space(text, start, end)
    for match in _END.finditer(text, start, end):
        if match.end() < end and (_ends_sentence(text, start, match) or (han_stops and _is_han_stop(text, match))):
            yield start, match.start("space")
            start = match.end()
    if start < end:
        yield start, start + len(text[start:end].rstrip())


def _without_pictures(text: str, start: int, end: int) -> tuple[int, int]:
    """The part of the sentence text[start:end] without the emoji at its ends, which are copied, never translated. All
    of it, if it has no letters; the end is where the last word or mark ends, the start where the first emoji end."""
    if not _has_letters(text[start:end]):
        return start, end
    first, last = start, end
    while _is_picture(text[first]) or (first > start and text[first].isspace()):
        first += 1
    while _is_picture(text[last - 1]) or (last < end and text[last - 1].isspace()):
        last -= 1
    while first > start and text[first - 1].isspace():
        first -= 1
    return first, last


def _is_picture(char: str) -> bool:
    """Whether this is an emoji or symbol, or one of the marks that emoji are put together with."""
    return unicodedata.category(char) in ("So", "Sk") or char in "\u200d\ufe0e\ufe0f\u20e3"


def _skip_space(text: str, start: int, end: int) -> int:
    while start < end and text[start].isspace():
        start += 1
    return start


def _ends_sentence(text: str, start: int, match: re.Match[str]) -> bool:
    """Whether the marks found end the sentence that began at `start`; something other than a space follows them."""
    marks, following = match["marks"], text[match.end()]
    if any(mark in _WIDE_MARKS for mark in marks):
        return following not in "，、；：,;:"
    if not match["space"]:
        # Chinese with the marks of English: 你好!你是谁?
        between_han = re.match(HAN, following) and re.match(HAN, text[max(match.start() - 1, start)])
        return bool(between_han) and marks.strip("!?") == ""
    rest = text[match.end() : match.end() + 30].lstrip(_OPENING)
    if rest[:1].islower() or following in ",;:":
        return False
    if marks != ".":
        return True
    before = text[max(start, match.start() - 20) : match.start()].split()[-1:]
    word = before[0].lstrip(_OPENING).lower() if before else ""
    if word in _NEVER_LAST or (word in _BEFORE_NUMBER and rest[:1].isdigit()):
        return False
    if word.isdigit() and len(word) <= 3 and not text[start : match.start() - len(word)].strip():
        return False  # the number of a list item
    if word in _SOMETIMES_LAST or _DOTTED.fullmatch(word):
        following_word = _WORD.match(rest)
        if following_word is None:
            return True
        is_initial = len(following_word[0]) == 1 and rest[1:2] == "."
        return following_word[0] in _STARTERS and not is_initial
    return True


def _is_han_stop(text: str, match: re.Match[str]) -> bool:
    """Whether the mark is a full stop as some Chinese texts write it: "…的方法.本文…"; no space follows it."""
    if match["marks"] != "." or match["space"] or match.start() == 0:
        return False
    before = text[max(0, match.start() - 20) : match.start()]
    following = text[match.end() : match.end() + 30].lstrip(_OPENING)
    if re.match(HAN, following):
        item = re.search(r"(?<![\w.%])\d{1,2}$", before)  # "包括:1.设计"
        word = re.search(r"[A-Za-z.]*$", before)
        return not item and word is not None and word[0].lower() not in _NEVER_LAST | _BEFORE_NUMBER | {"www"}
    latin = _LATIN_WORD.match(following)  # a longer one, for "报告.PDF" is a file
    return bool(re.match(HAN, before[-1])) and latin is not None and len(latin[0]) > 4


def _cut(text: str, start: int, end: int, fits: Callable[[str], bool]) -> int:
    """Where to cut text[start:end], a sentence or the rest of one: at its end, if it fits."""
    longest = _longest(text, start, end, fits)
    if longest == end:
        return end
    clauses = [m.end() for m in _CLAUSE.finditer(text, start, min(longest + 1, end)) if m.end() <= longest]
    if clauses and fits(text[start : clauses[-1]]):
        return clauses[-1]
    spaces = [m.start() for m in _SPACES.finditer(text, start, longest + 1)]
    if spaces and fits(text[start : spaces[-1]]):
        return spaces[-1]
    cut = longest
    while cut > start and inseparable(text, cut):
        cut -= 1
    return cut if cut > start and fits(text[start:cut]) else longest


def _longest(text: str, start: int, end: int, fits: Callable[[str], bool]) -> int:
    """The end of the longest prefix of text[start:end] that fits, found by doubling and bisection, so that the work
    does not grow with the text that is left. At least one character."""
    low, high = start + 1, min(start + 64, end)
    while fits(text[start:high]):
        if high == end:
            return end
        low, high = high, min(start + 2 * (high - start), end)
    while high - low > 1:
        middle = (low + high) // 2
        if fits(text[start:middle]):
            low = middle
        else:
            high = middle
    return low


def inseparable(text: str, i: int) -> bool:
    """Whether the characters before and after position i are seen as one: a base and its marks, joined emoji, flags,
    surrogates."""
    before, after = text[i - 1], text[i]
    if before == "\u200d" or after == "\u200d" or unicodedata.category(after)[0] == "M":
        return True
    if "\U0001f3fb" <= after <= "\U0001f3ff":  # skin colour of the emoji before
        return True
    if "\ud800" <= before <= "\udbff" and "\udc00" <= after <= "\udfff":
        return True
    flags = 0  # regional indicators come in pairs
    while flags < i and "\U0001f1e6" <= text[i - 1 - flags] <= "\U0001f1ff":
        flags += 1
    return flags % 2 == 1 and "\U0001f1e6" <= after <= "\U0001f1ff"


def _has_letters(text: str) -> bool:
    return any(map(str.isalpha, text))


def _is_wide(char: str) -> bool:
    """Whether Chinese stands here: a Han or full-width character or a quotation mark or dash of Chinese; no emoji."""
    if not char or unicodedata.category(char) == "So":
        return False
    return char in "“”‘’…—" or unicodedata.east_asian_width(char) in "WF"
