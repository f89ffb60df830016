"""Numbers to compute with: float32, bfloat16 or int8, and fewer, larger matrix products. For inference only."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from .attention import MultiHeadAttention
from .errors import UsageError
from .int8 import Int8Linear, is_supported, native_scale
from .layers import DecoderLayer, EncoderLayer, FeedForward

if TYPE_CHECKING:
    from .transformer import Transformer

_PARTS = {"qkv_proj": "q_proj", "kv_proj": "k_proj"}


@torch.no_grad()
def prepare(
    model: Transformer, precision: str = "fp32", input_limits: Mapping[str, float] | None = None
) -> Transformer:
    """Makes a model ready to compute with `precision` (see class Runtime), in place; it can no longer be trained.
    Projections of the same vectors become one. `input_limits` are those of Int8Linear, by the layers' names. UsageError if the processor cannot.

    "auto" is bf16 where the processor multiplies such matrices in hardware and that is faster, else fp32."""
    on_cpu = next(model.parameters()).is_cpu
    if precision == "auto":
        precision = "bf16" if on_cpu and bf16_is_faster() else "fp32"
    if precision == "int8" and not (on_cpu and is_supported()):
        raise UsageError("int8 needs an x86-64 processor (--device cpu) and a PyTorch with FBGEMM: use fp32")
    for module in list(model.modules()):
        if isinstance(module, EncoderLayer | DecoderLayer) and isinstance(module.self_attn, MultiHeadAttention):
            attn = module.self_attn
            attn.qkv_proj = _join([attn.q_proj, attn.k_proj, attn.v_proj])
        if isinstance(module, DecoderLayer):
            attn = module.cross_attn
            attn.kv_proj = _join([attn.k_proj, attn.v_proj])
    if precision == "bf16":
        model.to(torch.bfloat16)
    if precision == "int8":
        _to_int8(model, input_limits or {})
    elif on_cpu:
        model.output_proj = InBlocks(model.output_table, model.logits_bias if model.config.logits_bias else None)
    return model


class InBlocks(nn.Module):
    """x Wᵀ + b, x [n, d] and W [V, d], a block of the rows of W at a time: into blocks that the processor's cache holds a product of
    the vocabulary's size took half the time, with MKL on a processor of AMD."""

    ROWS = 1024

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        self.weights = torch.split(weight.detach(), self.ROWS)  # views
        self.biases = [None] * len(self.weights) if bias is None else torch.split(bias.detach(), self.ROWS)

    def forward(self, x: Tensor) -> Tensor:
        blocks = [functional.linear(x, w, b) for w, b in zip(self.weights, self.biases, strict=True)]
        return torch.cat(blocks, dim=-1)


def _join(projections: list[nn.Module]) -> nn.Linear:
    """One projection to the outputs of all, side by side. Theirs become views of its tensors."""
    linears = [cast("nn.Linear", projection) for projection in projections]
    joined = nn.Linear(1, 1, bias=linears[0].bias is not None)  # to be filled
    joined.in_features, joined.out_features = linears[0].in_features, sum(p.out_features for p in linears)
    joined.weight = nn.Parameter(torch.cat([p.weight for p in linears]), requires_grad=False)
    if linears[0].bias is not None:
        joined.bias = nn.Parameter(torch.cat([p.bias for p in linears]), requires_grad=False)
    start = 0
    for p in linears:
        end = start + p.out_features
        p.weight = nn.Parameter(joined.weight[start:end], requires_grad=False)
        if p.bias is not None:
            p.bias = nn.Parameter(joined.bias[start:end], requires_grad=False)
        start = end
    return joined


def _to_int8(model: Transformer, limits: Mapping[str, float]) -> None:
    for path, module in list(model.named_modules()):
        for name, child in list(module.named_children()):
            if not path or not isinstance(child, nn.Linear):
                continue  # the output layer has its place below
            # What is joined gets the same vectors as each of its parts.
            limit = limits.get(f"{path}.{_PARTS.get(name, name)}")
            of_ffn = isinstance(module, FeedForward) and module.is_non_negative
            layer = Int8Linear(
                child.weight, child.bias, of_ffn and name == "w_2", None, limit, of_ffn and name == "w_1"
            )
            setattr(module, name, layer)
        if isinstance(module, FeedForward) and module.is_non_negative:
            module.activation = _unchanged  # the layer before has done it
    bias = model.logits_bias if model.config.logits_bias else None
    model.output_proj = Int8Linear(model.output_table, bias)
    model.output_scale = native_scale(model.output_table)


def _unchanged(x: Tensor) -> Tensor:
    return x


def bf16_is_faster() -> bool:
    """Whether this processor multiplies bfloat16 matrices in hardware, and is quicker at it: some milliseconds of trying."""
    amx, avx512 = (
        getattr(torch.cpu, "_is_amx_tile_supported", None),
        getattr(torch.cpu, "_is_avx512_bf16_supported", None),
    )
    if not any(supported is not None and supported() for supported in (amx, avx512)):
        return False
    times = {}
    for dtype in (torch.float32, torch.bfloat16):
        x, weight = torch.ones(64, 512, dtype=dtype), torch.ones(512, 512, dtype=dtype)
        taken = []
        for _ in range(5):
            start = time.perf_counter()
            torch.nn.functional.linear(x, weight)
            taken.append(time.perf_counter() - start)
        times[dtype] = sorted(taken)[2]
    return times[torch.bfloat16] < times[torch.float32]
