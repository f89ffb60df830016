"""The tensors of a folder in the format of Hugging Face: safetensors or PyTorch files, whole or in shards.

Whatever can be is a view onto a memory map of the file: nothing is read before it is used, and nothing is in memory
twice. The maps are private: what is written to an array stays in memory.
"""

from __future__ import annotations

import math
import mmap
import pickletools
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from .config import read_object
from .errors import CheckpointError
from .tensors import TensorFile

SAFETENSORS, PICKLE = "model.safetensors", "pytorch_model.bin"
NOT_READ = ("tf_model.h5", "flax_model.msgpack", "model.onnx")  # weights for other libraries
MAX_PICKLE_BYTES = 4_000_000  # without the numbers: a tensor takes 200
# All that a file of tensors by name has to call. PyTorch's own list is longer, and has what can ask for any amount of
# memory.
CALLED = {
    "collections OrderedDict",
    "torch._utils _rebuild_parameter",
    "torch._utils _rebuild_tensor",
    "torch._utils _rebuild_tensor_v2",
    *(f"torch {kind}Storage" for kind in ("Double", "Float", "Half", "BFloat16")),
    *(f"torch {kind}Storage" for kind in ("Long", "Int", "Short", "Char", "Byte", "Bool")),
}
LEGACY_START = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."  # a pickle of PyTorch's magic number
# What is said of a file in the old format that ends too soon.
CUT_SHORT = ("pickle exhausted", "unexpected EOF", "Ran out of input", "not enough data", "remain")
LEGACY_PICKLES = 5  # of the format before the zip archive: magic number, version, sizes of types, tensors, storages

Array = np.ndarray[Any, Any]


class BFloat16:
    """A tensor of bfloat16 numbers, a type that NumPy lacks: each is the upper half of a float32, and becomes one when it
    is used. `x[rows]` reads only these rows."""

    dtype = np.dtype(np.float32)  # of what is read

    def __init__(self, bits: Array) -> None:
        self.bits = bits  # uint16

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.bits.shape)

    @property
    def ndim(self) -> int:
        return self.bits.ndim

    def __len__(self) -> int:
        return len(self.bits)

    def __getitem__(self, rows: Any) -> Array:
        wide = np.asarray(self.bits[rows]).astype(np.uint32)
        wide <<= 16
        return wide.view(np.float32)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if copy is False:
            raise ValueError("bfloat16 numbers cannot be read without a copy")
        return self.astype(dtype or self.dtype)

    def astype(self, dtype: Any) -> Array:
        return self[...].astype(dtype, copy=False)

    def reshape(self, *shape: int) -> BFloat16:
        return BFloat16(self.bits.reshape(*shape))


Stored: TypeAlias = Array | BFloat16


def read_tensors(folder: Path) -> dict[str, Stored]:
    """All tensors of the folder by their names, from the first there is of model.safetensors, its shards,
    pytorch_model.bin and its shards.

    Shards are those that an index (`*.index.json`) names, and must be files of the folder that hold what it says, no
    more and no less. Of PyTorch files nothing is called but what makes tensors; one in the old format, before the zip
    archive, is read into memory. Raises CheckpointError: one line with the file and what is wrong.
    """
    readers: dict[str, Callable[[Path], dict[str, Stored]]] = {SAFETENSORS: _safetensors, PICKLE: _pickle}
    for name, read in readers.items():
        if (folder / name).is_file():
            return read(folder / name)
        index = folder / f"{name}.index.json"
        if index.is_file():
            return _shards(index, read)
    there = [name for name in NOT_READ if (folder / name).is_file()]
    raise CheckpointError(
        f"{folder} is a folder of Hugging Face without weights: there is neither {SAFETENSORS} nor {PICKLE}, nor an index "
        f"of their shards{f' ({there[0]} is not read)' if there else ''}"
    )


def _shards(index: Path, read: Callable[[Path], dict[str, Stored]]) -> dict[str, Stored]:
    where = read_object(index).get("weight_map")
    if not isinstance(where, dict) or not where or not all(isinstance(file, str) for file in where.values()):
        raise CheckpointError(f"{index} has no weight_map with the file of each tensor")
    files = list(dict.fromkeys(where.values()))
    for file in files:
        if not file.isprintable() or file in ("", ".", "..") or any(c in file for c in "/\\"):
            raise CheckpointError(f"{index} names {file[:80]!r}, which is not a file in its folder")
    tensors: dict[str, Stored] = {}
    for file in files:
        path = index.parent / file
        if not path.is_file():
            raise CheckpointError(f"{path} is missing: {index.name} says that it is a part of the weights")
        found = read(path)
        wrong = [name for name in where if where[name] == file and name not in found]
        wrong += [name for name in found if where.get(name) != file]
        if wrong:
            raise CheckpointError(f"{path} does not hold what {index.name} says: see tensor {wrong[0][:80]!r}")
        tensors.update(found)
    return tensors


