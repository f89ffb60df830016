"""The shipped weights through the Python API: what a user would notice if it broke."""

from __future__ import annotations

import dataclasses
import itertools
import random
import re

import pytest

from tx.model.pipeline import Translator

HAN = re.compile("[\u4e00-\u9fff]")


@pytest.fixture(scope="module")
def translator() -> Translator:
    return Translator("en-zh")


def two_hundred_sentences() -> list[str]:
    """Sentences of several lengths in both languages, put together from parts."""
    who = ["My brother", "The old teacher", "She", "Nobody in this town", "The cat"]
    did = ["has never seen", "wanted to buy", "is waiting for", "forgot"]
    what = ["the sea", "a red bicycle", "the train to Rome because it was raining", "what I said yesterday", "us"]
    english = [f"{a} {b} {c}." for a, b, c in itertools.product(who, did, what)]
    wer = ["我哥哥", "老师", "她", "这个城市里的人", "猫"]
    tat = ["从来没见过", "想买", "在等", "忘了"]
    was = ["大海", "一辆红色的自行车", "因为下雨而晚到的火车", "我昨天说的话", "我们"]
    return english + [f"{a}{b}{c}。" for a, b, c in itertools.product(wer, tat, was)]


@pytest.mark.parametrize(("beam_size", "every"), [(1, 1), (4, 5)])
def test_a_translation_does_not_depend_on_its_batch(translator: Translator, beam_size: int, every: int) -> None:
    """All 200 sentences greedily, every fifth with a beam: alone, sorted and shuffled, with and without padding."""
    sentences = two_hundred_sentences()
    assert len(set(sentences)) == 200
    sentences = sentences[::every]
    alone = {s: translator.translate([s], beam_size=beam_size)[0].text for s in sentences}
    shuffled = random.Random(1).sample(sentences, len(sentences))
    for order, size in ((sentences, 32), (shuffled, 32), (shuffled, 7)):
        together = translator.translate(order, batch_size=size, beam_size=beam_size)
        assert {t.source: t.text for t in together} == alone


def test_each_language_becomes_the_other(translator: Translator) -> None:
    results = translator.translate(two_hundred_sentences()[::10])
    for r in results:
        han = len(HAN.findall(r.text))
        assert (han > 0) == (r.target_language == "zh"), r
        assert not r.flags and -5 < r.score < 0, r


def test_greedy_is_a_beam_of_one_and_a_wider_beam_finds_likelier_text(translator: Translator) -> None:
    sentences = two_hundred_sentences()[::8]
    settings = dataclasses.replace(translator.checkpoint.config.generation, length_penalty=0.0)
    narrow = translator.translate(sentences, beam_size=1, settings=settings)
    wide = translator.translate(sentences, beam_size=6, settings=settings)
    pieces = translator.checkpoint.tokenizer.encode

    def log_probs(results: list) -> float:  # type: ignore[type-arg]
        return sum(r.score * (len(pieces(r.text)) + 1) for r in results)

    assert log_probs(wide) > log_probs(narrow)


@pytest.mark.parametrize("text", ["", "   ", "12:30 --> 12:45", "🌷🌷 🌷", "3.14159", "…", "\u200b"])
def test_what_says_nothing_is_copied(translator: Translator, text: str) -> None:
    assert translator.translate([text])[0].text == text


@pytest.mark.parametrize(
    "text", ["????????????? y7", "ha ha ha ha ha ha ha ha ha ha ha ha", "y7", "aaaaaaaaaaaaaaaaaaaaaaaa"]
)
def test_odd_input_gets_an_output_of_bounded_length(translator: Translator, text: str) -> None:
    (result,) = translator.translate([text])
    assert len(result.text) <= 4 * len(text) + 40


def test_a_very_long_line_is_split_and_said_to_be(translator: Translator) -> None:
    (result,) = translator.translate(["we walk and talk and " * 120 + "sleep"], beam_size=1)
    assert "split" in result.flags
    assert len(HAN.findall(result.text)) > 200


def test_all_sentences_of_a_text_are_translated(translator: Translator) -> None:
    text = "I have a cat. " * 30 + "The end is blue."
    (result,) = translator.translate([text], beam_size=1)
    assert result.text.count("猫") >= 30
    assert "蓝" in result.text[-12:]
