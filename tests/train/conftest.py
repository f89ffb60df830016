"""A vocabulary of some hundred pieces, and what the trainer needs beside it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer as Backend
from tokenizers import models, pre_tokenizers

from tx.model.config import CheckpointConfig
from tx.model.tokenizer import Tokenizer
from tx.model.train.architecture import checkpoint_config
from tx.model.train.vocabulary import build

ENGLISH = " the cat dog sees bird a tree house we go home now red blue old small river sun moon eats runs"
CHINESE = (
    "猫 狗 看见 鸟 一 棵 树 房子 我们 回家 现在 红 蓝 老 小 河 太阳 月亮 吃 跑 我 们 你 好 世 界 看 见 房 子 回 家"
)


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """The models here are too small to share out."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    english = {" " + word: -4.0 - 0.1 * i for i, word in enumerate(ENGLISH.split())}
    chinese = {word: -4.0 - 0.1 * i for i, word in enumerate(CHINESE.split())}
    return build(english, chinese)


@pytest.fixture(scope="session")
def config(tokenizer: Tokenizer) -> CheckpointConfig:
    """A tiny model of the project's own kind."""
    sizes = {"d_model": 64, "n_heads": 4, "d_head": 16, "d_ff": 128, "n_encoder_layers": 2, "n_decoder_layers": 1}
    return checkpoint_config(tokenizer, "tiny", **sizes)


STUDENT_PIECES = ["</s>", "<unk>", "\u2581"] + ["\u2581" + word for word in ENGLISH.split()]
STUDENT_PIECES += list("abcdefghijklmnopqrstuvwxyzT.,1") + ["\u2581\u00e0", "\u00e9", "12", "\u25811", "</b>"]


@pytest.fixture
def student_vocabulary(tmp_path: Path) -> Path:
    """The `tokenizer.json` of a unigram vocabulary of another kind: a space is U+2581, digits may stand together."""
    scores = [(piece, -2.0 - 0.05 * i) for i, piece in enumerate(STUDENT_PIECES)]
    backend = Backend(models.Unigram(scores, unk_id=1))
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    backend.save(str(tmp_path / "student.json"))
    return tmp_path / "student.json"
