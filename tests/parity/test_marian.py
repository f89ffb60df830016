"""Marian checkpoints against the reference implementation, and every way in which one can fail to be converted."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tx.model import generation
from tx.model.config import GenerationConfig
from tx.model.convert import Converted, convert_folder, convert_tensors
from tx.model.errors import CheckpointError
from tx.model.families import MARIAN
from tx.model.generation import generate
from tx.model.torch_engine import TorchStepper
from tx.model.transformer import Transformer

LENGTH = 150
SAME = 2e-5  # largest difference, in standard deviations of the reference's logits, between fp32 computations
DIFFERENT = 0.02  # what a wrong formula must move the logits by

SHARED = {"activation_function": "swish"}
SEPARATE = {
    "activation_function": "relu",
    "share_encoder_decoder_embeddings": False,
    "decoder_vocab_size": 59,
    "scale_embedding": False,
}
EXACT_GELU = {"activation_function": "gelu", "encoder_attention_heads": 2, "decoder_attention_heads": 2}
TANH_GELU = {"activation_function": "gelu_new"}


def our_model(converted: Converted, **changes: Any) -> Transformer:
    """The converted checkpoint as a model; with `changes` to its configuration, as wrong a one as the change makes it."""
    model = Transformer(dataclasses.replace(converted.model, **changes))
    model.load_state_dict(converted.tensors, strict=not changes)
    return model.eval()


def convert(reference: Any) -> Converted:
    return convert_tensors(MARIAN, reference.config.to_dict(), reference.state_dict())


class Inputs:
    """Two sources of which one is padded, two targets."""

    def __init__(self, reference: Any) -> None:
        random = torch.Generator().manual_seed(3)
        self.src = torch.randint(0, reference.config.vocab_size, (2, LENGTH), generator=random)
        self.mask = torch.arange(LENGTH) < torch.tensor([[LENGTH], [LENGTH - 53]])
        self.tgt = torch.randint(0, reference.config.decoder_vocab_size, (2, LENGTH), generator=random)
        self.src[~self.mask] = reference.config.pad_token_id
        self.tgt[:, 0] = reference.config.decoder_start_token_id


@dataclasses.dataclass
class Pair:
    """A reference model, its answer to the inputs, and what it is in our terms."""

    inputs: Inputs
    answer: Any
    converted: Converted

    def difference(self, logits: Tensor) -> float:
        return float((logits - self.answer.logits).abs().max() / self.answer.logits.std())


@pytest.fixture(scope="module")
def pairs(marian: Callable[..., Any]) -> Callable[..., Pair]:
    made: dict[str, Pair] = {}

    def pair(settings: dict[str, Any]) -> Pair:
        key = json.dumps(settings)
        if key not in made:
            reference = marian(**settings)
            inputs = Inputs(reference)
            with torch.no_grad():
                answer = reference(
                    input_ids=inputs.src,
                    attention_mask=inputs.mask.long(),
                    decoder_input_ids=inputs.tgt,
                    use_cache=False,
                    output_attentions=True,
                )
            made[key] = Pair(inputs, answer, convert(reference))
        return made[key]

    return pair


@pytest.mark.parametrize("settings", [SHARED, SEPARATE, EXACT_GELU, TANH_GELU], ids=lambda s: s["activation_function"])
def test_logits_and_attention_are_those_of_the_reference(pairs: Callable[..., Pair], settings: dict[str, Any]) -> None:
    pair = pairs(settings)
    model, inputs = our_model(pair.converted), pair.inputs
    explicit, attentions = model(inputs.src, inputs.mask, inputs.tgt, need_weights=True)
    assert pair.difference(explicit.detach()) < SAME
    assert attentions is not None
    for ours, theirs in (
        (attentions.encoder, pair.answer.encoder_attentions),
        (attentions.decoder, pair.answer.decoder_attentions),
        (attentions.cross, pair.answer.cross_attentions),
    ):
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs, strict=True):
            torch.testing.assert_close(a.detach(), b, rtol=0, atol=2e-5)

    with torch.no_grad():
        fused, nothing = model(inputs.src, inputs.mask, inputs.tgt)
        state = model.start(model.encode(inputs.src, inputs.mask), inputs.mask)
        cached = torch.stack([model.step(ids, state) for ids in inputs.tgt.T], dim=1)
    assert nothing is None
    assert pair.difference(fused) < SAME
    assert pair.difference(cached) < SAME


def test_the_comparison_is_made_on_logits_worth_comparing(pairs: Callable[..., Pair]) -> None:
    pair = pairs(SHARED)
    assert pair.answer.logits.std() > 1
    for maps in (pair.answer.encoder_attentions, pair.answer.decoder_attentions, pair.answer.cross_attentions):
        assert max(weights.max() for weights in maps) > 0.2
        for weights in maps:  # neither flat nor all on one piece
            assert weights[0, :, -1].max() > 2 / LENGTH
            assert weights[0, :, -1].max(dim=-1).values.mean() < 0.9


@pytest.mark.parametrize(
    "changes",
    [
        {"scale_embedding": False},
        {"sinusoid_layout": "interleaved"},
        {"sinusoid_layout": "tensor2tensor"},
        {"position_offset": 1},
        {"positions": "relative"},
        {"positions": "learned"},
        {"activation": "relu"},
        {"activation": "gelu"},
        {"activation": "gelu_tanh"},
        {"gated_ffn": True},
        {"norm": "rms"},
        {"norm_first": True},
        {"norm_eps": 0.1},
        {"final_norm": True},
        {"embedding_norm": True},
        {"bias": False},
        {"scale_attention": False},
        {"scale_logits": True},
        {"n_heads": 2, "d_head": 16},
        {"n_heads": 8, "d_head": 4},
        {"logits_bias": False},
        {"tie_output": False},
        {"share_embeddings": False},
        {"decoder_autoregression": "ssru"},
        {"n_encoder_layers": 1},
        {"n_decoder_layers": 2},
    ],
    ids=lambda changes: "-".join(f"{k}={v}" for k, v in changes.items()),
)
def test_a_wrong_fact_does_not_go_unnoticed(pairs: Callable[..., Pair], changes: dict[str, Any]) -> None:
    pair = pairs(SHARED)
    torch.manual_seed(0)  # of parameters that the checkpoint does not have
    with torch.no_grad():
        logits, _ = our_model(pair.converted, **changes)(pair.inputs.src, pair.inputs.mask, pair.inputs.tgt)
    assert pair.difference(logits) > DIFFERENT


@pytest.mark.parametrize(
    "name", ["q_proj.bias", "o_proj.weight", "ffn_norm.bias", "cross_attn.k_proj.weight", "w_2.bias"]
)
def test_a_small_change_of_any_kind_of_tensor_shows(pairs: Callable[..., Pair], name: str) -> None:
    pair = pairs(SHARED)
    key = next(key for key in pair.converted.tensors if key.endswith(name))
    changed = pair.converted.tensors | {key: pair.converted.tensors[key] * 1.05}
    with torch.no_grad():
        logits, _ = our_model(pair.converted._replace(tensors=changed))(
            pair.inputs.src, pair.inputs.mask, pair.inputs.tgt
        )
    assert pair.difference(logits) > 10 * SAME


@pytest.mark.parametrize("wrong", [{"activation": "gelu_tanh"}, {"activation": "silu"}], ids=str)
def test_the_exact_gelu_is_told_from_its_approximation(pairs: Callable[..., Pair], wrong: dict[str, Any]) -> None:
    pair = pairs(EXACT_GELU)
    with torch.no_grad():
        logits, _ = our_model(pair.converted, **wrong)(pair.inputs.src, pair.inputs.mask, pair.inputs.tgt)
    assert pair.difference(logits) > 5 * SAME


# --- search ---

N_PROMPTS = 60
LIMIT = 80  # nothing gets there: the two sides rank differently what the limit cuts


@pytest.fixture(scope="module")
def searched(marian: Callable[..., Any]) -> tuple[Any, TorchStepper, Converted, list[list[int]]]:
    """A reference that has learned a little about mapping pieces to pieces and when to end, so that its outputs follow
    the source and still leave much to search for; and the same model behind our stepper. Both are in double precision:
    rounding decides no tie."""
    reference = marian(std=0.05, seed=4, encoder_layers=1, decoder_layers=2, dropout=0.0)
    random = torch.Generator().manual_seed(1)
    optimizer = torch.optim.Adam(reference.parameters(), 5e-3)
    for _ in range(150):
        length = int(torch.randint(2, 13, (), generator=random))
        src = torch.randint(1, 50, (24, length + 1), generator=random)
        src[:, -1] = reference.config.eos_token_id
        loss = reference(input_ids=src, labels=torch.where(src > 0, src // 4 * 4 + 1, 0)).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    # Both sides never produce padding, but ours takes it out before the softmax and theirs after it: with a bias that
    # leaves it no probability, that is the same. The end is made a little likelier: it must come before the limit.
    reference.double().final_logits_bias[:, reference.config.pad_token_id] = -1e4
    reference.final_logits_bias[:, reference.config.eos_token_id] += 1.0
    converted = convert(reference)
    numbers = np.random.default_rng(0)
    prompts = [[*numbers.integers(1, 50, numbers.integers(2, 16)).tolist(), 0] for _ in range(N_PROMPTS)]
    return reference, TorchStepper(our_model(converted).double(), converted.special.pad), converted, prompts


def reference_search(
    reference: Any, prompts: list[list[int]], **settings: Any
) -> tuple[list[list[int]], Tensor | None]:
    """Pieces without the start, the end and padding; and the scores."""
    pad, longest = reference.config.pad_token_id, max(map(len, prompts))
    out = reference.generate(
        input_ids=torch.tensor([[*ids, *[pad] * (longest - len(ids))] for ids in prompts]),
        attention_mask=torch.tensor([[1] * len(ids) + [0] * (longest - len(ids)) for ids in prompts]),
        max_length=LIMIT + 1,
        do_sample=False,
        forced_eos_token_id=None,
        return_dict_in_generate=True,
        output_scores=True,
        **settings,
    )
    pieces = [row[1:] for row in out.sequences.tolist()]
    assert all(0 in row for row in pieces), "cut by the limit"
    return [row[: row.index(0)] for row in pieces], getattr(out, "sequences_scores", None)


@pytest.fixture
def no_loop_detection(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reference has none."""
    monkeypatch.setattr(generation, "LOOP_REPEATS", 10**6)


