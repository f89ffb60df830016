"""Families of foreign checkpoints as tables. Data only: what is done with them is in `convert`.

A family's table says under which names its checkpoints keep what our model has, and which facts of the architecture
are the same in all of them. Everything else is read from the checkpoint's own `config.json`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

REQUIRED = object()  # in place of a default: the key must be there


class Choice(NamedTuple):
    """What one value of a key stands for: fields of ModelConfig, and what other keys must say, if they are there."""

    fields: Mapping[str, Any]
    implies: Mapping[str, Any] = {}


@dataclass(frozen=True)
class Family:
    """One family of checkpoints in the format of Hugging Face, known by `model_type` in its `config.json`.

    constants: fields of ModelConfig that have this value in the whole family.
    fields: field of ModelConfig → (key in config.json, default). A default in braces names another key.
    choices: key → (default, what each value that it may have stands for).
    equal: pairs of keys whose values must be the same, because our model has one field for both.
    fixed: key → the only value that it may have, if it is there: anything else is another architecture.
    embeddings: their names of the table for both vocabularies, for source pieces, for target pieces, and of the output
        layer. Which of them must be there, and which must be the same, follows from share_embeddings and tie_output.
    layer: how the names in a layer begin; {stack} is encoder or decoder, {layer} counts from 0.
    modules: our name in a layer → theirs. One that is different in each stack begins with the stack.
    gated: the same, where these names are others with gated_ffn.
    tensors: our name outside the layers, without the stack → theirs.
    rows: of theirs, those that are stored as a matrix of one row.
    optional: theirs that may be missing → field of ModelConfig that is false then.
    sinusoids: names of tables that need not be there but must be the sinusoids of the configuration if they are.
    unused: names that some files have and that mean nothing.
    prefix: what all names but that of the output layer begin with; left off in files without an output layer.
    output_decides: a key with which the output layer itself says whether it is tied, by being there and no copy of an
        embedding, no matter what tie_output's key says.
    special: field of SpecialIds → key.
    """

    model_type: str
    constants: Mapping[str, Any]
    fields: Mapping[str, tuple[str, Any]]
    choices: Mapping[str, tuple[Any, Mapping[str, Choice]]]
    embeddings: tuple[str, str, str, str]
    layer: str
    modules: Mapping[str, str]
    tensors: Mapping[str, str]
    special: Mapping[str, str]
    equal: tuple[tuple[str, str], ...] = ()
    fixed: Mapping[str, Any] = field(default_factory=dict)
    gated: Mapping[str, str] = field(default_factory=dict)
    rows: tuple[str, ...] = ()
    optional: Mapping[str, str] = field(default_factory=dict)
    sinusoids: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()
    prefix: str = ""
    output_decides: str = ""


# Hugging Face's names of the functions that we have. "gelu" is the exact one with the error function.
ACTIVATIONS = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "silu": "silu",
    "swish": "silu",
}
ACTIVATION_CHOICES = {theirs: Choice({"activation": ours}) for theirs, ours in ACTIVATIONS.items()}

SPECIAL = {
    "pad": "pad_token_id",
    "eos": "eos_token_id",
    "decoder_start": "decoder_start_token_id",
    "bos": "bos_token_id",
}

# --- settings of the search: the same keys in all families, see the documentation of GenerationConfig in `transformers` ---

# Field of our GenerationConfig → key; of two keys the second, if it is there, replaces the first or adds to it.
GENERATION = {
    "beam_size": ("num_beams",),
    "length_penalty": ("length_penalty",),
    "early_stopping": ("early_stopping",),
    "max_length": ("max_length", "max_new_tokens"),
    "min_length": ("min_length", "min_new_tokens"),
    "no_repeat_ngram": ("no_repeat_ngram_size",),
    "source_no_repeat_ngram": ("encoder_no_repeat_ngram_size",),
    "repetition_penalty": ("repetition_penalty",),
    "source_reward": ("encoder_repetition_penalty",),
    "suppress": ("bad_words_ids", "suppress_tokens"),
    "suppress_first": ("begin_suppress_tokens",),
    "renormalize": ("renormalize_logits",),
}
FORCED_FIRST, FORCED_LAST = "forced_bos_token_id", "forced_eos_token_id"
# What else would change an output, and the value with which it does not; empty lists and null do not either.
NOT_FOLLOWED = {
    "do_sample": False,
    "num_beam_groups": 1,
    "diversity_penalty": 0,
    "penalty_alpha": 0,
    "dola_layers": None,
    "sequence_bias": None,
    "exponential_decay_length_penalty": None,
    "forced_decoder_ids": None,
    "force_words_ids": None,
    "constraints": None,
    "guidance_scale": 1,
    "watermarking_config": None,
    "stop_strings": None,
    "max_time": None,
    "token_healing": False,
}

# --- Marian, BART, mBART, M2M100: one way to name everything ---

LAYER_NORM = {
    "norm": "layer",
    "norm_eps": 1e-5,  # PyTorch's default, which the reference implementation takes
    "bias": True,
    "gated_ffn": False,
    "scale_attention": True,
}
SIZES: dict[str, tuple[str, Any]] = {
    "src_vocab_size": ("vocab_size", REQUIRED),
    "d_model": ("d_model", REQUIRED),
    "n_heads": ("encoder_attention_heads", REQUIRED),
    "d_ff": ("encoder_ffn_dim", REQUIRED),
    "n_encoder_layers": ("encoder_layers", REQUIRED),
    "n_decoder_layers": ("decoder_layers", REQUIRED),
    "max_positions": ("max_position_embeddings", 1024),
    "scale_embedding": ("scale_embedding", False),
    "tie_output": ("tie_word_embeddings", True),
}
SAME_IN_BOTH_STACKS = (("encoder_attention_heads", "decoder_attention_heads"), ("encoder_ffn_dim", "decoder_ffn_dim"))
EMBEDDINGS = (
    "model.shared.weight",
    "model.encoder.embed_tokens.weight",
    "model.decoder.embed_tokens.weight",
    "lm_head.weight",
)
MODULES = {
    "self_attn.q_proj": "self_attn.q_proj",
    "self_attn.k_proj": "self_attn.k_proj",
    "self_attn.v_proj": "self_attn.v_proj",
    "self_attn.o_proj": "self_attn.out_proj",
    "self_attn_norm": "self_attn_layer_norm",
    "cross_attn.q_proj": "encoder_attn.q_proj",
    "cross_attn.k_proj": "encoder_attn.k_proj",
    "cross_attn.v_proj": "encoder_attn.v_proj",
    "cross_attn.o_proj": "encoder_attn.out_proj",
    "cross_attn_norm": "encoder_attn_layer_norm",
    "ffn.w_1": "fc1",
    "ffn.w_2": "fc2",
    "ffn_norm": "final_layer_norm",
}
LOGITS_BIAS = {"logits_bias": "final_logits_bias"}

MARIAN = Family(
    model_type="marian",
    constants={
        **LAYER_NORM,
        "norm_first": False,
        "positions": "sinusoidal",
        "sinusoid_layout": "halves",
        "position_offset": 0,
        "logits_bias": True,
    },
    fields={
        **SIZES,
        "tgt_vocab_size": ("decoder_vocab_size", "{vocab_size}"),
        "share_embeddings": ("share_encoder_decoder_embeddings", True),
    },
    choices={"activation_function": (REQUIRED, ACTIVATION_CHOICES)},
    equal=SAME_IN_BOTH_STACKS,
    fixed={
        "is_encoder_decoder": True,
        "static_position_embeddings": True,
        "normalize_before": False,
        "normalize_embedding": False,
        "add_final_layer_norm": False,
    },
    embeddings=EMBEDDINGS,
    layer="model.{stack}.layers.{layer}.",
    modules=MODULES,
    tensors=LOGITS_BIAS,
    rows=("final_logits_bias",),
    sinusoids=("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight"),
    special=SPECIAL,
)

BART = Family(
    model_type="bart",
    constants={
        **LAYER_NORM,
        "norm_first": False,
        "final_norm": False,
        "embedding_norm": True,
        "positions": "learned",
        "position_offset": 2,
        "logits_bias": True,
        "share_embeddings": True,
    },
    fields={**SIZES, "tgt_vocab_size": ("vocab_size", REQUIRED)},
    choices={"activation_function": ("gelu", ACTIVATION_CHOICES)},
    equal=SAME_IN_BOTH_STACKS,
    fixed={
        "is_encoder_decoder": True,
        "static_position_embeddings": False,
        "extra_pos_embeddings": 2,
        "normalize_before": False,
        "normalize_embedding": True,
        "add_final_layer_norm": False,
    },
    embeddings=EMBEDDINGS,
    layer="model.{stack}.layers.{layer}.",
    modules=MODULES,
    tensors={
        **LOGITS_BIAS,
        "position_embedding": "model.{stack}.embed_positions",
        "embedding_norm": "model.{stack}.layernorm_embedding",
    },
    rows=("final_logits_bias",),
    optional={"final_logits_bias": "logits_bias"},
    unused=("model.encoder.version", "model.decoder.version"),
    prefix="model.",
    special=SPECIAL,
)

MBART = Family(
    model_type="mbart",
    constants={**BART.constants, "norm_first": True, "final_norm": True},
    fields=BART.fields,
    choices=BART.choices,
    equal=SAME_IN_BOTH_STACKS,
    fixed={**BART.fixed, "normalize_before": True, "add_final_layer_norm": True},
    embeddings=EMBEDDINGS,
    layer=BART.layer,
    modules=MODULES,
    tensors={**BART.tensors, "final_norm": "model.{stack}.layer_norm"},
    rows=BART.rows,
    optional=BART.optional,
    unused=BART.unused,
    prefix="model.",
    special=SPECIAL,
)

M2M100 = Family(  # NLLB as well
    model_type="m2m_100",
    constants={
        **LAYER_NORM,
        "norm_first": True,
        "final_norm": True,
        "embedding_norm": False,
        "positions": "sinusoidal",
        "sinusoid_layout": "tensor2tensor",
        "position_offset": 2,  # the first position is the one after that of padding
        "logits_bias": False,
        "share_embeddings": True,
    },
    fields={**SIZES, "tgt_vocab_size": ("vocab_size", REQUIRED), "scale_embedding": ("scale_embedding", True)},
    choices={"activation_function": ("relu", ACTIVATION_CHOICES)},
    equal=SAME_IN_BOTH_STACKS,
    fixed={"is_encoder_decoder": True, "pad_token_id": 1},
    embeddings=EMBEDDINGS,
    layer="model.{stack}.layers.{layer}.",
    modules=MODULES,
    tensors={"final_norm": "model.{stack}.layer_norm"},
    sinusoids=("model.encoder.embed_positions.weights", "model.decoder.embed_positions.weights"),
    unused=("model.encoder.version", "model.decoder.version"),
    prefix="model.",
    special=SPECIAL,
)

# --- T5: v1.0, v1.1 and Flan ---

FEED_FORWARDS = {}
for theirs, ours in ACTIVATIONS.items():
    for start, gated in (("", False), ("gated-", True)):
        FEED_FORWARDS[start + theirs] = Choice(
            {"activation": ours, "gated_ffn": gated}, {"dense_act_fn": theirs, "is_gated_act": gated}
        )
# The one exception of the reference implementation: this has always been the approximation.
FEED_FORWARDS["gated-gelu"] = FEED_FORWARDS["gated-gelu_new"]

T5 = Family(
    model_type="t5",
    constants={
        "norm": "rms",
        "norm_first": True,
        "final_norm": True,
        "embedding_norm": False,
        "bias": False,
        "positions": "relative",
        "scale_attention": False,
        "scale_embedding": False,
        "share_embeddings": True,
        "logits_bias": False,
    },
    fields={
        "src_vocab_size": ("vocab_size", REQUIRED),
        "tgt_vocab_size": ("vocab_size", REQUIRED),
        "d_model": ("d_model", REQUIRED),
        "n_heads": ("num_heads", REQUIRED),
        "d_head": ("d_kv", REQUIRED),
        "d_ff": ("d_ff", REQUIRED),
        "n_encoder_layers": ("num_layers", REQUIRED),
        "n_decoder_layers": ("num_decoder_layers", "{num_layers}"),
        "norm_eps": ("layer_norm_epsilon", 1e-6),
        "max_positions": ("n_positions", 512),  # nothing ends there: what it was trained on
        "relative_buckets": ("relative_attention_num_buckets", 32),
        "relative_max_distance": ("relative_attention_max_distance", 128),
        "tie_output": ("tie_word_embeddings", True),
        # v1.0 ties the output and scales its logits, v1.1 does neither. Files written before there was a key for the
        # second have only the first; in newer ones that is always true.
        "scale_logits": ("scale_decoder_outputs", "{tie_word_embeddings}"),
    },
    output_decides="scale_decoder_outputs",
    choices={"feed_forward_proj": ("relu", FEED_FORWARDS)},
    fixed={"is_encoder_decoder": True},
    embeddings=("shared.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight"),
    layer="{stack}.block.{layer}.layer.",
    modules={
        "self_attn.q_proj": "0.SelfAttention.q",
        "self_attn.k_proj": "0.SelfAttention.k",
        "self_attn.v_proj": "0.SelfAttention.v",
        "self_attn.o_proj": "0.SelfAttention.o",
        "self_attn_norm": "0.layer_norm",
        "cross_attn.q_proj": "1.EncDecAttention.q",
        "cross_attn.k_proj": "1.EncDecAttention.k",
        "cross_attn.v_proj": "1.EncDecAttention.v",
        "cross_attn.o_proj": "1.EncDecAttention.o",
        "cross_attn_norm": "1.layer_norm",
        "encoder.ffn.w_1": "1.DenseReluDense.wi",
        "encoder.ffn.w_2": "1.DenseReluDense.wo",
        "encoder.ffn_norm": "1.layer_norm",
        "decoder.ffn.w_1": "2.DenseReluDense.wi",
        "decoder.ffn.w_2": "2.DenseReluDense.wo",
        "decoder.ffn_norm": "2.layer_norm",
    },
    gated={
        "encoder.ffn.w_gate": "1.DenseReluDense.wi_0",
        "encoder.ffn.w_1": "1.DenseReluDense.wi_1",
        "decoder.ffn.w_gate": "2.DenseReluDense.wi_0",
        "decoder.ffn.w_1": "2.DenseReluDense.wi_1",
    },
    tensors={
        "relative_bias": "{stack}.block.0.layer.0.SelfAttention.relative_attention_bias",
        "final_norm": "{stack}.final_layer_norm",
    },
    unused=("decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight",),  # of the first T5 files
    special=SPECIAL,
)

_T5_FIELDS = {field: stated for field, stated in T5.fields.items() if field != "scale_logits"}
MT5 = dataclasses.replace(  # T5 v1.1 under another name
    T5,
    model_type="mt5",
    constants={**T5.constants, "scale_logits": False},
    fields=_T5_FIELDS,
    choices={"feed_forward_proj": ("gated-gelu", FEED_FORWARDS)},
    output_decides="model_type",  # its configurations say that it is tied, and it is not
)

FAMILIES = {family.model_type: family for family in (MARIAN, BART, MBART, M2M100, T5, MT5)}
# Near relatives that are another architecture.
REFUSED = {"umt5": "each of its layers has a table of relative positions of its own, where T5 and mT5 have one a stack"}
