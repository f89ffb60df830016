"""How the project's own model starts."""

from __future__ import annotations

import torch

from tx.model.train.architecture import initialise, model_config
from tx.model.transformer import Transformer

SIZES = {"d_model": 32, "n_heads": 2, "d_head": 16, "d_ff": 48, "n_encoder_layers": 1, "n_decoder_layers": 1}


def test_at_first_most_of_a_piece_is_not_copied() -> None:
    torch.manual_seed(0)
    model = Transformer(model_config(41, **SIZES))
    initialise(model)
    assert model.config.pointer_generator
    x = torch.nn.functional.layer_norm(torch.randn(500, 32), (32,))  # as the last norm of the decoder leaves it
    gate = model.copy_gate(x).sigmoid()
    assert 0.9 < float(gate.median()) < 0.98
    assert float(gate.std()) > 0.001  # but it depends on what is to come


def test_other_biases_are_zero_and_matrices_are_not() -> None:
    torch.manual_seed(0)
    model = Transformer(model_config(41, **SIZES, pointer_generator=False))
    initialise(model)
    for name, parameter in model.named_parameters():
        assert bool(parameter.any()) == (parameter.ndim > 1 or name.endswith("norm.weight")), name
