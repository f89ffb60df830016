"""The blocks of both stacks against their formulas, written out here in NumPy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from tx.model.attention import MultiHeadAttention
from tx.model.config import ModelConfig
from tx.model.layers import ACTIVATIONS, SSRU, DecoderLayer, EncoderLayer, FeedForward, Norm

D = 8
RANDOM = np.random.default_rng(0)


def config(**changes: Any) -> ModelConfig:
    sizes = {"src_vocab_size": 5, "tgt_vocab_size": 5, "d_model": D, "n_heads": 2, "d_head": 3, "d_ff": 11}
    return ModelConfig(**{**sizes, **changes})


def noisy(module: nn.Module, seed: int = 0) -> Any:
    """The module in double precision with all its parameters at random: norms not 1, biases not 0."""
    torch.manual_seed(seed)
    with torch.no_grad():
        for parameter in module.double().parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.5 + (parameter.ndim == 1) * 0.3)
    return module.eval()


def numbers(tensor: torch.Tensor) -> np.ndarray:
    return tensor.detach().numpy()


def linear(module: nn.Linear, x: np.ndarray) -> np.ndarray:
    return x @ numbers(module.weight).T + (0.0 if module.bias is None else numbers(module.bias))


def close(ours: torch.Tensor, expected: np.ndarray) -> None:
    np.testing.assert_allclose(numbers(ours), expected, rtol=1e-9, atol=1e-9)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


FORMULAS = {
    "relu": lambda x: np.maximum(x, 0),
    "gelu": lambda x: x * np.array([0.5 * (1 + math.erf(v / math.sqrt(2))) for v in x.ravel()]).reshape(x.shape),
    "gelu_tanh": lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "silu": lambda x: x * sigmoid(x),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_activations(name: str) -> None:
    x = np.linspace(-6, 6, 121)
    close(ACTIVATIONS[name](torch.from_numpy(x)), FORMULAS[name](x))
    assert ACTIVATIONS.keys() == FORMULAS.keys()


@pytest.mark.parametrize("eps", [1e-6, 0.1])
@pytest.mark.parametrize("bias", [True, False])
def test_layer_norm(eps: float, bias: bool) -> None:
    norm, x = noisy(Norm(config(norm_eps=eps, bias=bias))), RANDOM.normal(2, 3, (4, 5, D))
    expected = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps) * numbers(norm.weight)
    close(norm(torch.from_numpy(x)), expected + (numbers(norm.bias) if bias else 0))
    assert (norm.bias is not None) == bias


@pytest.mark.parametrize("eps", [1e-6, 0.1])
def test_rms_norm_neither_centres_nor_shifts(eps: float) -> None:
    norm, x = noisy(Norm(config(norm="rms", norm_eps=eps))), RANDOM.normal(2, 3, (4, 5, D))
    close(norm(torch.from_numpy(x)), x / np.sqrt((x**2).mean(-1, keepdims=True) + eps) * numbers(norm.weight))
    assert norm.bias is None


@pytest.mark.parametrize("activation", FORMULAS)
@pytest.mark.parametrize("bias", [True, False])
def test_feed_forward(activation: str, bias: bool) -> None:
    ffn, x = noisy(FeedForward(config(activation=activation, bias=bias))), RANDOM.normal(size=(3, D))
    close(ffn(torch.from_numpy(x)), linear(ffn.w_2, FORMULAS[activation](linear(ffn.w_1, x))))


@pytest.mark.parametrize("activation", ["gelu_tanh", "silu"])
def test_a_gate_multiplies_what_the_activation_lets_through(activation: str) -> None:
    ffn, x = noisy(FeedForward(config(activation=activation, gated_ffn=True))), RANDOM.normal(size=(3, D))
    close(ffn(torch.from_numpy(x)), linear(ffn.w_2, FORMULAS[activation](linear(ffn.w_gate, x)) * linear(ffn.w_1, x)))


# --- SSRU ---


def ssru_by_pieces(ssru: SSRU, x: np.ndarray, cell: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """One sentence, x [T, d_model], piece after piece."""
    out = []
    for piece in x:
        forget = sigmoid(linear(ssru.w_f, piece))
        cell = forget * cell + (1 - forget) * linear(ssru.w, piece)
        out.append(np.maximum(cell, 0))
    return np.array(out), cell


def test_ssru_is_its_recurrence() -> None:
    ssru, x = noisy(SSRU(config())), RANDOM.normal(size=(2, 7, D))
    out, cell = ssru(torch.from_numpy(x), None)
    for b in range(2):
        expected_out, expected_cell = ssru_by_pieces(ssru, x[b], np.zeros(D))
        close(out[b], expected_out)
        close(cell[b], expected_cell)
    assert (numbers(cell) < 0).any()  # the cell goes on as it is: ReLU is for the output only


def test_ssru_goes_on_from_its_cell() -> None:
    ssru, x = noisy(SSRU(config())), torch.from_numpy(RANDOM.normal(size=(2, 7, D)))
    whole, last = ssru(x, None)
    first, cell = ssru(x[:, :3], None)
    second, end = ssru(x[:, 3:], cell)
    torch.testing.assert_close(torch.cat((first, second), dim=1), whole)
    torch.testing.assert_close(end, last)


# --- layers: where the norms are ---


def attended(
    module: MultiHeadAttention, x: torch.Tensor, memory: torch.Tensor, mask: torch.Tensor | None = None
) -> torch.Tensor:
    return module(x, module.keys_values(memory), mask)[0]


@pytest.mark.parametrize("norm_first", [False, True], ids=["norm(x + f(x))", "x + f(norm(x))"])
def test_encoder_layer(norm_first: bool) -> None:
    layer, x = noisy(EncoderLayer(config(norm_first=norm_first))), torch.from_numpy(RANDOM.normal(size=(2, 5, D)))
    mask = (torch.arange(5) < torch.tensor([[5], [3]]))[:, None, None]
    if norm_first:
        h = layer.self_attn_norm(x)
        h = x + attended(layer.self_attn, h, h, mask)
        expected = h + layer.ffn(layer.ffn_norm(h))
    else:
        h = layer.self_attn_norm(x + attended(layer.self_attn, x, x, mask))
        expected = layer.ffn_norm(h + layer.ffn(h))
    out, weights = layer(x, mask, need_weights=True)
    torch.testing.assert_close(out, expected)
    assert weights.shape == (2, 2, 5, 5) and not weights[1, :, :, 3:].any()
    torch.testing.assert_close(layer(x, mask)[0], expected)
    assert layer(x, mask)[1] is None


@pytest.mark.parametrize("norm_first", [False, True], ids=["norm(x + f(x))", "x + f(norm(x))"])
@pytest.mark.parametrize("kind", ["attention", "ssru"])
def test_decoder_layer(norm_first: bool, kind: str) -> None:
    layer = noisy(DecoderLayer(config(norm_first=norm_first, decoder_autoregression=kind)))
    x, memory = torch.from_numpy(RANDOM.normal(size=(2, 4, D))), torch.from_numpy(RANDOM.normal(size=(2, 6, D)))
    causal = torch.ones(4, 4, dtype=torch.bool).tril()[None, None]
    padding = (torch.arange(6) < torch.tensor([[6], [2]]))[:, None, None]

    def first(h: torch.Tensor) -> torch.Tensor:
        return layer.self_attn(h, None)[0] if kind == "ssru" else attended(layer.self_attn, h, h, causal)

    if norm_first:
        h = x + first(layer.self_attn_norm(x))
        h = h + attended(layer.cross_attn, layer.cross_attn_norm(h), memory, padding)
        expected = h + layer.ffn(layer.ffn_norm(h))
    else:
        h = layer.self_attn_norm(x + first(x))
        h = layer.cross_attn_norm(h + attended(layer.cross_attn, h, memory, padding))
        expected = layer.ffn_norm(h + layer.ffn(h))
    cross_kv = layer.cross_attn.keys_values(memory)
    out, past, self_weights, cross_weights = layer(x, None, cross_kv, causal, padding, need_weights=True)
    torch.testing.assert_close(out, expected)
    assert cross_weights.shape == (2, 2, 4, 6) and not cross_weights[1, :, :, 2:].any()
    if kind == "ssru":
        assert self_weights is None and past.shape == (2, D)
    else:
        assert self_weights.shape == (2, 2, 4, 4) and not self_weights.triu(1).any()
        assert past.keys.shape == past.values.shape == (2, 2, 4, 3)


@pytest.mark.parametrize("kind", ["attention", "ssru"])
def test_a_decoder_layer_goes_on_from_its_past(kind: str) -> None:
    layer = noisy(DecoderLayer(config(decoder_autoregression=kind)))
    x, memory = torch.from_numpy(RANDOM.normal(size=(2, 4, D))), torch.from_numpy(RANDOM.normal(size=(2, 6, D)))
    cross_kv = layer.cross_attn.keys_values(memory)
    whole, *_ = layer(x, None, cross_kv, torch.ones(4, 4, dtype=torch.bool).tril()[None, None], None)
    past, outs = None, []
    for t in range(4):
        out, past, _, _ = layer(x[:, t : t + 1], past, cross_kv, None, None)
        outs.append(out)
    torch.testing.assert_close(torch.cat(outs, dim=1), whole)


def test_no_bias_means_no_bias_anywhere() -> None:
    for layer in (EncoderLayer(config(bias=False)), DecoderLayer(config(bias=False, gated_ffn=True))):
        names = [name for name, _ in layer.named_parameters()]
        assert names and all(name.endswith("weight") for name in names)
