"""Attention against its formula, written out here in float64 NumPy, and what masks must never do."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from tx.model.attention import KV, MultiHeadAttention, causal_mask, scaled_dot_product_attention
from tx.model.config import ModelConfig

RANDOM = np.random.default_rng(0)


def formula(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray | None = None, bias: np.ndarray | float = 0.0
) -> tuple[np.ndarray, np.ndarray]:
    """softmax(QKᵀ / √d_k + bias) V of one head, row by row, over the keys that the mask leaves."""
    out, weights = np.zeros((len(q), v.shape[1])), np.zeros((len(q), len(k)))
    scores = q @ k.T / np.sqrt(q.shape[1]) + bias
    for t in range(len(q)):
        seen = np.arange(len(k)) if mask is None else np.flatnonzero(mask[t])
        if len(seen):
            e = np.exp(scores[t, seen] - scores[t, seen].max())
            weights[t, seen] = e / e.sum()
            out[t] = weights[t] @ v
    return out, weights


def tensors(*arrays: np.ndarray) -> list[torch.Tensor]:
    return [torch.from_numpy(array) for array in arrays]


def qkv(n_queries: int = 5, n_keys: int = 7, d_k: int = 6, d_v: int = 4, size: float = 1.0) -> list[np.ndarray]:
    return [RANDOM.normal(0, size, shape) for shape in ((n_queries, d_k), (n_keys, d_k), (n_keys, d_v))]


def test_it_is_the_formula() -> None:
    q, k, v = qkv(size=2.0)
    out, weights = scaled_dot_product_attention(*tensors(q, k, v))
    expected_out, expected_weights = formula(q, k, v)
    np.testing.assert_allclose(out.numpy(), expected_out, atol=1e-12)
    np.testing.assert_allclose(weights.numpy(), expected_weights, atol=1e-12)
    assert expected_weights.max() > 0.5  # far from flat: a missing 1/√d_k would show


def test_single_precision_is_close_to_it() -> None:
    q, k, v = qkv(50, 60, 64, 64)
    out, _ = scaled_dot_product_attention(*(tensor.float() for tensor in tensors(q, k, v)))
    np.testing.assert_allclose(out.numpy(), formula(q, k, v)[0], atol=1e-5)


def test_mask_and_bias_are_those_of_the_formula() -> None:
    q, k, v = qkv(size=2.0)
    mask, bias = RANDOM.random((5, 7)) < 0.5, RANDOM.normal(0, 3, (5, 7))
    mask[2] = False
    out, weights = scaled_dot_product_attention(*tensors(q, k, v, mask, bias))
    expected_out, expected_weights = formula(q, k, v, mask, bias)
    np.testing.assert_allclose(out.numpy(), expected_out, atol=1e-12)
    np.testing.assert_allclose(weights.numpy(), expected_weights, atol=1e-12)
    assert not weights.numpy()[~mask].any()
    assert np.abs(expected_out - formula(q, k, v, mask)[0]).max() > 0.1  # the bias matters


def test_a_scale_replaces_the_usual_one() -> None:
    q, k, v = qkv()
    scaled, _ = scaled_dot_product_attention(*tensors(q, k, v), scale=1.0)
    np.testing.assert_allclose(scaled.numpy(), formula(q * np.sqrt(6), k, v)[0], atol=1e-12)


def test_leading_dimensions_broadcast() -> None:
    q, k, v = (RANDOM.normal(size=(2, 3, n, 4)) for n in (5, 7, 7))
    mask = RANDOM.random((2, 1, 1, 7)) < 0.6
    out, weights = scaled_dot_product_attention(*tensors(q, k, v, mask))
    assert out.shape == (2, 3, 5, 4) and weights.shape == (2, 3, 5, 7)
    for b, h in np.ndindex(2, 3):
        expected, _ = formula(q[b, h], k[b, h], v[b, h], np.repeat(mask[b, 0], 5, axis=0))
        np.testing.assert_allclose(out[b, h].numpy(), expected, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_every_row_of_weights_adds_up_to_one(dtype: torch.dtype) -> None:
    q, k, v = (tensor.to(dtype) for tensor in tensors(*qkv(20, 30, 16, 16, size=3.0)))
    mask = torch.from_numpy(RANDOM.random((20, 30)) < 0.3)
    mask[:, 0] = True
    _, weights = scaled_dot_product_attention(q, k, v, mask)
    torch.testing.assert_close(weights.sum(-1), torch.ones(20, dtype=dtype))
    assert (weights >= 0).all()


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_huge_scores_do_not_overflow(sign: float) -> None:
    """Scores of 10⁴, whose exponential is far beyond any float, with a clear best key and with a tie."""
    scores = torch.tensor([[1e4, 1e4 - 1, 0.0], [1e4, 1e4, -1e4]]) * sign
    key = torch.eye(3)
    out, weights = scaled_dot_product_attention(scores, key, torch.eye(3), scale=1.0)
    best = 1 / (1 + math.exp(-1))
    expected = [[best, 1 - best, 0], [0.5, 0.5, 0]] if sign > 0 else [[0, 0, 1], [0, 0, 1]]
    torch.testing.assert_close(weights, torch.tensor(expected, dtype=torch.float32))
    torch.testing.assert_close(out, weights)


def test_a_masked_key_never_wins_however_low_the_others_are() -> None:
    scores = torch.tensor([[-1e30, -2e30, 1e30]])
    _, weights = scaled_dot_product_attention(
        scores, torch.eye(3), torch.eye(3), torch.tensor([[True, True, False]]), scale=1.0
    )
    assert weights.tolist() == [[1.0, 0.0, 0.0]]


def test_a_row_with_nothing_to_look_at_is_zero_and_so_is_its_gradient() -> None:
    q, k, v = (tensor.requires_grad_() for tensor in tensors(*qkv()))
    mask = torch.ones(5, 7, dtype=torch.bool)
    mask[3] = False
    out, weights = scaled_dot_product_attention(q, k, v, mask)
    assert not out[3].any() and not weights[3].any()
    assert out[[0, 1, 2, 4]].all()
    (out**2).sum().backward()
    for tensor in (q, k, v):
        assert tensor.grad is not None and tensor.grad.isfinite().all() and tensor.grad.any()
    assert q.grad is not None and not q.grad[3].any()


def test_the_gradient_is_that_of_the_formula() -> None:
    arrays = qkv(3, 4, 2, 2)
    mask = np.array([[True, True, False, True], [True, False, True, True], [False, True, True, True]])
    inputs = [tensor.requires_grad_() for tensor in tensors(*arrays)]
    scaled_dot_product_attention(*inputs, torch.from_numpy(mask))[0].pow(2).sum().backward()
    h = 1e-6
    for array, tensor in zip(arrays, inputs, strict=True):
        for place in np.ndindex(array.shape):
            sums = []
            for delta in (h, -h):
                moved = [a.copy() for a in arrays]
                moved[[a is array for a in arrays].index(True)][place] += delta
                sums.append((formula(*moved, mask)[0] ** 2).sum())
            assert tensor.grad is not None
            assert tensor.grad[place].item() == pytest.approx((sums[0] - sums[1]) / (2 * h), abs=1e-6)


def test_causal_mask() -> None:
    assert causal_mask(3, 3).tolist() == [[True, False, False], [True, True, False], [True, True, True]]
    assert causal_mask(2, 4).tolist() == [[True, True, True, False], [True, True, True, True]]  # two already there
    assert causal_mask(1, 5).tolist() == [[True] * 5]


# --- many heads ---


def attention(seed: int = 0, **changes: Any) -> MultiHeadAttention:
    """With parameters that are large enough to matter, biases too. d_head is not d_model / n_heads."""
    config = ModelConfig(
        **{"src_vocab_size": 5, "tgt_vocab_size": 5, "d_model": 12, "n_heads": 3, "d_head": 5, **changes}
    )
    torch.manual_seed(seed)
    module = MultiHeadAttention(config).double().eval()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.5)
    return module


def by_heads(module: MultiHeadAttention, x: np.ndarray, memory: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Concat(head_1 … head_h) W_O, head by head, from columns of the matrices; x [T, d_model], memory [S, d_model]."""

    def projected(name: str, inputs: np.ndarray, head: int) -> np.ndarray:
        linear = getattr(module, name)
        rows = slice(head * module.d_head, (head + 1) * module.d_head)
        bias = 0.0 if linear.bias is None else linear.bias.detach().numpy()[rows]
        return inputs @ linear.weight.detach().numpy()[rows].T + bias

    heads = []
    for h in range(module.n_heads):
        q, k, v = projected("q_proj", x, h), projected("k_proj", memory, h), projected("v_proj", memory, h)
        if module.scale == 1.0:
            q = q * np.sqrt(module.d_head)  # takes back what the formula divides by
        heads.append(formula(q, k, v, mask)[0])
    o = module.o_proj
    return np.concatenate(heads, axis=1) @ o.weight.detach().numpy().T + (
        0.0 if o.bias is None else o.bias.detach().numpy()
    )


