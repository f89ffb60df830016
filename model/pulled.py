"""Which files of a repository are a model, and whether those of a pulled one are what the hub stated. Standard library only."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from .errors import CheckpointError

CONFIG, RECORD = "config.json", "pulled.json"
# What a model may need beside its weights, and what a user may want to read.
SMALL_FILES = {
    *(CONFIG, "generation_config.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"),
    *("tokenizer.json", "target_tokenizer.json", "vocab.json", "target_vocab.json", "merges.txt"),
    *("source.spm", "target.spm", "spiece.model", "sentencepiece.bpe.model", "manifest.json"),
    *("README.md", "LICENSE", "LICENSE.md", "LICENSE.txt"),
}
# The weights: one file, or an index and the parts that it names. Pickles only where there is nothing else.
WEIGHTS = (
    ("model.safetensors", r"model-\d+-of-\d+\.safetensors"),
    ("pytorch_model.bin", r"pytorch_model-\d+-of-\d+\.bin"),
)
MARIAN_FILES = r"config[\w.-]*\.ya?ml|(model|lex)\.[\w.-]+\.bin|vocab[\w.-]*\.spm"  # where there is no config.json
DIGEST = re.compile("[0-9a-f]{40}|[0-9a-f]{64}")  # git's sha1 of a small file, the sha256 of a large one
READ_BYTES = 1 << 20


class Remote(NamedTuple):
    """A file of a repository, as the hub states it: `digest` is of either kind of DIGEST."""

    name: str
    size: int
    digest: str


def read_record(folder: Path) -> tuple[str, list[Remote]] | None:
    """The revision that a folder was pulled from and its files, or None for one that was not pulled. Raises CheckpointError."""
    path = folder / RECORD
    if not path.exists():
        return None
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        files = [Remote(name, int(entry["bytes"]), str(entry["digest"])) for name, entry in values["files"].items()]
        return str(values["revision"]), files
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise CheckpointError(f"{path} is damaged: remove the folder and pull the model again") from None


def check_pulled(folder: Path) -> int | None:
    """How many files of a pulled model were found to be what the hub stated, None for a folder that was not pulled.
    Raises CheckpointError for the first that is not."""
    record = read_record(folder)
    if record is None:
        return None
    for file in record[1]:
        if not is_file(folder / file.name, file):
            raise CheckpointError(
                f"{folder / file.name} is not the file that was pulled: remove the folder and pull again"
            )
    return len(record[1])


def needed(repo: str, names: Collection[str]) -> list[str]:
    """Those of a repository's files that a model needs; weights as safetensors where there are any. Raises CheckpointError
    where there are none that can be read, or where a name leaves the folder."""
    for name in names:
        if ".." in re.split(r"[/\\]", name) or re.match(r"[/\\]|[A-Za-z]:", name):
            raise CheckpointError(f"{repo} lists a file outside of its folder, {name!r}: not pulled")
    chosen = [name for name in names if name in SMALL_FILES]
    if CONFIG not in names:
        marian = [name for name in names if re.fullmatch(MARIAN_FILES, name)]
        if any(name.startswith("model") for name in marian):
            return chosen + marian
        raise CheckpointError(f"{repo} has no {CONFIG}, and no files of Marian: not a model that tx reads")
    for whole, part in WEIGHTS:
        if whole in names:
            return [*chosen, whole]
        if f"{whole}.index.json" in names:
            return [*chosen, f"{whole}.index.json", *(name for name in names if re.fullmatch(part, name))]
    raise CheckpointError(f"{repo} has no weights that tx reads ({' or '.join(whole for whole, _ in WEIGHTS)})")


def is_file(path: Path, file: Remote) -> bool:
    """Whether the file at `path` has the size and the checksum."""
    if not path.is_file() or path.stat().st_size != file.size:
        return False
    if len(file.digest) == 64:
        digest = hashlib.sha256()
    else:
        digest = hashlib.sha1(b"blob %d\0" % file.size, usedforsecurity=False)
    with path.open("rb") as stream:
        while block := stream.read(READ_BYTES):
            digest.update(block)
    return digest.hexdigest() == file.digest
