"""How well a model does on test sets: BLEU (Papineni et al. 2002) and chrF (Popović 2015) of translations, exact match and
F1 of answers, ROUGE (Lin 2004) of summaries."""

from __future__ import annotations

import gzip
import itertools
import json
import math
import re
import string
import time
import unicodedata
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from . import segment
from .errors import InputError, UsageError
from .results import Translation

if TYPE_CHECKING:
    from .answering import Answerer
    from .summarizing import Summarizer

ROUGE = ("rouge1", "rouge2", "rougeL")
COLUMNS = {"en": 0, "zh": 1}  # of a test set: English<TAB>Chinese, further columns are of no concern


class Translates(Protocol):
    """What is evaluated: a pipeline.Translator, or whatever translates like one."""

    def translate(
        self,
        texts: Sequence[str],
        *,
        source: str | None = None,
        target: str | None = None,
        beam_size: int | None = None,
        batch_size: int = 32,
    ) -> list[Translation]: ...


def evaluate_translation(
    translator: Translates,
    path: str | Path,
    source: str,
    target: str,
    beam_size: int | None = None,
    batch_size: int = 32,
    limit: int | None = None,
) -> dict[str, Any]:
    """Translates a test set and scores it against its other column.

    `path` is a TSV file, English in the first column and Chinese in the second, .gz or not; `limit` takes the first
    lines only. Returns `bleu` and `chrf` (0 to 100), sacrebleu's `signatures` of both, `n` (lines), `seconds` (the
    translation alone, loading included) and `flags` (how many translations have which). Raises UsageError for other
    languages or where sacrebleu is not installed, InputError with the line for a file that cannot be used.
    """
    for language in (source, target):
        if language not in COLUMNS:
            raise UsageError(f"a test set has columns for {' and '.join(COLUMNS)}, not for {language!r}")
    if source == target:
        raise UsageError(f"source and target language are both {source!r}: nothing to translate")
    if limit is not None and limit < 1:
        raise UsageError(f"limit must be at least 1, not {limit}")
    try:
        from sacrebleu import BLEU, CHRF
    except ImportError as error:
        raise UsageError('evaluation needs sacrebleu: pip install "sacrebleu>=2.4"') from error

    pairs = list(itertools.islice(read_pairs(path), limit))
    if not pairs:
        raise InputError(f"{path} has no sentence pairs")
    sources = [pair[COLUMNS[source]] for pair in pairs]
    references = [pair[COLUMNS[target]] for pair in pairs]
    started = time.perf_counter()
    results = translator.translate(sources, source=source, target=target, beam_size=beam_size, batch_size=batch_size)
    seconds = time.perf_counter() - started

    outputs = [result.text for result in results]
    bleu = BLEU(tokenize="zh" if target == "zh" else "13a")
    chrf = CHRF()
    return {
        "bleu": bleu.corpus_score(outputs, [references]).score,
        "chrf": chrf.corpus_score(outputs, [references]).score,
        "signatures": {"bleu": bleu.get_signature().format(), "chrf": chrf.get_signature().format()},
        "n": len(pairs),
        "seconds": seconds,
        "flags": dict(sorted(Counter(flag for result in results for flag in result.flags).items())),
    }


def read_pairs(path: str | Path) -> Iterator[tuple[str, str]]:
    """The English and the Chinese of each line; empty lines are passed over. InputError names the file and line."""
    for number, line in _lines(path):
        columns = line.split("\t")
        if len(columns) < 2 or not columns[0].strip() or not columns[1].strip():
            raise InputError(f"{path}, line {number}: expected English, a tab and Chinese")
        yield columns[0], columns[1]


