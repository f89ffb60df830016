"""Lines that belong together: paragraphs whose lines were broken at some width. Standard library only."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence

from .sentence_ends import CLOSING, END_MARKS, LINE, QUOTES_OF_BOTH, is_wide, words

WRAPPED_FROM = 55  # characters: shorter lines are not wrapped at a width, they end where their writer wanted
_LINE_BREAK = re.compile(r"[ \t]*(?:\r\n|\n|\r)[ \t]*")
_NO_CONTINUATION = re.compile(
    r"(?:[-*+•·]|#{1,6}|\d{1,3}[.)])[ \t]|[|>]|-{3}|={3}|~{3}|`{3}"
)  # items, headings, tables, rules
_FULL = 0.8  # of the width: the least that a line has with the first word of the next, for which it had no room

# Of lines that are said to be wrapped (paragraphs):
WIDTH_FROM = 30  # columns; no line is taken for full where the longest has fewer
LONGEST = 20_000  # characters in a paragraph; where it has more, it ends
LONG_WORD = 30  # columns; a longer one, an address say, stands out of the width that the lines were broken at
_COMMAS = ",，、"
_PREFIX = re.compile(r"[ \t\u3000]*(?P<mark>(?:>[ \t]?)*(?:(?:#{1,6}|//+|--|;+)[ \t])?)[ \t\u3000]*")
_ITEM = re.compile(
    r"(?:[-*+•·][ \t]+|(?:\(?\d{1,3}[.)]|\(?[A-Za-z]\))[ \t]+|[（(]?[\d一二三四五六七八九十]{1,3}[）)、．])(?=\S)"
)
_APART = re.compile(
    r"[|<$]|-{3}|={3}|\*{3}|_{3}|~{3}|[A-Z][\w-]{0,20}: |\[[^\]]*\]: |@@ "
    r"|(?:def|class|import|from|return|if|for|while|else|elif|try|var|let|const|function|public|private)\b.*[:;({]$"
)  # tables, markup, prompts, rules, "Label: …", code
_CODE = re.compile(r"[{};\\]$|\w\(\)|^[\w.]+\s*[-+*/]?=[^=]|[=!]=|->|=>|::|\t|\S {3,}\S")  # also columns of a table
_FENCE = re.compile(r"[ \t]*(```|~~~)")
_CONJUNCTION = re.compile(r"(?:and|or|but|nor|because|which|than|of)\b")
_BROKEN_WORD = re.compile(r"(?<![^\s(\"'“‘])([a-z]+)[-\u2010]$")
_SECOND_HALF = re.compile(r"([a-z]+)(?![\w-])")
_DASH = re.compile(r"(?:^|[\s-])-$")
# Parts of words that keep their hyphen when a line ends there; others lose it.
_FIRST_PARTS = words(
    "all anti cross double e ever ex far fast free full good half hand hard high ill in large least left light long low "
    "mid mother multi near new non off old on one open over part post pre pro quasi re real right run second self semi "
    "short single six small so ten third three time top twice two ultra up user vice well wide world"
)
_SECOND_PARTS = words(
    "a age aged and as based by day defined dimensional down driven end family for free friendly going in independent "
    "known law level like line made minded month named new of off old on only or order oriented out per quality "
    "range related scale sensitive side sided size sized specific speed step style term the time to type up value wide "
    "word year"
)


def wrapped_lines(text: str) -> Iterator[tuple[int, int]]:
    """Start and end of the lines of a text that are not blank, those of a wrapped paragraph as one."""
    lines: list[tuple[int, int]] = []  # of the paragraph, as far as it is known
    for line in LINE.finditer(text):
        start, end = line.end() - len(line[0].lstrip()), line.start() + len(line[0].rstrip())
        if start >= end:
            continue
        if lines and not _may_go_on(text, lines, start):
            yield from _joined(text, lines)
            lines = []
        lines.append((start, end))
    yield from _joined(text, lines)


def _may_go_on(text: str, lines: Sequence[tuple[int, int]], start: int) -> bool:
    """Whether the line from `start` on could belong to the paragraph of the given lines: next to them, no item, not
    indented any further (the lines of an item may be, and a first line may be itself)."""
    (first, _), (last, end) = lines[0], lines[-1]
    if not _LINE_BREAK.fullmatch(text, end, start) or _NO_CONTINUATION.match(text, start) or text[first] in "#|":
        return False
    before, here = _column(text, last), _column(text, start)
    return here == before or (len(lines) == 1 and (here < before or bool(_NO_CONTINUATION.match(text, first))))


def _joined(text: str, lines: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The lines as one part, if each is so full that the first word of the next found no room in it, but for those that
    end where a sentence may: the part ends there; else line by line. Lines that end in a comma go on in any case."""
    widths = [_column(text, start) + end - start for start, end in lines]
    width = max(widths, default=0)
    first_words = [len(text[start:end].split(maxsplit=1)[0]) for start, end in lines[1:]]
    full = [n + 1 + m >= _FULL * width for n, m in zip(widths, first_words, strict=False)]
    ends = [text[end - 1] for _, end in lines]
    wrapped = width >= WRAPPED_FROM and all(f or mark in END_MARKS for f, mark in zip(full, ends, strict=False))
    first = 0
    for i, (_, end) in enumerate(lines):
        if i + 1 == len(lines) or not ((wrapped and full[i]) or ends[i] == ","):
            yield lines[first][0], end
            first = i + 1


