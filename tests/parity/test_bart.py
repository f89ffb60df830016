"""BART checkpoints against the reference implementation."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from tx.model.config import GenerationConfig, ModelConfig, SpecialIds

MODELS = {
    "gelu": {},
    "gelu_new": {"activation_function": "gelu_new", "encoder_attention_heads": 2, "decoder_attention_heads": 2},
    "scaled": {"activation_function": "relu", "scale_embedding": True},
}
SEARCH = {"encoder_layers": 1, "decoder_layers": 2, "seed": 5}


@pytest.mark.parametrize("settings", MODELS.values(), ids=MODELS)
def test_logits_and_attention_are_those_of_the_reference(parity: Any, settings: dict[str, Any]) -> None:
    pair = parity.pair("bart", **settings)
    pair.check_torch()
    pair.check_numpy()


@pytest.mark.parametrize("settings", MODELS.values(), ids=MODELS)
def test_the_comparison_is_made_on_logits_worth_comparing(parity: Any, settings: dict[str, Any]) -> None:
    parity.pair("bart", **settings).check_it_is_worth_comparing()


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(ModelConfig)])
def test_a_wrong_fact_does_not_go_unnoticed(parity: Any, field: str) -> None:
    parity.pair("bart", **MODELS["gelu"]).check_field(field)


@pytest.mark.parametrize("name", ["q_proj.bias", "o_proj.weight", "embedding_norm.bias", "cross_attn.k_proj.weight"])
def test_a_small_change_of_any_kind_of_tensor_shows(parity: Any, name: str) -> None:
    assert parity.pair("bart").changed_tensor(name) > 10 * parity.SAME


@pytest.mark.parametrize("engine", ["torch", "numpy"])
@pytest.mark.parametrize("length_penalty", [1.0, 2.0])
@pytest.mark.usefixtures("no_loop_detection")
def test_searches_find_what_the_reference_finds(parity: Any, engine: str, length_penalty: float) -> None:
    parity.search("bart", **SEARCH).check(engine, length_penalty)


@pytest.mark.usefixtures("no_loop_detection")
def test_settings_of_the_search_mean_the_same(parity: Any) -> None:
    """Their lengths count the start and the forced first piece, which ours have in the prefix. (So do their n-grams: here
    neither piece is written again.)"""
    settings = {"min_length": 9, "no_repeat_ngram_size": 2, "length_penalty": 2.0, "bad_words_ids": [[0], [1]]}
    search = parity.search("bart", before=[0], **SEARCH)
    values = {"num_beams": 4, "max_length": 80, "forced_bos_token_id": 0, "forced_eos_token_id": None, **settings}
    ours = parity.converted("bart", search.reference, **values).generation
    assert ours == GenerationConfig(
        beam_size=4,
        max_length=78,
        max_length_factor=0.0,
        max_length_constant=78,
        length_penalty=2.0,
        early_stopping=False,
        min_length=7,
        no_repeat_ngram=2,
        suppress=(0,),
        renormalize=False,
    )
    theirs = search.theirs(4, **settings)
    assert min(len(ids) for hs in theirs for ids, _ in hs) == 7
    searched = {"beam_size": 4, "length_penalty": 2.0, "min_length": 7, "no_repeat_ngram": 2, "suppress": (0,)}
    search.compare("torch", theirs, early_stopping=False, renormalize=False, **searched)


def test_facts_come_from_the_configuration(parity: Any) -> None:
    converted = parity.pair("bart").converted
    assert converted.special == SpecialIds(pad=1, eos=2, decoder_start=2, bos=0)
    assert converted.model == ModelConfig(
        src_vocab_size=67,
        tgt_vocab_size=67,
        d_model=32,
        n_heads=4,
        d_head=8,
        d_ff=48,
        n_encoder_layers=2,
        n_decoder_layers=3,
        max_positions=160,
        activation="gelu",
        positions="learned",
        position_offset=2,
        embedding_norm=True,
        scale_embedding=False,
        logits_bias=True,
    )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"normalize_before": True}, "normalize_before is True; only False"),
        ({"normalize_embedding": False}, "normalize_embedding is False; only True"),
        ({"static_position_embeddings": True}, "static_position_embeddings is True"),
        ({"extra_pos_embeddings": 0}, "extra_pos_embeddings is 0; only 2"),
        ({"is_encoder_decoder": False}, "is_encoder_decoder is False"),
        ({"max_position_embeddings": 161}, "embed_positions.weight has shape 162×32, but config.json says 163×32"),
        ({"activation_function": "tanh"}, "activation_function 'tanh' is not one of relu, gelu"),
        ({"encoder_layers": 2**40}, "encoder_layers is out of range"),
        ({"vocab_size": 60}, "has shape 67×32, but config.json says 60×32"),
        ({"tie_word_embeddings": False}, "missing: lm_head.weight"),
    ],
    ids=str,
)
def test_a_fact_that_cannot_be_is_named(parity: Any, changes: dict[str, Any], words: str) -> None:
    parity.refused("bart", parity.pair("bart").reference, changes, words)


def test_files_that_leave_things_out(parity: Any) -> None:
    """Files saved as the model without its output layer have other names and no bias; old ones have tensors that no one
    uses."""
    reference = parity.pair("bart").reference
    tensors = parity.stored_arrays(reference)
    bare = {name.removeprefix("model."): array for name, array in tensors.items() if name != "final_logits_bias"}
    converted = parity.converted("bart", reference, tensors=bare)
    assert not converted.model.logits_bias
    assert {*converted.tensors, "logits_bias"} == set(parity.pair("bart").converted.tensors)
    old = tensors | {"model.encoder.version": tensors["model.encoder.embed_positions.weight"]}
    assert parity.converted("bart", reference, tensors=old).model.logits_bias
