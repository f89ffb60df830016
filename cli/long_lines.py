"""Lines that are too long to be held in memory: where to split them. Loaded when the first one comes."""

from __future__ import annotations

import codecs
import re

SENTENCE_END = re.compile(r"[.!?]+[\"'”’)\]]*\s|[。！？；…]+[”’）」』]*")
SPACE = re.compile(r"\s")


def first_part(raw: bytes, encoding: str) -> tuple[str, int]:
    """What of the beginning of a line, its first `raw` bytes, may stand alone, and how many bytes that is.

    It ends with a sentence, or with a word, or, if there is neither in its second half, with a character. Raises
    UnicodeDecodeError.
    """
    decoder = codecs.getincrementaldecoder(encoding)()
    text = decoder.decode(raw)
    part = text[: _last_end(text)]
    if raw.startswith(encoded := part.encode(encoding)):
        return part, len(encoded)
    return text, len(raw) - len(decoder.getstate()[0])  # an encoding with two codes for a character


def _last_end(text: str) -> int:
    """After which character the text is best split; never before or in a combining sequence."""
    half = len(text) // 2
    for pattern in (SENTENCE_END, SPACE):
        ends = [match.end() for match in pattern.finditer(text, half) if match.end() < len(text)]
        if ends:
            return ends[-1]
    import unicodedata

    place = len(text) - 1
    while place > half and (unicodedata.combining(text[place]) or "\u200d" in text[place - 1 : place + 1]):
        place -= 1
    return place
