"""Restrictions of the search that have a file of their own: each slot of the source once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tx.model.rules import EachOnce

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
