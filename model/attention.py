"""Attention: the formula of Vaswani et al. 2017, its masks, and many heads side by side."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from .config import ModelConfig


class KV(NamedTuple):
    """Keys and values of one attention layer, each [B, H, S, D]."""

    keys: Tensor
    values: Tensor


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    scale: float | None = None,
) -> tuple[Tensor, Tensor]:
    """Attention(Q, K, V) = softmax(QKᵀ / √d_k + bias) V (Vaswani et al. 2017, eq. 1).

    query [..., T, D], key and value [..., S, D]; mask and bias broadcast to [..., T, S]. `mask` is boolean, True where
    the query may look; `scale` replaces 1/√d_k. Returns the output [..., T, D] and the weights [..., T, S]. Each row of
    weights adds up to 1, and a row whose keys are all masked is zero: there is nothing to look at.
    """
    if scale is None:
        scale = 1 / math.sqrt(query.shape[-1])
    scores = (query * scale) @ key.transpose(-2, -1)  # scaling the smaller factor costs less
    if bias is not None:
        scores = scores + bias
    if mask is None:
        weights = scores.softmax(dim=-1)  # torch subtracts the row's maximum first: no overflow
    else:
        # The lowest finite number instead of −∞: a fully masked row then has no NaN, and the second fill empties it.
        weights = scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(dim=-1).masked_fill(~mask, 0.0)
    return weights @ value, weights


def causal_mask(n_queries: int, n_keys: int, device: torch.device | None = None) -> Tensor:
    """Boolean [n_queries, n_keys]: query t of the last `n_queries` positions may look at keys up to its own position."""
    return torch.ones(n_queries, n_keys, dtype=torch.bool, device=device).tril(n_keys - n_queries)


class MultiHeadAttention(nn.Module):
    """MultiHead(Q, K, V) = Concat(head_1 … head_h) W_O, head_i = Attention(Q W_Qi, K W_Ki, V W_Vi) (§3.2.2).

    One matrix holds the projections of all heads: W_Q, W_K, W_V map d_model to n_heads · d_head, W_O maps back.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.n_heads, self.d_head = config.n_heads, config.d_head
        self.scale = 1 / math.sqrt(config.d_head) if config.scale_attention else 1.0
        inner = config.n_heads * config.d_head
        self.q_proj = nn.Linear(config.d_model, inner, bias=config.bias)
        self.k_proj = nn.Linear(config.d_model, inner, bias=config.bias)
        self.v_proj = nn.Linear(config.d_model, inner, bias=config.bias)
        self.o_proj = nn.Linear(inner, config.d_model, bias=config.bias)
        # For inference (see module precision) one matrix product may take the place of several: [Q; K; V] or [K; V].
        self.qkv_proj: nn.Module | None = None
        self.kv_proj: nn.Module | None = None

    def split_heads(self, x: Tensor) -> Tensor:
        """[B, T, H·D] → [B, H, T, D]."""
        return x.reshape(*x.shape[:2], self.n_heads, self.d_head).transpose(1, 2)

    def keys_values(self, memory: Tensor) -> KV:
        """Projects memory [B, S, d_model] to keys and values [B, H, S, D]; for cross-attention once a sentence."""
        if self.kv_proj is not None:
            keys, values = self.kv_proj(memory).chunk(2, dim=-1)
        else:
            keys, values = self.k_proj(memory), self.v_proj(memory)
        return KV(self.split_heads(keys), self.split_heads(values))

    def queries_keys_values(self, x: Tensor) -> tuple[Tensor, KV]:
        """For self-attention: x [B, T, d_model] → queries [B, H, T, D], keys and values."""
        if self.qkv_proj is None:
            return self.split_heads(self.q_proj(x)), self.keys_values(x)
        queries, keys, values = self.qkv_proj(x).chunk(3, dim=-1)
        return self.split_heads(queries), KV(self.split_heads(keys), self.split_heads(values))

    def forward(
        self,
        x: Tensor | None,
        kv: KV,
        mask: Tensor | None = None,
        bias: Tensor | None = None,
        need_weights: bool = False,
        query: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """x [B, T, d_model], or its `query` [B, H, T, D], looks at `kv`; mask [B|1, 1|H, T|1, S] is True where it may.
        Returns the output [B, T, d_model] and, with `need_weights`, the weights [B, H, T, S].

        Without weights and gradients PyTorch's fused kernel computes the same. Training takes the explicit formula:
        on a CPU the fused kernel's backward pass is slower for sentences.
        """
        query = self.split_heads(self.q_proj(x)) if query is None else query
        weights = None
        if need_weights or torch.is_grad_enabled():
            out, weights = scaled_dot_product_attention(query, kv.keys, kv.values, mask, bias, self.scale)
        else:
            attn_mask = bias
            if mask is not None:
                attn_mask = mask if bias is None else bias.masked_fill(~mask, -math.inf)
            out = functional.scaled_dot_product_attention(
                query, kv.keys, kv.values, attn_mask=attn_mask, scale=self.scale
            )
        out = self.o_proj(out.transpose(1, 2).flatten(2))
        return out, weights if need_weights else None
