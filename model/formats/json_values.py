"""JSON and JSON Lines: the strings in the fields that are named.

The parser of the standard library gives values without their places; here the places of strings are found, which it decodes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence

from ..errors import InputError
from .document import Document, Edit, Unit, line_starts
from .values import check_fields

_SPACE = re.compile(r"[ \t\n\r]*")
_SCALAR = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?|true|false|null|NaN|-?Infinity")
_HIGH_ESCAPE = re.compile(r"(?<!\\)(?:\\\\)*\\u(?!00[0-7])")
_CLOSING = {"{": "}", "[": "]"}
MOST_NESTED = 500
_DECODER = json.JSONDecoder()


def parse(text: str, fields: Sequence[str], *, lines: bool) -> Document:
    """The document of a JSON text, or of one with a JSON text on each line.

    A field is the keys to it with dots between them ("meta.title"), from the outermost; the items of a list have the name
    of the list. Raises UsageError where no field is named or one is not there, InputError where it is not JSON.
    """
    escaped = text.isascii() and _HIGH_ESCAPE.search(text) is not None
    units: list[Unit] = []
    problems = []
    known: dict[str, None] = {}
    for name, value, start, end in _strings(text, lines):
        known[name] = None
        if name not in fields or not any(map(str.isalpha, value)):
            continue
        if any("\ud800" <= char <= "\udfff" for char in value):
            line = text.count("\n", 0, start) + 1
            problems.append(f"line {line}: half a surrogate pair in {name}; left as it is")
            continue
        units.append(_Value(value, start, end, escaped))
    if text.strip():
        check_fields(fields, known, known)
    return Document(text, units, problems)


def field_names(text: str, *, lines: bool) -> list[str]:
    """The names of all fields that have strings."""
    return list(dict.fromkeys(name for name, *_ in _strings(text, lines)))


class _Value(Unit):
    def __init__(self, value: str, start: int, end: int, escaped: bool) -> None:
        core = value.strip()
        first = value.index(core)
        self.around = value[:first], value[first + len(core) :]
        self.escaped = escaped
        super().__init__(core, start, end)

    def render(self, output: str, source: str, edits: Mapping[int, Edit]) -> tuple[str | None, str | None]:
        before, after = self.around
        return json.dumps(before + output.strip() + after, ensure_ascii=self.escaped), None


def _strings(text: str, lines: bool) -> Iterator[tuple[str, str, int, int]]:
    """The strings that are values: name of the field, value, and place of the string with its quotes."""
    if not lines:
        if text.strip():
            yield from _document(text, 0, len(text))
        return
    starts = [*line_starts(text), len(text)]
    for start, end in zip(starts, starts[1:], strict=False):
        line = text[start:end].rstrip("\r\n")
        if line.strip():
            yield from _document(text, start, start + len(line))


def _document(text: str, place: int, end: int) -> Iterator[tuple[str, str, int, int]]:
    """One JSON text. The stack has for each container around a place its kind and its name."""
    stack: list[tuple[str, str]] = []
    name = ""
    place = _skip(text, place, end)
    while True:
        # a value
        char = text[place : place + 1] if place < end else ""
        if char == '"':
            value, stop = _string(text, place, end)
            yield name, value, place, stop
            place = stop
        elif char and char in "{[":
            if len(stack) == MOST_NESTED:
                raise _error(text, place, f"nested more than {MOST_NESTED} deep")
            stack.append((char, name))
            place = _skip(text, place + 1, end)
            if place < end and text[place] == _CLOSING[char]:
                stack.pop()
                place += 1
            elif char == "{":
                name, place = _key(text, place, end, name)
                continue
            else:
                continue
        else:
            scalar = _SCALAR.match(text, place, end)
            if scalar is None:
                raise _error(text, place, "a value is missing")
            place = scalar.end()
        # what comes after it
        place = _skip(text, place, end)
        while stack and place < end and text[place] == _CLOSING[stack[-1][0]]:
            stack.pop()
            place = _skip(text, place + 1, end)
        if not stack:
            if place < end:
                raise _error(text, place, "something comes after the end of the value")
            return
        if place >= end or text[place] != ",":
            raise _error(text, place, "a comma or the closing bracket is missing")
        place = _skip(text, place + 1, end)
        name = stack[-1][1]
        if stack[-1][0] == "{":
            name, place = _key(text, place, end, name)


def _key(text: str, place: int, end: int, name: str) -> tuple[str, int]:
    """The name of the field that a key in the container `name` makes, and where its value starts."""
    if place >= end or text[place] != '"':
        raise _error(text, place, "a key in quotes is missing")
    key, place = _string(text, place, end)
    place = _skip(text, place, end)
    if place >= end or text[place] != ":":
        raise _error(text, place, "a colon is missing")
    return f"{name}.{key}" if name else key, _skip(text, place + 1, end)


def _string(text: str, place: int, end: int) -> tuple[str, int]:
    try:
        value, stop = _DECODER.raw_decode(text, place)
    except json.JSONDecodeError as error:
        raise _error(text, error.pos, error.msg.lower()) from None
    if stop > end:
        raise _error(text, place, "unterminated string")
    return str(value), stop


def _skip(text: str, place: int, end: int) -> int:
    match = _SPACE.match(text, place, end)
    assert match  # it matches nothing, too
    return match.end()


def _error(text: str, place: int, what: str) -> InputError:
    start = text.rfind("\n", 0, place) + 1
    return InputError(f"line {text.count(chr(10), 0, place) + 1}, column {place - start + 1}: not JSON: {what}")
