"""The runtime: which engine computes, and that batches and rules reach the search."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from tx.model import precision, runtime
from tx.model.config import GenerationConfig
from tx.model.errors import CheckpointError, UsageError
from tx.model.generation import LogitsRule
from tx.model.rules import FloatArray, IntArray
from tx.model.runtime import TORCH_CORES, TORCH_FROM, Job, Runtime, check_whole

SEARCH = GenerationConfig(beam_size=2, max_length=8)
JOBS: list[Job] = [
    ("summarize", (270, 271)),
    ("summarize", (272,)),
    ("translate:zh", (270, 271)),
    ("summarize", (272,)),
]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"engine": "jax"}, "engine must be one of auto, numpy, torch, not 'jax'"),
        ({"engine": "numpy", "device": "cuda"}, "the engine numpy computes on the cpu"),
        ({"threads": 0}, "threads must be a whole number from 1 on, not 0"),
        ({"threads": True}, "threads must be a whole number"),
    ],
)
def test_settings_that_make_no_sense(small_model: Path, settings: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        Runtime(small_model, **settings)  # type: ignore[arg-type]


def test_no_model(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError):
        Runtime(tmp_path / "none").checkpoint  # noqa: B018


def test_whole_numbers() -> None:
    check_whole("n", 1)
    for value in (0, -1, 1.0, "1", None, True):
        with pytest.raises(UsageError, match="n must be a whole number from 1 on"):
            check_whole("n", value)  # type: ignore[arg-type]


def test_the_precision_that_is_used(small_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [Runtime(small_model, precision=name).precision_used() for name in ("fp32", "int8")] == ["fp32", "int8"]
    for faster, used in ((False, "fp32"), (True, "bf16")):
        monkeypatch.setattr(precision, "bf16_is_faster", lambda faster=faster: faster)
        assert Runtime(small_model, precision="auto").precision_used() == used


def test_the_engine_goes_by_the_work(small_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Runtime(small_model)
    assert made.engine == "auto"
    monkeypatch.setattr(runtime, "cores", lambda: TORCH_CORES - 1)
    made.stepper(10 * TORCH_FROM, more=True)
    assert made.engine == "numpy"  # too few cores
    monkeypatch.setattr(runtime, "cores", lambda: TORCH_CORES)
    made.stepper(TORCH_FROM - 1)
    assert made.engine == "numpy"
    large = made.stepper(TORCH_FROM)
    assert made.engine == "torch" and made.stepper(1) is large  # for good
    assert "_numpy_stepper" not in vars(made)
    always = Runtime(small_model, engine="numpy")
    always.stepper(10 * TORCH_FROM, more=True)
    assert always.engine == "numpy"


def test_every_job_gets_its_hypothesis_whatever_the_batch(small_model: Path) -> None:
    made = Runtime(small_model, engine="numpy")
    found = made.generate(JOBS, SEARCH, 32)
    assert set(found) == set(JOBS)
    for batch_size in (1, 2):
        again = made.generate(JOBS[::-1], SEARCH, batch_size)
        assert {job: one.ids for job, one in again.items()} == {job: one.ids for job, one in found.items()}
    assert made.generate([], SEARCH, 1) == {}


def test_rules_are_made_for_each_batch(small_model: Path) -> None:
    made = Runtime(small_model, engine="numpy")
    free = made.generate(JOBS, SEARCH, 1)
    first = {job: one.ids[0] for job, one in free.items() if one.ids}
    seen: list[list[list[int]]] = []

    def rules(src: Sequence[Sequence[int]]) -> list[LogitsRule]:
        seen.append([list(row) for row in src])
        forbidden = np.zeros((len(src), made.checkpoint.tokenizer.vocab_size), np.bool_)
        for row, ids in zip(forbidden, src, strict=True):
            row[[first[job] for job in first if list(ids) in ([5, *job[1], 1], [*job[1], 1])]] = True

        def only_others(ids: IntArray, sentences: IntArray, logits: FloatArray) -> None:
            logits[forbidden[sentences]] = -np.inf

        return [only_others]

    other = made.generate(JOBS, SEARCH, 1, rules=rules)
    assert sorted(map(len, seen)) == [1, 1, 1]
    assert first and all(first[job] not in other[job].ids for job in first)
