"""gettext .po: fills the empty msgstr of an entry, marks it fuzzy, and leaves all else alone.

polib reads such files but does not say where in them a string stands, and writes them wrapped in its own way; so the places
are found here, line by line. The rules are those of the GNU gettext manual, "The Format of PO Files".
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from ..errors import InputError
from ..protect import spans
from .document import Document, Edit, Unit, apply, check_count, line_starts, words

# Plural-Forms of the gettext manual and of the Unicode CLDR, for languages that models here write
_ONE = "nplurals=1; plural=0;"
_NOT_ONE = "nplurals=2; plural=(n != 1);"
_OVER_ONE = "nplurals=2; plural=(n > 1);"
_SLAVIC = (
    "nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : n%10>=2 && n%10<=4 && (n%100<12 || n%100>14) ? 1 : 2);"  # ru, uk, …
)
_WEST_SLAVIC = "nplurals=3; plural=(n==1 ? 0 : n>=2 && n<=4 ? 1 : 2);"
PLURAL_FORMS = {
    **dict.fromkeys(words("zh ja ko vi th id ms lo my km yue"), _ONE),
    **dict.fromkeys(words("fr pt_BR tr oc"), _OVER_ONE),
    **dict.fromkeys(words("ru uk be sr hr bs"), _SLAVIC),
    **dict.fromkeys(words("cs sk"), _WEST_SLAVIC),
    "pl": "nplurals=3; plural=(n==1 ? 0 : n%10>=2 && n%10<=4 && (n%100<12 || n%100>14) ? 1 : 2);",
    "lt": "nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : n%10>=2 && (n%100<10 || n%100>=20) ? 1 : 2);",
    "lv": "nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : n != 0 ? 1 : 2);",
    "ro": "nplurals=3; plural=(n==1 ? 0 : (n==0 || (n%100 > 0 && n%100 < 20)) ? 1 : 2);",
    "sl": "nplurals=4; plural=(n%100==1 ? 0 : n%100==2 ? 1 : n%100==3 || n%100==4 ? 2 : 3);",
    "ar": "nplurals=6; plural=(n==0 ? 0 : n==1 ? 1 : n==2 ? 2 : n%100>=3 && n%100<=10 ? 3 : n%100>=11 ? 4 : 5);",
}
_KEYWORD = re.compile(r'[ \t]*(msgctxt|msgid|msgid_plural|msgstr(?:\[(\d+)\])?)[ \t]*(?=")')
_STRING = re.compile(r'[ \t]*"((?:[^"\\]|\\.)*)"[ \t]*')
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v", "a": "\a", '"': '"', "\\": "\\"}
_UNESCAPE = re.compile(r"\\(?:([0-7]{1,3})|x([0-9a-fA-F]{1,2})|(.))", re.DOTALL)
_WRITTEN = {char: f"\\{letter}" for letter, char in _ESCAPES.items()}
_NPLURALS = re.compile(r"nplurals\s*=\s*(\d+)")
# The mark of a key that a menu's entry is chosen by: "&Open", "E&xit" of Qt, "_Open", "E_xit" of GTK, "打开(&O)" in Chinese
_ACCELERATOR = re.compile(
    r"\(([&_])([A-Za-z0-9])\)|(?<!\S)([&_])([A-Za-z])(?!\w{0,11};)"
    r"|(?<=[A-Za-z])(&)([a-z])(?!\w{0,11};)|(?<=\b[A-Z])(_)([a-z])|(?<=\b[A-Z][a-z])(_)([a-z])|(?<=\b[A-Z][a-z]{2})(_)([a-z])"
)
_MENU_WORDS, _MENU_CHARACTERS = 6, 50  # no entry of a menu has more
_IN_BRACKETS = words("zh ja ko yue")  # where the key stands after the text, for no letter of that is on a keyboard
_ENDING = re.compile(r"(?:\s*(?:\.{3}|…+|[:：]))*\s*$")
_FIELD = re.compile(r"^(Language|Plural-Forms):[ \t]*(.*)$", re.MULTILINE)


@dataclass
class String:
    """A string of an entry: what it says, and the place of its quoted lines."""

    value: str
    start: int
    end: int
    line: int


@dataclass
class Entry:
    """start: the place of its first comment or keyword; keyword: that of its first keyword."""

    start: int
    keyword: int = -1
    flags: tuple[int, int] | None = None  # the place of the list after "#,"
    fuzzy: bool = False
    strings: dict[str, String] = field(default_factory=dict)

    @property
    def forms(self) -> list[String]:
        """msgstr, or msgstr[0], msgstr[1], …"""
        return [string for name, string in self.strings.items() if name.startswith("msgstr")]


def parse(text: str, target: str | None) -> Document:
    """The document of a .po file; `target` is the language it is translated into. Raises InputError where it is none."""
    return _PoDocument(text, _entries(text), target)


class _Message(Unit):
    """A form of an entry that is still empty: `name` is "msgid" or "msgid_plural", what is translated for it."""

    def __init__(self, entry: Entry, name: str, forms: Sequence[String], missing: Sequence[int]) -> None:
        self.entry, self.forms, self.missing = entry, forms, missing
        self.value = entry.strings[name].value
        stripped, self.mark = _without_accelerator(self.value.strip())
        start = entry.strings[name].start
        super().__init__(stripped, start, start)


class _PoDocument(Document):
    def __init__(self, source: str, entries: Sequence[Entry], target: str | None) -> None:
        self.entries, self.target = entries, target
        self.header = next((e for e in entries if "msgid" in e.strings and not e.strings["msgid"].value), None)
        said = self.header.strings.get("msgstr") if self.header and "msgctxt" not in self.header.strings else None
        self.said = said
        found = _NPLURALS.search(said.value) if said else None
        plural = _plural_forms(target)
        self.n_plurals = int(found[1]) if found else int(_NPLURALS.search(plural)[1])  # type: ignore[index]
        super().__init__(source, [unit for entry in entries for unit in self._units(entry)])

    def _units(self, entry: Entry) -> list[Unit]:
        """The singular stands for form 0 where there are more than one, the plural for all others."""
        if "msgid" not in entry.strings or not entry.strings["msgid"].value or not entry.forms:
            return []
        if any(form.value for form in entry.forms):
            return []
        if "msgid_plural" not in entry.strings:
            return [_Message(entry, "msgid", entry.forms[:1], ())] if entry.strings["msgid"].value.strip() else []
        first = [] if self.n_plurals == 1 else [_Message(entry, "msgid", entry.forms[:1], ())]
        start = len(first)
        missing = range(max(start, len(entry.forms)), self.n_plurals)
        units: list[Unit] = [*first, _Message(entry, "msgid_plural", entry.forms[start : self.n_plurals], missing)]
        return [unit for unit in units if unit.text]

    def fill(self, outputs: Sequence[str]) -> str:
        check_count(outputs, self.texts)
        self.problems = list(self.found)
        self.newline = next(iter(re.findall(r"\r\n|\n|\r", self.source)), "\n")
        edits: dict[int, Edit] = {}
        filled: dict[int, Entry] = {}
        for unit, output, line in zip(self.units, outputs, self.lines, strict=True):
            assert isinstance(unit, _Message)
            if output == unit.text:
                if _has_words(output):  # gettext shows the msgid where there is no msgstr
                    self.problems.append(f"line {line}: no translation; its msgstr stays empty")
                continue
            if not output.strip():
                self.problems.append(f"line {line}: the translation is empty; left as it is")
                continue
            written = self._quoted(_like(unit.value, _with_accelerator(output.strip(), unit.mark, self.target)))
            for form in unit.forms:
                edits[form.start] = (form.end, written)
            if unit.missing:
                more = "".join(f"{self.newline}msgstr[{n}] {written}" for n in unit.missing)
                last = unit.entry.forms[-1]
                edits[last.end] = (last.end, edits.pop(last.end, (0, ""))[1] + more)
            filled[unit.entry.start] = unit.entry
        for entry in filled.values():
            place, text = self._mark_fuzzy(entry)
            edits[place] = (place, text)
        if filled:
            self._complete_header(edits)
        return apply(self.source, 0, len(self.source), edits)

    def _quoted(self, value: str) -> str:
        """A string as a file has it: on one line, or with an empty first one and a line for each line."""
        escaped = ["".join(_WRITTEN.get(char, char) for char in line) for line in re.findall(r"[^\n]*\n|[^\n]+", value)]
        if len(escaped) == 1:
            return f'"{escaped[0]}"'
        return self.newline.join(['""', *(f'"{line}"' for line in escaped)])

    def _mark_fuzzy(self, entry: Entry) -> Edit:
        if entry.fuzzy:
            return entry.start, ""
        if entry.flags:
            return entry.flags[0], " fuzzy,"
        return entry.keyword, f"#, fuzzy{self.newline}"

    def _complete_header(self, edits: dict[int, Edit]) -> None:
        """The header's Language and Plural-Forms, where they are empty."""
        if not self.said or not self.target:
            return
        value = self.said.value
        fields = dict(_FIELD.findall(value))
        wanted = {"Language": self.target, "Plural-Forms": _plural_forms(self.target)}
        for name, text in wanted.items():
            now = fields.get(name)
            if name in fields and (not now or "INTEGER" in str(now)):
                value = re.sub(rf"^{name}:.*$", f"{name}: {text}", value, flags=re.MULTILINE)
        if value != self.said.value:
            edits[self.said.start] = (self.said.end, self._quoted(value))


