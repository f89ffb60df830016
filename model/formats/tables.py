"""CSV and TSV: the cells in the columns that are named. The csv module of the standard library gives no places."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..errors import InputError
from .document import Document, Edit, Unit
from .values import check_fields

_LINE_END = re.compile(r"\r\n|\n|\r")


@dataclass(frozen=True)
class Cell:
    """value: without quotes; start, end: its place, quotes included; row from 0."""

    value: str
    start: int
    end: int
    row: int
    column: int
    quoted: bool


def parse(text: str, fields: Sequence[str], delimiter: str | None) -> Document:
    """The document of a table. Without a `delimiter` it is the comma, or the semicolon where the first line has no comma.

    A field is a column's name in the first row, or its number from 1 where no column has that name; the first row is
    translated too where all columns are given by number. Raises UsageError where no field is named or one is not there,
    InputError where a quoted cell does not end.
    """
    if not text.strip():
        return Document(text, [])
    if delimiter is None:
        first = text[: text.find("\n") + 1] or text
        delimiter = ";" if "," not in first and ";" in first else ","
    cells = list(_cells(text, delimiter))
    names = {cell.value.strip(): cell.column for cell in cells if cell.row == 0}
    columns = max(cell.column for cell in cells) + 1
    numbers = {str(i + 1): i for i in range(columns)}
    check_fields(fields, {**names, **numbers}, names)
    wanted = {names.get(field, numbers.get(field)) for field in fields}
    first_row = 0 if all(field not in names for field in fields) else 1
    return Document(
        text,
        [
            _CellUnit(cell, delimiter)
            for cell in cells
            if cell.column in wanted and cell.row >= first_row and any(map(str.isalpha, cell.value))
        ],
    )


class _CellUnit(Unit):
    def __init__(self, cell: Cell, delimiter: str) -> None:
        core = cell.value.strip()
        first = cell.value.index(core)
        self.around = cell.value[:first], cell.value[first + len(core) :]
        self.quoted, self.delimiter = cell.quoted, delimiter
        super().__init__(core, cell.start, cell.end)

    def render(self, output: str, source: str, edits: Mapping[int, Edit]) -> tuple[str | None, str | None]:
        text = self.around[0] + output.strip() + self.around[1]
        if not self.quoted and self.delimiter == "\t":  # readers of TSV often know no quotes
            return re.sub(r"[\t\r\n]+", " ", text), None
        if self.quoted or any(char in text for char in f'{self.delimiter}"\r\n'):
            text = '"' + text.replace('"', '""') + '"'
        return text, None


def _cells(text: str, delimiter: str) -> Iterator[Cell]:
    """The cells of a table, row by row (RFC 4180). Quotes that are not around a whole cell are text; so are, between tabs,
    those that do not end on the line."""
    stop = re.compile(rf"{re.escape(delimiter)}|\r\n|\n|\r|\Z")
    inside = r'[^"\r\n]' if delimiter == "\t" else '[^"]'
    quoted = re.compile(rf'"({inside}*(?:""{inside}*)*)"(?={re.escape(delimiter)}|\r\n|\n|\r|\Z)')
    row = column = place = 0
    while True:
        match = quoted.match(text, place) if text.startswith('"', place) else None
        if match:
            yield Cell(match[1].replace('""', '"'), place, match.end(), row, column, True)
            place = match.end()
        else:
            if text.startswith('"', place) and delimiter != "\t" and text.count('"', place) % 2:
                line = len(_LINE_END.findall(text[:place])) + 1
                raise InputError(f"line {line}: a cell in quotes does not end")
            end = stop.search(text, place)
            assert end  # the text ends
            yield Cell(text[place : end.start()], place, end.start(), row, column, False)
            place = end.start()
        if place >= len(text):
            return
        if text.startswith(delimiter, place):
            place, column = place + len(delimiter), column + 1
            continue
        ending = _LINE_END.match(text, place)
        assert ending  # a cell ends where one of the two is
        place, row, column = ending.end(), row + 1, 0
        if place >= len(text):
            return
