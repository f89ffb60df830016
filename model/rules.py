"""Restrictions of the search: what may come next, by what has come so far and by the source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float32]


class LogitsRule(Protocol):
    """A restriction of the search. Rules keep nothing between calls, so beams can be reordered freely."""

    def __call__(self, ids: IntArray, sentences: IntArray, logits: FloatArray) -> None:
        """Changes logits [rows, V] in place, given the pieces so far, ids [rows, T] (without the prefix), and the
        position in `src` of each row's source, sentences [rows]."""


class Suppress:
    """The given ids are never produced."""

    def __init__(self, ids: Sequence[int]) -> None:
        self.ids = np.asarray(sorted(set(ids)), dtype=np.int64)

    def __call__(self, ids: IntArray, sentences: IntArray, logits: FloatArray) -> None:
        logits[:, self.ids] = -np.inf


class SuppressFirst:
    """The given ids do not come first."""

    def __init__(self, ids: Sequence[int]) -> None:
        self.ids = np.asarray(sorted(set(ids)), dtype=np.int64)

    def __call__(self, ids: IntArray, sentences: IntArray, logits: FloatArray) -> None:
        if not ids.shape[1]:
            logits[:, self.ids] = -np.inf


class MinLength:
    """No end piece before `length` pieces of output (the end piece not counted)."""

    def __init__(self, length: int, eos: int) -> None:
        self.length, self.eos = length, eos

    def __call__(self, ids: IntArray, sentences: IntArray, logits: FloatArray) -> None:
        if ids.shape[1] < self.length:
            logits[:, self.eos] = -np.inf


class NoRepeatNgram:
    """No n pieces occur twice in one output, `prefix`, what was forced on it, counted with it."""

    def __init__(self, n: int, prefix: Sequence[int] = ()) -> None:
        self.n, self.prefix = n, np.asarray(prefix, dtype=np.int64)

    def __call__(self, ids: IntArray, sentences: IntArray, logits: FloatArray) -> None:
        ids = _after(self.prefix, ids)
        n, length = self.n, ids.shape[1]
        if length < n:
            return
        ngrams = np.lib.stride_tricks.sliding_window_view(ids, n, axis=1)  # [rows, T - n + 1, n]
        tail = ids[:, length - n + 1 :]  # the n - 1 pieces that the next one would complete
        rows, starts = np.nonzero((ngrams[:, :, :-1] == tail[:, None, :]).all(axis=2))
        logits[rows, ngrams[rows, starts, -1]] = -np.inf


def _after(prefix: IntArray, ids: IntArray) -> IntArray:
    """Each row of ids [rows, T] after the prefix [P]: [rows, P + T]."""
    return np.concatenate([np.broadcast_to(prefix, (len(ids), len(prefix))), ids], axis=1)


class SourceNoRepeatNgram:
    """No n pieces that follow one another in the source do in the output. `prefix` is what the decoder is fed first."""

    def __init__(self, n: int, src: Sequence[Sequence[int]], prefix: Sequence[int]) -> None:
        self.n, self.prefix = n, tuple(prefix)
        self.following: list[dict[tuple[int, ...], list[int]]] = [{} for _ in src]
        for row, following in zip(src, self.following, strict=True):
            for i in range(len(row) - n + 1):
                following.setdefault(tuple(row[i : i + n - 1]), []).append(row[i + n - 1])

    def __call__(self, ids: IntArray, sentences: IntArray, logits: FloatArray) -> None:
        for row, (sentence, pieces) in enumerate(zip(sentences.tolist(), ids.tolist(), strict=True)):
            written = (*self.prefix, *pieces)
            tail = written[len(written) - self.n + 1 :]  # the n - 1 pieces that the next one would complete
            logits[row, self.following[sentence].get(tail, [])] = -np.inf


class Penalty:
    """Pieces that were produced, with what the decoder was fed before them, become less likely (Keskar et al. 2019, §4.1):
    a value below zero is multiplied by `penalty`, another divided by it. With `src`, the pieces of the source instead."""

    def __init__(self, penalty: float, prefix: Sequence[int] = (), src: Sequence[Sequence[int]] | None = None) -> None:
        self.penalty, self.prefix = np.float32(penalty), np.asarray(prefix, dtype=np.int64)
        self.src: IntArray | None = None
        if src is not None:  # as rows of equal length: a piece once more changes nothing
            longest = max(map(len, src), default=0)
            self.src = np.array([[*row, *list(row[-1:]) * (longest - len(row))] for row in src], dtype=np.int64)

    def __call__(self, ids: IntArray, sentences: IntArray, logits: FloatArray) -> None:
        seen = _after(self.prefix, ids) if self.src is None else self.src[sentences]
        values = np.take_along_axis(logits, seen, axis=1)
        scaled = np.where(values < 0, values * self.penalty, values / self.penalty)
        np.put_along_axis(logits, seen, scaled, axis=1)


