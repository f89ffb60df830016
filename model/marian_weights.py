"""Marian's binary weights as ours: the architecture that a file states, and the names of its tensors."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from .config import ModelConfig
from .errors import CheckpointError, ConfigError
from .marian_bin import read_marian_binary, read_model_yaml
from .marian_yaml import Values, parse_yaml, whole
from .tensors import tensor_shapes

Array: TypeAlias = np.ndarray[Any, Any]

NEVER = -1e4  # the logit of the start piece; less is no number in half precision
VERSION = struct.pack("<Q", 1)  # what a file of weights begins with

MULTIPLIER = "_QuantMultA"  # behind the name of a matrix: what its int8 activations are multiplied by
_LAYER = re.compile(r"(encoder|decoder)_l([1-9][0-9]{0,3})_(\w+)")
_ATTENTION = {"Wq": "q_proj.weight", "bq": "q_proj.bias", "Wk": "k_proj.weight", "bk": "k_proj.bias",
              "Wv": "v_proj.weight", "bv": "v_proj.bias", "Wo": "o_proj.weight", "bo": "o_proj.bias"}  # fmt: skip
# Marian's names in a layer → ours. An SSRU's ("rnn") norm is called like a feed-forward network's.
NAMES = {
    **{f"self_{theirs}": f"self_attn.{ours}" for theirs, ours in _ATTENTION.items()},
    "self_Wo_ln_scale": "self_attn_norm.weight",
    "self_Wo_ln_bias": "self_attn_norm.bias",
    "rnn_W": "self_attn.w.weight",
    "rnn_Wf": "self_attn.w_f.weight",
    "rnn_bf": "self_attn.w_f.bias",
    "rnn_ffn_ln_scale": "self_attn_norm.weight",
    "rnn_ffn_ln_bias": "self_attn_norm.bias",
    **{f"context_{theirs}": f"cross_attn.{ours}" for theirs, ours in _ATTENTION.items()},
    "context_Wo_ln_scale": "cross_attn_norm.weight",
    "context_Wo_ln_bias": "cross_attn_norm.bias",
    "ffn_W1": "ffn.w_1.weight",
    "ffn_b1": "ffn.w_1.bias",
    "ffn_W2": "ffn.w_2.weight",
    "ffn_b2": "ffn.w_2.bias",
    "ffn_ffn_ln_scale": "ffn_norm.weight",
    "ffn_ffn_ln_bias": "ffn_norm.bias",
}
ACTIVATIONS = {"relu": "relu", "swish": "silu"}
# What the architecture in special:model.yml must say, where it says it, to be one that our layers have.
FIXED: Mapping[str, tuple[str | list[str], ...]] = {
    "type": ("transformer",),
    "transformer-preprocess": ("",),
    "transformer-postprocess": ("dan", "an"),
    "transformer-postprocess-emb": ("d", ""),
    "transformer-postprocess-top": ("",),
    "transformer-ffn-depth": ("2",),
    "transformer-train-position-embeddings": ("false",),
    "transformer-no-projection": ("false",),
    "transformer-rnn-projection": ("false",),
    "transformer-pool": ("false",),
    "transformer-tied-layers": ([], ""),
    "right-left": ("false",),
    "input-types": ([], ""),
    "lemma-dim-emb": ("0",),
    "ulr": ("false",),
}


def is_weights(path: Path) -> bool:
    """Whether the file begins like Marian's binary weights."""
    try:
        with path.open("rb") as file:
            return file.read(len(VERSION)) == VERSION
    except OSError:
        return False


class MarianWeights(NamedTuple):
    """The architecture that a file states, its tensors by the names of `Transformer.state_dict()`, float32, and for the
    linear layers of which it says so how large the numbers that come in are taken to be: one beyond ± the limit counts as the
    limit. That serves arithmetic with int8 activations (see module int8); it is empty where the file does not say."""

    config: ModelConfig
    tensors: dict[str, Array]
    input_limits: dict[str, float]


