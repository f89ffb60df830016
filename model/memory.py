"""How much memory a search takes, estimated before it begins, and how large a batch may be so that it stays within bounds."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

from .config import ModelConfig

USUAL = (
    1 << 30
)  # bytes: what a batch may take where nobody says; only long texts with a wide beam and large models reach it
MARGIN = 1.25  # what the allocators of the system and the engines take on top, of all that is counted here
SPARE = 24 << 20  # bytes: texts, pieces and results of the lines at hand, and what modules take that are loaded late
FLOAT = 4


def of_search(config: ModelConfig, source: int, target: int, beams: int) -> int:
    """The most bytes that one source of so many pieces takes while up to `target` pieces are written with so many beams.

    All engines hold about the same: what the encoder has at hand in one layer; the keys and values of the memory, and of
    the pieces so far, both twice while rows are put into another order; the logits, and as much again for log P of them."""
    inner, layers, vocabulary = config.n_heads * config.d_head, config.n_decoder_layers, config.tgt_vocab_size
    encoder = 3 * config.n_heads * source**2 + source * (2 * config.d_ff + 8 * max(config.d_model, inner))
    memory = 2 * (2 * layers * source * inner) + source * config.d_model
    if config.decoder_autoregression == "ssru":
        past = layers * config.d_model
    else:
        room = max(16, 1 << (target - 1).bit_length())  # it is doubled when it is full
        past = 2 * layers * inner * room
    scores = 3 * config.n_heads * (source + target)
    row = 2 * past + 3.5 * vocabulary + scores + 2 * config.d_ff + 8 * target
    found = 2 * beams * target * 10  # finished outputs: their pieces are Python's numbers
    copied = source**2 if config.pointer_generator else 0
    return int(MARGIN * FLOAT * (encoder + memory + copied + beams * row + found))


def batches(costs: Sequence[int], most: int, room: int) -> Iterator[slice]:
    """Parts items of these costs, the cheapest first, into batches of up to `most` whose costs, each counted as that of its
    most expensive item, are at most `room` together; at least one item is in each."""
    start = 0
    while start < len(costs):
        end = min(start + most, len(costs))
        while end > start + 1 and (end - start) * costs[end - 1] > room:
            end -= 1
        yield slice(start, end)
        start = end


def in_use() -> int:
    """The bytes of memory that this process takes now; on systems that do not say that, the most it took so far; 0 where
    nothing is known."""
    try:
        with open("/proc/self/statm", "rb") as file:
            pages = int(file.read().split()[1])
        import resource

        return pages * resource.getpagesize()
    except (OSError, ImportError):
        pass
    try:
        import resource
    except ImportError:
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def give_back_what_is_freed() -> None:
    """Makes glibc return the memory of large arrays to the system as soon as they are freed, rather than keep it for later.
    Without effect elsewhere."""
    import ctypes

    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):
        return
    M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
    mallopt(M_MMAP_THRESHOLD, 1 << 20)
    mallopt(M_TRIM_THRESHOLD, 4 << 20)


def said(size: float) -> str:
    """A size as people say it."""
    return f"{size / 2**30:.1f} GB" if size >= 2**30 else f"{-(-int(size) // 2**20)} MB"
