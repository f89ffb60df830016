"""What of a text may stand in a summary, and what its sentences have in common."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tx.model import prose


@pytest.mark.parametrize(
    "part",
    [
        "The bridge is old.",
        "Anna met Bob.",
        "It rains!",
        "Fix the lamp on the bridge",
        "fix: no boat is left behind",
        "boat - crosses a river",
        "“Really?” he asked.",
        "By 1954 some 20 boats had crossed it.",
        "Die Brücke über den Fluss ist alt.",
        "Мост через реку очень старый.",
        "桥在河上。",
        "修好桥上的灯",
        "用 GPU 训练模型，速度提高了一倍。",
    ],
)
def test_sentences(part: str) -> None:
    assert prose.is_prose(part)


@pytest.mark.parametrize(
    "part",
    [
        "commit 09a4647a732151e9a277729b90b2e5139fb71432",
        "Author: A. Hill <hill@mail.example>",
        "Date:   Mon Nov 30 01:16:50 2026 +0000",
        "Signed-off-by: all of us together",
        "Merge branch 'lamp' of the other bridge",
        "boat -a [-f FILE] [BANK...]",
        "-a, --all",
        "Overview.",
        "NAME",
        "Four!",
        "What follows is a list:",
        "| it is | in a table |",
        "x = y + 1;",
        "https://a.example/the/old/bridge",
        "12:30",
        "安装",
        "…",
    ],
)
def test_no_sentences(part: str) -> None:
    assert not prose.is_prose(part)


TEXT = """\
# The bridge that is old

It is old. `go` is what to type:

```sh
# this goes over it
go over the bridge
```

* It is long.
- It is wide, and when one stands in the very middle of it one sees

boat - goes under it
"""


def test_what_may_stand_in_a_summary() -> None:
    places = prose.sentences(TEXT)
    good = [TEXT[a:b] for (a, b), one in zip(places, prose.are_prose(TEXT, places), strict=True) if one]
    # the third item lacks its end, as others have theirs
    assert good == ["It is old.", "It is long.", "boat - goes under it"]


def test_where_no_sentence_has_a_mark_none_is_needed() -> None:
    text = "Add a lamp to the bridge so that we can see the river at night\nfix it\nfix the lamp that we have"
    places = prose.sentences(text)
    assert prose.are_prose(text, places) == [True, False, True]


@given(st.text(st.sampled_from("ab .\n\r#-*`1)桥。 |"), max_size=40))
def test_markers_are_left_out_and_nothing_else(text: str) -> None:
    places = prose.sentences(text)
    assert len(prose.are_prose(text, places)) == len(places)
    for start, end in places:
        assert start < end and text[start:end] == text[start:end].strip()


def test_a_sentence_on_one_line() -> None:
    assert prose.clean("a  be\u2010\n   tween\r\n\tb - c") == "a between b - c"
    assert prose.clean("well\u2010known, pre-\nwar") == "well\u2010known, pre- war"


def test_centrality_by_hand() -> None:
    """Three parts, "b" in two of them: its weight is 1 + ln 3/2, that of the others 1 + ln 3."""
    b, other = 1.4054651, 2.0986123
    parts = [Counter("ab"), Counter("b"), Counter("cc")]
    length = (b * b + other * other) ** 0.5
    cosine = b / length  # of the first two; the third has nothing in common with them
    first = 1 + cosine
    assert prose.centrality(parts) == pytest.approx([1.0, first / first, 1 / first])
    assert prose.centrality([Counter(), Counter("a")]) == [0.0, 1.0]
    assert prose.centrality([]) == []
