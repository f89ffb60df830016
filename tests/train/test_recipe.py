"""Recipes: read, refused with the field at fault, and the learning rate that they ask for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tx.model.errors import ConfigError
from tx.model.train.data import Source
from tx.model.train.recipe import Recipe


def test_a_recipe_is_read_relative_to_its_folder(tmp_path: Path) -> None:
    values = {
        "sources": [{"path": "a.tsv", "task": "translate", "weight": 2}, {"path": "/b.jsonl", "task": "summarize"}],
        "dev": [{"path": "../dev.tsv", "task": "translate:zh"}, {"path": "q.jsonl", "task": "answer:generate"}],
        "steps": 7,
        "adam_betas": [0.8, 0.9],
    }
    (tmp_path / "recipe.json").write_text(json.dumps(values))
    recipe = Recipe.from_json(tmp_path / "recipe.json")
    sources = (Source(str(tmp_path / "a.tsv"), "translate", 2), Source("/b.jsonl", "summarize"))
    dev = (Source(f"{tmp_path}/../dev.tsv", "translate:zh"), Source(f"{tmp_path}/q.jsonl", "answer:generate"))
    assert recipe == Recipe(sources, dev, steps=7, adam_betas=(0.8, 0.9))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "recipe.json: "),
        ("[]", "recipe.json: "),
        ('{"sources": 3}', "recipe.json: "),
        ('{"sources": []}', "sources is out of range"),
        ("{}", "sources is out of range"),
        ('{"sources": [{"path": "a.tsv"}]}', "missing field 'task'"),
        ('{"sources": [{"path": "a.tsv", "task": "translate", "wieght": 1}]}', "unknown field 'wieght'"),
        ('{"sources": [{"path": "a.tsv", "task": "sing"}]}', "sources is out of range"),
        ('{"sources": [{"path": "a.tsv", "task": "translate"}], "stepps": 1}', "unknown field 'stepps'"),
        ('{"sources": [{"path": "a.tsv", "task": "translate"}], "steps": 0}', "steps is out of range: 0"),
        ('{"sources": [{"path": "a.tsv", "task": "translate"}], "lr": "high"}', "recipe.json: "),
        ('{"sources": [{"path": "a.tsv", "task": "translate"}], "label_smoothing": 1}', "label_smoothing"),
        ('{"sources": [{"path": "a.tsv", "task": "translate"}], "adam_betas": [0.9]}', "adam_betas"),
        (
            '{"sources": [{"path": "a.tsv", "task": "answer"}], "dev": [{"path": "a.tsv", "task": "summarize"}]}',
            "dev is out of range",
        ),
    ],
)
def test_a_bad_recipe_is_refused_in_one_line(tmp_path: Path, content: str, words: str) -> None:
    path = tmp_path / "recipe.json"
    path.write_text(content)
    with pytest.raises(ConfigError, match=words) as caught:
        Recipe.from_json(path)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)
    with pytest.raises(ConfigError, match="none.json"):
        Recipe.from_json(tmp_path / "none.json")


def test_the_learning_rate_rises_stays_and_falls() -> None:
    source = (Source("a.tsv", "translate"),)
    recipe = Recipe(source, steps=100, lr=1.0, lr_end=0.1, warmup=10, decay=20)
    rates = [recipe.lr_at(step) for step in range(100)]
    assert rates[0] == pytest.approx(0.1 + 0.9 / 10)
    assert rates[9:80] == pytest.approx([1.0] * 71)
    assert [rates[i + 1] - rates[i] for i in range(9)] == pytest.approx([0.09] * 9)
    assert [rates[i + 1] - rates[i] for i in range(80, 99)] == pytest.approx([-0.045] * 19)
    assert rates[99] == pytest.approx(0.1 + 0.9 / 20)
    assert recipe.lr_at(100) == pytest.approx(0.1)
    constant = Recipe(source, steps=10, lr=0.5, lr_end=0.1, warmup=0, decay=0)
    assert {constant.lr_at(step) for step in range(10)} == {0.5}
