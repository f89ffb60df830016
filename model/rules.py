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


class MinLength:
    """No end piece before `length` pieces of output (the end piece not counted)."""

    def __init__(self, length: int, eos: int) -> None:
        self.length, self.eos = length, eos

    def __call__(self, ids: IntArray, sentences: IntArray, logits: FloatArray) -> None:
        if ids.shape[1] < self.length:
            logits[:, self.eos] = -np.inf


class NoRepeatNgram:
    """No n pieces occur twice in one output."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __call__(self, ids: IntArray, sentences: IntArray, logits: FloatArray) -> None:
        n, length = self.n, ids.shape[1]
        if length < n:
            return
        ngrams = np.lib.stride_tricks.sliding_window_view(ids, n, axis=1)  # [rows, T - n + 1, n]
        tail = ids[:, length - n + 1 :]  # the n - 1 pieces that the next one would complete
        rows, starts = np.nonzero((ngrams[:, :, :-1] == tail[:, None, :]).all(axis=2))
        logits[rows, ngrams[rows, starts, -1]] = -np.inf


class OnlySpans:
    """The output is a stretch of the source's text, or nothing: after a hypothesis comes a piece that follows it at some
    place of the text, or the end piece. `texts` are the pieces of each source's text; a span has at most `longest`."""

    def __init__(self, texts: Sequence[Sequence[int]], longest: int, eos: int) -> None:
        self.longest, self.eos = longest, eos
        # what follows the last piece of a text is -1, which no piece is
        self.texts = np.full((len(texts), max(map(len, texts), default=0) + 1), -1, dtype=np.int64)
        for row, text in zip(self.texts, texts, strict=True):
            row[: len(text)] = text

    def __call__(self, ids: IntArray, sentences: IntArray, logits: FloatArray) -> None:
        length = ids.shape[1]
        texts = self.texts[sentences]  # [rows, longest text + 1]
        following = texts[:, length:] if length < self.longest else texts[:, :0]
        here = following >= 0  # places after which a piece comes, whose `length` pieces are the hypothesis
        for t in range(length):
            here &= texts[:, t : t + here.shape[1]] == ids[:, t : t + 1]
        rows = np.concatenate([np.nonzero(here)[0], np.arange(len(ids))])
        pieces = np.concatenate([following[here], np.full(len(ids), self.eos)])
        allowed = logits[rows, pieces]
        logits.fill(-np.inf)
        logits[rows, pieces] = allowed
