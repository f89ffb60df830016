"""Fixtures of the tests of documents."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="session")
def bench() -> ModuleType:
    """The script that sends real documents through and back."""
    path = Path(__file__).parent.parent / "bench" / "round_trips.py"
    spec = importlib.util.spec_from_file_location("bench_round_trips", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["bench_round_trips"] = module
    spec.loader.exec_module(module)
    return module
