"""Search for the best output that holds given phrases: lexically constrained beam search.

Grid beam search (Hokamp & Liu 2017, arXiv:1704.07138): hypotheses are kept in banks by how many pieces of the phrases they
still have to write, each bank with a beam of its own, so that one that has just paid for an unlikely phrase is not
compared with those that have not. A hypothesis goes on freely, or with the first piece of a phrase that is due; one inside a
phrase must finish it. (That of the same pieces which went on freely stands in another bank: it is how a phrase is given
up.) Only with all phrases written may it end.

Probabilities are the model's own: what the phrases forbid is not taken out before the softmax, so the score is that of the
same output in a free search.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from .config import GenerationConfig, SpecialIds
from .generation import Stepper, _loop_runs, _rank, _top, log_sum_exp, normalised, rules_of
from .results import Hypothesis
from .rules import IntArray
from .runtime import Job, Runtime

ROWS = 64  # hypotheses of one sentence, of all banks together; each bank has at least one
MOST_PIECES = 96  # of the phrases of one sentence: the work grows with their square

BATCH = 4  # sentences that are searched at once

Phrase = tuple[tuple[int, ...], ...]  # the ways to spell it in pieces, any of which will do


class _Live(NamedTuple):
    """A hypothesis: what it has written, Σ log p of that, the phrases that are due (their numbers), what is left of the
    phrase that it is inside of, and the row of the engine's state that wrote its last piece."""

    ids: tuple[int, ...]
    total: float
    due: tuple[int, ...]
    inside: tuple[int, ...]
    after_phrase: bool
    row: int


def constrained(
    stepper: Stepper,
    src: Sequence[Sequence[int]],
    phrases: Sequence[Sequence[Phrase]],
    *,
    config: GenerationConfig,
    special: SpecialIds,
    prefix: Sequence[int],
    n_best: int = 1,
    joins: Callable[[int, int], bool] = lambda piece, following: False,
    only: Collection[int] = (),
) -> list[list[Hypothesis]]:
    """The `n_best` best outputs for each source that hold all of its `phrases`, none of them overlapping, best first;
    none where there is no room for them, or they have more than MOST_PIECES pieces.

    `joins` says whether two pieces side by side run into one word or number: nothing is written next to a phrase that
    would join it. The pieces of `only` stand nowhere but in phrases. A bank is `config.beam_size` or `n_best` wide, or less where a sentence would have more than ROWS
    hypotheses. A sentence is done when no live hypothesis can become better than what it has; or when a whole beam has
    ended, of which none is worse than the best live one is by now (unless `config.early_stopping` is "never"). The limit of the length is that of the settings, or
    what the phrases need. All else is as in `generation.generate`.
    """
    if not src:
        return []
    fed = prefix or [special.decoder_start]
    rules = rules_of(config, special, src, fed)
    state = stepper.start(src, 1)
    for piece in fed:
        logits = stepper.step(np.full(len(src), piece, dtype=np.int64), state)
    searches = [
        _Sentence(row, wanted, config, special.eos, n_best, len(fed) - 1, joins, frozenset(only))
        for row, wanted in zip(src, phrases, strict=True)
    ]
    live = {n: [_Live((), 0.0, tuple(range(len(wanted))), (), False, n)] for n, wanted in enumerate(phrases)}
    while True:
        logits = np.require(logits, np.float32, ["C", "W"])
        ids: IntArray = np.array([hypothesis.ids for rows in live.values() for hypothesis in rows], dtype=np.int64)
        sentences: IntArray = np.repeat(np.fromiter(live, np.int64), [len(rows) for rows in live.values()])
        norm = normalised(logits, config, config.beam_size)
        for rule in rules:
            rule(ids.reshape(len(logits), -1), sentences, logits)
        norm = log_sum_exp(logits) if norm is None else norm
        at, following = 0, {}
        for n, rows in live.items():
            here = slice(at, at + len(rows))
            found = searches[n].advance(rows, logits[here], norm[here], at)
            at += len(rows)
            if found:
                following[n] = found
        if not following:
            return [_rank(search.found, n_best) for search in searches]
        live = following
        parents = np.array([hypothesis.row for rows in live.values() for hypothesis in rows], dtype=np.int64)
        state = stepper.reorder(state, parents)
        last = np.array([hypothesis.ids[-1] for rows in live.values() for hypothesis in rows], dtype=np.int64)
        logits = stepper.step(last, state)


