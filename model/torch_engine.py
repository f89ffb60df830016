"""The search's view of a PyTorch Transformer: NumPy in, NumPy out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from .transformer import DecoderState, Transformer

Array = np.ndarray[Any, Any]


@dataclass
class BeamState:
    """A decoder's state, and how many rows of it belong to each source."""

    decoder: DecoderState
    beams: int


class TorchStepper:
    """A `generation.Stepper` over a Transformer, on whatever device its parameters are on."""

    def __init__(self, model: Transformer, pad: int) -> None:
        self.model = model
        self.pad = pad
        self.device = next(model.parameters()).device

    @torch.inference_mode()
    def start(self, src: Sequence[Sequence[int]], beams: int) -> BeamState:
        """Encodes the sources, ids with the end piece included, and returns the state of B·beams empty hypotheses.

        Row b·beams + k of the state is beam k of source b. Sources are padded on the right to the longest.
        """
        longest = max(len(ids) for ids in src)
        rows = torch.tensor([[*ids, *[self.pad] * (longest - len(ids))] for ids in src], device=self.device)
        lengths = torch.tensor([len(ids) for ids in src], device=self.device)
        mask = torch.arange(longest, device=self.device) < lengths[:, None]  # [B, S], True = a token
        src_mask = mask if any(len(ids) < longest for ids in src) else None
        return BeamState(self.model.start(self.model.encode(rows, src_mask), src_mask, beams), beams)

    @torch.inference_mode()
    def step(self, ids: Array, state: BeamState) -> Array:
        """Feeds one piece a row, ids [rows] int64; `state` moves on in place. Returns logits [rows, V] float32."""
        logits = self.model.step(torch.tensor(ids, dtype=torch.long, device=self.device), state.decoder)
        array: Array = logits.float().cpu().numpy()
        return array

    @torch.inference_mode()
    def reorder(self, state: BeamState, rows: Array) -> BeamState:
        """The state with these rows [n] of the old one, in this order; a row may be repeated or dropped."""
        decoder = state.decoder
        memory = decoder.cross_kv, decoder.memory_mask
        n_old = len(decoder.cross_kv[0].keys)
        # The beams of a source share its memory, so while no source is dropped its copies are in the right rows.
        same_sources = len(rows) == n_old and bool((rows // state.beams == np.arange(n_old) // state.beams).all())
        if same_sources:
            decoder.cross_kv, decoder.memory_mask = [], None
        decoder.reorder(torch.tensor(rows, dtype=torch.long, device=self.device))
        if same_sources:
            decoder.cross_kv, decoder.memory_mask = memory
        return state
