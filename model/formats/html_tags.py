"""Where the tags, comments and texts of an HTML page are, to the character.

lxml knows the line of a tag only and selectolax not even that; html.parser of the standard library gives the place of a tag,
but neither that of an attribute's value nor the end of a closing tag, and its reading of broken comments differs from one
release to the next. The rules here are those of the HTML standard's tokenizer (§13.2.5) as far as places need them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

RAW = frozenset(["script", "style", "textarea", "title", "xmp", "iframe", "noembed", "noframes"])  # no tags in them
_ATTRIBUTE = re.compile(r"""[\s/]*([^\s/>=][^\s/>=]*)(?:\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s>"'][^\s>]*)))?""")
_TOKEN = re.compile(
    r"<!---?>|<!--.*?(?:--!?>|\Z)|<!\[CDATA\[.*?(?:\]\]>|\Z)|<\?.*?(?:\?>|\Z)|<![^>]*(?:>|\Z)"
    r"|</(?P<close>[a-zA-Z][^\s/>]*)[^>]*>|<[a-zA-Z]|</[^a-zA-Z>][^>]*>",
    re.DOTALL,
)


@dataclass(frozen=True)
class Attribute:
    """name in lower case; start, end: the place of the value, without quotes; quote: what stands around it, or ""."""

    name: str
    start: int
    end: int
    quote: str


@dataclass(frozen=True)
class Token:
    """kind: "text", "open", "close", "other" (comment, doctype, instruction). name in lower case."""

    kind: str
    start: int
    end: int
    name: str = ""
    attributes: tuple[Attribute, ...] = ()
    empty: bool = False  # <br/>


def scan(text: str, start: int = 0, end: int | None = None) -> Iterator[Token]:
    """The tokens of text[start:end], in order and without a gap."""
    end = len(text) if end is None else end
    done = place = start
    while place < end:
        match = _TOKEN.search(text, place, end)
        if match is None:
            break
        token = _token(text, match, end)
        if token is None:  # a "<" that begins nothing
            place = match.start() + 1
            continue
        if done < token.start:
            yield Token("text", done, token.start)
        yield token
        done = place = token.end
        if token.kind == "open" and token.name in RAW and not token.empty:
            closing = re.compile(rf"</{re.escape(token.name)}(?=[\s/>])", re.IGNORECASE).search(text, place, end)
            place = closing.start() if closing else end
            if done < place:
                yield Token("text", done, place)
            done = place
    if done < end:
        yield Token("text", done, end)


def _token(text: str, match: re.Match[str], end: int) -> Token | None:
    if match["close"]:
        return Token("close", match.start(), match.end(), match["close"].lower())
    if match[0][1:2] in "!?/":
        return Token("other", match.start(), match.end())
    return _opening(text, match.start(), end)


def _opening(text: str, start: int, end: int) -> Token | None:
    """The opening tag at `start`, or None where it does not end."""
    place = start + 1
    while place < end and not (text[place].isspace() or text[place] in "/>"):
        place += 1
    name, attributes = text[start + 1 : place].lower(), []
    while match := _ATTRIBUTE.match(text, place, end):
        group = next((g for g in (2, 3, 4) if match[g] is not None), None)
        if group:
            quote = {2: '"', 3: "'", 4: ""}[group]
            attributes.append(Attribute(match[1].lower(), match.start(group), match.end(group), quote))
        place = match.end()
    closing = re.compile(r"[\s/]*>").match(text, place, end)
    if closing is None:
        # what no attribute may look like (an unclosed quote, `= =`): up to the next ">"
        stop = text.find(">", place, end)
        return None if stop < 0 else Token("open", start, stop + 1, name, tuple(attributes))
    return Token("open", start, closing.end(), name, tuple(attributes), "/" in closing[0])
