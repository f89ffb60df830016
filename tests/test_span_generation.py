"""Generated answers: stretches of the window, scored against no answer by the model's own probabilities."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tx.model import span_generation
from tx.model.config import CheckpointConfig, ModelConfig, SpecialIds, Task
from tx.model.numpy_engine import NumpyTransformer
from tx.model.runtime import Runtime
from tx.model.span_generation import LONGEST, generated_spans, search_spans
from tx.model.spans import SEGMENTS, Reader, Source

TEXT = "Anna met Bob at the bridge. The bridge is old, but the water is not! 桥在河上。你好 😀 12 boats."
QUESTIONS = ["Who met Bob?", "桥在哪里？", "What is old, and what is not, and when did the boats come?"]


@pytest.fixture(scope="module")
def runtime(small_model: Path) -> Runtime:
    return Runtime(small_model, engine="numpy")


def read(runtime: Runtime, text: str, question: str, first: int = 0, last: int | None = None) -> Source:
    checkpoint = runtime.checkpoint
    special, task = checkpoint.config.special, checkpoint.config.tasks["answer"]
    reader = Reader(checkpoint.tokenizer, task.src_prefix, special.eos)
    return reader.source(reader.question(question, 100), reader.text(text), first, last)


CHARACTERS = st.sampled_from("ab AB.?!\n河上桥。😀\u0301é1２")


@settings(deadline=None, max_examples=25)
@given(st.text(CHARACTERS, max_size=60), st.text(CHARACTERS, max_size=10), st.integers(1, 6))
def test_what_comes_out_stands_in_the_window(runtime: Runtime, text: str, question: str, n_best: int) -> None:
    source = read(runtime, text, question)
    window = source.ids[source.first : -1]
    (found,) = generated_spans(runtime, [source], n_best)
    assert len(found) <= n_best and bool(found) == bool(window)
    assert all(0 <= first <= last < len(window) and last - first < LONGEST for _, first, last in found)
    assert [score for score, _, _ in found] == sorted((score for score, _, _ in found), reverse=True)
    assert all(math.isfinite(score) for score, _, _ in found)
    assert len({tuple(window[first : last + 1]) for _, first, last in found}) == len(found)


def test_the_score_is_the_log_odds_against_ending_at_once(runtime: Runtime) -> None:
    """From the model's probabilities of the span and of nothing, fed in whole. Padding has none."""
    config = runtime.checkpoint.config
    model = NumpyTransformer(config.model, runtime.checkpoint.tensors)
    source = read(runtime, TEXT, QUESTIONS[0])
    prefix, eos = config.tasks["answer"].tgt_prefix, config.special.eos

    def log_prob(pieces: Sequence[int]) -> float:
        src, tgt = np.array([source.ids]), np.array([[*prefix, *pieces]])
        logits, _ = model.forward(src, None, tgt, segments=source.kinds[None].astype(np.int64))
        rows = logits[0, len(prefix) - 1 :].astype(np.float64)
        rows[:, config.special.pad] = -np.inf
        log_p = rows - np.log(np.exp(rows).sum(axis=1, keepdims=True))
        return float(sum(log_p[i, piece] for i, piece in enumerate([*pieces, eos])))

    (found,) = generated_spans(runtime, [source], 3)
    assert len(found) == 3
    for score, first, last in found:
        span = source.ids[source.first + first : source.first + last + 1]
        assert score == pytest.approx(log_prob(span) - log_prob([]), abs=1e-3)


PAD, EOS, START = 0, 1, 2


class Bigram:
    """A piece depends on the one before it alone: log_p[before, piece]. Sources do not matter."""

    def __init__(self, log_p: np.ndarray) -> None:
        self.log_p = log_p.astype(np.float32)
        self.kinds: object = None

    def start(self, src: Sequence[Sequence[int]], beams: int, kinds: Sequence[object] | None = None) -> None:
        self.kinds = kinds

    def step(self, ids: np.ndarray, state: None) -> np.ndarray:
        return self.log_p[ids]

    def reorder(self, state: None, rows: np.ndarray) -> None:
        return None


