"""How SentencePiece cuts a text: normalisation, then a unigram model (Kudo 2018) or byte-pair encoding (Sennrich et al. 2016).

A text is normalised by the longest rule at each place, out of a double-array trie (Yata et al. 2007) that the model
carries; then spaces become ▁. All of it is done here rather than by the library `tokenizers`, which applies rules to whole
graphemes and the shortest of them first, sums log-probabilities in double precision, and takes text that spells a special
piece for the piece: its pieces differ in each of these cases. Where a text has symbols that a model's user defined, the choice
between segmentations that are as good as equal may be another than the library `sentencepiece` makes.
"""

from __future__ import annotations

import functools
import heapq
import math
import struct
import sys
from array import array
from operator import add
from typing import NamedTuple

from .errors import CheckpointError

SPACE = "\u2581"  # ▁
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)  # kinds of pieces, as their files number them
UNKNOWN_PENALTY = 10.0  # what an unknown character scores below the worst piece
USER_DEFINED_SCORE = -0.1  # better than any piece
MAX_PAIRS = 200_000  # of characters, that are remembered
MAX_WORDS = 100_000  # that are remembered
# Scores are added in single precision. A text of so many characters has a score of some −10,000, in which the last bit is a
# thousandth: ten additions cannot make up a difference of CLEAR.
MAX_BY_WORDS = 1000
CLEAR = 0.01


class Span(NamedTuple):
    """One piece of a text: its number in the model, and where it stands in the normalised text."""

    piece: int
    start: int
    end: int


class Normalised(NamedTuple):
    """A text as it is cut, and for each of its characters where in the original the one stands that it comes from."""

    text: str
    places: list[tuple[int, int]]


class Rules:
    """Rules of normalisation ("ﬁ" → "fi"): a trie of what is replaced, and the replacements, each ending in NUL."""

    def __init__(self, charsmap: bytes) -> None:
        self.charsmap = charsmap
        self.units = array("I")
        self.replacements = b""
        if charsmap:
            (size,) = struct.unpack("<I", charsmap[:4].ljust(4, b"\xff"))
            if size % 4 or not 0 < size <= len(charsmap) - 4:
                raise CheckpointError(f"truncated: its rules of normalisation need {size} bytes")
            self.units.frombytes(charsmap[4 : 4 + size])
            if sys.byteorder == "big":
                self.units.byteswap()
            self.replacements = charsmap[4 + size :]

    def begin_with(self, chars: str) -> bool:
        """Whether there are rules for texts that begin with these characters."""
        node: int | None = _offset(self.units[0]) if self.units else None
        for char in chars:
            node = self._walk(node, char) if node is not None else None
        return node is not None

    def longest(self, text: str, at: int) -> tuple[str, int] | None:
        """What the longest rule that applies at `at` writes, and how many characters it replaces."""
        found = None
        node: int | None = _offset(self.units[0]) if self.units else None
        for i in range(at, len(text)):
            node = self._walk(node, text[i]) if node is not None else None
            if node is None:
                break
            if node < len(self.units) and self.units[node] >> 31:  # a leaf below: the rule's value
                found = self.units[node] & 0x7FFFFFFF, i + 1 - at
        if found is None:
            return None
        start = found[0]
        end = self.replacements.find(b"\0", start)
        return self.replacements[start : end if end >= 0 else None].decode("utf-8", errors="replace"), found[1]

    def _walk(self, node: int, char: str) -> int | None:
        """Where in the trie the bytes of the character lead to from `node`; None if nowhere."""
        for byte in char.encode("utf-8", errors="surrogatepass"):
            node ^= byte
            if node >= len(self.units) or self.units[node] & 0x800000FF != byte:
                return None
            node ^= _offset(self.units[node])
        return node


def _offset(unit: int) -> int:
    return (unit >> 10) << ((unit & 0x200) >> 6)


