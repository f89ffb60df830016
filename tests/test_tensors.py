"""Tensors on disk: views onto the file that equal what the safetensors library reads, and nothing else is accepted."""

from __future__ import annotations

import json
import mmap
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
import safetensors.torch
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tx.model.config import ModelConfig
from tx.model.errors import CheckpointError
from tx.model.tensors import MAX_HEADER_BYTES, TYPES, TensorFile, tensor_shapes
from tx.model.transformer import Transformer

TORCH_TYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U64": torch.uint64,
    "U32": torch.uint32,
    "U16": torch.uint16,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}
HEADER = {
    "a": {"dtype": "F16", "shape": [2, 3], "data_offsets": [0, 12]},
    "b": {"dtype": "F32", "shape": [], "data_offsets": [12, 16]},
    "c": {"dtype": "BF16", "shape": [4], "data_offsets": [16, 24]},
}


def write(path: Path, header: object, n_bytes: int = 24, length: int | None = None) -> Path:
    """A file with this header (a text as it stands) over `n_bytes` bytes of data."""
    text = (header if isinstance(header, str) else json.dumps(header)).encode("utf-8", "surrogatepass")
    data = bytes(i % 50 for i in range(n_bytes))
    path.write_bytes((len(text) if length is None else length).to_bytes(8, "little") + text + data)
    return path


def refused(path: Path, words: str = "is not a readable safetensors file: ") -> None:
    with pytest.raises(CheckpointError) as caught:
        TensorFile(path)
    message = str(caught.value)
    assert message.startswith(str(path)) and "\n" not in message and len(message) < len(str(path)) + 300
    assert words in message


# --- what is read ---


def test_every_type_is_read_as_the_library_does(tmp_path: Path) -> None:
    assert set(TORCH_TYPES) == set(TYPES)
    torch.manual_seed(0)
    tensors = {name: (torch.randn(3, 5) * 7).to(kind) for name, kind in TORCH_TYPES.items()}
    safetensors.torch.save_file(tensors, tmp_path / "t", metadata={"note": "x"})
    file = TensorFile(tmp_path / "t")
    assert set(file) == set(tensors) and len(file) == len(tensors)
    for name, tensor in tensors.items():
        expected = tensor.float() if name == "BF16" else tensor
        assert file.shapes[name] == (3, 5)
        assert file[name].dtype == expected.numpy().dtype
        assert np.array_equal(file[name], expected.numpy()), name
    with pytest.raises(KeyError):
        file["nothing"]


def test_bfloat16_of_every_pattern_of_bits(tmp_path: Path) -> None:
    bits = torch.arange(-(2**15), 2**15, dtype=torch.int16)
    safetensors.torch.save_file({"w": bits.view(torch.bfloat16)}, tmp_path / "t")
    expected = bits.view(torch.bfloat16).float().numpy()
    assert np.array_equal(TensorFile(tmp_path / "t")["w"].view(np.uint32), expected.view(np.uint32))


def test_tensors_are_views_onto_the_file(tmp_path: Path) -> None:
    safetensors.numpy.save_file({"w": np.ones((4, 4), np.float16)}, tmp_path / "t")
    array = TensorFile(tmp_path / "t")["w"]
    assert not array.flags.owndata and not array.flags.writeable
    base = array
    while isinstance(base, np.ndarray):
        base = base.base
    assert isinstance(base.obj if isinstance(base, memoryview) else base, mmap.mmap)
    (tmp_path / "t").unlink()  # the map stays
    assert array.sum() == 16


def test_tensors_that_lie_askew_are_read(tmp_path: Path) -> None:
    header = {
        "x": {"dtype": "I8", "shape": [1], "data_offsets": [0, 1]},
        "w": {"dtype": "F32", "shape": [2], "data_offsets": [1, 9]},
    }
    path = write(tmp_path / "t", header, 9)
    assert TensorFile(path)["w"].tolist() == safetensors.numpy.load_file(path)["w"].tolist()


