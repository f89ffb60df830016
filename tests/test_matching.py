"""Words of a question in a text: what is compared, how much it says, and how much of the question stands where."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
import tokenizers
from hypothesis import example, given
from hypothesis import strategies as st

from tx.model import matching
from tx.model.matching import (
    FUNCTION_PAIR,
    OFTEN,
    PAIR,
    RARE,
    REACH,
    Weights,
    Words,
    coverage,
    match,
    share,
    stem,
    units,
)
from tx.model.tokenizer import BYTE_PIECES, Tokenizer


def by_spaces(text: str) -> list[tuple[int, int]]:
    """Places of pieces as a tokenizer would give them that has every word as a piece."""
    return [found.span() for found in re.finditer(r"\S+", text)]


def words_of(text: str) -> Words:
    return Words.of(text, by_spaces(text))


# --- what is compared ---


@pytest.mark.parametrize(
    "alike",
    [
        ("locate", "located", "Locating", "location", "LOCATES"),
        ("stop", "stopped", "stopping", "stops"),
        ("city", "cities"),
        ("deny", "denied", "denies", "denying"),
        ("slow", "slower", "slowest", "slowly"),
        ("bus", "buses"),
        ("straße", "STRASSE"),
        ("été", "Été"),
        ("1990s", "1990S"),
    ],
)
def test_words_with_the_same_stem(alike: tuple[str, ...]) -> None:
    assert len({stem(word) for word in alike}) == 1


@pytest.mark.parametrize("apart", [("lion", "li"), ("red", "r"), ("1990s", "1990"), ("sing", "s"), ("cat", "car")])
def test_words_that_differ(apart: tuple[str, str]) -> None:
    assert stem(apart[0]) != stem(apart[1])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" ?! … 😀_", []),
        ("He met us, twice.", [("he", 0, 2), ("met", 3, 6), ("us", 7, 9), ("twic", 11, 16)]),
        ("snake_cases", [("snak", 0, 5), ("cas", 6, 11)]),
        ("桥", [("桥", 0, 1)]),
        ("石桥上", [("石桥", 0, 2), ("桥上", 1, 3)]),
        ("2栋B座楼", [("2", 0, 1), ("栋", 1, 2), ("b", 2, 3), ("座楼", 3, 5)]),
        ("石，桥", [("石", 0, 1), ("桥", 2, 3)]),
    ],
)
def test_units(text: str, expected: list[tuple[str, int, int]]) -> None:
    assert list(units(text)) == expected


@given(st.text("abS 石桥。，'7_é😀\n", max_size=40))
def test_units_stand_in_order_and_leave_out_no_letter(text: str) -> None:
    found = list(units(text))
    assert [start for _, start, _ in found] == sorted(start for _, start, _ in found)
    covered = {i for _, start, end in found for i in range(start, end)}
    assert covered == {i for i, char in enumerate(text) if char.isalnum()}


def test_the_pieces_of_words() -> None:
    text = "Bob's dog, Bob"
    words = Words.of(text, [(0, 2), (2, 3), (3, 5), (6, 8), (8, 10), (11, 14)])  # Bo b 's do g, Bob
    assert {unit: at.tolist() for unit, at in words.places.items()} == {
        "bob": [[0, 1], [5, 5]],
        "s": [[2, 2]],
        "dog": [[3, 4]],
    }
    assert words.n == 6
    in_bytes = Words.of("桥a", [(0, 1), (0, 1), (0, 1), (1, 2)])  # of a last character in bytes the first byte counts
    assert {unit: at.tolist() for unit, at in in_bytes.places.items()} == {"桥": [[0, 0]], "a": [[3, 3]]}
    assert Words.of("", []) == Words({}, 0)
    assert words_of("?!").places == {}


@given(st.text("abS 石桥。，'7_é😀\n", max_size=40), st.data())
def test_the_pieces_of_a_word_hold_it(text: str, data: st.DataObject) -> None:
    cuts = sorted({0, len(text), *data.draw(st.lists(st.integers(0, len(text)), max_size=20))})
    offsets = list(zip(cuts, cuts[1:], strict=False))
    words = Words.of(text, offsets)
    for unit, start, end in units(text):
        holders = [(a, b) for a, b in words.places[unit].tolist() if offsets[a][0] <= start and end <= offsets[b][1]]
        assert holders
    assert sum(map(len, words.places.values())) == len(list(units(text)))
    assert all((np.diff(at[:, 0]) >= 0).all() and (at[:, 0] <= at[:, 1]).all() for at in words.places.values())


# --- how much it says ---


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    pieces = [(piece, -20.0) for piece in ("<unk>", "</s>", *BYTE_PIECES)]
    pieces += [(" the", -3.0), ("the", -6.0), (" River", -9.0), ("rivers", -8.0), (" was", -7.0)]
    return Tokenizer(tokenizers.Tokenizer(tokenizers.models.Unigram(pieces, unk_id=0, byte_fallback=True)))


def test_what_is_rare_says_more(tokenizer: Tokenizer) -> None:
    found = Weights(tokenizer).question("Was the River near the 石桥的?")
    assert found == pytest.approx(
        {
            "was": (7 - 5.5) / 5,
            "the": 0,  # of two pieces that differ in a space the more frequent counts
            "riv": (9 - 5.5) / 5,
            "near": RARE,  # no piece of its own
            "石桥": PAIR,
            "桥的": FUNCTION_PAIR,
        }
    )
    assert Weights(tokenizer).question("river rivers") == {"riv": pytest.approx((9 - 5.5) / 5), "river": 0.5}
    assert Weights(tokenizer).question("?") == {}


def test_of_words_with_one_stem_the_more_frequent_counts(tokenizer: Tokenizer) -> None:
    assert Weights(tokenizer).question("waes was")["was"] == Weights(tokenizer).question("was")["was"] < RARE


def test_a_vocabulary_without_probabilities(tokenizer: Tokenizer) -> None:
    vocabulary = {piece: i for i, (piece, _) in enumerate(json.loads(tokenizer.to_json())["model"]["vocab"])}
    other = Tokenizer(tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="<unk>")))
    assert Weights(other).question("River near") == {"riv": 0, "near": RARE}


# --- where how much of the question stands ---


def test_near_falls_with_the_distance() -> None:
    words = words_of(" ".join(["x"] * 40 + ["bridge"] + ["x"] * 40))
    level, near = match({"bridg": 0.7, "riv": 0.5, "the": 0.0}, words)
    assert level.tolist() == [0] * 40 + [2] + [0] * 40
    expected = [0.7 * max(0, 1 - abs(i - 40) / REACH) / 1.2 for i in range(81)]
    assert near == pytest.approx(expected)
    assert match({"the": 0.0}, words)[1].max() == match({}, words)[1].max() == match({"riv": 1.0}, words)[1].max() == 0


def test_common_and_rare_words() -> None:
    words = words_of("the old bridge the")
    assert match({"the": 0.0, "old": 0.36, "bridg": 0.37}, words)[0].tolist() == [1, 1, 2, 1]
    both = Words({"old": np.array([[0, 2]]), "bridg": np.array([[1, 1]])}, 3)  # where words share a piece
    for question in ({"old": 0.1, "bridg": 0.5}, {"bridg": 0.5, "old": 0.1}):
        assert match(question, both)[0].tolist() == [1, 2, 1]


@pytest.mark.parametrize("n", [1, 4, OFTEN, OFTEN + 5])
def test_what_stands_often_says_less(n: int) -> None:
    words = words_of(" ".join(["bridge"] * n + ["boat"]))
    _, near = match({"bridg": 1.0, "boat": 1.0}, words)
    weight = 1 / min(n, OFTEN) ** 0.5
    assert near[n] == pytest.approx((weight * (1 - 1 / REACH) + 1) / (weight + 1))
    assert near[0] == pytest.approx((weight + 1 - n / REACH) / (weight + 1))


def test_words_at_the_edges_of_a_window() -> None:
    question = {"石桥": 1.0, "河": 1.0}
    words = Words({"石桥": np.array([[1, 3], [6, 8]]), "河": np.array([[20, 20]])}, 30)
    level, near = match(question, words, 2, 8)  # the first begins before it, the second ends after it
    assert level.tolist() == [0, 0, 0, 0, 2, 2]
    assert near[4] == pytest.approx(1 / 2)
    level, _ = match(question, words, 1, 7)
    assert level.tolist() == [2, 2, 2, 0, 0, 2]
    assert match(question, words, 9, 20)[1].max() == 0  # up to 20 is without 20
    assert match(question, words, 9, 21)[0].tolist() == [0] * 11 + [2]
    assert [len(found) for found in match(question, words, 25, 99)] == [5, 5]
    assert [len(found) for found in match(question, words, 30, 40)] == [0, 0]
    assert [len(found) for found in match(question, Words({}, 0))] == [0, 0]


WORDS = st.lists(st.sampled_from(["aa", "bb", "bbs", "ccc", "石桥", "河上", "河", ".", "x"]), max_size=50)
QUESTIONS = st.dictionaries(
    st.sampled_from(["aa", "bb", "ccc", "石桥", "河", "no"]), st.sampled_from([0.0, 0.1, 0.36, 0.6, 1.2])
)


@given(WORDS, WORDS, WORDS, QUESTIONS)
def test_what_is_outside_a_window_does_not_count(
    before: list[str], inside: list[str], after: list[str], question: dict[str, float]
) -> None:
    whole = words_of(" ".join([*before, *inside, *after]))
    level, near = match(question, whole, len(before), len(before) + len(inside))
    alone_level, alone_near = match(question, words_of(" ".join(inside)))
    assert level.tolist() == alone_level.tolist() and near.tolist() == alone_near.tolist()
    assert len(level) == len(near) == len(inside)
    assert set(level.tolist()) <= {0, 1, 2}
    assert ((near >= 0) & (near <= 1 + 1e-9)).all()


@given(WORDS, QUESTIONS, st.integers(1, 60), st.integers(1, 20))
@example(["aa", "bb"], {}, 5, 1)
@example([], {"aa": 1.0}, 5, 1)
def test_the_coverage_of_windows_is_what_they_have_around_their_pieces(
    text: list[str], question: dict[str, float], width: int, stride: int
) -> None:
    words = words_of(" ".join(text))
    firsts = np.arange(0, max(1, len(text)), stride)
    found = coverage(question, words, firsts, width)
    assert found.tolist() == [match(question, words, a, a + width)[1].max(initial=0) for a in firsts.tolist()]


def test_coverage_of_many_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    words = words_of("old stone bridge over the bridge " * 9)
    question = {"ston": 1.0, "bridg": 0.6, "boat": 0.5}
    firsts = np.arange(0, words.n, 2)
    whole = coverage(question, words, firsts, 7)
    monkeypatch.setattr(matching, "_WINDOWS", 4)
    assert coverage(question, words, firsts, 7).tolist() == whole.tolist()
    assert len(set(whole.tolist())) > 2
    assert coverage(question, words, firsts[:0], 7).shape == (0,)


# --- the share of a question in a part of a text ---


def test_the_share_of_a_question() -> None:
    text = Words({"a": np.array([[0, 0], [4, 4], [8, 8], [9, 9]]), "b": np.array([[5, 6]])}, 10)
    question = {"a": 0.8, "b": 0.6, "c": 0.2}
    total = 0.8 / 2 + 0.6 + 0.2  # "a" stands there four times, and counts half
    assert share(question, text, 0, 10) == pytest.approx((0.4 + 0.6) / total)
    assert share(question, text, 0, 5) == pytest.approx(0.4 / total)
    assert share(question, text, 5, 8) == pytest.approx(0.6 / total)
    assert share(question, text, 6, 8) == 0  # "b" begins before
    assert share({}, text, 0, 10) == share({"b": 0.0}, text, 0, 10) == 0
