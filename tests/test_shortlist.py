"""Shortlists: what a file holds, what a batch may be translated with, and that both engines keep to it."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tx.model import shortlist
from tx.model.config import GenerationConfig, ModelConfig, SpecialIds
from tx.model.errors import CheckpointError
from tx.model.generation import generate
from tx.model.numpy_engine import NumpyStepper, NumpyTransformer
from tx.model.shortlist import HEADER, MAGIC, Shortlist
from tx.model.torch_engine import TorchStepper
from tx.model.transformer import Transformer

OFFSETS, IDS, VOCAB = [0, 2, 2, 5], [7, 9, 4, 7, 11], 12


def content(offsets: list[int] = OFFSETS, ids: list[int] = IDS, frequent: int = 3, magic: int = MAGIC) -> bytes:
    head = HEADER.pack(magic, 0, frequent, 2, len(offsets), len(ids))
    return head + struct.pack(f"<{len(offsets)}Q", *offsets) + struct.pack(f"<{len(ids)}I", *ids)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "lex.s2t.bin"
    found.write_bytes(content())
    return found


def test_candidates_are_those_of_all_sources_and_the_frequent_pieces(path: Path) -> None:
    found = shortlist.read(path, VOCAB, shared=False)
    assert found.candidates([[0]]).tolist() == [0, 1, 2, 7, 9]
    assert found.candidates([[1]]).tolist() == [0, 1, 2]
    assert found.candidates([[0, 1], [2, 0]]).tolist() == [0, 1, 2, 4, 7, 9, 11]
    assert found.candidates([[1]], always=[8]).tolist() == [0, 1, 2, 8]
    assert found.candidates([[10]]).tolist() == [0, 1, 2]  # a source piece that the file does not know


def test_with_one_vocabulary_the_source_itself_may_be_written(path: Path) -> None:
    assert shortlist.read(path, VOCAB).candidates([[0, 10], [1]]).tolist() == [0, 1, 2, 7, 9, 10]


@pytest.mark.parametrize(
    ("damaged", "words"),
    [
        (b"", "not a lexical shortlist"),
        (content()[:40], "not a lexical shortlist"),
        (content(magic=MAGIC + 1), "not a lexical shortlist"),
        (content()[:-1], "is damaged: it has 99 bytes, its header says 100"),
        (content() + b"x", "is damaged"),
        (HEADER.pack(MAGIC, 0, 3, 2, 2**60, 2**60), "is damaged"),
        (HEADER.pack(MAGIC, 0, 3, 2, 2**64 - 1, 2**64 - 1), "is damaged"),
        (content(offsets=[0, 2, 1, 5]), "offsets"),
        (content(offsets=[1, 2, 2, 5]), "offsets"),
        (content(offsets=[0, 2, 2, 4]), "offsets"),
        (content(offsets=[0, 2**63, 2**64 - 1, 5]), "offsets"),
        (content(offsets=[]), "offsets"),
        (content(ids=[7, 9, 4, 7, 12]), "does not belong to this model"),
        (content(frequent=13), "does not belong to this model"),
        (content(frequent=2**63), "does not belong to this model"),
    ],
)
def test_a_damaged_file(damaged: bytes, words: str, path: Path) -> None:
    path.write_bytes(damaged)
    with pytest.raises(CheckpointError, match=words) as caught:
        shortlist.read(path, VOCAB)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="cannot be read"):
        shortlist.read(tmp_path / "none.bin", VOCAB)


@settings(deadline=None, max_examples=200)
@given(data=st.data())
def test_any_bytes_are_refused_or_make_sense(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    whole = bytearray(content())
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.mktemp("fuzz") / "lex.bin"
    path.write_bytes(whole[: data.draw(st.integers(0, len(whole)))] if data.draw(st.booleans()) else whole)
    try:
        found = shortlist.read(path, VOCAB)
    except CheckpointError:
        return
    assert set(found.candidates([[0, 1, 2, 3]]).tolist()) <= set(range(VOCAB))


# --- in the engines ---


@pytest.fixture(scope="module", params=[{}, {"share_embeddings": False, "tie_output": False, "logits_bias": False}])
def model(request: pytest.FixtureRequest) -> Transformer:
    torch.manual_seed(5)
    sizes: dict[str, Any] = {"d_model": 16, "n_heads": 2, "d_head": 8, "d_ff": 24, "logits_bias": True}
    config = ModelConfig(40, 40, n_encoder_layers=2, n_decoder_layers=2, **{**sizes, **request.param})
    found = Transformer(config).eval()
    with torch.no_grad():
        for parameter in found.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.5)
    return found


def candidates(src: Any) -> np.ndarray[Any, Any]:
    """The end piece and every third."""
    return np.array([1, *range(4, 40, 3)])


@pytest.mark.parametrize("beam", [1, 3])
def test_both_engines_write_only_what_is_on_the_list(model: Transformer, beam: int) -> None:
    numpy_model = NumpyTransformer(model.config, {name: t.numpy() for name, t in model.state_dict().items()})
    src = [[5, 9, 22, 1], [8, 1], [30, 31, 32, 33, 1]]
    special, search = SpecialIds(0, 1, 2), GenerationConfig(beam_size=beam, max_length=7, no_repeat_ngram=1)
    found = []
    for stepper in (NumpyStepper(numpy_model, 0, candidates), TorchStepper(model, 0, candidates)):
        found.append([best[0] for best in generate(stepper, src, config=search, special=special, prefix=[2])])
        assert all(set(hypothesis.ids) <= set(candidates(src).tolist()) for hypothesis in found[-1])
    assert [h.ids for h in found[0]] == [h.ids for h in found[1]]
    assert [h.log_prob for h in found[0]] == pytest.approx([h.log_prob for h in found[1]], abs=1e-3)
    free = [best[0] for best in generate(NumpyStepper(numpy_model, 0), src, config=search, special=special, prefix=[2])]
    assert [h.ids for h in free] != [h.ids for h in found[0]]  # it makes a difference


def test_logits_of_what_is_on_the_list_are_the_same(model: Transformer) -> None:
    numpy_model = NumpyTransformer(model.config, {name: t.numpy() for name, t in model.state_dict().items()})
    free, short = NumpyStepper(numpy_model, 0), NumpyStepper(numpy_model, 0, candidates)
    ids = np.array([2, 2], np.int64)
    src = [[5, 9, 1], [8, 1]]
    all_logits, some = free.step(ids, free.start(src, 1)), short.step(ids, short.start(src, 1))
    listed = candidates(src)
    assert some[:, listed] == pytest.approx(all_logits[:, listed], abs=1e-4)
    assert np.isneginf(np.delete(some, listed, axis=1)).all()


def test_it_is_made_without_a_file() -> None:
    found = Shortlist(1, np.array([0, 1], np.uint64), np.array([3], np.uint32))
    assert found.candidates([[0]]).tolist() == [0, 3]
