"""The encoder-decoder Transformer: two stacks, their embeddings, and the state of a decoder that runs step by step."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from .attention import KV, causal_mask
from .config import POINTING_HEAD, ModelConfig
from .int8 import Int8Linear
from .layers import DecoderLayer, EncoderLayer, Norm
from .positions import relative_buckets, sinusoids
from .results import Attentions

Layer = Callable[[Tensor], Tensor]


@dataclass
class DecoderState:
    """What decoding one more piece needs; a row for each hypothesis. Never stored on a module.

    self_kv: for each layer the keys and values of the pieces so far (or SSRU's cell [rows, d_model]), None at first;
    cross_kv: for each layer keys and values of the memory; memory_mask [rows, 1, 1, S], None if nothing is padded;
    src [rows, S]: the pieces of the sources, where the model copies; length: pieces fed so far; shortlist: the ids [K]
    that may come next, ascending, and the output layer for them, [rows, d_model] → [rows, K]; None: all pieces may.
    """

    self_kv: list[KV | Tensor | None]
    cross_kv: list[KV]
    memory_mask: Tensor | None
    src: Tensor | None = None
    length: int = 0
    shortlist: tuple[Tensor, Layer] | None = None

    def reorder(self, rows: Tensor) -> None:
        """Keeps the rows with these numbers [n], in this order; a row may be repeated or dropped. In place."""

        def pick(item: KV | Tensor | None) -> KV | Tensor | None:
            if item is None:
                return None
            return KV(item[0][rows], item[1][rows]) if isinstance(item, tuple) else item[rows]

        self.self_kv = [pick(item) for item in self.self_kv]
        self.cross_kv = [KV(kv.keys[rows], kv.values[rows]) for kv in self.cross_kv]
        self.memory_mask = None if self.memory_mask is None else self.memory_mask[rows]
        self.src = None if self.src is None else self.src[rows]


class Stack(nn.Module):
    """What encoder and decoder share: scaled embeddings, positions, and the norms before the first and after the last
    layer."""

    def __init__(self, config: ModelConfig, bidirectional: bool) -> None:
        super().__init__()
        self.config, self.bidirectional = config, bidirectional
        self.embedding_scale = math.sqrt(config.d_model) if config.scale_embedding else 1.0
        self.embedding_norm = Norm(config) if config.embedding_norm else None
        self.final_norm = Norm(config) if config.final_norm else None
        self.position_embedding = self.relative_bias = None
        if config.positions == "learned":
            self.position_embedding = nn.Embedding(config.max_positions + config.position_offset, config.d_model)
        elif config.positions == "relative":
            self.relative_bias = nn.Embedding(config.relative_buckets, config.n_heads)
        self._sinusoids: Tensor | None = None  # a cache, not state: computed from the configuration, grown when needed

    def embed(self, ids: Tensor, table: Tensor, start: int = 0, extra: Tensor | None = None) -> Tensor:
        """ids [B, T], the first at position `start`, → vectors [B, T, d_model], `extra` [B, T, d_model] added to them.
        IndexError past a learned table."""
        x = functional.embedding(ids, table) * self.embedding_scale
        x = x if extra is None else x + extra
        first, end = start + self.config.position_offset, start + self.config.position_offset + ids.shape[1]
        if self.position_embedding is not None:
            if end > self.position_embedding.num_embeddings:
                raise IndexError(f"position {end - 1} is beyond the {self.config.max_positions} that the model knows")
            x = x + self.position_embedding.weight[first:end]
        elif self.config.positions == "sinusoidal":
            if self._sinusoids is None or len(self._sinusoids) < end or self._sinusoids.device != x.device:
                self._sinusoids = sinusoids(max(end, 256), self.config.d_model, self.config.sinusoid_layout).to(
                    x.device
                )
            x = x + self._sinusoids[first:end].to(x.dtype)
        return x if self.embedding_norm is None else self.embedding_norm(x)

    def position_bias(self, n_queries: int, n_keys: int, device: torch.device) -> Tensor | None:
        """T5's bias on the scores of self-attention, the queries being the last positions: [1, H, T, S], or None."""
        if self.relative_bias is None:
            return None
        queries = torch.arange(n_keys - n_queries, n_keys, device=device)
        c = self.config
        buckets = relative_buckets(queries, n_keys, c.relative_buckets, c.relative_max_distance, self.bidirectional)
        bias: Tensor = self.relative_bias(buckets)
        return bias.permute(2, 0, 1)[None]


class Encoder(Stack):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config, bidirectional=True)
        self.segment_embedding = nn.Embedding(config.n_segments, config.d_model) if config.n_segments else None
        self.layers = nn.ModuleList(EncoderLayer(config) for _ in range(config.n_encoder_layers))

    def forward(
        self,
        src: Tensor,
        table: Tensor,
        src_mask: Tensor | None,
        need_weights: bool = False,
        segments: Tensor | None = None,
    ) -> tuple[Tensor, list[Tensor]]:
        """src [B, S] → memory [B, S, d_model], weights a layer [B, H, S, S]. src_mask [B, S] may be None: no padding.
        segments [B, S] numbers the kind of each piece; None: all are of kind 0."""
        extra = None
        if self.segment_embedding is not None:
            extra = self.segment_embedding(torch.zeros_like(src) if segments is None else segments)
        x = self.embed(src, table, extra=extra)
        mask = None if src_mask is None else src_mask[:, None, None, :]
        bias = self.position_bias(src.shape[1], src.shape[1], src.device)
        attentions = []
        for layer in self.layers:
            x, weights = layer(x, mask, bias, need_weights)
            if weights is not None:
                attentions.append(weights)
        return x if self.final_norm is None else self.final_norm(x), attentions


