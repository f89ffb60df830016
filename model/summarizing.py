"""Long text in, short text out: in the model's words or in sentences of the text, in parts where it is long."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from . import prose, segment
from .config import POINTING_HEAD, GenerationConfig
from .results import Hypothesis, Summary
from .runtime import Job, Runtime, check_text, check_whole, with_beam
from .tokenizer import BYTES

if TYPE_CHECKING:
    from .faithful import Vocabulary

MAX_SOURCE_PIECES = 128  # that a model of ours reads at once, as in training (Summarizer.room for others)
MAX_PIECES = 64  # that are written for one part
MAX_PARTS = 32  # of a text that are read: of a longer one, those that have most in common with all of it
SENTENCES = 3  # that are extracted where no length is given
# Languages in which the model's own words are the default: on the dev sets (card of the weights) they were further above
# the text's first words than a sentence chosen from it was.
REWRITES = frozenset({"en", "zh"})
REWRITES_FROM = 60  # words: of a shorter text a sentence of its own says it better
# Of the search for Chinese, whose summaries are titles as often as sentences: with 1, those of papers were twice as long as
# the papers' own and no better than the first words.
LENGTH_PENALTY = {"zh": 0.4}
# Share of a text's pieces that are bytes of characters which the vocabulary has not, from which on nothing is written about it.
# In training texts it is 0.15 at the most; in traditional Chinese or Russian 0.7 and more.
UNKNOWN = 0.3
SHORTEST = 5  # pieces of a sentence that is worth looking for
# A sentence of more pieces than MAX_SOURCE_PIECES where it is the whole text, else of LONGEST, is one for want of marks (a
# transcript): it is read in parts of PART pieces at the most, which is as long as a sentence is.
LONGEST = 4 * MAX_SOURCE_PIECES
PART = 32
BATCH = 16
REPEATED = 0.8  # share of a sentence's units which others have that were chosen before it, from which on it is left out


class Read(NamedTuple):
    """The sentences of a text that may stand in its summary: their places, themselves on one line, their units; and
    whether some are parts of a sentence that was too long."""

    places: list[tuple[int, int]]
    sentences: list[str]
    units: list[Counter[str]]
    centrality: list[float]
    split: bool = False

    @classmethod
    def of(cls, text: str, parts_of: Callable[[str, int], list[tuple[int, int]]] | None = None) -> Read:
        """`parts_of` gives the places of the parts of a sentence, one if it has no more than so many pieces; without it, no
        sentence is too long."""
        from .matching import units

        places = prose.sentences(text)
        are_prose = prose.are_prose(text, places)
        split = False
        if parts_of is not None:
            whole, places, are_prose = list(zip(places, are_prose, strict=True)), [], []
            longest = LONGEST if len(whole) > 1 else MAX_SOURCE_PIECES
            for (start, end), good in whole:
                parts = [(start + a, start + b) for a, b in parts_of(text[start:end], longest)]
                split = split or len(parts) > 1
                places += parts
                are_prose += [good] if len(parts) == 1 else [prose.is_prose(text[a:b]) for a, b in parts]
        if any(are_prose):  # else anything is better than nothing
            places = [place for place, good in zip(places, are_prose, strict=True) if good]
        sentences = [prose.clean(text[a:b]) for a, b in places]
        counts = [Counter(unit for unit, _, _ in units(sentence)) for sentence in sentences]
        return cls(places, sentences, counts, prose.centrality(counts), split)


class Summarizer:
    """Sums up texts. `model` and the other settings are those of `Runtime`."""

    def __init__(self, model: str | Path | Runtime | None = None, **settings: Any) -> None:
        self.runtime = model if isinstance(model, Runtime) else Runtime(model, **settings)

    def summarize(
        self, text: str, *, words: int | None = None, sentences: int | None = None, extract: bool | None = None
    ) -> Summary:
        """Sums a text up: with `extract` in whole sentences of the text, without in the model's own words. None: in whole
        sentences if a length is given, for the model writes as long as it has learnt; else by language (REWRITES), a short text (of less than
        REWRITES_FROM words) in a sentence of its own.

        `words` and `sentences` are the most that the summary may have (a Chinese character counts as half a word); it is
        never longer than the text, and ends where a sentence ends. A text of one sentence is its own summary, but one that is
        longer than the model reads at once is taken in parts that end at lines, clauses or words, with the flag "split". A
        text longer than the model reads at once is read in parts, of MAX_PARTS at the most; for a summary in the model's words
        the sentences that say most are chosen from all of it and summed up. Headings, code, tables, the heads
        of a log's entries and the like are neither read nor chosen, unless there is nothing else (module prose). Where no
        sentence is as short as `words`, the shortest (in the model's own words: the first) is the summary, with the flag
        "longer"; a text without letters is its own. In its own words the model makes up no number and no name; where what it
        writes is not fit to be shown (module faithful), the best sentence that it read is the summary, "extracted".

        Raises UsageError for settings out of range, InputError for text that UTF-8 cannot hold, CheckpointError for a
        model without the task.
        """
        check_text("the text", text)
        for name, value in (("words", words), ("sentences", sentences)):
            if value is not None:
                check_whole(name, value)
        summary = self._summary(text, words, sentences, extract)
        if words is not None and n_words(summary.text) > words:
            summary = dataclasses.replace(summary, flags=(*summary.flags, "longer"))
        return summary

    def _summary(self, text: str, words: int | None, sentences: int | None, extract: bool | None) -> Summary:
        bounds = segment.sentences(text)
        if not bounds:
            return Summary("", flags=("empty",))
        alone = len(bounds) == 1 and self._fits(text[slice(*bounds[0])], self.room)
        if alone or not any(map(str.isalpha, text)):
            return Summary(text.strip(), tuple(bounds), flags=("copied",))
        self.runtime.task("summarize")
        if extract is None:
            short = n_words(text) < REWRITES_FROM
            extract = bool(words or sentences) or short
            extract = extract or (self._ours and segment.guess_language(text) not in REWRITES)
            if short and not words:
                sentences = sentences or 1
        try:
            read = self.read(text, words)
            if not extract:
                summary = self._rewrite(text, read, words, sentences)
            else:
                scores, parts = self._scores(read)
                summary = _extract(text, read, scores, words, sentences, Summary("", (), parts, _flags(parts)))
            return dataclasses.replace(summary, flags=(*summary.flags, "split")) if read.split else summary
        finally:
            self.runtime.checkpoint.verify()

    @functools.cached_property
    def _ours(self) -> bool:
        """Whether the model copies from its source as those of ours do: then one head shows from where, and what was measured
        on them holds."""
        return self.runtime.checkpoint.config.model.pointer_generator

    @functools.cached_property
    def room(self) -> int:
        """How many pieces of a text the model reads at once. Sinusoids do not end, and so say nothing of it."""
        task, model = self.runtime.task("summarize"), self.runtime.checkpoint.config.model
        if model.positions == "sinusoidal":
            return MAX_SOURCE_PIECES
        return max(1, model.max_positions - len(task.src_prefix) - 1 - len(task.src_suffix))

    def read(self, text: str, words: int | None = None) -> Read:
        """The sentences of a text; where one is too long, parts of it, none of more than so many words."""
        return Read.of(text, functools.partial(self._parts, words=words))

    def _parts(self, sentence: str, longest: int, words: int | None) -> list[tuple[int, int]]:
        if self._fits(sentence, longest):
            return [(0, len(sentence))]
        found, start = [], 0
        for part in segment.split(
            sentence, lambda part: self._fits(part, PART) and (not words or n_words(part) <= words)
        ):
            if part.translate:
                found.append((start, start + len(part.text)))
            start += len(part.text)
        return found

    def _fits(self, sentence: str, longest: int) -> bool:
        """Whether it has no more pieces; a character has four at the most."""
        return 4 * len(sentence) <= longest or len(self.runtime.checkpoint.tokenizer.encode(sentence)) <= longest

    # -- in sentences of the text --

    def _scores(self, read: Read) -> tuple[dict[int, float], int]:
        """The score of each sentence of the parts that are read, and how many parts the text has. Four things add up, each
        from 0 to 1: what it has in common with the whole text, how early it stands, and what the model says (_signals)."""
        groups = self._groups(read.sentences)
        parts = len(groups)
        groups = _most_central(groups, read.centrality)
        return self._scores_in(read, groups), parts

    def _scores_in(self, read: Read, groups: Sequence[Sequence[int]]) -> dict[int, float]:
        attention, overlap = self._signals(read, groups)
        read_ones = [i for group in groups for i in group]
        return {i: read.centrality[i] + 1 / (1 + i) + attention[i] + overlap[i] for i in read_ones}

    def _signals(self, read: Read, groups: Sequence[Sequence[int]]) -> tuple[dict[int, float], dict[int, float]]:
        """What the model says of sentences while it sums up the part that each stands in: how much attention (of the head
        that copies, if the model has one) all pieces of the sentence get together, over the most that one of the part gets;
        and how much of the units of the model's summary and of the sentence both have (F1)."""
        from .matching import units

        checkpoint, task = self.runtime.checkpoint, self.runtime.task("summarize")
        encode, special = checkpoint.tokenizer.encode, checkpoint.config.special
        jobs: list[Job] = []
        lengths: list[list[int]] = []  # of the sentences of each group, in pieces
        for group in groups:
            pieces = [encode(read.sentences[i]) for i in group]
            lengths.append([len(p) for p in pieces])
            jobs.append(("summarize", tuple([i for p in pieces for i in p][: self.room])))
        found = self.runtime.generate(jobs, dataclasses.replace(self._search(), beam_size=1), BATCH)
        overlap: dict[int, float] = {}
        for group, job in zip(groups, jobs, strict=True):
            written = Counter(unit for unit, _, _ in units(checkpoint.target_tokenizer.decode(found[job].ids)))
            overlap |= {i: _f1(read.units[i], written) for i in group}
        if not self._ours:
            return dict.fromkeys(overlap, 0.0), overlap
        src = [[*task.src_prefix, *ids, special.eos, *task.src_suffix] for _, ids in jobs]
        tgt = [[*(task.tgt_prefix or (special.decoder_start,)), *found[job].ids] for job in jobs]
        engine = self.runtime.stepper(0)
        attention: dict[int, float] = {}
        for start in range(0, len(jobs), BATCH):
            batch = slice(start, start + BATCH)
            maps = engine.cross_attention(src[batch], tgt[batch])
            for group, sizes, weights in zip(groups[batch], lengths[batch], maps, strict=True):
                on_pieces = weights[-1, POINTING_HEAD].mean(axis=0)[len(task.src_prefix) : -1 - len(task.src_suffix)]
                ends = [sum(sizes[: k + 1]) for k in range(len(sizes))]
                looks = [float(on_pieces[end - size : end].sum()) for size, end in zip(sizes, ends, strict=True)]
                attention |= {i: look / (max(looks) or 1.0) for i, look in zip(group, looks, strict=True)}
        return attention, overlap

    def _search(self, text: str = "") -> GenerationConfig:
        """The model's own search, but not longer than the source and no four pieces twice."""
        config = self.runtime.checkpoint.config
        own = dataclasses.replace(config.generation, **self.runtime.task("summarize").search)
        if not self._ours:
            unused = range(self.runtime.checkpoint.target_tokenizer.vocab_size, config.model.tgt_vocab_size)
            return dataclasses.replace(
                own,
                suppress=(*own.suppress, *unused),  # rows of the embedding that no piece has
                max_length_factor=1.0,
                max_length_constant=0,
                min_length=min(own.min_length, len(self.job(text)[1]) // 2),
                no_repeat_ngram=own.no_repeat_ngram or 4,
            )
        return dataclasses.replace(
            own,
            length_penalty=LENGTH_PENALTY.get(segment.guess_language(text), 1.0),
            max_length_factor=1.0,
            max_length_constant=0,
            max_length=MAX_PIECES,
            no_repeat_ngram=4,
            suppress=self._bytes,
        )

    @functools.cached_property
    def _bytes(self) -> tuple[int, ...]:
        """The pieces that are one byte of a character: put together, they could spell characters that the text has not."""
        tokenizer = self.runtime.checkpoint.tokenizer
        pieces = enumerate(tokenizer.pieces(range(tokenizer.vocab_size)))
        return tuple(i for i, piece in pieces if piece in BYTES)

    # -- in the model's words --

    def _rewrite(self, text: str, read: Read, words: int | None, sentences: int | None) -> Summary:
        chosen, parts = self._chosen(read)
        reading = _join([read.sentences[i] for i in chosen])
        flags = ("parts", "skimmed") if parts > 1 else ()
        written, flag = self._write(reading)
        current = [written[a:b] for a, b in segment.sentences(written)]
        if current and len(written) <= len(text):
            return Summary(_fit(current, words, sentences), (), parts, tuple(sorted((*flags, *flag))))
        scores = self._scores_in(read, [chosen])
        return _extract(text, read, scores, words, 1, Summary("", (), parts, ("extracted", *flags)))

    def can_spell(self, text: str) -> bool:
        """Whether the vocabulary has the characters of the text, but for some; else the model would know little of it."""
        ids = self.job(text)[1]
        unknown = sum(i in self._unknown for i in ids)
        return unknown <= UNKNOWN * len(ids)

    @functools.cached_property
    def _unknown(self) -> frozenset[int]:
        """The pieces that stand for a character which the vocabulary has not, or for a byte of one or more of them."""
        tokenizer = self.runtime.checkpoint.tokenizer
        pieces = enumerate(tokenizer.pieces(range(tokenizer.vocab_size)))
        return frozenset(i for i, piece in pieces if piece == "<unk>" or re.fullmatch(r"(?:<0x[0-9A-F]{2}>)+", piece))

    def reading(self, read: Read) -> tuple[str, int]:
        """What the model reads of a text to sum it up in its own words, and how many parts the text has."""
        chosen, parts = self._chosen(read)
        return _join([read.sentences[i] for i in chosen]), parts

    def _chosen(self, read: Read) -> tuple[list[int], int]:
        groups = self._groups(read.sentences)
        return groups[0] if len(groups) == 1 else self._telling(read), len(groups)

    def _telling(self, read: Read) -> list[int]:
        """As many sentences as are read at once, in the order of the text: those that have most in common with all of it
        or stand early. (On training rows as good as the first part alone, and better than sums of the parts' sums.)"""
        encode = self.runtime.checkpoint.tokenizer.encode
        order = sorted(range(len(read.sentences)), key=lambda i: (-(read.centrality[i] + 1 / (1 + i)), i))
        chosen: list[int] = []
        room = self.room
        for i in order:
            n = len(encode(" " + read.sentences[i]))
            if n <= room or not chosen:
                chosen.append(i)
                room -= n
            if room < SHORTEST:
                break
        return sorted(chosen)

    def _groups(self, sentences: Sequence[str]) -> list[list[int]]:
        """Consecutive sentences together as long as they fit; one that is too long by itself is cut to what fits."""
        encode = self.runtime.checkpoint.tokenizer.encode
        groups: list[list[int]] = []
        room = 0
        for i, sentence in enumerate(sentences):
            n = len(encode(" " + sentence))
            if n > room or not groups:
                groups.append([])
                room = self.room
            groups[-1].append(i)
            room -= n
        return groups

    def _write(self, text: str) -> tuple[str, tuple[str, ...]]:
        """The model's summary of a text that it can read at once, and flags."""
        return self.shown(text, self.search(text)) if self.can_spell(text) else ("", ())

    def shown(self, text: str, best: Hypothesis) -> tuple[str, tuple[str, ...]]:
        """What is shown of what the model wrote, "" where it is not fit (module faithful), and flags. An end that is no whole
        sentence is left out; a whole one without a mark, as titles are, gets one."""
        from . import faithful

        written = self.runtime.checkpoint.target_tokenizer.decode(best.ids).strip()
        if best.looped or not best.finished:
            bounds = segment.sentences(written)[:-1]
            written = written[: bounds[-1][1]] if bounds else ""
        if self._ours and not faithful.is_fit(written, text, best.log_prob / (1 + len(best.ids))):
            return "", ()
        if not faithful.is_tidy(written, text):
            return "", ()
        if not prose.is_marked(written):
            written += "。" if re.match(segment.HAN, written[-1]) else "."
        return written, ("looped",) if best.looped else ("cut",) if not best.finished else ()

    def job(self, text: str) -> Job:
        """Of a text that is longer than the model can read at once, its beginning."""
        return "summarize", tuple(self.runtime.checkpoint.tokenizer.encode(text)[: self.room])

    def search(self, text: str, beam_size: int | None = None) -> Hypothesis:
        """What the model writes for a text that it can read at once."""
        job, search = self.job(text), with_beam(self._search(text), beam_size)
        tokenizer = self.runtime.checkpoint.target_tokenizer
        ids = job[1] if tokenizer is self.runtime.checkpoint.tokenizer else tokenizer.encode(text)
        return self.runtime.generate([job], search, 1, rules=lambda _: [self._faithful(ids)])[job]

    def _faithful(self, ids: Sequence[int]) -> Any:
        """The rule that no number or name is made up that these pieces have not."""
        from . import faithful

        return faithful.WordsOfSource(self._vocabulary, [ids])

    @functools.cached_property
    def _vocabulary(self) -> Vocabulary:
        from . import faithful

        return faithful.Vocabulary(self.runtime.checkpoint.target_tokenizer)


def n_words(text: str) -> float:
    """The length of a text in words; a Chinese character counts as half of one."""
    han = len(re.findall(segment.HAN, text))
    return len(re.findall(r"\w+", re.sub(segment.HAN, " ", text))) + han / 2


def _extract(
    text: str, read: Read, scores: dict[int, float], words: int | None, sentences: int | None, known: Summary
) -> Summary:
    """The best sentences that keep to the lengths, in the order of the text; `known` is the rest of the summary."""
    sizes = [n_words(sentence) for sentence in read.sentences]
    most = sentences or (len(scores) if words else SENTENCES)
    chosen: list[int] = []
    said: set[str] = set()
    for i in sorted(scores, key=lambda i: (-scores[i], i)):
        units = set(read.units[i])
        repeats = len(units & said) >= REPEATED * len(units) if units else bool(chosen)
        room = words is None or sum(sizes[j] for j in chosen) + sizes[i] <= words
        if len(chosen) < most and room and not repeats:
            chosen.append(i)
            said |= units
    chosen = sorted(chosen) or [min(scores, key=sizes.__getitem__)]
    spans = tuple(read.places[i] for i in chosen)
    return dataclasses.replace(known, text=_join_spans(text, spans), spans=spans)


def _flags(parts: int) -> tuple[str, ...]:
    return () if parts == 1 else ("parts",) if parts <= MAX_PARTS else ("parts", "skimmed")


def _most_central(groups: list[list[int]], centrality: Sequence[float]) -> list[list[int]]:
    """The first group and the others with the highest mean centrality, MAX_PARTS in all, in order."""
    if len(groups) <= MAX_PARTS:
        return groups
    means = [sum(centrality[i] for i in group) / len(group) for group in groups]
    best = sorted(range(1, len(groups)), key=lambda g: (-means[g], g))[: MAX_PARTS - 1]
    return [groups[g] for g in [0, *sorted(best)]]


def _f1(one: Counter[str], other: Counter[str]) -> float:
    both = sum((one & other).values())
    return 2 * both / max(1, sum(one.values()) + sum(other.values()))


def _join(sentences: Sequence[str]) -> str:
    """Sentences one after the other: with a space between them, except after a Chinese mark."""
    out = ""
    for sentence in sentences:
        out += (" " if out and out[-1] not in "。！？；" else "") + sentence
    return out


def _join_spans(text: str, spans: Sequence[tuple[int, int]]) -> str:
    """These parts of the text, each on one line, put together as by `_join`, but with a line break after one that has no
    mark at its end, and with nothing between them where nothing is in the text, so that the result is never longer."""
    out = ""
    for i, (start, end) in enumerate(spans):
        part = prose.clean(text[start:end])
        if i and spans[i - 1][1] == start:
            out += part
        elif i and not prose.is_marked(text[slice(*spans[i - 1])]):
            out += "\n" + part
        else:
            out = _join([out, part] if out else [part])
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