class _Sentence:
    """The search for one sentence."""

    def __init__(
        self,
        src: Sequence[int],
        phrases: Sequence[Phrase],
        config: GenerationConfig,
        eos: int,
        n_best: int,
        n_forced: int,
        joins: Callable[[int, int], bool],
        only: frozenset[int],
    ) -> None:
        if not all(ways and all(ways) for ways in phrases):
            raise ValueError("a phrase has no pieces")
        self.phrases, self.eos, self.n_best, self.n_forced, self.joins = phrases, eos, n_best, n_forced, joins
        self.only = only
        self.shortest = [min(map(len, ways)) for ways in phrases]
        needed = sum(self.shortest)
        self.width = max(1, min(max(config.beam_size, n_best), ROWS // (needed + 1)))
        self.limit = min(config.max_length, max(1, config.length_limit(len(src)), needed + 1))
        self.alpha, self.patient = config.length_penalty, config.early_stopping == "never"
        self.loop_runs = _loop_runs(src)
        self.found: list[Hypothesis] = []
        self.room = needed <= min(self.limit, MOST_PIECES)

    def advance(self, rows: Sequence[_Live], logits: np.ndarray, norm: np.ndarray, first: int) -> list[_Live]:
        """The hypotheses one piece longer, given logits [rows, V] and log Σ exp of them [rows]; none if the sentence is
        done. Row 0 is row `first` of the state."""
        if not self.room:
            return []
        banks: dict[int, list[_Live]] = {}
        free = logits.copy()
        free[:, list(self.only)] = -np.inf
        pieces, values = _top(free, self.width + 1)
        for i, hypothesis in enumerate(rows):
            best = dict(zip(pieces[i].tolist(), (values[i] - norm[i]).tolist(), strict=True))
            for child in self._children(hypothesis, best, logits[i], float(norm[i]), first + i):
                if np.isfinite(child.total):
                    banks.setdefault(self._need(child), []).append(child)
        live: list[_Live] = []
        for need, bank in banks.items():
            kept = 0
            seen = set()
            for child in sorted(bank, key=lambda child: -child.total):
                if kept == self.width:
                    break
                same = child._replace(total=0.0, row=0)
                if same in seen or self._loops(child):
                    continue
                seen.add(same)
                kept += 1
                if child.ids[-1] == self.eos:
                    self._close(child.ids[:-1], child.total, finished=True)
                elif need == 0 and len(child.ids) >= self.limit:
                    self._close(child.ids, child.total, finished=False)
                elif len(child.ids) + need <= self.limit:
                    live.append(child)
        return [] if self._is_done(live) else live

    def _children(
        self, parent: _Live, best: dict[int, float], logits: np.ndarray, norm: float, row: int
    ) -> Iterator[_Live]:
        def log_p(piece: int) -> float:
            return min(float(logits[piece]) - norm, 0.0)

        ids, total, due, inside, after_phrase, _ = parent
        if inside:
            yield _Live((*ids, inside[0]), total + log_p(inside[0]), due, inside[1:], len(inside) == 1, row)
            return
        for piece, value in best.items():
            if piece != self.eos and not (after_phrase and self.joins(ids[-1], piece)):
                yield _Live((*ids, piece), total + min(value, 0.0), due, (), False, row)
        if not due:
            yield _Live((*ids, self.eos), total + log_p(self.eos), due, (), False, row)
        for number in due:
            for way in self.phrases[number]:
                if not (ids and self.joins(ids[-1], way[0])):
                    rest = tuple(other for other in due if other != number)
                    yield _Live((*ids, way[0]), total + log_p(way[0]), rest, way[1:], len(way) == 1, row)

    def _need(self, hypothesis: _Live) -> int:
        """How many pieces of phrases it has to write at least."""
        return len(hypothesis.inside) + sum(self.shortest[number] for number in hypothesis.due)

    def _loops(self, hypothesis: _Live) -> bool:
        ids = hypothesis.ids
        of_phrase = hypothesis.inside or hypothesis.after_phrase  # which may be a number of nothing but noughts
        return not of_phrase and any(
            len(ids) >= run + n and ids[-run:] == ids[-run - n : -n] for n, run in enumerate(self.loop_runs, start=1)
        )

    def _close(self, ids: tuple[int, ...], total: float, *, finished: bool) -> None:
        length = max(1, self.n_forced + len(ids) + finished)
        self.found.append(Hypothesis(ids, total, total / length**self.alpha, finished))

    def _is_done(self, live: Sequence[_Live]) -> bool:
        if not live:
            return True
        ended = {h.ids: h.score for h in self.found if h.finished}
        scores = sorted(ended.values(), reverse=True)
        if len(scores) < self.n_best:
            return False
        total, length = max(h.total for h in live), self.n_forced + len(live[0].ids)
        longest = self.n_forced + self.limit if self.alpha >= 0 else length + 1
        if total / float(longest) ** self.alpha <= scores[self.n_best - 1]:
            return True
        return (
            not self.patient
            and len(scores) >= self.width
            and total / float(length) ** self.alpha <= scores[self.width - 1]
        )


class Asked(NamedTuple):
    """A job, and the phrases that its output must hold."""

    job: Job
    phrases: Sequence[Phrase]


def outputs(
    runtime: Runtime,
    asked: Sequence[Asked],
    search: GenerationConfig,
    n_best: int,
    joins: Callable[[int, int], bool],
    only: Collection[int],
) -> list[list[Hypothesis]]:
    """The `n_best` best outputs that hold what each was asked to, in order; none where there is no room for that."""
    config = runtime.checkpoint.config
    stepper = runtime.stepper(sum(len(job[1]) for job, _ in asked) * search.beam_size)
    found: dict[int, list[Hypothesis]] = {}
    ordered = sorted(range(len(asked)), key=lambda i: (asked[i].job[0], len(asked[i].job[1])))
    for name, group in itertools.groupby(ordered, key=lambda i: asked[i].job[0]):
        task, numbers = config.tasks[name], list(group)
        prefix = task.tgt_prefix or (config.special.decoder_start,)
        if config.model.positions == "learned":
            most = max(1, config.model.max_positions - len(prefix))
            search = dataclasses.replace(search, max_length=min(search.max_length, most))
        needed = max(sum(min(map(len, ways)) for ways in asked[i].phrases) for i in numbers)
        rows = min(ROWS, max(search.beam_size, n_best) * (needed + 1))
        for part in runtime.batches([asked[i].job for i in numbers], BATCH, search, rows):
            batch = numbers[part]
            src = [[*task.src_prefix, *asked[i].job[1], config.special.eos, *task.src_suffix] for i in batch]
            with np.errstate(all="ignore"):  # what is no number is found, and said, by the search
                best = constrained(
                    stepper,
                    src,
                    [asked[i].phrases for i in batch],
                    config=search,
                    special=config.special,
                    prefix=prefix,
                    n_best=n_best,
                    joins=joins,
                    only=only,
                )
            found.update(zip(batch, best, strict=True))
    return [found[i] for i in range(len(asked))]


class Vocabulary(Protocol):
    """What is asked of a tokenizer."""

    def encode(self, text: str) -> list[int]: ...

    def spelling(self, i: int) -> bytes: ...


# What may stand before a phrase, and whether a space parts them: pieces differ by that.
_BEFORE = (("", ""), ("我", ""), ("(", ""), ("a", " "))


def ways_to_spell(vocabulary: Vocabulary, text: str) -> Phrase:
    """How a vocabulary spells a text at the start of an output and inside it, after a space or without one; none if it
    cannot."""
    ways: dict[tuple[int, ...], None] = {}
    for before, space in _BEFORE:
        ids, start = vocabulary.encode(before + space + text), vocabulary.encode(before) if before else []
        way = ids[len(start) :]
        spelt = b"".join(map(vocabulary.spelling, way))
        if ids[: len(start)] == start and spelt.strip() == text.strip().encode() and way:
            ways.setdefault(tuple(way))
    return tuple(ways)


def joins_of(vocabulary: Vocabulary, numbers: Collection[int] = ()) -> Callable[[int, int], bool]:
    """Whether two pieces side by side run into one number or one word of Latin letters. The pieces of `numbers` stand for
    what may begin and end with digits."""

    def joins(piece: int, following: int) -> bool:
        a, b = vocabulary.spelling(piece)[-1:], vocabulary.spelling(following)[:1]
        if a.isdigit() or b.isdigit():
            return (a.isdigit() or piece in numbers) and (b.isdigit() or following in numbers)
        return a.isalpha() and b.isalpha()  # bytes: ASCII only

    return joins
