"""Markdown: headings, paragraphs, list items, quotes, cells of tables, and the texts in blocks of HTML.

markdown-it-py finds the blocks (with their lines) and the inline marks; what it calls the content of a block is looked for in
those lines, so that all bytes outside of it stay. A translated paragraph stands on one line.
"""

from __future__ import annotations

import bisect
import html
import re
import string
from collections import Counter
from collections.abc import MutableMapping, Sequence
from typing import Any

from markdown_it.token import Token

from .document import Document, Unit, line_starts
from .html_pages import units_in
from .markdown_inline import Found, marks, parser
from .markup import MarkedUnit, Piece

_FRONT_MATTER = re.compile(r"(---|\+\+\+)[ \t]*(?:\r\n?|\n)(?:.*(?:\r\n?|\n))*?(?:\1|\.\.\.)[ \t]*(?:\r\n?|\n|\Z)")
_HEADING = re.compile(r"#{1,6}[ \t]+")
_ENDS = re.compile(r"(\s*)(.*?)(\s*)\Z", re.DOTALL)
# What a line may not begin with if it is to be a paragraph
_BLOCK_MARK = re.compile(
    r"^(?:(\d{1,9})(?=[.)](?:\s|$))|(?=[-+*](?:\s|$)|#{1,6}(?:\s|$)|>|`{3}|~{3}|(?:=+|-+)\s*$|(?:[-*_]\s*){3,}$))"
)
_BAR = re.compile(r"(?<!\\)\|")
_KEPT_ENTITIES = ("&lt", "&gt", "&amp", "&#")
_EMPHASIS = ("em", "strong", "s")


