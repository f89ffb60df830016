"""The NumPy engine: each formula against the same written out number by number, then cache, masks and lazy weights."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pytest

from tx.model import numpy_engine
from tx.model.config import ModelConfig
from tx.model.numpy_engine import NumpyStepper, NumpyTransformer

Array = np.ndarray[Any, Any]
F32 = np.float32

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
    "learned": {"positions": "learned", "position_offset": 2, "embedding_norm": True, "activation": "gelu"},
    "relative": {
        "positions": "relative",
        "relative_buckets": 8,
        "relative_max_distance": 12,
        "norm": "rms",
        "norm_first": True,
        "final_norm": True,
        "bias": False,
        "gated_ffn": True,
        "activation": "gelu_tanh",
        "scale_attention": False,
        "scale_logits": True,
        "tie_output": False,
    },
    "two vocabularies": {
        "share_embeddings": False,
        "tgt_vocab_size": 23,
        "sinusoid_layout": "tensor2tensor",
        "logits_bias": True,
        "activation": "silu",
    },
    "ssru": {"decoder_autoregression": "ssru", "sinusoid_layout": "halves"},
    "segments": {"n_segments": 3, "embedding_norm": True},
    "pointer-generator": {"pointer_generator": True, "logits_bias": True, "share_embeddings": False},
}
every_variant = pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS)


def normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape, dtype=F32)


def shapes(c: ModelConfig) -> dict[str, tuple[int, ...]]:
    """Names and shapes of the tensors of an architecture."""
    inner, found = c.n_heads * c.d_head, {"src_embedding.weight": (c.src_vocab_size, c.d_model)}

    def linear(name: str, n_out: int, n_in: int, bias: bool = c.bias) -> None:
        found[f"{name}.weight"] = (n_out, n_in)
        if bias:
            found[f"{name}.bias"] = (n_out,)

    def norm(name: str) -> None:
        found[f"{name}.weight"] = (c.d_model,)
        if c.bias and c.norm == "layer":
            found[f"{name}.bias"] = (c.d_model,)

    def attention(name: str) -> None:
        for part in ("q_proj", "k_proj", "v_proj"):
            linear(f"{name}.{part}", inner, c.d_model)
        linear(f"{name}.o_proj", c.d_model, inner)
        norm(f"{name}_norm")

    if c.n_segments:
        found["encoder.segment_embedding.weight"] = (c.n_segments, c.d_model)
    for stack, n_layers in (("encoder", c.n_encoder_layers), ("decoder", c.n_decoder_layers)):
        if c.positions == "learned":
            found[f"{stack}.position_embedding.weight"] = (c.max_positions + c.position_offset, c.d_model)
        if c.positions == "relative":
            found[f"{stack}.relative_bias.weight"] = (c.relative_buckets, c.n_heads)
        for kind, wanted in (("embedding_norm", c.embedding_norm), ("final_norm", c.final_norm)):
            if wanted:
                norm(f"{stack}.{kind}")
        for i in range(n_layers):
            layer = f"{stack}.layers.{i}"
            if stack == "decoder" and c.decoder_autoregression == "ssru":
                linear(f"{layer}.self_attn.w", c.d_model, c.d_model, bias=False)
                linear(f"{layer}.self_attn.w_f", c.d_model, c.d_model, bias=True)
                norm(f"{layer}.self_attn_norm")
            else:
                attention(f"{layer}.self_attn")
            if stack == "decoder":
                attention(f"{layer}.cross_attn")
            for part in ("w_1", "w_gate") if c.gated_ffn else ("w_1",):
                linear(f"{layer}.ffn.{part}", c.d_ff, c.d_model)
            linear(f"{layer}.ffn.w_2", c.d_model, c.d_ff)
            norm(f"{layer}.ffn_norm")
    if not c.share_embeddings:
        found["tgt_embedding.weight"] = (c.tgt_vocab_size, c.d_model)
    if not c.tie_output:
        found["output.weight"] = (c.tgt_vocab_size, c.d_model)
    if c.logits_bias:
        found["logits_bias"] = (c.tgt_vocab_size,)
    if c.pointer_generator:
        found |= {"copy_gate.weight": (1, c.d_model), "copy_gate.bias": (1,)}
    return found


class Recorder(Mapping[str, Any]):
    """Tensors that cannot be written to, and how often each was asked for."""

    def __init__(self, tensors: Mapping[str, Any]) -> None:
        self.tensors, self.asked = dict(tensors), dict.fromkeys(tensors, 0)
        for tensor in self.tensors.values():
            if isinstance(tensor, np.ndarray):
                tensor.flags.writeable = False

    def __getitem__(self, name: str) -> Any:
        tensor = self.tensors[name]
        self.asked[name] += 1
        return tensor

    def __iter__(self) -> Iterator[str]:
        return iter(self.tensors)

    def __len__(self) -> int:
        return len(self.tensors)

    def touched(self) -> set[str]:
        return {name for name, times in self.asked.items() if times}


class Table:
    """Halves of which nothing can be had but the shape and rows, as from a file."""

    def __init__(self, values: Array) -> None:
        self.values, self.shape, self.rows = values, values.shape, []

    def __getitem__(self, rows: Any) -> Array:
        picked = np.arange(len(self.values))[rows]
        self.rows += picked.tolist()
        return np.asarray(self.values[picked])


def config(changes: Mapping[str, Any]) -> ModelConfig:
    return ModelConfig(**{**SIZES, **changes})


def weights(c: ModelConfig, dtype: Any = F32) -> dict[str, Array]:
    random = np.random.default_rng(0)
    found = {name: random.standard_normal(shape) * 0.4 for name, shape in shapes(c).items()}
    return {name: (x + 1 if name.endswith("norm.weight") else x).astype(dtype) for name, x in found.items()}


def model(changes: Mapping[str, Any], dtype: Any = F32) -> NumpyTransformer:
    return NumpyTransformer(config(changes), Recorder(weights(config(changes), dtype)))


def inputs(c: ModelConfig, lengths: tuple[int, ...] = (9, 5, 1), n_tgt: int = 20) -> tuple[Array, Array, Array]:
    random = np.random.default_rng(1)
    src = random.integers(0, c.src_vocab_size, (len(lengths), max(lengths)))
    mask = np.arange(max(lengths)) < np.array(lengths)[:, None]
    return src, mask, random.integers(0, c.tgt_vocab_size, (len(lengths), n_tgt))


# --- formulas ---


def test_softmax() -> None:
    x = normal(3, 2, 5) * 30
    x[0, 0] = [1e4, 1e4, -1e4, 0, 5]
    with np.errstate(over="raise", invalid="raise"):
        got = numpy_engine.softmax(x)
    for row, weights_ in zip(x.reshape(-1, 5).tolist(), got.reshape(-1, 5), strict=True):
        total = sum(math.exp(v - max(row)) for v in row)
        np.testing.assert_allclose(weights_, [math.exp(v - max(row)) / total for v in row], rtol=1e-5, atol=1e-30)
    assert got.dtype == F32


def naive_attention(Q: Array, K: Array, V: Array, mask: Array, bias: Array, scale: float) -> tuple[Array, Array]:
    """One head, number by number."""
    out, weights_ = np.zeros((len(Q), V.shape[1])), np.zeros((len(Q), len(K)))
    for t in range(len(Q)):
        seen = [s for s in range(len(K)) if mask[t, s]]
        e = {s: math.exp(scale * sum(float(q) * float(k) for q, k in zip(Q[t], K[s])) + bias[t, s]) for s in seen}  # noqa: B905
        for s in seen:
            weights_[t, s] = e[s] / sum(e.values())
            out[t] += weights_[t, s] * V[s]
    return out, weights_


@pytest.mark.parametrize("scale", [None, 1.0])
def test_attention(scale: float | None) -> None:
    Q, K, V = normal(2, 3, 4, 8), normal(2, 3, 6, 8, seed=1), normal(2, 3, 6, 5, seed=2)
    bias = normal(3, 4, 6, seed=3)
    mask = np.random.default_rng(4).random((2, 1, 4, 6)) < 0.6
    mask[1, 0, 2] = False  # nothing to look at
    out, got = numpy_engine.attention(Q, K, V, mask, bias, scale)
    for b in range(2):
        for h in range(3):
            args = mask[b, 0], bias[h], 1 / math.sqrt(8) if scale is None else scale
            wanted = naive_attention(Q[b, h], K[b, h], V[b, h], *args)
            np.testing.assert_allclose(out[b, h], wanted[0], atol=2e-6)
            np.testing.assert_allclose(got[b, h], wanted[1], atol=1e-6)
    assert not got[1, :, 2].any()
    assert not out[1, :, 2].any()
    assert out.dtype == got.dtype == F32
    np.testing.assert_allclose(got.sum(-1)[mask.any(-1).repeat(3, 1)], 1, rtol=1e-6)


def test_attention_without_a_mask_looks_everywhere() -> None:
    Q, K, V = normal(4, 8), normal(6, 8, seed=1), normal(6, 5, seed=2)
    wanted = naive_attention(Q, K, V, np.ones((4, 6), bool), np.zeros((4, 6)), 1 / math.sqrt(8))
    np.testing.assert_allclose(numpy_engine.attention(Q, K, V)[0], wanted[0], atol=2e-6)


@pytest.mark.parametrize("rows", [(1,), (2,), (2, 2), (7,), (1, 8), (3, 11), (0,), (2, 0)])
def test_linear(rows: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numpy_engine, "CACHED", 100)  # so that W has many parts, the last one smaller
    x, W, b = normal(*rows, 24), normal(37, 24, seed=1), normal(37, seed=2)
    got = numpy_engine.linear(x, W, b)
    assert got.shape == (*rows, 37)
    assert got.dtype == F32
    np.testing.assert_allclose(got, np.einsum("...i,oi->...o", x.astype(float), W.astype(float)) + b, atol=1e-5)
    np.testing.assert_allclose(numpy_engine.linear(x, W), got - b, atol=1e-5)


def test_norms() -> None:
    x, g, b, eps = normal(3, 2, 10) * 0.1 + 3, normal(10, seed=1), normal(10, seed=2), 0.02
    layer, shiftless = numpy_engine.layer_norm(x, g, b, eps), numpy_engine.layer_norm(x, g, None, eps)
    rms = numpy_engine.rms_norm(x, g, eps)
    for i in np.ndindex(3, 2):
        v = x[i].astype(float).tolist()
        mu = sum(v) / 10
        sigma = math.sqrt(sum((a - mu) ** 2 for a in v) / 10 + eps)
        root = math.sqrt(sum(a * a for a in v) / 10 + eps)
        np.testing.assert_allclose(layer[i], [(a - mu) / sigma * g[k] + b[k] for k, a in enumerate(v)], atol=1e-5)
        np.testing.assert_allclose(shiftless[i], layer[i] - b, atol=1e-6)
        np.testing.assert_allclose(rms[i], [a / root * g[k] for k, a in enumerate(v)], rtol=1e-6)
    assert layer.dtype == rms.dtype == F32


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("relu", lambda x: max(x, 0.0)),
        ("silu", lambda x: x / (1 + math.exp(-x)) if x > -700 else 0.0),
        ("gelu", lambda x: x / 2 * math.erfc(-x / math.sqrt(2))),
        ("gelu_tanh", lambda x: x / 2 * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))),
    ],
)
def test_activations(name: str, wanted: Callable[[float], float]) -> None:
    x = np.concatenate([np.linspace(-12, 12, 4001), [-1e4, 1e4, -90.0, 0.0]]).astype(F32)
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        got = numpy_engine.ACTIVATIONS[name](x)
    # At most this much beyond what rounding to float32 does to a number of the size. 1 + tanh loses digits near −1.
    atol = 5e-7 if name == "gelu_tanh" else 1e-7
    np.testing.assert_allclose(got, [wanted(v) for v in x.tolist()], rtol=3e-7, atol=atol)
    assert got.dtype == F32


def test_the_series_in_gelu() -> None:
    """In double precision only the error of the approximation is left: of Φ(−z√2) = erfc(z)/2, relative."""
    x = np.linspace(-8, -0.01, 3000)
    wanted = np.array([v / 2 * math.erfc(-v / math.sqrt(2)) for v in x.tolist()])
    assert np.abs(numpy_engine.gelu(x) / wanted - 1).max() < 6e-8


def test_feed_forward() -> None:
    x, W_1, b_1 = normal(2, 3, 4), normal(5, 4, seed=1), normal(5, seed=2)
    W_2, b_2 = normal(4, 5, seed=3), normal(4, seed=4)
    got = numpy_engine.feed_forward(x, W_1, b_1, W_2, b_2, numpy_engine.ACTIVATIONS["relu"])
    for i in np.ndindex(2, 3):
        hidden = [max(0.0, sum(float(x[i][k] * W_1[j, k]) for k in range(4)) + b_1[j]) for j in range(5)]
        wanted = [sum(hidden[j] * float(W_2[k, j]) for j in range(5)) + b_2[k] for k in range(4)]
        np.testing.assert_allclose(got[i], wanted, atol=1e-5)


def test_mixture() -> None:
    """Number by number: pieces 3 and 0 stand twice in a source, one piece is masked, one gate is nearly shut."""
    logits, gate = normal(2, 3, 6) * 3, normal(2, 3, 1, seed=1) * 2
    src = np.array([[3, 1, 3, 5], [0, 0, 4, 2]])
    weights_ = numpy_engine.softmax(normal(2, 3, 4, seed=2))
    weights_[1, :, 3] = 0
    gate[0, 1], logits[1, 0, 4] = -60.0, -2000.0
    with np.errstate(all="raise", under="ignore"):
        got = numpy_engine.mixture(logits.copy(), gate, weights_, src)
    assert got.dtype == F32
    for b, t in np.ndindex(2, 3):
        g = 1 / (1 + math.exp(-float(gate[b, t, 0])))
        e = [math.exp(v) for v in logits[b, t].tolist()]
        for piece in range(6):
            copied = sum(float(weights_[b, t, s]) for s in range(4) if src[b, s] == piece)
            assert got[b, t, piece] == pytest.approx(math.log(g * e[piece] / sum(e) + (1 - g) * copied), abs=1e-5)
    np.testing.assert_allclose(np.exp(got[0]).sum(-1), 1, rtol=1e-5)


def test_ssru_and_in_two_parts() -> None:
    x, W, W_f, b_f, c = normal(2, 6, 4), normal(4, 4, seed=1), normal(4, 4, seed=2), normal(4, seed=3), normal(2, 4)
    out, last = numpy_engine.ssru(x, W, W_f, b_f, c)
    for b in range(2):
        cell = c[b].astype(float)
        for t in range(6):
            forget = np.array([1 / (1 + math.exp(-(W_f[k].astype(float) @ x[b, t] + b_f[k]))) for k in range(4)])
            cell = forget * cell + (1 - forget) * (W.astype(float) @ x[b, t])
            np.testing.assert_allclose(out[b, t], np.maximum(cell, 0), atol=1e-5)
        np.testing.assert_allclose(last[b], cell, atol=1e-5)
    first, cell = numpy_engine.ssru(x[:, :2], W, W_f, b_f, c)
    second, cell = numpy_engine.ssru(x[:, 2:], W, W_f, b_f, cell)
    np.testing.assert_allclose(np.concatenate([first, second], 1), out, atol=1e-6)
    np.testing.assert_allclose(cell, last, atol=1e-6)


@pytest.mark.parametrize("layout", ["interleaved", "halves", "tensor2tensor"])
@pytest.mark.parametrize("d_model", [2, 12])
def test_sinusoids(layout: str, d_model: int) -> None:
    got, half = numpy_engine.sinusoids(300, d_model, layout), d_model // 2
    for pos in (0, 1, 7, 299):
        for i in range(half):
            exponent = i / max(half - 1, 1) if layout == "tensor2tensor" else 2 * i / d_model
            angle = pos / 10000**exponent
            sine, cosine = (2 * i, 2 * i + 1) if layout == "interleaved" else (i, half + i)
            assert got[pos, sine] == pytest.approx(math.sin(angle), abs=1e-7)
            assert got[pos, cosine] == pytest.approx(math.cos(angle), abs=1e-7)
    assert got.shape == (300, d_model)
    assert got.dtype == F32


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize(("n_buckets", "max_distance"), [(32, 128), (8, 12), (32, 50), (64, 256), (4, 4)])
def test_relative_buckets(n_buckets: int, max_distance: int, bidirectional: bool) -> None:
    got = numpy_engine.relative_buckets(np.array([0, 40, 399]), 400, n_buckets, max_distance, bidirectional)
    n = n_buckets // 2 if bidirectional else n_buckets
    exact, far = n // 2, n - n // 2
    for row, query in enumerate((0, 40, 399)):
        for key in range(400):
            d = abs(query - key) if bidirectional else max(query - key, 0)
            # far bucket k begins where (d / exact)^far ≥ (max_distance / exact)^k: in whole numbers, no rounding
            k = sum(d**far * exact**k >= max_distance**k * exact**far for k in range(1, far))
            wanted = (d if d < exact else exact + k) + (n if bidirectional and key > query else 0)
            assert got[row, key] == wanted, (query, key)


def test_halves_become_float32_bit_by_bit() -> None:
    every = np.arange(2**16, dtype=np.uint16).view(np.float16)
    finite = every[np.isfinite(every)]
    infinite = [np.append(finite[:9], v).astype(np.float16) for v in (np.inf, -np.inf, np.nan, -np.nan)]
    for halves in (finite, every, finite[::3], finite.reshape(-1, 2).T, finite[:0], *infinite):
        got = numpy_engine.float32(halves)
        assert got.dtype == F32
        np.testing.assert_array_equal(got, halves.astype(F32))
        np.testing.assert_array_equal(np.signbit(got), np.signbit(halves))


def test_other_floats_become_float32() -> None:
    assert numpy_engine.float32(np.array([1 / 3])).tolist() == [float(F32(1 / 3))]
    single = normal(3)
    assert numpy_engine.float32(single) is single


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("last", [1.0, np.inf])
def test_numbers_are_converted_into_a_given_place(dtype: Any, last: float) -> None:
    x, place = np.array([[1 / 3, -2.5], [0.0, last]], dtype), normal(2, 2)
    assert numpy_engine.float32(x, place) is place
    np.testing.assert_array_equal(place, x.astype(F32))


def test_arrays_of_a_room_do_not_overlap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numpy_engine, "ROOM", 100)
    room = numpy_engine.Room()
    shapes = [(3, 5), (2, 16), (), (0, 4), (300,), (53,), (1, 2, 3)]
    arrays = [room.take(shape) for shape in shapes]
    for i, array in enumerate(arrays):
        array[...] = i
    assert [a.shape for a in arrays] == shapes and {a.dtype for a in arrays} == {np.dtype(F32)}
    assert all((array == i).all() for i, array in enumerate(arrays))
    assert arrays[0].base is arrays[1].base and arrays[1].ctypes.data - arrays[0].ctypes.data == 64


# --- the model ---


@every_variant
def test_everything_is_float32(changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Every result of every formula, from halves; a single double would make all that follows it one."""
    seen = []

    def checked(name: str, formula: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            found = formula(*args, **kwargs)
            for array in found if isinstance(found, tuple) else (found,):
                assert array.dtype == F32, name
            seen.append(name)
            return found

        return call

    for name in (
        "softmax",
        "attention",
        "linear",
        "mean",
        "layer_norm",
        "rms_norm",
        "ssru",
        "sinusoids",
        "mixture",
        "float32",
    ):
        monkeypatch.setattr(numpy_engine, name, checked(name, getattr(numpy_engine, name)))
    for name, formula in numpy_engine.ACTIVATIONS.items():
        monkeypatch.setitem(numpy_engine.ACTIVATIONS, name, checked(name, formula))
    transformer = model(changes, np.float16)
    src, mask, tgt = inputs(transformer.config)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        logits, attentions = transformer.forward(src, mask, tgt, need_weights=True)
        memory = transformer.encode(src, mask)
        state = transformer.start(memory, mask, 2, src)
        for _ in range(3):
            state.reorder(np.array([1, 0, 3, 2, 5, 4]))
            assert transformer.step(np.arange(6), state).dtype == F32
    assert attentions is not None
    for array in (logits, memory, *state.past, *state.cross, *attentions.encoder, *attentions.decoder):
        assert array.dtype == F32
    assert {"softmax", "linear", transformer.config.activation} <= set(seen)


@every_variant
def test_steps_give_what_the_full_pass_gives(changes: dict[str, Any]) -> None:
    transformer = model(changes)
    src, mask, tgt = inputs(transformer.config)
    full, attentions = transformer.forward(src, mask, tgt)
    assert attentions is None
    state = transformer.start(transformer.encode(src, mask), mask, src=src)
    for t in range(tgt.shape[1]):
        np.testing.assert_allclose(transformer.step(tgt[:, t], state), full[:, t], atol=2e-5, rtol=1e-5)
    assert state.length == tgt.shape[1]


@every_variant
@pytest.mark.parametrize("beams", [1, 3])
def test_reordered_rows_go_on_as_their_own_history(changes: dict[str, Any], beams: int) -> None:
    """Rows move within their sentence, sentences are dropped and swapped, then rows are taken from anywhere: after each
    the logits are those of a full pass over that row's source and pieces."""
    transformer = model(changes)
    src, mask, _ = inputs(transformer.config)
    stepper, random = NumpyStepper(transformer, pad=0), np.random.default_rng(2)
    sentences = np.arange(3).repeat(beams)
    state = stepper.start([row[keep].tolist() for row, keep in zip(src, mask, strict=True)], beams)
    history = np.zeros((len(sentences), 0), dtype=np.int64)

    def go_on(rows: Array | None = None) -> None:
        nonlocal state, sentences, history
        if rows is not None:
            state = stepper.reorder(state, rows)
            sentences, history = sentences[rows], history[rows]
        ids = random.integers(0, transformer.config.tgt_vocab_size, len(sentences))
        history = np.concatenate([history, ids[:, None]], axis=1)
        logits = stepper.step(ids, state)
        full, _ = transformer.forward(src[sentences], mask[sentences], history)
        np.testing.assert_allclose(logits, full[:, -1], atol=2e-5, rtol=1e-5)

    go_on()
    cross = state.cross[0]
    assert cross.shape[1] == 3  # once a sentence, however many beams
    for _ in range(18):  # past the first allocation of the cache
        go_on((np.arange(3)[:, None] * beams + random.integers(0, beams, (3, beams))).ravel())
    assert state.cross[0] is cross
    go_on(np.concatenate([np.arange(2 * beams, 3 * beams), np.arange(beams)]))  # sentences 2 and 0
    assert state.cross[0].shape[1] == 2
    go_on(np.arange(2 * beams)[::-1].copy())
    assert state.cross[0].shape[1] == 2
    go_on(np.array([0, 2 * beams - 1, 0]))
    assert state.cross[0].shape[1] == 3
    go_on(np.array([2, 1]))
    go_on(np.array([0]))


@every_variant
def test_padding_does_not_matter(changes: dict[str, Any]) -> None:
    transformer = model(changes)
    src, mask, tgt = inputs(transformer.config)
    logits, attentions = transformer.forward(src, mask, tgt, need_weights=True)
    assert attentions is not None
    src[~mask] = 7
    np.testing.assert_array_equal(transformer.forward(src, mask, tgt)[0], logits)
    for b, length in enumerate(mask.sum(1).tolist()):
        alone, own = transformer.forward(src[b : b + 1, :length], None, tgt[b : b + 1], need_weights=True)
        np.testing.assert_allclose(alone[0], logits[b], atol=2e-5, rtol=1e-5)
        assert own is not None
        for kind in ("encoder", "decoder", "cross"):
            for mine, batch in zip(getattr(own, kind), getattr(attentions, kind), strict=True):
                n_queries, n_keys = mine.shape[2:]
                np.testing.assert_allclose(batch[b, :, :n_queries, :n_keys], mine[0], atol=1e-5)
                assert not batch[b, :, :n_queries, n_keys:].any()


@every_variant
def test_no_piece_sees_what_comes_after_it(changes: dict[str, Any]) -> None:
    transformer = model(changes)
    src, mask, tgt = inputs(transformer.config, n_tgt=6)
    before, attentions = transformer.forward(src, mask, tgt, need_weights=True)
    for t in range(6):
        other = tgt.copy()
        other[:, t] = (other[:, t] + 1) % transformer.config.tgt_vocab_size
        moved = np.abs(transformer.forward(src, mask, other)[0] - before).max(axis=(0, 2))
        assert (moved > 1e-4).tolist() == [False] * t + [True] * (6 - t)
    assert attentions is not None
    assert len(attentions.decoder) == (0 if transformer.config.decoder_autoregression == "ssru" else 2)
    assert all(not np.triu(weights_, 1).any() for weights_ in attentions.decoder)


@every_variant
def test_tensors_are_read_when_they_are_needed_and_once(changes: dict[str, Any]) -> None:
    c = config(changes)
    tensors = Recorder(weights(c, np.float16))
    transformer = NumpyTransformer(c, tensors)
    assert not tensors.touched()
    src, mask, tgt = inputs(c)
    memory = transformer.encode(src, mask)
    assert tensors.touched() == {n for n in tensors if n.startswith("encoder.")} | {"src_embedding.weight"}
    state = transformer.start(memory, mask, src=src)
    kv = {n for n in tensors if ".cross_attn.k_proj." in n or ".cross_attn.v_proj." in n}
    assert {n for n in tensors.touched() if n.startswith("decoder.")} == kv
    for t in range(3):
        transformer.step(tgt[:, t], state)
    assert tensors.touched() == set(tensors)
    before = dict(tensors.asked)
    transformer.step(tgt[:, 3], state)
    transformer.forward(src, mask, tgt)
    assert tensors.asked == before
    # A table that is the output layer too is asked for a second time: rows of it first, then the whole.
    tied = transformer.tgt_table if c.tie_output else None
    assert {n for n, times in tensors.asked.items() if times > 1} <= {tied}


def test_of_embedding_tables_only_rows_are_read() -> None:
    changes = {"share_embeddings": False, "tie_output": False, "positions": "learned", "position_offset": 2}
    c = config(changes)
    tensors: dict[str, Any] = dict(weights(c, np.float16))
    plain = NumpyTransformer(c, dict(tensors))
    names = ["src_embedding.weight", "tgt_embedding.weight", "encoder.position_embedding.weight"]
    for name in names:
        tensors[name] = Table(tensors[name])
    transformer = NumpyTransformer(c, tensors)
    src, tgt = np.array([[4, 9, 4]]), np.array([[30, 2]])
    np.testing.assert_array_equal(transformer.forward(src, None, tgt)[0], plain.forward(src, None, tgt)[0])
    assert [sorted(set(tensors[name].rows)) for name in names] == [[4, 9], [2, 30], [2, 3, 4]]


def test_no_more_sinusoids_than_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    lengths, original = [], numpy_engine.sinusoids

    def counted(length: int, *args: Any) -> Array:
        lengths.append(length)
        return original(length, *args)

    monkeypatch.setattr(numpy_engine, "sinusoids", counted)
    transformer = model({})
    state = transformer.start(transformer.encode(np.array([[1, 2, 3]])))
    for _ in range(100):
        transformer.step(np.array([5]), state)
    assert lengths == [32, 64, 128]
    transformer.encode(np.ones((1, 300), dtype=np.int64))
    assert lengths == [32, 64, 128, 300]


def test_past_the_learned_positions_is_an_error() -> None:
    transformer = model(VARIANTS["learned"])
    transformer.encode(np.ones((1, 40), dtype=np.int64))
    with pytest.raises(IndexError, match="position 42 is beyond the 40 that the model knows"):
        transformer.encode(np.ones((1, 41), dtype=np.int64))
    state = transformer.start(transformer.encode(np.array([[1]])))
    for _ in range(40):
        transformer.step(np.array([5]), state)
    with pytest.raises(IndexError, match="position 42 is beyond"):
        transformer.step(np.array([5]), state)


@pytest.mark.parametrize("piece", [-1, 31])
def test_a_piece_that_is_not_in_the_table_is_an_error(piece: int) -> None:
    transformer = model({})
    state = transformer.start(transformer.encode(np.array([[1, 2]])))
    for bad in (lambda: transformer.encode(np.array([[1, piece]])), lambda: transformer.step(np.array([piece]), state)):
        with pytest.raises(IndexError, match=str(piece)):
            bad()


@every_variant
def test_a_missing_tensor_is_named(changes: dict[str, Any]) -> None:
    c = config(changes)
    for name in weights(c):
        tensors = weights(c)
        del tensors[name]
        src, mask, tgt = inputs(c, n_tgt=2)
        with pytest.raises(KeyError, match=name):
            NumpyTransformer(c, tensors).forward(src, mask, tgt)


def test_a_model_that_copies_needs_the_sources() -> None:
    transformer = model(VARIANTS["pointer-generator"])
    state = transformer.start(transformer.encode(np.array([[1, 2]])))
    with pytest.raises(ValueError, match="must be started with its sources"):
        transformer.step(np.array([5]), state)


def test_the_sources_stay_with_their_sentences() -> None:
    """Of two models that differ only in the gate, the one that only copies says nothing but pieces of its source."""
    c = config(VARIANTS["pointer-generator"])
    tensors = {**weights(c), "copy_gate.bias": np.array([-1e4], F32)}
    stepper = NumpyStepper(NumpyTransformer(c, tensors), pad=0)
    src = [[3, 4, 3, 1], [5, 6], [9, 8, 1]]
    state = stepper.start(src, beams=2)
    sentences = np.arange(3).repeat(2)
    for rows in ([1, 0, 2, 3, 5, 5], [4, 5, 0, 1], [3, 0, 2], [1]):
        state, sentences = stepper.reorder(state, np.array(rows)), sentences[rows]
        log_p = stepper.step(np.full(len(rows), 7), state)
        assert [set(np.flatnonzero(row > -50)) for row in log_p] == [set(src[s]) for s in sentences]


def test_the_stepper_pads_on_the_right() -> None:
    transformer = model({})
    stepper = NumpyStepper(transformer, pad=30)
    state = stepper.start([[3, 4, 1], [5, 1]], beams=2)
    src, mask = np.array([[3, 4, 1], [5, 1, 30]]), np.array([[True] * 3, [True, True, False]])
    wanted, _ = transformer.forward(src, mask, np.array([[7], [8]]))
    got = stepper.step(np.array([7, 8, 7, 8]), state)
    np.testing.assert_allclose(got[[0, 3]], wanted[:, 0], atol=1e-5)
    assert stepper.start([[3, 1], [4, 1]], beams=1).memory_mask is None  # nothing is padded: nothing to mask
    got[:] = np.nan  # the search may overwrite the logits
    assert np.isfinite(stepper.step(np.array([1, 1, 1, 1]), state)).all()


def test_the_stepper_hands_on_the_kinds_of_pieces() -> None:
    transformer = model(VARIANTS["segments"])
    stepper = NumpyStepper(transformer, pad=30)
    state = stepper.start([[3, 4, 1], [5, 1]], 1, [np.array([2, 1, 0], np.uint8), np.array([1, 2], np.uint8)])
    src, mask = np.array([[3, 4, 1], [5, 1, 30]]), np.array([[True] * 3, [True, True, False]])
    kinds = np.array([[2, 1, 0], [1, 2, 0]])
    wanted, _ = transformer.forward(src, mask, np.array([[7], [8]]), segments=kinds)
    plain, _ = transformer.forward(src, mask, np.array([[7], [8]]))
    np.testing.assert_allclose(stepper.step(np.array([7, 8]), state), wanted[:, 0], atol=1e-5)
    assert np.abs(wanted - plain).max() > 0.1
