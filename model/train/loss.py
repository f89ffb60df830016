"""Cross-entropy over the vocabulary, forward and backward in one pass over small chunks."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class _ChunkedCrossEntropy(torch.autograd.Function):
    """The gradient of −log softmax is softmax − target, so it costs nothing more while the probabilities are at hand;
    in chunks the [rows, V] matrices stay in the processor's cache and are never kept for a backward pass."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        table: Tensor,
        bias: Tensor,
        labels: Tensor,
        offset: Tensor | None,
        smoothing: float,
        chunk: int,
        gate: Tensor | None,
        copied: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        dtype = torch.get_autocast_dtype(x.device.type) if torch.is_autocast_enabled(x.device.type) else x.dtype
        rows, weights = x.detach().to(dtype), table.detach().to(dtype)
        bias = bias.detach()
        grad_x, grad_table = torch.empty_like(x), torch.zeros_like(table)
        grad_bias = torch.zeros_like(bias)
        nll = loss = x.new_zeros((), dtype=torch.float32)
        grad_gate = None if gate is None else torch.empty_like(gate)
        grad_copied = None if copied is None else torch.empty_like(copied)
        n_columns = len(weights)
        for start in range(0, len(rows), chunk):
            part, label = rows[start : start + chunk], labels[start : start + chunk, None]
            logits = (part @ weights.T).float() + bias
            mean_logit = logits.mean(-1)
            true_logit = logits.gather(1, label)[:, 0]
            if offset is not None:
                logits += offset
                true_logit = true_logit + offset[label[:, 0]]
            log_sum = logits.logsumexp(-1)
            row_nll, share = log_sum - true_logit, None
            if gate is not None and copied is not None and grad_gate is not None and grad_copied is not None:
                # −log(g p + (1 − g) c): its derivative by −log p is the share that g p has in the sum.
                g, c = gate[start : start + chunk], copied[start : start + chunk]
                p = (-row_nll).exp()
                total = g * p + (1 - g) * c + 1e-12
                share = g * p / total
                row_nll = -total.log()
                grad_gate[start : start + chunk] = (1 - smoothing) * (c - p) / total
                grad_copied[start : start + chunk] = (smoothing - 1) * (1 - g) / total
            nll = nll + row_nll.sum()
            loss = loss + ((1 - smoothing) * row_nll + smoothing * (log_sum - mean_logit)).sum()
            grad = logits.sub_(log_sum[:, None]).exp_()
            if share is None:
                grad.scatter_add_(1, label, grad.new_full(label.shape, smoothing - 1))
            else:
                weight = (1 - smoothing) * share
                grad *= (weight + smoothing)[:, None]
                grad.scatter_add_(1, label, -weight[:, None])
            if smoothing:
                grad -= smoothing / n_columns
            grad_bias += grad.sum(0)
            grad = grad.to(dtype)
            grad_x[start : start + chunk] = grad @ weights
            grad_table += grad.T @ part
        ctx.save_for_backward(grad_x, grad_table, grad_bias, grad_gate, grad_copied)
        ctx.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        scale = grads[0]
        grad_x, grad_table, grad_bias, *rest = (None if g is None else g * scale for g in ctx.saved_tensors)
        return grad_x, grad_table, grad_bias, None, None, None, None, *rest


def cross_entropy(
    x: Tensor, table: Tensor, bias: Tensor | None, labels: Tensor, smoothing: float = 0.0,
    negatives: int = 0, generator: torch.Generator | None = None, chunk: int = 512,
    gate: Tensor | None = None, copied: Tensor | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Summed label-smoothed cross-entropy (Szegedy et al. 2016, §7) and summed negative log-likelihood, both in nats.

    x [N, d], table [V, d], bias [V] or None, labels [N] (no padding among them). The smoothed target is
    1 − ε on the label and ε/V everywhere. The gradient reaches x, table and bias; `chunk` rows are worked on at a time.

    With `negatives` = k > 0 the softmax runs only over the pieces that occur among the labels and k others drawn evenly;
    those others stand for all that were left out: log((V − labels' pieces)/k) is added to their logits (importance
    sampling of the partition function, Bengio & Senécal 2003; Jean et al. 2015). ε is then spread over these pieces only.

    With `gate` and `copied`, both [N], the probability of a label is gate · p + (1 − gate) · copied, where `copied` is the
    attention to the label's piece in the source (See et al. 2017, eq. 9); the gradient reaches them too. The ε spread
    over all pieces is left to p alone.
    """
    vocab_size = len(table)
    if bias is None:
        bias = table.new_zeros(vocab_size)
    offset = None
    if negatives:
        used = torch.zeros(vocab_size, dtype=torch.bool, device=labels.device)
        used[labels] = True
        others = (~used).nonzero()[:, 0]
        if negatives < len(others):
            drawn = torch.randperm(len(others), generator=generator)[:negatives].to(labels.device)
            kept = used.nonzero()[:, 0]
            columns = torch.cat((kept, others[drawn]))
            place = torch.empty(vocab_size, dtype=torch.long, device=labels.device)
            place[columns] = torch.arange(len(columns), device=labels.device)
            offset = torch.zeros(len(columns), device=labels.device)
            offset[len(kept) :] = torch.log(torch.tensor(len(others) / negatives))
            table, bias, labels = table[columns], bias[columns], place[labels]
    total: tuple[Tensor, Tensor] = _ChunkedCrossEntropy.apply(  # type: ignore[no-untyped-call]
        x, table, bias, labels, offset, smoothing, chunk, gate, copied
    )
    return total


def pointing_loss(weights: Tensor, places: Tensor) -> Tensor:
    """−Σ log Σ_k w[b, t, places[b, k, t]] in nats: the two rows of attention weights [B, 2, S] are the distributions of an
    answer's first and last piece, and any of the K places of the answer, [B, K, 2] (−1: none), is right."""
    real = places >= 0
    found = weights.float().gather(2, places.clamp(min=0).transpose(1, 2))  # [B, 2, K]
    right = (found * real.transpose(1, 2)).sum(2)
    return -right.clamp(min=1e-12).log().sum()
