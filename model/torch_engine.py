"""The search's view of a PyTorch Transformer: NumPy in, NumPy out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .results import Attentions
from .transformer import DecoderState, Transformer

Array = np.ndarray[Any, Any]


@dataclass
class BeamState:
    """A decoder's state, and how many rows of it belong to each source."""

    decoder: DecoderState
    beams: int


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
