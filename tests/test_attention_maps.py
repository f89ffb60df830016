"""Views of an attention map: merging of pieces to words, layers and heads, rollout, entropy, links."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tx.model import attention_maps as am
from tx.model.errors import UsageError
from tx.model.results import AttentionMap, Token

LAYERS, DECODER_LAYERS, HEADS = 3, 2, 4


def cut(text: str, *pieces: str) -> tuple[Token, ...]:
    """The pieces of a text as tokens: "|" marks an end piece, digits 1 … 4 the bytes of the next character."""
    tokens: list[Token] = []
    at = 0
    for piece in pieces:
        if piece == "|":
            tokens.append(Token("</s>", at, at, special=True))
        elif piece.startswith("<0x"):
            tokens += [Token(f"<0x{b}>", at, at + 1) for b in piece[3:-1].split(",")]
            at += 1
        else:
            assert text[at : at + len(piece)] == piece
            tokens.append(Token(piece, at, at + len(piece)))
            at += len(piece)
    assert at == len(text)
    return tuple(tokens)


def rows(*shape: int, causal: bool = False) -> np.ndarray:
    """Random rows that add up to 1, float32; with `causal` none looks to its right."""
    weights = np.random.default_rng(7).random(shape) ** 3
    if causal:
        weights *= np.tri(*shape[-2:])
    return (weights / weights.sum(-1, keepdims=True)).astype(np.float32)


SOURCE = cut("I isn't 龘河。", "I", " is", "n", "'", "t", " ", "<0xE9,BE,98>", "河", "。", "|")
OUTPUT = cut("我爱 NLP", "我", "爱", " N", "L", "P", "|")


@pytest.fixture
def map() -> AttentionMap:
    start = Token("<translate:zh>", 0, 0, special=True)
    S, T = len(SOURCE), len(OUTPUT)
    return AttentionMap(
        model="tiny",
        task="translate:zh",
        source="I isn't 龘河。",
        output="我爱 NLP",
        src=SOURCE,
        tgt=OUTPUT,
        fed=(start, *OUTPUT[:-1]),
        encoder=rows(LAYERS, HEADS, S, S),
        decoder=rows(DECODER_LAYERS, HEADS, T, T, causal=True),
        cross=rows(DECODER_LAYERS, HEADS, T, S),
    )


def texts(tokens: Any) -> list[str]:
    return [token.text for token in tokens]


# --- which tokens form a word ---


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        (["The", " cat", "s", " sle", "ep"], ["The", " cats", " sleep"]),
        (["isn", "'", "t", " it", "?", "!"], ["isn't", " it", "?", "!"]),
        (["l", "\u2019", "été"], ["l\u2019été"]),
        (["'", "twas", " dogs", "'", " tails"], ["'", "twas", " dogs", "'", " tails"]),
        (["3", ".", "1", "4", " k", "m"], ["3", ".", "14", " km"]),
        (["我", "喜欢", "你", "。"], ["我", "喜欢", "你", "。"]),
        (["用", "G", "P", "T", "写"], ["用", "GPT", "写"]),
        (["さく", "ら"], ["さく", "ら"]),
        (["안녕", "하", "세요"], ["안녕하세요"]),
        (["caf", "e", "\u0301", "s"], ["cafe\u0301s"]),
        (["n", "\u0303", "'", "s"], ["n\u0303's"]),
        ([" ", "a", "  ", "b"], [" a", "  b"]),
        (["a", " "], ["a", " "]),
        (["a", " ", "|"], ["a", " ", "</s>"]),
        (["|", "a", "b", "|", "c"], ["</s>", "ab", "</s>", "c"]),
        (["<0xE9,BE,98>", "<0xE9,BE,98>", "a"], ["龘", "龘", "a"]),
        (["👩", "\u200d", "🔧", "🔧"], ["👩\u200d🔧", "🔧"]),
        (["<0xF0,9F,91,A9>", "\u200d", "<0xF0,9F,94,A7>"], ["👩\u200d🔧"]),
        (["👍", "🏽", "❤", "\ufe0f", "x"], ["👍🏽", "❤\ufe0f", "x"]),
        (["🇩", "🇪", "🇨", "🇳"], ["🇩🇪", "🇨🇳"]),
        (["1", "\ufe0f", "\u20e3", "2"], ["1\ufe0f\u20e32"]),
        (["snake", "_", "case"], ["snake", "_", "case"]),
        ([], []),
    ],
)
def test_words(pieces: list[str], expected: list[str]) -> None:
    spelt = {"<0xE9,BE,98>": "龘", "<0xF0,9F,91,A9>": "👩", "<0xF0,9F,94,A7>": "🔧", "|": ""}
    text = "".join(spelt.get(piece, piece) for piece in pieces)
    tokens = cut(text, *pieces)
    ranges = am.words(tokens, text)
    assert texts(am.merged(tokens, text, ranges)) == expected
    assert [i for first, end in ranges for i in range(first, end)] == list(range(len(tokens)))


def test_fragments_stay_alone() -> None:
    """Bytes that form no character have no place; nor has the space before a text."""
    tokens = (Token(" ", 0, 0), Token("ab", 0, 2), Token("<0xE4>", 2, 2), Token("<0xBD>", 2, 2), Token("c", 2, 3))
    assert am.words(tokens, "abc") == [(0, 2), (2, 3), (3, 4), (4, 5)]
    assert texts(am.merged(tokens, "abc", am.words(tokens, "abc"))) == ["ab", "<0xE4>", "<0xBD>", "c"]
    assert am.characters(tokens) == [(i, i + 1) for i in range(5)] == am.singles(tokens)


def test_characters_puts_only_bytes_together() -> None:
    tokens = cut("a龘b", "a", "<0xE9,BE,98>", "b", "|")
    assert texts(am.merged(tokens, "a龘b", am.characters(tokens))) == ["a", "龘", "b", "</s>"]
    assert am.characters(()) == []


ALPHABET = "abé'’ 我龘さ。.3\n👩\u200d🔧🏽\ufe0f🇩🇪\u0301"


@st.composite
def tokenised(draw: st.DrawFn) -> tuple[str, list[Token]]:
    """A text and any division of it into pieces, some characters in bytes, with special pieces here and there."""
    text = draw(st.text(ALPHABET, max_size=30))
    tokens: list[Token] = []
    at = 0
    while at < len(text):
        how = draw(st.sampled_from("pppbs"))
        if how == "s":
            tokens.append(Token("<x>", at, at, special=True))
            continue
        end = at + 1 if how == "b" else min(at + draw(st.integers(1, 4)), len(text))
        if how == "b":
            tokens += [Token(f"<0x{byte:02X}>", at, end) for byte in text[at].encode()]
        else:
            tokens.append(Token(text[at:end], at, end))
        at = end
    return text, tokens


@given(tokenised())
@settings(max_examples=200, deadline=None)
def test_whatever_the_pieces_words_are_whole(case: tuple[str, list[Token]]) -> None:
    text, tokens = case
    weights = rows(len(tokens), len(tokens)) if tokens else np.zeros((0, 0), np.float32)
    for ranges in (am.words(tokens, text), am.characters(tokens)):
        assert [i for first, end in ranges for i in range(first, end)] == list(range(len(tokens)))
        found = am.merged(tokens, text, ranges)
        assert all(text[t.start : t.end] == t.text for t in found if not t.special and not t.text.startswith("<0x"))
        assert texts(t for t in found if t.special) == texts(t for t in tokens if t.special)
        assert not any(t.text.startswith("<0x") and len(text[t.start].encode()) > 1 for t in found)
        joined = am.merge(weights, ranges, ranges)
        assert joined.shape == (len(ranges), len(ranges))
        np.testing.assert_allclose(joined.sum(-1), np.ones(len(ranges)), atol=1e-5)
    for first, end in am.words(tokens, text):
        for a, b in itertools.pairwise(tokens[first:end]):
            if b.start == a.end and not a.text.isspace():  # joined inside a word, not at its first space
                before, after = text[a.end - 1], text[b.start]
                assert not before.isspace() and not after.isspace()
                assert not (before in "我龘さ" and after in "我龘さ。.3abé'’")


# --- weights ---


def test_keys_add_up_and_queries_are_averaged() -> None:
    weights = np.array([[0.1, 0.2, 0.7], [0.5, 0.5, 0.0]], np.float32)
    columns = am.merge(weights, columns=[(0, 2), (2, 3)])
    np.testing.assert_allclose(columns, [[0.3, 0.7], [1.0, 0.0]], atol=1e-7)
    np.testing.assert_allclose(am.merge(weights, rows=[(0, 2)]), [[0.3, 0.35, 0.35]], atol=1e-7)
    both = am.merge(np.stack([weights, weights]), [(0, 2)], [(0, 1), (1, 3)])
    np.testing.assert_allclose(both, [[[0.3, 0.7]]] * 2, atol=1e-7)
    assert am.merge(weights) is weights


@pytest.mark.parametrize("kind", am.KINDS)
@pytest.mark.parametrize("words", [True, False])
def test_rows_add_up_to_one(map: AttentionMap, kind: str, words: bool) -> None:
    for layer in range(1, am.n_layers(map, kind) + 1):
        found = [am.view(map, kind, layer, words=words)]
        found += am.heads(map, kind, layer, words=words) if kind != "rollout" else []
        for view in found:
            assert view.weights.dtype == np.float32
            assert view.weights.shape == (len(view.rows), len(view.columns))
            np.testing.assert_allclose(view.weights.sum(-1), 1, atol=1e-5)


def test_tokens_of_a_view(map: AttentionMap) -> None:
    source = ["I", " isn't", " 龘", "河", "。", "</s>"]
    output = ["我", "爱", " NLP", "</s>"]
    cross, encoder, decoder = (am.view(map, kind) for kind in ("cross", "encoder", "decoder"))
    assert (texts(cross.rows), texts(cross.columns)) == (output, source)
    assert texts(encoder.rows) == texts(encoder.columns) == source
    assert (texts(decoder.rows), texts(decoder.columns)) == (output, ["<translate:zh>", "我", "爱", " NLP"])
    assert texts(am.view(map, "rollout").rows) == source
    assert (cross.columns[1].start, cross.columns[1].end) == (1, 7)
    pieces = am.view(map, "cross", words=False)
    assert texts(pieces.columns) == ["I", " is", "n", "'", "t", " ", "龘", "河", "。", "</s>"]
    assert pieces.rows == map.tgt


def test_layers_and_heads(map: AttentionMap) -> None:
    def weights(layer: int | str, head: int | str) -> np.ndarray:
        return am.view(map, "cross", layer, head, words=False).weights[:, :2]

    every = map.cross[:, :, :, :2]
    np.testing.assert_array_equal(weights(1, 3), every[0, 2])
    np.testing.assert_allclose(weights("mean", 3), every[:, 2].mean(0), rtol=1e-6)
    np.testing.assert_allclose(weights(2, "mean"), every[1].mean(0), rtol=1e-6)
    np.testing.assert_array_equal(weights("last", "max"), every[1].max(0))
    words = [view.weights for view in am.heads(map, "cross")]
    np.testing.assert_array_equal(am.view(map, "cross", "last", "max").weights, np.max(words, axis=0))
    view = am.view(map, "cross", "last", "max")
    assert (view.kind, view.layer, view.head) == ("cross", "2", "max")
    assert am.view(map, "encoder").layer == "3"
    assert [v.head for v in am.heads(map, "encoder", "mean")] == ["1", "2", "3", "4"]
    assert (am.n_layers(map, "encoder"), am.n_layers(map, "cross"), am.n_heads(map, "decoder")) == (3, 2, 4)
    np.testing.assert_array_equal(am.heads(map, "decoder", 1)[3].weights, am.view(map, "decoder", 1, 4).weights)


def test_special_tokens_go_with_their_rows_and_columns(map: AttentionMap) -> None:
    whole, without = am.view(map, "cross", 1, 1), am.view(map, "cross", 1, 1, special=False)
    assert texts(without.rows) == ["我", "爱", " NLP"]
    assert texts(without.columns) == ["I", " isn't", " 龘", "河", "。"]
    np.testing.assert_array_equal(without.weights, whole.weights[:-1, :-1])
    assert (without.weights.sum(-1) < 1).all()
    decoder = am.view(map, "decoder", 1, 1, special=False)
    np.testing.assert_array_equal(decoder.weights, am.view(map, "decoder", 1, 1).weights[:-1, 1:])


def test_the_two_rows_of_an_answer_stay_two(map: AttentionMap) -> None:
    source = "Where?\tin Newt"
    tab = Token("\t", 6, 6, special=True)
    words = (Token("in", 7, 9), Token(" New", 9, 13), Token("t", 13, 14))
    src = (
        Token("<answer>", 0, 0, True),
        Token("Where", 0, 5),
        Token("?", 5, 6),
        tab,
        *words,
        Token("</s>", 14, 14, True),
    )
    answer = AttentionMap(
        model="tiny",
        task="answer",
        source=source,
        output="Newt",
        src=src,
        tgt=words[1:],
        fed=(Token("<answer>", 0, 0, True), Token("</s>", 0, 0, True)),
        encoder=rows(1, 2, 8, 8),
        decoder=rows(1, 2, 2, 2, causal=True),
        cross=rows(1, 2, 2, 8),
    )
    cross, decoder, encoder = (am.view(answer, kind) for kind in ("cross", "decoder", "encoder"))
    assert texts(cross.rows) == [" New", "t"] == texts(decoder.rows)
    assert texts(cross.columns) == ["<answer>", "Where", "?", "\t", "in", " Newt", "</s>"] == texts(encoder.rows)
    assert texts(decoder.columns) == ["<answer>", "</s>"]
    assert am.view(answer, "decoder", special=False).weights.shape == (2, 0)


def test_a_decoder_without_self_attention(map: AttentionMap) -> None:
    ssru = AttentionMap(**{**vars(map), "decoder": None})
    with pytest.raises(UsageError, match="no self-attention"):
        am.n_layers(ssru, "decoder")
    with pytest.raises(UsageError, match="no self-attention"):
        am.view(ssru, "decoder")


@pytest.mark.parametrize(
    ("kind", "layer", "head", "message"),
    [
        ("corss", 1, 1, "kind must be one of cross"),
        ("cross", 3, 1, "layer of cross must be a number from 1 to 2 or mean or last, not 3"),
        ("cross", 0, 1, "layer of cross"),
        ("cross", True, 1, "layer of cross"),
        ("encoder", 1, 5, "head of encoder must be a number from 1 to 4 or mean or max, not 5"),
        ("encoder", 1, "all", "head of encoder"),
        ("rollout", "mean", "mean", "layer of rollout must be a number from 1 to 3 or last, not 'mean'"),
        ("rollout", 1, 2, "head of rollout must be mean, not 2"),
    ],
)
def test_what_there_is_not(map: AttentionMap, kind: str, layer: Any, head: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        am.view(map, kind, layer, head)


# --- rollout, entropy, links ---


def test_rollout_is_the_product_of_the_layers(map: AttentionMap) -> None:
    mixed = [0.5 * layer.mean(0) + 0.5 * np.eye(len(SOURCE)) for layer in map.encoder.astype(np.float64)]
    expected = [mixed[0], mixed[1] @ mixed[0], mixed[2] @ mixed[1] @ mixed[0]]
    for n in (1, 2, 3):
        found = am.rollout(map.encoder, n)
        np.testing.assert_allclose(found, expected[n - 1], atol=1e-6)
        np.testing.assert_allclose(found.sum(-1), 1, atol=1e-6)
        np.testing.assert_array_equal(am.view(map, "rollout", n).weights, _of_words(found))
    np.testing.assert_array_equal(am.view(map, "rollout").weights, am.view(map, "rollout", 3).weights)


def _of_words(weights: np.ndarray) -> np.ndarray:
    ranges = am.words(SOURCE, "I isn't 龘河。")
    return am.merge(weights, ranges, ranges)


def test_rollout_of_attention_to_itself_stays_there() -> None:
    encoder = np.broadcast_to(np.eye(4, dtype=np.float32), (2, 3, 4, 4))
    np.testing.assert_array_equal(am.rollout(encoder, 2), np.eye(4))


def test_entropy() -> None:
    for n in (1, 2, 5, 64):
        assert am.entropy(np.full((1, n), 1 / n, np.float32)) == pytest.approx(math.log2(n), abs=1e-6)
    weights = np.array([[1, 0, 0], [0.5, 0.5, 0], [0.25, 0.25, 0], [0, 0, 0]], np.float32)
    np.testing.assert_allclose(am.entropy(weights), [0, 1, 1, 0], atol=1e-6)


def test_links_are_the_strongest_cells_of_tokens_that_say_something(map: AttentionMap) -> None:
    weights = np.zeros((4, 6), np.float32)
    weights[0, 5], weights[3, 0], weights[1, 2], weights[2, 1], weights[0, 0] = 0.9, 0.8, 0.5, 0.6, 0.5
    full = am.view(map, "cross")
    view = am.View("cross", "1", "1", full.rows, full.columns, weights)
    found = am.links(view, 3)
    assert [(r, c) for r, c, _ in found] == [(2, 1), (0, 0), (1, 2)]
    assert [w for *_, w in found] == pytest.approx([0.6, 0.5, 0.5])
    assert am.links(view, 0) == []
    assert len(am.links(view, 1000)) == 3 * 5