def _refuse_pointer(path: Path) -> None:
    """Raises CheckpointError for what Git leaves of a large file, and for an empty one."""
    try:
        with path.open("rb") as file:
            start = file.read(40)
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror or error}") from error
    if not start:
        raise CheckpointError(f"{path} is empty: get it again")
    if start.startswith(b"version https://git-lfs"):
        raise CheckpointError(f"{path} only says where the weights are: get the file itself, with git lfs pull")


def _safetensors(path: Path) -> dict[str, Stored]:
    _refuse_pointer(path)
    entries = TensorFile(path).entries
    try:
        with path.open("rb") as file:
            buffer = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror or error}") from error
    tensors: dict[str, Stored] = {}
    for name, entry in entries.items():
        stored = np.dtype("uint16" if entry.dtype == "bfloat16" else entry.dtype).newbyteorder("<")
        array = np.frombuffer(buffer, stored, math.prod(entry.shape), entry.begin).reshape(entry.shape)
        array = np.require(array, requirements="A")  # a header of an odd length puts everything at odd places
        tensors[name] = BFloat16(array) if entry.dtype == "bfloat16" else array
    return tensors


def _pickle(path: Path) -> dict[str, Stored]:
    import torch

    _refuse_pointer(path)
    start, is_zip = b"", False
    try:
        with path.open("rb") as file:
            start = file.read(len(LEGACY_START))
        is_zip = start[:4] == b"PK\x03\x04"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about odd pickles: what is wrong is said in one line
            called = _called_in_zip(path) if is_zip else _called_in_legacy(path)
            if not called <= CALLED:
                raise ValueError(f"calls {called - CALLED}")
            # weights_only: tensors and plain containers, nothing else that a pickle could call.
            values = torch.load(path, map_location="cpu", weights_only=True, mmap=is_zip)
        if not isinstance(values, dict):
            raise TypeError(type(values).__name__)
        return {str(name): _array(tensor) for name, tensor in values.items()}
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror or error}") from error
    except Exception as error:  # whatever torch.load and the unpickler raise on bytes that are not what they expect
        if isinstance(error, zipfile.BadZipFile) or (
            start == LEGACY_START and any(words in str(error) for words in CUT_SHORT)
        ):
            size = f"{path.stat().st_size:,} bytes"
            raise CheckpointError(f"{path} is incomplete or damaged ({size}): get it again") from error
        raise CheckpointError(f"{path} holds more than tensors by name or is damaged: it is not read") from error


def _array(tensor: Any) -> Stored:
    """A tensor of PyTorch's as an array in the same memory. Raises TypeError or ValueError for one that is none, or that
    would grow when it is copied."""
    import torch

    if not isinstance(tensor, torch.Tensor) or tensor.layout != torch.strided or tensor.device.type != "cpu":
        raise TypeError("no tensor")
    if tensor.numel() * tensor.element_size() > tensor.untyped_storage().nbytes():
        raise ValueError("larger than what is stored")
    tensor = tensor.detach()
    if tensor.dtype == torch.bfloat16:
        return BFloat16(tensor.view(torch.int16).numpy().view(np.uint16))
    return np.asarray(tensor.numpy())


def _called_in_zip(path: Path) -> set[str]:
    """What the pickle in PyTorch's zip archive would call. Raises ValueError for an archive that is compressed: its size
    says nothing about the memory that it takes."""
    with zipfile.ZipFile(path) as archive:
        entries = archive.infolist()
        if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries):
            raise ValueError("compressed")
        (pickled,) = (entry for entry in entries if entry.filename.endswith("/data.pkl"))
        if pickled.file_size > MAX_PICKLE_BYTES:
            raise ValueError("too large")
        return _called(archive.read(pickled))


def _called_in_legacy(path: Path) -> set[str]:
    called: set[str] = set()
    with path.open("rb") as file:
        for _ in range(LEGACY_PICKLES):
            called |= _called(file)
            if file.tell() > MAX_PICKLE_BYTES or not called <= CALLED:
                raise ValueError("too large, or calls more")
    return called


def _called(pickled: Any) -> set[str]:
    """The names ("module name") in one pickle: bytes, or a file that is read up to the end of it."""
    called = set()
    for code, argument, _ in pickletools.genops(pickled):
        if code.name in ("GLOBAL", "INST"):
            called.add(str(argument))
        elif "GLOBAL" in code.name or "EXT" in code.name:
            called.add("a name that is computed")
    return called
