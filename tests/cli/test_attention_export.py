"""JSON, CSV and NPZ of attention maps: what was put in comes out, and rows add up to 1."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tx.cli.attention_export import CSV_HEADER, FORMATS, SCHEMA, Selection, export, tables
from tx.model import attention_maps
from tx.model.errors import UsageError
from tx.model.results import AttentionMap, Token

MakeMap = Callable[..., AttentionMap]
ALL = Selection(kind=None, layer=None, head=None)


@pytest.fixture
def birds(make_map: MakeMap) -> AttentionMap:
    return make_map(["The", " bird", "s", " sing", "."], ["鸟儿", "在", "唱歌", "。"])


def as_json(maps: list[AttentionMap], selection: Selection) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(export("json", maps, selection).data)
    return document


@pytest.mark.parametrize("words", [True, False])
def test_json_has_every_layer_and_head_as_it_is_viewed(birds: AttentionMap, words: bool) -> None:
    document = as_json([birds], replace(ALL, words=words))
    assert (document["schema"], document["model"], document["task"]) == (SCHEMA, "en-zh", "translate:zh")
    assert (document["words"], document["special"]) == (words, True)
    [part] = document["parts"]
    assert [one["kind"] for one in part["maps"]] == ["cross", "encoder", "decoder"]
    for one in part["maps"]:
        assert one["layers"] == ["1", "2"]
        assert one["heads"] == ["1", "2", "3"]
        assert one["rows_sum_to_one"] is True
        weights = np.array(one["weights"])
        assert weights.shape == (2, 3, len(one["rows"]), len(one["columns"]))
        assert np.abs(weights.sum(-1) - 1).max() <= 1e-5
        for layer in (1, 2):
            for head in (1, 2, 3):
                view = attention_maps.view(birds, one["kind"], layer, head, words=words)
                np.testing.assert_allclose(weights[layer - 1, head - 1], view.weights, atol=1e-7)
                assert [row["text"] for row in one["rows"]] == [token.text for token in view.rows]


def test_places_in_json_are_those_of_the_texts(birds: AttentionMap) -> None:
    [part] = as_json([birds], replace(ALL, words=True))["parts"]
    for one in part["maps"]:
        for axis in ("rows", "columns"):
            text = part[one[f"{axis}_in"]]
            for token in one[axis]:
                assert token["special"] or text[token["start"] : token["end"]] == token["text"]
    cross = part["maps"][0]
    assert (cross["rows_in"], cross["columns_in"]) == ("output", "source")
    assert [token["text"].strip() for token in cross["columns"]] == ["The", "birds", "sing", ".", "</s>"]


def test_places_of_an_answer_are_in_its_source(birds: AttentionMap) -> None:
    pointed = (Token(" bird", 3, 8), Token("s", 8, 9))
    start = (Token("<answer>", 0, 0, special=True), pointed[0])
    weights = {"cross": birds.cross[:, :, :2], "decoder": np.full((2, 3, 2, 2), 0.5, np.float32)}
    answer = replace(birds, task="answer", output=" birds", tgt=pointed, fed=start, **weights)
    [part] = as_json([answer], ALL)["parts"]
    assert [(one["kind"], one["rows_in"], one["columns_in"]) for one in part["maps"]] == [
        ("cross", "source", "source"),
        ("encoder", "source", "source"),
        ("decoder", "source", "source"),
    ]
    assert [token["text"] for token in part["maps"][0]["rows"]] == [" bird", "s"]


@pytest.mark.parametrize("selection", [Selection(special=False), Selection(head="max")])
def test_json_says_where_rows_do_not_add_up(birds: AttentionMap, selection: Selection) -> None:
    [one] = as_json([birds], selection)["parts"][0]["maps"]
    assert one["rows_sum_to_one"] is False
    assert any(token["special"] for token in one["rows"]) == selection.special


def test_json_names_what_was_reduced(birds: AttentionMap) -> None:
    [one] = as_json([birds], Selection(layer="mean", head="max"))["parts"][0]["maps"]
    assert (one["layers"], one["heads"]) == (["mean"], ["max"])
    [one] = as_json([birds], Selection(kind="rollout", head=None))["parts"][0]["maps"]
    assert (one["layers"], one["heads"]) == (["2"], ["mean"])


def test_each_part_has_its_number_and_offset(birds: AttentionMap, make_map: MakeMap) -> None:
    second = make_map(["Yes"], ["是"], part=2, parts=2, offset=17, flags=("cut",))
    document = as_json([replace(birds, parts=2), second], Selection())
    assert [(part["part"], part["offset"], part["flags"]) for part in document["parts"]] == [
        (1, 0, []),
        (2, 17, ["cut"]),
    ]


def test_a_decoder_without_attention_is_left_out(birds: AttentionMap) -> None:
    without = replace(birds, decoder=None)
    assert [table.kind for table in tables(without, ALL)] == ["cross", "encoder"]
    with pytest.raises(UsageError, match="no self-attention"):
        export("json", [without], Selection(kind="decoder"))
    assert "decoder" not in np.load(io.BytesIO(export("npz", [without], ALL).data))


def test_csv_has_a_line_for_each_cell(birds: AttentionMap) -> None:
    lines = list(csv.reader(io.StringIO(export("csv", [birds], Selection(layer=None)).data.decode(), newline="")))
    assert tuple(lines[0]) == CSV_HEADER
    assert len(lines) == 1 + 2 * 5 * 5
    view = attention_maps.view(birds, "cross", 2)
    part, kind, layer, head, row, row_text, column, column_text, weight = lines[-1]
    assert (part, kind, layer, head, row, column) == ("1", "cross", "2", "mean", "5", "5")
    assert (row_text, column_text) == ("</s>", "</s>")
    assert float(weight) == pytest.approx(view.weights[4, 4], abs=1e-8)


def test_labels_survive_csv(make_map: MakeMap) -> None:
    labels = ['"', "\n", ",", "\r\n", " a"]
    one = make_map(labels, ["x"])
    text = export("csv", [one], Selection(words=False)).data.decode()
    lines = list(csv.reader(io.StringIO(text, newline="")))[1:7]
    assert [line[CSV_HEADER.index("column_text")] for line in lines] == [*labels, "</s>"]


def test_npz_holds_the_arrays_as_they_are(birds: AttentionMap) -> None:
    arrays = np.load(io.BytesIO(export("npz", [birds], Selection()).data), allow_pickle=False)
    for kind in ("encoder", "decoder", "cross"):
        np.testing.assert_array_equal(arrays[kind], getattr(birds, kind))
    assert arrays["src"].tolist() == ["The", " bird", "s", " sing", ".", "</s>"]
    assert arrays["src_places"].tolist()[1] == [3, 8]
    assert arrays["tgt_special"].tolist() == [False] * 4 + [True]
    assert (str(arrays["source"]), str(arrays["task"])) == (birds.source, "translate:zh")


def test_npz_numbers_the_parts(birds: AttentionMap, make_map: MakeMap) -> None:
    second = make_map(["Yes"], ["是"], part=2, parts=2)
    arrays = np.load(io.BytesIO(export("npz", [birds, second], Selection()).data), allow_pickle=False)
    assert arrays["cross_2"].shape == (2, 3, 2, 2)
    assert arrays["tgt_1"].tolist() == ["鸟儿", "在", "唱歌", "。", "</s>"]


@pytest.mark.parametrize("format", FORMATS)
def test_the_same_map_gives_the_same_bytes(birds: AttentionMap, format: str) -> None:
    first = export(format, [birds], Selection()).data
    assert first and first == export(format, [birds], Selection()).data


def test_unknown_choices_are_wrong_usage(birds: AttentionMap) -> None:
    with pytest.raises(UsageError, match="unknown format 'gif'"):
        export("gif", [birds], Selection())
    with pytest.raises(UsageError, match="layer of cross"):
        export("csv", [birds], Selection(layer=3))
