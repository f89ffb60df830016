"""No number and no name is made up, with a vocabulary of a few pieces."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from tx.model.faithful import LIKELY, Vocabulary, WordsOfSource, is_fit

PIECES = [
    *("</s>", "<0xE4>", ".", " the", " The", " Ann", "a", "ette", " Bo", "b", "B", " a", "12", "50", "-", "桥", "GP", "U", "s")
] + [" boat", " Boat"]  # fmt: skip


class Tokenizer:
    """What of a tokenizer is asked for; " The" is frequent."""

    vocab_size = len(PIECES)
    scores = [-5.0 if piece == " The" else -9.0 for piece in PIECES]

    def pieces(self, ids: Sequence[int]) -> list[str]:
        return [PIECES[i] for i in ids]


def ids(*pieces: str) -> list[int]:
    return [PIECES.index(piece) for piece in pieces]


VOCABULARY = Vocabulary(Tokenizer())  # type: ignore[arg-type]
SOURCES = [
    ids(" Ann", "a", " Bo", "b", " a", "12", "-", "桥", ".", " boat", "s"),  # Anna Bob a12-桥. boats
    ids("桥", "GP", "U", ".", " the", " Ann", "ette"),
]


def allowed(source: int, *before: str) -> set[str]:
    logits = np.zeros((1, len(PIECES)), np.float32)
    WordsOfSource(VOCABULARY, SOURCES)(np.array([ids(*before)], np.int64), np.array([source]), logits)
    return {piece for piece, logit in zip(PIECES, logits[0], strict=True) if np.isfinite(logit)}


FREE = {"</s>", "<0xE4>", ".", " the", " The", " a", "-", "桥", " boat"}  # what begins no name, or is frequent
SMALL = {"a", "ette", "b", "s"}
NAMES = {" Ann", " Bo"}


@pytest.mark.parametrize(
    ("source", "before", "expected"),
    [
        (0, (), FREE | SMALL | NAMES | {" Boat"}),  # "12" stands there inside of a word only
        (0, (".",), FREE | SMALL | NAMES | {" Boat"}),
        (0, (" the",), FREE | SMALL | NAMES),  # "Boat" at the beginning of a sentence only
        (0, (" Boat",), {"s"}),  # the source has nothing but boats
        (0, (" Boat", "s"), FREE | NAMES),
        (0, (" Ann",), {"a"}),  # it has to become Anna,
        (0, (" Ann", "a"), FREE | NAMES),  # which ends here
        (0, (" Bo",), {"b"}),
        (0, (" The",), FREE | NAMES),  # a frequent word that the source does not have is that piece alone
        (0, (" a",), FREE | SMALL | NAMES | {"12"}),  # the word is not a name
        (0, (" a", "12"), FREE | SMALL | NAMES),
        (0, (" a", "s", "-"), FREE | SMALL | NAMES),
        (1, ("桥",), FREE | SMALL | {" Ann", "GP"}),  # after Chinese no space is needed
        (1, ("桥", "GP"), {"U"}),
        (1, ("桥", "GP", "U"), FREE | {" Ann"}),
        (1, (" Ann",), {"ette"}),
    ],
)
def test_what_may_come_next(source: int, before: tuple[str, ...], expected: set[str]) -> None:
    assert allowed(source, *before) == expected


def test_the_rows_of_a_batch_have_their_own_sources() -> None:
    rule = WordsOfSource(VOCABULARY, SOURCES)
    logits = np.zeros((3, len(PIECES)), np.float32)
    rule(np.array([ids(" Ann"), ids("."), ids(" Ann")], np.int64), np.array([1, 0, 0]), logits)
    assert [int(np.isfinite(row).sum()) for row in logits] == [1, len(FREE | SMALL | NAMES) + 1, 1]
    assert np.isfinite(logits[0, PIECES.index("ette")]) and np.isfinite(logits[2, PIECES.index("a")])


SOURCE = (
    "The council met on Monday to discuss the new bridge. The rooms moved to Friday at 10 a.m.; 2013年, it lay... here. "
    "Bridges had had lamps: 154 bees sat in the lamp-light for 12 days. 天天向上, 3.5 米. 新桥的计划, 桥在河上。"
)


@pytest.mark.parametrize(
    ("summary", "fit"),
    [
        ("The council met on Monday.", True),  # "to" could have begun what is left out
        ("The councils meeting on Monday.", False),  # "meet" is no stem of "met"
        ("The council meets on Monday.", False),
        ("The council met.", True),
        ("The council met the new bridge.", False),  # all of its words are there
        ("The council met on Monday to discuss the new bridges.", True),  # of the same stem
        ("The council met on Monday to discuss the new.", False),  # no clause ends there
        ("Council met on Monday.", False),  # no clause begins there
        ("New bridge.", False),
        ("The bridge.", False),
        ("The rooms moved to Friday at 10 a.m.", True),
        ("The rooms moved to 10 a.m.", False),
        ("The rooms moved to Friday at 10.m.", False),
        ("154 bees sat in the lamp-light.", True),
        ("154 days.", False),
        ("154 bees sat in the lamp-light for 12.", False),
        ("12 bees sat in the lamp-light.", False),
        ("Bridges had had lamps.", True),
        ("Bridges had had lamps..", False),
        ("It lay.. here.", False),
        ("It lay... here.", True),  # as the source does
        ("The council met. The rooms moved to Friday.", True),
        ("The council met. The bridge lay here.", False),
        ("The fox met.", False),
        ("Monday.", False),
        ("天天向上", True),
        ("向上向上。", False),
        ("上上上。", False),
        ("2013年", True),
        ("2013月", False),
        ("13年", False),
        ("35 米", False),
        ("3.5 米", True),
        ("新桥在河上。", True),
        ("新桥天上。", False),  # two pairs are new
        ("河上天。", True),  # one
        ("河上154 米", False),  # one of them a number
        ("The council met on", False),
        ("The council met, and the.", False),
        ("The council,", False),
        ("新桥的", False),
        ("“", False),
        ("", False),
    ],
)
def test_what_is_fit_to_be_shown(summary: str, fit: bool) -> None:
    assert is_fit(summary, SOURCE, -0.1) == fit
    assert not is_fit(summary, SOURCE, LIKELY - 0.01)
