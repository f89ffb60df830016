"""`tx show-attention`: a text in, the attention of the run that made its output out: a drawing, a picture, or numbers."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..model.config import POINTING_HEAD
from ..model.errors import InputError, UsageError
from .attention_export import Selection
from .commands import refuse_empty, runtime_settings, whole_number
from .text_io import ExitStatus, Output, check_encoding, complain, open_sources, read_whole

if TYPE_CHECKING:
    from ..model.results import AttentionMap
    from .heatmap import Style

TASKS = ("translate", "summarize", "qa")
KINDS = ("cross", "encoder", "decoder", "rollout")
SCALES = ("row", "global", "log")
WHEN = ("auto", "always", "never")
TEXT_FORMATS = ("text", "moses", "json", "csv", "svg", "html")
FORMATS = (*TEXT_FORMATS, "npz", "png")
NUMBERS = ("json", "csv")  # formats that have all layers and heads unless some are chosen
NARROWEST = 20
LIGHT = ("7", "9", "10", "11", "12", "13", "14", "15")  # colours of a background, as COLORFGBG numbers them
WARNINGS = {  # by the flags of an AttentionMap
    "cut": "the output reached the length limit: it has no end piece",
    "looped": "the output repeated itself; the map shows what was kept",
    "skimmed": "the text is longer than the model reads at once; the map is of the part that it read",
    "doubtful": "no answer reaches the threshold; this is the best that was found",
    "shortened": "the end of the question was not read",
    "copied": "the command gives the text as it is; this is what the model wrote",
    "extracted": "the command gives a sentence of the text instead; this is what the model wrote",
}

SHORT_HELP = """\
usage: tx show-attention TEXT [options]

  tx show-attention "I love NLP"
  tx show-attention "The cat sat on the mat." --kind encoder --head all

