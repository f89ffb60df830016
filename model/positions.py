"""Where a piece stands in the sequence: sinusoids (Vaswani et al. 2017, §3.5) and relative buckets (Raffel et al. 2020)."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def sinusoids(length: int, d_model: int, layout: str = "interleaved", offset: int = 0) -> Tensor:
    """The position vectors of `length` pieces, the first at position `offset`: [length, d_model], float32.

    PE(pos, 2i) = sin(pos · ω_i) and PE(pos, 2i+1) = cos(pos · ω_i), with ω_i = 10000^(−2i/d_model) for
    i = 0 … d_model/2 − 1 (Vaswani et al. 2017, §3.5). The layouts differ in the order of the components and in ω:

    - "interleaved": sin and cos alternate, as written in the paper
    - "halves": the same ω; all sines, then all cosines (Marian as converted for Hugging Face)
    - "tensor2tensor": halves, with ω_i = 10000^(−i/(d_model/2 − 1)) (the original code; fairseq, Marian)

    Raises ValueError for an unknown layout.
    """
    half = d_model // 2
    index = torch.arange(half, dtype=torch.float64)
    exponent = index / max(half - 1, 1) if layout == "tensor2tensor" else 2 * index / d_model
    frequency = torch.exp(-math.log(10000.0) * exponent)
    angle = torch.arange(offset, offset + length, dtype=torch.float64)[:, None] * frequency
    if layout == "interleaved":
        table = torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(1)
    elif layout in ("halves", "tensor2tensor"):
        table = torch.cat((angle.sin(), angle.cos()), dim=-1)
    else:
        raise ValueError(f"unknown sinusoid layout {layout!r}")
    return table.float()


def relative_buckets(
    query_positions: Tensor, n_keys: int, n_buckets: int, max_distance: int, bidirectional: bool
) -> Tensor:
    """The bucket of each (query, key) distance: [T] positions of the queries → [T, n_keys], long.

    Half of the buckets (of those on one side, when `bidirectional`) are for exact distances, the others grow
    logarithmically up to `max_distance`; whatever lies further shares the last one (Raffel et al. 2020, §2.1).
    Without `bidirectional`, keys to the right of the query all fall into bucket 0: they are masked anyway.
    """
    distance = torch.arange(n_keys, device=query_positions.device)[None, :] - query_positions[:, None]
    bucket = torch.zeros_like(distance)
    if bidirectional:
        n_buckets //= 2
        bucket += (distance > 0).long() * n_buckets
        distance = distance.abs()
    else:
        distance = (-distance).clamp(min=0)
    n_exact = n_buckets // 2
    growth = torch.log(distance.float().clamp(min=1) / n_exact) / math.log(max_distance / n_exact)
    far = n_exact + (growth * (n_buckets - n_exact)).long()
    return bucket + torch.where(distance < n_exact, distance, far.clamp(max=n_buckets - 1))
