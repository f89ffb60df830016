"""`tx bench`: start-up, latency, throughput and memory of a model on this machine, and of other translators beside it.

Each engine (and each kind of numbers it computes with) is a child process with the model loaded, so that the peaks of
memory do not mix. All of them are there at the same time and are asked in turn.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import UsageError
from ..threads import cores
from . import machine, measure, peers, sentences
from .child import Child
from .processes import Command, Run

SECONDS = 30.0  # that the rounds of throughput may take, where nobody says how many sentences
FEWEST, MOST = 16, 1024  # sentences
SAMPLE = 16  # sentences one by one: how long each takes
WARM = "A short sentence to warm up."
SAME, STAND_IN = "same", "random"


@dataclass(frozen=True)
class Options:
    """What is asked for; None: as tx does it by itself. `texts` are the user's own; `count` how many sentences."""

    model: str | None = None
    engines: Sequence[str] = ("numpy", "torch")
    precisions: Sequence[str] = ()  # of the engine torch; none: its own choice
    batch_sizes: Sequence[int] = (8, 32)
    beam: int | None = None
    count: int | None = None
    rounds: int = 5
    texts: Sequence[str] | None = None
    against: Sequence[str] = ()
    pythons: Sequence[str] = ()
    threads: int | None = None
    jobs: int | None = None
    device: str = "cpu"
    source: str | None = None
    target: str | None = None

    @property
    def asked(self) -> dict[str, Any]:
        """Arguments of Translator.translate."""
        found = {"source": self.source, "target": self.target, "beam_size": self.beam}
        return {name: value for name, value in found.items() if value is not None}

    @property
    def flags(self) -> list[str]:
        """The same, and the model, as options of `tx translate`."""
        found = {"--model": self.model, "--from": self.source, "--to": self.target, "--beam": self.beam}
        found |= {"--threads": self.threads, "--device": None if self.device == "cpu" else self.device}
        return [part for name, value in found.items() if value is not None for part in (name, str(value))]

    @property
    def engine_flags(self) -> list[list[str]]:
        """What whole commands are told besides: the engine if one is measured, of both nothing, and then torch; a precision if
        one was asked for."""
        precision = ["--precision", self.precisions[0]] if len(self.precisions) == 1 else []
        torch = ["--engine", "torch", *precision]
        if len(self.engines) > 1:
            return [[], torch]
        return [torch if self.engines[0] == "torch" else ["--engine", self.engines[0]]]


@dataclass
class Case:
    """Sentences in batches of one size, by one child; `seconds` of each round, all of the texts at once."""

    name: str
    child: Child
    request: Mapping[str, Any]
    engine: str = ""
    batch_size: int = 0
    precision: str | None = None
    peak_bytes: int | None = None
    seconds: list[float] = field(default_factory=list)
    tokenizing: list[float] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    flags: dict[str, int] = field(default_factory=dict)

    def warm_up(self, texts: Sequence[str]) -> float:
        """Translates the texts, and remembers what came out and what the child's peak is by now; the seconds that it took."""
        reply = self.child.ask({**self.request, "texts": list(texts)})
        self.outputs, self.flags = reply["texts"], reply.get("flags", {})
        self.peak_bytes = self.peak_bytes or reply["peak_bytes"]
        return float(reply["seconds"])

    def time(self, texts: Sequence[str]) -> None:
        """One more round."""
        reply = self.child.ask({**self.request, "texts": list(texts)})
        self.seconds.append(float(reply["seconds"]))
        self.tokenizing.append(reply.get("tokenizing", 0.0))

    @property
    def median(self) -> float:
        return float(measure.spread(self.seconds)["median"])