def test_reading_the_header_imports_no_numpy(tmp_path: Path) -> None:
    path = write(tmp_path / "t", HEADER)
    code = (
        "import sys; from pathlib import Path; from tx.model.tensors import TensorFile; "
        "print(TensorFile(Path(sys.argv[1])).shapes, 'numpy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert done.stdout == "{'a': (2, 3), 'b': (), 'c': (4,)} False\n"


# --- what is refused ---


def entry(**changes: object) -> dict[str, object]:
    return {"a": {**HEADER["a"], **changes}}


def pair(first: list[int], second: list[int]) -> dict[str, object]:
    values = {"dtype": "F16", "shape": [6]}
    return {"a": {**values, "data_offsets": first}, "b": {**values, "data_offsets": second}}


@pytest.mark.parametrize(
    ("header", "n_bytes"),
    [
        ("", 0),
        ("{}", 1),
        ("[]", 0),
        ("null", 0),
        (" {}", 0),
        ("\ufeff{}", 0),
        ("{" * 100_000, 0),
        ('{"a":' * 100_000, 0),
        ('{"a":' + "[" * 100_000, 0),
        ('{"a": ' + "9" * 10_000 + "}", 0),
        ('{"a": \ud800}', 0),
        ({"a": []}, 12),
        ({"a": {}}, 12),
        (entry(more=1), 12),
        (entry(dtype="F8_E4M3"), 12),
        (entry(dtype=16), 12),
        (entry(dtype=None), 12),
        (entry(dtype=["F16"]), 12),
        (entry(dtype="F32"), 12),
        (entry(shape=[2, 4]), 12),
        (entry(shape=[-2, -3]), 12),
        (entry(shape=[2.0, 3]), 12),
        (entry(shape=[True, 6]), 12),
        (entry(shape=["2", 3]), 12),
        (entry(shape=6), 12),
        (entry(shape=None), 12),
        (entry(shape=[1] * 100 + [6]), 12),
        (entry(shape=[0, 2**62]), 0),
        (entry(shape=[2**62, 2**62]), 12),
        (entry(shape=[2**60]), 12),
        (entry(data_offsets=[0]), 12),
        (entry(data_offsets=[0, 12, 12]), 12),
        (entry(data_offsets=[12, 0]), 12),
        (entry(data_offsets=[-12, 0]), 12),
        (entry(data_offsets=[0, 12.0]), 12),
        (entry(data_offsets=[False, 12]), 12),
        (entry(data_offsets=[2**60, 2**60 + 12]), 12),
        (entry(data_offsets=[0, 2**61], shape=[2**60]), 12),
        (entry(data_offsets=[1, 13]), 13),
        (entry(), 11),
        (entry(), 13),
        (pair([0, 12], [0, 12]), 12),
        (pair([0, 12], [6, 18]), 18),
        (pair([0, 12], [13, 25]), 25),
        (pair([0, 12], [12, 24]), 23),
        ('{"a": {"dtype": "F16", "shape": [6], "data_offsets": [0, 12]}, "a": {}}', 12),
        ('{"a": {"dtype": "F16", "dtype": "F16", "shape": [6], "data_offsets": [0, 12]}}', 12),
        ({**entry(), "__metadata__": 3}, 12),
        ({**entry(), "__metadata__": {"a": {"b": "c"}}}, 12),
        ({**entry(), "__metadata__": None}, 12),
    ],
)
def test_malformed_header(tmp_path: Path, header: object, n_bytes: int) -> None:
    refused(write(tmp_path / "t", header, n_bytes))


@pytest.mark.parametrize("length", [0, 1, 23, 2**20, MAX_HEADER_BYTES + 1, 2**32, 2**60, 2**63, 2**64 - 1])
def test_header_of_a_wrong_length(tmp_path: Path, length: int) -> None:
    refused(write(tmp_path / "t", HEADER, length=length))


@pytest.mark.parametrize("content", [b"", b"\0", b"\0" * 7, b"\0" * 8, b"\xff" * 8, b"\2\0\0\0\0\0\0\0\xff\xfe"])
def test_hardly_a_file(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "t").write_bytes(content)
    refused(tmp_path / "t")


def test_no_file(tmp_path: Path) -> None:
    refused(tmp_path / "t", "cannot be read: No such file or directory")
    refused(tmp_path, "cannot be read: Is a directory")


def agrees_with_the_library(path: Path) -> None:
    """Either one clear line, or all tensors as the library reads them."""
    try:
        file = TensorFile(path)
    except CheckpointError as error:
        assert "\n" not in str(error)
        return
    expected = safetensors.torch.load_file(path)
    assert set(file) == set(expected)
    for name, tensor in expected.items():
        tensor = tensor.float() if tensor.dtype == torch.bfloat16 else tensor
        assert np.array_equal(file[name], tensor.numpy(), equal_nan=tensor.is_floating_point())


NUMBERS = st.one_of(st.integers(-2, 30), st.integers(-(2**70), 2**70), st.sampled_from([0, 12, 16, 24, 2**63]))
VALUES = st.one_of(NUMBERS, st.booleans(), st.none(), st.floats(), st.sampled_from([*TYPES, "F8_E4M3", ""]))
FIELDS = st.one_of(VALUES, st.lists(NUMBERS, max_size=3), st.dictionaries(st.sampled_from("ab"), VALUES, max_size=1))
ENTRIES = st.fixed_dictionaries(
    {},
    optional={
        "dtype": st.one_of(st.sampled_from(list(TYPES)), FIELDS),
        "shape": st.one_of(st.lists(st.integers(0, 6), max_size=3), FIELDS),
        "data_offsets": st.one_of(st.lists(st.sampled_from([0, 8, 12, 16, 24]), min_size=2, max_size=2), FIELDS),
    },
)


@settings(deadline=None, max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.one_of(st.just(HEADER), st.dictionaries(st.sampled_from("abcd"), ENTRIES, max_size=3)), st.data())
def test_any_header_is_read_rightly_or_refused(tmp_path: Path, header: dict[str, object], data: st.DataObject) -> None:
    header = dict(header)
    for name in data.draw(st.lists(st.sampled_from("abc"), max_size=2)):
        values = header.get(name)
        if isinstance(values, dict):  # one field of an entry that may be right otherwise
            header[name] = {**values, data.draw(st.sampled_from(["dtype", "shape", "data_offsets"])): data.draw(FIELDS)}
    agrees_with_the_library(write(tmp_path / "t", header, data.draw(st.sampled_from([0, 12, 16, 24, 25]))))


@settings(deadline=None, max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 300), st.integers(0, 255), st.integers(0, 300))
def test_any_damage_is_read_rightly_or_refused(tmp_path: Path, place: int, byte: int, length: int) -> None:
    content = bytearray(write(tmp_path / "whole", HEADER).read_bytes())
    content[place % len(content)] = byte
    (tmp_path / "t").write_bytes(content[: len(content) - length if length < 30 else len(content)])
    agrees_with_the_library(tmp_path / "t")


# --- names and shapes ---


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_names_and_shapes_are_those_of_the_model(data: st.DataObject) -> None:
    switches = ("norm_first", "final_norm", "embedding_norm", "bias", "gated_ffn", "share_embeddings", "tie_output")
    changes = {name: data.draw(st.booleans(), name) for name in (*switches, "logits_bias", "pointer_generator")}
    config = ModelConfig(
        src_vocab_size=11,
        tgt_vocab_size=11 if changes["share_embeddings"] or changes["pointer_generator"] else 13,
        d_model=8,
        n_heads=3,
        d_head=2,
        d_ff=10,
        n_encoder_layers=data.draw(st.integers(1, 2)),
        n_decoder_layers=data.draw(st.integers(1, 2)),
        norm=data.draw(st.sampled_from(["layer", "rms"])),
        positions=data.draw(st.sampled_from(["sinusoidal", "learned", "relative"])),
        position_offset=data.draw(st.integers(0, 2)),
        max_positions=9,
        relative_buckets=8,
        n_segments=data.draw(st.integers(0, 3)),
        decoder_autoregression=data.draw(st.sampled_from(["attention", "ssru"])),
        **changes,
    )
    with torch.device("meta"):
        model = Transformer(config)
    assert tensor_shapes(config) == {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
