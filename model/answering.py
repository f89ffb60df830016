"""Questions in, places in a text out: windows over the text, the places the model points at, and how they are merged."""

from __future__ import annotations

import bisect
import functools
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from . import manual, segment
from .errors import CheckpointError, UsageError
from .results import Answer
from .runtime import Runtime, check_text
from .span_ends import WORD, tidy_ends

if TYPE_CHECKING:
    from .spans import Ids, Question, Reader, Source, Span, Text

MAX_QUESTION_PIECES = 100  # of a longer question the rest is not read; results say so
WINDOW = 120  # pieces of the text that are read at once; training read 120, and 72 towards its end
# From the start of one window to that of the next, so that each span is whole in two: it is judged best amidst what
# stands around it. A half-trained model had F1 29.0 (SQuAD) and 47.6 (CMRC) on 90 training rows, 27.2 and 43.7 with 80.
STRIDE = 40
# The same for models that were not trained on such windows: Devlin et al. 2019 read SQuAD so.
LONG_WINDOW, LONG_STRIDE = 384, 128
LONGEST = 40  # pieces of an answer
# Windows that are read for one question: those that have most of its words, where a text has more. Of training questions
# on texts of 63,000 words (SQuAD) and 200,000 characters (CMRC) 98 % had their answer in one of 64, 96 % in one of 16. Of
# long windows as many as are about as much text.
MOST, MOST_LONG = 64, 20
# What a span's score gains from the sentence it begins in: so much times the share of the question's words that stand there.
SENTENCE = 4.0
CROSSING = 3.0  # what a span's score loses if it goes on after the end of a sentence
CANDIDATES = 20  # spans of each window that are compared with those of the others
# Score from which on a span is an answer. On training rows it refused 84 % (English) and 100 % (Chinese) of 180 questions
# that the text does not answer, at a cost of 0.9 and 0.3 of F1 on 180 that it does; 0 refused 69 and 88 %, 2 93 and 100 %.
THRESHOLD = 1.0
BATCH = 16  # windows that are computed at once


class Found(NamedTuple):
    """The answers to one question, best first, and how many of the text's `windows` the model has `read` for them."""

    answers: list[Answer]
    read: int
    windows: int


class Candidate(NamedTuple):
    """A span of one window: its score, its place in the text, what the model read, the character at which the window
    begins, and the span's first and last piece, counted from the window's."""

    score: float
    start: int
    end: int
    source: Source
    window: int
    first: int
    last: int


