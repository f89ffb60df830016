"""Foreign checkpoints into ours: names, shapes and facts, each one accounted for.

Every tensor of a checkpoint is taken under exactly one name or it is an error, and so is whatever is missing, has
another shape than the configuration says, or differs from a copy that the configuration says it is tied to. The
tables are in `families`; nothing here branches on a model's name.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .config import GenerationConfig, ModelConfig, SpecialIds
from .errors import CheckpointError, ConfigError
from .families import ACTIVATIONS, FAMILIES, REQUIRED, Family
from .positions import sinusoids

CONFIG, GENERATION, SAFETENSORS, PICKLE = (
    "config.json",
    "generation_config.json",
    "model.safetensors",
    "pytorch_model.bin",
)
TABLE_TOLERANCE = 2e-3  # of sinusoids: a table stored as fp16 or bf16 is rounded by less (bf16: 2⁻⁹)


class Converted(NamedTuple):
    """What a foreign checkpoint says, in our terms; `tensors` by the names of `Transformer.state_dict()`, fp32."""

    model: ModelConfig
    special: SpecialIds
    generation: GenerationConfig
    tensors: dict[str, Tensor]


def convert_folder(path: str | os.PathLike[str]) -> Converted:
    """Reads config.json and model.safetensors (else pytorch_model.bin, without running what a pickle may contain).

    Settings of the search in generation_config.json go before those in config.json. Raises CheckpointError, one line
    with the file and what is wrong, for a family that is not known too.
    """
    folder = Path(path)
    values = _read_json(folder / CONFIG)
    family = FAMILIES.get(str(values.get("model_type")))
    if family is None:
        known = ", ".join(FAMILIES)
        raise CheckpointError(
            f"{folder / CONFIG}: model_type {values.get('model_type')!r} is not known (known: {known})"
        )
    if (folder / GENERATION).is_file():
        search = _read_json(folder / GENERATION)
        values |= {key: search[key] for key in family.generation.values() if search.get(key) is not None}
    try:
        return convert_tensors(family, values, _read_tensors(folder))
    except CheckpointError as error:
        raise CheckpointError(f"{folder}: {error}") from error


def convert_tensors(family: Family, config_json: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Converted:
    """Converts a checkpoint of `family`, given its parsed config.json and its tensors under their own names.

    Raises CheckpointError, naming the key or tensor at fault.
    """
    try:
        model = _model_config(family, config_json)
        special = _special_ids(family, config_json, min(model.src_vocab_size, model.tgt_vocab_size))
        generation = _generation_config(family, config_json, special)
    except (ConfigError, TypeError) as error:
        raise CheckpointError(f"{CONFIG}: {error}") from error
    # A layer has several tensors: more layers than tensors are a damaged number, not a list to be written out.
    n_layers = model.n_encoder_layers + model.n_decoder_layers
    if n_layers > len(tensors):
        raise CheckpointError(f"{CONFIG} says {n_layers} layers, but there are only {len(tensors)} tensors")

    wanted = _wanted(family, model)
    copies = _copies(family, model)
    ours: dict[str, Tensor] = {}
    missing = [name for name in wanted if name not in tensors]
    for our_name, (names, shape) in copies.items():
        there = [name for name in names if name in tensors]
        if not there:
            missing.append(" or ".join(names))
        for name in there:
            _check_shape(name, tensors[name], shape)
            if not torch.equal(tensors[name], tensors[there[0]]):
                raise CheckpointError(f"tensors {there[0]} and {name} differ, but {CONFIG} says that they are tied")
            ours[our_name] = tensors[there[0]]
    if missing:
        raise CheckpointError(f"tensors missing: {_some(missing)}")
    known = {*wanted, *family.sinusoids, *(name for names, _ in copies.values() for name in names)}
    unexpected = [name for name in tensors if name not in known]
    if unexpected:
        raise CheckpointError(f"tensors unexpected: {_some(unexpected)}")
    for name, (our_name, shape) in wanted.items():
        _check_shape(name, tensors[name], shape)
        ours[our_name] = tensors[name].squeeze(0) if name in family.tensors else tensors[name]
    _check_sinusoids(family, model, tensors)
    for name, tensor in ours.items():
        if not tensor.is_floating_point():
            raise CheckpointError(f"the tensor for {name} is {tensor.dtype}, not floating point")
    return Converted(model, special, generation, {name: tensor.float() for name, tensor in ours.items()})


# --- facts ---


def _model_config(family: Family, values: Mapping[str, Any]) -> ModelConfig:
    for key, only in family.fixed.items():
        if values.get(key, only) != only:
            raise CheckpointError(f"{CONFIG}: {key} is {values[key]!r}; only {only!r} can be converted")
    for one, other in family.equal:
        if values.get(one) != values.get(other):
            raise CheckpointError(
                f"{CONFIG}: {one} ({values.get(one)}) and {other} ({values.get(other)}) must be equal to be converted"
            )
    fields = {field: _value(values, key, default) for field, (key, default) in family.fields.items()}
    if not isinstance(fields["activation"], str) or fields["activation"] not in ACTIVATIONS:
        raise CheckpointError(f"{CONFIG}: activation {fields['activation']!r} is not one of {', '.join(ACTIVATIONS)}")
    fields["activation"] = ACTIVATIONS[fields["activation"]]
    # d_head comes last: ModelConfig has checked by then that both are positive integers.
    model = ModelConfig(**family.constants, **fields)
    if model.d_model % model.n_heads:
        raise CheckpointError(f"{CONFIG}: d_model ({model.d_model}) is not a multiple of the heads ({model.n_heads})")
    return ModelConfig(**family.constants, **fields, d_head=model.d_model // model.n_heads)


def _value(values: Mapping[str, Any], key: str, default: Any) -> Any:
    value = values.get(key)
    if value is not None:
        return value
    if default is REQUIRED:
        raise CheckpointError(f"{CONFIG} has no {key}")
    if isinstance(default, str) and default.startswith("{"):
        return _value(values, default.strip("{}"), REQUIRED)
    return default


def _special_ids(family: Family, values: Mapping[str, Any], rows: int) -> SpecialIds:
    ids: dict[str, Any] = {}
    for field, key in family.special.items():
        value = values.get(key)
        if isinstance(value, list) and len(value) == 1:  # newer configurations may write an id as a list
            value = value[0]
        needed = field in ("pad", "eos", "decoder_start")
        if (value is not None or needed) and not (type(value) is int and 0 <= value < rows):
            raise CheckpointError(f"{CONFIG}: {key} is {value!r}, which is not the number of one of {rows} pieces")
        ids[field] = value
    return SpecialIds(**ids)


def _generation_config(family: Family, values: Mapping[str, Any], special: SpecialIds) -> GenerationConfig:
    found = {field: values[key] for field, key in family.generation.items() if values.get(key) is not None}
    if "max_length" in found:
        found["max_length"] -= 1  # theirs counts the piece that the decoder is started with
    if "suppress" in found:
        words = found["suppress"]
        if not all(isinstance(word, list) and len(word) == 1 for word in words):
            raise CheckpointError(f"{CONFIG}: bad words of more than one piece cannot be converted")
        found["suppress"] = tuple(word[0] for word in words if word[0] != special.pad)  # padding never is produced
    return GenerationConfig(**found)


# --- names ---


def _sizes(model: ModelConfig, names: str) -> tuple[int, ...]:
    """ "d_ff d_model" → their values. d_inner are all heads side by side."""
    inner = {"d_inner": model.n_heads * model.d_head}
    return tuple(int(n) if n.isdigit() else inner.get(n) or getattr(model, n) for n in names.split())


def _wanted(family: Family, model: ModelConfig) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Every tensor that must be there but the embeddings: its name → (our name, its shape)."""
    wanted = {theirs: (ours, _sizes(model, sizes)) for theirs, (ours, sizes) in family.tensors.items()}
    layers = [("encoder", i) for i in range(model.n_encoder_layers)]
    layers += [("decoder", i) for i in range(model.n_decoder_layers)]
    for theirs, (ours, sizes) in family.modules.items():
        shape = _sizes(model, sizes)
        for stack, layer in layers:
            if "{stack}" not in ours and not ours.startswith(stack):
                continue
            name, our_name = (pattern.format(stack=stack, layer=layer) for pattern in (theirs, ours))
            wanted[f"{name}.weight"] = (f"{our_name}.weight", shape)
            if model.bias:
                wanted[f"{name}.bias"] = (f"{our_name}.bias", shape[:1])
    return wanted


