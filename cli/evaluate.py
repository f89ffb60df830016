"""`tx evaluate`: a model's scores on a file of test sentences, questions or texts."""

from __future__ import annotations

import gc
import importlib
import json
import os
import stat
from collections.abc import Sequence
from typing import Any

from ..model.errors import InputError, TxError, UsageError
from .commands import refuse_empty, runtime_settings, whole_number
from .inputs import number
from .summarize import kind_of_summary
from .text_io import ExitStatus, Output, complain

WAYS = {
    "default": "summed up as tx summarize does without options",
    "extract": "sentences extracted",
    "rewrite": "rewritten",
}


def translate(
    path: str,
    *,
    source: str | None,
    target: str | None,
    model: str | None,
    beam: str | None,
    batch_size: str | None,
    limit: str | None,
    as_json: bool,
    threads: str | None,
    device: str,
    engine: str,
) -> ExitStatus:
    """BLEU and chrF of every asked direction, each with the signature of sacreBLEU."""
    refuse_empty(**{"from": source, "to": target})
    beam_size = whole_number("--beam", beam, 1, 64)
    rows = whole_number("--batch-size", batch_size, 1, 4096)
    first, settings = _prepare(path, model, limit, device, threads, engine, "sacrebleu")
    with Output(None) as out:
        from ..model.pipeline import Translator

        translator = Translator(model, **settings)
        pairs = [p for p in translator.pairs if source in (None, p[0]) and target in (None, p[1])]
        if not pairs:
            known = ", ".join(f"{a} to {b}" for a, b in translator.pairs)
            asked = f"from {source or 'any language'} to {target or 'any language'}"
            raise UsageError(f"this model does not translate {asked}, but {known}")
        from ..model.evaluation import evaluate_translation

        gc.enable()
        for pair in pairs:
            scores = evaluate_translation(translator, path, pair[0], pair[1], beam_size, rows, first)
            record = {"from": pair[0], "to": pair[1], **scores}
            out.write(_as_json(record) if as_json else _translation_report(path, record))
    return ExitStatus.OK


def qa(
    path: str,
    *,
    threshold: str | None,
    among: str | None,
    model: str | None,
    limit: str | None,
    as_json: bool,
    threads: str | None,
    device: str,
    engine: str,
) -> ExitStatus:
    """Exact match and F1 of the best answers, with `among` in texts of so many words."""
    least = number("--threshold", threshold)
    words = whole_number("--among", among, 1, 10**6)
    first, settings = _prepare(path, model, limit, device, threads, engine)
    with Output(None) as out:
        from ..model.answer_scores import evaluate_answers
        from ..model.answering import Answerer

        answerer = Answerer(model, **settings)
        gc.enable()
        record = {"file": path, **evaluate_answers(answerer, path, first, least, words)}
        out.write(_as_json(record) if as_json else _answers_report(record))
        if record.get("short"):
            complain(
                f"{record['short']} of {record['n']} questions were asked of a text of less than {words} words: "
                f"{path} has too few contexts without their answers",
                kind="note",
            )
    return ExitStatus.OK


def summarize(
    path: str,
    *,
    words: str | None,
    sentences: str | None,
    extract: bool,
    rewrite: bool,
    model: str | None,
    limit: str | None,
    as_json: bool,
    threads: str | None,
    device: str,
    engine: str,
) -> ExitStatus:
    """ROUGE of the summaries, beside that of two baselines of the same length."""
    asked = kind_of_summary(words, sentences, extract, rewrite)
    first, settings = _prepare(path, model, limit, device, threads, engine, "rouge_score", "sumy")
    with Output(None) as out:
        from ..model.summarizing import Summarizer
        from ..model.summary_scores import evaluate_summaries

        summarizer = Summarizer(model, **settings)
        gc.enable()
        scores = evaluate_summaries(summarizer, path, first, **asked)
        record = {"file": path, "way": "extract" if extract else "rewrite" if rewrite else "default", **scores}
        out.write(_as_json(record) if as_json else _summaries_report(record))
    return ExitStatus.OK


def _prepare(
    path: str, model: str | None, limit: str | None, device: str, threads: str | None, engine: str, *packages: str
) -> tuple[int | None, dict[str, Any]]:
    """Checks what all measurements have in common; gives how many lines are asked for and the settings of a Runtime."""
    refuse_empty(model=model)
    first = whole_number("--limit", limit, 1, 10**9)
    n_threads = whole_number("--threads", threads, 1, 1024)
    _check(path, n_threads, *packages)
    return first, runtime_settings(device, n_threads, engine)


def _check(path: str, n_threads: int | None, *packages: str) -> None:
    """Fails at once, before a model is loaded, for a file that cannot be opened or a package that is not installed."""
    if not path:
        raise UsageError("FILE is empty: name the file of the test set")
    try:
        if not stat.S_ISFIFO(os.stat(path).st_mode):  # a pipe can be opened only once
            open(path, "rb").close()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from None
    from ..model.threads import blas_threads

    for package in packages:
        try:
            with blas_threads(n_threads):  # they import NumPy
                importlib.import_module(package)
        except ModuleNotFoundError:
            name = package.replace("_", "-")
            raise TxError(f'scores need {name}: pip install "tx-transformer[eval]"') from None


def _as_json(record: dict[str, Any]) -> str:
    return json.dumps(record, ensure_ascii=False) + "\n"


def _translation_report(path: str, record: dict[str, Any]) -> str:
    """Three lines for people: what was measured, and two scores with the settings that they depend on."""
    signatures = record["signatures"]
    return (
        f"{record['from']} to {record['to']}: {path}, {record['n']} lines in {record['seconds']:.1f} s\n"
        f"  BLEU {record['bleu']:.1f}  {signatures['bleu']}\n"
        f"  chrF {record['chrf']:.1f}  {signatures['chrf']}\n"
    )


def _answers_report(record: dict[str, Any]) -> str:
    rows = [("questions", record)] + [(k, record[k]) for k in ("answerable", "unanswerable") if k in record]
    return (
        f"{record['file']}: {record['n']} questions in {record['seconds']:.1f} s\n"
        + _table(
            ("", "exact match", "F1", "number", "answered"),
            [(k, f"{r['exact_match']:.1f}", f"{r['f1']:.1f}", str(r["n"]), str(r["answered"])) for k, r in rows],
        )
        + f"  texts have {record['words']:.0f} words on average\n"
    )


def _summaries_report(record: dict[str, Any]) -> str:
    rows = [("tx", record), ("LEAD", record["lead"]), ("LexRank", record["lexrank"])]
    return (
        f"{record['file']}: {record['n']} texts in {record['seconds']:.1f} s\n"
        f"  {WAYS[record['way']]}\n"
        + _table(
            ("", "ROUGE-1", "ROUGE-2", "ROUGE-L"),
            [(name, *(f"{r[kind]:.1f}" for kind in ("rouge1", "rouge2", "rougeL"))) for name, r in rows],
        )
        + f"  all three of the same length\n  {record['signature']}\n"
        f"  summaries have {record['words']:.1f} words on average, references {record['reference_words']:.1f}\n"
        f"  made up: {100 * record['made_up']:.1f} % of {record['names_and_numbers']} numbers and capitalised words\n"
    )


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The columns under their heads: the first to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    lines = []
    for first, *others in (head, *rows):
        cells = [first.ljust(widths[0]), *(c.rjust(w) for c, w in zip(others, widths[1:], strict=True))]
        lines.append("  " + "  ".join(cells) + "\n")
    return "".join(lines)
