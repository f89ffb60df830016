"""How well a model does on test sets: reading them, BLEU (Papineni et al. 2002) and chrF (Popović 2015) of translations,
exact match and F1 of an answer. answer_scores.py and summary_scores.py score whole files of answers and summaries."""

from __future__ import annotations

import gzip
import itertools
import json
import re
import string
import time
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any, Protocol, TypeVar

from . import segment
from .errors import InputError, UsageError
from .results import Translation

T = TypeVar("T")

COLUMNS = {"en": 0, "zh": 1}  # of a test set: English<TAB>Chinese, further columns are of no concern
CMRC_MARKS = "-:_*^/\\~`+=，。：？！“”；’《》·、「」（）－～『』"  # all that CMRC's script takes out


class Translates(Protocol):
    """What is evaluated: a pipeline.Translator, or whatever translates like one."""

    def translate(
        self,
        texts: Sequence[str],
        *,
        source: str | None = None,
        target: str | None = None,
        beam_size: int | None = None,
        batch_size: int | None = None,
    ) -> list[Translation]: ...


def evaluate_translation(
    translator: Translates,
    path: str | Path,
    source: str,
    target: str,
    beam_size: int | None = None,
    batch_size: int | None = None,
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
    pairs = first_rows(read_pairs(path), limit)
    if not pairs:
        raise InputError(f"{path} has no sentence pairs")
    try:
        from sacrebleu import BLEU, CHRF
    except ImportError as error:
        raise UsageError('evaluation needs sacrebleu: pip install "sacrebleu>=2.4"') from error

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


def first_rows(rows: Iterable[T], limit: int | None) -> list[T]:
    """The first `limit` of the rows, or all. UsageError for a limit below 1."""
    if limit is not None and limit < 1:
        raise UsageError(f"limit must be at least 1, not {limit}")
    return list(itertools.islice(rows, limit))


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


# --- one answer ---


def exact_match(answer: str, reference: str, chinese: bool | None = None) -> float:
    """1 if both are the same, else 0: the same words (squad_words), or in Chinese the same characters without CMRC's marks.

    `chinese` None: where the answer or the reference has a Chinese character.
    """
    if _is_chinese(answer, reference, chinese):
        return float(_without_marks(answer) == _without_marks(reference))
    return float(squad_words(answer) == squad_words(reference))


def f1(answer: str, reference: str, chinese: bool | None = None) -> float:
    """The harmonic mean of precision and recall of an answer's words; of two answers without words 1, of one 0.

    In English as many words are in common as both have, wherever they stand; in Chinese those of the longest run that
    both have. `chinese` as in `exact_match`.
    """
    chinese = _is_chinese(answer, reference, chinese)
    found, wanted = (cmrc_words(text) if chinese else squad_words(text) for text in (answer, reference))
    if not found or not wanted:
        return float(found == wanted)
    if chinese:
        common = SequenceMatcher(None, found, wanted, autojunk=False).find_longest_match().size
    else:
        common = sum((Counter(found) & Counter(wanted)).values())
    return 2 * common / (len(found) + len(wanted))


def squad_words(text: str) -> list[str]:
    """The words that SQuAD's script compares (Rajpurkar et al. 2016; 2018 for empty answers): in lower case, without
    ASCII punctuation and without articles."""
    kept = "".join(c for c in text.lower() if c not in string.punctuation)
    return re.sub(r"\b(a|an|the)\b", " ", kept).split()


def cmrc_words(text: str) -> list[str]:
    """The words that CMRC's script compares (Cui et al. 2019): each Chinese character, and what stands between them in
    words and marks. Where the script has NLTK part that into words, a pattern does here."""
    return re.findall(r"\w+(?:[.,]\w+)*|[^\w\s]", re.sub(segment.HAN, r" \g<0> ", _without_marks(text)))


def _without_marks(text: str) -> str:
    return "".join(c for c in text.lower().strip() if c not in CMRC_MARKS)


def _is_chinese(answer: str, reference: str, chinese: bool | None) -> bool:
    return re.search(segment.HAN, answer + reference) is not None if chinese is None else chinese
