"""Answers: places in the text and nothing else, the same whatever the batch, the window or the engine."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tx.model import answering, manual, segment, span_ends
from tx.model.answering import CROSSING, LONGEST, MAX_QUESTION_PIECES, SENTENCE, STRIDE, THRESHOLD, WINDOW, Answerer
from tx.model.errors import CheckpointError, InputError, UsageError
from tx.model.matching import units
from tx.model.results import Answer
from tx.model.runtime import Runtime
from tx.model.spans import Reader

TEXT = "Anna met Bob at the bridge. The bridge is old, but the water is not!\n\n桥在河上。你好 😀 to you all. At last 12 boats came."
NOTHING = Answer("", 0, 0, THRESHOLD)


@pytest.fixture(scope="module")
def answerer(small_model: Path) -> Answerer:
    return Answerer(small_model, engine="numpy")


def check(context: str, answers: list[Answer], top_k: int, threshold: float) -> None:
    """What holds of all answers."""
    assert 1 <= len(answers) <= top_k
    assert [a.score for a in answers] == sorted((a.score for a in answers), reverse=True)
    assert sum(not a.text for a in answers) <= 1
    for a in answers:
        assert context[a.start : a.end] == a.text
        if a.text:
            assert a.text == a.text.strip()
            assert any(map(str.isalnum, a.text))
            assert a.sentence[0] <= a.start and a.end <= a.sentence[1] <= len(context)
        else:
            assert (a.start, a.end, a.score) == (0, 0, threshold)
    found = [a for a in answers if a.text]
    assert len({a.text.casefold() for a in found}) == len(found)
    assert all(a.end <= b.start or b.end <= a.start for i, a in enumerate(found) for b in found[:i])


CHARACTERS = st.sampled_from("ab AB.?!\n\t\r\u3000河上桥。，😀👨\u200d👩\u0301é1２\x00\u2028")


@settings(deadline=None, max_examples=60)
@given(st.text(CHARACTERS, max_size=60), st.text(CHARACTERS, max_size=10), st.integers(1, 5))
@example("😀😀 Anna 河上", "who", 5)
@example("  a  ", "a", 1)
@example("a" * 300, "b", 3)
@example("1" + "?" * 30, "111", 1)
def test_answers_are_places_in_the_text(answerer: Answerer, context: str, question: str, top_k: int) -> None:
    for threshold in (-math.inf, 0.0):
        (answers,) = answerer.answer(context, [question], top_k=top_k, threshold=threshold)
        check(context, answers, top_k, threshold)
    words = any(map(str.isalnum, context)) and any(map(str.isalnum, question))
    (best,) = answerer.answer(context, [question], threshold=-math.inf)[0]
    assert bool(best.text) == words  # without a threshold there is always an answer


@pytest.mark.parametrize("context", ["", "  \n", "?! … 😀 —", "\u200b"])
def test_a_text_without_words_has_no_answer(answerer: Answerer, context: str) -> None:
    assert answerer.answer(context, ["Who?", "When?"], top_k=3) == [[NOTHING], [NOTHING]]


def test_a_question_without_words_has_no_answer(answerer: Answerer) -> None:
    first, second, third = answerer.answer(TEXT, ["", "Who met Bob?", " ?"], threshold=-50)
    assert first == third == [Answer("", 0, 0, -50)]
    assert second[0].text
    assert answerer.answer(TEXT, []) == []


def test_no_answer_is_a_score_among_the_others(answerer: Answerer) -> None:
    (spans,) = answerer.answer(TEXT, ["Who met Bob?"], top_k=8, threshold=-math.inf)
    assert len(spans) > 3
    between = (spans[1].score + spans[2].score) / 2
    (some,) = answerer.answer(TEXT, ["Who met Bob?"], top_k=4, threshold=between)
    assert some == [*spans[:2], Answer("", 0, 0, between), spans[2]]
    (none,) = answerer.answer(TEXT, ["Who met Bob?"], threshold=math.inf)
    assert [a.text for a in none] == [""]


def test_a_score_is_the_log_odds_against_no_answer_and_the_sentences_share(answerer: Answerer) -> None:
    """From the weights with which the decoder looks at one window, and the words of the question in the sentence."""
    from tx.model import spans

    reader = spans.Reader(answerer.runtime.checkpoint.tokenizer, (6,), 1)
    read = reader.text(TEXT)
    assert len(read.ids) <= WINDOW
    source = reader.source(reader.question("Who met Bob?", MAX_QUESTION_PIECES), read)
    weights = answerer.runtime.stepper(1).cross_attention([source.ids], [[6, 1]], [source.kinds])[0][-1, spans.HEAD]
    assert weights.shape == (2, len(source.ids))
    log_p = np.log(np.maximum(weights, 1e-30))
    log_odds = (log_p - log_p[:, -1:])[:, source.first :]
    for answer in answerer.answer(TEXT, ["Who met Bob?"], top_k=3, threshold=-math.inf)[0]:
        (first,) = [s for s in segment.sentences(TEXT) if s[0] <= answer.start < s[1]]
        bonus = SENTENCE * _share("Who met Bob?", first, reader) - CROSSING * (answer.end > first[1])
        fits = [
            log_odds[0, a] + log_odds[1, b] + bonus
            for a in range(len(read.ids))
            for b in range(a, min(a + LONGEST, len(read.ids)))
            if span_ends.tidy_ends(TEXT, read.offsets[a][0], read.offsets[b][1]) == (answer.start, answer.end)
        ]
        assert any(answer.score == pytest.approx(fit, rel=1e-4, abs=1e-4) for fit in fits)


def _share(question: str, sentence: tuple[int, int], reader: Reader) -> float:
    """The share of the question's words in the sentence, by its own characters."""
    weights = dict(reader.weights.question(question))
    often = Counter(unit for unit, _, _ in units(TEXT))
    for unit in weights:
        weights[unit] /= max(1, min(often[unit], 9)) ** 0.5
    there = {unit for unit, start, _ in units(TEXT) if sentence[0] <= start < sentence[1]}
    return sum(weight for unit, weight in weights.items() if unit in there) / sum(weights.values())


