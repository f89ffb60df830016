"""The vocabularies of other projects' checkpoints, with the methods of our own `Tokenizer`.

A `tokenizer.json` (and BART's vocab.json with merges.txt) is run by the library `tokenizers`; a SentencePiece model by
`sentencepiece_model`, whose pieces are those of the library `sentencepiece`. In both cases only text is encoded: the special
pieces are what tasks and engines add, and text that spells one, such as "</s>", is ordinary text.
"""

from __future__ import annotations

import base64
import functools
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from . import sentencepiece_model
from .config import read_object
from .errors import CheckpointError
from .languages import M2M100, MBART, MBART_50, NLLB, WMT21
from .sentencepiece_model import KEY, SPECIAL, SentencePieceModel
from .sentencepiece_text import BYTE, SPACE, Segmenter
from .tokenizer_json import Parts, Places, parse_json, read_library, read_text, vocabulary_of, zipf

TOKENIZER, TOKENIZER_CONFIG, CONFIG, VOCAB, MERGES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "config.json",
    "vocab.json",
    "merges.txt",
)
# Which files each kind of model keeps its vocabulary in.
VOCABULARIES = {
    "marian": f"source.spm (with target.spm and {VOCAB})",
    "t5": f"{TOKENIZER} or spiece.model",
    "mt5": f"{TOKENIZER} or spiece.model",
    "bart": f"{TOKENIZER}, or {MERGES} with {VOCAB},",
    "mbart": f"{TOKENIZER} or sentencepiece.bpe.model",
    "m2m_100": f"{TOKENIZER} or sentencepiece.bpe.model",
}
EXTRA_IDS = 100  # pieces <extra_id_0> … that T5's vocabulary goes on with


