"""HTML: the texts between the tags and in some attributes. Inline tags (<b>, <a>) are marks in a sentence, others part texts."""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Mapping, Sequence

from .document import Document, Edit, Unit, words
from .html_tags import RAW, Attribute, Token, scan
from .markup import MarkedUnit, Piece, fold, has_letters, pairs_of

ATTRIBUTES = words("alt title placeholder aria-label aria-description aria-placeholder aria-roledescription")
_LABELLED = words("option optgroup track")  # by the attribute "label"
_BUTTONS = words("submit button reset")  # types of <input> whose value is what stands on them
# What a page says of itself: <meta name=… content=…> or property=…
_META = words(
    "description keywords og:title og:description og:image:alt twitter:title twitter:description twitter:image:alt "
    "dc.title dc.description dcterms.title application-name apple-mobile-web-app-title"
)
INLINE = words(
    "a abbr b bdi bdo big cite data del dfn em font i ins mark q s small span strike strong sub sup time u wbr img"
)
VOID = words("area base br col embed hr img input link meta param source track wbr")
KEPT_INLINE = words("code kbd samp var tt math svg")  # untouched, as a word of the sentence
KEPT_BLOCKS = words("script style pre textarea xmp iframe noembed noframes")
_NOT_SEEN = frozenset(["link", "meta", "style", "base"])
# An element without a closing tag ends where one of these begins.
_ENDED_BY = {
    "p": words(
        "address article aside blockquote div dl fieldset footer form h1 h2 h3 h4 h5 h6 header hr main nav ol p pre section "
        "table ul"
    ),
    "li": frozenset(["li"]),
    "dt": frozenset(["dt", "dd"]),
    "dd": frozenset(["dt", "dd"]),
    "td": frozenset(["td", "th", "tr"]),
    "th": frozenset(["td", "th", "tr"]),
    "tr": frozenset(["tr"]),
    "option": frozenset(["option"]),
}
_SPACE = r"(?:\s|&nbsp;|&#160;|&#[xX][aA]0;)"
_ENDS = re.compile(rf"({_SPACE}*)(.*?)({_SPACE}*)\Z", re.DOTALL)
# What would be read as a tag or as another entity, were it decoded; and what templates have.
_LESS, _GREATER = r"(?:&lt;|&#60;|&#[xX]3[cC];)", r"(?:&gt;|&#62;|&#[xX]3[eE];|>)"
_LITERAL = re.compile(
    rf"{_LESS}[/!?]?[a-zA-Z](?:(?!{_GREATER}|{_LESS})[^<]){{0,80}}{_GREATER}|&amp;(?=#?\w{{1,31}};)"
    + r"|\{\{.*?\}\}|\{%.*?%\}",
    re.DOTALL,
)


_CHARSET = re.compile(r"<(?:meta|\?xml)\b[^<>]*?(?:charset|encoding)\s*=\s*[\"']?\s*([\w-]+)", re.IGNORECASE)


def parse(text: str) -> Document:
    """The document of a page or a part of one."""
    said = _CHARSET.search(text, 0, 4096)
    problems = []
    if said and said[1].lower() not in ("utf-8", "utf8", "us-ascii", "ascii"):
        line = text.count("\n", 0, said.start()) + 1
        problems = [f"line {line}: the page says that it is in {said[1]}, and is written in UTF-8: change that line"]
    return Document(text, units_in(text, 0, len(text)), problems)


def units_in(text: str, start: int, end: int) -> list[Unit]:
    """The units of text[start:end]."""
    return _Reader(text, list(scan(text, start, end))).units


class _TextUnit(MarkedUnit):
    def escape(self, text: str, first: bool) -> str:
        return text.replace("&", "&amp;").replace("<", "&lt;")

    def sound(self, pieces: Sequence[Piece], written: str, complete: bool) -> bool:
        own, marks = ([p for p in some if p.kind in ("open", "close")] for some in (self.pieces, pieces))
        if 2 * len(pairs_of(own)) == len(own):
            return 2 * len(pairs_of(marks)) == len(marks)
        return not marks or own == marks  # some are closed elsewhere: none may change its place


class _AttributeUnit(Unit):
    def __init__(self, text: str, attribute: Attribute) -> None:
        self.quote = attribute.quote
        value = text[attribute.start : attribute.end]
        super().__init__(fold(html.unescape(value)).strip(), attribute.start, attribute.end)

    def render(self, output: str, source: str, edits: Mapping[int, Edit]) -> tuple[str | None, str | None]:
        text = fold(output).strip().replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        if self.quote == "'":
            return text.replace("'", "&#39;"), None
        text = text.replace('"', "&quot;")
        return text if self.quote else f'"{text}"', None


