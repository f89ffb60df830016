"""The tensors of a checkpoint as views onto its file: nothing is read or copied before it is used.

A safetensors file is the length of its header (8 bytes, little-endian), the header (a JSON object: for each tensor its
type, its shape, and where its bytes begin and end), and those bytes. The library of that name copies what it hands to
NumPy and knows no bfloat16 there; a memory map does neither, and pages that no one looks at never leave the disk.
"""

from __future__ import annotations

import json
import math
import mmap
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from .config import ModelConfig
from .errors import CheckpointError

if TYPE_CHECKING:
    import numpy as np

MAX_HEADER_BYTES = 100_000_000  # the format's own limit
TYPES = {  # the format's name of a type: NumPy's name, bytes a value
    "F64": ("float64", 8),
    "F32": ("float32", 4),
    "F16": ("float16", 2),
    "BF16": ("bfloat16", 2),  # NumPy has none: read as float32
    "I64": ("int64", 8),
    "I32": ("int32", 4),
    "I16": ("int16", 2),
    "I8": ("int8", 1),
    "U64": ("uint64", 8),
    "U32": ("uint32", 4),
    "U16": ("uint16", 2),
    "U8": ("uint8", 1),
    "BOOL": ("bool", 1),
}


class Entry(NamedTuple):
    """What the header says of one tensor; `begin` and `end` count from the start of the file."""

    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


class TensorFile(Mapping[str, "np.ndarray[Any, Any]"]):
    """The tensors of a safetensors file by name: read-only NumPy views onto a memory map of it, made when asked for.

    The whole header is checked before anything is used: every tensor lies inside the file, is as long as its type and
    shape say, and no byte belongs to two tensors or to none. Raises CheckpointError with one line that says what is
    wrong. `buffer` is the whole file. (Should another program shorten the file while it is in use, the system ends
    the process; a checkpoint is replaced by renaming, which does no harm.)
    """

    def __init__(self, path: Path) -> None:
        try:
            with path.open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                if size < 8:
                    raise _unreadable(path, f"{size} bytes are too few for a header")
                self.buffer = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except OSError as error:
            raise CheckpointError(f"{path} cannot be read: {error.strerror or error}") from error
        try:
            self.entries = _read_header(self.buffer)
        except (ValueError, RecursionError) as error:
            raise _unreadable(path, " ".join(str(error).split())) from error

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The tensors' shapes by name."""
        return {name: entry.shape for name, entry in self.entries.items()}

    def __getitem__(self, name: str) -> np.ndarray[Any, Any]:
        import numpy as np

        entry = self.entries[name]
        stored = np.dtype("uint16" if entry.dtype == "bfloat16" else entry.dtype).newbyteorder("<")
        array = np.frombuffer(self.buffer, stored, math.prod(entry.shape), entry.begin)
        if entry.dtype == "bfloat16":  # the upper half of a float32
            array = (array.astype(np.uint32) << np.uint32(16)).view(np.float32)
        return array.reshape(entry.shape)

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)


def _unreadable(path: Path, why: str) -> CheckpointError:
    return CheckpointError(f"{path} is not a readable safetensors file: {why}")


def _read_header(buffer: mmap.mmap) -> dict[str, Entry]:
    """The entries of a file's header. Raises ValueError or RecursionError, with the reason, for one that is malformed."""
    length = int.from_bytes(buffer[:8], "little")
    if length > min(MAX_HEADER_BYTES, len(buffer) - 8):
        raise ValueError(f"its header would have {length} bytes")
    start = 8 + length
    text = buffer[8:start].decode("utf-8")
    if not text.startswith("{"):
        raise ValueError("its header is no JSON object")
    header = json.loads(text, object_pairs_hook=_unique)
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise ValueError("its metadata are not names and texts")
    entries = {name: _entry(name, values, start) for name, values in header.items()}
    place = start
    for name, entry in sorted(entries.items(), key=lambda item: item[1].begin):
        if entry.begin != place:
            raise ValueError(f"tensor {name[:80]!r} does not begin where the one before it ends")
        place = entry.end
    if place != len(buffer):
        raise ValueError(f"its tensors end at byte {place} of {len(buffer)}")
    return entries


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) != len(pairs):
        raise ValueError("a name occurs twice in its header")
    return values


