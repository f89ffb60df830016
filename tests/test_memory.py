"""How much memory a search takes, and how it is kept within bounds."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tx.model import memory
from tx.model.config import ModelConfig
from tx.model.errors import TxError
from tx.model.pipeline import Translator
from tx.model.runtime import Runtime

CONFIG = ModelConfig(8000, 8000)


def test_batches_are_parted_by_cost() -> None:
    def parts(costs: list[int], most: int, room: int) -> list[list[int]]:
        return [costs[part] for part in memory.batches(costs, most, room)]

    assert parts([], 4, 10) == []
    assert parts([1, 1, 1, 1, 1], 2, 100) == [[1, 1], [1, 1], [1]]
    assert parts([1, 2, 5, 5, 20], 32, 10) == [[1, 2], [5, 5], [20]]
    assert parts([20, 20], 32, 10) == [[20], [20]]  # not even one fits: the caller has to say so


@pytest.mark.parametrize("more", [{"source": 200}, {"target": 300}, {"beams": 8}])
def test_more_takes_more(more: dict[str, int]) -> None:
    sizes = {"source": 20, "target": 50, "beams": 2}
    assert memory.of_search(CONFIG, **{**sizes, **more}) > memory.of_search(CONFIG, **sizes) > 0


def test_sizes_for_people() -> None:
    assert [memory.said(n) for n in (1, 2**20, 2**20 + 1, 1.5 * 2**30)] == ["1 MB", "1 MB", "2 MB", "1.5 GB"]


def test_what_is_in_use_is_noticed() -> None:
    # In a new process: one that has run for long has freed memory to take again.
    code = "from tx.model import memory; a = memory.in_use(); held = b'x' * (64 << 20); print(memory.in_use() - a)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", timeout=60)
    assert int(done.stdout) > (64 << 20) * 0.9, done.stderr


SENTENCE = " ".join(["the bridge Anna"] * 10)


PEAK = """
import dataclasses, json, sys
from pathlib import Path
from tx.model.pipeline import Translator
model, cap, beam, length = sys.argv[1:]
translator = Translator(Path(model), engine="numpy", max_memory=int(cap) << 20 or None)
settings = dataclasses.replace(translator.checkpoint.config.generation, max_length=int(length))
found = translator.translate(json.load(sys.stdin), beam_size=int(beam), batch_size=256, settings=settings)
# Not by `resource`: its peak of a new process begins with that of the process which started it.
peak = [line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")][0]
print(json.dumps([int(peak) // 1024, [t.text for t in found]]))
"""


def translate(model: Path, texts: list[str], beam: int, cap: int = 0, length: int = 512) -> tuple[int, list[str]]:
    """The most memory that a process takes which translates texts in one batch if it may, and what they become, of so many
    pieces at most. In MB; a cap of 0 is none."""
    command = [sys.executable, "-c", PEAK, str(model), str(cap), str(beam), str(length)]
    done = subprocess.run(command, input=json.dumps(texts), capture_output=True, encoding="utf-8", timeout=600)
    assert done.returncode == 0, done.stderr
    size, found = json.loads(done.stdout)
    return size, found


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_cap_holds(real_weights: Path) -> None:
    things = "cats dogs birds trees houses books letters cars ships rivers bridges gardens schools teachers friends boys".split()  # noqa: SIM905
    texts = [f"I saw {thing} {place}." for thing in things for place in ("at home", "here", "today", "there")]
    free, whole = translate(real_weights, texts, 12, length=3)
    cap = translate(real_weights, ["Hello."], 1)[0] + memory.SPARE // 2**20 + 30
    assert free > cap + 20  # it would take more
    size, same = translate(real_weights, texts, 12, cap, length=3)
    assert size <= cap and same == whole


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_cap_holds_for_long_lines(real_weights: Path) -> None:
    words = "the old man who lived near the river walked slowly through the small garden and told his friend that"
    texts = [f"{' '.join([words] * (20 if n % 3 == 0 else 1))} {'abcdefghijkl'[n]}" for n in range(12)]
    _, whole = translate(real_weights, texts, 4)
    size, same = translate(real_weights, texts, 4, 300)
    assert size <= 300 and same == whole


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_without_a_cap_a_wide_search_of_long_lines_stays_within_bounds(real_weights: Path) -> None:
    words = "the old man who lived near the river walked slowly through the small garden and told his friend that"
    texts = [f"{' '.join([words] * 25)} {chr(97 + n % 26)}{chr(97 + n // 26)}" for n in range(64)]
    assert translate(real_weights, texts, 8)[0] < 200 + memory.USUAL // 2**20


def test_one_line_where_it_cannot_be_done(small_model: Path) -> None:
    with pytest.raises(TxError, match=r"the model small alone needs [\d.]+ [MG]B: more than the 10 MB of --max-memory"):
        Translator(small_model, engine="numpy", max_memory=10 << 20).translate(["the bridge"])
    runtime = Runtime(small_model, engine="numpy", max_memory=1 << 40)
    runtime._rooms["numpy"] = 1 << 20
    with pytest.raises(
        TxError,
        match=r"a sentence of \d+ pieces, 'the bridge Anna the bridge Anna the brid…', with 64 .* of --max-memory",
    ):
        Translator(runtime).translate([SENTENCE], beam_size=64)


def test_texts_are_the_same(small_model: Path) -> None:
    texts = ["the bridge", SENTENCE, "Anna?", *(f"{'xyz'[n % 3] * n} the river" for n in range(9))]
    free = Translator(small_model, engine="numpy").translate(texts)
    runtime = Runtime(small_model, engine="numpy", max_memory=1 << 40)
    runtime._rooms["numpy"] = 2 << 20
    assert [t.text for t in Translator(runtime).translate(texts)] == [t.text for t in free]
