"""What comes out: of a forward pass, of the search, of the pipeline. Plain data; nothing heavy is imported."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Attentions(NamedTuple):
    """Attention weights of one forward pass, an array of the engine's kind for each layer: encoder [B, H, S, S],
    decoder [B, H, T, T] (no arrays with SSRU), cross [B, H, T, S]. Each row adds up to 1, or is zero if all is masked.
    """

    encoder: list[Any]
    decoder: list[Any]
    cross: list[Any]


@dataclass(frozen=True)
class Hypothesis:
    """One finished output of the search.

    `ids` without the task's prefix and without the end piece; `log_prob` = Σ log p over ids and the end piece (natural
    logarithm); `score` = log_prob / lengthᵅ, the length counting the end piece (GenerationConfig.length_penalty is α).
    `finished` is False where the length limit cut it; `looped` is True where a repetition was found and cut.
    """

    ids: tuple[int, ...]
    log_prob: float
    score: float
    finished: bool = True
    looped: bool = False


@dataclass(frozen=True)
class Translation:
    """The translation of one text. `flags` says what a reader must know: "split", "cut", "looped", "copied"."""

    source: str
    text: str
    source_language: str
    target_language: str
    score: float  # mean log-probability a piece, from -inf to 0; 0.0 where nothing was generated
    flags: tuple[str, ...] = field(default=())


@dataclass(frozen=True)
class Answer:
    """Where a text answers a question: `context[start:end] == text`, in characters.

    `score` is the natural logarithm of the odds of this span against "no answer" (log p of its first and last piece minus
    log p that the model looks at the end piece instead), comparable between windows, questions and texts. An answer
    without text, start = end = 0, means that the text has none; its score is that of the threshold. `sentence` is the
    start and end of the sentence, or the sentences, that it stands in.
    """

    text: str
    start: int
    end: int
    score: float
    sentence: tuple[int, int] = (0, 0)


@dataclass(frozen=True)
class Summary:
    """The summary of one text. `spans` are the places in the text of the sentences it consists of, where it is extracted;
    `parts` how many parts the text was read in; `flags` what a reader must know: "parts", "skimmed" (not all of
    the parts were read, or only the most telling sentences), "cut", "looped", "copied"."""

    text: str
    spans: tuple[tuple[int, int], ...] = ()
    parts: int = 1
    flags: tuple[str, ...] = ()
