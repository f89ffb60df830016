"""A model on disk: one folder of plain files, checked whole before anything of it is used.

    config.json             CheckpointConfig: architecture, special pieces, tasks, settings of the search
    model.safetensors       the weights, by the names of `Transformer.state_dict()`, fp16 unless saved otherwise
    tokenizer.json          the vocabulary
    target_tokenizer.json   that of the target pieces, where it is another
    manifest.json           size and sha256 of these
    README.md               the card: what it was trained on, how, what it scores; anyone may edit it

Files that could run code when they are opened (pickles, and the zip archives that hold them) are refused unread. Folders
in other formats are read by module foreign.
Only the standard library is imported at the top: names and configurations are read without NumPy or PyTorch.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from .config import AllPairs, CheckpointConfig, read_object
from .errors import CheckpointError, ConfigError
from .tensors import TensorFile, tensor_shapes

if TYPE_CHECKING:
    import numpy as np

    from .tokenizer import Tokenizer
    from .transformer import Transformer

CONFIG, WEIGHTS, TOKENIZER, CARD = "config.json", "model.safetensors", "tokenizer.json", "README.md"
TARGET_TOKENIZER, MANIFEST = "target_tokenizer.json", "manifest.json"
CHECKED = (CONFIG, WEIGHTS, TOKENIZER)  # the files that the manifest vouches for, and TARGET_TOKENIZER if it is there
PICKLE_SUFFIXES = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle")
WEIGHTS_DIR = Path(__file__).parent.parent / "weights"
DEFAULT_MODEL = "en-zh"
READ_BYTES = 1 << 20
SPARE_ROWS, FILLED_ROWS = 8, 128  # of an embedding that no piece has: M2M100 has 8, T5 28 for a multiple of 128


class _Digest:
    """The sha256 of a buffer, computed in a thread of its own: hashlib lets the interpreter go on meanwhile."""

    def __init__(self, content: mmap.mmap) -> None:
        self._value = ""
        self._thread = threading.Thread(target=self._compute, args=[content])
        self._thread.start()

    def _compute(self, content: mmap.mmap) -> None:
        self._value = hashlib.sha256(content).hexdigest()

    def value(self) -> str:
        self._thread.join()
        return self._value


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint whose files have been checked, or are being so: see `verify`. `tensors` are views onto the file where
    they can be. `target_tokenizer` is `tokenizer` itself unless the model has two vocabularies."""

    config: CheckpointConfig
    tokenizer: Tokenizer
    target_tokenizer: Tokenizer
    tensors: Mapping[str, Any]
    path: Path
    digest: _Digest | None = None  # None: of a foreign format, which has no manifest
    sha256: str = ""  # of the weights, as the manifest has it
    shortlist: Path | None = None  # a file of pieces that go with each source piece (see module shortlist)
    notes: tuple[str, ...] = ()  # what a user of a foreign format should know, a line each
    # How large what comes into a linear layer is taken to be in int8 (see module precision), by the layer's name.
    input_limits: Mapping[str, float] = field(default_factory=dict)

    def verify(self) -> None:
        """Waits for the sha256 of the weights. Raises CheckpointError if it is not the one in the manifest."""
        if self.digest is not None and self.digest.value() != self.sha256:
            raise _damaged(self.path / WEIGHTS)


# --- which folder ---


def installed_models() -> list[str]:
    """Names of the models that came with the package."""
    if not WEIGHTS_DIR.is_dir():
        return []
    return sorted(folder.name for folder in WEIGHTS_DIR.iterdir() if (folder / CONFIG).is_file())


def resolve_model(model: str | os.PathLike[str] | None = None) -> Path:
    """The path that a model's name or path stands for; None is the environment's TX_MODEL, else "en-zh".

    The name of an installed model comes before that of one of the user's own (see module places), and both before a
    file of the same name in the current folder (write `./NAME` for that one). Raises CheckpointError where there is none.
    """
    wanted = os.fspath(model) if model is not None else os.environ.get("TX_MODEL") or DEFAULT_MODEL
    if wanted in installed_models():
        return WEIGHTS_DIR / wanted
    from .places import user_models

    if wanted in (own := user_models()):
        return own[wanted]
    path = Path(wanted)
    with _reading(path):
        if not wanted or not path.exists():
            raise _no_such_model(wanted)
    return path


