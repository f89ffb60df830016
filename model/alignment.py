"""Which word translates which: word alignment out of cross-attention, and its error rate.

Links are pairs (source word, target word), counted from 0. Matrices of weights are [target words, source words], as the
decoder's rows and columns are. NumPy only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from . import attention_maps
from .results import AttentionMap, Token

Link: TypeAlias = tuple[int, int]
Places: TypeAlias = Sequence[tuple[int, int]]  # start and end of words, in characters
Weights: TypeAlias = npt.NDArray[np.float64]

HOW = ("threshold", "geometric", "argmax", "mutual", "product", "intersection", "union", "grow-diag-final-and")
NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


@dataclass(frozen=True)
class Method:
    """How links are found: which attention is looked at, and what makes a link of it.

    `layer` and `head` count from 1; None means all of them, averaged. `fed` takes the attention of a piece from the
    step that reads it instead of the step that writes it (Chen et al. 2020, "Accurate Word Alignment Induction from
    Neural Machine Translation"). Attention on special pieces is left out; `renormalise` makes what is left add up to 1
    again, without it a word that looks at the end piece instead has little left for any link. `how` and `threshold` are
    those of `find_links`.
    """

    layer: int | None
    head: int | None
    fed: bool
    how: str = "threshold"
    threshold: float = 0.0
    renormalise: bool = False

    def __post_init__(self) -> None:
        if self.how not in HOW:
            raise ValueError(f"how must be one of {', '.join(HOW)}, not {self.how!r}")

    @property
    def place(self) -> str:
        """Which attention it is, in words."""
        layer = "all layers" if self.layer is None else f"layer {self.layer}"
        return f"{layer}, {'all heads' if self.head is None else f'head {self.head}'}"


# The best of the shipped weights by tests/bench/alignment.py, and the (layers, heads) of the model that it is for.
DEFAULT = Method(layer=1, head=6, fed=True, how="threshold", threshold=0.45)
DEFAULT_SHAPE = (2, 8)


def default_method(n_layers: int, n_heads: int) -> Method:
    """DEFAULT for a model of the shape that it was chosen on; for any other all heads of the last layer but one, at
    the step that writes (Garg et al. 2019, "Jointly Learning to Align and Translate with Transformer Models")."""
    if (n_layers, n_heads) == DEFAULT_SHAPE:
        return DEFAULT
    return Method(layer=max(1, n_layers - 1), head=None, fed=False, how="argmax")


def align(
    map: AttentionMap,
    reverse: AttentionMap | None = None,
    method: Method | None = None,
    *,
    source_words: Places | None = None,
    target_words: Places | None = None,
) -> list[Link]:
    """The links (source word, target word) of a translation, sorted.

    Words are those of `attention_maps.words`, special pieces not counted, unless their places are given: in
    `map.source` and `map.output`, in characters. `reverse` is the map of the other direction, forced: `map.output`
    translated to `map.source`; links are then found in what both say. `method` is `default_method`'s by default.

    Raises ValueError if `reverse` is not of the same pair, or the map has no such layer or head.
    """
    method = method or default_method(*map.cross.shape[:2])
    source_words = word_places(map.src, map.source) if source_words is None else source_words
    target_words = word_places(map.tgt, map.output) if target_words is None else target_words
    forward = word_weights(map, method, source_words, target_words)
    backward = None
    if reverse is not None:
        if (reverse.source, reverse.output) != (map.output, map.source):
            raise ValueError("the map of the other direction must be of the same two texts")
        backward = word_weights(reverse, method, target_words, source_words).T
    return sorted(find_links(forward, backward, method.how, method.threshold))


def moses(links: Iterable[Link]) -> str:
    """Links as Moses writes them, source word - target word: "0-0 1-2"."""
    return " ".join(f"{source}-{target}" for source, target in sorted(links))


# -- from pieces to words --


def word_places(tokens: Sequence[Token], text: str) -> list[tuple[int, int]]:
    """Where the words of a text start and end, in characters; those of special pieces are none."""
    ranges = attention_maps.words(tokens, text)
    return [(tokens[a].start, tokens[b - 1].end) for a, b in ranges if not all(token.special for token in tokens[a:b])]


def word_weights(map: AttentionMap, method: Method, source_words: Places, target_words: Places) -> Weights:
    """How much each target word looks at each source word, [target words, source words].

    The pieces of a source word add up, those of a target word are averaged. A piece that reaches over several words
    counts for each by the share of its characters there. A word without a piece has zeros. Raises ValueError for a
    layer or head that the map does not have.
    """
    cross = np.asarray(map.cross, np.float64)
    for name, value, n in (("layer", method.layer, cross.shape[0]), ("head", method.head, cross.shape[1])):
        if value is not None and not 1 <= value <= n:
            raise ValueError(f"{name} must be from 1 to {n}, not {value}")
    weights = (cross if method.layer is None else cross[method.layer - 1, None]).mean(axis=0)
    weights = (weights if method.head is None else weights[method.head - 1, None]).mean(axis=0)  # [T, S]
    if method.fed:  # row t + 1 is of the step that reads piece t; no step reads the last one
        weights = np.concatenate([weights[1:], np.zeros_like(weights[:1])])
    columns = shares(map.src, source_words)
    rows = shares(map.tgt, target_words)
    if method.renormalise:
        text = weights[:, [not token.special for token in map.src]].sum(axis=1, keepdims=True)
        weights = weights / np.maximum(text, 1e-12)
    means = rows / np.maximum(rows.sum(axis=1, keepdims=True), 1e-12)
    summed: Weights = means @ weights @ columns.T
    return summed


def shares(tokens: Sequence[Token], words: Places) -> Weights:
    """Which share of a piece's characters, spaces at its ends aside, stands in which word, [words, tokens]. A piece of
    nothing but spaces belongs to the word that it stands before."""
    starts = np.array([token.start + len(token.text) - len(token.text.lstrip()) for token in tokens])
    ends = np.array([token.end - len(token.text) + len(token.text.rstrip()) for token in tokens])
    for i, token in enumerate(tokens):
        if starts[i] >= ends[i]:
            starts[i], ends[i] = token.end, token.end + 1
    bounds = np.array(words, dtype=np.int64).reshape(-1, 2)
    overlap = np.minimum(ends, bounds[:, 1:]) - np.maximum(starts, bounds[:, :1])
    text = [not token.special for token in tokens]
    share: Weights = np.maximum(overlap, 0) / (ends - starts) * text
    return share


# -- from weights to links --


def find_links(
    forward: Weights, backward: Weights | None = None, how: str = "threshold", threshold: float = 0.0
) -> set[Link]:
    """The links in the weights of two directions, both [target words, source words]: rows of `forward` are what was
    written, columns of `backward` are what was written the other way. Without `backward`, `forward` stands for both.

    - "threshold": where the mean of both is `threshold` or more; "geometric": where the root of their product is.
    - "argmax": of each target word the source word with the highest mean, if that is `threshold` or more.
    - "mutual": the pairs of which each is the best of the other by the mean, "product": by the product.
    - "intersection", "union", "grow-diag-final-and": of the best source word for each target word by `forward` and the
      best target word for each source word by `backward`.
    """
    if not forward.size:
        return set()
    if backward is None:
        backward = forward
    mean = (forward + backward) / 2
    if how == "threshold":
        return _where(mean >= max(threshold, 1e-12))
    if how == "geometric":
        return _where(np.sqrt(forward * backward) >= max(threshold, 1e-12))
    if how == "argmax":
        return best_sources(mean) & _where(mean >= threshold)
    if how == "mutual":
        return best_sources(mean) & best_targets(mean)
    if how == "product":
        return best_sources(forward * backward) & best_targets(forward * backward)
    one, other = best_sources(forward), best_targets(backward)
    if how == "intersection":
        return one & other
    return one | other if how == "union" else grow_diag_final_and(one, other)


def best_sources(weights: Weights) -> set[Link]:
    """For each target word the source word with the most weight; none for a word without any."""
    return {(int(s), t) for t, s in enumerate(weights.argmax(axis=1)) if weights[t, s] > 0}


def best_targets(weights: Weights) -> set[Link]:
    """For each source word the target word with the most weight; none for a word without any."""
    return {(s, int(t)) for s, t in enumerate(weights.argmax(axis=0)) if weights[t, s] > 0}


def grow_diag_final_and(one: set[Link], other: set[Link]) -> set[Link]:
    """The intersection of two alignments, grown by links of either (Koehn, Och & Marcu 2003, "Statistical Phrase-Based
    Translation"): by neighbours, diagonal ones too, that link a word without a link, and at the end by links of
    which neither word has one."""
    union = one | other
    links = one & other
    sources, targets = {s for s, _ in links}, {t for _, t in links}

    def add(link: Link) -> None:
        links.add(link)
        sources.add(link[0])
        targets.add(link[1])

    found = sorted(links)
    for s, t in found:  # goes on with the links that are added on the way
        for ds, dt in NEIGHBOURS:
            link = (s + ds, t + dt)
            if link in union - links and (link[0] not in sources or link[1] not in targets):
                add(link)
                found.append(link)
    for link in [*sorted(one), *sorted(other)]:
        if link[0] not in sources and link[1] not in targets:
            add(link)
    return links


def _where(mask: npt.NDArray[np.bool_]) -> set[Link]:
    return {(int(s), int(t)) for t, s in zip(*np.nonzero(mask), strict=True)}


# -- how good they are --


@dataclass(frozen=True)
class Score:
    """Links against those of a person (Och & Ney 2003, "A Systematic Comparison of Various Statistical Alignment
    Models", §5), as numbers of links so that the scores of sentences add up to that of a set.

    `found` = |A|, `sure` = |S|, `found_sure` = |A ∩ S|, `found_possible` = |A ∩ P|, where P includes S.
    """

    found: int = 0
    sure: int = 0
    found_sure: int = 0
    found_possible: int = 0

    def __add__(self, other: Score) -> Score:
        return Score(
            self.found + other.found,
            self.sure + other.sure,
            self.found_sure + other.found_sure,
            self.found_possible + other.found_possible,
        )

    @property
    def precision(self) -> float:
        """|A ∩ P| / |A|; 1 where nothing was found."""
        return self.found_possible / self.found if self.found else 1.0

    @property
    def recall(self) -> float:
        """|A ∩ S| / |S|; 1 where nothing was to be found."""
        return self.found_sure / self.sure if self.sure else 1.0

    @property
    def error_rate(self) -> float:
        """AER = 1 − (|A ∩ S| + |A ∩ P|) / (|A| + |S|), from 0 (best) to 1; 0 where nothing was found or to be found."""
        n = self.found + self.sure
        return 1 - (self.found_sure + self.found_possible) / n if n else 0.0


def score(links: Iterable[Link], sure: Iterable[Link], possible: Iterable[Link]) -> Score:
    """The links A of one sentence against the sure ones S and the possible ones P; S counts as possible too."""
    found, S = set(links), set(sure)
    P = S | set(possible)
    return Score(len(found), len(S), len(found & S), len(found & P))


def alignment_error_rate(links: Iterable[Link], sure: Iterable[Link], possible: Iterable[Link]) -> float:
    """AER of one sentence; see Score, by which several are added up."""
    return score(links, sure, possible).error_rate
