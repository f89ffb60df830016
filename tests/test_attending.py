"""Attention maps: the tokens and weights of the very output, by both engines, and by the formulas written out."""

from __future__ import annotations

import dataclasses
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tx.model import attending
from tx.model.answering import Answerer
from tx.model.attending import Attender, attend
from tx.model.errors import CheckpointError, InputError, TxError, UsageError
from tx.model.pipeline import Translator
from tx.model.protect import BREAKS, hide_same
from tx.model.results import AttentionMap, Attentions, Hypothesis, Token
from tx.model.summarizing import Summarizer
from tx.model.token_places import as_printed, text_and_tokens
from tx.model.tokenizer import BYTES, Tokenizer

from .conftest import save_small_model

TEXTS = {
    "a word": "Hello",
    "English": "The dog barked because it was hungry.",
    "Chinese": "我妹妹昨天买了一本书。",
    "mixed": "他用 Python 写了 3 个程序",
    "emoji with joiners": "My son 👩‍🔧 likes 🏳️‍🌈 flags, doesn't he?",
    "rare characters": "Zoë saw 𰻝 and 龘 there",
    "60 words": "When the rain stopped we left the house, and " * 6 + "we walked home in the dark.",
}
ARTICLE = (
    "The harbour of Lunde was closed in 1962 because the ferries had become too large for it. "
    "For many years nobody used the old warehouses. A group of painters moved in and opened a school. "
)
LONG = "".join(f"House number {n} has {n % 7} windows and a green door. " for n in range(20)) + ARTICLE


@pytest.fixture(scope="module")
def attender(real_weights: Path) -> Attender:
    return Attender(real_weights, engine="numpy")


@pytest.fixture(scope="module")
def by_torch(real_weights: Path) -> Attender:
    return Attender(real_weights, engine="torch")


@pytest.fixture(scope="module")
def maps(attender: Attender) -> dict[str, AttentionMap]:
    return {name: attender.attend(text)[0] for name, text in TEXTS.items()}


@pytest.fixture(scope="module")
def answer(attender: Attender) -> AttentionMap:
    return attender.attend(LONG, task="qa", question="When was the harbour closed?")[0]


@pytest.fixture(scope="module")
def summary(attender: Attender) -> AttentionMap:
    return attender.attend(ARTICLE, task="summarize")[0]


@pytest.fixture(scope="module")
def tokenizer(attender: Attender) -> Tokenizer:
    return attender.runtime.checkpoint.tokenizer


def check(found: AttentionMap) -> None:
    """What holds for every map: shapes, rows that add up to 1, places that are those of the tokens."""
    S, T, F = len(found.src), len(found.tgt), len(found.fed)
    for weights, rows, columns in ((found.encoder, S, S), (found.cross, T, S), (found.decoder, T, F)):
        assert weights.dtype == np.float32
        assert weights.shape[2:] == (rows, columns)
        np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-5)
        assert (weights >= 0).all()
    is_answer = found.task == "answer"
    for tokens, text in (
        (found.src, found.source),
        *((t, found.output) for t in (found.tgt, found.fed) if not is_answer),
    ):
        for token in tokens:
            assert 0 <= token.start <= token.end <= len(text)
            if not token.special and token.text not in BYTES and token.start < token.end:
                assert text[token.start : token.end] == token.text
            assert not (token.special and token.start < token.end)
    for t in range(T):
        assert not found.decoder[:, :, t, F - T + t + 1 :].any()


@pytest.mark.parametrize("name", TEXTS)
def test_every_map_is_whole(maps: dict[str, AttentionMap], name: str) -> None:
    found = maps[name]
    check(found)
    assert found.source == TEXTS[name]
    assert found.model == "en-zh"
    assert found.task == ("translate:en" if name in ("Chinese", "mixed") else "translate:zh")
    assert (found.encoder.shape[:2], found.cross.shape[:2], found.decoder.shape[:2]) == ((6, 8), (2, 8), (2, 8))
    assert [t.text for t in found.src if t.special] == ["</s>"]
    assert found.fed[0].text == f"<{found.task}>"
    assert found.fed[1:] == found.tgt[: len(found.fed) - 1]
    assert (found.tgt[-1].text == "</s>") == (not {"cut", "looped"} & set(found.flags))


