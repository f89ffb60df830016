"""Answers as spans: what the model is told of each piece, where answers stand, and which spans are the best."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from tx.model import spans
from tx.model.spans import (
    Reader,
    best_spans,
    disjoint_spans,
    occurrences,
)
from tx.model.tokenizer import BYTE_PIECES, Tokenizer

WORDS = {" the": -3.0, "the": -4.0, " Bridge": -9.0, "bridge": -9.5, " 7": -9.0, "7": -9.0, ".": -4.0, " river": -8.0}


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    pieces = [(piece, -20.0) for piece in ("<unk>", "</s>", "<answer>", *BYTE_PIECES)] + list(WORDS.items())
    return Tokenizer(tokenizers.Tokenizer(tokenizers.models.Unigram(pieces, unk_id=0, byte_fallback=True)))


# --- what the model reads ---


@pytest.fixture(scope="module")
def reader(tokenizer: Tokenizer) -> Reader:
    return Reader(tokenizer, (2,), 1)


TAB = 3 + 9  # the byte piece of a tab


def test_the_source_of_a_question(tokenizer: Tokenizer, reader: Reader) -> None:
    question, text = reader.question("the Bridge.", 99), reader.text("the bridge. river")
    assert tokenizer.pieces(text.ids) == [" the", "<0x20>", "bridge", ".", " river"]
    ids, kinds, first = reader.source(question, text)
    assert ids == [2, *tokenizer.encode("the Bridge."), TAB, *text.ids, 1] and ids[first:-1] == text.ids
    # All is near: the whole question stands there. A full stop matches nothing.
    assert kinds.tolist() == [0] * first + [1 + 12 + match for match in (1, 0, 2, 0, 0)] + [19]
    _, kinds, first = reader.source(reader.question("river", 99), reader.text("the bridge."))
    assert kinds.tolist() == [0] * first + [1] * 4 + [16]  # nothing of it stands there


def test_nearness_is_compared_with_the_best_place_of_the_window(reader: Reader) -> None:
    question, text = reader.question("bridge river", 99), reader.text("bridge" + "." * 40)
    _, kinds, first = reader.source(question, text)
    limits = [32 * (1 - share) for share in spans.NEARNESS]  # distances up to which the levels 1 … 4 go
    for distance, kind in enumerate(kinds[first + 2 : -1].tolist(), 1):
        if distance not in limits:  # there it depends on the last bit
            assert kind == 1 + 3 * sum(distance < limit for limit in limits)
    weights = reader.weights.question("bridge river")
    share = weights["bridg"] / sum(weights.values())
    assert spans.COVERAGE[0] < share < spans.COVERAGE[2]
    assert kinds[-1] == 16 + sum(share >= limit for limit in spans.COVERAGE)


def test_only_the_beginning_of_a_question_is_read_but_all_its_words_count(reader: Reader) -> None:
    question = reader.question("the the the bridge", 2)
    assert len(question.ids) == 2 and "bridg" in question.weights
    _, kinds, first = reader.source(question, reader.text("bridge"))
    assert kinds.tolist() == [0] * first + [13, 15, 19]


@pytest.mark.parametrize(("question", "text"), [("", "the"), ("the", ""), ("", ""), ("?!", "the"), ("the", "…\x00")])
def test_a_source_without_words_on_one_side(tokenizer: Tokenizer, reader: Reader, question: str, text: str) -> None:
    ids, kinds, first = reader.source(reader.question(question, 99), reader.text(text))
    assert ids == [2, *tokenizer.encode(question), TAB, *tokenizer.encode(text), 1]
    assert kinds.tolist() == [0] * first + [1] * (len(ids) - first - 1) + [16 if text else 0]


CHARACTERS = "Bridge the 7.河上\t\n"


@given(st.text(CHARACTERS, max_size=20), st.text(CHARACTERS, max_size=60), st.integers(0, 50), st.integers(0, 50))
def test_the_source_of_a_window(reader: Reader, question: str, context: str, first: int, width: int) -> None:
    asked, text = reader.question(question, 10), reader.text(context)
    assert len(text.ids) == len(text.offsets) == text.words.n
    ids, kinds, start = reader.source(asked, text, first, first + width)
    assert ids == [2, *asked.ids, TAB, *text.ids[first : first + width], 1]
    assert len(ids) == len(kinds) and not kinds[:start].any()
    assert ((kinds[start:-1] >= 1) & (kinds[start:-1] <= 15)).all()
    assert 16 <= kinds[-1] < spans.SEGMENTS if start < len(ids) - 1 else kinds[-1] == 0


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
    rng = np.random.default_rng(seed)
    start, end = rng.normal(size=(2, n))
    for words in (None, rng.random(n) < 0.3):
        every = [
            (start[a] + end[b], a, b)
            for a, b in itertools.product(range(n), range(n))
            if a <= b and b - a + 1 <= longest and (words is None or words[a : b + 1].any())
        ]
        found = [span for span in best_spans(start, end, longest, count, words) if np.isfinite(span[0])]
        ranked = sorted(every, key=lambda span: -span[0])
        assert found == ranked[:count]
        apart: list[tuple[float, int, int]] = []
        for span in ranked:
            if all(span[2] < other[1] or other[2] < span[1] for other in apart):
                apart.append(span)
        assert disjoint_spans(start, end, longest, count, words) == apart[:count]
