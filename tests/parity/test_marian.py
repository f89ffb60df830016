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
    assert pair.answer.logits.std() > 1  # and attention that is neither flat nor all on one piece:
    for maps in (pair.answer.encoder_attentions, pair.answer.decoder_attentions, pair.answer.cross_attentions):
        assert all(weights.max() > 0.1 and weights.max(dim=-1).values.mean() < 0.9 for weights in maps)


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


@pytest.mark.parametrize("name", ["q_proj.bias", "o_proj.weight", "ffn_norm.bias", "cross_attn.k_proj.weight", "w_2.bias"])
def test_a_small_change_of_any_kind_of_tensor_shows(pairs: Callable[..., Pair], name: str) -> None:
    pair = pairs(SHARED)
    key = next(key for key in pair.converted.tensors if key.endswith(name))
    changed = pair.converted.tensors | {key: pair.converted.tensors[key] * 1.05}
    with torch.no_grad():
        logits, _ = our_model(pair.converted._replace(tensors=changed))(pair.inputs.src, pair.inputs.mask, pair.inputs.tgt)
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
    """A reference in double precision, so that rounding decides no tie; and the same model behind our stepper."""
    reference = marian(std=0.25, seed=4).double()
    # Both sides never produce padding, but ours takes it out before the softmax and theirs after it: with a bias that
    # leaves it no probability, that is the same. The end is made likely enough to come soon.
    reference.final_logits_bias[:, reference.config.pad_token_id] = -1e4
    reference.final_logits_bias[:, reference.config.eos_token_id] += 7.0
    converted = convert(reference)
    random = np.random.default_rng(0)
    prompts = [[*random.integers(1, 50, random.integers(2, 16)).tolist(), 0] for _ in range(N_PROMPTS)]
    return reference, TorchStepper(our_model(converted).double(), converted.special.pad), converted, prompts


def reference_search(reference: Any, prompts: list[list[int]], **settings: Any) -> tuple[list[list[int]], Tensor | None]:
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
    ours = [list(found[0].ids) for found in generate(stepper, prompts, config=config, special=converted.special, prefix=())]
    theirs, _ = reference_search(reference, prompts, num_beams=1)
    assert ours == theirs
    assert len({tuple(ids) for ids in ours}) > N_PROMPTS / 2  # the prompts do matter,
    assert np.mean([len(ids) for ids in ours]) > 3  # there is something to search,
    beam, _ = reference_search(reference, prompts, num_beams=4, early_stopping=True)
    assert sum(a != b for a, b in zip(beam, theirs, strict=True)) > N_PROMPTS / 4  # and searching finds other outputs
