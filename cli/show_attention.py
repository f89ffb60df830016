"""`tx show-attention`: a text in, the attention of the run that made its output out: a drawing, a picture, or numbers."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..model.config import POINTING_HEAD
from ..model.errors import InputError, UsageError
from .attention_export import Selection
from .commands import refuse_empty, runtime_settings, say_notes, whole_number
from .text_io import ExitStatus, Output, check_encoding, complain, open_sources, read_whole

if TYPE_CHECKING:
    from ..model.attending import Attender
    from .heatmap import Style

TASKS = ("translate", "summarize", "qa")
KINDS = ("cross", "encoder", "decoder", "rollout")
SCALES = ("row", "global", "log")
WHEN = ("auto", "always", "never")
TEXT_FORMATS = ("text", "moses", "json", "csv", "svg", "html")
FORMATS = (*TEXT_FORMATS, "npz", "png")
TEXT_ENDINGS = ("", "txt", "md", "log", "out")
PICTURES = ("svg", "png")
USED_BY = {  # options that not all formats have a use for
    **dict.fromkeys(("--kind", "--layer", "--head"), ("text", "json", "csv", "html", *PICTURES)),
    **dict.fromkeys(("--pieces", "--no-special"), ("text", "json", "csv", "html", *PICTURES)),
    **dict.fromkeys(("--row", "--list", "--top", "--ascii", "--color", "--background", "--width"), ("text",)),
    "--scale": ("text", "html", *PICTURES),
    "--values": ("text", *PICTURES),
    "--part": ("text", "json", "csv", "npz", "html", *PICTURES),
}
MANY = 100  # maps; more of them make a picture or a page that nothing can open
NUMBERS = ("json", "csv")  # formats that have all layers and heads unless some are chosen
NARROWEST = 20
LIGHT = ("7", "9", "10", "11", "12", "13", "14", "15")  # colours of a background, as COLORFGBG numbers them
WARNINGS = {  # by the flags of an AttentionMap
    "split": "a sentence is longer than the model takes at once; it was translated in parts",
    "kept": "what stands beside the sentences (emoji, lines without letters) was copied; it is in no map",
    "cut": "the output reached the length limit: it has no end piece",
    "looped": "the output repeated itself; the map shows what was kept",
    "skimmed": "the text is longer than the model reads at once; the map is of the part that it read",
    "doubtful": "no answer reaches the threshold; this is the best that was found",
    "shortened": "the end of the question was not read",
    "copied": "tx translate and tx summarize give such a text as it is; this is what the model itself wrote",
    "extracted": "tx summarize gives a sentence of this text; this is what the model itself wrote",
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
    kind: str | None,
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
    color: str | None,
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
        ("--kind", kind or "cross", (*KINDS, "all")),
        ("--scale", scale or "row", SCALES),
        ("--color", color or "auto", WHEN),
        ("--background", background or "dark", ("dark", "light")),
    ):
        if value not in known:
            raise UsageError(f"{option} must be one of {', '.join(known)}, not {value!r}")
    if len(texts) + len(files) > 1:
        raise UsageError("one text at a time: put it in quotation marks")
    if (task == "qa") != (question is not None):
        raise UsageError("--task qa needs --question, and no other task takes one")
    wanted = _format(format, as_json, output)
    of_translation = {"--from": source_language, "--to": target_language, "--part": part}
    not_of_qa = {"--target": target, "--beam": beam} if task == "qa" else {}
    for option, given in ({**of_translation, **not_of_qa} if task != "translate" else not_of_qa).items():
        if given is not None:
            raise UsageError(f"{option} means nothing to --task {task}: leave it out")
    if wanted == "moses" and task != "translate":
        raise UsageError("--format moses is the alignment of a translation: leave out --task")
    _refuse_idle(
        wanted,
        {
            "--kind": kind,
            "--layer": layer,
            "--head": head,
            "--row": row,
            "--pieces": pieces or None,
            "--no-special": no_special or None,
            "--list": as_list or None,
            "--top": top,
            "--scale": scale,
            "--values": values or None,
            "--ascii": ascii or None,
            "--color": color,
            "--background": background,
            "--width": width,
            "--part": part,
        },
    )
    if wanted == "html" and head == "all":
        raise UsageError("the page has every head: leave out --head all")
    if wanted == "text" and values and head == "all" and row is None:
        raise UsageError("there is no room for --values beside --head all: choose one --head")
    if kind == "all" and wanted not in NUMBERS:
        raise UsageError("--kind all is for json and csv: choose one kind")
    if kind == "rollout" and head not in (None, "mean"):
        raise UsageError("a rollout goes through the mean of the heads: leave out --head")
    if kind == "rollout" and layer == "mean":
        raise UsageError("a rollout goes up to a layer: give --layer a number, or leave it out")
    chosen = Selection(
        kind=None if kind == "all" else kind or "cross",
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
    source = open_sources(texts, files)[0]
    if source.name == "stdin" and sys.stdin is not None and sys.stdin.isatty() and not quiet:
        complain("reading the text from the terminal; Ctrl-D ends", kind="note")
    text = read_whole(source, check_encoding(encoding))
    if not text.strip():
        raise InputError("there is no text to look at")
    with Output(output) as out:
        from ..model.attending import Attender

        attender = Attender(model, **settings)
        asked: dict[str, Any] = {
            "target": target,
            "source_language": source_language,
            "target_language": target_language,
            "beam_size": beam_size,
        }
        if wanted == "moses":
            for line in _alignments(attender, text, asked, quiet):
                out.write(line)
            say_notes(attender.runtime, quiet)
            return ExitStatus.OK
        maps = attender.attend(text, task=task, question=question, part=number_of_part, **asked)
        if len(maps) > MANY and wanted in ("svg", "png", "html"):
            raise UsageError(f"{len(maps)} sentences are too many for one {wanted}: choose one of them with --part N")
        if len(maps) > MANY and not quiet:
            complain(f"{len(maps)} sentences, each with a map; --part N shows one of them", kind="note")
        if wanted == "text":
            from . import attention_text

            style = _style(columns, ascii, color or "auto", background, chosen.scale, values, most, output is None)
            form = attention_text.Form(chosen, style, row, layer is not None, as_list)
            for number, map in enumerate(maps):
                links = attender.align(map) if chosen.kind == "cross" and task == "translate" else None
                out.write(("\n" if number else "") + attention_text.drawing(map, form, links))
        else:
            from . import attention_export

            links_of = attender.align if wanted == "json" and task == "translate" else None
            content, notes = attention_export.export(wanted, maps, chosen, links_of)
            out.write_bytes(content)
            for note in notes if not quiet else ():
                complain(note, kind="note")
        flags = dict.fromkeys(flag for map in maps for flag in map.flags if flag in WARNINGS)
        for flag in flags if not quiet else ():
            complain(WARNINGS[flag], kind="warning")
        say_notes(attender.runtime, quiet)
    return ExitStatus.OK


def _alignments(attender: Attender, text: str, asked: Mapping[str, Any], quiet: bool) -> Iterator[str]:
    """For each line of the text one with the links of its words, as Moses writes them. The words of a line's sentences are
    counted through; a line that is not translated has none."""
    from ..model import alignment

    for number, line in enumerate(text.removesuffix("\n").split("\n"), 1):
        links: list[tuple[int, int]] = []
        read = written = 0
        try:
            maps = attender.attend(line, **asked) if line.strip() else []
        except InputError as error:
            if "\n" not in text.strip():
                raise
            maps = []
            if not quiet:
                complain(f"line {number}: {error}", kind="note")
        for map in maps:
            links += [(read + i, written + j) for i, j in attender.align(map)]
            read += len(alignment.word_places(map.src, map.source))
            written += len(alignment.word_places(map.tgt, map.output))
        yield alignment.moses(links) + "\n"


def _refuse_idle(format: str, given: Mapping[str, object]) -> None:
    """Raises UsageError for an option that the format has no use for, so that nobody waits for what it should do."""
    for option, value in given.items():
        formats = USED_BY.get(option, FORMATS)
        if value is not None and format not in formats:
            raise UsageError(
                f"{option} means nothing to the format {format}, only to {', '.join(formats)}: leave it out"
            )


def _format(given: str | None, as_json: bool, output: str | None) -> str:
    """What is written: as --format or --json says, else by the ending of the output's name, else the drawing."""
    if as_json and given not in (None, "json"):
        raise UsageError(f"give --json or --format {given}, not both")
    ending = Path(output or "").suffix[1:].lower()
    if as_json and ending in FORMATS and ending != "json":
        raise UsageError(f"give --json or --output {output}, not both")
    if not given and not as_json and ending not in (*FORMATS, *TEXT_ENDINGS):
        raise UsageError(f"no format has the ending .{ending}: say which with --format ({', '.join(FORMATS)})")
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


def _telling_head(task: str, kind: str | None) -> int | str:
    """The head that is shown if none is chosen: of an answer the one that points at it, else the mean of all."""
    return POINTING_HEAD + 1 if task == "qa" and kind in (None, "cross") else "mean"


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
