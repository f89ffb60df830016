"""How weights are stored: shards, PyTorch files, bfloat16; memory; and hostile folders."""

from __future__ import annotations

import json
import math
import os
import pickle
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from tx.model.convert import convert_folder
from tx.model.errors import CheckpointError
from tx.model.numpy_engine import NumpyTransformer
from tx.model.stored_tensors import BFloat16, read_tensors

Tensors = dict[str, torch.Tensor]


@pytest.fixture(scope="module")
def reference(parity: Any) -> Any:
    return parity.pair("t5").reference


@pytest.fixture(scope="module")
def tensors(reference: Any) -> Tensors:
    """As the reference stores them: no tensor twice."""
    found = reference.state_dict()
    return {name: found[name].detach() for name in found if "embed_tokens" not in name and name != "lm_head.weight"}


@pytest.fixture
def folder(reference: Any, tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text(json.dumps(reference.config.to_dict()))
    return tmp_path


@pytest.fixture
def fails(folder: Path) -> Callable[[str], None]:
    def check(words: str) -> None:
        with pytest.raises(CheckpointError) as caught:
            convert_folder(folder)
        message = str(caught.value)
        assert words in message and str(folder) in message and "\n" not in message and len(message) < 500, message

    return check


def split(tensors: Tensors, n: int) -> list[Tensors]:
    names = sorted(tensors)
    return [{name: tensors[name] for name in names[i::n]} for i in range(n)]


def save_shards(folder: Path, tensors: Tensors, pickled: bool = False) -> Path:
    """Three shards and their index, whose path is returned."""
    where = {}
    for i, part in enumerate(split(tensors, 3), 1):
        name = f"pytorch_model-0000{i}-of-00003.bin" if pickled else f"model-0000{i}-of-00003.safetensors"
        where |= dict.fromkeys(part, name)
        if pickled:
            torch.save(part, folder / name)
        else:
            save_file(part, folder / name)
    index = folder / ("pytorch_model.bin.index.json" if pickled else "model.safetensors.index.json")
    index.write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": where}))
    return index


# --- ways to store the same ---


@pytest.mark.parametrize("way", ["whole", "shards", "pickle", "old pickle", "pickled shards"])
def test_all_ways_hold_the_same(parity: Any, reference: Any, tensors: Tensors, folder: Path, way: str) -> None:
    if way == "whole":
        save_file(tensors, folder / "model.safetensors")
    elif "shards" in way:
        save_shards(folder, tensors, pickled="pickled" in way)
    else:
        state = reference.state_dict()  # with the copies
        torch.save(state, folder / "pytorch_model.bin", _use_new_zipfile_serialization=way == "pickle")
    found, expected = convert_folder(folder), parity.convert(reference)
    assert found.model == expected.model
    assert found.tensors.keys() == expected.tensors.keys()
    for name, array in expected.tensors.items():
        assert np.array_equal(found.tensors[name], array), name


def test_where_there_are_several_the_first_counts(tensors: Tensors, folder: Path) -> None:
    save_shards(folder, tensors, pickled=True)
    save_file({"a": torch.zeros(1)}, folder / "model.safetensors")
    assert list(read_tensors(folder)) == ["a"]


@pytest.mark.parametrize("pickled", [False, True])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_types_of_numbers(parity: Any, tensors: Tensors, folder: Path, dtype: torch.dtype, pickled: bool) -> None:
    """Both engines take them as they are; a tied table stays in 16 bits until it is used."""
    other = {name: tensor.to(dtype) for name, tensor in tensors.items()}
    if pickled:
        torch.save(other, folder / "pytorch_model.bin")
    else:
        save_file(other, folder / "model.safetensors")
    converted = convert_folder(folder)
    assert set(converted.tensors) and all(
        (type(x) is BFloat16) == (dtype == torch.bfloat16) for x in converted.tensors.values()
    )
    table = converted.tensors["src_embedding.weight"]
    assert np.array_equal(
        table[np.array([5, 3])], other["shared.weight"][[5, 3]].to(torch.promote_types(dtype, torch.float32))
    )
    pair = parity.pair("t5")
    src, tgt = pair.inputs.src[:1, :20], pair.inputs.tgt[:1, :20]
    expected, _ = parity.our_model(
        pair.converted._replace(tensors={n: np.asarray(t) for n, t in converted.tensors.items()})
    )(src, None, tgt)
    logits, _ = NumpyTransformer(converted.model, converted.tensors).forward(src.numpy(), None, tgt.numpy())
    assert logits.dtype == np.float32
    np.testing.assert_allclose(logits, expected.detach(), atol=1e-4)


def test_bfloat16() -> None:
    """Every bit pattern becomes the number that PyTorch says it is."""
    bits = np.arange(2**16, dtype=np.uint16).reshape(256, 256)
    expected = torch.from_numpy(bits.view(np.int16)).view(torch.bfloat16).float().numpy()
    x = BFloat16(bits)
    assert np.array_equal(np.asarray(x), expected, equal_nan=True)
    assert np.array_equal(x[7:9], expected[7:9], equal_nan=True) and np.array_equal(x[3], expected[3], equal_nan=True)
    assert np.array_equal(x.reshape(65536)[[1, 65535]], expected.ravel()[[1, 65535]], equal_nan=True)
    assert (x.shape, x.ndim, len(x), x.dtype) == ((256, 256), 2, 256, np.float32)
    assert x[:100].dtype == np.float32 and BFloat16(bits[:100]).astype(np.float64).dtype == np.float64
    with pytest.raises(ValueError, match="without a copy"):
        x.__array__(copy=False)


def test_a_header_of_an_odd_length(tensors: Tensors, folder: Path) -> None:
    save_file(tensors, folder / "model.safetensors")
    content = (folder / "model.safetensors").read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = content[8 : 8 + length].rstrip() + b" "
    header += b" " * (1 - len(header) % 2)
    (folder / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + content[8 + length :])
    for name, array in read_tensors(folder).items():
        assert array.flags.aligned and np.array_equal(array, tensors[name])  # type: ignore[union-attr]


def test_what_is_written_to_a_tensor_stays_in_memory(tensors: Tensors, folder: Path) -> None:
    save_file(tensors, folder / "model.safetensors")
    before = (folder / "model.safetensors").read_bytes()
    array = read_tensors(folder)["shared.weight"]
    array[:] = 7  # type: ignore[index]
    assert (folder / "model.safetensors").read_bytes() == before


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak of memory is read from Linux")
def test_memory_is_taken_once(folder: Path, parity: Any) -> None:
    """A checkpoint of 160 MB: opening it costs nothing, an engine of either kind no more than its size and some room."""
    d_model, d_ff, vocab = 512, 2048, 8192
    model = parity.build(
        "t5",
        std=0.01,
        d_model=d_model,
        d_kv=64,
        d_ff=d_ff,
        vocab_size=vocab,
        num_heads=8,
        num_layers=6,
        num_decoder_layers=4,
    )
    model.save_pretrained(folder)
    size = (folder / "model.safetensors").stat().st_size
    assert size > 150e6
    code = f"""
import sys
import numpy as np
import tx.model.numpy_engine as engine
from tx.model.convert import convert_folder
def peak(): return 1024 * int(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
before = peak()
converted = convert_folder({str(folder)!r})
opened = peak()
model = engine.NumpyTransformer(converted.model, converted.tensors)
model.forward(np.array([[5, 6, 1]]), None, np.array([[0, 7]]))
print(opened - before, peak() - before, "torch" in sys.modules)
"""
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    opened, used, torch_is_there = done.stdout.split()
    assert int(opened) < 0.1 * size
    assert int(used) < 1.6 * size
    assert torch_is_there == "False"


# --- hostile folders ---


class Payload:
    """Runs a command when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.path),)


def pickled_zip(path: Path, content: bytes, compression: int = zipfile.ZIP_STORED) -> None:
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr("archive/data.pkl", content)
        archive.writestr("archive/version", "3\n")
        archive.writestr("archive/data/0", bytes(400))


@pytest.mark.parametrize("protocol", [0, 2, 4])
@pytest.mark.parametrize("way", ["plain", "zip", "old"])
def test_a_payload_is_not_run(folder: Path, fails: Callable[[str], None], protocol: int, way: str) -> None:
    ran = folder / "ran"
    content = pickle.dumps({"shared.weight": Payload(ran)}, protocol)
    if way == "zip":
        pickled_zip(folder / "pytorch_model.bin", content)
    elif way == "plain":
        (folder / "pytorch_model.bin").write_bytes(content)
    else:
        torch.save({"shared.weight": Payload(ran)}, folder / "pytorch_model.bin", _use_new_zipfile_serialization=False)
    fails("pytorch_model.bin holds more than tensors by name or is damaged: it is not read")
    assert not ran.exists()


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.safetensors"])
def test_what_is_there_instead_of_weights(folder: Path, fails: Callable[[str], None], name: str) -> None:
    (folder / name).write_bytes(b"")
    fails(f"{name} is empty: get it again")
    (folder / name).write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0a\nsize 12345\n")
    fails(f"{name} only says where the weights are: get the file itself, with git lfs pull")


def calling(module: str, name: str, arguments: bytes) -> bytes:
    """A pickle of {"a": module.name(*arguments)}."""
    return b"\x80\x02}X\x01\0\0\0ac" + f"{module}\n{name}\n".encode() + b"(" + arguments + b"tRs."


@pytest.mark.parametrize(
    "content",
    [
        calling("__builtin__", "bytearray", b"\x8a\x05\0\0\0\0\x10"),  # 2^36 bytes, which torch's list allows
        calling("builtins", "set", b""),
        calling("torch._utils", "_rebuild_meta_tensor_no_storage", b""),
        b"\x80\x02}X\x01\0\0\0aK\x05s.",  # a number
        b"\x80\x02]K\x05a.",  # a list
        b"\x80\x02X\xff\xff\xff\xffa.",  # a text of 4 GB
        b"\x80\x02" + b"]" * 10**5 + b"a" * (10**5 - 1) + b".",  # nested lists
        b"",
    ],
    ids=["bytearray", "set", "meta tensor", "number", "list", "long text", "nested", "empty"],
)
@pytest.mark.parametrize("in_zip", [True, False])
def test_pickles_of_other_things(folder: Path, fails: Callable[[str], None], content: bytes, in_zip: bool) -> None:
    if in_zip:
        pickled_zip(folder / "pytorch_model.bin", content)
    else:
        (folder / "pytorch_model.bin").write_bytes(content)
    fails("it is not read" if content or in_zip else "pytorch_model.bin is empty")


def test_a_pytorch_file_that_grows(tensors: Tensors, folder: Path, fails: Callable[[str], None]) -> None:
    """One number that says it is many, and an archive whose parts are compressed."""
    many = torch.zeros(1).expand(tensors["shared.weight"].shape)
    torch.save(tensors | {"shared.weight": many}, folder / "pytorch_model.bin")
    fails("it is not read")
    torch.save(tensors, folder / "pytorch_model.bin")
    with zipfile.ZipFile(folder / "pytorch_model.bin") as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(folder / "pytorch_model.bin", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, part in parts.items():
            archive.writestr(name, part)
    fails("it is not read")


def test_a_truncated_pytorch_file(tensors: Tensors, folder: Path, fails: Callable[[str], None]) -> None:
    for old in (False, True):
        path = folder / "pytorch_model.bin"
        torch.save(tensors, path, _use_new_zipfile_serialization=not old)
        content = path.read_bytes()
        for part in (0.1, 0.5, 0.9, 0.999):
            size = int(len(content) * part)
            path.write_bytes(content[:size])
            fails(f"pytorch_model.bin is incomplete or damaged ({size:,} bytes): get it again")


def test_headers_that_lie(tensors: Tensors, folder: Path, fails: Callable[[str], None]) -> None:
    path = folder / "model.safetensors"
    save_file(tensors, path)
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    path.write_bytes((2**60).to_bytes(8, "little") + content[8:])
    fails(f"its header would have {2**60} bytes")
    path.write_bytes(content[:-100])
    fails("its tensors end at byte")
    path.write_bytes(b"")
    fails("model.safetensors is empty")
    nested = b"{" + b'"a":[' * 10**6
    path.write_bytes(len(nested).to_bytes(8, "little") + nested)
    fails("is not a readable safetensors file")
    header = json.loads(content[8 : 8 + length])
    header["shared.weight"]["shape"] = [2**40, 2**20]
    changed = json.dumps(header).encode()
    path.write_bytes(len(changed).to_bytes(8, "little") + changed + content[8 + length :])
    fails("'shared.weight' does not have as many bytes as its shape and type need")


def test_shapes_that_do_not_fit(reference: Any, tensors: Tensors, folder: Path, fails: Callable[[str], None]) -> None:
    save_file(tensors | {"shared.weight": torch.zeros(67, 33)}, folder / "model.safetensors")
    fails("tensor shared.weight has shape 67×33, but config.json says 67×32")
    save_file(tensors | {"shared.weight": torch.zeros(67, 32, dtype=torch.int64)}, folder / "model.safetensors")
    fails("tensor shared.weight is int64, not floating point")
    save_file(tensors, folder / "model.safetensors")
    values = reference.config.to_dict()
    for key in ("d_model", "d_ff", "vocab_size", "num_layers", "num_heads", "relative_attention_num_buckets"):
        for value in (2**30, 2**62, 10**400, -1, 0, 1.5, "8", True, [], {}):
            (folder / "config.json").write_text(json.dumps(values | {key: value}))
            fails("config.json")


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "a/../../x", "..", ".", "", "..\\x", "x\n", "x\0"])
@pytest.mark.parametrize("pickled", [False, True])
def test_an_index_names_files_of_its_folder_only(
    tensors: Tensors, folder: Path, fails: Callable[[str], None], name: str, pickled: bool
) -> None:
    index = save_shards(folder, tensors, pickled)
    values = json.loads(index.read_text())
    values["weight_map"]["shared.weight"] = name
    index.write_text(json.dumps(values))
    fails("which is not a file in its folder")


def test_an_index_that_lies(tensors: Tensors, folder: Path, fails: Callable[[str], None]) -> None:
    index = save_shards(folder, tensors)
    values = json.loads(index.read_text())
    where = values["weight_map"]

    def says(weight_map: Any, words: str) -> None:
        index.write_text(json.dumps({"weight_map": weight_map}))
        fails(words)

    says(where | {"nothing": where["shared.weight"]}, "does not hold what model.safetensors.index.json says")
    says({n: f for n, f in where.items() if n != "shared.weight"}, "does not hold what")
    says(where | {"shared.weight": "model-4.safetensors"}, "does not hold what")
    says(where | {"more": "model-4.safetensors"}, "model-4.safetensors is missing")
    says(where | {"more": "config.json"}, "config.json is not a readable safetensors file")
    says(where | {"more": 7}, "has no weight_map")
    says([], "has no weight_map")
    says({}, "has no weight_map")
    index.write_text('{"weight_map":' * 5 * 10**5)
    fails("model.safetensors.index.json is nested too deeply")
    index.write_text(json.dumps(values))
    shard = folder / "model-00002-of-00003.safetensors"
    shard.write_bytes(shard.read_bytes()[:-1000])
    fails("model-00002-of-00003.safetensors is not a readable safetensors file: its tensors end")
    shard.unlink()
    fails("model-00002-of-00003.safetensors is missing")


def test_configurations_that_are_none(tensors: Tensors, folder: Path, fails: Callable[[str], None]) -> None:
    save_file(tensors, folder / "model.safetensors")
    config = folder / "config.json"
    for content, words in (
        ("[" * 10**6, "config.json is nested too deeply"),
        ('{"a":' * 10**6, "config.json is nested too deeply"),
        ("[]", "must hold a JSON object, not list"),
        ("\udcff", "is not valid JSON"),
        ('{"model_type": ["t5"]}', "model_type ['t5'] is not known"),
        (json.dumps({"model_type": "x" * 10**6}), "is not known"),
        ('{"model_type": "t5"}', "config.json has no vocab_size"),
    ):
        config.write_bytes(content.encode("utf-8", "surrogateescape"))
        fails(words)
    config.unlink()
    os.mkfifo(config)
    fails("config.json is no file")


def test_a_large_configuration_is_not_read(folder: Path, fails: Callable[[str], None]) -> None:
    os.truncate(folder / "config.json", 2**40)
    fails("config.json is larger than 10,000,000 bytes, the most that it should need: it has 1,099,511,627,776 bytes")


@pytest.mark.parametrize("kind", ["safetensors", "zip", "old"])
def test_damage_of_any_kind_is_one_line_or_other_numbers(tensors: Tensors, folder: Path, kind: str) -> None:
    """Bytes replaced, mostly where the names and sizes are: nothing else is raised, nothing larger than the file is made."""
    small = {name: tensor[:2] for name, tensor in tensors.items()}
    path = folder / ("model.safetensors" if kind == "safetensors" else "pytorch_model.bin")
    if kind == "safetensors":
        save_file(small, path)
    else:
        torch.save(small, path, _use_new_zipfile_serialization=kind == "zip")
    content = path.read_bytes()
    # The archive has its names and places at its end as well.
    places = st.one_of(
        st.integers(0, min(8000, len(content) - 1)), st.integers(max(0, len(content) - 4000), len(content) - 1)
    )

    @settings(max_examples=150, deadline=None, database=None, derandomize=True)
    @given(st.lists(st.tuples(places, st.binary(min_size=1, max_size=8)), min_size=1, max_size=3))
    def damaged(changes: list[tuple[int, bytes]]) -> None:
        changed = bytearray(content)
        for place, new in changes:
            changed[place : place + len(new)] = new
        path.write_bytes(changed)
        try:
            found = read_tensors(folder)
        except CheckpointError as error:
            assert "\n" not in str(error) and str(path) in str(error)
        else:
            assert all(2 * math.prod(array.shape) <= len(changed) for array in found.values())

    damaged()


@pytest.mark.parametrize("kind", ["safetensors", "zip", "old"])
def test_no_bytes_at_all_are_read_as_tensors(folder: Path, kind: str) -> None:
    path = folder / ("model.safetensors" if kind == "safetensors" else "pytorch_model.bin")
    start = {"safetensors": b"", "zip": b"PK\x03\x04", "old": b"\x80\x02"}[kind]

    @settings(max_examples=100, deadline=None, database=None, derandomize=True)
    @given(st.binary(max_size=300))
    def nonsense(content: bytes) -> None:
        path.write_bytes(start + content)
        with pytest.raises(CheckpointError):
            read_tensors(folder)

    nonsense()


def test_sizes_in_a_pickle_that_are_not_those_of_its_storage(folder: Path, fails: Callable[[str], None]) -> None:
    for numbers, size, stride in (
        (2**40, 2**30, 1),
        (100, 2**40, 1),
        (100, 2**40, 0),
        (100, 10, 2**50),
        (100, 2**62, 2**62),
    ):
        tensor = (
            b"ctorch._utils\n_rebuild_tensor_v2\n((X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\x000X\x03\0\0\0cpu"
            + long(numbers)
            + b"tQK\0("
            + long(size)
            + b"t("
            + long(stride)
            + b"t\x89ccollections\nOrderedDict\n)RtR"
        )
        pickled_zip(folder / "pytorch_model.bin", b"\x80\x02}X\x01\0\0\0a" + tensor + b"s.")
        fails("it is not read")
    good = tensor.replace(long(2**62), long(10), 1).replace(long(2**62), long(1), 1)
    pickled_zip(folder / "pytorch_model.bin", b"\x80\x02}X\x01\0\0\0a" + good + b"s.")
    assert read_tensors(folder)["a"].shape == (10,)  # the same way to write it is read where the sizes are right


def long(number: int) -> bytes:
    """A whole number in a pickle."""
    content = number.to_bytes(9, "little", signed=True)
    return b"\x8a\x09" + content
