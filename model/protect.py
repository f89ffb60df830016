"""What must come through a translation unchanged: numbers, addresses, placeholders, code, emoji.

Such a stretch is replaced by a slot, a character that stands for it, before the text is cut into pieces; the search must
put each slot into the output once (rules.EachOnce), where the stretch is set in again. A model can do so only if its
vocabulary has the slots as pieces and its training had them. Of other models the stretches are constraints of a second
search (module constrained). Standard library only.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

# Characters for private use, which no text has a meaning for. One that stands in a text is protected like the rest.
SLOTS = "".join(map(chr, range(0xE000, 0xE010)))
BREAKS = "[\t\n\r\v\f\x1c-\x1e\x85\u2028\u2029]+"  # what parts lines and columns; no segment holds any

_HAN = "\u3400-\u4dbf\u4e00-\u9fff"
_MARKS = r".,;:!?'\"*_~。，；：！？、"  # at the end of an address they belong to the sentence
# Chinese stands in an address only where a part of it begins: "https://a.org/路径", not "https://a.org吧"
_IN_URL = rf"(?:[^\s<>\"“”‘’（）《》「」【】。，；！？、{_HAN}]|(?<=[/=?&.#_])[{_HAN}]{{1,40}})"
_ODD = "\u00bc-\u00be\u2150-\u2188"  # fractions and Roman numerals that are one character
_RAISED = "\u00b2\u00b3\u00b9\u2070-\u209c"
_TOP = "com|org|net|edu|gov|info|io|ai|dev|app|cn|uk|de|fr|jp|kr|ru|eu|us|ca|au"
_FILE = (
    "txt|md|rst|tex|pdf|docx?|xlsx?|pptx?|odt|csv|tsv|jsonl?|xml|ya?ml|toml|ini|cfg|conf|env|lock|log|html?|css|jsx?|tsx?|py|"
    "ipynb|java|jar|class|c|h|cc|cpp|hpp|cs|rs|rb|php|swift|kt|sql|db|sqlite|sh|bash|zsh|bat|ps1|exe|dll|deb|rpm|apk|iso|img|"
    "bin|dat|bak|tmp|zip|tar|gz|tgz|bz2|xz|zst|7z|rar|png|jpe?g|gif|svg|bmp|webp|ico|mp3|mp4|wav|flac|ogg|avi|mov|mkv|webm|"
    "srt|vtt|po|pot|mo|service|desktop|safetensors|gguf|js"
)
_BEFORE, _AFTER = (
    "(?<![A-Za-z0-9_])",
    "(?![A-Za-z0-9_])",
)  # the edges of a word of Latin letters; Han characters are none
_PICTURE = "\u2190-\u21ff\u2200-\u22ff\u2300-\u23ff\u2460-\u24ff\u25a0-\u27bf\u2b00-\u2bff©®™\U0001f000-\U0001faff"

# Every repetition that something must follow has a limit, so that a text costs time in proportion to its length.
_PARTS = {
    "code": r"(?<!`)`{1,3}[^`\n]{1,500}`{1,3}",
    "url": rf"(?i:https?|ftps?|file|mailto|ssh|git|ws|wss|edge|chrome|about)://?{_IN_URL}+|(?i:www)\.{_IN_URL}+"
    rf"|(?<![A-Za-z0-9_.@-])(?:[A-Za-z0-9-]{{1,63}}\.){{1,4}}(?:{_TOP})(?![A-Za-z0-9_@-]|\.[A-Za-z])(?::\d+)?(?:/{_IN_URL}*)?",
    "mail": r"(?<![A-Za-z0-9_.+%-])[A-Za-z0-9_.+%-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){1,6}(?::[A-Za-z0-9_.~/-]*[A-Za-z0-9_~/])?",
    "braces": r"[$#@]?\{\{?[^{}\n]{0,60}\}\}?|%\{[^{}\n]{1,60}\}",
    "format": r"%(?:\([A-Za-z_]\w{0,60}\)|\d{1,3}\$)?[-+0#]{0,3}\d{0,4}(?:\.\d{1,4})?(?:hh|h|ll|l|z|j)?[sdifuxXcrgeGEp@](?![A-Za-z])|%%",
    "tag": r"</?[A-Za-z][A-Za-z0-9:-]{0,40}(?:\s[^<>\n]{0,1000})?/?>|<!--[^\n]{0,500}?-->",
    "entity": r"&(?:[A-Za-z]{2,12}|#\d{1,6}|#x[0-9A-Fa-f]{1,6});",
    # as Pandoc reads it: no space after the first $ and before the last, no digit after that; money is no formula
    "formula": r"\$\$[^$\n]{1,500}\$\$|\$(?:(?![\d\s$])|(?=\d[^$\n]{0,200}[\\^_={}]))(?:[^$\n\\]|\\.){1,200}(?<!\s)\$(?![A-Za-z0-9_$])"
    r"|\\\([^\n]{1,300}?\\\)|\\\[[^\n]{1,300}?\\\]|(?<![A-Za-z\\])\\[A-Za-z]{1,30}\*?(?:\{[^{}\s]{0,80}\}){0,3}",
    "variable": r"\$[A-Za-z_][A-Za-z0-9_]*",
    "wiki": r"\[\[[^\[\]\n]{1,80}\]\]",
    "path": rf"(?<![A-Za-z0-9_.])(?:~|\.{{1,2}})?/[A-Za-z0-9_.@+-][^\s,;:!?\"'()<>（），。；：！？、{_HAN}]*"
    rf"|{_BEFORE}[A-Za-z]:\\[^\s,;\"'()<>（），。；：！？、{_HAN}]*"
    rf"|(?<![A-Za-z0-9_./-])(?:[A-Za-z0-9_.-]{{1,64}}/){{1,10}}[A-Za-z0-9_-]{{1,64}}(?:\.[A-Za-z0-9]{{1,10}}){{0,2}}\.(?:{_FILE}){_AFTER}",
    "option": rf"(?<![A-Za-z0-9_-])--[A-Za-z][A-Za-z0-9_-]*(?:=[^\s,;，。；、（）()\"{_HAN}]+)?|(?<![A-Za-z0-9_-])-[A-Za-z](?![A-Za-z0-9_-])",
    "handle": r"(?<![A-Za-z0-9_@.])@[A-Za-z0-9_]{2,}|(?<![A-Za-z0-9_&#])#[A-Za-z0-9_]+",
    "emote": r"(?<![A-Za-z0-9_:]):[a-z][a-z0-9_+-]{1,30}:(?![A-Za-z0-9_:])",
    "hex": rf"{_BEFORE}(?:[0-9A-Fa-f]{{8}}(?:-[0-9A-Fa-f]{{4}}){{3}}-[0-9A-Fa-f]{{12}}|0[xX][0-9A-Fa-f]+"
    r"|(?=[a-fA-F]{0,63}[0-9])(?=[0-9]{0,63}[a-fA-F])[0-9A-Fa-f]{7,128}"
    rf"|[0-9A-Fa-f]{{1,4}}(?:::?[0-9A-Fa-f]{{1,4}}){{2,7}}|[0-9A-Fa-f]{{1,4}}::[0-9A-Fa-f]{{1,4}}){_AFTER}",
    # snake_case, call(), camelCase, file.txt, std::string, C++: names that programs have
    "name": rf"(?<![A-Za-z0-9_.-])[A-Za-z0-9_]{{1,64}}(?:[.-][A-Za-z0-9_]{{1,64}}){{0,8}}\.(?:{_FILE})(?![A-Za-z0-9_]|\.[A-Za-z])"
    rf"|{_BEFORE}(?:[A-Za-z][A-Za-z0-9]{{0,60}}(?:_[A-Za-z0-9]{{1,60}}){{1,20}}(?:\(\))?|__[A-Za-z][A-Za-z0-9_]{{0,80}}"
    rf"|[A-Za-z_][A-Za-z0-9_.]{{0,80}}\(\)|[A-Za-z_][A-Za-z0-9_]{{0,60}}(?:::[A-Za-z_][A-Za-z0-9_]{{0,60}}){{1,10}}"
    rf"|[a-z]{{1,30}}[A-Z][A-Za-z0-9]{{0,60}}){_AFTER}"
    r"|(?<![A-Za-z0-9_])[A-Za-z](?:\+\+|#)(?![A-Za-z0-9_+#])|(?<![A-Za-z0-9_.])\.(?:NET|[a-z]{1,20}(?:rc|ignore)|env)(?![A-Za-z0-9_.])",
    # MP3, GPT-4, x86, v1.2.3-rc1
    "coded": rf"{_BEFORE}(?:[A-Za-z]{{1,30}}|[A-Za-z]{{0,30}}[A-Z]-)\d+[A-Za-z0-9]{{0,60}}(?:[.\-_][A-Za-z0-9]{{1,60}}){{0,10}}{_AFTER}",
    "phone": r"(?<![A-Za-z0-9_+])\+\d{1,3}(?:[ .-]\(?\d{2,4}\)?){2,5}(?!\d)|(?<![A-Za-z0-9_])\(\d{3}\) ?\d{3}-\d{4}(?!\d)",
    "number": rf"{_BEFORE}(?:(?:US|HK|NT|[ACS])?[$€£¥￥₹₩₽]\s?)?[+\-−]?(?:\d+(?:[.,:/\-–~～^'’]\d+)*[{_ODD}]?|[{_ODD}]+)"
    rf"(?:\.x{_AFTER}|-?(?:alpha|beta|rc|dev|pre|post)[.-]?\d*{_AFTER}|[eE][+-]?\d+{_AFTER}|[x×*]\d+{_AFTER}"
    r"|[A-Z]{1,3}(?![A-Za-z])|\s?[%％‰](?![A-Za-z%])|\s?[℃℉]|\s?°(?:[CFK](?![A-Za-z])|(?![A-Za-z]))|\s?[€£])?",
    "picture": r"[\U0001F1E6-\U0001F1FF]{2}|[0-9#*]\ufe0f?\u20e3|"
    rf"(?:[{_PICTURE}][\u200d\ufe0e\ufe0f\u20e3\U0001F3FB-\U0001F3FF\U000E0020-\U000E007F]*)+",
    "odd": rf"[A-Za-z]?[{_RAISED}]+",
    "arrow": r"<?(?:-{1,3}|={1,3})>|<(?:-{1,3}|={1,3})(?![A-Za-z0-9])",
    "control": r"[\x00-\x08\x0e-\x1b\x7f]+",
    "slot": "[\ue000-\ue00f]",
}
_EARLY = ("picture",)  # a keycap begins with its digit
# Numbers that another language says in another way. "3月" is March, "第1" first, "1万" ten thousand.
_NOT_BEFORE = re.compile(rf"\s?(?:月(?!球)|世纪|年级|[多余几]?[万亿千百](?![{_HAN}]?[一二三四五六七八九]))")
_NOT_AFTER = re.compile(r"(?:第|星期|周)\s?$")
# Tags that may come in pairs: <b>…</b>, {% if x %}…{% endif %}
_TAG = (
    r"<(?P<opened>[A-Za-z][A-Za-z0-9:-]{0,40})(?:\s[^<>]{0,1000})?>|<[A-Za-z][A-Za-z0-9:-]{0,40}/>"
    r"|</(?P<closed>[A-Za-z][A-Za-z0-9:-]{0,40})\s{0,9}>"
    r"|\{%-?\s{0,9}(?:end(?P<ended>\w{1,40})|(?P<begun>\w{1,40}))[^{}\n]{0,60}%\}"
)
MOST_OPEN = 30  # tags that are waited for, so that a text of nothing else costs time in proportion to its length
_NO_SLOTS = dict.fromkeys(map(ord, SLOTS))  # for str.translate, to leave them out


class Span(NamedTuple):
    """A stretch of a text, in characters, and what stands for it in the output."""

    start: int
    end: int
    output: str


@functools.cache
def _pattern() -> re.Pattern[str]:
    names = sorted(_PARTS, key=lambda name: name not in _EARLY)
    return re.compile("|".join(f"(?P<{name}>{_PARTS[name]})" for name in names))


def spans(text: str, also: Sequence[tuple[int, int] | Span] = ()) -> list[Span]:
    """The stretches of a text that must come through unchanged, in order, apart from each other. Those of `also` (start,
    end), or with what is to stand for them, come before what is found here; of two that overlap the first stays."""
    given: list[Span] = []
    for start, end, *output in sorted(also, key=lambda span: (span[0], -span[1])):
        if (given[-1].end if given else 0) <= start < end <= len(text):
            given.append(Span(start, end, str(output[0]) if output else text[start:end]))
    if _is_prose(text):
        return given
    edges = [0, *(edge for span in given for edge in span[:2]), len(text)]
    between = [_found(text, start, end) for start, end in zip(edges[::2], edges[1::2], strict=True)]
    return sorted([*given, *itertools.chain(*between)])


def _found(text: str, at: int, stop: int) -> Iterator[Span]:
    while match := _pattern().search(text, at, stop):
        start, end = match.span()
        if match.lastgroup in ("url", "path"):
            end = _without_marks(text, start, end)
        is_number = match.lastgroup == "number"
        if start == end or (is_number and not _is_plain_number(text, start, end)) or _is_comparison(match):
            at = match.end() if is_number else start + 1
            continue
        yield Span(start, end, text[start:end])
        at = end


def _is_prose(text: str) -> bool:
    """Whether the text is nothing but ordinary words and the marks around them: most are, and the pattern is slow to
    compile."""
    return all(map(_is_word, text.split()))


def _is_word(word: str) -> bool:
    if word.endswith("()"):
        return False
    word = word.lstrip("'\"(（“‘—–").rstrip(",.!?;:'\"—–)，。！？；：、”’）…").replace("'", "").replace("’", "")
    if not word.isalpha():
        return not word
    latin = word if word.isascii() else "".join(filter(str.isascii, word))
    return len(latin) < 2 or latin[1:].islower() or latin.isupper()


def _without_marks(text: str, start: int, end: int) -> int:
    """Where an address ends without the marks after it, and without a closing bracket that it does not open."""
    part = text[start:end]
    extra = {closing: part.count(closing) - part.count(opening) for opening, closing in ("()", "[]", "{}")}
    while end > start and (text[end - 1] in _MARKS or extra.get(text[end - 1], 0) > 0):
        end -= 1
        if text[end] in extra:
            extra[text[end]] -= 1
    return end


def _is_comparison(match: re.Match[str]) -> bool:
    """Whether a tag is none: "a <b and c> d" has words where a tag has its attributes."""
    is_tag = match.lastgroup == "tag" and not match[0].startswith("<!--")
    return is_tag and "=" not in match[0] and len(match[0].strip("</>").split()) > 2


def _is_plain_number(text: str, start: int, end: int) -> bool:
    short = sum(map(str.isdigit, text[start:end])) <= 2
    if short and _NOT_AFTER.search(text, max(0, start - 3), start):
        return False
    return not _NOT_BEFORE.match(text, end)


def hide(text: str, found: Iterable[Span]) -> tuple[str, list[str]]:
    """The text with a slot in the place of each span, and what is to be set in for the slots, in their order. Characters
    of the text that look like slots are left out. There may be at most as many spans as there are SLOTS: ValueError."""
    parts, outputs, done = [], [], 0
    for slot, span in enumerate(found):
        if slot == len(SLOTS):
            raise ValueError(f"more than {len(SLOTS)} spans in one segment")
        parts += [text[done : span.start].translate(_NO_SLOTS), SLOTS[slot]]
        outputs.append(span.output)
        done = span.end
    return "".join(parts) + text[done:].translate(_NO_SLOTS), outputs


def apart(hidden: str, outputs: Sequence[str]) -> str:
    """A hidden text as a model reads it: with a space between a slot that stands for a mark, as `**`, and a word after it,
    for a word is the pieces that it is after a space. Numbers ("20th") are learnt as they are."""
    marks = {slot for slot, output in zip(SLOTS, outputs, strict=False) if not output[-1:].isalnum()}
    following = [*hidden[1:], ""]
    return "".join(
        char + " " if char in marks and after.isascii() and after.isalpha() else char
        for char, after in zip(hidden, following, strict=True)
    )


def restore(text: str, outputs: Sequence[str]) -> str:
    """An output with what belongs there in the place of each slot. A slot that stands for nothing is left out."""
    if not outputs and not any(slot in text for slot in SLOTS):
        return text
    return "".join(restored(text, outputs))


def restored(text: str, outputs: Sequence[str]) -> list[str]:
    """What each character of an output becomes in `restore`: a slot what belongs there, parted by a space from a number
    that it would run into. A space beside it becomes nothing where Chinese comes to stand on both sides of that, for the
    model could not know that a term would be Chinese."""
    values = dict(zip(SLOTS, outputs, strict=False))
    became = [values.get(char, "") if char in SLOTS else char for char in text]
    for i in range(1, len(text)):
        before, here = became[i - 1], became[i]
        if (text[i - 1] in SLOTS or text[i] in SLOTS) and before[-1:].isdigit() and here[:1].isdigit():
            became[i] = " " + here
        elif here == " " and i + 1 < len(text) and (text[i - 1] in SLOTS or text[i + 1] in SLOTS):
            became[i] = "" if _is_han(before[-1:]) and _is_han(became[i + 1][:1]) else here
    return became


def _is_han(char: str) -> bool:
    return "\u3400" <= char <= "\u9fff"


def hide_same(text: str, outputs: Sequence[str]) -> str:
    """A given output as the model would have written it: a slot where it says what the slot stands for."""
    places: list[tuple[int, int, str]] = []
    for slot, output in sorted(zip(SLOTS, outputs, strict=False), key=lambda pair: -len(pair[1])):
        at = text.find(output)
        while at >= 0 and any(at < end and start < at + len(output) for start, end, _ in places):
            at = text.find(output, at + 1)
        if at >= 0 and output:
            places.append((at, at + len(output), slot))
    for start, end, slot in sorted(places, reverse=True):
        text = text[:start] + slot + text[end:]
    return text


def missing(wanted: Sequence[str], output: str) -> list[str]:
    """Those of the `wanted` texts that the output lacks. A stretch of it counts for one of them only, and no part of a
    number for a number: of "2" and "2024" there are both in "2 in 2024", not in "2024"."""
    at = 0
    for text in wanted:  # in this order, as often; else in any, long ones first, for a short one may stand in them
        at = _place(text, output, at)
        if at < 0:
            break
        at += len(text)
    else:
        return []
    lost = []
    for text in sorted(wanted, key=len, reverse=True):
        at = _place(text, output, 0)
        if at < 0:
            lost.append(text)
        else:
            output = output[:at] + "\0" * len(text) + output[at + len(text) :]
    return lost


def emptied(source: str, output: str) -> list[str]:
    """The opening tags (`<b>`, `{% if x %}`) of a source that have letters between them and their closing tag, and have
    nothing there in the output, as often as that is so."""
    if "</" not in source and "{%" not in source:
        return []
    filled = _filled(output, str.isalnum)  # "ten" may be 10
    lost = []
    for opening in _filled(source, str.isalpha):
        if opening in filled:
            filled.remove(opening)
        else:
            lost.append(opening)
    return lost


def _filled(text: str, is_content: Callable[[str], bool]) -> list[str]:
    """The opening tags of the pairs in a text that enclose a character that `is_content`."""
    waiting: list[tuple[str, str, int]] = []  # tags not closed yet: name, tag, where its content starts
    found = []
    for tag in re.finditer(_TAG, text):
        closed, opened = tag["closed"] or tag["ended"], tag["opened"] or tag["begun"]
        if opened and not tag[0].endswith("/>"):
            waiting = [*waiting[1 - MOST_OPEN :], (opened, tag[0], tag.end())]
        while closed and closed in (name for name, _, _ in waiting):
            name, opening, start = waiting.pop()
            if name == closed:
                if any(map(is_content, re.sub(_TAG, "", text[start : tag.start()]))):
                    found.append(opening)
                break
    return found


def _place(text: str, output: str, at: int) -> int:
    """Where the text stands in the output, from `at` on, with no digit next to a digit of its ends; else -1."""
    while (at := output.find(text, at)) >= 0:
        before, after = output[max(at - 1, 0) : at], output[at + len(text) : at + len(text) + 1]
        if not (text[:1].isdigit() and before.isdigit()) and not (text[-1:].isdigit() and after.isdigit()):
            return at
        at += 1
    return -1
