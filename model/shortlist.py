"""Lexical shortlists (`lex.*.bin`): which target pieces a source may be translated with, counted from aligned texts.

With one, the output layer computes some two thousand columns in place of all 32,000. A piece that is not among them
cannot be written, so an output may differ: it is used only where it is asked for.

Layout, little-endian: six u64 (magic, checksum, frequent, best, n_offsets, n_ids), n_offsets u64, n_ids u32. What source
piece s suggests are ids[offsets[s] : offsets[s + 1]]; the first `frequent` ids of the vocabulary are always in.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from .errors import CheckpointError

MAGIC = 0xF11A48D5013417F5
HEADER = struct.Struct("<6Q")

Ids = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Shortlist:
    """offsets [n_offsets] and ids [n_ids] as in the file. shared: source and target pieces are of one vocabulary, so that
    a piece of the source (a name, a number) is itself a candidate, as in Marian."""

    frequent: int
    offsets: npt.NDArray[np.uint64]
    ids: npt.NDArray[np.uint32]
    shared: bool = True

    def candidates(self, src: Iterable[Sequence[int]], always: Sequence[int] = ()) -> Ids:
        """The ids, ascending, that the outputs for a batch of sources may hold; `always` are in besides. Source pieces
        that the file does not know suggest nothing."""
        pieces = np.unique(np.concatenate([np.asarray(row, np.int64) for row in src]))
        known = pieces[pieces < len(self.offsets) - 1]
        suggested = [self.ids[int(self.offsets[s]) : int(self.offsets[s + 1])] for s in known]
        parts = [np.arange(self.frequent), np.asarray(always), *suggested, pieces if self.shared else pieces[:0]]
        return np.unique(np.concatenate([part.astype(np.int64) for part in parts]))


def read(path: str | os.PathLike[str], vocab_size: int, shared: bool = True) -> Shortlist:
    """Reads a shortlist for a target vocabulary of `vocab_size` pieces.

    Raises CheckpointError, one line with the file and what is wrong: sizes that do not add up to the file's, offsets
    that go back or past the end, an id that is no piece.
    """
    path = Path(path)
    try:
        with path.open("rb") as file:
            head = file.read(HEADER.size)
            if len(head) < HEADER.size or HEADER.unpack(head)[0] != MAGIC:
                raise CheckpointError(f"{path} is not a lexical shortlist: its first 8 bytes are not the mark of one")
            _, _, frequent, _, n_offsets, n_ids = HEADER.unpack(head)
            size = os.fstat(file.fileno()).st_size
            expected = HEADER.size + 8 * n_offsets + 4 * n_ids
            if size != expected:
                raise CheckpointError(f"{path} is damaged: it has {size} bytes, its header says {expected}")
            data = file.read(size - HEADER.size)
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror or error}") from error
    if len(data) != size - HEADER.size:
        raise CheckpointError(f"{path} became shorter while it was read")
    offsets = np.frombuffer(data, "<u8", n_offsets)
    ids = np.frombuffer(data, "<u4", n_ids, 8 * n_offsets)
    if not n_offsets or offsets[0] != 0 or offsets[-1] != n_ids or (offsets[1:] < offsets[:-1]).any():
        raise CheckpointError(f"{path} is damaged: its offsets do not part its {n_ids} ids")
    if frequent > vocab_size or ids.max(initial=0) >= vocab_size:
        raise CheckpointError(f"{path} does not belong to this model: it has ids past the vocabulary's {vocab_size}")
    return Shortlist(frequent, offsets, ids, shared)
