"""Where pieces stand in the text that they spell."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Sequence

from .protect import BREAKS, restored
from .results import Token
from .tokenizer import BYTES, Tokenizer


def text_and_tokens(tokenizer: Tokenizer, ids: Sequence[int]) -> tuple[str, list[Token]]:
    """What pieces spell, as `Tokenizer.decode` gives it, and each of them with its place in that.

    The bytes of one character have the place of that character. Without a place (start = end) are special pieces, bytes
    that form no character, and a space that the tokenizer put before the text."""
    names = tokenizer.pieces(ids)
    special = [i in tokenizer.special for i in ids]
    spelt = [tokenizer.spelling(i) for i in ids]
    content = b"".join(spelt)
    text = content.decode("utf-8", errors="ignore")
    unspoken = text.startswith(" ")  # as in `decode`
    starts: list[int] = []  # of the character that each byte is a part of
    ends: list[int] = []
    at = -unspoken
    for char in content.decode("utf-8", errors="surrogateescape"):
        is_stray = "\udc80" <= char <= "\udcff"  # a byte of no character, which is not in the text
        n_bytes = 1 if is_stray else len(char.encode())
        starts += [max(at, 0)] * n_bytes
        at += not is_stray
        ends += [max(at, 0)] * n_bytes
    starts.append(max(at, 0))
    text = text[unspoken:]
    tokens = []
    first = 0
    for name, is_special, spelling in zip(names, special, spelt, strict=True):
        start = starts[first]
        first += len(spelling)
        end = ends[first - 1] if spelling else start
        tokens.append(Token(name if name in BYTES or start == end else text[start:end], start, end, is_special))
    return text, tokens


def with_kept(text: str, tokens: Sequence[Token], kept: Sequence[str]) -> tuple[str, list[Token]]:
    """A text with what its slots stand for (module protect), `kept` for the first, the second …, and its pieces with their
    places in that."""
    became = restored(text, kept)
    starts = [0, *itertools.accumulate(map(len, became))]  # where each character of the text begins now
    full = "".join(became)
    moved = []
    for token in tokens:
        start, end = starts[token.start], starts[token.end]
        spelt = token.special or token.text in BYTES or start == end
        moved.append(dataclasses.replace(token, text=token.text if spelt else full[start:end], start=start, end=end))
    return full, moved


def as_printed(text: str, tokens: Sequence[Token]) -> tuple[str, Sequence[Token]]:
    """An output as it is printed, on one line and without spaces around it, and its pieces with their places in that."""
    printed = re.sub(BREAKS, " ", text).strip()
    if printed == text:
        return text, tokens
    line = re.sub(BREAKS, " ", text)
    margin = len(line) - len(line.lstrip())

    def moved(at: int) -> int:
        return min(max(len(re.sub(BREAKS, " ", text[:at])) - margin, 0), len(printed))

    places = [(moved(token.start), moved(token.end)) for token in tokens]
    return printed, [
        Token(t.text if t.special or t.text in BYTES or a == b else printed[a:b], a, b, t.special)
        for t, (a, b) in zip(tokens, places, strict=True)
    ]
