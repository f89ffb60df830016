"""The search for outputs that hold given phrases, on toy engines whose every probability is known."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tx.model.config import GenerationConfig
from tx.model.constrained import ROWS, Phrase, constrained, joins_of, ways_to_spell
from tx.model.generation import generate
from tx.model.results import Hypothesis

from .test_generation import EOS, PAD, SPECIAL, START, Table, bigram, fixed, log_probs, sources


def run(
    table: Table, src: Sequence[Sequence[int]], phrases: Sequence[Sequence[Phrase]], n_best: int = 1, **settings: object
) -> list[list[Hypothesis]]:
    joins = settings.pop("joins", lambda a, b: False)
    config = GenerationConfig(**settings)  # type: ignore[arg-type]
    return constrained(
        table,
        src,
        phrases,
        config=config,
        special=SPECIAL,
        prefix=(START,),
        n_best=n_best,
        joins=joins,  # type: ignore[arg-type]
    )


def holds(ids: Sequence[int], phrases: Sequence[Phrase]) -> bool:
    """Whether all phrases stand in the ids, none overlapping, in whatever order: by trying all places."""
    if not phrases:
        return True
    places = [
        (at, at + len(way))
        for way in phrases[0]
        for at in range(len(ids) - len(way) + 1)
        if tuple(ids[at : at + len(way)]) == way
    ]
    return any(holds([*ids[:a], *[-1] * (b - a), *ids[b:]], phrases[1:]) for a, b in places)


def exhaustive(
    table: Table, source: tuple[int, ...], size: int, limit: int, alpha: float, phrases: Sequence[Phrase]
) -> list[tuple[float, tuple[int, ...]]]:
    """All finished outputs of at most `limit` pieces that hold the phrases, best first: (score, ids)."""
    found = []
    for length in range(limit):
        for ids in itertools.product(range(START, size), repeat=length):
            if not holds(ids, phrases):
                continue
            fed, total = (START,), 0.0
            for piece in (*ids, EOS):
                total += log_probs(table.logits(source, fed))[piece]
                fed = (*fed, piece)
            found.append((total / (length + 1) ** alpha, ids))
    return sorted(found, key=lambda one: -one[0])


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("alpha", [0.0, 1.0])
@pytest.mark.parametrize(
    "phrases",
    [
        [((3,),)],
        [((3, 4),)],
        [((4, 2, 4),)],
        [((3,),), ((4,),)],
        [((3,),), ((3,),)],  # twice
        [((3,),), ((3, 4),)],  # one begins as the other does
        [((3, 3),), ((3,),)],
        [((2, 3), (4,)), ((3,),)],  # the first in two ways
    ],
)
def test_the_best_of_all_outputs_that_hold_the_phrases(
    seed: int, alpha: float, phrases: list[Phrase], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tx.model.constrained.ROWS", 10_000)
    size, limit, source = 5, 5, (9, 7, EOS)
    table = bigram(size, seed)
    expected = exhaustive(table, source, size, limit, alpha, phrases)
    scores = {ids: score for score, ids in expected}
    settings = {"beam_size": 64, "length_penalty": alpha, "max_length": limit, "n_best": 3}
    settings["early_stopping"] = "never"
    # with beams this wide nothing falls out: 3^4 outputs and their prefixes
    [found] = run(table, [source], [phrases], **settings)
    found = [h for h in found if h.finished]
    assert [h.score for h in found] == pytest.approx([score for score, _ in expected[:3]], abs=1e-5)
    assert [scores[h.ids] for h in found] == pytest.approx([h.score for h in found], abs=1e-5)  # ties in any order


PHRASES = st.lists(
    st.lists(st.lists(st.integers(2, 11), min_size=1, max_size=4).map(tuple), min_size=1, max_size=2).map(tuple),
    max_size=4,
)


@settings(deadline=None)
@given(st.integers(0, 999), st.lists(PHRASES, min_size=1, max_size=3), st.integers(1, 5), st.integers(1, 25))
def test_all_phrases_stand_in_every_output(seed: int, wanted: list[list[Phrase]], beam: int, limit: int) -> None:
    src = sources(len(wanted), seed)
    settings = {"beam_size": beam, "max_length_factor": 0.0, "max_length_constant": limit, "n_best": 2}
    found = run(bigram(12, seed), src, wanted, **settings)
    for row, phrases, hypotheses in zip(src, wanted, found, strict=True):
        assert hypotheses  # always some
        needed = sum(min(map(len, ways)) for ways in phrases)
        for h in hypotheses:
            assert holds(h.ids, phrases)
            assert len(h.ids) + h.finished <= max(limit, needed + 1)
            assert EOS not in h.ids and PAD not in h.ids
        alone = run(bigram(12, seed), [row], [phrases], **settings)
        assert alone == [hypotheses]  # whatever it is batched with


@pytest.mark.parametrize("seed", range(8))
def test_what_the_free_search_finds_by_itself_is_found(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tx.model.constrained.ROWS", 10_000)
    table, src = bigram(12, seed), sources(4, seed)
    config = GenerationConfig(beam_size=4, max_length_factor=0.0, max_length_constant=12, early_stopping="never")
    free = generate(table, src, config=config, special=SPECIAL, prefix=(START,))
    for row, [best] in zip(src, free, strict=True):
        for length in (1, 2):
            phrase = best.ids[-length:]
            if best.finished and len(phrase) == length:
                settings = {"beam_size": 64, "max_length_factor": 0.0, "max_length_constant": 12}
                [[found]] = run(table, [row], [[(phrase,)]], **settings, early_stopping="never")
                assert found.score >= best.score - 1e-5
                assert found.log_prob <= 0


def test_without_phrases_it_is_beam_search() -> None:
    table, src = bigram(9, 5), sources(5)
    limits = {"max_length_factor": 0.0, "max_length_constant": 9}
    config = GenerationConfig(beam_size=64, early_stopping="never", **limits)  # type: ignore[arg-type]
    free = generate(table, src, config=config, special=SPECIAL, prefix=(START,), n_best=2)
    found = run(table, src, [[]] * len(src), n_best=2, beam_size=64, **limits)
    assert [[h.ids for h in row] for row in found] == [[h.ids for h in row] for row in free]


def test_the_score_is_the_models_own() -> None:
    # After the start: 3 with 3/4, 4 with 1/4; then an end with 1/2 or 3 with 1/2. "4" is written all the same.
    low = -1e9
    table = fixed([low, low, low, math.log(3), 0.0], [low, 0.0, low, 0.0, low])
    [[best]] = run(table, [[7, EOS]], [[((4,),)]], length_penalty=0.5, max_length=2)
    assert best.ids == (4,)
    assert best.log_prob == pytest.approx(math.log(1 / 4) + math.log(1 / 2), abs=1e-6)
    assert best.score == pytest.approx(math.log(1 / 8) / math.sqrt(2), abs=1e-6)


def test_a_forced_prefix_counts_in_the_length() -> None:
    table = bigram(9, 2)
    config = GenerationConfig(beam_size=4, max_length=8)
    [[h]] = constrained(table, [[7, EOS]], [[((5,),)]], config=config, special=SPECIAL, prefix=(START, 4, 3))
    assert h.score == pytest.approx(h.log_prob / (2 + len(h.ids) + h.finished))


def test_no_room() -> None:
    long = (tuple(range(3, 11)),)
    assert run(bigram(12), [[5, EOS], [6, EOS]], [[long], []], max_length=7)[0] == []
    [[exact]] = run(bigram(12), [[5, EOS]], [[long]], max_length=8)
    assert exact.ids == long[0] and not exact.finished
    [[more]] = run(bigram(12), [[5, EOS]], [[long]], max_length_factor=0.0, max_length_constant=1)
    assert holds(more.ids, [long])  # a limit that is too low for the phrases gives way to them


def test_many_phrases_keep_the_rows_within_bounds() -> None:
    table = bigram(30)
    number = (tuple([3] * 39 + [4]),)
    [[found]] = run(table, [[5, EOS]], [[number, ((6,),)]], beam_size=5, max_length=60)
    assert holds(found.ids, [number, ((6,),)])
    assert max(table.rows_per_step) <= ROWS


def test_no_sources_and_no_pieces() -> None:
    assert run(bigram(5), [], []) == []
    with pytest.raises(ValueError, match="a phrase has no pieces"):
        run(bigram(5), [[3, EOS]], [[((),)]])
    with pytest.raises(ValueError, match="a phrase has no pieces"):
        run(bigram(5), [[3, EOS]], [[()]])


def test_nothing_joins_a_phrase() -> None:
    # 3 likes to stand beside 3; both ends of the phrase (4,) may not touch it.
    low = -20.0
    table = fixed([low, -2.0, low, 5.0, low, 0.0])
    for joins, joined in ((lambda a, b: False, True), (lambda a, b: {a, b} == {3, 4}, False)):
        [[found]] = run(table, [[7, EOS]], [[((4,),)]], joins=joins, max_length=6)
        text = "".join(map(str, found.ids))
        assert "4" in text
        assert ("34" in text or "43" in text) is joined


class Letters:
    """A vocabulary as SentencePiece has it: a word begins with its space, which is put before a text too."""

    pieces = ["<unk>", "▁", "▁ab", "ab", "c", "1", "▁1", "我", "(", "▁a", "b"]

    def encode(self, text: str) -> list[int]:
        text, ids = ("▁" + text.strip().replace(" ", "▁")) if text else "", []
        while text:
            piece = next((p for p in sorted(self.pieces, key=len, reverse=True) if text.startswith(p)), None)
            ids.append(self.pieces.index(piece) if piece else 0)
            text = text[len(piece or "x") :]
        return ids

    def spelling(self, i: int) -> bytes:
        return self.pieces[i].replace("▁", " ").encode() if i else b""


def test_ways_to_spell() -> None:
    vocabulary = Letters()
    spelt = [[vocabulary.pieces[i] for i in way] for way in ways_to_spell(vocabulary, "abc1")]
    assert spelt == [["▁ab", "c", "1"], ["ab", "c", "1"]]
    assert ways_to_spell(vocabulary, "abx") == ()
    assert [[vocabulary.pieces[i] for i in way] for way in ways_to_spell(vocabulary, "1 ab")][0] == ["▁1", "▁ab"]


def test_joins() -> None:
    vocabulary = Letters()
    joins = joins_of(vocabulary)

    def said(a: str, b: str) -> bool:
        return joins(vocabulary.pieces.index(a), vocabulary.pieces.index(b))

    assert said("1", "1") and said("c", "ab") and said("▁ab", "c")
    assert not said("1", "▁1") and not said("我", "1") and not said("c", "1") and not said("1", "我")


def test_rows_of_ids_are_numbers() -> None:
    assert np.array([h.ids for h in run(bigram(9), [[5, EOS]], [[((3,),)]])[0]]).dtype.kind == "i"
