"""`tx evaluate`: names and help of its commands, as app.py has those of the others."""

from __future__ import annotations

from typing import Any

from . import options as o
from . import parser

app = parser.group(
    """Measures a model on a file of your own.

    \b
    Examples:
      tx evaluate translate dev.tsv --from en --to zh
      tx evaluate summarize articles.jsonl --limit 200
      tx evaluate qa questions.jsonl.gz --json
    """
)
app.callback()(parser.help_if_alone)


def _measure(name: str, options: dict[str, Any]) -> int:
    """Calls the function of that name in module evaluate; its keywords are what the options are called here."""
    from . import evaluate

    return int(getattr(evaluate, name)(**{key: value for key, value in options.items() if key != "debug"}))


@app.command("translate", cls=parser.Command, epilog=parser.EXIT_CODES_PLAIN)
def evaluate_translate(
    path: o.SentencePairs,
    source: o.OnlyFrom = None,
    target: o.OnlyTo = None,
    model: o.Model = None,
    beam: o.Beam = None,
    batch_size: o.BatchSize = None,
    limit: o.Limit = None,
    as_json: o.Json = False,
    threads: o.Threads = None,
    device: o.Device = "cpu",
    engine: o.Engine = "auto",
    debug: o.Debug = False,
) -> int:
    """Prints BLEU and chrF of every direction.

    The signatures of sacreBLEU, which say how a score was computed, are printed with it.

    \b
    Examples:
      tx evaluate translate dev.tsv
      tx evaluate translate dev.tsv --from en --to zh --limit 200
    """
    return _measure("translate", locals())


@app.command("summarize", cls=parser.Command, epilog=parser.EXIT_CODES_PLAIN)
def evaluate_summarize(
    path: o.SummaryPairs,
    words: o.Words = None,
    sentences: o.Sentences = None,
    extract: o.ExtractOnly = False,
    rewrite: o.Rewrite = False,
    model: o.Model = None,
    limit: o.Limit = None,
    as_json: o.Json = False,
    threads: o.Threads = None,
    device: o.Device = "cpu",
    engine: o.Engine = "auto",
    debug: o.Debug = False,
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
    return _measure("summarize", locals())


@app.command("qa", cls=parser.Command, epilog=parser.EXIT_CODES_PLAIN)
def evaluate_qa(
    path: o.AnswerTriples,
    threshold: o.AnyThreshold = None,
    among: o.Among = None,
    model: o.Model = None,
    limit: o.Limit = None,
    as_json: o.Json = False,
    threads: o.Threads = None,
    device: o.Device = "cpu",
    engine: o.Engine = "auto",
    debug: o.Debug = False,
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
    return _measure("qa", locals())
