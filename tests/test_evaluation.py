"""Evaluation: the right columns, the right tokenizer for each language, errors that name file and line, and the words of
an answer that SQuAD's and CMRC's scripts compare."""

from __future__ import annotations

import gzip
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tx.model.errors import InputError, UsageError
from tx.model.evaluation import cmrc_words, evaluate_translation, exact_match, f1, read_pairs, squad_words
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


def test_a_missing_file_is_reported_before_a_missing_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    with pytest.raises(InputError, match="cannot be read"):
        evaluate_translation(FakeTranslator({}), tmp_path / "nowhere.tsv", "en", "zh")


@pytest.mark.parametrize(("source", "target", "limit"), [("en", "en", None), ("en", "fr", None), ("en", "zh", 0)])
def test_requests_that_make_no_sense(test_set: Path, source: str, target: str, limit: int | None) -> None:
    with pytest.raises(UsageError):
        evaluate_translation(FakeTranslator(dict(LINES)), test_set, source, target, limit=limit)


def test_without_sacrebleu(test_set: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    with pytest.raises(UsageError, match='pip install "sacrebleu>=2.4"'):
        evaluate_translation(FakeTranslator(dict(LINES)), test_set, "en", "zh")


# --- one answer ---


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The Cat's  hat!", ["cats", "hat"]),
        ("a an the", []),
        ("theatre of an era", ["theatre", "of", "era"]),
        ("$5.00, e.g. (here)", ["500", "eg", "here"]),
        ("“curly”", ["“curly”"]),  # as in the script: only ASCII punctuation goes
        ("re-read", ["reread"]),
        ("", []),
        ("?!", []),
    ],
)
def test_words_of_english(text: str, words: list[str]) -> None:
    assert squad_words(text) == words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("维生素 A，的", ["维", "生", "素", "a", "的"]),  # no articles in Chinese
        ("《iPhone 15》手机。", ["iphone", "15", "手", "机"]),
        ("约3.5%，1,000人", ["约", "3.5", "%", "1,000", "人"]),  # the script keeps marks of English
        ("1:30～2-3", ["13023"]),  # and takes others out before it parts words
        ("", []),
        ("。！", []),
    ],
)
def test_words_of_chinese(text: str, words: list[str]) -> None:
    assert cmrc_words(text) == words


@pytest.mark.parametrize(
    ("answer", "reference", "same", "overlap"),
    [
        ("the Eiffel Tower", "Eiffel tower.", 1, 1),
        ("in Paris", "Paris", 0, 2 * (1 / 2) * 1 / (1 / 2 + 1)),
        ("red red blue", "red blue blue", 0, 2 / 3),  # a word counts as often as both have it
        ("blue red", "red blue", 0, 1),  # their order is of no concern
        ("London", "Paris", 0, 0),
        ("", "", 1, 1),
        ("the", "", 1, 1),
        ("", "Paris", 0, 0),
        ("Paris", "", 0, 0),
        ("1999年10月", "《1999年10月》。", 1, 1),
        ("1999年10月", "1999年 10月", 0, 1),  # in CMRC's script spaces are characters, but no words
        ("北京大学", "北京的大学", 0, 2 * 2 / (4 + 5)),  # the longest run in common, not all characters in common
        ("维生素", "维生素A", 0, 2 * 3 / (3 + 4)),
        ("学大京北", "北京大学", 0, 2 * 1 / (4 + 4)),
        ("", "北京", 0, 0),
    ],
)
def test_exact_match_and_f1(answer: str, reference: str, same: float, overlap: float) -> None:
    assert exact_match(answer, reference) == same
    assert f1(answer, reference) == pytest.approx(overlap)


def test_a_latin_answer_to_a_chinese_question() -> None:
    assert exact_match("the Beatles", "Beatles") == f1("the Beatles", "Beatles") == 1
    assert exact_match("the Beatles", "Beatles", chinese=True) == 0
    assert f1("the Beatles", "Beatles", chinese=True) == pytest.approx(2 * 1 / (2 + 1))
    assert f1("B and A", "A and B", chinese=True) == pytest.approx(2 * 1 / (3 + 3))
    assert f1("B and A", "A and B", chinese=False) == 1
