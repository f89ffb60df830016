"""`tx bench`: check the options, measure, print a table or JSON. What is measured, and how, is in model/bench."""

from __future__ import annotations

import gc
import inspect
import io
import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from ..model.errors import UsageError
from . import direct
from .commands import refuse_empty, runtime_settings, whole_number
from .text_io import ExitStatus, Output, check_encoding, complain, one_line, open_sources, read_whole

ENGINES = {"numpy": ("numpy",), "torch": ("torch",), "both": ("numpy", "torch")}
BATCH_SIZES = (8, 32)
ROUNDS = 5
COLUMNS = 80


def bench(
    *,
    model: str | None,
    source: str | None,
    target: str | None,
    engine: str,
    precisions: Sequence[str],
    batch_sizes: Sequence[str],
    beam: str | None,
    sentences: str | None,
    rounds: str | None,
    file: str | None,
    against: Sequence[str],
    peer_pythons: Sequence[str],
    jobs: str | None,
    as_json: bool,
    quiet: bool,
    encoding: str,
    threads: str | None,
    device: str,
) -> ExitStatus:
    """Measures, and prints what was found."""
    refuse_empty(**{"model": model, "from": source, "to": target, "file": file, "peer-python": peer_pythons})
    if engine not in ENGINES:
        raise UsageError(f"--engine must be one of {', '.join(ENGINES)}, not {engine!r}")
    engines = ENGINES[engine]
    sizes = [whole_number("--batch-size", size, 1, 4096) or 1 for size in batch_sizes] or list(BATCH_SIZES)
    n_threads = whole_number("--threads", threads, 1, 1024)
    n_jobs = whole_number("--jobs", jobs, 1, 256)
    if n_jobs and "--jobs" not in direct.VALUED:
        raise UsageError("tx translate has no --jobs: leave it out")
    settings = runtime_settings(device, n_threads, "torch" if engines == ("torch",) else "auto")
    if settings["device"] != "cpu" and engine == "both":
        engines = ("torch",)
    texts = None
    if file is not None:
        (opened,) = open_sources([], [file])
        lines = read_whole(opened, check_encoding(encoding)).splitlines()
        texts = [line.strip() for line in lines if any(map(str.isalpha, line))]
    from ..model.bench import run

    options = run.Options(
        model=model,
        engines=engines,
        precisions=_precisions(precisions, engines),
        batch_sizes=sorted(set(sizes)),
        beam=whole_number("--beam", beam, 1, 64),
        count=whole_number("--sentences", sentences, 1, 10**6),
        rounds=whole_number("--rounds", rounds, 1, 1000) or ROUNDS,
        texts=texts,
        against=against,
        pythons=peer_pythons,
        threads=n_threads,
        jobs=n_jobs,
        device=settings["device"],
        source=source,
        target=target,
    )
    gc.enable()
    with Output(None) as out, Telling(quiet) as telling:
        record = run.bench(options, telling.say)
        telling.clear()
        if record["machine"]["busy"] and not quiet:
            complain(
                f"the load average was {record['machine']['load_average']} before this began: other programs are running, "
                "and the figures are theirs too",
                kind="warning",
            )
        out.write(json.dumps(record, ensure_ascii=False) + "\n" if as_json else report(record))
    return ExitStatus.OK


def _precisions(asked: Sequence[str], engines: Sequence[str]) -> list[str]:
    """Those asked for, if the engine torch has them."""
    from ..model import runtime

    if not asked:
        return []
    if "torch" not in engines:
        raise UsageError("--precision is for the engine torch")
    known = runtime_precisions(runtime)
    for name in asked:
        if name not in known:
            raise UsageError(f"--precision must be one of {', '.join(known)}, not {name!r}")
    offered = "precision" in inspect.signature(runtime.Runtime.__init__).parameters
    return list(dict.fromkeys(asked)) if offered else []


def runtime_precisions(runtime: Any) -> tuple[str, ...]:
    """What a Runtime may be asked to compute with."""
    return tuple(getattr(runtime, "PRECISIONS", ("fp32",)))


class Telling:
    """What goes on, on one line of a terminal's standard error, which is gone in the end."""

    def __init__(self, quiet: bool) -> None:
        self.shown = not quiet and sys.stderr is not None and sys.stderr.isatty()
        self.width = 0

    def say(self, text: str) -> None:
        if self.shown:
            text = one_line(text)[: COLUMNS - 1]
            sys.stderr.write("\r" + text.ljust(self.width))
            sys.stderr.flush()
            self.width = len(text)

    def clear(self) -> None:
        self.say("")
        if self.shown:
            sys.stderr.write("\r")
            sys.stderr.flush()

    def __enter__(self) -> Telling:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()


# --- for people ---


