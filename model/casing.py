"""Capitals where nobody would expect them: a text in nothing but capitals, or in letters of any size, is read in small ones."""

from __future__ import annotations

import re

_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?")
_USUAL = re.compile(
    r"[A-Z]?[a-z'’]+|[A-Z]+(?:['’]?s)?|[A-Z][a-z]+(?:[A-Z][a-z]+)+(?:['’]s)?|[a-z]{1,3}[A-Z][a-z]+|Ma?c[A-Z][a-z]+(?:['’]s)?"
)
_CAMEL = re.compile(r"[a-z]+(?:[A-Z][a-z]+)+")
LONG_WORD = 6  # letters: a single word of capitals that is shorter may be an abbreviation


def usual_case(text: str) -> str:
    """The text, of the same length, in the capitals of an ordinary sentence where it stands in nothing but capitals
    ("WHAT ELSE IS HAPPENING?") or in a mixture of both inside its words ("HEllo, HoW aRe you"); any other as it is.

    A single word in capitals may be an abbreviation, and stays unless it is long; so does a text of several such words
    none of which is longer than three letters."""
    words = [word for word in _WORD.findall(text) if word.isascii() or word.upper() != word.lower()]
    if not words:
        return text
    longest = max(map(len, words))
    capitals = all(word == word.upper() for word in words) and any(map(str.isupper, words))
    shouted = capitals and (longest >= LONG_WORD if len(words) == 1 else longest > 3)
    odd = sum(not _USUAL.fullmatch(word) or bool(_CAMEL.fullmatch(word)) for word in words if word.isascii())
    mixed = odd >= 1 and 2 * odd >= len(words) and not (len(words) == 1 and _CAMEL.fullmatch(words[0]))
    lower = text.lower()
    if not (shouted or mixed) or len(lower) != len(text):
        return text
    lower = re.sub(r"\bi\b", "I", lower)
    first = next(i for i, char in enumerate(lower) if char.isalpha())
    capital = lower[first].upper()
    return lower[:first] + (capital if len(capital) == 1 else lower[first]) + lower[first + 1 :]
