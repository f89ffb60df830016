"""The text of a line depends neither on the batch, nor on the process, nor on the order of the lines."""

from __future__ import annotations

import itertools

import pytest

from .test_manners import REAL, run

WHO = ["The teacher", "My old friend", "Nobody", "A small dog from the village", "你的朋友"]
WHAT = ["waits", "reads a letter by the window every evening", "lost 25 keys", "明天来", "sleeps; it is late"]
WHERE = [".", " near the bridge, where the river is wide.", "?"]
LINES = ["\n", *(f"{who} {what}{where}\n" for who, what, where in itertools.product(WHO, WHAT, WHERE))][:61]


def translated(lines: list[str], *options: str) -> list[bytes]:
    done = run("translate", "-q", "--engine", "numpy", *options, text="".join(lines), program=REAL)
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout.splitlines(keepends=True)


@pytest.mark.usefixtures("real_weights")
@pytest.mark.parametrize("beam", ["1", pytest.param("4", marks=pytest.mark.slow)])
def test_batches_processes_and_order_change_nothing(beam: str) -> None:
    lines = LINES[:60] if beam == "4" else LINES[::2]
    expected = translated(lines, "--beam", beam)
    assert len(expected) == len(lines)
    assert translated(lines, "--beam", beam, "--batch-size", "3") == expected
    assert translated(lines, "--beam", beam, "--jobs", "2", "--max-memory", "1G") == expected
    assert translated(lines[::-1], "--beam", beam, "--batch-size", "256")[::-1] == expected
