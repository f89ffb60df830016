"""SentencePiece models (`.spm`, `spiece.model`): protocol buffers, ModelProto in sentencepiece_model.proto, read and written as
JSON of the library `tokenizers`. How they cut a text is in `sentencepiece_text`."""

from __future__ import annotations

import base64
import functools
import json
import math
import struct
import sys
from array import array
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from .errors import CheckpointError
from .sentencepiece_text import (
    BYTE,
    CONTROL,
    NORMAL,
    SPACE,
    UNKNOWN,
    UNUSED,
    USER_DEFINED,
    USER_DEFINED_SCORE,
    Rules,
    Segmenter,
)

UNIGRAM, BPE = 1, 2  # TrainerSpec.ModelType
MAX_BYTES = 1 << 26  # of a file; the largest vocabularies of translation models take a twelfth of it
SPECIAL = (UNKNOWN, CONTROL, UNUSED)  # kinds of pieces that stand for no text
KEY = "tx"  # of what tokenizers JSON has of ours, in its "model": the library passes over it
Field: TypeAlias = "int | bytes"  # a varint or the bits of a fixed-width number; or bytes


class SentencePieceModel(Segmenter):
    """A SentencePiece model; `content` are the bytes of its file."""

    content = b""

    def to_tokenizers_json(self, pieces: Sequence[str] | None = None, special: Collection[int] | None = None) -> str:
        """The model as the content of a tokenizer.json.

        `pieces` are the vocabulary in the order of its ids, if that is another than the model's own: pieces of the model
        that it does not have become the unknown one. `special` are the ids of those that stand for no text, by default
        those that the model says.

        `LibraryTokenizer` cuts a text as this model does, since the JSON carries it. What the library `tokenizers` makes of
        it is nearly the same: see `sentencepiece_text` for what it does otherwise, and it knows no symbols that a BPE model's
        user defined. Raises CheckpointError if the vocabulary has no unknown piece.
        """
        names, special, unknown = self.vocabulary(pieces, special)
        flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
        values = {
            "version": "1.0",
            "model": {
                KEY: {"sentencepiece": base64.b64encode(self.content).decode("ascii"), "special": special},
                **(self._bpe(names, unknown) if self.is_bpe else self._unigram(names, unknown)),
            },
            "added_tokens": [{"id": i, "content": names[i], "special": True, **flags} for i in special],
            "normalizer": {"type": "Sequence", "normalizers": list(self._normalizers())},
            "decoder": {
                "type": "Sequence",
                "decoders": [
                    {"type": "Replace", "pattern": {"String": SPACE}, "content": " "},
                    {"type": "ByteFallback"},
                    {"type": "Fuse"},
                    {"type": "Strip", "content": " ", "start": int(self.add_dummy_prefix), "stop": 0},
                ],
            },
        }
        return json.dumps(values, ensure_ascii=False)

    def vocabulary(
        self, pieces: Sequence[str] | None = None, special: Collection[int] | None = None
    ) -> tuple[list[str], list[int], int]:
        """The pieces in the order of their ids, the ids of those that stand for no text, and that of the unknown one, with
        arguments and errors as in `to_tokenizers_json`."""
        names = list(self.pieces if pieces is None else pieces)
        ids = {name: i for i, name in reversed(list(enumerate(names)))}
        unknown = ids.get(self.pieces[self.unknown])
        if unknown is None:
            raise CheckpointError(f"the vocabulary has no piece {self.pieces[self.unknown]!r} for what is unknown")
        if special is None:
            no_text = [piece for piece, kind in zip(self.pieces, self.kinds, strict=True) if kind in SPECIAL]
            special = [ids[name] for name in no_text if name in ids]
        return names, sorted({*special, unknown}), unknown

    def _normalizers(self) -> Iterator[dict[str, Any]]:
        if self.rules.charsmap:
            yield {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(self.rules.charsmap).decode("ascii")}
        if self.remove_extra_whitespaces:
            yield {"type": "Strip", "strip_left": True, "strip_right": True}
            yield {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}
        yield {"type": "Replace", "pattern": {"String": " "}, "content": SPACE}
        if self.add_dummy_prefix:
            yield {"type": "Prepend", "prepend": SPACE}

    def _unigram(self, names: Sequence[str], unknown: int) -> dict[str, Any]:
        scores = {
            piece: USER_DEFINED_SCORE if kind == USER_DEFINED else score
            for piece, score, kind in zip(self.pieces, self.scores, self.kinds, strict=True)
        }
        vocab = [[name, scores.get(name, 0.0)] for name in names]
        return {"type": "Unigram", "unk_id": unknown, "vocab": vocab, "byte_fallback": self.byte_fallback}

    def _bpe(self, names: Sequence[str], unknown: int) -> dict[str, Any]:
        """Every pair of pieces that form a piece is a merge, the piece with the highest score first."""
        score = {
            piece: score
            for piece, score, kind in zip(self.pieces, self.scores, self.kinds, strict=True)
            if kind in (NORMAL, USER_DEFINED)
        }
        known = score.keys() & set(names)
        pairs = [(piece[:n], piece[n:]) for piece in sorted(known) for n in range(1, len(piece))]
        merges = [pair for pair in pairs if known.issuperset(pair)]
        merges.sort(key=lambda pair: -score["".join(pair)])
        return {
            "type": "BPE",
            "unk_token": names[unknown],
            "fuse_unk": True,
            "byte_fallback": self.byte_fallback,
            "vocab": {name: i for i, name in enumerate(names)},
            "merges": merges,
        }


