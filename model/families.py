"""Families of foreign checkpoints as tables. Data only: what is done with them is in `convert`.

A family's table says under which names its checkpoints keep what our model has, and which facts of the architecture
are the same in all of them. Everything else is read from the checkpoint's own `config.json`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

REQUIRED = object()  # in place of a default: the key must be there


@dataclass(frozen=True)
class Family:
    """One family of checkpoints in the format of Hugging Face, known by `model_type` in its `config.json`.

    constants: fields of ModelConfig that have this value in the whole family.
    fields: field of ModelConfig → (key in config.json, default). A default in braces names another key.
    equal: pairs of keys whose values must be the same, because our model has one field for both.
    fixed: key → the only value that it may have, if it is there: anything else is another architecture.
    embeddings: their names of the table for both vocabularies, for source pieces, for target pieces, and of the output
        layer. Which of them must be there, and which must be the same, follows from share_embeddings and tie_output.
    modules: their name → (our name, sizes). Linear layers have two sizes, output first, and norms one; each stands
        for a weight and (with ModelConfig.bias) a bias. {stack} is encoder and decoder, {layer} counts from 0.
    tensors: their name → (our name, sizes) for tensors that stand alone. A first size of 1 is dropped.
    sinusoids: names of tables that need not be there but must be the sinusoids of the configuration if they are.
    special: field of SpecialIds → key. generation: field of GenerationConfig → key.
    """

    model_type: str
    constants: Mapping[str, Any]
    fields: Mapping[str, tuple[str, Any]]
    equal: tuple[tuple[str, str], ...]
    fixed: Mapping[str, Any]
    embeddings: tuple[str, str, str, str]
    modules: Mapping[str, tuple[str, str]]
    tensors: Mapping[str, tuple[str, str]]
    sinusoids: tuple[str, ...]
    special: Mapping[str, str]
    generation: Mapping[str, str]


# Hugging Face's names of the functions that we have. "gelu" is the exact one with the error function.
ACTIVATIONS = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "silu": "silu",
    "swish": "silu",
}

MARIAN = Family(
    model_type="marian",
    constants={
        "norm": "layer",
        "norm_first": False,
        "norm_eps": 1e-5,  # PyTorch's default, which the reference implementation takes
        "bias": True,
        "gated_ffn": False,
        "positions": "sinusoidal",
        "sinusoid_layout": "halves",
        "position_offset": 0,
        "scale_attention": True,
        "logits_bias": True,
    },
    fields={
        "src_vocab_size": ("vocab_size", REQUIRED),
        "tgt_vocab_size": ("decoder_vocab_size", "{vocab_size}"),
        "d_model": ("d_model", REQUIRED),
        "n_heads": ("encoder_attention_heads", REQUIRED),
        "d_ff": ("encoder_ffn_dim", REQUIRED),
        "n_encoder_layers": ("encoder_layers", REQUIRED),
        "n_decoder_layers": ("decoder_layers", REQUIRED),
        "max_positions": ("max_position_embeddings", 1024),
        "activation": ("activation_function", REQUIRED),
        "scale_embedding": ("scale_embedding", False),
        "share_embeddings": ("share_encoder_decoder_embeddings", True),
        "tie_output": ("tie_word_embeddings", True),
    },
    equal=(("encoder_attention_heads", "decoder_attention_heads"), ("encoder_ffn_dim", "decoder_ffn_dim")),
    fixed={
        "static_position_embeddings": True,
        "normalize_before": False,
        "normalize_embedding": False,
        "add_final_layer_norm": False,
    },
    embeddings=(
        "model.shared.weight",
        "model.encoder.embed_tokens.weight",
        "model.decoder.embed_tokens.weight",
        "lm_head.weight",
    ),
    modules={
        "model.{stack}.layers.{layer}.self_attn.q_proj": ("{stack}.layers.{layer}.self_attn.q_proj", "d_inner d_model"),
        "model.{stack}.layers.{layer}.self_attn.k_proj": ("{stack}.layers.{layer}.self_attn.k_proj", "d_inner d_model"),
        "model.{stack}.layers.{layer}.self_attn.v_proj": ("{stack}.layers.{layer}.self_attn.v_proj", "d_inner d_model"),
        "model.{stack}.layers.{layer}.self_attn.out_proj": (
            "{stack}.layers.{layer}.self_attn.o_proj",
            "d_model d_inner",
        ),
        "model.{stack}.layers.{layer}.self_attn_layer_norm": ("{stack}.layers.{layer}.self_attn_norm", "d_model"),
        "model.decoder.layers.{layer}.encoder_attn.q_proj": (
            "decoder.layers.{layer}.cross_attn.q_proj",
            "d_inner d_model",
        ),
        "model.decoder.layers.{layer}.encoder_attn.k_proj": (
            "decoder.layers.{layer}.cross_attn.k_proj",
            "d_inner d_model",
        ),
        "model.decoder.layers.{layer}.encoder_attn.v_proj": (
            "decoder.layers.{layer}.cross_attn.v_proj",
            "d_inner d_model",
        ),
        "model.decoder.layers.{layer}.encoder_attn.out_proj": (
            "decoder.layers.{layer}.cross_attn.o_proj",
            "d_model d_inner",
        ),
        "model.decoder.layers.{layer}.encoder_attn_layer_norm": ("decoder.layers.{layer}.cross_attn_norm", "d_model"),
        "model.{stack}.layers.{layer}.fc1": ("{stack}.layers.{layer}.ffn.w_1", "d_ff d_model"),
        "model.{stack}.layers.{layer}.fc2": ("{stack}.layers.{layer}.ffn.w_2", "d_model d_ff"),
        "model.{stack}.layers.{layer}.final_layer_norm": ("{stack}.layers.{layer}.ffn_norm", "d_model"),
    },
    tensors={"final_logits_bias": ("logits_bias", "1 tgt_vocab_size")},
    sinusoids=("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight"),
    special={
        "pad": "pad_token_id",
        "eos": "eos_token_id",
        "decoder_start": "decoder_start_token_id",
        "bos": "bos_token_id",
    },
    generation={
        "beam_size": "num_beams",
        "length_penalty": "length_penalty",
        "max_length": "max_length",
        "min_length": "min_length",
        "no_repeat_ngram": "no_repeat_ngram_size",
        "suppress": "bad_words_ids",
    },
)

FAMILIES = {family.model_type: family for family in (MARIAN,)}