def _no_such_model(wanted: str) -> CheckpointError:
    from .places import user_models

    names = ", ".join([*installed_models(), *user_models()]) or "none"
    return CheckpointError(f"no model {wanted!r}: no such folder, and no installed model of that name (there: {names})")


def _folder(path: Path) -> Path:
    """The checkpoint's folder; raises CheckpointError for a path that is none, before reading any weights."""
    with _reading(path):
        exists, is_file = path.exists(), path.is_file()
    if not exists:
        raise _no_such_model(str(path))
    if is_file:
        _refuse_pickle(path)
        if path.name == WEIGHTS:
            return _folder(path.parent)
        if path.suffix == ".safetensors":
            raise CheckpointError(f"{path} holds weights only: give a folder with {WEIGHTS}, {CONFIG} and {TOKENIZER}")
        raise CheckpointError(f"{path} is not a model: give the folder of a checkpoint")
    with _reading(path):
        names = sorted(entry.name for entry in path.iterdir())
    if MANIFEST not in names:
        if CONFIG in names:
            read_object(path / CONFIG)  # damaged, it may be another project's
        from . import foreign

        if what := foreign.what_is_missing(path, names):
            raise CheckpointError(what)
    if WEIGHTS in names:
        _refuse_pickle(path / WEIGHTS)
    else:
        for name in names:
            if name.endswith(PICKLE_SUFFIXES):
                _refuse_pickle(path / name)
    missing = [name for name in (*CHECKED, MANIFEST) if name not in names]
    if missing:
        raise CheckpointError(f"{path} is not a complete checkpoint: {', '.join(missing)} missing")
    return path


def _refuse_pickle(path: Path) -> None:
    """Raises CheckpointError if the file is a pickle or a zip archive, by its name or its first bytes.

    The first eight bytes of a safetensors file are the length of its header, which may look like either; the ninth
    is always an opening brace.
    """
    with _reading(path):
        if not path.is_file():  # a pipe would be waited for
            raise CheckpointError(f"{path} is not a file")
        with path.open("rb") as file:
            start = file.read(9)
    kind = ""
    if path.suffix in PICKLE_SUFFIXES or (start[:1] == b"\x80" and start[8:] != b"{"):
        kind = "a pickle"
    if start[:2] == b"PK" and start[8:] != b"{":
        kind = "a zip archive"
    if kind:
        raise CheckpointError(
            f"{path} is {kind}, which could run code when opened: not read; convert it to safetensors first"
        )


# --- reading ---


def load_checkpoint(path: str | os.PathLike[str], *, wait: bool = True) -> Checkpoint:
    """Reads and checks a checkpoint's folder (or the file of weights in it), of our own format or of another that module
    foreign reads.

    Of our own, every file but the card is compared with the manifest each time, so a truncated or damaged one is never used.
    Reading and hashing the weights takes 20 ms for 32 MB, 100 ms on a processor without instructions for SHA; so that
    goes on in a thread. Without `wait` the checkpoint is returned before that: whoever uses it then must call `verify`
    before showing anything that was computed with it. Names, shapes and types of the tensors are compared with the
    architecture; whether their values are finite is checked by `save_checkpoint`.
    Raises CheckpointError: one line with the file and what is wrong.
    """
    path = Path(path)
    with _reading(path):
        if path.name == WEIGHTS and path.is_file():
            path = path.parent
        is_ours = (path / MANIFEST).is_file()
    if not is_ours:
        from . import foreign

        if foreign.is_foreign(path):
            return _load_foreign(path)
    from .tokenizer import Tokenizer

    folder = _folder(path)
    digests = _read_manifest(folder)
    try:
        tensors = TensorFile(folder / WEIGHTS)
    except CheckpointError:
        _check_digest(folder / WEIGHTS, digests)  # which says more
        raise
    digest = _Digest(tensors.buffer)
    for name in digests:
        if name != WEIGHTS:
            _check_digest(folder / name, digests)
    try:
        config = CheckpointConfig.from_json(read_object(folder / CONFIG))
    except ConfigError as error:
        raise CheckpointError(f"{folder / CONFIG}: {error}") from error
    except (TypeError, ValueError, AttributeError) as error:
        raise CheckpointError(f"{folder / CONFIG} has a value of the wrong kind: {one_line(error)}") from error
    tokenizer = target_tokenizer = Tokenizer.from_file(folder / TOKENIZER)
    if TARGET_TOKENIZER in digests:
        target_tokenizer = Tokenizer.from_file(folder / TARGET_TOKENIZER)
    _check_pieces(tokenizer.vocab_size, tokenizer.special, config.model.src_vocab_size, folder / TOKENIZER)
    if target_tokenizer is not tokenizer:
        tgt_rows = config.model.tgt_vocab_size
        _check_pieces(target_tokenizer.vocab_size, target_tokenizer.special, tgt_rows, folder / TARGET_TOKENIZER)
    _check_ids(config, folder)
    checkpoint = Checkpoint(config, tokenizer, target_tokenizer, tensors, folder, digest, digests[WEIGHTS])
    if wait:
        checkpoint.verify()
    check_tensors(tensors.shapes, tensor_shapes(config.model), folder / WEIGHTS)
    for name, entry in tensors.entries.items():
        if "float" not in entry.dtype:
            raise CheckpointError(f"{folder / WEIGHTS}: tensor {name} is {entry.dtype}, not floating point")
    return checkpoint