@pytest.mark.parametrize(
    "changes", [{}, {"bias": False}, {"scale_attention": False}, {"n_heads": 1}, {"d_head": 4}], ids=str
)
@pytest.mark.parametrize("grad", [True, False], ids=["explicit", "fused"])
def test_heads_are_separate_attentions_side_by_side(changes: dict[str, Any], grad: bool) -> None:
    module = attention(**changes)
    x, memory = RANDOM.normal(size=(2, 4, 12)), RANDOM.normal(size=(2, 6, 12))
    mask = RANDOM.random((2, 4, 6)) < 0.6
    mask[..., 1] = True
    mask[1, 2] = False  # one row that sees nothing
    with torch.set_grad_enabled(grad):
        out, weights = module(
            torch.from_numpy(x), module.keys_values(torch.from_numpy(memory)), torch.from_numpy(mask)[:, None]
        )
    assert weights is None
    for b in range(2):
        np.testing.assert_allclose(out[b].detach().numpy(), by_heads(module, x[b], memory[b], mask[b]), atol=1e-10)


def test_splitting_into_heads_keeps_each_vector_whole() -> None:
    module = attention()
    x = torch.arange(2 * 4 * 15).double().view(2, 4, 15)
    heads = module.split_heads(x)
    assert heads.shape == (2, 3, 4, 5)
    assert torch.equal(heads[1, 2, 3], x[1, 3, 10:15])
    assert torch.equal(heads.transpose(1, 2).flatten(2), x)