def parse(text: str) -> Document:
    return _Reader(text).document()


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.units: list[Unit] = []
        self.problems: list[str] = []
        front = _FRONT_MATTER.match(text)
        self.skip = front.end() if front else 0
        # the parser ends lines where `line_starts` does
        self.starts = [start + self.skip for start in line_starts(text[self.skip :])]
        self.env: MutableMapping[str, Any] = {}

    def document(self) -> Document:
        tokens = parser().parse(self.text[self.skip :], self.env)
        cell = (0, 0)
        for i, token in enumerate(tokens):
            if token.type == "tr_open" and token.map:
                cell = self._line(token.map[0])
            elif token.type == "html_block" and token.map:
                self._html(token)
            elif token.type == "inline" and token.map and token.content.strip():
                before = tokens[i - 1]
                kind = "lines"
                if before.type in ("th_open", "td_open"):
                    kind = "cell"
                    places, cell = self._in_cell(token.content, cell)
                elif before.type == "heading_open" and before.markup.startswith("#"):
                    kind = "heading"
                    places = self._in_heading(token)
                else:
                    places = self._in_lines(token)
                if places is None:
                    self.problems.append(f"line {self._number(token.map[0])}: not understood; left as it is")
                else:
                    self._add(token.children or [], token.content, places, kind)
        return Document(self.text, self.units, self.problems)

    def _number(self, line: int) -> int:
        return line + 1 + len(line_starts(self.text[: self.skip])) - 1

    def _line(self, number: int) -> tuple[int, int]:
        """Start and end of a line of the text, the line end not included."""
        start = self.starts[number]
        end = self.starts[number + 1] if number + 1 < len(self.starts) else len(self.text)
        return start, start + len(self.text[start:end].rstrip("\r\n"))

    def _in_lines(self, token: Token) -> _Places | None:
        """The place of each line of a paragraph's content: at the end of a line of the text, before white space."""
        assert token.map
        places, offset = _Places(), 0
        for i, content in enumerate(token.content.split("\n")):
            if token.map[0] + i >= len(self.starts):
                return None
            start, end = self._line(token.map[0] + i)
            core = content.strip()
            line = self.text[start:end].rstrip()
            if not line.endswith(core):
                return None
            places.add(offset + len(content) - len(content.lstrip()), start + len(line) - len(core))
            offset += len(content) + 1
        return places

    def _in_heading(self, token: Token) -> _Places | None:
        assert token.map
        start, end = self._line(token.map[0])
        mark = _HEADING.search(self.text, start, end)
        if mark is None or not self.text.startswith(token.content, mark.end()):
            return None
        return _Places((0, mark.end()))

    def _in_cell(self, content: str, rest: tuple[int, int]) -> tuple[_Places | None, tuple[int, int]]:
        """The place of a cell's content in the rest of its row, and what is left of the row after it. In a table `\\|` stands
        for `|`."""
        start, end = rest
        written = content.replace("|", "\\|")
        while start < end:
            bar = _BAR.search(self.text, start, end)
            stop = bar.start() if bar else end
            cell = self.text[start:stop].rstrip()
            if cell.endswith(written):  # what is before it, in the first cell, belongs to a list or a quote
                place = start + len(cell) - len(written)
                places = _Places((0, place))
                for i, match in enumerate(re.finditer(r"\|", content), start=1):
                    places.add(match.start(), place + match.start() + i)
                return places, (stop + 1, end)
            start = stop + 1
        return None, rest

    def _html(self, token: Token) -> None:
        """A block of HTML, if it stands at the left: in a list or a quote its lines have other things before them."""
        assert token.map
        start, end = self._line(token.map[0])[0], self._line(token.map[1] - 1)[1]
        if not token.level:
            self.units += units_in(self.text, start, end)

    def _add(self, tokens: Sequence[Token], content: str, places: _Places, kind: str) -> None:
        """The units of a content: between two hard breaks there is one."""
        run: list[Piece] = []
        found = marks(tokens, content)
        used = {char for mark in found if mark.name != "escape" for char in content[mark.start : mark.end]}
        done = 0
        for mark in found:
            run += _texts(content, done, mark.start, places)
            done = mark.end
            if mark.name == "break":
                self._flush(run, kind)
                run = []
            else:
                run.append(self._piece(mark, content, places, used, kind))
        self._flush([*run, *_texts(content, done, len(content), places)], kind)

    def _flush(self, run: Sequence[Piece], kind: str) -> None:
        if any(piece.says_something for piece in run):
            unit = _MarkdownUnit(run, kind, self.env)
            if not unit.is_empty:
                self.units.append(unit)

    def _piece(self, mark: Found, content: str, places: _Places, used: set[str], kind: str) -> Piece:
        start, end = places[mark.start], places[mark.end - 1] + 1
        text = re.sub(r"\s*\n\s*", " ", content[mark.start : mark.end])
        if mark.name == "escape" and text[1] not in string.punctuation:
            return Piece(start, end, text)
        if mark.name == "escape" and text[1] not in used:
            return Piece(start, end, text[1], name="escape")
        if mark.name == "entity" and not text.startswith(_KEPT_ENTITIES):
            return Piece(start, end, html.unescape(text))
        verbatim = self.text[start:end] == text
        word = mark.name not in ("image", "html_inline", "extension")
        if mark.name == "link" and mark.kind == "close" and text.endswith("]"):
            # where only its text names the target, the translation needs the name too
            label = re.sub(r"\s+", " ", content[slice(*mark.label)] if text in ("]", "][]") else text[2:-1])
            return Piece(start, end, f"][{label}]", "close", "link", verbatim=False)
        inner: tuple[int, ...] = ()
        if mark.name == "image" and verbatim and content[mark.label[1] : mark.end] not in ("]", "][]"):
            known = len(self.units)
            first, last = mark.label
            self._add(mark.children, content[first:last], places.part(first), "cell" if kind == "cell" else "image")
            inner = tuple(unit.start for unit in self.units[known:])
        return Piece(start, end, text, mark.kind, mark.name, word, inner, verbatim)


