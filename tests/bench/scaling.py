"""How time and memory grow: `python tests/bench/scaling.py [--full] [--quick] [--svg scaling.svg]`.

With the number of lines and of --jobs (whole commands, `tx translate -i FILE`, less what one line takes), with the length
of a sentence in pieces, the batch size, the beam and the threads (a child process for each point, with the model loaded).
Prints a table, and for each series the exponent e of time ≈ c · sizeᵉ in its upper half: 1 is linear. What grows faster
than it should is flagged, and the exit status is 1. --quick only shows that everything runs. Run it when nothing else
runs.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from tx.cli import direct
from tx.model.bench import machine, measure, sentences
from tx.model.bench.child import Child
from tx.model.bench.processes import Command
from tx.model.threads import cores

ENGINES = ("numpy", "torch")
LONG = 60.0  # seconds from which on one run of a point is enough
# Largest exponents of time and of memory that are no surprise. A larger batch or more threads never cost more time; a
# longer sentence's attention is quadratic, but a small part of the work; of memory the text takes none.
MOST = {
    "lines": (1.1, 0.1),
    "pieces": (1.25, 1.0),
    "batch size": (0.1, 1.0),
    "beam": (1.1, 1.0),
    "threads": (0.1, 0.2),
    "jobs": (0.1, 1.0),
}
COLOURS = {"numpy": "#1f6fb4", "torch": "#c4631a"}


@dataclass
class Series:
    """Points of one engine along one axis: seconds (medians) and peaks in bytes."""

    axis: str
    engine: str
    sizes: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    quartiles: list[tuple[float, float]] = field(default_factory=list)
    peaks: list[int | None] = field(default_factory=list)

    def add(self, size: int, seconds: Sequence[float], peak: int | None) -> None:
        self.sizes.append(size)
        self.seconds.append(statistics.median(seconds))
        self.quartiles.append(measure.quartiles(seconds))
        self.peaks.append(peak)

    def exponents(self) -> tuple[float, float]:
        """Of time and of memory in the upper half of the sizes, where what costs the same at every size matters least."""
        half = slice(min(len(self.sizes) // 2, len(self.sizes) - 2), None) if len(self.sizes) > 1 else slice(0, 0)
        found = []
        for values in (self.seconds, [peak or 0 for peak in self.peaks]):
            usable = [(n, v) for n, v in zip(self.sizes[half], values[half], strict=True) if v > 0]
            found.append(measure.exponent(*zip(*usable, strict=True)) if len(usable) > 1 else math.nan)
        return found[0], found[1]

    def surprises(self) -> list[str]:
        """What grows faster than MOST says."""
        names = ("time", "memory")
        pairs = zip(names, self.exponents(), MOST[self.axis], strict=True)
        return [f"{name} grows with {self.axis}^{e:.2f}, above {most:g}" for name, e, most in pairs if e > most]


def words() -> Callable[[int], str]:
    """A function that gives so many words more at each call, without a mark at which a text could be split."""
    stream = itertools.chain.from_iterable(
        text.rstrip(".").replace(",", "").lower().split() for _, text in sentences.stream("en", 7)
    )
    return lambda count: " ".join(itertools.islice(stream, count))


class Scaling:
    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.series: list[Series] = []

    def ask(
        self, engine: str, texts: Sequence[str], threads: int | None = None, **asked: Any
    ) -> tuple[Any, int | None]:
        """Seconds of each round and the peak, by a child of its own."""
        options = self.options
        asked = {"beam_size": options.beam, "target": options.target, **asked}
        settings = {"engine": engine, "threads": threads or options.threads}
        opening = {"model": options.model, "settings": settings, "asked": {"target": options.target}}
        opening["warm"] = ["A short sentence to warm up."]
        with Child(engine, [sys.executable, "-m", "tx.model.bench.worker"], opening) as child:
            request = {"do": "translate", "texts": list(texts), "asked": asked}
            first = child.ask(request)
            rounds = options.rounds if first["seconds"] < LONG else 1
            return [child.ask(request)["seconds"] for _ in range(rounds)], first["peak_bytes"]

    def lines(self, engine: str, sizes: Sequence[int]) -> None:
        """Whole commands; what a file of one line takes is subtracted."""
        series = Series("lines", engine)
        with tempfile.TemporaryDirectory() as folder:
            start = statistics.median(self.command(engine, 1, Path(folder))[0] for _ in range(self.options.rounds))
            for size in sizes:
                seconds, peak = self.command(engine, size, Path(folder))
                rounds = self.options.rounds - 1 if seconds < LONG else 0
                runs = [seconds, *(self.command(engine, size, Path(folder))[0] for _ in range(rounds))]
                series.add(size, [max(run - start, 1e-3) for run in runs], peak)
                self.say(series)
        self.series.append(series)

    def jobs(self, engine: str, sizes: Sequence[int]) -> None:
        """Of --jobs the peak of the first process only is known."""
        series = Series("jobs", engine)
        with tempfile.TemporaryDirectory() as folder:
            for size in sizes:
                runs = [
                    self.command(engine, self.options.lines_of_jobs, Path(folder), "--jobs", str(size))
                    for _ in range(self.options.rounds)
                ]
                series.add(size, [seconds for seconds, _ in runs], runs[0][1])
                self.say(series)
        self.series.append(series)

    def command(self, engine: str, lines: int, folder: Path, *more: str) -> tuple[float, int | None]:
        source, target = folder / f"{lines}.txt", folder / "out.txt"
        if not source.exists():
            with source.open("w", encoding="utf-8") as file:
                file.writelines(f"{text}\n" for _, text in itertools.islice(sentences.stream(), lines))
        options = self.options
        line = [
            "translate",
            "-q",
            "-i",
            str(source),
            "-o",
            str(target),
            "--engine",
            engine,
            "--beam",
            str(options.beam),
        ]
        line += ["--to", options.target] + (["--model", options.model] if options.model else [])
        line += ["--threads", str(options.threads)] if options.threads else []
        run = Command((*line, *more)).run()
        with target.open("rb") as file:
            written = sum(1 for _ in file)
        if written != lines:
            sys.exit(f"{lines} lines in, {written} lines out: {' '.join(line)}")
        return run.seconds, run.peak_bytes

    def pieces(self, engine: str, sizes: Sequence[int], count: int) -> None:
        """Texts of so many pieces, `count` of them, in one batch; in steps of one word, so nearly so many."""
        series, more = Series("pieces", engine), words()
        opening = {
            "model": self.options.model,
            "settings": {"engine": "numpy"},
            "asked": {"target": self.options.target},
        }
        command = [sys.executable, "-m", "tx.model.bench.worker"]
        with Child("numpy", command, opening | {"warm": ["A word."]}) as counter:
            for size in sizes:
                texts = []
                for _ in range(count):
                    text = more(max(1, size // 2))
                    while counter.ask({"do": "read", "texts": [text]})["pieces"] < size:
                        text += f" {more(1)}"
                    texts.append(text + ".")
                series.add(size, *self.ask(engine, texts, batch_size=count))
                self.say(series)
        self.series.append(series)

    def settings(self, axis: str, engine: str, sizes: Sequence[int], texts: Sequence[str]) -> None:
        """Batch sizes, beams or numbers of threads on the same texts."""
        series = Series(axis, engine)
        key = {"batch size": "batch_size", "beam": "beam_size", "threads": "threads"}[axis]
        for size in sizes:
            series.add(size, *self.ask(engine, texts, **{"batch_size": 32, **{key: size}}))
            self.say(series)
        self.series.append(series)

    def say(self, series: Series) -> None:
        low, high = series.quartiles[-1]
        peak = series.peaks[-1]
        memory = f"{peak / 1e6:8.0f}" if peak else f"{'':8}"
        size, seconds = series.sizes[-1], series.seconds[-1]
        rate = f"{1000 * seconds / size:10.2f}" if series.axis in ("lines", "pieces") else f"{'':10}"
        print(f"{series.axis:10} {series.engine:6} {size:8} {seconds:10.3f} {low:8.3f}-{high:<8.3f} {rate} {memory}")
        sys.stdout.flush()


# --- the picture ---

WIDTH, HEIGHT, LEFT, TOP, COLUMNS = 330, 230, 62, 40, 3


def to_svg(series: Sequence[Series]) -> str:
    """Two panels an axis, time and memory, both axes logarithmic; a line an engine."""
    axes = list(dict.fromkeys(one.axis for one in series))
    panels = [(axis, kind) for axis in axes for kind in ("seconds", "peak MB")]
    rows = -(-len(panels) // COLUMNS)
    width, height = COLUMNS * WIDTH, rows * HEIGHT
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        'font-family="DejaVu Sans, Verdana, sans-serif" font-size="11" fill="#333">',
        f'<title>How tx scales</title><rect width="{width}" height="{height}" fill="#fff"/>',
    ]
    for i, (axis, kind) in enumerate(panels):
        lines = {}
        for one in (one for one in series if one.axis == axis):
            values = one.seconds if kind == "seconds" else [(peak or 0) / 1e6 for peak in one.peaks]
            points = [(n, v) for n, v in zip(one.sizes, values, strict=True) if v > 0]
            if points:
                lines[one.engine] = points
        if lines:
            out += _panel(f"{kind} by {axis}", lines, i % COLUMNS * WIDTH, i // COLUMNS * HEIGHT)
    return "\n".join([*out, "</svg>"]) + "\n"


def _panel(title: str, lines: dict[str, list[tuple[int, float]]], x0: int, y0: int) -> list[str]:
    xs = [math.log10(x) for points in lines.values() for x, _ in points]
    ys = [math.log10(y) for points in lines.values() for _, y in points]
    x_low, x_high = min(xs), max(max(xs), min(xs) + 0.3)
    y_low, y_high = math.floor(min(ys)), math.ceil(max(max(ys), math.floor(min(ys)) + 0.01))
    plot_width, plot_height = WIDTH - LEFT - 60, HEIGHT - TOP - 36

    def place(x: float, y: float) -> tuple[float, float]:
        return (
            x0 + LEFT + plot_width * (x - x_low) / (x_high - x_low),
            y0 + TOP + plot_height * (1 - (y - y_low) / (y_high - y_low)),
        )

    out = [f'<text x="{x0 + LEFT}" y="{y0 + 24}" font-weight="bold">{escape(title)}</text>']
    for power in range(y_low, y_high + 1):
        _, y = place(x_low, power)
        out.append(f'<path d="M{x0 + LEFT} {y:.1f}h{plot_width}" stroke="#ddd"/>')
        out.append(f'<text x="{x0 + LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{10.0**power:g}</text>')
    ticks = sorted({x for points in lines.values() for x, _ in points})
    for n in ticks[:: -(-len(ticks) // 5)]:
        x, _ = place(math.log10(n), y_low)
        out.append(f'<text x="{x:.1f}" y="{y0 + HEIGHT - 20}" text-anchor="middle">{n:,}</text>')
    for engine, points in lines.items():
        places = [place(math.log10(n), math.log10(value)) for n, value in points]
        path = " ".join(f"{'L' if i else 'M'}{x:.1f} {y:.1f}" for i, (x, y) in enumerate(places))
        colour = COLOURS[engine]
        out.append(f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        out += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in places]
        x, y = places[-1]
        out.append(f'<text x="{x + 7:.1f}" y="{y + 4:.1f}" fill="{colour}">{engine}</text>')
    return out


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="name or path (default: the default model)")
    parser.add_argument("--to", dest="target", default="zh", help="language into which English is translated")
    parser.add_argument("--engine", choices=(*ENGINES, "both"), default="both")
    parser.add_argument("--beam", type=int, default=1, help="but where the beam is the axis (default: 1)")
    parser.add_argument("--threads", type=int, help="but where threads are the axis (default: the engines' own choice)")
    parser.add_argument("--rounds", type=int, default=3, help=f"of points of less than {LONG:g} s (default: 3)")
    parser.add_argument("--axes", default=",".join(MOST), help=f"which to measure (default: {','.join(MOST)})")
    parser.add_argument("--full", action="store_true", help="a file of a million lines too")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: shows that everything runs")
    parser.add_argument("--svg", type=Path, metavar="FILE", help="draw it here")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every figure here")
    options = parser.parse_args()
    options.lines_of_jobs = 8 if options.quick else 2000
    quick, engines = options.quick, ENGINES if options.engine == "both" else (options.engine,)
    options.rounds = 1 if quick else options.rounds
    lines = [2, 4, 8] if quick else [10**n for n in range(1, 7 if options.full else 6)]
    lengths, count = ([5, 10], 2) if quick else ([5, 10, 20, 50, 100, 200, 500], 16)
    texts = sentences.sentences(4 if quick else 256)
    powers = [1, 2] if quick else [1, 2, 4, 8, 16, 32, 64, 128, 256]
    several = sorted({1, 2, *(n for n in powers if n <= cores()), cores()} if not quick else {1})

    about = machine.describe()
    print(f"{about['processor']}, {about['cores_usable']} cores, load average {about['load_average']}")
    if about["busy"]:
        print("warning: other programs are running, and the figures are theirs too")
    print(f"{'axis':10} {'engine':6} {'size':>8} {'seconds':>10} {'quartiles':>17} {'ms each':>10} {'peak MB':>8}")
    scaling, asked = Scaling(options), options.axes.split(",")
    for axis, engine in itertools.product(asked, engines):
        if axis == "lines":
            scaling.lines(engine, lines)
        elif axis == "jobs":
            if "--jobs" in direct.VALUED:
                scaling.jobs(engine, several)
        elif axis == "pieces":
            scaling.pieces(engine, lengths, count)
        elif axis == "threads":
            scaling.settings(axis, engine, several, texts)
        else:
            chosen = powers if axis == "batch size" else [n for n in powers if n <= 16]
            scaling.settings(axis, engine, chosen, texts if axis == "batch size" else texts[:64])

    print(f"\n{'axis':10} {'engine':6} {'time':>6} {'memory':>7}   (exponents)")
    surprises = []
    for one in scaling.series:
        time, memory = one.exponents()
        print(f"{one.axis:10} {one.engine:6} {time:6.2f} {memory:7.2f}   {'; '.join(one.surprises())}")
        surprises += one.surprises()
    if options.svg:
        options.svg.write_text(to_svg(scaling.series), encoding="utf-8")
    if options.json:
        values = {"machine": about, "series": [asdict(one) for one in scaling.series]}
        options.json.write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")
    return 1 if surprises and not quick else 0


if __name__ == "__main__":
    sys.exit(main())
