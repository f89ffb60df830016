"""IBM Model 1 on a language made up here, whose dictionary is known."""

from __future__ import annotations

import numpy as np
import pytest

from tx.model.errors import InputError
from tx.model.train import align
from tx.model.train.align import TranslationTable, symmetrised_table, translation_table

WORDS = 200
FUNCTION = WORDS  # a target piece that no source piece stands for


Pairs = list[tuple[list[int], list[int]]]


def corpus(n: int = 2000) -> tuple[Pairs, np.ndarray]:
    """Sentence pairs in which word e is always translated by dictionary[e], the order shuffled, and a function piece
    is put into most target sentences. Frequencies fall as 1 / rank, as those of words do."""
    rng = np.random.default_rng(0)
    dictionary = rng.permutation(WORDS)
    frequency = 1 / np.arange(10, WORDS + 10)
    frequency /= frequency.sum()
    pairs = []
    for _ in range(n):
        source = rng.choice(WORDS, rng.integers(4, 12), p=frequency).tolist()
        target = dictionary[source].tolist() + [FUNCTION] * (rng.random() < 0.7)
        rng.shuffle(target)
        pairs.append((source, target))
    return pairs, dictionary


def accuracy(table: TranslationTable, dictionary: np.ndarray) -> float:
    best = [table.targets(e)[0][:1].tolist() for e in range(WORDS)]
    return float(np.mean([b == [f] for b, f in zip(best, dictionary, strict=True)]))


@pytest.mark.parametrize("build", [translation_table, symmetrised_table])
def test_the_dictionary_is_found(build) -> None:
    pairs, dictionary = corpus()
    table = build(pairs, WORDS, WORDS + 1)
    assert accuracy(table, dictionary) > 0.95


def test_the_null_word_takes_the_function_piece() -> None:
    pairs, _ = corpus()
    table = translation_table(pairs, WORDS, WORDS + 1)
    targets, probs = table.targets(WORDS)
    assert targets[0] == FUNCTION
    assert probs[0] > 0.5
    without = translation_table(pairs, WORDS, WORDS + 1, null=False)
    assert without.source_ids.max() == WORDS - 1

    def mean_function_prob(t: TranslationTable) -> float:
        return float(t.probs[(t.target_ids == FUNCTION) & (t.source_ids < WORDS)].sum() / WORDS)

    assert mean_function_prob(table) < mean_function_prob(without)


def test_both_directions_together_are_sharper() -> None:
    pairs, dictionary = corpus(n=1000)

    def mean_true_prob(t: TranslationTable) -> float:
        return float(t.probs[dictionary[t.source_ids] == t.target_ids].sum() / WORDS)

    plain = translation_table(pairs, WORDS, WORDS + 1, null=False)
    both = symmetrised_table(pairs, WORDS, WORDS + 1, null=False)
    assert mean_true_prob(both) > mean_true_prob(plain)


@pytest.mark.parametrize("build", [translation_table, symmetrised_table])
def test_the_table_is_sorted_and_its_rows_sum_to_one(build) -> None:
    pairs, _ = corpus(n=300)
    table = build(pairs, WORDS, WORDS + 1, prune=0.0)
    keys = table.source_ids.astype(np.int64) * (WORDS + 1) + table.target_ids
    assert (np.diff(keys) > 0).all()
    sums = np.bincount(table.source_ids, table.probs)
    np.testing.assert_allclose(sums[np.unique(table.source_ids)], 1.0, atol=1e-9)


def reference(pairs: Pairs, n_source: int, n_target: int, iterations: int) -> np.ndarray:
    """Model 1 as the paper states it, one link at a time; the last row is the null word's."""
    t = np.ones((n_source + 1, n_target))
    for _ in range(iterations):
        counts = np.zeros_like(t)
        for source, target in pairs:
            words = [*source, n_source]
            for f in target:
                total = sum(t[e, f] for e in words)
                for e in words:
                    counts[e, f] += t[e, f] / total
        t = counts / np.maximum(counts.sum(1, keepdims=True), 1e-300)
    return t


