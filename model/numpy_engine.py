"""The Transformer in plain NumPy, from the formulas: "Attention Is All You Need" (Vaswani et al. 2017) and descendants.

Read from top to bottom: the formulas, the state that lets a decoder go piece by piece, and the model that puts them
together. Letters are the paper's: B sentences, H heads, D = d_k = d_v components a head, T queries and S keys (in
cross-attention the pieces of the target and of the source). A matrix W is stored [n_out, n_in], which is the paper's Wᵀ:
what the paper writes x W is `linear(x, W)`. All arithmetic is float32: factors are Python floats, because a float64
number of NumPy's would turn whole arrays into float64. It computes what `transformer.Transformer` computes, and needs no
PyTorch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .config import POINTING_HEAD, ModelConfig
from .results import Attentions

Array = np.ndarray[Any, Any]
LOWEST = np.finfo(np.float32).min  # a float32
CACHED = 2**16  # numbers that fit into a core's cache and leave room: 256 KB
ROOM = 2**22  # numbers: 16 MB


# --- the formulas ---


def softmax(x: Array) -> Array:
    """exp(x_i) / Σ_j exp(x_j) over the last dimension; the maximum is taken off first, so that nothing overflows."""
    e: Array = np.exp(x - np.maximum.reduce(x, axis=-1, keepdims=True))
    e /= np.add.reduce(e, axis=-1, keepdims=True)
    return e


def attention(
    Q: Array, K: Array, V: Array, mask: Array | None = None, bias: Array | None = None, scale: float | None = None
) -> tuple[Array, Array]:
    """Attention(Q, K, V) = softmax(Q Kᵀ / √d_k + bias) V (Vaswani et al. 2017, eq. 1).

    Q [..., T, D], K and V [..., S, D]; mask (True where the query may look) and bias broadcast to [..., T, S]; `scale`
    replaces 1/√d_k. Returns the output [..., T, D] and the weights [..., T, S]. Each row of weights adds up to 1; one
    whose keys are all masked is zero.
    """
    scores = (Q * (1 / math.sqrt(Q.shape[-1]) if scale is None else scale)) @ K.swapaxes(-1, -2)
    if bias is not None:
        scores += bias
    if mask is not None:  # the lowest number instead of −∞: a fully masked row has no NaN, and is emptied below
        scores = np.where(mask, scores, LOWEST)
    weights = softmax(scores)
    if mask is not None:
        weights *= mask
    return weights @ V, weights


def linear(x: Array, W: Array, b: Array | None = None) -> Array:
    """x Wᵀ + b, the paper's x W + b: x [..., n_in], W [n_out, n_in], b [n_out] → [..., n_out].

    W stays as it is stored. With a transposed copy, one row of x took the same and more rows 0.6 to 1 times as long, but
    to make one of an output layer of 13,705 × 256 takes as long as forty steps. For a few rows, BLAS would first
    rearrange all of W: row by row, over parts of W that stay in the processor's cache meanwhile, took 0.5 to 0.8 times
    as long.
    """
    rows, n_out = x.reshape(-1, x.shape[-1]), len(W)
    if 1 < len(rows) < 8:
        y = np.empty((len(rows), n_out), np.float32)
        part = max(1, CACHED // W.shape[1])
        for i in range(0, n_out, part):
            np.matmul(rows[:, None], W[i : i + part].T, out=y[:, None, i : i + part])
    else:
        y = rows @ W.T
    if b is not None:
        y += b
    return y.reshape(*x.shape[:-1], n_out)


def mean(x: Array) -> Array:
    """Over the last dimension, which stays as 1. (`x.mean` takes three times as long for a few rows.)"""
    total: Array = np.add.reduce(x, axis=-1, keepdims=True)
    total *= 1 / x.shape[-1]
    return total


def layer_norm(x: Array, g: Array, b: Array | None, eps: float) -> Array:
    """(x − μ) / √(σ² + ε) ⊙ g + b, with mean μ and variance σ² over the last dimension (Ba et al. 2016)."""
    x = x - mean(x)
    x /= np.sqrt(mean(x * x) + eps)
    x *= g
    return x if b is None else x + b


def rms_norm(x: Array, g: Array, eps: float) -> Array:
    """x / √(mean x² + ε) ⊙ g (Zhang & Sennrich 2019)."""
    return np.asarray(x / np.sqrt(mean(x * x) + eps) * g)


def sigmoid(x: Array) -> Array:
    """σ(x) = 1 / (1 + e^−x). Below −87, where e^−x would overflow, it stays at 10⁻³⁸."""
    return np.asarray(1.0 / (1.0 + np.exp(-np.maximum(x, -87.0))))


def mixture(logits: Array, gate: Array, weights: Array, src: Array) -> Array:
    """log P with P = g · softmax(logits) + (1 − g) · Σ_{s: src_s = piece} weights_s and g = σ(gate): the pointer-generator
    of See et al. 2017, eq. 9, with g for their p_gen.

    logits [B, T, V], gate [B, T, 1], weights [B, T, S], src [B, S] → [B, T, V], in the place of the logits. Only at the
    pieces of the source is there more than the first term.
    """
    top = np.maximum.reduce(logits, axis=-1, keepdims=True)
    e = logits - top
    np.exp(e, out=e)
    log_p = logits
    log_p -= top + np.log(np.add.reduce(e, axis=-1, keepdims=True)) + np.logaddexp(0.0, -gate)  # = −log g
    same = (src[:, :, None] == src[:, None]).astype(np.float32)  # a piece may stand in the source more than once
    copied = np.log(np.maximum(weights @ same, 1e-30)) - np.logaddexp(0.0, gate)  # a masked piece has no logarithm
    at = np.arange(len(src))[:, None, None], np.arange(logits.shape[1])[:, None], src[:, None]
    log_p[at] = np.logaddexp(log_p[at], copied)
    return log_p


# erfc(z) ≈ e^(−z²) Σ a_k t^k with t = 1 / (1 + 0.42 z), k = 1 … 8: the form of Abramowitz & Stegun 1964, 7.1.26. The
# a_k are our own least squares, weighted until the relative error was level: at most 4·10⁻⁸ for 0 ≤ z ≤ 6.
ERFC = (0.23672769, 0.24094533, 0.18683514, 0.29323417, -0.17449386, 0.48641968, -0.34585897, 0.07619084)


def gelu(x: Array) -> Array:
    """x Φ(x), Φ the normal distribution (Hendrycks & Gimpel 2016), as max(x, 0) − |x| ½ erfc(|x|/√2), which loses no
    digits by cancellation."""
    z = np.abs(x) * math.sqrt(0.5)
    t = 1.0 / (1.0 + 0.42 * z)
    series = ERFC[-1] * t
    for a in reversed(ERFC[:-1]):
        series += a
        series *= t
    return np.asarray(np.maximum(x, 0.0) - math.sqrt(0.5) * z * series * np.exp(-z * z))


def gelu_tanh(x: Array) -> Array:
    """½ x (1 + tanh(√(2/π) (x + 0.044715 x³))): the approximation in Hendrycks & Gimpel 2016, §2."""
    return np.asarray(0.5 * x * (1.0 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x))))


ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "relu": lambda x: np.maximum(x, 0.0),
    "silu": lambda x: x * sigmoid(x),  # Elfwing et al. 2017
    "gelu": gelu,
    "gelu_tanh": gelu_tanh,
}


def feed_forward(
    x: Array, W_1: Array, b_1: Array | None, W_2: Array, b_2: Array | None, f: Callable[[Array], Array]
) -> Array:
    """FFN(x) = f(x W_1 + b_1) W_2 + b_2 (Vaswani et al. 2017, eq. 2; f = ReLU there)."""
    return linear(f(linear(x, W_1, b_1)), W_2, b_2)


def ssru(x: Array, W: Array, W_f: Array, b_f: Array, c: Array) -> tuple[Array, Array]:
    """f_t = σ(x_t W_f + b_f);  c_t = f_t ⊙ c_{t−1} + (1 − f_t) ⊙ x_t W;  output ReLU(c_t) (Kim et al. 2019, §3.1).

    x [B, T, d_model] and the last cell c [B, d_model] → output [B, T, d_model] and the new cell.
    """
    f = sigmoid(linear(x, W_f, b_f))
    cells = (1.0 - f) * linear(x, W)
    for t in range(x.shape[1]):
        cells[:, t] += f[:, t] * c
        c = cells[:, t]
    return np.maximum(cells, 0.0), c


def sinusoids(length: int, d_model: int, layout: str = "interleaved") -> Array:
    """PE(pos, 2i) = sin(pos · ω_i), PE(pos, 2i+1) = cos(pos · ω_i), ω_i = 10000^(−2i/d_model) (§3.5): [length, d_model].

    "halves" has all sines before all cosines; "tensor2tensor" too, with ω_i = 10000^(−i/(d_model/2 − 1)).
    """
    i = np.arange(d_model // 2)
    exponent = i / max(d_model // 2 - 1, 1) if layout == "tensor2tensor" else 2 * i / d_model
    angle = np.arange(length)[:, None] * np.exp(-math.log(10000) * exponent)
    parts = np.sin(angle), np.cos(angle)
    table: Array = np.stack(parts, axis=-1) if layout == "interleaved" else np.concatenate(parts, axis=-1)
    return np.asarray(table.reshape(length, d_model), np.float32)


def relative_buckets(
    query_positions: Array, n_keys: int, n_buckets: int, max_distance: int, bidirectional: bool
) -> Array:
    """The bucket of each (query, key) distance (Raffel et al. 2020, §2.1): [T] positions → [T, n_keys].

    Half of the buckets (of those on one side, when `bidirectional`) are for exact distances, the others grow
    logarithmically up to `max_distance`; whatever lies further shares the last one. Without `bidirectional`, keys to
    the right of the query all fall into bucket 0: they are masked anyway.
    """
    distance = query_positions[:, None] - np.arange(n_keys)
    n_side = n_buckets // 2 if bidirectional else n_buckets
    side = np.where(distance < 0, n_side, 0) if bidirectional else 0
    distance = np.abs(distance) if bidirectional else np.maximum(distance, 0)
    n_exact = n_side // 2
    growth = np.log(np.maximum(distance, 1).astype(np.float32) / n_exact) / math.log(max_distance / n_exact)
    far = n_exact + (growth * (n_side - n_exact)).astype(np.int64)
    return np.asarray(side + np.where(distance < n_exact, distance, np.minimum(far, n_side - 1)))


def float32(x: Any, y: Array | None = None) -> Array:
    """Numbers of any float type as float32, written to `y` if that is given. Halves go by their bits, nearly twice as
    fast as NumPy converts them: sign, exponent and fraction are shifted into place, then 2¹¹² makes up for the different
    bias of the exponents."""
    x = np.asarray(x)
    if y is None:
        if x.dtype == np.float32:
            return np.asarray(x)
        y = np.empty(x.shape, np.float32)
    # An exponent of ones, infinity or NaN, cannot be shifted: as integers these are the highest of either sign.
    if x.dtype != np.float16 or x.view(np.int16).max(initial=0) > 0x7BFF or x.view(np.uint16).max(initial=0) > 0xFBFF:
        y[...] = x
        return y
    bits = y.view(np.int32)
    bits[...] = x.view(np.int16)
    bits <<= 13
    bits &= ~0x70000000  # copies of the sign
    y *= 2.0**112
    return y


class Room:
    """Memory for weights, asked for in large pieces: for these NumPy gets pages of 2 MB from Linux, and small pages, each
    of which the system first has to clear when it is touched, take longer than all the arithmetic of `float32`."""

    def __init__(self) -> None:
        self._rest = np.empty(0, np.float32)

    def take(self, shape: tuple[int, ...]) -> Array:
        """An array of this shape, with any content."""
        n = math.prod(shape)
        if n > len(self._rest):
            self._rest = np.empty(max(n, ROOM), np.float32)
        taken, self._rest = self._rest[:n], self._rest[-(-n // 16) * 16 :]  # the next begins at a cache line too
        return taken.reshape(shape)


# --- the model ---


@dataclass
class State:
    """What decoding one more piece needs. Row b·beams + k is beam k of sentence b.

    cross: for each layer keys and values of the memory [2, B, H, S, D], once for all beams of a sentence.
    past: for each layer keys and values of the pieces so far [rows, 2, H, room for pieces, D], or SSRU's cell
    [rows, d_model]. memory_mask [B, 1, 1, S], None if nothing is padded. src [B, S]: the pieces of the sources, where the
    model copies. length: pieces fed so far. shortlist: the ids [K] that may come next, with their rows of the output layer
    [K, d_model] and its bias [K] or None; None: all pieces may.
    """

    cross: list[Array]
    past: list[Array]
    memory_mask: Array | None
    beams: int
    src: Array | None = None
    length: int = 0
    shortlist: tuple[Array, Array, Array | None] | None = None

    def append(self, layer: int, K: Array, V: Array) -> tuple[Array, Array]:
        """Adds keys and values [rows, H, T, D] of the next T pieces; returns those of all pieces, without a copy."""
        past, end = self.past[layer], self.length + K.shape[2]
        rows, _, H, room, D = past.shape
        if end > room:
            self.past[layer] = np.empty((rows, 2, H, max(end, 2 * room, 16), D), np.float32)
            self.past[layer][:, :, :, :room] = past
            past = self.past[layer]
        past[:, 0, :, self.length : end] = K
        past[:, 1, :, self.length : end] = V
        return past[:, 0, :, :end], past[:, 1, :, :end]

    def reorder(self, rows: Array) -> None:
        """Keeps the rows with these numbers [n], in this order; a row may be repeated or dropped. In place."""
        self.past = [item[rows] for item in self.past]
        sentences, n_sentences = rows // self.beams, self.cross[0].shape[1]
        if len(rows) % self.beams == 0 and (sentences == sentences[:: self.beams].repeat(self.beams)).all():
            sentences = sentences[:: self.beams]  # whole groups of beams go on sharing a memory
        else:
            self.beams = 1
        if len(sentences) != n_sentences or (sentences != np.arange(n_sentences)).any():
            self.cross = [item[:, sentences] for item in self.cross]
            self.memory_mask = None if self.memory_mask is None else self.memory_mask[sentences]
            self.src = None if self.src is None else self.src[sentences]


class NumpyTransformer:
    """The model that `config` describes; `tensors` has its weights, of any float type, by the names of
    `Transformer.state_dict()`.

    A tensor is read and converted when it is first used, then kept. Embedding tables may be anything with `.shape` and
    `[rows]`: only the rows of the pieces at hand are converted, and all of them only where the table is the output layer.
    """

    def __init__(self, config: ModelConfig, tensors: Mapping[str, Any]) -> None:
        self.config, self.tensors = config, tensors
        self.tgt_table = "src_embedding.weight" if config.share_embeddings else "tgt_embedding.weight"
        self.scale = 1 / math.sqrt(config.d_head) if config.scale_attention else 1.0
        self._converted: dict[tuple[str, ...], Array] = {}
        self._room = Room()
        self._tables: dict[str, Any] = {}
        self._sinusoids = np.empty((0, config.d_model), np.float32)

    def encode(
        self,
        src: Array,
        src_mask: Array | None = None,
        maps: list[Array] | None = None,
        segments: Array | None = None,
    ) -> Array:
        """src [B, S], src_mask [B, S] (True = a piece; None: nothing is padded) and segments [B, S] (the kind of each
        piece; None: all of kind 0) → memory [B, S, d_model].

        Each layer's weights of attention [B, H, S, S] are added to `maps`."""
        x = self._embed(src, "src_embedding.weight", "encoder", 0, segments)
        mask = None if src_mask is None else src_mask[:, None, None, :]
        bias = self._position_bias("encoder", src.shape[1], src.shape[1])
        for i in range(self.config.n_encoder_layers):
            layer = f"encoder.layers.{i}"
            x = self._sublayer(x, f"{layer}.self_attn", self._self_attention, None, i, mask, bias, maps)
            x = self._sublayer(x, f"{layer}.ffn", self._feed_forward)
        return self._norm(x, "encoder.final_norm") if self.config.final_norm else x

    def start(self, memory: Array, src_mask: Array | None = None, beams: int = 1, src: Array | None = None) -> State:
        """The state before the first piece, for B·beams rows. A model that copies needs the sources, src [B, S]."""
        c, rows = self.config, len(memory) * beams
        layers = [f"decoder.layers.{i}" for i in range(c.n_decoder_layers)]
        cross = [np.ascontiguousarray(self._heads(memory, f"{layer}.cross_attn", "kv")) for layer in layers]
        shape = (rows, c.d_model) if c.decoder_autoregression == "ssru" else (rows, 2, c.n_heads, 0, c.d_head)
        past: list[Array] = [np.zeros(shape, np.float32) for _ in layers]
        mask = None if src_mask is None else src_mask[:, None, None, :]
        return State(cross, past, mask, beams, src if c.pointer_generator else None)

    def step(self, ids: Array, state: State) -> Array:
        """Feeds one piece a row, ids [rows]; `state` moves on in place. Returns the logits of the next, [rows, V]; of a
        model that copies, log P. ValueError if such a one was started without the sources."""
        return self._next(ids[:, None], state)[:, 0]

    def forward(
        self,
        src: Array,
        src_mask: Array | None,
        tgt: Array,
        need_weights: bool = False,
        segments: Array | None = None,
    ) -> tuple[Array, Attentions | None]:
        """src [B, S], src_mask and segments [B, S] or None, tgt [B, T] → logits [B, T, V] for the piece after each of tgt
        (of a model that copies, log P), and with `need_weights` the attention of all layers and heads."""
        maps = Attentions([], [], []) if need_weights else None
        memory = self.encode(src, src_mask, maps and maps.encoder, segments)
        return self._next(tgt, self.start(memory, src_mask, 1, src), maps), maps

    def cross_attention(self, src: Array, src_mask: Array | None, tgt: Array, segments: Array | None = None) -> Array:
        """The weights with which each piece of tgt [B, T] looks at the source: [B, layers, H, T, S]."""
        maps = Attentions([], [], [])
        self._decode(tgt, self.start(self.encode(src, src_mask, None, segments), src_mask), maps)
        return np.stack(maps.cross, axis=1)

    def attentions(self, src: Array, src_mask: Array | None, tgt: Array, segments: Array | None = None) -> Attentions:
        """All weights, as `forward` returns them, without the logits."""
        maps = Attentions([], [], [])
        self._decode(tgt, self.start(self.encode(src, src_mask, maps.encoder, segments), src_mask), maps)
        return maps

    def _next(self, tgt: Array, state: State, maps: Attentions | None = None) -> Array:
        """What comes after each of the pieces tgt [rows, T]: logits or, of a model that copies, log P [rows, T, V].
        ValueError if such a one was started without the sources."""
        if not self.config.pointer_generator:
            return self._logits(self._decode(tgt, state, maps), state.shortlist)
        if state.src is None:
            raise ValueError("a model that copies (pointer_generator) must be started with its sources, src")
        maps = maps or Attentions([], [], [])
        x = self._decode(tgt, state, maps)
        x = x.reshape(len(state.src), -1, x.shape[2])  # beams are more queries to the same source
        gate = linear(x, self._tensor("copy_gate.weight"), self._tensor("copy_gate.bias"))
        log_p = mixture(self._logits(x), gate, maps.cross[-1][:, POINTING_HEAD], state.src)
        return log_p.reshape(*tgt.shape, -1)

    def _decode(self, tgt: Array, state: State, maps: Attentions | None = None) -> Array:
        """tgt [rows, T] are the pieces after those in `state`, which moves on by T → vectors [rows, T, d_model]."""
        T, n_keys = tgt.shape[1], state.length + tgt.shape[1]
        x = self._embed(tgt, self.tgt_table, "decoder", state.length)
        # A piece looks at none to its right (§3.2.3): query t of the last T positions sees the keys up to its own.
        mask = np.tri(T, n_keys, state.length, dtype=np.bool_) if T > 1 else None
        bias = self._position_bias("decoder", T, n_keys)
        for i in range(self.config.n_decoder_layers):
            layer = f"decoder.layers.{i}"
            if self.config.decoder_autoregression == "ssru":
                x = self._sublayer(x, f"{layer}.self_attn", self._ssru, state, i)
            else:
                args = state, i, mask, bias, maps and maps.decoder
                x = self._sublayer(x, f"{layer}.self_attn", self._self_attention, *args)
            x = self._sublayer(x, f"{layer}.cross_attn", self._cross_attention, state, i, maps and maps.cross)
            x = self._sublayer(x, f"{layer}.ffn", self._feed_forward)
        state.length = n_keys
        return self._norm(x, "decoder.final_norm") if self.config.final_norm else x

    def _logits(self, x: Array, shortlist: tuple[Array, Array, Array | None] | None = None) -> Array:
        """Decoder vectors [..., d_model] → logits [..., V]: each row of the output table times the vector. Of pieces that
        are not on a shortlist −∞."""
        if self.config.scale_logits:
            x = x * (1 / math.sqrt(self.config.d_model))
        if shortlist is not None:
            ids, W, b = shortlist
            logits = np.full((*x.shape[:-1], self.config.tgt_vocab_size), -np.inf, np.float32)
            logits[..., ids] = linear(x, W, b)
            return logits
        W = self._tensor(self.tgt_table if self.config.tie_output else "output.weight")
        return linear(x, W, self._tensor("logits_bias") if self.config.logits_bias else None)

    def shortlist(self, ids: Array) -> tuple[Array, Array, Array | None]:
        """What `State.shortlist` holds for these ids [K]."""
        table = self._table(self.tgt_table if self.config.tie_output else "output.weight")
        return ids, float32(table[ids]), self._tensor("logits_bias")[ids] if self.config.logits_bias else None

    def _embed(self, ids: Array, table: str, stack: str, start: int, segments: Array | None = None) -> Array:
        """ids [B, T], the first at position `start`, → vectors [B, T, d_model]. IndexError past a learned table."""
        c = self.config
        first, end = start + c.position_offset, start + c.position_offset + ids.shape[1]
        if ids.min(initial=0) < 0:
            raise IndexError(f"there is no piece {ids.min()}")
        x = float32(self._table(table)[ids.ravel()]).reshape(*ids.shape, c.d_model)
        if c.scale_embedding:
            x = x * math.sqrt(c.d_model)
        if c.n_segments and stack == "encoder":  # a vector for each kind of piece (Devlin et al. 2019, §3)
            x = x + self._tensor("encoder.segment_embedding.weight")[0 if segments is None else segments]
        if c.positions == "learned":
            positions = self._table(f"{stack}.position_embedding.weight")
            if end > positions.shape[0]:
                raise IndexError(f"position {end - 1} is beyond the {c.max_positions} that the model knows")
            x = x + float32(positions[first:end])
        elif c.positions == "sinusoidal":
            if end > len(self._sinusoids):
                self._sinusoids = sinusoids(max(end, 2 * len(self._sinusoids), 32), c.d_model, c.sinusoid_layout)
            x = x + self._sinusoids[first:end]
        return self._norm(x, f"{stack}.embedding_norm") if c.embedding_norm else x

    def _position_bias(self, stack: str, n_queries: int, n_keys: int) -> Array | None:
        """T5's bias on the scores of self-attention, the queries being the last positions: [H, T, S], or None."""
        c, queries = self.config, np.arange(n_keys - n_queries, n_keys)
        if c.positions != "relative":
            return None
        buckets = relative_buckets(queries, n_keys, c.relative_buckets, c.relative_max_distance, stack == "encoder")
        return np.moveaxis(self._tensor(f"{stack}.relative_bias.weight")[buckets], 2, 0)

    # The blocks. `name` is how the names of a block's tensors begin.

    def _sublayer(self, x: Array, name: str, f: Callable[..., Array], *args: Any) -> Array:
        """LayerNorm(x + f(x)), as in §3.1, or with `norm_first` x + f(LayerNorm(x))."""
        if self.config.norm_first:
            return x + f(self._norm(x, f"{name}_norm"), name, *args)
        return self._norm(x + f(x, name, *args), f"{name}_norm")

    def _norm(self, x: Array, name: str) -> Array:
        g, eps = self._tensor(f"{name}.weight"), self.config.norm_eps
        return rms_norm(x, g, eps) if self.config.norm == "rms" else layer_norm(x, g, self._bias(name), eps)

    def _heads(self, x: Array, name: str, letters: str) -> Array:
        """x [B, T, d_model] → Q, K or V of all heads, for each of `letters` "q", "k", "v": [letters, B, H, T, D]."""
        y = self._linear(x, *[f"{name}.{letter}_proj" for letter in letters])  # side by side: one product
        heads: Array = y.reshape(*x.shape[:2], len(letters), self.config.n_heads, self.config.d_head)
        return np.transpose(heads, (2, 0, 3, 1, 4))

    def _multi_head(
        self, x: Array, name: str, Q: Array, K: Array, V: Array, mask: Array | None, bias: Array | None, maps: Any
    ) -> Array:
        """MultiHead(Q, K, V) = Concat(head_1 … head_h) W_O, head_i = Attention(Q W_Qi, K W_Ki, V W_Vi) (§3.2.2).

        Q, K and V [B, H, T or S, D] have been through their projections (`_heads`); x gives the shape of the output."""
        heads, weights = attention(Q, K, V, mask, bias, self.scale)
        if maps is not None:
            maps.append(weights)
        return self._linear(heads.swapaxes(1, 2).reshape(*x.shape[:2], -1), f"{name}.o_proj")

    def _self_attention(
        self, x: Array, name: str, state: State | None, i: int, mask: Array | None, bias: Array | None, maps: Any
    ) -> Array:
        """The pieces look at each other; with a state, at those before them as well."""
        Q, K, V = self._heads(x, name, "qkv")
        if state is not None:
            K, V = state.append(i, K, V)
        return self._multi_head(x, name, Q, K, V, mask, bias, maps)

    def _cross_attention(self, x: Array, name: str, state: State, i: int, maps: Any) -> Array:
        """The queries are the decoder's, keys and values the memory's. Beams are more queries to the same memory."""
        K, V = state.cross[i]
        (Q,) = self._heads(x.reshape(K.shape[0], -1, x.shape[2]), name, "q")
        return self._multi_head(x, name, Q, K, V, state.memory_mask, None, maps)

    def _ssru(self, x: Array, name: str, state: State, i: int) -> Array:
        W, W_f, b_f = (self._tensor(f"{name}.{part}") for part in ("w.weight", "w_f.weight", "w_f.bias"))
        y, state.past[i] = ssru(x, W, W_f, b_f, state.past[i])
        return y

    def _feed_forward(self, x: Array, name: str) -> Array:
        f = ACTIVATIONS[self.config.activation]
        if self.config.gated_ffn:  # (f(x W_gate) ⊙ x W_1) W_2 (Shazeer 2020)
            return self._linear(f(self._linear(x, f"{name}.w_gate")) * self._linear(x, f"{name}.w_1"), f"{name}.w_2")
        W_1, W_2 = self._tensor(f"{name}.w_1.weight"), self._tensor(f"{name}.w_2.weight")
        return feed_forward(x, W_1, self._bias(f"{name}.w_1"), W_2, self._bias(f"{name}.w_2"), f)

    def _linear(self, x: Array, *names: str) -> Array:
        """The linear layers of these names, side by side: [..., n_in] → [..., Σ n_out]."""
        return linear(x, self._tensor(*[f"{name}.weight" for name in names]), self._bias(*names))

    def _bias(self, *names: str) -> Array | None:
        return self._tensor(*[f"{name}.bias" for name in names]) if self.config.bias else None

    def _tensor(self, *names: str) -> Array:
        """The tensors of these names, one below the other, in float32."""
        if names not in self._converted:
            parts = [np.asarray(self.tensors[name]) for name in names]
            whole = parts[0] if len(parts) == 1 else np.concatenate(parts)
            self._converted[names] = (
                whole if whole.dtype == np.float32 else float32(whole, self._room.take(whole.shape))
            )
        return self._converted[names]

    def _table(self, name: str) -> Any:
        """The tensor as it is, for reading rows of it; or in float32 where it has been converted for another use."""
        if (name,) in self._converted:
            return self._converted[(name,)]
        if name not in self._tables:
            self._tables[name] = self.tensors[name]
        return self._tables[name]


