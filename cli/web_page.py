"""The text of a web page: what `curl` prints, without its tags. Standard library only."""

from __future__ import annotations

import re
from html.parser import HTMLParser

_START = re.compile(r"\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)*<(?:!doctype\s+html|html)\b", re.IGNORECASE | re.DOTALL)
_NO_TEXT = frozenset(["script", "style", "noscript", "template", "svg", "head"])
_AROUND = frozenset(["nav", "header", "footer", "aside", "form", "button", "select"])  # the page's furniture
_BLOCKS = frozenset(
    [
        "p",
        "div",
        "section",
        "article",
        "main",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "ul",
        "ol",
        "dl",
        "dt",
        "dd",
        "table",
        "tr",
        "blockquote",
        "figure",
        "hr",
    ]
)


def is_html(text: str) -> bool:
    """Whether a text is a whole web page: it begins with its doctype or its first tag."""
    return _START.match(text) is not None


def text_of(page: str) -> str:
    """The text of a web page: a blank line between blocks, "- " before the items of lists, "# " before headings, code
    between "```". Of the parts that a page marks as its content ("main", "article") only those are read, if there are
    any with text; without what stands around ("nav", "footer" and the like), unless nothing else is there."""
    for only, without in ((("main",), _AROUND), (("article",), _AROUND), ((), _AROUND), ((), frozenset[str]())):
        reader = _Reader(frozenset(only), _NO_TEXT | without)
        reader.feed(page)
        reader.close()
        text = re.sub(r" *\n\s*\n\s*", "\n\n", re.sub(r"(?m)^(- |# )\s*$", "", "".join(reader.parts))).strip()
        if any(map(str.isalpha, text)):
            return text
    return ""


class _Reader(HTMLParser):
    def __init__(self, only: frozenset[str], without: frozenset[str]) -> None:
        super().__init__(convert_charrefs=True)
        self.only, self.without = only, without
        self.parts: list[str] = []
        self.skipped = self.inside = self.code = 0  # how many open tags of each kind

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.skipped += tag in self.without
        self.inside += tag in self.only
        if tag in _BLOCKS:
            self._add("\n\n# " if tag in ("h1", "h2", "h3", "h4", "h5", "h6") else "\n\n")
        elif tag == "li":
            self._add("\n\n- ")
        elif tag == "br":
            self._add("\n")
        elif tag in ("td", "th"):
            self._add("\t")
        elif tag == "pre":
            self.code += 1
            self._add("\n\n```\n")

    def handle_endtag(self, tag: str) -> None:
        if tag == "pre" and self.code:
            self.code -= 1
            self._add("\n```\n\n")
        elif tag in _BLOCKS or tag == "li":
            self._add("\n\n")
        self.inside -= tag in self.only and self.inside > 0
        self.skipped -= tag in self.without and self.skipped > 0

    def handle_data(self, data: str) -> None:
        self._add(data if self.code else re.sub(r"\s+", " ", data))

    def _add(self, part: str) -> None:
        if not self.skipped and (self.inside or not self.only):
            self.parts.append(part)
