"""`tx summarize`: long text in, short text out."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

from ..model.errors import UsageError
from .commands import refuse_empty, runtime_settings, whole_number
from .text_io import ExitStatus, Output, check_encoding, complain, open_sources, read_whole

SHORT_HELP = """\
usage: tx summarize [FILE|-]... [options]

  tx summarize article.txt
  git log -50 | tx summarize --sentences 3

tx summarize --help says more.
"""

WARNINGS = {
    "parts": "the text is longer than the model reads at once; it was read in {} parts",
    "cut": "a part of the summary reached the length limit",
    "looped": "the summary repeated itself; the repetition was removed",
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
        from ..model.summarizing import REWRITES, Summarizer

        summarizer = Summarizer(model, **settings)
        in_sentences = extract or not (rewrite or REWRITES)
        for source in sources:
            text = read_whole(source, encoding)
            summary = summarizer.summarize(text, words=most_words, sentences=most_sentences, extract=in_sentences)
            if as_json:
                record: dict[str, Any] = {
                    "name": source.name,
                    "summary": summary.text,
                    "spans": [list(span) for span in summary.spans],
                    "parts": summary.parts,
                    "flags": list(summary.flags),
                }
                out.write(json.dumps(record, ensure_ascii=False) + "\n")
            else:
                out.write(summary.text + "\n" if summary.text else "")
            for flag in summary.flags:
                if flag in WARNINGS and not quiet:
                    complain(f"{source.name}: {WARNINGS[flag].format(summary.parts)}", kind="note")
    return ExitStatus.OK