def test_what_stands_in_the_sentence_of_most_words_comes_first(
    answerer: Answerer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the model would have thought, if the words count for enough."""
    monkeypatch.setattr(answering, "SENTENCE", 1000.0)
    for question, sentence in (
        ("Is the water old?", "The bridge is old"),
        ("How many boats came?", "At last 12 boats"),
    ):
        (best,) = answerer.answer(TEXT, [question], threshold=-math.inf)[0]
        assert TEXT[slice(*best.sentence)].startswith(sentence)


def test_batches_and_engines_do_not_change_answers(
    small_model: Path, answerer: Answerer, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = " ".join(f"{TEXT} Part {n} of b{n}." for n in range(4))
    questions = [
        "Who met Bob?",
        "桥在哪里？",
        "What is old, and what is not, and when did the last of all the boats come?",
    ]
    together = answerer.answer(long, questions, top_k=3, threshold=-math.inf)
    for answers in together:
        check(long, answers, 3, -math.inf)
    alone = [answerer.answer(long, [question], top_k=3, threshold=-math.inf)[0] for question in questions]
    torch = Answerer(Runtime(small_model, engine="torch", threads=1)).answer(
        long, questions, top_k=3, threshold=-math.inf
    )
    monkeypatch.setattr(answering, "BATCH", 1)
    single = answerer.answer(long, questions, top_k=3, threshold=-math.inf)
    for other in (alone, torch, single):
        for ours, theirs in zip(together, other, strict=True):
            assert [a.score for a in ours] == pytest.approx([a.score for a in theirs], rel=1e-4, abs=1e-3)
            assert (ours[0].start, ours[0].end) == (theirs[0].start, theirs[0].end)


Windows = list[list[int]]


@pytest.fixture
def windows(answerer: Answerer, monkeypatch: pytest.MonkeyPatch) -> Windows:
    """The pieces of the windows that the model reads, in the order of reading."""
    stepper = answerer.runtime.stepper(1)
    tab = answerer.runtime.checkpoint.tokenizer.encode("\t")[0]
    read: Windows = []
    real = stepper.cross_attention

    def note(src: list[list[int]], tgt: list[list[int]], kinds: list[object]) -> object:
        read.extend(row[row.index(tab) + 1 : -1] for row in src)
        return real(src, tgt, kinds)  # type: ignore[arg-type]

    monkeypatch.setattr(stepper, "cross_attention", note)
    return read


@pytest.mark.parametrize("n", [0, 1, WINDOW - 1, WINDOW, WINDOW + 1, STRIDE + WINDOW, STRIDE + WINDOW + 1, 777])
def test_windows_cover_the_text(answerer: Answerer, windows: Windows, n: int) -> None:
    """Each stretch of WINDOW − STRIDE pieces is whole in a window, and no window is of another's pieces only."""
    text = "".join("ab"[(i * i) % 7 % 2] for i in range(n))[:n]
    ids = answerer.runtime.checkpoint.tokenizer.encode(text)
    (found,) = answerer.search(text, ["a"])
    assert sum(map(len, windows)) >= len(ids) if n else not windows
    assert all(len(window) <= WINDOW for window in windows)
    reach = WINDOW - STRIDE
    assert reach >= LONGEST
    for start in range(0, max(1, len(ids) - reach + 1) if n else 0, 7):
        part = ids[start : start + reach]
        assert any(window[i : i + len(part)] == part for window in windows for i in range(len(window)))
    assert len(windows) == (0 if not n else max(1, math.ceil((len(ids) - reach) / STRIDE)))
    assert found.read == found.windows == len(windows)


# --- of a text with many windows those are read that have most of the question ---

LONG = "".join(f" {'abcdefghij'[n % 10]}{n}" for n in range(600)) + " the old bridge. " + "x, " * 300


def test_of_a_long_text_the_windows_with_the_questions_words_are_read(
    answerer: Answerer, windows: Windows, monkeypatch: pytest.MonkeyPatch
) -> None:
    pieces = answerer.runtime.checkpoint.tokenizer
    monkeypatch.setattr(answering, "MOST", 2)
    old, none = answerer.search(LONG, ["Where is the old bridge?", "Anna"], threshold=-math.inf)
    assert (old.read, none.read) == (2, 2) and old.windows == none.windows > 20
    texts = [pieces.decode(window) for window in windows]
    assert sum("old bridge" in text for text in texts) >= 1
    # A question that shares no word with the text is answered from its beginning.
    ids = pieces.encode(LONG)
    assert [w for w in windows if w[:9] in (ids[:9], ids[STRIDE : STRIDE + 9])] == [
        ids[:WINDOW],
        ids[STRIDE : STRIDE + WINDOW],
    ]
    assert none.answers[0].end <= len(pieces.decode(ids[: STRIDE + WINDOW]))
    check(LONG, old.answers, 1, -math.inf)
    del windows[:]
    (few,) = answerer.search("the bridge", ["Anna"])
    assert few.read == few.windows == len(windows) == 1


def test_what_the_model_reads_does_not_depend_on_the_other_windows(
    answerer: Answerer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the best answer's window is among those that are read, the answer is that of all windows."""
    question = ["Where is the old bridge?"]
    monkeypatch.setattr(answering, "MOST", 1000)
    (every,) = answerer.search(LONG, question, top_k=50, threshold=-math.inf)
    assert every.read == every.windows
    monkeypatch.setattr(answering, "MOST", 3)
    (few,) = answerer.search(LONG, question, top_k=3, threshold=-math.inf)
    known = {(a.start, a.end): a.score for a in every.answers}
    shared = [a for a in few.answers if (a.start, a.end) in known]
    assert few.read == 3
    assert all(a.score == pytest.approx(known[a.start, a.end], rel=1e-4, abs=1e-3) for a in shared)


def test_nothing_is_read_where_there_is_nothing_to_find(answerer: Answerer, windows: Windows) -> None:
    assert [found[1:] for found in answerer.search("?!", ["Who?"])] == [(0, 0)]
    assert [found.read for found in answerer.search("Anna", ["", "Who?"])] == [0, 1]
    assert len(windows) == 1


def test_of_a_long_question_the_beginning_is_read(answerer: Answerer) -> None:
    long = "a b" * 300
    pieces = answerer.runtime.checkpoint.tokenizer
    start = pieces.decode(pieces.encode(long)[:MAX_QUESTION_PIECES])
    assert answerer.cut(long) and not answerer.cut(start)
    assert answerer.answer(TEXT, [long], top_k=4) == answerer.answer(TEXT, [start], top_k=4)


def test_the_sentence_around_an_answer() -> None:
    context = "Ann sang. Bob slept.\n\nAll well."
    sentences = answering._Sentences(context)
    found = answering._choose(
        context, [(2.0, 10, 13), (1.0, 4, 14), (0.5, 22, 25), (0.4, 19, 23)], 9, Answer("", 0, 0, 0.0), sentences
    )
    assert [(a.text, a.sentence) for a in found] == [("Bob", (10, 20)), ("All", (22, 31)), ("", (0, 0))]
    (across,) = answering._choose(context, [(1.0, 4, 13)], 1, NOTHING, sentences)
    assert across.text == "sang. Bob" and across.sentence == (0, 20)
    (further,) = answering._choose(context, [(1.0, 14, 25)], 1, NOTHING, sentences)
    assert further.text == "slept.\n\nAll" and further.sentence == (10, 31)


LINES = ["Ann met Bob. They sang", "to all. ", " ", "桥在河上。好", "- an item", "x" * 70, "and more", "a\tb. C", ""]


@given(st.lists(st.tuples(st.sampled_from(LINES), st.sampled_from(["\n", "\r\n", "\n\n", "\n \n", ""])), max_size=9))
@example([("", "\n\n"), ("a", "\n\n"), ("", "\n\n")])
def test_sentences_are_those_of_the_whole_text(lines: list[tuple[str, str]]) -> None:
    text = "".join(line + end for line, end in lines)
    bounds = segment.sentences(text)
    sentences = answering._Sentences(text)
    for start in range(len(text)):
        for end in {start + 1, min(start + 9, len(text))}:
            around = [b for b in bounds if b[0] < end and start < b[1]]
            expected = (min(around[0][0], start), max(around[-1][1], end)) if around else (start, end)
            assert sentences.around(start, end) == expected


def test_a_sentence_is_found_without_a_look_at_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """A text may be one paragraph of a hundred thousand lines, and is asked about thousands of times."""

    class Bounds(list[tuple[int, int]]):
        def __iter__(self) -> Iterator[tuple[int, int]]:
            raise AssertionError("all of them were looked at")

    text = "A b. " * 50
    sentences = answering._Sentences(text)
    bounds = Bounds(segment.sentences(text))
    monkeypatch.setattr(sentences, "_of", lambda paragraph: bounds)
    assert sentences.around(101, 102) == (100, 104) and sentences.around(101, 106) == (100, 109)
    assert sentences.around(104, 105) == (104, 105)  # between two


def test_words_that_come_again_are_one_answer() -> None:
    context = "Bob. bob! Bob?"
    candidates = [(1.0, 10, 13), (3.0, 0, 3), (2.0, 5, 8), (2.5, 3, 4), (1.5, 3, 8)]
    found = answering._choose(context, candidates, 9, NOTHING, answering._Sentences(context))
    assert [(a.text, a.start) for a in found] == [("Bob", 0), ("", 0)]


@pytest.mark.parametrize(
    ("context", "questions", "settings", "error", "words"),
    [
        ("a", "Who?", {}, UsageError, "questions must be a list of strings, not one str"),
        ("a", [3], {}, UsageError, "question 1 must be a string, not int"),
        (b"a", ["Who?"], {}, UsageError, "the text must be a string, not bytes"),
        ("a", ["Who?"], {"top_k": 0}, UsageError, "top_k must be a whole number from 1 on, not 0"),
        ("a", ["Who?"], {"top_k": True}, UsageError, "top_k must be"),
        ("a\ud800", ["Who?"], {}, InputError, "the text has a lone surrogate at character 2"),
        ("a", ["Who?", "\udfff"], {}, InputError, "question 2 has a lone surrogate at character 1"),
    ],
)
def test_requests_that_make_no_sense(
    answerer: Answerer, context: str, questions: list[str], settings: dict[str, int], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        answerer.answer(context, questions, **settings)  # type: ignore[arg-type]


def test_a_model_that_does_not_point_is_refused(translating_model: Path) -> None:
    with pytest.raises(CheckpointError, match="the model other was not trained to find answers"):
        Answerer(translating_model).answer("Ann sang.", ["Who?"])


@pytest.mark.parametrize(
    ("text", "span", "whole"),
    [
        ("Iranian boats", "ran", "Iranian"),
        ("in 1999.", "99", "1999"),
        ("the bridge ", " bri", "bridge"),
        ("河上有TiDB桥", "iD", "TiDB"),  # Chinese has no spaces: its characters stand for themselves
        ("河上有桥", "上有", "上有"),
        ("a-b", "a", "a"),
    ],
)
def test_no_word_is_cut(text: str, span: str, whole: str) -> None:
    start = text.index(span)
    first, last = span_ends.tidy_ends(text, start, start + len(span))
    assert text[first:last] == whole


MANUAL = """OPTIONS
       --force
              Overwrite what is there.  Nothing is asked.

       -n, --names=LIST
              Read the names of a list.

       --force-all
              The same for all files.

SEE ALSO
       Another page.
"""


def test_the_entry_of_an_option() -> None:
    def entries(option: str) -> list[str]:
        return [" ".join(MANUAL[a:b].split()) for a, b in manual.entries(MANUAL, option)]

    assert entries("--force") == ["Overwrite what is there. Nothing is asked."]
    assert entries("--names") == entries("-n") == ["Read the names of a list."]
    assert entries("--force-all") == ["The same for all files."]
    assert entries("--fo") == entries("-f") == []


def test_a_question_about_an_option_is_answered_from_its_entry(
    answerer: Answerer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answering, "SENTENCE", 1000.0)
    for question, entry in (("What does --force do?", "Overwrite"), ("What is -n?", "Read the")):
        (best,) = answerer.answer(MANUAL, [question], threshold=-math.inf)[0]
        assert MANUAL[slice(*best.sentence)].startswith((entry, "Nothing is"))


@pytest.mark.parametrize(
    "question",
    ["What does --force do?", "What is --force for?", "what does tar --force mean", "--force 是做什么的？", "--force"],
)
def test_what_an_option_does_is_the_first_sentence_of_its_entry(answerer: Answerer, question: str) -> None:
    (best,) = answerer.answer(MANUAL, [question], threshold=-math.inf)[0]
    assert best.text == "Overwrite what is there."
    assert MANUAL[best.start : best.end] == best.text


@pytest.mark.parametrize(
    "question", ["Who wrote --force?", "Is --force or -n older?", "Which files does --force remove?"]
)
def test_other_questions_about_an_option_are_ordinary_ones(question: str) -> None:
    assert manual.explanation(question, MANUAL, [(1.0, MANUAL.index("Overwrite"), MANUAL.index(" what"))]) is None


def test_the_layout_of_a_text_does_not_change_its_answer(answerer: Answerer) -> None:
    plain = "Anna met Bob at the old bridge, and later they bought a boat together for twelve crowns."
    wide = plain.replace(" ", "\n     ").replace("together", "toge\u2010\n     ther")
    for question in ("Where did Anna meet Bob?", "How much was the boat?", "Who?"):
        (one,), (other,) = (answerer.answer(text, [question], threshold=-math.inf)[0] for text in (plain, wide))
        assert wide[other.start : other.end] == other.text
        assert "".join(other.text.replace("\u2010", "").split()) == one.text.replace(" ", "")


@pytest.mark.parametrize(
    ("text", "span", "whole"),
    [
        ("取消了四十六趟列车", "六趟", "四十六趟"),
        ("有一千八百多只。", "八百多只。", "一千八百多只"),
        ("it cost 1,200.50 (about", "200.50 (about", "1,200.50"),
        ("said Ann [/items] loud", "Ann [/items", "Ann"),
        ("the river (in Spain) ran", "river (in Spain)", "river (in Spain)"),
        ("the river (in Spain) ran", "in Spain)", "in Spain"),
        ("“come in,” he said", "“come in,", "come in"),
        ("in the U.S. army", "U.S.", "U.S."),
        ("from 🇫🇷 and 🇨🇳 they", "🇷 and 🇨", "🇫🇷 and 🇨🇳"),
        ("a 👨\u200d👩\u200d👧 met b", "👧 met b", "👨\u200d👩\u200d👧 met b"),
    ],
)
def test_ends_are_those_of_numbers_marks_and_characters(text: str, span: str, whole: str) -> None:
    start = text.index(span)
    first, last = span_ends.tidy_ends(text, start, start + len(span))
    assert text[first:last] == whole


def test_what_says_no_more_than_a_better_answer_is_no_other_answer() -> None:
    context = "The cat is on the mat. New  York, new york. The mat!"
    places = [context.index(t) for t in ("the mat", "New", "new york", "The mat!")]
    spans = [(3.0, places[0], places[0] + 7), (2.0, places[1], places[1] + 9), (1.0, places[2], places[2] + 8)]
    candidates = [*spans, (0.5, places[3] + 4, places[3] + 7)]
    found = answering._choose(context, candidates, 9, NOTHING, answering._Sentences(context))
    assert [a.text for a in found if a.text] == ["the mat", "New  York"]
