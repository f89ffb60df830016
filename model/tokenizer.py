"""Text to pieces and back, without loss.

A unigram model (Kudo 2018) over the raw characters, spaces included: there is no normalisation and no pre-tokenisation,
so nothing can be lost on the way. Characters outside the vocabulary become their UTF-8 bytes. No piece holds more than
one digit, so numbers are spelt digit by digit.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from tokenizers import Tokenizer as _Backend

from .errors import CheckpointError

BYTE_PIECE = re.compile(r"<0x([0-9A-F]{2})>")
# A text that starts with a Latin letter is read as if a space stood before it, so that a word is the same pieces at the
# start of a line and inside it. A text that starts with a space gets one more, which keeps the rule reversible.
_PREFIXED = re.compile(r"[ A-Za-z\u00c0-\u024f]")


class Tokenizer:
    """One vocabulary for all languages. `special` are the pieces that stand for no text, by id."""

    def __init__(self, backend: _Backend) -> None:
        self.backend = backend
        self.vocab_size: int = backend.get_vocab_size()
        self._pieces = [backend.id_to_token(i) or "" for i in range(self.vocab_size)]
        self.special: dict[int, str] = {}
        self._bytes: list[bytes] = []
        for i, piece in enumerate(self._pieces):
            byte = BYTE_PIECE.fullmatch(piece)
            if byte:
                self._bytes.append(bytes([int(byte[1], 16)]))
            elif re.fullmatch(r"<(pad|unk|/s|[a-z]+:[a-z0-9]+|summarize|answer)>", piece):
                self.special[i] = piece
                self._bytes.append(b"")
            else:
                self._bytes.append(piece.encode())

    @classmethod
    def from_file(cls, path: str | Path) -> Tokenizer:
        """Reads `tokenizer.json`. Raises CheckpointError if it is not one."""
        try:
            return cls(_Backend.from_file(str(path)))
        except Exception as error:  # the library raises bare Exception
            raise CheckpointError(f"{path} is not a readable tokenizer.json: {' '.join(str(error).split())}") from error

    def save(self, path: str | Path) -> None:
        """Writes `tokenizer.json`."""
        self.backend.save(str(path), pretty=False)

    def to_json(self) -> str:
        """The content of `tokenizer.json`."""
        return str(self.backend.to_str())

    def encode(self, text: str) -> list[int]:
        """The ids of a text's pieces; no special pieces. `decode(encode(text)) == text` for all text that UTF-8 can
        hold. Text that spells a special piece, such as "</s>", is read as ordinary characters."""
        return list(self.backend.encode(_with_prefix(text), add_special_tokens=False).ids)

    def encode_batch(self, texts: Iterable[str]) -> list[list[int]]:
        """`encode` for many texts at once, on all cores unless TOKENIZERS_PARALLELISM=false."""
        batch = self.backend.encode_batch_fast([_with_prefix(t) for t in texts], add_special_tokens=False)
        return [list(e.ids) for e in batch]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of the pieces; special pieces say nothing. Bytes that form no character are left out."""
        text = b"".join(self._bytes[i] for i in ids).decode("utf-8", errors="ignore")
        return text[1:] if text.startswith(" ") else text

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """The pieces as they stand in the vocabulary, a space as itself and a byte as `<0xE4>`."""
        return [self._pieces[i] for i in ids]

    def id(self, piece: str) -> int:
        """The id of a piece. Raises KeyError if the vocabulary has no such piece."""
        found = self.backend.token_to_id(piece)
        if found is None:
            raise KeyError(piece)
        return int(found)


def _with_prefix(text: str) -> str:
    return " " + text if _PREFIXED.match(text) else text
