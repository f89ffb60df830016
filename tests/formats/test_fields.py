"""JSON, JSON Lines, CSV and TSV: only the values of the named fields change."""

from __future__ import annotations

import csv
import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tx.model.errors import InputError, UsageError
from tx.model.formats import parse
from tx.model.formats.json_values import _document, field_names

BOOK = '{ "title": "The river",\n\t"meta": {"title": "Old", "tags": ["one", "two", 3]},\r\n "pages": [ {"text": "A"}, {"text": "B", "id": 1e5} ] }\n'


@pytest.mark.parametrize(
    ("fields", "texts"),
    [
        (["title"], ["The river"]),
        (["meta.title", "meta.tags"], ["Old", "one", "two"]),
        (["pages.text", "title"], ["The river", "A", "B"]),
    ],
)
def test_json_fields(fields: list[str], texts: list[str]) -> None:
    document = parse("json", BOOK, fields=fields)
    assert document.texts == texts
    filled = document.fill([f"<{text}>" for text in texts])
    expected = BOOK
    for text in texts:
        expected = expected.replace(f'"{text}"', f'"<{text}>"')
    assert filled == expected


def test_json_is_written_as_its_file_writes_it() -> None:
    assert (
        parse("json", '{"a": " x\\n", "b": "\\u00e9"}', fields=["a"]).fill(['é"'])
        == '{"a": " \\u00e9\\"\\n", "b": "\\u00e9"}'
    )
    assert parse("json", '{"a": "x", "b": "é"}', fields=["a"]).fill(["中"]) == '{"a": "中", "b": "é"}'
    assert parse("json", '{"a": "x"}', fields=["a"]).fill(["中"]) == '{"a": "中"}'


def test_json_lines() -> None:
    text = '{"t": "a"}\r\n\r\n{"t": "b", "u": []}\n{}\n{"t": "c"}'
    document = parse("jsonl", text, fields=["t"])
    assert (document.texts, document.lines) == (["a", "b", "c"], [1, 3, 5])
    assert document.fill(["x", "y", "z"]) == '{"t": "x"}\r\n\r\n{"t": "y", "u": []}\n{}\n{"t": "z"}'


def test_half_a_surrogate_pair_stays_and_is_said() -> None:
    document = parse("json", '["a",\n"b \\ud83d"]', fields=[""])
    assert (document.texts, document.problems) == (["a"], ["line 2: half a surrogate pair in ; left as it is"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": }', "line 1, column 7: not JSON: a value is missing"),
        ('{"a": "x"', "line 1, column 10: not JSON: a comma or the closing bracket is missing"),
        ('{"a": "x"\n,}', "line 2, column 2: not JSON: a key in quotes is missing"),
        ('{"a" "x"}', "a colon is missing"),
        ('{"a": "x"} 1', "something comes after"),
        ('{"a": "x', "unterminated string"),
        ('{"a": "x\n"}', "invalid control character"),
        ('{"a": nul}', "a value is missing"),
        ("[" * 501, "nested more than 500 deep"),
        ('["a"}', "a comma or the closing bracket"),
    ],
)
def test_what_is_no_json(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse("json", text, fields=["a"])


def test_a_line_of_json_lines_is_whole() -> None:
    with pytest.raises(InputError, match="line 1, column 2"):
        parse("jsonl", "{\n}\n", fields=["a"])


VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=6)),
    lambda inside: st.one_of(st.lists(inside, max_size=3), st.dictionaries(st.text(max_size=3), inside, max_size=3)),
)


@given(VALUES, st.sampled_from([None, 1]), st.booleans())
def test_strings_are_those_of_the_standard_library(value: object, indent: int | None, ascii_: bool) -> None:
    def strings(value: object) -> list[str]:
        if isinstance(value, str):
            return [value]
        items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        return [text for item in items for text in strings(item)]

    text = json.dumps(value, indent=indent, ensure_ascii=ascii_)
    found = list(_document(text, 0, len(text)))
    assert [string for _, string, _, _ in found] == strings(value)
    assert all(json.loads(text[start:end]) == string for _, string, start, end in found)


@given(st.text(alphabet='{}[]",:1e-tru \n\\u', max_size=25))
def test_what_the_standard_library_refuses_is_refused(text: str) -> None:
    try:
        json.loads(text)
        good = True
    except json.JSONDecodeError:
        good = not text.strip()
    if good:
        field_names(text, lines=False)
    else:
        with pytest.raises(InputError):
            field_names(text, lines=False)


def test_the_fields_that_there_are_are_named() -> None:
    with pytest.raises(UsageError, match=r"Name them with --field; it has title, meta.title, meta.tags, pages.text"):
        parse("json", BOOK)
    with pytest.raises(UsageError, match="no field 'nope' with text: it has title"):
        parse("json", BOOK, fields=["nope"])
    with pytest.raises(UsageError, match="it has id, text"):
        parse("csv", "id,text\n1,a\n")
    with pytest.raises(UsageError, match="no field '3'"):
        parse("csv", "id,text\n1,a\n", fields=["3"])


@pytest.mark.parametrize(
    ("name", "text", "fields", "texts", "filled"),
    [
        ("csv", 'id,text\n1,a b\n2,"c ""d"""\n', ["text"], ["a b", 'c "d"'], 'id,text\n1,"x, ""y"""\n2,"x, ""y"""\n'),
        ("csv", "id;text\r\n1; a ;\r\n", ["text"], ["a"], 'id;text\r\n1;" x, ""y"" ";\r\n'),
        ("csv", "a,b\nc,d", ["2"], ["b", "d"], 'a,"x, ""y"""\nc,"x, ""y"""'),
        ("csv", 'text\n"a\nb"\nc"d\n', ["text"], ["a\nb", 'c"d'], 'text\n"x, ""y"""\n"x, ""y"""\n'),
        ("tsv", 'id\ttext\n1\t"a" b\n2\t"c"\n', ["text"], ['"a" b', "c"], 'id\ttext\n1\tx, "y"\n2\t"x, ""y"""\n'),
        ("tsv", 't\tu\n"a\tb\nc\td\n', ["t"], ['"a', "c"], 't\tu\nx, "y"\tb\nx, "y"\td\n'),
    ],
)
def test_tables(name: str, text: str, fields: list[str], texts: list[str], filled: str) -> None:
    document = parse(name, text, fields=fields)
    assert document.texts == texts
    assert document.fill(['x, "y"'] * len(texts)) == filled


def test_a_cell_without_quotes_between_tabs_stays_one_cell() -> None:
    assert parse("tsv", "a\tb\n", fields=["1"]).fill(["x\ty\nz"]) == "x y z\tb\n"


def test_a_cell_that_does_not_end() -> None:
    with pytest.raises(InputError, match="line 2: a cell in quotes does not end"):
        parse("csv", 'a,b\n"c,d\ne,f\n', fields=["a"])


@given(st.lists(st.lists(st.text(alphabet='ab,;"\n\r é', max_size=5), min_size=2, max_size=2), min_size=1, max_size=4))
def test_cells_are_those_of_the_standard_library(rows: list[list[str]]) -> None:
    stream = io.StringIO()
    csv.writer(stream).writerows([["x,y", "text"], *rows])
    document = parse("csv", stream.getvalue(), fields=["text"])
    assert document.texts == [row[1].strip() for row in rows if any(map(str.isalpha, row[1]))]
