"""Summaries: never longer than the text, whole sentences, within the lengths that were asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tx.model import faithful, prose, segment, summarizing
from tx.model.config import POINTING_HEAD, GenerationConfig
from tx.model.errors import CheckpointError, InputError, UsageError
from tx.model.results import Hypothesis
from tx.model.runtime import Job, Runtime
from tx.model.summarizing import MAX_SOURCE_PIECES, Read, Summarizer, n_words

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


CHARACTERS = st.sampled_from("ab AB.?!\n\t河上桥。！”“，😀👩\u0301é1２\x00\u2028\u3000-#`")


def places(text: str) -> list[tuple[int, int]]:
    return prose.sentences(text)


def is_whole(text: str, sentence: str) -> bool:
    """Whether the end of this sentence is the end of one in the text."""
    return any(text[a:b].endswith(sentence) for a, b in segment.sentences(text))


WORDS = (
    "the old bridge",
    "is old.",
    "Anna",
    "12 boats,",
    "A boat came.",
    "桥在河上。",
    "它很旧.",
    "```",
    "a: b",
    "\n\n",
)


@settings(deadline=None, max_examples=50)
@given(
    st.text(CHARACTERS, max_size=50) | st.lists(st.sampled_from([*WORDS, *"\n-#."]), max_size=30).map(" ".join),
    st.one_of(st.none(), st.integers(1, 9)),
    st.one_of(st.none(), st.integers(1, 4)),
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
        assert ("longer" in summary.flags) == (words is not None and n_words(summary.text) > words)
        if len(bounds) <= 1 or not any(map(str.isalpha, text)):
            assert (summary.text, summary.flags[0]) == (text.strip(), "copied" if bounds else "empty")
            continue
        if not extract:
            assert (summary.spans == ()) == ("extracted" not in summary.flags)
            assert summary.spans or prose.is_marked(summary.text)
            assert len(segment.sentences(summary.text)) <= (sentences or len(text))
            continue
        assert list(summary.spans) == sorted(set(summary.spans)) and set(summary.spans) <= set(places(text))
        assert len(summary.spans) <= (sentences or (len(bounds) if words else summarizing.SENTENCES))
        parts = [text[a:b] for a, b in summary.spans]
        assert "".join(summary.text.split()) == "".join("".join(parts).split())
        assert all(is_whole(text, part) for part in parts)
        good = prose.are_prose(text, places(text))
        shortest = min(
            n_words(text[a:b]) for (a, b), one in zip(places(text), good, strict=True) if one or not any(good)
        )
        assert sum(map(n_words, parts)) <= max(words or 10**6, shortest)


def speech(n: int) -> str:
    """Without any mark."""
    return " ".join(f"and then anna met bob at bridge {i} while 12 boats lay there" for i in range(n))


@pytest.mark.parametrize(
    "settings", [{}, {"sentences": 1}, {"sentences": 2}, {"words": 9}, {"words": 5, "sentences": 2}]
)
def test_a_sentence_that_cannot_be_one_is_split(summarizer: Summarizer, settings: dict[str, int]) -> None:
    encode = summarizer.runtime.checkpoint.tokenizer.encode
    text = speech(40)
    assert segment.sentences(text) == [(0, len(text))]
    summary = summarizer.summarize(text, **settings)
    assert "split" in summary.flags and "longer" not in summary.flags and summary.parts > 1
    assert 0 < len(summary.text) < len(text) / 4
    assert 1 <= len(summary.spans) <= settings.get("sentences", len(text))
    assert n_words(summary.text) <= settings.get("words", len(text))
    for start, end in summary.spans:  # whole words
        assert len(encode(text[start:end])) <= summarizing.PART
        assert f" {text[start:end]} " in f" {text} "


def test_a_sentence_is_split_only_where_it_is_too_long(summarizer: Summarizer) -> None:
    encode = summarizer.runtime.checkpoint.tokenizer.encode
    short, long = speech(1), speech(8)
    assert len(encode(short)) <= MAX_SOURCE_PIECES < len(encode(long)) <= summarizing.LONGEST
    assert summarizer.summarize(short, words=3).flags == ("copied", "longer")
    assert not summarizer.read(f"Anna met Bob.\n{long}").split  # beside others it may be longer
    read = summarizer.read(f"Anna met Bob.\n{speech(60)}")
    assert read.split and read.sentences[0] == "Anna met Bob." and len(read.sentences) > 9
    clauses = summarizer.read("The old bridge, " * 50)  # it ends where a clause does
    assert clauses.split and all(one.endswith("bridge,") for one in clauses.sentences)
    lines = summarizer.read(", \n".join([short] * 12))
    assert lines.split and not any("\n" in speech for speech in lines.sentences)


@pytest.mark.parametrize("text", ["Anna met Bob.", "  Anna met Bob \n", "河上桥。", "12:30", "😀", "", "1.\n2.\n3."])
@pytest.mark.parametrize("extract", [True, False])
def test_one_sentence_is_its_own_summary(summarizer: Summarizer, text: str, extract: bool) -> None:
    summary = summarizer.summarize(text, sentences=1, extract=extract)
    assert (summary.text, summary.parts, summary.flags) == (text.strip(), 1, ("copied",) if text else ("empty",))
    assert summarizer.summarize(text, words=1, extract=extract).text == text.strip()


# --- in sentences of the text ---


def scored(monkeypatch: pytest.MonkeyPatch, *scores: float) -> None:
    monkeypatch.setattr(Summarizer, "_scores", lambda self, read: (dict(enumerate(scores)), 1))


FOUR = "One two three. Four five!\n\nSix seven? Eight nine ten eleven."


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, "One two three. Six seven? Eight nine ten eleven."),  # three sentences, in the text's order
        ({"sentences": 1}, "Eight nine ten eleven."),
        ({"sentences": 9}, "One two three. Four five! Six seven? Eight nine ten eleven."),
        ({"words": 6}, "Six seven? Eight nine ten eleven."),
        ({"words": 5}, "Eight nine ten eleven."),
        ({"words": 4}, "Eight nine ten eleven."),
        ({"words": 3}, "Six seven?"),
        ({"words": 6, "sentences": 1}, "Eight nine ten eleven."),
        ({"words": 100}, "One two three. Four five! Six seven? Eight nine ten eleven."),
    ],
)
def test_the_best_sentences_that_fit(
    summarizer: Summarizer, monkeypatch: pytest.MonkeyPatch, settings: dict[str, int], expected: str
) -> None:
    scored(monkeypatch, 0.2, 0.1, 0.3, 0.4)
    summary = summarizer.summarize(FOUR, extract=True, **settings)
    assert summary.text == expected
    assert " ".join(FOUR[a:b] for a, b in summary.spans) == expected


def test_where_no_sentence_fits_the_shortest_is_taken(summarizer: Summarizer, monkeypatch: pytest.MonkeyPatch) -> None:
    scored(monkeypatch, 0.6, 0.4)
    summary = summarizer.summarize("One two three. Four five.", words=1)
    assert (summary.text, summary.flags) == ("Four five.", ("longer",))
    assert summarizer.summarize("One two three. Four five.", words=2).flags == ()
    assert summarizer.summarize("One two three.", words=2).flags == ("copied", "longer")


LOG = """\
commit 09a4647a732151e9a277729b90b2e5139fb71432
Author: A. Hill <hill@mail.example>

    Add a lamp to the bridge

