"""Foreign checkpoints into ours: names, shapes and facts, each one accounted for.

Every tensor of a checkpoint is taken under exactly one name or it is an error, and so is whatever is missing, has
another shape than the configuration says, or differs from a copy that the configuration says it is tied to. The
tables are in `families`; nothing here branches on a model's name.
"""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .config import GenerationConfig, ModelConfig, SpecialIds, read_object
from .errors import CheckpointError, ConfigError
from .families import (
    FAMILIES,
    FORCED_FIRST,
    FORCED_LAST,
    GENERATION,
    NOT_FOLLOWED,
    REFUSED,
    REQUIRED,
    Family,
)
from .numpy_engine import sinusoids
from .stored_tensors import BFloat16, Stored, read_tensors
from .tensors import tensor_shapes

CONFIG, SEARCH = "config.json", "generation_config.json"
TABLE_TOLERANCE = 2e-3  # of sinusoids: a table stored as fp16 or bf16 is rounded by less (bf16: 2⁻⁹)
LARGEST = 2**31  # of whole numbers: beyond any size, and what computing with sizes can still bear
COMPARED = 2**20  # numbers at a time


class Converted(NamedTuple):
    """What a foreign checkpoint says, in our terms. `tensors`, by the names of `Transformer.state_dict()`, are arrays of
    whatever float type is stored, views onto the file where that can be: nothing is read before it is used. `notes` say
    which settings of its search would change an output and are not among ours; `forced` is the piece that the decoder is fed
    after its start, if the settings say one."""

    model: ModelConfig
    special: SpecialIds
    generation: GenerationConfig
    tensors: dict[str, Stored]
    notes: tuple[str, ...] = ()
    forced: int | None = None


def convert_folder(path: str | os.PathLike[str]) -> Converted:
    """Opens a folder in the format of Hugging Face: config.json, and the weights as safetensors or PyTorch files.

    As the reference implementation does, settings of the search are taken from generation_config.json where there is one,
    else from config.json; special pieces of the one go before those of the other. Raises CheckpointError, one line with the
    file and what is wrong, for a family that is not known too.
    """
    folder = Path(path)
    family, values, search = _facts(folder)
    tensors = read_tensors(folder)
    try:
        return convert_tensors(family, values, tensors, search)
    except CheckpointError as error:
        raise CheckpointError(f"{folder}: {error}") from error


