"""Pairs made by rule say the same on both sides."""

from __future__ import annotations

import re
from pathlib import Path

from tx.model.train.__main__ import main
from tx.model.train.data import read_rows
from tx.model.train.synthetic import FILLERS, FRAMES, pairs

HAN = re.compile("[\u3400-\u9fff]")


def test_frames_have_the_same_slots_on_both_sides() -> None:
    for english, chinese in FRAMES:
        assert sorted(re.findall(r"{\w+}", english)) == sorted(re.findall(r"{\w+}", chinese))
        assert HAN.search(chinese)
        assert not HAN.search(english)
    used = {name for english, _ in FRAMES for name in re.findall(r"{(\w+)}", english)}
    assert used == set(FILLERS)


def test_what_is_filled_in_stands_on_both_sides() -> None:
    made = list(pairs(500, seed=1))
    assert made == list(pairs(500, seed=1)) != list(pairs(500, seed=2))
    for english, chinese in made:
        assert sorted(re.findall(r"\d+", english)) == sorted(re.findall(r"\d+", chinese))
        assert sorted(re.findall(r"[{}%@<>]", english)) == sorted(re.findall(r"[{}%@<>]", chinese))


def test_the_step_writes_rows_that_the_trainer_reads(tmp_path: Path) -> None:
    out = tmp_path / "made.tsv"
    assert main(["synthetic", "--rows", "50", "--out", str(out)]) == 0
    assert len(list(read_rows(out))) == 50
