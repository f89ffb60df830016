"""Slots (model/protect.py): in training text, where what is the same on both sides of a pair stands in both as the same slot;
and as new pieces of a vocabulary and a model that have none."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from ..errors import CheckpointError
from ..protect import SLOTS, Span, spans
from ..tokenizer import Tokenizer

SLOT_SCORE = -6.0  # the log-probability of a slot as a piece: there is no other way to segment it
Terms = Mapping[str, Sequence[str]]
_WORD = re.compile(r"[A-Za-z][A-Za-z'-]+")
_LATIN = re.compile(r"(?<![A-Za-z0-9])[A-Za-z][A-Za-z0-9.+-]*[A-Za-z0-9](?![A-Za-z0-9])")
# Names that everyday sentences are full of; the dictionary has few.
NAMES = {
    "Tom": ["汤姆"], "Mary": ["玛丽", "玛莉"], "John": ["约翰"], "Boston": ["波士顿"], "Australia": ["澳大利亚", "澳洲"],
    "Japan": ["日本"], "China": ["中国"], "London": ["伦敦"], "Paris": ["巴黎"], "Tokyo": ["东京"], "Jane": ["简"],
    "Bob": ["鲍勃"], "Bill": ["比尔"], "Jim": ["吉姆"], "Jack": ["杰克"], "Mike": ["迈克"], "Alice": ["爱丽丝"],
    "Peter": ["彼得"], "America": ["美国"], "Canada": ["加拿大"], "Germany": ["德国"], "France": ["法国"],
    "England": ["英国"], "Beijing": ["北京"], "Shanghai": ["上海"], "Emily": ["艾米丽"], "Ken": ["肯"], "Taiwan": ["台湾"],
}  # fmt: skip


def read_terms(rows: Sequence[tuple[str, str]]) -> dict[str, list[str]]:
    """English words and their Chinese, from the rows (english, chinese) of a dictionary: single words of four letters and
    more, Chinese of two characters and more; and NAMES."""
    terms: dict[str, list[str]] = {name: list(found) for name, found in NAMES.items()}
    for english, chinese in rows:
        english = english.strip()
        if len(english) >= 4 and _WORD.fullmatch(english) and len(chinese) >= 2:
            terms.setdefault(english, []).append(chinese)
    return terms


def slotted(english: str, chinese: str, rng: random.Random) -> tuple[str, str] | None:
    """The pair with slots for all that must come through unchanged and does so here; None where nothing does."""
    left, right = spans(english), spans(chinese)
    return _exchanged(english, chinese, left, right, rng)


def with_terms(english: str, chinese: str, terms: Terms, rng: random.Random) -> tuple[str, str] | None:
    """The pair with slots for one or two words of a dictionary, or Latin words that the Chinese has too, beside all that
    `slotted` replaces; None where there is no such word."""
    found: list[tuple[int, int, int, int]] = []  # start and end in both
    for word in _LATIN.finditer(english):
        if (
            english.count(word[0]) == 1
            and len(re.findall(rf"(?<![A-Za-z]){re.escape(word[0])}(?![A-Za-z])", chinese)) == 1
        ):
            at = chinese.index(word[0])
            found.append((*word.span(), at, at + len(word[0])))
    for word in _WORD.finditer(english):
        for term in terms.get(word[0], ()) or terms.get(word[0].lower(), ()):
            if chinese.count(term) == 1 and len(re.findall(rf"\b{re.escape(word[0])}\b", english)) == 1:
                at = chinese.index(term)
                found.append((*word.span(), at, at + len(term)))
                break
    if not found:
        return None
    chosen = rng.sample(found, min(len(found), rng.choice((1, 1, 2))))
    # A name of its own for each, so that both sides have it in common.
    left = [Span(a, b, f"\0{i}") for i, (a, b, _, _) in enumerate(chosen)]
    right = [Span(a, b, f"\0{i}") for i, (_, _, a, b) in enumerate(chosen)]
    if _overlap(left) or _overlap(right):
        return None
    left += [span for span in spans(english) if not any(_meet(span, other) for other in left)]
    right += [span for span in spans(chinese) if not any(_meet(span, other) for other in right)]
    return _exchanged(english, chinese, sorted(left), sorted(right), rng)


def beside(english: str, chinese: str, rng: random.Random) -> tuple[str, str]:
    """The pair with one slot more, before or after the sentence: an address, an emoji, a name at the beginning."""
    slot = next(slot for slot in SLOTS if slot not in english)
    parted = "" if chinese[-1] in "。！？…" else " "
    way = rng.randrange(5)
    if way == 0:
        return f"{slot} {english}", f"{slot} {chinese}"
    if way == 1:
        return f"{slot}: {english}", f"{slot}：{chinese}"
    if way == 2:
        return f"{english} ({slot})", f"{chinese}（{slot}）"
    return f"{english} {slot}", f"{chinese}{parted}{slot}"


def _exchanged(
    english: str, chinese: str, left: Sequence[Span], right: Sequence[Span], rng: random.Random
) -> tuple[str, str] | None:
    """Both texts with a slot for each span that the other has as often; the first of the slots in order, as the
    translation of a text has them, or at times any, so that all of them are learnt."""
    counts = Counter(span.output for span in left)
    common = {text for text, n in Counter(span.output for span in right).items() if counts[text] == n}
    left = [span for span in left if span.output in common]
    if not left or len(left) > len(SLOTS):
        return None
    slots = list(SLOTS[: len(left)]) if rng.random() < 0.6 else rng.sample(SLOTS, len(left))
    waiting: dict[str, list[str]] = {}
    for span, slot in zip(left, slots, strict=True):
        waiting.setdefault(span.output, []).append(slot)
    right_slots = [waiting[span.output].pop(0) for span in right if span.output in common]
    right = [span for span in right if span.output in common]
    return _put(english, left, slots), _put(chinese, right, right_slots)


def _put(text: str, found: Sequence[Span], slots: Sequence[str]) -> str:
    for span, slot in reversed(list(zip(found, slots, strict=True))):
        text = text[: span.start] + slot + text[span.end :]
    return text


def _meet(a: Span, b: Span) -> bool:
    return a.start < b.end and b.start < a.end


def _overlap(found: Sequence[Span]) -> bool:
    ordered = sorted(found)
    return any(_meet(a, b) for a, b in zip(ordered, ordered[1:], strict=False))


def add_pieces(tokenizer_json: str) -> str:
    """A unigram vocabulary of ours with a piece for each slot at its end. CheckpointError if it has one already."""
    values = json.loads(tokenizer_json)
    vocabulary = values["model"]["vocab"]
    if {piece for piece, _ in vocabulary} & set(SLOTS):
        raise CheckpointError("the vocabulary has slots already")
    vocabulary += [[slot, SLOT_SCORE] for slot in SLOTS]
    return json.dumps(values, ensure_ascii=False, separators=(",", ":"))


def add_rows(tensors: Mapping[str, Tensor], tokenizer: Tokenizer, seed: int = 0) -> dict[str, Tensor]:
    """The tensors of a model with the given vocabulary, with rows for the slots at the ends of its embeddings [V, d_model]
    and of the bias of its logits [V], in float32. They start among the rows of digits and of words with a capital, which
    slots mostly stand for: at their mean, moved by half their standard deviation at random; the biases lie 2 lower."""
    pieces = tokenizer.pieces(range(tokenizer.vocab_size))
    alike = [i for i, piece in enumerate(pieces) if (len(piece) == 1 and piece.isdigit()) or piece.strip().istitle()]
    if not alike:
        raise CheckpointError("the vocabulary has neither digits nor words with a capital: nothing to begin slots from")
    random_numbers = torch.Generator().manual_seed(seed)
    found = {name: tensor.float() for name, tensor in tensors.items()}
    for name, table in found.items():
        if name == "logits_bias":
            found[name] = torch.cat([table, (table[alike].mean() - 2.0).expand(len(SLOTS))])
        elif table.ndim == 2 and len(table) == tokenizer.vocab_size and "embedding" in name:
            noise = torch.randn(len(SLOTS), table.shape[1], generator=random_numbers)
            rows = table[alike].mean(0) + 0.5 * table[alike].std(0, correction=0) * noise
            found[name] = torch.cat([table, rows])
    return found