@pytest.mark.parametrize("bias", [False, True], ids=["no bias", "bias"])
@pytest.mark.parametrize("masked", ["nothing", "padding", "causal", "a whole row", "everything"])
def test_the_fused_kernel_computes_the_same(masked: str, bias: bool) -> None:
    module = attention().float()
    x = torch.randn(2, 6, 12)
    kv = module.keys_values(x)
    mask = {
        "nothing": None,
        "padding": (torch.arange(6) < torch.tensor([[6], [4]]))[:, None, None],
        "causal": causal_mask(6, 6)[None, None],
        "a whole row": (causal_mask(6, 6) & (torch.arange(6) != 3)[:, None])[None, None],
        "everything": torch.zeros(2, 1, 1, 6, dtype=torch.bool),
    }[masked]
    scores = torch.randn(1, 3, 6, 6) * 3 if bias else None
    explicit, weights = module(x, kv, mask, scores, need_weights=True)
    with torch.no_grad():
        fused, nothing = module(x, kv, mask, scores)
    assert nothing is None and weights is not None and weights.shape == (2, 3, 6, 6)
    torch.testing.assert_close(fused, explicit.detach(), atol=2e-6, rtol=1e-5)
    assert fused.isfinite().all()


def test_weights_are_returned_on_request_only_and_are_those_that_were_used() -> None:
    module = attention()
    x = torch.randn(1, 4, 12).double()
    kv = module.keys_values(x)
    out, weights = module(x, kv, need_weights=True)
    assert weights is not None
    torch.testing.assert_close(module.o_proj((weights @ kv.values).transpose(1, 2).flatten(2)), out)
    assert module(x, kv)[1] is None
    assert not module.state_dict().keys() - {f"{p}_proj.{kind}" for p in "qkvo" for kind in ("weight", "bias")}


def test_keys_and_values_may_come_from_elsewhere() -> None:
    """Cross-attention: keys decide where to look, values what is seen there."""
    module = attention()
    x, memory = torch.randn(1, 2, 12).double(), torch.randn(1, 5, 12).double()
    keys, values = module.keys_values(memory)
    assert keys.shape == values.shape == (1, 3, 5, 5)
    _, before = module(x, KV(keys, values), need_weights=True)
    _, after = module(x, KV(keys, values * 2), need_weights=True)
    assert before is not None and after is not None and torch.equal(before, after)
