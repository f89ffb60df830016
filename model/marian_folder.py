"""Folders of Marian models as Firefox, Bergamot and OPUS ship them: which files they are, and what their names say.

    config.*.yml   names of the other files, limits of the search      model.*.bin   weights (see `marian_weights`)
    vocab.*.spm    the vocabulary (srcvocab, trgvocab: one each)       lex.*.bin     a shortlist (see `shortlist`)

Only the weights and a vocabulary must be there. The names in a configuration are looked for in the same folder and
nowhere else.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from .config import GenerationConfig, ModelConfig
from .errors import CheckpointError, ConfigError
from .marian_weights import Array, is_weights, read_weights
from .marian_yaml import Values, number, read_yaml, whole

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
    input_limits: dict[str, float]  # see MarianWeights


# --- which files ---


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
    weights = read_weights(path)
    vocabularies = _vocabularies(folder, config)
    if vocabularies[0] != vocabularies[1] and weights.config.share_embeddings:
        raise CheckpointError(f"{folder} has two vocabularies, but {path.name} has one table for both")
    return MarianFolder(
        folder,
        path,
        weights.config,
        _generation(config, config_path or path),
        weights.tensors,
        vocabularies,
        _shortlist(folder, config),
        _languages(folder, [path.name, *(p.name for p in vocabularies)]),
        weights.input_limits,
    )


def _configuration(folder: Path, wanted: str | None, models: Sequence[str]) -> tuple[Path | None, Values]:
    """The configuration that names the wanted file of weights, or one of those that are there; else one that names none.
    Where there is none of these, raises CheckpointError for one that cannot be read, or that names other files."""
    others: list[tuple[Path | None, Values]] = []
    faults = []
    for path in sorted(p for ending in ("*.yml", "*.yaml") for p in folder.glob(ending)):
        try:
            values = read_yaml(path)
        except CheckpointError as error:
            faults.append(error)
            continue
        named = _names(values, "models")
        if any(name == wanted or (wanted is None and name in models) for name in named):
            return path, values
        if not named and "vocabs" in values:
            others.append((path, values))
        elif named and wanted is None:
            faults.append(CheckpointError(f"{path} names the weights {named[0]}, which are not in its folder"))
    if faults and not others:
        raise faults[0]
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


def _names(config: Values, key: str) -> list[str]:
    """The file names of a list, or of one value, without any folder."""
    value = config.get(key, [])
    names = [re.split(r"[/\\]", item)[-1] for item in ([value] if isinstance(value, str) else value)]
    return [name for name in names if name not in ("", ".", "..")]


def _generation(config: Values, path: Path) -> GenerationConfig:
    """The limits of the search. Room is given to short texts beside what `max-length-factor` gives: Marian bounds a
    batch by its longest text."""
    try:
        return GenerationConfig(
            beam_size=whole(config, "beam-size", 1, path),
            length_penalty=number(config, "normalize", 1.0, path),
            max_length_factor=number(config, "max-length-factor", 3.0, path),
        )
    except ConfigError as error:
        raise CheckpointError(f"{path}: {error}") from error