class Decoder(Stack):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config, bidirectional=False)
        self.layers = nn.ModuleList(DecoderLayer(config) for _ in range(config.n_decoder_layers))

    def forward(
        self, tgt: Tensor, table: Tensor, state: DecoderState, need_weights: bool = False
    ) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        """tgt [B, T] are the pieces after those in `state`, which moves on by T. Returns vectors [B, T, d_model] and
        the weights of self-attention and of cross-attention, a tensor a layer."""
        n_queries, n_keys = tgt.shape[1], state.length + tgt.shape[1]
        x = self.embed(tgt, table, start=state.length)
        mask = causal_mask(n_queries, n_keys, tgt.device)[None, None] if n_queries > 1 else None
        bias = self.position_bias(n_queries, n_keys, tgt.device)
        self_attentions, cross_attentions = [], []
        for i, layer in enumerate(self.layers):
            x, state.self_kv[i], self_weights, cross_weights = layer(
                x, state.self_kv[i], state.cross_kv[i], mask, state.memory_mask, bias, need_weights
            )
            if self_weights is not None:
                self_attentions.append(self_weights)
            if cross_weights is not None:
                cross_attentions.append(cross_weights)
        state.length = n_keys
        return x if self.final_norm is None else self.final_norm(x), self_attentions, cross_attentions


