"""The whole model: what it may look at, that running step by step changes nothing, and what its parameters are."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from tx.model.config import POINTING_HEAD, ModelConfig
from tx.model.positions import relative_buckets, sinusoids
from tx.model.transformer import DecoderState, Transformer

SIZES = {
    "src_vocab_size": 31,
    "tgt_vocab_size": 31,
    "d_model": 16,
    "n_heads": 2,
    "d_head": 6,
    "d_ff": 20,
    "n_encoder_layers": 2,
    "n_decoder_layers": 2,
    "max_positions": 40,
}
VARIANTS: dict[str, dict[str, Any]] = {
    "2017": {},
    "halves": {"sinusoid_layout": "halves", "activation": "silu", "logits_bias": True},
    "learned": {"positions": "learned", "position_offset": 2, "embedding_norm": True, "scale_embedding": False},
    "relative": {
        "positions": "relative",
        "relative_buckets": 8,
        "relative_max_distance": 12,
        "norm": "rms",
        "norm_first": True,
        "final_norm": True,
        "bias": False,
        "scale_attention": False,
        "scale_embedding": False,
        "scale_logits": True,
    },
    "gated": {
        "gated_ffn": True,
        "activation": "gelu_tanh",
        "norm_first": True,
        "final_norm": True,
        "tie_output": False,
    },
    "two vocabularies": {"share_embeddings": False, "tgt_vocab_size": 23, "sinusoid_layout": "tensor2tensor"},
    "ssru": {"decoder_autoregression": "ssru"},
    "segments": {"n_segments": 3, "embedding_norm": True},
    "pointer-generator": {"pointer_generator": True, "scale_logits": True},
    "ssru, norm first": {"decoder_autoregression": "ssru", "norm_first": True, "positions": "learned"},
}
every_variant = pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS)


def model(changes: dict[str, Any], seed: int = 0) -> Transformer:
    """In double precision, all parameters at random, so that whatever matters at all matters visibly."""
    torch.manual_seed(seed)
    transformer = Transformer(ModelConfig(**{**SIZES, **changes})).double().eval()
    with torch.no_grad():
        for parameter in transformer.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    return transformer


def inputs(
    transformer: Transformer, lengths: tuple[int, ...] = (9, 5, 1), n_tgt: int = 8
) -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(1)
    longest = max(lengths)
    src = torch.randint(0, transformer.config.src_vocab_size, (len(lengths), longest))
    mask = torch.arange(longest) < torch.tensor(lengths)[:, None]
    return src, mask, torch.randint(0, transformer.config.tgt_vocab_size, (len(lengths), n_tgt))


def changed_at(before: Tensor, after: Tensor) -> list[int]:
    """The positions [T] where any component of [B, T, …] differs by more than rounding."""
    return (before - after).abs().flatten(2).amax(dim=(0, 2)).gt(1e-9).nonzero()[:, 0].tolist()


@every_variant
@pytest.mark.parametrize("need_weights", [True, False], ids=["explicit", "fused"])
@torch.no_grad()
def test_no_piece_sees_what_comes_after_it(changes: dict[str, Any], need_weights: bool) -> None:
    transformer = model(changes)
    src, mask, tgt = inputs(transformer)
    before, _ = transformer(src, mask, tgt, need_weights)
    for t in range(tgt.shape[1]):
        other = tgt.clone()
        other[:, t] = (other[:, t] + 1) % transformer.config.tgt_vocab_size
        after, _ = transformer(src, mask, other, need_weights)
        assert changed_at(before, after) == list(range(t, tgt.shape[1]))  # and all later ones do see it


@every_variant
@torch.no_grad()
def test_every_piece_sees_the_whole_source(changes: dict[str, Any]) -> None:
    transformer = model(changes)
    src, _, tgt = inputs(transformer)
    before, _ = transformer(src, None, tgt)
    for s in range(src.shape[1]):
        other = src.clone()
        other[:, s] = (other[:, s] + 1) % transformer.config.src_vocab_size
        assert changed_at(before, transformer(other, None, tgt)[0]) == list(range(tgt.shape[1]))


@every_variant
@torch.no_grad()
def test_padding_does_not_matter(changes: dict[str, Any]) -> None:
    """Each sentence alone and unpadded, with no mask at all, gives what it gives among longer ones."""
    transformer = model(changes)
    src, mask, tgt = inputs(transformer)
    logits, attentions = transformer(src, mask, tgt, need_weights=True)
    src[~mask] = 7
    torch.testing.assert_close(transformer(src, mask, tgt)[0], logits)
    for b, length in enumerate(mask.sum(1).tolist()):
        alone, _ = transformer(src[b : b + 1, :length], None, tgt[b : b + 1])
        torch.testing.assert_close(alone[0], logits[b])
        for weights in (*attentions.encoder, *attentions.cross):
            assert not weights[b, :, :, length:].any()


@every_variant
@torch.no_grad()
def test_step_by_step_is_the_same_as_all_at_once(changes: dict[str, Any]) -> None:
    transformer = model(changes)
    src, mask, tgt = inputs(transformer, n_tgt=30)  # past the distance from which relative positions are all one
    whole, _ = transformer(src, mask, tgt)
    state = transformer.start(transformer.encode(src, mask), mask, src=src)
    for t in range(30):
        assert state.length == t
        torch.testing.assert_close(transformer.step(tgt[:, t], state), whole[:, t])


@every_variant
@torch.no_grad()
def test_weights_are_returned_without_changing_anything(changes: dict[str, Any]) -> None:
    transformer = model(changes)
    src, mask, tgt = inputs(transformer)
    fused, nothing = transformer(src, mask, tgt)
    explicit, attentions = transformer(src, mask, tgt, need_weights=True)
    assert nothing is None
    torch.testing.assert_close(explicit, fused)
    n, n_src, n_tgt = len(src), src.shape[1], tgt.shape[1]
    assert [w.shape for w in attentions.encoder] == [(n, 2, n_src, n_src)] * 2
    assert [w.shape for w in attentions.cross] == [(n, 2, n_tgt, n_src)] * 2
    expected = [] if "ssru" in str(changes) else [(n, 2, n_tgt, n_tgt)] * 2
    assert [w.shape for w in attentions.decoder] == expected
    for weights in (*attentions.encoder, *attentions.decoder, *attentions.cross):
        torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1], dtype=torch.float64))
    for weights in attentions.decoder:
        assert not weights.triu(1).any()


@every_variant
def test_training_and_inference_agree_and_every_parameter_learns(changes: dict[str, Any]) -> None:
    transformer = model(changes)
    src, mask, tgt = inputs(transformer)
    logits, _ = transformer(src, mask, tgt)
    with torch.no_grad():
        torch.testing.assert_close(transformer(src, mask, tgt)[0], logits.detach())
    torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), tgt[:, 1:].flatten()).backward()
    for name, parameter in transformer.named_parameters():
        assert parameter.grad is not None and parameter.grad.isfinite().all(), name
        # a bias of the keys adds the same to all scores of a query, which the softmax takes out
        assert parameter.grad.abs().max() > 1e-12 or name.endswith("k_proj.bias"), name


# --- the state of the decoder ---


def run(transformer: Transformer, state: DecoderState, pieces: Tensor) -> Tensor:
    """Feeds pieces [rows, T]; the logits after the last, [rows, V]."""
    for t in range(pieces.shape[1]):
        logits = transformer.step(pieces[:, t], state)
    return logits


@every_variant
@torch.no_grad()
def test_rows_can_be_repeated_dropped_and_moved(changes: dict[str, Any]) -> None:
    transformer = model(changes)
    src, mask, tgt = inputs(transformer)
    rows = torch.tensor([2, 0, 0, 2])
    state = transformer.start(transformer.encode(src, mask), mask, src=src)
    run(transformer, state, tgt[:, :4])
    state.reorder(rows)
    logits = run(transformer, state, tgt[rows, 4:])
    torch.testing.assert_close(logits, transformer(src[rows], mask[rows], tgt[rows])[0][:, -1])
    assert (logits[0] - logits[1]).abs().max() > 0.01  # the rows are not the same anyway


@every_variant
@torch.no_grad()
def test_beams_are_rows_of_their_sentence(changes: dict[str, Any]) -> None:
    transformer = model(changes)
    src, mask, _ = inputs(transformer)
    memory = transformer.encode(src, mask)
    pieces = torch.randint(0, transformer.config.tgt_vocab_size, (9, 4))  # another prefix for each beam
    logits = run(transformer, transformer.start(memory, mask, 3, src), pieces)
    for b in range(3):
        for k in range(3):
            row = b * 3 + k
            alone = transformer.start(memory[b : b + 1], mask[b : b + 1], src=src[b : b + 1])
            torch.testing.assert_close(run(transformer, alone, pieces[row : row + 1])[0], logits[row])


@torch.no_grad()
def test_two_decodings_at_once_do_not_mix() -> None:
    transformer = model({})
    src, mask, tgt = inputs(transformer)
    memory = transformer.encode(src, mask)
    one, other = transformer.start(memory, mask), transformer.start(memory.flip(0), mask.flip(0))
    for t in range(tgt.shape[1]):
        a, b = transformer.step(tgt[:, t], one), transformer.step(tgt[:, t].flip(0), other)
    torch.testing.assert_close(a, b.flip(0))
    assert not any("cache" in name or "state" in name for name, _ in transformer.named_buffers())


# --- embeddings, positions, output ---


def test_embeddings_are_scaled_and_then_positions_are_added() -> None:
    transformer = model({"sinusoid_layout": "halves", "position_offset": 3})
    ids = torch.tensor([[4, 4, 9]])
    x = transformer.encoder.embed(ids, transformer.src_embedding.weight, start=5)
    expected = transformer.src_embedding.weight[ids[0]] * math.sqrt(16) + sinusoids(3, 16, "halves", offset=8)
    torch.testing.assert_close(x[0], expected)


@torch.no_grad()
def test_sinusoids_go_on_for_ever_and_learned_positions_do_not() -> None:
    transformer = model({})
    ids = torch.zeros(1, 300, dtype=torch.long)  # past max_positions and past the table that is kept at first
    x = transformer.decoder.embed(ids, transformer.tgt_table)
    torch.testing.assert_close(x[0] - 4 * transformer.tgt_table[0], sinusoids(300, 16).double())

    learned = model({"positions": "learned", "position_offset": 2})
    assert learned.encoder.position_embedding is not None
    assert learned.encoder.embed(ids[:, :40], learned.tgt_table).shape == (1, 40, 16)
    with pytest.raises(IndexError, match="position 42 is beyond the 40 that the model knows"):
        learned.encoder.embed(ids[:, :41], learned.tgt_table)
    with pytest.raises(IndexError, match="position 42"):
        learned.encoder.embed(ids[:, :1], learned.tgt_table, start=40)


def test_relative_positions_look_both_ways_in_the_encoder_only() -> None:
    transformer = model(VARIANTS["relative"])
    device = torch.device("cpu")
    for stack, both in ((transformer.encoder, True), (transformer.decoder, False)):
        bias = stack.position_bias(20, 20, device)
        assert bias is not None and bias.shape == (1, 2, 20, 20) and stack.relative_bias is not None
        buckets = relative_buckets(torch.arange(20), 20, 8, 12, both)
        assert torch.equal(bias[0, 1], stack.relative_bias.weight[buckets, 1])
        last = stack.position_bias(1, 20, device)
        assert last is not None and torch.equal(last[0, :, 0], bias[0, :, -1])


def mixture_case() -> tuple[Transformer, Tensor, Tensor, Tensor]:
    """A model that copies, vectors x [2, 3, d_model], weights [2, H, 3, 5] of which the last row's last two are masked,
    and sources in which pieces stand more than once [2, 5]."""
    transformer = model(VARIANTS["pointer-generator"])
    torch.manual_seed(2)
    x, scores = torch.randn(2, 3, 16).double(), torch.randn(2, 2, 3, 5).double()
    scores[1, :, :, 3:] = -torch.inf
    return transformer, x, scores.softmax(-1), torch.tensor([[7, 4, 7, 9, 7], [2, 2, 30, 0, 0]])


def mixture_formula(transformer: Transformer, x: Tensor, cross: Tensor, src: Tensor) -> Tensor:
    """P [B, T, V] as it is written: the whole row of copies, added up piece by piece."""
    g = torch.sigmoid(x @ transformer.copy_gate.weight[0] + transformer.copy_gate.bias)[..., None]
    one_hot = torch.nn.functional.one_hot(src, transformer.config.tgt_vocab_size).double()
    return g * transformer.logits(x).softmax(-1) + (1 - g) * (cross[:, 0] @ one_hot)


@torch.no_grad()
def test_the_mixture_is_that_of_the_formula() -> None:
    transformer, x, cross, src = mixture_case()
    p = transformer.mixture(x, cross[:, POINTING_HEAD], src).exp()
    torch.testing.assert_close(p, mixture_formula(transformer, x, cross, src), atol=1e-8, rtol=1e-6)
    torch.testing.assert_close(p.sum(-1), torch.ones(2, 3).double())
    assert (p[0, :, 7] > cross[0, 0][:, [0, 2, 4]].max(-1).values * 0.01).all()
    changed = cross.clone()
    changed[:, 1] = changed[:, 1].flip(-1)  # other heads are not asked
    torch.testing.assert_close(transformer.mixture(x, changed[:, POINTING_HEAD], src).exp(), p)


def test_gradients_of_the_mixture_are_those_of_the_formula() -> None:
    """Also where a piece stands in the source more than once."""
    transformer, x, cross, src = mixture_case()
    towards = torch.randn(2, 3, 31, generator=torch.Generator().manual_seed(3)).double()
    found = []

    def ours(x: Tensor, cross: Tensor, src: Tensor) -> Tensor:
        return transformer.mixture(x, cross[:, POINTING_HEAD], src)

    for log_p in (ours, lambda *args: mixture_formula(transformer, *args).log()):
        leaves = [x.clone().requires_grad_(), cross.clone().requires_grad_()]
        gate = transformer.copy_gate.weight
        found.append(torch.autograd.grad((log_p(*leaves, src) * towards).sum(), [*leaves, gate]))
    (x_1, cross_1, gate_1), (x_2, cross_2, gate_2) = found
    real = (cross > 0).double()  # what is masked goes nowhere
    for ours, wanted in ((x_1, x_2), (cross_1 * real, cross_2 * real), (gate_1, gate_2)):
        torch.testing.assert_close(ours, wanted, atol=1e-7, rtol=1e-6)
        assert wanted.abs().max() > 0.01


@torch.no_grad()
def test_a_model_that_copies_needs_the_sources() -> None:
    transformer = model(VARIANTS["pointer-generator"])
    src, mask, tgt = inputs(transformer)
    state = transformer.start(transformer.encode(src, mask), mask)
    with pytest.raises(ValueError, match="must be started with its sources"):
        transformer.step(tgt[:, 0], state)
    assert model({}).start(transformer.encode(src), src=src).src is None  # and the others keep none


def test_tied_weights_are_there_once() -> None:
    def embeddings(changes: dict[str, Any]) -> set[str]:
        names = model(changes).state_dict().keys()
        return {name for name in names if not name.startswith(("encoder.", "decoder."))}

    assert embeddings({}) == {"src_embedding.weight"}
    assert embeddings({"share_embeddings": False}) == {"src_embedding.weight", "tgt_embedding.weight"}
    assert embeddings({"tie_output": False, "logits_bias": True}) == {
        "src_embedding.weight",
        "output.weight",
        "logits_bias",
    }


@torch.no_grad()
def test_the_output_layer_compares_with_the_target_table() -> None:
    transformer = model({"share_embeddings": False, "tgt_vocab_size": 23, "logits_bias": True})
    x = torch.randn(3, 16).double()
    expected = x @ transformer.tgt_embedding.weight.T + transformer.logits_bias
    torch.testing.assert_close(transformer.logits(x), expected)
    scaled = model({"scale_logits": True})
    torch.testing.assert_close(scaled.logits(x), x @ scaled.src_embedding.weight.T / 4)
    untied = model({"tie_output": False})
    torch.testing.assert_close(untied.logits(x), x @ untied.output.weight.T)


@torch.no_grad()
def test_the_order_of_the_source_matters() -> None:
    for name in ("2017", "halves", "learned", "relative"):
        transformer = model(VARIANTS[name])
        src, _, tgt = inputs(transformer, lengths=(6,))
        assert (transformer(src, None, tgt)[0] - transformer(src.flip(1), None, tgt)[0]).abs().max() > 0.01, name
