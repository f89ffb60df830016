"""Search for the best output: greedy, beam search and sampling over any engine that can do one step.

Each step: raw logits → rules (they set what is not allowed to -inf) → one log_softmax → add → top 2K. What a rule
forbids is taken out before the softmax, so the probabilities of the rest sum to one; or, where a checkpoint says so
(GenerationConfig.renormalize), after it: log_softmax → rules → add → top 2K.

A hypothesis is ranked by

    score(Y) = Σ log p(y_i) / |Y|^α,   α = GenerationConfig.length_penalty,

|Y| counting the end piece, and a piece that is forced on the output (all of a task's prefix but the first, as the language
code of M2M100) as the output's own, of probability 1.

Normalising by length is the idea of Wu et al. 2016 (arXiv:1609.08144), §7; their divisor is (5 + |Y|)^α / 6^α, ours is
plainly |Y|^α. α = 0 ranks by probability alone, α = 1 by the mean log-probability of a piece.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from .config import GenerationConfig, SpecialIds
from .errors import NOT_A_NUMBER, TxError
from .results import Hypothesis
from .rules import (
    FloatArray,
    IntArray,
    LogitsRule,
    MinLength,
    NoRepeatNgram,
    OnlySpans,
    Penalty,
    SourceNoRepeatNgram,
    Suppress,
    SuppressFirst,
)

__all__ = ["LogitsRule", "OnlySpans", "Stepper", "generate"]

DoubleArray = npt.NDArray[np.float64]

# What counts as a loop: the last pieces are one n-gram, n ≤ LOOP_NGRAM, at least LOOP_REPEATS times in a row and over
# at least LOOP_PIECES pieces. A source that repeats itself as often may be answered with as many repetitions.
LOOP_NGRAM = 8
LOOP_REPEATS = 4
LOOP_PIECES = 8


class Stepper(Protocol):
    """An engine that runs the decoder one piece at a time. Its state is opaque to the search."""

    def start(self, src: Sequence[Sequence[int]], beams: int, kinds: Sequence[Any] | None = None) -> Any:
        """Encodes the sources; the state has len(src) · beams rows, row b · beams + k for beam k of source b. `kinds` are
        arrays of the kinds of the source pieces, where the model distinguishes some."""

    def step(self, ids: IntArray, state: Any) -> FloatArray:
        """Feeds one piece to each row, ids [rows]; returns logits [rows, V], which the search may overwrite."""

    def reorder(self, state: Any, rows: IntArray) -> Any:
        """The state whose row i is row rows[i] of the given one: rows are kept, repeated or dropped."""


@runtime_checkable
class FastStepper(Stepper, Protocol):
    """An engine that also finds the best pieces itself, where that is sooner done than handing all logits over."""

    def best(
        self, ids: IntArray, state: Any, count: int, forbidden: IntArray, renormalise: bool
    ) -> tuple[IntArray, FloatArray]:
        """As `step`, but returns the `count` most probable pieces and their log P, each [rows, count], the best first and
        none of `forbidden`; of these log P add up to one without them if `renormalise`, else with them. Where fewer
        pieces are left the rest is at −∞."""


def generate(
    stepper: Stepper,
    src: Sequence[Sequence[int]],
    *,
    config: GenerationConfig,
    special: SpecialIds,
    prefix: Sequence[int],
    n_best: int = 1,
    rules: Sequence[LogitsRule] = (),
    kinds: Sequence[Any] | None = None,
    renormalise: bool = True,
) -> list[list[Hypothesis]]:
    """The `n_best` best outputs for each source, best first; fewer where the search found fewer.

    `src` rows hold piece ids, end piece included. The pieces of `prefix` (`special.decoder_start` if it is empty) are
    fed first and their probabilities do not count; all but the first count in the length. `rules` come on top of those that `config` asks for; without
    `renormalise` they only limit the choice: the probabilities are those before them, and of what they allow do not sum
    to one. `kinds` are the kinds of the source pieces, where the model distinguishes some.

    Beam search (`config.sample` false; the beam is at least `n_best` wide): of the 2K best continuations of a
    sentence, end pieces among the first K finish a hypothesis, and the K best of the others go on. A sentence is done
    when K hypotheses have finished or looped, so a beam of one is greedy search; or sooner, when no live hypothesis
    can still enter the n best. That bound is exact: log p only falls, so a live hypothesis with Σ log p = L ends with
    a score of at most L / limit^α (for α < 0: L / (length + 1)^α). Ties go to the lower beam, then to the lower id.
    So with `config.early_stopping` True. With "never" the bound alone ends it: where rules allow little, K unlikely
    hypotheses may soon have finished. With False, K have to be there, and the K-th best of them be as good as the best live
    one is by now: L / length^α.

    Sampling draws `n_best` outputs and returns the different ones. `temperature`, then `top_k`, then `top_p` (pieces
    tied with the last one that is in are in too) shape the draw only: log_prob and score stay those of the model, the
    rules applied. A draw depends on `config.seed` and the sentence's own source ids, on nothing else.

    Hypotheses that reach `config.length_limit` are closed with finished=False and no end piece in log_prob and length;
    so are those whose rules allow no piece at all. Loops (see LOOP_NGRAM) are closed at once, cut back to one
    occurrence, with looped=True. Finished hypotheses rank first, those that were cut next, loops last.

    A sentence's result does not depend on its batch, as far as the engine's logits do not. Raises TxError if the
    engine returns logits that are not numbers.
    """
    if n_best < 1:
        raise ValueError(f"n_best must be at least 1, not {n_best}")
    if not src:
        return []
    prefix = prefix or [special.decoder_start]
    own_rules = rules_of(config, special, src, prefix)
    search = _Search(src, config, special, n_best, len(prefix) - 1)
    state = stepper.start(src, len(search.total) // len(src), kinds)
    fast = stepper if isinstance(stepper, FastStepper) and not config.sample else None
    forbidden = None
    if fast is not None and not _multiplied(config, search.width) and (renormalise or not rules):
        forbidden = _forbidden([*own_rules, *rules])
    for piece in prefix[:-1]:
        stepper.step(np.full(len(search.total), piece, dtype=np.int64), state)
    last = np.full(len(search.total), prefix[-1], dtype=np.int64)
    while True:
        if fast is not None and forbidden is not None:
            rows = search.advance(*fast.best(last, state, search.candidates, forbidden, config.renormalize))
        else:
            logits = np.require(stepper.step(last, state), np.float32, ["C", "W"])
            norm = normalised(logits, config, search.width)
            for rule in own_rules:
                rule(search.ids, search.sentences, logits)
            if norm is None and not renormalise:
                norm = log_sum_exp(logits)
            for rule in rules:
                rule(search.ids, search.sentences, logits)
            rows = search.advance(*search.choose(logits, norm))
        if not rows.size:
            return [_rank(found, n_best) for found in search.found]
        if len(rows) != len(last) or (rows != np.arange(len(rows))).any():
            state = stepper.reorder(state, rows)
        last = np.ascontiguousarray(search.ids[:, -1])


def _forbidden(rules: Sequence[LogitsRule]) -> IntArray | None:
    """The pieces that the rules forbid, always; None if they do anything else."""
    if all(isinstance(rule, Suppress) for rule in rules):
        return np.unique(np.concatenate([rule.ids for rule in rules if isinstance(rule, Suppress)]))
    return None


def _multiplied(config: GenerationConfig, width: int) -> bool:
    """Whether a rule multiplies log-probabilities: see `normalised`."""
    return width > 1 and (config.repetition_penalty != 1 or config.source_reward != 1)


def normalised(logits: FloatArray, config: GenerationConfig, width: int) -> DoubleArray | None:
    """log Σ exp of logits [rows, V] before the rules, [rows], if it counts; None if that after them does. What a rule
    multiplies in a search with beams of `width` are log-probabilities, in a greedy one logits, as in the reference
    implementation: with such a rule the logits become those, in place."""
    multiplied = _multiplied(config, width)
    if config.renormalize and not multiplied:
        return None
    norm = log_sum_exp(logits)
    if not multiplied:
        return norm
    logits -= norm[:, None].astype(np.float32)
    return None if config.renormalize else np.zeros(len(logits))


def rules_of(
    config: GenerationConfig, special: SpecialIds, src: Sequence[Sequence[int]], prefix: Sequence[int]
) -> list[LogitsRule]:
    """The rules that the settings ask for. Padding is never produced (unless it doubles as the end piece)."""
    pad = () if special.pad == special.eos else (special.pad,)
    rules: list[LogitsRule] = [Suppress([*pad, *config.suppress])]
    if config.suppress_first:
        rules.append(SuppressFirst(config.suppress_first))
    if config.source_reward != 1:
        rules.append(Penalty(1 / config.source_reward, src=src))
    if config.repetition_penalty != 1:
        rules.append(Penalty(config.repetition_penalty, prefix))
    if config.min_length:
        rules.append(MinLength(config.min_length, special.eos))
    if config.no_repeat_ngram:
        rules.append(NoRepeatNgram(config.no_repeat_ngram, prefix[1:]))
    if config.source_no_repeat_ngram:
        rules.append(SourceNoRepeatNgram(config.source_no_repeat_ngram, src, prefix))
    return rules


def _rank(found: Sequence[Hypothesis], n_best: int) -> list[Hypothesis]:
    """Finished before cut before looped, each by score, earlier found first; different ids only."""
    ranked: dict[tuple[int, ...], Hypothesis] = {}
    for hypothesis in sorted(found, key=lambda h: (h.looped, not h.finished, -h.score)):
        ranked.setdefault(hypothesis.ids, hypothesis)
    return list(ranked.values())[:n_best]


class _Search:
    """The live hypotheses of all unfinished sentences. They come in groups of `width` rows: a group is the beam of a
    sentence or, when sampling, one draw (width 1). A row with total = -inf holds no hypothesis."""

    def __init__(
        self, src: Sequence[Sequence[int]], config: GenerationConfig, special: SpecialIds, n_best: int, n_forced: int
    ) -> None:
        self.config, self.eos, self.n_best, self.n_forced = config, special.eos, n_best, n_forced
        self.width = 1 if config.sample else max(config.beam_size, n_best)
        draws = n_best if config.sample else 1
        rows = len(src) * draws * self.width
        self.sentences: IntArray = np.repeat(np.arange(len(src), dtype=np.int64), draws * self.width)
        self.groups: IntArray = np.arange(len(src) * draws)  # numbers of the groups that are still there
        self.ids: IntArray = np.zeros((rows, 0), dtype=np.int64)  # [rows, T]
        self.history: DoubleArray = np.zeros((rows, 0))  # Σ log p after each of the T pieces
        self.total: DoubleArray = np.zeros(rows)  # Σ log p so far; at first all beams are equal, so one is enough
        self.total.reshape(-1, self.width)[:, 1:] = -np.inf
        self.runs: IntArray = np.zeros((rows, LOOP_NGRAM), dtype=np.int64)  # see _update_runs
        self.found: list[list[Hypothesis]] = [[] for _ in src]
        self.n_ended: IntArray = np.zeros(len(self.groups), dtype=np.int64)  # finished or looped, of each group
        self.limits: IntArray = np.array([max(1, config.length_limit(len(row))) for row in src], dtype=np.int64)
        self.loop_runs = np.array([_loop_runs(row) for row in src], dtype=np.int64)  # [sentences, LOOP_NGRAM]
        if config.sample:
            hashes = [zlib.crc32(np.asarray(row, dtype="<i8").tobytes()) for row in src]
            seed = config.seed % 2**64
            self.random = [np.random.default_rng((seed, h, draw)) for h in hashes for draw in range(draws)]

    @property
    def candidates(self) -> int:
        """How many continuations of a row have to be known: 2K of a beam, for K of them may be end pieces."""
        return 1 if self.width == 1 else 2 * self.width

    def choose(self, logits: FloatArray, norm: DoubleArray | None = None) -> tuple[IntArray, DoubleArray]:
        """The continuations of each row, best first, and their log p, each [rows, candidates], given logits [rows, V] after
        the rules and log Σ exp of all that counts [rows], by default of these logits."""
        highest = log_sum_exp(logits) if norm is None else logits.max(axis=1)
        norm = highest if norm is None else norm
        norm[np.isneginf(highest)] = 0.0  # nothing is allowed: log p = −∞
        if self.width > 1:
            ids, values = _top(logits, self.candidates)
        elif self.config.sample:
            ids = self._draw(logits)[:, None]
            values = np.take_along_axis(logits, ids, axis=1)
        else:
            ids = logits.argmax(axis=1)[:, None]
            values = np.take_along_axis(logits, ids, axis=1)
        return ids, np.minimum(values - norm[:, None], 0.0)

    def advance(self, ids: IntArray, log_probs: FloatArray | DoubleArray) -> IntArray:
        """Adds one piece to every hypothesis, given the best continuations of each row and their log p, each
        [rows, candidates]. Closes what has come to an end and drops the groups that are done. Returns the old row that each
        of the new rows comes from."""
        stuck = np.isneginf(log_probs[:, 0])  # nothing is allowed
        for row in np.flatnonzero(stuck & np.isfinite(self.total)).tolist():
            self._close(row, self.ids[row], self.total[row], finished=False)
        parents, pieces, totals = self._rank_candidates(ids, log_probs)  # each [groups, candidates], best first

        ends, possible = pieces == self.eos, np.isfinite(totals)
        finishing = ends & possible
        finishing[:, self.width :] = False
        for group, rank in np.argwhere(finishing):
            row = int(parents[group, rank])
            self._close(row, self.ids[row], totals[group, rank], finished=True)
        self.n_ended += finishing.sum(axis=1)

        goes_on = possible & ~ends
        best = np.argsort(~goes_on, axis=1, kind="stable")[:, : self.width]
        rows = np.take_along_axis(parents, best, axis=1).ravel()
        piece = np.take_along_axis(pieces, best, axis=1).reshape(-1, 1)
        total = np.where(goes_on, totals, -np.inf)
        self.total = np.take_along_axis(total, best, axis=1).ravel()
        self.ids = np.concatenate([self.ids[rows], piece], axis=1)
        self.history = np.concatenate([self.history[rows], self.total[:, None]], axis=1)
        self.runs = self.runs[rows]
        self._update_runs()
        self._close_loops()
        self._close_at_limit()
        return rows[self._keep_unfinished()]

    def _rank_candidates(
        self, ids: IntArray, log_probs: FloatArray | DoubleArray
    ) -> tuple[IntArray, IntArray, DoubleArray]:
        """The candidates of each group, best first: parent rows, pieces and Σ log p, each [groups, candidates]."""
        totals = self.total[:, None] + log_probs
        parents = np.broadcast_to(np.arange(len(ids))[:, None], ids.shape)
        if self.width == 1:  # greedy and sampling: one candidate a row
            return parents, ids, totals
        # The 2K best of a sentence are among the 2K best of each of its rows.
        groups = len(self.groups)
        totals = totals.reshape(groups, -1)
        best = np.argsort(-totals, axis=1, kind="stable")[:, : self.candidates]
        return (
            np.take_along_axis(parents.reshape(groups, -1), best, axis=1),
            np.take_along_axis(ids.reshape(groups, -1), best, axis=1),
            np.take_along_axis(totals, best, axis=1),
        )

    def _draw(self, logits: FloatArray) -> IntArray:
        """One piece a row, drawn from softmax(logits / temperature) cut to top_k and top_p."""
        top_k, top_p = self.config.top_k, self.config.top_p
        scaled = logits.astype(np.float64)
        scaled -= scaled.max(axis=1, keepdims=True, initial=-1e30)
        scaled /= self.config.temperature
        if 0 < top_k < scaled.shape[1]:
            kth = np.partition(scaled, -top_k, axis=1)[:, -top_k, None]
            scaled[scaled < kth] = -np.inf
        probs = np.exp(scaled)
        if top_p < 1:
            descending = -np.sort(-probs, axis=1)
            sums = descending.cumsum(axis=1)
            # The last piece that is in is the first one with which the sum reaches top_p.
            last = (sums < top_p * sums[:, -1:]).sum(axis=1, keepdims=True)
            probs[probs < np.take_along_axis(descending, last, axis=1)] = 0.0
        sums = probs.cumsum(axis=1)
        uniform = np.array([self.random[group].random() for group in self.groups])
        # Rounding must not carry the point to the very end, past the last piece with a probability.
        point = np.minimum(uniform * sums[:, -1], np.nextafter(sums[:, -1], 0.0))
        pieces: IntArray = np.argmax(sums > point[:, None], axis=1)
        return pieces

    def _close(self, row: int, ids: IntArray, log_prob: float, *, finished: bool, looped: bool = False) -> None:
        length = max(1, self.n_forced + len(ids) + finished)
        score = float(log_prob) / length**self.config.length_penalty
        hypothesis = Hypothesis(tuple(ids.tolist()), float(log_prob), score, finished, looped)
        self.found[self.sentences[row]].append(hypothesis)

    def _update_runs(self) -> None:
        """runs[row, n - 1]: how many of the last pieces equal the piece n before them. The n-gram at the end then
        stands runs // n + 1 times in a row."""
        earlier = self.ids[:, -2 : -2 - LOOP_NGRAM : -1]  # 1, 2, … pieces before the last
        same = np.zeros(self.runs.shape, dtype=bool)
        same[:, : earlier.shape[1]] = earlier == self.ids[:, -1:]
        self.runs = np.where(same, self.runs + 1, 0)

    def _close_loops(self) -> None:
        loops = self.runs >= self.loop_runs[self.sentences]
        for row in np.flatnonzero(loops.any(axis=1) & np.isfinite(self.total)).tolist():
            shortest = int(loops[row].argmax())
            kept = self.ids.shape[1] - int(self.runs[row, shortest])
            self._close(row, self.ids[row, :kept], self.history[row, kept - 1], finished=False, looped=True)
            self.total[row] = -np.inf
            self.n_ended[row // self.width] += 1

    def _close_at_limit(self) -> None:
        at_limit = self.ids.shape[1] >= self.limits[self.sentences]
        for row in np.flatnonzero(at_limit & np.isfinite(self.total)).tolist():
            self._close(row, self.ids[row], self.total[row], finished=False)
        self.total[at_limit] = -np.inf

    def _keep_unfinished(self) -> IntArray:
        """Drops the groups that are done; returns the rows that stay."""
        live = self.total.reshape(-1, self.width).max(axis=1)  # the best live Σ log p of each group
        done = np.isneginf(live)
        if self.config.early_stopping is True:
            done |= self.n_ended >= self.width
        alpha, length = self.config.length_penalty, self.n_forced + self.ids.shape[1]
        for group in np.flatnonzero(~done & (self.n_ended >= self.n_best)):
            sentence = self.sentences[group * self.width]
            scores = sorted((h.score for h in self.found[sentence] if h.finished), reverse=True)
            longest = self.n_forced + self.limits[sentence] if alpha >= 0 else length + 1
            bound = live[group] / float(longest) ** alpha
            done[group] = len(scores) >= self.n_best and bound <= scores[self.n_best - 1]
            if self.config.early_stopping is False and self.n_ended[group] >= self.width:
                done[group] |= len(scores) < self.width or live[group] / length**alpha <= scores[self.width - 1]
        rows = np.flatnonzero(np.repeat(~done, self.width))
        self.groups, self.n_ended = self.groups[~done], self.n_ended[~done]
        self.sentences, self.ids, self.history = self.sentences[rows], self.ids[rows], self.history[rows]
        self.total, self.runs = self.total[rows], self.runs[rows]
        return rows


def log_sum_exp(logits: FloatArray) -> DoubleArray:
    """log Σ exp of each row, [rows]; -inf for a row that is -inf throughout."""
    highest = logits.max(axis=1, keepdims=True)
    if not (highest < np.inf).all():  # also false for NaN
        raise TxError(NOT_A_NUMBER)
    highest[np.isneginf(highest)] = 0.0
    sums = np.empty(len(logits), dtype=np.float64)
    buffer = np.empty((8, logits.shape[1]), dtype=np.float32)  # a few rows at a time stay in the processor's cache
    for start in range(0, len(logits), len(buffer)):
        block = logits[start : start + len(buffer)]
        shifted = np.subtract(block, highest[start : start + len(buffer)], out=buffer[: len(block)])
        sums[start : start + len(buffer)] = np.exp(shifted, out=shifted).sum(axis=1)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(sums) + highest[:, 0])


