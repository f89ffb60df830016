"""The commands behind the names: check the options, read, ask the pipeline, write. Heavy imports arrive here."""

from __future__ import annotations

import gc
import io
import json
import math
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..model.errors import InputError, UsageError
from .text_io import (
    DEVICES,
    ENGINES,
    ExitStatus,
    Line,
    Output,
    Source,
    check_encoding,
    complain,
    open_sources,
    read_whole,
)

if TYPE_CHECKING:
    from ..model.pipeline import Translator
    from ..model.results import Translation

LOOK_AHEAD = 256  # most lines that are translated together when they are there already; where so many are, more follow
BATCH_SIZE = 32

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
}
LOSSES = {"cut", "looped"}  # flags that mean that something may be missing: exit status 3 under --strict


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


def number(option: str, value: str | None) -> float | None:
    """The value of an option that takes any number, None where it was not given. Raises UsageError for anything else."""
    if value is None:
        return None
    try:
        found = float(value)
    except ValueError:
        found = math.nan
    if math.isnan(found):
        raise UsageError(f"{option} needs a number, not {value!r}")
    return found


def argument_text(text: str, name: str, encoding: str) -> str:
    """An argument as the locale decoded it; where it could not, its bytes in `encoding`. Raises InputError that names it."""
    try:
        text.encode()
        return text
    except UnicodeEncodeError as error:
        place = error.start + 1
    try:
        raw = os.fsencode(text)
    except UnicodeEncodeError:  # no shell passed this
        raise InputError(f"{name} has a lone surrogate at character {place}: not Unicode") from None
    return read_whole(Source(name, io.BytesIO(raw)), encoding)


def open_text(path: str, option: str) -> Source:
    """The file of that name, or for "-" the standard input. Raises InputError; where there is no such file, it names the
    option that takes a text instead."""
    if path != "-" and not os.path.exists(path):
        raise InputError(f"no such file: {path} (a text itself is given with {option} TEXT)")
    return open_sources((), [path])[0]


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


def load_translator(model: str | None, device: str, threads: int | None, engine: str) -> Translator:
    """Imports the pipeline and finds the model."""
    settings = runtime_settings(device, threads, engine)
    from ..model.pipeline import Translator

    return Translator(model, **settings)


def translate(
    texts: Sequence[str],
    files: Sequence[str],
    output: str | None,
    *,
    source: str | None,
    target: str | None,
    model: str | None,
    beam: str | None,
    batch_size: str | None,
    as_json: bool,
    strict: bool,
    quiet: bool,
    encoding: str,
    threads: str | None,
    device: str,
    engine: str,
) -> ExitStatus:
    """`tx translate`: one line out for one line in. Numbers come as the user wrote them and are checked here."""
    if texts and files:
        raise UsageError("give TEXT or -i FILE, not both")
    refuse_empty(**{"input": files, "output": output, "from": source, "to": target, "model": model})
    on_terminal = sys.stdin is not None and sys.stdin.isatty()
    if not texts and not files and on_terminal:
        print(SHORT_HELP, end="", file=sys.stderr)
        return ExitStatus.USAGE
    beam_size = whole_number("--beam", beam, 1, 64)
    rows = whole_number("--batch-size", batch_size, 1, 4096) or BATCH_SIZE
    n_threads = whole_number("--threads", threads, 1, 1024)
    encoding = check_encoding(encoding)
    sources = open_sources(texts, files)
    incomplete = False
    with Output(output) as out:
        translator = load_translator(model, device, n_threads, engine)
        translator.translate([], source=source, target=target)  # an unknown language fails before anything is read
        if on_terminal and not quiet and any(s.name == "stdin" for s in sources):
            complain("reading lines from the terminal; Ctrl-D ends", kind="note")
        ended = True  # whether the last line written has its end; a file may lack it, and another may follow
        for origin in sources:
            most = max(LOOK_AHEAD, rows)
            for lines in origin.batches(encoding, most):
                results = _translate_lines(translator, lines, source, target, beam_size, rows, len(lines) == most)
                written = "" if ended else "\n"
                for line, result in zip(lines, results, strict=True):
                    written += _as_json(line, result, source, target) if as_json else _as_text(line, result) + line.end
                out.write(written)
                gc.enable()  # all is loaded
                ended = as_json or bool(lines[-1].end)
                for line, result in zip(lines, results, strict=True):
                    flags = result.flags if result else ()
                    incomplete = incomplete or not LOSSES.isdisjoint(flags)
                    for flag in flags:
                        if flag in WARNINGS and not quiet:
                            complain(f"{line.place}: {WARNINGS[flag]}", kind="warning")
    return ExitStatus.INCOMPLETE if strict and incomplete else ExitStatus.OK


def _translate_lines(
    translator: Translator,
    lines: Sequence[Line],
    source: str | None,
    target: str | None,
    beam_size: int | None,
    batch_size: int,
    more: bool,
) -> list[Translation | None]:
    """One result for each line, None for a blank one: a model asked about nothing would make something up."""
    asked = [i for i, line in enumerate(lines) if line.text.strip()]
    results: list[Translation | None] = [None] * len(lines)
    if asked:
        texts = [lines[i].text.strip() for i in asked]
        answers = translator.translate(
            texts, source=source, target=target, beam_size=beam_size, batch_size=batch_size, more=more
        )
        for i, answer in zip(asked, answers, strict=True):
            results[i] = answer
    return results


def _as_text(line: Line, result: Translation | None) -> str:
    """The translation on one line, with the line's own spaces before and after it."""
    if result is None:
        return line.text
    core = line.text.strip()
    start = line.text.index(core)
    translation = result.text.replace("\r\n", " ").replace("\n", " ")
    return line.text[:start] + translation + line.text[start + len(core) :]


def _as_json(line: Line, result: Translation | None, source: str | None, target: str | None) -> str:
    """One JSON object and a line end. A score that is no number of JSON's (an infinity) becomes null."""
    record: dict[str, Any] = {
        "source": line.text,
        "translation": _as_text(line, result),
        "from": result.source_language if result else source,
        "to": result.target_language if result else target,
        "score": result.score if result else 0.0,
        "flags": list(result.flags) if result else ["copied"],
    }
    record["score"] = round(record["score"], 4) if math.isfinite(record["score"]) else None
    return json.dumps(record, ensure_ascii=False) + "\n"
