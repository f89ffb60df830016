"""Fixtures that more than one folder of tests uses."""

from __future__ import annotations

import importlib.util
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

# What is started in the background, or by nohup, ignores these signals, and so does all that it starts.
for _signal, _handler in (("SIGINT", signal.default_int_handler), ("SIGHUP", signal.SIG_DFL)):
    if hasattr(signal, _signal) and signal.getsignal(getattr(signal, _signal)) is signal.SIG_IGN:
        signal.signal(getattr(signal, _signal), _handler)

TESTS = Path(__file__).parent
ROOT = TESTS.parent


def load_script(path: Path) -> ModuleType:
    """Imports a file that is in no package."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def fake_pipeline(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Puts a translator that writes in capitals in the place of the pipeline; gives the module that holds it."""
    fake = load_script(TESTS / "cli" / "fake_tx.py")
    monkeypatch.setitem(sys.modules, "tx.model.pipeline", fake.pipeline())
    monkeypatch.delenv("TX_DEBUG", raising=False)
    monkeypatch.delenv("TX_THREADS", raising=False)
    monkeypatch.delenv("TX_ENGINE", raising=False)
    return fake


@pytest.fixture(scope="session")
def real_weights() -> Path:
    """The folder of the default model. Its absence is a failure: what this package is for cannot be tested without."""
    folder = ROOT / "weights" / "en-zh"
    if not (folder / "model.safetensors").is_file():
        pytest.fail("weights/en-zh is missing")
    return folder


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever runs the tests may have a configuration file."""
    monkeypatch.setenv("TX_CONFIG", "")


@pytest.fixture(scope="session")
def small_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_small_model(tmp_path_factory.mktemp("models") / "small")


@pytest.fixture(scope="session")
def translating_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same without the tasks "answer" and "summarize"."""
    return save_small_model(tmp_path_factory.mktemp("models") / "other", tasks=("translate:zh",))


def save_small_model(
    path: Path, tasks: Sequence[str] = ("translate:zh", "summarize", "answer"), **changes: Any
) -> Path:
    """A random model of the project's own kind that points, copies and sums up, its vocabulary letters, bytes and a few words;
    `changes` are fields of ModelConfig."""
    import tokenizers
    import torch

    from tx.model.checkpoint import save_checkpoint
    from tx.model.config import CheckpointConfig, GenerationConfig, ModelConfig, SpecialIds, Task
    from tx.model.spans import SEGMENTS
    from tx.model.transformer import Transformer

    pieces = ["<pad>", "</s>", "<unk>", "<translate:zh>", "<translate:en>", "<summarize>", "<answer>"]
    pieces += [f"<0x{byte:02X}>" for byte in range(256)]
    words = [
        " the",
        "  ",
        " ",
        "\t",
        " bridge",
        "河上",
        " Anna",
        *"abcdefghijklmnopqrstuvwxyzABT.,?!0123456789你好河上桥。",
    ]
    vocabulary = [(piece, -20.0) for piece in pieces] + [(word, -7.0 - i / 10) for i, word in enumerate(words)]
    tokenizer = tokenizers.Tokenizer(tokenizers.models.Unigram(vocabulary, unk_id=2, byte_fallback=True))
    size = tokenizer.get_vocab_size()
    known = {
        "translate:zh": Task(tgt_prefix=(3,), source="en", target="zh"),
        "summarize": Task((5,), (5,)),
        "answer": Task((6,), (6,)),
    }
    sizes = {"d_model": 16, "n_heads": 2, "d_head": 8, "d_ff": 24, "n_encoder_layers": 2, "n_decoder_layers": 2}
    sizes |= {"n_segments": SEGMENTS, "pointer_generator": True}
    config = CheckpointConfig(
        model=ModelConfig(size, size, **{**sizes, **changes}),
        special=SpecialIds(pad=0, eos=1, decoder_start=3, unk=2),
        generation=GenerationConfig(beam_size=2),
        tasks={name: task for name, task in known.items() if name in tasks},
    )
    torch.manual_seed(3)
    tensors = {name: 3 * tensor for name, tensor in Transformer(config.model).state_dict().items()}
    return save_checkpoint(path, config, tensors, tokenizer.to_str(), "# small\n")
