"""Text to pieces and back, without loss.

A unigram model (Kudo 2018) over the raw characters, spaces included: there is no normalisation and no pre-tokenisation,
so nothing can be lost on the way. Characters outside the vocabulary become their UTF-8 bytes. No piece holds more than
one digit, so numbers are spelt digit by digit.

A sentence is segmented here before the library `tokenizers` could be imported and have read the vocabulary; longer
texts are left to it. Both give the same pieces.
"""

from __future__ import annotations

import functools
import itertools
import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from .errors import CheckpointError

if TYPE_CHECKING:
    from tokenizers import Tokenizer as _Backend

BYTE_PIECES = [f"<0x{byte:02X}>" for byte in range(256)]
BYTES = {piece: bytes([byte]) for byte, piece in enumerate(BYTE_PIECES)}
SPECIAL_PIECE = r"<(pad|unk|/s|[a-z]+:[a-z0-9]+|summarize|answer)>"  # compiled only where one may occur
# So many characters are segmented before the library is loaded: it costs as much as these, and a fifth for each after.
PLAIN_CHARACTERS = 8_000
FOREIGN_KINDS = ("Metaspace", "ByteLevel", "Precompiled", "Replace")  # of parts that no vocabulary of ours has
UNKNOWN = -10.0  # what an unknown character scores below the worst piece, as in the library


class Unigram:
    """The most probable segmentation of a text: pieces, and `scores`, the logarithms of their probabilities."""

    def __init__(self, pieces: Sequence[str], scores: Sequence[float]) -> None:
        self.ids = dict(zip(pieces, range(len(pieces)), strict=True))
        self.scores = scores
        self.longest = max(map(len, pieces))
        self.unknown = min(scores) + UNKNOWN

    def encode(self, text: str) -> list[int]:
        """The ids of the pieces with the highest Σ log p (Viterbi 1967): best[j] = max over i of best[i] +
        log p(text[i:j]). A character that is no piece is spelt by its bytes."""
        n, ids, scores = len(text), self.ids, self.scores
        best = [0.0] + [float("-inf")] * n  # of all segmentations of text[:j]
        last: list[tuple[int, int | None]] = [(0, None)] * (n + 1)  # its last piece: where it starts, and its id
        for i in range(n):
            for j in range(i + 1, min(i + self.longest, n) + 1):
                piece = ids.get(text[i:j])
                if piece is not None:
                    score = best[i] + scores[piece]
                elif j == i + 1:
                    score = best[i] + self.unknown
                else:
                    continue
                if score > best[j]:
                    best[j], last[j] = score, (i, piece)
        found: list[int] = []
        while n:
            i, piece = last[n]
            found += [piece] if piece is not None else [ids[BYTE_PIECES[b]] for b in reversed(text[i:n].encode())]
            n = i
        return found[::-1]


