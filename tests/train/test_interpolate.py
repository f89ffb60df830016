"""A model between two: shares by name, and the step that writes it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from tx.model.checkpoint import load_checkpoint
from tx.model.errors import CheckpointError, UsageError
from tx.model.train.__main__ import main
from tx.model.train.interpolate import interpolate, parse_share

A = {
    "a.weight": torch.tensor([0.0, 2.0]),
    "b.weight": torch.tensor([4.0]),
    "new": torch.tensor([7.0], dtype=torch.half),
}
B = {"a.weight": torch.tensor([1.0, 0.0]), "b.weight": torch.tensor([0.0]), "gone": torch.tensor([1.0])}


def test_the_first_pattern_decides() -> None:
    found = interpolate(A, B, 0.25, [("^b", 0.5), ("weight", 1.0)])
    assert {name: tensor.tolist() for name, tensor in found.items()} == {
        "a.weight": [1.0, 0.0], "b.weight": [2.0], "new": [7.0],
    }  # fmt: skip
    assert interpolate(A, B, 0.25)["a.weight"].tolist() == [0.25, 1.5]
    assert all(tensor.dtype == torch.float32 for tensor in found.values())


def test_models_that_do_not_fit() -> None:
    with pytest.raises(CheckpointError, match="nothing|no tensor in common"):
        interpolate(A, {"other": B["gone"]}, 0.5)
    with pytest.raises(CheckpointError, match=r"b.weight is of shape \(1,\) in one and \(2,\) in the other"):
        interpolate(A, {"b.weight": torch.zeros(2)}, 0.5)


@pytest.mark.parametrize("value", ["0.5", "a=", "a=2", "a=-1", "(=0.5", "a=nan"])
def test_shares_that_are_none(value: str) -> None:
    with pytest.raises(UsageError, match="PATTERN=SHARE"):
        parse_share(value)


def test_the_step(
    small_model: Path, translating_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "between"
    given = ["--checkpoint", str(small_model), "--other", str(translating_model), "--out", str(out)]
    assert main(["interpolate", *given, "--share", "0.5", "--share-of", "encoder=0"]) == 0
    found, kept = load_checkpoint(out), load_checkpoint(small_model)
    assert found.config == kept.config
    for name, tensor in found.tensors.items():  # both were made from the same random numbers
        assert np.array_equal(tensor, kept.tensors[name])
    assert main(["interpolate", *given, "--share", "2"]) == 1
    assert "PATTERN=SHARE" in capsys.readouterr().err
