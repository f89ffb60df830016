"""T5 checkpoints, v1.0, v1.1 and Flan, against the reference implementation."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from tx.model.config import ModelConfig, SpecialIds

NEWER: dict[str, Any] = {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False, "untied": True, "std": 0.12}
MODELS: dict[str, dict[str, Any]] = {
    "v1.0": {"layer_norm_epsilon": 0.01},
    "v1.1": NEWER,
    "gated-silu": {"feed_forward_proj": "gated-silu", "relative_attention_num_buckets": 16},
}
SEARCH = {
    "num_layers": 2,
    "num_decoder_layers": 2,
    "seed": 4,
}  # the reference's cache has no more layers than the encoder


@pytest.mark.parametrize("settings", MODELS.values(), ids=MODELS)
def test_logits_and_attention_are_those_of_the_reference(parity: Any, settings: dict[str, Any]) -> None:
    pair = parity.pair("t5", **settings)
    pair.check_torch()
    pair.check_numpy()


@pytest.mark.parametrize("settings", MODELS.values(), ids=MODELS)
def test_the_comparison_is_made_on_logits_worth_comparing(parity: Any, settings: dict[str, Any]) -> None:
    parity.pair("t5", **settings).check_it_is_worth_comparing()


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(ModelConfig)])
@pytest.mark.parametrize("model", ["v1.0", "v1.1"])
def test_a_wrong_fact_does_not_go_unnoticed(parity: Any, model: str, field: str) -> None:
    parity.pair("t5", **MODELS[model]).check_field(field)


@pytest.mark.parametrize(
    "name", ["q_proj.weight", "final_norm.weight", "relative_bias.weight", "cross_attn_norm.weight"]
)
def test_a_small_change_of_any_kind_of_tensor_shows(parity: Any, name: str) -> None:
    assert parity.pair("t5", **MODELS["v1.0"]).changed_tensor(name) > 10 * parity.SAME


@pytest.mark.parametrize("engine", ["torch", "numpy"])
@pytest.mark.parametrize("version", ["v1.0", "v1.1"])
@pytest.mark.usefixtures("no_loop_detection")
def test_searches_find_what_the_reference_finds(parity: Any, engine: str, version: str) -> None:
    parity.search("t5", **MODELS[version], **SEARCH).check(engine)


def test_facts_come_from_the_configuration(parity: Any) -> None:
    converted = parity.pair("t5", **MODELS["v1.0"]).converted
    assert converted.special == SpecialIds(pad=0, eos=1, decoder_start=0)
    assert converted.model == ModelConfig(
        src_vocab_size=67,
        tgt_vocab_size=67,
        d_model=32,
        n_heads=4,
        d_head=6,
        d_ff=48,
        n_encoder_layers=2,
        n_decoder_layers=3,
        norm="rms",
        norm_first=True,
        final_norm=True,
        norm_eps=0.01,
        bias=False,
        positions="relative",
        max_positions=512,
        scale_attention=False,
        scale_embedding=False,
        scale_logits=True,
    )
    newer = parity.pair("t5", **NEWER).converted.model
    assert (newer.activation, newer.gated_ffn, newer.tie_output, newer.scale_logits) == (
        "gelu_tanh",
        True,
        False,
        False,
    )


def test_whether_the_output_is_tied(parity: Any) -> None:
    """Older files say it; in newer ones there is an output layer or there is none, and another key for the scale."""
    reference = parity.pair("t5", **NEWER).reference
    assert reference.config.to_dict()["tie_word_embeddings"] is True
    tensors = parity.stored_arrays(reference)
    without = {name: array for name, array in tensors.items() if name != "lm_head.weight"}

    def model(**changes: Any) -> ModelConfig:
        return parity.converted("t5", reference, **changes).model  # type: ignore[no-any-return]

    older = {"scale_decoder_outputs": None, "tie_word_embeddings": False}
    assert not model(**older).tie_output and not model(**older).scale_logits
    assert model(tensors=without).tie_output and not model(tensors=without).scale_logits
    first = {"scale_decoder_outputs": None, "tie_word_embeddings": True}
    assert model(tensors=without, **first).tie_output and model(tensors=without, **first).scale_logits
    assert model(tensors=without, **{**first, "tie_word_embeddings": None}).scale_logits
    parity.refused("t5", reference, older, "missing: lm_head.weight", without)
    parity.refused("t5", reference, first, "shared.weight and lm_head.weight differ")


def test_a_tensor_that_no_one_uses_may_be_there(parity: Any) -> None:
    reference = parity.pair("t5", **MODELS["v1.0"]).reference
    old = {"decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight": np.zeros((32, 4), np.float32)}
    assert parity.converted("t5", reference, tensors=parity.stored_arrays(reference) | old)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"feed_forward_proj": "gated-tanh"}, "feed_forward_proj 'gated-tanh' is not one of relu, gated-relu"),
        ({"feed_forward_proj": "gated-gelu"}, "feed_forward_proj is 'gated-gelu', but dense_act_fn is 'relu'"),
        ({"is_gated_act": True}, "feed_forward_proj is 'relu', but is_gated_act is True instead of False"),
        ({"d_kv": None}, "has no d_kv"),
        ({"d_kv": 8}, "SelfAttention.q.weight has shape 24×32, but config.json says 32×32"),
        ({"num_heads": "4"}, "num_heads: n_heads must be of type int"),
        ({"relative_attention_num_buckets": 30}, "relative positions need relative_buckets divisible by 4"),
        ({"layer_norm_epsilon": 0}, "layer_norm_epsilon: norm_eps must be between 0 and 1"),
        ({"num_decoder_layers": 4}, "missing: decoder.block.3."),
        ({"is_encoder_decoder": False}, "is_encoder_decoder is False"),
    ],
    ids=str,
)
def test_a_fact_that_cannot_be_is_named(parity: Any, changes: dict[str, Any], words: str) -> None:
    parity.refused("t5", parity.pair("t5", **MODELS["v1.0"]).reference, changes, words)