class LibraryTokenizer:
    """A vocabulary of another project; the methods are those of `Tokenizer`. `special` are the pieces that stand for no
    text, by id; `scores` the log-probability of each piece as a unigram model has them, of other kinds of model by its
    number (tokenizer_json.zipf)."""

    def __init__(self, content: str) -> None:
        """From the content of a `tokenizer.json`. Raises CheckpointError: what is wrong with it."""
        values = parse_json(content)
        try:
            if KEY in values["model"]:
                inner = values["model"][KEY]
                model = sentencepiece_model.parse(base64.b64decode(inner["sentencepiece"], validate=True))
                parts = _sentencepiece_parts(
                    model, *model.vocabulary(vocabulary_of(values["model"], []), inner["special"])
                )
            else:
                parts = read_library(values)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError, ArithmeticError, RecursionError) as error:
            raise CheckpointError(
                f"a value is missing or of the wrong kind ({' '.join(str(error).split())})"
            ) from error
        self._set(parts, lambda: content)

    def _set(self, parts: Parts, content: Callable[[], str]) -> None:
        self._pieces, self._spellings, self.scores, self._cutter = parts
        self._content = content
        self.vocab_size = len(self._pieces)
        self.special = {i: self._pieces[i] for i in range(self.vocab_size) if not self._spellings[i]}

    @classmethod
    def from_sentencepiece(
        cls, model: SentencePieceModel, pieces: Sequence[str] | None = None, special: Collection[int] | None = None
    ) -> LibraryTokenizer:
        """The same as from `model.to_tokenizers_json(pieces, special)`, which is written only when it is asked for."""
        tokenizer = cls.__new__(cls)
        parts = _sentencepiece_parts(model, *model.vocabulary(pieces, special))
        tokenizer._set(parts, lambda: model.to_tokenizers_json(pieces, special))
        return tokenizer

    @classmethod
    def from_file(cls, path: str | Path) -> LibraryTokenizer:
        """Reads a `tokenizer.json`. Raises CheckpointError, naming the file."""
        content = read_text(Path(path))
        try:
            return cls(content)
        except CheckpointError as error:
            raise CheckpointError(f"{path} is not a readable tokenizer.json: {error}") from error

    def to_json(self) -> str:
        """The content of the file that `from_file` reads."""
        return self._content()

    def save(self, path: str | Path) -> None:
        Path(path).write_text(self.to_json(), encoding="utf-8")

    def encode(self, text: str) -> list[int]:
        """The ids of a text's pieces; no special pieces but the unknown one."""
        return self._cutter.encode(text)

    def encode_batch(self, texts: Iterable[str]) -> list[list[int]]:
        return [self.encode(text) for text in texts]

    def encode_with_places(self, text: str) -> tuple[list[int], Places]:
        """`encode`, and for each piece the place in the text, start and end in characters, of what it stands for without
        the spaces it begins with; of nothing but spaces: where they end. Pieces that spell bytes of one character, and
        pieces of what one character became when it was normalised, all have that character's place."""
        return self._cutter.encode_with_places(text)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of the pieces, without the space before its first word; special pieces, and ids that the vocabulary
        does not have, say nothing. Bytes that form no character are left out."""
        text = b"".join(map(self.spelling, ids)).decode("utf-8", errors="ignore")
        return text[1:] if text.startswith(" ") else text

    def spelling(self, i: int) -> bytes:
        """What the piece adds to a text in UTF-8; nothing if it is special."""
        return self._spellings[i] if 0 <= i < self.vocab_size else b""

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """The pieces as a reader sees them: a space as itself, a byte that is no character as `<0xE4>`, and a special
        piece under its name."""
        return [self._shown(i) for i in ids]

    def _shown(self, i: int) -> str:
        if not 0 <= i < self.vocab_size:
            return f"<{i}>"
        spelling = self._spellings[i]
        if not spelling:
            return self._pieces[i]
        try:
            return spelling.decode("utf-8")
        except UnicodeDecodeError:
            return "".join(f"<0x{byte:02X}>" for byte in spelling)

    @functools.cached_property
    def _ids(self) -> dict[str, int]:
        shown = {self._shown(i): i for i in range(self.vocab_size)}
        return shown | {piece: i for i, piece in enumerate(self._pieces)}

    def id(self, piece: str) -> int:
        """The id of a piece, as the vocabulary or as `pieces` writes it. Raises KeyError if there is no such piece."""
        return self._ids[piece]


def _sentencepiece_parts(
    model: SentencePieceModel, pieces: Sequence[str], special: Collection[int], unknown: int
) -> Parts:
    ids = {piece: i for i, piece in reversed(list(enumerate(pieces)))}
    to_id = [ids.get(piece, unknown) for piece in model.pieces]
    spellings = [piece.replace(SPACE, " ").encode("utf-8", errors="ignore") for piece in pieces]
    scores = zipf(len(pieces)) if model.is_bpe else [0.0] * len(pieces)
    for number, i in enumerate(to_id):
        if i != unknown and not model.is_bpe:
            scores[i] = model.scores[number]
        if i != unknown and model.kinds[number] == BYTE:
            spellings[i] = bytes([int(model.pieces[number][3:5], 16)])
    for i in special:
        spellings[i] = b""
    return Parts(pieces, spellings, scores, _SentencePieces(model, to_id))


class _SentencePieces:
    def __init__(self, model: Segmenter, ids: Sequence[int]) -> None:
        self.model, self.ids = model, ids

    def encode(self, text: str) -> list[int]:
        return [self.ids[piece] for piece in self.model.encode(text)]

    def encode_with_places(self, text: str) -> tuple[list[int], Places]:
        normalised = self.model.normalise(text)
        spans = self.model.cut(normalised.text)
        places = []
        for span in spans:
            spelt = normalised.text[span.start : span.end].lstrip(SPACE)
            start, end = normalised.places[span.end - (len(spelt) or 1)][0], normalised.places[span.end - 1][1]
            if not spelt:  # where the next one starts if it is of the same character, as in "´", a space and an accent
                end = start = min([end, *(place[0] for place in normalised.places[span.end : span.end + 1])])
            places.append((start, end))
        return [self.ids[span.piece] for span in spans], places


# --- files ---


def read_tokenizers(folder: str | Path, model_type: str) -> tuple[LibraryTokenizer, LibraryTokenizer]:
    """The vocabularies of source and target in a folder of Hugging Face; the same object where there is one.

    Raises CheckpointError: which files there should be, or what is wrong with them.
    """
    folder = Path(folder)
    if model_type == "marian" and (folder / "source.spm").is_file():
        return _marian(folder)
    if (folder / TOKENIZER).is_file():
        tokenizer = LibraryTokenizer.from_file(folder / TOKENIZER)
        return tokenizer, tokenizer
    for name, read in (
        ("spiece.model", _t5),
        ("sentencepiece.bpe.model", _m2m100 if (folder / VOCAB).is_file() else _fairseq),
        (MERGES, _bart),
    ):
        if (folder / name).is_file():
            tokenizer = read(folder, folder / name)
            return tokenizer, tokenizer
    raise CheckpointError(f"{folder}, a {model_type} model, has no vocabulary: {VOCABULARIES[model_type]} is missing")


def _marian(folder: Path) -> tuple[LibraryTokenizer, LibraryTokenizer]:
    """Two SentencePiece models, and vocab.json with the ids of their pieces; a second vocabulary for the target if there is
    target_vocab.json."""
    if not (folder / "target.spm").is_file():
        raise CheckpointError(f"{folder} has source.spm, but target.spm, the vocabulary of its outputs, is missing")
    source_vocab, target_vocab = folder / VOCAB, folder / "target_vocab.json"
    if not target_vocab.is_file():
        target_vocab = source_vocab
    source = _numbered(folder / "source.spm", source_vocab)
    if _same(folder / "source.spm", folder / "target.spm") and _same(source_vocab, target_vocab):
        return source, source
    return source, _numbered(folder / "target.spm", target_vocab)


def _same(one: Path, other: Path) -> bool:
    """Whether two files, of which the first is there, hold the same."""
    if not other.is_file() or one.stat().st_size != other.stat().st_size:
        return False
    return one.samefile(other) or one.read_bytes() == other.read_bytes()


def _numbered(path: Path, vocabulary: Path, more: Sequence[str] = ()) -> LibraryTokenizer:
    """A SentencePiece model whose pieces have the ids of a vocab.json, and `more` special pieces after them."""
    pieces = [*_read_vocabulary(vocabulary), *more]
    names = {"<s>", "</s>", "<unk>", "<pad>", *more}
    special = [i for i, name in enumerate(pieces) if not name or name in names or (name[:2], name[-2:]) == (">>", "<<")]
    with_path = f"{path} with {vocabulary.name}"
    try:
        return LibraryTokenizer.from_sentencepiece(sentencepiece_model.read(path), pieces, special)
    except CheckpointError as error:
        raise error if str(path) in str(error) else CheckpointError(f"{with_path}: {error}") from error


def _t5(folder: Path, path: Path) -> LibraryTokenizer:
    model = sentencepiece_model.read(path)
    n_extra = _read_json(folder / TOKENIZER_CONFIG).get("extra_ids", EXTRA_IDS)
    if type(n_extra) is not int or not 0 <= n_extra <= 10_000:
        raise CheckpointError(f"{folder / TOKENIZER_CONFIG}: extra_ids is {n_extra!r}")
    extra = [f"<extra_id_{i}>" for i in reversed(range(n_extra))]
    pieces = [*model.pieces, *extra]
    no_text = [i for i, kind in enumerate(model.kinds) if kind in SPECIAL]
    return LibraryTokenizer.from_sentencepiece(model, pieces, [*no_text, *range(len(model.pieces), len(pieces))])


def _fairseq(folder: Path, path: Path) -> LibraryTokenizer:
    """mBART and NLLB: four special pieces in fairseq's order, the model's other pieces, the languages, and <mask>."""
    model = sentencepiece_model.read(path)
    first = ["<s>", "<pad>", "</s>", "<unk>"]
    pieces = [*first, *model.pieces[3:]]
    settings = _read_json(folder / TOKENIZER_CONFIG) | _read_json(folder / CONFIG)
    languages = _fairseq_languages(settings, len(pieces))
    names = [*pieces, *languages, "<mask>"]
    return LibraryTokenizer.from_sentencepiece(model, names, [*range(4), *range(len(pieces), len(names))])


def _fairseq_languages(settings: Mapping[str, Any], n_pieces: int) -> Sequence[str]:
    """Which languages follow the pieces: those of the kind of tokenizer, else as many as the embedding has rows for."""
    kind, rows = str(settings.get("tokenizer_class", "")), settings.get("vocab_size")
    if "Nllb" in kind or (not kind and settings.get("model_type") == "m2m_100"):
        return NLLB
    if "MBart50" in kind:
        return MBART_50
    fits = isinstance(rows, int) and rows >= n_pieces + len(MBART_50)
    return MBART_50 if not kind.startswith("MBartTok") and fits else MBART


def _m2m100(folder: Path, path: Path) -> LibraryTokenizer:
    wmt21 = _read_json(folder / TOKENIZER_CONFIG).get("language_codes") == "wmt21"
    return _numbered(path, folder / VOCAB, [f"__{code}__" for code in (WMT21 if wmt21 else M2M100)])


def _bart(folder: Path, path: Path) -> LibraryTokenizer:
    """Byte-level BPE: vocab.json, and the merges in the order in which they were learnt."""
    pieces = _read_vocabulary(folder / VOCAB)
    merges = [line for line in read_text(path).split("\n") if line and not line.startswith("#version")]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": True}
    names = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    values = {
        "version": "1.0",
        "added_tokens": [
            {"id": i, "content": piece, "special": True, **flags} for i, piece in enumerate(pieces) if piece in names
        ],
        "pre_tokenizer": byte_level,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "vocab": {piece: i for i, piece in enumerate(pieces) if piece},
            "merges": [line.split(" ", 1) for line in merges],
        },
    }
    try:
        return LibraryTokenizer(json.dumps(values, ensure_ascii=False))
    except CheckpointError as error:
        raise CheckpointError(f"{folder}: {VOCAB} with {MERGES}: {error}") from error


def _read_vocabulary(path: Path) -> list[str]:
    """The pieces of a vocab.json in the order of their ids."""
    values: dict[str, Any] = {}
    try:
        if path.is_file():
            values = parse_json(read_text(path))
    except CheckpointError as error:
        raise error if str(path) in str(error) else CheckpointError(f"{path}: {error}") from error
    if not values:
        raise CheckpointError(
            f"{path} {'is empty' if path.is_file() else 'is missing: it has the numbers of the pieces'}"
        )
    try:
        return vocabulary_of({"type": "BPE", "vocab": values}, [])
    except (CheckpointError, TypeError) as error:
        raise CheckpointError(f"{path} is not a vocabulary: {error}") from error


def _read_json(path: Path) -> dict[str, Any]:
    """The settings in a JSON file; {} where there is no such file."""
    return read_object(path) if path.is_file() else {}
