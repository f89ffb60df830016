"""The commands behind the names: check the options, read, ask the pipeline, write. Heavy imports arrive here."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..model.errors import UsageError
from .lines import Report, Task, Work, as_text_line
from .text_io import (
    DEVICES,
    ENGINES,
    PRECISIONS,
    ExitStatus,
    Output,
    check_encoding,
    complain,
    descriptor_of,
    open_sources,
)

if TYPE_CHECKING:
    from ..model.pipeline import Translator
    from ..model.results import Translation
    from ..model.runtime import Runtime
    from .lines import Form
    from .resume import Resumable

# Most lines that are read ahead when they are there already; where so many are, more follow.
LOOK_AHEAD = 256
TORCH_LOOK_AHEAD = 1024  # of like length many can be found among these
PLAIN = ("", ".txt")  # endings of files that are plain lines; what others are, model/formats knows
# What `resume` compares: what the translator is asked under the names of the options, but for what changes no text.
NAMES = {
    **{"source": "from", "target": "to", "beam_size": "beam", "n_best": "n-best"},
    **{"batch_size": "batch-size", "max_memory": "max-memory"},
}
NOT_OF_TEXT = {"batch_size", "max_memory"}  # but with a shortlist, and in bf16 and int8
UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}

SHORT_HELP = """\
usage: tx translate [TEXT]... [-i FILE]... [-o FILE] [options]

  tx translate "I love NLP"
  cat notes.txt | tx translate --to zh > notes.zh.txt

