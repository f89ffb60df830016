"""Sinusoids and relative buckets against their definitions, written out here piece by piece."""

from __future__ import annotations

import math

import pytest
import torch

from tx.model.positions import relative_buckets, sinusoids


def component(position: int, i: int, d_model: int, layout: str) -> float:
    """Component i of the vector of one position."""
    half = d_model // 2
    if layout == "interleaved":  # PE(pos, 2j) = sin(pos / 10000^(2j/d)), PE(pos, 2j + 1) = cos(pos / 10000^(2j/d))
        function, j = (math.sin, math.cos)[i % 2], i // 2
    else:
        function, j = (math.sin, math.cos)[i // half], i % half
    wavelength = 10000 ** (j / (half - 1)) if layout == "tensor2tensor" else 10000 ** (2 * j / d_model)
    return function(position / wavelength)


@pytest.mark.parametrize("layout", ["interleaved", "halves", "tensor2tensor"])
@pytest.mark.parametrize("d_model", [6, 64])
@pytest.mark.parametrize("offset", [0, 2])
def test_sinusoids_are_the_formula(layout: str, d_model: int, offset: int) -> None:
    table = sinusoids(200, d_model, layout, offset)
    expected = [[component(p + offset, i, d_model, layout) for i in range(d_model)] for p in range(200)]
    assert table.dtype == torch.float32
    torch.testing.assert_close(table, torch.tensor(expected), rtol=0, atol=1e-6)


def test_far_positions_are_as_exact_as_near_ones() -> None:
    table = sinusoids(3, 8, "interleaved", offset=100_000)
    assert table[2, 0].item() == pytest.approx(math.sin(100_002), abs=1e-6)
    assert table[2, 3].item() == pytest.approx(math.cos(100_002 / 10), abs=1e-6)


def test_the_layouts_differ_where_they_should() -> None:
    interleaved, halves, other = (sinusoids(9, 8, layout) for layout in ("interleaved", "halves", "tensor2tensor"))
    assert torch.equal(halves, torch.cat((interleaved[:, ::2], interleaved[:, 1::2]), dim=1))
    assert (halves - other).abs().max() > 0.1
    assert sinusoids(4, 2, "tensor2tensor").isfinite().all()  # half − 1 = 0


def test_an_unknown_layout_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown sinusoid layout 'spiral'"):
        sinusoids(3, 4, "spiral")


def bucket(query: int, key: int, n_buckets: int, max_distance: int, bidirectional: bool) -> int:
    """The rule of Raffel et al. for one pair: near distances one by one, far ones by their logarithm, then all alike."""
    distance = key - query
    first = 0
    if bidirectional:
        n_buckets //= 2
        if distance > 0:
            first = n_buckets
        distance = abs(distance)
    else:
        if distance > 0:
            return 0
        distance = -distance
    exact = n_buckets // 2
    if distance < exact:
        return first + distance
    steps = math.log(distance / exact) / math.log(max_distance / exact) * (n_buckets - exact)
    return first + min(exact + math.floor(steps + 1e-6), n_buckets - 1)


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize(("n_buckets", "max_distance"), [(32, 128), (8, 20), (16, 64)])
def test_relative_buckets_are_the_rule(n_buckets: int, max_distance: int, bidirectional: bool) -> None:
    length = 200  # well past the distance from which all is one bucket
    table = relative_buckets(torch.arange(length), length, n_buckets, max_distance, bidirectional)
    expected = [[bucket(q, k, n_buckets, max_distance, bidirectional) for k in range(length)] for q in range(length)]
    assert table.tolist() == expected
    assert table.unique().tolist() == sorted({b for row in expected for b in row})
    # all are used; only the one for distance 0 to the right cannot be
    assert len(table.unique()) == n_buckets - bidirectional


def test_some_buckets_by_hand() -> None:
    """T5: 32 buckets and 128. To the left 16 of them, 8 exact; to the right the same + 16."""
    distances = torch.tensor([0, 1, 7, 8, 15, 16, 90, 91, 127, 128, 5000])
    table = relative_buckets(distances, 1, 32, 128, bidirectional=True)
    assert table[:, 0].tolist() == [0, 1, 7, 8, 9, 10, 14, 15, 15, 15, 15]
    right = relative_buckets(torch.tensor([0]), 5001, 32, 128, bidirectional=True)[0]
    assert right[distances[1:]].tolist() == [17, 23, 24, 25, 26, 30, 31, 31, 31, 31]
    causal = relative_buckets(distances, 1, 32, 128, bidirectional=False)
    assert causal[:, 0].tolist() == [0, 1, 7, 8, 15, 16, 29, 29, 31, 31, 31]


def test_only_distances_count() -> None:
    whole = relative_buckets(torch.arange(50), 50, 32, 128, bidirectional=False)
    for t in (0, 17, 49):
        assert torch.equal(relative_buckets(torch.tensor([t]), 50, 32, 128, bidirectional=False)[0], whole[t])