def search_for(path: str | os.PathLike[str], task: str, found: Converted) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The settings of the search, fields of GenerationConfig, that the folder has for a task of "task_specific_params" and
    that are others than those it was `found` to have; and what is to be said of them. Raises CheckpointError."""
    folder = Path(path)
    _, values, search = _facts(folder)
    stated = values.get("task_specific_params")
    own = stated.get(task) if isinstance(stated, dict) else None
    if not isinstance(own, dict):
        return {}, ()
    settings = {**(values if search is None else search)}
    for keys in GENERATION.values():  # one of two keys for the same replaces the other
        settings |= {key: None for key in keys if any(own.get(k) is not None for k in keys)}
    where = f"{CONFIG}: task_specific_params: {task}"
    try:
        generation = _generation_config(settings | own, where, found.special, found.model.tgt_vocab_size)
    except CheckpointError as error:
        raise CheckpointError(f"{folder}: {error}") from error
    theirs, ours = dataclasses.asdict(generation), dataclasses.asdict(found.generation)
    return {name: value for name, value in theirs.items() if value != ours[name]}, _not_followed(own, where)


def _facts(folder: Path) -> tuple[Family, dict[str, Any], dict[str, Any] | None]:
    """The family that this is of, and what config.json and, if it is there, generation_config.json say."""
    values = read_object(folder / CONFIG)
    kind = values.get("model_type")
    family = FAMILIES.get(kind) if isinstance(kind, str) else None
    if family is None:
        why = REFUSED.get(kind) if isinstance(kind, str) else None
        known = f"cannot be converted: {why}" if why else f"is not known (known: {', '.join(FAMILIES)})"
        raise CheckpointError(f"{folder / CONFIG}: model_type {_short(kind)} {known}")
    return family, values, read_object(folder / SEARCH) if (folder / SEARCH).is_file() else None


def convert_tensors(
    family: Family,
    config_json: Mapping[str, Any],
    tensors: Mapping[str, Stored],
    search_json: Mapping[str, Any] | None = None,
) -> Converted:
    """Converts a checkpoint of `family`, given its tensors under their own names, its parsed config.json and, if there is
    one, generation_config.json.

    Raises CheckpointError, naming the key or tensor at fault.
    """
    if family.prefix and not any(name.startswith(family.prefix) for name in tensors):
        tensors = {family.prefix + name: tensor for name, tensor in tensors.items()}
    model = _model_config(family, config_json, tensors)
    settings, where = (config_json, CONFIG) if search_json is None else (search_json, SEARCH)
    special = _special_ids(family, config_json, search_json or {}, min(model.src_vocab_size, model.tgt_vocab_size))
    generation = _generation_config(settings, where, special, model.tgt_vocab_size)
    # A layer has several tensors: more layers than tensors are a damaged number, not a list to be written out.
    n_layers = model.n_encoder_layers + model.n_decoder_layers
    if n_layers > len(tensors):
        raise CheckpointError(f"{CONFIG} says {n_layers} layers, but there are only {len(tensors)} tensors")

    copies = _copies(family, model)
    wanted = {
        _their_name(family, model, ours): (ours, shape)
        for ours, shape in tensor_shapes(model).items()
        if ours not in copies
    }
    missing = [name for name in wanted if name not in tensors]
    missing += [" or ".join(names) for names, _ in copies.values() if not any(name in tensors for name in names)]
    if missing:
        raise CheckpointError(f"tensors missing: {_some(missing)}")
    known = {*wanted, *family.sinusoids, *family.unused, *(name for names, _ in copies.values() for name in names)}
    unexpected = [name for name in tensors if name not in known]
    if unexpected:
        raise CheckpointError(f"tensors unexpected: {_some(unexpected)}")

    ours: dict[str, Stored] = {}
    for our_name, (names, shape) in copies.items():
        first, *others = (name for name in names if name in tensors)
        ours[our_name] = _checked(first, tensors[first], shape)
        for name in others:
            if not _same(ours[our_name], _checked(name, tensors[name], shape)):
                raise CheckpointError(f"tensors {first} and {name} differ, but {CONFIG} says that they are tied")
    for name, (our_name, shape) in wanted.items():
        stored = _checked(name, tensors[name], (1, *shape) if name in family.rows else shape)
        ours[our_name] = stored.reshape(*shape)
    _check_sinusoids(family, model, tensors)
    forced = _piece(settings.get(FORCED_FIRST), f"{where}: {FORCED_FIRST}", model.tgt_vocab_size, needed=False)
    notes = _not_followed(settings, where) + _other_ends(family, config_json, search_json or {})
    return Converted(model, special, generation, ours, notes, forced)


# --- facts ---


def _model_config(family: Family, values: Mapping[str, Any], tensors: Mapping[str, Stored]) -> ModelConfig:
    for key, only in family.fixed.items():
        if values.get(key) not in (None, only):
            raise CheckpointError(f"{CONFIG}: {key} is {_short(values[key])}; only {only!r} can be converted")
    for one, other in family.equal:
        if values.get(one) != values.get(other):
            raise CheckpointError(
                f"{CONFIG}: {one} ({_short(values.get(one))}) and {other} ({_short(values.get(other))}) must be equal to be"
                " converted"
            )
    defaults = dict(family.fields.values())
    fields = {field: _value(values, key, defaults) for field, (key, _) in family.fields.items()}
    fields = {**family.constants, **fields}
    for key in family.choices:
        fields.update(_choice(family, values, key))
    if family.output_decides and values.get(family.output_decides) is not None:
        fields["tie_output"] = not _has_own_output(family, tensors)
    fields.update((field, False) for name, field in family.optional.items() if name not in tensors)
    try:
        model = ModelConfig(**fields)
        if "d_head" in family.fields:
            return model
        if model.d_model % model.n_heads:
            key = family.fields["n_heads"][0]
            raise CheckpointError(f"{CONFIG}: d_model ({model.d_model}) is not a multiple of {key} ({model.n_heads})")
        return dataclasses.replace(model, d_head=model.d_model // model.n_heads)
    except ConfigError as error:
        raise _naming_the_key(error, {field: key for field, (key, _) in family.fields.items()}, CONFIG) from error


def _has_own_output(family: Family, tensors: Mapping[str, Stored]) -> bool:
    """Whether there is an output layer that is no copy of an embedding."""
    *inputs, output = (tensors.get(name) for name in family.embeddings)
    return output is not None and not any(
        table is not None and table.shape == output.shape and _same(table, output) for table in inputs
    )


def _value(values: Mapping[str, Any], key: str, defaults: Mapping[str, Any]) -> Any:
    """What the configuration says for `key`, or its default, or what it says for the key that the default names."""
    value = values.get(key)
    if value is None:
        value = defaults[key]
        if value is REQUIRED:
            raise CheckpointError(f"{CONFIG} has no {key}")
        if isinstance(value, str) and value.startswith("{"):
            return _value(values, value.strip("{}"), defaults)
    if isinstance(value, int) and abs(value) >= LARGEST:
        raise CheckpointError(f"{CONFIG}: {key} is out of range: {_short(value)}")
    return value


def _choice(family: Family, values: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    default, choices = family.choices[key]
    value = _value(values, key, {key: default})
    if not isinstance(value, str) or value not in choices:
        raise CheckpointError(f"{CONFIG}: {key} {_short(value)} is not one of {', '.join(choices)}")
    fields, implies = choices[value]
    for other, implied in implies.items():
        if values.get(other) not in (None, implied):
            said = _short(values[other])
            raise CheckpointError(f"{CONFIG}: {key} is {value!r}, but {other} is {said} instead of {implied!r}")
    return fields


def _naming_the_key(error: ConfigError, keys: Mapping[str, str], where: str) -> CheckpointError:
    """The error about a field of ours, whose name it begins with, as one about the key that the value is from."""
    field = str(error).split()[0]
    key = f"{keys[field]}: " if keys.get(field, field) != field else ""
    return CheckpointError(f"{where}: {key}{error}")


def _special_ids(
    family: Family, config_json: Mapping[str, Any], search_json: Mapping[str, Any], rows: int
) -> SpecialIds:
    ids: dict[str, Any] = {}
    for field, key in family.special.items():
        where, value = SEARCH, search_json.get(key)
        if value is None:
            where, value = CONFIG, config_json.get(key)
        if field == "eos" and isinstance(value, list) and value:  # of several the first; of the others a note tells
            for other in value:
                _piece(other, f"{where}: {key}", rows, needed=True)
            value = value[0]
        ids[field] = _piece(value, f"{where}: {key}", rows, needed=field in ("pad", "eos", "decoder_start"))
    return SpecialIds(**ids)


def _other_ends(family: Family, config_json: Mapping[str, Any], search_json: Mapping[str, Any]) -> tuple[str, ...]:
    """What is to be said of a list of end pieces: ours is the first."""
    key = family.special["eos"]
    where, value = SEARCH, search_json.get(key)
    if value is None:
        where, value = CONFIG, config_json.get(key)
    if not isinstance(value, list) or len(value) < 2:
        return ()
    return (f"{where}: {key} is {_short(value)}: outputs end with the first of these only",)


def _piece(value: Any, where: str, rows: int, *, needed: bool) -> int | None:
    """The number of a piece, which newer configurations may write as a list of one."""
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if (value is not None or needed) and not (type(value) is int and 0 <= value < rows):
        raise CheckpointError(f"{where} is {_short(value)}, which is not the number of one of {rows} pieces")
    return value


def _generation_config(values: Mapping[str, Any], where: str, special: SpecialIds, rows: int) -> GenerationConfig:
    """The settings of the search as the reference implementation understands them. `where` is what errors begin with."""
    # Their lengths count the pieces that the decoder is fed first: the start and, in some models, a forced one.
    n_first = 2 if values.get(FORCED_FIRST) is not None else 1
    found: dict[str, Any] = {"early_stopping": False, "renormalize": False}  # where nothing is said of it
    stated: dict[str, str] = {}  # field → the key that says it
    for field, keys in GENERATION.items():
        for key in (key for key in keys if values.get(key) is not None):
            value = _setting(field, values[key], f"{where}: {key}", special, rows)
            if key.endswith("_new_tokens"):  # these do not count the start
                value += 1
            found[field] = (*found.get(field, ()), *value) if isinstance(value, tuple) else value
            stated[field] = key
    if "max_length" in found:  # the limit, however long the source is
        # A forced end piece is the last that there is room for.
        most = found["max_length"] - n_first - (values.get(FORCED_LAST) is not None)
        if most < 1:
            key = stated["max_length"]
            raise CheckpointError(f"{where}: {key} is {values[key]}, which leaves no room for an output")
        found |= {"max_length": most, "max_length_factor": 0.0, "max_length_constant": max(most, 1)}
    if found.get("min_length", 0) > 0:
        found["min_length"] = max(0, found["min_length"] - n_first)
    try:
        return GenerationConfig(**found)
    except ConfigError as error:
        raise _naming_the_key(error, stated, where) from error


def _setting(field: str, value: Any, where: str, special: SpecialIds, rows: int) -> Any:
    """The value of one setting, if it is of the kind that it must be."""
    if field in ("suppress", "suppress_first"):
        return _suppressed(value, where, special, rows)
    default = {f.name: f.default for f in dataclasses.fields(GenerationConfig)}[field]
    if isinstance(default, bool):
        if type(value) is not bool and (field, value) != ("early_stopping", "never"):
            or_never = ', false or "never"' if field == "early_stopping" else " or false"
            raise CheckpointError(f"{where} is {_short(value)}, not true{or_never}")
        return value
    right = (int, float) if isinstance(default, float) else (int,)
    if type(value) not in right or not math.isfinite(value) or abs(value) >= LARGEST:
        raise CheckpointError(f"{where} is {_short(value)}, which is no number that it can be")
    return value


def _suppressed(words: Any, where: str, special: SpecialIds, rows: int) -> tuple[int, ...]:
    """Ids, each alone or as a word of one piece; of words of several a note tells (see _not_followed)."""
    if not isinstance(words, list):
        raise CheckpointError(f"{where} is {_short(words)}, which is no list of pieces")
    spelt = [word if isinstance(word, list) else [word] for word in words]
    if not all(word and all(type(id_) is int and 0 <= id_ < rows for id_ in word) for word in spelt):
        raise CheckpointError(f"{where} has {_short(words)}, which are not the numbers of pieces (0 to {rows - 1})")
    return tuple(word[0] for word in spelt if len(word) == 1 and word[0] != special.pad)  # padding never is produced


def _not_followed(values: Mapping[str, Any], where: str) -> tuple[str, ...]:
    """What is to be said of settings that would change an output and are not among ours."""
    changed = [key for key, neutral in NOT_FOLLOWED.items() if values.get(key) not in (None, neutral, [], {})]
    words = values.get("bad_words_ids")
    if isinstance(words, list) and any(isinstance(word, list) and len(word) > 1 for word in words):
        changed.append("bad_words_ids of several pieces")
    return (f"{where}: tx does not follow {', '.join(changed)}, which may change outputs",) if changed else ()


# --- names ---


def _their_name(family: Family, model: ModelConfig, name: str) -> str:
    """ "encoder.layers.0.ffn.w_1.bias" → "model.encoder.layers.0.fc1.bias", by the family's tables."""
    module, dot, part = name.rpartition(".")
    if not dot:
        return family.tensors[part]
    stack, _, rest = module.partition(".")
    if not rest.startswith("layers."):
        return family.tensors[rest].format(stack=stack) + f".{part}"
    _, layer, rest = rest.split(".", 2)
    modules = {**family.modules, **(family.gated if model.gated_ffn else {})}
    theirs = modules.get(f"{stack}.{rest}") or modules[rest]
    return family.layer.format(stack=stack, layer=layer) + f"{theirs}.{part}"


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


