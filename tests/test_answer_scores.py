"""Answers of a file: scores by hand, what is asked together, and texts hidden among others."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tx.model.answer_scores import Haystack, evaluate_answers
from tx.model.errors import InputError, UsageError
from tx.model.evaluation import read_rows
from tx.model.results import Answer
from tx.model.summarizing import n_words


class FakeAnswerer:
    """Answers each question with its last word; nothing where that is "nothing"."""

    def __init__(self) -> None:
        self.thresholds: list[float] = []
        self.asked: list[tuple[str, list[str]]] = []

    def answer(self, context: str, questions: Sequence[str], *, threshold: float) -> list[list[Answer]]:
        self.thresholds.append(threshold)
        self.asked.append((context, list(questions)))
        words = [question.split()[-1] for question in questions]
        return [[Answer("" if word == "nothing" else word, 0, 0, 1.0)] for word in words]


def write(path: Path, *rows: object) -> Path:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


ROWS: list[dict[str, Any]] = [
    {"context": "c", "question": "say Paris", "answer": "Paris"},
    {"context": "c", "question": "say Rome", "answer": "London", "answers": ["London", "in Rome", "the"]},
    {"context": "d", "question": "say nothing", "answer": ""},
    {"context": "c", "question": "say something", "answer": "", "answers": []},
    {"context": "c", "question": "说 大河", "answer": "大河。"},
]


def test_scores_by_hand(tmp_path: Path) -> None:
    answerer = FakeAnswerer()
    scores = evaluate_answers(answerer, write(tmp_path / "qa.jsonl", *ROWS))
    assert scores["exact_match"] == pytest.approx(100 * 3 / 5)  # Paris, nothing, 大河
    assert scores["f1"] == pytest.approx(100 * (1 + 2 / 3 + 1 + 0 + 1) / 5)
    assert (scores["n"], scores["answered"], scores["words"]) == (5, 4, 1)
    assert scores["answerable"] == {
        "exact_match": pytest.approx(100 * 2 / 3),
        "f1": pytest.approx(100 * (1 + 2 / 3 + 1) / 3),
        "n": 3,
        "answered": 3,
    }
    assert scores["unanswerable"] == {"exact_match": 50, "f1": 50, "n": 2, "answered": 1}
    assert scores["seconds"] >= 0
    # every question is answered, those of one context that follow each other in one reading
    assert answerer.thresholds == [-math.inf] * 3
    assert [len(questions) for _, questions in answerer.asked] == [2, 1, 2]


def test_limit_threshold_and_gzip(tmp_path: Path) -> None:
    path = write(tmp_path / "qa.jsonl", *ROWS)
    packed = tmp_path / "qa.jsonl.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    answerer = FakeAnswerer()
    scores = evaluate_answers(answerer, packed, limit=1, threshold=2.0)
    assert (scores["n"], scores["f1"], answerer.thresholds) == (1, 100, [2.0])
    assert "answerable" not in scores and "short" not in scores
    with pytest.raises(UsageError, match="limit"):
        evaluate_answers(answerer, path, limit=0)


@pytest.mark.parametrize(
    "bad",
    [
        '{"context": "c", "question": "q"}',
        '{"context": "c", "question": "q", "answer": 3}',
        '{"context": "c", "question": "q", "answer": "a", "answers": "a"}',
        '{"context": "c", "question": "q", "answer": "a", "answers": [1]}',
        "[1]",
        "{",
        "[" * 100_000,
    ],
)
def test_rows_that_cannot_be_used(tmp_path: Path, bad: str) -> None:
    path = write(tmp_path / "qa.jsonl", ROWS[0])
    path.write_text(path.read_text() + "\n" + bad + "\n")
    answerer = FakeAnswerer()
    with pytest.raises(InputError, match=r"qa\.jsonl, line 3") as caught:
        evaluate_answers(answerer, path)
    assert "\n" not in str(caught.value)
    assert not answerer.asked  # nothing is computed that would be thrown away
    assert evaluate_answers(answerer, path, limit=1)["n"] == 1


def test_no_rows(tmp_path: Path) -> None:
    path = write(tmp_path / "none.jsonl")
    assert list(read_rows(path, ())) == []
    with pytest.raises(InputError, match="no questions"):
        evaluate_answers(FakeAnswerer(), path)


# --- among others ---

FRUIT = ["apple", "pear", "plum", "fig", "grape", "melon", "lemon", "olive", "date", "peach"]
GARDEN = [
    {
        "context": f"The {fruit} ripens in week {n + 20} here.",
        "question": f"When does {fruit}?",
        "answer": f"week {n + 20}",
    }
    for n, fruit in enumerate(FRUIT)
]
TRAP = {"context": "Others say: WEEK  21!", "question": "Who?", "answer": "Others"}  # written in another way


def parts(text: str) -> list[str]:
    return text.split("\n\n")


def test_a_hidden_context_is_there_once_among_others_without_the_answer() -> None:
    rows = [*GARDEN, TRAP]
    haystack = Haystack(rows, 30)
    for row in GARDEN:
        context, answer = row["context"], row["answer"]
        hidden = parts(haystack.hide(context))
        assert hidden.count(context) == 1
        assert len(set(hidden)) == len(hidden)
        assert set(hidden) <= {r["context"] for r in rows}
        assert not [other for other in hidden if other != context and answer in other.lower()]
        assert TRAP["context"] not in hidden or answer != "week 21"
        # 7 words each: enough, and without the last that was added not enough
        assert 30 <= n_words("\n\n".join(hidden)) < 30 + 7
    longest = [parts(Haystack(rows, 1000).hide(row["context"])) for row in GARDEN]
    assert [TRAP["context"] in hidden for hidden in longest] == [row["answer"] != "week 21" for row in GARDEN]


def test_the_place_varies_and_a_run_is_like_the_last() -> None:
    haystack = Haystack(GARDEN, 50)
    texts = [haystack.hide(row["context"]) for row in GARDEN]
    places = {parts(text).index(row["context"]) for text, row in zip(texts, GARDEN, strict=True)}
    assert len(places) > 3
    again = Haystack(GARDEN, 50)
    assert [again.hide(row["context"]) for row in reversed(GARDEN)] == texts[::-1]
    assert [Haystack(GARDEN, 50, seed=1).hide(row["context"]) for row in GARDEN] != texts


def test_no_other_answer_to_any_question_about_the_context() -> None:
    context = "It rained in May and snowed in June."
    rows: list[dict[str, Any]] = [
        {"context": context, "question": "Rain?", "answer": "May", "answers": ["May", "in May"]},
        {"context": context, "question": "Snow?", "answer": "June"},
        {"context": context, "question": "Hail?", "answer": ""},
        {"context": "Maybe.", "question": "q", "answer": ""},  # has the characters of an answer
        {"context": "j-u-n-e", "question": "q", "answer": ""},  # scored as "June"
        {"context": "\n", "question": "q", "answer": ""},  # nothing
        {"context": f" {context}  ", "question": "q", "answer": ""},  # the same
        {"context": "A dry April.", "question": "q", "answer": ""},
    ]
    assert sorted(parts(Haystack(rows, 1000).hide(context))) == ["A dry April.", context]
    assert Haystack(rows, 8).hide(context) == context  # long enough already


def test_chinese_characters_are_half_words() -> None:
    rows = [{"context": f"第{n}条河很长。", "question": "几？", "answer": f"第{n}"} for n in "一二三四五六七八"]
    hidden = parts(Haystack(rows, 10).hide(rows[0]["context"]))
    assert len(hidden) == 4  # of 6 characters
    assert hidden.count(rows[0]["context"]) == 1


def test_questions_are_asked_of_hidden_texts(tmp_path: Path) -> None:
    answerer = FakeAnswerer()
    path = write(tmp_path / "qa.jsonl", *GARDEN)
    scores = evaluate_answers(answerer, path, among=40, limit=3)
    haystack = Haystack(GARDEN, 40)  # the contexts after the limit serve to hide those before
    assert answerer.asked == [(haystack.hide(row["context"]), [row["question"]]) for row in GARDEN[:3]]
    assert (scores["n"], scores["short"]) == (3, 0)
    assert 40 <= scores["words"] < 47
    scores = evaluate_answers(answerer, path, among=500)
    assert (scores["n"], scores["short"]) == (10, 10)
    assert scores["words"] == 70
