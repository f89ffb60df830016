"""`tx qa` in this process, with a small random model: what it says is in the text, and where."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tx.cli import qa
from tx.cli.main import main
from tx.model import answering
from tx.model.results import Answer

TEXT = "Anna met Bob at the bridge. 桥在河上 😀。 At last 12 boats came."
KEYS = ["question", "answer", "start", "end", "score", "sentence", "sentence_start", "windows_read", "windows"]
ANY = ("--threshold", "-99")  # so that the best span is the answer, whatever its score


class Result(NamedTuple):
    status: int
    out: str
    err: str

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.split("\n")[:-1]]


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
        status = main(["qa", *arguments])
        out, err = capsysbinary.readouterr()
        return Result(status, out.decode(), err.decode())

    return run_tx


def check(rows: list[dict[str, Any]], text: str) -> None:
    for row in rows:
        assert list(row) == KEYS
        assert text[row["start"] : row["end"]] == row["answer"]
        assert text[row["sentence_start"] :].startswith(row["sentence"])
        if row["answer"]:
            within = row["start"] - row["sentence_start"]
            assert row["sentence"][within:].startswith(row["answer"])
        assert 0 <= row["windows_read"] <= row["windows"]


def test_the_text_comes_from_a_file_a_pipe_or_the_command_line(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "text.txt"
    file.write_text(TEXT, encoding="utf-8")
    answer = run("Who came?", str(file), *ANY)
    assert answer.status == 0 and answer.err == "" and answer.out.strip() in TEXT and answer.out.count("\n") == 1
    assert run("Who came?", *ANY, stdin=TEXT.encode()) == answer
    assert run("Who came?", "-", *ANY, stdin=TEXT.encode()) == answer
    assert run("Who came?", "-c", TEXT, *ANY) == answer
    assert run("-q", "Who came?", str(file), *ANY) == answer
    assert run("-q", "Who came?", *ANY, stdin=b"\xef\xbb\xbf" + TEXT.encode()) == answer
    assert run("Who came?", str(file), *ANY, "-o", str(tmp_path / "out")) == (0, "", "")
    assert (tmp_path / "out").read_text(encoding="utf-8") == answer.out


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(st.sampled_from("ab A.?\n\r\t河上桥。😀👨\u200d👩\u0301é1\u3000\u2028"), max_size=40))
@example("😀😀 河上 Anna")
@example("\ufeffa\r\nb")
def test_an_answer_is_where_it_says(run: Run, text: str) -> None:
    result = run("Who?", "-c", text, "--json", "--top-k", "4", *ANY)
    assert result.status == 0
    # An argument is taken as it is.
    check(result.rows, text)
    scores = [row["score"] for row in result.rows]
    assert scores == sorted(scores, reverse=True)


def test_several_questions_over_one_text(run: Run, tmp_path: Path) -> None:
    questions = tmp_path / "questions.txt"
    questions.write_text("Where is it?\r\n\n  桥在哪里？\n", encoding="utf-8")
    result = run("-q", "Who came?", "-q", "When?", "--questions", str(questions), "--json", *ANY, stdin=TEXT.encode())
    assert [row["question"] for row in result.rows] == ["Who came?", "When?", "Where is it?", "桥在哪里？"]
    check(result.rows, TEXT)
    alone = run("When?", "--json", *ANY, stdin=TEXT.encode())
    assert (alone.rows[0]["start"], alone.rows[0]["end"]) == (result.rows[1]["start"], result.rows[1]["end"])
    assert alone.rows[0]["score"] == pytest.approx(result.rows[1]["score"], abs=1e-3)
    text = tmp_path / "text.txt"
    text.write_text(TEXT, encoding="utf-8")
    piped = run("--questions", "-", str(text), "--json", *ANY, stdin=questions.read_bytes())
    assert [row["answer"] for row in piped.rows] == [row["answer"] for row in result.rows[2:]]
    plain = run("-q", "Who came?", "-q", "When?", *ANY, stdin=TEXT.encode())
    assert plain.out.splitlines() == [" ".join(row["answer"].split()) for row in result.rows[:2]]


def test_the_best_answers_are_different(run: Run) -> None:
    result = run("Who?", "--top-k", "6", "--json", *ANY, stdin=TEXT.encode())
    answers = [row["answer"].casefold() for row in result.rows]
    assert 3 < len(answers) == len(set(answers)) <= 6
    scores = [row["score"] for row in result.rows]
    assert scores == sorted(scores, reverse=True)
    lines = run("Who?", "--top-k", "6", *ANY, stdin=TEXT.encode()).out.splitlines()
    assert [line.split("\t")[0] for line in lines] == [f"{score:.2f}" for score in scores]


def test_places_are_those_of_the_file(run: Run, tmp_path: Path) -> None:
    """Line ends are as they are, and only a byte order mark at the start is no part of the text."""
    text = "Anna\r\nmet\rBob\n\n桥在\u2028河上 😀\x00!\ufeff At last\t12 boats.\r\n"
    file = tmp_path / "text.txt"
    for encoding, name in (("utf-8", "utf-8"), ("utf-8-sig", "utf-8"), ("utf-16", "utf-16"), ("gb18030", "gb18030")):
        file.write_bytes(text.encode(encoding))
        result = run("Who?", str(file), "--encoding", name, "--json", "--top-k", "9", *ANY)
        assert result.status == 0 and len(result.rows) > 3
        check(result.rows, text)
        assert result == run("Who?", "-", "--encoding", name, "--json", "--top-k", "9", *ANY, stdin=file.read_bytes())


@pytest.mark.parametrize(
    ("question", "text", "why"),
    [
        ("Who?", "", "the text is empty"),
        ("Who?", " \n", "the text is empty"),
        ("Who?", "\r\n\r", "the text is empty"),
        ("Who?", "?! … 😀", "the text has no letters or digits"),
        ("", TEXT, "the question is empty"),
        (" ", TEXT, "the question is empty"),
        ("?", TEXT, "the question has no letters or digits"),
    ],
)
def test_nothing_to_find(run: Run, question: str, text: str, why: str) -> None:
    note = f"tx: note: {why}, so there is no answer\n"
    assert run(question, "-c", text) == (0, "\n", note)
    assert run(question, stdin=text.encode()) == (0, "\n", note)
    assert run(question, "--quiet", "-c", text) == (0, "\n", "")
    result = run(question, "-c", text, "--json", "--top-k", "3")
    assert (result.status, result.err) == (0, note)
    empty = {
        "question": question,
        "answer": "",
        "start": 0,
        "end": 0,
        "score": 1.0,  # the threshold
        "sentence": "",
        "sentence_start": 0,
    }
    assert result.rows == [empty | {"windows_read": 0, "windows": 0}]


@pytest.mark.parametrize("text", ["\x00\x00Anna\x00", "Anna" * 80, "\x1b[31mAnna", "a\ufffdb", "٣ Anna", "\u202eAnna"])
def test_odd_texts(run: Run, tmp_path: Path, text: str) -> None:
    file = tmp_path / "text.txt"
    file.write_text(text, encoding="utf-8")
    result = run("Anna?", str(file), "--json", "--top-k", "1000", *ANY)
    assert result.status == 0 and result.err == ""
    check(result.rows, text)
    assert result.rows[0]["answer"]
    assert run("\x00Anna?\t?", str(file), *ANY).status == 0


def test_more_answers_than_there_are(run: Run) -> None:
    result = run("Who?", "-c", "Anna", "--top-k", "1000", "--json", *ANY)
    answers = [row["answer"] for row in result.rows]
    assert answers.count("") == 1 and 2 <= len(answers) <= 5
    assert run("Who?", "-c", "Anna", "--top-k", "1000", *ANY).out.count("\n") == len(answers)


def test_of_a_long_text_some_parts_are_read_which_is_said(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answering, "MOST", 3)
    text = "a b c d e. " * 90 + TEXT
    result = run("-q", "Anna at the bridge?", "-q", "", "--json", *ANY, stdin=text.encode())
    check(result.rows, text)
    first, second = result.rows
    assert (first["windows_read"], second["windows_read"]) == (3, 0)
    assert first["windows"] == second["windows"] > 3
    note = (
        f"tx: note: of {first['windows']} parts of the text the 3 that share most words with the question were read\n"
    )
    assert result.err.endswith(note) and result.err.count("parts") == 1
    assert run("Anna?", "--quiet", *ANY, stdin=text.encode()).err == ""
    for arguments, status in ((("--strict", "--quiet"), 3), ((), 0)):
        assert run("Anna?", *arguments, *ANY, stdin=text.encode()).status == status
    assert run("Anna?", "--strict", *ANY, stdin=TEXT.encode()).status == 0
    assert run("Anna?", *ANY, stdin=TEXT.encode()).err == ""


def test_no_answer_names_the_question_among_several(run: Run) -> None:
    result = run("-q", "Who?", "-q", "", "-c", TEXT, *ANY)
    assert result.err == "tx: note: question 2 is empty, so there is no answer\n"
    assert result.out.endswith("\n\n") and result.out.count("\n") == 2
    result = run("-q", "Who?", "-q", "When?", "-c", TEXT, "--threshold", "inf")
    start = "tx: note: no answer found in the text to: "
    assert result.err == f"{start}Who?\n{start}When?\n" and result.out == "\n\n"


def test_no_answer_has_its_place_among_the_others(run: Run) -> None:
    best, other = (run("Who?", "--top-k", "9", "--json", *ANY, stdin=TEXT.encode()).rows)[:2]
    between = str(round((best["score"] + other["score"]) / 2, 4))
    lines = run("Who?", "--top-k", "3", "--threshold", between, stdin=TEXT.encode()).out.splitlines()
    assert lines[0].split("\t")[1] == " ".join(best["answer"].split())
    assert lines[1] == f"{float(between):.2f}\t(no answer)"
    assert lines[2].split("\t")[1] == " ".join(other["answer"].split())
    rows = run("Who?", "--top-k", "3", "--threshold", between, "--json", stdin=TEXT.encode()).rows
    assert rows[1]["answer"] == ""


def test_questions_of_a_file_without_any(run: Run, tmp_path: Path) -> None:
    (tmp_path / "blank").write_text(" \n\n", encoding="utf-8")
    result = run("--questions", str(tmp_path / "blank"), "-c", TEXT)
    assert result == (1, "", f"tx: error: there is no question in {tmp_path / 'blank'}\n")


def test_arguments_that_are_not_utf8(run: Run) -> None:
    """The bytes that a shell passes reach Python as lone surrogates."""
    for arguments, place in (
        (("caf\udce9?", "-c", TEXT), "question 1 line 1, byte 4"),
        (("-q", "Who?", "-q", "caf\udce9?", "-c", TEXT), "question 2 line 1, byte 4"),
        (("Who?", "-c", "\n\udce9"), "the text of -c line 2, byte 1"),
    ):
        error = f"tx: error: {place} is not UTF-8 (try --encoding latin-1)\n"
        assert run(*arguments) == (1, "", error)
        assert run(*arguments, *ANY, "--encoding", "latin-1").status == 0
    # The encoding is that of files; the terminal has its own.
    assert run("桥?", "-c", TEXT, "--encoding", "gb18030", "--json", *ANY).rows[0]["question"] == "桥?"


def test_the_help_fits_and_tells_q_from_quiet(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    text = run("--help").out
    assert max(map(len, text.splitlines())) <= 80
    words = " ".join(text.split())
    assert "A question (not --quiet)" in words and "here -q is a question" in words
    assert "(no answer)" in words and "--strict" in words


@pytest.mark.parametrize("value", ["inf", "1e9"])
def test_a_threshold_that_nothing_reaches(run: Run, value: str) -> None:
    result = run("Who?", "--threshold", value, "--json", stdin=TEXT.encode())
    assert result.rows[0]["answer"] == "" and result.rows[0]["score"] == (None if value == "inf" else 1e9)
    assert "Infinity" not in result.out


def test_a_long_question_is_cut_with_a_warning(run: Run) -> None:
    result = run("a b" * 300, *ANY, stdin=TEXT.encode())
    assert result.status == 0 and result.out.strip() in TEXT
    assert result.err.startswith("tx: warning: only the first 100 pieces of the question were read: a ba b")
    assert result.err.count("\n") == 1
    assert run("a b" * 300, "--strict", "--quiet", *ANY, stdin=TEXT.encode()) == (3, result.out, "")


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(qa, "_on_terminal", lambda: True)


@pytest.mark.usefixtures("terminal")
def test_the_sentence_is_shown_on_a_terminal(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "\x1b[31mAnna met\tBob."
    answer, shown = run("Who?", *ANY, "-c", text).out.splitlines()
    assert shown.startswith("  ") and shown.count("\x1b") == 2  # those around the answer; none of the text's own
    assert f"\x1b[1;4m{answer}\x1b[0m" in shown
    monkeypatch.setenv("NO_COLOR", "1")
    plain = run("Who?", *ANY, "-c", text).out
    assert plain == f"{answer}\n{shown}\n".replace("\x1b[1;4m", "").replace("\x1b[0m", "") and "\x1b" not in plain
    assert run("Who?", "-c", text, "--threshold", "inf").out == "\n"
    json_line = run("Who?", "-c", text, "--json", *ANY)
    check(json_line.rows, text)
    assert run("Who?", "-c", text, *ANY, "-o", str(tmp_path / "out")).out == ""
    assert (tmp_path / "out").read_text(encoding="utf-8").count("\n") == 1


def shown(context: str, start: int, end: int) -> str:
    answer = Answer(context[start:end], start, end, 1.0, (0, len(context)))
    first, second = qa._for_terminal(context, [answer], False).split("\n")[:2]
    assert first == " ".join(context[start:end].split())
    return second


@pytest.mark.parametrize("word", ["word ", "桥在河上。", "a\u0301 ", "😀", "x"])
@pytest.mark.parametrize("place", [0, 7, 300, 1993, 1999])
def test_of_a_long_sentence_what_is_around_the_answer_is_shown(word: str, place: int) -> None:
    context = word * place + "Anna\nmet Bob" + word * (2000 - place)
    start = len(word) * place
    line = shown(context, start, start + 12)
    answer = "\x1b[1;4mAnna met Bob\x1b[0m"
    assert line.count(answer) == 1
    before, after = line.split(answer)
    assert before.startswith("  …") == (place > 7)
    assert after.endswith("…") == (place < 1993)
    assert qa._columns(before) <= 240 and 200 < qa._columns(before + "Anna met Bob" + after) <= 240
    assert before.removeprefix("  ").removeprefix("…") + "Anna met Bob" in context.replace("\n", " ")
    assert "Anna met Bob" + after.removesuffix("…") in context.replace("\n", " ")
    if 300 <= place < 1993:  # in the middle
        assert abs(qa._columns(before) - qa._columns(after)) <= 6


def test_short_sentences_and_long_answers() -> None:
    assert shown("He saw Anna here.", 7, 11) == "  He saw \x1b[1;4mAnna\x1b[0m here."
    assert shown("Anna", 0, 4) == "  \x1b[1;4mAnna\x1b[0m"
    long = "x" * 500
    assert shown(f"a {long} b", 2, 502) == f"  a \x1b[1;4m{long}\x1b[0m b"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("Who?", "FILE", "-c", "text"), "give FILE or -c TEXT, not both"),
        (("Who?", "-", "-c", "text"), "give FILE or -c TEXT, not both"),
        (("-q", "Who?", "FILE", "-c", "text"), "give FILE or -c TEXT, not both"),
        (("Who?", "FILE", "-q", "When?"), "give QUESTION, or -q QUESTION and --questions FILE, not both"),
        (("--questions", "-"), "the standard input cannot be both"),
        (("--questions", "-", "-"), "the standard input cannot be both"),
        (("--questions", ""), "--questions is empty"),
        (("Who?", ""), "FILE is empty"),
        (("Who?", "--top-k", "0", "-c", "a"), "--top-k needs a whole number from 1 to 1000, not '0'"),
        (("Who?", "--threshold", "high", "-c", "a"), "--threshold needs a number, not 'high'"),
        (("Who?", "--threshold", "nan", "-c", "a"), "--threshold needs a number"),
        (("Who?", "--engine", "abacus", "-c", "a"), "--engine must be one of"),
        (("Who?", "--encoding", "klingon", "-c", "a"), "unknown encoding 'klingon'"),
    ],
)
def test_wrong_usage(run: Run, tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    (tmp_path / "text.txt").write_text(TEXT, encoding="utf-8")
    result = run(*[str(tmp_path / "text.txt") if a == "FILE" else a for a in arguments], stdin=b"Anna")
    assert (result.status, result.out) == (2, "")
    assert result.err.startswith(f"tx: error: {words}") and result.err.count("\n") == 1


def test_without_question_or_text_the_usage_is_shown(run: Run) -> None:
    for result in (run(), run("Who?", terminal=True), run("-q", "Who?", terminal=True)):
        assert (result.status, result.out) == (2, "")
        assert result.err.startswith("usage: tx qa QUESTION")


@pytest.mark.parametrize("arguments", [("Who?", "BAD"), ("Who?",), ("--questions", "BAD", "-c", "text")])
def test_text_that_is_not_utf8(run: Run, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    bad, out = tmp_path / "bad.txt", tmp_path / "out"
    bad.write_bytes(b"good\nb\xe9d\n")
    result = run(*[str(bad) if a == "BAD" else a for a in arguments], "-o", str(out), stdin=bad.read_bytes())
    assert (result.status, result.out) == (1, "")
    assert "line 2, byte 2 is not UTF-8 (try --encoding latin-1)" in result.err and result.err.count("\n") == 1
    assert not out.exists()
    assert run("Who?", str(bad), "--encoding", "latin-1", *ANY).status == 0


def test_what_cannot_be_found(run: Run, tmp_path: Path, translating_model: Path) -> None:
    for arguments, words in (
        (("Who?", str(tmp_path / "none.txt")), "none.txt (a text itself is given with -c TEXT)"),
        (("Who?", "Anna met Bob."), "no such file: Anna met Bob. (a text"),
        (("Who?", str(tmp_path)), "cannot read"),
        (("Who?", "-c", TEXT, "--model", str(tmp_path / "none")), "none"),
        (("Who?", "-c", TEXT, "--model", str(translating_model)), "was not trained to find answers"),
    ):
        result = run(*arguments)
        assert (result.status, result.out) == (1, "") and words in result.err and result.err.count("\n") == 1


def test_of_a_web_page_the_text_is_read(run: Run) -> None:
    page = b"<!DOCTYPE html><html><body><p>Anna met <b>Bob</b> at the bridge.</p></body></html>"
    done = run("Who met Bob?", "--json", *ANY, stdin=page)
    (row,) = done.rows
    assert row["sentence"] == "Anna met Bob at the bridge." and "<" not in row["answer"]
    assert "web page" in done.err
    assert run("Who met Bob?", *ANY, "--quiet", stdin=page).err == ""
