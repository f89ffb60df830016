"""Where the sentences of a line end, in English and in Chinese. Standard library only."""

from __future__ import annotations

import bisect
import re
import unicodedata
from collections.abc import Iterator, Sequence

# A text, for the pattern is slow to compile and English does without it.
HAN = "[\u3005\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af]"

_WIDE_MARKS = "。！？｡"  # end a sentence without a space after them
END_MARKS = f".!?…{_WIDE_MARKS}"
CLOSING = "\"'”’»)\\]}」』）】》〉｣"  # as it stands in a class of a pattern
OPENING = "\"'“‘«([{「『（【《〈｢¿¡-–—*•"
QUOTES_OF_BOTH = "“”‘’…—"  # English has them too
_PAIRS = dict(zip("”’»)]}」』）】》〉｣\"'", "“‘«([{「『（【《〈｢\"'", strict=True))
_PARTNER = dict(zip("”’」』»\"'", "“‘「『«\"'", strict=True))  # of quotation marks, which a sentence may have one of
_OPENING_QUOTES = frozenset(_PARTNER.values())
QUOTES = _OPENING_QUOTES | frozenset(_PARTNER)
_QUOTE = re.compile(f"[{''.join(QUOTES)}]")
_SPEECH_ENDS = ".,!?…。，！？"  # before the mark that closes it; a ’ after anything else is an apostrophe
_COMMAS = "，、；：,;:"
LOOK_BACK = 200  # characters; so far back the opening quotation mark or bracket is looked for

LINE = re.compile("[^\t\n\r\v\f\x1c-\x1e\x85\u2028\u2029]+")  # a tab parts columns, as line breaks part lines
_END = re.compile(rf"(?P<marks>\.(?:[ \xa0]\.){{2,3}}|[{END_MARKS}]+)(?P<closing>[{CLOSING}]*)(?P<space>\s*)")
_WORD = re.compile(r"\w+")
_LATIN_WORD = re.compile(r"[A-Z][A-Za-z]*")
_ENUMERATION = re.compile(r"(?:\d{1,3}|[A-Za-z])$")
_CAPITAL_INSIDE = re.compile(r"[a-z]{1,5}[A-Z]")  # iPhone, eBay, macOS
_SAID = re.compile(
    r"(?:[A-Z][\w'’]*\.? ){1,3}(?:said|asked|replied|answered|cried|shouted|yelled|whispered|thought|called|exclaimed)\b"
)
# 他说。 小王大声问道：
_SAID_IN_CHINESE = rf"(?![没不无沒])(?:{HAN}){{1,8}}?(?:说|说道|說|問|问|问道|答|答道|回答|喊|喊道|叫道|笑道|嚷道|想)(?:着|了)?[，。：！？…,.:!?]"


def words(text: str) -> frozenset[str]:
    """The words of a list."""
    return frozenset(text.split())


# Words that a full stop follows without ending the sentence, in lower case.
_NEVER_LAST = words(
    "mr mrs ms messrs dr prof rev hon gen sen rep gov capt cmdr lt col sgt maj pres vs e.g i.e cf viz approx ca incl esp"
)
_BEFORE_NUMBER = words(
    "no nos fig figs vol vols p pp ch sec art eq tab op ver v rm jan feb mar apr jun jul aug sep sept oct nov dec"
)
# After these, and after initials and the like ("J.", "U.S."), only a word that often starts a sentence starts one.
_SOMETIMES_LAST = words("inc ltd co corp bros jr sr ph.d al st mt ft ave blvd dept est")
_DOTTED = re.compile(r"(?:[a-z]\.)*[a-z]")
_STARTERS = words(
    "A After All Although An And As At Because Before But By Call Come Did Do Does During Even For From Go He Her Here "
    "His How However I If In Is It Its Let Look Many Most Mr Mrs Ms My No Nobody Not On One Our Please See She Since So "
    "Some That The Their Then There These They This Those Though To Today Try Was We Were What When Where While Who Why "
    "With Yes Yet You Your"
)
_CAPITAL_STARTERS = words("CALL HE HOW IF IT PLEASE SHE THAT THERE THEY THIS WE WHAT WHEN WHERE WHO WHY YOU")


