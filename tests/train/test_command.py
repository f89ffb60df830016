"""`python -m tx.model.train run` and `export`: a run from end to end, and one line for whatever is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tx.model.checkpoint import load_checkpoint
from tx.model.tokenizer import Tokenizer
from tx.model.train.__main__ import main

ROWS = "".join(f"the {thing} {does}\t{c}{d}\n" for thing, c in (("cat", "猫"), ("dog", "狗"), ("bird", "鸟"), ("moon", "月亮"))
               for does, d in (("eats", "吃"), ("runs", "跑"), ("sees the cat", "看见猫")))  # fmt: skip


@pytest.fixture
def files(tmp_path: Path, tokenizer: Tokenizer) -> list[str]:
    """Arguments that a short run needs."""
    (tmp_path / "rows.tsv").write_text(ROWS, encoding="utf-8")
    recipe = {"sources": [{"path": "rows.tsv", "task": "translate"}], "steps": 2, "batch_tokens": 50, "log_every": 1}
    (tmp_path / "recipe.json").write_text(json.dumps(recipe))
    (tmp_path / "card.md").write_text("# The card\n")
    tokenizer.save(tmp_path / "tokenizer.json")
    paths = {"recipe": "recipe.json", "tokenizer": "tokenizer.json", "out": "run", "card": "card.md"}
    return [a for option, name in paths.items() for a in (f"--{option}", str(tmp_path / name))]


def test_run_continue_and_export(files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = ["run", *files, "--device", "cpu", "--threads", "1", "--name", "small"]
    assert main([*run, "--until", "1"]) == 0
    assert "step 1 " in capsys.readouterr().err
    assert main([*run, "--export", str(tmp_path / "model")]) == 0
    assert "continuing at step 1" in capsys.readouterr().err
    options = ["--tokenizer", str(tmp_path / "tokenizer.json"), "--card", str(tmp_path / "card.md"), "--name", "small"]
    assert main(["export", "--run", str(tmp_path / "run"), *options, "--out", str(tmp_path / "again")]) == 0
    assert "step 2" in capsys.readouterr().err
    for name in ("model.safetensors", "config.json", "tokenizer.json", "README.md", "manifest.json"):
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "model" / name).read_bytes()
    assert load_checkpoint(tmp_path / "again").config.name == "small"


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("recipe.json", "{", "recipe"),
        ("recipe.json", '{"sources": [{"path": "none.tsv", "task": "translate"}]}', "none.tsv"),
        ("rows.tsv", "one column\n", "rows.tsv line 1"),
        ("rows.tsv", "", "no training examples"),
        ("tokenizer.json", "{}", "tokenizer.json"),
        ("card.md", None, "card.md"),
        ("init.safetensors", "damaged", "init.safetensors"),
        ("run/last.pt", "damaged", "last.pt"),
    ],
)
def test_what_is_wrong_is_told_in_one_line(
    files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, content: str | None, words: str
) -> None:
    path = tmp_path / name
    if content is None:
        path.unlink()
    else:
        path.parent.mkdir(exist_ok=True)
        path.write_text(content)
    init = ["--init", str(path)] if name.startswith("init") else []
    assert main(["run", *files, "--device", "cpu", "--threads", "1", *init]) == 1
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1 and words in lines[0]


def test_exporting_what_is_not_a_run_is_refused(
    files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--tokenizer", files[3], "--card", str(tmp_path / "card.md"), "--out", str(tmp_path / "model")]
    assert main(["export", "--run", str(tmp_path), *options]) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "last.pt" in error
    assert not (tmp_path / "model").exists()
