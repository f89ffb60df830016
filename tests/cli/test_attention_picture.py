"""SVG and PNG: valid, complete, nothing cut or drawn over another, with or without the right fonts."""

from __future__ import annotations

import io
import math
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from tx.cli.attention_export import Selection, export
from tx.cli.attention_layout import (
    FRAME,
    Label,
    Picture,
    estimated_width,
    layout,
    shorten,
)
from tx.cli.attention_picture import PIXELS, Fonts, paint
from tx.cli.picture_colours import colour
from tx.model import attention_maps
from tx.model.results import AttentionMap

MakeMap = Callable[..., AttentionMap]
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def birds(make_map: MakeMap) -> AttentionMap:
    return make_map(["The", " bird", "s", " sing", "."], ["鸟儿", "在", "唱歌", "。"])


def drawn(maps: list[AttentionMap], selection: Selection) -> ElementTree.Element:
    return ElementTree.fromstring(export("svg", maps, selection).data)


def texts(svg: ElementTree.Element) -> list[str]:
    return [element.text or "" for element in svg.iter(f"{SVG}text")]


def cells(svg: ElementTree.Element) -> list[ElementTree.Element]:
    return [element for element in svg.iter(f"{SVG}rect") if element.find(f"{SVG}title") is not None]


def test_an_svg_has_a_cell_for_each_weight_and_all_labels(birds: AttentionMap) -> None:
    svg = drawn([birds], Selection(layer=2, head=3))
    view = attention_maps.view(birds, "cross", 2, 3)
    assert len(cells(svg)) == view.weights.size
    hint = cells(svg)[1].findtext(f"{SVG}title")
    assert hint == f"鸟儿 → birds: {view.weights[0, 1]:.3f}"
    shown = texts(svg)
    assert shown[0] == "cross-attention · layer 2 · head 3"
    for label in ("The", "birds", "sing", "鸟儿", "唱歌", "</s>", f"source: {birds.source}", f"output: {birds.output}"):
        assert label in shown


def test_an_svg_needs_nothing_else(birds: AttentionMap) -> None:
    text = export("svg", [birds], Selection()).data.decode()
    assert text.count("http") == 1  # its namespace
    assert not [word for word in ("href", "url(", "<style", "<script", "<image") if word in text]
    assert "Noto Sans CJK SC" in text


def test_the_largest_of_a_row_is_darkest(birds: AttentionMap) -> None:
    svg = drawn([birds], Selection(scale="row"))
    weights = attention_maps.view(birds, "cross").weights
    fills = [cell.get("fill") for cell in cells(svg)]
    for row, largest in enumerate(weights.argmax(1)):
        assert fills[row * weights.shape[1] + int(largest)] == colour(1.0)
    of_all = [cell.get("fill") for cell in cells(drawn([birds], Selection(scale="global")))]
    assert of_all.count(colour(1.0)) == 1
    assert of_all[int(weights.argmax())] == colour(1.0)


def test_a_gallery_names_each_panel(birds: AttentionMap) -> None:
    shown = texts(drawn([birds], Selection(layer=1, head=None)))
    assert [text for text in shown if text.startswith("head ")] == ["head 1", "head 2", "head 3"]
    shown = texts(drawn([birds], Selection(layer=None, head=None, kind="encoder")))
    assert [text for text in shown if text.startswith("layer ")] == [
        f"layer {n} · head {h}" for n in (1, 2) for h in (1, 2, 3)
    ]


def test_parts_and_kinds_stand_under_each_other(birds: AttentionMap, make_map: MakeMap) -> None:
    second = make_map(["Yes"], ["是"], part=2, parts=2)
    shown = texts(drawn([replace(birds, parts=2), second], Selection(kind=None)))
    titles = [text for text in shown if "attention" in text]
    assert len(titles) == 6
    assert titles[0].startswith("part 1 of 2 · cross-attention")
    assert titles[5].startswith("part 2 of 2 · decoder self-attention")


def test_rows_that_do_not_add_up_are_said(birds: AttentionMap) -> None:
    assert any("do not add up" in text for text in texts(drawn([birds], Selection(special=False))))
    assert not any("do not add up" in text for text in texts(drawn([birds], Selection())))


def test_numbers_can_be_written_into_the_cells(birds: AttentionMap) -> None:
    shown = texts(drawn([birds], Selection(values=True)))
    weights = attention_maps.view(birds, "cross").weights
    assert sum(text.startswith(".") and len(text) == 3 for text in shown) == (weights < 0.995).sum()


@settings(deadline=None, max_examples=40)
@given(st.lists(st.text(min_size=1, max_size=12), min_size=1, max_size=5))
def test_any_label_gives_valid_xml(make_map: MakeMap, labels: list[str]) -> None:
    pieces = [label.replace(">", "›") for label in labels]  # "<…>" would be special
    svg = drawn([make_map(pieces, ["是"], layers=1, heads=1)], Selection(words=False))
    assert len(cells(svg)) == 2 * (len(pieces) + 1)


def test_markup_in_labels_stays_text(make_map: MakeMap) -> None:
    one = make_map(["a</text>", ' &"b"', "\x1b[31m"], ["]]>"])
    assert {"a</text>", '▁&"b"', "\\x1b[31m", "]]>"} <= set(texts(drawn([one], Selection(words=False))))
    assert b"\x1b" not in export("svg", [one], Selection()).data


def test_a_map_of_nothing_is_a_picture_too(make_map: MakeMap) -> None:
    empty = make_map([], [])
    for format in ("svg", "png", "html"):
        assert export(format, [empty], Selection(special=False)).data
    assert_nothing_is_cut(layout([empty], Selection(special=False), estimated_width))