@pytest.mark.parametrize("name", TEXTS)
def test_the_tokens_are_those_of_the_translation(
    maps: dict[str, AttentionMap], attender: Attender, tokenizer: Tokenizer, name: str
) -> None:
    found, (printed,) = maps[name], Translator(attender.runtime).translate([TEXTS[name]])
    assert found.output == printed.text
    assert found.flags == printed.flags
    written = [tokenizer.id(t.text) for t in found.tgt if t.text in BYTES or t.special]
    assert len(written) < len(found.tgt) or name == "rare characters"
    if not any(t.text in BYTES for t in found.tgt):
        assert "".join(t.text for t in found.tgt if not t.special) == printed.text


def test_a_beam_of_one_shows_the_greedy_output(attender: Attender) -> None:
    texts = ["I would have liked to see the sea with you.", "这件事不容易。", "Nobody told me that the shop is closed."]
    for beam_size in (1, 6):
        printed = Translator(attender.runtime).translate(texts, beam_size=beam_size)
        found = [attender.attend(text, beam_size=beam_size)[0] for text in texts]
        assert [m.output for m in found] == [t.text for t in printed]


def test_the_engines_agree(
    maps: dict[str, AttentionMap], summary: AttentionMap, attender: Attender, by_torch: Attender
) -> None:
    asked: dict[str, Any] = {"task": "qa", "question": "Who opened a school?"}
    pairs = [
        (maps["English"], by_torch.attend(TEXTS["English"], target=maps["English"].output)[0]),
        (maps["Chinese"], by_torch.attend(TEXTS["Chinese"])[0]),
        (summary, by_torch.attend(ARTICLE, task="summarize", target=summary.output)[0]),
        (attender.attend(ARTICLE, **asked)[0], by_torch.attend(ARTICLE, **asked)[0]),
    ]
    assert by_torch.runtime.engine == "torch"
    for one, other in pairs:
        check(other)
        assert (one.src, one.output) == (other.src, other.output)
        assert (one.tgt, one.fed) == (other.tgt, other.fed)
        for kind in ("encoder", "cross", "decoder"):
            np.testing.assert_allclose(getattr(one, kind), getattr(other, kind), atol=1e-4)


# --- the formulas, written out ---


