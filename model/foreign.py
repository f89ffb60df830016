"""Checkpoints in formats that are not ours: what is in a folder, and reading it as if it were one of ours.

A folder of Hugging Face has a config.json with a `model_type` (see `families`); one of Marian, Firefox or Bergamot has
its weights in a file *.bin (see `marian_folder`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from .config import AllPairs, CheckpointConfig, SpecialIds, Task, read_object
from .errors import CheckpointError

if TYPE_CHECKING:
    from .config import GenerationConfig
    from .convert import Converted
    from .foreign_tokenizer import LibraryTokenizer

CONFIG = "config.json"
OF_HUGGING_FACE = ("generation_config.json", "tokenizer_config.json", "source.spm", "spiece.model", "sentencepiece.bpe.model",
                   "vocab.json", "merges.txt", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json",
                   "tf_model.h5")  # fmt: skip


class Foreign(NamedTuple):
    """What a folder holds, in our terms. The tokenizers are the same object where there is one vocabulary."""

    folder: Path
    config: CheckpointConfig
    tokenizer: LibraryTokenizer
    target_tokenizer: LibraryTokenizer
    tensors: Mapping[str, Any]
    shortlist: Path | None
    notes: tuple[str, ...] = ()  # what a user should know
    input_limits: Mapping[str, float] = {}  # of linear layers, for int8 (see module precision)


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


def what_is_missing(folder: Path, names: Collection[str]) -> str | None:
    """Of a folder that `is_foreign` does not know, and what it has: the kind of model that it seems to be, and what it lacks
    of that; None if nothing tells."""
    endings = {name[name.rfind(".") :] for name in names}
    if CONFIG in names:
        if "format" in _config(folder) or "manifest.json" in names:
            return None
        return f"{folder / CONFIG} does not say a model_type, so it is not known what model this is"
    signs = [name for name in OF_HUGGING_FACE if name in names]
    if signs:
        return f"{folder} looks like a folder of Hugging Face, for it has {signs[0]}, but {CONFIG} is missing"
    signs = sorted(n for n in names if n.endswith((".yml", ".yaml")) or (n.startswith("vocab") and n.endswith(".spm")))
    if signs and ".bin" not in endings:
        return (
            f"{folder} looks like a folder of Marian, for it has {signs[0]}, but its weights, model.*.bin, are missing"
        )
    return None


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
    try:
        return read_object(path)
    except CheckpointError:
        return {}  # what is wrong with it is said where the path is read as one of ours


def _read_huggingface(folder: Path) -> Foreign:
    import dataclasses

    from . import languages
    from .convert import convert_folder
    from .foreign_tokenizer import read_tokenizers

    values = _config(folder)
    model_type = str(values["model_type"])
    found = convert_folder(folder)
    tokenizers = read_tokenizers(folder, model_type)
    tasks = languages.tasks(folder, model_type, tokenizers, values)
    generation, summary, more = _searches(folder, values, found)
    notes = found.notes + more
    if model_type == "mt5" and not languages.prefixes(values):
        notes += (f"{CONFIG}: no task is named, so it is taken for a summarizer: texts are given to it as they are",)
    if found.forced is not None and not isinstance(tasks, AllPairs):
        fed = (found.special.decoder_start, found.forced)
        tasks = {name: dataclasses.replace(t, tgt_prefix=t.tgt_prefix or fed) for name, t in tasks.items()}
    if "summarize" in tasks:
        tasks = {**tasks, "summarize": dataclasses.replace(tasks["summarize"], search=summary)}
    if isinstance(tasks, AllPairs) and tasks.start and found.forced is None and not generation.max_length_factor:
        # Their lengths count the piece of the language, which comes after the start, too.
        most, least = max(1, generation.max_length - 1), max(0, generation.min_length - 1)
        generation = dataclasses.replace(generation, max_length=most, max_length_constant=most, min_length=least)
    config = CheckpointConfig(found.model, found.special, generation, tasks, folder.resolve().name)
    return Foreign(folder, config, *tokenizers, found.tensors, None, tuple(str(folder / note) for note in notes))


def _searches(
    folder: Path, values: Mapping[str, Any], found: Converted
) -> tuple[GenerationConfig, Mapping[str, Any], tuple[str, ...]]:
    """The settings of the search for translations, which are those that the folder states for their tasks if they agree; the
    fields that are others for summaries; and what is to be said of them."""
    import dataclasses

    from . import languages
    from .convert import search_for

    own: list[Mapping[str, Any]] = []
    notes: tuple[str, ...] = ()
    for name in languages.stated_translations(values):
        search, more = search_for(folder, name, found)
        own.append(search)
        notes += more
    generation, summary = found.generation, found.generation
    if own and all(search == own[0] for search in own):
        generation = dataclasses.replace(generation, **own[0])
    elif own:
        notes += (f"{CONFIG}: task_specific_params: translations differ in their search: theirs are not followed",)
    search, more = search_for(folder, "summarization", found)
    theirs = dataclasses.asdict(dataclasses.replace(summary, **search))
    ours = dataclasses.asdict(generation)
    return generation, {name: value for name, value in theirs.items() if value != ours[name]}, notes + more


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
    return Foreign(
        found.folder,
        config,
        tokenizer,
        target_tokenizer,
        found.tensors,
        found.shortlist,
        input_limits=found.input_limits,
    )
