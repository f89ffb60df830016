"""Models from a hub, fetched only when asked for. Needs the package huggingface_hub (the extra `hub`), which brings its
settings: HF_ENDPOINT (which hub), HF_HUB_OFFLINE, HF_TOKEN, HF_HOME (the cache there is read, not written).

A model appears under its name only when every file of it has arrived with the size and the checksum that the hub states.
Until then everything is in a hidden folder beside it, and a pull that was cut short goes on from there:

    owner/.name.part/config.json        whole and checked
    owner/.name.part/<checksum>.part    a file's beginning
    owner/name/pulled.json              once whole: the revision, sizes and checksums
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .errors import CheckpointError, TxError, UsageError
from .families import FAMILIES
from .hub_client import Client, writing
from .places import models_folder
from .pulled import CONFIG, RECORD, Remote, is_file, read_record

NAME = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?", re.ASCII)


@dataclass(frozen=True)
class Pulled:
    """A model that is there. `new` says whether anything had to be done for it."""

    path: Path
    revision: str  # the commit
    size: int  # bytes
    new: bool


def pull(repo: str, revision: str | None = None) -> Pulled:
    """Fetches the model `repo` ("owner/name") into the user's models, or finds it there, unchanged, already.

    `revision` is a branch, a tag or a commit. Progress is shown on the standard error if that is a terminal. With
    HF_HUB_OFFLINE what the hub's cache on this machine has is taken. Raises UsageError for what cannot be a name, TxError,
    one line, for everything else that goes wrong; what had arrived by then is kept for the next time.
    """
    if not NAME.fullmatch(repo) or ".." in repo:
        raise UsageError(f"{repo!r} is not the name of a model on a hub: give OWNER/NAME")
    client = Client(repo, revision)
    from huggingface_hub.utils import WeakFileLock

    locks = models_folder() / ".locks"
    with writing(locks):
        locks.mkdir(parents=True, exist_ok=True)
    with WeakFileLock(locks / f"{repo.replace('/', '--')}.lock"):  # a second pull of the same model waits, and finds it
        return _pull(client)


def _pull(client: Client) -> Pulled:
    path = models_folder() / client.repo
    if os.path.lexists(path) and not (path / RECORD).is_file():
        raise TxError(f"{path} is there already and was not pulled: move it away first")
    if client.offline():
        known = read_record(path)
        if known is not None and client.revision in (None, known[0]):
            return Pulled(path, known[0], sum(file.size for file in known[1]), new=False)
        commit, files = client.cached_files()
    else:
        commit, files = client.files()
    size = sum(file.size for file in files)
    if _is_there(path, commit, files):
        return Pulled(path, commit, size, new=False)
    try:
        with writing(path):
            _replace(path, _stage(client, path, commit, files))
    finally:
        with contextlib.suppress(OSError):
            path.parent.rmdir()  # of an owner of nothing
    return Pulled(path, commit, size, new=True)


def _is_there(path: Path, commit: str, files: Sequence[Remote]) -> bool:
    """By revision and sizes; checksums are for `tx models check`."""
    with contextlib.suppress(CheckpointError, OSError):
        same = read_record(path) == (commit, files)
        return same and all((path / file.name).stat().st_size == file.size for file in files)
    return False


def _stage(client: Client, path: Path, commit: str, files: Sequence[Remote]) -> Path:
    """A folder with all the files and their record, and nothing else."""
    staging = path.with_name(f".{path.name}.part")
    if staging.is_symlink():
        staging.unlink()
    staging.mkdir(parents=True, exist_ok=True)
    _check_space(staging, client.repo, sum(file.size for file in files))
    names = {file.name for file in files}
    for file in sorted(files, key=lambda file: file.size):
        _fetch(client, file, path, staging, commit)
        try:
            if file.name == CONFIG:
                _check_kind(client.repo, staging / CONFIG)
            elif file.name.endswith(".index.json"):
                _check_index(client.repo, staging / file.name, names)
        except CheckpointError:  # trying again will not help
            shutil.rmtree(staging, ignore_errors=True)
            raise
    for entry in staging.iterdir():
        if entry.name not in names:
            entry.unlink()  # the beginning of a file of another revision
    record = {file.name: {"bytes": file.size, "digest": file.digest} for file in files}
    values = {"id": client.repo, "revision": commit, "files": record}
    with (staging / RECORD).open("x", encoding="utf-8") as stream:
        stream.write(json.dumps(values, indent=2) + "\n")
        stream.flush()
        os.fsync(stream.fileno())
    return staging


def _check_space(staging: Path, repo: str, size: int) -> None:
    missing = size - sum(entry.lstat().st_size for entry in staging.iterdir())
    free = shutil.disk_usage(staging).free
    if missing > free:
        needs = f"it needs {missing / 1e6:,.0f} MB more, and {free / 1e6:,.0f} MB are free"
        raise TxError(f"no space for {repo} in {models_folder()}: {needs}")


def _fetch(client: Client, file: Remote, path: Path, staging: Path, commit: str) -> None:
    """Puts the whole file, checked, into the staging folder: from this machine if it is here."""
    whole, part = staging / file.name, staging / f"{file.digest}.part"
    if not whole.is_symlink() and is_file(whole, file):
        return
    whole.unlink(missing_ok=True)
    for here in (path / file.name, client.in_cache(file.name, commit)):
        if here is not None and is_file(here, file):
            part.unlink(missing_ok=True)
            shutil.copyfile(here, part)
            break
    else:
        client.download(file, part)
    os.replace(part, whole)


def _check_kind(repo: str, path: Path) -> None:
    """Before gigabytes of weights are fetched: whether they are of a kind that is known."""
    values = _read_json(repo, path)
    kind = values.get("model_type")
    if kind not in FAMILIES and "format" not in values:  # the latter: our own
        raise CheckpointError(f"{repo} is a model of type {kind!r}, not of one that tx reads: {', '.join(FAMILIES)}")


def _check_index(repo: str, path: Path, names: Collection[str]) -> None:
    parts = _read_json(repo, path).get("weight_map")
    if not isinstance(parts, dict) or not parts:
        raise CheckpointError(f"{repo}: {path.name} names no files")
    missing = sorted({str(part) for part in parts.values()} - set(names))
    if missing:
        raise CheckpointError(f"{repo} lacks {missing[0]!r}, a file that its {path.name} names")


def _read_json(repo: str, path: Path) -> dict[str, Any]:
    try:
        values = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, dict):
        raise CheckpointError(f"{repo}: {path.name} is not a JSON object")
    return values


def _replace(path: Path, new: Path) -> None:
    """Puts the folder `new` in the place of `path`; an older one is removed only once the new one is there."""
    old = path.with_name(f".{path.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if path.exists():
        path.rename(old)
    new.rename(path)
    shutil.rmtree(old, ignore_errors=True)
