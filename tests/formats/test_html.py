"""HTML: what is a unit, what is a mark in one, what is left alone; and where the scanner finds tags."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tx.model.formats import parse
from tx.model.formats.html_tags import scan


@pytest.mark.parametrize(
    ("page", "texts"),
    [
        ("<h1>One</h1><p>Two\n  three<br>four", ["One", "Two three", "four"]),
        ("<p>A <b>bold</b> word</p>", ["A <b>bold</b> word"]),
        ("<p><b>All bold</b></p>", ["All bold"]),
        ('<p><a name="x"></a>Text <img src=a.png></p>', ["Text"]),
        ("<script>let a = '<p>no</p>'</script><style>p {}</style><pre>no</pre><textarea>no</textarea>yes", ["yes"]),
        ("<p>Use <code>a < b</code> here", ["Use <code>a < b</code> here"]),
        ("<p translate=no>no <b>no</b><p>yes", ["yes"]),
        ("<div translate='no'><div>no</div>no</div>yes", ["yes"]),
        ('<p>My <span class="a notranslate">Brand</span> here', ['My <span class="a notranslate">Brand</span> here']),
        ("<img alt='A dog' src=x><input placeholder=Name title=''>", ["A dog", "Name"]),
        ("<p>See <a title='The end' href=u>it</a> now", ["See <a title='The end' href=u>it</a> now", "The end"]),
        ("<title>A &amp; B</title>", ["A & B"]),
        ("caf&eacute;&nbsp;now &lt;b&gt; &amp;lt; a &lt; b", ["café now &lt;b&gt; &amp;lt; a < b"]),
        ("a < b and <3", ["a < b and <3"]),
        ("<!-- no --><p>&nbsp;</p><p>123</p>", []),
        ("中文\n  文字", ["中文文字"]),
        ("<p>Hi {{ user.name }}, hello", ["Hi {{ user.name }}, hello"]),
        ("<svg><text>no</text></svg><iframe>no</iframe>", []),
        ('<meta name="Description" content="A page"><meta property=og:title content="The river">', ["A page", "The river"]),
        ('<meta content="one, two" name=keywords><meta name="twitter:description" content="Old">', ["one, two", "Old"]),
        ('<meta name=viewport content="width=device-width"><meta http-equiv=refresh content="5; url=a">', []),
        ('<meta property="og:url" content="http://a.example/b"><meta name="author" content="Anna">', []),
        ('<meta name=description translate=no content="A page">', []),
        ("<input type=submit value='Send it'><input TYPE=\"Button\" value=Stop><input type=reset value=New>",
         ["Send it", "Stop", "New"]),
        ("<input type=text value='Anna'><input value=Anna><input type=hidden value=x><button value=go>Go</button>", ["Go"]),
        ("<option value=red label='Dark red'>Red<optgroup label=Old></optgroup><p label=no>", ["Dark red", "Red", "Old"]),
        ("<a aria-label='Close it' data-title=no href=u>x</a><i aria-description=Why></i>", ["Close it", "x", "Why"]),
        ("<p>Press <kbd>Esc</kbd>, see <samp>no</samp></p>", ["Press <kbd>Esc</kbd>, see <samp>no</samp>"]),
    ],
)  # fmt: skip
def test_units(page: str, texts: list[str]) -> None:
    assert parse("html", page).texts == texts


def test_marks_are_protected() -> None:
    document = parse("html", '<p>A <b><a href="u">word</a></b> &lt;b&gt; <code>x</code>')
    [text], [spans] = document.texts, document.protected
    assert [text[start:end] for start, end in spans] == ['<b><a href="u">', "</a></b>", "&lt;b&gt;", "<code>x</code>"]


def test_attributes_of_a_tag_in_a_sentence_are_put_into_it() -> None:
    document = parse("html", "<p>See <a title='The end' href=u>it</a> now <img alt=dog src=d>")
    outputs = ["现在看<a title='The end' href=u>它</a>", "结\"尾'", "狗 狗"]
    assert document.fill(outputs) == '<p>现在看<a title=\'结"尾&#39;\' href=u>它</a> <img alt="狗 狗" src=d>'


def test_what_means_something_in_html_is_written_as_an_entity() -> None:
    document = parse("html", '<p>AT&T &amp; you</p><img alt="x y">')
    assert document.fill(["A & B < C > D", 'a "b" <c> &']) == (
        '<p>A &amp; B &lt; C > D</p><img alt="a &quot;b&quot; &lt;c&gt; &amp;">'
    )


@pytest.mark.parametrize(
    ("page", "filled"),
    [
        ("<p>a &lt; 6 &amp;&amp; 7 &gt; 2</p>", "<p>a &lt; 6 &amp;&amp; 7 > 2!</p>"),
        ("<p>&lt;script&gt; here</p>", "<p>&lt;script&gt; here!</p>"),  # still no tag
        ("<p>&amp;lt; here</p>", "<p>&amp;lt; here!</p>"),  # still no "<"
        ("<p>a&nbsp;b &#8212; c&hellip; &copy; d&shy;e</p>", "<p>a b — c… © de!</p>"),
    ],
)
def test_entities_of_what_is_translated(page: str, filled: str) -> None:
    document = parse("html", page)
    assert document.fill(document.texts) == page
    assert document.fill([f"{text}!" for text in document.texts]) == filled


def test_a_page_that_says_another_encoding_is_said() -> None:
    for page in ('<meta charset="gb2312"><p>Text', '<meta http-equiv=a content="text/html; charset=gb2312"><p>Text'):
        document = parse("html", f"\n{page}")
        [problem] = document.problems
        assert problem.startswith("line 2: the page says that it is in gb2312")
        assert document.fill(document.texts) == document.source
    assert parse("html", '<?xml version="1.0" encoding="UTF-8"?><meta charset=utf-8><p>Text').problems == []


def test_lines_count_every_kind_of_line_end() -> None:
    assert parse("html", "<p>a\r\n<p>b\r<p>c\n\n<p>d").lines == [1, 2, 3, 5]


@given(st.text(alphabet="ab <>/=\"'!-&;\n?[]CDATA", max_size=60))
def test_tokens_have_no_gap(text: str) -> None:
    tokens = list(scan(text))
    assert "".join(text[token.start : token.end] for token in tokens) == text
    assert all(token.start < token.end for token in tokens)


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=False)
        self.tags: list[tuple[str, str, list[tuple[str, str | None]]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(("open", tag, attrs))

    def handle_endtag(self, tag: str) -> None:
        self.tags.append(("close", tag, []))


@given(
    st.lists(
        st.sampled_from(
            ["<b>", "</b>", "<br/>", "<a href=u>", "<IMG alt='a > b' src=\"x\">", "<p\nclass=x\n>", "text", "<!-- <b> -->",
             "<!DOCTYPE html>", "<i a b=c/d>", "<em title=\"it's\">", "</EM >", " < ", "<?php x ?>", "<h1 id = 'k'>"]
        ),
        max_size=8,
    ).map("".join)
)  # fmt: skip
def test_tags_are_those_that_the_standard_library_reads(text: str) -> None:
    reader = _Reader()
    reader.feed(text)
    reader.close()
    found = []
    for token in scan(text):
        if token.kind in ("open", "close"):
            found.append((token.kind, token.name, [(a.name, text[a.start : a.end]) for a in token.attributes]))
            if token.empty:  # the standard library says both of <br/>
                found.append(("close", token.name, []))
    known = [(kind, name, [(key, value) for key, value in attrs if value]) for kind, name, attrs in reader.tags]
    assert found == known
