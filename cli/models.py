"""`tx models`: which models there are, what they are; others made ours, or fetched. model_check.py tries them out."""

from __future__ import annotations

import gc
import itertools
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..model.config import Task
from ..model.errors import TxError, UsageError
from .commands import refuse_empty
from .model_words import Rows, abilities, architecture, megabytes, millions, paragraph, parts, plain
from .text_io import ExitStatus, Output, complain

if TYPE_CHECKING:
    from ..model.checkpoint import Checkpoint
    from ..model.runtime import Runtime

CARD_BYTES = 1 << 20
MOST_PAIRS = 100  # that are written out in --json


def list_models(*, as_json: bool) -> ExitStatus:
    """All models that a name stands for, the damaged ones too."""
    found = named()
    with Output(None) as out:
        for name, path in found.items():
            record, tasks = _record(name, path)
            out.write(_as_json(record) if as_json else _listed(record, tasks))
    if not found:
        complain("no models are installed", kind="note")
    return ExitStatus.OK


def info(model: str, *, as_json: bool) -> ExitStatus:
    """What a model is, in the words of "Attention Is All You Need"."""
    checkpoint = _load(model)
    config = checkpoint.config.model
    record = {
        **_facts(name_of(model, checkpoint.path), checkpoint.path, checkpoint),
        "parts": parts(config),
        "fp32_bytes": 4 * sum(parts(config).values()),
        "sha256": _sha256(checkpoint),
        "configuration": checkpoint.config.to_json()["model"],
        "notes": list(checkpoint.notes),
    }
    with Output(None) as out:
        out.write(_as_json(record) if as_json else _described(record, checkpoint))
    return ExitStatus.OK


def convert(source: str, target: str) -> ExitStatus:
    """A foreign checkpoint in our own format."""
    _refuse_blank("SRC", source)
    _refuse_blank("DST", target)
    if os.path.lexists(target):
        raise TxError(f"{target} is there already: choose another place, or remove it first")
    checkpoint = _load(source)
    if (checkpoint.path / "manifest.json").is_file():
        raise TxError(f"{checkpoint.path} is in the format of tx already: copy the folder")
    from ..model.checkpoint import save_foreign

    gc.enable()
    save_foreign(checkpoint, target)
    for note in checkpoint.notes:
        complain(note, kind="note")
    saved = _load(target)
    with Output(None) as out:
        n_values = sum(parts(saved.config.model).values())
        out.write(f"{target}: {millions(n_values)} parameters, {megabytes(_size(Path(target)))}\n")
    return ExitStatus.OK


def pull(repo: str, *, revision: str | None) -> ExitStatus:
    """A model from a hub, on the user's disk."""
    refuse_empty(revision=revision)
    from ..model.hub import pull

    gc.enable()
    with Output(None) as out:
        done = pull(repo, revision)
        out.write(f"{repo}: {megabytes(done.size) if done.new else 'there already,'} in {done.path}\n")
    return ExitStatus.OK


# --- which ---


def named() -> dict[str, Path]:
    """Models by name: those that came with tx, then the user's own; of two of a name the first is meant."""
    from ..model.checkpoint import WEIGHTS_DIR, installed_models
    from ..model.places import user_models

    own = {name: WEIGHTS_DIR / name for name in installed_models()}
    return own | {name: path for name, path in user_models().items() if name not in own}


def open_model(model: str) -> Runtime:
    """The model of a name or a path, computed with by NumPy."""
    from ..model.runtime import Runtime

    _refuse_blank("NAME|PATH", model)
    return Runtime(model, engine="numpy")


def _load(model: str) -> Checkpoint:
    checkpoint = open_model(model).checkpoint
    checkpoint.verify()
    return checkpoint


def _refuse_blank(name: str, value: str) -> None:
    if not value:
        raise UsageError(f"{name} is empty")


def name_of(model: str, path: Path) -> str:
    """What to call it."""
    return model if model in named() else path.name


# --- what ---


def _record(name: str, path: Path) -> tuple[dict[str, Any], Mapping[str, Task]]:
    """What `list` says of a model, and its tasks; with "damaged", and without what could not be read, if it cannot be loaded."""
    try:
        checkpoint = _load(str(path))
        return _facts(name, path, checkpoint), checkpoint.config.tasks
    except TxError as error:
        damage = str(error)
    except Exception as error:  # whatever a foreign file may do to those who read it
        damage = f"unexpected {type(error).__name__}: {error}"
    return {"name": name, "path": str(path), "origin": _origin(path), "bytes": _size(path), "damaged": damage}, {}


