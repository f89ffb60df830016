"""Long text in, short text out: in the model's words or in sentences of the text, in parts where it is long."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import segment
from .config import GenerationConfig
from .errors import CheckpointError, InputError, UsageError
from .results import Summary
from .runtime import Job, Runtime, check_whole

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from .spans import Pieces

MAX_SOURCE_PIECES = 190  # that are read at once, as in training
SENTENCES = 3  # that are extracted where no length is given
REWRITES = False  # whether the model's own words are the default: where they serve better on the dev sets
MAX_ROUNDS = 6  # of summing up sums
BATCH = 16


class Summarizer:
    """Sums up texts. `model` and the other settings are those of `Runtime`."""

    def __init__(self, model: str | Path | Runtime | None = None, **settings: Any) -> None:
        self.runtime = model if isinstance(model, Runtime) else Runtime(model, **settings)
        self._table: Pieces | None = None

    def summarize(
        self, text: str, *, words: int | None = None, sentences: int | None = None, extract: bool = True
    ) -> Summary:
        """Sums a text up: with `extract` in whole sentences of the text, else in the model's own.

        `words` and `sentences` are the most that the summary may have (a Chinese character counts as half a word); it is
        never longer than the text, and ends where a sentence ends. A text of one sentence is its own summary. A text
        longer than the model reads at once is read in parts. Where no sentence is as short as `words`, the shortest (in
        the model's own words: the first) is the summary; a text without letters is its own. In its own words the model
        may use no digit and no rare capitalised piece that the text does not have.

        Raises UsageError for settings out of range, InputError for text that UTF-8 cannot hold, CheckpointError for a
        model without the task.
        """
        if not isinstance(text, str):
            raise UsageError(f"the text must be a string, not {type(text).__name__}")
        for name, value in (("words", words), ("sentences", sentences)):
            if value is not None:
                check_whole(name, value)
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise InputError(f"the text has a lone surrogate at character {error.start + 1}: not Unicode") from error
        bounds = segment.sentences(text)
        if len(bounds) <= 1 or not any(map(str.isalpha, text)):
            return Summary(text.strip(), tuple(bounds), flags=("copied",))
        if "summarize" not in self.runtime.checkpoint.config.tasks:
            raise CheckpointError(f"the model {self.runtime.path.name} was not trained to sum up")
        try:
            if extract:
                return self._extract(text, bounds, words, sentences)
            return self._rewrite(text, bounds, words, sentences)
        finally:
            self.runtime.checkpoint.verify()

    # -- in sentences of the text --

    def _extract(self, text: str, bounds: list[tuple[int, int]], words: int | None, sentences: int | None) -> Summary:
        scores, parts = self._scores(text, bounds)
        sizes = [n_words(text[a:b]) for a, b in bounds]
        chosen: list[int] = []
        length = 0.0
        for i in sorted(range(len(bounds)), key=lambda i: (-scores[i], i)):
            if len(chosen) >= (sentences or (len(bounds) if words else SENTENCES)):
                break
            if words is None or length + sizes[i] <= words:
                chosen.append(i)
                length += sizes[i]
        chosen = sorted(chosen) or [min(range(len(bounds)), key=sizes.__getitem__)]
        spans = tuple(bounds[i] for i in chosen)
        return Summary(_join_spans(text, spans), spans, parts, ("parts",) if parts > 1 else ())

    def _scores(self, text: str, bounds: Sequence[tuple[int, int]]) -> tuple[list[float], int]:
        """How much attention each sentence gets while the model sums up the part that the sentence stands in: the mean
        over layers, heads and pieces of the summary, of all pieces of the sentence together, times the share of the part
        in the text; and how many parts there are."""
        checkpoint = self.runtime.checkpoint
        encode, task = checkpoint.tokenizer.encode, checkpoint.config.tasks["summarize"]
        groups = self._groups([text[a:b] for a, b in bounds])
        jobs: list[Job] = []
        lengths: list[list[int]] = []  # of the sentences of each group, in pieces
        for group in groups:
            pieces = [encode(sentence) for sentence in group]
            lengths.append([len(p) for p in pieces])
            jobs.append(("summarize", tuple([i for p in pieces for i in p][:MAX_SOURCE_PIECES])))
        found = self.runtime.generate(jobs, dataclasses.replace(self._search(), beam_size=1), BATCH)
        special = checkpoint.config.special
        src = [[*task.src_prefix, *ids, special.eos] for _, ids in jobs]
        tgt = [[*(task.tgt_prefix or (special.decoder_start,)), *found[job].ids] for job in jobs]
        engine = self.runtime.stepper(0)
        scores: list[float] = []
        total = sum(map(sum, lengths))
        for start in range(0, len(jobs), BATCH):
            for maps, sizes in zip(
                engine.cross_attention(src[start : start + BATCH], tgt[start : start + BATCH]),
                lengths[start : start + BATCH],
                strict=True,
            ):
                weights = maps.mean(axis=(0, 1, 2))[len(task.src_prefix) : -1]
                at = 0
                for size in sizes:
                    scores.append(float(weights[at : at + size].sum()) * sum(sizes) / total)
                    at += size
        return scores, len(groups)

    def _search(self) -> GenerationConfig:
        """The model's own search, but not longer than the source and no four pieces twice."""
        settings = self.runtime.checkpoint.config.generation
        return dataclasses.replace(settings, max_length_factor=1.0, max_length_constant=0, no_repeat_ngram=4)

    # -- in the model's words --

    def _rewrite(self, text: str, bounds: list[tuple[int, int]], words: int | None, sentences: int | None) -> Summary:
        flags: set[str] = set()
        parts = 1
        current = [text[a:b] for a, b in bounds]
        for round_number in range(MAX_ROUNDS):
            groups = self._groups(current)
            parts = len(groups) if round_number == 0 else parts
            written = self._write([_join(group) for group in groups], flags)
            current = [part[a:b] for part in written for a, b in segment.sentences(part)]
            if len(groups) == 1 or sum(map(n_words, current)) <= (words or 0) or len(current) <= (sentences or 1):
                break
        while len(current) > 1 and len(_join(current)) > len(text):
            current.pop()
        summary = _fit(current, words, sentences)
        return Summary(summary, (), parts, tuple(sorted(flags | ({"parts"} if parts > 1 else set()))))

    def _groups(self, sentences: Sequence[str]) -> list[list[str]]:
        """Consecutive sentences together as long as they fit; one that is too long by itself is cut to what fits."""
        encode = self.runtime.checkpoint.tokenizer.encode
        groups: list[list[str]] = []
        room = 0
        for sentence in sentences:
            n = len(encode(" " + sentence))
            if n > room or not groups:
                groups.append([])
                room = MAX_SOURCE_PIECES
            groups[-1].append(sentence)
            room -= n
        return groups

    def _write(self, texts: Sequence[str], flags: set[str]) -> list[str]:
        checkpoint = self.runtime.checkpoint
        tokenizer = checkpoint.tokenizer
        jobs: list[Job] = [("summarize", tuple(tokenizer.encode(t)[:MAX_SOURCE_PIECES])) for t in texts]
        found = self.runtime.generate(jobs, self._search(), BATCH, rules=lambda src: [self._only_from_source(src)])
        out = []
        for job, text in zip(jobs, texts, strict=True):
            best = found[job]
            flags.update({"looped"} if best.looped else {"cut"} if not best.finished else ())
            written = tokenizer.decode(best.ids).strip()
            if best.looped or not best.finished:  # what it ends in is no whole sentence
                bounds = segment.sentences(written)[:-1]
                written = written[: bounds[-1][1]] if bounds else ""
            out.append(written if written and len(written) <= len(text) else text[slice(*segment.sentences(text)[0])])
        return out

    def _only_from_source(self, src: Sequence[Sequence[int]]) -> Any:
        """No number and no rare capitalised piece that the source does not have, in whatever case."""
        import numpy as np

        from . import spans
        from .generation import OnlyFromSource

        tokenizer = self.runtime.checkpoint.tokenizer
        if self._table is None:
            self._table = spans.piece_table(tokenizer)
        pieces = tokenizer.pieces(range(tokenizer.vocab_size))
        digits = np.array([any(map(str.isdigit, p)) for p in pieces])
        names = np.array([p != p.lower() for p in pieces]) & ~self._table.common
        forbidden: npt.NDArray[np.bool_] = np.tile(digits | names, (len(src), 1))
        for row, ids in zip(forbidden, src, strict=True):
            row &= ~np.isin(self._table.classes, self._table.classes[np.array(ids)])
        return OnlyFromSource(forbidden)


def n_words(text: str) -> float:
    """The length of a text in words; a Chinese character counts as half of one."""
    han = len(re.findall(segment.HAN, text))
    return len(re.findall(r"\w+", re.sub(segment.HAN, " ", text))) + han / 2


def _join(sentences: Sequence[str]) -> str:
    """Sentences one after the other: with a space between them, except after a Chinese mark."""
    out = ""
    for sentence in sentences:
        out += (" " if out and out[-1] not in "。！？；" else "") + sentence
    return out


def _join_spans(text: str, spans: Sequence[tuple[int, int]]) -> str:
    """These parts of the text as `_join` puts them together, but nothing where nothing is between them in the text, so
    that the result is never longer."""
    out = ""
    for i, (start, end) in enumerate(spans):
        part = text[start:end]
        out = out + part if i and spans[i - 1][1] == start else _join([out, part] if out else [part])
    return out


def _fit(sentences: Sequence[str], words: int | None, most: int | None) -> str:
    """The first sentences that keep to the lengths, at least one."""
    kept = list(sentences[:1])
    for sentence in sentences[1:]:
        if (most is not None and len(kept) >= most) or (
            words is not None and sum(map(n_words, [*kept, sentence])) > words
        ):
            break
        kept.append(sentence)
    return _join(kept)
