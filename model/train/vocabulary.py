"""Builds the shared English-Chinese vocabulary: `python -m tx.model.train vocabulary --help`.

The English pieces are a subset of those of an existing unigram vocabulary, with its scores, so that a sentence falls into
the pieces which the pretrained encoder has learnt to read. The Chinese pieces are trained here.
"""

from __future__ import annotations

import collections
import json
import re
from collections.abc import Iterable
from pathlib import Path

from tokenizers import Tokenizer as _Backend
from tokenizers import models, normalizers, pre_tokenizers, trainers

from ..checkpoint import one_line
from ..errors import CheckpointError, InputError
from ..tokenizer import Tokenizer

SPECIAL_PIECES = ("<pad>", "</s>", "<unk>", "<translate:zh>", "<translate:en>", "<summarize>", "<answer>")
_NEVER = -1000.0  # the score of pieces that must never be read from text: any spelling in characters is likelier
_HAN = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff]")
_CHINESE_PUNCTUATION = "，。！？；：、（）《》〈〉“”‘’「」『』【】…—·～％￥"


def english_pieces(vocabulary: dict[str, float], texts: Iterable[str], source: _Backend, size: int) -> dict[str, float]:
    """The `size` pieces of an existing vocabulary that `texts` use most, with their scores, a space written " ".

    Pieces with a digit beside anything else are left out: digits stand alone.
    """
    counts: collections.Counter[str] = collections.Counter()
    for encoding in source.encode_batch(list(texts), add_special_tokens=False):
        counts.update(encoding.tokens)
    kept: dict[str, float] = {}
    for piece, _ in counts.most_common():
        text = piece.replace("\u2581", " ")
        ascii_only = all(c == " " or c.isascii() for c in text)
        if piece not in vocabulary or not ascii_only or (len(text) > 1 and any(c.isdigit() for c in text)):
            continue
        kept[text] = vocabulary[piece]
        if len(kept) == size:
            break
    return kept


def chinese_pieces(texts: Iterable[str], size: int, n_characters: int) -> dict[str, float]:
    """A unigram vocabulary of `size` pieces over runs of Han characters, at most `n_characters` of them single
    characters (the most frequent); a run that holds any other teaches nothing. InputError if there is no Han character."""
    runs: collections.Counter[str] = collections.Counter()
    for text in texts:
        runs.update(re.findall(r"[\u3400-\u4dbf\u4e00-\u9fff]+", text))
    characters: collections.Counter[str] = collections.Counter()
    for run, n in runs.items():
        for character in run:
            characters[character] += n
    if not characters:
        raise InputError("no Chinese pieces: the texts hold no Han characters")
    known = {c for c, _ in characters.most_common(n_characters)}
    backend = _Backend(models.Unigram())
    backend.normalizer = normalizers.Sequence([])
    backend.pre_tokenizer = pre_tokenizers.Split("\n", "removed")
    trainer = trainers.UnigramTrainer(
        vocab_size=size,
        special_tokens=[],
        max_piece_length=5,
        shrinking_factor=0.6,
        n_sub_iterations=2,
        show_progress=False,
    )
    clean = (r for run, n in runs.items() if set(run) <= known for r in [run] * min(n, 50))
    backend.train_from_iterator(clean, trainer=trainer)
    return dict(json.loads(backend.to_str())["model"]["vocab"])


def build(english: dict[str, float], chinese: dict[str, float]) -> Tokenizer:
    """Joins both halves, the special pieces, all bytes and all printable ASCII characters into one tokenizer. Scores are
    log-probabilities. InputError if there is no English piece."""
    pieces: dict[str, float] = dict.fromkeys(SPECIAL_PIECES, _NEVER)
    pieces.update((f"<0x{b:02X}>", _NEVER) for b in range(256))
    if not english:
        raise InputError("no English pieces: the texts use none of the existing vocabulary")
    rare = min(english.values())
    for character in [chr(c) for c in range(32, 127)] + ["\t"]:
        pieces[character] = english.get(character, rare)
    for character in _CHINESE_PUNCTUATION:
        pieces[character] = chinese.get(character, -6.0)
    pieces.update((p, s) for p, s in english.items() if p not in pieces)
    pieces.update((p, s) for p, s in chinese.items() if p not in pieces and all(_HAN.match(c) for c in p))
    vocab = list(pieces.items())
    backend = _Backend(models.Unigram(vocab, unk_id=SPECIAL_PIECES.index("<unk>"), byte_fallback=True))
    return Tokenizer(backend)


def read_unigram(path: Path) -> tuple[_Backend, dict[str, float]]:
    """A `tokenizer.json` with a unigram model: the tokenizer and the score of each piece. CheckpointError if it is none."""
    try:
        vocab: dict[str, float] = dict(json.loads(path.read_text(encoding="utf-8"))["model"]["vocab"])
        if not all(isinstance(score, float) for score in vocab.values()):
            raise ValueError("its pieces have no scores: not a unigram model")
        return _Backend.from_file(str(path)), vocab
    except Exception as error:  # the library raises bare Exception
        raise CheckpointError(f"{path} is not a unigram tokenizer.json: {one_line(error)}") from error
