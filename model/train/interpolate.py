"""Two models of one descent, and one between them: what the second has kept and the first has lost comes back in part.

Weights that were trained from the same start lie close enough together for a weighted mean of both to be a good model too
(Wortsman et al. 2022, "Robust fine-tuning of zero-shot models").
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from ..errors import CheckpointError, UsageError


def parse_share(value: str) -> tuple[str, float]:
    """A pattern and a share from PATTERN=SHARE. UsageError for anything else."""
    pattern, equals, share = value.rpartition("=")
    try:
        if not equals or not 0 <= float(share) <= 1:
            raise ValueError("a share is a number from 0 to 1")
        re.compile(pattern)
    except (ValueError, re.error) as error:
        raise UsageError(f"expected PATTERN=SHARE, not {value!r}: {error}") from None
    return pattern, float(share)


def interpolate(
    tensors: Mapping[str, Tensor], others: Mapping[str, Tensor], share: float, shares: Sequence[tuple[str, float]] = ()
) -> dict[str, Tensor]:
    """(1 − s) · tensor + s · other of the same name, in float32; tensors that `others` lacks stay as they are.

    s is the share of the first of `shares` whose pattern is found in the name, else `share`. CheckpointError where two
    tensors of a name differ in shape, or no name is in both."""
    if not set(tensors) & set(others):
        raise CheckpointError("the two models have no tensor in common")
    mixed = {}
    for name, tensor in tensors.items():
        if name not in others:
            mixed[name] = tensor.float()
            continue
        if others[name].shape != tensor.shape:
            raise CheckpointError(
                f"{name} is of shape {tuple(tensor.shape)} in one and {tuple(others[name].shape)} in the other"
            )
        s = next((value for pattern, value in shares if re.search(pattern, name)), share)
        mixed[name] = torch.lerp(tensor.float(), others[name].float(), s)
    return mixed
