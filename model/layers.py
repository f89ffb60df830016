"""The blocks of both stacks: norms, the feed-forward network, SSRU, an encoder layer and a decoder layer."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from .attention import KV, MultiHeadAttention
from .config import ModelConfig

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    # In place where no gradient will ask for what was there: what is not written elsewhere is sooner done.
    "relu": lambda x: functional.relu(x, inplace=not torch.is_grad_enabled()),
    "gelu": functional.gelu,
    "gelu_tanh": lambda x: functional.gelu(x, approximate="tanh"),
    "silu": functional.silu,
}


class Norm(nn.Module):
    """LayerNorm (Ba et al. 2016): (x − mean) / √(variance + ε) · g + b, or RMSNorm (Zhang & Sennrich 2019):
    x / √(mean x² + ε) · g. Over the last dimension, [..., d_model] → the same."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.rms, self.eps = config.norm == "rms", config.norm_eps
        self.weight = nn.Parameter(torch.ones(config.d_model))
        self.bias = nn.Parameter(torch.zeros(config.d_model)) if config.bias and not self.rms else None

    def forward(self, x: Tensor) -> Tensor:
        if self.rms:
            return functional.rms_norm(x, self.weight.shape, self.weight, self.eps)
        return functional.layer_norm(x, self.weight.shape, self.weight, self.bias, self.eps)


class FeedForward(nn.Module):
    """FFN(x) = f(x W_1 + b_1) W_2 + b_2 (Vaswani et al. 2017, eq. 2; f = ReLU there). With `gated_ffn`
    (f(x W_gate) ⊙ x W_1) W_2 (Shazeer 2020). [..., d_model] → the same."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.activation = ACTIVATIONS[config.activation]
        self.w_1 = nn.Linear(config.d_model, config.d_ff, bias=config.bias)
        self.w_2 = nn.Linear(config.d_ff, config.d_model, bias=config.bias)
        self.w_gate = nn.Linear(config.d_model, config.d_ff, bias=config.bias) if config.gated_ffn else None
        self.is_non_negative = config.activation == "relu" and not config.gated_ffn  # what w_2 gets

    def forward(self, x: Tensor) -> Tensor:
        if self.w_gate is None:
            return self.w_2(self.activation(self.w_1(x)))  # type: ignore[no-any-return]
        return self.w_2(self.activation(self.w_gate(x)) * self.w_1(x))  # type: ignore[no-any-return]


class SSRU(nn.Module):
    """The simpler simple recurrent unit that replaces decoder self-attention in fast models (Kim et al. 2019, §3.1):
    f_t = σ(x_t W_f + b_f);  c_t = f_t ⊙ c_{t−1} + (1 − f_t) ⊙ x_t W;  output ReLU(c_t)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.w = nn.Linear(config.d_model, config.d_model, bias=False)
        self.w_f = nn.Linear(config.d_model, config.d_model)

    def forward(self, x: Tensor, cell: Tensor | None) -> tuple[Tensor, Tensor]:
        """x [B, T, d_model] and the cell [B, d_model] left by the pieces before (None: zeros) → output, new cell."""
        forget = torch.sigmoid(self.w_f(x))
        fresh = (1 - forget) * self.w(x)
        cell = torch.zeros_like(x[:, 0]) if cell is None else cell
        cells = []
        for t in range(x.shape[1]):
            cell = forget[:, t] * cell + fresh[:, t]
            cells.append(cell)
        return functional.relu(torch.stack(cells, dim=1)), cell


class EncoderLayer(nn.Module):
    """Self-attention and feed-forward network, each with a residual connection and a norm (§3.1)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.norm_first = config.norm_first
        self.self_attn, self.self_attn_norm = MultiHeadAttention(config), Norm(config)
        self.ffn, self.ffn_norm = FeedForward(config), Norm(config)

    def forward(
        self, x: Tensor, mask: Tensor | None, bias: Tensor | None = None, need_weights: bool = False
    ) -> tuple[Tensor, Tensor | None]:
        """x [B, S, d_model], mask [B, 1, 1, S] → [B, S, d_model] and the weights [B, H, S, S] if asked for."""
        h = self.self_attn_norm(x) if self.norm_first else x
        query, kv = self.self_attn.queries_keys_values(h)
        h, weights = self.self_attn(None, kv, mask, bias, need_weights, query)
        x = x + h if self.norm_first else self.self_attn_norm(x + h)
        h = self.ffn(self.ffn_norm(x) if self.norm_first else x)
        return x + h if self.norm_first else self.ffn_norm(x + h), weights


class DecoderLayer(nn.Module):
    """Self-attention over the pieces so far (or SSRU), cross-attention over the memory, feed-forward network (§3.1)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.norm_first = config.norm_first
        self.self_attn: MultiHeadAttention | SSRU
        self.self_attn = SSRU(config) if config.decoder_autoregression == "ssru" else MultiHeadAttention(config)
        self.self_attn_norm = Norm(config)
        self.cross_attn, self.cross_attn_norm = MultiHeadAttention(config), Norm(config)
        self.ffn, self.ffn_norm = FeedForward(config), Norm(config)

    def forward(
        self,
        x: Tensor,
        past: KV | Tensor | None,
        cross_kv: KV,
        self_mask: Tensor | None,
        memory_mask: Tensor | None,
        bias: Tensor | None = None,
        need_weights: bool = False,
    ) -> tuple[Tensor, KV | Tensor, Tensor | None, Tensor | None]:
        """x [B, T, d_model] are the pieces after those in `past`. Returns the output [B, T, d_model], the new `past`
        (keys and values of all pieces, or SSRU's cell), and if asked for the weights of self-attention [B, H, T, S']
        (None with SSRU) and of cross-attention [B, H, T, S]."""
        h = self.self_attn_norm(x) if self.norm_first else x
        present: KV | Tensor
        self_weights = None
        if isinstance(self.self_attn, SSRU):
            assert not isinstance(past, tuple)
            h, present = self.self_attn(h, past)
        else:
            query, present = self.self_attn.queries_keys_values(h)
            if isinstance(past, tuple):
                present = KV(torch.cat((past[0], present[0]), dim=2), torch.cat((past[1], present[1]), dim=2))
            h, self_weights = self.self_attn(None, present, self_mask, bias, need_weights, query)
        x = x + h if self.norm_first else self.self_attn_norm(x + h)
        h = self.cross_attn_norm(x) if self.norm_first else x
        h, cross_weights = self.cross_attn(h, cross_kv, memory_mask, None, need_weights)
        x = x + h if self.norm_first else self.cross_attn_norm(x + h)
        h = self.ffn(self.ffn_norm(x) if self.norm_first else x)
        return x + h if self.norm_first else self.ffn_norm(x + h), present, self_weights, cross_weights