def read_rows(path: str | Path, fields: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The JSON objects of a JSON Lines file, .gz or not, that have the given text fields. InputError names the line."""
    for number, line in _lines(path):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path}, line {number} is not JSON: {' '.join(str(error).split())}") from error
        if not isinstance(row, dict) or not all(isinstance(row.get(field), str) for field in fields):
            raise InputError(f"{path}, line {number}: expected an object with the texts {', '.join(fields)}")
        answers = row.get("answers", [])
        if not isinstance(answers, list) or not all(isinstance(answer, str) for answer in answers):
            raise InputError(f"{path}, line {number}: answers must be a list of texts")
        yield row


def _lines(path: str | Path) -> Iterator[tuple[int, str]]:
    """The lines of a UTF-8 file that are not blank, without their ends, counted from 1. InputError names file and line."""
    opened: Any = gzip.open if str(path).endswith(".gz") else open
    number = 0
    try:
        with opened(path, "rb") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield number, line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}, line {number} is not UTF-8: byte {error.start + 1} cannot be read") from error
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{path} is not a whole gzip file: damaged after line {number}") from error
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error


# --- answers ---


def evaluate_answers(
    answerer: Answerer, path: str | Path, limit: int | None = None, threshold: float | None = None
) -> dict[str, Any]:
    """Exact match and F1, in percent, of the best answers to the questions of a JSON Lines file with the fields context,
    question, answer ("" where the text has none) and perhaps answers (all that are right; the best counts), as in the
    scripts of SQuAD (Rajpurkar et al. 2016) and, for Chinese, CMRC (Cui et al. 2019).

    `threshold` None: an answer is given to every question; otherwise as in Answerer.answer. Returns also `n`, and the
    share of questions `answered`. InputError with the line for a file that cannot be used."""
    em = f_1 = answered = 0.0
    n = 0
    started = time.perf_counter()
    for row in itertools.islice(read_rows(path, ("context", "question", "answer")), limit):
        n += 1
        least = -math.inf if threshold is None else threshold
        text = answerer.answer(row["context"], [row["question"]], threshold=least)[0][0].text
        references = row.get("answers") or [row["answer"]]
        em += max(exact_match(text, reference) for reference in references)
        f_1 += max(f1(text, reference) for reference in references)
        answered += bool(text)
    if not n:
        raise InputError(f"{path} has no questions")
    return {
        "exact_match": 100 * em / n,
        "f1": 100 * f_1 / n,
        "answered": answered / n,
        "n": n,
        "seconds": time.perf_counter() - started,
    }


def normal_words(text: str) -> list[str]:
    """The words that are compared: lower case, without punctuation and English articles; in Chinese a character is a word
    by itself, full-width punctuation is punctuation too, and there are no articles."""
    chinese = re.search(segment.HAN, text) is not None
    kept = "".join(
        c
        for c in text.lower()
        if c not in string.punctuation and not (chinese and unicodedata.category(c).startswith("P"))
    )
    return re.sub(segment.HAN, r" \g<0> ", kept).split() if chinese else re.sub(r"\b(a|an|the)\b", " ", kept).split()


def exact_match(answer: str, reference: str) -> float:
    """1 if both are the same words."""
    return float(normal_words(answer) == normal_words(reference))


def f1(answer: str, reference: str) -> float:
    """The harmonic mean of precision and recall of an answer's words; of two empty ones 1. In Chinese the words that count
    are those of the longest run that both have."""
    found, wanted = normal_words(answer), normal_words(reference)
    if not found or not wanted:
        return float(found == wanted)
    if re.search(segment.HAN, reference):
        common = SequenceMatcher(None, found, wanted, autojunk=False).find_longest_match().size
    else:
        common = sum((Counter(found) & Counter(wanted)).values())
    return 2 * common / (len(found) + len(wanted))


# --- summaries ---


def evaluate_summaries(
    summarizer: Summarizer, path: str | Path, limit: int | None = None, **settings: Any
) -> dict[str, Any]:
    """ROUGE-1, -2 and -L (F1 in percent, rouge-score; a Chinese character is a word) of the summaries of a JSON Lines file
    with the fields text and summary; `settings` are those of Summarizer.summarize. Beside them `lead`: the same of as many
    of the text's first words; and `made_up`: the share of numbers and capitalised words that the text does not have."""
    try:
        from rouge_score.rouge_scorer import RougeScorer
    except ImportError as error:
        raise UsageError('evaluation needs rouge-score: pip install "rouge-score"') from error
    scorer = RougeScorer(list(ROUGE), tokenizer=_Words())
    sums: Counter[str] = Counter()
    lead: Counter[str] = Counter()
    n = made_up = marked = 0
    started = time.perf_counter()
    for row in itertools.islice(read_rows(path, ("text", "summary")), limit):
        n += 1
        summary = summarizer.summarize(row["text"], **settings).text
        first = first_words(row["text"], len(_Words().tokenize(summary)))
        for name in ROUGE:
            sums[name] += scorer.score(row["summary"], summary)[name].fmeasure
            lead[name] += scorer.score(row["summary"], first)[name].fmeasure
        new, all_marked = names_and_numbers(summary, row["text"])
        made_up, marked = made_up + new, marked + all_marked
    if not n:
        raise InputError(f"{path} has no texts")
    return {
        **{name: 100 * sums[name] / n for name in ROUGE},
        "lead": {name: 100 * lead[name] / n for name in ROUGE},
        "made_up": made_up / max(1, marked),
        "n": n,
        "seconds": time.perf_counter() - started,
    }


class _Words:
    """What ROUGE counts: words in lower case, each Chinese character by itself."""

    def tokenize(self, text: str) -> list[str]:
        return re.findall(r"\w+", re.sub(segment.HAN, r" \g<0> ", text.lower()))


def first_words(text: str, n: int) -> str:
    """The beginning of a text, as long as `n` words of ROUGE."""
    return " ".join(_Words().tokenize(text)[:n])


def names_and_numbers(summary: str, text: str) -> tuple[int, int]:
    """How many numbers and capitalised words of the summary the text does not have (a sentence's first word may be there
    in small letters), and how many there are."""
    there = set(re.findall(r"\d+(?:[.,]\d+)*|[^\W\d_]+", text))
    new = total = 0
    for first, last in segment.sentences(summary):
        for place, word in enumerate(re.findall(r"\d+(?:[.,]\d+)*|[^\W\d_]+", summary[first:last])):
            if word[0].isdigit() or word[0].isupper():
                total += 1
                new += not (word in there or (place == 0 and word.lower() in there))
    return new, total