class Answerer:
    """Finds the places in a text that answer questions. `model` and the other settings are those of `Runtime`.

    `way` is how the model gives a place: "point" (spans) or "generate" (span_generation); None: points if it can."""

    def __init__(self, model: str | Path | Runtime | None = None, way: str | None = None, **settings: Any) -> None:
        if way not in (None, "point", "generate"):
            raise UsageError(f"way must be point or generate, not {way!r}")
        self.runtime = model if isinstance(model, Runtime) else Runtime(model, **settings)
        self._way = way

    @functools.cached_property
    def points(self) -> bool:
        """Whether the model points at a place, else it writes what stands there. Raises CheckpointError if it does not do
        what it was asked to."""
        config = self.runtime.checkpoint.config
        self.runtime.task("answer")
        if not self._trained and self._way == "point":
            raise CheckpointError(f"the model {self.runtime.path.name} was not trained to point: it writes its answers")
        if config.model.n_segments and not self._trained:
            raise CheckpointError(f"the model {self.runtime.path.name} reads other kinds of pieces than answers have")
        return self._trained and self._way != "generate"

    @functools.cached_property
    def _trained(self) -> bool:
        """Whether the model was trained as module spans says."""
        from . import spans

        return spans.reads_kinds(self.runtime.checkpoint.config.model)

    @functools.cached_property
    def threshold(self) -> float:
        """The score of "no answer" where none is given: THRESHOLD, but −∞ of a model that has not learnt to find none."""
        return THRESHOLD if self._trained else -math.inf

    def answer(
        self, context: str, questions: Sequence[str], *, top_k: int = 1, threshold: float | None = None
    ) -> list[list[Answer]]:
        """For each question up to `top_k` answers, best first, no two of which overlap or are the same words.

        "No answer" is one of them, with the score `threshold`: spans with a lower score come after it. Without letters
        or digits in the text or the question it is the only one. None: THRESHOLD, or for models of others, which have not
        learnt that a text may have no answer, −∞.

        The text is read in overlapping windows, all questions over one reading of it by the tokenizer. A span's score is
        the log-odds of its start and its end against no answer, as the model sees it in its window, and SENTENCE times
        the share of the question's words in the sentence it begins in; less CROSSING if it goes on after that sentence.
        A text of more than MOST windows, which is some 1,400 English
        words or 3,000 Chinese characters, is searched for the question's words first, and the model reads the MOST
        windows in which most of them stand together (`search` says how many there were); if it has none of them, the
        first. Of a question only the first MAX_QUESTION_PIECES pieces are read. (A model of others reads longer windows; its
        log-odds are the log-probability of the answer's pieces, as module span_generation says.)

        Raises UsageError for settings out of range, InputError for text that UTF-8 cannot hold, CheckpointError for a
        model that has no task "answer" or was not trained to give a place in this way.
        """
        found = self.search(context, questions, top_k=top_k, threshold=threshold)
        return [one.answers for one in found]

    def search(
        self, context: str, questions: Sequence[str], *, top_k: int = 1, threshold: float | None = None
    ) -> list[Found]:
        """`answer`, and how much of the text was read for each question."""
        if isinstance(questions, (str, bytes)):
            raise UsageError(f"questions must be a list of strings, not one {type(questions).__name__}")
        if type(top_k) is not int or top_k < 1:
            raise UsageError(f"top_k must be a whole number from 1 on, not {top_k!r}")
        for name, text in (("the text", context), *((f"question {n}", q) for n, q in enumerate(questions, 1))):
            check_text(name, text)
        if not _has_words(context) or not any(map(_has_words, questions)):  # the model is not opened for it
            return [Found([Answer("", 0, 0, THRESHOLD if threshold is None else threshold)], 0, 0) for _ in questions]
        nothing = Answer("", 0, 0, self.threshold if threshold is None else threshold)
        return self._search(context, questions, top_k, nothing)

    def cut(self, question: str) -> bool:
        """Whether the question is so long that its end is not read."""
        return len(self.runtime.checkpoint.tokenizer.encode(question)) > MAX_QUESTION_PIECES

    def best_candidate(self, context: str, question: str) -> tuple[Candidate | None, int, int]:
        """The best answer, without a threshold, as the span of a window, or None; how many of the text's windows were read
        for it, and how many there are. Text and question must have letters or digits."""
        (found,), (read,), windows = self._candidates(context, [question], 1, _Sentences(context))
        for best in sorted(found, key=_by_score):
            start, end = tidy_ends(context, best.start, best.end)
            if _has_words(context[start:end]):
                return best._replace(start=start, end=end), read, windows
        return None, read, windows

    def written(self, candidate: Candidate) -> list[int]:
        """The pieces that the model wrote for a candidate, if it does not point."""
        from .span_generation import likeliest

        first = candidate.source.first
        ids = candidate.source.ids[first + candidate.first : first + candidate.last + 1]
        starts = self._starts
        if starts is None or starts[ids[0]] == ids[0]:
            return ids
        forms = [ids, [int(starts[ids[0]]), *ids[1:]]]
        return list(likeliest(self.runtime.stepper(0), self.runtime.checkpoint.config, candidate.source, forms))

    def _search(self, context: str, questions: Sequence[str], top_k: int, nothing: Answer) -> list[Found]:
        sentences = _Sentences(context)
        candidates, read, windows = self._candidates(context, questions, top_k, sentences)
        return [
            Found(_choose(context, spans, top_k, nothing, sentences), n, windows)
            for spans, n in zip(candidates, read, strict=True)
        ]

    def _candidates(
        self, context: str, questions: Sequence[str], top_k: int, sentences: _Sentences
    ) -> tuple[list[list[Candidate]], list[int], int]:
        """The best spans of the windows read for each question, the number of these windows, and that of all windows."""
        found_by = self._pointed_spans if self.points else self._generated_spans
        text = self._reader.text(context)
        width, stride, most = self._windows
        firsts = list(range(0, max(1, len(text.ids) - width + stride), stride))
        windows: list[tuple[int, int]] = []  # number of the question, first piece
        sources: list[Source] = []
        shares: list[_Shares] = []
        for number, question in enumerate(questions):
            asked = self._reader.question(question, MAX_QUESTION_PIECES)
            shares.append(_Shares(question, asked.weights, text, sentences))
            for first in _most_covered(asked, text, firsts, width, most) if _has_words(question) else ():
                windows.append((number, first))
                sources.append(self._reader.source(asked, text, first, first + width))
        candidates: list[list[Candidate]] = [[] for _ in questions]
        words = [[_has_words(context[a:b]) for a, b in text.offsets[first : first + width]] for _, first in windows]
        gains = [shares[number].of_pieces(first, first + width) for number, first in windows]
        found = found_by(sources, words, gains, top_k)
        for (number, first), source, best in zip(windows, sources, found, strict=True):
            window = text.offsets[first][0]
            for score, a, b in best:
                start, end = text.offsets[first + a][0], text.offsets[first + b][1]
                if sentences.around(start, start + 1)[1] < end:
                    score -= CROSSING
                candidates[number].append(Candidate(score, start, end, source, window, a, b))
        for number, question in enumerate(questions):
            explained = manual.explanation(question, context, [c[:3] for c in candidates[number]])
            if explained is not None:
                nearest, start, end = explained
                score = max(c.score for c in candidates[number]) + 0.01
                candidates[number].append(candidates[number][nearest]._replace(score=score, start=start, end=end))
        self.runtime.checkpoint.verify()
        return candidates, [sum(number == n for n, _ in windows) for number in range(len(questions))], len(firsts)

    @functools.cached_property
    def _reader(self) -> Reader:
        from . import spans

        checkpoint, task = self.runtime.checkpoint, self.runtime.task("answer")
        eos = checkpoint.config.special.eos
        return spans.Reader(checkpoint.tokenizer, task.src_prefix, eos, task.separator, task.src_suffix)

    @property
    def _windows(self) -> tuple[int, int, int]:
        """How many pieces a window has, after how many the next begins, and how many windows are read for a question."""
        if self._trained:
            return WINDOW, STRIDE, MOST
        model = self.runtime.checkpoint.config.model
        if model.positions == "sinusoidal":  # which say nothing of how long a text it was trained on
            return LONG_WINDOW, LONG_STRIDE, MOST_LONG
        around = len(self._reader.prefix) + MAX_QUESTION_PIECES + len(self._reader.separator) + len(self._reader.end)
        width = max(1, min(LONG_WINDOW, model.max_positions - around))
        return width, max(1, width // 3), MOST_LONG

    @functools.cached_property
    def _starts(self) -> Ids | None:
        """Which piece an answer may begin with in place of each of a text's (see span_generation.word_starts)."""
        from .span_generation import word_starts

        return None if self._trained else word_starts(self.runtime.checkpoint.tokenizer)

    def _generated_spans(
        self, sources: Sequence[Source], words: Sequence[Sequence[bool]], gains: Sequence[Sequence[float]], top_k: int
    ) -> list[list[Span]]:
        """As `_pointed_spans`, by the other way."""
        from .span_generation import generated_spans

        if self.runtime.checkpoint.target_tokenizer is not self.runtime.checkpoint.tokenizer:
            raise CheckpointError(
                f"the model {self.runtime.path.name} writes other pieces than it reads: no answer of it has a place in a text"
            )
        found = generated_spans(self.runtime, sources, max(4, min(2 * top_k, 64)), words, self._starts)
        return [[(score + gain[a], a, b) for score, a, b in best] for best, gain in zip(found, gains, strict=True)]

    def _pointed_spans(
        self, sources: Sequence[Source], words: Sequence[Sequence[bool]], gains: Sequence[Sequence[float]], top_k: int
    ) -> list[list[Span]]:
        """For each window its best spans: score, first and last piece, counted from the window's first. `words` says which
        of its pieces have something of a word; each span has. `gains` is what the score gains by where the span begins."""
        import numpy as np

        from . import spans

        config = self.runtime.checkpoint.config
        fed = [*(config.tasks["answer"].tgt_prefix or (config.special.decoder_start,)), config.special.eos]
        engine = self.runtime.stepper(sum(len(source.ids) for source in sources))
        found: list[list[Span]] = [[] for _ in sources]
        order = sorted(range(len(sources)), key=lambda i: len(sources[i].ids))
        for at in range(0, len(order), BATCH):
            batch = [sources[i] for i in order[at : at + BATCH]]
            looks = engine.cross_attention([s.ids for s in batch], [fed] * len(batch), [s.kinds for s in batch])
            for i, source, weights in zip(order[at : at + BATCH], batch, looks, strict=True):
                log_p = np.log(np.maximum(weights[-1, spans.HEAD, -2:], 1e-30)).astype(np.float64)
                nothing = -len(self._reader.end)  # the end piece
                log_odds = (log_p - log_p[:, [nothing]])[:, source.first : nothing]
                log_odds[0] += gains[i]
                wordy = np.array(words[i], np.bool_)
                best = spans.best_spans(log_odds[0], log_odds[1], LONGEST, CANDIDATES, wordy)
                if top_k > 1:  # the best are often variants of one
                    most = max(CANDIDATES, 2 * top_k)
                    best += spans.disjoint_spans(log_odds[0], log_odds[1], LONGEST, most, wordy)
                found[i] = [span for span in best if np.isfinite(span[0])]
        return found


def _has_words(text: str) -> bool:
    return any(map(str.isalnum, text))


def _most_covered(question: Question, text: Text, firsts: Sequence[int], width: int, most: int) -> list[int]:
    """The first pieces of the `most` windows of this width to be read for a question, in the order of the text."""
    if len(firsts) <= most:
        return list(firsts)
    import numpy as np

    from .matching import coverage

    found = coverage(question.weights, text.words, np.array(firsts, np.int64), width)
    return [firsts[i] for i in sorted(np.argsort(-found, kind="stable")[:most].tolist())]


class _Shares:
    """How much of a question stands in the sentences of a text (matching.share).

    In a manual the entry of an option does not say its name again: if the question names one, all of the entry is said to
    have the whole question in it, and once more."""

    def __init__(self, question: str, weights: dict[str, float], text: Text, sentences: _Sentences) -> None:
        self.weights, self.words, self.sentences = weights, text.words, sentences
        self.starts = [start for start, _ in text.offsets]
        options = manual.OPTION.findall(question)
        self.entries = [entry for option in options for entry in manual.entries(sentences.text, option)]
        self._found: dict[int, float] = {}

    def of_pieces(self, first: int, last: int) -> list[float]:
        """SENTENCE times the share in the sentence of each piece from `first` up to `last`."""
        from .matching import share

        gains: list[float] = []
        last = min(last, len(self.starts))
        while first < last:  # a sentence at a time
            start, end = self.sentences.around(self.starts[first], self.starts[first] + 1)
            a, b = bisect.bisect_left(self.starts, start), bisect.bisect_left(self.starts, end)
            if a not in self._found:
                entry = any(start < last and first < end for first, last in self.entries)
                self._found[a] = SENTENCE * (2.0 if entry else share(self.weights, self.words, a, b))
            gains += [self._found[a]] * (min(b, last) - first)
            first = b
        return gains


class _Sentences:
    """The sentences of a text, found only in the paragraphs that are asked for: none goes on after a blank line."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.starts = [0, *(blank.end() for blank in re.finditer(r"\n\s*\n", text))]
        self._found: dict[int, list[tuple[int, int]]] = {}

    def around(self, start: int, end: int) -> tuple[int, int]:
        """Start and end of the sentence, or the sentences, that text[start:end], which is not empty, stands in."""
        paragraphs = range(bisect.bisect(self.starts, start) - 1, bisect.bisect_left(self.starts, end))
        bounds: list[tuple[int, int]] = []
        for paragraph in paragraphs:
            of_it = self._of(paragraph)  # may be all of a long text
            first = bisect.bisect_right(of_it, start, key=lambda bound: bound[1])
            bounds += of_it[first : bisect.bisect_left(of_it, end, key=lambda bound: bound[0])]
        return min([start, *(a for a, _ in bounds)]), max([end, *(b for _, b in bounds)])

    def _of(self, paragraph: int) -> list[tuple[int, int]]:
        if paragraph not in self._found:
            start, stop = [*self.starts, len(self.text)][paragraph : paragraph + 2]
            bounds = segment.sentences(self.text[start:stop])
            self._found[paragraph] = [(start + a, start + b) for a, b in bounds]
        return self._found[paragraph]


def _by_score(candidate: Candidate | tuple[float, int, int]) -> tuple[float, int, int]:
    """Best first, then in the order of the text."""
    return -candidate[0], candidate[1], candidate[2]


def _choose(
    context: str,
    candidates: Sequence[Candidate | tuple[float, int, int]],
    top_k: int,
    nothing: Answer,
    sentences: _Sentences,
) -> list[Answer]:
    """The best of the candidates (score, start, end) that neither overlap a better one nor say what one says."""
    chosen: list[Answer] = []
    said: list[str] = []
    for score, start, end, *_ in sorted(candidates, key=_by_score):
        if len(chosen) == top_k:
            break
        start, end = tidy_ends(context, start, end)
        text = context[start:end]
        words = f" {' '.join(re.findall(WORD, text.casefold()))} "
        if not _has_words(text) or any(words in other or other in words for other in said):
            continue
        if any(start < other.end and other.start < end for other in chosen):
            continue
        said.append(words)
        chosen.append(Answer(text, start, end, score, sentences.around(start, end)))
    place = sum(answer.score >= nothing.score for answer in chosen)
    return [*chosen[:place], nothing, *chosen[place:]][:top_k]
