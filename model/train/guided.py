"""Guided alignment: one head of cross-attention learns to look at the source piece that a target piece translates.

Chen, Matusov, Khadivi & Peter 2016, "Guided Alignment Training for Topic-Aware Neural Machine Translation": beside the
likelihood of the translation, the attention is trained towards links that a statistical aligner found. Here they come
from the lexical table of module `align`, made of the training pairs themselves.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from .align import TranslationTable, symmetrised_table
from .data import Batch, Corpus

ROWS = 200_000  # pairs that the table is made of
DISTANCE = 3.0  # how fast a link loses with its distance from the diagonal: by e^−3 from one end to the other
LEAST = 0.02  # a link's score from which on it is one

Ids = npt.NDArray[np.int64]


def pairs_of(corpora: Sequence[Corpus], rows: int = ROWS, seed: int = 0) -> list[tuple[list[int], list[int]]]:
    """(source, target) of the translations to Chinese, and (target, source) of those to English: always English first.
    Without the end pieces; a random sample of `rows`, even over all."""
    places = [(c, i) for c, corpus in enumerate(corpora) if corpus.group == "translate" for i in range(len(corpus))]
    chosen = np.random.default_rng(seed).permutation(len(places))[:rows]
    pairs = []
    for c, i in (places[k] for k in chosen):
        corpus = corpora[c]
        src = corpus.src[corpus.src_at[i] : corpus.src_at[i + 1] - 1].tolist()
        tgt = corpus.tgt[corpus.tgt_at[i] : corpus.tgt_at[i + 1]].tolist()
        pairs.append((tgt, src) if corpus.task_names[corpus.task[i]] == "translate:en" else (src, tgt))
    return pairs


class Aligner:
    """Links between the pieces of a source and a target by a lexical table, in either direction.

    A piece of one side and one of the other are linked if each is the other's best; the score is the table's, which both
    directions of Model 1 agree on, times e^(−DISTANCE · |difference of their relative places|)."""

    def __init__(self, table: TranslationTable) -> None:
        self.width = max(table.n_source, table.n_target) + 1
        keys = table.source_ids.astype(np.int64) * self.width + table.target_ids
        order = np.argsort(keys)
        self.keys, self.probs = keys[order], table.probs[order]

    @classmethod
    def of(cls, corpora: Sequence[Corpus], vocab_size: int) -> Aligner:
        """From the translations among the corpora. InputError if there are none."""
        return cls(symmetrised_table(pairs_of(corpora), vocab_size, vocab_size))

    def of_batch(self, batch: Batch, reverse: Tensor) -> Tensor:
        """The links of a batch of translations, [B, T, S] bool; `reverse` [B] says of which rows tgt is the first language."""
        src = batch.src if batch.src_mask is None else batch.src.masked_fill(~batch.src_mask, -1)
        links = np.zeros((len(src), batch.labels.shape[1], src.shape[1]), np.bool_)
        for backwards in (False, True):
            rows = (reverse == backwards).numpy()
            if rows.any():
                links[rows] = self.links(src.numpy()[rows], batch.labels.numpy()[rows], backwards)
        return torch.from_numpy(links)

    def links(self, src: Ids, tgt: Ids, reverse: bool) -> npt.NDArray[np.bool_]:
        """src [B, S], tgt [B, T] → [B, T, S], True where they are linked; nothing links a negative id. `reverse`: the table's
        source language is that of tgt."""
        first, second = (tgt[:, :, None], src[:, None]) if reverse else (src[:, None], tgt[:, :, None])
        keys = np.where((first < 0) | (second < 0), -1, first * self.width + second)
        at = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        score = np.where(self.keys[at] == keys, self.probs[at], 0.0)
        score *= np.exp(-DISTANCE * np.abs(_relative(tgt)[:, :, None] - _relative(src)[:, None]))
        best = (score == score.max(2, keepdims=True)) & (score == score.max(1, keepdims=True))
        found: npt.NDArray[np.bool_] = best & (score >= LEAST)
        return found


def _relative(ids: Ids) -> npt.NDArray[np.float64]:
    """Where each piece stands in its sentence, from 0 to 1; negative ids are not of it."""
    lengths = (ids >= 0).sum(1, keepdims=True)
    relative: npt.NDArray[np.float64] = np.arange(ids.shape[1])[None] / np.maximum(lengths, 1)
    return relative


def alignment_loss(weights: Tensor, links: Tensor) -> Tensor:
    """−Σ log Σ_s w[b, t, s] over the target pieces t that are linked, the inner sum over the source pieces s linked to t, in
    nats. weights [B, T, S] of one head, links [B, T, S]."""
    linked = links.any(2)
    found = (weights.float() * links).sum(2)
    return -torch.log(found[linked].clamp(min=1e-9)).sum()
