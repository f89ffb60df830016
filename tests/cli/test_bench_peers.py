"""`tx bench --against`: the programs that other translators are run by, with libraries that only look like them, and the
comparison that is made of their answers; the formula of the work, counted."""

from __future__ import annotations

import json
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tx.cli.main import main
from tx.model.bench import marian, peers, work
from tx.model.config import ModelConfig

# Each writes in capitals, so many letters as it may, and takes its time: in CTranslate2 the less the better its settings.
LIBRARIES = {
    "torch.py": "import contextlib\nfloat32 = 'float32'\ninference_mode = contextlib.nullcontext\n"
    "def set_num_threads(n): pass\n",
    "sentencepiece.py": "",
    "transformers.py": """
__version__ = "9.9"
class Ids(dict):
    input_ids = property(lambda self: self["input_ids"])
class AutoTokenizer:
    @classmethod
    def from_pretrained(cls, folder):
        return cls()
    def __call__(self, texts):
        return Ids(input_ids=[[*map(ord, text), 0] for text in texts])
    def pad(self, rows, return_tensors):
        assert return_tensors == "pt"
        return rows
    def batch_decode(self, ids, skip_special_tokens):
        return ["".join(chr(i) for i in row if i) for row in ids]
    def convert_ids_to_tokens(self, ids):
        return [chr(i) for i in ids]
    def convert_tokens_to_ids(self, tokens):
        return [ord(token) for token in tokens]
class AutoModelForSeq2SeqLM:
    @classmethod
    def from_pretrained(cls, folder, dtype):
        assert dtype == "float32"
        return cls()
    def eval(self):
        return self
    def generate(self, input_ids, num_beams, do_sample, max_new_tokens):
        assert not do_sample and [len(row) for row in input_ids] == sorted(len(row) for row in input_ids)
        return [[ord(chr(i).upper()) for i in row][:max_new_tokens] for row in input_ids]
""",
    "ctranslate2/__init__.py": """
import time
from types import SimpleNamespace
__version__ = "8.8"
def get_supported_compute_types(device):
    return {"float32", "int8", "int16"}
class Translator:
    def __init__(self, folder, device, compute_type, inter_threads, intra_threads):
        assert open(folder + "/model.bin").read() == "converted"
        self.pause = (0.001 if compute_type == "int8" else 0.02) + (0.02 if inter_threads == 1 else 0)
    def translate_batch(self, rows, max_batch_size, beam_size, max_decoding_length):
        time.sleep(self.pause + (0.02 if max_batch_size == 32 else 0))
        return [SimpleNamespace(hypotheses=[[c.upper() for c in row[:-1]][:max_decoding_length]]) for row in rows]
""",
    "ctranslate2/converters.py": """
import os
class TransformersConverter:
    def __init__(self, model):
        assert os.path.exists(model)
    def convert(self, folder, force):
        os.makedirs(folder)
        with open(folder + "/model.bin", "w") as file:
            file.write("converted")
""",
    "slimt/__init__.py": """
import os
from types import SimpleNamespace
assert os.path.exists(os.path.expanduser("~/.config/slimt/opus/models.json"))
class Config: pass
def Package(model, vocabulary, shortlist):
    return [model, vocabulary, shortlist]
def Model(config, package):
    assert (config.encoder_layers, config.decoder_layers, config.num_heads) == (6, 2, 8)
    assert all(map(os.path.exists, package))
class Service:
    def __init__(self, workers): pass
    def translate(self, model, texts):
        return [SimpleNamespace(target=SimpleNamespace(text=text.upper())) for text in texts]
""",
    "slimt-7.7.dist-info/METADATA": "Metadata-Version: 2.1\nName: slimt\nVersion: 7.7\n",
}


@pytest.fixture
def python(tmp_path: Path) -> str:
    """A Python that has the libraries."""
    library = tmp_path / "library"
    for name, content in LIBRARIES.items():
        (library / name).parent.mkdir(parents=True, exist_ok=True)
        (library / name).write_text(content)
    path = tmp_path / "python"
    path.write_text(f'#!/bin/sh\nPYTHONPATH={library} exec {sys.executable} -S "$@"\n')
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


@pytest.fixture
def job(tmp_path: Path) -> Callable[..., peers.Work]:
    def make(**changes: Any) -> peers.Work:
        facts = {"sizes": {"n_encoder_layers": 6, "n_decoder_layers": 2, "n_heads": 8}}
        folder = tmp_path / "own"
        folder.mkdir()
        values: dict[str, Any] = {"facts": facts, "model": tmp_path, "folder": folder, "threads": 2, "beam": 2}
        values |= {"length": 3, "batch_size": 2, "warm": ["warm"], "tune": ["abc"] * 3}
        return peers.Work(**{**values, **changes})

    return make