def toy(segments: int = SEGMENTS) -> CheckpointConfig:
    model = ModelConfig(20, 20, 8, 1, 8, 8, n_encoder_layers=1, n_decoder_layers=1, n_segments=segments)
    return CheckpointConfig(model, SpecialIds(PAD, EOS, START), tasks={"answer": Task((START,), (START,))})


def window(text: Sequence[int], kinds: Sequence[int] | None = None) -> Source:
    ids = [START, 4, 5, *text, EOS]
    own = [0, 0, 0, *(kinds or [1] * len(text)), 16]
    return Source(ids, np.array(own, np.uint8), 3)


def test_the_score_by_hand_does_not_depend_on_what_else_stands_there() -> None:
    """After 6 the model wants 7 at 0.2, 8 at 0.3; in the second window nothing but 7 can follow, and that is no reason."""
    p = np.full((20, 20), 1e-9)
    p[START, [EOS, 6, 9]] = 0.4, 0.3, 0.1
    p[6, [EOS, 7, 8]] = 0.1, 0.2, 0.3
    p[[7, 8, 9], EOS] = 0.8
    p[:, 19] = 1 - p.sum(axis=1)  # what stands in neither window
    engine = Bigram(np.log(p))
    first, second = search_spans(engine, toy(), [window([6, 7, 9, 6, 8]), window([9, 6, 7])], 3)
    nine, six_seven, six_eight, six = (
        pytest.approx(math.log(x / 0.4), abs=1e-5) for x in (0.1 * 0.8, 0.3 * 0.2 * 0.8, 0.3 * 0.3 * 0.8, 0.3 * 0.1)
    )
    assert first == [(nine, 2, 2), (six_eight, 3, 4), (six_seven, 0, 1)]
    assert second == [(nine, 0, 0), (six_seven, 1, 2), (six, 1, 1)]


def test_where_the_pieces_stand_twice_the_question_decides() -> None:
    p = np.full((20, 20), 1e-9)
    p[START, 6] = p[6, EOS] = p[START, EOS] = 0.5
    engine = Bigram(np.log(p))

    def place(*kinds: int) -> tuple[int, int]:
        (((_, first, last),),) = search_spans(engine, toy(), [window([6, 9, 6, 9, 6], kinds)], 1)
        return first, last

    assert place(1, 1, 1, 1, 1) == (0, 0)
    assert place(1, 1, 10, 1, 7) == (2, 2)
    assert place(3, 1, 1, 1, 4) == (4, 4)  # match says nothing, nearness does
    assert place(0, 0, 0, 0, 0) == (0, 0)


def test_a_model_without_kinds_of_pieces_is_given_none() -> None:
    engine = Bigram(np.zeros((20, 20)))
    search_spans(engine, toy(), [window([6])], 1)
    assert engine.kinds is not None
    search_spans(engine, toy(segments=0), [window([6])], 1)
    assert engine.kinds is None


def test_batches_and_engines_do_not_change_spans(
    small_model: Path, runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = [read(runtime, TEXT, q, first, first + 30) for q in QUESTIONS for first in (0, 20, 40)]
    together = generated_spans(runtime, sources, 3)
    other = generated_spans(Runtime(small_model, engine="torch", threads=1), sources, 3)
    monkeypatch.setattr(span_generation, "BATCH", 1)
    for found in (other, generated_spans(runtime, sources, 3)):
        for ours, theirs in zip(together, found, strict=True):
            assert [s for s, _, _ in ours] == pytest.approx([s for s, _, _ in theirs], abs=1e-2)
            assert ours[0][1:] == theirs[0][1:]
    assert generated_spans(runtime, [], 3) == []


def test_kinds_of_pieces_change_the_scores(runtime: Runtime) -> None:
    source = read(runtime, TEXT, QUESTIONS[0])
    other = source._replace(kinds=np.where(source.kinds > 0, 13, 0).astype(np.uint8))
    (with_kinds,), (without,) = generated_spans(runtime, [source], 1), generated_spans(runtime, [other], 1)
    assert abs(with_kinds[0][0] - without[0][0]) > 1e-3
