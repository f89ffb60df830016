"""Where an answer begins and ends in a text: at whole words, numbers and characters, without what only stands beside it."""

from __future__ import annotations

import re

from .segment import HAN, inseparable

WORD = rf"{HAN}|(?:(?!{HAN})[^\W_])+"
_IN_WORD = re.compile(rf"(?!.?{HAN})[^\W_]{{2}}", re.DOTALL)  # two characters with no end of a word between them
_NUMERALS = "零〇一二三四五六七八九十百千万亿两"
_IN_CHINESE_NUMBER = re.compile(f"[{_NUMERALS}]{{2}}")
_IN_NUMBER = re.compile(r"\d[.,:]\d")
_BESIDE = " \t\r\n，。、；：！？,;:!?…—"  # a full stop is taken off with care: it may be of an abbreviation
_PAIRS = {"(": ")", "[": "]", "{": "}", "（": "）", "《": "》", "「": "」", "『": "』", "【": "】", "“": "”", "‘": "’"}


def tidy_ends(text: str, start: int, end: int) -> tuple[int, int]:
    """The span with the whole of each word, number and character that it begins or ends in, and without white space and
    marks at its ends, nor a bracket or quotation mark there whose other half is not in it."""
    start, end = _stripped(text, start, end)
    while start < end and start > 0 and _one(text, start):
        start -= 1
    while start < end < len(text) and _one(text, end):
        end += 1
    while True:
        before = start, end
        start, end = _without_halves(text, *_stripped(text, start, end))
        if (start, end) == before:
            return start, end


def _one(text: str, at: int) -> bool:
    """Whether the characters before and after a place are of one word, number, or what is seen as one character."""
    two = text[at - 1 : at + 1]
    number = any(_IN_NUMBER.fullmatch(text, max(0, i), i + 3) for i in (at - 2, at - 1))
    return bool(number or _IN_WORD.fullmatch(two) or _IN_CHINESE_NUMBER.fullmatch(two)) or inseparable(text, at)


def _stripped(text: str, start: int, end: int) -> tuple[int, int]:
    while start < end and (text[start] in _BESIDE or text[start].isspace()):
        start += 1
    while start < end and (text[end - 1] in _BESIDE or text[end - 1].isspace()):
        end -= 1
    return start, end


def _without_halves(text: str, start: int, end: int) -> tuple[int, int]:
    """Without an opening mark at the start, or a closing one at the end, that stands alone; where one that is opened inside
    is not closed, up to before it."""
    span = text[start:end]
    for opening, closing in _PAIRS.items():
        surplus = span.count(opening) - span.count(closing)
        if surplus > 0 and span.startswith(opening):
            return start + 1, end
        if surplus > 0 and any(map(str.isalnum, span[: span.rfind(opening)])):
            return start, start + span.rfind(opening)
        if surplus < 0 and span.endswith(closing):
            return start, end - 1
    return start, end
