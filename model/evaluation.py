"""How well a model translates: BLEU (Papineni et al. 2002) and chrF (Popović 2015) on a test set, by sacrebleu."""

from __future__ import annotations

import gzip
import itertools
import time
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from .errors import InputError, UsageError
from .results import Translation

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
    opened: Any = gzip.open if str(path).endswith(".gz") else open
    number = 0
    try:
        with opened(path, "rb") as file:
            for number, line in enumerate(file, start=1):
                if not line.strip():
                    continue
                columns = line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n").split("\t")
                if len(columns) < 2 or not columns[0].strip() or not columns[1].strip():
                    raise InputError(f"{path}, line {number}: expected English, a tab and Chinese")
                yield columns[0], columns[1]
    except UnicodeDecodeError as error:
        raise InputError(f"{path}, line {number} is not UTF-8: byte {error.start + 1} cannot be read") from error
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{path} is not a whole gzip file: damaged after line {number}") from error
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error