class Formulas:
    """The default model in float64, loop by loop, for one pair: softmax(Q Kᵀ / √d_k) of every layer and head."""

    def __init__(self, tensors: Any, n_heads: int, d_head: int, eps: float) -> None:
        self.tensors, self.n_heads, self.d_head, self.eps = tensors, n_heads, d_head, eps

    def __getitem__(self, name: str) -> np.ndarray:
        return np.asarray(self.tensors[name], np.float64)

    def linear(self, x: np.ndarray, name: str) -> np.ndarray:
        return x @ self[f"{name}.weight"].T + self[f"{name}.bias"]

    def embed(self, ids: list[int], table: str) -> np.ndarray:
        rows = np.asarray(self.tensors[table][np.array(ids)], np.float64)
        half = rows.shape[1] // 2
        angles = np.array([[p * 10000 ** (-i / (half - 1)) for i in range(half)] for p in range(len(ids))])
        return rows * math.sqrt(rows.shape[1]) + np.concatenate([np.sin(angles), np.cos(angles)], axis=1)

    def norm(self, x: np.ndarray, name: str) -> np.ndarray:
        centred = x - x.mean(1, keepdims=True)
        return centred / np.sqrt(x.var(1, keepdims=True) + self.eps) * self[f"{name}.weight"] + self[f"{name}.bias"]

    def attend(self, x: np.ndarray, memory: np.ndarray, name: str, causal: bool) -> tuple[np.ndarray, np.ndarray]:
        Q, K, V = (self.linear(y, f"{name}.{p}_proj") for y, p in ((x, "q"), (memory, "k"), (memory, "v")))
        all_weights, outputs = [], []
        for h in range(self.n_heads):
            of_head = slice(h * self.d_head, (h + 1) * self.d_head)
            scores = Q[:, of_head] @ K[:, of_head].T / math.sqrt(self.d_head)
            if causal:
                scores[np.triu_indices(len(scores), 1)] = -np.inf
            weights = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
            all_weights.append(weights)
            outputs.append(weights @ V[:, of_head])
        x = x + self.linear(np.concatenate(outputs, axis=1), f"{name}.o_proj")
        return self.norm(x, f"{name}_norm"), np.array(all_weights)

    def feed_forward(self, x: np.ndarray, name: str) -> np.ndarray:
        hidden = np.maximum(self.linear(x, f"{name}.w_1"), 0)
        return self.norm(x + self.linear(hidden, f"{name}.w_2"), f"{name}_norm")

    def maps(self, src: list[int], fed: list[int], layers: tuple[int, int]) -> dict[str, np.ndarray]:
        found: dict[str, list[np.ndarray]] = {"encoder": [], "decoder": [], "cross": []}
        x = self.embed(src, "src_embedding.weight") + self["encoder.segment_embedding.weight"][0]
        for i in range(layers[0]):
            x, weights = self.attend(x, x, f"encoder.layers.{i}.self_attn", causal=False)
            x = self.feed_forward(x, f"encoder.layers.{i}.ffn")
            found["encoder"].append(weights)
        y = self.embed(fed, "tgt_embedding.weight")
        for i in range(layers[1]):
            y, weights = self.attend(y, y, f"decoder.layers.{i}.self_attn", causal=True)
            found["decoder"].append(weights)
            y, weights = self.attend(y, x, f"decoder.layers.{i}.cross_attn", causal=False)
            found["cross"].append(weights)
            y = self.feed_forward(y, f"decoder.layers.{i}.ffn")
        return {kind: np.array(weights) for kind, weights in found.items()}


@pytest.mark.parametrize("name", ["English", "Chinese", "emoji with joiners"])
def test_the_weights_are_those_of_the_formula(
    maps: dict[str, AttentionMap], attender: Attender, tokenizer: Tokenizer, name: str
) -> None:
    checkpoint, found = attender.runtime.checkpoint, maps[name]
    model, special = checkpoint.config.model, checkpoint.config.special
    formulas = Formulas(checkpoint.tensors, model.n_heads, model.d_head, model.norm_eps)
    (part,) = [part for part in Translator(attender.runtime).plan(TEXTS[name]).parts if part.job]
    src = [*part.job[1], special.eos]  # with slots for what is kept
    if any(t.text in BYTES for t in found.tgt):  # an output that no text spells: by the text of a sure one
        found = attender.attend(TEXTS[name], target="我的儿子喜欢旗子")[0]
    fed = [*checkpoint.config.tasks[found.task].tgt_prefix, *tokenizer.encode(hide_same(found.output, part.kept))]
    expected = formulas.maps(src, fed, (model.n_encoder_layers, model.n_decoder_layers))
    for kind in ("encoder", "decoder", "cross"):
        np.testing.assert_allclose(getattr(found, kind), expected[kind], atol=1e-5)


# --- given targets, ends, parts ---


def test_a_given_target_is_what_is_looked_at(attender: Attender, tokenizer: Tokenizer) -> None:
    (found,) = attender.attend("I love you.", target="  我真的很爱你。\n")
    check(found)
    assert found.output == "我真的很爱你。"
    assert [t.text for t in found.tgt] == [*tokenizer.pieces(tokenizer.encode("我真的很爱你。")), "</s>"]
    assert found.flags == ()


def test_the_output_given_again_has_the_same_map(maps: dict[str, AttentionMap], attender: Attender) -> None:
    for name in ("a word", "English", "Chinese"):
        (again,) = attender.attend(TEXTS[name], target=maps[name].output)
        assert (again.src, again.tgt, again.fed) == (maps[name].src, maps[name].tgt, maps[name].fed)
        np.testing.assert_array_equal(again.cross, maps[name].cross)


