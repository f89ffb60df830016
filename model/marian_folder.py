"""Folders of Marian models as Firefox, Bergamot and OPUS ship them: which files they are, and their weights as ours.

    config.*.yml   names of the other files, limits of the search      model.*.bin   weights (see `marian_bin`)
    vocab.*.spm    the vocabulary (srcvocab, trgvocab: one each)       lex.*.bin     a shortlist (see `shortlist`)

Only the weights and a vocabulary must be there. The names in a configuration are looked for in the same folder and
nowhere else.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from .config import GenerationConfig, ModelConfig
from .errors import CheckpointError, ConfigError
from .marian_bin import read_marian_binary, read_model_yaml
from .tensors import tensor_shapes

Array: TypeAlias = np.ndarray[Any, Any]
Values: TypeAlias = Mapping[str, str | list[str]]

MAX_YAML_BYTES = 1 << 20
NEVER = -1e4  # the logit of the start piece; less is no number in half precision
VERSION = struct.pack("<Q", 1)  # what a file of weights begins with

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
# One language, or a language and its script; names that look like two languages and are sizes.
_CODE = r"[a-z]{2}(?:_han[st])?"
_PAIR_IN_FILE = re.compile(rf"(?:model|vocab|srcvocab|trgvocab|lex\.\d+\.\d+)\.({_CODE})-?({_CODE})\.")
_PAIR_IN_FOLDER = re.compile(rf"({_CODE})[-_]?({_CODE})(?:[-._]|$)")
_SIZES = ("tiny", "base", "lite")


class MarianFolder(NamedTuple):
    """What such a folder holds, in our terms. The last target id is the piece that the decoder starts with: Marian
    feeds it zeros first, so the tables have a row of zeros more than the vocabulary."""

    folder: Path
    weights: Path
    model: ModelConfig
    generation: GenerationConfig
    tensors: dict[str, Array]
    vocabularies: tuple[Path, Path]  # of the source and the target; the same file where there is one
    shortlist: Path | None
    languages: tuple[str, str]  # of the source and the target, ("", "") where no name tells


# --- which files ---


def is_weights(path: Path) -> bool:
    """Whether the file begins like Marian's binary weights."""
    try:
        with path.open("rb") as file:
            return file.read(len(VERSION)) == VERSION
    except OSError:
        return False


def weight_files(folder: Path) -> list[Path]:
    """The files of Marian's weights in a folder, by name."""
    return [path for path in sorted(folder.glob("*.bin")) if path.is_file() and is_weights(path)]


def read_marian_folder(path: Path) -> MarianFolder:
    """Reads a folder, or the one of its files of weights that `path` names.

    Raises CheckpointError, one line with the file and what is wrong or missing.
    """
    folder = path if path.is_dir() else path.parent
    there = weight_files(folder)
    config_path, config = _configuration(folder, None if path.is_dir() else path.name, [p.name for p in there])
    listed = _names(config, "models")
    if path.is_dir():
        chosen = [p for p in there if p.name in listed] or there
        if len(chosen) != 1:
            names = ", ".join(p.name for p in chosen) or "none"
            raise CheckpointError(f"{folder} must have one file of weights, and has {names}: give the path of one")
        path = chosen[0]
    model, tensors = read_weights(path)
    vocabularies = _vocabularies(folder, config)
    if vocabularies[0] != vocabularies[1] and model.share_embeddings:
        raise CheckpointError(f"{folder} has two vocabularies, but {path.name} has one table for both")
    return MarianFolder(
        folder,
        path,
        model,
        _generation(config, config_path or path),
        tensors,
        vocabularies,
        _shortlist(folder, config),
        _languages(folder, [path.name, *(p.name for p in vocabularies)]),
    )


def _configuration(folder: Path, wanted: str | None, models: Sequence[str]) -> tuple[Path | None, Values]:
    """The configuration that names the wanted file of weights, or one of those that are there; else one that names none."""
    others: list[tuple[Path | None, Values]] = []
    for path in sorted(p for ending in ("*.yml", "*.yaml") for p in folder.glob(ending)):
        values = _read_yaml(path)
        named = _names(values, "models")
        if any(name == wanted or (wanted is None and name in models) for name in named):
            return path, values
        if not named and "vocabs" in values:
            others.append((path, values))
    return others[0] if others else (None, {})


def _vocabularies(folder: Path, config: Values) -> tuple[Path, Path]:
    names = _names(config, "vocabs") or sorted(p.name for p in folder.glob("*.spm"))
    if not names:
        raise CheckpointError(f"{folder} has no vocabulary: there is no file *.spm")
    source, target = names[0], names[-1]
    if not _names(config, "vocabs") and len(names) > 1:
        sources = [name for name in names if name.startswith(("srcvocab", "source"))]
        targets = [name for name in names if name.startswith(("trgvocab", "target"))]
        if len(names) != 2 or len(sources) != 1 or len(targets) != 1:
            raise CheckpointError(f"{folder} has the vocabularies {', '.join(names)}: nothing tells which is for what")
        source, target = sources[0], targets[0]
    for name in (source, target):
        if not name.endswith(".spm"):
            raise CheckpointError(f"{folder / name}: only vocabularies of SentencePiece (*.spm) can be read")
        if not (folder / name).is_file():
            raise CheckpointError(f"{folder} has no vocabulary {name}")
    return folder / source, folder / target