tx translate --help says more.
"""


def whole_number(option: str, value: str | None, low: int, high: int) -> int | None:
    """The value of a numeric option, None where it was not given. Raises UsageError outside low … high."""
    if value is None:
        return None
    if value.isascii() and value.isdigit() and low <= int(value[:10]) <= high and len(value) <= 10:
        return int(value)
    raise UsageError(f"{option} needs a whole number from {low} to {high}, not {value!r}")


def size(option: str, value: str | None) -> int | None:
    """The bytes that an option says: a number, and K, M or G for powers of 1024. Raises UsageError for anything else."""
    if value is None:
        return None
    text = value.upper().removesuffix("B")
    if text.endswith(("KI", "MI", "GI", "TI")):
        text = text[:-1]
    unit = text[-1:] if text[-1:] in UNITS else ""
    digits = text.removesuffix(unit)
    if digits.replace(".", "", 1).isdecimal() and digits.isascii() and len(digits) < 10:
        found = int(float(digits) * UNITS[unit])
        if found:
            return found
    raise UsageError(f"{option} needs a size such as 500M or 2G, not {value!r}")


def number_of(jobs: str | None) -> int:
    """How many processes `--jobs` asks for; 1 where it is not given. Raises UsageError."""
    count = 0 if jobs == "auto" else whole_number("--jobs", jobs, 0, 256)
    if count is None or count == 1:
        return 1
    if not hasattr(os, "fork"):
        raise UsageError("--jobs needs a system that can fork, such as Linux or macOS: leave it out here")
    from ..model.threads import cores

    return count or cores()


def say_notes(runtime: Runtime, quiet: bool) -> None:
    """Says what the files of a foreign model ask for and tx does not do, if they were read."""
    checkpoint = vars(runtime).get("checkpoint")
    for note in checkpoint.notes if checkpoint and not quiet else ():
        complain(note, kind="note")


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


def checked_precision(precision: str, engine: str) -> str:
    """The value of `--precision`. Raises UsageError."""
    if precision not in PRECISIONS:
        raise UsageError(f"--precision must be one of {', '.join(PRECISIONS)}, not {precision!r}")
    if precision in ("bf16", "int8") and engine == "numpy":
        raise UsageError(f"--engine numpy computes in fp32: leave it out for --precision {precision}")
    return precision


def load_translator(model: str | None, device: str, threads: int | None, engine: str, **more: Any) -> Translator:
    """Imports the pipeline and finds the model; `more` are further settings of a Runtime."""
    settings = runtime_settings(device, threads, engine)
    from ..model.pipeline import Translator

    return Translator(model, **settings, **more)


def translate(
    texts: Sequence[str],
    files: Sequence[str],
    output: str | None,
    *,
    resume: str | None,
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
    max_memory: str | None,
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
    jobs: str | None,
    device: str,
    engine: str,
    precision: str,
) -> ExitStatus:
    """`tx translate`: one line out for one line in. Numbers come as the user wrote them and are checked here."""
    if texts and files:
        raise UsageError("give TEXT or -i FILE, not both")
    refuse_empty(**{"input": files, "output": output, "suffix": suffix, "format": format, "field": fields})
    refuse_empty(**{"from": source, "to": target, "model": model, "glossary": glossary, "resume": resume})
    on_terminal = sys.stdin is not None and sys.stdin.isatty()
    apart = in_place or suffix is not None or (bool(files) and output is not None and _is_folder(output))
    if not texts and not files and on_terminal and not apart:
        print(SHORT_HELP, end="", file=sys.stderr)
        return ExitStatus.USAGE
    beam_size = whole_number("--beam", beam, 1, 64)
    rows = whole_number("--batch-size", batch_size, 1, 4096)
    cap = size("--max-memory", max_memory)
    n_threads = whole_number("--threads", threads, 1, 1024)
    processes = number_of(jobs)
    several = whole_number("--n-best", n_best, 1, 64)
    encoding = check_encoding(encoding)
    if in_place and (as_json or with_score or several or align):
        raise UsageError("--in-place keeps the text of each file: leave out --json, --score, --n-best and --align")
    if resume is not None and (output is not None or apart or resume == "-" or _is_folder(resume)):
        raise UsageError(
            "--resume FILE says where results go: leave out -o, --suffix and --in-place, and name one file"
        )
    if resume is not None and (descriptor_of(resume) is not None or _is_device(resume)):
        raise UsageError(f"--resume needs a file that can be opened again, and {resume} is none: use -o {resume}")
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

        by_line["--resume"] = resume is not None  # a document is written when all of it is translated
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
            out = stack.enter_context(Output(output)) if resume is None else None
        settings: dict[str, Any] = ({"shortlist": True} if shortlist else {}) | ({"max_memory": cap} if cap else {})
        if precision != "fp32":
            settings["precision"] = checked_precision(precision, engine)
        translator = load_translator(model, device, n_threads, engine, **settings)
        translator.translate([], source=source, target=target)  # an unknown language fails before anything is read
        reads_terminal = on_terminal and not apart and any(s.name == "stdin" for s in sources)
        if reads_terminal and not quiet:
            complain("reading lines from the terminal; Ctrl-D ends", kind="note")

        shared = processes > 1 and not (texts and "-" not in texts)
        if shared:
            translator.runtime.prepare(processes)
        resumed: Resumable | None = None
        if resume is not None:
            from .resume import Resumable, digest_of

            said = {**asked, **settings, "format": format, "encoding": encoding, "engine": engine, "device": device}
            if precision == "auto":
                said["precision"] = translator.runtime.precision_used()
            exact = not shortlist and said.get("precision", "fp32") == "fp32"
            of_text = {
                f"--{NAMES.get(name, name)}": value
                for name, value in said.items()
                if name != "glossary" and not (exact and name in NOT_OF_TEXT)
            }
            of_text |= by_line | {
                "model": digest_of(translator.path),
                "glossary": glossary and digest_of(Path(glossary)),
            }
            resumed = Resumable(resume, of_text)
            stack.enter_context(resumed)
            report.resume(resumed.report)

        def ask(task: Task) -> list[Translation]:
            return translator.translate(task[0], **task[1], **asked) if task[0] else []

        workers = None
        if shared:
            from .jobs import Workers

            workers = stack.enter_context(Workers(ask, processes, translator.runtime.begin))
        bar = None
        among_results = not apart and out is not None and out.is_terminal()
        if not (quiet or no_progress or texts or reads_terminal or among_results) and _shows_progress():
            from . import progress

            read = [path for path, _ in pairs] if apart else [s.stream.fileno() for s in sources]
            bar = stack.enter_context(progress.Progress(progress.size_of(read)))
        most = max(TORCH_LOOK_AHEAD if translator.engine == "torch" else LOOK_AHEAD, rows or 1)
        terms = asked.get("glossary")
        work = Work(ask, workers, form, report, encoding, most, bar, formats, fields, target, paragraph, resumed, terms)
        if apart:
            failed = many_files.each(pairs, work.translate)
        elif goes_to := resumed or out:
            work.translate(sources, goes_to)
    report.end()
    say_notes(translator.runtime, quiet)
    return ExitStatus.FAILED if failed else ExitStatus.INCOMPLETE if strict and report.incomplete else ExitStatus.OK


def _is_folder(output: str) -> bool:
    """Whether translations are to be files in `output`: it is a folder, or says with a slash that it is to be one."""
    return os.path.isdir(output) or output.endswith(("/", os.sep))


def _is_device(path: str) -> bool:
    return os.path.exists(path) and not os.path.isfile(path)


def _shows_progress() -> bool:
    """Whether someone sees the standard error, on a terminal that can move its cursor."""
    return sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
