"""Configurations: what is refused, with which words, and that JSON brings back what was written."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from tx.model.config import CheckpointConfig, GenerationConfig, ModelConfig, SpecialIds, Task, from_dict
from tx.model.errors import ConfigError, TxError

SIZES = {"src_vocab_size": 100, "tgt_vocab_size": 100}


def test_the_defaults_are_the_base_model_of_the_paper() -> None:
    config = ModelConfig(**SIZES)
    assert (config.d_model, config.n_heads, config.d_head, config.d_ff) == (512, 8, 64, 2048)
    assert (config.n_encoder_layers, config.n_decoder_layers) == (6, 6)
    assert (config.norm, config.norm_first, config.activation, config.gated_ffn) == ("layer", False, "relu", False)
    assert (config.positions, config.sinusoid_layout, config.position_offset) == ("sinusoidal", "interleaved", 0)
    assert config.scale_attention and config.scale_embedding and config.share_embeddings and config.tie_output


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"d_model": 0}, "d_model is out of range: 0"),
        ({"n_heads": -1}, "n_heads is out of range: -1"),
        ({"n_decoder_layers": 0}, "n_decoder_layers is out of range"),
        ({"src_vocab_size": 0, "tgt_vocab_size": 0}, "src_vocab_size is out of range"),
        ({"n_segments": -1}, "n_segments is out of range: -1"),
        ({"position_offset": -1}, "position_offset is out of range: -1"),
        ({"d_ff": 2048.0}, "d_ff must be of type int, not 2048.0"),
        ({"d_head": "64"}, "d_head must be of type int, not '64'"),
        ({"n_heads": True}, "n_heads must be of type int, not True"),
        ({"norm_first": 1}, "norm_first must be of type bool, not 1"),
        ({"norm_eps": "small"}, "norm_eps must be of type float"),
        ({"norm_eps": 0.0}, "norm_eps must be between 0 and 1, not 0.0"),
        ({"norm_eps": 1}, "norm_eps must be between 0 and 1, not 1"),
        ({"norm_eps": float("nan")}, "norm_eps must be between 0 and 1"),
        ({"activation": "tanh"}, "activation must be one of relu, gelu, gelu_tanh, silu, not 'tanh'"),
        ({"activation": None}, "activation must be of type str, not None"),
        ({"norm": "batch"}, "norm must be one of layer, rms"),
        ({"positions": "none"}, "positions must be one of sinusoidal, learned, relative"),
        ({"sinusoid_layout": "thirds"}, "sinusoid_layout must be one of interleaved, halves, tensor2tensor"),
        ({"decoder_autoregression": "lstm"}, "decoder_autoregression must be one of attention, ssru"),
        ({"tgt_vocab_size": 99}, "share_embeddings needs src_vocab_size = tgt_vocab_size"),
        (
            {"tgt_vocab_size": 99, "share_embeddings": False, "pointer_generator": True},
            "pointer_generator needs one vocabulary: src_vocab_size = tgt_vocab_size",
        ),
        ({"pointer_generator": 1}, "pointer_generator must be of type bool, not 1"),
        ({"d_model": 511}, "sinusoidal positions need an even d_model, not 511"),
        ({"positions": "relative", "relative_buckets": 30}, "relative_buckets divisible by 4"),
        ({"positions": "relative", "relative_max_distance": 3}, "a distance of at least 4"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_what_makes_no_model_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        ModelConfig(**{**SIZES, **changes})
    assert words in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "changes",
    [
        {"tgt_vocab_size": 99, "share_embeddings": False},
        {"d_model": 511, "positions": "learned"},
        {"position_offset": 0},
        {"position_offset": 2},
        {"n_segments": 0},
        {"n_segments": 20},
        {"share_embeddings": False, "pointer_generator": True},
        {"relative_buckets": 30},  # of no concern to sinusoids
        {"d_head": 7},  # independent of d_model
    ],
    ids=str,
)
def test_what_makes_a_model_is_not(changes: dict[str, Any]) -> None:
    config = ModelConfig(**{**SIZES, **changes})
    assert {name: getattr(config, name) for name in changes} == changes


def test_a_configuration_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        ModelConfig(**SIZES).d_model = 3  # type: ignore[misc]


@pytest.mark.parametrize("name", ["pad", "eos", "decoder_start", "bos", "unk"])
@pytest.mark.parametrize("value", [-1, "0", 1.0])
def test_special_ids_are_piece_numbers(name: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=f"special id {name} must be a piece number"):
        SpecialIds(**{"pad": 0, "eos": 1, "decoder_start": 2, name: value})


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("beam_size", (0, 65, -1)),
        ("max_length_factor", (-0.1,)),
        ("max_length_constant", (-1,)),
        ("max_length", (0,)),
        ("min_length", (-1,)),
        ("no_repeat_ngram", (-1,)),
        ("temperature", (0.0, -1.0, float("nan"))),
        ("top_k", (-1,)),
        ("top_p", (0.0, 1.01)),
    ],
)
def test_settings_out_of_range_are_refused(name: str, bad: tuple[float, ...]) -> None:
    for value in bad:
        with pytest.raises(ConfigError, match=f"{name} is out of range: {value}"):
            GenerationConfig(**{name: value})


def test_the_length_limit_follows_the_source_up_to_the_hard_one() -> None:
    config = GenerationConfig(max_length_factor=1.5, max_length_constant=4, max_length=20)
    assert [config.length_limit(n) for n in (0, 1, 3, 10, 11, 1000)] == [4, 5, 8, 19, 20, 20]


def checkpoint() -> CheckpointConfig:
    return CheckpointConfig(
        model=ModelConfig(**SIZES, d_model=32, norm="rms", norm_eps=1e-6, tie_output=False),
        special=SpecialIds(pad=0, eos=1, decoder_start=2, unk=3),
        generation=GenerationConfig(beam_size=6, length_penalty=0.6, suppress=(3, 7), seed=5),
        tasks={
            "translate:zh": Task(src_prefix=(4,), tgt_prefix=(2, 4), source="en", target="zh"),
            "summarize": Task(tgt_prefix=(9,)),
        },
        name="tiny",
    )


def test_json_brings_back_what_was_written() -> None:
    config = checkpoint()
    again = CheckpointConfig.from_json(json.loads(json.dumps(config.to_json())))
    assert again == config
    assert isinstance(again.generation.suppress, tuple) and isinstance(again.tasks["summarize"].tgt_prefix, tuple)


def test_what_is_not_said_is_the_default() -> None:
    values = {"format": 1, "model": SIZES, "special": {"pad": 0, "eos": 1, "decoder_start": 0}}
    config = CheckpointConfig.from_json(values)
    assert config == CheckpointConfig(ModelConfig(**SIZES), SpecialIds(0, 1, 0))
    assert config.generation == GenerationConfig() and config.tasks == {} and config.name == ""


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("format", 2, "unknown checkpoint format 2: this version of tx reads format 1"),
        ("format", None, "unknown checkpoint format None"),
        ("colour", "red", "unknown field 'colour'"),
        ("model", None, "no section 'model'"),
        ("special", [0, 1], "no section 'special'"),
        ("model.d_modle", 32, "unknown field 'd_modle' in ModelConfig"),
        ("model.src_vocab_size", None, "missing field 'src_vocab_size' in ModelConfig"),
        ("model.d_ff", -3, "d_ff is out of range: -3"),
        ("special.eos", None, "missing field 'eos' in SpecialIds"),
        ("special.sep", 3, "unknown field 'sep' in SpecialIds"),
        ("generation.beam_size", 0, "beam_size is out of range: 0"),
        ("generation.beams", 4, "unknown field 'beams' in GenerationConfig"),
        ("tasks.summarize.prefix", [1], "unknown field 'prefix' in Task"),
    ],
)
def test_a_fault_in_json_is_named(path: str, value: Any, words: str) -> None:
    """`value` None takes the field away."""
    values = checkpoint().to_json()
    *parents, name = path.split(".")
    section = values
    for parent in parents:
        section = section[parent]
    if value is None:
        del section[name]
    else:
        section[name] = value
    with pytest.raises(ConfigError) as caught:
        CheckpointConfig.from_json(values)
    assert words in str(caught.value) and "\n" not in str(caught.value)


def test_a_task_reads_lists() -> None:
    task = from_dict(Task, {"src_prefix": [1, 2], "source": "en"})
    assert task == Task(src_prefix=(1, 2), source="en") and task.tgt_prefix == ()


def test_configuration_errors_are_shown_to_users() -> None:
    assert issubclass(ConfigError, TxError)
