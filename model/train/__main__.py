"""Training from the command line: `python -m tx.model.train {vocabulary,transfer,run,export} --help`."""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from ..errors import TxError
from ..tokenizer import Tokenizer
from . import transfer, vocabulary
from .data import Source, examples
from .loop import Recipe, Trainer, checkpoint_config


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one of the steps; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tx.model.train", description=__doc__)
    steps = parser.add_subparsers(required=True, metavar="STEP")

    step = steps.add_parser("vocabulary", help="build the shared tokenizer from text and a student's vocabulary")
    step.add_argument("--student", type=Path, required=True, help="tokenizer.json of a unigram vocabulary with English pieces")
    step.add_argument("--pairs", nargs="+", required=True, metavar="FILE[:ROWS]", help="TSV of english<TAB>chinese")
    step.add_argument("--english", type=int, default=6800, help="English pieces to keep")
    step.add_argument("--chinese", type=int, default=6600, help="Chinese pieces to train")
    step.add_argument("--characters", type=int, default=4200, help="of these, at most so many single characters")
    step.add_argument("--out", type=Path, required=True, help="where tokenizer.json goes")
    step.set_defaults(run=make_vocabulary)

    step = steps.add_parser("transfer", help="starting weights from a real English-Portuguese student")
    step.add_argument("--student", type=Path, required=True, help="folder with model.*.bin and tokenizer.json")
    step.add_argument("--tokenizer", type=Path, required=True)
    step.add_argument("--pairs", nargs="+", required=True, metavar="FILE[:ROWS]", help="TSV of english<TAB>chinese")
    step.add_argument("--glosses", type=Path, required=True, help="TSV of gloss<TAB>word")
    step.add_argument("--pivots", type=int, default=24000, help="English sentences to put into Portuguese, shortest first")
    step.add_argument("--distil-seconds", type=float, default=150, help="time for turning SSRU into self-attention")
    step.add_argument("--out", type=Path, required=True, help="where init.safetensors goes")
    step.set_defaults(run=make_start)

    step = steps.add_parser("run", help="train, or continue a run")
    step.add_argument("--recipe", type=Path, required=True)
    step.add_argument("--tokenizer", type=Path, required=True)
    step.add_argument("--init", type=Path, help="starting weights (safetensors); random without")
    step.add_argument("--out", type=Path, required=True, help="the run's folder; continued if it holds last.pt")
    step.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    step.add_argument("--threads", type=int, default=torch.get_num_threads())
    step.add_argument("--until", type=int, help="stop after this step (default: the recipe's last)")
    step.add_argument("--export", type=Path, help="write a checkpoint of the averaged weights here at the end")
    step.add_argument("--card", type=Path, help="the checkpoint's card (Markdown)")
    step.add_argument("--name", default="en-zh")
    step.set_defaults(run=train)

    options = parser.parse_args(arguments)
    try:
        options.run(options)
    except TxError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def sentence_pairs(files: Sequence[str], seed: int = 3) -> list[tuple[str, str]]:
    """(english, chinese) of each FILE or FILE:ROWS; with ROWS a random sample of that size."""
    rng = random.Random(seed)
    pairs: list[tuple[str, str]] = []
    for file in files:
        path, _, limit = file.rpartition(":")
        path, rows = (path, int(limit)) if path and limit.isdigit() else (file, 0)
        found = [(source, target) for _, source, target in examples(Source(path, "translate:zh"))]
        rng.shuffle(found)
        pairs += found[:rows] if rows else found
    return pairs


def make_vocabulary(options: argparse.Namespace) -> None:
    pairs = sentence_pairs(options.pairs)
    backend, scores = vocabulary.read_unigram(options.student)
    english = vocabulary.english_pieces(scores, [e for e, _ in pairs], backend, options.english)
    chinese = vocabulary.chinese_pieces([c for _, c in pairs], options.chinese, options.characters)
    tokenizer = vocabulary.build(english, chinese)
    tokenizer.save(options.out)
    print(f"{options.out}: {tokenizer.vocab_size} pieces", file=sys.stderr)


def make_start(options: argparse.Namespace) -> None:
    teacher = transfer.load_student(next(options.student.glob("model.*.bin")))
    backend, _ = vocabulary.read_unigram(options.student / "tokenizer.json")
    pairs = sentence_pairs(options.pairs)
    sentences = sorted({e for e, _ in pairs}, key=lambda e: (len(e.split()), e))[: options.pivots]
    eos = backend.token_to_id("</s>")
    sources = [e.ids + [eos] for e in backend.encode_batch(sentences, add_special_tokens=False)]
    pivots = {sentences[i]: ids for i, ids in transfer.student_translate(teacher, sources)}
    kept = [i for i, s in enumerate(sentences) if 3 <= len(pivots[s]) <= 40]
    attention = transfer.distil_self_attention(
        teacher, [sources[i] for i in kept], [pivots[sentences[i]] for i in kept], options.distil_seconds
    )
    tensors = transfer.starting_tensors(
        teacher, backend.get_vocab(), Tokenizer.from_file(options.tokenizer), attention, pairs, pivots,
        transfer.read_glosses(options.glosses),
    )  # fmt: skip
    save_file({name: value.contiguous() for name, value in tensors.items()}, options.out)


def train(options: argparse.Namespace) -> None:
    torch.set_num_threads(options.threads)
    tokenizer = Tokenizer.from_file(options.tokenizer)
    init = load_file(options.init) if options.init else None
    config = checkpoint_config(tokenizer, options.name)
    trainer = Trainer(Recipe.from_json(options.recipe), config, tokenizer, options.out, options.device, init)
    if trainer.resume():
        print(f"continuing at step {trainer.step}", file=sys.stderr)
    trainer.run(options.until)
    if options.export:
        card = options.card.read_text() if options.card else f"# {options.name}\n\n{json.dumps(trainer.recipe.notes)}\n"
        trainer.export(options.export, card)


if __name__ == "__main__":
    sys.exit(main())
