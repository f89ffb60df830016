"""`tx summarize` in this process, with a small random model."""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tx.cli import summarize
from tx.cli.main import main
from tx.model import segment

TEXT = "Anna met Bob at the bridge. The bridge is old!\n桥在河上。 At last 12 boats came 😀. And then they left."
PAGE = """<!DOCTYPE html>
<html><head><title>x</title><style>p { color: red }</style></head><body>
<nav><a href="/">All the pages of this place.</a></nav>
<article><h1>The bridge that is old</h1>
<p>The <b>bridge</b> is&nbsp;old &amp;
   narrow. Two boats wait under it.</p><ul><li>A lamp hangs on it.</li></ul>
<pre>go over the bridge.</pre><script>if (a < b) { the = "end of it."; }</script>
</article><footer>Nobody reads this line.</footer></body></html>
"""
SENTENCES = [TEXT[a:b] for a, b in segment.sentences(TEXT)]
LONG = " ".join(f"{'ABT'[n % 3]}{'c' * 60} is here." for n in range(9))


class Result(NamedTuple):
    status: int
    out: str
    err: str


Run = Callable[..., Result]


@pytest.fixture
def run(small_model: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]) -> Run:
    monkeypatch.setenv("TX_MODEL", str(small_model))
    monkeypatch.setenv("TX_ENGINE", "numpy")

    def run_tx(*arguments: str, stdin: bytes = b"", terminal: bool = False) -> Result:
        stream = io.TextIOWrapper(io.BytesIO(stdin))
        monkeypatch.setattr(stream, "isatty", lambda: terminal, raising=False)
        monkeypatch.setattr(sys, "stdin", stream)
        capsysbinary.readouterr()
        status = main(["summarize", *arguments])
        out, err = capsysbinary.readouterr()
        return Result(status, out.decode(), err.decode())

    return run_tx


