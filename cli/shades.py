"""From a weight to a shade: scales, character ramps, colours, and the legend that says what a shade means in numbers."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

RAMP, ASCII_RAMP = " ░▒▓█", " :+#@"
LOG_DECADES = 2.5  # a logarithmic scale goes from the largest weight down to 1/316 of it: each shade is half a decade

# From nothing to the largest weight: even steps of lightness (0.25 to 0.93 on a dark terminal, 0.96 to 0.28 on a light one) and of hue
# (between violet and yellow) in OKLCH, with a chroma of 0.16 where a screen can show it, and on white less for the weakest (B. Ottosson, "A
# perceptual color space for image processing", 2020). In the 256 colours of older terminals the order of lightness is the same.
ON_DARK = (
    *("#2e0056", "#2b187f", "#043b97", "#025c8b", "#027591", "#038e97"),
    *("#09a898", "#0dc48b", "#76d676", "#bbe365", "#f8ed60"),
)
ON_LIGHT = (
    *("#f4f3dd", "#d4e2ba", "#a7d3a2", "#6cc599", "#0bb39d", "#0a999d"),
    *("#028097", "#036790", "#024b90", "#23288b", "#2f016d"),
)


@dataclass(frozen=True)
class Scale:
    """Where a weight lies between nothing and the largest. Shade k of 0…4 begins at edges[k - 1]."""

    largest: float
    logarithmic: bool = False

    @cached_property
    def edges(self) -> list[float]:
        """The smallest weight of each shade but the blank one, ascending."""
        steps = [k / len(RAMP) for k in range(1, len(RAMP))]
        if self.logarithmic:
            return [self.largest * 10 ** (LOG_DECADES * (step - 1)) for step in steps]
        return [self.largest * step for step in steps]

    def shade(self, weight: float) -> int:
        """0 (blank) to 4."""
        return bisect_right(self.edges, weight) if weight > 0 else 0

    def position(self, weight: float) -> float:
        """0 (nothing, or too little to show) to 1 (the largest)."""
        if weight <= 0 or self.largest <= 0:
            return 0.0
        ratio = min(1.0, weight / self.largest)
        return max(0.0, 1 + math.log10(ratio) / LOG_DECADES) if self.logarithmic else ratio


def colour(position: float, dark: bool) -> str:
    """The colour (#rrggbb) of a position from 0 to 1 on a dark or a light terminal."""
    palette = ON_DARK if dark else ON_LIGHT
    return palette[round(position * (len(palette) - 1))]


def ink(background: str) -> str:
    """Black or white, whichever has the higher contrast with a colour (#rrggbb): black from a relative luminance of 0.18 on
    (WCAG 2: (L + 0.05) / 0.05 > 1.05 / (L + 0.05))."""
    red, green, blue = ((int(background[i : i + 2], 16) / 255) ** 2.2 for i in (1, 3, 5))
    return "#000000" if 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.18 else "#ffffff"


def scales(kind: str, grids: Sequence[Sequence[Sequence[float]]]) -> list[list[Scale]]:
    """A scale for each row of each grid of weights: its own ("row"), or that of all grids together ("global", "log")."""
    if kind == "row":
        return [[Scale(max(row, default=0.0)) for row in grid] for grid in grids]
    shared = Scale(max((max(row, default=0.0) for grid in grids for row in grid), default=0.0), kind == "log")
    return [[shared] * len(grid) for grid in grids]


def number(weight: float) -> str:
    """Two digits for a cell of three: .31, .00, 1.0"""
    return f"{weight:.1f}" if weight >= 0.995 else f"{weight:.2f}"[1:]


def precise(weight: float) -> str:
    """Two significant digits: .31, .0045, 1.0, 3.1e-05"""
    if weight >= 0.095 or weight <= 0:
        return number(weight)
    if weight < 1e-4:
        return f"{weight:.1e}"
    return f"{weight:.{1 - math.floor(math.log10(weight))}f}"[1:]


def legend(kind: str, scale: Scale) -> tuple[str, list[str]]:
    """What is measured, and from which number on each of the five shades stands for it, the blank one first."""
    if kind == "row":
        numbers = [str(100 * k // len(RAMP)) for k in range(1, len(RAMP))]
        return "% of the largest in its row:", [f"under {numbers[0]}", f"from {numbers[0]}", *numbers[1:]]
    edges = [precise(edge) for edge in scale.edges]
    heading = "one log scale:" if kind == "log" else "one scale for all:"
    return heading, [f"under {edges[0]}", f"from {edges[0]}", *edges[1:-1], f"{edges[-1]} to {precise(scale.largest)}"]