def _column(text: str, start: int) -> int:
    """How many characters stand before `start` on its line."""
    line = text.rfind("\n", 0, start) + 1
    return start - max(line, text.rfind("\r", line, start) + 1)


class Unwrapper:
    """Takes the lines of a text that was wrapped at some width one by one, and gives its paragraphs, each on one line, as
    soon as they are known to be whole. It holds the lines of one paragraph, LONGEST characters at the most.

    A line goes on in the next if that stands at the same column (the first line of a paragraph may be indented, the other
    lines of an item may be) after the same mark of a quotation or a comment ("> ", "# ", "// "), and if the line is full: the
    first word of the next had no room in it (and the longest line has WIDTH_FROM columns). It does too where it ends in a
    comma, or the next starts with "and" or the like. Blank lines, headings, rows of tables, code and what stands between
    ``` stay as they are, items and lines that end in two spaces (the line break of Markdown) end a paragraph.

    Lines are joined by a space, by none where Chinese or Japanese stands on both sides or full-width punctuation on one. A
    hyphen at the end of a line is removed between lower-case letters ("exam-", "ple"), unless it joins two words ("well-",
    "known"): the same word stands in the paragraph with its hyphen, or one of the two is known for it. The soft
    hyphen is removed always.
    """

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._size = 0  # of these, in characters
        self._fence = ""  # the mark of the block of code that is open

    def push(self, line: str) -> list[tuple[str, int]]:
        """The paragraphs that are whole now, in order: each as one line, and of how many lines it was made. `line` has no
        line end; a paragraph of one line is that line."""
        fence = _FENCE.match(line)
        inside = bool(self._fence)
        if fence and (not inside or fence[1] == self._fence):
            self._fence = "" if inside else fence[1]
        if fence or inside or not line.strip() or _is_apart(line):
            return [*self.finish(), (line, 1)]
        done = [] if not self._lines or _may_follow(line, self._lines) else self.finish()
        self._lines.append(line)
        self._size += len(line)
        if self._size > LONGEST:
            ends = [i for i, held in enumerate(self._lines, 1) if held.rstrip(f" {CLOSING}")[-1:] in set(END_MARKS)]
            most = ends[-1] if ends else len(self._lines)
            rest = self._lines[most:]
            self._lines = self._lines[:most]
            done += self.finish()
            self._lines, self._size = rest, sum(map(len, rest))
        return done

    def finish(self) -> list[tuple[str, int]]:
        """The paragraphs of the lines that are left, as nothing more follows them."""
        lines, self._lines, self._size = self._lines, [], 0
        done: list[tuple[str, int]] = []
        goes_on = _go_on(lines)
        first = 0
        for i in range(len(lines)):
            if not goes_on[i]:
                done.append((_one_line(lines[first : i + 1]), i + 1 - first))
                first = i + 1
        return done


def paragraphs(lines: Iterable[str]) -> Iterator[tuple[str, int]]:
    """The paragraphs of a text that was wrapped at some width, each on one line, and of how many lines it was made (the
    numbers add up to that of the lines). How they are found, Unwrapper tells. Lines are given without their ends, and read
    no further than the end of a paragraph shows."""
    unwrapper = Unwrapper()
    for line in lines:
        yield from unwrapper.push(line)
    yield from unwrapper.finish()