def _copies(family: Family, model: ModelConfig) -> dict[str, tuple[tuple[str, ...], tuple[int, ...]]]:
    """Our embeddings → (the names under which each may be there, its shape). All that are there must be the same."""
    shared, source, target, output = family.embeddings
    src_shape, tgt_shape = (model.src_vocab_size, model.d_model), (model.tgt_vocab_size, model.d_model)
    tied = (output,) if model.tie_output else ()
    copies: dict[str, tuple[tuple[str, ...], tuple[int, ...]]]
    if model.share_embeddings:
        copies = {"src_embedding.weight": ((shared, source, target, *tied), src_shape)}
    else:
        copies = {"src_embedding.weight": ((source,), src_shape), "tgt_embedding.weight": ((target, *tied), tgt_shape)}
    if not model.tie_output:
        copies["output.weight"] = ((output,), tgt_shape)
    return copies


def _check_sinusoids(family: Family, model: ModelConfig, tensors: Mapping[str, Tensor]) -> None:
    """Tables of positions are computed, not converted; one that holds anything else is of another architecture."""
    shape = (model.max_positions, model.d_model)
    for name in family.sinusoids:
        if name in tensors:
            _check_shape(name, tensors[name], shape)
            expected = sinusoids(*shape, layout=model.sinusoid_layout, offset=model.position_offset)
            if not torch.allclose(tensors[name].float(), expected, rtol=0, atol=TABLE_TOLERANCE):
                raise CheckpointError(f"tensor {name} does not hold the sinusoids of layout {model.sinusoid_layout!r}")


