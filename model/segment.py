"""Text → segments that are fed at once, and back: sentences, or parts of a sentence that is too long.

Nothing is lost on the way: the segments of a text, put together, are the text. Standard library only.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from .sentence_ends import (
    CLOSING,
    END_MARKS,
    HAN,
    LINE,
    OPENING,
    QUOTES,
    QUOTES_OF_BOTH,
    is_wide,
    line_sentences,
    speech_marks,
)

__all__ = [
    "END_MARKS",
    "HAN",
    "Segment",
    "guess_language",
    "inseparable",
    "join",
    "script",
    "sentences",
    "speech_marks",
    "split",
    "was_split",
]

# Where a sentence that is too long is cut, the best places first: after ; and : and dashes, after commas, before words
# that join clauses, after other marks.
_CUTS = (
    rf"[;:](?=\s)|(?:；|：(?!\d)|—+(?!—)|…+(?!…))[{CLOSING}]*|(?<=\s)[-–](?=\s)",
    rf",[{CLOSING}]*(?=\s)|，(?!\d)[{CLOSING}]*",
    r"(?<! and)(?<! or)(?<! but)(?=\s(?:and|or|but|because|which|who|that|when|where|while|if|although|though|so|than|then|until|after|before)\s)"
    r"|(?=但是|因为|所以|而且|如果|然后|并且|不过|或者|虽然|可是|于是|因此|以及|其中)",
    r"、|[)\]](?=\s)|[）】》」』](?![）】》」』，。、；：！？])",
)
_NO_START = frozenset(CLOSING + END_MARKS + "，、；：,;:")  # no line starts with these
_FAR = 20  # characters; so far on a pattern of _CUTS may look
_ENGLISH_QUOTES = str.maketrans("「」『』", "“”“”")
_CHINESE_ONLY = frozenset("们这说吗呢你她它很吧么們這說嗎麼")  # Japanese does not write these


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
    without a space too, and at tabs and line breaks (line_sentences tells more). A sentence for which `fits` says no is
    cut, and the parts before a cut are `hard`: at clause marks, else before conjunctions, else at spaces, else between Chinese
    characters, each time as late as fits, and in the second half of what fits if there is any such place; inside of a word,
    a number or an address only where that alone does not fit, and inside of what is seen as one character only where that
    does not fit either. Each segment with translate=True fits, if single characters do.
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
    width (so it may have line breaks in it). A heading or an item of a list is a sentence, with or without a mark at its
    end."""
    from .paragraphs import wrapped_lines  # translation of a line does without

    return [place for start, end in wrapped_lines(text) for place in line_sentences(text, start, end)]


def was_split(segments: Sequence[Segment]) -> bool:
    """Whether a sentence was too long and is fed in parts, which a reader should be warned of."""
    return any(segment.hard for segment in segments)


def join(segments: Sequence[Segment], outputs: Sequence[str], target: str) -> str:
    """Puts the outputs, one for each segment with translate=True, in the place of those segments.

    Spaces between two sentences are left out where Chinese stands on both sides of them (target "zh") and did not before;
    other targets get a space between two segments that had none, where Chinese stood beside it and does not any more, and
    “ for 「 around speech in English.
    Everything else between, before and after is kept to the byte; so outputs equal to the segments give the text itself.
    """
    if len(outputs) != sum(segment.translate for segment in segments):
        raise ValueError(f"{len(outputs)} outputs for {sum(segment.translate for segment in segments)} segments")
    waiting = iter(outputs)
    texts = [next(waiting) if segment.translate else segment.text for segment in segments]
    quotes = _lone_quotes(segments)
    if target == "en" and any(text != segment.text for segment, text in zip(segments, texts, strict=True)):
        for i in quotes:
            texts[i] = texts[i].translate(_ENGLISH_QUOTES)
    joined: list[str] = []
    for i, (segment, text) in enumerate(zip(segments, texts, strict=True)):
        if segment.text.isspace():
            if (
                target == "zh"
                and 0 < i < len(segments) - 1
                and all(unicodedata.category(c) == "Zs" for c in segment.text)
            ):
                sides = [(texts[i - 1][-1:], texts[i + 1][:1]), (segments[i - 1].text[-1], segments[i + 1].text[0])]
                lone = i - 1 in quotes, i + 1 in quotes
                now, before = [all(q or is_wide(c) for q, c in zip(lone, side, strict=True)) for side in sides]
                if now and not before:
                    continue
        elif target != "zh" and i > 0 and not segments[i - 1].text.isspace() and texts[i - 1] and text:
            ends = [(segments[i - 1].text[-1], texts[i - 1][-1]), (segment.text[0], text[0])]
            parted = texts[i - 1][-1].isspace() or text[0].isspace()
            parted = parted or quotes.get(i - 1) == "open" or quotes.get(i) == "close"
            if not parted and any(is_wide(before) and not is_wide(now) for before, now in ends):
                joined.append(" ")
        joined.append(text)
    return "".join(joined)


