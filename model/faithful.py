"""Summaries say nothing that the source does not: a rule of the search, and a look at what it wrote.

The rule: no number and no name that the source does not have.

A name is a word with a capital at its beginning. It has to be a word of the source, piece by piece from its beginning to
its end: the pieces of two names do not make a third. At the start of a sentence it may be a word that the source has in
small letters. Else only pieces that are frequent in the vocabulary ("The", "This") may begin a word with a capital, and
such a word is that piece alone. Digits and capitals inside of a word have to stand there in the source too.

The look (is_fit, is_tidy): true words in a false order are no truth, so the words have to stand next to each other as in the source.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .matching import stem
from .segment import END_MARKS, HAN, sentences
from .tokenizer import Tokenizer

COMMON = -7.3  # log-probability of a piece in the vocabulary from which on it is frequent
# Mean log-probability of a piece below which a summary is no good. Measured without NEW_PAIRS (below): at −1.1 the summaries of
# papers (dev set, 150) had a ROUGE-L of 29.1, LEAD of their length 29.0; at −1.4 and below 29.7 and 28.5.
LIKELY = -1.4
# What a summary may have only where its source has the very same: marks in a row; and some Chinese twice in a row.
_MARKS = re.compile("[.,;:!?，。；：！？、]{2,}")
_TWICE = re.compile(rf"({HAN}{{2,}})\1|({HAN})\2\2")
# Nothing ends in these.
_UNFINISHED = re.compile(
    r"\b(?:the|an?|of|to|and|or|in|for|with|by|is|are|from|on|at|that|which)[\W_]*|.*[的和与或、，：,:(（“《]",
    re.DOTALL,
)

# A Chinese character, a number, a word, or a mark after which a clause may be over.
_UNIT = re.compile(rf"{HAN}|\d+(?:[.,:]\d+)*|(?:(?!{HAN})[^\W\d_])+|[,;:()，；：（）、{END_MARKS}—–\"”]")
# Before these words, by their stems, a sentence could have ended.
_ENDS_BEFORE = frozenset(
    stem(word)
    for word in re.findall(
        r"\w+",
        "and or but which that who because when while if as after before by for from in into of on at to with without under "
        "over than so through during about using via",
    )
)
# Pairs of neighbouring Chinese characters that a summary may have and its source has not: titles leave out much. With one,
# ROUGE-L of the papers' summaries (dev set, 150) is 29.7, of LEAD of their length 28.6; with none 28.8 and 28.9; where
# there are more, it is often no Chinese.
NEW_PAIRS = 1

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
Word = tuple[str, ...]  # the pieces of a word or of its beginning, without a space


class Vocabulary:
    """What is known of each piece, all [V]: `words`, its letters and digits with what is between them, "" without any;
    `goes_on`, `open`: whether its first, its last character is a letter or digit (of no Chinese), so that it goes on with
    the word before it, or the next may go on with it; `name`: whether a word that begins with it is a number or a name;
    `marked`: whether it has a digit or a capital; `frequent`: whether it is one word with a capital and often seen."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        pieces = tokenizer.pieces(range(tokenizer.vocab_size))
        texts = ["" if re.fullmatch(r"<.+>", piece) else piece for piece in pieces]  # special pieces and bytes are none
        self.words = [t.strip() if any(map(str.isalnum, t)) else "" for t in texts]
        self.places: dict[str, list[int]] = {}  # which pieces have the same word
        for i, word in enumerate(self.words):
            self.places.setdefault(word, []).append(i)
        self.goes_on: Bools = np.array([_in_word(t[:1]) for t in texts])
        self.open: Bools = np.array([_in_word(t[-1:]) for t in texts])
        self.ends_sentence: Bools = np.array([t.rstrip()[-1:] in {*END_MARKS, ":", "："} - {""} for t in texts])
        self.marked: Bools = np.array([t != t.lower() or any(map(str.isdigit, t)) for t in texts])
        firsts = [next(filter(str.isalnum, w), "") for w in self.words]
        self.name: Bools = np.array([first.isdigit() or first != first.lower() for first in firsts])
        often = np.array(tokenizer.scores) > COMMON
        self.frequent: Bools = often & np.array([w.isalpha() and w[1:] == w[1:].lower() for w in self.words])

    def with_words(self, words: set[str]) -> Bools:
        """Which pieces have one of these words, [V]."""
        found = np.zeros(len(self.words), bool)
        found[[i for word in words for i in self.places.get(word, ())]] = True
        return found


def _in_word(char: str) -> bool:
    return char.isalnum() and not re.match(HAN, char)


def _capital(word: str) -> str:
    return word[:1].upper() + word[1:]


class _Next(NamedTuple):
    """What may follow the beginning of a word: pieces that go on with it, as words; and whether it may end."""

    words: set[str]
    complete: bool


