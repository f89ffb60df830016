"""Out of an attention map what one looks at: a layer and a head, pieces put together to words, rollout, entropy, links.

Merging. A word's column is the sum of the columns of its pieces, for a query gives the word what it gives to any of
them; its row is the mean of their rows (Clark et al. 2019, "What Does BERT Look At?", §4.1). So rows go on adding up to 1.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .errors import UsageError
from .results import AttentionMap, Token

Array = np.ndarray[Any, Any]
Ranges = list[tuple[int, int]]  # of tokens: the first, and the first after

KINDS = ("cross", "encoder", "decoder", "rollout")
# Scripts that are written without spaces between words: Thai, Lao, Tibetan, Myanmar, Khmer, kana and bopomofo, Han.
_UNSPACED = re.compile(
    "[\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u312f\u31a0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\uff66-\uff9f\U00020000-\U000323af]"
)
_APOSTROPHES = "'\u2019"
_JOINER = "\u200d"


@dataclass(frozen=True)
class View:
    """One matrix of a map: weights [R, C], float32, row r for rows[r] and column c for columns[c]. `layer` and `head` as
    shown to a user: a number from 1 on, or "mean", "max". Rows add up to 1 unless head is "max" or special tokens were
    left out."""

    kind: str
    layer: str
    head: str
    rows: tuple[Token, ...]
    columns: tuple[Token, ...]
    weights: Array


def n_layers(map: AttentionMap, kind: str) -> int:
    """How many layers there are of this kind. UsageError for an unknown kind, and one that the model does not have."""
    return len(_weights(map, kind))


def n_heads(map: AttentionMap, kind: str) -> int:
    """How many heads each layer has. Errors as of `n_layers`."""
    return int(_weights(map, kind).shape[1])


def view(
    map: AttentionMap,
    kind: str,
    layer: int | str = "last",
    head: int | str = "mean",
    *,
    words: bool = True,
    special: bool = True,
) -> View:
    """One layer (from 1 on, "mean", "last") and one head (from 1 on, "mean", "max": the largest of all heads) of a map.

    Rows and columns of "encoder" and "rollout" are the source's tokens; those of "cross" the output's and the source's;
    those of "decoder" the output's and what had been read of it, the task's piece first. A rollout goes up to a layer,
    over the mean of the heads. With `words` pieces are put together as by the function of that name (but not the two
    rows of an answer, which are where it starts and where it ends), without only the bytes of a character. Without
    `special` the rows and columns of special pieces are left out, and their weights with them.

    Raises UsageError for a kind, a layer or a head that there is not.
    """
    weights = _weights(map, kind)
    n_layers, n_heads = weights.shape[:2]
    if kind == "rollout":
        chosen = _number("layer", layer, n_layers, kind, ("last",))
        picked = _number("head", head, 0, kind, ("mean",))
    else:
        chosen = _number("layer", layer, n_layers, kind, ("mean", "last"))
        picked = _number("head", head, n_heads, kind, ("mean", "max"))
    chosen = n_layers if chosen == "last" else chosen
    if kind == "rollout":
        of_heads = rollout(weights, int(chosen))[None]
    else:
        of_heads = weights.mean(axis=0) if chosen == "mean" else weights[int(chosen) - 1]
        of_heads = of_heads if isinstance(picked, str) else of_heads[picked - 1 : picked]
    is_answer = map.points
    source, output = (map.src, map.source), (map.tgt, map.source if is_answer else map.output)
    row_tokens, row_text = source if kind in ("encoder", "rollout") else output
    column_tokens, column_text = (map.fed, output[1]) if kind == "decoder" else source
    rows = singles(row_tokens) if is_answer and row_tokens is map.tgt else _ranges(row_tokens, row_text, words)
    columns = _ranges(column_tokens, column_text, words)
    of_heads = merge(of_heads, rows, columns)
    matrix = of_heads.max(axis=0) if picked == "max" else of_heads.mean(axis=0)
    whole = View(
        kind,
        str(chosen),
        str(picked),
        merged(row_tokens, row_text, rows),
        merged(column_tokens, column_text, columns),
        np.ascontiguousarray(matrix, np.float32),
    )
    return whole if special else _without_special(whole)


def _without_special(view: View) -> View:
    rows, columns = ([i for i, t in enumerate(tokens) if not t.special] for tokens in (view.rows, view.columns))
    return dataclasses.replace(
        view,
        rows=tuple(view.rows[i] for i in rows),
        columns=tuple(view.columns[i] for i in columns),
        weights=view.weights[np.ix_(rows, columns)],
    )


def heads(map: AttentionMap, kind: str, layer: int | str = "last", **settings: bool) -> list[View]:
    """A view of each head of a layer; settings and errors as of `view`."""
    return [view(map, kind, layer, head, **settings) for head in range(1, n_heads(map, kind) + 1)]


def rollout(encoder: Array, up_to: int) -> Array:
    """How much of each source piece is in what layer `up_to` (from 1 on) made of it: encoder [layers, H, S, S] → [S, S].

    R = Ã_n … Ã_1 with Ã_l = ½ mean over heads of A_l + ½ I, rows renormalised: the identity stands for the residual
    connection (Abnar & Zuidema 2020, "Quantifying Attention Flow in Transformers", §3)."""
    rolled = np.eye(encoder.shape[-1])
    for layer in encoder[:up_to]:
        mixed = 0.5 * layer.mean(axis=0, dtype=np.float64) + 0.5 * np.eye(len(rolled))
        rolled = mixed / mixed.sum(axis=-1, keepdims=True) @ rolled
    return rolled.astype(np.float32)


# --- pieces and words ---


def words(tokens: Sequence[Token], text: str) -> Ranges:
    """Ranges (first, end) of the tokens that form a word; together they are all tokens, in order.

    A word is a run of letters and digits of a script that uses spaces, with the marks that combine with them and
    apostrophes between two; what is put together to one symbol (emoji with joiners, flags); else a piece by itself: of
    Chinese a piece often is a word. A piece of nothing but spaces belongs to the next, if that is not special. Tokens
    that share a character are one. Special ones, and those without a place in the text, stay by themselves.
    """
    return _grouped(tokens, lambda a, b: _share_character(a, b) or _share_word(a, b, text))


def characters(tokens: Sequence[Token]) -> Ranges:
    """As `words`, but only the bytes of one character are put together."""
    return _grouped(tokens, _share_character)


def singles(tokens: Sequence[Token]) -> Ranges:
    """As `words`, but each token stays by itself."""
    return [(i, i + 1) for i in range(len(tokens))]


def merged(tokens: Sequence[Token], text: str, ranges: Ranges) -> tuple[Token, ...]:
    """One token for each range: a single one as it is, several with the text from the first's start to the last's end."""
    found = []
    for first, end in ranges:
        start, stop = tokens[first].start, tokens[end - 1].end
        found.append(tokens[first] if end - first == 1 else Token(text[start:stop], start, stop))
    return tuple(found)


def merge(weights: Array, rows: Ranges | None = None, columns: Ranges | None = None) -> Array:
    """weights [..., R, C] → [..., R', C'], one row and column for each range: columns (keys) add up, rows (queries) are
    averaged. None: as they are. Ranges cover all rows, or columns, in order."""
    if columns is not None and len(columns) < weights.shape[-1]:
        weights = np.add.reduceat(weights, [first for first, _ in columns], axis=-1)
    if rows is not None and len(rows) < weights.shape[-2]:
        sizes = np.array([[end - first] for first, end in rows], weights.dtype)
        weights = np.add.reduceat(weights, [first for first, _ in rows], axis=-2) / sizes
    return weights


def _ranges(tokens: Sequence[Token], text: str, whole_words: bool) -> Ranges:
    return words(tokens, text) if whole_words else characters(tokens)


def _grouped(tokens: Sequence[Token], belong: Callable[[Token, Token], bool]) -> Ranges:
    """Ranges of neighbours of which each belongs to the next."""
    ends = [
        i
        for i in range(1, len(tokens))
        if tokens[i - 1].special or tokens[i].special or not belong(*tokens[i - 1 : i + 1])
    ]
    return list(itertools.pairwise([0, *ends, len(tokens)])) if tokens else []


def _share_character(a: Token, b: Token) -> bool:
    return a.start < a.end and b.start < a.end


def _share_word(a: Token, b: Token, text: str) -> bool:
    if a.text.isspace():
        return b.start < b.end
    if a.end != b.start or a.start == a.end or b.start == b.end:
        return False
    return _inside_word(text, b.start)


def _inside_word(text: str, at: int) -> bool:
    """Whether what stands before and after a place in a text, neither its start nor its end, is of one word or symbol."""
    before, after = text[at - 1], text[at]
    if before.isspace() or after.isspace():
        return False
    if _JOINER in (before, after) or _is_mark(after) or _is_second_of_flag(text, at):
        return True
    if after in _APOSTROPHES:
        return _in_word(_base(text, at)) and _in_word(text[at + 1 : at + 2])
    if before in _APOSTROPHES:
        return at > 1 and _in_word(_base(text, at - 1)) and _in_word(after)
    return _in_word(_base(text, at)) and _in_word(after)


def _in_word(char: str) -> bool:
    return char.isalnum() and not _UNSPACED.match(char)


def _is_mark(char: str) -> bool:
    """Whether it combines with the character before: accents, variation selectors, skin colours of emoji."""
    return unicodedata.category(char)[0] == "M" or "\U0001f3fb" <= char <= "\U0001f3ff"


def _base(text: str, end: int) -> str:
    """The last character of text[:end] that is no mark; "" if there is none."""
    while end and _is_mark(text[end - 1]):
        end -= 1
    return text[end - 1 : end]


def _is_second_of_flag(text: str, at: int) -> bool:
    """Whether the character at `at` is the second of two letters that are shown as a flag."""
    n = 0
    while n <= at and "\U0001f1e6" <= text[at - n] <= "\U0001f1ff":
        n += 1
    return n > 0 and n % 2 == 0


# --- what a view says ---


def entropy(weights: Array) -> Array:
    """How widely each row of weights [R, C] looks, in bits: − Σ p log₂ p of the row over its sum; from 0, one column, to
    log₂ C, all alike. 0 for a row of zeros. → [R]"""
    p = weights.astype(np.float64)
    p /= np.maximum(p.sum(axis=-1, keepdims=True), np.finfo(np.float64).tiny)
    bits: Array = -np.sum(p * np.log2(np.where(p > 0, p, 1.0)), axis=-1)
    return np.maximum(bits, 0.0)


def links(view: View, n: int) -> list[tuple[int, int, float]]:
    """The n strongest cells (row, column, weight) between tokens that are not special, strongest first."""
    allowed = np.outer([not t.special for t in view.rows], [not t.special for t in view.columns])
    cells = np.flatnonzero(allowed)
    order = cells[np.argsort(-view.weights.ravel()[cells], kind="stable")[: max(n, 0)]]
    return [(*divmod(int(i), len(view.columns)), float(view.weights.flat[i])) for i in order]


def _weights(map: AttentionMap, kind: str) -> Array:
    """All weights of a kind [layers, H, R, C]; those of a rollout are the encoder's."""
    if kind not in KINDS:
        raise UsageError(f"kind must be one of {', '.join(KINDS)}, not {kind!r}")
    weights = {"cross": map.cross, "decoder": map.decoder}.get(kind, map.encoder)
    if weights is None:
        raise UsageError(f"the decoder of the model {map.model} has no self-attention to show")
    return np.asarray(weights)


def _number(name: str, value: int | str, most: int, kind: str, others: tuple[str, ...]) -> int | str:
    """The value, if it is one of the others or a number from 1 to `most`."""
    if value in others or (type(value) is int and 1 <= value <= most):
        return value
    known = [f"a number from 1 to {most}"] if most else []
    raise UsageError(f"{name} of {kind} must be {' or '.join([*known, *others])}, not {value!r}")
