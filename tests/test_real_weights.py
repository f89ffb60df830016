"""The shipped weights through the Python API: what a user would notice if it broke."""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import random
import re
import subprocess
import sys

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


@pytest.mark.parametrize("engine", ["numpy", "torch"])
@pytest.mark.parametrize(("beam_size", "every"), [(1, 1), (4, 5)])
def test_a_translation_does_not_depend_on_its_batch(engine: str, beam_size: int, every: int) -> None:
    """All 200 sentences greedily, every fifth with a beam: alone, sorted and shuffled, with and without padding."""
    translator = Translator("en-zh", engine=engine)
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


# --- one sentence from a cold start ---

# What `tx translate TEXT` imports before its first word. Whoever adds to these lists makes every call slower: measure
# it first (python -X importtime -m tx.cli translate "I love NLP"). STANDARD is beyond what numpy and LIBRARY import.
OWN = {
    *("tx", "tx.model", "tx.cli"),
    *(f"tx.cli.{name}" for name in ("commands", "direct", "interrupt", "lines", "main", "process", "text_io")),
    *(f"tx.model.{name}" for name in ("checkpoint", "config", "errors", "generation", "numpy_engine", "pipeline")),
    *(f"tx.model.{name}" for name in ("results", "rules", "runtime", "segment", "sentence_ends", "tensors", "threads")),
    *(f"tx.model.{name}" for name in ("casing", "directions", "memory", "outputs", "plans", "protect", "tokenizer")),
}
LIBRARY = ("dataclasses", "json", "pathlib", "threading")
STANDARD = {
    "__future__",
    "bisect",
    "_bisect",
    "errno",
    "gc",
    "hashlib",
    "_hashlib",
    "_blake2",
    "mmap",
    "select",
    "signal",
    "unicodedata",
    "zlib",
}


def modules_after(code: str) -> tuple[set[str], dict[str, object]]:
    """Names of the modules that a new process has after this code, and what the code left in `report`."""
    code = (
        "import sys; report = {}\n"
        + code
        + "\nimport json; print(json.dumps([report, list(sys.modules)]), file=sys.stderr)"
    )
    env = {k: v for k, v in os.environ.items() if not k.startswith("TX_")}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env)
    report, names = json.loads(done.stderr.splitlines()[-1])
    return set(names), report


@pytest.mark.usefixtures("real_weights")
def test_what_is_imported_before_the_first_word() -> None:
    before, _ = modules_after(f"import numpy, {', '.join(LIBRARY)}")
    after, report = modules_after("from tx.cli.main import main; report['status'] = main(['translate', 'I love NLP'])")
    assert report == {"status": 0}
    assert {name for name in after if name.split(".")[0] == "tx"} == OWN
    new = {name.split(".")[0] for name in after - before} - {"tx"}
    assert {name for name in new if name in sys.stdlib_module_names} <= STANDARD
    outside = {name.split(".")[0] for name in after - modules_after("")[0]} - set(sys.stdlib_module_names) - {"tx"}
    assert outside == {"numpy"}  # no typer, click, rich


@pytest.mark.usefixtures("real_weights")
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_one_sentence_needs_little_memory() -> None:
    # Not by `resource`: its peak of a new process begins with that of the process which started it.
    _, report = modules_after(
        "from tx.cli.main import main; report['status'] = main(['translate', 'I love NLP'])\n"
        "report['peak'] = [line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')][0]"
    )
    assert report["status"] == 0
    assert 50_000 < int(str(report["peak"])) <= 250_000  # KiB


def test_both_engines_translate_alike() -> None:
    """A few sentences here; for many see tests/bench/agreement.py."""
    sentences = two_hundred_sentences()[::20]
    for beam_size in (1, 4):
        by_numpy, by_torch = (
            Translator("en-zh", engine=engine).translate(sentences, beam_size=beam_size)
            for engine in ("numpy", "torch")
        )
        assert [r.text for r in by_numpy] == [r.text for r in by_torch]
        assert [r.score for r in by_numpy] == pytest.approx([r.score for r in by_torch], abs=1e-4)