def _check_shape(name: str, tensor: Tensor, shape: tuple[int, ...]) -> None:
    if tuple(tensor.shape) != shape:
        found, expected = ("×".join(map(str, sizes)) or "scalar" for sizes in (tensor.shape, shape))
        raise CheckpointError(f"tensor {name} has shape {found}, but {CONFIG} says {expected}")


def _some(names: list[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more


# --- files ---


def _read_json(path: Path) -> dict[str, Any]:
    try:
        values = json.loads(path.read_bytes().decode("utf-8"))
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} is not valid JSON: {error}") from error
    if not isinstance(values, dict):
        raise CheckpointError(f"{path} must hold a JSON object, not {type(values).__name__}")
    return values


def _read_tensors(folder: Path) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    name = next((name for name in (SAFETENSORS, PICKLE) if (folder / name).is_file()), None)
    if name is None:
        raise CheckpointError(f"there is neither {SAFETENSORS} nor {PICKLE}")
    try:
        if name == SAFETENSORS:
            return load_file(folder / name)
        # weights_only: tensors and plain containers, nothing that a pickle could call.
        tensors = torch.load(folder / name, map_location="cpu", weights_only=True)
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{name} cannot be read: {' '.join(str(error).split())}") from error
    except Exception as error:  # whatever torch.load and the unpickler raise on bytes that are not what they expect
        raise CheckpointError(f"{name} holds more than tensors or is damaged: it is not read") from error
    if not isinstance(tensors, dict) or not all(isinstance(value, Tensor) for value in tensors.values()):
        raise CheckpointError(f"{name} does not hold tensors by name")
    return tensors
