"""Answers as spans: what the model is told of each piece, where answers stand, and which spans are the best."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from tx.model import spans
from tx.model.spans import (
    Pieces,
    best_spans,
    coverage,
    disjoint_spans,
    occurrences,
    piece_table,
    source_pieces,
)
from tx.model.tokenizer import BYTE_PIECES, Tokenizer

WORDS = {" the": -3.0, "the": -4.0, " Bridge": -9.0, "bridge": -9.5, " 7": -9.0, "7": -9.0, ".": -4.0, " river": -8.0}


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    pieces = [(piece, -20.0) for piece in ("<unk>", "</s>", "<answer>", *BYTE_PIECES)] + list(WORDS.items())
    return Tokenizer(tokenizers.Tokenizer(tokenizers.models.Unigram(pieces, unk_id=0, byte_fallback=True)))


@pytest.fixture(scope="module")
def table(tokenizer: Tokenizer) -> Pieces:
    return piece_table(tokenizer)


def test_pieces_that_differ_in_case_or_space_are_alike(tokenizer: Tokenizer, table: Pieces) -> None:
    classes = {word: int(table.classes[tokenizer.id(word)]) for word in WORDS}
    assert classes[" the"] == classes["the"] != classes[" river"]
    assert classes[" Bridge"] == classes["bridge"]
    assert classes[" 7"] == classes["7"]
    nothing = [classes["."], *(int(table.classes[tokenizer.id(p)]) for p in ("<unk>", "</s>", "<answer>", "<0x41>"))]
    assert nothing == [-1] * 5


def test_what_is_rare_says_more(tokenizer: Tokenizer, table: Pieces) -> None:
    weight = {word: float(table.weights[tokenizer.id(word)]) for word in WORDS}
    assert weight[" Bridge"] == pytest.approx((9.0 - 5.5) / 5)
    assert weight[" the"] == 0
    assert weight[" 7"] == weight["7"] == 0.2  # any number has digits
    assert table.weights.max() == 1.2
    common = {word for word in WORDS if table.common[tokenizer.id(word)]}
    assert common == {" the", "the", ".", " 7", "7"}


def test_a_vocabulary_without_probabilities(tokenizer: Tokenizer) -> None:
    content = json.loads(tokenizer.to_json())
    vocabulary = {piece: i for i, (piece, _) in enumerate(content["model"]["vocab"])}
    other = Tokenizer(tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="<unk>")))
    found = piece_table(other)
    assert not found.weights[other.id(" Bridge")] and found.common.all()
    assert not coverage([other.id(" Bridge")], np.array([other.id("bridge")]), found).any()


def test_coverage_falls_with_the_distance(tokenizer: Tokenizer, table: Pieces) -> None:
    bridge, river, the = (tokenizer.id(word) for word in (" Bridge", " river", "the"))
    text = np.array([the] * 10 + [tokenizer.id("bridge")] + [the] * 60)
    found = coverage([bridge, river, the], text, table)
    rare, rarer = 0.5, 0.7  # weights of river and bridge; "the" has none
    for place in (0, 9, 10, 11, 41, 42, 70):
        expected = rarer * max(0, 1 - abs(place - 10) / spans.REACH) / (rare + rarer)
        assert found[place] == pytest.approx(expected)
    assert coverage([the], text, table).max() == 0
    assert coverage([river], text, table).max() == 0


def test_the_source_of_a_question(tokenizer: Tokenizer, table: Pieces) -> None:
    question = [tokenizer.id(" Bridge"), tokenizer.id(" the"), tokenizer.id(".")]
    text = [tokenizer.id(word) for word in ("the", "bridge", ".", " river")]
    ids, kinds, first = source_pieces(question, text, table, (2,), 77, 1)
    assert ids == [2, *question, 77, *text, 1]
    assert ids[first : first + len(text)] == text
    # All is near: the whole question stands there. A full stop matches nothing.
    assert kinds.tolist() == [0] * 5 + [1 + 12 + match for match in (1, 2, 0, 0)] + [19]
    _, kinds, _ = source_pieces([tokenizer.id(" river")], text[:3], table, (), 77, 1)
    assert kinds.tolist() == [0, 0, 1, 1, 1, 16]  # nothing of it stands there


@pytest.mark.parametrize(("question", "text"), [([], [5, 6]), ([5], []), ([], [])])
def test_a_source_without_one_side(table: Pieces, question: list[int], text: list[int]) -> None:
    ids, kinds, first = source_pieces(question, text, table, (2,), 77, 1)
    assert ids == [2, *question, 77, *text, 1] and first == len(question) + 2
    assert len(kinds) == len(ids) and not kinds.any()


@given(st.lists(st.integers(0, 266), max_size=8), st.lists(st.integers(0, 266), max_size=60))
def test_kinds_are_in_range(table: Pieces, question: list[int], text: list[int]) -> None:
    ids, kinds, first = source_pieces(question, text, table, (2,), 77, 1)
    assert len(ids) == len(kinds) and (kinds < spans.SEGMENTS).all()
    assert not kinds[:first].any()
    if question and text:
        assert (kinds[first:-1] >= 1).all() and (kinds[first:-1] <= 15).all() and kinds[-1] >= 16


# --- where answers stand ---


def words(text: str) -> list[tuple[int, int]]:
    """Places as a tokenizer of words would give them."""
    found, at = [], 0
    for word in text.split(" "):
        found.append((at, at + len(word)))
        at += len(word) + 1
    return found


@pytest.mark.parametrize(
    ("text", "answer", "expected"),
    [
        ("Ann met Bob and Ann.", "Ann", [(0, 0), (4, 4)]),  # a piece that goes on does no harm
        ("Ann met Bob and Ann.", "met Bob", [(1, 2)]),
        ("Annabel met Joann", "Ann", []),  # inside words
        ("the an then", "the", [(0, 0)]),
        ("Ann met Bob", "Carl", []),
        ("Ann met Bob", "", []),
        ("", "Ann", []),
        ("他住在河上 河上", "河上", [(0, 0), (1, 1)]),  # words of Chinese have no ends
        ("in 1999 and 19991", "1999", [(1, 1)]),
        ("cost $5.00 now", "$5.00", [(1, 1)]),
    ],
)
def test_occurrences(text: str, answer: str, expected: list[tuple[int, int]]) -> None:
    assert occurrences(text, answer, words(text)) == expected


@given(st.text("ab 河😀", max_size=30), st.text("ab 河😀", min_size=1, max_size=4))
def test_pieces_of_an_occurrence_hold_it(tokenizer: Tokenizer, text: str, answer: str) -> None:
    _, places = tokenizer.encode_with_places(text)
    for first, last in occurrences(text, answer, places):
        assert answer.strip() in text[places[first][0] : places[last][1]]
        if not answer[0].isspace():
            assert any(
                places[first][0] <= at < places[first][1] and at + len(answer) <= places[last][1]
                for at in range(len(text))
                if text.startswith(answer, at)
            )


# --- the best spans ---


@given(st.integers(1, 7), st.integers(1, 8), st.integers(1, 30), st.integers(0, 10**6))
def test_the_best_spans_are_those_of_all(n: int, longest: int, count: int, seed: int) -> None:
    start, end = np.random.default_rng(seed).normal(size=(2, n))
    every = [
        (start[a] + end[b], a, b) for a, b in itertools.product(range(n), range(n)) if a <= b and b - a + 1 <= longest
    ]
    found = [span for span in best_spans(start, end, longest, count) if np.isfinite(span[0])]
    ranked = sorted(every, key=lambda span: -span[0])
    assert found == ranked[:count]
    apart: list[tuple[float, int, int]] = []
    for span in ranked:
        if all(span[2] < other[1] or other[2] < span[1] for other in apart):
            apart.append(span)
    assert disjoint_spans(start, end, longest, count) == apart[:count]
