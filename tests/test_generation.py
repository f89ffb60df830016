"""The search, tested on toy engines whose every probability is known."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from tx.model.config import GenerationConfig, SpecialIds
from tx.model.errors import TxError
from tx.model.generation import LogitsRule, OnlySpans, _rank, _top, generate, log_sum_exp
from tx.model.results import Hypothesis
from tx.model.rules import Suppress

PAD, EOS, START = 0, 1, 2
SPECIAL = SpecialIds(pad=PAD, eos=EOS, decoder_start=START)
NO_LENGTH_LIMIT = {"max_length_factor": 0.0, "max_length_constant": 1000}


class Table:
    """An engine given by a function of (source, all pieces fed so far) → logits [V]. Notes what it is asked to do."""

    def __init__(self, logits: Callable[[tuple[int, ...], tuple[int, ...]], np.ndarray]) -> None:
        self.logits = logits
        self.rows_per_step: list[int] = []
        self.kinds: object = None

    def start(
        self, src: Sequence[Sequence[int]], beams: int, kinds: Sequence[object] | None = None
    ) -> list[list[tuple[int, ...]]]:
        self.kinds = kinds
        return [[tuple(row), ()] for row in src for _ in range(beams)]

    def step(self, ids: np.ndarray, state: list[list[tuple[int, ...]]]) -> np.ndarray:
        assert ids.dtype == np.int64 and ids.shape == (len(state),)
        self.rows_per_step.append(len(state))
        for row, piece in zip(state, ids.tolist(), strict=True):
            row[1] = (*row[1], piece)
        return np.array([self.logits(source, fed) for source, fed in state], dtype=np.float32)

    def reorder(self, state: list[list[tuple[int, ...]]], rows: np.ndarray) -> list[list[tuple[int, ...]]]:
        return [list(state[row]) for row in rows]


def bigram(size: int, seed: int = 0, spread: float = 1.5) -> Table:
    """A random model in which a piece depends on the one before it and on the source."""

    @functools.cache
    def after(source: tuple[int, ...], piece: int) -> np.ndarray:
        return np.random.default_rng((seed, *source, 99, piece)).normal(0.0, spread, size)

    return Table(lambda source, fed: after(source, fed[-1]))


def fixed(*steps: Sequence[float]) -> Table:
    """The same logits for every source: those of `steps` in turn, the last again and again."""
    return Table(lambda source, fed: np.array(steps[min(len(fed), len(steps)) - 1], dtype=np.float32))


def log_probs(logits: np.ndarray, forbidden: Sequence[int] = (PAD,)) -> np.ndarray:
    logits = np.asarray(logits, dtype=np.float64).copy()
    logits[list(forbidden)] = -np.inf
    return logits - np.log(np.exp(logits).sum())


def run(table: Table, src: Sequence[Sequence[int]], n_best: int = 1, **settings: object) -> list[list[Hypothesis]]:
    rules = settings.pop("rules", ())
    prefix = settings.pop("prefix", (START,))
    others = {name: settings.pop(name) for name in ("kinds", "renormalise") if name in settings}
    config = GenerationConfig(**settings)  # type: ignore[arg-type]
    return generate(
        table,
        src,
        config=config,
        special=SPECIAL,
        prefix=prefix,
        n_best=n_best,
        rules=rules,  # type: ignore[arg-type]
        **others,  # type: ignore[arg-type]
    )


def sources(count: int, seed: int = 0) -> list[list[int]]:
    random = np.random.default_rng(seed)
    return [[*random.integers(3, 20, random.integers(1, 9)).tolist(), EOS] for _ in range(count)]


def test_no_sources() -> None:
    assert run(bigram(5), []) == []


def test_score_by_hand() -> None:
    # Step 1 allows pieces 3 and 4 with 3/4 and 1/4; step 2 ends with 1/2. Padding would be likely: it does not count.
    low = -1e9
    table = fixed([5.0, low, low, math.log(3), 0.0], [5.0, 0.0, low, 0.0, low])
    [[best, second]] = run(table, [[7, EOS]], n_best=2, beam_size=2, length_penalty=0.5)
    assert best.ids == (3,) and second.ids == (3, 3)
    assert best.log_prob == pytest.approx(math.log(3 / 4) + math.log(1 / 2), abs=1e-6)
    assert best.score == pytest.approx(math.log(3 / 8) / math.sqrt(2), abs=1e-6)
    assert second.score == pytest.approx(math.log(3 / 16) / math.sqrt(3), abs=1e-6)
    assert best.finished and not best.looped


def exhaustive(table: Table, source: tuple[int, ...], size: int, limit: int, alpha: float) -> list[tuple[float, tuple]]:
    """All finished outputs of at most `limit` pieces, best first: (score, ids)."""
    found = []
    for length in range(limit):
        for ids in itertools.product(range(2, size), repeat=length):
            total, fed = 0.0, (START,)
            for piece in (*ids, EOS):
                total += log_probs(table.logits(source, fed))[piece]
                fed = (*fed, piece)
            found.append((total / (length + 1) ** alpha, ids))
    return sorted(found, reverse=True)


@pytest.mark.parametrize("alpha", [-0.5, 0.0, 0.6, 1.0, 2.0])
@pytest.mark.parametrize("seed", range(6))
def test_a_wide_beam_is_exhaustive(alpha: float, seed: int) -> None:
    size, limit, n_best = 5, 4, 5
    table = bigram(size, seed)
    truth = exhaustive(table, (9, EOS), size, limit, alpha)
    [found] = run(
        table, [[9, EOS]], n_best, beam_size=64, length_penalty=alpha, max_length_factor=0.0, max_length_constant=limit
    )
    assert [h.ids for h in found] == [ids for _, ids in truth[:n_best]]
    assert [h.score for h in found] == pytest.approx([score for score, _ in truth[:n_best]], abs=1e-5)


@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_the_bound_saves_steps_and_changes_nothing(alpha: float) -> None:
    # The end is nearly certain after two pieces, so that the rest cannot win long before the limit.
    def logits(source: tuple[int, ...], fed: tuple[int, ...]) -> np.ndarray:
        values = np.random.default_rng((3, *source, *fed)).normal(0.0, 1.0, 6)
        values[EOS] = 12.0 if len(fed) == 3 else -12.0
        return values

    table = Table(logits)
    limit = 6
    [found] = run(
        table, [[9, EOS]], 2, beam_size=60, length_penalty=alpha, max_length_factor=0.0, max_length_constant=limit
    )
    truth = exhaustive(table, (9, EOS), 6, limit, alpha)
    assert [h.ids for h in found] == [ids for _, ids in truth[:2]]
    assert len(table.rows_per_step) < limit


def test_the_search_ends_when_the_beam_has_finished() -> None:
    table = fixed([0.0, 1.0, -50.0, 0.5, -50.0])
    # with α = 2 something longer could always score better, so the bound does not end it
    [found] = run(table, [[9, EOS]], n_best=2, beam_size=2, length_penalty=2.0)
    assert sorted(h.ids for h in found) == [(), (3,)]
    assert len(table.rows_per_step) == 2
    # the first to finish is not the best: what is live may still win by its length
    [[best]] = run(table, [[9, EOS]], beam_size=2, length_penalty=2.0)
    assert best.ids == (3,)
    # and for α < 0 by being short
    table = fixed([-50.0, math.log(0.3), -50.0, math.log(0.7)], [-50.0, 0.0, -50.0, -50.0])
    [[best]] = run(table, [[9, EOS]], beam_size=2, length_penalty=-1.0)
    assert best.ids == (3,) and best.score == pytest.approx(2 * math.log(0.7), abs=1e-6)


def test_a_search_that_never_stops_early_goes_by_the_bound_alone() -> None:
    """The best output has three pieces; by then two others that are hardly possible have finished."""
    steps = {
        (START,): {3: 0.998, 4: 0.001, 5: 0.001},
        (START, 3): {3: 0.999, EOS: 0.001},
        (START, 4): {EOS: 1.0},
        (START, 5): {EOS: 1.0},
        (START, 3, 3): {3: 0.999, EOS: 0.001},
        (START, 3, 3, 3): {EOS: 1.0},
    }

    def logits(source: tuple[int, ...], fed: tuple[int, ...]) -> np.ndarray:
        values = np.full(6, -np.inf)
        for piece, p in steps.get(fed, {EOS: 1.0}).items():
            values[piece] = math.log(p)
        return values

    table = Table(logits)
    assert run(table, [[9, EOS]], beam_size=2, length_penalty=0.0)[0][0].ids != (3, 3, 3)
    [[best]] = run(table, [[9, EOS]], beam_size=2, length_penalty=0.0, early_stopping="never")
    assert best.ids == (3, 3, 3) and best.log_prob == pytest.approx(math.log(0.998 * 0.999**2), abs=1e-5)
    assert table.rows_per_step[-1] == 2 and len(table.rows_per_step) < 12  # and no longer than that


def test_greedy_takes_the_best_piece_each_time() -> None:
    table = bigram(30, seed=4)
    src = sources(20)
    for source, [hypothesis] in zip(src, run(table, src, beam_size=1), strict=True):
        ids, total, fed = [], 0.0, (START,)
        limit = 2 * len(source) + 10
        while len(ids) < limit:
            step = log_probs(table.logits(tuple(source), fed))
            piece = int(step.argmax())
            total += step[piece]
            if piece == EOS:
                break
            ids.append(piece)
            fed = (*fed, piece)
        if hypothesis.looped:
            assert hypothesis.ids == tuple(ids[: len(hypothesis.ids)])
            continue
        assert hypothesis.ids == tuple(ids)
        assert hypothesis.finished == (len(ids) < limit)
        assert hypothesis.log_prob == pytest.approx(total, abs=1e-4)


def test_a_beam_finds_what_greedy_misses() -> None:
    low = -1e9

    def logits(source: tuple[int, ...], fed: tuple[int, ...]) -> np.ndarray:
        if len(fed) == 1:
            return np.array([low, low, low, math.log(0.6), math.log(0.4)] + [low] * 10)
        if fed[1] == 3:  # the likelier start leads to eleven equally likely ends
            return np.array([low, math.log(1 / 11)] + [low] * 3 + [math.log(1 / 11)] * 10)
        return np.array([low, 0.0] + [low] * 13)

    assert run(Table(logits), [[9, EOS]], beam_size=1)[0][0].ids[0] == 3
    [[best]] = run(Table(logits), [[9, EOS]], beam_size=2)
    assert best.ids == (4,) and best.log_prob == pytest.approx(math.log(0.4), abs=1e-6)


@pytest.mark.parametrize(
    "settings",
    [{"beam_size": 1}, {"beam_size": 4}, {"beam_size": 3, "no_repeat_ngram": 2}, {"sample": True, "seed": 5}],
    ids=str,
)
def test_the_batch_does_not_matter(settings: dict[str, object]) -> None:
    table, src = bigram(12, seed=1), sources(30)
    together = run(table, src, n_best=3, **settings)
    alone = [run(table, [source], n_best=3, **settings)[0] for source in src]
    assert together == alone
    order = np.random.default_rng(0).permutation(len(src)).tolist()
    for size in (7, 16):
        batches = [order[i : i + size] for i in range(0, len(order), size)]
        found = [result for batch in batches for result in run(table, [src[i] for i in batch], n_best=3, **settings)]
        assert found == [together[i] for i in order]


def test_finished_sentences_leave_the_batch() -> None:
    table = bigram(12, seed=1)
    run(table, sources(30), beam_size=2)
    rows = table.rows_per_step
    assert rows[0] == 60 and rows == sorted(rows, reverse=True) and rows[-1] < 60


def test_equal_probabilities_go_to_the_lower_id() -> None:
    table = fixed([0.0] * 40, [-50.0, 0.0] + [-50.0] * 38)
    [found] = run(table, [[9, EOS]], n_best=3, beam_size=4, suppress=(EOS,), min_length=1)
    assert all(h.ids[0] < 10 for h in found)
    # the end piece is forbidden throughout above; here it is not
    [found] = run(table, [[9, EOS]], n_best=3, beam_size=4, min_length=1)
    assert [h.ids for h in found] == [(2,), (3,), (4,)]
    assert run(table, [[9, EOS]], beam_size=1, min_length=1)[0][0].ids == (2,)


def test_prefix_is_fed_and_counts_in_the_length_alone() -> None:
    fed_before: list[tuple[int, ...]] = []

    def logits(source: tuple[int, ...], fed: tuple[int, ...]) -> np.ndarray:
        fed_before.append(fed)
        return np.array([0.0, 9.0 if len(fed) > 3 else -9.0, 0.0, 0.0, 3.0, 0.0])

    [[best]] = run(Table(logits), [[9, EOS]], beam_size=1, prefix=(5, 3))
    assert fed_before == [(5,), (5, 3), (5, 3, 4), (5, 3, 4, 4)]
    assert best.ids == (4, 4)
    first = log_probs(np.array([0.0, -9.0, 0.0, 0.0, 3.0, 0.0]))[4]
    end = log_probs(np.array([0.0, 9.0, 0.0, 0.0, 3.0, 0.0]))[EOS]
    assert best.log_prob == pytest.approx(2 * first + end, abs=1e-5)
    assert best.score == pytest.approx(best.log_prob / 4, abs=1e-6)  # a piece that is forced counts, the start does not
    fed_before.clear()
    run(Table(logits), [[9, EOS]], beam_size=1, prefix=())
    assert fed_before[0] == (START,)


@pytest.mark.parametrize("beam_size", [1, 3])
def test_min_length(beam_size: int) -> None:
    src = sources(20)
    shortest = min(len(h[0].ids) for h in run(bigram(8, seed=2), src, beam_size=beam_size))
    assert shortest < 6
    for [best] in run(bigram(8, seed=2), src, beam_size=beam_size, min_length=6, no_repeat_ngram=3):
        assert len(best.ids) >= 6


@pytest.mark.parametrize("beam_size", [1, 3])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_no_repeat_ngram(n: int, beam_size: int) -> None:
    def repeats(ids: tuple[int, ...]) -> bool:
        ngrams = [ids[i : i + n] for i in range(len(ids) - n + 1)]
        return len(set(ngrams)) < len(ngrams)

    src = sources(20)
    settings = {"beam_size": beam_size, "min_length": 6}
    assert any(h.looped or repeats(h.ids) for [h] in run(bigram(7, seed=2), src, **settings))
    for [best] in run(bigram(7, seed=2), src, no_repeat_ngram=n, **settings):
        assert len(best.ids) >= 5 and not best.looped and not repeats(best.ids)


def test_suppressed_pieces_leave_their_probability_to_the_others() -> None:
    table = fixed([3.0, -2.0, 4.0, 1.0, 0.5], [3.0, 2.0, 4.0, 1.0, 0.5])
    [[best]] = run(table, [[9, EOS]], beam_size=1, suppress=(2, 3))
    assert best.ids == (4,)
    expected = log_probs(np.array([3.0, -2.0, 4.0, 1.0, 0.5]), (PAD, 2, 3))[4]
    expected += log_probs(np.array([3.0, 2.0, 4.0, 1.0, 0.5]), (PAD, 2, 3))[EOS]
    assert best.log_prob == pytest.approx(expected, abs=1e-6)


def test_a_rule_of_the_caller_sees_its_sentence() -> None:
    class OnlyOwnSource:
        """Only pieces of the row's own source, in any order."""

        def __init__(self, src: Sequence[Sequence[int]]) -> None:
            self.src = src

        def __call__(self, ids: np.ndarray, sentences: np.ndarray, logits: np.ndarray) -> None:
            assert ids.shape[0] == len(sentences) == len(logits)
            for row, sentence in enumerate(sentences):
                forbidden = np.ones(logits.shape[1], dtype=bool)
                forbidden[list(self.src[sentence])] = False
                logits[row, forbidden] = -np.inf

    src = sources(12)
    rule: LogitsRule = OnlyOwnSource(src)
    for source, [best] in zip(src, run(bigram(20, seed=3), src, beam_size=3, rules=[rule]), strict=True):
        assert set(best.ids) <= set(source)
        assert math.isfinite(best.log_prob)


