"""Other translators: which Python has one, and what it is to run so that it does the same work as tx."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import TxError, UsageError
from . import programs
from .child import Child

MODULES = {
    "transformers": ("transformers", "torch", "sentencepiece"),
    "ctranslate2": ("ctranslate2", "transformers", "torch", "sentencepiece"),
    "slimt": ("slimt",),
}
PROGRAMS = {
    "transformers": programs.TRANSFORMERS,
    "ctranslate2": programs.CTRANSLATE2,
    "slimt": programs.SLIMT,
}
HAS = "import sys; from importlib.util import find_spec; sys.exit(any(find_spec(m) is None for m in sys.argv[1:]))"
KINDS = ("int8", "bfloat16", "float32")  # of numbers that CTranslate2 may compute with
SIZES = (32, 64, 128)  # of its batches, of which the best is taken


@dataclass(frozen=True)
class Found:
    """A translator, and a Python that has it."""

    name: str
    python: str


def find(names: Sequence[str], pythons: Sequence[str]) -> list[Found]:
    """Each of the translators with the first Python that can import it: one of `pythons`, else the one that runs this.
    Raises TxError for one that is nowhere, UsageError for a name that is none."""
    found = []
    for name in dict.fromkeys(names):
        if name not in MODULES:
            raise UsageError(f"--against must be one of {', '.join(MODULES)}, not {name!r}")
        python = next((p for p in (*pythons, sys.executable) if _has(p, MODULES[name])), None)
        if python is None:
            needed = " and ".join(MODULES[name])
            raise TxError(
                f"{name} is not installed: no Python given has {needed}; pip install {' '.join(MODULES[name])}, "
                "or name a Python that has them with --peer-python"
            )
        found.append(Found(name, python))
    return found


def _has(python: str, modules: Sequence[str]) -> bool:
    try:
        done = subprocess.run([python, "-c", HAS, *modules], capture_output=True, env=_clean_environment())
    except OSError as error:
        raise UsageError(f"--peer-python {python} cannot be run: {error.strerror or error}") from None
    return done.returncode == 0


def _clean_environment() -> dict[str, str]:
    """A Python of another environment is not to import what this one would."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }


def kind(facts: Mapping[str, Any]) -> str:
    """Of a model, by what a worker says of it: "own" (our format), "student" (Firefox, Bergamot), "marian" (a folder of
    Hugging Face), or the type that such a folder says."""
    if facts["own"]:
        return "own"
    config = Path(facts["path"], "config.json")
    if not config.is_file():
        return "student"
    return str(json.loads(config.read_text(encoding="utf-8")).get("model_type"))


def refuse(names: Sequence[str], facts: Mapping[str, Any], beam: int | None) -> None:
    """Raises UsageError where one of these cannot run this model, nor one of its shape, or not with this beam."""
    what = kind(facts)
    for name in names:
        if name == "slimt":
            if what != "student":
                raise UsageError("slimt runs models of Firefox and Bergamot only: give the folder of one with --model")
            if beam not in (None, 1):
                raise UsageError("slimt has no beam search: leave out --beam, or give --beam 1")
        elif what not in ("own", "marian"):
            raise UsageError(
                f"--against {name} compares models of our own format, and Marian's of Hugging Face; {facts['path']} is "
                f"{'one of Firefox or Bergamot (try --against slimt)' if what == 'student' else what}"
            )


@dataclass(frozen=True)
class Work:
    """What a translator is opened for. `length`: every output has so many pieces, of a model that `marian` made; None: as
    the model likes. `folder` is one of its own for what it has to write."""

    facts: Mapping[str, Any]
    model: Path
    folder: Path
    threads: int
    beam: int
    length: int | None
    batch_size: int
    warm: Sequence[str]
    tune: Sequence[str]
    kinds: Sequence[str] = KINDS
    sizes: Sequence[int] = SIZES


def start(peer: Found, work: Work) -> Child:
    """A child that answers {"texts", "batch_size", "beam", "length"} with {"seconds", "texts", "peak_bytes"}."""
    opening: dict[str, Any] = {"model": str(work.model), "threads": work.threads, "warm": list(work.warm)}
    environment = _clean_environment()
    if peer.name == "ctranslate2":
        opening |= {"folder": str(work.folder / "ctranslate2"), "kinds": list(work.kinds), "sizes": list(work.sizes)}
        opening |= {"tune": list(work.tune), "beam": work.beam, "length": work.length}
    if peer.name == "slimt":
        sizes = work.facts["sizes"]
        opening |= {f"{stack}_layers": sizes[f"n_{stack}_layers"] for stack in ("encoder", "decoder")}
        opening |= {"heads": sizes["n_heads"], "files": student_files(work.model)}
        environment |= _home(work.folder / "home")
    return Child(peer.name, [peer.python, "-c", PROGRAMS[peer.name]], opening, environment, only=True)


def student_files(folder: Path) -> dict[str, str]:
    """The files of a model of Firefox or Bergamot as slimt wants them. Raises UsageError where it has not one of each."""
    found = {}
    for what, pattern in (("model", "model*.bin"), ("vocabulary", "*vocab*.spm"), ("shortlist", "lex*.bin")):
        paths = sorted(folder.glob(pattern))
        if len(paths) != 1:
            raise UsageError(f"{folder} has {len(paths)} files {pattern}: slimt needs one")
        found[what] = str(paths[0])
    return found


def _home(folder: Path) -> dict[str, str]:
    """slimt looks for lists of models when it is imported, and would download them: here there are two, empty."""
    for repository in ("browsermt", "opus"):
        models = folder / ".config" / "slimt" / repository / "models.json"
        models.parent.mkdir(parents=True, exist_ok=True)
        models.write_text('{"models": []}', encoding="utf-8")
    home = {"HOME": str(folder), "XDG_CONFIG_HOME": str(folder / ".config")}
    return home | {"XDG_DATA_HOME": str(folder / "data"), "XDG_CACHE_HOME": str(folder / "cache")}


def stand_in(facts: Mapping[str, Any], folder: Path, **changes: Any) -> Path:
    """Writes a random model of Marian's shape with the sizes of this one of our own format and its vocabulary; `changes`
    are fields of its ModelConfig."""
    import dataclasses

    from ..config import ModelConfig, from_dict
    from . import marian

    sizes = dataclasses.replace(from_dict(ModelConfig, facts["sizes"]), **changes)
    path = Path(facts["path"], "tokenizer.json")
    model = json.loads(path.read_text(encoding="utf-8"))["model"]
    if model.get("type") != "Unigram":
        raise TxError(f"{path} has no unigram vocabulary: no model of Marian's shape can be made of it")
    marian.write(folder, sizes, [(piece, score) for piece, score in model["vocab"]])
    return folder


def temporary() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="tx-bench-")
