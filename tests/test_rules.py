"""Restrictions of the search, each by itself."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tx.model.rules import EachOnce, NoRepeatNgram, Penalty, SourceNoRepeatNgram, SuppressFirst

from .test_generation import EOS, START, bigram, fixed, run

SLOTS = [5, 6, 7, 8]


def rules(src: list[list[int]], limit: int) -> list[EachOnce]:
    return [EachOnce(src, SLOTS, EOS, [limit] * len(src))]


@settings(deadline=None)
@given(
    st.integers(0, 10_000),
    st.lists(st.lists(st.integers(2, 11), max_size=7), min_size=1, max_size=4),
    st.integers(1, 5),
    st.integers(5, 30),
    st.booleans(),
)
def test_each_slot_of_the_source_stands_once_in_the_output(
    seed: int, rows: list[list[int]], beam: int, limit: int, likes_slots: bool
) -> None:
    src = [[*row, EOS] for row in rows]
    table = bigram(12, seed)
    if likes_slots:  # a model that would write nothing else, or end at once
        plain = table.logits
        table.logits = lambda source, fed: plain(source, fed) + np.isin(np.arange(12), [EOS, *SLOTS]) * 8.0
    lengths = {"max_length_factor": 0.0, "max_length_constant": limit}
    found = run(table, src, beam_size=beam, n_best=beam, rules=rules(src, limit), **lengths)
    for row, hypotheses in zip(src, found, strict=True):
        assert hypotheses
        for h in hypotheses:
            assert (
                sorted(h.ids[i] for i in range(len(h.ids)) if h.ids[i] in SLOTS) == sorted({*row} & {*SLOTS})
                or h.looped
            )
            assert len(h.ids) + h.finished <= limit or not h.finished


@pytest.mark.parametrize("beam", [1, 4])
def test_at_the_limit_only_what_is_missing_is_written(beam: int) -> None:
    low = -30.0
    table = fixed([low, 5.0, 0.0, 1.0, 1.0, low, low, low, low])  # 3 and 4, and an end, but no slot
    src = [[6, 3, 8, EOS]]
    [[best, *_]] = run(table, src, beam_size=beam, rules=rules(src, 6), max_length_factor=0.0, max_length_constant=6)
    assert sorted(set(best.ids) & set(SLOTS)) == [6, 8]
    assert best.finished and len(best.ids) + 1 <= 6


def test_what_the_rule_leaves() -> None:
    rule = EachOnce([[5, 7, EOS], [3, EOS]], SLOTS, EOS, [10, 10])

    def left(ids: list[int], sentence: int) -> list[int]:
        logits = np.zeros((1, 10), dtype=np.float32)
        rule(np.array([ids], dtype=np.int64), np.array([sentence]), logits)
        return np.flatnonzero(np.isfinite(logits[0])).tolist()

    others = [0, START, 3, 4, 9]
    assert left([], 0) == sorted([*others, 5, 7])
    assert left([5], 0) == sorted([*others, 7])
    assert left([5, 3, 7], 0) == sorted([*others, EOS])
    assert left([3] * 6, 0) == sorted([*others, 5, 7])
    assert left([3] * 7, 0) == [5, 7]  # and after both an end, the tenth
    assert left([3] * 7 + [5], 0) == [7]
    assert left([3] * 7 + [5, 7], 0) == sorted([*others, EOS])
    assert left([], 1) == sorted([*others, EOS])  # a slot that the source does not have is never written


def test_a_source_without_slots_in_a_batch_without_any() -> None:
    rule = EachOnce([[3, EOS]], SLOTS, EOS, [10])
    logits = np.zeros((2, 10), dtype=np.float32)
    rule(np.zeros((2, 0), dtype=np.int64), np.array([0, 0]), logits)
    assert np.flatnonzero(np.isneginf(logits[1])).tolist() == SLOTS


# --- what settings of foreign models ask for ---


def after(rule: object, ids: list[list[int]], sentences: list[int], size: int = 6) -> list[list[float]]:
    """What a rule makes of logits -1, 0, 1, 2 …"""
    logits = np.tile(np.arange(-1, size - 1, dtype=np.float32), (len(ids), 1))
    rule(np.array(ids, np.int64).reshape(len(ids), -1), np.array(sentences), logits)  # type: ignore[operator]
    return logits.tolist()


LOW = -np.inf


def test_pieces_that_do_not_come_first() -> None:
    rule = SuppressFirst([3, 1])
    assert after(rule, [[]], [0]) == [[-1, LOW, 1, LOW, 3, 4]]
    assert after(rule, [[5]], [0]) == [[-1, 0, 1, 2, 3, 4]]


def test_pieces_that_follow_one_another_in_the_source() -> None:
    rule = SourceNoRepeatNgram(2, [[4, 5, 4, 3, 1], [2, 2, 1]], prefix=[4])
    assert after(rule, [[4], [4], [2]], [0, 1, 1]) == [
        [-1, 0, 1, LOW, 3, LOW],
        [-1, 0, 1, 2, 3, 4],
        [-1, LOW, LOW, 2, 3, 4],
    ]
    assert after(rule, [[]], [0]) == [[-1, 0, 1, LOW, 3, LOW]]  # after the prefix
    assert after(SourceNoRepeatNgram(1, [[4, 5], [0]], []), [[], [1]][:1], [0]) == [[-1, 0, 1, 2, LOW, LOW]]
    assert after(SourceNoRepeatNgram(4, [[4, 5]], [2]), [[]], [0]) == [[-1, 0, 1, 2, 3, 4]]


def test_n_grams_that_begin_with_the_prefix() -> None:
    assert after(NoRepeatNgram(2, [4]), [[3, 4]], [0]) == [[-1, 0, 1, LOW, 3, 4]]
    assert after(NoRepeatNgram(2), [[3, 4]], [0]) == [[-1, 0, 1, 2, 3, 4]]


def test_a_penalty_makes_less_likely_what_was_written() -> None:
    assert after(Penalty(2.0, [5]), [[0, 0, 4], [1, 1, 1]], [0, 0]) == [[-2, 0, 1, 2, 1.5, 2], [-1, 0, 1, 2, 3, 2]]
    assert after(Penalty(0.5, src=[[0, 3, 3], [5]]), [[2], [2]], [0, 1]) == [[-0.5, 0, 1, 4, 3, 4], [-1, 0, 1, 2, 3, 8]]


@pytest.mark.parametrize("beam", [1, 3])
def test_what_is_forbidden_before_and_after_the_softmax(beam: int) -> None:
    """Half of the probability is on a piece that is forbidden: the rest has it, or no one."""
    table = fixed([-30.0, 0.0, -30.0, 0.0, np.log(2.0)])
    for renormalize, share in ((True, 1 / 2), (False, 1 / 4)):
        [[best]] = run(
            table, [[3, EOS]], beam_size=beam, suppress=(4,), renormalize=renormalize, min_length=1, max_length=1
        )
        assert best.ids == (3,)
        by_hand = 1.0 if renormalize else share  # the end is forbidden too
        assert best.log_prob == pytest.approx(np.log(by_hand), abs=1e-6)
        [[ended]] = run(table, [[3, EOS]], beam_size=beam, suppress=(4,), renormalize=renormalize)
        assert ended.log_prob == pytest.approx(np.log(share), abs=1e-6) and ended.ids == ()
