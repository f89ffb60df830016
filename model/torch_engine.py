"""The search's view of a PyTorch Transformer: NumPy in, NumPy out."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from .errors import NOT_A_NUMBER, TxError
from .results import Attentions
from .transformer import DecoderState, Transformer

Array = np.ndarray[Any, Any]


@dataclass
class BeamState:
    """A decoder's state, and how many rows of it belong to each source; `never`: where among the logits those are that the
    search forbids, once it has said so."""

    decoder: DecoderState
    beams: int
    never: Tensor | None = None


class TorchStepper:
    """A `generation.Stepper` over a Transformer, on whatever device its parameters are on. `candidates` gives the ids that
    the outputs for a batch of sources may hold (see module shortlist); None: all."""

    def __init__(
        self, model: Transformer, pad: int, candidates: Callable[[Sequence[Sequence[int]]], Array] | None = None
    ) -> None:
        self.model, self.pad, self.candidates = model, pad, candidates
        self.device = next(model.parameters()).device

    @torch.inference_mode()
    def start(self, src: Sequence[Sequence[int]], beams: int, kinds: Sequence[Array] | None = None) -> BeamState:
        """Encodes the sources, ids with the end piece included, and returns the state of B·beams empty hypotheses.
        `kinds` are the kinds of the source pieces, where the model distinguishes some.

        Row b·beams + k of the state is beam k of source b. Sources are padded on the right to the longest.
        """
        rows, mask = self._pad(src, self.pad)
        src_mask = None if bool(mask.all()) else mask
        memory = self.model.encode(rows, src_mask, None if kinds is None else self._pad(kinds, 0)[0])
        state = self.model.start(memory, src_mask, beams, rows)
        if self.candidates is not None and not self.model.config.pointer_generator:
            state.shortlist = self.model.shortlist(torch.as_tensor(self.candidates(src), device=self.device))
        return BeamState(state, beams)

    @torch.inference_mode()
    def cross_attention(
        self, src: Sequence[Sequence[int]], tgt: Sequence[Sequence[int]], kinds: Sequence[Array] | None = None
    ) -> list[Array]:
        """For each source the weights with which the pieces of its target look at it, [layers, H, T, S]. `tgt` begins
        with the task's prefix; `kinds` are the kinds of the source pieces, where the model distinguishes some."""
        rows, mask = self._pad(src, self.pad)
        src_mask = None if bool(mask.all()) else mask
        memory = self.model.encode(rows, src_mask, None if kinds is None else self._pad(kinds, 0)[0])
        _, _, cross = self.model.decode(memory, src_mask, self._pad(tgt, self.pad)[0], need_weights=True)
        weights = torch.stack(cross, dim=1).float().cpu().numpy()
        return [w[:, :, : len(t), : len(s)] for w, s, t in zip(weights, src, tgt, strict=True)]

    @torch.inference_mode()
    def attentions(self, src: Sequence[int], tgt: Sequence[int], kinds: Array | None = None) -> Attentions:
        """All weights of one pair (B = 1), float32 of NumPy's. `src` has the end piece, `tgt` begins with the task's
        prefix; `kinds` are the kinds of the source pieces, where the model distinguishes some."""
        segments = None if kinds is None else self._pad([kinds], 0)[0]
        rows, table = self._pad([src], self.pad)[0], self.model.src_embedding.weight
        memory, encoder = self.model.encoder(rows, table, None, True, segments)
        _, decoder, cross = self.model.decode(memory, None, self._pad([tgt], self.pad)[0], need_weights=True)
        return Attentions(*([w.float().cpu().numpy() for w in layers] for layers in (encoder, decoder, cross)))

    def _pad(self, rows: Sequence[Sequence[int] | Array], pad: int) -> tuple[Tensor, Tensor]:
        """Rows of ids as one tensor [B, longest], filled up with `pad` on the right, and where it holds ids."""
        lengths = torch.tensor([len(row) for row in rows])
        filled = torch.full((len(rows), int(lengths.max())), pad)
        for r, row in enumerate(rows):
            filled[r, : len(row)] = torch.as_tensor(np.asarray(row, np.int64))
        mask = torch.arange(filled.shape[1]) < lengths[:, None]
        return filled.to(self.device), mask.to(self.device)

    @torch.inference_mode()
    def step(self, ids: Array, state: BeamState) -> Array:
        """Feeds one piece a row, ids [rows] int64; `state` moves on in place. Returns logits, or log P of a
        model that copies, [rows, V] float32."""
        logits = self.model.step(torch.tensor(ids, dtype=torch.long, device=self.device), state.decoder)
        array: Array = logits.float().cpu().numpy()
        return array

    @torch.inference_mode()
    def best(
        self, ids: Array, state: BeamState, count: int, forbidden: Array, renormalise: bool
    ) -> tuple[Array, Array]:
        """Feeds one piece a row, ids [rows] int64; `state` moves on in place. Returns the `count` most probable pieces and
        their log P, each [rows, count], best first, equal ones by lower id; none of `forbidden`. These log P count the
        probability of all pieces but the forbidden ones if `renormalise`, else of all. Where fewer pieces are left, the rest
        is at −∞. TxError if the logits are not numbers."""
        decoder = state.decoder
        x, weights = self.model.feed(torch.from_numpy(ids).to(self.device), decoder)
        listed, layer = decoder.shortlist or (None, None)
        logits = self.model.compact_logits(x, layer).float()
        if state.never is None:  # the same at every step
            state.never = torch.from_numpy(forbidden).to(self.device)
            if listed is not None:
                state.never = torch.searchsorted(listed, state.never[torch.isin(state.never, listed)])
        never = state.never
        norm = None
        if not renormalise or weights is not None:
            norm = _log_sum_exp(logits)
        forbidden_logits = logits[:, never]
        logits[:, never] = -math.inf
        if norm is None:
            norm = _log_sum_exp(logits)
        values, pieces = _highest(logits, count)
        if weights is None:
            values = values - norm
        else:
            values, pieces = self._with_copies(x, weights, decoder, logits, norm, values, pieces, never)
            if renormalise:
                # What the forbidden pieces have of P: of the softmax, and of what may be copied.
                gate = torch.sigmoid(self.model.copy_gate(x).float())
                lost = (forbidden_logits - norm).exp().sum(1, keepdim=True) * gate
                assert decoder.src is not None
                copied = torch.isin(decoder.src, never).to(weights.dtype) * weights
                values = values - torch.log1p(-(lost + copied.float().sum(1, keepdim=True) * (1 - gate)))
        if not bool(torch.isfinite(norm).all()):
            raise TxError(NOT_A_NUMBER)
        pieces = pieces if listed is None else listed[pieces]
        return pieces.cpu().numpy(), values.clamp_(max=0.0).cpu().numpy()

    def _with_copies(
        self,
        x: Tensor,
        weights: Tensor,
        state: DecoderState,
        logits: Tensor,
        norm: Tensor,
        values: Tensor,
        pieces: Tensor,
        never: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """The best pieces of the pointer-generator's mixture (see Transformer.mixture) and their log P, [rows, count], given
        the best of its softmax. A piece of the source gains, others all lose the same: so the best of the mixture are
        among the best of the softmax and the pieces of the source."""
        assert state.src is not None
        src, count = state.src, values.shape[1]
        gate = self.model.copy_gate(x).float()
        written, copied = functional.logsigmoid(gate), functional.logsigmoid(-gate)
        same = src[:, :, None] == src[:, None]  # a piece may stand in the source more than once
        pointed = (weights.float()[:, None] @ same.float())[:, 0].clamp(min=1e-30).log() + copied
        at_source = torch.logaddexp(logits.gather(1, src) - norm + written, pointed)
        again = (same & torch.ones_like(same[0]).tril(-1)).any(2)  # counted at its first place only
        at_source = at_source.masked_fill(again | torch.isin(src, never), -math.inf)
        elsewhere = (values - norm + written).masked_fill((pieces[:, :, None] == src[:, None]).any(2), -math.inf)
        values, order = torch.sort(torch.cat((elsewhere, at_source), 1), dim=1, descending=True, stable=True)
        return values[:, :count], torch.cat((pieces, src), 1).gather(1, order[:, :count])

    @torch.inference_mode()
    def reorder(self, state: BeamState, rows: Array) -> BeamState:
        """The state with these rows [n] of the old one, in this order; a row may be repeated or dropped."""
        decoder, beams = state.decoder, state.beams
        memory = decoder.cross_kv, decoder.memory_mask, decoder.src
        n_old = len(decoder.cross_kv[0].keys)
        # The beams of a source share its memory, so while no source is dropped its copies are in the right rows.
        same_sources = len(rows) == n_old and bool((rows // beams == np.arange(n_old) // beams).all())
        if same_sources:
            decoder.cross_kv, decoder.memory_mask, decoder.src = [], None, None
        decoder.reorder(torch.tensor(rows, dtype=torch.long, device=self.device))
        if same_sources:
            decoder.cross_kv, decoder.memory_mask, decoder.src = memory
        elif len(rows) % beams or (rows // beams != (rows[::beams] // beams).repeat(beams)).any():
            state.beams = 1  # rows of different sources side by side
        return state


def _log_sum_exp(logits: Tensor) -> Tensor:
    """log Σ exp of each row, [rows, V] → [rows, 1]."""
    highest = logits.amax(1, keepdim=True)
    return (logits - highest).exp_().sum(1, keepdim=True).log_().add_(highest)


BLOCK = 128


def _highest(logits: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Values and places, [rows, count], of the highest logits of each row, highest first, equal ones by lower place (of those
    at the limit, where more are equal than there is room, any). Where there are fewer than `count`, the rest is −∞ at 0."""
    rows, size = logits.shape
    if count == 1:
        # NumPy looks at many numbers at a time, PyTorch on the CPU at one after the other.
        places = (
            torch.from_numpy(logits.numpy().argmax(1)[:, None]) if logits.is_cpu else logits.argmax(1, keepdim=True)
        )
        return logits.gather(1, places), places
    blocks = size // BLOCK
    if blocks > count:
        # The highest logits of a row are in the `count` blocks with the highest maxima, and in what is left at the end.
        whole = logits[:, : blocks * BLOCK].reshape(rows, blocks, BLOCK)
        chosen = whole.amax(2).topk(count, dim=1).indices.sort(1).values
        among = whole.gather(1, chosen[:, :, None].expand(-1, -1, BLOCK)).flatten(1)
        among = torch.cat((among, logits[:, blocks * BLOCK :]), 1)
        values, order = _highest_of(among, count)
        inside = order < count * BLOCK
        block = chosen.gather(1, (order // BLOCK).clamp(max=count - 1))
        places = torch.where(inside, block * BLOCK + order % BLOCK, order - count * BLOCK + blocks * BLOCK)
        return values, places
    values, places = _highest_of(logits, min(count, size))
    short = count - values.shape[1]
    return functional.pad(values, (0, short), value=-math.inf), functional.pad(places, (0, short))


def _highest_of(logits: Tensor, count: int) -> tuple[Tensor, Tensor]:
    places = logits.topk(count, dim=1).indices.sort(1).values
    values, order = torch.sort(logits.gather(1, places), dim=1, descending=True, stable=True)
    return values, places.gather(1, order)
