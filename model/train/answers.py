"""The answers of a model in training, for its dev sets."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from .. import answering, spans
from ..config import POINTING_HEAD, CheckpointConfig
from ..span_generation import Span, search_spans
from ..tokenizer import Tokenizer
from ..torch_engine import TorchStepper

BATCH = 32  # windows


def best_answers(
    stepper: TorchStepper,
    config: CheckpointConfig,
    tokenizer: Tokenizer,
    rows: Sequence[Mapping[str, str]],
    task: str = "answer",
) -> list[str]:
    """For each question the best span of all windows of its text, pointed at or, with the task answer:generate,
    generated. Windows and scores are those of `answering.Answerer`, but there is always an answer (unless the text is
    empty)."""
    reader = spans.Reader(tokenizer, config.tasks["answer"].src_prefix, config.special.eos)
    texts = [reader.text(row["context"]) for row in rows]
    windows = []  # number of the row, place of the window in the text, source
    for n, (row, text) in enumerate(zip(rows, texts, strict=True)):
        asked = reader.question(row["question"], answering.MAX_QUESTION_PIECES)
        for start in range(0, max(1, len(text.ids) - answering.WINDOW + answering.STRIDE), answering.STRIDE):
            windows.append((n, start, reader.source(asked, text, start, start + answering.WINDOW)))
    windows.sort(key=lambda window: len(window[2].ids))
    best = [(-math.inf, "")] * len(rows)
    for first in range(0, len(windows), BATCH):
        batch = windows[first : first + BATCH]
        sources = [source for *_, source in batch]
        found = (
            search_spans(stepper, config, sources, n_best=1)
            if task == "answer:generate"
            else pointed_spans(stepper, config, sources)
        )
        for (n, start, _), candidates in zip(batch, found, strict=True):
            for score, a, b in candidates:
                offsets = texts[n].offsets
                span = rows[n]["context"][offsets[start + a][0] : offsets[start + b][1]]
                best[n] = max(best[n], (score, span.strip()), key=lambda one: one[0])
    return [span for _, span in best]


def pointed_spans(stepper: TorchStepper, config: CheckpointConfig, sources: Sequence[spans.Source]) -> list[list[Span]]:
    """The best span of each window by the log-odds against its end piece; none for a window without pieces."""
    fed = [*config.tasks["answer"].tgt_prefix, config.special.eos]
    src, kinds = [source.ids for source in sources], [source.kinds for source in sources]
    found = []
    for source, weights in zip(sources, stepper.cross_attention(src, [fed] * len(src), kinds), strict=True):
        log_p = np.log(np.maximum(weights[-1, POINTING_HEAD], 1e-30)).astype(np.float64)
        text = (log_p - log_p[:, -1:])[:, source.first : -1]
        found.append(spans.best_spans(text[0], text[1], answering.LONGEST))
    return found
