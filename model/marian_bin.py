"""Marian's own binary weights (`*.bin`, plain float32 or the int8 of intgemm) read into float32 arrays.

Layout, little-endian: u64 version (1); u64 n; n headers {name length, type, shape length, data length} of four u64; the
names, each ending in NUL; the shapes (i32 a dimension); u64 padding and that many bytes; the n data blocks. A data
block may be padded with fewer than 256 bytes. Nothing is allocated on the word of a length that has not been checked
against the size of the file.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from .errors import CheckpointError

Floats: TypeAlias = npt.NDArray[np.float32]

FLOAT32 = 0x404
INT8 = 0x101  # no multiplier: a text
INTGEMM8 = 0x4101  # int8 and one multiplier, in an order that does not depend on the processor
_KNOWN_TYPES = (FLOAT32, INT8, INTGEMM8)
_BLOCK = 256
_MAX_DIMENSIONS = 8
_MODEL_YAML = "special:model.yml"


@dataclass(frozen=True)
class _Entry:
    """One tensor of the file: its data are the bytes from `start` on, `n_elements` of them times the element size."""

    name: str
    type: int
    shape: tuple[int, ...]
    start: int

    @property
    def n_elements(self) -> int:
        return math.prod(self.shape)

    @property
    def n_bytes(self) -> int:
        """The bytes in use, without the padding."""
        if self.type == FLOAT32:
            return 4 * self.n_elements
        return self.n_elements + (4 if self.type == INTGEMM8 else 0)


class _Reader:
    """A cursor over the bytes of one file that never goes past their end."""

    def __init__(self, path: Path, data: bytes) -> None:
        self.path = path
        self.data = data
        self.position = 0

    def error(self, what: str) -> CheckpointError:
        return CheckpointError(f"{self.path}: {what}; get the file again")

    def skip(self, length: int, what: str) -> int:
        """Moves on by `length` bytes and returns where they start."""
        start = self.position
        if length > len(self.data) - start:
            end = len(self.data)
            raise self.error(f"truncated: {what} at byte {start} needs {length} bytes, the file ends at {end}")
        self.position += length
        return start

    def take(self, length: int, what: str) -> bytes:
        start = self.skip(length, what)
        return self.data[start : start + length]


def _open(path: str | Path) -> _Reader:
    """Reads the file, after a look at its first bytes: another kind of file, however large, is not read whole."""
    path = Path(path)
    try:
        with path.open("rb") as file:
            head = file.read(16)
            if len(head) == 16 and struct.unpack("<Q", head[:8])[0] != 1:
                raise CheckpointError(f"{path}: not a Marian binary model (its first 8 bytes are not version 1)")
            return _Reader(path, head + file.read())
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read: {error.strerror or error}") from error


def _entries(reader: _Reader) -> list[_Entry]:
    """The checked table of contents."""
    _, n = struct.unpack("<QQ", reader.take(16, "the header"))
    if n == 0:
        raise reader.error("not a Marian binary model (it holds no tensors)")
    headers = list(struct.iter_unpack("<4Q", reader.take(32 * n, f"the list of {n} tensors")))
    names: dict[str, None] = {}  # in order, and quick to search
    for i, (length, *_) in enumerate(headers):
        at = reader.position
        raw = reader.take(length, f"the name of tensor {i}")
        name = raw[:-1].decode("ascii", errors="replace")
        if not raw.endswith(b"\0") or not name.isascii() or not name.isprintable() or not name:
            raise reader.error(f"the list of names is damaged at byte {at} (tensor {i})")
        if name in names:
            raise reader.error(f"the list of names is damaged at byte {at} ({name!r} twice)")
        names[name] = None
    shapes: list[tuple[int, ...]] = []
    for name, (_, type_, n_dimensions, _) in zip(names, headers, strict=True):
        if type_ not in _KNOWN_TYPES:
            raise CheckpointError(
                f"{reader.path}: {name!r} has the unknown type 0x{type_:x}; get the model as float32 or as int8 that is"
                " not packed for one processor"
            )
        if not 1 <= n_dimensions <= _MAX_DIMENSIONS:
            raise reader.error(f"{name!r} has {n_dimensions} dimensions")
        shape = struct.unpack(f"<{n_dimensions}i", reader.take(4 * n_dimensions, f"the shape of {name!r}"))
        if min(shape) < 1:
            raise reader.error(f"{name!r} has the impossible shape {shape}")
        shapes.append(shape)
    (padding,) = struct.unpack("<Q", reader.take(8, "the padding length"))
    reader.skip(padding, "the padding")
    entries: list[_Entry] = []
    for name, shape, (_, type_, _, length) in zip(names, shapes, headers, strict=True):
        entry = _Entry(name, type_, shape, reader.skip(length, f"{name!r}"))
        if not entry.n_bytes <= length < entry.n_bytes + _BLOCK:
            raise reader.error(f"{name!r} has shape {shape} but {length} bytes of data at byte {entry.start}")
        entries.append(entry)
    if reader.position != len(reader.data):
        raise reader.error(f"{len(reader.data) - reader.position} bytes too many from byte {reader.position} on")
    return entries


def _dequantised(reader: _Reader, entry: _Entry) -> Floats:
    """q / m of an int8 block, in the shape (in, out) that the file states."""
    (multiplier,) = struct.unpack_from("<f", reader.data, entry.start + entry.n_elements)
    if not (math.isfinite(multiplier) and multiplier > 0):
        raise reader.error(f"{entry.name!r} has the impossible multiplier {multiplier}")
    values = np.frombuffer(reader.data, np.int8, entry.n_elements, entry.start).astype(np.float32)
    values /= np.float32(multiplier)
    # Embedding tables are stored by row; the other matrices as multiplication wants them, (out, in).
    if entry.name.endswith("Wemb") or len(entry.shape) != 2:
        return values.reshape(entry.shape)
    return np.ascontiguousarray(values.reshape(entry.shape[::-1]).T)


def read_marian_binary(path: str | Path) -> dict[str, Floats]:
    """All weights of a Marian binary model by their names, float32, in the order of the file.

    int8 matrices are dequantised and have their logical shape (in, out); embedding tables are [vocabulary, d_model].
    Texts (`special:…`) are left out: see `read_model_yaml`. Raises CheckpointError, naming the file and the place.
    """
    reader = _open(path)
    weights: dict[str, Floats] = {}
    for entry in _entries(reader):
        if entry.name.startswith("special:"):
            continue
        if entry.type == FLOAT32:
            values = np.frombuffer(reader.data, "<f4", entry.n_elements, entry.start)
            weights[entry.name] = values.astype(np.float32).reshape(entry.shape)
        elif entry.type == INTGEMM8:
            weights[entry.name] = _dequantised(reader, entry)
        else:
            raise reader.error(f"{entry.name!r} is plain int8 without a multiplier, so its values are unknown")
    return weights


def read_model_yaml(path: str | Path) -> str:
    """The architecture as the model states it, YAML text; "" where the file carries none.

    Raises CheckpointError where the file is damaged or the text is not UTF-8.
    """
    reader = _open(path)
    for entry in _entries(reader):
        if entry.name == _MODEL_YAML:
            if entry.type != INT8:
                raise reader.error(f"{_MODEL_YAML!r} is not a text (type 0x{entry.type:x})")
            try:
                return reader.data[entry.start : entry.start + entry.n_bytes].rstrip(b"\0").decode("utf-8")
            except UnicodeDecodeError as error:
                at = entry.start + error.start
                raise reader.error(f"{_MODEL_YAML!r} is not UTF-8 at byte {at}") from error
    return ""