commit 271eaf72e19d00cf08f1401de0145c6cffc4a1d9
Author: B. Low <low@mail.example>

    Fix the lamp
"""


def test_what_is_no_sentence_is_not_chosen(summarizer: Summarizer) -> None:
    assert summarizer.summarize(LOG, sentences=5).text == "Add a lamp to the bridge\nFix the lamp"
    assert summarizer.summarize(LOG, sentences=1).text in ("Add a lamp to the bridge", "Fix the lamp")
    assert summarizer.summarize("commit 09a4647\nAuthor: A. Hill").text  # better than nothing


def test_what_was_said_is_not_said_again(summarizer: Summarizer, monkeypatch: pytest.MonkeyPatch) -> None:
    scored(monkeypatch, 0.3, 0.2, 0.9, 0.1)
    text = "The old bridge is wide. The wide bridges are low. The bridge is old. A boat came."
    # of its units, those of the first are all in the third but "wide"
    assert summarizer.summarize(text, sentences=4).text == "The wide bridges are low. The bridge is old. A boat came."


def test_wrapped_lines_come_out_on_one(summarizer: Summarizer) -> None:
    text = "The old bridge over the river was built by two brothers who had\nnever been at sea. And then?"
    summary = summarizer.summarize(text, sentences=1, words=99)
    assert "\n" not in summary.text and summary.text in " ".join(text.split())
    assert (
        "\n"
        in summarizer.summarize(text, sentences=2).text
        + text[slice(*summarizer.summarize(text, extract=True).spans[0])]
    )


def test_signals_of_the_model(small_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With weights that are given: a sentence has the sum of its pieces' means over the summary, over the highest of its
    part; and F1 of units with what the model wrote."""
    summarizer = Summarizer(small_model, engine="numpy")
    encode = summarizer.runtime.checkpoint.tokenizer.encode
    text = "The bridge. A bb. T" + "c" * MAX_SOURCE_PIECES + "."
    read = Read(
        [(0, 0)] * 3, ["The bridge.", "A bb.", text[18:]], [Counter(["the", "bridg"]), Counter("ab"), Counter("t")], []
    )
    sizes = [len(encode(sentence)) for sentence in read.sentences]
    stepper = summarizer.runtime.stepper(1)
    seen = []

    def look(src: Sequence[Sequence[int]], tgt: Sequence[Sequence[int]]) -> list[object]:
        seen.extend(zip(src, tgt, strict=True))
        maps = [np.zeros((2, 2, len(t), len(s)), np.float32) for s, t in zip(src, tgt, strict=True)]
        for m in maps:
            m[-1, POINTING_HEAD] = np.arange(m.shape[-1])
        return maps

    monkeypatch.setattr(stepper, "cross_attention", look)
    groups = summarizer._groups(read.sentences)
    assert groups == [[0, 1], [2]]
    written = Hypothesis(tuple(encode("bridges a")), -1, -1)
    monkeypatch.setattr(Runtime, "generate", lambda self, jobs, *_, **__: dict.fromkeys(jobs, written))
    attention, overlap = summarizer._signals(read, groups)
    for src, tgt in seen:
        assert src[0] == 5 and src[-1] == 1 and tgt == [5, *written.ids] and len(src) <= MAX_SOURCE_PIECES + 2
    # place 0 is the task's prefix
    looks = [sum(range(1, 1 + sizes[0])), sum(range(1 + sizes[0], 1 + sizes[0] + sizes[1]))]
    assert attention == pytest.approx({0: looks[0] / max(looks), 1: looks[1] / max(looks), 2: 1.0})
    assert overlap == pytest.approx({0: 0.5, 1: 0.5, 2: 0.0})