def spans_of(text: Sequence[int], longest: int) -> set[tuple[int, ...]]:
    """Every stretch of the text of at most `longest` pieces, the empty one too."""
    return {tuple(text[a:b]) for a in range(len(text) + 1) for b in range(a, min(a + longest, len(text)) + 1)}


@pytest.mark.parametrize("longest", [0, 1, 3, 40])
@pytest.mark.parametrize("length", [0, 1, 2, 5])
def test_only_what_goes_on_in_the_text_is_allowed(length: int, longest: int) -> None:
    """Against a list of all spans: for hypotheses that are spans, and for others."""
    random = np.random.default_rng((length, longest))
    texts = [random.integers(3, 7, n).tolist() for n in (0, 1, 4, 12, 30, 9)]
    rule = OnlySpans(texts, longest, EOS)
    sentences = random.integers(0, len(texts), 300)
    ids = random.integers(3, 7, (300, length))
    logits = random.normal(size=(300, 8)).astype(np.float32)
    before = logits.copy()
    rule(ids, sentences, logits)
    n_allowed = 0
    for row, sentence in enumerate(sentences):
        spans = spans_of(texts[sentence], longest)
        allowed = {piece for piece in range(8) if (*ids[row].tolist(), piece) in spans} | {EOS}
        assert set(np.flatnonzero(np.isfinite(logits[row])).tolist()) == allowed
        assert (logits[row, list(allowed)] == before[row, list(allowed)]).all()
        n_allowed += len(allowed) - 1
    assert bool(n_allowed) == (length < longest)


