"""`tx summarize`: long text in, short text out."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..model.errors import UsageError
from .commands import refuse_empty, runtime_settings, whole_number
from .text_io import ExitStatus, Output, check_encoding, complain, one_line, open_sources, read_whole

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
    "cut": "a part of the summary reached the length limit",
    "looped": "the summary repeated itself; the repetition was removed",
}
HTML = "this is a web page; its text was read, without the tags"
NOTHING = "there is no text to sum up"


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
    quiet: bool,
    encoding: str,
    engine: str,
    threads: str | None,
    device: str,
) -> ExitStatus:
    """One summary for each file or text, in order."""
    refuse_empty(**{"output": output, "model": model})
    if extract and rewrite:
        raise UsageError("give --extract or --rewrite, not both")
    if files and texts:
        raise UsageError("give FILE or -t TEXT, not both")
    encoding = check_encoding(encoding)
    most_words = whole_number("--words", words, 1, 10**6)
    most_sentences = whole_number("--sentences", sentences, 1, 10**6)
    settings = runtime_settings(device, whole_number("--threads", threads, 1, 1024), engine)
    names = list(files) or ["-"]
    if not texts and "-" in names and sys.stdin is not None and sys.stdin.isatty():
        print(SHORT_HELP, end="", file=sys.stderr)
        return ExitStatus.USAGE
    sources = open_sources(texts, ()) if texts else open_sources((), names)
    with Output(output) as out:
        from ..model.summarizing import MAX_PARTS, Summarizer

        summarizer = Summarizer(model, **settings)
        way = True if extract else False if rewrite else None
        for number, source in enumerate(sources):
            text = read_whole(source, encoding)
            page = _page(text)
            summary = summarizer.summarize(
                text if page is None else page, words=most_words, sentences=most_sentences, extract=way
            )
            if as_json:
                out.write(_as_json(source.name, summary, page is not None))
            else:
                if len(files) > 1:  # as head and tail do
                    out.write(f"{chr(10) if number else ''}==> {one_line(source.name)} <==\n")
                out.write(summary.text + "\n" if summary.text else "")
            if not quiet:
                for note in _notes(summary, page is not None, MAX_PARTS):
                    complain(f"{source.name}: {note}", kind="note")
    return ExitStatus.OK


def _page(text: str) -> str | None:
    """The text of a web page; None if this is none."""
    if not text[:200].lstrip().startswith("<"):
        return None
    from . import web_page

    return web_page.text_of(text) if web_page.is_html(text) else None


def _notes(summary: Summary, html: bool, most: int) -> list[str]:
    flags = set(summary.flags) - ({"parts"} if "skimmed" in summary.flags else set())
    read = f"the {most} with most in common" if summary.spans else "what has most in common with all"
    notes = [note.format(parts=summary.parts, read=read) for flag, note in WARNINGS.items() if flag in flags]
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
