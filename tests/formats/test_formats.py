"""The way in: names, endings, what is imported when, and what is said where a library is missing."""

from __future__ import annotations

import ast
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tx.model import formats
from tx.model.errors import TxError, UsageError
from tx.model.formats import FORMATS, by_ending, parse

FOLDER = Path(formats.__file__).parent


@pytest.mark.parametrize(
    ("path", "name"),
    [("a.md", "markdown"), ("A.HTM", "html"), ("b/c.srt", "srt"), ("x.vtt", "vtt"), ("x.pot", "po"), ("x.ndjson", "jsonl"),
     ("x.json", "json"), ("x.csv", "csv"), ("x.tsv", "tsv"), ("README", "text"), ("x.txt", "text"), ("stdin", "text")],
)  # fmt: skip
def test_by_ending(path: str, name: str) -> None:
    assert by_ending(path) == name
    assert name in FORMATS


def test_what_does_not_fit() -> None:
    with pytest.raises(UsageError, match="unknown format 'docx': choose from text, markdown"):
        parse("docx", "")
    with pytest.raises(UsageError, match="srt has no fields: --field is for json, jsonl, csv, tsv"):
        parse("srt", "", fields=["a"])


@pytest.mark.parametrize("name", FORMATS)
def test_an_empty_document(name: str) -> None:
    document = parse(name, "", fields=["a"] if name in formats.BY_FIELD else ())
    assert (document.texts, document.fill([]), document.problems) == ([], "", [])


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("text", ["\n", "\r\n", "\n \n\n", "\t"])
def test_a_document_of_nothing_but_white_space(name: str, text: str) -> None:
    document = parse(name, text, fields=["a"] if name in formats.BY_FIELD else ())
    assert (document.texts, document.fill([]), document.problems) == ([], text, [])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("markdown", "---\r\ntitle: The house\r\n---\r\n"),
        ("markdown", "+++\ntitle = 'The house'\n+++\n"),
        ("markdown", "```\nsome code\n```\n\n    more code\n"),
        ("markdown", "<!-- a note -->\n\n[a]: http://a.example\n\n---\n"),
        ("html", "<!-- a note --><script>some code</script>\n"),
        ("vtt", "WEBVTT\n\nNOTE nothing is said\n"),
        ("po", '# a note\nmsgid ""\nmsgstr "Language: \\n"\n'),
        ("csv", "a,b\r\n1,2\r\n"),
    ],
)
def test_a_document_without_a_text(name: str, text: str) -> None:
    document = parse(name, text, fields=["a"] if name == "csv" else ())
    assert (document.texts, document.fill([]), document.problems) == ([], text, [])


SECTIONS = {
    "markdown": "# The house\n\nIt is *old* and [far](u) away,\nbut `good`.\n\n- one\n- ~~two~~\n\n| a | b |\n|---|---|\n| c | d |\n\n",
    "html": "<h1>The house</h1>\n<p>It is <b>old</b> and <a href='u' title='A way'>far</a> &amp; good.</p>\n",
    "srt": "1\n00:00:01,000 --> 00:00:02,000\nIt is <i>old</i> and\n\n",
    "po": 'msgid "The \\"house\\" is old"\nmsgstr ""\n\n',
    "csv": 'text\n"The house, again"\n',
    "text": "The house is old.\n",
}


def seconds(name: str, size: int) -> float:
    """Processor time of a document of so many characters, there with other texts and back with its own."""
    text = SECTIONS[name] * (size // len(SECTIONS[name]))
    start = time.process_time()
    document = parse(name, text, fields=["text"] if name == "csv" else ())
    assert document.fill(document.texts) == text
    assert document.fill([unit.replace("old", "new").replace("again", "no") for unit in document.texts]) != text
    return time.process_time() - start


@pytest.mark.parametrize("name", SECTIONS)
def test_time_grows_with_the_size(name: str) -> None:
    seconds(name, 1000)  # patterns are compiled
    assert seconds(name, 60_000) < 20 * seconds(name, 10_000) + 0.2


@pytest.mark.slow
@pytest.mark.parametrize("name", SECTIONS)
def test_time_grows_with_the_size_of_large_documents(name: str) -> None:
    assert seconds(name, 5_000_000) < 20 * seconds(name, 500_000)


def test_without_the_library_markdown_says_what_to_do_and_the_rest_works(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("markdown_it", "tx.model.formats.markdown", "tx.model.formats.markdown_inline"):
        monkeypatch.setitem(sys.modules, name, None) if name == "markdown_it" else monkeypatch.delitem(
            sys.modules, name, raising=False
        )
    monkeypatch.delattr(formats, "markdown", raising=False)
    with pytest.raises(TxError, match=r"markdown needs pip install 'tx-transformer\[formats\]'"):
        parse("markdown", "# a")
    assert parse("text", "# a").texts == ["# a"]
    assert parse("html", "<p>a").texts == ["a"]


def test_plain_text() -> None:
    document = parse("text", "  a b \r\n\n\tc")
    assert (document.texts, document.lines) == (["a b", "c"], [1, 3])
    assert document.fill(["x\ny", "z"]) == "  x y \r\n\n\tz"


def test_only_markdown_imports_more_than_the_standard_library() -> None:
    for path in FOLDER.glob("*.py"):
        names = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                names.add(str(node.module).split(".")[0])
            elif isinstance(node, ast.ImportFrom) and node.level == 2:  # of the model: what is light
                assert node.module in ("errors", "segment", "protect"), path
        outside = {"markdown_it"} if path.stem.startswith("markdown") else set()
        assert names - set(sys.stdlib_module_names) <= outside, path


def test_the_package_loads_nothing_before_it_is_used() -> None:
    code = (
        "import sys, tx.model.formats as f; f.by_ending('a.md'); "
        "print([m for m in sys.modules if m.startswith('tx.model.formats.') or m in ('markdown_it', 'html', 'json')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
