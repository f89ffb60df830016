"""Several translations of one text, out of several of each of its sentences."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence

from .results import Hypothesis

PATIENCE = 16  # so many choices are looked at for each text that is wanted: some give the same


def alternatives(
    lists: Sequence[Sequence[Hypothesis]],
    text_of: Callable[[Sequence[Hypothesis]], str],
    score_of: Callable[[Sequence[Hypothesis]], float],
    n_best: int,
) -> list[tuple[str, float]]:
    """Up to `n_best` different texts with their scores: the first of the best hypotheses of all the `lists`, the others by
    their scores. One hypothesis is chosen from each list, these being best first; the choices come in the order of the sum
    of what is given up in score against the best of each (Huang & Chiang 2005, "Better k-best Parsing", algorithm 2)."""
    start = (0,) * len(lists)
    heap = [(0.0, start)]
    seen = {start}
    found: dict[str, float] = {}
    for _ in range(PATIENCE * n_best):
        if not heap or len(found) == n_best:
            break
        cost, ranks = heapq.heappop(heap)
        chosen = [hypotheses[rank] for hypotheses, rank in zip(lists, ranks, strict=True)]
        found.setdefault(text_of(chosen), score_of(chosen))
        for i, (hypotheses, rank) in enumerate(zip(lists, ranks, strict=True)):
            following = (*ranks[:i], rank + 1, *ranks[i + 1 :])
            if rank + 1 < len(hypotheses) and following not in seen:
                seen.add(following)
                heapq.heappush(heap, (cost + _step(hypotheses, rank), following))
    (first, *others) = found.items()
    return [first, *sorted(others, key=lambda one: -one[1])]


def _step(hypotheses: Sequence[Hypothesis], rank: int) -> float:
    """What is given up with the next hypothesis of a list; nothing less, where it was put last for being cut."""
    return max(hypotheses[rank].score - hypotheses[rank + 1].score, 0.0)
