"""mBART checkpoints, one language a model or fifty, against the reference implementation."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from tx.model.config import GenerationConfig, ModelConfig, SpecialIds

MODELS = {
    "scaled": {"scale_embedding": True, "decoder_start_token_id": 2},
    "relu": {"activation_function": "relu", "decoder_start_token_id": 60},
}
LANGUAGE = 61
SEARCH = {"encoder_layers": 1, "decoder_layers": 2, "seed": 4, "scale_embedding": True}


@pytest.mark.parametrize("settings", MODELS.values(), ids=MODELS)
def test_logits_and_attention_are_those_of_the_reference(parity: Any, settings: dict[str, Any]) -> None:
    pair = parity.pair("mbart", **settings)
    pair.check_torch()
    pair.check_numpy()


@pytest.mark.parametrize("settings", MODELS.values(), ids=MODELS)
def test_the_comparison_is_made_on_logits_worth_comparing(parity: Any, settings: dict[str, Any]) -> None:
    parity.pair("mbart", **settings).check_it_is_worth_comparing()


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(ModelConfig)])
def test_a_wrong_fact_does_not_go_unnoticed(parity: Any, field: str) -> None:
    parity.pair("mbart", **MODELS["scaled"]).check_field(field)


@pytest.mark.parametrize("name", ["v_proj.bias", "final_norm.weight", "embedding_norm.bias", "w_1.weight"])
def test_a_small_change_of_any_kind_of_tensor_shows(parity: Any, name: str) -> None:
    assert parity.pair("mbart", **MODELS["scaled"]).changed_tensor(name) > 10 * parity.SAME


@pytest.mark.parametrize("engine", ["torch", "numpy"])
@pytest.mark.usefixtures("no_loop_detection")
def test_searches_started_with_a_language_find_what_the_reference_finds(parity: Any, engine: str) -> None:
    """The first mBART: the decoder starts with the language."""
    search = parity.search("mbart", decoder_start_token_id=LANGUAGE, **SEARCH)
    assert search.start == LANGUAGE
    search.check(engine)


@pytest.mark.parametrize("engine", ["torch", "numpy"])
@pytest.mark.usefixtures("no_loop_detection")
def test_searches_with_a_forced_language_find_what_the_reference_finds(parity: Any, engine: str) -> None:
    """mBART-50: the language is forced after the start, which is the end piece."""
    search = parity.search("mbart", before=[LANGUAGE], decoder_start_token_id=2, **SEARCH)
    search.check(engine)


def test_facts_come_from_the_configuration(parity: Any) -> None:
    converted = parity.pair("mbart", **MODELS["scaled"]).converted
    assert converted.special == SpecialIds(pad=1, eos=2, decoder_start=2, bos=0)
    assert converted.generation == GenerationConfig(early_stopping=False, renormalize=False)
    model = converted.model
    assert (model.norm_first, model.final_norm, model.embedding_norm, model.scale_embedding) == (True,) * 4
    assert (model.positions, model.position_offset, model.activation) == ("learned", 2, "gelu")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"normalize_before": False}, "normalize_before is False; only True"),
        ({"add_final_layer_norm": False}, "add_final_layer_norm is False; only True"),
        ({"decoder_start_token_id": None}, "decoder_start_token_id is None"),
        ({"decoder_ffn_dim": 64}, "encoder_ffn_dim (48) and decoder_ffn_dim (64) must be equal"),
        ({"model_type": "mbart", "d_model": 40}, "has shape"),
        ({"num_beams": True}, "num_beams is True, which is no number that it can be"),
        ({"early_stopping": 1}, 'early_stopping is 1, not true, false or "never"'),
        ({"length_penalty": float("nan")}, "length_penalty is nan"),
    ],
    ids=str,
)
def test_a_fact_that_cannot_be_is_named(parity: Any, changes: dict[str, Any], words: str) -> None:
    parity.refused("mbart", parity.pair("mbart", **MODELS["scaled"]).reference, changes, words)
