"""Questions about the options of a program, and where a manual explains them. Plain text, standard library only."""

from __future__ import annotations

import re
from collections.abc import Sequence

from . import segment

OPTION = re.compile(r"(?<![\w-])--?[A-Za-z][\w-]*")
# What a question is made of, beside an option, that asks what that does.
_ASKING = frozenset(
    [
        "what",
        "what's",
        "does",
        "do",
        "is",
        "are",
        "the",
        "a",
        "an",
        "option",
        "flag",
        "switch",
        "for",
        "used",
        "use",
        "mean",
        "means",
        "of",
        "purpose",
        "explain",
    ]
)
_ASKING_IN_CHINESE = re.compile("什么|作用|意思|干嘛|有何用|解释|做啥")


def entries(text: str, option: str) -> list[tuple[int, int]]:
    """Where a text explains an option: from the end of its name at the beginning of a line, alone or after other names of
    it, up to the next line that is indented no further."""
    found = []
    heads = rf"^([ \t]*)(?:-[^\s,]+,?[ \t]+)*{re.escape(option)}(?![\w-])[^\s,]*(?:,[ \t]+-[^\s,]+)*"
    for head in re.finditer(heads, text, re.MULTILINE):
        deeper = re.compile(rf"[^\n]*(?:\n(?:[ \t]*(?=\n)|{head[1]}[ \t]+[^\n]*))*")
        body = deeper.match(text, head.end())
        found.append((head.end(), body.end() if body else head.end()))
    return found


def asks_what_it_does(question: str) -> str | None:
    """The option of which a question asks no more than what it does; None if it asks something else. One word more may be
    there, which could be the program's."""
    options = OPTION.findall(question)
    if len(set(options)) != 1:
        return None
    rest = OPTION.sub(" ", question).casefold()
    if re.search(segment.HAN, rest):
        return options[0] if _ASKING_IN_CHINESE.search(rest) else None
    others = [word for word in re.findall(r"[\w']+", rest) if word not in _ASKING]
    return options[0] if len(others) <= 1 else None


def explanation(question: str, text: str, spans: Sequence[tuple[float, int, int]]) -> tuple[int, int, int] | None:
    """For a question that asks what an option does: which of the spans (score, start, end) is the best that stands in an
    entry of the option (if none does, the best), and start and end of the first sentence of that entry. None if there is no
    entry."""
    option = asks_what_it_does(question)
    found = []
    for start, end in entries(text, option) if option and spans else ():
        inside = [i for i, (_, first, last) in enumerate(spans) if start <= first and last <= end]
        sentence = _first_sentence(text, start, end)
        if sentence:
            best = max(inside or range(len(spans)), key=lambda i: spans[i][0])
            found.append((bool(inside), spans[best][0], best, sentence))
    if not found:
        return None
    *_, best, (start, end) = max(found, key=lambda one: one[:2])
    return best, start, end


def _first_sentence(text: str, start: int, end: int) -> tuple[int, int] | None:
    """Start and end of the first sentence of the first paragraph of an entry."""
    body = text[start:end]
    paragraph = re.split(r"\n[ \t]*\n", body.lstrip(), maxsplit=1)[0]
    start = end - len(body.lstrip())
    bounds = segment.sentences(re.sub(r"\s", " ", paragraph))  # its lines are one
    return (start + bounds[0][0], start + bounds[0][1]) if bounds else None