def read_weights(path: Path) -> MarianWeights:
    """Reads a file of weights. Raises CheckpointError for an architecture that our layers do not have, and for a tensor that is missing,
    unknown or of another shape than the architecture says."""
    stated = parse_yaml(read_model_yaml(path))
    if not stated:
        raise CheckpointError(f"{path} does not say what its architecture is (special:model.yml is missing)")
    arrays = read_marian_binary(path)
    config = _model_config(stated, arrays, path)
    pieces = config.tgt_vocab_size - 1
    bias = arrays.pop("decoder_ff_logit_out_b", np.zeros((1, pieces), np.float32))
    ours = {"logits_bias": np.append(bias.ravel(), np.float32(NEVER))}
    if config.share_embeddings:
        ours["src_embedding.weight"] = _with_start(arrays.pop("Wemb"))
    else:
        ours["src_embedding.weight"] = arrays.pop("encoder_Wemb")
        ours["tgt_embedding.weight"] = _with_start(arrays.pop("decoder_Wemb"))
    if not config.tie_output:
        output = arrays.pop("decoder_ff_logit_out_Wt", None)
        ours["output.weight"] = _with_start(arrays.pop("decoder_ff_logit_out_W").T if output is None else output)
    unknown, limits = [], {}
    for name in [name for name in arrays if name.endswith(MULTIPLIER)]:
        multiplier = float(arrays.pop(name).ravel()[0])  # from a number to one of −127 … 127
        layer = _LAYER.fullmatch(name.removesuffix(MULTIPLIER))
        if layer and layer[3] in NAMES and 0 < multiplier < math.inf:
            linear = NAMES[layer[3]].removesuffix(".weight")
            limits[f"{layer[1]}.layers.{int(layer[2]) - 1}.{linear}"] = 127 / multiplier
    for name, array in arrays.items():
        match = _LAYER.fullmatch(name)
        part = NAMES.get(match[3]) if match else None
        if match is None or part is None:
            unknown.append(name)
            continue
        if array.ndim != 2 or (not part.endswith((".bias", "norm.weight"))) == (len(array) == 1):
            raise CheckpointError(f"{path}: tensor {name} has the shape {array.shape}")
        # Linear layers keep [out, in]; vectors lose their leading 1.
        ours[f"{match[1]}.layers.{int(match[2]) - 1}.{part}"] = array[0] if len(array) == 1 else array.T
    if unknown:
        raise CheckpointError(f"{path}: tensors unknown: {', '.join(unknown[:3])}{' and more' * (len(unknown) > 3)}")
    _check_shapes(path, ours, tensor_shapes(config))
    return MarianWeights(config, ours, limits)


def _with_start(table: Array) -> Array:
    """The table [V, d_model] and a row of zeros."""
    larger = np.zeros((len(table) + 1, *table.shape[1:]), np.float32)
    larger[:-1] = table
    return larger


def _model_config(stated: Values, arrays: Mapping[str, Array], path: Path) -> ModelConfig:
    for key, known in FIXED.items():
        value = stated.get(key, known[0])
        if value not in known:
            raise CheckpointError(f"{path}: its {key} is {value!r}; only {known[0]!r} can be read")
    decoder, cell = stated.get("transformer-decoder-autoreg", "self-attention"), stated.get("dec-cell")
    if decoder != "self-attention" and (decoder, cell) != ("rnn", "ssru"):
        raise CheckpointError(f"{path}: its decoder ({decoder}, {cell}) is neither self-attention nor an SSRU")
    activation = str(stated.get("transformer-ffn-activation", "swish"))
    if activation not in ACTIVATIONS:
        raise CheckpointError(f"{path}: its activation {activation!r} is not one of {', '.join(ACTIVATIONS)}")
    shared = "Wemb" in arrays
    untied = any(f"decoder_ff_logit_out_{kind}" in arrays for kind in ("W", "Wt"))
    names = ("Wemb", "Wemb") if shared else ("encoder_Wemb", "decoder_Wemb")
    for name in names:
        if name not in arrays or arrays[name].ndim != 2:
            raise CheckpointError(f"{path}: there is no table of embeddings {name}")
    layers = [whole(stated, key, None, path) for key in ("enc-depth", "dec-depth")]
    if sum(layers) > len(arrays):
        raise CheckpointError(f"{path} says that it has {sum(layers)} layers, and has {len(arrays)} tensors")
    d_model, n_heads = arrays[names[0]].shape[1], whole(stated, "transformer-heads", 8, path)
    if not n_heads or d_model % n_heads:
        raise CheckpointError(f"{path}: {d_model} components cannot be shared out among {n_heads} heads")
    try:
        return ModelConfig(
            src_vocab_size=len(arrays[names[0]]) + shared,
            tgt_vocab_size=len(arrays[names[1]]) + 1,
            d_model=d_model,
            n_heads=n_heads,
            d_head=d_model // n_heads,
            d_ff=whole(stated, "transformer-dim-ffn", None, path),
            n_encoder_layers=layers[0],
            n_decoder_layers=layers[1],
            norm_eps=1e-9,
            activation=ACTIVATIONS[activation],
            sinusoid_layout="tensor2tensor",
            share_embeddings=shared,
            tie_output=not untied,
            logits_bias=True,
            decoder_autoregression="ssru" if decoder == "rnn" else "attention",
        )
    except ConfigError as error:
        raise CheckpointError(f"{path}: {error}") from error


def _check_shapes(path: Path, ours: Mapping[str, Array], expected: Mapping[str, tuple[int, ...]]) -> None:
    missing = [name for name in expected if name not in ours]
    more = [name for name in ours if name not in expected]
    misshapen = [name for name in expected if name in ours and ours[name].shape != expected[name]]
    for kind, names in (("missing", missing), ("more than its architecture has", more), ("misshapen", misshapen)):
        if names:
            raise CheckpointError(f"{path}: tensors {kind}: {', '.join(names[:3])}{' and more' * (len(names) > 3)}")
