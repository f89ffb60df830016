"""`tx evaluate`: translations with a translator that writes in capitals, answers and summaries with a small random model."""

from __future__ import annotations

import gzip
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest

from tx.cli.main import main


class Result(NamedTuple):
    status: int
    out: str
    err: str


Run = Callable[..., Result]


@pytest.fixture
def run(small_model: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]) -> Run:
    monkeypatch.setenv("TX_MODEL", str(small_model))
    monkeypatch.setenv("TX_ENGINE", "numpy")
    monkeypatch.delenv("TX_DEBUG", raising=False)

    def run_tx(*arguments: str) -> Result:
        capsysbinary.readouterr()
        status = main(["evaluate", *arguments])
        out, err = capsysbinary.readouterr()
        return Result(status, out.decode(), err.decode())

    return run_tx


def write(path: Path, *rows: object) -> str:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return str(path)


# --- translate ---


@pytest.fixture
def dev_set(tmp_path: Path) -> str:
    path = tmp_path / "dev.tsv"
    path.write_text("GOOD MORNING TO YOU ALL\tGOOD MORNING TO YOU ALL\nabc\txyz\n", encoding="utf-8")
    return str(path)


def test_translations(run: Run, fake_pipeline: ModuleType, dev_set: str) -> None:
    status, out, err = run("translate", dev_set, "--limit", "1")
    assert (status, err) == (0, "")
    first, bleu, chrf, second, *_ = out.splitlines()
    assert first.startswith(f"en to zh: {dev_set}, 1 lines")
    assert bleu.startswith("  BLEU 100.0  nrefs:1|") and "|tok:zh|" in bleu
    assert chrf.startswith("  chrF 100.0  nrefs:1|")
    assert second.startswith("zh to en")
    records = [json.loads(line) for line in run("translate", dev_set, "--json", "--to", "en").out.splitlines()]
    assert [(r["from"], r["to"], r["n"]) for r in records] == [("zh", "en", 2)]
    assert run("translate", dev_set, "--engine", "torch", "--threads", "1").status == 0
    assert fake_pipeline.made[-1] == {"model": os.environ["TX_MODEL"], "device": "cpu", "threads": 1, "engine": "torch"}
    assert "en to zh, zh to en" in run("translate", dev_set, "--from", "fr").err


# --- qa ---

QUESTIONS: list[dict[str, Any]] = [
    {"context": "Anna met Bob at the bridge. It was 12.", "question": "Who met Bob?", "answer": "Anna"},
    {
        "context": "Anna met Bob at the bridge. It was 12.",
        "question": "When?",
        "answer": "12",
        "answers": ["12", "at 12"],
    },
    {"context": "A boat came at 3.", "question": "What came?", "answer": "A boat"},
    {"context": "你好河上桥。", "question": "什么上桥？", "answer": "河"},
    {"context": "Bob at 12.", "question": "Why?", "answer": ""},
]


def test_answers(run: Run, tmp_path: Path) -> None:
    path = write(tmp_path / "qa.jsonl", *QUESTIONS)
    status, out, err = run("qa", path, "--json")
    assert (status, err, out.count("\n")) == (0, "", 1)
    record = json.loads(out)
    assert list(record) == [
        *("file", "exact_match", "f1", "n", "answered"),
        *("answerable", "unanswerable", "words", "seconds"),
    ]
    assert (record["file"], record["n"], record["answered"]) == (path, 5, 5)
    assert 0 <= record["exact_match"] <= record["f1"] <= 100
    assert record["answerable"]["n"] + record["unanswerable"]["n"] == 5
    assert record["unanswerable"] == {"exact_match": 0, "f1": 0, "n": 1, "answered": 1}
    assert record["words"] == pytest.approx((9 + 9 + 5 + 2.5 + 3) / 5)

    nothing = json.loads(run("qa", path, "--json", "--threshold", "1e9").out)
    assert nothing["answered"] == 0
    assert nothing["exact_match"] == nothing["f1"] == 20
    assert nothing["unanswerable"]["exact_match"] == 100
    assert json.loads(run("qa", path, "--json", "--limit", "2").out)["n"] == 2


def test_answers_for_people(run: Run, tmp_path: Path) -> None:
    packed = tmp_path / "qa.jsonl.gz"
    packed.write_bytes(gzip.compress(Path(write(tmp_path / "qa.jsonl", *QUESTIONS)).read_bytes()))
    status, out, err = run("qa", str(packed), "--threshold", "1e9")
    assert (status, err) == (0, "")
    first, *table, last = out.splitlines()
    assert first.startswith(f"{packed}: 5 questions in ")
    assert table == [
        "                exact match     F1  number  answered",
        "  questions            20.0   20.0       5         0",
        "  answerable            0.0    0.0       4         0",
        "  unanswerable        100.0  100.0       1         0",
    ]
    assert last == "  texts have 6 words on average"
    assert "answerable" not in run("qa", str(packed), "--limit", "3").out


def test_answers_in_longer_texts(run: Run, tmp_path: Path) -> None:
    path = write(tmp_path / "qa.jsonl", *QUESTIONS)
    once, again = (json.loads(run("qa", path, "--among", "15", "--json").out) for _ in range(2))
    assert 15 <= once["words"] < 15 + 9
    assert once["short"] == 0
    assert {**once, "seconds": 0} == {**again, "seconds": 0}
    status, out, err = run("qa", path, "--among", "1000")
    assert status == 0
    assert err.startswith("tx: note: 5 of 5 questions were asked of a text of less than 1000 words: ")
    assert err.count("\n") == 1


