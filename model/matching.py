"""Which words of a question stand where in a text: the "exact match" feature of Chen et al. 2017 (§3.2), by stems.

A word of letters and digits is compared by its stem, in small letters; Chinese, which has no spaces, by the pairs of
neighbouring characters. How much it says that both have one is its weight, from 0 to 1.2: more for what is rare.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .segment import HAN
from .tokenizer import Tokenizer

Places = Sequence[tuple[int, int]]
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

REACH = 32  # pieces within which a word of the question counts as near
OFTEN = 9  # a word that stands k times in the window counts 1/√k, from so many on no less
COMMON = 0.36  # weight up to which sharing a word says little
RARE = 1.2  # the highest weight: of a word in several pieces
PAIR, FUNCTION_PAIR = 0.6, 0.1  # weights of two Chinese characters, and of two of which one only serves the grammar
FUNCTION = frozenset("的了是在有和与或为由被把之其于及以对从到而且也都就不哪什么谁何几多少时候怎样如这那个些吗呢")
_WORD = re.compile(rf"({HAN}+)|(?:(?!{HAN})[^\W_])+")
_WINDOWS = 4096  # whose coverage is computed at once, which bounds the memory
_ENDINGS = (("ies", "y"), ("ied", "y"), ("ing", ""), ("ion", ""), ("est", ""), ("es", ""), ("ed", ""), ("er", ""), ("ly", ""), ("s", ""), ("e", ""), ("y", ""))  # fmt: skip


@functools.lru_cache(1 << 16)  # the same few thousand words make up most of a text
def stem(word: str) -> str:
    """A word in small letters without the ending of an English inflexion: "Located" and "location" are "locat"."""
    word = word.casefold()
    if word.isascii() and word.isalpha():
        for ending, instead in _ENDINGS:
            if word.endswith(ending) and len(word) - len(ending) >= 3 + (ending == "ion"):
                word = word[: -len(ending)] + instead
                break
        if len(word) > 3 and word[-1] == word[-2]:  # "stopped" is "stop"
            word = word[:-1]
        if len(word) > 3 and word[-1] in "ey":
            word = word[:-1]
    return word


def units(text: str) -> Iterator[tuple[str, int, int]]:
    """The words and pairs of Chinese characters of a text as they are compared, each with its place in it."""
    for found in _WORD.finditer(text):
        run, at = found[0], found.start()
        if found[1] is None:
            yield stem(run), at, found.end()
        elif len(run) == 1:
            yield run, at, at + 1
        else:
            yield from ((run[i : i + 2], at + i, at + i + 2) for i in range(len(run) - 1))


@dataclass(frozen=True)
class Words:
    """The units of a text of n pieces: for each the first and the last piece, [k, 2], in the order of the text."""

    places: dict[str, Ints]
    n: int

    @classmethod
    def of(cls, text: str, offsets: Places) -> Words:
        """`offsets` are the places of the text's pieces (Tokenizer.encode_with_places)."""
        ends = np.array([end for _, end in offsets], np.int64)
        names, starts, stops = zip(*units(text), strict=True) if any(map(str.isalnum, text)) else ((), (), ())
        first = np.searchsorted(ends, np.array(starts, np.int64), side="right")
        last = np.searchsorted(ends, np.array(stops, np.int64), side="left")
        places = np.stack([first, np.minimum(last, len(ends) - 1)], axis=1)
        numbers: dict[str, int] = {}  # of the different units
        number = np.array([numbers.setdefault(name, len(numbers)) for name in names], np.int64)
        order = np.argsort(number, kind="stable")
        bounds = np.cumsum(np.bincount(number, minlength=len(numbers)))[:-1]
        parts = np.split(places[order], bounds)  # one, which is empty, where there are no units
        return cls(dict(zip(numbers, parts, strict=False)), len(ends))


