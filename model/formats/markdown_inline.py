"""Where the inline marks of Markdown are: markdown-it-py parses, and its rules are made to say where they found something.

The tokens of the parser have no places. Each inline rule is wrapped: what it adds is noted with where it began and ended.
"""

from __future__ import annotations

import bisect
import functools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from markdown_it import MarkdownIt
from markdown_it.rules_inline import (
    StateInline,
    autolink,
    backtick,
    emphasis,
    entity,
    escape,
    html_inline,
    image,
    link,
    newline,
    strikethrough,
)
from markdown_it.token import Token

from .html_pages import KEPT_INLINE, VOID

TAG_NAME = re.compile(r"<(/?)([a-zA-Z][\w-]*)")
# Not CommonMark, but often met: boxes to tick, attributes, formulas, templates, footnotes; and what parts texts: definitions of
# footnotes, of links (next to those of footnotes) and of terms, directives; ==marked text==, for which there are many readers
_EXTENSIONS = re.compile(
    r"(?P<break>^[ \t]*(?:\[\^[^\]\s]+\]:|\[[^\]\n]+\]:[ \t]+\S[^\n]*$|:[ \t]+|(?::{3,}|!!!|\?\?\?)[^\n]*$))"
    r"|\[\^[^\]\s]+\]|(?<![^\s])\[[ xX]\](?=\s)|\{[#.:][^{}\n]*\}|\$\$.+?\$\$|\$(?![\s$])[^$\n]*[^\s$\\]\$(?!\d)"
    r"|\{\{.*?\}\}|\{%.*?%\}|(?<![A-Za-z0-9=])==(?=[^\s=])(?P<marked>[^=\n]+(?:=[^=\n]+)*)(?<![\s=])==(?![A-Za-z0-9=])",
    re.DOTALL | re.MULTILINE,
)

Rule = Callable[[StateInline, bool], bool]
_RULES: dict[str, Rule] = {
    "newline": newline,
    "escape": escape,
    "backticks": backtick,
    "strikethrough": strikethrough.tokenize,
    "emphasis": emphasis.tokenize,
    "link": link,
    "image": image,
    "autolink": autolink,
    "html_inline": html_inline,
    "entity": entity,
}


@dataclass(frozen=True)
class Found:
    """An inline mark at content[start:end]. kind: "open" or "close" of what `name` says, or "alone", named by its rule.

    `label` is where the text of a picture or of a link is, `children` what the text of a picture was parsed to.
    """

    kind: str
    name: str
    start: int
    end: int
    label: tuple[int, int] = (0, 0)
    children: tuple[Token, ...] = ()


@functools.cache
def parser() -> MarkdownIt:
    """CommonMark with tables and ~~strikethrough~~."""
    made = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    for name, rule in _RULES.items():
        made.inline.ruler.at(name, _noting(name, rule))
    made.inline.ruler2.disable("fragments_join", ignoreInvalid=True)  # they would join texts, with the places of one
    made.core.ruler.disable("text_join", ignoreInvalid=True)
    return made


def _noting(name: str, rule: Rule) -> Rule:
    def noting(state: StateInline, silent: bool) -> bool:
        start, known = state.pos, len(state.tokens)
        label_end = -1
        if not silent and name in ("link", "image"):
            bracket = start + (name == "image")
            if state.src[bracket : bracket + 1] == "[":
                label_end = state.md.helpers.parseLinkLabel(state, bracket, name == "link")
                state.pos = start
        done = rule(state, silent)
        if done and not silent:
            for back, token in enumerate(reversed(state.tokens[known:]), start=1):
                if "rule" not in token.meta:  # not by a rule inside of this one
                    token.meta.update(rule=name, start=start, end=state.pos, back=back, label_end=label_end)
        return done

    return noting