class Tokenizer:
    """One vocabulary for all languages."""

    def __init__(self, backend: _Backend) -> None:
        self.backend = backend
        pieces = [backend.id_to_token(i) or "" for i in range(backend.get_vocab_size())]
        self._set(pieces, None, "")

    def _set(self, pieces: Sequence[str], unigram: Unigram | None, content: str) -> None:
        self._pieces, self._unigram, self._content = pieces, unigram, content
        self.vocab_size = len(pieces)
        self._left = PLAIN_CHARACTERS

    @classmethod
    def from_file(cls, path: str | Path) -> Tokenizer:
        """Reads `tokenizer.json`, be it another project's: then it is a LibraryTokenizer, which has the same methods. Raises
        CheckpointError if it is neither."""
        try:
            content = Path(path).read_text(encoding="utf-8")
            unigram = _read_unigram(content)
            if unigram is None:  # another kind, or damaged: the library knows
                if _is_foreign(json.loads(content)):
                    from .foreign_tokenizer import LibraryTokenizer

                    return cast(Tokenizer, LibraryTokenizer(content))
                return cls(_backend(content))
        except Exception as error:  # the library raises bare Exception
            raise CheckpointError(f"{path} is not a readable tokenizer.json: {' '.join(str(error).split())}") from error
        tokenizer = cls.__new__(cls)
        tokenizer._set(list(unigram.ids), unigram, content)
        return tokenizer

    @functools.cached_property
    def backend(self) -> _Backend:
        """The same tokenizer in the library `tokenizers`, loaded when first used."""
        self._unigram = None
        return _backend(self._content)

    @functools.cached_property
    def special(self) -> dict[int, str]:
        """The pieces that stand for no text, by id."""
        return {i: piece for i, piece in enumerate(self._pieces) if re.fullmatch(SPECIAL_PIECE, piece)}

    @functools.cached_property
    def _ids(self) -> dict[str, int]:
        return {piece: i for i, piece in enumerate(self._pieces)}

    def save(self, path: str | Path) -> None:
        """Writes `tokenizer.json`."""
        self.backend.save(str(path), pretty=False)

    def to_json(self) -> str:
        """The content of `tokenizer.json`."""
        return str(self.backend.to_str())

    def encode(self, text: str) -> list[int]:
        """The ids of a text's pieces; no special pieces. `decode(encode(text)) == text` for all text that UTF-8 can
        hold. Text that spells a special piece, such as "</s>", is read as ordinary characters."""
        text = _with_prefix(text)
        self._left -= len(text)
        if self._unigram is not None and self._left >= 0:
            return self._unigram.encode(text)
        return list(self.backend.encode(text, add_special_tokens=False).ids)

    def encode_batch(self, texts: Iterable[str]) -> list[list[int]]:
        """`encode` for many texts at once, on all cores unless TOKENIZERS_PARALLELISM=false."""
        batch = self.backend.encode_batch_fast([_with_prefix(t) for t in texts], add_special_tokens=False)
        return [list(e.ids) for e in batch]

    def encode_with_places(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        """`encode`, and for each piece the place in the text, start and end in characters, of what it spells without the
        spaces it begins with. Pieces that spell bytes of one character all have that character's place."""
        ids = self.encode(text)
        content = text.encode()
        # How many characters start in the bytes before each, the end of the text counted as one.
        before = [0, *itertools.accumulate(byte & 0xC0 != 0x80 for byte in content), len(text) + 1]
        spelt = {i: self.spelling(i) for i in set(ids)}
        sizes = {i: (len(piece), len(piece) - len(piece.lstrip(b" "))) for i, piece in spelt.items()}
        at = len(content) - sum(sizes[i][0] for i in ids)  # −1 if a space was put before the text
        places = []
        for size, spaces in map(sizes.__getitem__, ids):
            first = before[max(at + spaces, 0) + 1] - 1
            at += size
            end = before[at]
            places.append((first if first < end else end, end))  # of nothing but spaces: where they end
        return ids, places

    @functools.cached_property
    def scores(self) -> Sequence[float]:
        """The log-probability of each piece, as a unigram model has them; 0 for other kinds of model."""
        vocabulary = json.loads(self._content or self.to_json())["model"]["vocab"]
        return [float(entry[1]) for entry in vocabulary] if isinstance(vocabulary, list) else [0.0] * self.vocab_size

    def decode(self, ids: Sequence[int]) -> str:
        """The text of the pieces; special pieces say nothing. Bytes that form no character are left out."""
        text = b"".join(map(self.spelling, ids)).decode("utf-8", errors="ignore")
        return text[1:] if text.startswith(" ") else text

    def spelling(self, i: int) -> bytes:
        """What the piece adds to a text in UTF-8; nothing if it is special."""
        piece = self._pieces[i]
        if len(piece) < 3 or piece[0] != "<":
            return piece.encode()
        return BYTES.get(piece) or (b"" if re.fullmatch(SPECIAL_PIECE, piece) else piece.encode())

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """The pieces as they stand in the vocabulary, a space as itself and a byte as `<0xE4>`."""
        return [self._pieces[i] for i in ids]

    def id(self, piece: str) -> int:
        """The id of a piece. Raises KeyError if the vocabulary has no such piece."""
        return self._ids[piece]


def _is_foreign(values: Any) -> bool:
    """Whether the content of a `tokenizer.json` has a SentencePiece model in it, or writes spaces as such models or bytes as
    byte-level ones do."""
    if not isinstance(values, dict) or not isinstance(values.get("model"), dict):
        return False
    parts = json.dumps([values.get(name) for name in ("normalizer", "pre_tokenizer", "decoder")])
    return "tx" in values["model"] or any(f'"{kind}"' in parts for kind in FOREIGN_KINDS)


def _with_prefix(text: str) -> str:
    """A text that starts with a Latin letter is read as if a space stood before it, so that a word is the same pieces
    at the start of a line and inside it. One that starts with a space gets one more, so the rule can be reversed."""
    first = text[:1]
    prefixed = first == " " or "A" <= first <= "Z" or "a" <= first <= "z" or "\u00c0" <= first <= "\u024f"
    return " " + text if prefixed else text


def _backend(content: str) -> _Backend:
    from tokenizers import Tokenizer as _Backend

    return _Backend.from_str(content)


def _read_unigram(content: str) -> Unigram | None:
    """The unigram model of a `tokenizer.json` that has one, with bytes for what it does not know, and has nothing else
    that would change a text; None for any other content."""
    try:
        values: dict[str, Any] = json.loads(content)
        model = values.pop("model")
        others = {name for name, value in values.items() if value} - {"version", "decoder"}  # decoding is done here
        if others or set(model) != {"type", "unk_id", "vocab", "byte_fallback"}:
            return None
        pieces, scores = zip(*model["vocab"], strict=True)
        plain = model["type"] == "Unigram" and model["byte_fallback"] is True and type(model["unk_id"]) is int
        if not plain or set(map(type, pieces)) != {str} or set(map(type, scores)) != {float}:
            return None
        unigram = Unigram(pieces, scores)
        whole = len(unigram.ids) == len(pieces) and unigram.ids.keys() >= set(BYTE_PIECES) and "" not in unigram.ids
        return unigram if whole and 0 <= model["unk_id"] < len(pieces) else None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
