"""How near to what the machine can do: `python tests/bench/roofline.py [--json FILE]`. Prints Markdown for the README.

1. Multiply-adds a sentence, by the formula of tx.model.bench.work, and the weights that a step has to read.
2. What this machine multiplies, by the shapes that occur (as many rows as a mode has) and at its best, in fp32, bf16 and
   int8 as PyTorch has them, and how fast it reads matrices, from memory and from its caches.
3. Each mode's floor, the larger of (multiply-adds ÷ best rate) and (weights read ÷ rate of reading), part by part; the time
   of the same products at the rates measured for their shapes; the time measured, text to text; the fraction.
4. Where the rest goes in PyTorch: shares of its profiler, and of what is outside of its operators (Python).

Run it when nothing else runs. --quick only shows that everything runs.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tx.model.bench import machine, measure, sentences
from tx.model.bench.child import Child
from tx.model.bench.work import Work, multiply_adds, shapes, weights_read
from tx.model.config import ModelConfig, from_dict
from tx.model.threads import BLAS_THREADS, cores

# How operators of PyTorch are summed up: the first group that has a part of the name.
GROUPS = {
    "matrix products": ("mm", "linear", "matmul", "einsum", "mkldnn"),
    "attention's softmax": ("softmax", "scaled_dot", "attention"),
    "embedding": ("embedding",),
    "copies and choice of rows": ("index", "gather", "cat", "copy", "clone", "stack", "scatter", "contiguous", "fill"),
    "norms": ("norm",),
    "the search": ("topk", "sort", "max", "min", "logsumexp", "where", "nonzero", "isin"),
}


def median_seconds(call: Callable[[], object], least: float) -> float:
    """Of one call: the median of so many that they take `least` seconds, five at least."""
    call()
    times: list[float] = []
    while len(times) < 5 or sum(times) < least:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


class Rates:
    """Multiply-adds and bytes a second of this machine, with so many threads."""

    def __init__(self, threads: int, least: float) -> None:
        import torch

        self.least, self.threads, self.torch = least, threads, torch
        self.known: dict[tuple[str, int, int, int], float | None] = {}

    def products(self, kind: str, rows: int, n_in: int, n_out: int) -> float | None:
        """Multiply-adds a second of [rows, in] × [in, out]; None where PyTorch has no such product here."""
        key = (kind, rows, n_in, n_out)
        if key not in self.known:
            self.torch.set_num_threads(1 if kind == "numpy" else self.threads)
            try:
                call = self._call(kind, rows, n_in, n_out)
                self.known[key] = rows * n_in * n_out / median_seconds(call, self.least)
            except (RuntimeError, NotImplementedError, AttributeError, ImportError):
                self.known[key] = None
        return self.known[key]

    def _call(self, kind: str, rows: int, n_in: int, n_out: int) -> Callable[[], object]:
        torch = self.torch
        if kind == "numpy":
            import numpy as np

            x, w = np.ones((rows, n_in), np.float32), np.ones((n_in, n_out), np.float32)
            return lambda: x @ w
        if kind == "int8":
            warnings.simplefilter("ignore")  # it is deprecated; what is to replace it is another package
            module = torch.ao.quantization.quantize_dynamic(torch.nn.Sequential(torch.nn.Linear(n_in, n_out, False)))
            inputs = torch.randn(rows, n_in)
            return lambda: module(inputs)
        dtype = {"fp32": torch.float32, "bf16": torch.bfloat16}[kind]
        a, b = torch.randn(rows, n_in).to(dtype), torch.randn(n_out, n_in).to(dtype)
        return lambda: torch.nn.functional.linear(a, b)

    def best(self, kind: str, size: int) -> float | None:
        """Of square matrices, which reuse what they read."""
        return self.products(kind, size, size, size)

    def reading(self, megabytes: float) -> float:
        """Bytes a second of a matrix of so many, times a vector, which reads each weight once."""
        n = max(64, int(megabytes * 1e6 / 4 / 1024))
        rate = self.products("fp32", 1, 1024, n)
        assert rate
        return 4 * rate


@dataclass
class Mode:
    """A way to translate: which engine, how many sentences at once, how wide a beam."""

    name: str
    engine: str
    batch: int
    beam: int
    threads: int
    precision: str = "fp32"
    seconds: list[float] = field(default_factory=list)
    work: Work = Work()
    sentences: int = 0
    steps: float = 0.0  # of the decoder, for all sentences: those of a batch are one


def counts(child: Child, mode: Mode, texts: Sequence[str], outputs: Sequence[str], config: ModelConfig) -> None:
    """The work of a mode, sentence by sentence; a step of a batch is one, as long as its longest output."""
    lengths = []
    for text, output in zip(texts, outputs, strict=True):
        src = child.ask({"do": "read", "texts": [text]})["pieces"]
        tgt = child.ask({"do": "count", "texts": [output]})["pieces"]
        lengths.append((src, tgt))
        mode.work += multiply_adds(config, src, tgt, mode.beam)
    lengths.sort()
    mode.sentences = len(texts)
    batches = [lengths[i : i + mode.batch] for i in range(0, len(lengths), mode.batch)]
    mode.steps = sum(max(tgt for _, tgt in batch) for batch in batches)


def ask(child: Child, mode: Mode, texts: Sequence[str]) -> tuple[float, list[str]]:
    """Seconds for all of the texts, one by one or in batches, and the outputs."""
    groups = [[text] for text in texts] if mode.batch == 1 else [list(texts)]
    seconds, outputs = 0.0, []
    for group in groups:
        asked = {"beam_size": mode.beam, "batch_size": mode.batch}
        reply = child.ask({"do": "translate", "texts": group, "asked": asked})
        seconds += reply["seconds"]
        outputs += reply["texts"]
    return seconds, outputs


def floors(mode: Mode, config: ModelConfig, rates: Rates, size: int) -> dict[str, float]:
    """Seconds a sentence: the floor, and the same products at the rates of their shapes."""
    kind = "numpy" if mode.engine == "numpy" else mode.precision
    n_bytes = {"bf16": 2, "int8": 1}.get(kind, 4)
    n, work = mode.sentences, mode.work
    best = rates.best(kind, size)
    assert best
    encoder, step = weights_read(config)
    reading = rates.reading(n_bytes * (encoder + step) / 1e6)
    batches = n / mode.batch
    in_encoder = max((work.encoder + work.cross_keys) / best, batches * n_bytes * encoder / reading)
    after = work.decoder + work.attention + work.output + work.pointer
    in_decoder = max(after / best, mode.steps * n_bytes * step / reading)
    rows = mode.batch * mode.beam
    by_shape = 0.0
    d, inner = shapes(config)["projection"]
    source_rows = max(1, round(mode.batch * 20))
    for rows_of, parts, each in (
        (source_rows, ("projection", "feed-forward, in", "feed-forward, out"), work.encoder + work.cross_keys),
        (rows, ("projection", "feed-forward, in", "feed-forward, out"), work.decoder),
        (rows, ("output",), work.output),
    ):
        weights = {part: shapes(config)[part] for part in parts}
        sizes = {part: a * b * (4 if part == "projection" else 1) for part, (a, b) in weights.items()}
        for part, (a, b) in weights.items():
            rate = rates.products(kind, rows_of, a, b)
            assert rate
            by_shape += each * sizes[part] / sum(sizes.values()) / rate
    by_shape += (work.attention + work.pointer) / best
    return {"floor": (in_encoder + in_decoder) / n, "by_shape": by_shape / n}


def profile(model: str | None, texts: Sequence[str], batch: int, beam: int, threads: int | None) -> dict[str, float]:
    """Shares of the time of the engine torch, by groups of operators; "Python and the rest" is what is in none of them."""
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as profiler

    from tx.model.pipeline import Translator

    translator = Translator(model, engine="torch", threads=threads)
    translator.translate(texts, beam_size=beam, batch_size=batch)
    start = time.perf_counter()
    translator.translate(texts, beam_size=beam, batch_size=batch)
    plain = time.perf_counter() - start
    start = time.perf_counter()
    with profiler(activities=[ProfilerActivity.CPU]) as found:
        translator.translate(texts, beam_size=beam, batch_size=batch)
    profiled = time.perf_counter() - start
    seconds = dict.fromkeys([*GROUPS, "other operators"], 0.0)
    for event in found.key_averages():
        name = event.key.lower()
        group = next((g for g, parts in GROUPS.items() if any(part in name for part in parts)), "other operators")
        seconds[group] += event.self_cpu_time_total / 1e6
    shares = {group: value / profiled for group, value in seconds.items()}
    shares["Python and the rest"] = max(0.0, 1 - sum(shares.values()))
    return shares | {"slower under the profiler": profiled / plain}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="name or path (default: the default model)")
    parser.add_argument("--sentences", type=int, default=256, help="English ones of all lengths (default: 256)")
    parser.add_argument("--batch-size", type=int, default=64, help="of the engine torch (default: 64)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, help="of the engine torch (default: its own choice, at most 4)")
    parser.add_argument("--precision", choices=("fp32", "bf16", "int8"), help="of the engine torch, if it offers it")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every figure here")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: shows that everything runs")
    options = parser.parse_args()
    os.environ.update(dict.fromkeys(BLAS_THREADS, "1"))  # of NumPy here, as the engine has it
    threads = options.threads or min(4, cores())
    n, size, rounds = (6, 128, 1) if options.quick else (options.sentences, 2048, options.rounds)
    texts = sentences.sentences(n)
    few = texts[: max(2, n // 8)]
    modes = [
        Mode("NumPy, one sentence, greedy", "numpy", 1, 1, 1),
        Mode("NumPy, one sentence, beam 4", "numpy", 1, 4, 1),
        Mode("PyTorch, batches, greedy", "torch", options.batch_size, 1, threads, options.precision or "fp32"),
        Mode("PyTorch, batches, beam 4", "torch", options.batch_size, 4, threads, options.precision or "fp32"),
    ]
    about = machine.describe()
    if about["busy"]:
        print(f"warning: load average {about['load_average']}: other programs are running", file=sys.stderr)
    with ExitStack() as stack:
        children = {}
        for engine in ("numpy", "torch"):
            settings: dict[str, Any] = {"engine": engine, "threads": options.threads if engine == "torch" else 1}
            if engine == "torch" and options.precision:
                settings["precision"] = options.precision
            opening = {"model": options.model, "settings": settings, "asked": {}, "warm": texts[:1]}
            command = [sys.executable, "-m", "tx.model.bench.worker"]
            children[engine] = stack.enter_context(Child(engine, command, opening))
        config = from_dict(ModelConfig, children["numpy"].facts["sizes"])
        for mode in modes:
            _, outputs = ask(children[mode.engine], mode, few if mode.batch == 1 else texts)
            counts(children[mode.engine], mode, few if mode.batch == 1 else texts, outputs, config)
        for _, mode in measure.interleaved(modes, rounds):
            seconds, _ = ask(children[mode.engine], mode, few if mode.batch == 1 else texts)
            mode.seconds.append(seconds / mode.sentences)
    rates = Rates(threads, 0.01 if options.quick else 0.3)
    record: dict[str, Any] = {"machine": about, "threads": threads, "modes": [], "rates": {}, "profile": {}}
    print(
        f"{about['processor']}, {about['cores_usable']} cores ({' '.join(about['instructions'])}); {threads} threads\n"
    )
    work_table(modes)
    rates_table(rates, config, modes, size, record)
    modes_table(modes, config, rates, size, record)
    for beam in (1, 4):
        record["profile"][beam] = profile(options.model, texts, options.batch_size, beam, options.threads)
    profile_table(record["profile"])
    if options.json:
        options.json.write_text(json.dumps(record, indent=1, default=vars) + "\n", encoding="utf-8")
    return 0


def work_table(modes: Sequence[Mode]) -> None:
    print("| multiply-adds a sentence, millions | " + " | ".join(vars(Work())) + " | all |")
    print("|---|" + "---:|" * (len(vars(Work())) + 1))
    for mode in modes:
        values = [*vars(mode.work).values(), mode.work.total]
        print(f"| {mode.name} | " + " | ".join(f"{v / mode.sentences / 1e6:.1f}" for v in values) + " |")


def rates_table(rates: Rates, config: ModelConfig, modes: Sequence[Mode], size: int, record: dict[str, Any]) -> None:
    rows = sorted({1, 4, *(mode.batch * mode.beam for mode in modes)})
    kinds = ("numpy", "fp32", "bf16", "int8")
    print("\n| G multiply-adds a second | " + " | ".join(kinds) + " |\n|---|" + "---:|" * len(kinds))
    for name, (a, b) in [("at its best", (size, size)), *shapes(config).items()]:
        for n in [size] if name == "at its best" else rows:
            found = [rates.products(kind, n, a, b) for kind in kinds]
            record["rates"][f"{name} {n} x {a} x {b}"] = dict(zip(kinds, found, strict=True))
            cells = " | ".join("-" if rate is None else f"{rate / 1e9:.1f}" for rate in found)
            print(f"| {name}, {n} × {a} × {b} | {cells} |")
    sizes = (1, 4, 64) if size < 2048 else (2, 16, 64, 512)
    record["reading"] = {n: rates.reading(n) for n in sizes}
    print(
        "\nreading a matrix once, GB a second: "
        + ", ".join(f"{n} MB {v / 1e9:.1f}" for n, v in record["reading"].items())
    )


def modes_table(modes: Sequence[Mode], config: ModelConfig, rates: Rates, size: int, record: dict[str, Any]) -> None:
    print(
        "\n| mode | floor, ms a sentence | products of these shapes, ms | measured, ms (quartiles) | floor ÷ measured |"
    )
    print("|---|---:|---:|---:|---:|")
    for mode in modes:
        found, (low, high) = floors(mode, config, rates, size), measure.quartiles(mode.seconds)
        median = statistics.median(mode.seconds)
        print(
            f"| {mode.name} | {1e3 * found['floor']:.2f} | {1e3 * found['by_shape']:.2f} | {1e3 * median:.2f} "
            f"({1e3 * low:.2f} – {1e3 * high:.2f}) | {found['floor'] / median:.0%} |"
        )
        record["modes"].append(vars(mode) | found)


def profile_table(profiles: dict[int, dict[str, float]]) -> None:
    print("\n| PyTorch in batches: share of the time | " + " | ".join(f"beam {beam}" for beam in profiles) + " |")
    print("|---|" + "---:|" * len(profiles))
    for group in next(iter(profiles.values())):
        values = [found[group] for found in profiles.values()]
        is_factor = group.startswith("slower")
        print(f"| {group} | " + " | ".join(f"{v:.2f} ×" if is_factor else f"{v:.0%}" for v in values) + " |")


if __name__ == "__main__":
    sys.exit(main())