def _load_foreign(path: Path) -> Checkpoint:
    """A checkpoint in one of the formats of module foreign."""
    from . import foreign

    found = foreign.read_foreign(path)
    config, shapes = found.config, {name: tuple(tensor.shape) for name, tensor in found.tensors.items()}
    for rows, tokenizer in (
        (config.model.src_vocab_size, found.tokenizer),
        (config.model.tgt_vocab_size, found.target_tokenizer),
    ):
        _check_pieces(tokenizer.vocab_size, tokenizer.special, rows, found.folder)
    _check_ids(config, found.folder)
    check_tensors(shapes, tensor_shapes(config.model), found.folder)
    # Tokenizers of another class, with the same methods.
    source, target = cast("tuple[Tokenizer, Tokenizer]", (found.tokenizer, found.target_tokenizer))
    return Checkpoint(
        config,
        source,
        target,
        found.tensors,
        found.folder,
        shortlist=found.shortlist,
        notes=found.notes,
        input_limits=found.input_limits,
    )


def load_transformer(checkpoint: Checkpoint, device: str = "cpu") -> Transformer:
    """The checkpoint's model in evaluation mode, with fp32 parameters on `device`."""
    import warnings

    import numpy as np
    import torch
    from torch.overrides import TorchFunctionMode

    from .transformer import Transformer

    class Uninitialised(TorchFunctionMode):
        """Leaves new parameters as they are: each is replaced by its tensor. (PyTorch's way to build a module without
        storage, the meta device, imports 800 modules for its initialisers: over a second from a cold start.)"""

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            if getattr(func, "__module__", "") == "torch.nn.init":
                return args[0] if args else kwargs["tensor"]
            return func(*args, **kwargs)

    with Uninitialised():
        model = Transformer(checkpoint.config.model)
    parameters = {}
    for name in checkpoint.tensors:
        array = np.asarray(checkpoint.tensors[name])
        # Ours are copied, so that they do not hang on the file. Those of others may be too large to have twice.
        if array.dtype != np.float32 or checkpoint.digest is not None or not array.flags.aligned:
            array = array.astype(np.float32)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # that they are read-only: no one writes to them
            parameters[name] = torch.from_numpy(array).to(device)
    model.load_state_dict(parameters, assign=True)
    return model.eval()


def check_tensors(
    found: Mapping[str, tuple[int, ...]], expected: Mapping[str, tuple[int, ...]], path: str | os.PathLike[str]
) -> None:
    """Raises CheckpointError unless both have the same names with the same shapes; `path` is for the message."""
    misshapen = [
        f"{name} ({_shape(found[name])} instead of {_shape(expected[name])})"
        for name in expected
        if name in found and found[name] != expected[name]
    ]
    faults = {
        "missing": [name for name in expected if name not in found],
        "unexpected": [name for name in found if name not in expected],
        "misshapen": misshapen,
    }
    told = [f"{kind}: {_some(names)}" for kind, names in faults.items() if names]
    if told:
        raise CheckpointError(f"{path} does not fit the architecture in {CONFIG}; tensors {'; '.join(told)}")


def _shape(sizes: Sequence[int]) -> str:
    return "×".join(str(size) for size in sizes) or "scalar"


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more