def box(label: Label, measure: Callable[[str, float], float]) -> tuple[float, float, float, float]:
    """Left, top, right and bottom of a text that begins or ends at its place, turned or not."""
    width, turn = measure(label.text, label.size), math.radians(label.angle)
    start = {"start": 0.0, "middle": -width / 2, "end": -width}[label.anchor]
    corners = [(start + x, y) for x in (0, width) for y in (-label.size, 0.25 * label.size)]
    xs = [label.x + x * math.cos(turn) + y * math.sin(turn) for x, y in corners]
    ys = [label.y - x * math.sin(turn) + y * math.cos(turn) for x, y in corners]
    return min(xs), min(ys), max(xs), max(ys)


def assert_nothing_is_cut(picture: Picture) -> None:
    for label in picture.labels:
        left, top, right, bottom = box(label, estimated_width)
        assert left >= 0 and top >= 0, label
        assert right <= picture.width and bottom <= picture.height, label
    for shape in picture.rectangles:
        assert shape.x >= 0 and shape.x + shape.width <= picture.width
        assert shape.y >= 0 and shape.y + shape.height <= picture.height


SIZES = [(1, 1), (2, 30), (30, 2), (20, 20), (60, 70)]


@pytest.mark.parametrize("head", ["mean", None])
@pytest.mark.parametrize(("columns", "rows"), SIZES)
def test_nothing_is_cut_or_drawn_over_at_any_size(make_map: MakeMap, columns: int, rows: int, head: str | None) -> None:
    one = make_map([f" wwwwwwwwwwwwwwwwwwwww{n}" for n in range(columns)], ["我们的"] * rows, layers=1, heads=2)
    picture = layout([one], Selection(head=head), estimated_width)
    assert_nothing_is_cut(picture)
    assert picture.width <= 420 + 30 * 16 or columns > 10
    assert picture.width < 2600 and picture.height < 2600
    names = [label for label in picture.labels if label.anchor == "end"]
    assert len(names) % (rows + 1) == 0
    left_edge = min(shape.x for shape in picture.rectangles if shape.fill == FRAME and shape.height > 12)
    assert all(label.x <= left_edge for label in names)
    # labels of neighbouring rows, and slanted ones of neighbouring columns, are further apart than they are high
    cell = names[1].y - names[0].y
    slanted = [label for label in picture.labels if label.angle][: columns + 1]
    assert cell >= names[0].size
    assert (slanted[1].x - slanted[0].x) * math.sin(math.radians(slanted[0].angle)) >= slanted[0].size


def test_long_labels_end_in_dots() -> None:
    assert shorten("short", 13, 100, estimated_width) == "short"
    long = shorten("long" * 50, 13, 100, estimated_width)
    assert long.endswith("…") and 60 < estimated_width(long, 13) <= 100


def test_the_colours_go_evenly_from_light_to_dark() -> None:
    def luma(code: str) -> float:
        red, green, blue = (int(code[at : at + 2], 16) for at in (1, 3, 5))
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    steps = [luma(colour(step / 20)) for step in range(21)]
    assert all(0 < a - b < 25 for a, b in zip(steps, steps[1:], strict=False))
    assert steps[0] > 245 and steps[-1] < 40
    on_black = [luma(colour(step / 20, dark=True)) for step in range(21)]
    assert on_black == sorted(on_black)
    assert on_black[0] < 40 and on_black[-1] > 235


def test_a_png_is_the_svg_in_pixels(birds: AttentionMap, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DISPLAY", raising=False)
    image = Image.open(io.BytesIO(export("png", [birds], Selection()).data))
    picture = layout([birds], Selection(), Fonts().width)
    assert image.size == (picture.width * PIXELS, picture.height * PIXELS)
    for shape in picture.rectangles:
        if shape.hint:
            centre = round((shape.x + shape.width / 2) * PIXELS), round((shape.y + shape.height / 2) * PIXELS)
            assert "#{:02x}{:02x}{:02x}".format(*image.getpixel(centre)) == shape.fill  # type: ignore[misc]


def test_labels_are_drawn_where_they_belong(birds: AttentionMap) -> None:
    fonts = Fonts()
    picture = layout([birds], Selection(), fonts.width)
    image = Image.open(io.BytesIO(paint(picture, fonts))).convert("L")
    for label in picture.labels:
        left, top, right, bottom = (round(edge * PIXELS) for edge in box(label, fonts.width))
        dark = image.crop((left, top, right, bottom)).point(lambda value: 255 if value < 140 else 0)
        assert dark.getbbox() is not None, label


def test_without_a_font_for_it_a_character_is_drawn_as_its_code(make_map: MakeMap) -> None:
    fonts = Fonts(files=(), ask_system=False)
    one = make_map(["I", " love", " you"], ["我", "爱", "你"])
    picture = layout([one], Selection(), fonts.width)
    assert_nothing_is_cut(picture)
    image = Image.open(io.BytesIO(paint(picture, fonts)))
    assert image.size[0] == picture.width * PIXELS
    assert set(fonts.missing) == set("我爱你")
    [warning] = fonts.warnings()
    assert "U+6211 U+7231 U+4F60;" in warning and "\n" not in warning


def test_what_a_font_has_gives_no_warning(make_map: MakeMap) -> None:
    data, warnings = export("png", [make_map(["Good", " day"], ["Oi"])], Selection())
    assert data.startswith(b"\x89PNG") and warnings == ()


def test_the_system_is_asked_for_a_font() -> None:
    if shutil.which("fc-match") is None or not subprocess.check_output(["fc-list", ":charset=6211", "file"]):
        pytest.skip("fontconfig, or a Chinese font that it knows, is not installed")
    assert Fonts(files=()).face("我") is not None
    assert Fonts(files=(), ask_system=False).face("我") is None
