"""`tx summarize`: long text in, short text out."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ..model.errors import InputError, UsageError
from .commands import refuse_empty, runtime_settings, say_notes, whole_number
from .inputs import argument_text, open_text
from .text_io import ExitStatus, Output, check_encoding, complain, one_line, read_whole

if TYPE_CHECKING:
    from ..model.results import Summary

SHORT_HELP = """\
usage: tx summarize [FILE|-]... [options]

  tx summarize article.txt
  git log -50 | tx summarize --sentences 3

tx summarize --help says more.
"""

WARNINGS = {
    "parts": "the text is longer than the model reads at once; it was read in {parts} parts",
    "skimmed": "the text is longer than the model reads at once; of its {parts} parts it read {read}",
    "split": "a sentence is longer than the model reads at once; it was split, and its parts taken as sentences",
    "cut": "a part of the summary reached the length limit",
    "looped": "the summary repeated itself; the repetition was removed",
    "longer": "the summary has more than {words} words: no sentence is cut, and none was shorter",
    "extracted": "the model's own words were not fit to be shown; this is a sentence of the text",
}
LOSSES = {"cut", "looped", "skimmed"}  # flags that mean that something may be missing: exit status 3 under --strict
HTML = "this is a web page; its text was read, without the tags"
NOTHING = "there is no text to sum up"

Input = tuple[str, Callable[[], str]]  # its name, and what reads it


def kind_of_summary(words: str | None, sentences: str | None, extract: bool, rewrite: bool) -> dict[str, Any]:
    """The settings of Summarizer.summarize that these options ask for. Raises UsageError."""
    if extract and rewrite:
        raise UsageError("give --extract or --rewrite, not both")
    return {
        "words": whole_number("--words", words, 1, 10**6),
        "sentences": whole_number("--sentences", sentences, 1, 10**6),
        "extract": True if extract else False if rewrite else None,
    }


def summarize(
    files: Sequence[str],
    output: str | None,
    *,
    texts: Sequence[str],
    words: str | None,
    sentences: str | None,
    extract: bool,
    rewrite: bool,
    model: str | None,
    as_json: bool,
    strict: bool,
    quiet: bool,
    encoding: str,
    engine: str,
    threads: str | None,
    device: str,
) -> ExitStatus:
    """One summary for each file or text, in order. What cannot be read is said and left out; but a file of results would
    lack it without a sign, so with `output` it ends the command, and the file is not written."""
    refuse_empty(**{"output": output, "model": model})
    asked = kind_of_summary(words, sentences, extract, rewrite)
    if files and texts:
        raise UsageError("give FILE or -t TEXT, not both")
    encoding = check_encoding(encoding)
    settings = runtime_settings(device, whole_number("--threads", threads, 1, 1024), engine)
    inputs = _inputs(files, texts, encoding)
    if not texts and "-" in (files or ["-"]) and sys.stdin is not None and sys.stdin.isatty():
        print(SHORT_HELP, end="", file=sys.stderr)
        return ExitStatus.USAGE
    failed = incomplete = written = False
    with Output(output) as out:
        from ..model.summarizing import MAX_PARTS, Summarizer

        summarizer = Summarizer(model, **settings)
        for name, read in inputs:
            try:
                text = read()
            except InputError as error:
                if len(inputs) == 1 or output not in (None, "-"):
                    raise
                complain(str(error))
                failed = True
                continue
            page = _page(text)
            summary = summarizer.summarize(text if page is None else page, **asked)
            if as_json:
                out.write(_as_json(name, summary, page is not None))
            else:
                if len(files) > 1:  # as head and tail do
                    out.write(f"{chr(10) if written else ''}==> {one_line(name)} <==\n")
                out.write(summary.text + "\n" if summary.text else "")
            written = True
            incomplete = incomplete or not LOSSES.isdisjoint(summary.flags)
            if not quiet:
                for note in _notes(summary, page is not None, MAX_PARTS, words):
                    complain(f"{name}: {note}", kind="note")
        say_notes(summarizer.runtime, quiet)
    return ExitStatus.FAILED if failed else ExitStatus.INCOMPLETE if strict and incomplete else ExitStatus.OK


def _inputs(files: Sequence[str], texts: Sequence[str], encoding: str) -> list[Input]:
    inputs: list[Input] = []
    for number, argument in enumerate(texts or files or ["-"], 1):
        if argument == "-" and not texts:
            inputs.append(("stdin", partial(_read_file, argument, encoding)))
        elif texts or _is_text(argument):
            name = f"argument {number}"
            inputs.append((name, partial(argument_text, argument, name, encoding)))
        else:
            inputs.append((argument, partial(_read_file, argument, encoding)))
    return inputs


def _read_file(path: str, encoding: str) -> str:
    return read_whole(open_text(path, "-t"), encoding)


def _is_text(argument: str) -> bool:
    """Whether an argument is a text: there is no file of that name, and it has several lines, or ends as a sentence does,
    or has several words and neither an ending (".txt") nor a slash, or it is empty. One word with a slash in it is none."""
    if os.path.exists(argument):
        return False
    if "\n" in argument.strip():
        return True
    from ..model import prose

    words = argument.split()
    last = words[-1] if words else ""
    if prose.is_marked(last):
        return len(words) > 1 or "/" not in last
    return len(words) != 1 and "." not in last and not any(mark in argument for mark in "/\\")


def _page(text: str) -> str | None:
    """The text of a web page; None if this is none."""
    if not text[:200].lstrip().startswith("<"):
        return None
    from . import web_page

    return web_page.text_of(text) if web_page.is_html(text) else None


def _notes(summary: Summary, html: bool, most: int, words: str | None) -> list[str]:
    flags = set(summary.flags) - ({"parts"} if "skimmed" in summary.flags else set())
    by_parts = summary.spans and "extracted" not in flags
    read = f"the {most} with most in common" if by_parts else "what has most in common with all"
    notes = [
        note.format(parts=summary.parts, read=read, words=words) for flag, note in WARNINGS.items() if flag in flags
    ]
    return ([HTML] if html else []) + notes + ([] if summary.text else [NOTHING])


def _as_json(name: str, summary: Summary, page: bool) -> str:
    record: dict[str, Any] = {
        "name": name,
        "summary": summary.text,
        "spans": [] if page else [list(span) for span in summary.spans],
        "parts": summary.parts,
        "flags": [*summary.flags, *(["html"] if page else [])],
    }
    return json.dumps(record, ensure_ascii=False) + "\n"
