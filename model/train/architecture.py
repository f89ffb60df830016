"""The project's own architecture, and how it starts when it starts from nothing."""

from __future__ import annotations

from typing import Any

import torch

from ..config import CheckpointConfig, ModelConfig, SpecialIds, Task
from ..errors import CheckpointError
from ..spans import SEGMENTS
from ..tokenizer import Tokenizer
from ..transformer import Transformer

COPY_BIAS = 3.0  # P is at first 0.95 · P_vocab + 0.05 · attention: most pieces are not copied


def initialise(model: Transformer) -> None:
    """Random starting weights: Glorot for matrices, N(0, 1/d_model) for embeddings; norms and biases keep 1 and 0, but
    for the bias of the gate of copying."""
    for name, p in model.named_parameters():
        if "embedding" in name and p.ndim > 1:
            torch.nn.init.normal_(p, std=model.config.d_model**-0.5)
        elif p.ndim > 1:
            torch.nn.init.xavier_uniform_(p)
        elif name.endswith("bias"):
            torch.nn.init.constant_(p, COPY_BIAS if name == "copy_gate.bias" else 0)


def model_config(vocab_size: int, **sizes: Any) -> ModelConfig:
    """The architecture of the project's own weights: post-norm, ReLU, sinusoids, as the students that they start from."""
    defaults: dict[str, Any] = {
        "d_model": 256, "n_heads": 8, "d_head": 32, "d_ff": 1536, "n_encoder_layers": 6, "n_decoder_layers": 2,
        "norm_eps": 1e-6, "sinusoid_layout": "tensor2tensor", "share_embeddings": False, "logits_bias": True,
        "n_segments": SEGMENTS, "pointer_generator": True,
    }  # fmt: skip
    return ModelConfig(src_vocab_size=vocab_size, tgt_vocab_size=vocab_size, **{**defaults, **sizes})


def checkpoint_config(tokenizer: Tokenizer, name: str, **sizes: Any) -> CheckpointConfig:
    """Architecture, special pieces and tasks for a vocabulary made by `vocabulary.build`. Raises CheckpointError for
    another vocabulary."""
    try:
        pad, end, unknown, start = (tokenizer.id(piece) for piece in ("<pad>", "</s>", "<unk>", "<translate:zh>"))
        others = {
            name: Task((tokenizer.id(f"<{name}>"),), (tokenizer.id(f"<{name}>"),)) for name in ("summarize", "answer")
        }
        to_english = Task(tgt_prefix=(tokenizer.id("<translate:en>"),), source="zh", target="en")
    except KeyError as error:
        raise CheckpointError(f"the tokenizer has no piece {error}: make one with the step `vocabulary`") from error
    return CheckpointConfig(
        model=model_config(tokenizer.vocab_size, **sizes),
        special=SpecialIds(pad=pad, eos=end, decoder_start=start, unk=unknown),
        tasks={
            "translate:zh": Task(tgt_prefix=(start,), source="en", target="zh"),
            "translate:en": to_english,
            **others,
        },
        name=name,
    )
