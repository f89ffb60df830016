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
class Token:
    """A piece of a text, or a word made of several, as a row or a column of an attention map.

    `text` is what it says, spaces at its ends included; that of a special piece is its name (`</s>`). `start` and `end`
    are its place in the text that it belongs to, in characters. The bytes of one character (`<0xE4>`) all have the place
    of that character. start == end for a special piece and for what is not in the text: bytes that form no character,
    spaces that were not printed.
    """

    text: str
    start: int
    end: int
    special: bool = False


@dataclass(frozen=True)
class AttentionMap:
    """Where the model looked while it wrote one output: the attention of all layers and heads, from one forced pass over
    the finished pair.

    src are the S pieces that the encoder read, tgt the T pieces that the decoder wrote, the end piece included, and fed
    the F pieces that it had read when it wrote them: the task's prefix (of one piece in our own models, so that F = T)
    and all of tgt but the last. Row t of `cross` [layers, H, T, S] and of `decoder` [layers, H, T, F] belongs to tgt[t],
    written when fed[: F - T + t + 1] had been read; column s of cross is src[s], column f of decoder is fed[f].
    `encoder` is [layers, H, S, S], rows and columns src. Arrays are float32; each row adds up to 1. `decoder` is None
    where the decoder has no self-attention (SSRU).

    Places of src are in `source`, those of tgt and fed in `output`, which is tgt as text. An answer of our own models is not
    written but pointed at (`points`): `source` is what the encoder read, the question, a tab and a window of the text; `output` is the answer;
    tgt are the pieces where it starts (row 1) and where it ends (row 2), with their places in `source`; fed are special
    pieces only.

    `part` of `parts`: a text of several sentences is translated one by one, each of which has a map. `source`, of an
    answer its window, begins at character `offset` of the whole text; a summary's source is the text tidied, and its
    offset 0.
    """

    model: str
    task: str  # its name in the model's configuration: "translate:zh", "summarize", "answer"
    source: str
    output: str
    src: tuple[Token, ...]
    tgt: tuple[Token, ...]
    fed: tuple[Token, ...]
    encoder: Any = field(repr=False)
    decoder: Any = field(repr=False)
    cross: Any = field(repr=False)
    part: int = 1
    parts: int = 1
    offset: int = 0
    flags: tuple[str, ...] = field(default=())  # as those of a Translation or a Summary, and more: Attender.attend

    @property
    def points(self) -> bool:
        """Whether it belongs to an answer that was pointed at: what is written has an end piece."""
        return self.task == "answer" and not self.tgt[-1].special


@dataclass(frozen=True)
class Alignment:
    """Which word of a text belongs to which of its translation. Words are places in the two texts, start and end in
    characters, in order; `links` are pairs of their numbers, (source word, target word), counted from 0 and sorted."""

    source_words: tuple[tuple[int, int], ...]
    target_words: tuple[tuple[int, int], ...]
    links: tuple[tuple[int, int], ...]

    @property
    def places(self) -> list[tuple[tuple[int, int], tuple[int, int]]]:
        """The links as pairs of places."""
        return [(self.source_words[s], self.target_words[t]) for s, t in self.links]

    @property
    def pharaoh(self) -> str:
        """The links as Pharaoh and Moses write them: "0-0 1-2"."""
        return " ".join(f"{s}-{t}" for s, t in self.links)


@dataclass(frozen=True)
class Translation:
    """The translation of one text. `flags` says what a reader must know: "split", "cut", "looped", "copied" (what
    needed no translation, or has none), "lost" (a number, an address, a term or the like is missing, or the text
    between two tags), "invented" (a number is not in the text), "untranslated" (a sentence or a word of it stayed in its
    language, or was spelt in Latin letters that are no word of it, or is in a script that the model does not read and was
    passed through).

    `alternatives`, if asked for, are texts with their scores, the first this one, the others best first; fewer where the
    search found fewer. `alignment` is there if asked for."""

    source: str
    text: str
    source_language: str
    target_language: str
    score: float  # mean log-probability a piece, from -inf to 0; 0.0 where nothing was generated
    flags: tuple[str, ...] = field(default=())
    alternatives: tuple[tuple[str, float], ...] = field(default=())
    alignment: Alignment | None = None


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
    the parts were read, or only the most telling sentences), "cut", "looped", "copied" (it is the text), "extracted" (a sentence of
    the text instead of what the model wrote, which was not fit), "longer" (than asked for: no sentence is as short), "split" (a
    sentence was too long; its parts were taken as sentences), "empty"."""

    text: str
    spans: tuple[tuple[int, int], ...] = ()
    parts: int = 1
    flags: tuple[str, ...] = ()
