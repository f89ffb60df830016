"""Summaries of a file: ROUGE by hand, the baselines, and what is made up."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tx.model.errors import InputError, UsageError
from tx.model.results import Summary
from tx.model.summary_scores import evaluate_summaries, lead, lexrank, names_and_numbers, rouge_words


class FakeSummarizer:
    """The summary of a text is what follows its last colon."""

    def __init__(self) -> None:
        self.settings: list[dict[str, object]] = []

    def summarize(self, text: str, **settings: object) -> Summary:
        self.settings.append(settings)
        return Summary(text.rsplit(":", 1)[-1].strip())


def write(path: Path, *rows: object) -> Path:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


ROWS = [
    # In common: the, cat, mat (3 of 4 and 4); "the cat" (1 of 3 and 3); the cat … mat in this order
    {"text": "a dog: the cat, a mat", "summary": "The cat on mat"},
    # 河 上 船 of 3 and 4 characters; 河上 of 2 and 3 pairs; in order 河 上 船
    {"text": "天:河上船", "summary": "河上有船。"},
]


def test_rouge_by_hand(tmp_path: Path) -> None:
    summarizer = FakeSummarizer()
    path = write(tmp_path / "s.jsonl", *ROWS)
    scores = evaluate_summaries(summarizer, path, words=9, extract=False)  # type: ignore[arg-type]
    assert summarizer.settings == [{"words": 9, "extract": False}] * 2
    assert scores["rouge1"] == pytest.approx(100 * (3 / 4 + 2 * 3 / 7) / 2)
    assert scores["rouge2"] == pytest.approx(100 * (1 / 3 + 2 * 1 / 5) / 2)
    assert scores["rougeL"] == pytest.approx(100 * (3 / 4 + 2 * 3 / 7) / 2)
    # The first words, as many as the summary has: "a dog the cat" and 天 河 上. LexRank has but one sentence each.
    assert scores["lead"]["rouge1"] == pytest.approx(100 * (2 / 4 + 2 * 2 / 7) / 2)
    assert scores["lexrank"] == scores["lead"]
    assert (scores["n"], scores["made_up"], scores["names_and_numbers"]) == (2, 0, 0)
    assert scores["words"] == (4 + 1.5) / 2
    assert scores["reference_words"] == (4 + 2) / 2
    assert evaluate_summaries(summarizer, path, limit=1)["n"] == 1  # type: ignore[arg-type]


def test_made_up_is_a_share_of_all_names_and_numbers(tmp_path: Path) -> None:
    rows = [
        {"text": "Ann saw 3 boats: Ann saw 4 boats", "summary": "Ann"},  # 4 is the text's, if only in the part after :
        {"text": "we met bob: Bob met Eve", "summary": "Bob"},
    ]
    summarizer = FakeSummarizer()
    scores = evaluate_summaries(summarizer, write(tmp_path / "s.jsonl", *rows))  # type: ignore[arg-type]
    assert (scores["made_up"], scores["names_and_numbers"]) == (0, 4)

    class Liar:
        def summarize(self, text: str) -> Summary:
            return Summary("Zoe saw 7 boats")

    scores = evaluate_summaries(Liar(), write(tmp_path / "s.jsonl", *rows))  # type: ignore[arg-type]
    assert (scores["made_up"], scores["names_and_numbers"]) == (1, 4)


def test_problems(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    summarizer = FakeSummarizer()
    with pytest.raises(InputError, match="no texts"):
        evaluate_summaries(summarizer, write(tmp_path / "none.jsonl"))  # type: ignore[arg-type]
    with pytest.raises(InputError, match="line 1: expected an object with the texts text, summary"):
        evaluate_summaries(summarizer, write(tmp_path / "other.jsonl", {"text": "a"}))  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="limit"):
        evaluate_summaries(summarizer, write(tmp_path / "s.jsonl", *ROWS), limit=0)  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "sumy", None)
    with pytest.raises(UsageError, match="pip install .*sumy"):
        evaluate_summaries(summarizer, tmp_path / "s.jsonl")  # type: ignore[arg-type]
    assert summarizer.settings == []


def test_words_that_rouge_counts() -> None:
    assert rouge_words("One, two – THREE.") == ["one", "two", "three"]
    assert rouge_words("我用 iPhone15") == ["我", "用", "iphone15"]
    assert rouge_words("…") == []


def test_lead() -> None:
    assert lead("One, two – three.", 2) == "one two"
    assert lead("我用 iPhone", 3) == "我 用 iphone"
    assert lead("short", 9) == "short"


# Two sentences are alike in their words, and one of them is like a third; the others stand alone.
STORY = (
    "Nobody came yesterday. "
    "The harbour bridge was closed by heavy snow. "
    "Cats purr. "
    "Heavy snow closed the harbour bridge and the school. "
    "Lemons grew cheaper. "
    "The school reopens Monday."
)


def test_lexrank_takes_the_sentence_that_the_others_are_like() -> None:
    assert lexrank(STORY, 9) == "heavy snow closed the harbour bridge and the school"
    assert lexrank(STORY, 3) == "heavy snow closed"


def test_lexrank_is_in_the_order_of_the_text_and_cut_at_the_least_of_its_sentences() -> None:
    both = lexrank(STORY, 12)
    assert both.endswith("heavy snow closed the harbour bridge and the school")
    assert len(both.split()) == 12
    assert lexrank(STORY, 1000).split() == rouge_words(STORY)


def test_lexrank_of_chinese() -> None:
    text = "昨天没有人来。大雪封了海港的桥。猫在睡觉。大雪封了海港的桥和学校。桥和学校再开。"
    assert lexrank(text, 11) == " ".join("大雪封了海港的桥和学校")
    assert lexrank(text, 3) == "大 雪 封"


@pytest.mark.parametrize("text", ["", "…", "One only.", "First here. Second there.", "Same. Same. Same.", "1. 2. 3."])
def test_lexrank_of_little(text: str, recwarn: pytest.WarningsRecorder) -> None:
    assert lexrank(text, 50).split() == rouge_words(text)
    assert not recwarn.list
    assert lexrank(text, 0) == ""


@pytest.mark.parametrize(
    ("summary", "text", "new", "total"),
    [
        ("Anna met Bob in 1999.", "Then Anna met a man in 1998.", 2, 3),  # Bob and 1999
        ("The old bridge.", "Near the bridge", 0, 1),  # a sentence's first word may be there in small letters
        ("Paris is large.", "Rome is large.", 1, 1),
        ("It fell. Rome burnt.", "rome burnt, and it fell", 0, 2),
        ("it was Rome", "rome", 1, 1),  # not inside a sentence
        ("3.5 of 10,000", "10,000 and 3.5", 0, 2),
        ("3.5", "35", 1, 1),
        ("2 boats", "12 boats", 1, 1),
        ("桥在河上。", "船", 0, 0),
        ("用Adam求解T桥", "Adam方法和T的桥", 0, 2),  # a word ends where Chinese begins
        ("", "text", 0, 0),
    ],
)
def test_names_and_numbers(summary: str, text: str, new: int, total: int) -> None:
    assert names_and_numbers(summary, text) == (new, total)
