"""Terms that must come out as a person said: a glossary, read from a file and found in a text. Standard library only."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from .errors import InputError
from .languages import find as find_language
from .protect import Span

LANGUAGE = re.compile(r"[a-z]{2,3}(?:[-_][A-Za-z]{2,4})?")
_LAST_WORD = re.compile(r"[A-Za-z]+\Z")
_LETTER = re.compile(r"[^\W_]")
# Scripts that put no spaces between words: a term may stand anywhere in them.
_UNPARTED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U000323af]"
)


class Glossary:
    """Terms and what each is in the other language. `languages` are those of the terms and of what they become: then they
    are good for both directions, and for no other; without, they are terms of whatever language a text is in."""

    def __init__(self, terms: Iterable[tuple[str, str]], languages: tuple[str, str] | None = None) -> None:
        self.languages = languages
        self.terms = list(terms)
        self._forward = _Terms(self.terms)
        self._backward = _Terms((target, source) for source, target in self.terms)

    def __len__(self) -> int:
        return len(self.terms)

    @classmethod
    def read(cls, path: str | Path) -> Glossary:
        """Reads a file in UTF-8 with a line for each term: the term, a tab, and what it becomes. Blank lines, and those
        that begin with #, are left out. If the first of the others is two codes of languages, such as "en", a tab and
        "zh", it says the languages.

        Raises InputError for what cannot be read, naming the line.
        """
        try:
            content = Path(path).read_bytes().decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = error.object[: error.start].count(b"\n") + 1
            raise InputError(f"glossary {path}, line {line} is not UTF-8: save the file as UTF-8") from None
        except OSError as error:
            raise InputError(f"cannot read the glossary {path}: {error.strerror or error}") from error
        return cls.parse(content, str(path))

    @classmethod
    def parse(cls, content: str, name: str = "") -> Glossary:
        """The glossary that a file of this content is. `name` is the file's, for errors."""
        terms: dict[str, tuple[int, str]] = {}
        languages: tuple[str, str] | None = None
        first = True
        for number, line in enumerate(re.split(r"\r\n|\n|\r", content), start=1):
            if not line.strip() or line.startswith("#"):
                continue
            where = f"glossary {name}, line {number}".replace(" ,", ",")
            fields = [" ".join(field.split()) for field in line.split("\t")]
            while len(fields) > 2 and not fields[-1]:
                fields.pop()
            if len(fields) != 2 or not all(fields):
                raise InputError(f"{where}: write a term, one tab, and its translation ({_wrong(fields)})")
            source, target = fields
            if first and LANGUAGE.fullmatch(source) and LANGUAGE.fullmatch(target) and source != target:
                languages = source, target
            elif source in terms and terms[source][1] != target:
                raise InputError(f"{where}: {source!r} stands in line {terms[source][0]} with another translation")
            else:
                terms.setdefault(source, (number, target))
            first = False
        return cls(((source, target) for source, (_, target) in terms.items()), languages)

    def find(self, text: str, source: str, target: str) -> list[Span]:
        """The terms in a text that is translated from `source` to `target`, in order and apart, each with what it becomes.

        Of terms that overlap the first stays, of those that begin together the longest. Letters and digits are not cut
        out of a longer word. Small letters and capitals are the same unless a term has capitals after its first letter.
        In English text a term is found in its plural too, as `plural` makes it, unless that is a term itself.
        """
        plurals = _is_same("en", source)
        if self.languages is None:
            return self._forward.find(text, plurals)
        a, b = self.languages
        if _is_same(a, source) and _is_same(b, target):
            return self._forward.find(text, plurals)
        if _is_same(b, source) and _is_same(a, target):
            return self._backward.find(text, plurals)
        return []


class _Terms:
    """Terms of one language, the first of each that there are several of."""

    def __init__(self, terms: Iterable[tuple[str, str]]) -> None:
        # by the term in small letters; whether it is a plural that we made, and these come after what was given
        self.terms: dict[str, list[tuple[str, str, bool]]] = {}
        self.lengths: dict[str, list[int]] = {}  # of the terms, longest first, by their first two characters
        given = list(terms)
        made = [(many, output) for term, output in given if (many := plural(term))]
        for number, (term, output) in enumerate(given + made):
            small = _small(term)
            self.terms.setdefault(small, []).append((term, output, number >= len(given)))
            self.lengths.setdefault(small[:2], []).append(len(small))
        for start, lengths in self.lengths.items():
            self.lengths[start] = sorted(set(lengths), reverse=True)

    def find(self, text: str, plurals: bool) -> list[Span]:
        small = _small(text)
        found: list[Span] = []
        at = 0
        while at < len(text):
            span = self._at(text, small, at, plurals)
            if span:
                found.append(span)
            at = span.end if span else at + 1
        return found

    def _at(self, text: str, small: str, at: int, plurals: bool) -> Span | None:
        for start in (small[at : at + 2], small[at : at + 1]):
            for length in self.lengths.get(start, ()):
                end = at + length
                if end > len(text):
                    continue
                for term, output, is_made in self.terms.get(small[at:end], ()):
                    if is_made and not plurals:
                        continue
                    fits = term == text[at:end] if _has_capitals_inside(term) else True
                    if fits and not _is_cut(text, at) and not _is_cut(text, end):
                        return Span(at, end, output)
        return None


def plural(term: str) -> str | None:
    """The plural of an English term by the rules of spelling: "-es" after s, x, z, ch and sh, "-ies" for a y after a
    consonant, else "-s". None for what ends in no word: one of one or two small letters ("it") is no noun."""
    match = _LAST_WORD.search(term)
    if not match or (len(match[0]) < 3 and not (len(match[0]) == 2 and match[0].isupper())):
        return None
    word = match[0].lower()
    if word.endswith(("s", "x", "z", "ch", "sh")):
        return term + "es"
    if term[-1] == "y" and word[-2] not in "aeiou":
        return term[:-1] + "ies"
    return term + "s"


def _small(text: str) -> str:
    """In small letters, of the same length."""
    lower = text.lower()
    return lower if len(lower) == len(text) else "".join(c.lower() if len(c.lower()) == 1 else c for c in text)


def _has_capitals_inside(term: str) -> bool:
    letters = [char for char in term if char.isalpha()]
    return any(map(str.isupper, letters[1:]))


def _is_cut(text: str, at: int) -> bool:
    """Whether a word or a number would be cut there."""
    sides = text[max(at - 1, 0) : at], text[at : at + 1]
    return all(_LETTER.match(side) and not _UNPARTED.match(side) for side in sides)


def _is_same(code: str, language: str) -> bool:
    """Whether two codes name one language, be one a model's own name for it."""
    return bool(find_language(code, [language]) or find_language(language, [code]))


def _wrong(fields: list[str]) -> str:
    if len(fields) == 1:
        return "it has no tab"
    return "one of the two is empty" if len(fields) == 2 else f"it has {len(fields) - 1} tabs"