class _Reader:
    def __init__(self, text: str, tokens: Sequence[Token]) -> None:
        self.text, self.tokens = text, tokens
        self.units: list[Unit] = []
        self.run: list[Piece] = []
        self.open: list[str] = []  # the elements around, and how many there are of each
        self.depth: Counter[str] = Counter()
        i = 0
        while i < len(tokens):
            i = self._read(i)
        self._flush()

    def _flush(self) -> None:
        if any(piece.says_something for piece in self.run):
            unit = _TextUnit(self.run)
            if not unit.is_empty:
                self.units.append(unit)
        self.run = []

    def _read(self, i: int) -> int:
        """Reads token i and, where its element is kept as it is, all of that; returns the next token to read."""
        token = self.tokens[i]
        if token.kind == "text":
            self.run += self._pieces(token.start, token.end)
        elif token.kind == "other":
            self.run.append(Piece(token.start, token.end, self.text[token.start : token.end], "alone", word=False))
        elif token.kind == "close":
            self._close(token)
        elif token.name in KEPT_INLINE or token.name in KEPT_BLOCKS or self._says_no(token):
            stop = self._end_of(i)
            if token.name in KEPT_INLINE or token.name in INLINE:
                end = self.tokens[stop - 1].end
                text = fold(self.text[token.start : end])
                self.run.append(Piece(token.start, end, text, "alone", word=token.name not in ("svg", "img")))
            else:
                self._flush()
            return stop
        else:
            self._open(token)
        return i + 1

    def _open(self, token: Token) -> None:
        inner = []
        for attribute in token.attributes:
            if self._is_seen(token, attribute.name):
                unit = _AttributeUnit(self.text, attribute)
                if has_letters(unit.text):
                    self.units.append(unit)
                    inner.append(unit.start)
        alone = token.name in VOID or token.empty
        if token.name in INLINE:
            text = fold(self.text[token.start : token.end])
            kind = "alone" if alone else "open"
            self.run.append(Piece(token.start, token.end, text, kind, token.name, word=False, inner=tuple(inner)))
        else:
            self._flush()
        if not alone:
            self.open.append(token.name)
            self.depth[token.name] += 1

    def _is_seen(self, token: Token, name: str) -> bool:
        """Whether the attribute of that name is a text that a reader sees."""
        if token.name == "meta":
            said = self._value(token, "name") or self._value(token, "property")
            return name == "content" and said in _META
        if name == "value":
            return token.name == "input" and self._value(token, "type") in _BUTTONS
        if name == "label":
            return token.name in _LABELLED
        return name in ATTRIBUTES and token.name not in _NOT_SEEN

    def _value(self, token: Token, name: str) -> str:
        """An attribute's value in lower case, "" where there is none."""
        return next((self.text[a.start : a.end].strip().lower() for a in token.attributes if a.name == name), "")

    def _close(self, token: Token) -> None:
        if token.name in INLINE:
            text = self.text[token.start : token.end]
            self.run.append(Piece(token.start, token.end, fold(text), "close", token.name))
        else:
            self._flush()
        if self.depth[token.name]:
            while True:
                name = self.open.pop()
                self.depth[name] -= 1
                if name == token.name:
                    break

    def _says_no(self, token: Token) -> bool:
        return self._value(token, "translate") == "no" or "notranslate" in self._value(token, "class").split()

    def _end_of(self, i: int) -> int:
        """The token after the element that token i opens."""
        name = self.tokens[i].name
        if name in VOID or self.tokens[i].empty:
            return i + 1
        inside: list[str] = []
        for j in range(i + 1, len(self.tokens)):
            token = self.tokens[j]
            if token.kind == "open" and token.name not in VOID and not token.empty:
                if not inside and token.name in _ENDED_BY.get(name, ()):
                    return j
                inside.append(token.name)
            elif token.kind == "close":
                if token.name in inside:
                    while inside.pop() != token.name:
                        pass
                elif token.name == name:
                    return j + 1
                elif self.depth[token.name] and name not in RAW:
                    return j
        return len(self.tokens)

    def _pieces(self, start: int, end: int) -> list[Piece]:
        """Text as pieces: what is to be read, white space at its ends, entities that stay entities."""
        found: list[Piece] = []
        done = start
        for match in [*_LITERAL.finditer(self.text, start, end), None]:
            stop = match.start() if match else end
            ends = _ENDS.match(self.text[done:stop])
            assert ends  # it matches anything
            for part in ends.groups():
                if part:
                    found.append(Piece(done, done + len(part), html.unescape(part).replace("\xad", "")))
                    done += len(part)
            if match:
                found.append(Piece(match.start(), match.end(), fold(match[0]), "alone"))
                done = match.end()
        return found