def _plural_forms(target: str | None) -> str:
    code = (target or "").replace("-", "_")
    return PLURAL_FORMS.get(code) or PLURAL_FORMS.get(code.split("_")[0]) or _NOT_ONE


def _without_accelerator(text: str) -> tuple[str, str]:
    """The text of an entry of a menu without the mark of its key, and the mark with the key, "&O"; a text that has not
    just one such mark, or is too long for a menu, as it is, and nothing."""
    found = _ACCELERATOR.search(text)
    if not found or len(text) > _MENU_CHARACTERS or len(text.split()) > _MENU_WORDS or "\n" in text:
        return text, ""
    mark, key = filter(None, found.groups())
    if text.count("&") + text.count("_") != 1:
        return text, ""
    kept = "" if found[1] else key
    plain = (text[: found.start()].rstrip() if found[1] else text[: found.start()]) + kept + text[found.end() :]
    return (plain, mark + key) if plain.strip() else (text, "")


def _with_accelerator(output: str, mark: str, target: str | None) -> str:
    """The output with the mark of a key ("&O"): in brackets in Chinese and the like, else before the letter, or before the
    first one if it has none such."""
    if not mark:
        return output
    if re.split("[-_]", target or "")[0] in _IN_BRACKETS:
        ending = _ENDING.search(output)
        at = ending.start() if ending else len(output)
        return f"{output[:at]}({mark[0]}{mark[1].upper()}){output[at:]}"
    at = output.lower().find(mark[1].lower())
    if at < 0:
        at = next((i for i, char in enumerate(output) if char.isalnum()), 0)
    return output[:at] + mark[0] + output[at:]