def _lone_quotes(segments: Sequence[Segment]) -> dict[int, str]:
    """The quotation marks among the segments, by their numbers: "open" or "close"."""
    found: dict[int, str] = {}
    straight: Counter[str] = Counter()
    for i, segment in enumerate(segments):
        if segment.text in QUOTES:
            straight[segment.text] += segment.text.isascii()
            closes = straight[segment.text] % 2 == 0 if segment.text.isascii() else segment.text in CLOSING
            found[i] = "close" if closes else "open"
    return found


def guess_language(text: str) -> str:
    """ "zh" if there are more Han characters than words of other letters (a word is what spaces or Han characters
    enclose, so a web address is one word), else "en": also for a text without letters and for other languages, which
    `script` tells apart."""
    if text.isascii():
        return "en"
    han = len(re.findall(HAN, text))
    words = sum(_has_letters(word) for word in re.sub(HAN, " ", text).split())
    return "zh" if han > words else "en"


def script(text: str) -> str | None:
    """The script that most of a text is written in: "latin", "han", "kana" (Japanese, with or without Han characters),
    "hangul", "cyrillic", "greek", "arabic" …: the first word of Unicode's name for its letters, in lower case. None for a text
    without letters.

    A model that reads English and Chinese knows nothing of the others. Han characters and kana count one each, of other
    scripts each word does; of those that stand as often Latin is said, then Han. Han with kana in it is Japanese, but for a
    lone kana (Chinese has の in names of shops) or where characters stand that only Chinese has.
    """
    if text.isascii():
        return "latin" if _has_letters(text) else None
    found: Counter[str] = Counter()
    for word in re.sub(f"({HAN})", r" \1 ", text).split():
        letters = Counter(_script_of(char) for char in word if char.isalpha())
        found["kana"] += letters.pop("kana", 0)
        if letters:
            found[max(letters, key=lambda name: (letters[name], name == "latin"))] += 1
    if found["kana"] > 1 and 4 * found["kana"] >= found["han"] and _CHINESE_ONLY.isdisjoint(text):
        found["kana"] += found.pop("han", 0)
    return max(found, key=lambda name: (found[name], name == "latin", name == "han")) if found.total() else None


@functools.cache
def _script_of(letter: str) -> str:
    """The script of a letter; full-width, circled and mathematical letters are those that they are made from."""
    plain = unicodedata.normalize("NFKC", letter)[0]
    name = re.split("[ -]", unicodedata.name(plain, "OTHER").lower())[0]
    return {"cjk": "han", "ideographic": "han", "hiragana": "kana", "katakana": "kana"}.get(name, name)


# What stands before the text of a line: the mark or number of an item, of a quote, a heading, a row of a table.
_MARKER = re.compile(
    r"\s*(?P<mark>(?:(?:[-*+•·▪◦>]|#{1,6}|\d{1,3}[.)])(?=[ \t])|\|)(?:[ \t]*(?:[-*+•·▪◦>](?=[ \t])|\|))*)[ \t]*"
)
_CELL = re.compile(r"[^|]+|\|+")


