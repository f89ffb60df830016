"""A linear layer whose matrix product is one of bytes.

x ≈ s_x · q_x and W ≈ s_w · q_w with whole numbers q, so that x Wᵀ ≈ s_x s_w · (q_x q_wᵀ): the usual scheme (Jacob et al. 2018,
arXiv:1712.05877, §2). A row of W has its own s_w. So has a row of x, found when it comes: then what this layer gives for it
does not depend on the other rows of a batch. (What a whole model gives does, now and then: the products of its attention, in
float32, differ in their last bits from batch to batch, and a last bit may decide between two whole numbers.)
"""

from __future__ import annotations

import warnings

import torch
from torch import Tensor, nn

from .errors import NOT_A_NUMBER, TxError

# The kernels add pairs of products of bytes in 16 bits: 2 · 255 · 63 and 2 · 127 · 127 fit, 2 · 255 · 127 would not. So one of
# the two factors has a bit less. The activations have the outliers, so it is the weights: −63 … 63; of 400 short sentences 23 %
# then come out otherwise than in float32 with the default weights of this package, else 29 %; BLEU is the same to within 0.4. But
# weights that a checkpoint has in int8 are kept as they are.
WEIGHT_STEPS, ACTIVATION_STEPS = 63, 127  # activations from 1 to 255 around 128, or from 0 where none is negative
NATIVE_WEIGHT_STEPS, NATIVE_ACTIVATION_STEPS = 127, 63


class Int8Linear(nn.Module):
    """x Wᵀ + b, x [..., n] and W [m, n], with int8 products. Rows of W are within 1/126 of their largest number, rows of x within
    1/254 of theirs (1/510 if `non_negative`: no number of x is below zero).

    `scale` and `limit` are for weights that come from int8 (see `native_scale`), which are kept to within 1/254, x to within
    1/126 or 1/254: one s_w for all of W, and a number to take the place of the rows' largest numbers: what is beyond it counts
    as the limit, and there is less to do. `relu`: what comes out below zero is zero. TxError for weights that are not numbers."""

    def __init__(
        self,
        weight: Tensor,
        bias: Tensor | None = None,
        non_negative: bool = False,
        scale: float | None = None,
        limit: float | None = None,
        relu: bool = False,
    ) -> None:
        super().__init__()
        weight = weight.detach().float()
        native = scale is not None or limit is not None
        scales = weight.abs().amax(dim=1).clamp(min=1e-30) / (NATIVE_WEIGHT_STEPS if native else WEIGHT_STEPS)
        if not bool(torch.isfinite(scales).all()):
            raise TxError(NOT_A_NUMBER)
        engine = torch.backends.quantized.engine
        torch.backends.quantized.engine = "fbgemm"
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # torch announces that these functions will move to another package
                if scale is None:
                    zeros = torch.zeros(len(weight), dtype=torch.long)
                    quantized = torch.quantize_per_channel(weight, scales, zeros, 0, torch.qint8)
                else:  # quicker to make
                    quantized = torch.quantize_per_tensor(weight, scale, 0, torch.qint8)
                self.bias = torch.zeros(len(weight)) if bias is None else bias.detach().float()
                added = torch.zeros(len(weight)) if limit is None else self.bias
                self.packed = torch.ops.quantized.linear_prepack(quantized, added)
        finally:
            torch.backends.quantized.engine = engine
        self.limit, self.relu, self.non_negative = limit, relu, non_negative
        # They round the input to q · scale with whole numbers q, multiply, and give float32.
        self.multiply = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32.default
        self.multiply_relu = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_relu_output_fp32.default
        steps = NATIVE_ACTIVATION_STEPS if native else ACTIVATION_STEPS
        self.steps, self.zero = (2 * steps + 1, 0) if non_negative else (steps, steps + 1)

    def forward(self, x: Tensor) -> Tensor:
        rows = x.reshape(-1, x.shape[-1])
        if self.limit is not None:
            multiply = self.multiply_relu if self.relu else self.multiply
            # The kernel itself lets in what 8 bits can hold, more than the limit: for that 16 bits would be too few.
            rows = rows.clamp(max=self.limit)
            return multiply(rows, self.limit / self.steps, self.zero, self.packed).view(*x.shape[:-1], -1)  # type: ignore[no-any-return]
        largest = (rows if self.non_negative else rows.abs()).amax(dim=1, keepdim=True).clamp_(min=1e-30)
        product = self.multiply(rows / largest, 1 / self.steps, self.zero, self.packed)
        out = torch.addcmul(self.bias, product, largest)
        return (out.relu_() if self.relu else out).view(*x.shape[:-1], -1)


def native_scale(weight: Tensor) -> float:
    """s_w of a table that comes from int8 with one scale: its largest number / 127."""
    return float(weight.abs().max()) / NATIVE_WEIGHT_STEPS


def is_supported() -> bool:
    """Whether this PyTorch has the kernels for it on this processor."""
    return "fbgemm" in torch.backends.quantized.supported_engines