@pytest.mark.parametrize(("length", "longest"), [(0, 1), (1, 1), (0, 3), (2, 3), (3, 3), (1, 40), (5, 40)])
def test_spans_with_a_word_that_may_begin_otherwise(length: int, longest: int) -> None:
    """Pieces 3 and 4 have something of a word, and 5 may stand for 3, 4 for 6 at the start."""
    random = np.random.default_rng((length, longest))
    texts = [random.integers(3, 8, n).tolist() for n in (0, 1, 4, 12, 30, 9)]
    starts = np.array([0, 1, 2, 5, 4, 5, 4, 7])
    rule = OnlySpans(texts, longest, EOS, [[piece < 5 for piece in text] for text in texts], starts)
    sentences = random.integers(0, len(texts), 300)
    ids = random.integers(3, 8, (300, length))
    logits = random.normal(size=(300, 8)).astype(np.float32)
    rule(ids, sentences, logits)
    for row, sentence in enumerate(sentences):
        spans = {span for span in spans_of(texts[sentence], longest) if any(piece < 5 for piece in span)}
        whole = spans | {(int(starts[span[0]]), *span[1:]) for span in spans}
        beginnings = {span[:n] for span in whole for n in range(1, len(span) + 1)}
        fed = tuple(ids[row].tolist())
        allowed = {piece for piece in range(8) if (*fed, piece) in beginnings} | ({EOS} if fed in whole else set())
        assert set(np.flatnonzero(np.isfinite(logits[row])).tolist()) == allowed