@pytest.mark.parametrize("length_penalty", [0.0, 0.6, 1.0, 2.0])
@pytest.mark.usefixtures("no_loop_detection")
def test_beam_search_finds_what_the_reference_finds(searched: Any, length_penalty: float) -> None:
    """Token for token, all four outputs of a beam of four, and their scores.

    `early_stopping=True` is the rule that ours shares: done when as many hypotheses as beams have finished. (Ours also
    stops where nothing better can come, which changes no result.) Both divide by the number of pieces with the end,
    without the start, to the power of the penalty.
    """
    reference, stepper, converted, prompts = searched
    config = GenerationConfig(
        beam_size=4, length_penalty=length_penalty, max_length=LIMIT, max_length_factor=0.0, max_length_constant=LIMIT
    )
    ours = generate(stepper, prompts, config=config, special=converted.special, prefix=(), n_best=4)
    theirs, scores = reference_search(
        reference, prompts, num_beams=4, num_return_sequences=4, early_stopping=True, length_penalty=length_penalty
    )
    assert [list(h.ids) for found in ours for h in found] == theirs
    np.testing.assert_allclose([h.score for found in ours for h in found], scores, atol=1e-4)


@pytest.mark.usefixtures("no_loop_detection")
def test_greedy_search_finds_what_the_reference_finds(searched: Any) -> None:
    reference, stepper, converted, prompts = searched
    config = GenerationConfig(beam_size=1, max_length=LIMIT, max_length_factor=0.0, max_length_constant=LIMIT)
    ours = [
        list(found[0].ids) for found in generate(stepper, prompts, config=config, special=converted.special, prefix=())
    ]
    theirs, _ = reference_search(reference, prompts, num_beams=1)
    assert ours == theirs
    assert len({tuple(ids) for ids in ours}) > N_PROMPTS / 2  # the prompts do matter,
    assert np.mean([len(ids) for ids in ours]) > 3  # there is something to search,
    beam, _ = reference_search(reference, prompts, num_beams=4, early_stopping=True)
    assert sum(a != b for a, b in zip(beam, theirs, strict=True)) > N_PROMPTS / 4  # and searching finds other outputs