class WordsOfSource:
    """The rule (a generation.LogitsRule) for a batch of sources, piece ids."""

    def __init__(self, vocabulary: Vocabulary, src: Sequence[Sequence[int]]) -> None:
        self.vocabulary = v = vocabulary
        self.words = [_beginnings(v, ids) for ids in src]
        rows = []
        for ids in src:
            inside = [k > 0 and v.open[ids[k - 1]] and v.goes_on[i] for k, i in enumerate(ids)]
            starts = {v.words[i] for i, goes_on in zip(ids, inside, strict=True) if not goes_on}
            exact = v.marked & ~v.frequent & ~v.with_words(starts)
            rows.append((exact, exact & ~v.with_words(set(map(_capital, starts)))))
        self.no_start: Bools = np.array(rows)  # of a word, [sources, 2, V]: in a sentence and at its beginning
        self._masks: dict[tuple[int, Word], Bools] = {}

    def __call__(self, ids: Ints, sentences: Ints, logits: npt.NDArray[np.float32]) -> None:
        """As LogitsRule: ids [rows, T], sentences [rows], logits [rows, V], changed in place."""
        v = self.vocabulary
        for row, source in enumerate(sentences.tolist()):
            word = _last_word(v, ids[row])
            first = not ids.shape[1] or bool(v.ends_sentence[ids[row, -1]])
            forbidden = self.no_start[source, int(first)]
            if word:
                inside = self._no_continuation(source, tuple(v.words[i] for i in word), bool(v.name[word[0]]))
                forbidden = np.where(v.goes_on, inside, forbidden | inside)
            logits[row, np.flatnonzero(forbidden)] = -np.inf  # a model may have room for more pieces than there are

    def _no_continuation(self, source: int, word: Word, name: bool) -> Bools:
        """What may not follow these pieces of a word, [V]: of a name all that does not in the source, of another word what
        goes on with a digit or a capital."""
        mask = self._masks.get((source, word))
        if mask is None:
            v = self.vocabulary
            following = self.words[source].get(word)
            goes_on = v.goes_on & v.with_words(following.words if following else set())
            if not name:
                mask = v.goes_on & v.marked & ~goes_on
            elif following is None or following.complete or not goes_on.any():
                mask = v.goes_on & ~goes_on
            else:
                mask = ~goes_on
            self._masks[source, word] = mask
        return mask


def _last_word(v: Vocabulary, ids: Ints) -> list[int]:
    """The pieces of the word that a text ends in; none if it ends in something else."""
    at = len(ids)
    while at and v.open[ids[at - 1]] and (at == len(ids) or v.goes_on[ids[at]]):
        at -= 1
    return [int(i) for i in ids[at:]]


def _beginnings(v: Vocabulary, ids: Sequence[int]) -> dict[Word, _Next]:
    """Each beginning of a word of the source, as it is and with a capital, and what follows it there."""
    found: dict[Word, _Next] = {}
    word: Word = ()
    for i, following in zip(ids, [*ids[1:], -1], strict=True):
        word = (*word, v.words[i]) if v.open[i] else ()
        if not word:
            continue
        inside = following >= 0 and bool(v.goes_on[following])
        for spelt in {word, (_capital(word[0]), *word[1:])}:
            old = found.get(spelt, _Next(set(), False))
            words = old.words | ({v.words[following]} if inside else set())
            found[spelt] = _Next(words, old.complete or not inside)
        word = word if inside else ()
    return found


def is_fit(summary: str, source: str, log_prob: float) -> bool:
    """Whether a summary that a model of ours wrote, with this mean log-probability a piece, can be shown: it was sure enough,
    and it is tidy, and the words stand next to each other as they do in the source, so that none is new and numbers are of
    what they are there."""
    return log_prob >= LIKELY and is_tidy(summary, source) and _holds_together(summary, source)


def is_tidy(summary: str, source: str) -> bool:
    """Whether a summary says something, its end is not that of half a sentence, and it has no Chinese twice in a row and no
    marks in a row that the source has not."""
    if _ends_early(summary.casefold()):
        return False
    if not set(_MARKS.findall(summary)) <= set(_MARKS.findall(source)):
        return False
    return not any(found[0] not in source for found in _TWICE.finditer(summary))


def _ends_early(summary: str) -> bool:
    end = summary.rstrip("".join(END_MARKS) + " ")
    last = re.search(r"[^\W_]+[\W_]*$", end)
    return last is None or bool(_UNFINISHED.fullmatch(last[0]))


def _holds_together(summary: str, source: str) -> bool:
    """Whether all neighbours in the sentences of the summary are neighbours in one of the source, by their stems, but for
    NEW_PAIRS of Chinese characters; and whether, if they are not Chinese, a clause of the source (or what is not Chinese in it)
    begins with the first word of each sentence, too, and could end after its last two."""
    pairs: set[tuple[str, ...]] = set()
    firsts: set[str] = set()
    lasts: set[tuple[str, ...]] = set()
    for units in _units(source):
        words = _words(units)
        pairs.update(itertools.pairwise(words))
        around = zip(["", *units], units, [*units[1:], ""], strict=False)
        near = [(before, after) for before, unit, after in around if not _is_mark(unit)]  # what is next to each word
        for i, (before, after) in enumerate(near):
            if _is_mark(before) or _is_han(before):
                firsts.add(words[i])
            if _is_mark(after) or _is_han(after) or after in _ENDS_BEFORE:
                lasts.add(tuple(words[max(0, i - 1) : i + 1]))
    new: set[tuple[str, ...]] = set()
    for words in map(_words, _units(summary)):
        new |= set(itertools.pairwise(words)) - pairs
        if words and not (_is_han(words[0]) or words[0] in firsts):
            return False
        if words and not (_is_han(words[-1]) or tuple(words[-2:]) in lasts):
            return False
    return len(new) <= NEW_PAIRS and all(_is_han(one) and _is_han(two) for one, two in new)


def _units(text: str) -> list[list[str]]:
    """The words, as stems, the Chinese characters, numbers and marks of each sentence."""
    return [[stem(unit) for unit in _UNIT.findall(text[a:b])] for a, b in sentences(text)]


def _words(units: Sequence[str]) -> list[str]:
    return [unit for unit in units if not _is_mark(unit)]


def _is_han(unit: str) -> bool:
    return bool(re.fullmatch(HAN, unit))


def _is_mark(unit: str) -> bool:
    return not unit[:1].isalnum()