def _same(one: Stored, other: Stored) -> bool:
    """Whether two tensors of the same shape hold the same numbers, without a look where they are the same memory."""
    a, b = (x.bits if isinstance(x, BFloat16) else x for x in (one, other))
    if a.__array_interface__ == b.__array_interface__:
        return True
    step = max(1, COMPARED // max(1, math.prod(a.shape[1:])))
    return all(np.array_equal(one[i : i + step], other[i : i + step]) for i in range(0, len(a), step))


def _check_sinusoids(family: Family, model: ModelConfig, tensors: Mapping[str, Stored]) -> None:
    """Tables of positions are computed, not converted; one that holds anything else is of another architecture. Of rows
    before the first position nothing is said."""
    offset = model.position_offset
    for name in family.sinusoids:
        if name in tensors:
            found = _checked(name, tensors[name], (model.max_positions + offset, model.d_model))
            expected = sinusoids(len(found), model.d_model, model.sinusoid_layout)
            if not np.allclose(found[offset:], expected[offset:], rtol=0, atol=TABLE_TOLERANCE):
                raise CheckpointError(f"tensor {name} does not hold the sinusoids of layout {model.sinusoid_layout!r}")


def _checked(name: str, tensor: Stored, shape: tuple[int, ...]) -> Stored:
    """The tensor, if it has this shape and a float type."""
    if tuple(tensor.shape) != shape:
        found, expected = ("×".join(map(str, sizes)) or "scalar" for sizes in (tensor.shape, shape))
        raise CheckpointError(f"tensor {name} has shape {found}, but {CONFIG} says {expected}")
    if not np.issubdtype(tensor.dtype, np.floating):
        raise CheckpointError(f"tensor {name} is {tensor.dtype}, not floating point")
    return tensor


def _some(names: list[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(name if name.isprintable() else repr(name) for name in (n[:200] for n in names[:3])) + more


def _short(value: Any) -> str:
    """A value of unknown length for a message of one line."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
