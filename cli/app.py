"""The command line: names and help of the commands. Only typer and the standard library are imported before a command
runs, so that help, completion and mistakes in the command line are answered at once. main.py, which is what a shell starts,
comes here for all but a plain `tx translate …`.

What the options are called and say is in options.py; an option of `tx translate` goes into direct.py too."""

from __future__ import annotations

from . import interrupt  # first: from here on Ctrl-C is silent

# isort: split
import functools
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from ..model.errors import TxError, UsageError
from . import app_about, app_bench, app_evaluate, app_models, parser, process, user_settings
from . import options as o
from .text_io import ExitStatus, complain


def _print_version(value: bool) -> None:
    if value:
        from .. import __version__

        typer.echo(f"tx {__version__}")
        raise typer.Exit()


app = parser.group(
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
      tx bench
      tx help streams
    """
)
app.add_typer(app_evaluate.app, name="evaluate")
app.add_typer(app_models.app, name="models")
app.command("bench", cls=parser.Command, epilog=parser.EXIT_CODES_PLAIN)(app_bench.bench)
app.add_typer(app_about.config, name="config")
app.command("help", cls=parser.Command, epilog=parser.EXIT_CODES_PLAIN)(app_about.help_on)
app.command("completion", cls=parser.Command, epilog=parser.EXIT_CODES_PLAIN)(app_about.completion)


@app.callback()
def root(
    ctx: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    debug: o.Debug = False,
) -> None:
    parser.help_if_alone(ctx)


@app.command(cls=parser.Command, epilog=parser.EXIT_CODES)
def translate(
    text: o.TextArgument = None,
    files: o.InputFiles = None,
    output: o.OutputOrFolder = None,
    resume: o.Resume = None,
    suffix: o.Suffix = None,
    in_place: o.InPlace = False,
    format: o.Format = None,
    fields: o.Field = None,
    paragraph: o.Paragraph = False,
    source: o.From = None,
    target: o.To = None,
    model: o.Model = None,
    beam: o.Beam = None,
    shortlist: o.Shortlist = False,
    batch_size: o.BatchSize = None,
    max_memory: o.MaxMemory = None,
    glossary: o.GlossaryFile = None,
    n_best: o.NBest = None,
    as_json: o.Json = False,
    with_score: o.Score = False,
    align: o.Align = False,
    strict: o.Strict = False,
    quiet: o.Quiet = False,
    no_progress: o.NoProgress = False,
    encoding: o.Encoding = "utf-8",
    threads: o.Threads = None,
    jobs: o.Jobs = None,
    device: o.Device = "cpu",
    engine: o.Engine = "auto",
    precision: o.Precision = "fp32",
    debug: o.Debug = False,
) -> int:
    """Translates text, files or the standard input.

    \b
    Examples:
      tx translate "I love NLP"
      tx translate -- "-5 degrees"
      cat notes.txt | tx translate --to zh > notes.zh.txt
      tx translate -i a.txt -i b.txt -o both.txt --json
      tx translate -i a.txt -i b.txt --suffix .zh
      tx translate -i page.html -o page.zh.html

    One line out for one line in, in order. Blank lines, spaces at the ends of a line and line ends stay as they are.
    With --paragraph the lines of a text that was wrapped at some width are joined first: one line out for a paragraph.
    Files that are no plain text by their ending (Markdown, HTML, subtitles, ...) keep their layout: tx help formats.

    The language of each line is detected unless --from or --to says it; a text in the target language is left as it is.
    Of several files all translations go to one place, or with --suffix, --in-place or -o and a folder each to a file of
    its own.

    A --glossary has a line for each term: the term, a tab, what it becomes; with "en", a tab, "zh" in its first line it is
    for both directions. An English term is its plural too (-s, -es, -ies), unless that has a line of its own.

    With --score a line is: mean log-probability a piece, a tab, translation; with --align it ends in a tab and links
    between words, source-translation from 0 (0-0 1-2). With --n-best there are up to N lines for a line, best first, each
    with its score. Blank lines stay as they are, one for one.

    For a long run there are --jobs, --resume and --max-memory: tx help long-runs.

    \b
    What --json may say of a line in "flags" (the first six are warnings too, and
    for all of these but split the exit code is 3 with --strict):
      split   too long for the model at once; translated in parts
      cut     the translation reached the length limit; its end may be missing
      looped  the translation repeated itself; the repetition was removed
      lost    a number, an address, a placeholder or a term is missing, or changed
      invented  the translation has a number that is not in the text
      untranslated  it, or a word of it, is not in the language asked for
      copied  nothing to translate: blank, no letters, or already in the language
    """
    from . import commands

    return commands.translate(
        list(text or ()),
        list(files or ()),
        output,
        resume=resume,
        suffix=suffix,
        in_place=in_place,
        format=format,
        fields=list(fields or ()),
        paragraph=paragraph,
        source=source,
        target=target,
        model=model,
        beam=beam,
        shortlist=shortlist,
        batch_size=batch_size,
        max_memory=max_memory,
        glossary=glossary,
        n_best=n_best,
        as_json=as_json,
        with_score=with_score,
        align=align,
        strict=strict,
        quiet=quiet,
        no_progress=no_progress,
        encoding=encoding,
        threads=threads,
        jobs=jobs,
        device=device,
        engine=engine,
        precision=precision,
    )


@app.command(cls=parser.Command, epilog=parser.EXIT_CODES)
def summarize(
    files: o.TextFiles = None,
    texts: o.TextOption = None,
    words: o.MaxWords = None,
    sentences: o.MaxSentences = None,
    extract: o.Extract = False,
    rewrite: o.Rewrite = False,
    output: o.Output = None,
    model: o.Model = None,
    as_json: o.Json = False,
    strict: o.StrictSummary = False,
    quiet: o.Quiet = False,
    encoding: o.Encoding = "utf-8",
    engine: o.Engine = "auto",
    threads: o.Threads = None,
    device: o.Device = "cpu",
    debug: o.Debug = False,
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
    shown, a sentence of the text is. (Of another project's model, T5 or BART, that is what has no end, or doubled marks; what
    our own model writes is looked at more closely.) Of a web page (HTML) the text is read. Without text there is no summary, and no error.

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


@app.command(cls=parser.Command, epilog=parser.EXIT_CODES)
def qa(
    question: o.Question = None,
    file: o.ContextFile = None,
    context: o.Context = None,
    questions: o.Questions = None,
    questions_file: o.QuestionsFile = None,
    top_k: o.TopAnswers = None,
    threshold: o.Threshold = None,
    output: o.Output = None,
    model: o.Model = None,
    as_json: o.Json = False,
    strict: o.StrictAnswer = False,
    quiet: o.QuietAnswer = False,
    encoding: o.Encoding = "utf-8",
    engine: o.Engine = "auto",
    threads: o.Threads = None,
    device: o.Device = "cpu",
    debug: o.Debug = False,
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

    A T5 (--model) is asked in its own way, "question: … context: …", and writes its answer, of which only words that stand
    together in the text can come. Its score is the logarithm of the probability of what it wrote, with the same share of
    words. It has not learnt that a text may have no answer, so there is one, unless --threshold is given. Its parts are of some 280
    words, and 20 of them are read.

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


@app.command("show-attention", cls=parser.Command, epilog=parser.EXIT_CODES_PLAIN)
def show_attention(
    text: o.TextArgument = None,
    files: o.AttentionInput = None,
    task: o.Task = "translate",
    question: o.TaskQuestion = None,
    target: o.Target = None,
    source_language: o.From = None,
    target_language: o.To = None,
    kind: o.Kind = None,
    layer: o.Layer = None,
    head: o.Head = None,
    row: o.Row = None,
    part: o.Part = None,
    pieces: o.Pieces = False,
    no_special: o.NoSpecial = False,
    as_list: o.AsList = False,
    top: o.Top = None,
    scale: o.Scale = None,
    values: o.Values = False,
    ascii: o.Ascii = False,
    color: o.Color = None,
    background: o.Background = None,
    width: o.Width = None,
    format: o.PictureFormat = None,
    as_json: o.PictureJson = False,
    output: o.PictureOutput = None,
    model: o.Model = None,
    beam: o.Beam = None,
    quiet: o.Quiet = False,
    encoding: o.Encoding = "utf-8",
    engine: o.Engine = "auto",
    threads: o.Threads = None,
    device: o.Device = "cpu",
    debug: o.Debug = False,
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


def _program() -> str:
    """The name by which tx was called."""
    name = Path(sys.argv[0]).stem
    return name if name in ("tx", "tx-nlp") else "tx"


def _path(arguments: Sequence[str]) -> list[str]:
    """The command that a configuration file may speak of: ["evaluate", "qa"]; nothing where help is asked for."""
    own = list(arguments)[: arguments.index("--") if "--" in arguments else None]
    words = [token for token in own if not token.startswith("-")]
    if {"-h", "--help"} & set(own):
        return []
    return next((words[:n] for n in (2, 1) if ".".join(words[:n]) in user_settings.OPTIONS), [])


@functools.cache
def command_tree() -> Any:
    """All commands, as typer runs them; to make them of the functions above takes longer than most of them."""
    return typer.main.get_command(app)


def run(arguments: Sequence[str]) -> int:
    """The exit status of the command that typer finds in `arguments`."""
    command = command_tree()
    name = _program()
    if f"_{name}_COMPLETE".replace("-", "_").upper() in os.environ:
        try:
            command.main(prog_name=name)  # prints completions and exits
        except KeyError as error:
            raise UsageError(f"completion is asked for, but {error.args[0]} is not set: a shell does both") from None
    path = _path(arguments)
    found = user_settings.read(user_settings.config_path(os.environ)) if path else []
    settings = user_settings.without_opposites(user_settings.for_command(found, ".".join(path)), arguments)

    def start(settings: Mapping[str, user_settings.Setting]) -> int:
        try:
            said = parser.defaults(command, path, settings)
            with command.make_context(name, list(arguments), default_map=said) as context:
                return int(command.invoke(context) or ExitStatus.OK)
        except typer.Exit as request:
            if request.exit_code == ExitStatus.OK and sys.stdout is None:  # help or the version, and no one has seen it
                raise TxError("the standard output is closed") from None
            return int(request.exit_code)
        except parser.ParserError as error:
            complain(parser.describe(error, name, arguments))
            return ExitStatus.USAGE

    try:
        return start(settings)
    except TxError as error:
        return user_settings.again(error, start, settings, arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """main.main without its short way: typer reads every command line."""
    return process.guarded(run, arguments)


interrupt.loaded()

if __name__ == "__main__":
    sys.exit(main())