def _read_manifest(folder: Path) -> dict[str, str]:
    """The sha256 of each file as the manifest has it, once the sizes of the files are found to be as it says."""
    path = folder / MANIFEST
    manifest = read_object(path)
    if set(manifest) != {"files", "total_bytes"} or not isinstance(manifest["files"], dict):
        raise CheckpointError(f"{path} is damaged: it must have exactly the sections files and total_bytes")
    files = manifest["files"]
    if set(files) - {TARGET_TOKENIZER} != set(CHECKED):
        raise CheckpointError(f"{path} is damaged: it must list exactly {', '.join(CHECKED)}")
    for name, entry in files.items():
        if not isinstance(entry, dict) or set(entry) != {"bytes", "sha256"} or type(entry["bytes"]) is not int:
            raise CheckpointError(f"{path} is damaged: the entry of {name} must have bytes and sha256")
        _check_size(folder / name, entry["bytes"])
    if manifest["total_bytes"] != sum(entry["bytes"] for entry in files.values()):
        raise CheckpointError(f"{path} is damaged: total_bytes is not the sum of the files' sizes")
    return {name: entry["sha256"] for name, entry in files.items()}


def _check_digest(path: Path, digests: Mapping[str, str]) -> None:
    if _sha256(path) != digests[path.name]:
        raise _damaged(path)


def _damaged(path: Path) -> CheckpointError:
    return CheckpointError(f"{path} is damaged: its sha256 differs from {MANIFEST}; get it again")


def _check_size(path: Path, expected: int) -> None:
    with _reading(path):
        size = path.stat().st_size
    if size != expected:
        what = "incomplete" if size < expected else "not the file that was saved"
        raise CheckpointError(f"{path} is {what}: expected {expected} bytes, found {size}; get it again")


def _check_pieces(pieces: int, special: Mapping[int, str], rows: int, where: Path) -> None:
    """Every piece that a text may become must be a row of the embedding; only the last special ones need not (BART's <mask>).
    Rows that no piece has may be a few, or fill it up to a multiple of 8."""
    if any(i not in special for i in range(rows, pieces)):
        raise CheckpointError(f"{where} has {pieces} pieces, but {CONFIG} has room for {rows}")
    spare = rows - pieces
    if spare > SPARE_ROWS and (rows % 8 or spare >= FILLED_ROWS or spare > pieces):
        raise CheckpointError(
            f"{where} has {pieces} pieces, but the embedding {rows} rows: the vocabulary is of another model"
        )


def _check_ids(config: CheckpointConfig, folder: Path) -> None:
    """Every id in the configuration must be a row of the embeddings."""
    src_rows, tgt_rows = config.model.src_vocab_size, config.model.tgt_vocab_size
    special, both = config.special, min(src_rows, tgt_rows)
    ids: dict[str, tuple[int, tuple[int | None, ...]]] = {
        "generation.suppress": (tgt_rows, config.generation.suppress),
        "special.pad": (both, (special.pad,)),
        "special.eos": (both, (special.eos,)),
        "special.decoder_start": (tgt_rows, (special.decoder_start,)),
        "special.bos": (both, (special.bos,)),
        "special.unk": (both, (special.unk,)),
    }
    tasks = config.tasks
    if isinstance(tasks, AllPairs):  # not one by one
        codes = (*tasks.sources.values(), *tasks.targets.values(), *tasks.start)
        ids[f"tasks.{tasks.NAME}"] = (both, codes)
    else:
        for name, task in tasks.items():
            ids[f"tasks.{name}"] = (src_rows, task.src_prefix + task.src_suffix + task.separator)
            ids[f"tasks.{name} "] = (tgt_rows, task.tgt_prefix)
    for name, (rows, values) in ids.items():
        for value in values:
            if value is not None and not (isinstance(value, int) and 0 <= value < rows):
                at = f"{folder / CONFIG}: {name.strip()}"
                raise CheckpointError(f"{at} has {value!r}, which is not the id of a piece")


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Turns whatever the system says about `path` (no permission, a folder, a disk fault) into a CheckpointError."""
    try:
        yield
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror or error}") from error


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with _reading(path), path.open("rb") as file:
        while block := file.read(READ_BYTES):
            digest.update(block)
    return digest.hexdigest()


def one_line(error: BaseException) -> str:
    """The error's own words on one line."""
    return " ".join(str(error).split()) or type(error).__name__


# --- writing ---


