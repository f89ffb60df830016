"""Whether both engines translate a file alike: `python tests/bench/agreement.py FILE [--limit N] [--beam N]`.

FILE has a text a line; of a line with tabs the first two columns are two texts. Prints the share of equal translations
and, for each that differs, both with the log-probabilities that both engines give to both: where rounding alone decides,
each engine finds the two as good as equal.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tx.model.config import GenerationConfig
from tx.model.generation import generate
from tx.model.pipeline import Translator


def read_texts(path: Path, limit: int | None) -> list[str]:
    """The texts of the first `limit` lines, each once."""
    lines = path.read_text(encoding="utf-8").splitlines()[:limit]
    texts = (column.strip() for line in lines for column in line.split("\t")[:2])
    return list(dict.fromkeys(text for text in texts if text))


class Only:
    """Leaves the search one way to go: the pieces of `output`."""

    def __init__(self, output: Sequence[int]) -> None:
        self.output = output
        self.log_prob = 0.0

    def __call__(self, ids: Any, sentences: Any, logits: Any) -> None:
        import numpy as np

        piece = self.output[ids.shape[1]]
        row = logits[0].astype(np.float64)
        highest = row.max()
        self.log_prob += float(row[piece] - highest - np.log(np.exp(row - highest).sum()))
        logits[:] = -np.inf
        logits[:, piece] = 0.0


def log_prob(translator: Translator, text: str, output: str) -> float:
    """Σ log p of `output`, a translation of a text of one segment, as pieces and the end piece."""
    checkpoint = translator.checkpoint
    config = checkpoint.config
    plan = translator.plan(text)
    (job,) = (job for job in plan.jobs if job is not None)
    task = config.tasks[job[0]]
    only = Only([*checkpoint.tokenizer.encode(output), config.special.eos])
    generate(
        translator.runtime.stepper(0),
        [[*task.src_prefix, *job[1], config.special.eos]],
        config=GenerationConfig(beam_size=1, max_length=len(only.output), max_length_factor=100, suppress=()),
        special=config.special,
        prefix=task.tgt_prefix or (config.special.decoder_start,),
        rules=[only],
    )
    return only.log_prob


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--limit", type=int, help="only the first lines")
    parser.add_argument("--beam", type=int, default=4)
    parser.add_argument("--model", help="name or path (default: the default model)")
    options = parser.parse_args()

    texts = read_texts(options.file, options.limit)
    engines = {name: Translator(options.model, engine=name, threads=1) for name in ("numpy", "torch")}
    results = {name: t.translate(texts, beam_size=options.beam) for name, t in engines.items()}
    pairs = list(zip(*results.values(), strict=True))
    different = [(a, b) for a, b in pairs if a.text != b.text]
    scores = max(abs(a.score - b.score) for a, b in pairs if a.text == b.text)
    for a, b in different:
        print(a.source)
        for result in (a, b):
            print(f"  {'numpy' if result is a else 'torch'}: {result.text}")
            try:
                found = {name: log_prob(t, a.source, result.text) for name, t in engines.items()}
            except ValueError:  # of several segments
                print(f"    mean log p a piece {result.score:.6f}")
            else:
                print("    " + ", ".join(f"log p {p:.6f} by {name}" for name, p in found.items()))
    equal = len(texts) - len(different)
    print(f"beam {options.beam}: {equal} of {len(texts)} translations are equal, {equal / len(texts):.2%}")
    print(f"largest difference of the mean log p a piece where they are: {scores:.1e}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
