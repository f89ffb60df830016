"""Fixtures of the command line's tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from tx.model.results import AttentionMap, Token

MakeMap = Callable[..., AttentionMap]


@pytest.fixture(scope="session")
def make_map() -> MakeMap:
    """make_map(source pieces, output pieces): an attention map of random weights, as the model would make it."""
    return _make_map


def _is_special(piece: str) -> bool:
    return piece.startswith("<") and piece.endswith(">")


def _tokens(pieces: Sequence[str], text: str) -> tuple[Token, ...]:
    """Pieces that follow one another in `text`; those in angle brackets are special."""
    tokens, end = [], 0
    for piece in pieces:
        if _is_special(piece):
            tokens.append(Token(piece, end, end, special=True))
        else:
            start = text.index(piece, end)
            end = start + len(piece)
            tokens.append(Token(piece, start, end))
    return tuple(tokens)


def _rows(random: np.random.Generator, *shape: int, causal: bool = False) -> Any:
    weights = random.exponential(1.0, shape) ** 3 + 1e-4
    if causal:
        weights = np.tril(weights)
    return (weights / weights.sum(-1, keepdims=True)).astype(np.float32)


def _make_map(
    src: Sequence[str], tgt: Sequence[str], *, layers: int = 2, heads: int = 3, seed: int = 0, **fields: Any
) -> AttentionMap:
    random = np.random.default_rng(seed)
    source, output = ("".join(p for p in pieces if not _is_special(p)) for pieces in (src, tgt))
    read, written = _tokens([*src, "</s>"], source), _tokens([*tgt, "</s>"], output)
    fed = (Token("<translate:zh>", 0, 0, special=True), *written[:-1])
    values: dict[str, Any] = {
        "model": "en-zh",
        "task": "translate:zh",
        "source": source,
        "output": output,
        "src": read,
        "tgt": written,
        "fed": fed,
        "encoder": _rows(random, layers, heads, len(read), len(read)),
        "decoder": _rows(random, layers, heads, len(written), len(written), causal=True),
        "cross": _rows(random, layers, heads, len(written), len(read)),
    }
    return AttentionMap(**{**values, **fields})