def report(record: Mapping[str, Any]) -> str:
    """All figures in tables of at most 80 columns."""
    from rich.console import Console
    from rich.table import Table

    out = io.StringIO()
    console = Console(
        file=out, width=COLUMNS, markup=False, emoji=False, highlight=False, force_terminal=False, color_system=None
    )

    def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        for i, head in enumerate(heads):
            made.add_column(head, justify="right" if i else "left", overflow="fold")
        for row in rows:
            made.add_row(*row)
        console.print()
        console.print(made)

    for line in _head(record):
        console.print(line)
    table(("one sentence", "seconds", "quartiles", "p90", "peak MB"), _one_sentence(record))
    table(("in batches", "of", "sentences/s", "quartiles", "pieces/s", "peak MB"), _batches(record))
    if "command" in record:
        table(("tx translate -i FILE", "lines", "lines/s", "quartiles"), _commands(record))
    if "against" in record:
        heads = ("beside others", "sentences/s", "one: s", "ratio", "quartiles", "equal", "chrF", "MB")
        scored = any(one["chrf"] is not None for one in record["against"]["cases"])  # not without sacreBLEU
        shown = [i for i, head in enumerate(heads) if scored or head != "chrF"]
        table([heads[i] for i in shown], [[row[i] for i in shown] for row in _beside(record)])
        console.print()
        for line in _notes(record["against"]):
            console.print(line)
    return "".join(line.rstrip() + "\n" for line in out.getvalue().splitlines())


def _head(record: Mapping[str, Any]) -> list[str]:
    machine, settings = record["machine"], record["settings"]
    sets = " ".join(machine["instructions"])
    load = "" if machine["load_average"] is None else f", load average {machine['load_average']:.1f}"
    threads = f", {settings['threads']} threads" if settings["threads"] else ""
    return [
        f"{one_line(machine['processor'])}, {machine['cores_usable']} of {machine['cores']} cores{load}",
        *([f"instructions: {sets}"] if sets else []),
        f"torch {machine['torch']}, NumPy {machine['numpy']}, Python {machine['python']}",
        f"{one_line(record['model']['model'])}, beam {settings['beam']}; {settings['sentences']} sentences, "
        f"{settings['rounds']} rounds{threads}",
    ]


def _one_sentence(record: Mapping[str, Any]) -> list[Sequence[str]]:
    cold = [
        (one["command"] + ", cold", *_figures(one["seconds"]), "", _megabytes(one["peak_bytes"]))
        for one in record["start_up"]
    ]
    loaded = [
        (f"{one['engine']}, loaded", *_figures(one["seconds"]), _short(one["p90"]), "") for one in record["latency"]
    ]
    return [*cold, *loaded]


def _batches(record: Mapping[str, Any]) -> list[Sequence[str]]:
    return [
        (
            f"{one['engine']} {one['precision'] or ''}".strip(),
            str(one["batch_size"]),
            *_figures(one["sentences_per_second"]),
            _short(one["pieces_per_second"]["median"]),
            _megabytes(one["peak_bytes"]),
        )
        for one in record["throughput"]
    ]


def _commands(record: Mapping[str, Any]) -> list[Sequence[str]]:
    return [
        (f"--jobs {one['jobs']}", str(one["lines"]), *_figures(one["lines_per_second"])) for one in record["command"]
    ]


def _beside(record: Mapping[str, Any]) -> list[Sequence[str]]:
    rows: list[Sequence[str]] = []
    for i, one in enumerate(record["against"]["cases"]):
        same = "" if i == 0 else f"{100 * one['equal']:.1f} %"
        chrf = "" if i == 0 or one["chrf"] is None else f"{one['chrf']:.1f}"
        ratio = ("1", "") if i == 0 else _figures(one["ratio"])
        name = f"tx, {one['name']}" if i == 0 else one["name"]
        speed = _short(one["sentences_per_second"]["median"])
        one_by_one = _short(one["latency"]["seconds"]["median"])
        rows.append((name, speed, one_by_one, *ratio, same, chrf, _megabytes(one["peak_bytes"])))
    return rows


def _notes(against: Mapping[str, Any]) -> list[str]:
    """What the figures beside others mean."""
    model = "the same model on all sides"
    if against["model"] == "random":
        model = f"a random model of the same sizes on all sides; every output has {against['length']} pieces"
    shortlist = ", with the model's shortlist" if against["shortlist"] else ""
    lines = [f"{model}; beam {against['beam']}{shortlist}, {against['threads']} threads for the others"]
    lines += [f"{one['name']} {one['version']}: {one['how']}" for one in against["cases"] if "how" in one]
    lines.append("ratio: the time it takes, divided by that of tx")
    if against["model"] == "random":
        lines.append("one rounding more, as int8 makes them, and a random model writes another text of the same length")
    first = against["cases"][0]
    if against["model"] == "random" and set(first["flags"]) - {"cut"}:
        lines.append(f"not all of tx's outputs had that length: {', '.join(sorted(set(first['flags']) - {'cut'}))}")
    return lines


def _figures(values: Mapping[str, Any]) -> tuple[str, str]:
    low, high = values["quartiles"]
    return _short(values["median"]), f"{_short(low)}-{_short(high)}"


def _short(number: float) -> str:
    """Three digits that say something."""
    if number >= 100:
        return f"{number:,.0f}"
    return f"{number:.{1 if number >= 10 else 2 if number >= 1 else 3}f}"


def _megabytes(count: int | None) -> str:
    return "" if count is None else f"{count / 1e6:,.0f}"