class Bench:
    """One run. `say` is told what goes on."""

    def __init__(self, options: Options, say: Callable[[str], None] = lambda text: None) -> None:
        self.options, self.say = options, say
        self.stack = contextlib.ExitStack()

    def run(self) -> dict[str, Any]:
        """All that was measured, ready for JSON. Raises TxError."""
        options = self.options
        record: dict[str, Any] = {"schema": "tx-bench/1", "machine": machine.describe()}
        found = peers.find(options.against, options.pythons)
        with self.stack:
            self.say("loading")
            cases = self._open(options.model, shortlist="slimt" in options.against)
            facts = cases[0].child.facts
            peers.refuse(options.against, facts, options.beam)
            texts = self._texts(facts)
            record["model"] = {name: facts[name] for name in ("model", "path", "sizes", "beam", "shortlist")}
            record["start_up"] = self._start_up(texts)
            texts = self._warm_up(cases, texts)
            record["latency"] = self._latency({case.name: case for case in cases[:: len(options.batch_sizes)]}, texts)
            self._rounds(cases, texts)
            record["settings"] = self._settings(facts, texts)
            record["throughput"] = [self._throughput(case, cases[0].child, texts) for case in cases]
            if options.jobs:
                record["command"] = self._command(texts)
            if found:
                best = min(cases, key=lambda case: case.median)
                record["against"] = self._against(found, facts, best, texts)
        record["machine"]["load_average_after"] = machine.load()
        return record

    # --- what is measured ---

    def _open(self, model: str | None, shortlist: bool = False) -> list[Case]:
        """A child for each engine and precision, a case for each batch size."""
        cases = []
        for engine in self.options.engines:
            for precision in (self.options.precisions if engine == "torch" else ()) or (None,):
                child = self._child(model, engine, precision, shortlist)
                for size in self.options.batch_sizes:
                    request = {"do": "translate", "asked": {**self.options.asked, "batch_size": size}}
                    name = f"{engine} {precision}" if precision else engine
                    cases.append(Case(name, child, request, engine, size, precision))
        return cases

    def _child(self, model: str | Path | None, engine: str, precision: str | None, shortlist: bool) -> Child:
        options = self.options
        settings: dict[str, Any] = {"engine": engine, "threads": options.threads}
        settings |= {"device": options.device} if engine == "torch" else {}
        settings |= {"precision": precision} if precision else {}
        settings |= {"shortlist": True} if shortlist else {}
        opening: dict[str, Any] = {"model": str(model) if model else None, "settings": settings, "asked": options.asked}
        opening["warm"] = list(options.texts[:1]) if options.texts else [WARM]
        command = [sys.executable, "-m", "tx.model.bench.worker"]
        return self.stack.enter_context(Child(f"the engine {engine}", command, opening))

    def _texts(self, facts: Mapping[str, Any]) -> list[str]:
        """Those of the user, or built-in ones in the languages that the model reads, as far as there are any."""
        options = self.options
        count = options.count or MOST
        if options.texts is not None:
            return list(dict.fromkeys(options.texts))[:count]
        read = {source for source, _ in facts["pairs"]} if options.source is None else {options.source}
        if options.target is not None:
            read -= {options.target}
        languages = [language for language in ("en", "zh") if language in read] or ["en"]
        return sentences.mixed(count, languages)

    def _start_up(self, texts: Sequence[str]) -> list[dict[str, Any]]:
        """Whole commands with one sentence, from a cold process to its answer."""
        text = next((text for text in texts if len(text) < 80), texts[0][:200])
        commands = {
            " ".join(("tx translate", *flags)): Command(("translate", *self.options.flags, *flags, "--", text))
            for flags in self.options.engine_flags
        }
        runs: dict[str, list[Run]] = {name: [] for name in commands}
        for name, command in commands.items():
            self.say(f"start-up: {name}")
            command.run()  # fills the file cache
        for i, name in measure.interleaved(list(commands), self.options.rounds):
            self.say(f"start-up, round {i + 1}: {name}")
            runs[name].append(commands[name].run())
        return [
            {
                "command": name,
                "text": text,
                "seconds": measure.spread([run.seconds for run in found]),
                "peak_bytes": max((run.peak_bytes for run in found if run.peak_bytes), default=None),
            }
            for name, found in runs.items()
        ]

    def _warm_up(self, cases: Sequence[Case], texts: list[str]) -> list[str]:
        """Asks each case once, the smallest batches first, so that its peak is its own; and, where nobody said how many,
        takes as many of the texts as the time is enough for."""
        options = self.options
        few = texts[: max(FEWEST, max(options.batch_sizes))] if options.count is None else texts
        taken = 0.0
        for case in cases:
            self.say(f"warming up: {case.name}, batches of {case.batch_size}")
            taken += case.warm_up(few)
        if options.count is None:
            count = int(SECONDS / (taken / len(few) * (options.rounds + 1))) // FEWEST * FEWEST
            texts = texts[: min(MOST, max(FEWEST, count))]
            for case in cases:
                case.warm_up(texts)
        return texts

    def _latency(self, cases: Mapping[str, Case], texts: Sequence[str]) -> list[dict[str, Any]]:
        """One sentence at a time, with the model loaded."""
        sample = list(texts[:SAMPLE])
        seconds: dict[str, list[float]] = {name: [] for name in cases}
        for i in range(self.options.rounds):
            self.say(f"one by one, round {i + 1}")
            for text in sample:
                for name, case in cases.items():
                    reply = case.child.ask({**case.request, "texts": [text]})
                    seconds[name].append(float(reply["seconds"]))
        return [
            {
                "engine": name,
                "seconds": measure.spread(found),
                "p90": measure.percentile(found, 0.9),
                "sentences": len(sample),
            }
            for name, found in seconds.items()
        ]

    def _rounds(self, cases: Sequence[Case], texts: Sequence[str]) -> None:
        for i, case in measure.interleaved(cases, self.options.rounds):
            self.say(f"round {i + 1} of {self.options.rounds}: {case.name}, batches of {case.batch_size}")
            case.time(texts)

    def _settings(self, facts: Mapping[str, Any], texts: Sequence[str]) -> dict[str, Any]:
        words = sum(sentences.length(text, "zh" if not text.isascii() and " " not in text else "en") for text in texts)
        return {
            "beam": self.options.beam or facts["beam"],
            "sentences": len(texts),
            "words": words,
            "rounds": self.options.rounds,
            "threads": self.options.threads,
            "device": self.options.device,
        }

    def _throughput(self, case: Case, counter: Child, texts: Sequence[str]) -> dict[str, Any]:
        pieces = counter.ask({"do": "count", "texts": case.outputs})["pieces"]
        return {
            "engine": case.engine,
            "precision": case.precision,
            "batch_size": case.batch_size,
            "seconds": measure.spread(case.seconds),
            "sentences_per_second": measure.spread([len(texts) / seconds for seconds in case.seconds]),
            "pieces_per_second": measure.spread([pieces / seconds for seconds in case.seconds]),
            "peak_bytes": case.peak_bytes,
            "flags": case.flags,
        }

    def _command(self, texts: Sequence[str]) -> list[dict[str, Any]]:
        """`tx translate -i FILE`, whole processes, with and without several jobs."""
        found = []
        with peers.temporary() as folder:
            file, out = Path(folder, "in.txt"), Path(folder, "out.txt")
            file.write_text("".join(" ".join(text.split()) + "\n" for text in texts), encoding="utf-8")
            line = (
                "translate",
                *self.options.flags,
                *self.options.engine_flags[0],
                "-q",
                "-i",
                str(file),
                "-o",
                str(out),
            )
            commands = {1: Command(line), self.options.jobs or 1: Command((*line, "--jobs", str(self.options.jobs)))}
            runs: dict[int, list[Run]] = {jobs: [] for jobs in commands}
            for i, jobs in measure.interleaved(list(commands), self.options.rounds):
                self.say(f"the command, round {i + 1}: {jobs} jobs")
                runs[jobs].append(commands[jobs].run())
            for jobs, done in runs.items():
                speeds = measure.spread([len(texts) / run.seconds for run in done])
                found.append({"jobs": jobs, "lines": len(texts), "lines_per_second": speeds})
        return found

    # --- beside others ---

    def _against(
        self, found: Sequence[peers.Found], facts: Mapping[str, Any], best: Case, texts: Sequence[str]
    ) -> dict[str, Any]:
        """The other translators and tx at its best, in turn. A model that they cannot run has a random one of its sizes in
        its place, on all sides."""
        folder = Path(self.stack.enter_context(peers.temporary()))
        beam, length, model = self.options.beam or facts["beam"], None, Path(facts["path"])
        ours, counter = best, best.child
        if peers.kind(facts) == "own":
            self.say("making a random model of the same sizes")
            pieces = counter.ask({"do": "count", "texts": best.outputs})["pieces"]
            length = max(2, round(pieces / len(texts)))
            model = peers.stand_in(facts, folder / "model")
            asked = {"beam_size": beam, "batch_size": best.batch_size}
            ours = Case(best.name, self._stand_in_child(model, best), {"do": "translate", "asked": asked})
            ours.request = {**ours.request, "length": length}
        elif "slimt" in (peer.name for peer in found):
            beam = 1
            ours = Case(best.name, best.child, {**best.request, "asked": {**best.request["asked"], "beam_size": 1}})
        threads = self.options.threads or min(4, cores())
        work = peers.Work(
            *(facts, model, folder, threads, beam, length, best.batch_size),
            warm=[WARM],
            tune=texts[: 2 * max(peers.SIZES)],
        )
        cases = [ours]
        versions = {}
        for peer in found:
            self.say(f"starting {peer.name}")
            child = self.stack.enter_context(peers.start(peer, work))
            versions[peer.name] = child.facts
            request = {"batch_size": best.batch_size, "beam": beam, "length": length}
            cases.append(Case(peer.name, child, request))
        for case in cases:
            self.say(f"warming up: {case.name}")
            case.seconds, case.tokenizing = [], []
            case.warm_up(texts)
        latency = {entry["engine"]: entry for entry in self._latency({case.name: case for case in cases}, texts)}
        self._rounds(cases, texts)
        rows = []
        for case in cases:
            row: dict[str, Any] = {"name": case.name, "sentences": len(texts)}
            row |= {name: versions[case.name][name] for name in ("version", "how") if case.name in versions}
            row |= {"seconds": measure.spread(case.seconds), "latency": latency[case.name]}
            row["sentences_per_second"] = measure.spread([len(texts) / seconds for seconds in case.seconds])
            row["ratio"] = measure.ratios(ours.seconds, case.seconds)
            without = [a - b for a, b in zip(case.seconds, case.tokenizing, strict=True)]
            row["ratio_without_tokenizing"] = measure.ratios(ours.seconds, without)
            row |= {"equal": measure.equal_share(ours.outputs, case.outputs), "peak_bytes": case.peak_bytes}
            row["chrf"] = measure.chrf(ours.outputs, case.outputs)
            row["flags"] = case.flags
            rows.append(row)
        return {
            "model": STAND_IN if length else SAME,
            "length": length,
            "beam": beam,
            "threads": threads,
            "shortlist": "slimt" in versions,
            "batch_size": best.batch_size,
            "cases": rows,
        }

    def _stand_in_child(self, model: Path, best: Case) -> Child:
        options, self.options = self.options, Options(threads=self.options.threads, device=self.options.device)
        try:
            return self._child(model, best.engine, best.precision, shortlist=False)
        finally:
            self.options = options


def bench(options: Options, say: Callable[[str], None] = lambda text: None) -> dict[str, Any]:
    """Runs it. Raises UsageError for options that do not go together, TxError for what fails."""
    if options.texts is not None and not options.texts:
        raise UsageError("there is nothing to translate in the file")
    if options.device != "cpu" and "numpy" in options.engines:
        raise UsageError(
            f"the engine numpy computes on the cpu only: use --engine torch with --device {options.device}"
        )
    return Bench(options, say).run()