class Transformer(nn.Module):
    """The model of Vaswani et al. 2017 and its descendants, as `config` says. Tied weights are registered once:
    `tgt_embedding` exists only without `share_embeddings`, `output` only without `tie_output`."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.src_embedding = nn.Embedding(config.src_vocab_size, config.d_model)
        if not config.share_embeddings:
            self.tgt_embedding = nn.Embedding(config.tgt_vocab_size, config.d_model)
        if not config.tie_output:
            self.output = nn.Linear(config.d_model, config.tgt_vocab_size, bias=False)
        if config.logits_bias:
            self.logits_bias = nn.Parameter(torch.zeros(config.tgt_vocab_size))
        if config.pointer_generator:
            self.copy_gate = nn.Linear(config.d_model, 1)
        self.encoder = Encoder(config)
        self.decoder = Decoder(config)
        # The output layer for inference, and in int8 the scale of its rows when some are chosen (see module precision).
        self.output_proj: nn.Module | None = None
        self.output_scale: float | None = None

    @property
    def tgt_table(self) -> Tensor:
        """The target embedding [V, d_model]."""
        return self.src_embedding.weight if self.config.share_embeddings else self.tgt_embedding.weight

    @property
    def output_table(self) -> Tensor:
        """The rows with which the output layer compares the decoder's vectors: [V, d_model]."""
        return self.tgt_table if self.config.tie_output else self.output.weight

    def logits(self, x: Tensor, shortlist: tuple[Tensor, Layer] | None = None) -> Tensor:
        """Decoder vectors [..., d_model] → logits [..., V], −∞ for pieces that are not on a shortlist."""
        if shortlist is None:
            return self.compact_logits(x)
        ids, listed = shortlist
        compact = self.compact_logits(x, listed)
        logits = compact.new_full((*x.shape[:-1], self.config.tgt_vocab_size), -math.inf)
        logits[..., ids] = compact
        return logits

    def compact_logits(self, x: Tensor, listed: Layer | None = None) -> Tensor:
        """Decoder vectors [..., d_model] → logits [..., K] of the pieces whose output layer is given, by default of all."""
        if self.config.scale_logits:
            x = x / math.sqrt(self.config.d_model)
        layer = self.output_proj if listed is None else listed
        if layer is not None:
            return layer(x)
        return functional.linear(x, self.output_table, self.logits_bias if self.config.logits_bias else None)

    def shortlist(self, ids: Tensor) -> tuple[Tensor, Layer]:
        """What `DecoderState.shortlist` holds for these ids [K]."""
        bias = self.logits_bias[ids] if self.config.logits_bias else None
        if self.output_scale is not None:
            return ids, Int8Linear(self.output_table[ids], bias, scale=self.output_scale)
        return ids, partial(functional.linear, weight=self.output_table[ids], bias=bias)

    def mixture(self, x: Tensor, weights: Tensor, src: Tensor) -> Tensor:
        """log P [B, T, V] with P = g · softmax(logits) + (1 − g) · Σ_{s: src_s = piece} weights_s: the pointer-generator of
        See et al. 2017, eq. 9. Their gate p_gen (eq. 8) sees the context, the state and the input of an LSTM; here all of
        them are in the decoder's vector: g = σ(w x + b).

        x [B, T, d_model] are the decoder's vectors, weights [B, T, S] those of the pointing head of its last layer over the
        sources, src [B, S]. Only at the pieces of the source is there more than the first term."""
        gate = self.copy_gate(x)
        log_p = self.logits(x).log_softmax(-1) + functional.logsigmoid(gate)
        same = (src[:, :, None] == src[:, None]).to(weights.dtype)  # a piece may stand in the source more than once
        copied = (weights @ same).clamp(min=1e-30).log() + functional.logsigmoid(-gate)  # a masked one has no logarithm
        at = src[:, None].expand_as(weights)
        # log(a + b) = log a + log(1 + b/a), of which each of n equal pieces adds one n-th.
        more = functional.softplus(copied - log_p.gather(2, at)) / same.sum(1, keepdim=True)
        return log_p.scatter_add(2, at, more)

    def encode(self, src: Tensor, src_mask: Tensor | None = None, segments: Tensor | None = None) -> Tensor:
        """src [B, S], src_mask [B, S] (True = a token; None: nothing is padded), segments [B, S] (None: all of kind 0)
        → memory [B, S, d_model]."""
        return self.encoder(src, self.src_embedding.weight, src_mask, segments=segments)[0]  # type: ignore[no-any-return]

    def start(
        self, memory: Tensor, src_mask: Tensor | None = None, beams: int = 1, src: Tensor | None = None
    ) -> DecoderState:
        """The state before the first piece, for B·beams rows: row b·beams + k is beam k of sentence b. A model that
        copies needs the sources, src [B, S]."""
        layers = cast("list[DecoderLayer]", list(self.decoder.layers))
        # Side by side in memory, for every step reads them.
        cross_kv = [KV(*(x.contiguous() for x in layer.cross_attn.keys_values(memory))) for layer in layers]
        memory_mask = None if src_mask is None else src_mask[:, None, None, :]
        kept = src if self.config.pointer_generator else None
        state = DecoderState([None] * len(cross_kv), cross_kv, memory_mask, kept)
        if beams > 1:
            state.reorder(torch.arange(memory.shape[0], device=memory.device).repeat_interleave(beams))
        return state

    def step(self, ids: Tensor, state: DecoderState) -> Tensor:
        """Feeds one piece a row, ids [rows]; `state` moves on in place. Returns the logits of the next, [rows, V]; of a
        model that copies, log P. ValueError if such a one was started without the sources."""
        x, weights = self.feed(ids, state)
        if weights is None:
            return self.logits(x, state.shortlist)
        assert state.src is not None
        return self.mixture(x[:, None], weights[:, None], state.src)[:, 0]

    def feed(self, ids: Tensor, state: DecoderState) -> tuple[Tensor, Tensor | None]:
        """Feeds one piece a row, ids [rows]; `state` moves on in place. Returns the decoder's vectors [rows, d_model] and of
        a model that copies the weights with which each points at the pieces of its source, [rows, S]. ValueError if such a
        one was started without the sources."""
        copies = self.config.pointer_generator
        if copies and state.src is None:
            raise ValueError("a model that copies (pointer_generator) must be started with its sources, src")
        x, _, cross = self.decoder(ids[:, None], self.tgt_table, state, copies)
        return x[:, 0], cross[-1][:, POINTING_HEAD, 0] if copies else None

    def decode(
        self, memory: Tensor, src_mask: Tensor | None, tgt: Tensor, need_weights: bool = False
    ) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        """All pieces of tgt [B, T] at once: the decoder's vectors [B, T, d_model] and both kinds of weights."""
        return self.decoder(tgt, self.tgt_table, self.start(memory, src_mask), need_weights)  # type: ignore[no-any-return]

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None,
        tgt: Tensor,
        need_weights: bool = False,
        segments: Tensor | None = None,
    ) -> tuple[Tensor, Attentions | None]:
        """src [B, S], src_mask and segments [B, S] or None, tgt [B, T] → logits [B, T, V] for the piece after each of tgt
        (of a model that copies, log P), and with `need_weights` every layer's attention. Padding after the end of tgt
        needs no mask: no piece looks to its right."""
        memory, encoder_attentions = self.encoder(src, self.src_embedding.weight, src_mask, need_weights, segments)
        copies = self.config.pointer_generator
        x, decoder_attentions, cross_attentions = self.decode(memory, src_mask, tgt, need_weights or copies)
        attentions = Attentions(encoder_attentions, decoder_attentions, cross_attentions) if need_weights else None
        return self.mixture(x, cross_attentions[-1][:, POINTING_HEAD], src) if copies else self.logits(x), attentions
