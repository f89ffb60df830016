"""Capitals where nobody would expect them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tx.model.casing import usual_case


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("WHAT ELSE IS HAPPENING?", "What else is happening?"),
        ("WHAT SHOULD I DO, AND WHERE AM I?", "What should I do, and where am I?"),
        ("HEllo, HoW aRe you", "Hello, how are you"),
        ("“STOP THERE!”", "“Stop there!”"),
        ("ATTENTION", "Attention"),
        ("DON'T WALK", "Don't walk"),
        ("12 MONKEYS CAME", "12 Monkeys came"),
    ],
)
def test_what_is_read_in_small_letters(text: str, expected: str) -> None:
    assert usual_case(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "", "12:30", "NASA", "The BBC is on.", "I am here.", "I", "OK", "It is OK", "TV", "AI", "USA UK EU", "McDonald's fries",
        "JavaScript", "YouTube and iPhone", "getUserName", "We met John MacArthur.", "TVs", "我爱 NLP", "我爱北京", "Ph.D.",
        "A b c", "eBay", "What a day",
    ],
)  # fmt: skip
def test_what_stays(text: str) -> None:
    assert usual_case(text) == text


@given(st.text())
def test_the_length_stays_and_only_the_case_changes(text: str) -> None:
    changed = usual_case(text)
    assert len(changed) == len(text)
    assert changed.casefold() == text.casefold() or changed.lower() == text.lower()
    assert usual_case(changed) == changed