def marks(tokens: Sequence[Token], content: str) -> list[Found]:
    """The marks in a content that was parsed to these tokens, in order. What is in a picture's label is not among them."""
    found = sorted(_marks(tokens, content), key=lambda mark: (mark.start, mark.end))
    return _with_extensions(_joined(found, content), content)


def _marks(tokens: Sequence[Token], content: str) -> Iterator[Found]:
    for token in tokens:
        rule, start, end = str(token.meta.get("rule")), token.meta.get("start", 0), token.meta.get("end", 0)
        if token.type in ("em_open", "em_close", "strong_open", "strong_close", "s_open", "s_close"):
            yield _delimiter(token)
        elif token.type == "link_open":
            # of an <address> all is one mark
            yield Found("alone", rule, start, end) if rule == "autolink" else Found("open", "link", start, start + 1)
        elif token.type == "link_close" and rule == "link":
            yield Found("close", "link", token.meta["label_end"], end, (start + 1, token.meta["label_end"]))
        elif token.type == "image":
            label = (start + 2, token.meta["label_end"])
            yield Found("alone", "image", start, end, label, tuple(token.children or ()))
        elif token.type == "hardbreak":
            while rule == "newline" and start and content[start - 1] == " ":
                start -= 1
            yield Found("alone", "break", start, end)
        elif token.type in ("code_inline", "html_inline", "text_special"):
            yield Found("alone", rule, start, end)


def _delimiter(token: Token) -> Found:
    """A mark of emphasis. The parser has a token for each `*` and `_`; of the two of `**` one becomes the mark: that next to
    the text. `~~` is one token."""
    name, _, kind = token.type.partition("_")
    if name == "s":
        start = token.meta["end"] - 2 * token.meta["back"]
        return Found(kind, name, start, start + 2)
    start, width = token.meta["end"] - token.meta["back"], len(token.markup)
    if kind == "open":
        return Found(kind, name, start + 1 - width, start + 1)
    return Found(kind, name, start, start + width)


def _joined(found: Sequence[Found], content: str) -> list[Found]:
    """Tags as opening and closing marks; what is inside of <code> and the like, and footnotes, as one mark."""
    result: list[Found] = []
    end = 0
    for i, mark in enumerate(found):
        if mark.start < end:
            continue
        close: Found | None = None
        if mark.name == "link" and mark.kind == "open" and content.startswith("^", mark.end):
            close = next((other for other in found[i:] if other.name == "link" and other.kind == "close"), None)
            mark = Found("alone", "extension", mark.start, close.end if close else mark.end)
        tag = TAG_NAME.match(content, mark.start, mark.end) if mark.name == "html_inline" else None
        if tag:
            name = tag[2].lower()
            if name == "br":
                mark = Found("alone", "break", mark.start, mark.end)
            elif name in KEPT_INLINE and not tag[1]:
                closing = f"</{name}"
                close = next((o for o in found[i:] if content[o.start : o.end].lower().startswith(closing)), None)
                mark = Found("alone", "code", mark.start, close.end if close else mark.end)
            elif name not in VOID and not content.endswith("/>", mark.start, mark.end):
                mark = Found("close" if tag[1] else "open", f"<{name}", mark.start, mark.end)
        result.append(mark)
        end = mark.end
    return result


def _with_extensions(found: Sequence[Found], content: str) -> list[Found]:
    starts, ends = [mark.start for mark in found], [mark.end for mark in found]  # of marks that do not overlap

    def is_free(start: int, end: int) -> bool:
        return bisect.bisect_right(ends, start) == bisect.bisect_left(starts, end)

    more = []
    for match in _EXTENSIONS.finditer(content):
        start, end = match.span()
        if match["marked"]:
            if is_free(start, start + 2) and is_free(end - 2, end):
                more += [Found("open", "mark", start, start + 2), Found("close", "mark", end - 2, end)]
        elif is_free(start, end):
            more.append(Found("alone", "break" if match["break"] else "extension", start, end))
    return sorted([*found, *more], key=lambda mark: mark.start) if more else list(found)
