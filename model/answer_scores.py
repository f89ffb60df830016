"""Answers to the questions of a file, scored as SQuAD's and CMRC's scripts do it, also with each text hidden among others."""

from __future__ import annotations

import itertools
import math
import random
import re
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from . import segment
from .errors import InputError
from .evaluation import exact_match, f1, first_rows, read_rows
from .results import Answer
from .summarizing import n_words


class Answers(Protocol):
    """What is evaluated: an answering.Answerer, or whatever answers like one."""

    def answer(self, context: str, questions: Sequence[str], *, threshold: float) -> list[list[Answer]]: ...


def evaluate_answers(
    answerer: Answers,
    path: str | Path,
    limit: int | None = None,
    threshold: float | None = None,
    among: int | None = None,
    seed: int = 0,
) -> dict[str, Any]:
    """Exact match and F1 of the best answers to the questions of a file.

    `path` is a JSON Lines file, .gz or not, with the fields context, question, answer ("" where the text has none) and
    perhaps answers (all that are right; the best counts). A Chinese question is scored as in CMRC's script, others as in
    SQuAD's. `limit` takes the first questions only. `threshold` None: an answer is given to every question; otherwise as
    in Answerer.answer. `among` asks each question of a text of so many words (a Haystack; `seed` is its).

    Returns `exact_match` and `f1` (0 to 100), `n` (questions), `answered` (how many were given an answer), `words` (of a
    text, on average) and `seconds` (the answering alone); where some questions have no answer, the first four of the
    `answerable` and the `unanswerable` ones too; with `among`, `short`: how many texts have fewer words than that.
    Raises UsageError for a limit below 1, InputError with the line for a file that cannot be used.
    """
    fields = ("context", "question", "answer")
    if among is None:
        asked = first_rows(read_rows(path, fields), limit)
        haystack = None
    else:
        rows = list(read_rows(path, fields))
        asked = first_rows(rows, limit)
        haystack = Haystack(rows, among, seed)
    if not asked:
        raise InputError(f"{path} has no questions")
    scores: dict[str, list[tuple[float, float, bool]]] = {"answerable": [], "unanswerable": []}
    words = seconds = 0.0
    short = 0
    for context, same in itertools.groupby(asked, key=lambda row: str(row["context"])):
        group = list(same)
        text = haystack.hide(context) if haystack else context
        size = n_words(text)
        words += size * len(group)
        short += len(group) * (among is not None and size < among)
        started = time.perf_counter()
        least = -math.inf if threshold is None else threshold
        found = answerer.answer(text, [row["question"] for row in group], threshold=least)
        seconds += time.perf_counter() - started
        for row, answers in zip(group, found, strict=True):
            references = _references(row)
            chinese = segment.guess_language(row["question"]) == "zh"
            best = answers[0].text
            em = max(exact_match(best, reference, chinese) for reference in references)
            overlap = max(f1(best, reference, chinese) for reference in references)
            scores["answerable" if any(references) else "unanswerable"].append((em, overlap, bool(best)))
    result: dict[str, Any] = _means([*scores["answerable"], *scores["unanswerable"]])
    if scores["unanswerable"]:
        result |= {kind: _means(some) for kind, some in scores.items() if some}
    result |= {"words": words / len(asked), "seconds": seconds}
    return result if among is None else {**result, "short": short}


def _references(row: dict[str, Any]) -> list[str]:
    return row.get("answers") or [row["answer"]]


def _means(scores: Sequence[tuple[float, float, bool]]) -> dict[str, Any]:
    n = len(scores)
    return {
        "exact_match": 100 * sum(em for em, _, _ in scores) / n,
        "f1": 100 * sum(overlap for _, overlap, _ in scores) / n,
        "n": n,
        "answered": sum(answered for _, _, answered in scores),
    }


class Haystack:
    """Hides a context of `rows` among their other contexts, until the text has `words` words (summarizing.n_words: a
    Chinese character counts as half of one) or no other context is left that may be used.

    A context that has an answer to one of the questions about the hidden one is not used, or else a right answer could
    come from the wrong place. Of questions without an answer that cannot be known.
    """

    def __init__(self, rows: Sequence[dict[str, Any]], words: int, seed: int = 0) -> None:
        self.words = words
        self.seed = seed
        self._answers: defaultdict[str, set[str]] = defaultdict(set)
        for row in rows:
            self._answers[row["context"]] |= {answer for answer in _references(row) if answer.strip()}
        self._sizes = {context: n_words(context) for context in self._answers}
        self._letters = {context: _letters(context) for context in self._answers}

    def hide(self, context: str) -> str:
        """The context, as it is, somewhere among others, with blank lines between them: the same for the same rows and
        seed, whatever was hidden before."""
        chance = random.Random(f"{self.seed} {context}")
        order = list(self._answers)
        chance.shuffle(order)
        others: list[str] = []
        size = self._sizes[context]
        for other in order:
            if size >= self.words:
                break
            if self._sizes[other] and not self._tells(other, context):
                others.append(other)
                size += self._sizes[other]
        others.insert(chance.randint(0, len(others)), context)
        return "\n\n".join(others)

    def _tells(self, other: str, context: str) -> bool:
        """Whether the other context has an answer, by its characters or by what is compared of them, or is the same."""
        if self._letters[other] == self._letters[context]:
            return True
        folded = other.casefold()
        return any(
            answer.strip().casefold() in folded or (_letters(answer) and _letters(answer) in self._letters[other])
            for answer in self._answers[context]
        )


def _letters(text: str) -> str:
    """The letters and digits of a text, without English articles."""
    return "".join(word for word in re.findall(r"[^\W_]+", text.casefold()) if word not in ("a", "an", "the"))
