"""Evaluation: the right columns, the right tokenizer for each language, and errors that name file and line."""

from __future__ import annotations

import builtins
import gzip
from collections.abc import Sequence
from pathlib import Path

import pytest

from tx.model.errors import InputError, UsageError
from tx.model.evaluation import evaluate_translation, read_pairs
from tx.model.results import Translation

LINES = [
    ("The train leaves at nine in the morning.", "火车早上九点出发。"),
    ("She has two brothers and a small dog.", "她有两个兄弟和一只小狗。"),
    ("Where did you put the blue umbrella?", "你把蓝色的雨伞放在哪里了？"),
]


class FakeTranslator:
    """Answers from a table, and notes what it was asked."""

    def __init__(self, answers: dict[str, str]) -> None:
        self.answers = answers
        self.asked: dict[str, object] = {}

    def translate(
        self,
        texts: Sequence[str],
        *,
        source: str | None = None,
        target: str | None = None,
        beam_size: int | None = None,
        batch_size: int = 32,
    ) -> list[Translation]:
        self.asked = {"texts": list(texts), "source": source, "target": target, "beam": beam_size, "batch": batch_size}
        flags = [("cut",) if "dog" in text else () for text in texts]
        return [
            Translation(text, self.answers[text], source or "", target or "", -0.5, flag)
            for text, flag in zip(texts, flags, strict=True)
        ]


@pytest.fixture
def test_set(tmp_path: Path) -> Path:
    path = tmp_path / "dev.tsv"
    path.write_text("".join(f"{en}\t{zh}\tsource {i}\n" for i, (en, zh) in enumerate(LINES)), encoding="utf-8")
    return path


def test_perfect_translations_score_100(test_set: Path) -> None:
    translator = FakeTranslator(dict(LINES))
    scores = evaluate_translation(translator, test_set, "en", "zh", beam_size=3, batch_size=7)
    assert scores["bleu"] == pytest.approx(100)
    assert scores["chrf"] == pytest.approx(100)
    assert scores["n"] == 3
    assert scores["seconds"] >= 0
    assert scores["flags"] == {"cut": 1}
    english = [en for en, _ in LINES]
    assert translator.asked == {"texts": english, "source": "en", "target": "zh", "beam": 3, "batch": 7}


def test_other_direction_takes_the_other_column(test_set: Path) -> None:
    scores = evaluate_translation(FakeTranslator({zh: en for en, zh in LINES}), test_set, "zh", "en")
    assert scores["bleu"] == pytest.approx(100)
    assert scores["flags"] == {}


def test_chinese_is_scored_by_characters_and_english_by_words(test_set: Path) -> None:
    # One character of 35 is wrong. Without a tokenizer for Chinese a whole line would count as one wrong word.
    answers = dict(LINES) | {LINES[0][0]: "火车早上八点出发。"}
    scores = evaluate_translation(FakeTranslator(answers), test_set, "en", "zh")
    assert 80 < scores["bleu"] < 95
    assert 80 < scores["chrf"] < 99
    assert "tok:zh" in scores["signatures"]["bleu"]
    assert (
        "tok:13a"
        in evaluate_translation(FakeTranslator({zh: en for en, zh in LINES}), test_set, "zh", "en")["signatures"][
            "bleu"
        ]
    )
    assert "version:" in scores["signatures"]["chrf"]


def test_score_equals_the_formula(tmp_path: Path) -> None:
    # BLEU of one sentence by hand: 6 of 7 words, 4 of 6 pairs, 3 of 5 triples, 2 of 4 quadruples, equal lengths.
    path = tmp_path / "one.tsv"
    path.write_text("the cat sat on the red mat\t猫\n", encoding="utf-8")
    scores = evaluate_translation(FakeTranslator({"猫": "the cat sat on the old mat"}), path, "zh", "en")
    assert scores["bleu"] == pytest.approx(100 * (6 / 7 * 4 / 6 * 3 / 5 * 2 / 4) ** 0.25)


def test_limit_and_gzip(test_set: Path) -> None:
    packed = test_set.with_suffix(".tsv.gz")
    packed.write_bytes(gzip.compress(test_set.read_bytes()))
    assert list(read_pairs(packed)) == LINES
    translator = FakeTranslator(dict(LINES))
    assert evaluate_translation(translator, packed, "en", "zh", limit=2)["n"] == 2
    assert translator.asked["texts"] == [en for en, _ in LINES[:2]]


def test_line_ends_empty_lines_and_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "windows.tsv"
    path.write_bytes("\ufeffGood night.\t晚安。\r\n\r\nThanks.\t谢谢。".encode())
    assert list(read_pairs(path)) == [("Good night.", "晚安。"), ("Thanks.", "谢谢。")]


@pytest.mark.parametrize("bad", [b"no tab here\n", b"\tonly Chinese\n", b"only English\t \n"])
def test_line_without_two_columns(test_set: Path, bad: bytes) -> None:
    test_set.write_bytes(test_set.read_bytes() + bad)
    with pytest.raises(InputError, match=r"dev\.tsv, line 4: expected"):
        evaluate_translation(FakeTranslator(dict(LINES)), test_set, "en", "zh")


def test_line_that_is_not_utf8(test_set: Path) -> None:
    lines = test_set.read_bytes().splitlines(keepends=True)
    test_set.write_bytes(lines[0] + b"ab\xff\tx\n" + lines[1])
    with pytest.raises(InputError, match=r"dev\.tsv, line 2 is not UTF-8: byte 3"):
        list(read_pairs(test_set))


def test_files_that_cannot_be_read(tmp_path: Path, test_set: Path) -> None:
    with pytest.raises(InputError, match="cannot be read: No such file"):
        list(read_pairs(tmp_path / "nowhere.tsv"))
    with pytest.raises(InputError, match="cannot be read"):
        list(read_pairs(tmp_path))
    packed = gzip.compress(test_set.read_bytes())
    for name, content in (("cut.tsv.gz", packed[:-20]), ("plain.tsv.gz", b"Hello.\thello\n")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match="not a whole gzip file"):
            list(read_pairs(tmp_path / name))
    (tmp_path / "empty.tsv").write_text("\n\n")
    with pytest.raises(InputError, match="no sentence pairs"):
        evaluate_translation(FakeTranslator({}), tmp_path / "empty.tsv", "en", "zh")


@pytest.mark.parametrize(("source", "target", "limit"), [("en", "en", None), ("en", "fr", None), ("en", "zh", 0)])
def test_requests_that_make_no_sense(test_set: Path, source: str, target: str, limit: int | None) -> None:
    with pytest.raises(UsageError):
        evaluate_translation(FakeTranslator(dict(LINES)), test_set, source, target, limit=limit)


def test_without_sacrebleu(test_set: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *args: object, **kwargs: object) -> object:
        if name.startswith("sacrebleu"):
            raise ImportError(name)
        return real(name, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(UsageError, match='pip install "sacrebleu>=2.4"'):
        evaluate_translation(FakeTranslator(dict(LINES)), test_set, "en", "zh")
