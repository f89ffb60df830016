"""Subtitles: what is said together is translated together, and comes back into its cues."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tx.model.errors import InputError
from tx.model.formats import parse
from tx.model.formats.spread import spread, width


def srt(*cues: str, gap: float = 0.1) -> str:
    blocks, at = [], 1.0
    for number, text in enumerate(cues, start=1):
        blocks.append(f"{number}\n{_stamp(at)} --> {_stamp(at + 2)}\n{text}\n")
        at += 2 + gap
    return "\n".join(blocks)


def _stamp(seconds: float) -> str:
    return f"00:{int(seconds) // 60:02}:{int(seconds) % 60:02},{round(1000 * (seconds % 1)):03}"


@pytest.mark.parametrize(
    ("cues", "texts"),
    [
        (["We went to", "the river. Then", "we swam."], ["We went to the river.", "Then we swam."]),
        (["Good morning.", "How are you?"], ["Good morning.", "How are you?"]),
        (["We met", "Anna there."], ["We met Anna there."]),
        (["Chapter One", "The River"], ["Chapter One", "The River"]),
        (["Wait...", "...for me."], ["Wait...", "...for me."]),
        (["- Who is it?\n- Me."], ["Who is it?", "Me."]),
        (["<i>We went to</i>\n<i>the river.</i>"], ["We went to the river."]),
        (["<i>No.</i> I <b>won't</b> go"], ["No.", "I <b>won't</b> go"]),
        (["{\\an8}Up", "(door closes)", "♪ la la ♪"], ["Up", "(door closes)", "la la"]),
        (["我们去了，", "河边", "她来了"], ["我们去了，河边", "她来了"]),
        (["one\n\ntwo"], ["one", "two"]),
        # who speaks, sings, or what is heard, is not joined with others
        (["- Hello.\n- Hi."], ["Hello.", "Hi."]),
        (["- and", "- so"], ["and", "so"]),
        (["{\\an8}- Hello.\n- Hi."], ["Hello.", "Hi."]),
        (["{\\an8}<i>- Who is\nit?</i>\n<i>- Me.</i>"], ["Who is it?", "Me."]),
        (["ANNA: Hello\nTOM: Hi."], ["ANNA: Hello", "TOM: Hi."]),
        (["Anna: I see.\nTom: Me too."], ["Anna: I see.", "Tom: Me too."]),
        (["ANNA: I want to", "TOM: No."], ["ANNA: I want to", "TOM: No."]),
        (["I say one\nthing: we go"], ["I say one thing: we go"]),
        (["安娜：你好。\n汤姆：再见。"], ["安娜：你好。", "汤姆：再见。"]),
        (["[music]\nHello there"], ["[music]", "Hello there"]),
        (["We went to\n(door opens)\nthe river."], ["We went to", "(door opens)", "the river."]),
        (["♪ my old\nfriend ♪", "and so"], ["my old friend", "and so"]),
        (["It is\n-5 degrees."], ["It is -5 degrees."]),
        (['He said, "I see.\nI go." He', "left."], ['He said, "I see. I go."', "He left."]),
    ],
)
def test_sentences(cues: list[str], texts: list[str]) -> None:
    document = parse("srt", srt(*cues))
    if cues[0] == "We met":  # only where sentences have marks does a missing one say something
        document = parse("srt", srt(*cues, "Yes.", "No."))
        texts = [*texts, "Yes.", "No."]
    assert document.texts == texts


@pytest.mark.parametrize(
    ("cue", "outputs", "filled"),
    [
        ("{\\an8}- Hello.\n- Hi.", ["好。", "嗨。"], "{\\an8}- 好。\n- 嗨。"),
        ("{\\an8}<i>- Hello.</i>\n<i>- Hi.</i>", ["好。", "嗨。"], "{\\an8}<i>- 好。</i>\n<i>- 嗨。</i>"),
        ("[music]\nHello there.", ["[音乐]", "你好。"], "[音乐]\n你好。"),
        ("ANNA: Hello.\nTOM: Hi.", ["安娜：好。", "汤姆：嗨。"], "安娜：好。\n汤姆：嗨。"),
    ],
)
def test_dashes_names_and_noises_keep_their_lines(cue: str, outputs: list[str], filled: str) -> None:
    document = parse("srt", srt(cue))
    assert document.fill(document.texts) == srt(cue)
    assert document.fill(outputs) == srt(filled)


@pytest.mark.parametrize(
    ("output", "filled"),
    [
        ("我读了<i>大河，然后</i>又睡了一会儿。", ["我读了<i>大河，然后</i>", "又睡了一会儿。"]),
        ("我很早就读了<i>大河</i>睡了。", ["我很早就读了<i>大河</i>", "睡了。"]),
    ],
)
def test_tags_stay_in_the_cue_that_had_them(output: str, filled: list[str]) -> None:
    document = parse("srt", srt("I read <i>The River</i>", "and then I slept a while."))
    assert document.fill([output]) == srt(*filled)


def test_a_pause_ends_a_sentence() -> None:
    assert parse("srt", srt("and then", "we swam", gap=5)).texts == ["and then", "we swam"]


def test_a_sentence_is_spread_over_its_cues_where_it_reads_well() -> None:
    text = srt("I went down to the river yesterday,", "because my brother wanted", "to swim. Nobody <b>else</b> came.")
    document = parse("srt", text)
    filled = document.fill(["昨天我到河边去了，因为我的哥哥想游泳。", "<b>别人</b>没有来。"])
    assert filled == srt("昨天我到河边去了，", "因为我的哥哥想", "游泳。<b>别人</b>没有来。")
    assert document.problems == []


def test_sentences_in_one_cue_stay_apart() -> None:
    document = parse("srt", srt("One. Two\nand three."))
    assert document.fill(["Eins.", document.texts[1]]) == srt("Eins. Two and three.")
    assert document.fill(["一。", "二。"]) == srt("一。二。")


def test_tags_around_the_lines_of_a_cue_stay_around_it_and_long_lines_are_broken() -> None:
    document = parse("srt", srt("<i>We went to</i>\n<i>the river.</i>"))
    assert document.fill(["一。"]) == srt("<i>一。</i>")
    long = "word " * 12
    assert document.fill([long.strip()]) == srt("<i>" + "word " * 5 + "word\n" + "word " * 5 + "word</i>")


def test_a_tag_that_a_cut_parts_is_closed_and_opened_again() -> None:
    document = parse("srt", srt("We <i>went to the", "old river</i> today."))
    assert document.fill(["今天我们<i>去了那条非常古老的河</i>。"]) == srt(
        "今天我们<i>去了那</i>", "<i>条非常古老的河</i>。"
    )


def test_a_text_shorter_than_its_cues_is_shown_in_each() -> None:
    assert parse("srt", srt("and", "so on.")).fill(["等"]) == srt("等", "等")


def test_nothing_in_a_translation_can_break_a_cue() -> None:
    document = parse("srt", srt("Hello there."))
    assert document.fill(["a --> b\n\nc"]) == srt("a → b c")
    assert document.fill(["  "]) == document.source
    assert document.problems == ["line 3: the translation is empty; left as it is"]


VTT = """WEBVTT - Title

