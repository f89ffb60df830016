"""The command line: names, options and help. Only typer and the standard library are imported before a command runs,
so that help, completion and mistakes in the command line are answered at once. main.py, which is what a shell starts,
comes here for all but a plain `tx translate …`; a new option of that goes into direct.py too."""

from __future__ import annotations

from . import interrupt  # first: from here on Ctrl-C is silent

# isort: split
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from ..model.errors import UsageError
from . import process
from .text_io import DEVICES, ENGINES, ExitStatus, complain

EXIT_CODES = (
    "Exit codes: 0 ok, 1 failed, 2 wrong usage, 3 something was cut or looped (only with --strict), "
    "130 interrupted, 143 terminated."
)
EXIT_CODES_PLAIN = "Exit codes: 0 ok, 1 failed, 2 wrong usage, 130 interrupted, 143 terminated."
HINT_DASH = 'a text that begins with "-" needs "--" before it: {} -- "-5 degrees"'

# UsageError of the command-line parser, in whichever of its two homes (click, or typer's own copy) typer has it.
ParserError: Any = typer.BadParameter.__base__


class _AsGiven:
    """Hands an option's text to the command unchanged. Every option here is text or a flag, and typer's own conversion
    would first import a validation library for longer than the whole of `tx --help` may take."""

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        if value is None and (param.multiple or param.nargs == -1):
            return ()
        return value


class _PlainParams:
    """What _Command and _Group share: every parameter, typer's own included, takes its value as given."""

    def get_params(self, ctx: Any) -> Any:
        params = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            if hasattr(param, "_runtime_param"):  # typer 0.29 and later
                param._runtime_param = _AsGiven()
            if param.param_type_name == "argument" and hasattr(param, "display_type_rich"):
                param.display_type_rich = lambda ctx: None  # types of Python say nothing to a user
        return params