@pytest.mark.skipif(sys.platform == "win32", reason="needs a shell")
@pytest.mark.parametrize(
    ("name", "version", "how"),
    [
        ("transformers", "9.9", "float32"),
        ("ctranslate2", "8.8", "int8, 2 workers of 1, batches of 64"),  # of all the fastest
        ("slimt", "7.7", "int8, 2 workers"),
    ],
)
def test_each_program_answers(
    python: str, job: Callable[..., peers.Work], tmp_path: Path, name: str, version: str, how: str
) -> None:
    for file in ("model.bin", "vocab.spm", "lex.bin"):
        (tmp_path / file).touch()
    (found,) = peers.find([name], ["/bin/false", python])
    assert found.python == python
    with peers.start(found, job(sizes=(32, 64))) as child:
        assert (child.facts["version"], child.facts["how"]) == (version, how)
        reply = child.ask({"texts": ["two words", "a", "hello"], "beam": 2, "length": 3, "batch_size": 2})
    assert reply["texts"] == (["TWO WORDS", "A", "HELLO"] if name == "slimt" else ["TWO", "A", "HEL"])
    assert reply["seconds"] >= reply.get("tokenizing", 0.0) >= 0
    assert reply["peak_bytes"] is None or reply["peak_bytes"] > 1_000_000


@pytest.mark.skipif(sys.platform == "win32", reason="needs a shell")
def test_a_model_of_ours_is_compared_by_a_random_one(
    python: str,
    small_model: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsysbinary: pytest.CaptureFixture[bytes],
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("PYTHONPATH", ":".join(path for path in sys.path if path))
    lines = tmp_path / "lines.txt"
    lines.write_text("the bridge\nAnna the\n")
    options = ["--engine", "numpy", "--rounds", "1", "--beam", "1", "--batch-size", "2", "--file", str(lines), "--json"]
    options += ["--model", str(small_model), "--against", "transformers", "--peer-python", python, "-q"]
    status = main(["bench", *options])
    out, err = capsysbinary.readouterr()
    assert (status, err) == (0, b"")
    found = json.loads(out)["against"]
    assert (found["model"], found["beam"]) == ("random", 1) and found["length"] >= 2
    ours, theirs = found["cases"]
    assert (ours["name"], theirs["name"], theirs["how"]) == ("numpy", "transformers", "float32")
    assert ours["flags"] == {"cut": 2} or "looped" in ours["flags"]
    assert theirs["equal"] == 0  # it writes capitals
    assert theirs["ratio"]["median"] == pytest.approx(theirs["seconds"]["median"] / ours["seconds"]["median"])
    assert theirs["ratio_without_tokenizing"]["median"] <= theirs["ratio"]["median"]


# --- the work of a sentence ---


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"gated_ffn": True, "activation": "silu"},
        {"d_head": 12, "n_decoder_layers": 1},
        {"decoder_autoregression": "ssru"},
    ],
)
def test_the_formula_counts_what_the_layers_multiply(changes: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch")
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    from tx.model.transformer import Transformer

    sizes = {"d_model": 16, "n_heads": 2, "d_head": 8, "d_ff": 24, "n_encoder_layers": 3, "n_decoder_layers": 2}
    config = ModelConfig(50, 50, **{**sizes, **changes})
    model = Transformer(config).eval()
    src, steps, beam = 7, 5, 3

    # The fused kernels of attention are not counted.
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter, torch.no_grad():
        memory = model.encode(torch.ones(1, src, dtype=torch.long))
        state = model.start(memory)
        state.reorder(torch.zeros(beam, dtype=torch.long))
        for _ in range(steps):
            model.step(torch.ones(beam, dtype=torch.long), state)
    found = work.multiply_adds(config, src, steps, beam)
    assert 2 * found.total == counter.get_total_flops()
    assert (found + found).total == 2 * found.total


def test_weights_that_are_read() -> None:
    config = ModelConfig(50, 50, d_model=16, n_heads=2, d_head=8, d_ff=24, n_encoder_layers=3, n_decoder_layers=2)
    encoder, step = work.weights_read(config)
    assert encoder == 3 * (4 * 16 * 16 + 2 * 16 * 24) + 2 * 2 * 16 * 16
    assert step == 2 * (6 * 16 * 16 + 2 * 16 * 24) + 16 * 50
    assert work.weights_read(config, columns=10)[1] == step - 40 * 16
    assert work.shapes(config, 10)["output"] == (16, 10)


def test_the_random_vocabulary_fills_up_and_is_cut() -> None:
    pieces = marian._pieces([("</s>", -1000.0), ("<0x0A>", -1.0), (" a", -1.0), ("b", -2.0)], 8)
    assert [piece for piece, _ in pieces] == ["</s>", "<unk>", "▁a", "b", "▁⸨0⸩", "▁⸨1⸩", "▁⸨2⸩", "<pad>"]
    assert [piece for piece, _ in marian._pieces([("a", -1.0), ("b", -2.0)], 4)] == ["</s>", "<unk>", "a", "<pad>"]
