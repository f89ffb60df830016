"""Which piece translates which: lexical translation probabilities from sentence pairs by IBM Model 1.

Brown, Della Pietra, Della Pietra & Mercer 1993, "The Mathematics of Statistical Machine Translation", §4.1: each target
piece f of a sentence comes from one source piece e of it, or from the null word, all equally likely beforehand, with
probability t(f | e). EM finds t; Model 1 has one maximum, so a uniform start does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ..errors import InputError

Ints: TypeAlias = npt.NDArray[np.int64]
Ints32: TypeAlias = npt.NDArray[np.int32]
Floats: TypeAlias = npt.NDArray[np.float64]
Pairs: TypeAlias = Sequence[tuple[Sequence[int], Sequence[int]]]

_PAIRS_A_CHUNK = 5_000  # the probabilities that one chunk uses should stay in the processor's cache


@dataclass(frozen=True, eq=False)
class TranslationTable:
    """A sparse table: t(target_ids[k] | source_ids[k]) = probs[k], sorted by source, then by target.

    All three arrays are of one length. Source id `n_source` stands for the null word. What was pruned is missing, so
    the probabilities of a source piece may sum to a little less than one.
    """

    source_ids: Ints32
    target_ids: Ints32
    probs: Floats
    n_source: int
    n_target: int

    def targets(self, source: int) -> tuple[Ints32, Floats]:
        """The targets of one source piece (`n_source`: of the null word) and their probabilities, best first."""
        start, stop = np.searchsorted(self.source_ids, [source, source + 1])
        order = start + np.argsort(-self.probs[start:stop], kind="stable")
        return self.target_ids[order], self.probs[order]

    def expectation(
        self, vectors: npt.NDArray[np.floating], top: int = 8, min_prob: float = 0.02
    ) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        """The expected vector of each source piece's translation: Σ t(f | e) · vectors[f] / Σ t(f | e).

        The sums run over the `top` most probable targets with t ≥ `min_prob`. `vectors` is [n_target, d]. Returns the
        means [n_source, d] and the masses [n_source], the Σ t(f | e) that was covered; both are 0 for a piece that has
        no such target. Raises ValueError for vectors of another shape.
        """
        if vectors.ndim != 2 or len(vectors) != self.n_target:
            raise ValueError(f"vectors must be [{self.n_target}, d], not {list(vectors.shape)}")
        keep = np.flatnonzero((self.probs >= min_prob) & (self.source_ids < self.n_source))
        keep = keep[np.lexsort((-self.probs[keep], self.source_ids[keep]))]
        source, target, probs = self.source_ids[keep], self.target_ids[keep], self.probs[keep]
        rank = np.arange(len(source)) - np.searchsorted(source, source)
        means = np.zeros((self.n_source, vectors.shape[1]))
        mass = np.zeros(self.n_source)
        for r in range(top):  # a source piece occurs once at each rank, so += by index adds every row
            at = rank == r
            means[source[at]] += probs[at, None] * vectors[target[at]]
            mass[source[at]] += probs[at]
        means /= np.where(mass > 0, mass, 1.0)[:, None]
        return means.astype(np.float32), mass.astype(np.float32)


@dataclass(frozen=True, eq=False)
class _Chunk:
    """The possible links of some sentence pairs, target piece by target piece.

    `rows` are the table's rows that occur, sorted; link k uses row rows[links[k]]. The links of target piece j are
    links[starts[j] :][: widths[j]], one for each source piece of its sentence.
    """

    rows: Ints32
    links: Ints32
    starts: Ints
    widths: Ints


def _flat(sentences: Sequence[Sequence[int]], n_ids: int, side: str) -> tuple[Ints, Ints]:
    """All ids in a row, and the length of each sentence."""
    lengths = np.array([len(s) for s in sentences], np.int64)
    ids = np.fromiter(chain.from_iterable(sentences), np.int64, int(lengths.sum()))
    if ids.min() < 0 or ids.max() >= n_ids:
        raise ValueError(f"{side} ids must be from 0 to {n_ids - 1}, not {ids.min()} to {ids.max()}")
    return ids, lengths


def _link_keys(pairs: Pairs, n_source: int, n_target: int, null: bool) -> tuple[Ints, Ints, Ints]:
    """Keys (source · n_target + target) of all links of `pairs` by target piece; the starts and widths of _Chunk."""
    source, source_lengths = _flat([s for s, _ in pairs], n_source, "source")
    target, target_lengths = _flat([t for _, t in pairs], n_target, "target")
    first = np.cumsum(source_lengths) - source_lengths
    if null:  # one more source piece before each sentence
        source = np.insert(source, first, n_source)
        first = first + np.arange(len(pairs))
        source_lengths = source_lengths + 1
    widths = np.repeat(source_lengths, target_lengths)
    starts = np.cumsum(widths) - widths
    position = np.arange(int(widths.sum())) + np.repeat(np.repeat(first, target_lengths) - starts, widths)
    return source[position] * n_target + np.repeat(target, widths), starts, widths


def _index(pairs: Pairs, n_source: int, n_target: int, null: bool) -> tuple[Ints, list[_Chunk]]:
    """The sorted keys of all links that occur, and the sentence pairs as indices into them."""
    parts: list[tuple[Ints, Ints32, Ints, Ints]] = []
    for i in range(0, len(pairs), _PAIRS_A_CHUNK):
        keys, starts, widths = _link_keys(pairs[i : i + _PAIRS_A_CHUNK], n_source, n_target, null)
        unique, links = np.unique(keys, return_inverse=True)
        parts.append((unique, links.reshape(-1).astype(np.int32), starts, widths))
    all_keys = np.sort(np.concatenate([unique for unique, *_ in parts]))
    all_keys = all_keys[np.diff(all_keys, prepend=-1) > 0]  # np.unique, several times faster
    return all_keys, [
        _Chunk(np.searchsorted(all_keys, unique).astype(np.int32), links, starts, widths)
        for unique, links, starts, widths in parts
    ]


def translation_table(
    pairs: Pairs, n_source: int, n_target: int, iterations: int = 5, null: bool = True, prune: float = 1e-4
) -> TranslationTable:
    """t(target | source) by `iterations` rounds of EM over `pairs` of (source ids, target ids).

    `null` adds the null word to every source sentence, for target pieces that nothing in the source stands for.
    Entries with t < `prune` are left out, without renormalising. A pair with an empty side says nothing and is skipped.
    200,000 pairs of 12 + 12 pieces take about 15 s of one core and 1 GB (twice that where all links differ).
    Raises InputError where no pair is left and ValueError for an id out of range.
    """
    if iterations < 1:
        raise ValueError(f"iterations must be at least 1, not {iterations}")
    pairs = [(s, t) for s, t in pairs if len(s) and len(t)]
    if not pairs:
        raise InputError("there are no sentence pairs to align: every pair has an empty side")
    keys, chunks = _index(pairs, n_source, n_target, null)
    source_ids = (keys // n_target).astype(np.int32)
    target_ids = (keys % n_target).astype(np.int32)
    del keys  # as large as the table itself
    source_starts = np.flatnonzero(np.diff(source_ids, prepend=-1))
    source_widths = np.diff(source_starts, append=len(source_ids))
    t = np.ones(len(source_ids))
    for _ in range(iterations):
        counts = np.zeros(len(t))
        for chunk in chunks:  # E step: the share of each source piece in each target piece
            share = t[chunk.rows][chunk.links]
            share /= np.repeat(np.add.reduceat(share, chunk.starts), chunk.widths)
            counts[chunk.rows] += np.bincount(chunk.links, share, len(chunk.rows))
        t = counts  # M step
        t /= np.repeat(np.add.reduceat(counts, source_starts), source_widths)
    keep = t >= prune
    return TranslationTable(source_ids[keep], target_ids[keep], t[keep], n_source, n_target)


def symmetrised_table(
    pairs: Pairs, n_source: int, n_target: int, iterations: int = 5, null: bool = True, prune: float = 1e-4
) -> TranslationTable:
    """Sharper than `translation_table`: both directions must agree on a link.

    Each entry is t(f | e) · t(e | f), from one Model 1 in each direction, divided by its sum over the targets f of e.
    A frequent f that is a likely companion of every e has a small t(e | f), so the product puts it down; the price is
    that the numbers are no longer probabilities of Model 1. Entries below `prune`, before or after the product, are
    left out; the null word has no row. A source piece without a link that both directions keep has no row either.
    Arguments and errors as for `translation_table`.
    """
    forward = translation_table(pairs, n_source, n_target, iterations, null, prune)
    backward = translation_table([(t, s) for s, t in pairs], n_target, n_source, iterations, null, prune)
    # The null words' rows find no partner: target n_target never occurs forward, and source n_source never backward.
    width = n_target + 1
    forward_keys = forward.source_ids.astype(np.int64) * width + forward.target_ids
    backward_keys = backward.target_ids.astype(np.int64) * width + backward.source_ids
    keys, i, j = np.intersect1d(forward_keys, backward_keys, assume_unique=True, return_indices=True)
    source_ids, target_ids = (keys // width).astype(np.int32), (keys % width).astype(np.int32)
    product = forward.probs[i] * backward.probs[j]
    product /= np.bincount(source_ids, product)[source_ids]
    keep = product >= prune
    return TranslationTable(source_ids[keep], target_ids[keep], product[keep], n_source, n_target)
