"""What `tests/fuzz_stdin.py` found once does not come back; and it would find what it looks for."""

from __future__ import annotations

import base64
import importlib.util
import json
import random
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent.parent
spec = importlib.util.spec_from_file_location("fuzz_stdin", TESTS / "fuzz_stdin.py")
assert spec and spec.loader
fuzz = importlib.util.module_from_spec(spec)
spec.loader.exec_module(fuzz)

SEEDS = [json.loads(line) for line in fuzz.SEEDS.read_text(encoding="utf-8").splitlines()]


@pytest.mark.usefixtures("real_weights")
@pytest.mark.parametrize("seed", SEEDS, ids=lambda seed: " ".join(seed["arguments"]))
def test_a_seed_has_no_fault_any_more(seed: dict[str, object]) -> None:
    assert fuzz.fault(seed["arguments"], base64.b64decode(str(seed["data"]))) is None


@pytest.mark.parametrize(
    ("program", "fault"),
    [
        ("print('ok')", "another number of lines"),
        ("print('ok\\n')", None),
        ("raise ValueError", "a bug"),
        ("import sys; sys.exit('tx: error: unexpected KeyError: 1')", "a bug"),
        ("import sys; sys.exit('tx: error: x')", None),
        ("import sys; sys.exit('oh')", "a strange message"),
        ("import sys; sys.exit(1)", "exit status 1 with 0 errors"),
        ("import sys; sys.exit('tx: error: x\\ntx: error: y')", "exit status 1 with 2 errors"),
        ("import os; os._exit(77)", "exit status 77"),
        ("import os; os.kill(os.getpid(), 11)", "exit status -11"),
        ("import sys; sys.stdout.buffer.write(b'\\xff\\n\\n')", "not UTF-8"),
        ("import time; time.sleep(60)", "took more than 0.5 s"),
        ("while True: pass", "took more than 1 s of the processor"),
    ],
)
def test_faults_are_seen(program: str, fault: str | None) -> None:
    patience = 0.5 if "sleep" in program else 60
    found = fuzz.fault(["translate"], b"a\nb\n", [sys.executable, "-c", program], limit=1, patience=patience)
    assert found is None if fault is None else fault in str(found)


def test_a_run_can_be_repeated() -> None:
    def made(number: int) -> tuple[list[str], bytes]:
        chance = random.Random(number)
        arguments, name = fuzz.arguments(chance)
        return arguments, fuzz.data(chance, name)

    found = [made(number) for number in range(200)]
    assert found == [made(number) for number in range(200)]
    assert {arguments[0] for arguments, _ in found} == {"translate", "summarize", "qa", "show-attention"}
    assert len({data for _, data in found}) > 150