def test_sentences_of_the_text_in_their_order(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "text.txt"
    file.write_text(TEXT, encoding="utf-8")
    result = run("--extract", str(file))
    assert (result.status, result.err) == (0, "")
    kept = [sentence for sentence in SENTENCES if sentence in result.out]
    assert len(kept) == 3 and "".join(result.out.split()) == "".join("".join(kept).split())
    assert run("--extract", stdin=TEXT.encode()) == result
    assert run("--extract", "-", stdin=TEXT.encode()) == result
    assert run("--extract", "-t", TEXT) == result
    assert run("--extract", str(file), "-o", str(tmp_path / "out")) == (0, "", "")
    assert (tmp_path / "out").read_text(encoding="utf-8") == result.out


@settings(deadline=None, max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(st.sampled_from("ab A.?!\n\r\t河上。”“😀👨\u200d👩é1\u3000\u2028"), max_size=40))
@example("“好！”她走了。")
@example(TEXT)
def test_a_summary_is_never_longer_and_its_spans_are_its_text(run: Run, text: str) -> None:
    for way in ("--extract", "--rewrite"):
        result = run(way, "-t", text, "--json")
        assert result.status == 0
        record = json.loads(result.out)
        assert list(record) == ["name", "summary", "spans", "parts", "flags"]
        assert record["name"] == "argument 1" and len(record["summary"]) <= len(text)
        spans = [text[a:b] for a, b in record["spans"]]
        assert spans or way == "--rewrite" or not text.strip()
        if spans:
            assert "".join("".join(spans).split()) == "".join(record["summary"].split())


@pytest.mark.parametrize("text", ["Anna met Bob.", "no mark at its end", "桥在河上。", "12", "😀 …"])
def test_one_sentence_comes_back(run: Run, text: str) -> None:
    for way in ((), ("--extract",), ("--rewrite",), ("--words", "3"), ("--sentences", "1")):
        result = run(*way, "-q", stdin=f"  {text}\n".encode())
        assert result == (0, text + "\n", "")


def test_a_summary_that_is_longer_than_asked_is_said(run: Run) -> None:
    for option in ("--words", "--max-words"):
        result = run(option, "1", stdin=TEXT.encode())
        assert result.status == 0 and result.out.strip() in SENTENCES
        assert result.err == (
            "tx: note: stdin: the summary has more than 1 words: no sentence is cut, and none was shorter\n"
        )
    assert json.loads(run("--words", "1", "--json", "-q", "-t", TEXT).out)["flags"] == ["longer"]
    assert run("--words", "9", stdin=TEXT.encode()).err == ""


@pytest.mark.parametrize("stdin", [b"", b"\n", b" \t\r\n\n"])
def test_no_text_no_summary(run: Run, stdin: bytes) -> None:
    assert run(stdin=stdin) == (0, "", "tx: note: stdin: there is no text to sum up\n")
    assert run("-q", stdin=stdin) == (0, "", "")
    record = json.loads(run("--json", stdin=stdin).out)
    assert (record["summary"], record["spans"], record["name"]) == ("", [], "stdin")
    assert record["flags"] == ["empty"]
    for arguments in (("",), ("-t", "")):  # an empty argument is a text too
        assert run(*arguments) == (0, "", "tx: note: argument 1: there is no text to sum up\n")


@pytest.mark.parametrize("n", [1, 2, 4])
def test_no_more_sentences_than_asked_for(run: Run, n: int) -> None:
    out = run("--extract", "--sentences", str(n), stdin=TEXT.encode()).out.strip()
    assert sum(sentence in out for sentence in SENTENCES) == n
    out = run("--rewrite", "--sentences", str(n), stdin=TEXT.encode()).out.strip()
    assert 1 <= len(segment.sentences(out)) <= n


def test_words_and_sentences_both_limit(run: Run) -> None:
    out = run("--words", "14", "--sentences", "1", stdin=TEXT.encode()).out.strip()
    assert out in SENTENCES
    assert run("--words", "1", "--sentences", "3", stdin=TEXT.encode()).out.strip() in SENTENCES


def test_of_a_very_long_text_some_parts_are_read_which_is_said(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from tx.model import summarizing

    monkeypatch.setattr(summarizing, "MAX_PARTS", 2)
    result = run("--extract", stdin=LONG.encode())
    assert result.status == 0 and result.out and result.err.count("\n") == 1
    assert "parts it read the 2 with most in common" in result.err
    record = json.loads(run("--json", "-q", "--extract", stdin=LONG.encode()).out)
    assert record["flags"] == ["parts", "skimmed"] and f"of its {record['parts']} parts" in result.err
    assert run("--strict", "--extract", stdin=LONG.encode()) == (3, result.out, result.err)
    assert run("--strict", "--extract", stdin=TEXT.encode()).status == 0


@pytest.mark.parametrize(
    ("argument", "is_text"),
    [
        ("One sentence.", True),
        ("桥在河上。", True),
        ("“Is it old?”", True),
        ("Done.", True),
        ("no mark at its end", True),
        ("Go to the docs/folder.", True),
        ("first line\nsecond v1.2", True),
        ("notes.txt", False),
        ("my notes.txt", False),
        ("old letters/anna met bob", False),
        ("桥", False),
        ("./notes.", False),
    ],
)
def test_an_argument_that_can_hardly_be_a_file_is_a_text(run: Run, argument: str, is_text: bool) -> None:
    result = run(argument)
    if is_text:
        assert (result.status, result.err) == (0, "") and result.out.strip() in argument
        assert json.loads(run("--json", argument).out)["name"] == "argument 1"
    else:
        message = f"tx: error: no such file: {argument} (a text itself is given with -t TEXT)\n"
        assert result == (1, "", message)
    assert run("-t", argument).status == 0


def test_a_file_of_such_a_name_is_read(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "One sentence.").write_text("Anna met Bob.", encoding="utf-8")
    assert run("One sentence.") == (0, "Anna met Bob.\n", "")
    assert run("One sentence.", "And another.").out == (
        "==> One sentence. <==\nAnna met Bob.\n\n==> argument 2 <==\nAnd another.\n"
    )


def test_the_text_of_a_web_page(run: Run) -> None:
    result = run("--sentences", "9", stdin=PAGE.encode())
    assert result.out == "The bridge is old & narrow. Two boats wait under it. A lamp hangs on it.\n"
    assert result.err == "tx: note: stdin: this is a web page; its text was read, without the tags\n"
    record = json.loads(run("--json", stdin=PAGE.encode()).out)
    assert record["spans"] == [] and record["flags"] == ["html"]
    only_around = "<html><body><nav>All the pages of this place. They are few.</nav></body></html>"
    assert run("--sentences", "1", stdin=only_around.encode()).out in (
        "All the pages of this place.\n",
        "They are few.\n",
    )
    assert run("-q", stdin=b"<html><body><script>a = b.</script></body></html>") == (0, "", "")
    assert run("-q", stdin=b"<b>No</b> page.").out == "<b>No</b> page.\n"


@pytest.mark.parametrize("n", [5, 10, 14])
def test_no_more_words_than_asked_for(run: Run, n: int) -> None:
    from tx.model.summarizing import n_words

    out = run("--extract", "--words", str(n), stdin=TEXT.encode()).out
    assert 0 < n_words(out) <= n
    assert out.strip()[-1] in ".!。"


def test_a_long_text_is_read_in_parts_which_is_said(run: Run) -> None:
    for way in ("--extract", "--rewrite"):
        result = run(way, stdin=LONG.encode())
        assert result.status == 0 and 0 < len(result.out.strip()) < len(LONG)
        read = "it was read in " if way == "--extract" else "of its "
        assert ("it read what has most in common with all" in result.err) == (way == "--rewrite")
        assert f"tx: note: stdin: the text is longer than the model reads at once; {read}" in result.err
        assert run(way, "--quiet", stdin=LONG.encode()) == (0, result.out, "")
        record = json.loads(run(way, "--json", "-q", stdin=LONG.encode()).out)
        assert record["parts"] > 2 and "parts" in record["flags"]
        assert f" {record['parts']} parts" in result.err


def test_a_text_without_sentences_is_split_which_is_said(run: Run) -> None:
    text = "and then anna met bob at the bridge " * 60
    for way in ("--extract", "--rewrite"):
        result = run(way, "--sentences", "1", stdin=text.encode())
        assert result.status == 0 and 0 < len(result.out) < 200
        assert "a sentence is longer than the model reads at once; it was split" in result.err
    assert "split" in json.loads(run("--json", "-q", stdin=text.encode()).out)["flags"]


@pytest.mark.parametrize("command", [["summarize"], ["summarize", "-"], ["qa", "Who?"], ["translate"]])
def test_a_closed_standard_input_is_said_in_words_that_fit(
    run: Run, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes], command: list[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert main(command) == 1
    message = "tx: error: the standard input is closed: give a text or name a file (--help says how)\n"
    assert capsysbinary.readouterr().err.decode() == message  # not all of them have -i


def test_a_sentence_in_the_place_of_the_models_words_is_said(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from tx.model import faithful

    monkeypatch.setattr(faithful, "is_fit", lambda *_: False)
    result = run("--rewrite", "-t", TEXT)
    assert result.out.strip() in SENTENCES
    assert result.err == (
        "tx: note: argument 1: the model's own words were not fit to be shown; this is a sentence of the text\n"
    )
    record = json.loads(run("--rewrite", "--json", "-q", "-t", TEXT).out)
    ((start, end),) = record["spans"]
    assert record["flags"] == ["extracted"] and TEXT[start:end] == record["summary"]


def test_each_file_has_a_summary_of_its_own(run: Run, tmp_path: Path) -> None:
    first, second = tmp_path / "a.txt", tmp_path / "b.txt"
    first.write_text("Anna met Bob.", encoding="utf-8")
    second.write_text("桥在河上。", encoding="utf-8")
    assert run(str(first), "-", str(second), stdin=b"Hello.").out == (
        f"==> {first} <==\nAnna met Bob.\n\n==> stdin <==\nHello.\n\n==> {second} <==\n桥在河上。\n"
    )
    assert run(str(first)).out == "Anna met Bob.\n"
    records = [json.loads(line) for line in run("--json", str(second), str(first)).out.splitlines()]
    assert [record["name"] for record in records] == [str(second), str(first)]
    assert run("-t", "A b.", "-t", "Cc.").out == "A b.\nCc.\n"


def test_what_cannot_be_read_among_several_is_left_out(run: Run, tmp_path: Path) -> None:
    good, bad, none, out = (tmp_path / name for name in ("good.txt", "bad.txt", "none.txt", "out"))
    good.write_text("Anna met Bob.", encoding="utf-8")
    bad.write_bytes(b"b\xe9d\n")
    result = run(str(none), str(good), str(bad), str(tmp_path), "-", stdin=b"Hello.")
    assert result.status == 1
    assert result.out == f"==> {good} <==\nAnna met Bob.\n\n==> stdin <==\nHello.\n"
    errors = result.err.splitlines()
    assert len(errors) == 3 and all(error.startswith("tx: error: ") for error in errors)
    for error, words in zip(errors, ("no such file", "byte 2 is not UTF-8", "Is a directory"), strict=True):
        assert words in error
    assert run(str(none), str(good), "--strict").status == 1
    # A file of results is complete or not there.
    out.write_text("before", encoding="utf-8")
    result = run(str(good), str(none), str(bad), "-o", str(out))
    assert (result.status, result.out, result.err.count("\n")) == (1, "", 1) and "no such file" in result.err
    assert out.read_text(encoding="utf-8") == "before" and len(list(tmp_path.iterdir())) == 3


def test_arguments_that_are_not_utf8(run: Run) -> None:
    """The bytes that a shell passes reach Python as lone surrogates."""
    for arguments in (("-t", "caf\udce9 noir."), ("caf\udce9 noir.",)):
        error = "tx: error: argument 1 line 1, byte 4 is not UTF-8 (try --encoding latin-1)\n"
        assert run(*arguments) == (1, "", error)
        assert run(*arguments, "--encoding", "latin-1") == (0, "café noir.\n", "")
    assert "argument 1 has a lone surrogate at character 2: not Unicode" in run("-t", "a\ud800").err
    # The encoding is that of files; the terminal has its own.
    assert run("-t", "桥在河上。", "--encoding", "gb18030").out == "桥在河上。\n"


def test_the_help_fits_and_says_what_flags_there_are(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    text = run("--help").out
    assert max(map(len, text.splitlines())) <= 80
    flags = set(re.findall(r"^ {6}(\w+)  ", text, re.MULTILINE))
    assert flags >= {*summarize.WARNINGS, "copied", "empty", "html"}
    assert "--strict" in text and "no sentence is cut" in " ".join(text.split()).lower()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--extract", "--rewrite"), "give --extract or --rewrite, not both"),
        (("FILE", "-t", "text"), "give FILE or -t TEXT, not both"),
        (("--words", "0"), "--words needs a whole number"),
        (("--words", "-3"), "--words needs a whole number"),
        (("--sentences", "two"), "--sentences needs a whole number"),
        (("--model", ""), "--model is empty"),
        (("--encoding", "klingon"), "unknown encoding"),
    ],
)
def test_wrong_usage(run: Run, arguments: tuple[str, ...], words: str) -> None:
    result = run(*arguments, stdin=TEXT.encode())
    assert (result.status, result.out) == (2, "")
    assert result.err.startswith(f"tx: error: {words}") and result.err.count("\n") == 1


def test_on_a_terminal_the_usage_is_shown(run: Run) -> None:
    for arguments in ((), ("-",)):
        result = run(*arguments, terminal=True)
        assert (result.status, result.out) == (2, "") and result.err.startswith("usage: tx summarize")


def test_what_cannot_be_read(run: Run, tmp_path: Path, translating_model: Path) -> None:
    bad, out = tmp_path / "bad.txt", tmp_path / "out"
    bad.write_bytes(b"Fine. Good.\nb\xe9d\n")
    for arguments, words in (
        ((str(bad), "-o", str(out)), "bad.txt line 2, byte 2 is not UTF-8"),
        ((str(tmp_path / "none"),), "no such file"),
        ((str(tmp_path),), "cannot read"),
        (("-t", TEXT, "--model", str(translating_model)), "was not trained to sum up"),
    ):
        result = run(*arguments)
        assert (result.status, result.out) == (1, "") and words in result.err and result.err.count("\n") == 1
    assert not out.exists()