@pytest.mark.parametrize("chunk", [7, 1000])
def test_it_agrees_with_the_formula(monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    """Repeated words, words that never occur, and pairs with an empty side included; in one chunk and in many."""
    monkeypatch.setattr(align, "_PAIRS_A_CHUNK", chunk)
    rng = np.random.default_rng(1)
    lengths = rng.integers(0, 5, (40, 2))
    pairs = [(rng.integers(0, 6, n).tolist(), rng.integers(0, 9, m).tolist()) for n, m in lengths]
    table = translation_table(pairs, 8, 10, iterations=3, prune=0.0)
    dense = np.zeros((9, 10))
    dense[table.source_ids, table.target_ids] = table.probs
    usable = [(s, t) for s, t in pairs if s and t]
    assert len(usable) < len(pairs)
    np.testing.assert_allclose(dense, reference(usable, 8, 10, 3), atol=1e-12)


def test_prune_drops_small_entries_only() -> None:
    pairs, _ = corpus(n=300)
    full = translation_table(pairs, WORDS, WORDS + 1, prune=0.0)
    pruned = translation_table(pairs, WORDS, WORDS + 1, prune=0.01)
    keep = full.probs >= 0.01
    assert 0 < keep.sum() < len(keep)
    np.testing.assert_array_equal(pruned.probs, full.probs[keep])
    np.testing.assert_array_equal(pruned.target_ids, full.target_ids[keep])


def hand_made() -> TranslationTable:
    return TranslationTable(
        source_ids=np.array([0, 0, 0, 0, 2, 3, 4], np.int32),
        target_ids=np.array([0, 1, 2, 3, 1, 2, 0], np.int32),
        probs=np.array([0.2, 0.01, 0.5, 0.25, 0.6, 0.015, 0.9]),
        n_source=4,  # so that source 4 is the null word
        n_target=4,
    )


def test_expectation_on_a_table_made_by_hand() -> None:
    vectors = np.array([[1.0, 0.0], [0.0, 1.0], [2.0, 2.0], [-4.0, 8.0]], np.float32)
    means, mass = hand_made().expectation(vectors)
    assert means.shape == (4, 2)
    # Source 0: (0.2 · [1, 0] + 0.5 · [2, 2] + 0.25 · [-4, 8]) / 0.95; target 1 is below min_prob.
    np.testing.assert_allclose(means[0], [0.2 / 0.95, 3.0 / 0.95], atol=1e-6)
    np.testing.assert_allclose(means[2], [0.0, 1.0], atol=1e-6)
    np.testing.assert_array_equal(means[[1, 3]], 0.0)
    np.testing.assert_allclose(mass, [0.95, 0.0, 0.6, 0.0], atol=1e-6)


def test_expectation_of_the_best_targets_only() -> None:
    vectors = np.eye(4)
    means, mass = hand_made().expectation(vectors, top=2)
    np.testing.assert_allclose(means[0], [0, 0, 0.5 / 0.75, 0.25 / 0.75], atol=1e-6)
    np.testing.assert_allclose(mass[0], 0.75, atol=1e-6)


def test_targets_are_best_first_and_empty_for_an_unseen_piece() -> None:
    ids, probs = hand_made().targets(0)
    assert ids.tolist() == [2, 3, 0, 1]
    assert probs.tolist() == [0.5, 0.25, 0.2, 0.01]
    assert len(hand_made().targets(1)[0]) == 0


def test_what_cannot_be_aligned_is_refused() -> None:
    with pytest.raises(InputError, match="empty side"):
        translation_table([([], [1]), ([1], [])], 2, 2)
    with pytest.raises(ValueError, match="target ids must be from 0 to 1"):
        translation_table([([1], [2])], 2, 2)
    with pytest.raises(ValueError, match="iterations"):
        translation_table([([1], [1])], 2, 2, iterations=0)
    with pytest.raises(ValueError, match="vectors must be"):
        hand_made().expectation(np.zeros((3, 2)))
