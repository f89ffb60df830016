"""Both engines against each other and against a reference in double precision, for every family of models.

The reference is written from the papers' formulas for one sentence: no padding, no cache, one head after the other.
All parameters are far from their initial values and the sequences 150 pieces long, so that a wrong formula shows; that
it does is tested by changing each field of the configuration.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from tx.model.checkpoint import load_checkpoint, load_transformer
from tx.model.config import GenerationConfig, ModelConfig, SpecialIds
from tx.model.generation import generate
from tx.model.numpy_engine import NumpyStepper, NumpyTransformer
from tx.model.results import Attentions
from tx.model.torch_engine import TorchStepper
from tx.model.transformer import Transformer

Array = np.ndarray[Any, Any]
LENGTH = 150
LENGTHS = (LENGTH, LENGTH - 53)  # of the sources: the second one is padded
SAME = 1e-4  # logits of the engines and of the reference
SAME_WEIGHTS = 5e-5  # T5 v1.1 does not scale its scores: they are large, and so is their rounding
DIFFERENT = 0.005  # what a wrong formula must move some logit by: 50 times as much

SIZES = {
    "src_vocab_size": 61,
    "tgt_vocab_size": 61,
    "d_model": 32,
    "n_heads": 4,
    "d_head": 8,
    "d_ff": 48,
    "n_encoder_layers": 2,
    "n_decoder_layers": 2,
    "max_positions": LENGTH,
    "norm_eps": 0.01,  # larger than any model's, so that it matters
}
MARIAN = {"activation": "silu", "sinusoid_layout": "halves", "logits_bias": True}
BART = {
    "activation": "gelu",
    "positions": "learned",
    "position_offset": 2,
    "embedding_norm": True,
    "scale_embedding": False,
    "logits_bias": True,
}
T5 = {
    "norm": "rms",
    "norm_first": True,
    "final_norm": True,
    "bias": False,
    "positions": "relative",
    "d_head": 6,
    "scale_attention": False,
    "scale_embedding": False,
    "scale_logits": True,
}
FAMILIES: dict[str, dict[str, Any]] = {
    "vanilla": {},
    "marian": MARIAN,
    "marian-two-vocabularies": {**MARIAN, "share_embeddings": False, "tgt_vocab_size": 53, "scale_embedding": False},
    "bergamot": {**MARIAN, "activation": "relu", "decoder_autoregression": "ssru"},
    "segments": {"norm_first": True, "final_norm": True, "sinusoid_layout": "tensor2tensor", "n_segments": 5},
    "pointer-generator": {
        "norm_first": True,
        "final_norm": True,
        "logits_bias": True,
        "n_segments": 5,
        "pointer_generator": True,
    },
    "bart": BART,
    "mbart": {**BART, "norm_first": True, "final_norm": True, "scale_embedding": True},
    "m2m100": {"norm_first": True, "final_norm": True, "sinusoid_layout": "tensor2tensor", "position_offset": 2},
    "t5": T5,
    "t5-v1.1": {**T5, "activation": "gelu_tanh", "gated_ffn": True, "tie_output": False, "scale_logits": False},
}
every_family = pytest.mark.parametrize("family", FAMILIES)

# For each field another value. Sizes of tensors cannot be changed alone; 4 heads of 8 and 8 heads of 4 can.
FLIPS: dict[str, Any] = {
    "n_heads": lambda c: {"n_heads": c.d_head, "d_head": c.n_heads},
    "norm": lambda c: {"norm": "rms" if c.norm == "layer" else "layer"},
    "norm_first": lambda c: {"norm_first": not c.norm_first},
    "final_norm": lambda c: {"final_norm": not c.final_norm},
    "embedding_norm": lambda c: {"embedding_norm": not c.embedding_norm},
    "norm_eps": lambda c: {"norm_eps": 1e-5},
    "bias": lambda c: {"bias": not c.bias},
    "activation relu": lambda c: {"activation": "relu"},
    "activation gelu": lambda c: {"activation": "gelu"},
    "activation silu": lambda c: {"activation": "silu"},
    "gated_ffn": lambda c: {"gated_ffn": not c.gated_ffn},
    "positions learned": lambda c: {"positions": "learned"},
    "positions sinusoidal": lambda c: {"positions": "sinusoidal"},
    "positions relative": lambda c: {"positions": "relative"},
    "layout interleaved": lambda c: {"sinusoid_layout": "interleaved"},
    "layout halves": lambda c: {"sinusoid_layout": "halves"},
    "layout tensor2tensor": lambda c: {"sinusoid_layout": "tensor2tensor"},
    "position_offset": lambda c: {"position_offset": 0 if c.position_offset else 1},
    "relative_buckets": lambda c: {"relative_buckets": c.relative_buckets - 4},
    "relative_max_distance": lambda c: {"relative_max_distance": 110},
    "scale_attention": lambda c: {"scale_attention": not c.scale_attention},
    "scale_embedding": lambda c: {"scale_embedding": not c.scale_embedding},
    "scale_logits": lambda c: {"scale_logits": not c.scale_logits},
    "share_embeddings": lambda c: {"share_embeddings": not c.share_embeddings, "tgt_vocab_size": c.src_vocab_size},
    "tie_output": lambda c: {"tie_output": not c.tie_output},
    "logits_bias": lambda c: {"logits_bias": not c.logits_bias},
    "n_segments": lambda c: {"n_segments": 0 if c.n_segments else 3},
    "pointer_generator": lambda c: {
        "pointer_generator": not c.pointer_generator and c.src_vocab_size == c.tgt_vocab_size
    },
    "decoder_autoregression": lambda c: {
        "decoder_autoregression": "attention" if c.decoder_autoregression == "ssru" else "ssru"
    },
}
# Where a field means nothing: the others are flipped.
MEANS_NOTHING = {
    "sinusoidal": ("relative_buckets", "relative_max_distance"),
    "learned": ("layout", "relative_buckets", "relative_max_distance"),
    "relative": ("layout", "position_offset"),
}


# --- the reference ---


def _softmax(x: Array) -> Array:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return np.asarray(e / e.sum(axis=-1, keepdims=True))


_erf = np.vectorize(math.erf)
_ACTIVATIONS = {
    "relu": lambda x: np.where(x > 0, x, 0),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "gelu": lambda x: x * 0.5 * (1 + _erf(x / math.sqrt(2))),
    "gelu_tanh": lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
}


@cache
def _bucket(distance: int, n_buckets: int, max_distance: int, bidirectional: bool) -> int:
    """Of the key at `distance` to the right of the query (to its left: negative). In whole numbers."""
    if bidirectional:
        other_side = n_buckets // 2 if distance > 0 else 0
        return other_side + _bucket(-abs(distance), n_buckets // 2, max_distance, False)
    d, exact = max(-distance, 0), n_buckets // 2
    if d < exact:
        return d
    rest = n_buckets - exact
    return exact + sum(d**rest * exact**k >= max_distance**k * exact**rest for k in range(1, rest))


@cache
def _buckets(length: int, n_buckets: int, max_distance: int, bidirectional: bool) -> Array:
    sides = n_buckets, max_distance, bidirectional
    return np.array([[_bucket(s - t, *sides) for s in range(length)] for t in range(length)])


class Reference:
    """One sentence, in double precision, from the formulas."""

    def __init__(self, config: ModelConfig, tensors: dict[str, Array]) -> None:
        self.c = config
        self.w = {name: tensor.astype(np.float64) for name, tensor in tensors.items()}
        self.maps = Attentions([], [], [])
        self.kinds: Array | int = 0  # of the source pieces

    def linear(self, x: Array, name: str) -> Array:
        y = x @ self.w[f"{name}.weight"].T
        return y + self.w[f"{name}.bias"] if f"{name}.bias" in self.w else y

    def norm(self, x: Array, name: str) -> Array:
        if self.c.norm == "rms":
            return np.asarray(x / np.sqrt((x**2).mean(-1, keepdims=True) + self.c.norm_eps) * self.w[f"{name}.weight"])
        y = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + self.c.norm_eps)
        return np.asarray(y * self.w[f"{name}.weight"] + self.w[f"{name}.bias"])

    def positions(self, stack: str, length: int) -> Array:
        c, table = self.c, np.zeros((length, self.c.d_model))
        if c.positions == "learned":
            return self.w[f"{stack}.position_embedding.weight"][c.position_offset : c.position_offset + length]
        half = c.d_model // 2
        for t in range(length if c.positions == "sinusoidal" else 0):
            for i in range(half):
                rate = 10000 ** -(i / (half - 1) if c.sinusoid_layout == "tensor2tensor" else 2 * i / c.d_model)
                columns = (2 * i, 2 * i + 1) if c.sinusoid_layout == "interleaved" else (i, half + i)
                table[t, columns] = math.sin((t + c.position_offset) * rate), math.cos((t + c.position_offset) * rate)
        return table

    def embed(self, ids: Array, table: str, stack: str) -> Array:
        x = self.w[table][ids] * (math.sqrt(self.c.d_model) if self.c.scale_embedding else 1)
        x = x + self.positions(stack, len(ids))
        if stack == "encoder" and self.c.n_segments:
            x = x + self.w["encoder.segment_embedding.weight"][self.kinds]
        return self.norm(x, f"{stack}.embedding_norm") if self.c.embedding_norm else x

    def multi_head(self, x: Array, memory: Array, name: str, maps: list[Any], stack: str = "") -> Array:
        """Self-attention of `stack`, or cross-attention."""
        c, heads, weights = self.c, [], []
        Q, K, V = (self.linear(y, f"{name}.{p}_proj") for y, p in ((x, "q"), (memory, "k"), (memory, "v")))
        for h in range(c.n_heads):
            own = slice(h * c.d_head, (h + 1) * c.d_head)
            scores = Q[:, own] @ K[:, own].T / (math.sqrt(c.d_head) if c.scale_attention else 1)
            if stack and c.positions == "relative":
                buckets = _buckets(len(x), c.relative_buckets, c.relative_max_distance, stack == "encoder")
                scores += self.w[f"{stack}.relative_bias.weight"][buckets, h]
            for t in range(len(x) if stack == "decoder" else 0):
                scores[t, t + 1 :] = -np.inf
            weights.append(_softmax(scores))
            heads.append(weights[-1] @ V[:, own])
        maps.append(np.stack(weights))
        return self.linear(np.concatenate(heads, axis=1), f"{name}.o_proj")

    def ssru(self, x: Array, name: str) -> Array:
        cell, out = np.zeros(self.c.d_model), []
        for x_t in x:
            forget = 1 / (1 + np.exp(-self.linear(x_t, f"{name}.w_f")))
            cell = forget * cell + (1 - forget) * self.linear(x_t, f"{name}.w")
            out.append(np.where(cell > 0, cell, 0))
        return np.stack(out)

    def ffn(self, x: Array, name: str) -> Array:
        f, hidden = _ACTIVATIONS[self.c.activation], self.linear(x, f"{name}.w_1")
        gated = f(self.linear(x, f"{name}.w_gate")) * hidden if self.c.gated_ffn else f(hidden)
        return self.linear(gated, f"{name}.w_2")

    def stack(self, x: Array, stack: str, memory: Array | None = None) -> Array:
        c = self.c
        for i in range(c.n_encoder_layers if memory is None else c.n_decoder_layers):
            for part in ("self_attn", "ffn") if memory is None else ("self_attn", "cross_attn", "ffn"):
                name = f"{stack}.layers.{i}.{part}"
                h = self.norm(x, f"{name}_norm") if c.norm_first else x
                if part == "ffn":
                    h = self.ffn(h, name)
                elif part == "cross_attn":
                    assert memory is not None
                    h = self.multi_head(h, memory, name, self.maps.cross)
                elif memory is not None and c.decoder_autoregression == "ssru":
                    h = self.ssru(h, name)
                else:
                    h = self.multi_head(h, h, name, getattr(self.maps, stack), stack)
                x = x + h if c.norm_first else self.norm(x + h, f"{name}_norm")
        return self.norm(x, f"{stack}.final_norm") if c.final_norm else x

    def logits(self, src: Array, tgt: Array) -> Array:
        """Logits [T, V], or log P of a model that copies."""
        c, shared = self.c, "src_embedding.weight"
        memory = self.stack(self.embed(src, shared, "encoder"), "encoder")
        table = shared if c.share_embeddings else "tgt_embedding.weight"
        x = self.stack(self.embed(tgt, table, "decoder"), "decoder", memory)
        y = x / (math.sqrt(c.d_model) if c.scale_logits else 1) @ self.w[table if c.tie_output else "output.weight"].T
        y = y + self.w["logits_bias"] if c.logits_bias else y
        if not c.pointer_generator:
            return np.asarray(y)
        g = 1 / (1 + np.exp(-self.linear(x, "copy_gate")))  # See et al. 2017, eq. 9
        P, where = g * _softmax(y), self.maps.cross[-1][0]
        for s, piece in enumerate(src):
            P[:, piece] += (1 - g[:, 0]) * where[:, s]
        return np.asarray(np.log(P))


# --- models and what they are given ---


class Case(NamedTuple):
    """A model of a family in both engines, inputs, and what the reference says of them, a row for each sentence."""

    torch_model: Transformer
    numpy_model: NumpyTransformer
    src: Array
    mask: Array
    tgt: Array
    logits: Array
    maps: list[Attentions]


@cache
def case(family: str) -> Case:
    config = ModelConfig(**{**SIZES, **FAMILIES[family]})
    torch.manual_seed(0)
    model = Transformer(config).eval()
    noise = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += torch.randn(parameter.shape, generator=noise) * 0.2
        if config.scale_embedding:  # as small as trained ones, or the first layer's scores are in the hundreds
            for name, parameter in model.named_parameters():
                if name in ("src_embedding.weight", "tgt_embedding.weight", "encoder.segment_embedding.weight"):
                    parameter *= 0.3
    tensors = {name: tensor.numpy() for name, tensor in model.state_dict().items()}
    random = np.random.default_rng(2)
    src = random.integers(0, config.src_vocab_size, (2, LENGTH))
    tgt = random.integers(0, config.tgt_vocab_size, (2, LENGTH))
    mask = np.arange(LENGTH) < np.array(LENGTHS)[:, None]
    references = [Reference(config, tensors) for _ in src]
    logits = [one.logits(row[: sum(m)], t) for one, row, m, t in zip(references, src, mask, tgt, strict=True)]
    maps = [one.maps for one in references]
    return Case(model, NumpyTransformer(config, tensors), src, mask, tgt, np.stack(logits), maps)


def torch_forward(c: Case, need_weights: bool) -> tuple[Array, Attentions | None]:
    with torch.inference_mode():
        logits, maps = c.torch_model(*map(torch.from_numpy, (c.src, c.mask, c.tgt)), need_weights)
    if maps is not None:
        maps = Attentions(*[[weights.numpy() for weights in kind] for kind in maps])
    return logits.numpy(), maps


def difference(a: Array, b: Array) -> float:
    assert a.shape == b.shape
    return float(np.abs(a - b).max())


# --- the tests ---


@every_family
def test_logits_are_those_of_the_reference(family: str) -> None:
    c = case(family)
    ours, _ = c.numpy_model.forward(c.src, c.mask, c.tgt)
    explicit, fused = torch_forward(c, True)[0], torch_forward(c, False)[0]
    assert difference(ours, c.logits) < SAME
    assert difference(explicit, c.logits) < SAME
    assert difference(fused, c.logits) < SAME
    assert difference(ours, explicit) < SAME
    assert c.logits.std() > 0.5  # there is something to differ in
    assert c.logits.std(axis=1).mean() > 0.3  # also between positions


@every_family
def test_weights_of_attention_are_those_of_the_reference(family: str) -> None:
    c = case(family)
    _, numpy_maps = c.numpy_model.forward(c.src, c.mask, c.tgt, need_weights=True)
    _, torch_maps = torch_forward(c, True)
    assert numpy_maps is not None
    assert torch_maps is not None
    config = c.numpy_model.config
    n_self = 0 if config.decoder_autoregression == "ssru" else config.n_decoder_layers
    wanted = (config.n_encoder_layers, n_self, config.n_decoder_layers)
    for maps in (numpy_maps, torch_maps, *c.maps):
        assert tuple(map(len, maps)) == wanted
    for kind in Attentions._fields:
        for layer in range(len(getattr(numpy_maps, kind))):
            ours, theirs = getattr(numpy_maps, kind)[layer], getattr(torch_maps, kind)[layer]
            for b, length in enumerate(LENGTHS):
                rows = length if kind == "encoder" else LENGTH  # what padding looks at is of no interest
                keys = LENGTH if kind == "decoder" else length
                reference = getattr(c.maps[b], kind)[layer]
                assert difference(ours[b, :, :rows], theirs[b, :, :rows]) < SAME_WEIGHTS
                assert difference(ours[b, :, :rows, :keys], reference) < SAME_WEIGHTS
                assert not ours[b, :, :, keys:].any()
                assert reference.max() > 0.1  # not all alike


@every_family
def test_cached_steps_are_those_of_the_reference(family: str) -> None:
    c = case(family)
    numpy_state = c.numpy_model.start(c.numpy_model.encode(c.src, c.mask), c.mask, src=c.src)
    with torch.inference_mode():
        src, mask = torch.from_numpy(c.src), torch.from_numpy(c.mask)
        torch_state = c.torch_model.start(c.torch_model.encode(src, mask), mask, src=src)
        for t in range(LENGTH):
            assert difference(c.numpy_model.step(c.tgt[:, t], numpy_state), c.logits[:, t]) < SAME
            theirs = c.torch_model.step(torch.from_numpy(c.tgt[:, t]), torch_state)
            assert difference(theirs.numpy(), c.logits[:, t]) < SAME


@pytest.mark.parametrize("family", ["segments", "pointer-generator"])
def test_kinds_of_pieces_are_those_of_the_reference(family: str) -> None:
    c = case(family)
    kinds = np.random.default_rng(3).integers(0, 5, c.src.shape)
    expected = []
    for row, kind, mask, tgt in zip(c.src, kinds, c.mask, c.tgt, strict=True):
        reference = Reference(c.numpy_model.config, dict(c.numpy_model.tensors))
        reference.kinds = kind[: sum(mask)]
        expected.append((reference.logits(row[: sum(mask)], tgt), reference.maps))
    logits = np.stack([one for one, _ in expected])
    ours, _ = c.numpy_model.forward(c.src, c.mask, c.tgt, segments=kinds)
    with torch.inference_mode():
        src, mask, tgt, segments = map(torch.from_numpy, (c.src, c.mask, c.tgt, kinds))
        theirs, _ = c.torch_model(src, mask, tgt, segments=segments)
    assert difference(ours, logits) < SAME
    assert difference(theirs.numpy(), logits) < SAME
    assert difference(logits, c.logits) > DIFFERENT
    # Where the targets look, of rows of unlike length, as answers are read from it.
    rows = [row[:length].tolist() for row, length in zip(c.src, LENGTHS, strict=True)]
    targets = [c.tgt[0].tolist(), c.tgt[1, :2].tolist()]
    small = [kind[:length].astype(np.uint8) for kind, length in zip(kinds, LENGTHS, strict=True)]
    for stepper in (NumpyStepper(c.numpy_model, pad=0), TorchStepper(c.torch_model, pad=0)):
        for weights, target, (_, maps) in zip(
            stepper.cross_attention(rows, targets, small), targets, expected, strict=True
        ):
            assert difference(weights, np.stack(maps.cross)[:, :, : len(target)]) < SAME_WEIGHTS
        plain = stepper.cross_attention(rows, targets)
        assert difference(plain[0], np.stack(c.maps[0].cross)) < SAME_WEIGHTS
        state = stepper.start(rows, 2, small)
        for t in range(3):
            step = stepper.step(c.tgt[:, t].repeat(2), state)
            assert difference(step, logits[:, t].repeat(2, axis=0)) < SAME


def test_rows_of_a_model_that_copies_go_on_as_their_own_history() -> None:
    """Beams change places, a source is dropped, then rows are taken from anywhere: both engines stay with the reference,
    whose sources have pieces that stand in them more than once."""
    c = case("pointer-generator")
    src = [[5, 9, 5, 5, 1], [7, 1], [8, 3, 3, 8, 2, 1]]
    reference = Reference(c.numpy_model.config, dict(c.numpy_model.tensors))
    for stepper in (NumpyStepper(c.numpy_model, pad=0), TorchStepper(c.torch_model, pad=0)):
        state: Any = stepper.start(src, 2)
        sentences, history = np.arange(3).repeat(2), np.zeros((6, 0), np.int64)
        for rows in ([0, 1, 2, 3, 4, 5], [1, 1, 2, 3, 5, 4], [4, 5, 0, 1], [3, 0, 2], [1, 0, 2], [2, 2]):
            state = stepper.reorder(state, np.array(rows))
            ids = c.tgt[0, history.shape[1]] + np.arange(len(rows))
            sentences, history = sentences[rows], np.concatenate([history[rows], ids[:, None] % 61], axis=1)
            got = stepper.step(history[:, -1].copy(), state)
            np.testing.assert_allclose(np.exp(got).sum(axis=1), 1, rtol=1e-5)
            for row, sentence, pieces in zip(got, sentences, history, strict=True):
                assert difference(row, reference.logits(np.array(src[sentence]), pieces)[-1]) < SAME
                reference.maps.cross.clear()


def test_a_checkpoint_of_a_model_that_copies_is_read_by_both_engines(small_model: Path) -> None:
    checkpoint = load_checkpoint(small_model)
    assert checkpoint.config.model.pointer_generator and "copy_gate.weight" in checkpoint.tensors
    steps = []
    for stepper in (
        NumpyStepper(NumpyTransformer(checkpoint.config.model, checkpoint.tensors), pad=0),
        TorchStepper(load_transformer(checkpoint), pad=0),
    ):
        state: Any = stepper.start([[263, 271, 263, 1], [264, 1]], 1)
        steps.append(stepper.step(np.array([3, 3]), state))
    assert difference(*steps) < SAME
    np.testing.assert_allclose(np.exp(steps[0]).sum(axis=1), 1, rtol=1e-5)  # log P, not logits


def flips() -> Sequence[Any]:
    found = []
    for family, settings in FAMILIES.items():
        right = ModelConfig(**{**SIZES, **settings})
        for name, change in FLIPS.items():
            wrong = dataclasses.replace(right, **change(right))
            if wrong != right and not name.startswith(MEANS_NOTHING[right.positions]):
                found.append(pytest.param(family, wrong, id=f"{family}, {name}"))
    return found


@pytest.mark.parametrize(("family", "wrong"), flips())
def test_another_value_of_any_field_shows(family: str, wrong: ModelConfig) -> None:
    """A wrong configuration asks for tensors that are not there or do not fit, or its logits are far off."""
    c = case(family)
    try:
        logits, _ = NumpyTransformer(wrong, c.numpy_model.tensors).forward(c.src, c.mask, c.tgt)
    except (KeyError, IndexError, ValueError):
        return
    assert logits.shape != c.logits.shape or difference(logits, c.logits) > DIFFERENT


@pytest.mark.parametrize("field", sorted(f.name for f in dataclasses.fields(ModelConfig)))
def test_every_field_is_flipped_somewhere(field: str) -> None:
    sizes = {*SIZES} - {"n_heads", "d_head", "norm_eps"}  # what else depends on them is the tensors' shapes
    changed = {
        f.name
        for parameter in flips()
        for right in [ModelConfig(**{**SIZES, **FAMILIES[parameter.values[0]]})]
        for f in dataclasses.fields(ModelConfig)
        if getattr(right, f.name) != getattr(parameter.values[1], f.name)
    }
    assert field in changed | sizes


@every_family
@pytest.mark.parametrize("beam_size", [1, 4])
def test_the_search_finds_the_same(family: str, beam_size: int) -> None:
    c = case(family)
    special = SpecialIds(pad=0, eos=1, decoder_start=2)
    settings = GenerationConfig(beam_size=beam_size, max_length=25, max_length_constant=20, no_repeat_ngram=2)
    src = [[*row[:length].tolist(), 1] for row, length in zip(c.src.repeat(2, axis=0), (12, 3, 7, 1), strict=True)]
    found = [
        generate(stepper, src, config=settings, special=special, prefix=(), n_best=beam_size)
        for stepper in (NumpyStepper(c.numpy_model, pad=0), TorchStepper(c.torch_model, pad=0))
    ]
    for ours, theirs in zip(*found, strict=True):
        assert [(h.ids, h.finished, h.looped) for h in ours] == [(h.ids, h.finished, h.looped) for h in theirs]
        np.testing.assert_allclose([h.log_prob for h in ours], [h.log_prob for h in theirs], atol=1e-3)
    assert len({h.ids for hypotheses in found[0] for h in hypotheses}) > 1