def _has_words(text: str) -> bool:
    """Whether a text has letters besides what is no language: placeholders, addresses."""
    for start, end, _ in reversed(spans(text)):
        text = text[:start] + text[end:]
    return any(map(str.isalpha, text))


def _like(value: str, output: str) -> str:
    """The output with the white space around it that the source has: msgfmt wants a line end on both or on neither."""
    core = value.strip()
    start = value.index(core)
    return value[:start] + output + value[start + len(core) :]


def _entries(text: str) -> list[Entry]:
    """The entries of a file, obsolete ones ("#~") left out. Raises InputError at a line that is none of a .po file."""
    entries: list[Entry] = []
    entry: Entry | None = None
    string: String | None = None
    starts = [*line_starts(text), len(text)]
    for number, (start, following) in enumerate(zip(starts, starts[1:], strict=False), start=1):
        line = text[start:following].rstrip("\r\n")
        end = start + len(line)
        keyword = _KEYWORD.match(text, start, end)
        if not line.strip():
            string = None
            continue
        if line.lstrip().startswith("#"):
            string = None
            if entry is None or entry.strings:
                entry = Entry(start)
                entries.append(entry)
            if line.startswith("#,"):
                names = [name.strip() for name in line[2:].split(",")]
                entry.flags, entry.fuzzy = entry.flags or (start + 2, end), entry.fuzzy or "fuzzy" in names
            continue
        if keyword:
            name = keyword[1]
            new = name == "msgctxt" or (name == "msgid" and list(entry.strings if entry else ()) != ["msgctxt"])
            if entry is None or (new and entry.strings):
                entry = Entry(start)
                entries.append(entry)
            if entry.keyword < 0:
                entry.keyword = start
            if name in entry.strings:
                raise InputError(f"line {number}: a second {name} in one entry")
            place = keyword.end()
        else:
            place, name = start, ""
        quoted = _STRING.fullmatch(text, place, end)
        if quoted is None or (not keyword and string is None):
            raise InputError(f"line {number}: not a line of a .po file: {line.strip()[:40]!r}")
        if keyword and entry:
            string = entry.strings[name] = String("", quoted.start(1) - 1, quoted.end(1) + 1, number)
        assert string
        string.value += _unescape(quoted[1])
        string.end = quoted.end(1) + 1
    return [entry for entry in entries if entry.strings]


def _unescape(text: str) -> str:
    def char(match: re.Match[str]) -> str:
        if match[3]:
            return _ESCAPES.get(match[3], match[0])
        return chr(int(match[1], 8) if match[1] else int(match[2], 16))

    return _UNESCAPE.sub(char, text)
