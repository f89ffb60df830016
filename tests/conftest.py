"""Fixtures that more than one folder of tests uses."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

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
