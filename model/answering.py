"""Questions in, places in a text out: windows over the text, the places the model points at, and how they are merged."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import segment
from .errors import CheckpointError, InputError, UsageError
from .results import Answer
from .runtime import Runtime

if TYPE_CHECKING:
    from .spans import Pieces

MAX_QUESTION_PIECES = 100  # of a longer question the rest is not read; results say so
WINDOW = 200  # pieces of the text that are read at once, as in training
STRIDE = 140  # from the start of one window to that of the next: an answer at an edge of one is well inside another
LONGEST = 40  # pieces of an answer
CANDIDATES = 20  # spans of each window that are compared with those of the others
THRESHOLD = 0.0  # score from which on a span is an answer
BATCH = 16  # windows that are computed at once


class Answerer:
    """Finds the places in a text that answer questions. `model` and the other settings are those of `Runtime`."""

    def __init__(self, model: str | Path | Runtime | None = None, **settings: Any) -> None:
        self.runtime = model if isinstance(model, Runtime) else Runtime(model, **settings)
        self._table: Pieces | None = None

    def answer(
        self, context: str, questions: Sequence[str], *, top_k: int = 1, threshold: float = THRESHOLD
    ) -> list[list[Answer]]:
        """For each question up to `top_k` answers, best first, no two of which overlap or are the same words.

        "No answer" is one of them, with the score `threshold`: spans with a lower score come after it. The text is read
        in overlapping windows, all questions over one reading of it by the tokenizer; what a span's score is depends on
        its window and on nothing else. Of a question only the first MAX_QUESTION_PIECES pieces are read.

        Raises UsageError for settings out of range, InputError for text that UTF-8 cannot hold, CheckpointError for a
        model that has no task "answer" or was not trained to point.
        """
        if isinstance(questions, (str, bytes)):
            raise UsageError(f"questions must be a list of strings, not one {type(questions).__name__}")
        if type(top_k) is not int or top_k < 1:
            raise UsageError(f"top_k must be a whole number from 1 on, not {top_k!r}")
        for name, text in (("the text", context), *((f"question {n}", q) for n, q in enumerate(questions, 1))):
            if not isinstance(text, str):
                raise UsageError(f"{name} must be a string, not {type(text).__name__}")
            try:
                text.encode()
            except UnicodeEncodeError as error:
                raise InputError(f"{name} has a lone surrogate at character {error.start + 1}: not Unicode") from error
        nothing = Answer("", 0, 0, threshold)
        if not any(map(str.isalnum, context)) or not any(any(map(str.isalnum, q)) for q in questions):
            return [[nothing] for _ in questions]
        return self._answer(context, questions, top_k, nothing)

    def cut(self, question: str) -> bool:
        """Whether the question is so long that its end is not read."""
        return len(self.runtime.checkpoint.tokenizer.encode(question)) > MAX_QUESTION_PIECES

    def _answer(self, context: str, questions: Sequence[str], top_k: int, nothing: Answer) -> list[list[Answer]]:
        import numpy as np

        from . import spans

        checkpoint = self.runtime.checkpoint
        tokenizer, special = checkpoint.tokenizer, checkpoint.config.special
        task = checkpoint.config.tasks.get("answer")
        if task is None or checkpoint.config.model.n_segments != spans.SEGMENTS:
            raise CheckpointError(f"the model {checkpoint.path.name} was not trained to find answers in a text")
        if self._table is None:
            self._table = spans.piece_table(tokenizer)
        separator = tokenizer.encode(spans.SEPARATOR)[0]
        ids, offsets = tokenizer.encode_with_places(context)
        starts = list(range(0, max(1, len(ids) - WINDOW + STRIDE), STRIDE))
        jobs = []
        for number, question in enumerate(questions):
            asked = tokenizer.encode(question)[:MAX_QUESTION_PIECES]
            if not any(map(str.isalnum, question)):
                continue
            for start in starts:
                window = ids[start : start + WINDOW]
                src, kinds, first = spans.source_pieces(
                    asked, window, self._table, task.src_prefix, separator, special.eos
                )
                jobs.append((number, start, first, src, kinds))
        jobs.sort(key=lambda job: len(job[3]))
        engine = self.runtime.stepper(sum(len(job[3]) for job in jobs))
        fed = [*(task.tgt_prefix or (special.decoder_start,)), special.eos]
        found: list[list[tuple[float, int, int]]] = [[] for _ in questions]
        for at in range(0, len(jobs), BATCH):
            batch = jobs[at : at + BATCH]
            pointed = engine.cross_attention([job[3] for job in batch], [fed] * len(batch), [job[4] for job in batch])
            for (number, start, first, src, _), weights in zip(batch, pointed, strict=True):
                log_p = np.log(np.maximum(weights[-1, spans.HEAD, -2:], 1e-30)).astype(np.float64)
                log_odds = log_p - log_p[:, -1:]
                text = log_odds[:, first : len(src) - 1]
                best = spans.best_spans(text[0], text[1], LONGEST, CANDIDATES)
                if top_k > 1:  # the best are often variants of one
                    best += spans.disjoint_spans(text[0], text[1], LONGEST, max(CANDIDATES, 2 * top_k))
                for score, a, b in best:
                    if np.isfinite(score):
                        found[number].append((score, int(offsets[start + a][0]), int(offsets[start + b][1])))
        self.runtime.checkpoint.verify()
        bounds = segment.sentences(context)
        return [_choose(context, candidates, top_k, nothing, bounds) for candidates in found]


def _choose(
    context: str,
    candidates: Sequence[tuple[float, int, int]],
    top_k: int,
    nothing: Answer,
    bounds: Sequence[tuple[int, int]],
) -> list[Answer]:
    """The best of the candidates (score, start, end) that neither overlap a better one nor repeat its words."""
    chosen: list[Answer] = []
    words: set[str] = set()
    for score, start, end in sorted(candidates, key=lambda c: (-c[0], c[1], c[2])):
        if len(chosen) == top_k:
            break
        text = context[start:end].strip()
        start += len(context[start:end]) - len(context[start:end].lstrip())
        end = start + len(text)
        if not any(map(str.isalnum, text)) or text.casefold() in words:
            continue
        if any(start < other.end and other.start < end for other in chosen):
            continue
        words.add(text.casefold())
        around = [b for b in bounds if b[0] < end and start < b[1]]
        sentence = (min(around[0][0], start), max(around[-1][1], end)) if around else (start, end)
        chosen.append(Answer(text, start, end, score, sentence))
    place = sum(answer.score >= nothing.score for answer in chosen)
    return [*chosen[:place], nothing, *chosen[place:]][:top_k]
