"""M2M100 and NLLB checkpoints against the reference implementation."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from tx.model.config import ModelConfig, SpecialIds

MODELS = {
    "relu": {},
    "unscaled": {"activation_function": "gelu", "scale_embedding": False, "std": 0.4},
    "untied": {"untied": True},
}
LANGUAGE = 61
SEARCH = {"encoder_layers": 1, "decoder_layers": 2, "seed": 4}


@pytest.mark.parametrize("settings", MODELS.values(), ids=MODELS)
def test_logits_and_attention_are_those_of_the_reference(parity: Any, settings: dict[str, Any]) -> None:
    pair = parity.pair("m2m_100", **settings)
    pair.check_torch()
    pair.check_numpy()


@pytest.mark.parametrize("settings", MODELS.values(), ids=MODELS)
def test_the_comparison_is_made_on_logits_worth_comparing(parity: Any, settings: dict[str, Any]) -> None:
    parity.pair("m2m_100", **settings).check_it_is_worth_comparing()


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(ModelConfig)])
def test_a_wrong_fact_does_not_go_unnoticed(parity: Any, field: str) -> None:
    parity.pair("m2m_100", **MODELS["relu"]).check_field(field)


@pytest.mark.parametrize("name", ["q_proj.bias", "final_norm.bias", "w_2.weight", "src_embedding.weight"])
def test_a_small_change_of_any_kind_of_tensor_shows(parity: Any, name: str) -> None:
    assert parity.pair("m2m_100").changed_tensor(name) > 10 * parity.SAME


@pytest.mark.parametrize("engine", ["torch", "numpy"])
@pytest.mark.usefixtures("no_loop_detection")
def test_searches_with_a_forced_language_find_what_the_reference_finds(parity: Any, engine: str) -> None:
    search = parity.search("m2m_100", before=[LANGUAGE], **SEARCH)
    search.check(engine)


@pytest.mark.parametrize("length_penalty", [0.5, 1.0, 2.0])
@pytest.mark.usefixtures("no_loop_detection")
def test_searches_end_when_those_of_the_reference_do(parity: Any, length_penalty: float) -> None:
    parity.search("m2m_100", before=[LANGUAGE], **SEARCH).check_stopping(length_penalty)


def test_facts_come_from_the_configuration(parity: Any) -> None:
    pair = parity.pair("m2m_100")
    converted = pair.converted
    assert converted.special == SpecialIds(pad=1, eos=2, decoder_start=2, bos=0)
    model = converted.model
    assert (model.norm_first, model.final_norm, model.embedding_norm, model.scale_embedding) == (
        True,
        True,
        False,
        True,
    )
    assert (model.sinusoid_layout, model.position_offset, model.activation) == ("tensor2tensor", 2, "relu")
    values = {"max_length": 200, "num_beams": 5, "forced_bos_token_id": LANGUAGE}
    generation = parity.converted("m2m_100", pair.reference, **values).generation
    assert (generation.max_length, generation.beam_size) == (198, 5)


def test_a_table_of_positions_must_be_the_sinusoids(parity: Any) -> None:
    """Old files have it: two rows more than positions, the one of padding zero."""
    reference = parity.pair("m2m_100").reference
    name = "model.encoder.embed_positions.weights"
    table = reference.model.encoder.embed_positions.weights.numpy()
    tensors = parity.stored_arrays(reference)
    assert parity.converted("m2m_100", reference, tensors=tensors | {name: table})
    parity.refused("m2m_100", reference, {}, "does not hold the sinusoids", tensors | {name: table[::-1].copy()})
    parity.refused(
        "m2m_100", reference, {}, "has shape 160×32, but config.json says 162×32", tensors | {name: table[2:]}
    )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"pad_token_id": 0}, "pad_token_id is 0; only 1"),
        ({"vocab_size": None}, "has no vocab_size"),
        ({"decoder_attention_heads": 2}, "must be equal"),
        ({"decoder_start_token_id": 67}, "decoder_start_token_id is 67, which is not the number of one of 67 pieces"),
        (
            {"forced_bos_token_id": 61, "max_length": 2},
            "config.json: max_length is 2, which leaves no room for an output",
        ),
        ({"scale_embedding": "yes"}, "scale_embedding must be of type bool"),
    ],
    ids=str,
)
def test_a_fact_that_cannot_be_is_named(parity: Any, changes: dict[str, Any], words: str) -> None:
    parity.refused("m2m_100", parity.pair("m2m_100").reference, changes, words)