tx show-attention --help says more.
"""


def show_attention(
    texts: Sequence[str],
    files: Sequence[str],
    output: str | None,
    *,
    task: str,
    question: str | None,
    target: str | None,
    source_language: str | None,
    target_language: str | None,
    kind: str,
    layer: str | None,
    head: str | None,
    row: str | None,
    part: str | None,
    pieces: bool,
    no_special: bool,
    as_list: bool,
    top: str | None,
    scale: str | None,
    values: bool,
    ascii: bool,
    color: str,
    background: str | None,
    width: str | None,
    format: str | None,
    as_json: bool,
    model: str | None,
    beam: str | None,
    quiet: bool,
    encoding: str,
    engine: str,
    threads: str | None,
    device: str,
) -> ExitStatus:
    """Draws or exports the maps of one text."""
    refuse_empty(**{"input": files, "output": output, "model": model, "from": source_language, "to": target_language})
    for option, value, known in (
        ("--task", task, TASKS),
        ("--kind", kind, KINDS),
        ("--scale", scale or "row", SCALES),
        ("--color", color, WHEN),
        ("--background", background or "dark", ("dark", "light")),
    ):
        if value not in known:
            raise UsageError(f"{option} must be one of {', '.join(known)}, not {value!r}")
    if len(texts) + len(files) > 1:
        raise UsageError("one text at a time: put it in quotation marks")
    if (task == "qa") != (question is not None):
        raise UsageError("--task qa needs --question, and no other task takes one")
    if target is not None and task == "qa":
        raise UsageError("--target cannot be given with --task qa: the answer is a place in the text")
    wanted = _format(format, as_json, output)
    if wanted == "moses" and task != "translate":
        raise UsageError("--format moses is the alignment of a translation: leave out --task")
    chosen = Selection(
        kind=kind,
        layer=_layer(layer) or (None if wanted in NUMBERS else "last"),
        head=None if head == "all" else _head(head) or (None if wanted in NUMBERS else _telling_head(task, kind)),
        words=not pieces,
        special=not no_special,
        # what every position looks at alike, the end piece above all, would hide the rest of a rollout
        scale=scale or ("log" if kind == "rollout" else "row"),
        values=values,
    )
    number_of_part = whole_number("--part", part, 1, 10**6)
    beam_size = whole_number("--beam", beam, 1, 64)
    most = whole_number("--top", top, 1, 1000)
    columns = whole_number("--width", width, NARROWEST, 10_000)
    settings = runtime_settings(device, whole_number("--threads", threads, 1, 1024), engine)
    if not texts and not files and sys.stdin is not None and sys.stdin.isatty():
        print(SHORT_HELP, end="", file=sys.stderr)
        return ExitStatus.USAGE
    if wanted in ("npz", "png") and output in (None, "-") and sys.stdout is not None and sys.stdout.isatty():
        raise UsageError(f"{wanted} is nothing for a terminal: use -o FILE.{wanted}")
    text = read_whole(open_sources(texts, files)[0], check_encoding(encoding)).strip()
    if not text:
        raise InputError("there is no text to look at")
    with Output(output) as out:
        from ..model.attending import Attender

        attender = Attender(model, **settings)
        maps = attender.attend(
            text,
            task=task,
            target=target,
            question=question,
            source_language=source_language,
            target_language=target_language,
            beam_size=beam_size,
            part=number_of_part,
        )
        if wanted == "text":
            from . import attention_text

            style = _style(columns, ascii, color, background, chosen.scale, values, most, output is None)
            form = attention_text.Form(chosen, style, row, layer is not None, as_list)
            for number, map in enumerate(maps):
                links = attender.align(map) if kind == "cross" and task == "translate" else None
                out.write(("\n" if number else "") + attention_text.drawing(map, form, links))
        elif wanted == "moses":
            from ..model import alignment

            out.write("".join(alignment.moses(attender.align(map)) + "\n" for map in maps))
        else:
            from . import attention_export

            content, notes = attention_export.export(wanted, maps, chosen)
            out.write_bytes(content)
            for note in notes if not quiet else ():
                complain(note, kind="note")
        for map in maps if not quiet else ():
            _warn(map)
    return ExitStatus.OK


def _format(given: str | None, as_json: bool, output: str | None) -> str:
    """What is written: as --format or --json says, else by the ending of the output's name, else the drawing."""
    if as_json and given not in (None, "json"):
        raise UsageError(f"give --json or --format {given}, not both")
    ending = Path(output or "").suffix[1:].lower()
    found = given or ("json" if as_json else ending if ending in FORMATS else "text")
    if found not in FORMATS:
        raise UsageError(f"--format must be one of {', '.join(FORMATS)}, not {found!r}")
    return found


def _layer(value: str | None) -> int | str | None:
    if value in (None, "mean", "last"):
        return value
    return _counted("--layer", value, "mean or last")


def _head(value: str | None) -> int | str | None:
    if value in (None, "mean", "max", "all"):
        return value
    return _counted("--head", value, "mean, max or all")


def _telling_head(task: str, kind: str) -> int | str:
    """The head that is shown if none is chosen: of an answer the one that points at it, else the mean of all."""
    return POINTING_HEAD + 1 if task == "qa" and kind == "cross" else "mean"


def _counted(option: str, value: str | None, words: str) -> int:
    if value is not None and value.isascii() and value.isdigit() and 0 < int(value[:6]) < 1000:
        return int(value)
    raise UsageError(f"{option} needs a number from 1 on, {words}, not {value!r}")


def _style(
    width: int | None,
    ascii: bool,
    color: str,
    background: str | None,
    scale: str,
    values: bool,
    top: int | None,
    to_stdout: bool,
) -> Style:
    from .heatmap import Style

    terminal = to_stdout and sys.stdout is not None and sys.stdout.isatty()
    plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
    # What terminals that set it say of their background: the last number is its colour, of which 7 and 9 to 15 are light.
    light = background == "light" or (not background and os.environ.get("COLORFGBG", "").split(";")[-1] in LIGHT)
    return Style(
        width=width or max(NARROWEST, shutil.get_terminal_size().columns),
        colour=color == "always" or (color == "auto" and terminal and not plain),
        dark=not light,
        ascii=ascii,
        scale=scale,
        values=values,
        top=top,
    )


def _warn(map: AttentionMap) -> None:
    for flag in map.flags:
        if flag in WARNINGS:
            complain(WARNINGS[flag], kind="warning")