def read(path: str | Path) -> SentencePieceModel:
    """Reads a file. Raises CheckpointError, one line with the path and what is wrong."""
    path = Path(path)
    try:
        if (size := path.stat().st_size) > MAX_BYTES:
            raise CheckpointError(f"{path} is larger than {MAX_BYTES >> 20} MiB: it has {size:,} bytes")
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror or error}") from error
    try:
        return parse(content)
    except CheckpointError as error:
        raise CheckpointError(f"{path} is not a readable SentencePiece model: {error}; get the file again") from error


@functools.lru_cache(maxsize=2)  # what was read is parsed again where its JSON is
def parse(content: bytes) -> SentencePieceModel:
    """A model from the bytes of a file. Raises CheckpointError: what is wrong with them."""
    if len(content) > MAX_BYTES:
        raise CheckpointError(f"it is larger than {MAX_BYTES >> 20} MiB")
    pieces: list[str] = []
    scores, kinds = array("f"), bytearray()
    trainer: dict[int, Field] = {}
    normalizer: dict[int, Field] = {}
    at = 0
    try:
        while at < len(content):
            at = _plain_pieces(content, at, pieces, scores)
            kinds += bytes([NORMAL]) * (len(pieces) - len(kinds))
            if at == len(content):
                break
            number, value, at = _field(content, at)
            if number == 1:
                name, score, kind = _piece(_bytes(value))
                pieces.append(name)
                scores.append(score)
                kinds.append(kind)
            elif number == 2:
                trainer.update(_fields(_bytes(value)))
            elif number == 3:
                normalizer.update(_fields(_bytes(value)))
    except UnicodeDecodeError as error:
        raise CheckpointError(f"piece {len(pieces)} is not UTF-8") from error
    model_type, byte_fallback = trainer.get(3, UNIGRAM), bool(trainer.get(35, 0))
    if model_type not in (UNIGRAM, BPE):
        raise CheckpointError(f"its model type is {model_type!r}, neither unigram ({UNIGRAM}) nor BPE ({BPE})")
    if trainer.get(24, 0) or not normalizer.get(5, 1):
        raise CheckpointError("it writes spaces in another way than as ▁ before a word")
    _check(pieces, scores, kinds, byte_fallback)
    model = SentencePieceModel(
        pieces,
        scores.tolist(),
        bytes(kinds),
        is_bpe=model_type == BPE,
        byte_fallback=byte_fallback,
        add_dummy_prefix=bool(normalizer.get(3, 1)),
        remove_extra_whitespaces=bool(normalizer.get(4, 1)),
        rules=Rules(_bytes(normalizer.get(2, b""))),
    )
    model.content = content
    return model


