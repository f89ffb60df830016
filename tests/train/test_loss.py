"""The loss against its formula in double precision, its gradient against autograd, and what sampling does to both."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tx.model.train.loss import cross_entropy

N, D, V = 37, 8, 50
Array = np.ndarray[Any, Any]


@pytest.fixture
def inputs() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """x [N, D], table [V, D], bias [V], labels [N]."""
    g = torch.Generator().manual_seed(7)
    x, table, bias = (torch.randn(*shape, generator=g) for shape in ((N, D), (V, D), (V,)))
    return x, table, bias, torch.randint(0, V, (N,), generator=g)


def expected(x: Tensor, table: Tensor, bias: Tensor | None, labels: Tensor, smoothing: float) -> tuple[float, float]:
    """Σ −Σ_v q_v log p_v with q = 1 − ε on the label and ε/V everywhere; and Σ −log p_label."""
    logits: Array = x.double().numpy() @ table.double().numpy().T
    if bias is not None:
        logits = logits + bias.double().numpy()
    log_p = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    q = np.full(log_p.shape, smoothing / log_p.shape[1])
    q[np.arange(len(q)), labels.numpy()] += 1 - smoothing
    return float(-(q * log_p).sum()), float(-log_p[np.arange(len(q)), labels.numpy()].sum())


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.5])
@pytest.mark.parametrize("with_bias", [True, False])
def test_the_formula(inputs: tuple[Tensor, ...], smoothing: float, with_bias: bool) -> None:
    x, table, bias, labels = inputs
    used = bias if with_bias else None
    loss, nll = cross_entropy(x, table, used, labels, smoothing)
    assert (float(loss), float(nll)) == pytest.approx(expected(x, table, used, labels, smoothing), rel=1e-5)


def test_large_logits_do_not_overflow() -> None:
    x, table = torch.tensor([[100.0], [-100.0]]), torch.tensor([[3.0], [-3.0], [0.0]])
    loss, _ = cross_entropy(x, table, None, torch.tensor([1, 1]))
    assert float(loss) == pytest.approx(600.0)


def gradients(loss: Tensor, *leaves: Tensor) -> tuple[Tensor, ...]:
    return torch.autograd.grad(loss, leaves)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_gradients_are_those_of_autograd(inputs: tuple[Tensor, ...], smoothing: float) -> None:
    x, table, bias, labels = inputs
    ours = [t.clone().requires_grad_() for t in (x, table, bias)]
    loss, _ = cross_entropy(*ours, labels, smoothing)
    exact = [t.double().requires_grad_() for t in (x, table, bias)]
    log_p = (exact[0] @ exact[1].T + exact[2]).log_softmax(-1)
    plain = -(1 - smoothing) * log_p[range(N), labels].sum() - smoothing * log_p.mean(-1).sum()
    # A factor on the loss must reach the gradient, as the division by the number of pieces does in training.
    for a, b in zip(gradients(0.3 * loss, *ours), gradients(0.3 * plain, *exact), strict=True):
        torch.testing.assert_close(a.double(), b, rtol=1e-4, atol=1e-5)


def test_gradients_are_the_slopes_of_the_formula(inputs: tuple[Tensor, ...]) -> None:
    """Central differences of the float64 formula above, at some places of each input."""
    x, table, bias, labels = inputs
    ours = [t.clone().requires_grad_() for t in (x, table, bias)]
    slopes = gradients(cross_entropy(*ours, labels, 0.1)[0], *ours)
    rng = np.random.default_rng(0)
    for which, (leaf, slope) in enumerate(zip((x, table, bias), slopes, strict=True)):
        for place in rng.integers(0, leaf.numel(), 10).tolist():
            values = []
            for step in (1e-5, -1e-5):
                moved = [t.double().clone() for t in (x, table, bias)]
                moved[which].view(-1)[place] += step
                values.append(expected(moved[0], moved[1], moved[2], labels, 0.1)[0])
            assert float(slope.view(-1)[place]) == pytest.approx((values[0] - values[1]) / 2e-5, rel=1e-3, abs=1e-4)


@pytest.mark.parametrize("chunk", [1, 5, 36, 37, 1000])
def test_the_size_of_the_chunks_does_not_matter(inputs: tuple[Tensor, ...], chunk: int) -> None:
    x, table, bias, labels = inputs
    results = []
    for size in (512, chunk):
        leaves = [t.clone().requires_grad_() for t in (x, table, bias)]
        loss, nll = cross_entropy(*leaves, labels, 0.1, chunk=size)
        results.append((loss, nll, *gradients(loss, *leaves)))
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)


def test_bfloat16_is_close(inputs: tuple[Tensor, ...]) -> None:
    x, table, bias, labels = inputs
    leaves = [t.clone().requires_grad_() for t in (x, table, bias)]
    with torch.autocast("cpu", torch.bfloat16):
        loss, _ = cross_entropy(*leaves, labels, 0.1)
    assert loss.item() == pytest.approx(expected(x, table, bias, labels, 0.1)[0], rel=0.01)
    assert loss.dtype == torch.float32
    half = gradients(loss, *leaves)
    exact = gradients(cross_entropy(*leaves, labels, 0.1)[0], *leaves)
    for a, b in zip(half, exact, strict=True):
        assert a.dtype == torch.float32
        assert float((a - b).norm() / b.norm()) < 0.02


# -- copying ---


def copying() -> tuple[Tensor, Tensor]:
    """Gates and attention to the label's piece, [N] each; a third of the labels are not in the source."""
    g = torch.Generator().manual_seed(11)
    gate, copied = torch.rand(2, N, generator=g)
    return gate, copied * (torch.rand(N, generator=g) > 1 / 3)