class EachOnce:
    """Of `pieces`, an output has those that its source has, each exactly once. `limits` are the lengths at which the search
    closes the hypotheses of each source [sentences]: where only so much room is left, only they are allowed."""

    def __init__(self, src: Sequence[Sequence[int]], pieces: Sequence[int], eos: int, limits: Sequence[int]) -> None:
        self.pieces, self.eos = np.asarray(pieces, dtype=np.int64), eos
        self.limits = np.asarray(limits, dtype=np.int64)
        sources = [set(row) for row in src]
        self.wanted = np.array(
            [[piece in row for piece in pieces] for row in sources], dtype=bool
        )  # [sentences, pieces]
        self.any = bool(self.wanted.any())

    def __call__(self, ids: IntArray, sentences: IntArray, logits: FloatArray) -> None:
        if not self.any:
            logits[:, self.pieces] = -np.inf
            return
        missing = self.wanted[sentences] & ~(ids[:, :, None] == self.pieces).any(axis=1)  # [rows, pieces]
        allowed = np.where(missing, logits[:, self.pieces], -np.inf)
        n_missing = missing.sum(axis=1)
        logits[n_missing > 0, self.eos] = -np.inf
        # A finished hypothesis has an end piece after the last of them.
        logits[(n_missing > 0) & (n_missing >= self.limits[sentences] - ids.shape[1] - 1)] = -np.inf
        logits[:, self.pieces] = allowed


class OnlySpans:
    """The output is a stretch of the source's text, or nothing: after a hypothesis comes a piece that follows it at some
    place of the text, or the end piece. `texts` are the pieces of each source's text; a span has at most `longest`.

    `words`, one for each piece of a text, say which have something of a word: then it is a stretch with one of these, and
    not nothing. `starts`, [V], gives for each piece another that may stand for it at the start of an output, as the same word
    after a space: a model writes "1931" where the text has "(1931)"."""

    def __init__(
        self,
        texts: Sequence[Sequence[int]],
        longest: int,
        eos: int,
        words: Sequence[Sequence[bool]] | None = None,
        starts: IntArray | None = None,
    ) -> None:
        self.longest, self.eos, self.or_nothing = longest, eos, words is None
        # what follows the last piece of a text is -1, which no piece is
        self.texts = np.full((len(texts), max(map(len, texts), default=0) + 1), -1, dtype=np.int64)
        self.to_word = np.zeros_like(self.texts)  # how many pieces before the first with a word
        for row, text in enumerate(texts):
            self.texts[row, : len(text)] = text
            if words is not None:
                places = np.append(np.flatnonzero(words[row]), 2 * self.texts.shape[1] + longest)
                every = np.arange(self.texts.shape[1])
                self.to_word[row] = places[np.searchsorted(places, every)] - every
        self.firsts = self.texts if starts is None else np.where(self.texts < 0, -1, starts[self.texts])

    def __call__(self, ids: IntArray, sentences: IntArray, logits: FloatArray) -> None:
        length = ids.shape[1]
        texts, firsts = self.texts[sentences], self.firsts[sentences]  # [rows, longest text + 1]
        following = texts[:, length:]
        n = following.shape[1]
        to_word = self.to_word[sentences, :n]
        here = np.ones(following.shape, dtype=bool)  # places whose `length` pieces are the hypothesis
        for t in range(length):
            same = texts[:, t : t + n] == ids[:, t : t + 1]
            here &= same if t else same | (firsts[:, :n] == ids[:, :1])
        goes_on = here & (following >= 0) & (to_word < self.longest) & (length < self.longest)
        ends = np.flatnonzero((here & (to_word < length)).any(axis=1) | self.or_nothing)
        rows, pieces = np.nonzero(goes_on)[0], following[goes_on]
        if not length:
            rows, pieces = np.tile(rows, 2), np.concatenate([pieces, firsts[goes_on]])
        rows = np.concatenate([rows, ends])
        pieces = np.concatenate([pieces, np.full(len(ends), self.eos)])
        allowed = logits[rows, pieces]
        logits.fill(-np.inf)
        logits[rows, pieces] = allowed