def line_sentences(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Start and end of the sentences in text[start:end], a line, without the white space around them.

    They end at . ! ? … and closing quotes before a space and something that may start a sentence; at 。！？ without a
    space too, and so at ! ? . between Chinese characters. A quotation is a sentence unless what follows says who said
    it, or it stands inside one; "……" ends none where Chinese follows at once, as nothing tells whether it does."""
    while start < end and text[start].isspace():
        start += 1
    first = start
    for match in _END.finditer(text, start, end):
        if match.end() < end and _quotation_opens(text, first, match):
            yield start, match.end("marks")
            start = match.end("marks")
        elif match.end() < end and _ends_sentence(text, start, match):
            yield start, match.start("space")
            start = match.end()
    if start < end:
        yield start, start + len(text[start:end].rstrip())


def speech_marks(text: str, bounds: Sequence[tuple[int, int]]) -> list[int]:
    """Where the quotation marks around speech are in a line, given where its sentences start and end: around a quotation
    that is in several of them, or one that ends with a mark and follows a comma, a colon or nothing. Others are around
    words of a sentence, as "these"."""
    found, waiting = [], list[int]()
    starts, ends = {start for start, _ in bounds}, [end for _, end in bounds]
    for match in _QUOTE.finditer(text, bounds[0][0], bounds[-1][1]) if bounds else ():
        at, mark = match.start(), match[0]
        before, after = text[at - 1 : at] or " ", text[at + 1 : at + 2] or " "
        partner = next((i for i in reversed(waiting) if text[i] == _PARTNER.get(mark)), None)
        if partner is not None and not before.isspace() and (mark not in "'’" or before in _SPEECH_ENDS):
            del waiting[waiting.index(partner) :]
            introduced = partner in starts or text[max(0, partner - 8) : partner].rstrip()[-1:] in tuple(",:，：")
            over = bisect.bisect_right(ends, partner)
            if (introduced and before in _SPEECH_ENDS) or ends[over] <= at:
                found += [partner, at]
        elif mark in _OPENING_QUOTES and not after.isspace() and not (before.isalnum() and before.isascii()):
            waiting = [*waiting[-3:], at]
    return sorted(found)


def _quotation_opens(text: str, start: int, match: re.Match[str]) -> bool:
    """Whether the straight quotation mark after Chinese marks belongs to the next sentence of the line that begins at
    `start`: 她说。"再见。" """
    if match["closing"][:1] != '"' or match["space"] or match["marks"].strip(_WIDE_MARKS):
        return False
    return text.count('"', max(start, match.start() - LOOK_BACK), match.start()) % 2 == 0


def _ends_sentence(text: str, start: int, match: re.Match[str]) -> bool:
    """Whether the marks found end the sentence that began at `start`; something other than a space follows them."""
    marks, following = match["marks"], text[match.end()]
    if following in _COMMAS or (not match["space"] and following in END_MARKS):
        return False
    if any(mark in _WIDE_MARKS for mark in marks) or (not match["space"] and _is_narrow_stop(text, start, match)):
        return not (match["closing"] and _goes_on_in_chinese(text, start, match))
    if not match["space"]:
        return False
    rest = text[match.end() : match.end() + 40].lstrip(OPENING)
    if rest[:1].islower() and not _CAPITAL_INSIDE.match(rest):
        return _is_next_letter(text, start, rest)
    if match["closing"] and marks[-1] != "." and _SAID.match(rest):
        return False  # "Stop!" Mary said.
    return marks != "." or _full_stop_ends(text, start, match.start(), rest)


def _full_stop_ends(text: str, start: int, stop: int, rest: str) -> bool:
    """Whether the full stop at `stop` is one, and not that of an abbreviation; `rest` is what follows."""
    before = text[max(start, stop - 20) : stop].split()[-1:]
    written = before[0].lstrip(OPENING) if before else ""
    word = written.lower()
    if word in _NEVER_LAST or (word in _BEFORE_NUMBER and rest[:1].isdigit()):
        return False
    if _ENUMERATION.match(written) and not text[start : stop - len(written)].strip():
        return False  # the number or letter of a list item
    if word in _SOMETIMES_LAST or _DOTTED.fullmatch(word):
        following = _WORD.match(rest)
        if following is None:
            return True
        is_initial = len(following[0]) == 1 and rest[1:2] == "."
        return following[0] in _STARTERS | _CAPITAL_STARTERS and not is_initial
    return True


def _is_next_letter(text: str, start: int, rest: str) -> bool:
    """Whether an item "b. …" follows the item "a. …"."""
    here = text[start : start + 2]
    return len(here) == 2 and here[1] in ".)" and rest[1:2] == here[1] and ord(rest[0]) - ord(here[0]) == 1


def _is_narrow_stop(text: str, start: int, match: re.Match[str]) -> bool:
    """Whether the mark, which no space follows, is one as some Chinese texts write it: 你好!你是谁? …的方法.本文…"""
    marks, before = match["marks"], text[max(start, match.start() - 20) : match.start()]
    following = text[match.end() : match.end() + 30].lstrip(OPENING)
    if not before:
        return False
    if marks.strip("!?") == "":
        word = re.search(r"[!-~]*$", before)  # no address, which may have such marks in it
        return bool(re.match(HAN, following)) and word is not None and (not word[0] or word[0].strip("\"'").isalnum())
    if marks != ".":
        return False
    if re.match(HAN, following):
        item = re.search(r"(?<![\w.%])\d{1,2}$", before)  # "包括:1.设计"
        word = re.search(r"[A-Za-z.]*$", before)
        abbreviations = _NEVER_LAST | _BEFORE_NUMBER | _SOMETIMES_LAST | {"www"}
        return not item and word is not None and word[0].lower() not in abbreviations and "." not in word[0]
    latin = _LATIN_WORD.match(following)  # a longer one, for "报告.PDF" is a file
    return bool(re.match(HAN, before[-1])) and latin is not None and len(latin[0]) > 4


def _goes_on_in_chinese(text: str, start: int, match: re.Match[str]) -> bool:
    """Whether the sentence goes on after the quotation or the bracket that ends with the marks."""
    closing = match["closing"][-1]
    opening = text.rfind(_PAIRS[closing], max(start, match.start() - LOOK_BACK), match.start())
    if closing in "》〉】]":
        return not match["space"]  # 《为什么？》是一本书。 【注意！】请勿靠近。
    if closing in "）)":
        return opening > start and match["marks"].strip("!?！？") == ""  # 他（今年五岁！）会写字。
    if re.compile(_SAID_IN_CHINESE).match(text, match.end()):
        return True  # “你好！”她说。
    if opening > start and text[match.end()] in "的就便":
        return True  # 他说：“不。”就走了。
    return opening > start and not match["space"] and text[opening - 1].isalnum()  # 她说“好。”然后走了。


def is_wide(char: str) -> bool:
    """Whether Chinese or Japanese stands here: a Han character, kana, a full-width character, or a quotation mark or dash of
    Chinese; no emoji, no Hangul, which parts its words by spaces. False for no character."""
    if not char or char.isascii() or unicodedata.category(char) == "So" or "\uac00" <= char <= "\ud7a3":
        return False
    return char in QUOTES_OF_BOTH or unicodedata.east_asian_width(char) in "WF"