def pad_rows(rows: Sequence[Sequence[int] | Array], pad: int) -> tuple[Array, Array]:
    """Rows of ids as one array [B, longest], filled up with `pad` on the right, and where it holds ids [B, longest]."""
    lengths = np.array([len(row) for row in rows])
    mask: Array = np.arange(lengths.max()) < lengths[:, None]
    filled = np.full(mask.shape, pad, dtype=np.int64)
    filled[mask] = np.concatenate([np.asarray(row, np.int64) for row in rows])
    return filled, mask


class NumpyStepper:
    """A `generation.Stepper` over a NumpyTransformer; `pad` is the piece that fills short sources. `candidates` gives the
    ids that the outputs for a batch of sources may hold (see module shortlist); None: all."""

    def __init__(
        self,
        model: NumpyTransformer,
        pad: int,
        candidates: Callable[[Sequence[Sequence[int]]], Array] | None = None,
    ) -> None:
        self.model, self.pad, self.candidates = model, pad, candidates

    def start(self, src: Sequence[Sequence[int]], beams: int, kinds: Sequence[Array] | None = None) -> State:
        """Encodes the sources, ids with the end piece included: the state of B·beams empty hypotheses. `kinds` are the
        kinds of the source pieces, where the model distinguishes some."""
        rows, mask = pad_rows(src, self.pad)
        src_mask = None if mask.all() else mask
        segments = None if kinds is None else pad_rows(kinds, 0)[0]
        state = self.model.start(self.model.encode(rows, src_mask, None, segments), src_mask, beams, rows)
        if self.candidates is not None and not self.model.config.pointer_generator:
            state.shortlist = self.model.shortlist(self.candidates(src))
        return state

    def cross_attention(
        self, src: Sequence[Sequence[int]], tgt: Sequence[Sequence[int]], kinds: Sequence[Array] | None = None
    ) -> list[Array]:
        """For each source the weights with which the pieces of its target look at it, [layers, H, T, S]. `tgt` begins
        with the task's prefix; `kinds` are the kinds of the source pieces, where the model distinguishes some."""
        rows, mask = pad_rows(src, self.pad)
        targets, _ = pad_rows(tgt, self.pad)
        segments = None if kinds is None else pad_rows(kinds, 0)[0]
        weights = self.model.cross_attention(rows, None if mask.all() else mask, targets, segments)
        return [w[:, :, : len(t), : len(s)] for w, s, t in zip(weights, src, tgt, strict=True)]

    def attentions(self, src: Sequence[int], tgt: Sequence[int], kinds: Array | None = None) -> Attentions:
        """All weights of one pair (B = 1). `src` has the end piece, `tgt` begins with the task's prefix; `kinds` are the
        kinds of the source pieces, where the model distinguishes some."""
        segments = None if kinds is None else np.asarray(kinds, np.int64)[None]
        return self.model.attentions(np.array([src], np.int64), None, np.array([tgt], np.int64), segments)

    def step(self, ids: Array, state: State) -> Array:
        """Feeds one piece a row, ids [rows] int64; `state` moves on in place. Returns logits, or log P of a
        model that copies, [rows, V] float32."""
        return self.model.step(ids, state)

    def reorder(self, state: State, rows: Array) -> State:
        """The state with these rows [n] of the old one, in this order; a row may be repeated or dropped."""
        state.reorder(rows)
        return state
