"""The options of the commands, declared once: names, help and environment variables; app.py says which command has which.

Every value arrives as the text that the user wrote and is checked by the command. An option of `tx translate` stands in
direct.py too, and one that a configuration file may set in user_settings.py; tests compare them.
"""

from __future__ import annotations

from typing import Annotated

import typer

from . import process
from .text_io import DEVICES, ENGINES, PRECISIONS

Text = str | None
Texts = list[str] | None


def _models() -> list[str]:
    from . import models

    return list(models.named())


def _languages() -> list[str]:
    return ["en", "zh"]


def _tasks() -> list[str]:
    return ["translate", "summarize", "qa"]


def _kinds() -> list[str]:
    return ["cross", "encoder", "decoder", "rollout", "all"]


def _layers() -> list[str]:
    return ["last", "mean"]


def _heads() -> list[str]:
    return ["all", "max", "mean"]


def _pictures() -> list[str]:
    return ["text", "moses", "json", "csv", "npz", "svg", "png", "html"]


def _colours() -> list[str]:
    return ["auto", "always", "never"]


def _formats() -> list[str]:
    from ..model.formats import FORMATS

    return list(FORMATS)


def _topics() -> list[str]:
    from . import help_topics

    return list(help_topics.TOPICS)


# of all commands
Debug = Annotated[
    bool, typer.Option("--debug", callback=process.show_traceback, help="Show a traceback with an error.")
]
Model = Annotated[
    Text,
    typer.Option(
        "--model", metavar="NAME|PATH", envvar="TX_MODEL", help="Model (default: en-zh).", autocompletion=_models
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object a line.")]
Output = Annotated[
    Text, typer.Option("-o", "--output", metavar="FILE", help="Write here; the file appears when it is complete.")
]
Encoding = Annotated[
    str, typer.Option("--encoding", metavar="NAME", help="Encoding of the input; output is always UTF-8.")
]
Threads = Annotated[
    Text,
    typer.Option(
        "--threads",
        metavar="N",
        envvar="TX_THREADS",
        help="Processor threads (default: 1 for numpy, at most 4 for torch).",
    ),
]
Jobs = Annotated[
    Text,
    typer.Option(
        "--jobs",
        metavar="N|auto",
        help="Processes that share the work and one copy of the weights (auto or 0: one a core; default: 1).",
        autocompletion=lambda: ["auto"],
    ),
]
Device = Annotated[
    str,
    typer.Option(
        "--device",
        metavar="DEVICE",
        envvar="TX_DEVICE",
        help="cpu, cuda or auto (PyTorch is asked).",
        autocompletion=lambda: list(DEVICES),
    ),
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
Precision = Annotated[
    str,
    typer.Option(
        "--precision",
        metavar="NAME",
        help="fp32; int8 or bf16: faster, and other words now and then (computed by torch); auto: bf16 where the processor has it.",
        autocompletion=lambda: list(PRECISIONS),
    ),
]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="No warnings, no notes.")]

# of translate, some of others too
TextArgument = Annotated[Texts, typer.Argument(metavar="TEXT", help="Text; - is the standard input.")]
InputFiles = Annotated[Texts, typer.Option("-i", "--input", metavar="FILE", help="Read this file; may be repeated.")]
OutputOrFolder = Annotated[
    Text,
    typer.Option(
        "-o",
        "--output",
        metavar="FILE|DIR",
        help="Write here; the file appears when it is complete. In a folder: a file for each FILE.",
    ),
]
Resume = Annotated[
    Text,
    typer.Option("--resume", metavar="FILE", help="Write here; if a run that did was interrupted, go on where it was."),
]
Suffix = Annotated[
    Text, typer.Option("--suffix", metavar="TEXT", help="A file beside each FILE: a.txt gives a.zh.txt with .zh.")
]
InPlace = Annotated[bool, typer.Option("--in-place", help="Write each FILE back, translated.")]
From = Annotated[
    Text,
    typer.Option(
        "--from", metavar="LANG", help="Language of the input (default: detected).", autocompletion=_languages
    ),
]
To = Annotated[
    Text,
    typer.Option(
        "--to", metavar="LANG", help="Language wanted (default: en for zh, else zh).", autocompletion=_languages
    ),
]
Beam = Annotated[
    Text, typer.Option("--beam", metavar="N", help="Width of the search, 1 is fastest (default: the model's own, 4).")
]
BatchSize = Annotated[
    Text,
    typer.Option(
        "--batch-size",
        metavar="N",
        help="Segments computed at once (default: 32); torch: 128 / beam if that is more. Same text, but for --shortlist, int8 and bf16.",
    ),
]
MaxMemory = Annotated[
    Text, typer.Option("--max-memory", metavar="SIZE", help="Take no more memory than this, as 500M or 2G.")
]
Strict = Annotated[
    bool, typer.Option("--strict", help="Exit with 3 if anything was cut, looped, lost, made up or left untranslated.")
]
Format = Annotated[
    Text,
    typer.Option(
        "--format", metavar="NAME", help="Format of the input (default: by the file's ending).", autocompletion=_formats
    ),
]
Field = Annotated[
    Texts, typer.Option("--field", metavar="NAME", help="What to translate of JSON and tables; may be repeated.")
]
Paragraph = Annotated[
    bool, typer.Option("--paragraph", help="Join lines that were wrapped at some width (of 30 columns or more).")
]
Shortlist = Annotated[
    bool, typer.Option("--shortlist", help="Only words that the model's shortlist gives; faster, if it has one.")
]
GlossaryFile = Annotated[
    Text, typer.Option("--glossary", metavar="FILE", help="Terms that must come out as this file says.")
]
NBest = Annotated[Text, typer.Option("--n-best", metavar="N", help="Up to N translations of each line, with scores.")]
Align = Annotated[bool, typer.Option("--align", help="Which words belong together, after each line and a tab.")]
Score = Annotated[bool, typer.Option("--score", help="The score of each line before it, and a tab.")]
NoProgress = Annotated[bool, typer.Option("--no-progress", help="No progress bar.")]

# of summarize
TextFiles = Annotated[Texts, typer.Argument(metavar="FILE", help="File, or a text; - is the standard input.")]
TextOption = Annotated[
    Texts, typer.Option("-t", "--text", metavar="TEXT", help="Text instead of a file; may be repeated.")
]
MaxWords = Annotated[
    Text,
    typer.Option("--words", "--max-words", metavar="N", help="At most N words (but one whole sentence, see above)."),
]
MaxSentences = Annotated[
    Text,
    typer.Option("--sentences", metavar="N", help="At most N sentences (default: 3 where they are extracted)."),
]
Extract = Annotated[
    bool, typer.Option("--extract", help="Whole sentences of the text, in order (default with a length).")
]
Rewrite = Annotated[bool, typer.Option("--rewrite", help="In the model's own words.")]
StrictSummary = Annotated[bool, typer.Option("--strict", help="Exit with 3 if anything was cut, looped or not read.")]

# of qa
Question = Annotated[Text, typer.Argument(metavar="QUESTION", help="The question.")]
ContextFile = Annotated[Text, typer.Argument(metavar="FILE", help="The text; - is the standard input.")]
Context = Annotated[Text, typer.Option("-c", "--context", metavar="TEXT", help="The text itself.")]
Questions = Annotated[
    Texts,
    typer.Option(
        "-q",
        "--question",
        metavar="QUESTION",
        help="A question (not --quiet); may be repeated. The first argument is then FILE.",
    ),
]
QuestionsFile = Annotated[
    Text, typer.Option("--questions", metavar="FILE", help="Questions, one a line; - is the standard input.")
]
TopAnswers = Annotated[
    Text, typer.Option("--top-k", metavar="N", help="Up to N different answers, best first, with scores.")
]
Threshold = Annotated[
    Text, typer.Option("--threshold", metavar="X", help="Score from which on a span is an answer (default: 1).")
]
StrictAnswer = Annotated[
    bool, typer.Option("--strict", help="Exit with 3 if a question was cut, or not all of the text read.")
]
QuietAnswer = Annotated[bool, typer.Option("--quiet", help="No warnings, no notes (here -q is a question).")]

# of show-attention
Task = Annotated[str, typer.Option("--task", metavar="TASK", help="translate, summarize or qa.", autocompletion=_tasks)]
TaskQuestion = Annotated[Text, typer.Option("--question", metavar="TEXT", help="The question of --task qa.")]
Target = Annotated[
    Text, typer.Option("--target", metavar="TEXT", help="Look at this output instead of the model's own.")
]
AttentionInput = Annotated[Texts, typer.Option("-i", "--input", metavar="FILE", help="Read the text from this file.")]
Kind = Annotated[
    Text,
    typer.Option(
        "--kind",
        metavar="KIND",
        help="cross (the default), encoder, decoder, rollout, or all of them in json and csv.",
        autocompletion=_kinds,
    ),
]
Layer = Annotated[
    Text,
    typer.Option(
        "--layer",
        metavar="N",
        help="A layer from 1 on, mean or last (the default; json and csv: all).",
        autocompletion=_layers,
    ),
]
Head = Annotated[
    Text,
    typer.Option(
        "--head",
        metavar="N",
        help="A head from 1 on, mean (the default; json and csv: all), max, or all side by side.",
        autocompletion=_heads,
    ),
]
Row = Annotated[
    Text, typer.Option("--row", metavar="WORD", help="Only this word's row, layer by layer (or head by head).")
]
Part = Annotated[Text, typer.Option("--part", metavar="N", help="Only the N-th part of a text of several sentences.")]
Pieces = Annotated[bool, typer.Option("--pieces/--words", help="Pieces as the model reads them, not words.")]
NoSpecial = Annotated[bool, typer.Option("--no-special", help="Without the task's and the end piece.")]
AsList = Annotated[bool, typer.Option("--list", help="A line of links for each row instead of a grid.")]
Top = Annotated[
    Text,
    typer.Option("--top", metavar="N", help="Links a row in a list (default: 3), and strongest ones named (5)."),
]
Scale = Annotated[
    Text,
    typer.Option(
        "--scale",
        metavar="SCALE",
        help="What is darkest: row (each row's largest; the default), global or log (the largest of all).",
    ),
]
Values = Annotated[bool, typer.Option("--values", help="Numbers in the cells.")]
Ascii = Annotated[bool, typer.Option("--ascii", help="Draw with ASCII only.")]
Color = Annotated[
    Text,
    typer.Option(
        "--color",
        metavar="WHEN",
        envvar="TX_COLOR",
        help="auto (on a terminal; the default), always or never.",
        autocompletion=_colours,
    ),
]
Background = Annotated[
    Text,
    typer.Option("--background", metavar="dark|light", help="The terminal's (default: from COLORFGBG, else dark)."),
]
Width = Annotated[
    Text, typer.Option("--width", metavar="N", help="Columns, from 20 on (default: the terminal's, else 80).")
]
PictureFormat = Annotated[
    Text,
    typer.Option(
        "--format",
        metavar="FORMAT",
        help="text, moses, json, csv, npz, svg, png or html (default: by -o, else text).",
        autocompletion=_pictures,
    ),
]
PictureJson = Annotated[bool, typer.Option("--json", help="Short for --format json.")]
PictureOutput = Annotated[
    Text,
    typer.Option("-o", "--output", "--out", metavar="FILE", help="Write here; the file appears when it is complete."),
]

# of evaluate
OnlyFrom = Annotated[Text, typer.Option("--from", metavar="LANG", help="Only directions from this language.")]
OnlyTo = Annotated[Text, typer.Option("--to", metavar="LANG", help="Only directions to this language.")]
Limit = Annotated[Text, typer.Option("--limit", metavar="N", help="Use the first N lines only.")]
SentencePairs = Annotated[
    str, typer.Argument(metavar="DEV.tsv", help="English, a tab, Chinese on each line; may be .gz.")
]
SummaryPairs = Annotated[
    str, typer.Argument(metavar="FILE.jsonl", help="JSON objects with text and summary, one a line; may be .gz.")
]
AnswerTriples = Annotated[
    str,
    typer.Argument(
        metavar="FILE.jsonl", help="JSON objects with context, question and answer, one a line; may be .gz."
    ),
]
Words = Annotated[Text, typer.Option("--words", metavar="N", help="At most N words.")]
Sentences = Annotated[Text, typer.Option("--sentences", metavar="N", help="At most N sentences.")]
ExtractOnly = Annotated[bool, typer.Option("--extract", help="Whole sentences of the text, in order.")]
AnyThreshold = Annotated[
    Text, typer.Option("--threshold", metavar="X", help="Score from which on a span is an answer (default: all are).")
]
Among = Annotated[
    Text,
    typer.Option("--among", metavar="WORDS", help="Ask of texts of so many words: hide each context among others."),
]

# of models
NamedModel = Annotated[
    str,
    typer.Argument(metavar="NAME|PATH", help="Name of an installed model, or its folder.", autocompletion=_models),
]
ForeignFolder = Annotated[str, typer.Argument(metavar="SRC", help="Folder of a model in another format.")]
NewFolder = Annotated[str, typer.Argument(metavar="DST", help="Folder to be made.")]
Repository = Annotated[str, typer.Argument(metavar="ID", help="OWNER/NAME on the hub.")]
Revision = Annotated[Text, typer.Option("--revision", metavar="REV", help="Branch, tag or commit (default: main).")]

# of help and completion
Topic = Annotated[Texts, typer.Argument(metavar="TOPIC", help="A topic or a command.", autocompletion=_topics)]
Shell = Annotated[
    str, typer.Argument(metavar="SHELL", help="bash, zsh or fish.", autocompletion=lambda: ["bash", "zsh", "fish"])
]