def test_no_end_piece_is_made_up(attender: Attender, monkeypatch: pytest.MonkeyPatch) -> None:
    translator = attender._translator
    short = dataclasses.replace(attender.runtime.checkpoint.config.generation, max_length=3)
    monkeypatch.setattr(translator, "search", lambda jobs, beam: translator._generate(jobs, 32, beam, short, False))
    (found,) = attender.attend("My brother has never seen the sea.")
    check(found)
    assert found.flags == ("cut",)
    assert len(found.tgt) == len(found.fed) == 3
    assert not any(t.special for t in found.tgt)
    assert found.fed[1:] == found.tgt[:2]


def test_a_loop_is_said(attender: Attender, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = tuple(tokenizer.encode("哈哈"))
    looped = Hypothesis(ids, -1.0, -1.0, finished=False, looped=True)
    monkeypatch.setattr(attender._translator, "search", lambda jobs, beam: dict.fromkeys(jobs, looped))
    (found,) = attender.attend("ha ha ha ha")
    assert (found.output, found.flags, len(found.tgt)) == ("哈哈", ("looped",), len(ids))


def test_an_output_without_text_has_the_end_piece_only(attender: Attender, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        attender._translator, "search", lambda jobs, beam: dict.fromkeys(jobs, Hypothesis((), 0.0, 0.0))
    )
    (found,) = attender.attend("Hm")
    check(found)
    assert ([t.text for t in found.tgt], found.output, found.flags) == (["</s>"], "", ("copied",))
    nothing = Hypothesis((), 0.0, 0.0, finished=False)
    monkeypatch.setattr(attender._translator, "search", lambda jobs, beam: dict.fromkeys(jobs, nothing))
    with pytest.raises(InputError, match="nothing that it may write"):
        attender.attend("Hm")


def test_each_part_has_a_map(attender: Attender) -> None:
    text = "  I have a cat.\tI have a dog. 🌷🌷 12!\nI have a cat."
    found = attender.attend(text)
    assert [m.source for m in found] == ["I have a cat.", "I have a dog.", "I have a cat."]
    assert [(m.part, m.parts) for m in found] == [(1, 3), (2, 3), (3, 3)]
    for m in found:
        check(m)
        assert text[m.offset : m.offset + len(m.source)] == m.source
    assert len({m.offset for m in found}) == 3
    (second,) = attender.attend(text, part=2)
    assert (second.source, second.part, second.parts, second.offset) == ("I have a dog.", 2, 3, found[1].offset)
    np.testing.assert_allclose(second.cross, found[1].cross, atol=1e-5)
    (printed,) = Translator(attender.runtime).translate([text])
    assert [m.output for m in found] == [line for line in re.split("[\t\n]| 🌷🌷 12!", printed.text.strip()) if line]


def test_a_segment_that_was_split_says_so(attender: Attender, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tx.model.plans.MAX_SOURCE_PIECES", 8)
    found = attender.attend("we walk and talk and eat and read and sleep and dream")
    assert len(found) > 1
    assert all("split" in m.flags and len(m.src) <= 9 for m in found)


# --- summaries and answers ---


def test_a_summary_in_the_models_words(attender: Attender, summary: AttentionMap) -> None:
    check(summary)
    assert summary.task == "summarize"
    printed = Summarizer(attender.runtime).summarize(ARTICLE, extract=False)
    if printed.spans:  # what the model wrote was not fit to be shown
        assert printed.text in ARTICLE and "extracted" in printed.flags
    else:
        assert printed.text.removesuffix(".") == summary.output.removesuffix(".")  # a mark may be put at its end
    given = Summarizer(attender.runtime).summarize(ARTICLE)
    assert ("extracted" in summary.flags) == bool(given.spans)
    assert summary.source == ARTICLE.strip()
    assert [t.text for t in summary.src if t.special] == ["<summarize>", "</s>"]
    assert summary.fed[0].text == "<summarize>"
    (forced,) = attender.attend(ARTICLE, task="summarize", target="Painters opened a school.")
    check(forced)
    assert forced.output == "Painters opened a school."


def test_a_summary_of_a_long_text_says_that_not_all_was_read(attender: Attender) -> None:
    (found,) = attender.attend(LONG, task="summarize", beam_size=1)
    assert {"parts", "skimmed"} <= set(found.flags)
    assert len(found.src) <= 130
    (found,) = attender.attend("and the sea and the wind " * 60, task="summarize", beam_size=1)
    assert {"parts", "skimmed"} <= set(found.flags)  # one sentence, of whose parts some were read
    assert len(found.src) <= 130 and set(found.source.split()) == {"and", "the", "sea", "wind"}


def test_a_summary_that_is_not_shown_says_so(attender: Attender, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Summarizer, "shown", lambda *_: ("", ()))
    (found,) = attender.attend(ARTICLE, task="summarize", beam_size=1)
    assert "extracted" in found.flags
    assert found.output
    (found,) = attender.attend("The road goes on. 龘靐齉爩 龘靐齉爩 龘靐齉爩.", task="summarize", target="A road.")
    assert found.flags == ()


def test_an_answer_is_pointed_at(attender: Attender, answer: AttentionMap) -> None:
    check(answer)
    question = "When was the harbour closed?"
    ((best,),) = Answerer(attender.runtime).answer(LONG, [question], threshold=-math.inf)
    assert answer.output == best.text
    assert answer.source.startswith(f"{question}\t")
    window = answer.source[len(question) + 1 :]
    assert LONG[answer.offset : answer.offset + len(window)] == window
    assert answer.offset > 0
    start, end = answer.tgt
    shift = len(question) + 1 - answer.offset
    assert start in answer.src and end in answer.src
    assert best.start < start.end - shift <= end.end - shift  # its first piece, of which it has the whole word
    assert not any(map(str.isspace, LONG[best.start : start.start - shift]))
    assert best.start < end.end - shift <= best.end
    assert [t.text for t in answer.fed] == ["<answer>", "</s>"]
    assert [t.text for t in answer.src if t.special] == ["<answer>", "\t", "</s>"]


def test_an_answers_weights_are_those_that_chose_it(attender: Attender, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, seen = attender.runtime.stepper(0), []

    def spied(*args: Any) -> Any:
        seen.extend(original(*args))
        return seen

    original = engine.cross_attention
    monkeypatch.setattr(engine, "cross_attention", spied)
    (found,) = attender.attend(ARTICLE, task="qa", question="Who opened a school?")
    assert len(seen) == 1
    np.testing.assert_allclose(found.cross, seen[0], atol=1e-5)


def test_what_is_odd_about_an_answer_is_said(attender: Attender, monkeypatch: pytest.MonkeyPatch) -> None:
    (found,) = attender.attend(
        "The tea is hot. " * 3, task="qa", question="Which king signed the treaty of 1783? " * 12
    )
    assert {"doubtful", "shortened"} <= set(found.flags)
    assert len(found.source.split("\t")[0]) < 12 * 38
    monkeypatch.setattr("tx.model.answering.MOST", 2)
    (found,) = attender.attend(LONG, task="qa", question="When was the harbour closed?")
    assert "skimmed" in found.flags


# --- errors ---


@pytest.mark.parametrize(
    ("text", "settings_", "error", "message"),
    [
        ("", {}, InputError, "empty"),
        (" \n", {}, InputError, "empty"),
        ("12:30 🌷", {}, InputError, "no letters"),
        ("12:30 🌷", {"task": "summarize"}, InputError, "no letters"),
        ("你好", {"target_language": "zh"}, InputError, "'zh' already"),
        ("a\ud800b", {}, InputError, "surrogate"),
        ("Hello", {"target": "\udc00"}, InputError, "the target has a lone surrogate"),
        ("Hello", {"target": "  "}, InputError, "0 pieces"),
        ("Hello", {"target": "啊" * 600}, InputError, "it must have 1 to 511"),
        ("Hello. It is me.", {"target": "你好。"}, InputError, "2 parts"),
        ("Hello. It is me.", {"part": 3}, InputError, "no part 3"),
        ("Hello. It is me.", {"part": 0}, InputError, "no part 0"),
        ("?!", {"task": "qa", "question": "Who?"}, InputError, "the text has neither"),
        ("Bob", {"task": "qa", "question": "??"}, InputError, "the question has neither"),
        ("Bob", {"task": "qa"}, UsageError, "needs a question"),
        ("Bob", {"question": "Who?"}, UsageError, "no other task takes one"),
        ("Bob", {"task": "qa", "question": "Who?", "target": "Bob"}, UsageError, "target means nothing to the task qa"),
        ("Bob", {"task": "summarize", "part": 1}, UsageError, "part means nothing"),
        ("Bob", {"task": "sing"}, UsageError, "one of translate"),
        ("Bob", {"target_language": "fr"}, UsageError, "does not translate"),
        ("Bob came. He sat.", {"task": "summarize", "beam_size": 0}, UsageError, "beam_size"),
        (7, {}, UsageError, "must be a string"),
    ],
)
def test_one_line_says_what_is_wrong(
    attender: Attender, text: Any, settings_: dict[str, Any], error: type[TxError], message: str
) -> None:
    with pytest.raises(error, match=message) as raised:
        attender.attend(text, **settings_)
    assert "\n" not in str(raised.value)


def test_a_model_without_the_task(translating_model: Path) -> None:
    attender = Attender(translating_model)
    for task in ({"task": "summarize"}, {"task": "qa", "question": "the bridge"}):
        with pytest.raises(CheckpointError, match="was not trained"):
            attender.attend("the bridge. the river.", **task)  # type: ignore[arg-type]


def test_weights_that_are_no_numbers(small_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    attender = Attender(small_model)
    broken = np.full((1, 2, 3, 3), np.nan, np.float32)
    monkeypatch.setattr(attender.runtime.stepper(0), "attentions", lambda *_: Attentions([broken], [broken], [broken]))
    with pytest.raises(TxError, match="attention is no number"):
        attender.attend("the bridge", target="河上")


# --- other models ---


@pytest.mark.parametrize("engine", ["numpy", "torch"])
def test_a_decoder_without_self_attention(tmp_path: Path, engine: str) -> None:
    model = save_small_model(tmp_path / "ssru", decoder_autoregression="ssru")
    (found,) = Attender(model, engine=engine).attend("the bridge", target="河上")
    assert found.decoder is None
    np.testing.assert_allclose(found.cross.sum(-1), 1, atol=1e-5)


@pytest.mark.parametrize("engine", ["numpy", "torch"])
def test_a_prefix_of_two_pieces(small_model: Path, engine: str) -> None:
    attender = Attender(small_model, engine=engine)
    config = attender.runtime.checkpoint.config
    task = dataclasses.replace(config.tasks["translate:zh"], tgt_prefix=(1, 3))
    config = dataclasses.replace(config, tasks={"translate:zh": task})
    attender.runtime.checkpoint = dataclasses.replace(attender.runtime.checkpoint, config=config)
    (found,) = attender.attend("the bridge", target="河上桥")
    check(found)
    assert [t.text for t in found.fed] == ["</s>", "<translate:zh>", "河上", "桥"]
    assert [t.text for t in found.tgt] == ["河上", "桥", "</s>"]
    assert (found.decoder[1, :, 0, :2] > 0).all()  # what is written first has read both


# --- pieces and their places ---


def test_places_of_odd_pieces(tokenizer: Tokenizer) -> None:
    def of(text: str) -> list[tuple[str, int, int]]:
        return [(t.text, t.start, t.end) for t in text_and_tokens(tokenizer, tokenizer.encode(text))[1]]

    assert of("龘a")[-1] == ("a", 1, 2)
    assert [(a, b) for _, a, b in of("龘")] == [(0, 1)] * 3
    cut = tokenizer.encode("龘")[:2] + tokenizer.encode("你") + tokenizer.encode("龘")[1:]
    text, tokens = text_and_tokens(tokenizer, cut)
    assert text == tokenizer.decode(cut) == "你"
    assert [(t.text in BYTES, t.start, t.end) for t in tokens] == [
        *[(True, 0, 0)] * 2,
        (False, 0, 1),
        *[(True, 1, 1)] * 2,
    ]
    special = text_and_tokens(tokenizer, [tokenizer.id("</s>"), tokenizer.id("你"), tokenizer.id("<answer>")])[1]
    assert special == [Token("</s>", 0, 0, True), Token("你", 0, 1), Token("<answer>", 1, 1, True)]


@pytest.mark.parametrize(
    ("pieces", "printed", "expected"),
    [
        (["我", "爱"], "我爱", [("我", 0, 1), ("爱", 1, 2)]),
        (["  ", "我", " "], "我", [("  ", 0, 0), ("我", 0, 1), (" ", 1, 1)]),
        (["我", "\n", "\t", "爱"], "我 爱", [("我", 0, 1), (" ", 1, 2), ("\t", 2, 2), ("爱", 2, 3)]),
        (["\n", "我", "</s>", "爱"], "我爱", [("\n", 0, 0), ("我", 0, 1), ("</s>", 1, 1), ("爱", 1, 2)]),
    ],
)
def test_an_output_is_as_it_is_printed(pieces: list[str], printed: str, expected: list[tuple[str, int, int]]) -> None:
    places = [0]
    for piece in pieces:
        places.append(places[-1] + len(piece) * (piece != "</s>"))
    tokens = [Token(p, a, b, p == "</s>") for p, a, b in zip(pieces, places, places[1:], strict=False)]
    found, moved = as_printed("".join(pieces).replace("</s>", ""), tokens)
    assert found == printed
    assert [(t.text, t.start, t.end) for t in moved] == expected
    assert [t.special for t in moved] == [t.special for t in tokens]


@given(st.text(alphabet=st.sampled_from("aZé 我龘，。'’👨\u200d👩\ufe0f🏽\n\t3Z\u0301"), max_size=40))
@settings(max_examples=150, deadline=None)
def test_pieces_of_a_text_stand_where_they_are(text: str) -> None:
    tokenizer = _vocabulary()
    found, tokens = text_and_tokens(tokenizer, tokenizer.encode(text))
    assert found == text
    at = 0
    for token in tokens:
        assert token.start in (at, at - 1)  # the next bytes of a character go back to it
        assert token.end >= at
        if token.start < at:
            assert token.text in BYTES
        elif token.text not in BYTES and token.start < token.end:
            assert text[token.start : token.end] == token.text
        at = token.end
    assert at == len(text)


@given(st.lists(st.integers(0, 13_000), max_size=30))
@settings(max_examples=100, deadline=None)
def test_any_pieces_have_the_text_that_decode_gives(ids: list[int]) -> None:
    tokenizer = _vocabulary()
    text, tokens = text_and_tokens(tokenizer, ids)
    assert text == tokenizer.decode(ids)
    assert len(tokens) == len(ids)
    assert all(0 <= t.start <= t.end <= len(text) for t in tokens)
    printed, moved = as_printed(text, tokens)
    assert printed == re.sub(BREAKS, " ", text).strip()
    for token in moved:
        assert 0 <= token.start <= token.end <= len(printed)
        if token.text not in BYTES and token.start < token.end:
            assert printed[token.start : token.end] == token.text


_LOADED: list[Tokenizer] = []


def _vocabulary() -> Tokenizer:
    """That of the default weights; hypothesis takes no fixtures that are made anew."""
    from tx.model.checkpoint import WEIGHTS_DIR

    if not _LOADED:
        _LOADED.append(Tokenizer.from_file(WEIGHTS_DIR / "en-zh" / "tokenizer.json"))
    return _LOADED[0]


# --- the convenience ---


def test_attend(real_weights: Path, maps: dict[str, AttentionMap]) -> None:
    found = attend(TEXTS["English"], model=real_weights)
    assert (found.output, found.parts) == (maps["English"].output, 1)
    np.testing.assert_allclose(found.cross, maps["English"].cross, atol=1e-5)
    with pytest.raises(InputError, match="in 3 parts: say which, part=1 … 3"):
        attend("I go. You stay. We eat.", model=real_weights)
    assert attend("I go. You stay. We eat.", part=2, model=real_weights).source == "You stay."
    assert attend(ARTICLE, task="summarize", beam_size=1, model=real_weights).task == "summarize"
    assert attend(ARTICLE, task="qa", question="Who opened a school?", model=real_weights).task == "answer"
    assert attending._attender(real_weights.resolve()).runtime.engine == "numpy"
