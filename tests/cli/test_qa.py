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

from tx.cli.main import main

TEXT = "Anna met Bob at the bridge. 桥在河上 😀。 At last 12 boats came."
KEYS = ["question", "answer", "start", "end", "score", "sentence", "context"]
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
        assert row["context"] == text
        assert text[row["start"] : row["end"]] == row["answer"]
        assert row["answer"] in row["sentence"] and row["sentence"] in text


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


@pytest.mark.parametrize(
    ("question", "text"), [("Who?", ""), ("Who?", " \n"), ("", TEXT), ("?", TEXT), ("Who?", "?! … 😀")]
)
def test_nothing_to_find(run: Run, question: str, text: str) -> None:
    note = "tx: note: no answer found in the text\n"
    assert run(question, "-c", text) == (0, "\n", note)
    assert run(question, stdin=text.encode()) == (0, "\n", note)
    assert run(question, "--quiet", "-c", text) == (0, "\n", "")
    result = run(question, "-c", text, "--json", "--top-k", "3")
    assert (result.status, result.err) == (0, note)
    assert result.rows == [
        {"question": question, "answer": "", "start": 0, "end": 0, "score": 0.0, "sentence": "", "context": text}
    ]


def test_no_answer_names_the_question_among_several(run: Run) -> None:
    result = run("-q", "Who?", "-q", "", "-c", TEXT, *ANY)
    assert result.err == "tx: note: no answer found in the text to: \n"
    assert result.out.endswith("\n\n") and result.out.count("\n") == 2


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


def test_the_sentence_is_shown_on_a_terminal(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from tx.cli import qa

    monkeypatch.setattr(qa, "_colour", lambda: True)
    out = run("Who?", *ANY, "-c", "\x1b[31mAnna met\tBob.").out
    answer, shown = out.splitlines()
    assert shown.startswith("  ") and shown.count("\x1b") == 2  # those around the answer; none of the text's own
    assert f"\x1b[1;4m{answer}\x1b[0m" in shown


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
        (("Who?", str(tmp_path / "none.txt")), "cannot read"),
        (("Who?", "-c", TEXT, "--model", str(tmp_path / "none")), "none"),
        (("Who?", "-c", TEXT, "--model", str(translating_model)), "was not trained to find answers"),
    ):
        result = run(*arguments)
        assert (result.status, result.out) == (1, "") and words in result.err and result.err.count("\n") == 1
