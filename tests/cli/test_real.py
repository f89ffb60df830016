"""`tx translate` on the weights that come with it, as a user runs it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tx.model.pipeline import Translator

SENTENCES = """\
Good morning.
Where can I buy a ticket?
The dog sleeps under the table.

I would like a cup of tea, please.
He said that he would come back tomorrow, but nobody believed him.
我们明天在哪里见面？
谢谢你的帮助。
It costs 25 dollars.
She reads a book every evening before she goes to bed because it helps her to fall asleep.
"""


def tx(*arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tx.cli", *arguments]
    return subprocess.run(command, input=text, capture_output=True, encoding="utf-8", timeout=120)


@pytest.fixture
def copy(real_weights: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(real_weights, tmp_path / "model"))


def assert_refused(folder: Path, *words: str) -> None:
    done = tx("translate", "--model", str(folder), "hi")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("tx: error: ")
    assert done.stderr.count("\n") == 1
    for word in words:
        assert word in done.stderr


@pytest.mark.usefixtures("real_weights")
def test_english_to_chinese() -> None:
    done = tx("translate", "I love NLP")
    assert (done.returncode, done.stderr) == (0, "")
    assert re.search("爱|喜欢", done.stdout)
    assert done.stdout.count("\n") == 1


@pytest.mark.usefixtures("real_weights")
def test_chinese_to_english() -> None:
    done = tx("translate", text="我们明天在哪里见面？\n")
    assert (done.returncode, done.stderr) == (0, "")
    assert not re.search("[\u3400-\u9fff]", done.stdout)
    assert len(re.findall("[A-Za-z]+", done.stdout)) >= 3


@pytest.mark.usefixtures("real_weights")
def test_batch_size_does_not_matter() -> None:
    one, many = (tx("translate", "--batch-size", size, text=SENTENCES) for size in ("1", "32"))
    assert one.returncode == many.returncode == 0
    assert one.stdout == many.stdout
    assert one.stdout.count("\n") == SENTENCES.count("\n")
    assert one.stdout.splitlines()[3] == ""


def test_aligned_words_are_places_without_the_spaces_around_them(real_weights: Path) -> None:
    """In Python as in --json, which adds no more than the line's own indentation."""
    text = "I love NLP. It costs $25 now, see {name}."
    done = tx("translate", "--align", "--json", "--beam", "1", f"  {text}")
    shown = json.loads(done.stdout)
    (result,) = Translator(real_weights, engine="numpy").translate([text], align=True, beam_size=1)
    found = result.alignment
    assert found is not None and shown["translation"] == f"  {result.text}"
    for words, whole, places in (
        (found.source_words, text, shown["alignment"]["source_words"]),
        (found.target_words, result.text, shown["alignment"]["output_words"]),
    ):
        assert all(whole[a:b] == whole[a:b].strip() != "" for a, b in words)
        assert places == [[a + 2, b + 2] for a, b in words]


@pytest.mark.usefixtures("real_weights")
def test_unknown_language() -> None:
    done = tx("translate", "--to", "xx", "hi")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)


def test_missing_model(tmp_path: Path) -> None:
    assert_refused(tmp_path / "nope", str(tmp_path / "nope"))


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json", "config.json", "manifest.json"])
def test_missing_file(copy: Path, name: str) -> None:
    (copy / name).unlink()
    assert_refused(copy, str(copy))


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json", "config.json"])
def test_truncated_file(copy: Path, name: str) -> None:
    data = (copy / name).read_bytes()
    (copy / name).write_bytes(data[: -min(1000, len(data) // 2)])
    assert_refused(copy, name)


@pytest.mark.parametrize("place", [20, -20])
def test_one_flipped_bit(copy: Path, place: int) -> None:
    weights = copy / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[place] ^= 1
    weights.write_bytes(data)
    assert_refused(copy, "model.safetensors")