@pytest.mark.parametrize("renormalise", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_the_best_span_of_all(seed: int, renormalise: bool) -> None:
    """A wide beam finds the spans of a text in the order of their probabilities: those that the rule leaves, which sum to
    one over all spans, or the model's own."""
    random = np.random.default_rng(seed)
    table, text = bigram(9, seed), random.integers(3, 9, 7).tolist()
    source = (*text, EOS)

    def log_prob(span: tuple[int, ...]) -> float:
        total, fed = 0.0, (START,)
        for n, piece in enumerate((*span, EOS)):
            follows = {text[a + n] for a in range(len(text) - n) if tuple(text[a : a + n]) == span[:n]}
            if n == 5:
                follows = set()
            forbidden = [p for p in range(9) if p not in {*follows, EOS}] if renormalise else [PAD]
            total += log_probs(table.logits(source, fed), forbidden)[piece]
            fed = (*fed, piece)
        return total

    truth = sorted(((log_prob(span), span) for span in spans_of(text, 5)), reverse=True)
    if renormalise:
        assert sum(math.exp(p) for p, _ in truth) == pytest.approx(1)
    [found] = run(
        table, [list(source)], 12, beam_size=64, length_penalty=0.0, rules=[OnlySpans([text], 5, EOS)],
        renormalise=renormalise, max_length_factor=0.0, max_length_constant=6,
    )  # fmt: skip
    assert [h.ids for h in found] == [span for _, span in truth[:12]]
    assert [h.log_prob for h in found] == pytest.approx([p for p, _ in truth[:12]], abs=1e-5)


def test_kinds_reach_the_engine() -> None:
    table = bigram(5)
    run(table, [[9, EOS]], kinds=[np.array([1, 2])])
    assert np.array_equal(table.kinds, [[1, 2]])  # type: ignore[arg-type]
    run(table, [[9, EOS]])
    assert table.kinds is None


@pytest.mark.parametrize("beam_size", [1, 3])
def test_length_limit(beam_size: int) -> None:
    table = fixed([0.0, -9.0, 1.0, 2.0, 1.5, 1.0])
    settings: dict[str, object] = {"beam_size": beam_size, "max_length_factor": 1.0, "max_length_constant": 2}
    [[short], [long]] = run(table, [[9, EOS], [9, 8, 7, EOS]], no_repeat_ngram=2, **settings)
    assert len(short.ids) == 4 and not short.finished and not short.looped
    assert len(long.ids) == 6 and not long.finished
    fed, expected = (START,), 0.0
    for position, piece in enumerate(short.ids):
        ngrams = {(short.ids[i], short.ids[i + 1]) for i in range(position - 1)}
        forbidden = [PAD, *(p for p in range(6) if position and (short.ids[position - 1], p) in ngrams)]
        expected += log_probs(table.logits((9,), fed), forbidden)[piece]
        fed = (*fed, piece)
    assert short.log_prob == pytest.approx(expected, abs=1e-5)
    assert short.score == pytest.approx(expected / 4, abs=1e-5)  # no end piece, so it is not counted


def test_finished_is_preferred_to_cut() -> None:
    # Going on is far likelier than ending, but only what ends is finished.
    table = fixed([0.0, 1.0, 0.0, 5.0, 4.0, 4.0])
    [found] = run(
        table, [[9, EOS]], n_best=4, beam_size=4, max_length_factor=0.0, max_length_constant=3, no_repeat_ngram=2
    )
    assert found[0].finished or not any(h.finished for h in found)
    by_rank = [(h.looped, not h.finished, -h.score) for h in found]
    assert by_rank == sorted(by_rank)


@pytest.mark.filterwarnings("error")
def test_nothing_allowed_closes_the_hypothesis() -> None:
    [[best]] = run(fixed([0.0, 0.0, 1.0, 2.0]), [[9, EOS]], beam_size=2, no_repeat_ngram=1, suppress=(EOS,))
    assert sorted(best.ids) == [2, 3] and not best.finished and math.isfinite(best.score)
    [[none]] = run(fixed([0.0, 0.0, 1.0]), [[9, EOS]], beam_size=1, suppress=(EOS, 2))
    assert none == Hypothesis((), 0.0, 0.0, finished=False)
    nothing = [Suppress([PAD, EOS, 2])]
    [[none]] = run(fixed([0.0, 0.0, 1.0]), [[9, EOS]], beam_size=1, rules=nothing, renormalise=False)
    assert none == Hypothesis((), 0.0, 0.0, finished=False)


@pytest.mark.parametrize("sample", [False, True])
def test_logits_that_are_not_numbers(sample: bool) -> None:
    with pytest.raises(TxError, match="not a number"):
        run(fixed([0.0, 0.0, float("nan"), 0.0]), [[9, EOS]], sample=sample)


def cycle(pieces: Sequence[int], lead: Sequence[int] = (), end: float = -20.0) -> Table:
    """Writes `lead`, then `pieces` over and over, at logit 9 against 0 for the others and `end` for the end piece."""

    def logits(source: tuple[int, ...], fed: tuple[int, ...]) -> np.ndarray:
        position = len(fed) - 1 - len(lead)
        values = np.zeros(40)
        values[EOS] = end
        values[pieces[position % len(pieces)] if position >= 0 else lead[len(fed) - 1]] = 9.0
        return values

    return Table(logits)


@pytest.mark.parametrize("beam_size", [1, 4])
@pytest.mark.parametrize("n", range(1, 9))
def test_a_loop_is_cut_to_one_occurrence(n: int, beam_size: int) -> None:
    ngram, lead = list(range(10, 10 + n)), [5, 6]
    table = cycle(ngram, lead)
    [[loop]] = run(table, [[9, EOS]], beam_size=beam_size, **NO_LENGTH_LIMIT)
    assert loop.ids == (*lead, *ngram) and loop.looped and not loop.finished
    piece = log_probs(table.logits((9,), (START,)))[lead[0]]
    assert loop.log_prob == pytest.approx((2 + n) * piece, abs=1e-5)
    assert loop.score == pytest.approx(piece, abs=1e-5)
    pieces_of_a_loop = n * max(4, -(-8 // n))
    if beam_size == 1:
        assert len(table.rows_per_step) == 2 + pieces_of_a_loop
    else:
        assert len(table.rows_per_step) < 2 + 3 * pieces_of_a_loop


def test_loops_rank_last() -> None:
    def logits(source: tuple[int, ...], fed: tuple[int, ...]) -> np.ndarray:
        values = np.full(20, -20.0)
        values[EOS] = -60.0  # no other hypothesis may end before the loop is found
        if len(fed) == 1:
            values[[10, 11]] = [9.0, 7.0]
        else:
            values[10 if fed[1] == 10 else EOS] = 9.0
        return values

    [[finished, loop]] = run(Table(logits), [[9, EOS]], n_best=2, beam_size=2, **NO_LENGTH_LIMIT)
    assert finished.ids == (11,) and finished.finished
    assert loop.ids == (10,) and loop.looped and loop.score > finished.score


def test_a_loop_is_followed_through_the_beam() -> None:
    def logits(source: tuple[int, ...], fed: tuple[int, ...]) -> np.ndarray:
        values = np.full(40, -20.0)
        values[EOS] = -60.0
        if len(fed) == 1:
            values[[10, 11]] = [0.0, 0.5]
        elif fed[1] == 10:
            values[10] = 0.0
        else:  # ahead at first; behind the loop from the fifth piece on
            values[[12 + len(fed) % 11, 25 + len(fed) % 11]] = [0.0, 0.0 if len(fed) > 4 else -9.0]
        return values

    [[cut, loop]] = run(Table(logits), [[9, EOS]], n_best=2, beam_size=2, max_length_factor=0.0, max_length_constant=8)
    assert cut.ids[0] == 11 and not cut.looped
    assert loop.ids == (10,) and loop.looped


def test_rank() -> None:
    best = Hypothesis((3,), -3.0, -1.5)
    second = Hypothesis((4,), -4.0, -2.0)
    cut = Hypothesis((5,), -0.5, -0.5, finished=False)
    loop = Hypothesis((6,), -0.1, -0.1, finished=False, looped=True)
    same_as_best = Hypothesis((3,), -0.1, -0.1, finished=False, looped=True)
    found = [same_as_best, loop, cut, second, best]
    assert _rank(found, 9) == [best, second, cut, loop]
    assert _rank(found, 2) == [best, second]


def test_nine_pieces_are_no_loop() -> None:
    [[best]] = run(cycle(range(10, 19)), [[9, EOS]], beam_size=1, max_length_factor=0.0, max_length_constant=50)
    assert len(best.ids) == 50 and not best.looped


def test_a_source_that_repeats_may_be_answered_in_kind() -> None:
    def logits(source: tuple[int, ...], fed: tuple[int, ...]) -> np.ndarray:
        values = np.zeros(40)
        values[EOS if len(fed) - 1 == 20 else 10 + len(fed) % 2] = 9.0
        return values

    def best(source: Sequence[int]) -> Hypothesis:
        return run(Table(logits), [source], beam_size=1, **NO_LENGTH_LIMIT)[0][0]

    ten_times = best([8] * 10 + [EOS])
    assert ten_times.finished and len(ten_times.ids) == 20
    assert best([3, 4, 5] * 10 + [EOS]).finished
    assert best([8] * 9 + [EOS]).looped
    assert best([8, 7, 8, 6, 8, 5, 8, 4, 8, 3, EOS]).ids == (11, 10)


def test_sampling_follows_the_probabilities() -> None:
    logits = np.array([2.0, -1.0, 0.3, 1.0, -0.5, 0.0])
    table = fixed(logits.tolist(), [0.0, 30.0, 0.0, 0.0, 0.0, 0.0])
    count = 4000
    found = run(table, [[i, EOS] for i in range(count)], sample=True, seed=1)
    observed = np.bincount([h.ids[0] if h.ids else EOS for [h] in found], minlength=6)
    expected = count * np.exp(log_probs(logits))
    assert observed[PAD] == 0
    chi_square = ((observed - expected)[1:] ** 2 / expected[1:]).sum()
    assert chi_square < 18.5  # four degrees of freedom: p = 0.001
    for [h] in found[:50]:  # the score is that of the model
        piece = h.ids[0] if h.ids else EOS
        assert h.log_prob == pytest.approx(log_probs(logits)[piece], abs=1e-5)


def first_pieces(**settings: object) -> np.ndarray:
    """How often each piece is drawn first; the probabilities of 2 … 5 are 0.644, 0.237, 0.087 and 0.032."""
    table = fixed([0.0, -30.0, 3.0, 2.0, 1.0, 0.0], [0.0, 30.0, 0.0, 0.0, 0.0, 0.0])
    found = run(table, [[i, EOS] for i in range(600)], sample=True, **settings)
    return np.bincount([h.ids[0] for [h] in found], minlength=6) / 600


def test_temperature_top_k_and_top_p() -> None:
    def drawn(**settings: object) -> set[int]:
        return set(np.flatnonzero(first_pieces(**settings)).tolist())

    assert drawn() == {2, 3, 4, 5}
    assert drawn(top_p=0.6) == {2}
    assert drawn(top_p=0.7) == {2, 3}
    assert drawn(top_p=0.9) == {2, 3, 4}
    top_two = first_pieces(top_k=2)
    assert top_two[2:4] == pytest.approx([1 / (1 + math.exp(-1)), 1 / (1 + math.exp(1))], abs=0.06)
    assert first_pieces(top_k=2, temperature=0.5)[2] == pytest.approx(1 / (1 + math.exp(-2)), abs=0.05)
    assert first_pieces(temperature=0.01)[2] == 1.0


def test_the_seed_decides_the_draw() -> None:
    table, src = bigram(40, seed=6, spread=0.5), sources(10)
    one = run(table, src, sample=True, seed=1)
    assert one == run(table, src, sample=True, seed=1)
    assert one != run(table, src, sample=True, seed=2)
    assert one == [[h] for h in (run(table, [s], n_best=1, sample=True, seed=1)[0][0] for s in src)]


@pytest.mark.parametrize("settings", [{"beam_size": 2}, {"beam_size": 6}, {"sample": True}], ids=str)
def test_n_best_is_sorted_and_without_duplicates(settings: dict[str, object]) -> None:
    for found in run(bigram(4, seed=8), sources(20), n_best=5, **settings):
        assert 1 <= len(found) <= 5
        assert len({h.ids for h in found}) == len(found)
        ranks = [(h.looped, not h.finished, -h.score) for h in found]
        assert ranks == sorted(ranks)
    assert any(len(found) > 2 for found in run(bigram(4, seed=8), sources(20), n_best=5, **settings))
    with pytest.raises(ValueError, match="n_best"):
        run(bigram(4), [[9, EOS]], n_best=0)


@pytest.mark.parametrize("size", [30, 1000, 1337])
def test_top_pieces_with_ties(size: int) -> None:
    random = np.random.default_rng(0)
    logits = random.integers(0, size // 5, (50, size)).astype(np.float32)
    logits[::7, random.integers(0, size, size // 2)] = -np.inf
    logits[3] = -np.inf
    logits[4, :-1] = -np.inf
    for count in (1, 2, 8, 29, 40):
        ids, values = _top(logits, count)
        expected = np.argsort(-logits, axis=1, kind="stable")[:, :count]
        shown = min(count, size)
        assert (values[:, :shown] == np.take_along_axis(logits, expected, axis=1)).all()
        assert (ids[:, :shown] == expected)[np.isfinite(values[:, :shown])].all()
        assert np.isneginf(values[:, shown:]).all()


def test_log_sum_exp() -> None:
    logits = np.random.default_rng(0).normal(0.0, 30.0, (21, 700)).astype(np.float32)
    logits[5] = -np.inf
    logits[6, 1:] = -np.inf
    exact = [
        math.log(sum(math.exp(x - max(row)) for x in row)) + max(row)
        for row in logits.astype(float)
        if max(row) > -math.inf
    ]
    assert np.delete(log_sum_exp(logits), 5) == pytest.approx(exact, rel=1e-6)
    assert log_sum_exp(logits)[5] == -math.inf