def test_scores_do_not_depend_on_batch_or_engine(
    small_model: Path, summarizer: Summarizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = Read.of(" ".join(f"{TEXT} Part {n} is of a{n}." for n in range(6)))
    scores, parts = summarizer._scores(read)
    assert parts > 2 and len(scores) == len(read.sentences)
    assert all(0 < score <= 4 for score in scores.values())
    torch = Summarizer(Runtime(small_model, engine="torch", threads=1))._scores(read)[0]
    monkeypatch.setattr(summarizing, "BATCH", 1)
    alone = summarizer._scores(read)[0]
    assert scores == pytest.approx(torch, abs=1e-3) and scores == pytest.approx(alone, abs=1e-3)


def test_of_very_many_parts_the_most_central_are_read(
    summarizer: Summarizer, monkeypatch: pytest.MonkeyPatch, written: Callable[..., list[Job]]
) -> None:
    monkeypatch.setattr(summarizing, "MAX_PARTS", 2)
    assert summarizing._most_central([[0], [1, 2], [3, 4], [5]], [0.1, 0.9, 0.1, 0.6, 0.6, 0.4]) == [[0], [3, 4]]
    text = " ".join("ABT"[n % 3] + "c" * 110 + f" the {n}." for n in range(5))
    jobs = written("The 1.")
    summary = summarizer.summarize(text, extract=True)
    assert (summary.parts, summary.flags) == (5, ("parts", "skimmed"))
    assert len(jobs) == 2


# --- in the model's words ---


def test_the_models_words(summarizer: Summarizer, written: Callable[..., list[Job]]) -> None:
    jobs = written("The bridge is old. Anna met Bob.")
    summary = summarizer.summarize(TEXT, extract=False)
    assert (summary.text, summary.spans, summary.parts, summary.flags) == (
        "The bridge is old. Anna met Bob.",
        (),
        1,
        (),
    )
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
    assert summarizer.summarize(TEXT, extract=False).flags == ("extracted",)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "Anna " + "a" * 200,
        "the oldbridge.",
        "Bob at the",
        "Anna met the bridge.",
        "Last of all came boats.",
        "The boats..",
        "Anna Anna.",
        "桥在桥在河上。",
        "boats 河12上。",
    ],
)
def test_what_is_not_fit_is_replaced_by_a_sentence(
    summarizer: Summarizer, written: Callable[..., list[Job]], text: str
) -> None:
    written(text)
    summary = summarizer.summarize(TEXT, extract=False)
    assert summary.flags == ("extracted",) and len(summary.spans) == 1 and summary.parts == 1
    assert summary.text == TEXT[slice(*summary.spans[0])] and summary.spans[0] in places(TEXT)
    assert summarizer.summarize(TEXT, extract=False, sentences=3).text == summary.text
    few = summarizer.summarize(TEXT, extract=False, words=5)
    assert n_words(few.text) <= 5 and few.flags == ("extracted",)