def _entry(name: str, values: Any, start: int) -> Entry:
    tensor = f"tensor {name[:80]!r}"
    if not isinstance(values, dict) or set(values) != {"dtype", "shape", "data_offsets"}:
        raise ValueError(f"{tensor} must have dtype, shape and data_offsets")
    if not isinstance(values["dtype"], str) or values["dtype"] not in TYPES:
        raise ValueError(f"{tensor} has the unknown type {str(values['dtype'])[:20]!r}")
    dtype, size = TYPES[values["dtype"]]
    shape, offsets = values["shape"], values["data_offsets"]
    if not (isinstance(shape, list) and len(shape) <= 8 and all(type(n) is int and n > 0 for n in shape)):
        raise ValueError(f"{tensor} has no valid shape")
    if not (isinstance(offsets, list) and len(offsets) == 2 and all(type(n) is int and n >= 0 for n in offsets)):
        raise ValueError(f"{tensor} has no valid data_offsets")
    begin, end = offsets
    if end - begin != math.prod(shape) * size:
        raise ValueError(f"{tensor} does not have as many bytes as its shape and type need")
    return Entry(dtype, tuple(shape), start + begin, start + end)


def tensor_shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    """Names and shapes of all tensors of a model: those of `Transformer.state_dict()`, known without PyTorch."""
    d_model, inner = config.d_model, config.n_heads * config.d_head
    shapes: dict[str, tuple[int, ...]] = {"src_embedding.weight": (config.src_vocab_size, d_model)}
    if not config.share_embeddings:
        shapes["tgt_embedding.weight"] = (config.tgt_vocab_size, d_model)
    if not config.tie_output:
        shapes["output.weight"] = (config.tgt_vocab_size, d_model)
    if config.logits_bias:
        shapes["logits_bias"] = (config.tgt_vocab_size,)
    if config.pointer_generator:
        shapes["copy_gate.weight"], shapes["copy_gate.bias"] = (1, d_model), (1,)

    def linear(name: str, n_in: int, n_out: int, bias: bool = config.bias) -> None:
        shapes[f"{name}.weight"] = (n_out, n_in)
        if bias:
            shapes[f"{name}.bias"] = (n_out,)

    def norm(name: str) -> None:
        shapes[f"{name}.weight"] = (d_model,)
        if config.bias and config.norm == "layer":
            shapes[f"{name}.bias"] = (d_model,)

    def attention(name: str) -> None:
        for projection in ("q_proj", "k_proj", "v_proj"):
            linear(f"{name}.{projection}", d_model, inner)
        linear(f"{name}.o_proj", inner, d_model)
        norm(f"{name}_norm")

    for stack, n_layers in (("encoder", config.n_encoder_layers), ("decoder", config.n_decoder_layers)):
        if config.embedding_norm:
            norm(f"{stack}.embedding_norm")
        if config.final_norm:
            norm(f"{stack}.final_norm")
        if config.n_segments and stack == "encoder":
            shapes["encoder.segment_embedding.weight"] = (config.n_segments, d_model)
        if config.positions == "learned":
            shapes[f"{stack}.position_embedding.weight"] = (config.max_positions + config.position_offset, d_model)
        elif config.positions == "relative":
            shapes[f"{stack}.relative_bias.weight"] = (config.relative_buckets, config.n_heads)
        for layer in (f"{stack}.layers.{i}" for i in range(n_layers)):
            if stack == "decoder" and config.decoder_autoregression == "ssru":
                linear(f"{layer}.self_attn.w", d_model, d_model, bias=False)
                linear(f"{layer}.self_attn.w_f", d_model, d_model, bias=True)
                norm(f"{layer}.self_attn_norm")
            else:
                attention(f"{layer}.self_attn")
            if stack == "decoder":
                attention(f"{layer}.cross_attn")
            linear(f"{layer}.ffn.w_1", d_model, config.d_ff)
            linear(f"{layer}.ffn.w_2", config.d_ff, d_model)
            if config.gated_ffn:
                linear(f"{layer}.ffn.w_gate", d_model, config.d_ff)
            norm(f"{layer}.ffn_norm")
    return shapes
