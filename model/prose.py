"""What of a text can stand in a summary: sentences, not the headings, commands, tables and lists of names around them.

Standard library only.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence

from . import segment

FEWEST_WORDS = 2, 3  # that a sentence has which ends in a mark, and one that does not
FEWEST_HAN = 4, 6
LONGEST_LABEL = 8  # words of a line that says what something is: "tar - an archiving utility"
_MARKER = re.compile(r"(?:(?:[-*+•·>]|#{1,6}|\d{1,3}[.)])[ \t]+)+(?=\S)")  # of an item or a heading
_FENCE = re.compile(r"^[ \t]*(```|~~~)", re.MULTILINE)
# A merge says what was done by whom, and "Signed-off-by:" who agreed.
_NEWS = re.compile(r"Merge (?:branch|pull request|remote|tag)\b|[A-Z][a-z]+(?:-[A-Za-z]+)+-by:")
_HYPHEN = re.compile(r"(?<=\w)\u2010\n\s*(?=\w)")  # with which a formatter parted a word; "-" may belong to it
_CLOSING = "\"'”’»)]}」』）】》〉*_`"
_AROUND = "\"'“”‘’«»()[]{}.,;:!?*_`…"


def sentences(text: str) -> list[tuple[int, int]]:
    """Start and end of the sentences of a text (segment.sentences), without the marker of an item or a heading."""
    found = []
    for start, end in segment.sentences(text):
        marker = _MARKER.match(text, start, end)
        found.append((marker.end() if marker else start, end))
    return found


def clean(part: str) -> str:
    """A sentence on one line: white space as single spaces, words that a formatter parted at the end of a line whole."""
    return " ".join(_HYPHEN.sub("", part).split())


def are_prose(text: str, places: Sequence[tuple[int, int]]) -> list[bool]:
    """For each part of a text whether it is a sentence (is_prose), no heading ("# ") and outside of blocks of code ("```").
    Where most have a mark at their end, long parts without one are none: something that is no text cut them off."""
    fences = [match.start() for match in _FENCE.finditer(text)]
    blocks = list(zip(fences[::2], fences[1::2], strict=False))
    found = []
    for start, end in places:
        while blocks and blocks[0][1] < start:
            blocks.pop(0)
        inside = bool(blocks) and blocks[0][0] <= start
        heading = text[max(text.rfind("\n", 0, start), text.rfind("\r", 0, start)) + 1 : start].lstrip().startswith("#")
        found.append(not inside and not heading and is_prose(text[start:end]))
    marked = [is_marked(text[start:end]) for start, end in places]
    if 2 * sum(m for m, good in zip(marked, found, strict=True) if good) >= sum(found):
        for i, (start, end) in enumerate(places):
            found[i] = found[i] and (marked[i] or len(text[start:end].split()) <= LONGEST_LABEL)
    return found


def is_prose(part: str) -> bool:
    """Whether this reads like a sentence: at least half of it are words without a sign or digit in them and (but for the
    first) without a capital, or it is Chinese; and it is not very short. "Author: A. Hill" and "ls -l [FILE]" are none."""
    if part.endswith((":", "：")) or part.startswith("|"):
        return False  # what it announces does not follow in a summary; a row of a table
    unmarked = not is_marked(part)
    if segment.guess_language(part) == "zh":
        return len(re.findall(segment.HAN, part)) >= FEWEST_HAN[unmarked]
    words = part.split()
    plain = sum(map(_is_plain, [words[0].lower(), *words[1:]]))
    return plain >= FEWEST_WORDS[unmarked] and 2 * plain >= len(words) and not _NEWS.match(part)


def is_marked(part: str) -> bool:
    """Whether a sentence has the mark at its end with which sentences end."""
    return part.rstrip(_CLOSING)[-1:] in set(segment.END_MARKS)


def _is_plain(word: str) -> bool:
    core = word.strip(_AROUND)
    return core[:1] != "-" and core == core.lower() and re.sub("[-'’/]", "", core).isalpha()


def centrality(parts: Sequence[Counter[str]]) -> list[float]:
    """How much each part of a text has in common with all of it, 0 … 1: the mean of its cosines with all parts, over the
    highest. A part is given by its units and how often it has them; a unit weighs 1 + log N/n where n of N parts have it.

    This is degree centrality (Erkan and Radev 2004, LexRank, §3.1) without a threshold, so it takes one sum instead of
    N² cosines."""
    having = Counter(unit for part in parts for unit in part)
    weight = {unit: 1 + math.log(len(parts) / n) for unit, n in having.items()}
    vectors = []
    middle: Counter[str] = Counter()
    for part in parts:
        vector = {unit: n * weight[unit] for unit, n in part.items()}
        length = math.sqrt(sum(x * x for x in vector.values())) or 1.0
        vectors.append({unit: x / length for unit, x in vector.items()})
        for unit, x in vectors[-1].items():
            middle[unit] += x  # type: ignore[assignment]
    sums = [sum(x * middle[unit] for unit, x in vector.items()) for vector in vectors]
    highest = max(sums, default=0.0) or 1.0
    return [x / highest for x in sums]
