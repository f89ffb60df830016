"""Answers as spans: how a question and a text are put to the model, and where in the text its pieces stand.

The encoder reads  <answer> question TAB text </s>  with a kind for each piece. A piece of the text has the kind
1 + 3 · nearness + match: match is 0 for a piece of a word that is not in the question, 1 for one of a common and 2 of a
rare word that is (module `matching`); nearness, 0 … 4, says how much of the question stands around it,
beside the place of the window where most does. The end piece has the kind 16 + 0 … 3, which says how much of the
question stands together anywhere in the window. All else is of kind 0.

The decoder is fed two pieces, <answer> and </s>; where the first looks is where the answer starts, where the second looks
is where it ends (weights of one head of the last layer), and looking at the source's end piece means that the text does not answer.

Models of others (T5) read "question: … context: …" and write the answer (module span_generation); the kinds are then no
part of what they read.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .config import POINTING_HEAD, ModelConfig
from .matching import Weights, Words, match
from .tokenizer import Tokenizer

HEAD = POINTING_HEAD
SEGMENTS = 20
SEPARATOR = "\t"
NEARNESS = (0.4, 0.6, 0.75, 0.9)  # of the window's best coverage, where the next level of nearness begins
COVERAGE = (0.3, 0.5, 0.7)  # of the question, where the next kind of end piece begins

_LAYOUT = re.compile("\u2010\n[ \t]*|\\s{2,}|[^\\S ]")

Ids = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Span = tuple[float, int, int]  # score, first and last piece


class Text(NamedTuple):
    """A text as the model reads it: its pieces' ids, their places in it, and its words."""

    ids: list[int]
    offsets: list[tuple[int, int]]
    words: Words


class Question(NamedTuple):
    """A question's pieces and the weights of its words."""

    ids: list[int]
    weights: dict[str, float]


class Source(NamedTuple):
    """What the encoder reads: ids [S], the kinds of these pieces [S], and the place of the window's first piece."""

    ids: list[int]
    kinds: npt.NDArray[np.uint8]
    first: int


def reads_kinds(model: ModelConfig) -> bool:
    """Whether a model was trained as said above: with these kinds of pieces, to point, and to say that a text has no answer."""
    return model.n_segments == SEGMENTS


class Reader:
    """Puts questions and texts to the model. `prefix` are the pieces before a source, `eos` is the piece after it,
    `separator` those between the question and the text (a tab, if it is empty), and `suffix` those after `eos`."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        prefix: Sequence[int],
        eos: int,
        separator: Sequence[int] = (),
        suffix: Sequence[int] = (),
    ) -> None:
        self.tokenizer, self.prefix, self.end = tokenizer, list(prefix), [eos, *suffix]
        self.separator = list(separator) or tokenizer.encode(SEPARATOR)[:1]
        self.weights = Weights(tokenizer)

    def text(self, text: str) -> Text:
        """How a text is laid out is not read: white space is one space, a word that was divided at the end of a line whole."""
        read, origin = _without_layout(text)
        ids, offsets = self.tokenizer.encode_with_places(read)
        places = [(origin[start], origin[end - 1] + 1 if end > start else origin[start]) for start, end in offsets]
        return Text(ids, places, Words.of(read, offsets))

    def question(self, question: str, most: int) -> Question:
        """Of the pieces up to `most`; all words count in the comparison with the text."""
        return Question(self.tokenizer.encode(question)[:most], self.weights.question(question))

    def source(self, question: Question, text: Text, first: int = 0, last: int | None = None) -> Source:
        """The source for one question and one window of a text, the pieces from `first` up to `last`."""
        window = text.ids[first:last]
        before = [*self.prefix, *question.ids, *self.separator]
        start, end = len(before), len(before) + len(window)
        ids = [*before, *window, *self.end]
        kinds = np.zeros(len(ids), np.uint8)
        if window:
            level, near = match(question.weights, text.words, first, last)
            kinds[start:end] = 1 + 3 * np.digitize(near / max(near.max(), 1e-9), NEARNESS) + level
            kinds[end] = 16 + np.digitize(near.max(), COVERAGE)
        return Source(ids, kinds, start)


def _without_layout(text: str) -> tuple[str, Sequence[int]]:
    """A text with one space for each run of white space, and for each of its characters, and its end, where that was. A
    hyphen of the kind that manuals are divided with (U+2010) goes with the line break after it."""
    read: list[str] = []
    origin = array("q")
    at = 0
    for layout in _LAYOUT.finditer(text):
        read.append(text[at : layout.start()])
        origin.extend(range(at, layout.start()))
        if layout[0][0] != "\u2010":
            read.append(" ")
            origin.append(layout.start())
        at = layout.end()
    read.append(text[at:])
    origin.extend(range(at, len(text) + 1))
    return "".join(read), origin


def occurrences(text: str, answer: str, places: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The first and the last piece of each place in the text where the answer stands."""
    found = []
    offsets = np.array(places, np.int64).reshape(-1, 2)
    at = text.find(answer) if answer else -1
    while at >= 0:
        end = at + len(answer)
        first = int(np.searchsorted(offsets[:, 1], at, side="right"))
        last = int(np.searchsorted(offsets[:, 1], end, side="left"))
        inside_word = (answer[0].isascii() and answer[0].isalnum() and text[max(at - 1, 0) : at].isalnum()) or (
            answer[-1].isascii() and answer[-1].isalnum() and text[end : end + 1].isalnum()
        )
        if first <= last < len(offsets) and not inside_word:
            found.append((first, last))
        at = text.find(answer, end)
    return found


def best_spans(start: Floats, end: Floats, longest: int, n: int = 1, words: Bools | None = None) -> list[Span]:
    """The `n` spans (first, last) of at most `longest` pieces with the highest log p_start + log p_end, best first.

    start and end are log-probabilities over the pieces of a window, [S]; a span must have one of the pieces that `words`
    says have something of a word, [S]."""
    scores = _span_scores(start, end, longest, words)
    order = np.argsort(-scores, axis=None, kind="stable")[:n]
    return [(float(scores.flat[i]), *map(int, divmod(int(i), len(start)))) for i in order]  # type: ignore[misc]


def disjoint_spans(start: Floats, end: Floats, longest: int, n: int, words: Bools | None = None) -> list[Span]:
    """The best span, the best of those that share no piece with it, and so on: up to `n` as `best_spans` gives them."""
    scores = _span_scores(start, end, longest, words)
    found: list[Span] = []
    while len(found) < n and np.isfinite(best := float(scores.max(initial=-np.inf))):
        first, last = divmod(int(scores.argmax()), len(start))
        found.append((best, first, last))
        scores[: last + 1, first:] = -np.inf  # all that begin before its end and end after its beginning
    return found


def _span_scores(start: Floats, end: Floats, longest: int, words: Bools | None) -> Floats:
    """log p_start + log p_end of each span (first, last), [S, S]; −∞ where it is none, too long or without a word."""
    scores = np.add.outer(start, end)
    place = np.arange(len(start))
    length = np.subtract.outer(-place, -place) + 1  # last − first + 1
    scores[(length < 1) | (length > longest)] = -np.inf
    if words is not None:
        word = np.append(np.flatnonzero(words), len(start))
        scores[np.greater.outer(word[np.searchsorted(word, place)], place)] = -np.inf  # the next word is after the last
    return scores
