"""The content of a `tokenizer.json`: its pieces and what they spell, and cutting texts with the library `tokenizers`."""

from __future__ import annotations

import base64
import functools
import json
import math
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from .config import read_bytes
from .errors import CheckpointError
from .sentencepiece_text import SPACE, Rules

if TYPE_CHECKING:
    from tokenizers import Tokenizer as _Backend

Places = list[tuple[int, int]]
MAX_JSON_BYTES = 1 << 28
# Ids that may be no piece's: so many, and one in a hundred. Public vocabularies have none, or names such as
# "madeupword0001" in their place; one with many is a part of another's.
HOLES, HOLES_SHARE = 100, 0.01


class Cutter(Protocol):
    """What cuts a text into the ids of pieces, and with them their places in the text."""

    def encode(self, text: str) -> list[int]: ...
    def encode_with_places(self, text: str) -> tuple[list[int], Places]: ...


class Parts(NamedTuple):
    """Of a vocabulary: its pieces, what they spell, their scores, and what cuts a text into them."""

    pieces: Sequence[str]
    spellings: Sequence[bytes]
    scores: Sequence[float]
    cutter: Cutter


class _Library:
    def __init__(self, backend: _Backend, spellings: Sequence[bytes]) -> None:
        self.backend, self.spellings = backend, spellings

    def encode(self, text: str) -> list[int]:
        return list(self.backend.encode(text, add_special_tokens=False).ids)

    def encode_with_places(self, text: str) -> tuple[list[int], Places]:
        found = self.backend.encode(text, add_special_tokens=False)
        places = []
        for i, (start, end) in zip(found.ids, found.offsets, strict=True):
            spelling = self.spellings[i]
            while spelling.startswith(b" ") and start < end and text[start].isspace():
                start += 1
            # Nothing but a space may be one that was put before the text: the library gives it the place of a character.
            places.append((start, start if spelling and not spelling.strip(b" ") else end))
        return list(found.ids), places


def read_library(values: dict[str, Any]) -> Parts:
    model, added = values["model"], values.get("added_tokens") or []
    pieces = vocabulary_of(model, added)
    special = {token["id"] for token in added if token.get("special")}
    is_unigram = model["type"] == "Unigram"
    unknown = model.get("unk_id") if is_unigram else model.get("unk_token")
    if is_unigram and (type(unknown) is not int or not 0 <= unknown < len(model["vocab"])):
        raise CheckpointError(f"its unknown piece is number {unknown!r} of {len(model['vocab'])}")
    if unknown is not None:
        special.add(unknown if is_unigram else pieces.index(unknown))
    kinds = _kinds(values.get("pre_tokenizer")) | _kinds(values.get("decoder"))
    spellings = [_spelling(piece, kinds, bool(model.get("byte_fallback"))) for piece in pieces]
    for token in added:
        spellings[token["id"]] = token["content"].encode()
    for i in special:
        spellings[i] = b""
    scores = [float(entry[1]) for entry in model["vocab"]] if is_unigram else zipf(len(pieces))
    scores += [0.0] * (len(pieces) - len(scores))
    backend = _backend(values, pieces, special)
    return Parts(pieces, spellings, scores, _Library(backend, spellings))


def zipf(n: int) -> list[float]:
    """Log-probabilities of n pieces that are numbered in the order in which they were learnt or by their number in a text,
    the frequent ones first: p = 1 / (rank · Hₙ), with Hₙ ≈ ln n + 0.577 (Zipf 1949)."""
    return [-math.log(rank * (math.log(n) + 0.577)) for rank in range(1, n + 1)]