STYLE
::cue { color: red }

NOTE and so
on --> not a cue

intro
00:01.000 --> 00:02.000 line:0 align:start
<v Anna>Tom &amp; I &lt;3 <c.loud>rivers</c>.</v>

00:02.500 --> 00:03.000
Bye.
"""


def test_webvtt() -> None:
    document = parse("vtt", VTT)
    assert document.texts == ["Tom & I &lt;3 <c.loud>rivers</c>.", "Bye."]
    assert document.fill(document.texts) == VTT
    filled = document.fill(["A & B < C &lt;3 <c.loud>河</c>", "再见"])
    assert filled == VTT.replace(
        "Tom &amp; I &lt;3 <c.loud>rivers</c>.", "A &amp; B &lt; C &lt;3 <c.loud>河</c>"
    ).replace("Bye.", "再见")


def test_what_is_no_file_of_subtitles() -> None:
    with pytest.raises(InputError, match="not SubRip"):
        parse("srt", "Just some text.\n")
    with pytest.raises(InputError, match="not WebVTT"):
        parse("vtt", "1\n00:00:01.000 --> 00:00:02.000\nHello\n")
    assert parse("srt", "").texts == parse("vtt", "\n").texts == []


@given(st.text(alphabet="ab 中文，。<i>/{}9", max_size=30), st.lists(st.integers(1, 20), min_size=1, max_size=5))
def test_spreading_loses_nothing_but_spaces(text: str, lengths: list[int]) -> None:
    parts = spread(text, lengths)
    assert len(parts) == len(lengths)
    assert "".join(parts).replace(" ", "") == text.replace(" ", "")
    assert all(part == part.strip() for part in parts)


@pytest.mark.parametrize(
    ("text", "lengths", "parts"),
    [
        ("one two three four", [1, 1], ["one two", "three four"]),
        ("one two, three four five", [1, 1], ["one two,", "three four five"]),
        ("我们去了河边，因为天气好", [1, 1], ["我们去了河边，", "因为天气好"]),
        ("他说「好」了", [2, 4], ["他说", "「好」了"]),
        ("价格是12345元", [4, 3], ["价格是", "12345元"]),
        ("<a b c d e f>", [1, 1], ["", "<a b c d e f>"]),
        ("Supercalifragilistic", [1, 1], ["", "Supercalifragilistic"]),
        ("", [1, 1], ["", ""]),
    ],
)
def test_where_a_text_is_cut(text: str, lengths: list[int], parts: list[str]) -> None:
    assert spread(text, lengths) == parts


def test_width() -> None:
    assert width("<i>ab</i>中{\\an8}") == 4