def plain_copying(leaves: list[Tensor], labels: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
    """Σ −(1 − ε) log(g p_label + (1 − g) c) − ε/V Σ_v log p_v, and Σ −log(g p_label + (1 − g) c), for autograd."""
    x, table, bias, gate, copied = leaves
    log_p = (x @ table.T + bias).log_softmax(-1)
    nll = -(gate * log_p[range(len(x)), labels].exp() + (1 - gate) * copied).log().sum()
    return (1 - smoothing) * nll - (smoothing * log_p.mean(-1).sum() if smoothing else 0.0), nll


@pytest.mark.parametrize("chunk", [512, 5])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("negatives", [0, 10 * V])
def test_the_mixture_and_its_gradients(
    inputs: tuple[Tensor, ...], smoothing: float, negatives: int, chunk: int
) -> None:
    x, table, bias, labels = inputs
    everything = x, table, bias, *copying()
    ours = [t.clone().requires_grad_() for t in everything]
    loss, nll = cross_entropy(
        *ours[:3], labels, smoothing, negatives, chunk=chunk, gate=ours[3], copied=ours[4]
    )  # fmt: skip
    exact = [t.double().requires_grad_() for t in everything]
    wanted, wanted_nll = plain_copying(exact, labels, smoothing)
    assert (loss.item(), nll.item()) == pytest.approx((wanted.item(), wanted_nll.item()), rel=1e-5)
    for a, b in zip(gradients(0.3 * loss, *ours), gradients(0.3 * wanted, *exact), strict=True):
        torch.testing.assert_close(a.double(), b, rtol=1e-4, atol=1e-5)
        assert b.abs().max() > 0.01


def test_the_mixture_with_sampled_negatives(inputs: tuple[Tensor, ...]) -> None:
    """p is that of the columns which take part; the gradients of gate and copy follow from it."""
    x, table, bias, labels = inputs[0][:6], inputs[1], inputs[2], inputs[3][:6]
    gate, copied = (t[:6] for t in copying())
    ours = [t.clone().requires_grad_() for t in (x, table, bias, gate, copied)]
    draw = torch.Generator().manual_seed(5)
    loss, _ = cross_entropy(*ours[:3], labels, 0.0, 9, draw, gate=ours[3], copied=ours[4])
    found = gradients(loss, *ours)
    kept = labels.unique()
    drawn = [v for v in (found[2] != 0).nonzero()[:, 0].tolist() if v not in kept]
    exact = [t.double().requires_grad_() for t in (x, table, bias, gate, copied)]
    offset = torch.full((V,), -torch.inf, dtype=torch.float64)
    offset[kept] = 0.0
    offset[drawn] = math.log((V - len(kept)) / 9)
    wanted, _ = plain_copying([*exact[:2], exact[2] + offset, *exact[3:]], labels, 0.0)
    assert len(drawn) == 9 and loss.item() == pytest.approx(wanted.item(), rel=1e-5)
    for a, b in zip(found, gradients(wanted, *exact), strict=True):
        torch.testing.assert_close(a.double(), b, rtol=1e-4, atol=1e-5)


def test_an_open_gate_copies_nothing(inputs: tuple[Tensor, ...]) -> None:
    _, copied = copying()
    plain = cross_entropy(*inputs, 0.1)
    mixed = cross_entropy(*inputs, 0.1, gate=torch.ones(N), copied=copied)
    torch.testing.assert_close(mixed, plain)


# -- sampled negatives -------------------------------------------------------------------------------------------------


def test_all_negatives_are_the_whole_loss(inputs: tuple[Tensor, ...]) -> None:
    x, table, bias, labels = inputs
    for negatives in (V, 10 * V, V - len(labels.unique())):
        leaves = [t.clone().requires_grad_() for t in (x, table, bias)]
        results = []
        for k in (0, negatives):
            loss, nll = cross_entropy(*leaves, labels, 0.1, negatives=k)
            results.append((loss, nll, *gradients(loss, *leaves)))
        for a, b in zip(*results, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)


def test_the_partition_function_is_right_on_average() -> None:
    """exp(nll) · exp(logit of the label) is the sampled Σ exp(logit): over many draws, its mean is the whole sum."""
    g = torch.Generator().manual_seed(3)
    x, table, bias = (torch.randn(*shape, generator=g) * 0.7 for shape in ((1, D), (V, D), (V,)))
    labels = torch.tensor([4])
    logits = (x @ table.T + bias)[0].double()
    draws = []
    for _ in range(1500):
        _, nll = cross_entropy(x, table, bias, labels, negatives=10, generator=g)
        draws.append(math.exp(float(nll) + float(logits[4])))
    error = np.std(draws) / math.sqrt(len(draws))
    assert error < 0.03 * np.mean(draws)
    assert abs(np.mean(draws) - float(logits.exp().sum())) < 4 * error
    assert np.std(draws) > 0.05 * np.mean(draws)  # it is sampled


def test_sampled_gradients_are_those_of_the_sampled_softmax(inputs: tuple[Tensor, ...]) -> None:
    """Written out: the columns that are left, log((V − labels' pieces)/k) on those that were drawn."""
    x, table, bias, labels = inputs[0][:6], inputs[1], inputs[2], inputs[3][:6]
    leaves = [t.clone().requires_grad_() for t in (x, table, bias)]
    loss, _ = cross_entropy(*leaves, labels, 0.0, negatives=9, generator=torch.Generator().manual_seed(5))
    grad_x, grad_table, grad_bias = gradients(loss, *leaves)
    kept = labels.unique()
    moved = (grad_bias != 0).nonzero()[:, 0]  # every column that takes part is pushed
    drawn = [v for v in moved.tolist() if v not in kept]
    assert len(drawn) == 9 and set(kept.tolist()) <= set(moved.tolist())
    assert not grad_table[[v for v in range(V) if v not in moved.tolist()]].any()
    exact = [t.double().requires_grad_() for t in (x, table, bias)]
    logits = exact[0] @ exact[1].T + exact[2]
    offset = torch.full((V,), -torch.inf, dtype=torch.float64)
    offset[kept] = 0.0
    offset[drawn] = math.log((V - len(kept)) / 9)
    plain = -(logits + offset).log_softmax(-1)[range(6), labels].sum()
    assert loss.item() == pytest.approx(plain.item(), rel=1e-5)
    for a, b in zip((grad_x, grad_table, grad_bias), gradients(plain, *exact), strict=True):
        torch.testing.assert_close(a.double(), b, rtol=1e-4, atol=1e-5)


def test_the_generator_decides_the_draw(inputs: tuple[Tensor, ...]) -> None:
    x, table, bias, labels = inputs[0][:3], inputs[1], inputs[2], inputs[3][:3]

    def losses(seed: int) -> list[float]:
        g = torch.Generator().manual_seed(seed)
        return [float(cross_entropy(x, table, bias, labels, negatives=5, generator=g)[0]) for _ in range(5)]

    assert losses(1) == losses(1)
    assert losses(1) != losses(2)
    assert len(set(losses(1))) > 1