def test_what_the_model_is_not_sure_of_is_not_shown(summarizer: Summarizer, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = tuple(summarizer.runtime.checkpoint.tokenizer.encode("The bridge is old."))
    for log_prob, flags in ((faithful.LIKELY - 0.01, ("extracted",)), (faithful.LIKELY + 0.01, ())):
        sure = Hypothesis(ids, log_prob * (len(ids) + 1), -1)
        monkeypatch.setattr(Runtime, "generate", lambda self, jobs, *_, h=sure, **__: dict.fromkeys(jobs, h))
        assert summarizer.summarize(TEXT, extract=False).flags == flags


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The bridge", "The bridge."),
        ("桥在河上", "桥在河上。"),
        ("“你好！”", "“你好！”"),
        ("Anna met (Bob)", "Anna met (Bob)."),
    ],
)
def test_a_title_gets_a_mark_at_its_end(
    summarizer: Summarizer, written: Callable[..., list[Job]], text: str, expected: str
) -> None:
    written(text)
    assert summarizer.summarize(TEXT, extract=False).text == expected


def test_of_characters_that_the_model_does_not_know_nothing_is_written(
    summarizer: Summarizer, written: Callable[..., list[Job]]
) -> None:
    written("The bridge is old.")
    for text in ("Мост стар. Анна пришла.", "橋樑舊了。兩艘船來了。"):
        summary = summarizer.summarize(text, extract=False)
        assert summary.flags == ("extracted",) and summary.text in text
    assert summarizer.summarize("The bridge is old. Anna came — é.", extract=False).flags == ()


def test_of_a_long_text_the_sentences_that_say_most_are_summed_up(
    summarizer: Summarizer, written: Callable[..., list[Job]]
) -> None:
    """Those with "bridge" have something in common; the first stands early."""
    parts = (f"The old bridge {n}. {'ABT'[n % 3]}{'c' * 90} the a{n}." for n in range(4))
    text = f"An odd word is here. {' '.join(parts)}"
    jobs = written("The old bridge 1.")
    summary = summarizer.summarize(text, extract=False)
    assert len(jobs) == 1 and summary.parts > 1, summary
    assert (summary.text, summary.flags) == ("The old bridge 1.", ("parts", "skimmed"))
    read = summarizer.runtime.checkpoint.tokenizer.decode(jobs[0][1])
    assert len(jobs[0][1]) <= MAX_SOURCE_PIECES
    assert read == "An odd word is here. The old bridge 0. The old bridge 1. The old bridge 2. The old bridge 3."
    assert summarizer.summarize(text, extract=True, sentences=1).flags == ("parts",)


def test_a_sentence_that_is_too_long_is_read_as_far_as_it_goes(
    summarizer: Summarizer, written: Callable[..., list[Job]]
) -> None:
    jobs = written("The old bridge.")
    text = "The old bridge, a" + "c" * 300 + " is here. The b" + "d" * 300 + " is here."
    assert summarizer.summarize(text, extract=False).text == "The old bridge."
    assert [len(ids) for _, ids in jobs] == [MAX_SOURCE_PIECES]


def test_which_way_is_the_default(
    summarizer: Summarizer, monkeypatch: pytest.MonkeyPatch, written: Callable[..., list[Job]]
) -> None:
    monkeypatch.setattr(summarizing, "REWRITES", frozenset({"zh"}))
    chinese = "你好桥。河上桥。好桥上河。"
    assert len(summarizer.summarize(chinese).spans) == 1  # it is short
    monkeypatch.setattr(summarizing, "REWRITES_FROM", 1)
    written("你好桥。")
    assert summarizer.summarize(FOUR, sentences=1).spans and summarizer.summarize(FOUR).spans
    assert summarizer.summarize(chinese).spans == () and summarizer.summarize(chinese, words=3).spans
    written("Four five!")
    assert summarizer.summarize(chinese, extract=True).spans and summarizer.summarize(FOUR, extract=False).spans == ()


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