def _parts(line: str) -> tuple[str, str]:
    """The mark of a quotation or comment that the line begins with (without spaces, perhaps ""), and the rest."""
    prefix = _PREFIX.match(line)
    assert prefix is not None  # it may be empty
    return "".join(prefix["mark"].split()), line[prefix.end() :].rstrip()


def _is_apart(line: str) -> bool:
    mark, body = _parts(line)
    return not body or bool(_APART.match(body)) or bool(_CODE.search(body))


def _may_follow(line: str, lines: Sequence[str]) -> bool:
    """Whether the line could belong to the paragraph of the given lines."""
    first, last = lines[0], lines[-1]
    (mark, body), (old_mark, old_body) = _parts(line), _parts(first)
    if mark != old_mark or _ITEM.match(body) or last.endswith("  ") or _is_heading(first):
        return False
    here, before = line.index(body), last.index(_parts(last)[1])
    if len(lines) > 1:
        return here == before
    return here <= before or bool(_ITEM.match(old_body))


def _is_heading(line: str) -> bool:
    """Whether this is a heading of Markdown rather than the comment of a program: no line of it is broken."""
    return line.startswith("##")


def _go_on(lines: Sequence[str]) -> list[bool]:
    """For each of the lines, which could be one paragraph, whether it goes on in the next."""
    bodies = [_parts(line)[1] for line in lines]
    columns = [_columns(line.rstrip()) for line in lines]
    width = max((_columns(re.sub(rf"[!-~]{{{LONG_WORD + 1},}}", "", line.rstrip())) for line in lines), default=0)
    found = []
    for body, n, following in zip(bodies, columns, bodies[1:], strict=False):
        full = width >= WIDTH_FROM and n + 1 + _columns(_first_word(following)) >= _FULL * width
        sentence = body.rstrip(CLOSING)[-1:] in set(END_MARKS)
        broken = body[-1] in "-\u2010\u00ad" and body[-2:-1].isalnum() and following[0].isalnum()
        joins = body[-1] in _COMMAS or (not sentence and bool(_CONJUNCTION.match(following)))
        found.append(full or broken or joins)
    return [*found, False] if lines else []


def _columns(text: str) -> int:
    """How wide the text is on a terminal, nearly."""
    return len(text) if text.isascii() else sum(1 + (unicodedata.east_asian_width(char) in "WF") for char in text)


def _first_word(body: str) -> str:
    """What no line is broken in: a word, or two wide characters, as the second may be a mark."""
    word = body.split(maxsplit=1)[0]
    wide = next((i for i, char in enumerate(word) if is_wide(char)), len(word))
    return word[: max(wide, 2)]


def _one_line(lines: Sequence[str]) -> str:
    """The lines as one. Spaces before the first and after the last stay."""
    if len(lines) == 1:
        return lines[0]
    whole = "\n".join(lines)
    joined = [lines[0].rstrip()]
    for line in lines[1:]:
        body = _parts(line)[1]
        joined[-1] = _with_space(joined[-1], body, whole)
        joined.append(body)
    last = lines[-1]
    return "".join(joined) + last[len(last.rstrip()) :]


def _with_space(line: str, following: str, whole: str) -> str:
    """The line with the space, if any, that parts it from the following; without its hyphen, if that is not of the word."""
    end, start = line[-1], following[0]
    if end == "\u00ad":
        return line[:-1]
    if end in "-\u2010" and not _DASH.search(line):
        return line if _keeps_hyphen(line, following, whole) else line[:-1]
    if end == "—" and not line[-2:-1].isspace():
        return line
    if end in QUOTES_OF_BOTH and start in QUOTES_OF_BOTH:
        end = line[-2:-1]  # what stands inside tells whose they are
    marks = any(is_wide(char) and not char.isalnum() and char not in QUOTES_OF_BOTH for char in (end, start))
    return line if marks or (is_wide(end) and is_wide(start)) else f"{line} "


def _keeps_hyphen(line: str, following: str, whole: str) -> bool:
    """Whether the hyphen at the end of the line joins two words, and was not set to break one."""
    first, second = _BROKEN_WORD.search(line), _SECOND_HALF.match(following)
    if not first or not second:
        return True  # a capital, a digit, another hyphen
    if first[1] in _FIRST_PARTS or second[1] in _SECOND_PARTS:
        return True
    return re.search(rf"\b{first[1]}[-\u2010]{second[1]}\b", whole) is not None