class Segmenter:
    """Pieces, each with a score (log p of a unigram model) and a kind, and how a text is cut into them. Without
    `byte_fallback` a run of unknown characters is one piece."""

    def __init__(
        self,
        pieces: list[str],
        scores: list[float],
        kinds: bytes,
        *,
        is_bpe: bool,
        byte_fallback: bool,
        add_dummy_prefix: bool,
        remove_extra_whitespaces: bool,
        rules: Rules,
    ) -> None:
        self.pieces, self.scores, self.kinds = pieces, scores, kinds
        self.is_bpe, self.byte_fallback, self.rules = is_bpe, byte_fallback, rules
        self.add_dummy_prefix, self.remove_extra_whitespaces = add_dummy_prefix, remove_extra_whitespaces
        self.unknown = kinds.index(UNKNOWN)
        normal = [score for score, kind in zip(scores, kinds, strict=True) if kind == NORMAL]
        self._unknown_score = _float32(min(normal, default=0.0) - UNKNOWN_PENALTY)
        ids = {piece: i for i, piece in enumerate(pieces)}
        self._bytes = [ids[f"<0x{byte:02X}>"] for byte in range(256)] if byte_fallback else []
        used = (NORMAL, USER_DEFINED, UNUSED) if is_bpe else (NORMAL, USER_DEFINED)
        self._ids = {piece: i for piece, i in ids.items() if kinds[i] in used}  # of what a text may spell
        self._used_scores = list(scores)
        self._symbols: dict[str, list[str]] = {}  # those that the user defined, by their first character, longest first
        for i, kind in enumerate(kinds):
            if kind == USER_DEFINED:
                self._used_scores[i] = USER_DEFINED_SCORE
                self._symbols.setdefault(pieces[i][0], []).append(pieces[i])
        for alike in self._symbols.values():
            alike.sort(key=len, reverse=True)
        self._longest: dict[str, int] = {}  # of the pieces that begin with these three characters
        for piece in self._ids:
            start, size = piece[:3], len(piece)
            if size > self._longest.get(start, 2):
                self._longest[start] = size
        self._words: dict[str, list[Span]] = {}  # how a word is cut; empty: that depends on what is before it
        self._plain: set[str] = set()  # pairs of characters of which the first is written as it is

    def encode(self, text: str) -> list[int]:
        """The numbers of the pieces of a text, as the library `sentencepiece` gives them."""
        return [span.piece for span in self.cut(self._normalised(text))]

    def normalise(self, text: str) -> Normalised:
        """The text with its characters replaced by the model's rules, and ▁ for spaces. Symbols that the user defined
        stay as they are."""
        n, at = len(text), 0
        if self.remove_extra_whitespaces:
            while at < n:
                char, size = self._first(text, at)
                if char != " ":
                    break
                at += size
        if at == n:
            return Normalised("", [])
        written: list[str] = []
        places: list[tuple[int, int]] = []
        if self.add_dummy_prefix:
            written.append(SPACE)
            places.append((at, at))
        after_space = self.remove_extra_whitespaces
        while at < n:
            chars, size = self._first(text, at)
            if after_space:
                chars = chars.lstrip(" ")
            if chars:
                written.append(chars)
                places += [(at, at + size)] * len(chars)
                after_space = self.remove_extra_whitespaces and chars[-1] == " "
            at += size
        found = "".join(written).replace(" ", SPACE)
        if self.remove_extra_whitespaces:
            found = found.rstrip(SPACE)
        return Normalised(found, places[: len(found)])

    def _normalised(self, text: str) -> str:
        """`normalise(text).text`, sooner where no rule applies."""
        if not text or any(map(self._may_change, set(map(add, text, text[1:] + " ")) - self._plain)):
            return self.normalise(text).text
        if self.remove_extra_whitespaces:
            text = " ".join(filter(None, text.split(" ")))
        if not text:
            return text
        found = (SPACE if self.add_dummy_prefix else "") + text.replace(" ", SPACE)
        return found.rstrip(SPACE) if self.remove_extra_whitespaces else found

    def _may_change(self, pair: str) -> bool:
        """Whether something else may be written for the first of two characters, if only together with the second."""
        changes = pair[0] in self._symbols or self.rules.begin_with(pair) or self.rules.longest(pair[0], 0) is not None
        if not changes:
            if len(self._plain) > MAX_PAIRS:
                self._plain.clear()
            self._plain.add(pair)
        return changes

    def _first(self, text: str, at: int) -> tuple[str, int]:
        """What is written for the characters at `at`, and how many they are."""
        char = text[at]
        if text[at : at + 2] in self._plain:
            return char, 1
        for symbol in self._symbols.get(char, ()):
            if text.startswith(symbol, at):
                return symbol, len(symbol)
        return self.rules.longest(text, at) or (char, 1)

    def cut(self, text: str) -> list[Span]:
        """The pieces of a normalised text. Bytes have the place of their character."""
        spans: list[Span] = []
        for span in self._merged(text) if self.is_bpe else self._by_words(text) or self._most_probable(text):
            if span.piece != self.unknown:
                spans.append(span)
            elif self.byte_fallback:
                content = text[span.start : span.end].encode("utf-8", errors="surrogatepass")
                spans += [Span(self._bytes[byte], span.start, span.end) for byte in content]
            elif spans and spans[-1].piece == self.unknown:
                spans[-1] = spans[-1]._replace(end=span.end)
            else:
                spans.append(span)
        return spans

    @functools.cached_property
    def _words_are_apart(self) -> bool:
        """Whether a piece never reaches from one word into the next, so that words can be cut each by itself."""
        return not any(SPACE in piece[1:] for piece in self._ids)

    def _by_words(self, text: str) -> list[Span] | None:
        """As `_most_probable`, sooner: words that came before need not be cut again. None where that is not sure, for a
        word can be cut in two ways that are as good as equal, and the rounding of the sum of the words before decides."""
        if len(text) > MAX_BY_WORDS or not self._words_are_apart:
            return None
        spans: list[Span] = []
        start, n = 0, len(text)
        while start < n:
            end = text.find(SPACE, start + 1)
            end = n if end < 0 else end
            word = text[start:end]
            known = self._words.get(word)
            if known is None:
                if len(self._words) > MAX_WORDS:
                    self._words.clear()
                known = self._words[word] = self._most_probable(word) if self._is_clear(word) else []
            if not known:
                return None
            spans += [Span(piece, start + a, start + b) for piece, a, b in known]
            start = end
        return spans

    def _is_clear(self, word: str) -> bool:
        """Whether the best segmentation is better than the second best by more than any rounding."""
        n = len(word)
        best, second = [0.0] + [-math.inf] * n, [-math.inf] * (n + 1)  # of word[:j]
        for i in range(n):
            for j in range(i + 1, min(i + self._longest.get(word[i : i + 3], 2), n) + 1):
                piece = self._ids.get(word[i:j])
                if piece is None and j > i + 1:
                    continue
                more = self._unknown_score if piece is None else self._used_scores[piece]
                for score in (best[i] + more, second[i] + more):
                    if score > best[j]:
                        best[j], second[j] = score, best[j]
                    elif score > second[j]:
                        second[j] = score
        return best[n] - second[n] > CLEAR

    def _most_probable(self, text: str) -> list[Span]:
        """The segmentation with the highest Σ log p (Viterbi 1967): best[j] = max over i of best[i] + log p(text[i:j])."""
        n, ids, scores, longest = len(text), self._ids, self._used_scores, self._longest
        # In single precision, in which the library sums: it decides between segmentations that are as good as equal.
        best = array("f", [-math.inf]) * (n + 2)  # of all segmentations of text[:j]; best[-1] rounds
        best[0] = 0.0
        starts, pieces = [0] * (n + 1), [self.unknown] * (n + 1)  # of the last piece of the best
        for i in range(n):
            so_far = best[i]
            for j in range(i + 1, min(i + longest.get(text[i : i + 3], 2), n) + 1):
                piece = ids.get(text[i:j])
                if piece is not None:
                    score = so_far + scores[piece]
                elif j == i + 1:
                    score, piece = so_far + self._unknown_score, self.unknown
                else:
                    continue
                if score > best[j]:
                    best[-1] = score
                    if best[-1] > best[j]:
                        best[j], starts[j], pieces[j] = score, i, piece
        found: list[Span] = []
        while n:
            found.append(Span(pieces[n], starts[n], n))
            n = starts[n]
        return found[::-1]

    def _merged(self, text: str) -> list[Span]:
        """Byte-pair encoding: of all neighbours that form a piece the best is merged, the leftmost of equals, and again."""
        starts: list[int] = []
        whole: set[int] = set()  # starts of the symbols that the user defined, which are never merged
        at = 0
        while at < len(text):
            starts.append(at)
            symbol = next((s for s in self._symbols.get(text[at], ()) if text.startswith(s, at)), "")
            if symbol:
                whole.add(at)
            at += len(symbol) or 1
        ends = dict(zip(starts, [*starts[1:], len(text)], strict=False))  # of each symbol, by its start
        before = dict(zip(starts[1:], starts, strict=False))
        parts: dict[
            str, int
        ] = {}  # pieces that are not used → the length of the first of the two they were merged from
        queue: list[tuple[float, int, int, int]] = []

        def propose(left: int | None, right: int) -> None:
            if left is None or right not in ends or left in whole or right in whole:
                return
            merged = text[left : ends[right]]
            piece = self._ids.get(merged)
            if piece is not None:
                heapq.heappush(queue, (-self.scores[piece], left, right, ends[right]))
                if self.kinds[piece] == UNUSED:
                    parts[merged] = right - left

        for start in starts[1:]:
            propose(before[start], start)
        while queue:
            _, left, right, end = heapq.heappop(queue)
            if ends.get(left) != right or ends.get(right) != end:
                continue  # one of them has been merged since
            ends[left] = end
            del ends[right]
            if end in ends:
                before[end] = left
            propose(before.get(left), left)
            propose(left, end)

        spans: list[Span] = []
        todo = [(start, ends[start]) for start in reversed(starts) if start in ends]
        while todo:
            start, end = todo.pop()
            name = text[start:end]
            piece = self._ids.get(name, self.unknown)
            if name in parts and self.kinds[piece] == UNUSED:
                middle = start + parts[name]
                todo += [(middle, end), (start, middle)]
            else:
                spans.append(Span(piece, start, end))
        return spans


def _float32(value: float) -> float:
    return array("f", [value])[0]
