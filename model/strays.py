"""What a translation between English and Chinese has that it should not: numbers that its source does not say, words that
stayed in the source's language, and Latin letters that are no word of it. Standard library only; loaded where an output has
digits of its own, or Chinese letters in English or Latin ones in Chinese."""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Callable, Iterator

_HAN = "[\u3400-\u4dbf\u4e00-\u9fff]"
_DIGITS = re.compile(r"\d+(?:[.,]\d+)*")
_GROUPED = re.compile(r"\d{1,3}(?: \d{3})+(?!\d)")  # 12 000
_ROMAN = re.compile(r"\b[IVX]{1,6}\b")
_WORD = re.compile(r"[a-z]+")

_NUMERALS = {char: value for value, char in enumerate("零一二三四五六七八九")}
_NUMERALS |= {"〇": 0, "两": 2, "兩": 2, "俩": 2, "双": 2, "对": 2, "仨": 3, "廿": 20, "半": 30, "刻": 15, "元": 1}
_SCALES = {"十": 10, "百": 100, "千": 1000, "万": 10**4, "萬": 10**4, "亿": 10**8, "億": 10**8}
_NUMERAL = re.compile(f"[{''.join([*_NUMERALS, *_SCALES])}]+")

_BIG = {"hundred": 100, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_SHORT = {"k": 10**3, "m": 10**6, "mn": 10**6, "bn": 10**9, "b": 10**9}
# 13.5亿, 300多万, 4个亿; 1.35 billion, £1.35bn
_SCALE = re.compile(
    rf"\s*(?:[多余几个]?([{''.join(_SCALES)}]+)|({'|'.join(_BIG)})s?\b|({'|'.join(_SHORT)})\b)", re.IGNORECASE
)


def _counted(words: str, start: int = 0, step: int = 1) -> dict[str, int]:
    return {word: start + step * i for i, word in enumerate(words.split())}


_TEENS = _counted(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
)
_TENS = _counted("twenty thirty forty fifty sixty seventy eighty ninety", 20, 10)
_CARDINALS = _TEENS | _TENS
_ORDINALS = (
    {f"{word}th": value for word, value in _TEENS.items()}
    | {f"{word[:-1]}ieth": value for word, value in _TENS.items()}
    | _counted("first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth", 1)
)
# Words that say a number, and how it may be written: half an hour is 30 minutes, half past three 3:30, a quarter 15.
_SAYING: dict[str, tuple[int, ...]] = {
    "a": (1,), "an": (1,), "another": (1,), "single": (1,), "once": (1,), "only": (1,), "per": (1,), "each": (1,),
    "twice": (2,), "double": (2,), "pair": (2,), "couple": (2,), "both": (2,), "twins": (2,), "fortnight": (2, 14),
    "triple": (3,), "quarter": (15, 25, 3, 4), "quarters": (15, 45, 75, 3, 4), "half": (30, 50, 6, 5, 2), "halves": (2,),
    "dozen": (12, 10), "dozens": (12, 10), "score": (20,), "noon": (12,), "midday": (12,), "midnight": (12, 0, 24),
    "decade": (10,), "decades": (10,), "century": (100,), "centuries": (100,), "millennium": (1000,), "week": (7,),
    "oh": (0,), "o": (0,), "nil": (0,), "none": (0,), "no": (0,), "all": (100,), "teens": (10,), "k": (1000,), "sept": (9,),
}  # fmt: skip
for _names in (
    "january february march april may june july august september october november december",
    "jan feb mar apr may jun jul aug sep oct nov dec",
    "monday tuesday wednesday thursday friday saturday sunday",
):
    _SAYING |= {word: (number,) for word, number in _counted(_names, 1).items()}

LONGEST_ABBREVIATION = 6  # letters
LONGEST = 15  # characters of a number that is compared by its value
_LATIN_LETTER = "A-Za-z\u00c0-\u024f"
_LETTER = f"{_LATIN_LETTER}0-9_"
# Small letters; "_" may stand before a word, as in the menus of GTK, but in a name that programs have it joins two.
_LATIN = re.compile(
    rf"(?<![{_LATIN_LETTER}0-9'’./@-])(?<![{_LETTER}]_)[a-z]{{2,}}(?:['’-][a-z]+)*(?![{_LETTER}/@-]|\.[a-z])"
)
_RUN = re.compile(rf"[{_LATIN_LETTER}]{{2,}}")
# A word that has its capital for it begins a sentence; and one in the output, but not the first of a name of several words.
_FIRST = re.compile(rf"(?:^|[.!?:;…\])\n])[\W_]*([A-Z][a-z]+)(?![{_LETTER}'’-]|[./@]\w)")
_CAPITAL = re.compile(rf"(?<![{_LETTER}'’./@-])_?([A-Z][a-z]+)(?![{_LETTER}'’/@-]|\.\w| [A-Z])")
_QUOTED = re.compile('["“”\'‘’「『«`*]([^"“”「」『』«»`*]{1,40})["“”\'‘’」』»`*]')
_BRACKETS = re.compile(r"[(（][^()（）]*[)）]")  # in Chinese: the original of a name
_NAMES = re.compile(r"[A-Z][\w.'’-]*(?:[ ]+[a-z]{1,4}){1,2}[ ]+[A-Z][\w.'’-]*")  # "Wolf of Wall Street"
# What Chinese texts write in small Latin letters, too.
_AS_IN_ENGLISH = _counted(
    "am pm cm mm km kg mg ml kb mb gb hz khz mhz ghz kw kwh mph kph ppm dpi px pt cc app wifi web email http https www com org "
    "vs ok etc ios mac id pdf html css php sql usb cpu gpu git linux ph pi sin cos tan log max min bug blog demo"
).keys()
# Names that are ordinary words, too.
_ALSO_NAMES = _counted(
    "Access Apple Bill Chrome Edge Excel Grace Hope Joy Mark May Meta Office Oracle Outlook Rose Ruby Rust Signal Slack Steam "
    "Swift Target Teams Will Windows Word Zoom"
).keys()


def invented(source: str, output: str) -> list[str]:
    """The numbers in digits of an output that its source does not say: not in digits, in words, in Chinese numerals, as a
    month, with 万 or million; English or Chinese both. Of "3:30" and "2.5" it is enough if all parts are known."""
    output = _usual(output)
    found = list(_DIGITS.finditer(output))
    if not found:
        return []
    source = _usual(source)
    known = _numbers(source)
    return [match[0] for match in found if not _is_known(match, known, source)]


def left(source: str, output: str, target: str, is_ordinary: Callable[[str], bool] = lambda word: False) -> list[str]:
    """The words of an output that are not in its language: Chinese in English (`target` "en"); in Chinese words of the
    source that stayed, in small letters, or with the capital of a sentence's beginning where `is_ordinary` says of the word in
    small letters that it is no name. Names, abbreviations, and what stands in quotation marks in the source, are none.
    Then Latin letters that are no word of the source (`made_up`)."""
    if target == "en":
        return re.findall(rf"{_HAN}+", output)
    quoted = {word for match in _QUOTED.finditer(source) for word in _LATIN.findall(match[1].lower())}
    if not any(map(str.isalpha, _QUOTED.sub("", source))):  # nothing is said of what is quoted
        quoted = set()
    usual = quoted | _AS_IN_ENGLISH
    words = set(_LATIN.findall(source.lower())) - usual
    in_brackets = {word for match in _BRACKETS.finditer(source) for word in _LATIN.findall(match[0])}

    def without_original(match: re.Match[str]) -> str:
        return match[0] if in_brackets.intersection(_LATIN.findall(match[0])) else " "

    prose = _NAMES.sub(" ", _BRACKETS.sub(without_original, output))
    found = [word for word in _LATIN.findall(prose) if word in words]
    first = {match[1] for match in _FIRST.finditer(source)}
    found += [
        word
        for word in _CAPITAL.findall(prose)
        if word in first and word.lower() not in usual and word not in _ALSO_NAMES and is_ordinary(word.lower())
    ]
    return found + made_up(source, output)


def made_up(source: str, output: str) -> list[str]:
    """The Latin letters of a Chinese output that do not begin a word of its source, whole but for an ending of it: what a
    model spells instead of translating. Abbreviations and what Chinese texts write in Latin letters are none."""
    folded = _folded(source)
    return [
        run
        for run in _RUN.findall(output)
        if not (run.isascii() and run.isupper() and len(run) <= LONGEST_ABBREVIATION)
        and run.lower() not in _AS_IN_ENGLISH
        and not re.search(rf"(?<![a-z]){re.escape(_folded(run))}(?:e?[sd]|ing)?(?![a-z])", folded)
    ]


def _folded(text: str) -> str:
    """In small letters without accents."""
    if text.isascii():
        return text.lower()
    parts = unicodedata.normalize("NFKD", text)
    return "".join(char for char in parts if not unicodedata.combining(char)).casefold()


def _usual(text: str) -> str:
    """With digits of the usual kind: those of full width, in circles, raised, fractions (2½ is 2 1/2)."""
    parted = (f" {char} " if unicodedata.category(char) == "No" else char for char in text)
    return unicodedata.normalize("NFKC", "".join(parted)) if not text.isascii() else text


def _is_known(match: re.Match[str], known: frozenset[float], source: str) -> bool:
    if len(match[0]) > LONGEST:
        return match[0] in source
    values = set(_values(match))
    if values & known:
        return True
    parts = re.split("[.,]", match[0])
    return all(part.strip("0") == "" or float(part) in known for part in parts)


def _values(match: re.Match[str]) -> Iterator[float]:
    """What a number in digits may be: a comma parts thousands or decimals, and a word for thousands may follow."""
    factor = _factor(_SCALE.match(match.string, match.end()))
    number = match[0].replace(" ", "")
    for text in (number.replace(",", ""), number.replace(",", ".")):
        whole, *rest = text.split(".")
        value = float(f"{whole}.{rest[0]}") if len(rest) == 1 else float(whole + "".join(rest))
        yield from (value, _rounded(value * factor))


def _factor(scale: re.Match[str] | None) -> int:
    if scale is None:
        return 1
    if scale[1]:
        factor = 1
        for char in scale[1]:
            factor *= _SCALES[char]
        return factor
    return _BIG[scale[2].lower()] if scale[2] else _SHORT[scale[3].lower()]


def _rounded(value: float) -> float:
    """1.35 × 10⁹ and 13.5 × 10⁸ as the same number."""
    return float(f"{value:.12g}")


@functools.lru_cache(maxsize=1)
def _numbers(text: str) -> frozenset[float]:
    """All numbers that a text may be said to have, generously."""
    found = {*_in_words(text.lower()), *_in_chinese(text)}
    for match in [*_DIGITS.finditer(text), *_GROUPED.finditer(text)]:
        found |= {*_values(match), *map(float, re.split("[., ]", match[0]))}
    found |= {_of_roman(match[0]) for match in _ROMAN.finditer(text)}
    more: set[float] = set()
    for value in found:
        if not value.is_integer():
            continue
        if 0 <= value <= 24:
            more |= {value + 12, value - 12}  # hours of the afternoon
        if 0 < value < 100:
            more |= {1900 + value, 2000 + value, 100 * (value - 1)}  # '84, the 19th century
        if 1000 <= value <= 2100:
            more |= {value % 100, value // 100, value // 100 + 1, value % 100 // 10 * 10}
    return frozenset(found | more)


def _in_words(text: str) -> Iterator[float]:
    """Number words of English, alone and put together: "three hundred and fifty", "nineteen eighty-four"."""
    whole = total = 0  # the number so far, and what of it comes before its last "thousand"
    spoken = ""  # as digits in a row
    for word in _WORD.findall(text):
        yield from map(float, _SAYING.get(word, ()))
        singular = re.sub("s$", "", re.sub("ies$", "y", word))  # the nineties
        value = _CARDINALS.get(singular, _ORDINALS.get(word))
        if value is not None:
            joins = whole % 100 >= 20 and whole % 10 == 0 and 0 < value < 10  # eighty-four
            spoken = (spoken[:-1] if joins else spoken[-9:]) + str(value)
            if not joins and whole % 100:
                whole = total = 0
            whole += value
            yield from map(float, (value, whole, total + whole, int(spoken)))
        elif singular in _BIG:
            whole = max(whole, 1) * _BIG[singular]
            yield from map(float, (_BIG[singular], whole, total + whole))
            if _BIG[singular] > 100:
                total, whole = total + whole, 0
        elif word in ("half", "point"):
            yield total + whole + 0.5
        elif word not in ("and", "a"):
            whole = total = 0
            spoken = ""


def _in_chinese(text: str) -> Iterator[float]:
    """Chinese numerals: 三百五十, 二〇一三, 七八 (seven or eight), 一万二."""
    for match in _NUMERAL.finditer(text):
        digits = [_NUMERALS[char] for char in match[0] if char in _NUMERALS]
        yield from map(float, [*digits, *(_SAYING["half"] if "半" in match[0] else ())])
        if len(digits) == len(match[0]):
            yield float("".join(map(str, digits)))
        yield from map(float, _of_numeral(match[0]))


def _of_numeral(numeral: str) -> Iterator[int]:
    """The values of a numeral and of its beginnings, and those of its parts."""
    whole = section = digit = 0
    for char in numeral:
        if char in _NUMERALS:
            digit = _NUMERALS[char]
            yield whole + section + digit
            continue
        if _SCALES[char] < 10**4:
            section += (digit or 1) * _SCALES[char]
        else:
            whole, section = (whole + section + digit or 1) * _SCALES[char], 0
        digit = 0
        yield from (whole + section, section, _SCALES[char])
    if digit:  # 一万二 is 12,000
        yield whole + section + digit * _SCALES.get(numeral[-2:-1], 10) // 10


def _of_roman(numeral: str) -> float:
    values = [{"I": 1, "V": 5, "X": 10}[char] for char in numeral]
    return float(sum(-a if a < b else a for a, b in zip(values, [*values[1:], 0], strict=True)))
