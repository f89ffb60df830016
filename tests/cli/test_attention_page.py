"""The HTML page: what is in it, and what it does in a real browser."""

from __future__ import annotations

import base64
import json
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tx.cli.attention_export import Selection, export
from tx.model import attention_maps
from tx.model.results import AttentionMap, Token

MakeMap = Callable[..., AttentionMap]
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
DESKTOP, PHONE = {"width": 1280, "height": 800}, {"width": 420, "height": 800}
LISTED = 8  # links of a word that the page reads out


@pytest.fixture(scope="module")
def cat(make_map: MakeMap) -> AttentionMap:
    source = [
        "The",
        " an",
        "imal",
        " did",
        " not",
        " cross",
        " the",
        " street",
        " because",
        " it",
        " was",
        " tired",
        ".",
    ]
    return make_map(source, ["动物", "没有", "穿过", "街道", "，", "因为", "它", "累", "了", "。"], layers=3, heads=4)


def html(maps: list[AttentionMap], selection: Selection | None = None) -> str:
    return export("html", maps, selection or Selection()).data.decode()


def data_of(page: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found
    document: dict[str, Any] = json.loads(found[1])
    return document


def test_the_page_holds_every_weight(cat: AttentionMap) -> None:
    [part] = data_of(html([cat]))["parts"]
    assert [one["kind"] for one in part["maps"]] == ["cross", "encoder", "decoder", "rollout"]
    for one in part["maps"][:3]:
        expected = getattr(cat, one["kind"])
        weights = np.frombuffer(base64.b64decode(one["weights"]), "<f4").reshape(expected.shape)
        np.testing.assert_array_equal(weights, expected)
        assert (one["layers"], one["heads"]) == expected.shape[:2]
    rollout = np.frombuffer(base64.b64decode(part["maps"][3]["weights"]), "<f4").reshape(3, 14, 14)
    np.testing.assert_array_equal(rollout[2], attention_maps.rollout(cat.encoder, 3))


def test_words_know_their_pieces(cat: AttentionMap) -> None:
    text = data_of(html([cat]))["parts"][0]["texts"]["src"]
    assert [piece["label"] for piece in text["pieces"]][:3] == ["The", "▁an", "imal"]
    assert [(word["label"], word["from"], word["to"]) for word in text["words"]][:3] == [
        ("The", 0, 1),
        ("animal", 1, 3),
        ("did", 3, 4),
    ]


def test_the_places_of_an_answer_are_not_put_together(cat: AttentionMap) -> None:
    pointed = (Token(" an", 3, 6), Token("imal", 6, 10))
    start = (Token("<answer>", 0, 0, special=True), pointed[0])
    weights = {"cross": cat.cross[:, :, :2], "decoder": np.full((3, 4, 2, 2), 0.5, np.float32)}
    answer = replace(cat, task="answer", output=" animal", tgt=pointed, fed=start, **weights)
    texts = data_of(html([answer]))["parts"][0]["texts"]
    assert [word["label"] for word in texts["tgt"]["words"]] == ["an", "imal"]
    assert [word["label"] for word in texts["fed"]["words"]] == ["<answer>", "an"]


def test_what_was_selected_is_shown_first(cat: AttentionMap) -> None:
    start = data_of(html([cat], Selection("encoder", "last", 2, words=False, special=False, scale="log")))["start"]
    assert start == {
        "kind": 1,
        "unit": "pieces",
        "special": False,
        "scale": "log",
        "panel": {"layer": "3", "head": "2"},
    }


def test_nothing_in_a_text_ends_the_script(make_map: MakeMap) -> None:
    nasty = ["</script>x", "<!--x", " {{data}}", " <script>alert(1)"]
    page = html([make_map(nasty, ["]]>"])])
    assert page.count("<script") == 2 and page.count("</script>") == 2
    assert data_of(page)["parts"][0]["source"] == "".join(nasty)
    assert page.count("<!--") == 1  # the page's own


def test_the_page_refers_to_nothing_outside(cat: AttentionMap) -> None:
    page = html([cat])
    assert "default-src 'none'" in page
    assert not re.search(r"\b(src|href)=|url\(|@import|fetch\(|XMLHttpRequest|import\(", page)
    assert re.findall(r"https?://[^\"' ]+", page) == ["http://www.w3.org/2000/svg"]  # a name, not an address


def test_without_javascript_there_is_a_table(cat: AttentionMap) -> None:
    [static] = re.findall(r"<noscript>(.*?)</noscript>", html([cat]), re.DOTALL)
    view = attention_maps.view(cat, "cross")
    best = int(view.weights[3].argmax())
    assert f"<th>街道</th><td>{view.columns[best].text.strip()} {view.weights[3, best]:.2f}, " in static
    assert cat.source in static and cat.output in static


# --- in a browser ---


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        pytest.skip(f"none of {', '.join(BROWSERS)} is installed")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as driver:
        running = driver.chromium.launch(executable_path=program, args=["--no-sandbox"], headless=True)
        yield running
        running.close()


@pytest.fixture
def open_page(browser: Any, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """open_page(maps) shows them; fails if the page complains or asks for anything but itself."""
    complaints: list[str] = []
    requests: list[str] = []
    contexts = []
    file = tmp_path / "map.html"

    def open_(maps: list[AttentionMap], selection: Selection | None = None, **settings: Any) -> Any:
        file.write_text(html(maps, selection), encoding="utf-8")
        contexts.append(browser.new_context(**{"viewport": DESKTOP, **settings}))
        page = contexts[-1].new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(file.as_uri())
        return page

    yield open_
    for context in contexts:
        context.close()
    assert complaints == []
    assert set(requests) == {file.as_uri()}


def numbers(panel: Any) -> list[tuple[str, str]]:
    """The links that a panel reads out: (word, number)."""
    return [tuple(text.rsplit(" ", 1)) for text in panel.locator(".readout li").all_inner_texts()]


def expected(tokens: tuple[Token, ...], weights: Any) -> list[tuple[str, str]]:
    strongest = np.argsort(-weights, kind="stable")[:LISTED]
    return [(tokens[i].text.strip(), f"{weights[i]:.3f}") for i in strongest]


def test_a_word_shows_the_numbers_of_the_chosen_layer_and_head(
    cat: AttentionMap, open_page: Callable[..., Any]
) -> None:
    page = open_page([cat])
    page.select_option("[name=layer]", "2")
    page.select_option("[name=head]", "3")
    page.hover("tbody .word >> nth=3")
    view = attention_maps.view(cat, "cross", 2, 3)
    panel = page.locator(".panel")
    assert panel.locator(".readout p").inner_text() == "街道 looks at"
    assert numbers(panel) == expected(view.columns, view.weights[3])
    shown = panel.locator("tbody tr").nth(3).locator("td").all_inner_texts()
    assert shown == [f"{weight:.2f}".removeprefix("0") for weight in view.weights[3]]
    page.hover("thead .word >> nth=1")
    assert panel.locator(".readout p").inner_text() == "animal is looked at by"
    assert numbers(panel) == expected(view.rows, view.weights[:, 1])


@pytest.mark.parametrize("viewport", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_two_heads_side_by_side(cat: AttentionMap, open_page: Callable[..., Any], viewport: dict[str, int]) -> None:
    page = open_page([cat], viewport=viewport)
    page.check("[name=compare]")
    panels = page.locator(".panel")
    assert panels.count() == 2
    for number, (layer, head) in enumerate([("1", "4"), ("3", "max")]):
        panels.nth(number).locator("[name=layer]").select_option(layer)
        panels.nth(number).locator("[name=head]").select_option(head)
    panels.nth(0).locator("tbody .word").nth(6).hover()
    first, second = attention_maps.view(cat, "cross", 1, 4), attention_maps.view(cat, "cross", 3, "max")
    assert numbers(panels.nth(0)) == expected(first.columns, first.weights[6])
    assert numbers(panels.nth(1)) == expected(second.columns, second.weights[6])
    assert panels.nth(1).locator(".note").inner_text() == "rows do not add up to 1"
    left, right = panels.nth(0).bounding_box(), panels.nth(1).bounding_box()
    assert (left["y"] == right["y"]) == (viewport is DESKTOP)


@pytest.mark.parametrize("look", ["grid", "links"])
@pytest.mark.parametrize("viewport", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_the_page_is_never_wider_than_the_window(
    make_map: MakeMap, open_page: Callable[..., Any], viewport: dict[str, int], look: str
) -> None:
    wide = make_map([f" somewhatlongword{n}" for n in range(60)], ["长长的词"] * 30, layers=1, heads=2)
    page = open_page([wide], viewport=viewport)
    page.select_option("[name=look]", look)
    for _ in range(2):
        assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]
        page.check("[name=compare]")


@pytest.mark.parametrize("unit", ["words", "pieces"])
def test_kinds_units_and_special_pieces_can_be_chosen(
    cat: AttentionMap, open_page: Callable[..., Any], unit: str
) -> None:
    page = open_page([cat], Selection(head=2))
    for kind, label in enumerate(("cross", "encoder", "decoder", "rollout")):
        page.select_option("[name=kind]", str(kind))
        page.select_option("[name=unit]", unit)
        page.uncheck("[name=special]")
        page.hover("tbody .word >> nth=1")  # "animal", of two pieces, where rows are the source's words
        head = "mean" if label == "rollout" else 2
        view = attention_maps.view(cat, label, 3, head, words=unit == "words", special=False)
        shown = page.locator("tbody tr").nth(1).locator("td").all_inner_texts()
        assert shown == [f"{weight:.2f}".removeprefix("0") for weight in view.weights[1]]
        assert page.locator(".note").inner_text() == "rows do not add up to 1"


def test_parts_can_be_chosen(cat: AttentionMap, make_map: MakeMap, open_page: Callable[..., Any]) -> None:
    second = make_map(["Yes", "!"], ["是", "！"], part=2, parts=2, layers=3, heads=4)
    page = open_page([replace(cat, parts=2), second], Selection(layer=3, head=4))
    page.select_option("[name=part]", "1")
    assert page.locator("#source").inner_text() == "Yes!"
    assert page.locator("tbody .word").all_inner_texts() == ["是", "！", "</s>"]
    page.hover("tbody .word >> nth=1")
    view = attention_maps.view(second, "cross", 3, 4)
    assert numbers(page.locator(".panel")) == expected(view.columns, view.weights[1])


def test_links_show_only_those_of_the_word(cat: AttentionMap, open_page: Callable[..., Any]) -> None:
    page = open_page([cat], Selection(layer=1, head=1))
    page.select_option("[name=look]", "links")
    weights = attention_maps.view(cat, "cross", 1, 1).weights
    assert page.locator("line").count() == (weights >= 1e-3).sum()
    page.hover('.word[data-side="row"] >> nth=4')
    assert page.locator("line:visible").count() == (weights[4] >= 1e-3).sum()
    shown = page.locator(".links ol:last-child .number").all_inner_texts()
    assert shown == [f"{weight:.2f}" if weight >= 0.005 else "" for weight in weights[4]]


def test_the_keyboard_is_enough(cat: AttentionMap, open_page: Callable[..., Any]) -> None:
    page = open_page([cat])
    page.focus("tbody .word >> nth=0")
    page.keyboard.press("ArrowDown")
    assert page.locator(".readout p").inner_text() == "没有 looks at"
    page.keyboard.press("Enter")  # keeps it
    page.keyboard.press("Tab")
    page.mouse.move(1, 1)
    assert page.locator(".readout p").inner_text() == "没有 looks at"


def test_dark_mode_is_dark(cat: AttentionMap, open_page: Callable[..., Any]) -> None:
    page = open_page([cat], color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(22, 23, 27)"
    weights = attention_maps.view(cat, "cross").weights
    strongest = page.locator("tbody tr").first.locator("td").nth(int(weights[0].argmax()))
    light = strongest.evaluate("cell => getComputedStyle(cell).backgroundColor")
    assert min(map(int, re.findall(r"\d+", light))) > 200


def test_without_javascript_the_page_is_not_empty(cat: AttentionMap, open_page: Callable[..., Any]) -> None:
    page = open_page([cat], java_script_enabled=False)
    assert "needs JavaScript" in page.locator("body").inner_text()
    assert page.locator("table.static tr").count() == len(attention_maps.view(cat, "cross").rows)


def test_chinese_over_the_columns_takes_the_room_it_needs(make_map: MakeMap, open_page: Callable[..., Any]) -> None:
    """Some Chinese fonts have no height for vertical text: its headings were there, and empty to the eye."""
    page = open_page([make_map(["我", "喜欢", "在桥下面", "看书"], ["I", " read"])])
    page.select_option("[name=unit]", "pieces")
    boxes = [word.bounding_box() for word in page.locator(".grid thead .word").all()]
    lengths = [len("我"), len("喜欢"), len("在桥下面"), len("看书")]
    for box, length in zip(boxes, lengths, strict=False):
        assert box["height"] >= 10 * length


def test_another_kind_begins_with_its_last_layer(cat: AttentionMap, open_page: Callable[..., Any]) -> None:
    page = open_page([replace(cat, cross=cat.cross[:2])])
    page.select_option("[name=kind]", "3")
    assert page.locator(".panel [name=layer]").input_value() == "3"
    assert page.locator("[name=scale]").input_value() == "log"
