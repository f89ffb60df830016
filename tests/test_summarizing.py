"""Summaries: never longer than the text, whole sentences, within the lengths that were asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tx.model import segment, summarizing
from tx.model.config import GenerationConfig
from tx.model.errors import CheckpointError, InputError, UsageError
from tx.model.results import Hypothesis
from tx.model.runtime import Job, Runtime
from tx.model.summarizing import MAX_SOURCE_PIECES, Summarizer, n_words

TEXT = (
    "Anna met Bob at the bridge. The bridge is old!\n\n桥在河上。“你好！”她说。 Last of all came 12 boats. A b c d e f."
)


@pytest.fixture(scope="module")
def summarizer(small_model: Path) -> Summarizer:
    return Summarizer(small_model, engine="numpy")


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Job]]:
    """Puts the given texts in the place of what the model writes, one for each part, the last for all further ones."""

    def install(*texts: str, finished: bool = True, looped: bool = False) -> list[Job]:
        waiting, jobs_seen = list(texts), []

        def generate(
            self: Runtime, jobs: Sequence[Job], search: GenerationConfig, batch_size: int, **_: object
        ) -> dict[Job, Hypothesis]:
            jobs_seen.extend(jobs)
            encode = self.checkpoint.tokenizer.encode
            return {
                job: Hypothesis(
                    tuple(encode(waiting.pop(0) if len(waiting) > 1 else waiting[0])), -1, -1, finished, looped
                )
                for job in jobs
            }

        monkeypatch.setattr(Runtime, "generate", generate)
        return jobs_seen

    return install


CHARACTERS = st.sampled_from("ab AB.?!\n\t河上桥。！”“，😀👩\u0301é1２\x00\u2028\u3000")


@settings(deadline=None, max_examples=50)
@given(
    st.text(CHARACTERS, max_size=50), st.one_of(st.none(), st.integers(1, 9)), st.one_of(st.none(), st.integers(1, 4))
)
@example("“好！”她走了。", None, None)
@example("你好!你是谁?", None, None)
@example(TEXT, 5, 2)
def test_what_holds_of_all_summaries(
    summarizer: Summarizer, text: str, words: int | None, sentences: int | None
) -> None:
    bounds = segment.sentences(text)
    for extract in (True, False):
        summary = summarizer.summarize(text, words=words, sentences=sentences, extract=extract)
        assert len(summary.text) <= len(text)
        assert bool(summary.text) == bool(text.strip())
        if len(bounds) <= 1 or not any(map(str.isalpha, text)):
            assert (summary.text, summary.flags) == (text.strip(), ("copied",))
            continue
        if not extract:
            assert summary.spans == ()
            assert len(segment.sentences(summary.text)) <= (sentences or len(text))
            continue
        assert list(summary.spans) == sorted(set(summary.spans)) and set(summary.spans) <= set(bounds)
        assert len(summary.spans) <= (sentences or (len(bounds) if words else summarizing.SENTENCES))
        parts = [text[a:b] for a, b in summary.spans]
        assert "".join(summary.text.split()) == "".join("".join(parts).split())
        shortest = min(n_words(text[a:b]) for a, b in bounds)
        assert sum(map(n_words, parts)) <= max(words or 10**6, shortest)


@pytest.mark.parametrize("text", ["Anna met Bob.", "  Anna met Bob \n", "河上桥。", "12:30", "😀", "", "1.\n2.\n3."])
@pytest.mark.parametrize("extract", [True, False])
def test_one_sentence_is_its_own_summary(summarizer: Summarizer, text: str, extract: bool) -> None:
    summary = summarizer.summarize(text, words=1, sentences=1, extract=extract)
    assert (summary.text, summary.parts, summary.flags) == (text.strip(), 1, ("copied",))


# --- in sentences of the text ---


def scored(monkeypatch: pytest.MonkeyPatch, *scores: float) -> None:
    monkeypatch.setattr(Summarizer, "_scores", lambda self, text, bounds: (list(scores), 1))


FOUR = "One two three. Four!\n\nFive six? Seven eight nine ten."


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, "One two three. Five six? Seven eight nine ten."),  # three sentences, in the text's order
        ({"sentences": 1}, "Seven eight nine ten."),
        ({"sentences": 9}, "One two three. Four! Five six? Seven eight nine ten."),
        ({"words": 6}, "Five six? Seven eight nine ten."),
        ({"words": 5}, "Four! Seven eight nine ten."),
        ({"words": 3}, "Four! Five six?"),
        ({"words": 6, "sentences": 1}, "Seven eight nine ten."),
        ({"words": 100}, "One two three. Four! Five six? Seven eight nine ten."),
    ],
)
def test_the_best_sentences_that_fit(
    summarizer: Summarizer, monkeypatch: pytest.MonkeyPatch, settings: dict[str, int], expected: str
) -> None:
    scored(monkeypatch, 0.2, 0.1, 0.3, 0.4)
    summary = summarizer.summarize(FOUR, **settings)
    assert summary.text == expected
    assert " ".join(FOUR[a:b] for a, b in summary.spans) == expected


def test_where_no_sentence_fits_the_shortest_is_taken(summarizer: Summarizer, monkeypatch: pytest.MonkeyPatch) -> None:
    scored(monkeypatch, 0.6, 0.4)
    assert summarizer.summarize("One two three. Four five.", words=1).text == "Four five."


def test_sentences_are_scored_by_the_attention_to_their_pieces(
    small_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With weights that are given: a sentence has the sum of its pieces' means, times the share of its part."""
    summarizer = Summarizer(small_model, engine="numpy")
    encode = summarizer.runtime.checkpoint.tokenizer.encode
    text = "The bridge. A bb. T" + "c" * MAX_SOURCE_PIECES + "."
    bounds = segment.sentences(text)
    sizes = [len(encode(text[a:b])) for a, b in bounds]
    stepper = summarizer.runtime.stepper(1)
    seen = []

    def look(src: Sequence[Sequence[int]], tgt: Sequence[Sequence[int]]) -> list[object]:
        seen.extend(zip(src, tgt, strict=True))
        return [np.tile(np.arange(len(s), dtype=np.float32), (2, 2, len(t), 1)) for s, t in zip(src, tgt, strict=True)]

    monkeypatch.setattr(stepper, "cross_attention", look)
    scores, parts = summarizer._scores(text, bounds)
    assert parts == 2
    for src, tgt in seen:
        assert src[0] == 5 and src[-1] == 1 and tgt[0] == 5 and len(src) <= MAX_SOURCE_PIECES + 2
    total = sum(sizes)
    share = (sizes[0] + sizes[1]) / total
    # place 0 is the task's prefix
    assert scores[0] == pytest.approx(sum(range(1, 1 + sizes[0])) * share)
    assert scores[1] == pytest.approx(sum(range(1 + sizes[0], 1 + sizes[0] + sizes[1])) * share)
    assert scores[2] == pytest.approx(sum(range(1, 1 + MAX_SOURCE_PIECES)) * sizes[2] / total)


