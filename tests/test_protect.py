"""What comes through unchanged: which stretches are found, and that nothing is lost when they are hidden."""

from __future__ import annotations

import string
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tx.model.protect import SLOTS, Span, emptied, hide, hide_same, missing, restore, spans

KEPT = [
    "2024-05-01", "10:30", "10:30:15", "5–10", "2010-2020", "3~5", "$1,234.56", "¥99", "€5", "US$5", "5€", "20%", "50 %",
    "3.5", "-5", "1/2", "24/7", "90°", "20°C", "1e-5", "4x4", "1920x1080", "+86 138-0000-0000", "(555) 123-4567",
    "555-123-4567", "1.2.3-rc1", "v2.0", "v1.2.3-beta.1", "2.x", "192.168.0.1:8080", "192.168.0.0/16", "fe80::1",
    "00:1A:2B:3C:4D:5E", "d41d8cd98f00b204e9800998ecf8427e", "90a2055e", "550e8400-e29b-41d4-a716-446655440000", "0x1F",
    "$x^2$", r"$\alpha + \beta$", r"$$\frac{1}{2}$$", r"\cite{knuth84}", r"\(a+b\)", "{{mustache}}", "{{ user.name }}",
    "${VAR}", "$HOME", "%(name)s", "%1$s", "%s", "%-10s", "%.2f", "%%", "{0:.2f}", "{}", "{name}", "%{count}",
    '<tag attr="x y">', "<b>", "</b>", "<br/>", "<input disabled>", "<!-- to do -->", "&nbsp;", "&#39;", "&#x27;",
    "/usr/local/bin", "~/notes", "./run.sh", "../a/b", r"C:\Windows\System32\cmd.exe", "src/main.py", "README.md",
    "node.js", "a.tar.gz", ".gitignore", ".NET", "@user", "#123", "#hashtag", "C++", "C#", "snake_case", "call()",
    "os.path.join()", "getName", "iPhone", "std::vector", "__init__", "--help", "--format=json", "-x", "MP3", "GPT-4",
    "COVID-19", "x86", "H2O", "5G", "https://example.com/a?b=c&d=1#e", "http://x.org/y_(z)", "www.foo.com", "foo.com",
    "docs.foo.org/a/b", "HTTPS://X.COM", "mailto:a@b.cn", "me@x.org", "first.last+tag@mail.example.co.uk", "[[Wiki page]]",
    ":smile:", "`ls -l`", "``a ` b``"[0:2] + "a b``", "👍", "👍🏽", "👨‍👩‍👧", "🇨🇳", "🏴󠁧󠁢󠁥󠁮󠁧󠁿", "1️⃣", "❤️", "🎉🎉", "©", "≥", "→",
    "1234567890123456789012345678901234567890", SLOTS[0], SLOTS[-1],
]  # fmt: skip


@pytest.mark.parametrize("text", KEPT)
@pytest.mark.parametrize("frame", ["We saw {} there.", "我们在这里看到{}了。", "{}", "It is {}, yes", "（{}）"])
def test_what_is_kept(text: str, frame: str) -> None:
    at = frame.index("{}")
    assert Span(at, at + len(text), text) in spans(frame.replace("{}", text)) or text == "mailto:a@b.cn"


@pytest.mark.parametrize(
    "text",
    [
        "a well-known, old-fashioned idea", "don't, I've, the user's and o'clock", "The end of a word.The next one.",
        "He went home.she was there", "3月", "11月", "第1", "第 2 章", "3万", "10亿", "星期3", "5多万人", "either and/or both",
        "he/she", "a < b", "a > b and b < c", "a <b and c> d", "% of all", "No. It is so.", "The U.S. and e.g. Mr. Smith",
        "I met McDonald's people", "JavaScript and YouTube", "NASA, the BBC and Ph.D. students", "Hello.World", "“quoted”",
        "what?! really...", "A & B; C", "one, two: three", "我爱北京", "中文，标点。", "a - b — c", "under_", "It's 'so'.", "1月球"[:2],
        "_emphasis_ of words", "price in $ or €",
    ],
)  # fmt: skip
def test_what_is_not_kept(text: str) -> None:
    assert spans(text) == []


def test_letters_of_an_ordinal_are_translated() -> None:
    assert [span.output for span in spans("the 1st, 2nd and 21st, at 5pm, in the 1990s")] == [
        "1",
        "2",
        "21",
        "5",
        "1990",
    ]


def test_money_is_no_formula() -> None:
    assert [span.output for span in spans("it costs $5 and $6, or US$7 to $8.")] == ["$5", "$6", "US$7", "$8"]


def test_marks_after_an_address_belong_to_the_sentence() -> None:
    text = "See (http://x.org/a), http://x.org/b. Or 'https://y.cn/c'! 请看https://z.cn/d，好吗？[e](http://x.org/f)"
    addresses = [span.output for span in spans(text) if "//" in span.output]
    assert addresses == ["http://x.org/a", "http://x.org/b", "https://y.cn/c", "https://z.cn/d", "http://x.org/f"]


def test_neighbours() -> None:
    assert [span.output for span in spans("{a}{b}%s%d 👍5")] == ["{a}", "{b}", "%s", "%d", "👍", "5"]
    assert [span.output for span in spans("版本v2.0和3.5版用iPhone15打开README.md文件")] == [
        "v2.0", "3.5", "iPhone15", "README.md",
    ]  # fmt: skip


