"""mT5 checkpoints against the reference implementation: T5 v1.1, all but what its configurations say."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import transformers

from tx.model.config import ModelConfig
from tx.model.convert import convert_folder
from tx.model.errors import CheckpointError

MODELS: dict[str, dict[str, Any]] = {
    "its own output layer": {"untied": True, "std": 0.12},
    "tied": {"num_heads": 2, "relative_attention_num_buckets": 16, "std": 0.12},
}
SEARCH = {"num_layers": 2, "num_decoder_layers": 2, "seed": 4}


@pytest.mark.parametrize("settings", MODELS.values(), ids=MODELS)
def test_logits_and_attention_are_those_of_the_reference(parity: Any, settings: dict[str, Any]) -> None:
    pair = parity.pair("mt5", **settings)
    pair.check_it_is_worth_comparing()
    pair.check_torch()
    pair.check_numpy()


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(ModelConfig)])
def test_a_wrong_fact_does_not_go_unnoticed(parity: Any, field: str) -> None:
    parity.pair("mt5", **MODELS["its own output layer"]).check_field(field)


@pytest.mark.parametrize("name", ["q_proj.weight", "relative_bias.weight", "w_gate.weight", "output.weight"])
def test_a_small_change_of_any_kind_of_tensor_shows(parity: Any, name: str) -> None:
    assert parity.pair("mt5", **MODELS["its own output layer"]).changed_tensor(name) > 10 * parity.SAME


@pytest.mark.parametrize("engine", ["torch", "numpy"])
@pytest.mark.usefixtures("no_loop_detection")
def test_searches_find_what_the_reference_finds(parity: Any, engine: str) -> None:
    parity.search("mt5", untied=True, std=0.12, **SEARCH).check(engine)


def test_whether_the_output_is_tied_is_seen_by_the_tensors(parity: Any) -> None:
    """The public files say one thing, newer ones another."""
    reference = parity.pair("mt5", **MODELS["its own output layer"]).reference
    tensors = parity.stored_arrays(reference)
    without = {name: array for name, array in tensors.items() if name != "lm_head.weight"}
    for said in (True, False, None):
        assert not parity.converted("mt5", reference, tie_word_embeddings=said).model.tie_output
        tied = parity.converted("mt5", reference, tensors=without, tie_word_embeddings=said).model
        assert tied.tie_output and not tied.scale_logits


def test_a_folder(parity: Any, tmp_path: Path) -> None:
    """As the reference reads it, which keeps an output layer that is there; of a relative that is another model, why not."""
    reference = parity.pair("mt5", **MODELS["its own output layer"]).reference
    reference.save_pretrained(tmp_path)
    inputs = parity.pair("mt5", **MODELS["its own output layer"]).inputs
    again = transformers.MT5ForConditionalGeneration.from_pretrained(tmp_path).eval()
    assert (again.lm_head.weight == reference.lm_head.weight).all()
    found = convert_folder(tmp_path)
    assert found.model == parity.convert(reference).model and (found.model.activation, found.model.gated_ffn) == (
        "gelu_tanh",
        True,
    )
    logits, _ = parity.our_model(found)(inputs.src, inputs.mask, inputs.tgt)
    assert parity.pair("mt5", **MODELS["its own output layer"]).difference(logits.detach()) < parity.SAME

    config = tmp_path / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "model_type": "umt5"}))
    with pytest.raises(CheckpointError, match="'umt5' cannot be converted: each of its layers has a table of relative"):
        convert_folder(tmp_path)
