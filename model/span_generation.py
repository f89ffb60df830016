"""Answers as generated text: the decoder writes a span of the window piece by piece, or nothing where there is none.

The other way to the spans that module `spans` points at. Every step allows only what continues a span of the window
(`rules.OnlySpans`), so what comes out is a stretch of the text. The score of a span y₁ … yₙ of a window x is

    Σ log p(yᵢ | y₁ … yᵢ₋₁, x) + log p(end | y₁ … yₙ, x) − log p(end | nothing yet, x):

the log-odds of this span, whole, against no answer. p is the model's own distribution over the vocabulary, not the one
that the restriction leaves: renormalised, a piece that only one place of the window can follow would cost nothing,
whatever the model thinks of it, so that spans of a window which says little and is little alike itself would get the
better scores (the label bias of Lafferty et al. 2001, §2). As it is, a score depends on what the model would like to say
and not on what else the window offers, so it can be compared between windows, as the pointed spans' can.

A model of others has not learnt to write nothing (T5 was only asked what its texts answer): its p(end | nothing yet) means
nothing, so the score is the logarithm of the probability of the span alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from .config import CheckpointConfig, GenerationConfig
from .generation import Stepper, generate, log_sum_exp
from .rules import FloatArray, IntArray, MinLength, OnlySpans
from .runtime import Runtime
from .spans import Source, reads_kinds
from .tokenizer import Tokenizer

LONGEST = 40  # pieces of an answer
BEAMS = 4  # at least
BATCH = 16  # windows that are computed at once

Span = tuple[float, int, int]  # score, first and last piece, counted from the window's first


def generated_spans(
    runtime: Runtime,
    sources: Sequence[Source],
    n_best: int,
    words: Sequence[Sequence[bool]] | None = None,
    starts: IntArray | None = None,
) -> list[list[Span]]:
    """Up to `n_best` different spans for each of the windows, best first; none for a window without pieces.

    A span whose pieces stand at several places of its window is given at the one around which most of the question
    stands, by the kind of its first piece; where that says nothing, at the first. `words` say for each piece of each window
    whether it has something of a word: every span has one that does. `starts` are as `word_starts` gives them."""
    ordered = sorted(range(len(sources)), key=lambda i: len(sources[i].ids))
    stepper = runtime.stepper(sum(len(source.ids) for source in sources) * max(BEAMS, n_best))
    found: list[list[Span]] = [[] for _ in sources]
    for start in range(0, len(ordered), BATCH):
        batch = ordered[start : start + BATCH]
        with np.errstate(all="ignore"):  # what is no number is found, and said, by the search
            of_batch = [sources[i] for i in batch], n_best, BEAMS, words and [words[i] for i in batch], starts
            spans = search_spans(stepper, runtime.checkpoint.config, *of_batch)
        for i, best in zip(batch, spans, strict=True):
            found[i] = best
    return found


def word_starts(tokenizer: Tokenizer) -> IntArray:
    """For each piece the one that spells the same after a space, or the piece itself, [V]: a model that has learnt to write
    answers as texts of their own begins them so, wherever they stand in a text."""
    pieces = tokenizer.pieces(range(tokenizer.vocab_size))
    ids = {piece: i for i, piece in enumerate(pieces)}
    return np.array([i if piece.startswith(" ") else ids.get(f" {piece}", i) for i, piece in enumerate(pieces)])


def likeliest(
    stepper: Stepper, config: CheckpointConfig, source: Source, forms: Sequence[Sequence[int]]
) -> Sequence[int]:
    """Which of these outputs, all of one length, the model would rather write for a source."""
    special = config.special
    rows = np.arange(len(forms))
    kinds = [source.kinds] * len(forms) if config.model.n_segments else None
    state = stepper.start([source.ids] * len(forms), 1, kinds)
    with np.errstate(all="ignore"):
        for piece in config.tasks["answer"].tgt_prefix or (special.decoder_start,):
            logits = stepper.step(np.full(len(forms), piece, np.int64), state)
        log_p = np.zeros(len(forms))
        for pieces in np.array([[*form, special.eos] for form in forms], np.int64).T:
            log_p += logits[rows, pieces] - log_sum_exp(logits)
            if (pieces != special.eos).any():
                logits = stepper.step(pieces, state)
    return forms[int(log_p.argmax())]


def search_spans(
    stepper: Stepper,
    config: CheckpointConfig,
    sources: Sequence[Source],
    n_best: int,
    beams: int = BEAMS,
    words: Sequence[Sequence[bool]] | None = None,
    starts: IntArray | None = None,
) -> list[list[Span]]:
    """`generated_spans` for one batch of windows, with any engine. The beam is at least `n_best` wide."""
    special, task = config.special, config.tasks["answer"]
    texts = [source.ids[source.first : -1 - len(task.src_suffix)] for source in sources]
    search = GenerationConfig(
        beam_size=max(beams, n_best),
        length_penalty=0.0,
        early_stopping="never",
        max_length_factor=0.0,
        max_length_constant=LONGEST + 1,
    )
    nothing = _Nothing(len(sources), special.eos)
    found = generate(
        stepper,
        [source.ids for source in sources],
        config=search,
        special=special,
        prefix=task.tgt_prefix,
        n_best=n_best,
        rules=[nothing, OnlySpans(texts, LONGEST, special.eos, words, starts), MinLength(1, special.eos)],
        kinds=[source.kinds for source in sources] if config.model.n_segments else None,
        renormalise=False,
    )
    if not reads_kinds(config.model):
        nothing.log_p[:] = 0.0
    return [
        _different((h.log_prob - log_p, *_place(source, text, h.ids, starts)) for h in hypotheses if h.finished)
        for source, text, hypotheses, log_p in zip(sources, texts, found, nothing.log_p.tolist(), strict=True)
    ]


class _Nothing:
    """No restriction: notes with which log-probability each output would end at once, [sources]."""

    def __init__(self, n_sources: int, eos: int) -> None:
        self.log_p, self.eos = np.zeros(n_sources), eos

    def __call__(self, ids: IntArray, sentences: IntArray, logits: FloatArray) -> None:
        if not ids.shape[1]:
            self.log_p[sentences] = logits[:, self.eos] - log_sum_exp(logits)


def _different(spans: Iterable[Span]) -> list[Span]:
    """Without those whose place a better one has."""
    best: dict[tuple[int, int], Span] = {}
    for span in spans:
        best.setdefault(span[1:], span)
    return list(best.values())


def _place(
    source: Source, window: Sequence[int], span: Sequence[int], starts: IntArray | None = None
) -> tuple[int, int]:
    """The first and the last piece of the place in the window where these pieces stand."""
    rest = list(span[1:])
    firsts = window if starts is None else starts[np.asarray(window)].tolist()
    places = [
        a
        for a in range(len(window) - len(rest))
        if window[a + 1 : a + 1 + len(rest)] == rest and span[0] in (window[a], firsts[a])
    ]
    first = max(places, key=lambda a: (int(source.kinds[source.first + a]) - 1) // 3)  # nearness, see `spans`
    return first, first + len(span) - 1
