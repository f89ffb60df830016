"""`tx qa`: questions and a text in, the places in the text that answer them out."""

from __future__ import annotations

import json
import math
import os
import re
import sys
import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..model.errors import InputError, UsageError
from .commands import refuse_empty, runtime_settings, say_notes, whole_number
from .inputs import argument_text, number, open_text
from .text_io import ExitStatus, Output, check_encoding, complain, open_sources, read_whole

if TYPE_CHECKING:
    from ..model.answering import Found
    from ..model.results import Answer

SHOWN = 3 * 80 - 4  # columns of a terminal that an answer's sentence may take, its indentation and two "…" left out
FAR = (
    4 * SHOWN
)  # characters from the answer: more than that many columns hold, marks and spaces that take none included

NOTHING = "(no answer)"

HTML = "this is a web page; its text was read, without the tags, and places are counted in that"

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
    strict: bool,
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
    given = [question] if question is not None else list(questions)
    asked = [argument_text(one, f"question {n}", encoding) for n, one in enumerate(given, 1)]
    if context is not None and file is not None:
        raise UsageError("give FILE or -c TEXT, not both")
    if file == "":
        raise UsageError("FILE is empty: name a file or leave it out")
    from_stdin = context is None and file in (None, "-")
    if questions_file == "-" and from_stdin:
        raise UsageError("the standard input cannot be both the questions and the text: give FILE or -c TEXT")
    if not (asked or questions_file) or (from_stdin and sys.stdin is not None and sys.stdin.isatty()):
        print(SHORT_HELP, end="", file=sys.stderr)
        return ExitStatus.USAGE
    if questions_file:
        lines = read_whole(open_sources((), [questions_file])[0], encoding).split("\n")
        asked += [line.strip() for line in lines if line.strip()]
        if not asked:
            raise InputError(f"there is no question in {questions_file}")
    best = whole_number("--top-k", top_k, 1, 1000) or 1
    least = number("--threshold", threshold)
    settings = runtime_settings(device, whole_number("--threads", threads, 1, 1024), engine)
    with Output(output) as out:
        if context is None:
            text = read_whole(open_text(file or "-", "-c"), encoding)
        else:
            text = argument_text(context, "the text of -c", encoding)
        if text[:200].lstrip().startswith("<"):
            from . import web_page

            if web_page.is_html(text):
                text = web_page.text_of(text)
                if not quiet:
                    complain(HTML, kind="note")
        from ..model.answering import MAX_QUESTION_PIECES, Answerer

        answerer = Answerer(model, **settings)
        results = answerer.search(text, asked, top_k=best, threshold=least)
        terminal = output is None and _on_terminal()
        cut = [answerer.cut(one) for one in asked] if not quiet or strict else []
        for n, (one, found) in enumerate(zip(asked, results, strict=True)):
            if as_json:
                out.write("".join(_as_json(one, text, answer, found) for answer in found.answers))
            elif terminal:
                out.write(_for_terminal(text, found.answers, best > 1))
            else:
                out.write("".join(_line(answer, " ".join(answer.text.split()), best > 1) for answer in found.answers))
            if quiet:
                continue
            if cut[n]:
                said = f"only the first {MAX_QUESTION_PIECES} pieces of the question were read: {one[:40]}…"
                complain(said, kind="warning")
            if not found.answers[0].text:
                complain(_why_none(text, one, n + 1 if len(asked) > 1 else None), kind="note")
        say_notes(answerer.runtime, quiet)
        partly = [found for found in results if 0 < found.read < found.windows]
        if partly and not quiet:
            read, windows = partly[0].read, partly[0].windows
            complain(
                f"of {windows} parts of the text the {read} that share most words with the question were read",
                kind="note",
            )
    return ExitStatus.INCOMPLETE if strict and (partly or any(cut)) else ExitStatus.OK


def _why_none(text: str, question: str, number: int | None) -> str:
    """Why there is no answer, in words; `number` is that of the question among several."""
    which = "the question" if number is None else f"question {number}"
    for name, words in (("the text", text), (which, question)):
        if not words.strip():
            return f"{name} is empty, so there is no answer"
        if not any(map(str.isalnum, words)):
            return f"{name} has no letters or digits, so there is no answer"
    return f"no answer found in the text{'' if number is None else f' to: {question}'}"


def _as_json(question: str, context: str, answer: Answer, found: Found) -> str:
    record: dict[str, Any] = {
        "question": question,
        "answer": answer.text,
        "start": answer.start,
        "end": answer.end,
        "score": round(answer.score, 4) if math.isfinite(answer.score) else None,
        "sentence": context[slice(*answer.sentence)],
        "sentence_start": answer.sentence[0],
        "windows_read": found.read,
        "windows": found.windows,
    }
    return json.dumps(record, ensure_ascii=False) + "\n"


def _line(answer: Answer, text: str, scores: bool) -> str:
    """An answer on its line; among several with its score, and where "no answer" stands among them, in these words."""
    return f"{answer.score:.2f}\t{text or NOTHING}\n" if scores else text + "\n"


def _for_terminal(context: str, answers: Sequence[Answer], scores: bool) -> str:
    """A line for each answer, and under it its sentence with the answer in it; of a long one what is around the answer."""
    emphasis, normal = ("\x1b[1;4m", "\x1b[0m") if _colour() else ("", "")
    lines = []
    for answer in answers:
        text = _printable(answer.text)
        lines.append(_line(answer, text, scores))
        if answer.text:
            first, last = answer.sentence
            room = max(SHOWN - _columns(text), 40)
            before = _printable(context[max(first, answer.start - FAR) : answer.start])
            after = _printable(context[answer.end : min(last, answer.end + FAR)])
            left = max(room // 2, room - _columns(after))
            shown_before = _end_of(before, left)
            shown_after = _end_of(after[::-1], room - _columns(shown_before))[::-1]
            start = "…" if len(shown_before) < len(before) or answer.start - first > FAR else ""
            end = "…" if len(shown_after) < len(after) or last - answer.end > FAR else ""
            lines.append(f"  {start}{shown_before}{emphasis}{text}{normal}{shown_after}{end}\n")
    return "".join(lines)


def _end_of(text: str, columns: int) -> str:
    """As much of the end of the text as takes no more columns of a terminal."""
    start = len(text)
    while start and (columns := columns - _columns(text[start - 1])) >= 0:
        start -= 1
    return text[start:]


def _columns(text: str) -> int:
    """How many columns of a terminal the text takes; Han and emoji take two."""
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else unicodedata.combining(c) == 0 for c in text)


def _printable(text: str) -> str:
    """The text on one line of a terminal: each white space as one space, nothing that would control it."""
    return re.sub(" +", " ", "".join(c if c.isprintable() else " " if c.isspace() else "" for c in text))


def _on_terminal() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()


def _colour() -> bool:
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