# --- summarize ---

TEXTS = [
    {
        "text": "Anna met Bob. The bridge is at 12. A boat came at 3. It was the bridge.",
        "summary": "Anna met Bob at 12.",
    },
    {"text": "你好河上桥。河上你好桥。桥上你好。河你好。", "summary": "你好桥。"},
]


def test_summaries(run: Run, tmp_path: Path) -> None:
    path = write(tmp_path / "s.jsonl", *TEXTS)
    status, out, err = run("summarize", path, "--json", "--extract", "--sentences", "1")
    assert (status, err, out.count("\n")) == (0, "", 1)
    record = json.loads(out)
    assert (record["file"], record["way"], record["n"]) == (path, "extract", 2)
    kinds = ("rouge1", "rouge2", "rougeL")
    for scores in (record, record["lead"], record["lexrank"]):
        assert all(0 <= scores[kind] <= 100 for kind in kinds)
    assert record["made_up"] == 0  # whole sentences of the text
    assert 0 < record["words"] <= 5
    assert record["reference_words"] == pytest.approx((5 + 1.5) / 2)
    assert "Chinese" in record["signature"]
    assert json.loads(run("summarize", path, "--json", "--rewrite", "--limit", "1").out)["way"] == "rewrite"
    longer = json.loads(run("summarize", path, "--json", "--extract", "--words", "9").out)
    assert record["words"] < longer["words"] <= 9


def test_summaries_for_people(run: Run, tmp_path: Path) -> None:
    path = write(tmp_path / "s.jsonl", *TEXTS)
    status, out, err = run("summarize", path, "--extract", "--sentences", "9")
    assert (status, err) == (0, "")
    first, way, head, *rows = out.splitlines()
    assert first.startswith(f"{path}: 2 texts in ") and first.endswith(" s")
    assert way == "  sentences extracted"
    assert head == "           ROUGE-1  ROUGE-2  ROUGE-L"
    assert [row.split()[0] for row in rows[:3]] == ["tx", "LEAD", "LexRank"]
    assert all(len(line) < 80 for line in (head, *rows))
    assert rows[3] == "  all three of the same length"
    assert "each Chinese character is a word" in rows[4]
    assert rows[5].startswith("  summaries have ") and rows[5].endswith(" references 3.2")
    assert rows[6].startswith("  made up: 0.0 % of ")
    assert "rewritten" in run("summarize", path, "--rewrite").out


# --- errors ---


@pytest.mark.parametrize("command", ["translate", "qa", "summarize"])
def test_files_that_cannot_be_used(run: Run, tmp_path: Path, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "text").write_text("not JSON\n")
    (tmp_path / "fields").write_text('{"text": "a", "question": "b"}\n')
    (tmp_path / "plain.gz").write_text('{"text": "a", "summary": "b"}\n')
    wanted = {
        "empty": "has no ",
        "text": "line 1: expected" if command == "translate" else "line 1 is not JSON",
        "fields": "line 1: expected ",
        "plain.gz": "is not a whole gzip file",
    }
    for name, message in wanted.items():
        status, out, err = run(command, str(tmp_path / name))
        assert (status, out, err.count("\n")) == (1, "", 1)
        assert err.startswith(f"tx: error: {tmp_path / name}") and message in err
    for package in ("sacrebleu", "rouge_score", "sumy"):  # a missing file is said before a missing package
        monkeypatch.setitem(sys.modules, package, None)
    assert run(command, "/nope") == (1, "", "tx: error: /nope cannot be read: No such file or directory\n")
    assert run(command, str(tmp_path)) == (1, "", f"tx: error: {tmp_path} cannot be read: Is a directory\n")
    assert run(command, "").status == 2


@pytest.mark.parametrize(
    ("command", "package", "name"),
    [
        ("translate", "sacrebleu", "sacrebleu"),
        ("summarize", "rouge_score", "rouge-score"),
        ("summarize", "sumy", "sumy"),
    ],
)
def test_a_missing_package(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, package: str, name: str
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setitem(sys.modules, package, None)
    expected = f'tx: error: scores need {name}: pip install "tx-transformer[eval]"\n'
    assert run(command, str(tmp_path / "file")) == (1, "", expected)


@pytest.mark.parametrize(
    "arguments",
    [
        ("qa", "f", "--threshold", "high"),
        ("qa", "f", "--threshold", "nan"),
        ("qa", "f", "--among", "0"),
        ("qa", "f", "--among", "-5"),
        ("qa", "f", "--limit", "0"),
        ("qa", "f", "--engine", "abacus"),
        ("qa", "f", "--model", ""),
        ("qa",),
        ("summarize", "f", "--extract", "--rewrite"),
        ("summarize", "f", "--words", "0"),
        ("summarize", "f", "--sentences", "many"),
        ("summarize", "f", "--device", "toaster"),
        ("summarize", "f", "--threads", "0"),
        ("translate", "f", "--beam", "0"),
        ("translate", "f", "--engine", "abacus"),
    ],
)
def test_usage(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]) -> None:
    monkeypatch.chdir(tmp_path)
    Path("f").write_text("")
    status, out, err = run(*arguments)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("tx: error: ")


def test_a_model_without_the_task(run: Run, translating_model: Path, tmp_path: Path) -> None:
    for command, rows in (("qa", QUESTIONS), ("summarize", TEXTS)):
        path = write(tmp_path / command, *rows)
        status, out, err = run(command, path, "--model", str(translating_model))
        assert (status, out, err.count("\n")) == (1, "", 1)
        assert "was not trained to" in err
