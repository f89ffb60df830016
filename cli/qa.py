"""`tx qa`: questions and a text in, the places in the text that answer them out."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..model.errors import UsageError
from .commands import number, refuse_empty, runtime_settings, whole_number
from .text_io import ExitStatus, Output, check_encoding, complain, open_sources, read_whole

if TYPE_CHECKING:
    from ..model.results import Answer

SHORT_HELP = """\
usage: tx qa QUESTION [FILE|-] [options]

  tx qa "Who wrote it?" article.txt
  man tar | tx qa "What does --exclude do?"

tx qa --help says more.
"""


def qa(
    question: str | None,
    file: str | None,
    output: str | None,
    *,
    context: str | None,
    questions: Sequence[str],
    questions_file: str | None,
    top_k: str | None,
    threshold: str | None,
    model: str | None,
    as_json: bool,
    quiet: bool,
    encoding: str,
    engine: str,
    threads: str | None,
    device: str,
) -> ExitStatus:
    """Answers every question from one text; one line (or with --top-k several) for each, in order."""
    refuse_empty(**{"output": output, "model": model, "questions": questions_file})
    encoding = check_encoding(encoding)
    if question is not None and (questions or questions_file) and file is None:
        question, file = None, question  # with -q the first argument is the text's file
    if question is not None and (questions or questions_file):
        raise UsageError("give QUESTION, or -q QUESTION and --questions FILE, not both")
    asked = [question] if question is not None else [str(q) for q in questions]
    if context is not None and file is not None:
        raise UsageError("give FILE or -c TEXT, not both")
    from_stdin = context is None and file in (None, "-")
    if questions_file == "-" and from_stdin:
        raise UsageError("the standard input cannot be both the questions and the text: give FILE or -c TEXT")
    if questions_file:
        lines = read_whole(open_sources((), [questions_file])[0], encoding).split("\n")
        asked += [line.strip() for line in lines if line.strip()]
    if not asked or (from_stdin and sys.stdin is not None and sys.stdin.isatty()):
        print(SHORT_HELP, end="", file=sys.stderr)
        return ExitStatus.USAGE
    best = whole_number("--top-k", top_k, 1, 1000) or 1
    least = number("--threshold", threshold)
    settings = runtime_settings(device, whole_number("--threads", threads, 1, 1024), engine)
    with Output(output) as out:
        text = context if context is not None else read_whole(open_sources((), [file or "-"])[0], encoding)
        from ..model.answering import MAX_QUESTION_PIECES, THRESHOLD, Answerer

        answerer = Answerer(model, **settings)
        found = answerer.answer(text, asked, top_k=best, threshold=THRESHOLD if least is None else least)
        for one, answers in zip(asked, found, strict=True):
            if not quiet and answerer.cut(one):
                complain(
                    f"only the first {MAX_QUESTION_PIECES} pieces of the question were read: {one[:40]}…",
                    kind="warning",
                )
            if as_json:
                out.write("".join(_as_json(one, text, answer) for answer in answers))
            else:
                out.write(_as_text(text, answers, best > 1, output is None and _colour()))
            if not answers[0].text and not quiet:
                complain(f"no answer found in the text{'' if len(asked) == 1 else f' to: {one}'}", kind="note")
    return ExitStatus.OK


def _as_json(question: str, context: str, answer: Answer) -> str:
    record: dict[str, Any] = {
        "question": question,
        "answer": answer.text,
        "start": answer.start,
        "end": answer.end,
        "score": round(answer.score, 4) if math.isfinite(answer.score) else None,
        "sentence": context[slice(*answer.sentence)],
        "context": context,
    }
    return json.dumps(record, ensure_ascii=False) + "\n"


def _as_text(context: str, answers: Sequence[Answer], scores: bool, colour: bool) -> str:
    """A line for each answer: the score before it if there are several, on a terminal its sentence under it."""
    lines = []
    for answer in answers:
        text = _one_line(answer.text)
        lines.append(f"{answer.score:.2f}\t{text}" if scores else text)
        if colour and answer.text:
            first, last = answer.sentence
            before, after = context[first : answer.start], context[answer.end : last]
            lines.append(f"  {_printable(before)}\x1b[1;4m{_printable(answer.text)}\x1b[0m{_printable(after)}")
    return "".join(line + "\n" for line in lines)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _printable(text: str) -> str:
    """The text on one line of a terminal: white space as spaces, nothing that would control it."""
    return "".join(c if c.isprintable() else " " if c.isspace() else "" for c in text)


def _colour() -> bool:
    on_terminal = sys.stdout is not None and sys.stdout.isatty()
    return on_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