def test_scores_do_not_depend_on_batch_or_engine(
    small_model: Path, summarizer: Summarizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = " ".join(f"{TEXT} Part {n} is of a{n}." for n in range(6))
    bounds = segment.sentences(text)
    scores, parts = summarizer._scores(text, bounds)
    assert parts > 2 and len(scores) == len(bounds)
    assert 0.1 < sum(scores) < 1.001  # of each part at most all attention, times its share
    torch = Summarizer(Runtime(small_model, engine="torch", threads=1))._scores(text, bounds)[0]
    monkeypatch.setattr(summarizing, "BATCH", 1)
    alone = summarizer._scores(text, bounds)[0]
    assert scores == pytest.approx(torch, abs=1e-4) and scores == pytest.approx(alone, abs=1e-4)


# --- in the model's words ---


def test_the_models_words(summarizer: Summarizer, written: Callable[..., list[Job]]) -> None:
    jobs = written("The bridge is old. Anna came.")
    summary = summarizer.summarize(TEXT, extract=False)
    assert (summary.text, summary.spans, summary.parts, summary.flags) == ("The bridge is old. Anna came.", (), 1, ())
    assert [name for name, _ in jobs] == ["summarize"]
    assert summarizer.summarize(TEXT, extract=False, sentences=1).text == "The bridge is old."
    assert summarizer.summarize(TEXT, extract=False, words=5).text == "The bridge is old."
    assert summarizer.summarize(TEXT, extract=False, words=1).text == "The bridge is old."  # at least one


@pytest.mark.parametrize("settings", [{"finished": False}, {"looped": True}])
def test_what_was_cut_ends_with_its_last_whole_sentence(
    summarizer: Summarizer, written: Callable[..., list[Job]], settings: dict[str, bool]
) -> None:
    written("The bridge is old. Anna ca", **settings)
    summary = summarizer.summarize(TEXT, extract=False)
    assert summary.text == "The bridge is old."
    assert summary.flags == (("looped",) if "looped" in settings else ("cut",))
    written("The bridge is o", **settings)
    assert summarizer.summarize(TEXT, extract=False).text == "Anna met Bob at the bridge."


@pytest.mark.parametrize("text", ["", " ", "a" * 200])
def test_nothing_and_too_much_are_replaced_by_the_first_sentence(
    summarizer: Summarizer, written: Callable[..., list[Job]], text: str
) -> None:
    written(text)
    assert summarizer.summarize(TEXT, extract=False).text == "Anna met Bob at the bridge."


def test_a_long_text_is_summed_up_in_parts_and_then_their_summaries(
    summarizer: Summarizer, written: Callable[..., list[Job]]
) -> None:
    text = " ".join("ABT"[n % 3] + "c" * (100 + n) + "." for n in range(6))
    jobs = written("One a.", "Two b.", "Three c.", "Four d.", "Five e.", "Six f.", "All of it.")
    summary = summarizer.summarize(text, extract=False)
    assert len(jobs) == 7 and summary.parts == 6
    assert (summary.text, summary.flags) == ("All of it.", ("parts",))
    decode = summarizer.runtime.checkpoint.tokenizer.decode
    assert decode(jobs[-1][1]) == "One a. Two b. Three c. Four d. Five e. Six f."
    assert summarizer.summarize(text, extract=True, sentences=1).flags == ("parts",)


def test_no_digit_and_no_name_is_made_up(small_model: Path) -> None:
    summarizer = Summarizer(small_model, engine="numpy")
    tokenizer = summarizer.runtime.checkpoint.tokenizer
    src = [[5, *tokenizer.encode("the bridge 12 anna"), 1], [5, *tokenizer.encode("你好 B."), 1]]
    forbidden = summarizer._only_from_source(src).forbidden
    piece = tokenizer.id

    def allowed(row: int) -> set[str]:
        return {
            p
            for p in ("1", "2", "3", "A", "B", "T", " Anna", " the", "a", "你", ".", "</s>", "<0xE4>")
            if not forbidden[row, piece(p)]
        }

    anywhere = {" the", "a", "你", ".", "</s>", "<0xE4>"}
    assert allowed(0) == anywhere | {"1", "2", "A"}  # "anna" is spelt in letters here
    assert allowed(1) == anywhere | {"B"}


@pytest.mark.parametrize(
    ("text", "words"),
    [("One, two – three.", 3), ("你好吗？", 1.5), ("我用 iPhone 15。", 3), ("", 0), ("?! …", 0), ("don't", 2)],
)
def test_words_are_counted(text: str, words: float) -> None:
    assert n_words(text) == words


@pytest.mark.parametrize(
    ("text", "settings", "error", "message"),
    [
        (b"a", {}, UsageError, "the text must be a string, not bytes"),
        ("a", {"words": 0}, UsageError, "words must be a whole number from 1 on, not 0"),
        ("a", {"sentences": 1.0}, UsageError, "sentences must be a whole number"),
        ("a\udc80", {}, InputError, "the text has a lone surrogate at character 2"),
    ],
)
def test_requests_that_make_no_sense(
    summarizer: Summarizer, text: str, settings: dict[str, int], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        summarizer.summarize(text, **settings)


def test_a_model_without_the_task_is_refused(translating_model: Path) -> None:
    with pytest.raises(CheckpointError, match="the model other was not trained to sum up"):
        Summarizer(translating_model).summarize(FOUR)
