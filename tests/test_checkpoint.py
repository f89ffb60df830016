"""Checkpoints on disk: what was saved is read back, and whatever is wrong with the files is told in one line."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import tokenizers
import torch
from safetensors.numpy import load_file, save_file

from tx.model import checkpoint as cp
from tx.model.checkpoint import load_checkpoint, load_transformer, resolve_model, save_checkpoint, write_manifest
from tx.model.config import CheckpointConfig, GenerationConfig, ModelConfig, SpecialIds, Task
from tx.model.errors import CheckpointError
from tx.model.transformer import Transformer

SPECIAL = ["<pad>", "</s>", "<unk>", "<translate:zh>", "<translate:en>"]
FILES = ("config.json", "model.safetensors", "tokenizer.json", "manifest.json")


def tiny_tokenizer_json() -> str:
    pieces = (
        SPECIAL + [f"<0x{byte:02X}>" for byte in range(256)] + list(" abcdefghijklmnopqrstuvwxyz.,?!你好我们明天见。")
    )
    vocab = [(piece, -float(i) / 100) for i, piece in enumerate(pieces)]
    return tokenizers.Tokenizer(tokenizers.models.Unigram(vocab, unk_id=2, byte_fallback=True)).to_str()


def tiny_config(**changes: object) -> CheckpointConfig:
    size = tokenizers.Tokenizer.from_str(tiny_tokenizer_json()).get_vocab_size()
    sizes: dict[str, object] = {"d_model": 16, "n_heads": 2, "d_head": 8, "d_ff": 24}
    sizes |= {"n_encoder_layers": 2, "n_decoder_layers": 2, "src_vocab_size": size, "tgt_vocab_size": size}
    return CheckpointConfig(
        model=ModelConfig(**{**sizes, **changes}),
        special=SpecialIds(pad=0, eos=1, decoder_start=0, unk=2),
        generation=GenerationConfig(beam_size=2, max_length_factor=1.0, max_length_constant=4),
        tasks={
            "translate:zh": Task(src_prefix=(3,), source="en", target="zh"),
            "translate:en": Task(src_prefix=(4,), source="zh", target="en"),
        },
        name="tiny",
    )


def random_tensors(config: CheckpointConfig, seed: int = 0) -> dict[str, torch.Tensor]:
    """Weights that fp16 holds exactly, so that a model read back must equal the one that was saved."""
    torch.manual_seed(seed)
    return {name: tensor.half().float() for name, tensor in Transformer(config.model).state_dict().items()}


def save_tiny(path: Path, seed: int = 0, **changes: object) -> Path:
    config = tiny_config(**changes)
    return save_checkpoint(path, config, random_tensors(config, seed), tiny_tokenizer_json(), "# tiny\n")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return save_tiny(tmp_path / "tiny")


def refused(path: Path, *words: str) -> str:
    """The one line that says why `path` cannot be loaded; all `words` must be in it."""
    with pytest.raises(CheckpointError) as caught:
        load_transformer(load_checkpoint(path))
    message = str(caught.value)
    assert "\n" not in message
    for word in words:
        assert word in message
    return message


def change_tensors(folder: Path, change: object) -> None:
    tensors = load_file(folder / "model.safetensors")
    change(tensors)  # type: ignore[operator]
    save_file(tensors, folder / "model.safetensors")
    write_manifest(folder)


def change_config(folder: Path, change: object) -> None:
    values = json.loads((folder / "config.json").read_text())
    change(values)  # type: ignore[operator]
    (folder / "config.json").write_text(json.dumps(values))
    write_manifest(folder)


# --- what was saved is read back ---


@pytest.mark.parametrize("changes", [{}, {"tie_output": False, "share_embeddings": False}, {"positions": "relative"}])
def test_saved_model_is_read_back(tmp_path: Path, changes: dict[str, object]) -> None:
    folder = save_tiny(tmp_path / "new" / "tiny", **changes)
    checkpoint = load_checkpoint(folder)
    assert checkpoint.config == tiny_config(**changes)
    assert checkpoint.tokenizer.decode(checkpoint.tokenizer.encode("hello 你好 🙂")) == "hello 你好 🙂"

    config = tiny_config(**changes)
    expected = Transformer(config.model).eval()
    expected.load_state_dict(random_tensors(config))
    model = load_transformer(checkpoint)
    assert not model.training
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    src, tgt = torch.tensor([[3, 270, 271, 1]]), torch.tensor([[0, 272]])
    assert torch.equal(model(src, None, tgt)[0], expected(src, None, tgt)[0])


def test_weights_are_stored_as_fp16_unless_asked_otherwise(tmp_path: Path, folder: Path) -> None:
    assert {t.dtype for t in load_file(folder / "model.safetensors").values()} == {np.dtype("float16")}
    config = tiny_config()
    tensors = {name: tensor + 1e-6 for name, tensor in random_tensors(config).items()}
    exact = save_checkpoint(tmp_path / "exact", config, tensors, tiny_tokenizer_json(), "", dtype="float32")
    model = load_transformer(load_checkpoint(exact))
    assert all(torch.equal(model.state_dict()[name], tensor) for name, tensor in tensors.items())


def test_tensors_are_read_as_numpy_arrays(folder: Path) -> None:
    tensors = load_checkpoint(folder).tensors
    expected = random_tensors(tiny_config())
    assert set(tensors) == set(expected) and len(tensors) == len(expected)
    assert np.array_equal(tensors["src_embedding.weight"], expected["src_embedding.weight"].numpy())
    with pytest.raises(KeyError):
        tensors["nothing"]


def test_path_of_the_weights_stands_for_their_folder(folder: Path) -> None:
    assert load_checkpoint(folder / "model.safetensors").path == folder
    other = folder / "other.safetensors"
    other.write_bytes((folder / "model.safetensors").read_bytes())
    refused(other, "other.safetensors", "give a folder")


def test_loading_imports_no_torch(folder: Path) -> None:
    code = (
        "import sys; from tx.model.checkpoint import load_checkpoint, resolve_model; "
        "assert 'numpy' not in sys.modules; "
        "load_checkpoint(sys.argv[1]); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code, str(folder)], check=True)


def test_building_the_model_imports_nothing_more_of_torch(folder: Path) -> None:
    code = (
        "import sys, torch; from tx.model.checkpoint import load_checkpoint, load_transformer; "
        "checkpoint = load_checkpoint(sys.argv[1]); "
        "import tx.model.transformer, safetensors.torch; before = set(sys.modules); "
        "load_transformer(checkpoint); new = set(sys.modules) - before; assert len(new) < 20, sorted(new)"
    )
    subprocess.run([sys.executable, "-c", code, str(folder)], check=True)


def test_without_waiting_the_weights_are_verified_later(folder: Path) -> None:
    weights = folder / "model.safetensors"
    content = bytearray(weights.read_bytes())
    load_checkpoint(folder, wait=False).verify()
    content[-1] ^= 1
    weights.write_bytes(content)
    checkpoint = load_checkpoint(folder, wait=False)
    for _ in range(2):  # it does not become true by being asked again
        with pytest.raises(CheckpointError, match=r"model\.safetensors is damaged: its sha256 differs"):
            checkpoint.verify()
    with pytest.raises(CheckpointError, match="damaged"):
        load_checkpoint(folder)


def test_what_is_verified_is_what_is_used(folder: Path) -> None:
    checkpoint = load_checkpoint(folder, wait=False)
    before = {name: tensor.copy() for name, tensor in checkpoint.tensors.items()}
    save_tiny(folder, seed=1)  # replaces the folder by renaming
    checkpoint.verify()
    model = load_transformer(checkpoint).state_dict()
    assert all(np.array_equal(model[name].numpy(), before[name].astype(np.float32)) for name in before)


# --- names ---


def test_names_and_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed = tmp_path / "weights"
    for name in ("en-zh", "other"):
        save_tiny(installed / name)
    monkeypatch.setattr(cp, "WEIGHTS_DIR", installed)
    monkeypatch.delenv("TX_MODEL", raising=False)
    assert resolve_model() == installed / "en-zh"
    assert resolve_model("other") == installed / "other"
    assert resolve_model(tmp_path) == tmp_path
    monkeypatch.setenv("TX_MODEL", "other")
    assert resolve_model() == installed / "other"
    for missing in ("en-fr", "", str(tmp_path / "nowhere")):
        with pytest.raises(CheckpointError, match=r"no model .*there: en-zh, other"):
            resolve_model(missing)
    refused(tmp_path / "nowhere", "nowhere", "en-zh, other")


# --- damage ---


@pytest.mark.parametrize("name", FILES)
def test_missing_file(folder: Path, name: str) -> None:
    (folder / name).unlink()
    refused(folder, f"{name} missing")


@pytest.mark.parametrize("name", FILES)
def test_truncated_file(folder: Path, name: str) -> None:
    content = (folder / name).read_bytes()
    for size in {0, 1, 8, len(content) // 2, len(content) - 1}:
        if size < len(content) - (name == "manifest.json"):  # its last byte is a line feed that nothing depends on
            (folder / name).write_bytes(content[:size])
            words = () if name == "manifest.json" else ("incomplete", f"expected {len(content)} bytes, found {size}")
            refused(folder, name, *words)


@pytest.mark.parametrize("name", FILES)
def test_flipped_bits(folder: Path, name: str) -> None:
    content = bytearray((folder / name).read_bytes())
    random = np.random.default_rng(5)
    places = random.choice(len(content), min(40, len(content)), replace=False)
    for place in (0, 8, *places.tolist()):
        if place >= len(content):
            continue
        bit = 1 << int(random.integers(8))
        content[place] ^= bit
        (folder / name).write_bytes(content)
        with pytest.raises(CheckpointError):
            load_checkpoint(folder)
        content[place] ^= bit
    (folder / name).write_bytes(content)
    load_checkpoint(folder)


def test_longer_file_and_wrong_total(folder: Path) -> None:
    with (folder / "model.safetensors").open("ab") as file:
        file.write(b"more")
    refused(folder, "model.safetensors is not the file that was saved")
    write_manifest(folder)
    refused(folder, "model.safetensors is not a readable safetensors file")
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["total_bytes"] += 1
    (folder / "manifest.json").write_text(json.dumps(manifest))
    refused(folder, "manifest.json", "total_bytes")


@pytest.mark.parametrize("content", ["[]", "{}", '{"files": {}, "total_bytes": 0}', "[" * 100_000, "\ud800"])
def test_manifest_that_is_none(folder: Path, content: str) -> None:
    (folder / "manifest.json").write_bytes(content.encode("utf-8", "surrogatepass"))
    refused(folder, "manifest.json")


# --- files that could run code ---


class Bomb:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (os.abort, ())  # type: ignore[return-value]


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_pickle_is_refused_unread(tmp_path: Path, folder: Path, protocol: int) -> None:
    content = pickle.dumps({"weight": Bomb()}, protocol=protocol)
    for name in ("model.bin", "model.pt", "model.pth", "weights"):
        (tmp_path / name).write_bytes(content)
        refused(tmp_path / name, name, "could run code", "convert it to safetensors")
    (folder / "model.safetensors").write_bytes(content)
    refused(folder, "model.safetensors is a pickle")


def test_folder_with_a_pickle_in_place_of_weights(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Bomb()))
    refused(folder, "pytorch_model.bin is a pickle")


def test_zip_is_refused_unread(tmp_path: Path, folder: Path) -> None:
    with zipfile.ZipFile(tmp_path / "model.zip", "w") as archive:
        archive.writestr("data.pkl", pickle.dumps(Bomb()))
    refused(tmp_path / "model.zip", "a zip archive")
    (folder / "model.safetensors").write_bytes((tmp_path / "model.zip").read_bytes())
    refused(folder, "model.safetensors is a zip archive")


def test_header_length_that_looks_like_a_pickle_is_none(tmp_path: Path) -> None:
    # The header's length comes first, little-endian: one of 0x280 bytes starts like a pickle of protocol 2.
    path = tmp_path / "model.safetensors"
    for letters in range(400, 640):
        save_file({"w": np.zeros(2, np.float16)}, path, metadata={"note": "x" * letters})
        if path.read_bytes()[:2] == b"\x80\x02":
            break
    else:
        pytest.fail("no header of that length was made")
    refused(path, "not a complete checkpoint")


# --- whole files with wrong content ---


def test_tensors_that_do_not_fit(folder: Path) -> None:
    change_tensors(folder, lambda t: t.pop("encoder.layers.0.ffn.w_1.weight"))
    refused(folder, "model.safetensors", "missing: encoder.layers.0.ffn.w_1.weight")
    change_tensors(folder, lambda t: t.update({"encoder.layers.0.ffn.w_1.weight": np.zeros((16, 24), np.float16)}))
    refused(folder, "misshapen: encoder.layers.0.ffn.w_1.weight (16×24 instead of 24×16)")
    change_tensors(folder, lambda t: t.update({f"extra.{i}": np.zeros(1, np.float16) for i in range(5)}))
    assert "unexpected: extra.0, extra.1, extra.2 and 2 more" in refused(folder, "misshapen")
    change_tensors(folder, dict.clear)
    refused(folder, "missing: src_embedding.weight", "more")


def test_tensors_of_whole_numbers(folder: Path) -> None:
    change_tensors(folder, lambda t: t.update({"src_embedding.weight": t["src_embedding.weight"].astype(np.int8)}))
    refused(folder, "src_embedding.weight", "int8")


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda c: c.update(format=2), "format 2"),
        (lambda c: c.update(colour=1), "colour"),
        (lambda c: c.pop("special"), "special"),
        (lambda c: c["model"].update(d_model=15), "d_model"),
        (lambda c: c["model"].update(d_model="16"), "d_model"),
        (lambda c: c["generation"].update(beam_size="4"), "wrong kind"),
        (lambda c: c["special"].update(eos=10_000), "special.eos"),
        (lambda c: c["tasks"]["translate:zh"].update(src_prefix=[9_999]), "tasks.translate:zh"),
        (lambda c: c["tasks"].update(other=3), "wrong kind"),
        (lambda c: c.update(tasks=3), "wrong kind"),
        (lambda c: c["model"].update(src_vocab_size=100, tgt_vocab_size=100), "room for 100"),
    ],
)
def test_config_with_wrong_values(folder: Path, change: object, word: str) -> None:
    change_config(folder, change)
    refused(folder, ".json", word)


def test_tokenizer_that_is_none(folder: Path) -> None:
    (folder / "tokenizer.json").write_text('{"version": "1.0"}')
    write_manifest(folder)
    refused(folder, "tokenizer.json")


def test_what_the_system_refuses(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer.json").mkdir()
    refused(folder, "tokenizer.json")
    real = Path.open

    def no_permission(self: Path, *args: object, **kwargs: object) -> object:
        if self.name == "model.safetensors":
            raise PermissionError(13, "Permission denied")
        return real(self, *args, **kwargs)  # type: ignore[call-overload]

    monkeypatch.setattr(Path, "open", no_permission)
    refused(folder, "model.safetensors cannot be read: Permission denied")
    refused(Path("x" * 5_000), "cannot be read")


# --- saving ---


def test_saving_replaces_a_checkpoint_and_nothing_else(tmp_path: Path, folder: Path) -> None:
    before = (folder / "model.safetensors").read_bytes()
    save_tiny(folder, seed=1)
    assert (folder / "model.safetensors").read_bytes() != before
    load_transformer(load_checkpoint(folder))
    assert os.listdir(tmp_path) == ["tiny"]

    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "thesis.txt").write_text("years of work")
    with pytest.raises(CheckpointError, match="is not a checkpoint"):
        save_tiny(notes)
    with pytest.raises(CheckpointError, match="is a file"):
        save_tiny(notes / "thesis.txt")
    assert (notes / "thesis.txt").read_text() == "years of work"


@pytest.mark.parametrize("step", ["_write", "write_manifest", "_replace", "Path.rename"])
def test_interrupted_saving_leaves_the_old_checkpoint(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    before = {name: (folder / name).read_bytes() for name in FILES}
    real_rename = Path.rename

    def fail(*args: object) -> None:
        raise OSError(28, "No space left on device")

    def fail_the_second(self: Path, target: Path) -> Path:
        if self.name.endswith(".new"):
            fail()
        return real_rename(self, target)

    if step == "Path.rename":
        monkeypatch.setattr(Path, "rename", fail_the_second)
    else:
        monkeypatch.setattr(cp, step, fail)
    with pytest.raises(OSError, match="No space"):
        save_tiny(folder, seed=1)
    assert {name: (folder / name).read_bytes() for name in FILES} == before
    assert os.listdir(tmp_path) == ["tiny"]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e6])
def test_values_that_fp16_cannot_hold_are_not_saved(tmp_path: Path, value: float) -> None:
    config = tiny_config()
    tensors = random_tensors(config)
    tensors["src_embedding.weight"][3, 5] = value
    with pytest.raises(CheckpointError, match=r"src_embedding\.weight has values that are not finite as float16"):
        save_checkpoint(tmp_path / "tiny", config, tensors, tiny_tokenizer_json(), "")
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    for name in ("config.json", "manifest.json", "tokenizer.json"):
        (tmp_path / name).write_text("{}")
    os.mkfifo(tmp_path / "model.safetensors")
    with pytest.raises(CheckpointError, match="is not a file"):
        load_checkpoint(tmp_path)