# --- what cannot be converted ---


@pytest.fixture(scope="module")
def checkpoint(marian: Callable[..., Any]) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """config.json and the tensors, each copy under its own name, as old files have them."""
    reference = marian()
    return reference.config.to_dict(), {name: tensor.detach() for name, tensor in reference.state_dict().items()}


def refused(values: dict[str, Any], tensors: dict[str, Tensor], *words: str) -> None:
    with pytest.raises(CheckpointError) as caught:
        convert_tensors(MARIAN, values, tensors)
    assert all(word in str(caught.value) for word in words) and "\n" not in str(caught.value), str(caught.value)


def test_every_tensor_is_missed(checkpoint: tuple[dict[str, Any], dict[str, Tensor]]) -> None:
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


def test_every_tensor_has_one_shape(checkpoint: tuple[dict[str, Any], dict[str, Tensor]]) -> None:
    values, tensors = checkpoint
    for name, tensor in tensors.items():
        refused(values, tensors | {name: torch.cat((tensor, tensor[-1:]))}, name, "has shape")
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
    checkpoint: tuple[dict[str, Any], dict[str, Tensor]], name: str
) -> None:
    values, tensors = checkpoint
    refused(values, tensors | {name: torch.zeros(32)}, "unexpected", name)


def test_a_half_tied_copy_is_named(checkpoint: tuple[dict[str, Any], dict[str, Tensor]]) -> None:
    values, tensors = checkpoint
    for name in ("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight"):
        other = tensors[name].clone()
        other[3, 4] += 1e-3
        refused(values, tensors | {name: other}, "model.shared.weight", name, "differ")
    untied = convert_tensors(MARIAN, values | {"tie_word_embeddings": False}, tensors | {"lm_head.weight": other})
    assert not untied.model.tie_output and torch.equal(untied.tensors["output.weight"], other)