def test_given_stretches_come_first() -> None:
    text = "the answer is 42 in room 7"
    assert spans(text, [(4, 16)]) == [Span(4, 16, "answer is 42"), Span(25, 26, "7")]
    assert spans(text, [Span(4, 10, "答案")])[0] == Span(4, 10, "答案")
    # the longer of two that begin together; what overlaps, is empty or out of range is left out
    assert spans("aaa bbb ccc", [(0, 3), (0, 7), (4, 11), (5, 5), (-1, 2), (8, 99), (8, 11)]) == [
        Span(0, 7, "aaa bbb"),
        Span(8, 11, "ccc"),
    ]


# Text that has much of what is looked for.
SNIPPETS = st.sampled_from(
    [*KEPT, " ", "word", "我们", ". ", "，", "(", ")", "$", "%", "`", "<", "{", "}", "_", "-", "."]
)
TEXTS = st.one_of(st.text(), st.lists(SNIPPETS, max_size=12).map("".join))


@given(TEXTS, st.lists(st.tuples(st.integers(-2, 40), st.integers(-2, 40)), max_size=4))
def test_hidden_and_restored(text: str, also: list[tuple[int, int]]) -> None:
    found = spans(text, also)
    assert all(text[s.start : s.end] == s.output and s.start < s.end for s in found)
    assert all(a.end <= b.start for a, b in zip(found, found[1:], strict=False))
    found = found[: len(SLOTS)]
    hidden, outputs = hide(text, found)
    if len(found) < len(SLOTS):
        assert [char for char in hidden if char in SLOTS] == list(SLOTS[: len(found)])
        assert restore(hidden, outputs) == text or also
        assert also or missing(outputs, text) == []


def test_more_than_there_are_slots_for() -> None:
    numbers = " ".join(map(str, range(10, 11 + len(SLOTS))))
    with pytest.raises(ValueError, match="more than 16 spans"):
        hide(numbers, spans(numbers))


def test_what_looks_like_a_slot_is_none() -> None:
    a, b = SLOTS[:2]
    assert hide(f"{b} x {a}", spans(f"{b} x {a}")) == (f"{a} x {b}", [b, a])
    assert hide(f"x{b}y", []) == ("xy", [])


def test_restore() -> None:
    a, b, c = SLOTS[:3]
    assert restore(f"{b} und {a}", ["x", "y"]) == "y und x"
    assert restore(f"{a}{c}", ["x", "y"]) == "x"  # a slot that stands for nothing
    assert restore(f"{a}", [b]) == b  # what is set in is not read again
    assert restore("plain", []) == "plain"
    assert restore(f"1{a}{b}2{c}", ["3", "4", "x"]) == "1 3 4 2x"  # no number runs into another
    assert restore(f"我 {a} 好 {b} 好", ["神经网络", "NLP"]) == "我神经网络好 NLP 好"


def test_hide_same() -> None:
    a, b, c = SLOTS[:3]
    assert hide_same("有 2 个和 2024 个", ["2", "2024"]) == f"有 {a} 个和 {b} 个"
    assert hide_same("2024 年的 2 月", ["2", "2024"]) == f"{b} 年的 {a} 月"
    assert hide_same("3 和 3", ["3", "3", "4"]) == f"{a} 和 {b}"
    assert hide_same("没有", ["3"]) == "没有"
    assert restore(hide_same("5 到 15，再到 5", ["5", "15", "5"]), ["5", "15", "5"]) == "5 到 15，再到 5"
    assert c not in hide_same("5 到 15", ["5", "15", "5"])


def test_missing() -> None:
    assert missing(["2", "2024"], "2 in 2024") == []
    assert missing(["2", "2024"], "in 2024") == ["2"]
    assert missing(["5", "5", "x"], "5 y") == ["5", "x"]
    assert missing(["2"], "12 and 20") == ["2"]
    assert missing(["b", "a"], "a b") == []
    assert missing([], "anything") == []


@pytest.mark.parametrize("word", [*string.printable, "我", "。", "👍", "\u200d", "\ue000", "a1", "a-", "a.", "a1-", "1.", "1,",
    "a_", "_a", "$a", "$1", "{", "{{", "<a ", "<a =", "a@", "a.b@", "--a", "/a", "a/", "http://", "http://)", "\\a", "\\(", "\\[",
    "`a", "%(a", "aB", "aB_", "::", "a::", "1:", "a:", "[[", "&a", "+1 ", "+1-1", "0x", "<!--", "A-1", "Aa1_", "a()", "a.com", "ab.com/",
    "1.1.1.", "aA1", "F", "3F", "😀\ufe0f"])  # fmt: skip
@pytest.mark.parametrize("tail", ["", "_"])
def test_time_grows_with_the_length_alone(word: str, tail: str) -> None:
    start = time.process_time()
    spans(word * (30_000 // len(word)) + tail)
    assert time.process_time() - start < 5  # quadratic takes minutes


@pytest.mark.parametrize(
    ("source", "output", "lost"),
    [
        ("<b>Bold</b> text", "<b> </b> 文本", ["<b>"]),
        ("<b>Bold</b> text", "<b>粗体</b> 文本", []),
        ("<i>one</i> and <i>two</i>", "<i>一</i>和<i></i>", ["<i>"]),
        ('<a href="/x"><b>Go</b></a>', '<a href="/x"><b></b></a>', ['<a href="/x">', "<b>"]),
        ("<b>ten</b>", "<b>10</b>", []),
        ("a<br/>b <b></b>", "甲<br/>乙<b></b>", []),
        ("{% if x %}Hello{% endif %} you", "{% if x %}{% endif %}你好", ["{% if x %}"]),
        ("{%- if x -%}Hello{%- endif -%}", "{%- if x -%}你好{%- endif -%}", []),
        ("<p>an open tag <b>here</p>", "<p>这里<b></p>", []),
    ],
)
def test_text_between_tags_that_is_gone(source: str, output: str, lost: list[str]) -> None:
    assert sorted(emptied(source, output)) == sorted(lost)