def vocabulary_of(model: Mapping[str, Any], added: Sequence[Mapping[str, Any]]) -> list[str]:
    """All pieces in the order of their ids. Ids that no piece has are ""."""
    if model["type"] == "Unigram":
        by_id = dict(enumerate(entry[0] for entry in model["vocab"]))
    elif model["type"] == "BPE":
        by_id = {}
        for piece, i in model["vocab"].items():
            if by_id.setdefault(i, piece) != piece:
                raise CheckpointError(f"the pieces {by_id[i]!r} and {piece!r} have the same number, {i!r}")
    else:
        raise CheckpointError(f"its model is of the kind {model['type']!r}; Unigram and BPE are read")
    by_id |= {token["id"]: token["content"] for token in added}
    size = len(by_id)
    most = size + HOLES + int(HOLES_SHARE * size)
    for i, piece in by_id.items():
        if type(i) is not int or not isinstance(piece, str) or not 0 <= i < most:
            raise CheckpointError(f"a vocabulary of {size} pieces has the piece {piece!r} as number {i!r}")
    return [by_id.get(i, "") for i in range(max(by_id, default=-1) + 1)]


def _kinds(part: Any) -> set[str]:
    """The kinds of a pre-tokenizer or a decoder, with those of its parts."""
    if part is None:
        return set()
    parts = part.get("pretokenizers") or part.get("decoders") or []
    return {part["type"]}.union(*map(_kinds, parts))


@functools.cache
def _byte_characters() -> dict[str, int]:
    """The characters that stand for bytes in byte-level vocabularies (Radford et al. 2019): printable ones of Latin-1 for
    themselves, the 68 others from U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(0x100 + n): byte for n, byte in enumerate(others)}


def _spelling(piece: str, kinds: Collection[str], byte_fallback: bool) -> bytes:
    if "ByteLevel" in kinds:
        table = _byte_characters()
        return bytes(table[char] for char in piece) if all(char in table for char in piece) else piece.encode()
    if byte_fallback and len(piece) == 6 and piece.startswith("<0x") and piece.endswith(">"):
        return bytes([int(piece[3:5], 16)])
    return piece.replace(SPACE, " ").encode()


def _backend(values: dict[str, Any], pieces: Sequence[str], special: Collection[int]) -> _Backend:
    """The library's tokenizer, without what adds special pieces or finds them in a text: they are renamed to what no text
    holds once spaces are ▁ or Ġ, all but a BPE model's unknown piece, which goes by its name."""
    from tokenizers import Tokenizer as _Backend

    normalizer = values.get("normalizer") or {}
    for part in (normalizer, *(normalizer.get("normalizers") or [])):
        if part.get("type") == "Precompiled":  # the library panics where it cannot read them
            Rules(base64.b64decode(part["precompiled_charsmap"]))
    model = values["model"]
    unknown = model.get("unk_token")
    hidden = {pieces[i] for i in special} - {unknown}
    vocab = model["vocab"]
    if isinstance(vocab, list):
        vocab = [[f" {entry[0]}" if i in special else entry[0], entry[1]] for i, entry in enumerate(vocab)]
    else:
        vocab = {f" {piece}" if piece in hidden else piece: i for piece, i in vocab.items()}
    without = {"post_processor": None, "truncation": None, "padding": None}
    found = [token for token in values.get("added_tokens") or [] if token["id"] not in special]
    cleaned = values | without | {"added_tokens": found, "model": model | {"vocab": vocab}}
    try:
        return _Backend.from_str(json.dumps(cleaned))
    except BaseException as error:  # the library raises bare Exception, and where it panics something that is none
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise CheckpointError(" ".join(str(error).split())) from error


def parse_json(content: str) -> dict[str, Any]:
    try:
        values = json.loads(content)
    except RecursionError as error:
        raise CheckpointError("it is nested too deeply to be JSON of a vocabulary") from error
    except ValueError as error:
        raise CheckpointError(f"it is not valid JSON: {error}") from error
    if not isinstance(values, dict):
        raise CheckpointError(f"it must hold a JSON object, not a {type(values).__name__}")
    return values


def read_text(path: Path) -> str:
    try:
        return read_bytes(path, MAX_JSON_BYTES).decode("utf-8")
    except UnicodeDecodeError as error:
        raise CheckpointError(f"{path} is not UTF-8 at byte {error.start}") from error
