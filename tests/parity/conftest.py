"""Tiny random models of the reference implementation, built offline, with every parameter moved far from its start."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"

import pytest  # noqa: E402
import torch  # noqa: E402

Builder = Callable[..., Any]


@torch.no_grad()
def perturb(model: torch.nn.Module, std: float, seed: int) -> None:
    """Adds normal noise to all parameters that are learned, and to the bias of the logits.

    Without it, norms are 1, biases 0 and matrices so small that a wrong formula hardly moves the output.
    """
    noise = torch.Generator().manual_seed(seed)
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    for tensor in [*parameters, model.final_logits_bias]:
        tensor += torch.randn(tensor.shape, generator=noise) * std


@pytest.fixture(scope="session")
def marian() -> Builder:
    """A function that builds a random MarianMTModel: settings of MarianConfig, `std` and `seed` of the noise."""
    from transformers import MarianConfig, MarianMTModel

    def build(std: float = 0.3, seed: int = 0, **settings: Any) -> Any:
        sizes = {
            "vocab_size": 67,
            "d_model": 32,
            "encoder_layers": 2,
            "decoder_layers": 3,
            "encoder_attention_heads": 4,
            "decoder_attention_heads": 4,
            "encoder_ffn_dim": 48,
            "decoder_ffn_dim": 48,
            "max_position_embeddings": 160,
            "pad_token_id": 50,
            "decoder_start_token_id": 50,
            "activation_function": "swish",
            "scale_embedding": True,
        }
        torch.manual_seed(seed)
        config = MarianConfig(**{**sizes, **settings}, attn_implementation="eager")
        model = MarianMTModel(config).eval()
        perturb(model, std, seed)
        return model

    return build