def test_a_table_of_positions_must_be_the_sinusoids(checkpoint: tuple[dict[str, Any], dict[str, Tensor]]) -> None:
    values, tensors = checkpoint
    for name in MARIAN.sinusoids:
        assert convert_tensors(MARIAN, values, tensors | {name: tensors[name].bfloat16()})
        refused(values, tensors | {name: tensors[name].roll(1, 0)}, name, "sinusoids")
        interleaved = tensors[name].view(-1, 2, 16).transpose(1, 2).flatten(1)
        refused(values, tensors | {name: interleaved}, name, "sinusoids")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"d_model": None}, "has no d_model"),
        ({"d_model": 48}, "has shape"),
        ({"d_model": "32"}, "d_model must be of type int"),
        (
            {"encoder_attention_heads": 3, "decoder_attention_heads": 3},
            "d_model (32) is not a multiple of the heads (3)",
        ),
        ({"decoder_attention_heads": 2}, "encoder_attention_heads (4) and decoder_attention_heads (2) must be equal"),
        ({"decoder_ffn_dim": 40}, "decoder_ffn_dim (40) must be equal"),
        ({"encoder_layers": 3}, "missing: model.encoder.layers.2."),
        ({"decoder_layers": 10**9}, "1000000002 layers, but there are only"),
        ({"activation_function": "mish"}, "activation 'mish' is not one of relu"),
        ({"static_position_embeddings": False}, "static_position_embeddings is False; only True"),
        ({"normalize_before": True}, "normalize_before is True; only False"),
        ({"share_encoder_decoder_embeddings": False}, "unexpected: model.shared.weight"),
        ({"decoder_vocab_size": 60}, "share_embeddings needs src_vocab_size = tgt_vocab_size"),
        ({"pad_token_id": None}, "pad_token_id is None"),
        ({"decoder_start_token_id": 67}, "decoder_start_token_id is 67, which is not the number of one of 67 pieces"),
        ({"bos_token_id": -1}, "bos_token_id is -1"),
        ({"eos_token_id": [0, 1]}, "eos_token_id is [0, 1]"),
        ({"bad_words_ids": [[3, 4]]}, "bad words of more than one piece"),
        ({"num_beams": 0}, "beam_size is out of range: 0"),
        ({"max_length": "long"}, "config.json: "),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_a_fact_that_cannot_be_is_named(
    checkpoint: tuple[dict[str, Any], dict[str, Tensor]], changes: dict[str, Any], words: str
) -> None:
    values, tensors = checkpoint
    refused(values | changes, tensors, words)


