from __future__ import annotations

import numpy as np
import pytest
import torch

from tx.model.errors import InputError
from tx.model.train.align import TranslationTable
from tx.model.train.data import Batch, Corpus
from tx.model.train.guided import Aligner, alignment_loss, pairs_of

END = 1
NAMES = ["translate:zh", "translate:en"]


def corpus(pairs: list[tuple[list[int], list[int]]], task: str = "translate:zh", group: str = "translate") -> Corpus:
    src = [[*s, END] for s, _ in pairs]
    return Corpus(
        np.array([p for s in src for p in s], np.uint16),
        np.cumsum([0, *map(len, src)]),
        np.array([p for _, t in pairs for p in t], np.uint16),
        np.cumsum([0, *(len(t) for _, t in pairs)]),
        np.full(len(pairs), NAMES.index(task), np.uint8),
        NAMES,
        1.0,
        group=group,
    )


def reversed_language(n: int, seed: int) -> list[tuple[list[int], list[int]]]:
    """Sentences whose translation is each piece + 20, in the opposite order."""
    rng = np.random.default_rng(seed)
    sources = [rng.choice(np.arange(2, 20), rng.integers(3, 8), replace=False).tolist() for _ in range(n)]
    return [(s, [p + 20 for p in reversed(s)]) for s in sources]


def test_pairs_have_the_first_language_first() -> None:
    there, back = corpus([([5, 6], [25])]), corpus([([27], [7, 8])], "translate:en")
    other = corpus([([9], [9])], group="summarize")
    assert sorted(pairs_of([there, back, other])) == [([5, 6], [25]), ([7, 8], [27])]


def test_it_needs_translations() -> None:
    with pytest.raises(InputError, match="no sentence pairs"):
        Aligner.of([corpus([([9], [9])], group="summarize")], 50)


@pytest.mark.parametrize("reverse", [False, True])
def test_it_finds_the_links_of_a_language_in_reverse_order(reverse: bool) -> None:
    aligner = Aligner.of([corpus(reversed_language(400, 0))], 50)
    (source, target), _ = reversed_language(2, 1)
    expected = np.eye(len(source), dtype=bool)[::-1]
    first, second = (target, source) if reverse else (source, target)
    links = aligner.links(np.array([first]), np.array([second]), reverse)
    assert (links[0] == expected).all()


def test_padding_and_unknown_pieces_have_no_link() -> None:
    table = TranslationTable(np.array([3], np.int32), np.array([4], np.int32), np.array([0.9]), 10, 10)
    links = Aligner(table).links(np.array([[3, 5, -1]]), np.array([[4, -100]]), False)
    assert links.tolist() == [[[True, False, False], [False, False, False]]]


def test_of_two_equal_pieces_the_one_nearer_the_diagonal_is_linked() -> None:
    table = TranslationTable(np.array([3], np.int32), np.array([4], np.int32), np.array([0.9]), 10, 10)
    links = Aligner(table).links(np.array([[3, 5, 6, 3]]), np.array([[4, 7, 7, 7]]), False)
    assert np.argwhere(links[0]).tolist() == [[0, 0]]


def test_the_rows_of_a_batch_go_each_in_their_own_direction() -> None:
    aligner = Aligner.of([corpus(reversed_language(400, 0))], 50)
    src = torch.tensor([[5, 6, 7, END], [26, 25, END, 0]])
    mask = torch.tensor([[True] * 4, [True, True, True, False]])
    labels = torch.tensor([[27, 26, 25, END], [5, 6, END, -100]])
    batch = Batch(src, mask, labels, labels, 14)
    links = aligner.of_batch(batch, torch.tensor([False, True]))
    assert links.nonzero().tolist() == [[0, 0, 2], [0, 1, 1], [0, 2, 0], [1, 0, 1], [1, 1, 0]]


def test_the_loss_is_the_log_of_what_the_links_get_and_its_gradient_raises_that() -> None:
    weights = torch.tensor([[[0.5, 0.25, 0.25], [0.1, 0.2, 0.7]]], requires_grad=True)
    links = torch.tensor([[[True, True, False], [False, False, False]]])
    loss = alignment_loss(weights, links)
    assert loss.item() == pytest.approx(-np.log(0.75))
    loss.backward()
    assert weights.grad is not None
    assert (weights.grad[0, 0, :2] < 0).all() and weights.grad[0, 0, 2] == 0 and (weights.grad[0, 1] == 0).all()
