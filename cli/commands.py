"""The commands behind the names: check the options, read, ask the pipeline, write. Heavy imports arrive here."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..model.errors import UsageError
from .text_io import (
    DEVICES,
    ENGINES,
    LONGEST_LINE,
    ExitStatus,
    Line,
    Output,
    Source,
    check_encoding,
    complain,
    is_full,
    open_sources,
)

if TYPE_CHECKING:
    from ..model.pipeline import Translator
    from ..model.results import Translation
    from .forms import Form
    from .progress import Progress

LOOK_AHEAD = 256  # most lines that are translated together when they are there already; where so many are, more follow
BATCH_SIZE = 32
PLAIN = ("", ".txt")  # endings of files that are plain lines; what others are, model/formats knows

SHORT_HELP = """\
usage: tx translate [TEXT]... [-i FILE]... [-o FILE] [options]

  tx translate "I love NLP"
  cat notes.txt | tx translate --to zh > notes.zh.txt

tx translate --help says more.
"""

WARNINGS = {
    "split": "longer than the model takes at once; translated in parts",
    "cut": "the translation reached the length limit and was cut",
    "looped": "the translation repeated itself; the repetition was removed",
    "lost": "a number, an address or a placeholder is missing in the translation, or changed",
    "untranslated": "it came out as it went in, or not in the language that was asked for",
}
# flags that mean that something may be missing or wrong: exit status 3 under --strict
LOSSES = {"cut", "looped", "lost", "untranslated"}


def whole_number(option: str, value: str | None, low: int, high: int) -> int | None:
    """The value of a numeric option, None where it was not given. Raises UsageError outside low … high."""
    if value is None:
        return None
    if value.isascii() and value.isdigit() and low <= int(value[:10]) <= high and len(value) <= 10:
        return int(value)
    raise UsageError(f"{option} needs a whole number from {low} to {high}, not {value!r}")


def refuse_empty(**options: str | Sequence[str] | None) -> None:
    """Raises UsageError for an option whose text (or one of whose texts) is empty, as an unset $variable makes it."""
    for name, value in options.items():
        if value == "" or (value is not None and "" in list(value)):
            raise UsageError(f"--{name} is empty: give it a value or leave it out")


def runtime_settings(device: str, threads: int | None, engine: str) -> dict[str, Any]:
    """The settings of a Runtime that the options ask for. `device` "auto" means cuda where there is one."""
    if device not in DEVICES:
        raise UsageError(f"--device must be one of {', '.join(DEVICES)}, not {device!r}")
    if engine not in ENGINES:
        raise UsageError(f"--engine must be one of {', '.join(ENGINES)}, not {engine!r}")
    if engine == "numpy" and device != "cpu":
        raise UsageError(f"--engine numpy computes on the cpu only: leave out --device {device}, or use --engine torch")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # or it warns on the standard error after a fork
    if device == "auto":
        import torch

        if torch.cuda.is_available():
            device, engine = "cuda", "torch"
        else:
            device = "cpu"
    return {"device": device, "threads": threads, "engine": engine}


def load_translator(model: str | None, device: str, threads: int | None, engine: str, **more: bool) -> Translator:
    """Imports the pipeline and finds the model; `more` are further settings of a Runtime."""
    settings = runtime_settings(device, threads, engine)
    from ..model.pipeline import Translator

    return Translator(model, **settings, **more)


class Report:
    """What was noticed about the lines of a run: said as a warning each, and at the end once what is no more than a note."""

    def __init__(self, quiet: bool) -> None:
        self.quiet = quiet
        self.incomplete = False  # whether something may be missing
        self._lines = self._already = 0
        self._language = ""

    def line(self, place: str, result: Translation | None, part: int = 0) -> None:
        """Counts a line and its result, None for a blank one; `part` is its number in a line that came in parts."""
        self._lines += part < 2
        if part == 1:
            self._warn(f"{place} has more than {LONGEST_LINE} bytes; translated in parts")
        if result is None:
            return
        self.incomplete = self.incomplete or not LOSSES.isdisjoint(result.flags)
        for flag in result.flags:
            if flag in WARNINGS:
                self._warn(f"{place}: {WARNINGS[flag]}")
        if "copied" in result.flags and result.source_language == result.target_language:
            self._already += any(map(str.isalpha, result.source))
            self._language = result.target_language

    def broken(self, problem: str) -> None:
        """Counts what of a document could not be read, or not be put in its place."""
        self.incomplete = True
        self._warn(problem)

    def end(self) -> None:
        if self._already and not self.quiet:
            which = f"{self._already} of {self._lines} lines" if self._lines > 1 else "the text"
            complain(f"left as it is, for it is in the target language ({self._language}): {which}", kind="note")

    def _warn(self, message: str) -> None:
        if not self.quiet:
            complain(message, kind="warning")


def translate(
    texts: Sequence[str],
    files: Sequence[str],
    output: str | None,
    *,
    suffix: str | None,
    in_place: bool,
    format: str | None,
    fields: Sequence[str],
    paragraph: bool,
    source: str | None,
    target: str | None,
    model: str | None,
    beam: str | None,
    shortlist: bool,
    batch_size: str | None,
    glossary: str | None,
    n_best: str | None,
    as_json: bool,
    with_score: bool,
    align: bool,
    strict: bool,
    quiet: bool,
    no_progress: bool,
    encoding: str,
    threads: str | None,
    device: str,
    engine: str,
) -> ExitStatus:
    """`tx translate`: one line out for one line in. Numbers come as the user wrote them and are checked here."""
    if texts and files:
        raise UsageError("give TEXT or -i FILE, not both")
    refuse_empty(**{"input": files, "output": output, "suffix": suffix, "format": format, "field": fields})
    refuse_empty(**{"from": source, "to": target, "model": model, "glossary": glossary})
    on_terminal = sys.stdin is not None and sys.stdin.isatty()
    apart = in_place or suffix is not None or (bool(files) and output is not None and _is_folder(output))
    if not texts and not files and on_terminal and not apart:
        print(SHORT_HELP, end="", file=sys.stderr)
        return ExitStatus.USAGE
    beam_size = whole_number("--beam", beam, 1, 64)
    rows = whole_number("--batch-size", batch_size, 1, 4096) or BATCH_SIZE
    n_threads = whole_number("--threads", threads, 1, 1024)
    several = whole_number("--n-best", n_best, 1, 64)
    encoding = check_encoding(encoding)
    if in_place and (as_json or with_score or several or align):
        raise UsageError("--in-place keeps the text of each file: leave out --json, --score, --n-best and --align")
    if several and align and not as_json:
        raise UsageError("--align with --n-best needs --json: the words of the best translation are aligned")
    report = Report(quiet)
    form: Form = as_text_line
    by_line = {
        "--json": as_json,
        "--score": with_score,
        "--n-best": several,
        "--align": align,
        "--paragraph": paragraph,
    }
    if as_json or with_score or several or align:
        from . import forms

        form = forms.json_lines(source, target) if as_json else forms.columns(with_score, several, align)
    formats: Callable[[str], str] | None = None
    if format is not None or fields or any(os.path.splitext(path)[1] not in PLAIN for path in files):
        from .formats import choose

        formats = choose(files, format, fields, [option for option, given in by_line.items() if given])
    asked: dict[str, Any] = {"source": source, "target": target, "beam_size": beam_size, "batch_size": rows}
    if glossary is not None:
        from ..model.glossary import Glossary

        asked["glossary"] = Glossary.read(glossary)
    asked |= ({"n_best": several} if several else {}) | ({"align": True} if align else {})
    failed = False
    with contextlib.ExitStack() as stack:
        if apart:
            from . import many_files

            pairs = many_files.plan(files, output, suffix, in_place)
        else:
            sources = open_sources(texts, files)
            out = stack.enter_context(Output(output))
        settings = {"shortlist": True} if shortlist else {}
        translator = load_translator(model, device, n_threads, engine, **settings)
        translator.translate([], source=source, target=target)  # an unknown language fails before anything is read
        if not apart and on_terminal and not quiet and any(s.name == "stdin" for s in sources):
            complain("reading lines from the terminal; Ctrl-D ends", kind="note")
        bar = None
        if not (quiet or no_progress or texts) and _shows_progress(apart or output is not None):
            from . import progress

            read = [path for path, _ in pairs] if apart else [s.stream.fileno() for s in sources]
            bar = stack.enter_context(progress.Progress(progress.size_of(read)))
        most = max(LOOK_AHEAD, rows)
        work = Work(translator, asked, form, report, encoding, most, bar, formats, fields, paragraph)
        if apart:
            failed = many_files.each(pairs, work.translate)
        else:
            work.translate(sources, out)
    report.end()
    return ExitStatus.FAILED if failed else ExitStatus.INCOMPLETE if strict and report.incomplete else ExitStatus.OK


def _is_folder(output: str) -> bool:
    """Whether translations are to be files in `output`: it is a folder, or says with a slash that it is to be one."""
    return os.path.isdir(output) or output.endswith(("/", os.sep))


def _shows_progress(into_file: bool) -> bool:
    """Whether someone sees the standard error, and no results between."""
    if sys.stderr is None or not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        return False
    reads_terminal = sys.stdin is not None and sys.stdin.isatty()
    return not reads_terminal and (into_file or sys.stdout is None or not sys.stdout.isatty())


@dataclass
class Work:
    """Sources to translations: what the translator is asked, what is written, who is told."""

    translator: Translator
    asked: dict[str, Any]  # what every call of Translator.translate is given
    form: Form
    report: Report
    encoding: str
    most: int  # lines in a batch
    bar: Progress | None
    format: Callable[[str], str] | None  # of a source, by its name; None: all are plain lines
    fields: Sequence[str]
    paragraph: bool  # whether wrapped lines are joined

    def translate(self, sources: Sequence[Source], out: Output) -> None:
        """Writes the translation of each source, in order."""
        for source in sources:
            kind = self.format(source.name) if self.format else "text"
            if kind == "text":
                self._lines(source, out)
            else:
                self._document(source, out, kind)

    def _lines(self, source: Source, out: Output) -> None:
        """For each line, or each paragraph, one line."""
        batches = source.batches(self.encoding, self.most)
        if self.paragraph:
            from .paragraphs import joined

            batches = joined(batches)
        between = "" if out.ended else "\n"  # the last line of a file may lack its end, and another file may follow
        for lines in batches:
            results = self._results(lines)
            written = "".join(self.form(line, result) for line, result in zip(lines, results, strict=True))
            out.write(between + written)
            between = ""
            gc.enable()  # all is loaded
            for line, result in zip(lines, results, strict=True):
                self.report.line(line.place, result, line.part)
            if self.bar:
                size = sum(len((line.text + line.end).encode(self.encoding, "replace")) for line in lines)
                self.bar.add(sum(line.part < 2 for line in lines), size)

    def _results(self, lines: Sequence[Line]) -> list[Translation | None]:
        """One result for each line, None for a blank one: a model asked about nothing would make something up."""
        texts = [line.text.strip() for line in lines]
        asked = [text for text in texts if text]
        more = is_full(lines, self.most)
        answers = iter(self.translator.translate(asked, more=more, **self.asked) if asked else ())
        return [next(answers) if text else None for text in texts]

    def _document(self, source: Source, out: Output, kind: str) -> None:
        from . import documents

        if not out.ended:
            out.write("\n")
        documents.run(
            [source],
            out,
            format=kind,
            fields=self.fields,
            target=self.asked["target"],
            encoding=self.encoding,
            translate=lambda texts, kept: self.translator.translate(texts, protected=kept, **self.asked),
            note=self.report.line,
            warn=self.report.broken,
            done=lambda units: self.bar.add(units, 0) if self.bar else None,
        )


def as_text(line: Line, translation: str | None) -> str:
    """The translation on one line, with the line's own spaces before and after it; None is that of a blank line."""
    if translation is None:
        return line.text
    core = line.text.strip()
    start = line.text.index(core)
    return line.text[:start] + translation.replace("\r\n", " ").replace("\n", " ") + line.text[start + len(core) :]


def as_text_line(line: Line, result: Translation | None) -> str:
    return as_text(line, result.text if result else None) + line.end