def _check(pieces: list[str], scores: array[float], kinds: bytearray, byte_fallback: bool) -> None:
    if len(set(pieces)) < len(pieces) or "" in pieces:
        raise CheckpointError("a piece is there twice or empty")
    if kinds.count(UNKNOWN) != 1:
        raise CheckpointError(f"{kinds.count(UNKNOWN)} of its {len(pieces)} pieces stand for what is unknown, not one")
    if not NORMAL <= min(kinds) <= max(kinds) <= BYTE:
        raise CheckpointError("a piece is of no known kind")
    if not all(map(math.isfinite, scores)):
        raise CheckpointError("the score of a piece is no number")
    names = {name for name, kind in zip(pieces, kinds, strict=True) if kind == BYTE}
    if names != ({f"<0x{byte:02X}>" for byte in range(256)} if byte_fallback else set()):
        raise CheckpointError("the pieces that stand for bytes are not complete, or are there without being used")


# --- protocol buffers ---


def _varint(content: bytes, at: int) -> tuple[int, int]:
    """The number that begins at byte `at`, and where it ends."""
    value = 0
    for n, byte in enumerate(content[at : at + 10]):
        value |= (byte & 0x7F) << 7 * n
        if byte < 0x80:
            return value, at + n + 1
    raise CheckpointError(f"the number at byte {at} does not end")


def _field(content: bytes, start: int) -> tuple[int, Field, int]:
    """The field that begins at byte `start`: its number, its value, and where it ends."""
    tag, at = _varint(content, start)
    number, wire_type = tag >> 3, tag & 7
    if wire_type == 0:
        value, at = _varint(content, at)
        return number, value, at
    if wire_type == 2:
        length, at = _varint(content, at)
    elif wire_type in (1, 5):
        length = 8 if wire_type == 1 else 4
    else:
        raise CheckpointError(f"the field at byte {start} is of the unknown kind {wire_type}")
    end = at + length
    if end > len(content):
        raise CheckpointError(
            f"truncated: the field at byte {start} needs {length} bytes, {len(content) - at} are left"
        )
    raw = content[at:end]
    return number, raw if wire_type == 2 else int.from_bytes(raw, "little"), end


def _fields(content: bytes) -> Iterator[tuple[int, Field]]:
    """The fields of a message, in order: number and value."""
    at = 0
    while at < len(content):
        number, value, at = _field(content, at)
        yield number, value


def _plain_pieces(content: bytes, at: int, pieces: list[str], scores: array[float]) -> int:
    """Reads pieces from byte `at` on as long as they are short and normal, as nearly all are: 0A size 0A n, n bytes of
    text, 15 and four bytes of score. Returns where it stopped."""
    found = []
    end = at
    try:
        while content[at] == content[at + 2] == 0x0A:
            n = content[at + 3]
            end = at + n + 9
            if content[at + 1] != n + 7 or n > 0x78 or content[end - 5] != 0x15 or end > len(content):
                break
            pieces.append(content[at + 4 : end - 5].decode())
            found.append(content[end - 4 : end])
            at = end
    except IndexError:  # the end of the file, or a damaged length: the general way says which
        pass
    values = array("f", b"".join(found))
    if sys.byteorder == "big":
        values.byteswap()
    scores.extend(values)
    return at


def _piece(content: bytes) -> tuple[str, float, int]:
    """Text, score and kind of a piece."""
    values = dict(_fields(content))
    kind, score = values.get(3, NORMAL), values.get(2, 0)
    if not isinstance(kind, int) or not isinstance(score, int) or kind > BYTE or score >> 32:
        raise CheckpointError("a piece has a value of the wrong kind")
    return _bytes(values.get(1, b"")).decode(), struct.unpack("<f", struct.pack("<I", score))[0], kind


def _bytes(value: Field) -> bytes:
    if isinstance(value, int):
        raise CheckpointError("a number stands where a text or a part should be")
    return value