def _top(logits: FloatArray, count: int) -> tuple[IntArray, FloatArray]:
    """Ids and values, [rows, count], of the highest logits of each row: highest first, ties by lower id. Where fewer
    than `count` pieces are allowed, the rest is id 0 at -inf."""
    rows, size = logits.shape
    # The count-th highest of the maxima of disjoint blocks is at most the count-th highest logit, and close to it.
    # With fewer blocks than `count` there is no such bound. This is far faster than np.argpartition over all pieces.
    threshold = np.full(rows, np.finfo(np.float32).min)
    blocks = size // 128
    if blocks >= count:
        maxima = logits[:, : blocks * 128].reshape(rows, blocks, 128).max(axis=2)
        threshold = np.maximum(threshold, np.partition(maxima, -count, axis=1)[:, -count])
    candidates = np.flatnonzero(logits >= threshold[:, None])
    row, piece = np.divmod(candidates, size)
    value = logits.ravel()[candidates]
    order = np.lexsort((-value, row))  # stable, so equal values stay in the order of their ids
    rank = np.arange(len(row)) - np.searchsorted(row, row)  # in its row, after sorting
    kept = rank < count
    ids = np.zeros((rows, count), dtype=np.int64)
    values = np.full((rows, count), -np.inf, dtype=np.float32)
    ids[row[kept], rank[kept]] = piece[order][kept]
    values[row[kept], rank[kept]] = value[order][kept]
    return ids, values


def _loop_runs(src: Sequence[int]) -> list[int]:
    """For n = 1 … LOOP_NGRAM: the value of runs (see _Search) from which an n-gram counts as looping for `src`."""
    row = np.asarray(src, dtype=np.int64)
    repeats = 1  # of any n-gram in the source
    for n in range(1, min(LOOP_NGRAM, len(row) // 2) + 1):
        same = row[n:] == row[:-n]
        if not same.any():
            continue
        changes = np.flatnonzero(~same)
        longest = int(np.diff(changes, prepend=-1, append=len(row) - n).max()) - 1
        repeats = max(repeats, longest // n + 1)
    needed = [max(LOOP_REPEATS, -(-LOOP_PIECES // n), repeats + 1) for n in range(1, LOOP_NGRAM + 1)]
    return [n * (times - 1) for n, times in enumerate(needed, start=1)]
