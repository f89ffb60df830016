"""The colours of attention maps in pictures and on the page: blues whose lightness is linear in the weight."""

from __future__ import annotations

# Oklab (Ottosson 2020): equal steps look equally large. Over blue, from near white to near black, or the other way round.
_ON_WHITE = ((0.985, -0.005, -0.006), (0.62, -0.055, -0.130), (0.255, -0.005, -0.110))
_ON_BLACK = ((0.235, -0.001, -0.012), (0.60, -0.055, -0.130), (0.965, -0.010, -0.025))


def colour(share: float, dark: bool = False) -> str:
    """The colour, "#rrggbb", of a weight that is this share of the largest, from 0 to 1, its lightness linear in the share.
    `dark`: for a dark background."""
    share = min(max(share, 0.0), 1.0)
    least, middle, most = _ON_BLACK if dark else _ON_WHITE
    bend = (least[0] - middle[0]) / (least[0] - most[0])  # where the lightness is that of the stop in the middle
    first, second, t = (least, middle, share / bend) if share <= bend else (middle, most, (share - bend) / (1 - bend))
    return _oklab_to_rgb(*(a + (b - a) * t for a, b in zip(first, second, strict=True)))


def _oklab_to_rgb(lightness: float, a: float, b: float) -> str:
    long = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3
    medium = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3
    short = (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3
    linear = (
        4.0767416621 * long - 3.3077115913 * medium + 0.2309699292 * short,
        -1.2684380046 * long + 2.6097574011 * medium - 0.3413193965 * short,
        -0.0041960863 * long - 0.7034186147 * medium + 1.7076147010 * short,
    )
    channels = (12.92 * c if c <= 0.0031308 else 1.055 * max(c, 0.0) ** (1 / 2.4) - 0.055 for c in linear)
    return "#" + "".join(f"{round(255 * min(max(c, 0.0), 1.0)):02x}" for c in channels)