def test_facts_come_from_the_configuration(checkpoint: tuple[dict[str, Any], dict[str, Tensor]]) -> None:
    values, tensors = checkpoint
    search = {
        "num_beams": 6,
        "max_length": 512,
        "length_penalty": 0.8,
        "bad_words_ids": [[50], [7]],
        "eos_token_id": [0],
    }
    converted = convert_tensors(MARIAN, values | search, tensors)
    assert (converted.special.pad, converted.special.eos, converted.special.decoder_start) == (50, 0, 50)
    assert converted.generation == GenerationConfig(beam_size=6, max_length=511, length_penalty=0.8, suppress=(7,))
    assert converted.model.activation == "silu" and converted.model.d_head == 8
    assert all(tensor.dtype == torch.float32 for tensor in converted.tensors.values())


def test_folders(
    checkpoint: tuple[dict[str, Any], dict[str, Tensor]], marian: Callable[..., Any], tmp_path: Path
) -> None:
    """The reference's own file, and the older kind; and what is wrong with a folder."""
    values, tensors = checkpoint
    expected = convert_tensors(MARIAN, values, tensors)
    marian().save_pretrained(tmp_path / "new")
    (tmp_path / "new" / "generation_config.json").write_text(json.dumps({"num_beams": 5}))
    old = tmp_path / "old"
    old.mkdir()
    (old / "config.json").write_text(json.dumps(values))
    torch.save(tensors, old / "pytorch_model.bin")
    for name in ("new", "old"):
        found = convert_folder(tmp_path / name)
        assert found.model == expected.model and found.special == expected.special
        assert found.generation.beam_size == (5 if name == "new" else 4)
        assert found.tensors.keys() == expected.tensors.keys()
        assert all(torch.equal(found.tensors[key], expected.tensors[key]) for key in expected.tensors)

    def fails(words: str) -> None:
        with pytest.raises(CheckpointError) as caught:
            convert_folder(old)
        assert words in str(caught.value) and str(old) in str(caught.value) and "\n" not in str(caught.value)

    torch.save({"model.shared.weight": Path("x")}, old / "pytorch_model.bin")
    fails("holds more than tensors")
    (old / "model.safetensors").write_bytes(b"not one")
    fails("model.safetensors cannot be read")
    (old / "model.safetensors").unlink()
    (old / "pytorch_model.bin").unlink()
    fails("there is neither model.safetensors nor pytorch_model.bin")
    (old / "config.json").write_text(json.dumps(values | {"model_type": "bart"}))
    fails("model_type 'bart' is not known")
    (old / "config.json").write_text("{")
    fails("is not valid JSON")
    (old / "config.json").unlink()
    fails("cannot be read")