def _parts(text: str, fits: Callable[[str], bool]) -> Iterator[tuple[int, int, bool]]:
    """Start, end and `hard` of everything in `text` that is not white space between sentences."""
    for line in LINE.finditer(text):
        marker = _MARKER.match(text, line.start(), line.end())
        begin = marker.end() if marker else line.start()
        if marker and begin < line.end():
            yield _skip_space(text, line.start(), begin), marker.end("mark"), False
        is_row = marker is not None and "|" in marker[0] and line[0].count("|") > 1
        cells = _CELL.finditer(text, begin, line.end()) if is_row else ()
        spans = [cell.span() for cell in cells] or [(begin, line.end())]
        for start, end in (part for span in spans for part in _without_quotes(text, list(line_sentences(text, *span)))):
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


def _without_quotes(text: str, bounds: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The sentences of a line, parted at the quotation marks around speech, which are copied: models lose one of the two,
    above all where speech has several sentences."""
    marks = iter(speech_marks(text, bounds))
    mark = next(marks, None)
    for start, end in bounds:
        while mark is not None and mark < end:
            before = start + len(text[start:mark].rstrip())
            if start < before:
                yield start, before
            yield mark, mark + 1
            start = _skip_space(text, mark + 1, end)
            mark = next(marks, None)
        if start < end:
            yield start, end


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


def _cut(text: str, start: int, end: int, fits: Callable[[str], bool]) -> int:
    """Where to cut text[start:end], a sentence or the rest of one: at its end, if it fits."""
    longest = _longest(text, start, end, fits)
    if longest == end:
        return end
    for cut in _places(text, start, end, longest):
        while text[cut - 1].isspace():
            cut -= 1
        if fits(text[start:cut]):
            return cut
    return longest


def _places(text: str, start: int, end: int, longest: int) -> Iterator[int]:
    """Where text[start:end], of which no more than text[start:longest] fits, may be cut: the best place first."""
    tiers = [re.compile(pattern).finditer(text, start, min(longest + _FAR, end)) for pattern in _CUTS]
    marks = [max((m.end() for m in tier if start < m.end() <= longest), default=start) for tier in tiers]
    spaces = longest
    while spaces > start and not text[spaces].isspace():
        spaces -= 1
    wide = longest
    while wide > start and not _parts_wide(text, wide, start):
        wide -= 1
    found = [*marks, spaces, wide]
    late = [cut for cut in found if 2 * (cut - start) >= longest - start]
    yield from late
    yield from (cut for cut in found if cut > start and cut not in late)
    while longest > start and inseparable(text, longest, start):
        longest -= 1
    if longest > start:
        yield longest


def _parts_wide(text: str, i: int, start: int) -> bool:
    """Whether a line of Chinese may be broken at position i: no word or number of other letters goes on there, no
    closing mark follows, and no opening one goes before."""
    before, after = text[i - 1], text[i]
    if not any(is_wide(c) and c not in QUOTES_OF_BOTH and not _is_full_width(c) for c in (before, after)):
        return False
    return before not in OPENING and after not in _NO_START and not inseparable(text, i, start)


def _is_full_width(char: str) -> bool:
    """Whether this is a letter or digit of English in the width of a Chinese character."""
    return char.isalnum() and unicodedata.east_asian_width(char) == "F"


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


def inseparable(text: str, i: int, start: int = 0) -> bool:
    """Whether the characters before and after position i are seen as one: a base and its marks, joined emoji, flags,
    surrogates. At `start` something begins in any case."""
    before, after = text[i - 1], text[i]
    if before == "\u200d" or after == "\u200d" or unicodedata.category(after)[0] == "M":
        return True
    if "\U0001f3fb" <= after <= "\U0001f3ff":  # skin colour of the emoji before
        return True
    if "\ud800" <= before <= "\udbff" and "\udc00" <= after <= "\udfff":
        return True
    if not "\U0001f1e6" <= after <= "\U0001f1ff":
        return False
    flags = 0  # regional indicators come in pairs
    while flags < i - start and "\U0001f1e6" <= text[i - 1 - flags] <= "\U0001f1ff":
        flags += 1
    return flags % 2 == 1


def _has_letters(text: str) -> bool:
    return any(map(str.isalpha, text))
