"""Rounds, medians and quartiles. Standard library only."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

T = TypeVar("T")


def interleaved(cases: Sequence[T], rounds: int) -> Iterator[tuple[int, T]]:
    """(round, case): every case once in each round, so that whatever disturbs the machine disturbs all of them alike. Each
    round begins one case later, so that none always follows the same one."""
    for i in range(rounds):
        start = i % len(cases) if cases else 0
        for case in [*cases[start:], *cases[:start]]:
            yield i, case


def spread(values: Sequence[float]) -> dict[str, Any]:
    """Median, quartiles and all values, for JSON."""
    low, high = quartiles(values)
    return {"median": statistics.median(values), "quartiles": [low, high], "values": list(values)}


def quartiles(values: Sequence[float]) -> tuple[float, float]:
    """Between which the middle half of the values lies."""
    if len(values) == 1:
        return values[0], values[0]
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, high


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of the values does not exceed (the nearest-rank method)."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def ratios(ours: Sequence[float], theirs: Sequence[float]) -> dict[str, Any]:
    """theirs / ours round by round, which a disturbance of both leaves as it is: the median and the quartiles."""
    return spread([b / a for a, b in zip(ours, theirs, strict=True)])


def exponent(sizes: Sequence[float], values: Sequence[float]) -> float:
    """The e of value ≈ c · sizeᵉ: the slope of the straight line through the logarithms (least squares). 1: linear."""
    x, y = [math.log(size) for size in sizes], [math.log(value) for value in values]
    mean_x, mean_y = statistics.fmean(x), statistics.fmean(y)
    return sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True)) / sum((a - mean_x) ** 2 for a in x)


def equal_share(ours: Sequence[str], theirs: Sequence[str]) -> float:
    """Of outputs compared without their spaces at ends and between."""
    same = sum(a.split() == b.split() for a, b in zip(ours, theirs, strict=True))
    return same / len(ours) if ours else math.nan


def chrf(ours: Sequence[str], theirs: Sequence[str]) -> float | None:
    """chrF (Popović 2015) of one side's outputs against the other's, 0 to 100; None where sacreBLEU is not installed."""
    try:
        import sacrebleu
    except ModuleNotFoundError:
        return None
    one_line: Callable[[Sequence[str]], list[str]] = lambda texts: [" ".join(text.split()) for text in texts]  # noqa: E731
    return float(sacrebleu.corpus_chrf(one_line(ours), [one_line(theirs)]).score)