def save_checkpoint(
    path: str | os.PathLike[str],
    config: CheckpointConfig,
    tensors: Mapping[str, Any],
    tokenizer_json: str,
    card: str,
    *,
    dtype: str = "float16",
    target_tokenizer_json: str | None = None,
) -> Path:
    """Writes a checkpoint's folder, whole or not at all, and returns its path.

    `tensors` are NumPy arrays or PyTorch tensors by name, stored as `dtype` (float16 or float32). The folder is
    written beside its place and renamed into it; a checkpoint that is there already is replaced, anything else is
    left alone. Raises CheckpointError for that, and for values that are not finite in `dtype`.
    """
    import shutil  # here: with what it can compress, it would add 3 ms to every start

    from safetensors.numpy import save

    path = Path(path)
    if path.exists() and not path.is_dir():
        raise CheckpointError(f"{path} is a file: choose another place for the checkpoint")
    if path.is_dir() and any(path.iterdir()) and not (path / MANIFEST).is_file():
        raise CheckpointError(f"{path} is there already and is not a checkpoint: choose another place for this one")
    contents = {
        CONFIG: (json.dumps(config.to_json(), indent=2, ensure_ascii=False) + "\n").encode(),
        WEIGHTS: save({name: _array(name, tensor, dtype) for name, tensor in tensors.items()}),
        TOKENIZER: tokenizer_json.encode(),
        CARD: card.encode(),
    }
    if target_tokenizer_json is not None:
        contents[TARGET_TOKENIZER] = target_tokenizer_json.encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}.new")
    shutil.rmtree(beside, ignore_errors=True)
    try:
        beside.mkdir()
        for name, content in contents.items():
            _write(beside / name, content)
        write_manifest(beside)
        _replace(path, beside)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return path


def save_foreign(checkpoint: Checkpoint, path: str | os.PathLike[str], *, dtype: str | None = None) -> Path:
    """Writes a checkpoint, of a foreign format above all, in our own, as `save_checkpoint` does; a shortlist is left out.
    Returns the folder, which `load_checkpoint` reads like any other. Without `dtype` the weights are float16 if that
    changes none of them, else float32, so that it gives the same as the original."""
    if dtype is None:
        exact = all(_is_exact(tensor) for tensor in checkpoint.tensors.values())
        dtype = "float16" if exact else "float32"
    source, target = checkpoint.tokenizer, checkpoint.target_tokenizer
    name = checkpoint.config.name or checkpoint.path.name
    return save_checkpoint(
        path,
        checkpoint.config,
        checkpoint.tensors,
        source.to_json(),
        f"# {name}\n\nConverted into the format of tx; what the original says of its training and its licence holds.\n",
        dtype=dtype,
        target_tokenizer_json=None if target is source else target.to_json(),
    )


def write_manifest(folder: str | os.PathLike[str]) -> None:
    """Writes the manifest of a folder from the files in it, for settings that were edited by hand."""
    folder = Path(folder)
    checked = [*CHECKED, *([TARGET_TOKENIZER] if (folder / TARGET_TOKENIZER).exists() else [])]
    sizes = {name: (folder / name).stat().st_size for name in checked}
    files = {name: {"bytes": sizes[name], "sha256": _sha256(folder / name)} for name in checked}
    manifest = {"files": files, "total_bytes": sum(sizes.values())}
    _write(folder / MANIFEST, (json.dumps(manifest, indent=2) + "\n").encode())


def _is_exact(tensor: Any) -> bool:
    """Whether float16 holds all the values of a tensor as they are."""
    import numpy as np

    values = np.asarray(tensor)
    with np.errstate(over="ignore"):
        return values.dtype == np.float16 or bool((values.astype(np.float16) == values).all())


def _array(name: str, tensor: Any, dtype: str) -> np.ndarray[Any, Any]:
    import numpy as np

    if dtype not in ("float16", "float32"):
        raise CheckpointError(f"weights are stored as float16 or float32, not {dtype}")
    values = tensor.detach().cpu().float().numpy() if hasattr(tensor, "detach") else np.asarray(tensor)
    with np.errstate(over="ignore"):
        array = np.ascontiguousarray(values, dtype=dtype)
    if not np.isfinite(array).all():
        raise CheckpointError(f"tensor {name} has values that are not finite as {dtype}: nothing was saved")
    return array


def _write(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _replace(path: Path, new: Path) -> None:
    """Puts the folder `new` in the place of `path`; the old one is removed only once the new one is there."""
    if not path.exists():
        new.rename(path)
        return
    import shutil

    old = path.with_name(f".{path.name}.{os.getpid()}.old")
    shutil.rmtree(old, ignore_errors=True)
    path.rename(old)
    try:
        new.rename(path)
    except OSError:
        old.rename(path)
        raise
    shutil.rmtree(old, ignore_errors=True)