class Weights:
    """How much it says that two texts share a unit, by the vocabulary's log-probabilities of pieces."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        scores = tokenizer.scores
        self.of_piece: dict[str, float] = {}
        for piece, score in zip(tokenizer.pieces(range(tokenizer.vocab_size)), scores, strict=True):
            word = piece.strip().casefold()
            weight = float(np.clip((-score - 5.5) / 5, 0, RARE))
            self.of_piece[word] = min(weight, self.of_piece.get(word, RARE))

    def question(self, text: str) -> dict[str, float]:
        """The units of a question and their weights."""
        found: dict[str, float] = {}
        for unit, start, end in units(text):
            word = text[start:end].casefold()
            if re.match(HAN, word):
                found[unit] = FUNCTION_PAIR if FUNCTION & set(word) else PAIR
            else:
                found[unit] = min(self.of_piece.get(word, RARE), found.get(unit, RARE))
        return found


def match(question: dict[str, float], text: Words, first: int = 0, last: int | None = None) -> tuple[Ints, Floats]:
    """For each piece from `first` up to `last` of the text: 0 if it is not of a word of the question's, 1 if of a common,
    2 if of a rare one, [n]; and how much of the question stands around it, 0 … 1: the weights of the question's units,
    over the square root of their number in these pieces, each times 1 − distance / REACH to its nearest occurrence,
    over the sum of the weights, [n]. A unit is counted, and its distance measured, by its first piece."""
    last = text.n if last is None else min(last, text.n)
    n = max(0, last - first)
    level, near, total = np.zeros(n, np.int64), np.zeros(n), 0.0
    place = np.arange(first, last)
    for unit, weight in question.items():
        at = text.places.get(unit)
        if at is not None:
            at = at[np.searchsorted(at[:, 0], first) : np.searchsorted(at[:, 0], last)]
        if at is None or not len(at):
            total += weight
            continue
        kind = 2 if weight > COMMON else 1
        for a, b in (at - first).tolist():
            np.maximum(level[a : b + 1], kind, out=level[a : b + 1])
        if weight:
            weight /= min(len(at), OFTEN) ** 0.5
            total += weight
            right = np.searchsorted(at[:, 0], place)
            distance = np.minimum(
                np.abs(at[np.minimum(right, len(at) - 1), 0] - place), np.abs(at[np.maximum(right - 1, 0), 0] - place)
            )
            near += weight * np.maximum(0, 1 - distance / REACH)
    return level, near / total if total else near


def coverage(question: dict[str, float], text: Words, firsts: Ints, width: int) -> Floats:
    """How much of the question stands together anywhere in each window of `width` pieces, [windows], 0 … 1: the highest
    of what `match` finds around its pieces. `firsts` are the windows' first pieces, [windows]."""
    parts = [firsts[i : i + _WINDOWS] for i in range(0, len(firsts), _WINDOWS)]
    return np.concatenate([np.zeros(0), *(_coverage(question, text, part, width) for part in parts)])


def _coverage(question: dict[str, float], text: Words, firsts: Ints, width: int) -> Floats:
    place = firsts[:, None] + np.arange(width)
    near, total = np.zeros(place.shape), np.zeros(len(firsts))
    for unit, weight in question.items():
        if not weight:
            continue
        at = text.places.get(unit, np.zeros((0, 2), np.int64))[:, 0]
        a, b = np.searchsorted(at, firsts), np.searchsorted(at, firsts + width)  # those in the window: at[a:b]
        weights = weight / np.clip(b - a, 1, OFTEN) ** 0.5
        total += weights
        rows = np.flatnonzero(b > a)
        if len(rows):
            first, last, here = a[rows, None], b[rows, None] - 1, place[rows]
            right = np.searchsorted(at, here)
            distance = np.minimum(
                np.abs(at[np.minimum(right, last)] - here), np.abs(at[np.clip(right - 1, first, last)] - here)
            )
            near[rows] += weights[rows, None] * np.maximum(0, 1 - distance / REACH)
    near[place >= text.n] = 0
    most: Floats = near.max(axis=1, initial=0)
    return np.divide(most, total, out=most, where=total > 0)


def share(question: dict[str, float], text: Words, first: int, last: int) -> float:
    """How much of the question stands in the pieces from `first` up to `last`, 0 … 1: the weights of its units that do,
    over the sum of all; each counts less the more often it stands in the whole text, as in `match`."""
    inside = total = 0.0
    for unit, weight in question.items():
        at = text.places.get(unit)
        if at is not None:
            weight /= min(len(at), OFTEN) ** 0.5
            inside += weight * bool(np.searchsorted(at[:, 0], first) < np.searchsorted(at[:, 0], last))
        total += weight
    return inside / total if total else 0.0
