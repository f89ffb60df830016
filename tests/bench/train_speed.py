"""How fast the trainer is on this machine, and where the time goes: `python tests/bench/train_speed.py`.

Trains the shipped architecture from random weights on made-up sentences of 4 to 30 pieces, and prints the median speed
of several rounds, the machine's own rate of matrix products measured between those rounds, the fraction of it that
training reaches, and the most expensive operations. Run it when nothing else runs.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile

from tx.model.checkpoint import WEIGHTS_DIR
from tx.model.config import ModelConfig
from tx.model.tokenizer import Tokenizer
from tx.model.train.data import Source
from tx.model.train.loop import Recipe, Trainer, checkpoint_config, precision


def made_up_sentences(tokenizer: Tokenizer, path: Path, rows: int) -> None:
    """Random pieces of both languages, as a TSV of english<TAB>chinese."""
    rng = random.Random(0)
    pieces = tokenizer.pieces(range(263, tokenizer.vocab_size))
    english = [p for p in pieces if p.startswith(" ") and p[1:].isalpha()]
    chinese = [p for p in pieces if not p.isascii()]
    lines = []
    for _ in range(rows):
        n = rng.randint(4, 30)
        lines.append("".join(rng.choices(english, k=n)).strip() + "\t" + "".join(rng.choices(chinese, k=n)))
    path.write_text("\n".join(lines) + "\n")


def products_per_position(model: ModelConfig, columns: int) -> float:
    """Multiply-adds of one training step for one source + one target piece, halved: forward once, backward twice."""
    inner = model.n_heads * model.d_head
    attention, ffn = 4 * model.d_model * inner, 2 * model.d_model * model.d_ff
    source = model.n_encoder_layers * (attention + ffn) + model.n_decoder_layers * 2 * model.d_model * inner
    target = model.n_decoder_layers * (attention + 2 * model.d_model * inner + ffn) + model.d_model * columns
    return 3 * (source + target) / 2


def matmul_rate(model: ModelConfig, rows: int, kind: torch.dtype) -> float:
    """Multiply-adds a second of the largest matrix product of a layer, with as many rows as a batch has."""
    x, w = torch.randn(rows, model.d_model).to(kind), torch.randn(model.d_ff, model.d_model).to(kind)
    times = []
    for _ in range(40):
        start = time.perf_counter()
        torch.nn.functional.linear(x, w)
        times.append(time.perf_counter() - start)
    return rows * model.d_model * model.d_ff / statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--steps", type=int, default=5, help="steps a round")
    parser.add_argument("--batch-tokens", type=int, default=3000)
    parser.add_argument("--negatives", type=int, default=2048)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    tokenizer = Tokenizer.from_file(WEIGHTS_DIR / "en-zh" / "tokenizer.json")
    config = checkpoint_config(tokenizer, "bench")
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder) / "text.tsv"
        made_up_sentences(tokenizer, text, 20_000)
        recipe = Recipe(
            (Source(str(text), "translate"),), steps=10**9, batch_tokens=options.batch_tokens, log_every=10**9,
            negatives=options.negatives, save_every_seconds=1e9,
        )  # fmt: skip
        trainer = Trainer(recipe, config, tokenizer, Path(folder) / "run")
        trainer.run(3)
        speeds, rates = [], []
        for _ in range(options.rounds):
            rates.append(matmul_rate(config.model, options.batch_tokens // 2, precision(trainer.device)))
            tokens, start = trainer.tokens, time.perf_counter()
            trainer.run(trainer.step + options.steps)
            speeds.append((trainer.tokens - tokens) / (time.perf_counter() - start))
        with profile(activities=[ProfilerActivity.CPU]) as profiled:
            trainer.run(trainer.step + options.steps)
    speed, rate = statistics.median(speeds), statistics.median(rates)
    columns = options.negatives + 2000 if options.negatives else tokenizer.vocab_size
    used = speed * products_per_position(config.model, min(columns, tokenizer.vocab_size))
    print(f"source + target pieces a second: median {speed:.0f}, from {min(speeds):.0f} to {max(speeds):.0f}")
    print(
        f"matrix products: {used / 1e9:.0f} G multiply-adds a second of {rate / 1e9:.0f} G measured: {used / rate:.0%}"
    )
    print(profiled.key_averages().table(sort_by="self_cpu_time_total", row_limit=12, max_name_column_width=40))


if __name__ == "__main__":
    sys.exit(main())