def _facts(name: str, path: Path, checkpoint: Checkpoint) -> dict[str, Any]:
    tasks = checkpoint.config.tasks
    pairs = [(task.source, task.target) for key, task in tasks.items() if key.startswith("translate:")]
    return {
        "name": name,
        "path": str(path),
        "origin": _origin(path),
        "tasks": list(dict.fromkeys(key.split(":")[0] for key in tasks)),
        "languages": sorted({language for pair in pairs for language in pair if language}),
        "pairs": pairs if len(pairs) <= MOST_PAIRS else [],  # else all of them, of some 200 languages
        "parameters": sum(parts(checkpoint.config.model).values()),
        "bytes": _size(path),
        "licence": _licence(path),
    }


def _origin(path: Path) -> str:
    """Where a model is from, as far as its folder says."""
    from ..model.checkpoint import WEIGHTS_DIR
    from ..model.pulled import RECORD

    return "tx" if path.parent == WEIGHTS_DIR else "pulled" if (path / RECORD).is_file() else "own"


def _size(path: Path) -> int:
    """Bytes of the files in a folder."""
    return sum(entry.stat().st_size for entry in _files(path))


def _files(path: Path) -> list[Path]:
    folder = path if path.is_dir() else path.parent
    return sorted(entry for entry in folder.iterdir() if entry.is_file() and not entry.name.startswith("."))


def _licence(path: Path) -> str | None:
    """What the card says: in the row "licence" of a table of ours, or in the front matter of a hub's card."""
    try:
        with (path / "README.md").open(encoding="utf-8", errors="replace") as file:
            lines = file.read(CARD_BYTES).splitlines()
    except OSError:
        return None
    front_matter = lines[1 : lines.index("---", 1)] if lines[:1] == ["---"] and "---" in lines[1:] else []
    for i, line in enumerate(front_matter):
        if line.startswith("license:"):
            entries = itertools.takewhile(lambda entry: entry.lstrip().startswith("- "), front_matter[i + 1 :])
            values = [line.removeprefix("license:"), *(entry.lstrip()[2:] for entry in entries)]
            return plain(", ".join(value.strip(" \"'[]") for value in values if value.strip())) or None
    for line in lines:
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) == 2 and cells[0].lower() in ("licence", "license"):
            return plain(cells[1]) or None
    return None


def _sha256(checkpoint: Checkpoint) -> dict[str, str]:
    """Of each file of weights: from the manifest, else computed."""
    if checkpoint.sha256:
        return {"model.safetensors": checkpoint.sha256}
    import hashlib

    found = {}
    for path in _files(checkpoint.path):
        if path.suffix in (".safetensors", ".bin") and not path.name.startswith("lex."):
            digest = hashlib.sha256()
            with path.open("rb") as file:
                while block := file.read(1 << 20):
                    digest.update(block)
            found[path.name] = digest.hexdigest()
    return found


# --- in words ---


def _as_json(record: Mapping[str, Any]) -> str:
    return json.dumps(record, ensure_ascii=False) + "\n"


def _listed(record: Mapping[str, Any], tasks: Mapping[str, Task]) -> str:
    head = [megabytes(record["bytes"]), {"tx": "came with tx"}.get(record["origin"], record["origin"])]
    if "damaged" in record:
        return paragraph(plain(f"{record['name']}: damaged, {', '.join(head)}")) + paragraph(
            plain(record["damaged"]), 2
        )
    head.insert(0, f"{millions(record['parameters'])} parameters")
    return (
        paragraph(plain(f"{record['name']}: {', '.join(head)}"))
        + paragraph(plain(abilities(tasks, most=8)), 2)
        + paragraph(f"licence: {record['licence'] or 'not said in its card'}", 2)
    )


def _described(record: Mapping[str, Any], checkpoint: Checkpoint) -> str:
    n_values = record["parameters"]
    shares = {name: f"{count:>13,}  {100 * count / n_values:3.0f} %" for name, count in record["parts"].items()}
    memory = f"{megabytes(record['fp32_bytes'])} of memory in fp32"
    return (
        f"{plain(record['name'])}: an encoder-decoder Transformer\n"
        + Rows(
            [
                ("does", plain(abilities(checkpoint.config.tasks))),
                ("lies in", plain(record["path"])),
                ("on disk", megabytes(record["bytes"])),
                ("licence", record["licence"] or "not said in its card"),
                *(("sha256", f"{name} {digest}") for name, digest in record["sha256"].items()),
                *(("note", plain(note)) for note in record["notes"]),
            ]
        ).text()
        + "\nArchitecture\n"
        + Rows(architecture(checkpoint.config.model)).text()
        + "\nParameters\n"
        + Rows([*shares.items(), ("together", f"{n_values:>13,}  {memory}")]).text()
    )