class _Command(_PlainParams, TyperCommand):
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Refuses a value attached to a short option: "-only you" is a text more often than the file "nly you"."""
        options = [param for param in self.get_params(ctx) if param.param_type_name == "option"]
        flags = {name for option in options if option.is_flag for name in option.opts}
        valued = {name for option in options if not option.is_flag for name in option.opts}
        rest = iter(args)
        for token in rest:
            if token == "--":
                break
            if token in valued:
                next(rest, None)  # its value, whatever that looks like
            elif token.startswith("-") and not token.startswith("--"):
                for place, letter in enumerate(token[1:], 2):
                    if f"-{letter}" in valued and token[place:]:
                        message = f"-{letter} needs a space before its value; {HINT_DASH.format(ctx.command_path)}"
                        raise ParserError(message, ctx=ctx)
                    if f"-{letter}" not in flags:
                        if f"-{letter}" in valued:
                            next(rest, None)
                        break
        return super().parse_args(ctx, args)


class _Group(_PlainParams, TyperGroup):
    pass


def _print_version(value: bool) -> None:
    if value:
        from .. import __version__

        typer.echo(f"tx {__version__}")
        raise typer.Exit()


def _help_if_alone(ctx: typer.Context) -> None:
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help(), err=True)
        raise typer.Exit(ExitStatus.USAGE)


def _group(text: str, **settings: Any) -> typer.Typer:
    names = {"help_option_names": ["-h", "--help"]}
    return typer.Typer(
        cls=_Group,
        help=text,
        epilog=EXIT_CODES,
        context_settings=names,
        invoke_without_command=True,
        rich_markup_mode=None,  # plain text: no boxes, no markup, no colour codes, in pipes and files too
        pretty_exceptions_enable=False,
        **settings,
    )


app = _group(
    """Translates texts, sums them up and finds answers in them: one small Transformer, offline.

    \b
    Examples:
      tx translate "I love NLP"
      echo "我们明天在哪里见面？" | tx translate
      tx summarize article.txt
      git log -50 | tx summarize --sentences 3
      tx qa "Who wrote it?" article.txt
      man tar | tx qa "What does --exclude do?"
      tx show-attention "I love NLP"
      tx evaluate translate dev.tsv
      tx models list
    """
)
evaluation = _group(
    """Measures a model on a file of your own.

    \b
    Examples:
      tx evaluate translate dev.tsv --from en --to zh
      tx evaluate summarize articles.jsonl --limit 200
      tx evaluate qa questions.jsonl.gz --json
    """
)
app.add_typer(evaluation, name="evaluate")
evaluation.callback()(_help_if_alone)
models = _group(
    """Lists, examines, converts and fetches models.

    \b
    Examples:
      tx models list
      tx models info en-zh
      tx models check ~/opus-mt-en-de
      tx models convert ~/opus-mt-en-de ~/en-de
      tx models pull Helsinki-NLP/opus-mt-en-de

    A model is a name or a folder: of tx itself, of Hugging Face (Marian, BART, mBART, M2M100, NLLB, T5), or one that
    Firefox or Bergamot use. The user's own models, which have names too, lie in $XDG_DATA_HOME/tx/models (by default in
    ~/.local/share/tx/models), each in a folder of its name.
    """
)
app.add_typer(models, name="models")
models.callback()(_help_if_alone)

Text = str | None
Debug = Annotated[
    bool, typer.Option("--debug", callback=process.show_traceback, help="Show a traceback with an error.")
]
From = Annotated[Text, typer.Option("--from", metavar="LANG", help="Language of the input (default: detected).")]
To = Annotated[Text, typer.Option("--to", metavar="LANG", help="Language wanted (default: en for zh, else zh).")]
Model = Annotated[
    Text, typer.Option("--model", metavar="NAME|PATH", help="Model (default: $TX_MODEL, else that of tx itself).")
]
OnlyFrom = Annotated[Text, typer.Option("--from", metavar="LANG", help="Only directions from this language.")]
OnlyTo = Annotated[Text, typer.Option("--to", metavar="LANG", help="Only directions to this language.")]
Beam = Annotated[
    Text, typer.Option("--beam", metavar="N", help="Width of the search, 1 is fastest (default: the model's own, 4).")
]
BatchSize = Annotated[
    Text, typer.Option("--batch-size", metavar="N", help="Segments computed at once, same result (default: 32).")
]
Limit = Annotated[Text, typer.Option("--limit", metavar="N", help="Use the first N lines only.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object a line.")]
Threads = Annotated[
    Text,
    typer.Option(
        "--threads",
        metavar="N",
        envvar="TX_THREADS",
        help="Processor threads (default: 1 for numpy, at most 4 for torch).",
    ),
]
Device = Annotated[
    str,
    typer.Option(
        "--device", metavar="DEVICE", help="cpu, cuda or auto (PyTorch is asked).", autocompletion=lambda: list(DEVICES)
    ),
]

Encoding = Annotated[
    str, typer.Option("--encoding", metavar="NAME", help="Encoding of the input; output is always UTF-8.")
]
Engine = Annotated[
    str,
    typer.Option(
        "--engine",
        metavar="ENGINE",
        envvar="TX_ENGINE",
        help="numpy (starts at once), torch, or auto (numpy; torch for much text and on 4 cores).",
        autocompletion=lambda: list(ENGINES),
    ),
]


def _tasks() -> list[str]:
    return ["translate", "summarize", "qa"]


def _kinds() -> list[str]:
    return ["cross", "encoder", "decoder", "rollout", "all"]


def _layers() -> list[str]:
    return ["last", "mean"]


def _heads() -> list[str]:
    return ["all", "max", "mean"]


def _formats() -> list[str]:
    return ["text", "moses", "json", "csv", "npz", "svg", "png", "html"]


@app.callback()
def root(
    ctx: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    debug: Debug = False,
) -> None:
    _help_if_alone(ctx)


@app.command(cls=_Command, epilog=EXIT_CODES)
def translate(
    text: Annotated[list[str] | None, typer.Argument(metavar="TEXT", help="Text; - is the standard input.")] = None,
    files: Annotated[
        list[str] | None, typer.Option("-i", "--input", metavar="FILE", help="Read this file; may be repeated.")
    ] = None,
    output: Annotated[
        Text, typer.Option("-o", "--output", metavar="FILE", help="Write here; the file appears when it is complete.")
    ] = None,
    source: From = None,
    target: To = None,
    model: Model = None,
    beam: Beam = None,
    batch_size: BatchSize = None,
    as_json: Json = False,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 3 if anything was cut or looped.")] = False,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="No warnings.")] = False,
    encoding: Encoding = "utf-8",
    threads: Threads = None,
    device: Device = "cpu",
    engine: Engine = "auto",
    debug: Debug = False,
) -> int:
    """Translates text, files or the standard input.

    \b
    Examples:
      tx translate "I love NLP"
      tx translate -- "-5 degrees"
      cat notes.txt | tx translate --to zh > notes.zh.txt
      tx translate -i a.txt -i b.txt -o both.txt --json

    One line out for one line in, in order. Blank lines, spaces at the ends of a line and line ends stay as they are.
    The language of each line is detected unless --from or --to says it.

    \b
    What --json may say of a line in "flags" (the first three are warnings too):
      split   too long for the model at once; translated in parts
      cut     the translation reached the length limit; its end may be missing
      looped  the translation repeated itself; the repetition was removed
      copied  nothing to translate: blank, no letters, or already in the language
    """
    from . import commands

    return commands.translate(
        list(text or ()),
        list(files or ()),
        output,
        source=source,
        target=target,
        model=model,
        beam=beam,
        batch_size=batch_size,
        as_json=as_json,
        strict=strict,
        quiet=quiet,
        encoding=encoding,
        threads=threads,
        device=device,
        engine=engine,
    )


@app.command(cls=_Command, epilog=EXIT_CODES)
def summarize(
    files: Annotated[
        list[str] | None, typer.Argument(metavar="FILE", help="File, or a text; - is the standard input.")
    ] = None,
    texts: Annotated[
        list[str] | None, typer.Option("-t", "--text", metavar="TEXT", help="Text instead of a file; may be repeated.")
    ] = None,
    words: Annotated[
        Text,
        typer.Option(
            "--words", "--max-words", metavar="N", help="At most N words (but one whole sentence, see above)."
        ),
    ] = None,
    sentences: Annotated[
        Text,
        typer.Option("--sentences", metavar="N", help="At most N sentences (default: 3 where they are extracted)."),
    ] = None,
    extract: Annotated[
        bool, typer.Option("--extract", help="Whole sentences of the text, in order (default with a length).")
    ] = False,
    rewrite: Annotated[bool, typer.Option("--rewrite", help="In the model's own words.")] = False,
    output: Annotated[
        Text, typer.Option("-o", "--output", metavar="FILE", help="Write here; the file appears when it is complete.")
    ] = None,
    model: Model = None,
    as_json: Json = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 3 if anything was cut, looped or not read.")
    ] = False,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="No notes.")] = False,
    encoding: Encoding = "utf-8",
    engine: Engine = "auto",
    threads: Threads = None,
    device: Device = "cpu",
    debug: Debug = False,
) -> int:
    """Sums up files or the standard input, each by itself.

    \b
    Examples:
      tx summarize article.txt
      git log -50 | tx summarize --sentences 3
      tx summarize --words 40 --json a.txt b.txt
      tx summarize "One text. It is short."

    A summary is never longer than its text and ends where a sentence ends. No sentence is cut for --words: where none is
    that short, the shortest is the summary, with a note on the standard error. A long text is read in parts, a very long
    one in those that have most in common with all of it; a note says so. Where what the model wrote is not fit to be
    shown, a sentence of the text is. Of a web page (HTML) the text is read. Without text there is no summary, and no error.

    Of several files each summary has the file's name above it. A file that cannot be read is said and left out, and the
    exit code is 1 at the end; with -o nothing is written then. An argument that is no file's name and looks like a text
    (it ends in a full stop, or is of several words) is taken as one; -t says so of any.

    \b
    --json prints for each text:
      name      the file, "stdin" or "argument 1"
      summary   the summary; inside a sentence line breaks are spaces, and after
                one without a mark is one
      spans     where its sentences stand in the text: start and end in characters
                (none of a web page, or of the model's own words)
      parts     in how many parts the text was read, or (with skimmed) would be
      flags     what there is to know:
        parts      the text was read in parts
        skimmed    only some of them were read
        split      a sentence was too long; its parts were read as sentences
        cut        the model reached its limit of length
        looped     a repetition was removed
        extracted  the model's words were not fit; a sentence stands for them
        longer     the summary has more words than --words says
        copied     the text is one sentence or has no letters
        empty      there is no text
        html       it is a web page
    """
    from . import summarize as command

    return command.summarize(
        list(files or ()),
        output,
        texts=list(texts or ()),
        words=words,
        sentences=sentences,
        extract=extract,
        rewrite=rewrite,
        model=model,
        as_json=as_json,
        strict=strict,
        quiet=quiet,
        encoding=encoding,
        engine=engine,
        threads=threads,
        device=device,
    )


@app.command(cls=_Command, epilog=EXIT_CODES)
def qa(
    question: Annotated[Text, typer.Argument(metavar="QUESTION", help="The question.")] = None,
    file: Annotated[Text, typer.Argument(metavar="FILE", help="The text; - is the standard input.")] = None,
    context: Annotated[Text, typer.Option("-c", "--context", metavar="TEXT", help="The text itself.")] = None,
    questions: Annotated[
        list[str] | None,
        typer.Option(
            "-q",
            "--question",
            metavar="QUESTION",
            help="A question (not --quiet); may be repeated. The first argument is then FILE.",
        ),
    ] = None,
    questions_file: Annotated[
        Text, typer.Option("--questions", metavar="FILE", help="Questions, one a line; - is the standard input.")
    ] = None,
    top_k: Annotated[
        Text, typer.Option("--top-k", metavar="N", help="Up to N different answers, best first, with scores.")
    ] = None,
    threshold: Annotated[
        Text, typer.Option("--threshold", metavar="X", help="Score from which on a span is an answer (default: 1).")
    ] = None,
    output: Annotated[
        Text, typer.Option("-o", "--output", metavar="FILE", help="Write here; the file appears when it is complete.")
    ] = None,
    model: Model = None,
    as_json: Json = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 3 if a question was cut, or not all of the text read.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No warnings, no notes (here -q is a question).")] = False,
    encoding: Encoding = "utf-8",
    engine: Engine = "auto",
    threads: Threads = None,
    device: Device = "cpu",
    debug: Debug = False,
) -> int:
    """Finds the answer to a question in a text.

    \b
    Examples:
      tx qa "Who wrote it?" article.txt
      man tar | tx qa "What does --exclude do?"
      tx qa "Who came?" -c "Anna and Bob came." --top-k 2
      tx qa -q "Who?" -q "When?" report.txt --json

    An answer is a verbatim part of the text, up to some 30 words long; of an option (What does --force do?) the first
    sentence of its entry in a manual. Of a web page (HTML) the text is read, and places are counted in that. One line for each question, in order (with --top-k
    one for each answer: its score, a tab, the answer), line breaks as spaces. On a terminal the sentence that it stands
    in follows, of a long one what is around it.

    The score says how much better the answer is than no answer: the natural logarithm of the odds of where it starts plus
    that of where it ends, and four times the share of the question's words in its sentence, less three if it goes on in
    the next. It can be compared between questions and texts. Where no answer reaches --threshold, an empty line is
    printed, a note on the standard error says so, and the exit code is 0. With --top-k "(no answer)" stands in its place
    among the others: what is below it is less likely than that the text has none. A higher threshold gives fewer and
    surer answers, with -inf there is always one; but none in an empty text or one without letters or digits, and none to
    such a question.

    A text may be of any length. It is read in overlapping parts of some 65 words (or 140 Chinese characters). Of more than
    64, which are some 1,400 words, the 64 that share most words with the question are read; a note on the standard error
    says when. Of a question the first 100 pieces (some 55 words) are read.

    \b
    What --json gives for each answer:
      question, answer   an empty answer means that none was found
      start, end         where it stands, in characters of the decoded text, line
                         ends as they are, without a byte order mark at its start
      score              of an empty answer the threshold (null: it is infinite)
      sentence           the whole sentence, or sentences, that it stands in
      sentence_start     where that starts
      windows_read       how many parts of the text were read,
      windows            and how many there are; 0 where there is nothing to find
    """
    from . import qa as command

    return command.qa(
        question,
        file,
        output,
        context=context,
        questions=list(questions or ()),
        questions_file=questions_file,
        top_k=top_k,
        threshold=threshold,
        model=model,
        as_json=as_json,
        strict=strict,
        quiet=quiet,
        encoding=encoding,
        engine=engine,
        threads=threads,
        device=device,
    )


@app.command("show-attention", cls=_Command, epilog=EXIT_CODES_PLAIN)
def show_attention(
    text: Annotated[list[str] | None, typer.Argument(metavar="TEXT", help="Text; - is the standard input.")] = None,
    files: Annotated[
        list[str] | None, typer.Option("-i", "--input", metavar="FILE", help="Read the text from this file.")
    ] = None,
    task: Annotated[
        str, typer.Option("--task", metavar="TASK", help="translate, summarize or qa.", autocompletion=_tasks)
    ] = "translate",
    question: Annotated[Text, typer.Option("--question", metavar="TEXT", help="The question of --task qa.")] = None,
    target: Annotated[
        Text, typer.Option("--target", metavar="TEXT", help="Look at this output instead of the model's own.")
    ] = None,
    source_language: From = None,
    target_language: To = None,
    kind: Annotated[
        Text,
        typer.Option(
            "--kind",
            metavar="KIND",
            help="cross (the default), encoder, decoder, rollout, or all of them in json and csv.",
            autocompletion=_kinds,
        ),
    ] = None,
    layer: Annotated[
        Text,
        typer.Option(
            "--layer",
            metavar="N",
            help="A layer from 1 on, mean or last (the default; json and csv: all).",
            autocompletion=_layers,
        ),
    ] = None,
    head: Annotated[
        Text,
        typer.Option(
            "--head",
            metavar="N",
            help="A head from 1 on, mean (the default; json and csv: all), max, or all side by side.",
            autocompletion=_heads,
        ),
    ] = None,
    row: Annotated[
        Text, typer.Option("--row", metavar="WORD", help="Only this word's row, layer by layer (or head by head).")
    ] = None,
    part: Annotated[
        Text, typer.Option("--part", metavar="N", help="Only the N-th part of a text of several sentences.")
    ] = None,
    pieces: Annotated[
        bool, typer.Option("--pieces/--words", help="Pieces as the model reads them, not words.")
    ] = False,
    no_special: Annotated[bool, typer.Option("--no-special", help="Without the task's and the end piece.")] = False,
    as_list: Annotated[bool, typer.Option("--list", help="A line of links for each row instead of a grid.")] = False,
    top: Annotated[
        Text,
        typer.Option("--top", metavar="N", help="Links a row in a list (default: 3), and strongest ones named (5)."),
    ] = None,
    scale: Annotated[
        Text,
        typer.Option(
            "--scale",
            metavar="SCALE",
            help="What is darkest: each row's largest (row; the default), the largest (global, log; log for a rollout).",
        ),
    ] = None,
    values: Annotated[bool, typer.Option("--values", help="Numbers in the cells.")] = False,
    ascii: Annotated[bool, typer.Option("--ascii", help="Draw with ASCII only.")] = False,
    color: Annotated[
        Text, typer.Option("--color", metavar="WHEN", help="auto (on a terminal; the default), always or never.")
    ] = None,
    background: Annotated[
        Text,
        typer.Option("--background", metavar="dark|light", help="The terminal's (default: from COLORFGBG, else dark)."),
    ] = None,
    width: Annotated[
        Text, typer.Option("--width", metavar="N", help="Columns, from 20 on (default: the terminal's, else 80).")
    ] = None,
    format: Annotated[
        Text,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="text, moses, json, csv, npz, svg, png or html (default: by -o, else text).",
            autocompletion=_formats,
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Short for --format json.")] = False,
    output: Annotated[
        Text,
        typer.Option(
            "-o", "--output", "--out", metavar="FILE", help="Write here; the file appears when it is complete."
        ),
    ] = None,
    model: Model = None,
    beam: Beam = None,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="No warnings, no notes.")] = False,
    encoding: Encoding = "utf-8",
    engine: Engine = "auto",
    threads: Threads = None,
    device: Device = "cpu",
    debug: Debug = False,
) -> int:
    """Shows where the model looked while it made an output.

    \b
    Examples:
      tx show-attention "I love NLP"
      tx show-attention "It was too tired to go." --kind encoder --row it
      tx show-attention "I love NLP" --head all --layer last
      tx show-attention "Good morning." --target "早上好。" --format moses
      tx show-attention "I love NLP" -o map.html
      tx show-attention --task qa --question "Who came?" "Anna and Bob came."

    The text is translated (or summed up, or asked), then all of it goes through the model once more, with what came out,
    and the weights of attention of all layers and heads are kept: this is what is drawn. Each row adds up to 1. In
    cross-attention and in the decoder a row belongs to the word that was written there, the end included (</s>).

    A word is made of pieces: what its pieces are looked at adds up, how they look is averaged. --pieces shows them as
    they are, the bytes of one character together. With --no-special rows no longer add up to 1. A text of several
    sentences is translated one by one; each has its map. On less than 40 columns a list takes the place of the grid.
    Which words belong together ("aligned") is read off the head that shows it best, not off the map that is drawn.

    \b
    Formats:
      text   the drawing; with --list, and where columns are too few, links
      moses  the alignment of words, 0-0 1-2, source-target, a line for each
             line; json has the same with the places of the words
      json   tokens with their places, and weights of all layers and heads
             (or those of --layer and --head); csv has the same as a table
      npz    arrays for numpy.load: encoder, decoder, cross, and their tokens
      svg, png, html  pictures, and a page to look around in; no network needed
    """
    from . import show_attention as command

    return command.show_attention(
        list(text or ()),
        list(files or ()),
        output,
        task=task,
        question=question,
        target=target,
        source_language=source_language,
        target_language=target_language,
        kind=kind,
        layer=layer,
        head=head,
        row=row,
        part=part,
        pieces=pieces,
        no_special=no_special,
        as_list=as_list,
        top=top,
        scale=scale,
        values=values,
        ascii=ascii,
        color=color,
        background=background,
        width=width,
        format=format,
        as_json=as_json,
        model=model,
        beam=beam,
        quiet=quiet,
        encoding=encoding,
        engine=engine,
        threads=threads,
        device=device,
    )


@evaluation.command("translate", cls=_Command, epilog=EXIT_CODES_PLAIN)
def evaluate_translate(
    path: Annotated[str, typer.Argument(metavar="DEV.tsv", help="English, a tab, Chinese on each line; may be .gz.")],
    source: OnlyFrom = None,
    target: OnlyTo = None,
    model: Model = None,
    beam: Beam = None,
    batch_size: BatchSize = None,
    limit: Limit = None,
    as_json: Json = False,
    threads: Threads = None,
    device: Device = "cpu",
    engine: Engine = "auto",
    debug: Debug = False,
) -> int:
    """Prints BLEU and chrF of every direction.

    The signatures of sacreBLEU, which say how a score was computed, are printed with it.

    \b
    Examples:
      tx evaluate translate dev.tsv
      tx evaluate translate dev.tsv --from en --to zh --limit 200
    """
    from . import evaluate

    return evaluate.translate(
        path,
        source=source,
        target=target,
        model=model,
        beam=beam,
        batch_size=batch_size,
        limit=limit,
        as_json=as_json,
        threads=threads,
        device=device,
        engine=engine,
    )


@evaluation.command("summarize", cls=_Command, epilog=EXIT_CODES_PLAIN)
def evaluate_summarize(
    path: Annotated[
        str, typer.Argument(metavar="FILE.jsonl", help="JSON objects with text and summary, one a line; may be .gz.")
    ],
    words: Annotated[Text, typer.Option("--words", metavar="N", help="At most N words.")] = None,
    sentences: Annotated[Text, typer.Option("--sentences", metavar="N", help="At most N sentences.")] = None,
    extract: Annotated[bool, typer.Option("--extract", help="Whole sentences of the text, in order.")] = False,
    rewrite: Annotated[bool, typer.Option("--rewrite", help="In the model's own words.")] = False,
    model: Model = None,
    limit: Limit = None,
    as_json: Json = False,
    threads: Threads = None,
    device: Device = "cpu",
    engine: Engine = "auto",
    debug: Debug = False,
) -> int:
    """Prints ROUGE-1, -2 and -L of summaries.

    Beside them that of LEAD, the beginning of each text, and of LexRank, both cut to the length of our summary. A Chinese
    character counts as a word, in a length as half of one. Also the share of numbers and capitalised words in the
    summaries that their texts do not have.

    \b
    Examples:
      tx evaluate summarize articles.jsonl
      tx evaluate summarize articles.jsonl.gz --extract --words 40 --json
    """
    from . import evaluate

    return evaluate.summarize(
        path,
        words=words,
        sentences=sentences,
        extract=extract,
        rewrite=rewrite,
        model=model,
        limit=limit,
        as_json=as_json,
        threads=threads,
        device=device,
        engine=engine,
    )


@evaluation.command("qa", cls=_Command, epilog=EXIT_CODES_PLAIN)
def evaluate_qa(
    path: Annotated[
        str,
        typer.Argument(
            metavar="FILE.jsonl",
            help="JSON objects with context, question and answer, one a line; may be .gz.",
        ),
    ],
    threshold: Annotated[
        Text,
        typer.Option("--threshold", metavar="X", help="Score from which on a span is an answer (default: all are)."),
    ] = None,
    among: Annotated[
        Text,
        typer.Option("--among", metavar="WORDS", help="Ask of texts of so many words: hide each context among others."),
    ] = None,
    model: Model = None,
    limit: Limit = None,
    as_json: Json = False,
    threads: Threads = None,
    device: Device = "cpu",
    engine: Engine = "auto",
    debug: Debug = False,
) -> int:
    """Prints exact match and F1 of answers.

    They are computed as in SQuAD's script, for Chinese questions as in CMRC's. An answer is "" where the context has
    none; a list "answers" has all that are right. With --among the other contexts of the file that have none of the
    right answers stand before and after the true one, the same ones in each run.

    \b
    Examples:
      tx evaluate qa questions.jsonl
      tx evaluate qa questions.jsonl.gz --threshold 0 --json
      tx evaluate qa questions.jsonl --among 3000 --limit 200
    """
    from . import evaluate

    return evaluate.qa(
        path,
        threshold=threshold,
        among=among,
        model=model,
        limit=limit,
        as_json=as_json,
        threads=threads,
        device=device,
        engine=engine,
    )


NamedModel = Annotated[str, typer.Argument(metavar="NAME|PATH", help="Name of an installed model, or its folder.")]


@models.command("list", cls=_Command, epilog=EXIT_CODES_PLAIN)
def models_list(as_json: Json = False, debug: Debug = False) -> int:
    """Lists the models that have names: those of tx, then your own.

    \b
    Examples:
      tx models list
      tx models list --json

    With what they do, parameters, size on disk and licence. Damaged ones are listed too, with what is wrong.
    """
    from . import models as command

    return command.list_models(as_json=as_json)


@models.command("info", cls=_Command, epilog=EXIT_CODES_PLAIN)
def models_info(model: NamedModel, as_json: Json = False, debug: Debug = False) -> int:
    """Says what a model does and how it is built.

    \b
    Examples:
      tx models info en-zh
      tx models info ~/opus-mt-en-de --json

    In the words of "Attention Is All You Need"; with the parameters of each part, the memory they take, the licence and
    the checksums.
    """
    from . import models as command

    return command.info(model, as_json=as_json)


@models.command("check", cls=_Command, epilog=EXIT_CODES_PLAIN)
def models_check(model: NamedModel, debug: Debug = False) -> int:
    """Checks that a model is whole and works.

    \b
    Examples:
      tx models check en-zh

    Its files by their checksums, where it has some; that all its weights are numbers; a forward pass; and a sentence for
    each of some of its tasks, greedily, to be looked at. The exit code is 1, with one line, if anything is wrong.
    """
    from . import model_check

    return model_check.check(model)


@models.command("convert", cls=_Command, epilog=EXIT_CODES_PLAIN)
def models_convert(
    source: Annotated[str, typer.Argument(metavar="SRC", help="Folder of a model in another format.")],
    target: Annotated[str, typer.Argument(metavar="DST", help="Folder to be made.")],
    debug: Debug = False,
) -> int:
    """Writes a model in another format as one in that of tx.

    \b
    Examples:
      tx models convert ~/opus-mt-en-de ~/en-de

    Every command takes the other formats as they are, too: a converted model has a manifest and is opened faster.
    """
    from . import models as command

    return command.convert(source, target)


@models.command("pull", cls=_Command, epilog=EXIT_CODES_PLAIN)
def models_pull(
    repo: Annotated[str, typer.Argument(metavar="ID", help="OWNER/NAME on the hub.")],
    revision: Annotated[
        Text, typer.Option("--revision", metavar="REV", help="Branch, tag or commit (default: main).")
    ] = None,
    debug: Debug = False,
) -> int:
    """Fetches a model from the Hugging Face hub.

    \b
    Examples:
      tx models pull Helsinki-NLP/opus-mt-en-de

    Nothing else in tx uses the network. Needs the extra "hub". Only the files that tx reads are fetched, and the model is there, under its ID as its name,
    once all of them have the sizes and checksums that the hub states. Interrupted, the same command goes on.
    HF_ENDPOINT, HF_HOME, HF_HUB_OFFLINE and HF_TOKEN mean what they always do.
    """
    from . import models as command

    return command.pull(repo, revision=revision)


def _is_text(rejected: str, arguments: Sequence[str]) -> bool:
    """Whether the argument that was rejected as the option "-x" or "--xyz" looks like a text: it has a space in it, is
    nothing but dashes, or has a single dash and a number or a word after it."""
    options = list(arguments)
    options = options[: options.index("--")] if "--" in options else options
    letter = rejected.lstrip("-")
    tokens = [t for t in options if t.startswith(rejected) or (len(rejected) == 2 and t[:1] == "-" and letter in t)]
    token = tokens[0] if tokens else rejected
    return any(c.isspace() for c in token) or not token.strip("-") or bool(re.match(r"-(\d|\w\w)", token))


def run(arguments: Sequence[str]) -> int:
    """The exit status of the command that typer finds in `arguments`."""
    command = typer.main.get_command(app)
    name = Path(sys.argv[0]).stem
    name = name if name in ("tx", "tx-nlp") else "tx"
    if f"_{name}_COMPLETE".replace("-", "_").upper() in os.environ:
        try:
            command.main(prog_name=name)  # prints completions and exits
        except KeyError as error:
            raise UsageError(f"completion is asked for, but {error.args[0]} is not set: a shell does both") from None
    try:
        with command.make_context(name, list(arguments)) as context:
            return int(command.invoke(context) or ExitStatus.OK)
    except typer.Exit as request:
        return int(request.exit_code)
    except ParserError as error:
        path = error.ctx.command_path if error.ctx else name
        rejected = getattr(error, "option_name", None)
        hint = HINT_DASH.format(path if " " in path else f"{path} translate")
        hints = (
            [hint]
            if rejected and not {"evaluate", "models"} & set(path.split()) and _is_text(rejected, arguments)
            else []
        )
        hints.append(f"see {path} --help")
        complain(f"{error.format_message()} ({'; '.join(hints)})")
        return ExitStatus.USAGE


def main(arguments: Sequence[str] | None = None) -> int:
    """main.main without its short way: typer reads every command line."""
    return process.guarded(run, arguments)


interrupt.loaded()

if __name__ == "__main__":
    sys.exit(main())