class _MarkdownUnit(MarkedUnit):
    def __init__(self, run: Sequence[Piece], kind: str, env: MutableMapping[str, Any]) -> None:
        super().__init__(run)
        self.kind, self.env = kind, env
        self.escaped = {
            piece.text
            for piece in run
            if piece.kind == "text" and piece.name == "escape" and self.start <= piece.start < self.end
        }
        self.starts_line = kind == "lines" and not any(p.text.strip() for p in run if p.end <= self.start)

    def escape(self, text: str, first: bool) -> str:
        if self.escaped:
            text = re.sub(f"[{re.escape(''.join(self.escaped))}]", r"\\\g<0>", text)
        if self.kind == "cell":
            text = re.sub(r"(?<!\\)\|", r"\\|", text)
        if first and self.starts_line:
            text = _BLOCK_MARK.sub(r"\1\\", text)
        return text

    def mend(self, pieces: list[Piece]) -> list[Piece]:
        """With spaces around emphasis: next to Chinese, `**` after a full stop would not end it."""
        found: list[Piece] = []
        for piece in pieces:
            before = found[-1] if found else None
            after_close = before is not None and before.kind == "close" and before.name in _EMPHASIS
            after_open = before is not None and before.kind == "open" and before.name in _EMPHASIS
            if piece.kind == "text":
                text = piece.text.lstrip() if after_open else piece.text
                spaced = after_close and not text[:1].isspace()
                found.append(Piece(0, 0, f" {text}" if spaced else text))
                continue
            if before is not None and before.kind == "text" and piece.name in _EMPHASIS:
                text = before.text if piece.kind == "open" else before.text.rstrip()
                spaced = piece.kind == "open" and not text[-1:].isspace()
                found[-1] = Piece(0, 0, f"{text} " if spaced else text)
            found.append(piece)
        return found

    def sound(self, pieces: Sequence[Piece], written: str, complete: bool) -> bool:
        if self.starts_line:
            blocks = parser().parse(written, dict(self.env))
            if [token.type for token in blocks] != ["paragraph_open", "inline", "paragraph_close"]:
                return False
        whole = [*self.before, *self.pieces, *self.after]
        own = "".join(p.text if p.is_mark else self.escape(p.text, i == 0) for i, p in enumerate(whole))
        known, new = self._meaning(own), self._meaning(written)
        if complete:
            return known == new
        kept = Counter(piece.name for piece in pieces if piece.kind == "open" and piece.name in (*_EMPHASIS, "link"))
        made = Counter(kind.removesuffix("_open") for kind, _ in new.elements() if kind.endswith("_open"))
        return new <= known and made == kept

    def _meaning(self, written: str) -> Counter[tuple[str, str]]:
        """What the inline marks of a text make: links and pictures by where they lead, code and tags by what they are."""
        [inline] = parser().parseInline(written, dict(self.env))
        found: Counter[tuple[str, str]] = Counter()
        for token in inline.children or []:
            if token.type not in ("text", "text_special", "softbreak"):
                found[token.type, str(token.attrGet("href") or token.attrGet("src") or token.content)] += 1
        return found


def _texts(content: str, start: int, end: int, places: _Places) -> list[Piece]:
    """content[start:end] as pieces: the text, and the white space at its ends."""
    found = []
    match = _ENDS.match(content[start:end])
    assert match  # it matches anything
    for part in match.groups():
        if part:
            found.append(Piece(places[start], places[start + len(part) - 1] + 1, part))
            start += len(part)
    return found


class _Places:
    """Places in a content → places in the text: from each of the known ones on they go together."""

    def __init__(self, *known: tuple[int, int]) -> None:
        self.contents = [content for content, _ in known]
        self.texts = [text for _, text in known]

    def add(self, content: int, text: int) -> None:
        self.contents.append(content)
        self.texts.append(text)

    def __getitem__(self, place: int) -> int:
        i = max(0, bisect.bisect_right(self.contents, place) - 1)
        return self.texts[i] + max(0, place - self.contents[i])

    def part(self, first: int) -> _Places:
        """The same for a part of the content that starts at `first`."""
        shifted = _Places((0, self[first]))
        for content, text in zip(self.contents, self.texts, strict=True):
            if content > first:
                shifted.add(content - first, text)
        return shifted
