"""From how much work on PyTorch is worth its start-up: `python tests/bench/crossover.py [FILE]` (a text a line).

Both engines translate 1, 4, 16, … sentences, greedily and with a beam of four, after one sentence to warm up; and two
processes translate one sentence each, which gives what starting PyTorch costs more than starting NumPy. The crossover
is where NumPy has lost that much. It is given in pieces times beams, as pipeline.TORCH_FROM is.
"""

from __future__ import annotations

import argparse
import random
import statistics
import subprocess
import sys
import time
from pathlib import Path

from tx.model.pipeline import Translator

COUNTS = (1, 4, 16, 64, 256, 1024)
WHO = ["My brother", "The old teacher", "She", "Nobody in this town", "The cat", "A friend of mine", "Your neighbour"]
DID = ["has never seen", "wanted to buy", "is waiting for", "forgot", "would like to paint", "was afraid of"]
WHAT = ["the sea", "a red bicycle", "the train to Rome", "what I said", "a cup of tea", "the house on the hill"]
WHEN = ["yesterday", "before the rain began", "last summer", "", "because it was late", "when the music stopped"]


def made_up(count: int) -> list[str]:
    """Different sentences of like kind: 5 to 20 pieces each."""
    sentences = [f"{a} {b} {c} {d}".strip() + "." for a in WHO for b in DID for c in WHAT for d in WHEN]
    return random.Random(1).sample(sentences, count)


def pieces(translator: Translator, texts: list[str]) -> int:
    """What the pipeline counts: source pieces of different segments."""
    plans = [translator.plan(text) for text in texts]
    return sum(len(ids) for _, ids in {job for plan in plans for job in plan.jobs if job})


def start_up(engine: str, runs: int) -> float:
    """Seconds that a process takes for one sentence: the median of some runs after one that fills the file cache."""
    command = [sys.executable, "-m", "tx.cli", "translate", "--engine", engine, "I love NLP"]
    times = []
    for _ in range(runs + 1):
        start = time.perf_counter()
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
        times.append(time.perf_counter() - start)
    return statistics.median(times[1:])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, nargs="?", help="texts, one a line (default: made-up sentences)")
    parser.add_argument("--runs", type=int, default=5, help="runs of which the median counts")
    parser.add_argument("--most", type=int, default=COUNTS[-1], help="most sentences")
    parser.add_argument("--threads", type=int, help="threads of both engines (default: their own choice)")
    options = parser.parse_args()

    counts = [count for count in COUNTS if count <= options.most]
    texts = made_up(counts[-1])
    if options.file:
        lines = options.file.read_text(encoding="utf-8").splitlines()
        texts = list(dict.fromkeys(line.split("\t")[0].strip() for line in lines))
    process = {engine: start_up(engine, options.runs) for engine in ("numpy", "torch")}
    extra = process["torch"] - process["numpy"]
    print(f"a process with one sentence: numpy {process['numpy']:.3f} s, torch {process['torch']:.3f} s")
    engines = {name: Translator(engine=name, threads=options.threads) for name in ("numpy", "torch")}
    for translator in engines.values():
        translator.translate(["A sentence to warm up."])
    for beam in (1, 4):
        print(f"beam {beam}:  sentences  pieces × beam   numpy s   torch s   numpy loses s   of the start-up")
        last = (0, 0.0)
        for count in counts:
            chosen = texts[:count]
            work = pieces(engines["numpy"], chosen) * beam
            seconds = {}
            for name, translator in engines.items():
                times = []
                for _ in range(max(1, options.runs if count <= 64 else options.runs // 2)):
                    start = time.perf_counter()
                    translator.translate(chosen, beam_size=beam)
                    times.append(time.perf_counter() - start)
                seconds[name] = statistics.median(times)
            lost = seconds["numpy"] - seconds["torch"]
            row = f"{count:18} {work:14} {seconds['numpy']:9.3f} {seconds['torch']:9.3f} {lost:15.3f}"
            print(f"{row} {lost / extra:17.0%}", flush=True)
            last = (work, lost)
        work, lost = last
        print(f"  crossover: {work * extra / lost:,.0f} pieces × beam" if lost > 0 else "  crossover: none")
    return 0


if __name__ == "__main__":
    sys.exit(main())
