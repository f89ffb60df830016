"""Answers as spans: how a question and a text are put to the model, and where in the text its pieces stand.

The encoder reads  <answer> question TAB text </s>  with a kind for each piece. A piece of the text has the kind
1 + 3 · nearness + match: match is 0 for a piece that is not in the question, 1 for a common and 2 for a rare one that is
(the "exact match" feature of Chen et al. 2017, §3.2); nearness, 0 … 4, says how much of the question stands around it,
beside the place of the window where most does. The end piece has the kind 16 + 0 … 3, which says how much of the
question stands together anywhere in the window. All else is of kind 0.

The decoder is fed two pieces, <answer> and </s>; where the first looks is where the answer starts, where the second looks
is where it ends (weights of one head of the last layer), and looking at the source's end piece means that the text does not answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .tokenizer import Tokenizer

SEGMENTS = 20
HEAD = 0  # the head of the last decoder layer that points
SEPARATOR = "\t"
REACH = 32  # pieces within which one of the question's counts as near
NEARNESS = (0.4, 0.6, 0.75, 0.9)  # of the window's best coverage, where the next level of nearness begins
COVERAGE = (0.3, 0.5, 0.7)  # of the question, where the next kind of end piece begins
COMMON = -7.3  # log-probability of a piece in the vocabulary from which on sharing it says little

Ids = npt.NDArray[np.int64]


class Pieces(NamedTuple):
    """What is known of each piece of a vocabulary: its class [V], equal for pieces that differ in case or a leading space
    and −1 for pieces without a letter or a digit, which match nothing; and how much sharing it says [V]: the less
    frequent, the more."""

    classes: Ids
    weights: npt.NDArray[np.float64]
    common: npt.NDArray[np.bool_]


def piece_table(tokenizer: Tokenizer) -> Pieces:
    numbers: dict[str, int] = {}
    classes = np.full(tokenizer.vocab_size, -1, np.int64)
    log_p = np.array(tokenizer.scores)
    common = log_p > COMMON
    weights = np.clip((-log_p - 5.5) / 5, 0, 1.2)
    for i, piece in enumerate(tokenizer.pieces(range(tokenizer.vocab_size))):
        text = piece.strip().casefold()
        if i not in tokenizer.special and any(map(str.isalnum, text)) and not text.startswith("<0x"):
            classes[i] = numbers.setdefault(text, len(numbers))
        if text.isdigit():
            weights[i], common[i] = 0.2, True
    return Pieces(classes, weights, common)


def coverage(question: Sequence[int], text: Ids, table: Pieces) -> npt.NDArray[np.float64]:
    """For each piece of the text how much of the question stands around it, 0 … 1: the weights of the question's classes,
    each times 1 − distance / REACH to its nearest occurrence, over the sum of the weights. [n]"""
    asked = np.unique(np.asarray(question, np.int64))
    classes, place = table.classes[text], np.arange(len(text))
    near, total = np.zeros(len(text)), 0.0
    for number in np.unique(table.classes[asked]):
        weight = float(table.weights[asked[table.classes[asked] == number]].min())
        if number < 0 or weight == 0:
            continue
        total += weight
        at = np.flatnonzero(classes == number)
        if len(at):
            right = np.searchsorted(at, place)
            distance = np.minimum(
                np.abs(at[np.minimum(right, len(at) - 1)] - place), np.abs(at[np.maximum(right - 1, 0)] - place)
            )
            near += weight * np.maximum(0, 1 - distance / REACH)
    return near / total if total else near


def source_pieces(
    question: Sequence[int], text: Sequence[int], table: Pieces, prefix: Sequence[int], separator: int, eos: int
) -> tuple[list[int], npt.NDArray[np.uint8], int]:
    """The source for one question and one window of a text: its ids [S], the kinds of its pieces [S], and the place of
    the window's first piece."""
    ids = [*prefix, *question, separator, *text, eos]
    first = len(ids) - 1 - len(text)
    window = np.asarray(text, np.int64)
    kinds = np.zeros(len(ids), np.uint8)
    if len(text) and len(question):
        asked = table.classes[np.asarray(question, np.int64)]
        match = np.where(np.isin(table.classes[window], asked[asked >= 0]), np.where(table.common[window], 1, 2), 0)
        near = coverage(question, window, table)
        kinds[first:-1] = 1 + 3 * np.digitize(near / max(near.max(), 1e-9), NEARNESS) + match
        kinds[-1] = 16 + np.digitize(near.max(), COVERAGE)
    return ids, kinds, first


def occurrences(text: str, answer: str, places: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The first and the last piece of each place in the text where the answer stands."""
    found = []
    offsets = np.array(places, np.int64).reshape(-1, 2)
    at = text.find(answer) if answer else -1
    while at >= 0:
        end = at + len(answer)
        first = int(np.searchsorted(offsets[:, 1], at, side="right"))
        last = int(np.searchsorted(offsets[:, 1], end, side="left"))
        inside_word = (answer[0].isascii() and answer[0].isalnum() and text[max(at - 1, 0) : at].isalnum()) or (
            answer[-1].isascii() and answer[-1].isalnum() and text[end : end + 1].isalnum()
        )
        if first <= last < len(offsets) and not inside_word:
            found.append((first, last))
        at = text.find(answer, end)
    return found


def best_spans(
    start: npt.NDArray[np.float64], end: npt.NDArray[np.float64], longest: int, n: int = 1
) -> list[tuple[float, int, int]]:
    """The `n` spans (first, last) of at most `longest` pieces with the highest log p_start + log p_end, best first.

    start and end are log-probabilities over the pieces of a window, [S]."""
    scores = _span_scores(start, end, longest)
    order = np.argsort(-scores, axis=None, kind="stable")[:n]
    return [(float(scores.flat[i]), *map(int, divmod(int(i), len(start)))) for i in order]  # type: ignore[misc]


def disjoint_spans(
    start: npt.NDArray[np.float64], end: npt.NDArray[np.float64], longest: int, n: int
) -> list[tuple[float, int, int]]:
    """The best span, the best of those that share no piece with it, and so on: up to `n` as `best_spans` gives them."""
    scores = _span_scores(start, end, longest)
    found: list[tuple[float, int, int]] = []
    while len(found) < n and np.isfinite(best := float(scores.max(initial=-np.inf))):
        first, last = divmod(int(scores.argmax()), len(start))
        found.append((best, first, last))
        scores[: last + 1, first:] = -np.inf  # all that begin before its end and end after its beginning
    return found


def _span_scores(start: npt.NDArray[np.float64], end: npt.NDArray[np.float64], longest: int) -> npt.NDArray[np.float64]:
    """log p_start + log p_end of each span (first, last), [S, S]; −∞ where it is none or too long."""
    scores = np.add.outer(start, end)
    length = np.subtract.outer(-np.arange(len(start)), -np.arange(len(end))) + 1  # last − first + 1
    scores[(length < 1) | (length > longest)] = -np.inf
    return scores
