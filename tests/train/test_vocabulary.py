"""Building the vocabulary: which pieces get in, from what, and that the result loses no text."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from tx.model.errors import CheckpointError, InputError
from tx.model.tokenizer import Tokenizer
from tx.model.train.__main__ import main, sentence_pairs
from tx.model.train.vocabulary import SPECIAL_PIECES, build, chinese_pieces, english_pieces, read_unigram

SENTENCES = ["我们现在回家。", "红猫看见小鸟！", "老狗在河里", "我们看见太阳，和月亮", "小猫在树上", "小鸟吃虫"]


def corpus(n: int, seed: int = 0) -> list[str]:
    return random.Random(seed).choices(SENTENCES, k=n)


# -- the English half --------------------------------------------------------------------------------------------------


def test_the_most_used_english_pieces_are_kept_with_their_scores(student_vocabulary: Path) -> None:
    backend, scores = read_unigram(student_vocabulary)
    texts = ["the cat"] * 5 + ["the dog"] * 3 + ["bird"]
    assert english_pieces(scores, texts, backend, 3) == {p: scores["\u2581" + p[1:]] for p in (" the", " cat", " dog")}
    kept = english_pieces(scores, texts, backend, 100)
    assert list(kept) == [" the", " cat", " dog", " bird"]


def test_what_is_no_english_piece_is_left_out(student_vocabulary: Path) -> None:
    """Digits beside others, letters with accents, and whatever the vocabulary spells as unknown."""
    backend, scores = read_unigram(student_vocabulary)
    texts = ["\u00e0 caf\u00e9 12 1 \u732b tree"]
    tokens = backend.encode(texts[0], add_special_tokens=False).tokens
    assert {"12", "\u2581\u00e0", "\u00e9", "\u25811"} <= set(tokens)
    kept = english_pieces(scores, texts, backend, 100)
    assert " tree" in kept and "f" in kept
    assert not set(kept) & {"12", " \u00e0", "\u00e9", " 1", "\u732b"}


@pytest.mark.parametrize("content", [None, "", "[]", '{"model": {"vocab": {"a": 1}}}', '{"model": {"type": "BPE"}}'])
def test_a_file_that_is_no_unigram_vocabulary_is_refused(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "tokenizer.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(CheckpointError, match=r"tokenizer\.json is not a unigram") as caught:
        read_unigram(path)
    assert "\n" not in str(caught.value)


# -- the Chinese half --------------------------------------------------------------------------------------------------


def test_chinese_pieces_are_runs_of_han_characters() -> None:
    pieces = chinese_pieces(corpus(400), 60, 40)
    used = {c for s in SENTENCES for c in s if c.isalpha()}
    assert used <= set(pieces)  # every character by itself
    assert {"我们", "看见"} <= set(pieces)  # and what often stands together
    assert all(set(p) <= used and len(p) <= 5 for p in pieces)
    assert len(pieces) <= 60
    assert all(score < 0 for score in pieces.values())


def test_rare_characters_are_left_to_their_bytes() -> None:
    texts = corpus(400) + ["龘的猫"]
    n_frequent = len({c for s in SENTENCES for c in s if c.isalpha()})
    frequent = chinese_pieces(texts, 60, n_frequent)
    assert len({p for p in frequent if len(p) == 1}) == n_frequent
    assert "龘" not in "".join(frequent)
    assert "龘" in chinese_pieces(texts, 60, n_frequent + 2)


def test_a_text_without_han_characters_is_refused() -> None:
    with pytest.raises(InputError, match="no Han characters"):
        chinese_pieces(["only English", "１２３，かな"], 10, 10)


# -- both --------------------------------------------------------------------------------------------------------------


def test_the_vocabulary_holds_everything_once() -> None:
    tokenizer = build({" the": -3.0, "e": -5.0, "</s>": -1.0}, {"猫": -4.0, "，": -2.0, "一A": -3.0, "A": -2.0})
    pieces = tokenizer.pieces(range(tokenizer.vocab_size))
    assert len(set(pieces)) == len(pieces)
    assert tuple(pieces[: len(SPECIAL_PIECES)]) == SPECIAL_PIECES
    assert pieces[len(SPECIAL_PIECES) : len(SPECIAL_PIECES) + 256] == [f"<0x{b:02X}>" for b in range(256)]
    assert {" the", "猫", "，", "。", "“", "\t", *map(chr, range(32, 127))} <= set(pieces)
    assert "一A" not in pieces  # the Chinese half brings Han characters only
    scores = dict(json.loads(tokenizer.to_json())["model"]["vocab"])
    assert (scores[" the"], scores["猫"], scores["，"], scores["e"]) == (-3.0, -4.0, -2.0, -5.0)
    assert scores["</s>"] < -100  # whatever the English vocabulary says of it


def test_no_english_pieces_is_an_error() -> None:
    with pytest.raises(InputError, match="no English pieces"):
        build({}, {"猫": -4.0})


@pytest.mark.parametrize(
    "text",
    ["", " ", "the cat", " the  cat ", "猫看见 the dog 12。", "</s><pad>", "𠮷\u2581é\x00\t\n", "<0xE4> 猫", "\ufeffé"],
)
def test_a_small_vocabulary_loses_nothing_either(tokenizer: Tokenizer, text: str) -> None:
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert not set(ids) & set(tokenizer.special)


def test_likelier_pieces_are_taken(tokenizer: Tokenizer) -> None:
    assert tokenizer.pieces(tokenizer.encode("the cat sees")) == [" the", " cat", " sees"]
    assert tokenizer.pieces(tokenizer.encode("我们看见猫")) == ["我们", "看见", "猫"]
    assert tokenizer.pieces(tokenizer.encode("cat 12")) == [" cat", " ", "1", "2"]


# -- the command line --------------------------------------------------------------------------------------------------


def test_pairs_are_sampled(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("".join(f"row {i}\t第{i}行\n" for i in range(50)), encoding="utf-8")
    whole = sentence_pairs([str(path)])
    assert sorted(whole) == sorted((f"row {i}", f"第{i}行") for i in range(50))
    sample = sentence_pairs([f"{path}:7"])
    assert len(sample) == 7 and set(sample) < set(whole)
    assert sample == sentence_pairs([f"{path}:7"])
    assert len(sentence_pairs([f"{path}:7", str(path), f"{path}:500"])) == 107


def test_the_step_makes_a_tokenizer(
    tmp_path: Path, student_vocabulary: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = tmp_path / "pairs.tsv", tmp_path / "tokenizer.json"
    english = ["the cat sees a bird", "we go home now", "the old dog", "the red sun", "a small river", "blue moon"]
    rows = [f"{e} {i}\t{c}{i}\n" for i, (e, c) in enumerate(zip(english * 50, SENTENCES * 50, strict=True))]
    path.write_text("".join(rows), encoding="utf-8")
    plain = tmp_path / "plain.txt"
    plain.write_text("the tree the tree\n" * 40 + "小鱼在河里游，小鱼在海里游\n" * 40, encoding="utf-8")
    files = ["--student", str(student_vocabulary), "--pairs", f"{path}:250", "--out", str(out), "--plain", str(plain)]
    assert main(["vocabulary", *files, "--english", "12", "--chinese", "50", "--characters", "40"]) == 0
    tokenizer = Tokenizer.from_file(out)
    assert f"{tokenizer.vocab_size} pieces" in capsys.readouterr().err
    assert set(tokenizer.special.values()) == set(SPECIAL_PIECES)
    pieces = tokenizer.pieces(range(tokenizer.vocab_size))
    assert len([p for p in pieces if p.startswith(" ") and len(p) > 1]) <= 12
    assert " the" in pieces and "我们" in pieces
    assert " tree" in pieces and "鱼" in pieces  # only the plain text has these
    for row in rows[:6]:
        assert tokenizer.decode(tokenizer.encode(row)) == row
    assert main(["vocabulary", *files[:3], str(tmp_path / "none.tsv"), "--out", str(out)]) == 1
    assert "none.tsv" in capsys.readouterr().err
