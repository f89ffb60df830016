"""Checkpoints in formats that are not ours: what is in a folder, and reading it as if it were one of ours.

A folder of Hugging Face has a config.json with a `model_type` (see `families`); one of Marian, Firefox or Bergamot has
its weights in a file *.bin (see `marian_folder`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from .config import CheckpointConfig, SpecialIds, Task
from .errors import CheckpointError

if TYPE_CHECKING:
    from .foreign_tokenizer import LibraryTokenizer

CONFIG = "config.json"
MAX_CONFIG_BYTES = 10_000_000


class Foreign(NamedTuple):
    """What a folder holds, in our terms. The tokenizers are the same object where there is one vocabulary."""

    folder: Path
    config: CheckpointConfig
    tokenizer: LibraryTokenizer
    target_tokenizer: LibraryTokenizer
    tensors: Mapping[str, Any]
    shortlist: Path | None


def is_foreign(path: Path) -> bool:
    """Whether the path is a folder, or a file of weights in one, in a format that `read_foreign` knows."""
    try:
        if path.is_dir():
            return "model_type" in _config(path) or bool(_weight_files(path))
        return path.is_file() and path.suffix == ".bin" and _is_weights(path)
    except OSError:
        return False  # what the system says will be said where the path is read as one of ours


def read_foreign(path: Path) -> Foreign:
    """Reads the folder. Raises CheckpointError, one line with the file and what is wrong."""
    return _read_huggingface(path) if path.is_dir() and "model_type" in _config(path) else _read_marian(path)


def _weight_files(folder: Path) -> list[Path]:
    if not any(folder.glob("*.bin")):  # before NumPy is imported
        return []
    from .marian_folder import weight_files

    return weight_files(folder)


def _is_weights(path: Path) -> bool:
    from .marian_weights import is_weights

    return is_weights(path)


def _config(folder: Path) -> dict[str, Any]:
    """The folder's config.json, {} if there is none or it is no JSON object."""
    path = folder / CONFIG
    if not path.is_file():
        return {}
    with path.open("rb") as file:
        content = file.read(MAX_CONFIG_BYTES + 1)
    if len(content) > MAX_CONFIG_BYTES:
        return {}
    try:
        values = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    return values if isinstance(values, dict) else {}


def _read_huggingface(folder: Path) -> Foreign:
    import dataclasses

    from . import languages
    from .convert import convert_folder, search_for
    from .foreign_tokenizer import read_tokenizers

    values = _config(folder)
    model_type = str(values["model_type"])
    found = convert_folder(folder)
    tokenizers = read_tokenizers(folder, model_type)
    tasks = languages.tasks(folder, model_type, tokenizers, values)
    if "summarize" in tasks:
        summarize = dataclasses.replace(tasks["summarize"], search=search_for(folder, "summarization", found))
        tasks = {**tasks, "summarize": summarize}
    config = CheckpointConfig(found.model, found.special, found.generation, tasks, folder.resolve().name)
    return Foreign(folder, config, *tokenizers, found.tensors, None)


def _read_marian(path: Path) -> Foreign:
    import dataclasses

    from .foreign_tokenizer import LibraryTokenizer
    from .marian_folder import read_marian_folder
    from .sentencepiece_model import read

    found = read_marian_folder(path)
    source, target = found.vocabularies
    tokenizer = LibraryTokenizer(read(source).to_tokenizers_json())
    target_tokenizer = tokenizer if target == source else LibraryTokenizer(read(target).to_tokenizers_json())
    try:
        eos, unk = target_tokenizer.id("</s>"), target_tokenizer.id("<unk>")
        same = tokenizer.id("</s>") == eos
    except KeyError as error:
        raise CheckpointError(f"{target} has no piece {error}: it is no vocabulary of a Marian model") from None
    if not same:
        raise CheckpointError(f"{source} and {target} number the piece </s> differently")
    from_, to = found.languages
    config = CheckpointConfig(
        found.model,
        SpecialIds(pad=eos, eos=eos, decoder_start=found.model.tgt_vocab_size - 1, unk=unk),
        # Marian writes no <unk> unless it is told to.
        dataclasses.replace(found.generation, suppress=(unk,)),
        {f"translate:{to}": Task(source=from_, target=to)},
        found.folder.resolve().name,
    )
    return Foreign(found.folder, config, tokenizer, target_tokenizer, found.tensors, found.shortlist)
