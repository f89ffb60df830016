"""Slots in training pairs, and as new pieces of a vocabulary and a model."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tx.model.checkpoint import save_checkpoint
from tx.model.errors import CheckpointError
from tx.model.protect import SLOTS
from tx.model.tokenizer import Tokenizer
from tx.model.train.__main__ import main
from tx.model.train.architecture import checkpoint_config
from tx.model.train.data import Source, examples
from tx.model.train.slots import add_pieces, add_rows, beside, read_terms, slotted, with_terms
from tx.model.transformer import Transformer

A, B = SLOTS[:2]


class First(random.Random):
    """Always below every share, and the first of every choice."""

    def random(self) -> float:
        return 0.0


def slots_of(text: str) -> list[str]:
    return sorted(c for c in text if c in SLOTS)


def test_what_both_sides_have_becomes_the_same_slot() -> None:
    assert slotted("In 2019 he had 3 dogs.", "2019年他有3只狗。", First()) == (
        f"In {A} he had {B} dogs.",
        f"{A}年他有{B}只狗。",
    )
    assert slotted("5 of 12", "12人中的5人", First()) == (f"{A} of {B}", f"{B}人中的{A}人")
    assert slotted("It ends at 17:30.", "五点半结束。", First()) is None
    assert slotted("no numbers here", "没有数字", First()) is None


def test_a_number_that_stands_twice_needs_to_stand_twice() -> None:
    assert slotted("7 and 7", "7和7", First()) == (f"{A} and {B}", f"{A}和{B}")
    assert slotted("7 and 7", "两个7", First()) is None
    assert slotted("7 and 7 and 9", "两个7和9", First()) == (f"7 and 7 and {A}", f"两个7和{A}")


@given(st.integers(0, 2**32), st.lists(st.integers(10, 99), min_size=1, max_size=16))
def test_both_sides_have_the_same_slots(seed: int, numbers: list[int]) -> None:
    english, chinese = " and ".join(map(str, numbers)), "和".join(map(str, reversed(numbers)))
    pair = slotted(english, chinese, random.Random(seed))
    assert pair is not None
    assert slots_of(pair[0]) == slots_of(pair[1]) and len(set(slots_of(pair[0]))) == len(numbers)
    assert not any(map(str.isdigit, "".join(pair)))


def test_words_of_a_dictionary() -> None:
    terms = read_terms([("bridge", "桥梁"), ("old bridge", "老桥"), ("cat", "猫咪")])
    assert "Tom" in terms and "bridge" in terms and not {"old bridge", "cat"} & set(terms)
    rng = random.Random(1)
    assert with_terms("The bridge is old.", "桥梁很老。", terms, rng) in [
        (f"The {s} is old.", f"{s}很老。") for s in SLOTS
    ]
    assert with_terms("The house is old.", "房子很老。", terms, rng) is None
    left, right = with_terms("Tom has 2 houses.", "汤姆有2栋房子。", terms, rng) or ("", "")
    assert len(slots_of(left)) == 2 and slots_of(left) == slots_of(right) and "Tom" not in left


def test_latin_words_that_the_chinese_has_too() -> None:
    left, right = with_terms("I use Kubernetes daily.", "我每天都用Kubernetes。", {}, random.Random(0)) or ("", "")
    assert "Kubernetes" not in left + right and slots_of(left) == slots_of(right) != []


@given(st.integers(0, 2**32))
def test_beside_a_sentence(seed: int) -> None:
    left, right = beside(f"Hello {A}.", f"你好{A}。", random.Random(seed))
    assert slots_of(left) == slots_of(right) == [A, B]


def test_the_rows_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "rows.tsv").write_text("He has 3 bridges here.\t他这里有3座桥梁。\n" * 1, encoding="utf-8")
    (tmp_path / "terms.tsv").write_text("bridges\t桥梁\n", encoding="utf-8")
    path, terms = str(tmp_path / "rows.tsv"), str(tmp_path / "terms.tsv")
    plain = list(examples(Source(path, "translate")))
    assert [task for task, _, _ in plain] == ["translate:zh", "translate:en"] and "3" in plain[0][1]
    rows = list(examples(Source(path, "translate", slots=True, term_variants=1.0, terms=terms), seed=2))
    assert [task for task, _, _ in rows] == ["translate:zh", "translate:en"] * 2
    for _, source, target in rows:
        assert slots_of(source) == slots_of(target) != []
    assert any("bridges" not in source + target and "桥梁" not in source + target for _, source, target in rows)


def test_new_pieces_and_rows(tokenizer: Tokenizer) -> None:
    content = add_pieces(tokenizer.to_json())
    pieces = [piece for piece, _ in json.loads(content)["model"]["vocab"]]
    assert pieces[-len(SLOTS) :] == list(SLOTS) and len(pieces) == tokenizer.vocab_size + len(SLOTS)
    with pytest.raises(CheckpointError, match="slots already"):
        add_pieces(content)
    n = tokenizer.vocab_size
    tensors = {
        "src_embedding.weight": torch.randn(n, 4),
        "logits_bias": torch.full((n,), 3.0),
        "other.weight": torch.randn(n, 4),
    }
    found = add_rows(tensors, tokenizer)
    assert found["src_embedding.weight"].shape == (n + len(SLOTS), 4)
    assert torch.equal(found["src_embedding.weight"][:n], tensors["src_embedding.weight"])
    assert found["logits_bias"][n:].tolist() == [1.0] * len(SLOTS)
    assert found["other.weight"].shape == (n, 4)
    assert len({tuple(row) for row in found["src_embedding.weight"][n:].tolist()}) == len(SLOTS)


def test_the_step(tokenizer: Tokenizer, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    config = checkpoint_config(tokenizer, "small", d_model=8, n_heads=2, d_head=4, d_ff=8, n_encoder_layers=1)
    tensors = Transformer(config.model).state_dict()
    save_checkpoint(folder, config, tensors, tokenizer.to_json(), "# small")
    out = ["--tokenizer", str(tmp_path / "tokenizer.json"), "--out", str(tmp_path / "init.safetensors")]
    assert main(["slots", "--checkpoint", str(folder), *out]) == 0
    encoded = Tokenizer.from_file(tmp_path / "tokenizer.json").encode(f"a{A}b")
    assert Tokenizer.from_file(folder / "tokenizer.json").vocab_size in encoded
