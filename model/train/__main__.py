"""Training from the command line: `python -m tx.model.train {vocabulary,transfer,synthetic,slots,run,export,interpolate} --help`."""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from ..checkpoint import load_checkpoint, save_checkpoint
from ..errors import CheckpointError, InputError, TxError
from ..segment import guess_language
from ..tokenizer import Tokenizer
from . import slots, synthetic, transfer, vocabulary
from .architecture import checkpoint_config
from .data import Source, examples, read_lines
from .interpolate import interpolate, parse_share
from .loop import Trainer, export_run
from .recipe import Recipe


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one of the steps; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tx.model.train", description=__doc__)
    steps = parser.add_subparsers(required=True, metavar="STEP")

    step = steps.add_parser("vocabulary", help="build the shared tokenizer from text and a student's vocabulary")
    step.add_argument(
        "--student", type=Path, required=True, help="tokenizer.json of a unigram vocabulary with English pieces"
    )
    step.add_argument("--pairs", nargs="+", required=True, metavar="FILE[:ROWS]", help="TSV of english<TAB>chinese")
    step.add_argument("--plain", nargs="*", default=[], metavar="FILE[:ROWS]", help="more text, a paragraph a line")
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
    step.add_argument(
        "--pivots", type=int, default=24000, help="English sentences to put into Portuguese, shortest first"
    )
    step.add_argument("--distil-seconds", type=float, default=150, help="time for turning SSRU into self-attention")
    step.add_argument("--out", type=Path, required=True, help="where init.safetensors goes")
    step.set_defaults(run=make_start)

    step = steps.add_parser("synthetic", help="pairs made by rule: numbers, codes, addresses and names to be copied")
    step.add_argument("--rows", type=int, default=8000)
    step.add_argument("--seed", type=int, default=0)
    step.add_argument("--out", type=Path, required=True, help="where the TSV of english<TAB>chinese goes")
    step.set_defaults(run=make_synthetic)

    step = steps.add_parser(
        "slots", help="a vocabulary and starting weights with slots from a checkpoint that has none"
    )
    step.add_argument("--checkpoint", type=Path, required=True, help="the checkpoint's folder")
    step.add_argument("--tokenizer", type=Path, required=True, help="where tokenizer.json goes")
    step.add_argument("--out", type=Path, required=True, help="where init.safetensors goes")
    step.set_defaults(run=make_slots)

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

    step = steps.add_parser("export", help="write the averaged weights of a run, finished or not, as a checkpoint")
    step.add_argument("--run", dest="run_folder", type=Path, required=True, help="the run's folder, with last.pt")
    step.add_argument("--tokenizer", type=Path, required=True)
    step.add_argument("--card", type=Path, required=True, help="the checkpoint's card (Markdown)")
    step.add_argument("--out", type=Path, required=True, help="the checkpoint's folder")
    step.add_argument("--name", default="en-zh")
    step.set_defaults(run=export)

    step = steps.add_parser("interpolate", help="write a checkpoint between two of one descent")
    step.add_argument("--checkpoint", type=Path, required=True, help="the folder whose configuration is kept")
    step.add_argument("--other", type=Path, required=True, help="the other checkpoint's folder")
    step.add_argument("--share", type=float, required=True, help="of the other, from 0 to 1")
    step.add_argument(
        "--share-of",
        action="append",
        default=[],
        metavar="PATTERN=SHARE",
        help="for tensors with such a name; repeatable",
    )
    step.add_argument("--out", type=Path, required=True, help="the new checkpoint's folder")
    step.set_defaults(run=make_interpolation)

    options = parser.parse_args(arguments)
    try:
        options.run(options)
    except TxError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except OSError as error:  # whatever is not training text: a card, a place to write to
        print(f"error: {error.filename or 'input or output'}: {error.strerror or error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


Row = TypeVar("Row")


def sample(files: Sequence[str], read: Callable[[str], Iterable[Row]], seed: int = 3) -> list[Row]:
    """The rows that `read` finds in each FILE or FILE:ROWS; with ROWS a random sample of that size."""
    rng = random.Random(seed)
    rows: list[Row] = []
    for file in files:
        path, _, limit = file.rpartition(":")
        path, size = (path, int(limit)) if path and limit.isdigit() else (file, 0)
        found = list(read(path))
        rng.shuffle(found)
        rows += found[:size] if size else found
    return rows


def sentence_pairs(files: Sequence[str]) -> list[tuple[str, str]]:
    """(english, chinese) of each FILE or FILE:ROWS."""
    return sample(files, lambda path: ((en, zh) for _, en, zh in examples(Source(path, "translate:zh"))))


def make_vocabulary(options: argparse.Namespace) -> None:
    """Step `vocabulary`."""
    pairs = sentence_pairs(options.pairs)
    paragraphs = [text for _, text in sample(options.plain, lambda path: read_lines(Path(path)))]
    by_language = {name: [t for t in paragraphs if guess_language(t) == name] for name in ("en", "zh")}
    backend, scores = vocabulary.read_unigram(options.student)
    english_text = [e for e, _ in pairs] + by_language["en"]
    chinese_text = [c for _, c in pairs] + by_language["zh"]
    english = vocabulary.english_pieces(scores, english_text, backend, options.english)
    chinese = vocabulary.chinese_pieces(chinese_text, options.chinese, options.characters)
    tokenizer = vocabulary.build(english, chinese)
    tokenizer.save(options.out)
    print(f"{options.out}: {tokenizer.vocab_size} pieces", file=sys.stderr)


def make_start(options: argparse.Namespace) -> None:
    """Step `transfer`."""
    students = sorted(options.student.glob("model.*.bin"))
    if len(students) != 1:
        raise InputError(f"{options.student}: expected one model.*.bin, found {len(students)}")
    teacher = transfer.load_student(students[0])
    tokenizer = Tokenizer.from_file(options.tokenizer)
    glosses = transfer.read_glosses(options.glosses)
    backend, _ = vocabulary.read_unigram(options.student / "tokenizer.json")
    pairs = sentence_pairs(options.pairs)
    sentences = sorted({e for e, _ in pairs}, key=lambda e: (len(e.split()), e))[: options.pivots]
    sources = [[*e.ids, transfer.STUDENT_EOS] for e in backend.encode_batch(sentences, add_special_tokens=False)]
    pivots = {sentences[i]: ids for i, ids in transfer.student_translate(teacher, sources)}
    kept = [i for i, s in enumerate(sentences) if 3 <= len(pivots[s]) <= 40]
    if not kept:
        raise InputError("the student has translated no sentence into 3 to 40 pieces: give more --pairs or --pivots")
    attention = transfer.distil_self_attention(
        teacher, [sources[i] for i in kept], [pivots[sentences[i]] for i in kept], options.distil_seconds
    )
    tensors = transfer.starting_tensors(teacher, backend.get_vocab(), tokenizer, attention, pairs, pivots, glosses)
    save_file({name: value.contiguous() for name, value in tensors.items()}, options.out)


def make_synthetic(options: argparse.Namespace) -> None:
    """Step `synthetic`."""
    lines = (f"{english}\t{chinese}\n" for english, chinese in synthetic.pairs(options.rows, options.seed))
    options.out.write_text("".join(lines), encoding="utf-8")


def make_slots(options: argparse.Namespace) -> None:
    """Step `slots`."""
    checkpoint = load_checkpoint(options.checkpoint)
    content = slots.add_pieces(checkpoint.tokenizer.to_json())
    tensors = {name: torch.from_numpy(np.array(tensor)) for name, tensor in checkpoint.tensors.items()}
    save_file({n: t.contiguous() for n, t in slots.add_rows(tensors, checkpoint.tokenizer).items()}, options.out)
    options.tokenizer.write_text(content, encoding="utf-8")


def train(options: argparse.Namespace) -> None:
    """Step `run`."""
    torch.set_num_threads(options.threads)
    tokenizer = Tokenizer.from_file(options.tokenizer)
    try:
        init = load_file(options.init) if options.init else None
    except SafetensorError as error:
        raise CheckpointError(f"{options.init} is not a readable safetensors file: {error}") from error
    card = options.card.read_text(encoding="utf-8") if options.card else ""  # before hours of training, not after
    config = checkpoint_config(tokenizer, options.name)
    trainer = Trainer(Recipe.from_json(options.recipe), config, tokenizer, options.out, options.device, init)
    if trainer.resume():
        print(f"continuing at step {trainer.step}", file=sys.stderr)
    trainer.run(options.until)
    if options.export:
        trainer.export(options.export, card or f"# {options.name}\n\n{trainer.recipe.notes}\n")


def export(options: argparse.Namespace) -> None:
    """Step `export`."""
    tokenizer = Tokenizer.from_file(options.tokenizer)
    card = options.card.read_text(encoding="utf-8")
    step = export_run(options.run_folder, checkpoint_config(tokenizer, options.name), tokenizer, card, options.out)
    print(f"{options.out}: the averaged weights of step {step}", file=sys.stderr)


def make_interpolation(options: argparse.Namespace) -> None:
    """Step `interpolate`."""
    shares = [parse_share(value) for value in [*options.share_of, f"={options.share}"]]
    first, second = load_checkpoint(options.checkpoint), load_checkpoint(options.other)
    tensors, others = (
        {name: torch.from_numpy(np.array(tensor)) for name, tensor in c.tensors.items()} for c in (first, second)
    )
    mixed = interpolate(tensors, others, options.share, shares)
    card = (options.checkpoint / "README.md").read_text(encoding="utf-8")
    save_checkpoint(options.out, first.config, mixed, first.tokenizer.to_json(), card)
    print(f"{options.out}: {len(mixed)} tensors", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