def _shortlist(folder: Path, config: Values) -> Path | None:
    names = _names(config, "shortlist")[:1] or sorted(p.name for p in folder.glob("lex*.bin"))[:1]
    return folder / names[0] if names and (folder / names[0]).is_file() else None


def _languages(folder: Path, names: Sequence[str]) -> tuple[str, str]:
    """The two in the name of a file, else of the folder, such as "model.enpt.bin" and "enpt-1693087644"."""
    called = folder.resolve().name.lower()
    matches = [_PAIR_IN_FILE.match(name.lower()) for name in names]
    matches += [] if called.startswith(_SIZES) else [_PAIR_IN_FOLDER.match(called)]
    return next(((m[1], m[2]) for m in matches if m and m[1] != m[2]), ("", ""))


# --- settings ---


def _read_yaml(path: Path) -> Values:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_YAML_BYTES + 1)
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror or error}") from error
    if len(content) > MAX_YAML_BYTES:
        raise CheckpointError(f"{path} is too long to be a configuration ({MAX_YAML_BYTES} bytes and more)")
    return parse_yaml(content.decode("utf-8", errors="replace"))


def parse_yaml(text: str) -> Values:
    """The part of YAML that Marian writes: `key: value` and lists of values, at the left margin. Values are strings;
    whatever is written otherwise (nested maps, anchors, blocks) is passed over."""
    values: dict[str, str | list[str]] = {}
    key = ""
    for line in text.splitlines():
        stripped = line.strip()
        pair = re.match(r"([A-Za-z][\w-]*)\s*:(?:\s+(.*))?$", line)
        if pair:
            key, value = pair[1], _plain(pair[2] or "")
            if value.startswith("[") and value.endswith("]"):
                values[key] = [_plain(item) for item in value[1:-1].split(",") if item.strip()]
            else:
                values[key] = value
        elif stripped.startswith("- ") and key:
            items = values[key]
            if isinstance(items, str):
                items = values[key] = []
            items.append(_plain(stripped[2:]))
        elif stripped and not stripped.startswith("#") and line[0] not in " \t-":
            key = ""  # what follows belongs to something else
    return values


def _plain(value: str) -> str:
    """A scalar without its comment and quotation marks."""
    value = value.strip()
    for mark in "\"'":
        if value.startswith(mark) and mark in value[1:]:
            return value[1 : value.index(mark, 1)]
    return re.split(r"(?:^|\s)#", value, maxsplit=1)[0].strip()


def _names(config: Values, key: str) -> list[str]:
    """The file names of a list, or of one value, without any folder."""
    value = config.get(key, [])
    names = [re.split(r"[/\\]", item)[-1] for item in ([value] if isinstance(value, str) else value)]
    return [name for name in names if name not in ("", ".", "..")]


def _number(values: Values, key: str, default: float, path: Path) -> float:
    value = values.get(key, default)
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise CheckpointError(f"{path}: {key} must be a number, not {str(value)[:40]!r}") from None


def _whole(values: Values, key: str, default: int | None, path: Path) -> int:
    value = values.get(key, default)
    if isinstance(value, int) or (isinstance(value, str) and re.fullmatch("[0-9]{1,9}", value)):
        return int(value)
    raise CheckpointError(f"{path}: {key} must be a whole number, not {str(value)[:40]!r}")


def _generation(config: Values, path: Path) -> GenerationConfig:
    """The limits of the search. Room is given to short texts beside what `max-length-factor` gives: Marian bounds a
    batch by its longest text."""
    try:
        return GenerationConfig(
            beam_size=_whole(config, "beam-size", 1, path),
            length_penalty=_number(config, "normalize", 1.0, path),
            max_length_factor=_number(config, "max-length-factor", 3.0, path),
        )
    except ConfigError as error:
        raise CheckpointError(f"{path}: {error}") from error


# --- weights ---


def read_weights(path: Path) -> tuple[ModelConfig, dict[str, Array]]:
    """The architecture that a file of weights states, and its tensors by the names of `Transformer.state_dict()`,
    float32. Raises CheckpointError for an architecture that our layers do not have, and for a tensor that is missing,
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
    for name in [name for name in arrays if name.endswith("_QuantMultA")]:
        del arrays[name]  # for arithmetic with int8 activations; ours is in floating point
    unknown = []
    for name, array in arrays.items():
        match = re.fullmatch(r"(encoder|decoder)_l([1-9][0-9]{0,3})_(\w+)", name)
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
    return config, ours


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
    layers = [_whole(stated, key, None, path) for key in ("enc-depth", "dec-depth")]
    if sum(layers) > len(arrays):
        raise CheckpointError(f"{path} says that it has {sum(layers)} layers, and has {len(arrays)} tensors")
    d_model, n_heads = arrays[names[0]].shape[1], _whole(stated, "transformer-heads", 8, path)
    if not n_heads or d_model % n_heads:
        raise CheckpointError(f"{path}: {d_model} components cannot be shared out among {n_heads} heads")
    try:
        return ModelConfig(
            src_vocab_size=len(arrays[names[0]]) + shared,
            tgt_vocab_size=len(arrays[names[1]]) + 1,
            d_model=d_model,
            n_heads=n_heads,
            d_head=d_model // n_heads,
            d_ff=_whole(stated, "transformer-dim-ffn", None, path),
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
