"""Marian checkpoints against the reference implementation, and every way in which one can fail to be converted."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tx.model.config import GenerationConfig, ModelConfig
from tx.model.convert import convert_folder, convert_tensors
from tx.model.errors import CheckpointError
from tx.model.families import MARIAN

OWN = {"pad_token_id": 50, "decoder_start_token_id": 50}
MODELS: dict[str, dict[str, Any]] = {
    "swish": {"activation_function": "swish", "scale_embedding": True},
    "separate": {
        "activation_function": "relu",
        "share_encoder_decoder_embeddings": False,
        "decoder_vocab_size": 59,
        "scale_embedding": False,
        "std": 0.4,
    },
    "gelu": {
        "activation_function": "gelu",
        "scale_embedding": True,
        "encoder_attention_heads": 2,
        "decoder_attention_heads": 2,
    },
    "gelu_new": {"activation_function": "gelu_new", "scale_embedding": True},
}
SEARCH = {**OWN, **MODELS["swish"], "eos_token_id": 0, "encoder_layers": 1, "decoder_layers": 2, "seed": 4}


@pytest.mark.parametrize("settings", MODELS.values(), ids=MODELS)
def test_logits_and_attention_are_those_of_the_reference(parity: Any, settings: dict[str, Any]) -> None:
    pair = parity.pair("marian", **OWN, **settings)
    pair.check_torch()
    pair.check_numpy()


@pytest.mark.parametrize("settings", MODELS.values(), ids=MODELS)
def test_the_comparison_is_made_on_logits_worth_comparing(parity: Any, settings: dict[str, Any]) -> None:
    parity.pair("marian", **OWN, **settings).check_it_is_worth_comparing()


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(ModelConfig)])
@pytest.mark.parametrize("model", ["swish", "separate"])
def test_a_wrong_fact_does_not_go_unnoticed(parity: Any, model: str, field: str) -> None:
    parity.pair("marian", **OWN, **MODELS[model]).check_field(field)


@pytest.mark.parametrize(
    "name", ["q_proj.bias", "o_proj.weight", "ffn_norm.bias", "cross_attn.k_proj.weight", "w_2.bias"]
)
def test_a_small_change_of_any_kind_of_tensor_shows(parity: Any, name: str) -> None:
    assert parity.pair("marian", **OWN, **MODELS["swish"]).changed_tensor(name) > 10 * parity.SAME


@pytest.mark.parametrize("engine", ["torch", "numpy"])
@pytest.mark.parametrize("length_penalty", [0.0, 0.6])
@pytest.mark.usefixtures("no_loop_detection")
def test_searches_find_what_the_reference_finds(parity: Any, engine: str, length_penalty: float) -> None:
    parity.search("marian", **SEARCH).check(engine, length_penalty)


# --- what cannot be converted ---


@pytest.fixture(scope="module")
def checkpoint(parity: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """config.json and the tensors, each copy under its own name, as old files have them."""
    reference = parity.build("marian", **OWN, **MODELS["swish"])
    return reference.config.to_dict(), parity.arrays(reference.state_dict())


def refused(values: dict[str, Any], tensors: dict[str, Any], *words: str) -> None:
    with pytest.raises(CheckpointError) as caught:
        convert_tensors(MARIAN, values, tensors)
    assert all(word in str(caught.value) for word in words) and "\n" not in str(caught.value), str(caught.value)


def test_every_tensor_is_missed(checkpoint: tuple[dict[str, Any], dict[str, Any]]) -> None:
    values, tensors = checkpoint
    copies = {
        "model.shared.weight",
        "model.encoder.embed_tokens.weight",
        "model.decoder.embed_tokens.weight",
        "lm_head.weight",
    }
    may_lack = copies | set(MARIAN.sinusoids)
    for name in tensors:
        rest = {other: tensor for other, tensor in tensors.items() if other != name}
        if name in may_lack:
            assert (
                convert_tensors(MARIAN, values, rest).tensors.keys()
                == convert_tensors(MARIAN, values, tensors).tensors.keys()
            )
        else:
            refused(values, rest, "missing", name)
    refused(values, {n: t for n, t in tensors.items() if n not in copies}, "missing", "model.shared.weight")


def test_every_tensor_has_one_shape(checkpoint: tuple[dict[str, Any], dict[str, Any]]) -> None:
    values, tensors = checkpoint
    for name, tensor in tensors.items():
        refused(values, tensors | {name: np.concatenate((tensor, tensor[-1:]))}, name, "has shape")
        if tensor.ndim == 2 and tensor.shape[0] != tensor.shape[1]:
            refused(values, tensors | {name: tensor.T}, name, "has shape")


@pytest.mark.parametrize(
    "name",
    [
        "model.encoder.layers.2.fc1.weight",  # the configuration says 2 layers
        "model.encoder.layers.0.encoder_attn.q_proj.weight",
        "model.encoder.layernorm_embedding.weight",
        "model.decoder.layers.0.self_attn.q_proj.weight_scale",
        "final_logits_bias2",
    ],
)
def test_a_tensor_that_no_rule_knows_is_unexpected(
    checkpoint: tuple[dict[str, Any], dict[str, Any]], name: str
) -> None:
    values, tensors = checkpoint
    refused(values, tensors | {name: np.zeros(32, np.float32)}, "unexpected", name)


def test_a_half_tied_copy_is_named(checkpoint: tuple[dict[str, Any], dict[str, Any]]) -> None:
    values, tensors = checkpoint
    for name in ("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight"):
        other = tensors[name].copy()
        other[3, 4] += 1e-3
        refused(values, tensors | {name: other}, "model.shared.weight", name, "differ")
    untied = convert_tensors(MARIAN, values | {"tie_word_embeddings": False}, tensors | {"lm_head.weight": other})
    assert not untied.model.tie_output and np.array_equal(untied.tensors["output.weight"], other)


def test_a_table_of_positions_must_be_the_sinusoids(checkpoint: tuple[dict[str, Any], dict[str, Any]]) -> None:
    values, tensors = checkpoint
    for name in MARIAN.sinusoids:
        rounded = torch.from_numpy(tensors[name]).bfloat16().float().numpy()
        assert convert_tensors(MARIAN, values, tensors | {name: rounded})
        refused(values, tensors | {name: np.roll(tensors[name], 1, 0)}, name, "sinusoids")
        interleaved = tensors[name].reshape(-1, 2, 16).swapaxes(1, 2).reshape(-1, 32)
        refused(values, tensors | {name: interleaved}, name, "sinusoids")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"d_model": None}, "has no d_model"),
        ({"d_model": 48}, "has shape"),
        ({"d_model": "32"}, "d_model must be of type int"),
        (
            {"encoder_attention_heads": 3, "decoder_attention_heads": 3},
            "d_model (32) is not a multiple of encoder_attention_heads (3)",
        ),
        ({"decoder_attention_heads": 2}, "encoder_attention_heads (4) and decoder_attention_heads (2) must be equal"),
        ({"decoder_ffn_dim": 40}, "decoder_ffn_dim (40) must be equal"),
        ({"encoder_layers": 3}, "missing: model.encoder.layers.2."),
        ({"decoder_layers": 10**9}, "1000000002 layers, but there are only"),
        ({"activation_function": "mish"}, "activation_function 'mish' is not one of relu"),
        ({"static_position_embeddings": False}, "static_position_embeddings is False; only True"),
        ({"normalize_before": True}, "normalize_before is True; only False"),
        ({"share_encoder_decoder_embeddings": False}, "unexpected: model.shared.weight"),
        ({"decoder_vocab_size": 60}, "share_embeddings needs src_vocab_size = tgt_vocab_size"),
        ({"pad_token_id": None}, "pad_token_id is None"),
        ({"decoder_start_token_id": 67}, "decoder_start_token_id is 67, which is not the number of one of 67 pieces"),
        ({"bos_token_id": -1}, "bos_token_id is -1"),
        ({"eos_token_id": [0, 99]}, "eos_token_id is 99"),
        ({"bad_words_ids": [[3, 99]]}, "bad_words_ids has [[3, 99]], which are not the numbers"),
        ({"num_beams": 0}, "num_beams: beam_size is out of range: 0"),
        ({"max_length": "long"}, "max_length is 'long', which is no number"),
        ({"bad_words_ids": [["a"]]}, "bad_words_ids has [['a']], which are not the numbers of pieces"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_a_fact_that_cannot_be_is_named(
    checkpoint: tuple[dict[str, Any], dict[str, Any]], changes: dict[str, Any], words: str
) -> None:
    values, tensors = checkpoint
    refused(values | changes, tensors, words)


def test_facts_come_from_the_configuration(checkpoint: tuple[dict[str, Any], dict[str, Any]]) -> None:
    values, tensors = checkpoint
    search = {
        "num_beams": 6,
        "max_length": 512,
        "length_penalty": 0.8,
        "early_stopping": True,
        "bad_words_ids": [[50], [7]],
        "eos_token_id": [0],
        "forced_eos_token_id": None,
    }
    converted = convert_tensors(MARIAN, values | search, tensors)
    assert (converted.special.pad, converted.special.eos, converted.special.decoder_start) == (50, 0, 50)
    assert converted.generation == GenerationConfig(
        beam_size=6,
        max_length=511,
        max_length_factor=0.0,
        max_length_constant=511,
        length_penalty=0.8,
        suppress=(7,),
        renormalize=False,
    )
    assert converted.model.activation == "silu" and converted.model.d_head == 8


def test_folders(checkpoint: tuple[dict[str, Any], dict[str, Any]], parity: Any, tmp_path: Path) -> None:
    """The reference's own file, and the older kind; and what is wrong with a folder."""
    values, tensors = checkpoint
    expected = convert_tensors(MARIAN, values, tensors)
    parity.build("marian", **OWN, **MODELS["swish"]).save_pretrained(tmp_path / "new")
    (tmp_path / "new" / "generation_config.json").write_text(json.dumps({"num_beams": 5}))
    old = tmp_path / "old"
    old.mkdir()
    (old / "config.json").write_text(json.dumps(values))
    torch.save({name: torch.from_numpy(array) for name, array in tensors.items()}, old / "pytorch_model.bin")
    for name in ("new", "old"):
        found = convert_folder(tmp_path / name)
        assert found.model == expected.model and found.special == expected.special
        assert found.generation.beam_size == (5 if name == "new" else 4)
        assert found.tensors.keys() == expected.tensors.keys()
        assert all(np.array_equal(found.tensors[key], expected.tensors[key]) for key in expected.tensors)

    def fails(words: str) -> None:
        with pytest.raises(CheckpointError) as caught:
            convert_folder(old)
        assert words in str(caught.value) and str(old) in str(caught.value) and "\n" not in str(caught.value)

    torch.save({"model.shared.weight": Path("x")}, old / "pytorch_model.bin")
    fails("holds more than tensors")
    (old / "model.safetensors").write_bytes(b"not one")
    fails("model.safetensors is not a readable safetensors file")
    (old / "model.safetensors").unlink()
    (old / "pytorch_model.bin").unlink()
    fails("there is neither model.safetensors nor pytorch_model.bin")
    (old / "config.json").write_text(json.dumps(values | {"model_type": "pegasus"}))
    fails("model_type 'pegasus' is not known (known: marian, bart, mbart, m2m_100, t5, mt5)")
    (old / "config.json").write_text("{")
    fails("is not valid JSON")
    (old / "config.json").unlink()
    fails("cannot be read")
