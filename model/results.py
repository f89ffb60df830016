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
