"""Properties of every format: its own texts give the file again; with other texts, those are found again and the rest stays."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from types import ModuleType

import polib
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tx.model.formats import parse

SETTINGS = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)

_WORDS = (
    "river stone Anna walked slowly home 7 12.5 3,000 (maybe) e-mail don't x 河 石头 中文 é über a_b 5*4 C# end. Why? it's! "
    "http://a.example/b?c=1 {name} %s %(n)d <3 a<b & AT&T | \\ \\* \\_ `run` #tag [1] 100% 😀 \u00a0"
)
WORDS = st.sampled_from(_WORDS.split(" "))
SPACES = st.sampled_from([" ", " ", " ", "  ", "\t"])
LINE_ENDS = st.sampled_from(["\n", "\n", "\r\n"])


@st.composite
def sentences(draw: st.DrawFn, most: int = 8) -> str:
    words = draw(st.lists(WORDS, min_size=1, max_size=most))
    return "".join(word + draw(SPACES) for word in words[:-1]) + words[-1]


@st.composite
def markdown(draw: st.DrawFn) -> str:
    inline = st.one_of(
        sentences(4),
        st.builds("**{}**".format, sentences(3)),
        st.builds("*{}*".format, sentences(2)),
        st.builds("***{}***".format, sentences(2)),
        st.builds("~~{}~~".format, sentences(2)),
        st.builds("=={}==".format, sentences(2)),
        st.builds("`` {} ``".format, sentences(2)),
        st.builds('[{}](http://a.example/x "{}")'.format, sentences(2), st.just("A title")),
        st.builds("[{}][ref]".format, sentences(2)),
        st.sampled_from(
            ["[ref]", "[ref][]", "![ref]", "<http://auto.example>", "<b>bold</b>", "<br>", "&amp;", "&copy;"]
        ),
        st.builds("![{}](p.png)".format, sentences(2)),
        st.sampled_from(["  \n", "\\\n", "\n", "\n", "[^1]", "{{ x }}", "$a+b$", "<!-- no -->", "<code>a b</code>"]),
    )
    line = st.lists(inline, min_size=1, max_size=5).map(" ".join)
    block = st.one_of(
        line,
        st.builds("{} {}".format, st.sampled_from(["#", "##", "######"]), sentences()),
        st.builds("{} ##".format, st.builds("# {}".format, sentences())),
        st.builds("{}\n===".format, sentences()),
        st.builds("- {}\n  more\n- [ ] {}".format, line, line),
        st.builds("1. {}\n\n   ```\n   code here\n   ```\n2. {}".format, line, line),
        st.builds("> {}\n> > {}".format, sentences(), sentences()),
        st.builds("```py\n{}\n```".format, sentences()),
        st.builds("    {}".format, sentences()),
        st.builds("| {} | B |\n|---|:-:|\n| {} | `a \\| b` |\n|  | {}".format, sentences(), sentences(), sentences()),
        st.builds('<div class="x">\n<p>{}</p> <img alt="a picture">\n</div>'.format, sentences()),
        st.builds("[^1]: {}\n[^2]: More".format, sentences()),
        st.sampled_from(["---", "* * *", "[ref]: http://ref.example 'Title'", "::: note", "<!-- a\nb -->"]),
        st.text(alphabet="ab *_`[]()<>!#|\\-~\n\t&;:=1.)", max_size=25),
    )
    front = draw(st.sampled_from(["", "", "---\ntitle: The front\n---\n", "+++\na = 1\n+++\n\n"]))
    text = front + "\n\n".join(draw(st.lists(block, max_size=6))) + draw(st.sampled_from(["", "\n", "\n\n\n"]))
    return text.replace("\n", draw(LINE_ENDS))


@st.composite
def html_pages(draw: st.DrawFn) -> str:
    inline = st.recursive(
        st.one_of(
            sentences(4),
            st.sampled_from(
                ["<br>", "<br/>", "<img src=a.png alt='A \"dog\"'>", "&amp;", "&lt;b&gt;", "&nbsp;", "&eacute;"]
            ),
            st.sampled_from(
                ["<code>x < y</code>", "<!-- note -->", "<span translate='no'>Brand <b>X</b></span>", "\n  "]
            ),
            st.sampled_from(
                ["<a name=top></a>", "<input placeholder='Your name'>", "{{ user.name }}", "<", "&", "</i>", "<b>"]
            ),
        ),
        lambda inside: st.builds(
            "<{0}{1}>{2}</{0}>".format,
            st.sampled_from(["b", "a", "SPAN", "em"]),
            st.sampled_from(
                ["", ' href="u?a=1&b=2"', " title='A title'", ' title="An &quot;old&quot; one"\n', " CLASS=x "]
            ),
            st.lists(inside, min_size=1, max_size=3).map("".join),
        ),
        max_leaves=5,
    )
    run = st.lists(inline, min_size=1, max_size=4).map(" ".join)
    block = st.one_of(
        st.builds("<p>{}</p>".format, run),
        st.builds("<p>{}".format, run),
        st.builds('<H1 id="h">{}</H1>\n'.format, run),
        st.builds("<ul><li>{}<li>{}</ul>".format, run, run),
        st.builds("<table><tr><td>{}</td><th>{}</table>".format, run, run),
        st.builds("<script>if (a < b) {{ x('<p>{}</p>') }}</script>".format, sentences()),
        st.builds("<pre>{}</pre><textarea>{}</textarea>".format, sentences(), sentences()),
        st.builds("<div translate=no><p>{}</p></div>".format, run),
        st.builds("<title>{}</title><style>p {{}}</style>".format, sentences()),
        st.builds(
            "<meta name=description content='{}'><input type=submit value=\"Go on\">".format,
            sentences(2).map(html.escape),
        ),
        st.text(alphabet="ab <>/=\"'!-&;\n", max_size=20),
        run,
    )
    start = draw(st.sampled_from(["", "<!DOCTYPE html>\n<html lang=en><body>", "<?xml version='1.0'?>\n"]))
    text = start + draw(st.sampled_from(["", "\n"])).join(draw(st.lists(block, max_size=5)))
    return text.replace("\n", draw(LINE_ENDS))


SUBTITLE_LINES = st.one_of(
    sentences(6),
    sentences(3).map("<i>{}</i>".format),
    sentences(3).map("- {}".format),
    sentences(3).map("{}.".format),
    st.builds("{} <b>{}</b> on".format, sentences(2), sentences(2)),
    st.sampled_from(["{\\an8}Up there", "♪ la la ♪", "(door closes)", "and so", "...it went on", "Well,"]),
).filter(lambda line: "-->" not in line and bool(line.strip()))


@st.composite
def subtitles(draw: st.DrawFn, name: str) -> str:
    vtt = name == "vtt"
    blocks = ["WEBVTT - A film"] if vtt else []
    for number, lines in enumerate(
        draw(st.lists(st.lists(SUBTITLE_LINES, max_size=3), min_size=1, max_size=5)), start=1
    ):
        point = "." if vtt else ","
        start = f"00:00:{10 * number % 60:02}{point}000"
        end = f"00:00:{10 * number % 60 + draw(st.sampled_from([3, 9]))}{point}{draw(st.sampled_from(['500', '999']))}"
        settings_ = draw(st.sampled_from(["", " line:0 align:start"])) if vtt else ""
        label = draw(st.sampled_from([f"{number}\n", ""])) if vtt else f"{number}\n"
        blocks.append("\n".join([f"{label}{start} --> {end}{settings_}", *lines]))
        if vtt and draw(st.booleans()):
            blocks.append("NOTE A note of the\nwriter")
    return ("\n\n".join(blocks) + draw(st.sampled_from(["", "\n", "\n\n"]))).replace("\n", draw(LINE_ENDS))


@st.composite
def po_files(draw: st.DrawFn) -> str:
    def quoted(text: str) -> str:
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t") + '"'

    header = 'msgid ""\nmsgstr ""\n"Language: \\n"\n"Content-Type: text/plain; charset=UTF-8\\n"\n'
    blocks = draw(st.sampled_from([[], [header]]))
    for number, text in enumerate(draw(st.lists(sentences(), max_size=5, unique=True))):
        comments = draw(
            st.sampled_from(["", "# said by hand\n", "#: a.c:1\n#, c-format\n", "#, fuzzy\n", '#| msgid "old"\n'])
        )
        context = draw(st.sampled_from(["", f'msgctxt "menu {number}"\n']))
        kind = draw(st.integers(0, 5))
        if kind == 0:
            blocks.append(f'{comments}{context}msgid {quoted(text)}\nmsgstr "Done"\n')
        elif kind == 1:
            forms = 'msgstr[0] ""\nmsgstr[1] ""\n'
            blocks.append(f"{comments}{context}msgid {quoted(text)}\nmsgid_plural {quoted(text + ' all')}\n{forms}")
        elif kind == 2:
            blocks.append(f'#~ msgid {quoted(text)}\n#~ msgstr ""\n')
        elif kind == 3:
            blocks.append(f'{comments}{context}msgid ""\n{quoted(text)}\n"and more\\n"\nmsgstr ""\n')
        else:
            blocks.append(f'{comments}{context}msgid {quoted(text)}\nmsgstr ""\n')
    return "\n".join(blocks).replace("\n", draw(LINE_ENDS))


JSON_VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), sentences(), st.text(max_size=8)),
    lambda inside: st.one_of(
        st.lists(inside, max_size=3), st.dictionaries(st.sampled_from(["text", "id", "a.b", "Ä"]), inside, max_size=3)
    ),
    max_leaves=8,
)


@st.composite
def json_texts(draw: st.DrawFn) -> str:
    indent = draw(st.sampled_from([None, 2, "\t"]))
    ascii_ = draw(st.booleans())
    text = json.dumps({"text": draw(sentences()), "more": draw(JSON_VALUES)}, ensure_ascii=ascii_, indent=indent)
    return draw(st.sampled_from(["", " ", "\n"])) + text + draw(st.sampled_from(["", "\n", "\r\n\t"]))


@st.composite
def json_lines(draw: st.DrawFn) -> str:
    lines = [
        json.dumps({"text": draw(sentences()), "id": n}, ensure_ascii=False) for n in range(draw(st.integers(1, 4)))
    ]
    return draw(st.sampled_from(["\n", "\r\n", "\n\n"])).join(lines) + draw(st.sampled_from(["", "\n"]))


@st.composite
def tables(draw: st.DrawFn, delimiter: str) -> str:
    def cell(text: str) -> str:
        quotes = draw(st.booleans()) or any(char in text for char in f'{delimiter}"\r\n')
        if delimiter == "\t":
            return re.sub(r"[\t\r\n]", " ", text)
        return '"' + text.replace('"', '""') + '"' if quotes else text

    end = draw(LINE_ENDS)
    rows = [["id", "text"]]
    rows += [[draw(st.sampled_from(["1", "", 'a "b"'])), draw(sentences())] for _ in range(draw(st.integers(0, 4)))]
    return end.join(delimiter.join(map(cell, row)) for row in rows) + draw(st.sampled_from(["", end]))


PLAIN = st.lists(st.one_of(sentences(), st.just(""), sentences().map("  {} ".format)), max_size=6)


@st.composite
def plain(draw: st.DrawFn) -> str:
    return draw(LINE_ENDS).join(draw(PLAIN))


DOCUMENTS = {
    "text": plain(),
    "markdown": markdown(),
    "html": html_pages(),
    "srt": subtitles("srt"),
    "vtt": subtitles("vtt"),
    "po": po_files(),
    "json": json_texts(),
    "jsonl": json_lines(),
    "csv": tables(","),
    "tsv": tables("\t"),
}
FIELDS = {"json": ["text"], "jsonl": ["text"], "csv": ["text"], "tsv": ["text"]}


@pytest.mark.parametrize("name", DOCUMENTS)
@SETTINGS
@given(data=st.data())
def test_the_own_texts_give_the_document_byte_for_byte(name: str, data: st.DataObject) -> None:
    text = data.draw(DOCUMENTS[name])
    document = parse(name, text, fields=FIELDS.get(name, ()), target="zh")
    assert document.fill(document.texts) == text
    assert len(document.texts) == len(document.protected) == len(document.lines)
    for unit, spans, line in zip(document.texts, document.protected, document.lines, strict=True):
        assert unit == unit.strip() != ""
        assert 1 <= line <= len(re.split(r"\r\n?|\n", text))
        ends = [0, *(place for span in spans for place in span), len(unit)]
        assert ends == sorted(ends) and all(start < end for start, end in spans)


@pytest.mark.parametrize("name", [name for name in DOCUMENTS if name not in ("po", "srt", "vtt")])
@SETTINGS
@given(data=st.data())
def test_other_texts_are_found_again_and_all_else_stays(name: str, data: st.DataObject, bench: ModuleType) -> None:
    document = parse(name, data.draw(DOCUMENTS[name]), fields=FIELDS.get(name, ()))
    outputs = bench.with_other_letters(document)
    again = parse(name, document.fill(outputs), fields=FIELDS.get(name, ()))
    if not document.problems:
        assert bench.words(again.texts, again.protected) == bench.words(outputs, document.protected)
        assert bench.around(again) == bench.around(document)


@pytest.mark.parametrize("name", ["srt", "vtt"])
@SETTINGS
@given(data=st.data())
def test_other_subtitles_keep_numbers_and_timings_and_all_words(
    name: str, data: st.DataObject, bench: ModuleType
) -> None:
    text = data.draw(DOCUMENTS[name])
    document = parse(name, text)
    outputs = bench.with_other_letters(document)
    filled = document.fill(outputs)

    def frame(some: str) -> list[str]:
        return [
            line for line in re.split(r"\r\n|\n", some) if "-->" in line or line.isdigit() or line.startswith("NOTE")
        ]

    def letters(some: str) -> str:
        some = re.sub(r"WEBVTT.*|NOTE.*\r?\nwriter|.* --> .*", "", some)
        return re.sub(r"</?\w[^<>]*>|\{[^}]*\}|[^a-zA-Z]", "", html.unescape(some))

    assert frame(filled) == frame(text)
    assert letters(filled) == letters("".join(outputs))


@SETTINGS
@given(data=st.data())
def test_polib_reads_what_was_filled_in(data: st.DataObject, tmp_path: Path) -> None:
    text = data.draw(DOCUMENTS["po"])
    document = parse("po", text, target="zh")
    outputs = [f"【{unit}】" for unit in document.texts]
    path = tmp_path / "a.po"
    path.write_bytes(document.fill(outputs).encode())
    before, after = polib.pofile(text), polib.pofile(str(path))
    assert [entry.msgid for entry in after] == [entry.msgid for entry in before]
    for old, new in zip(before, after, strict=True):
        wanted = old.msgid_plural or old.msgid
        if old.obsolete or old.msgstr or any(old.msgstr_plural.values()) or not wanted.strip():
            assert (new.msgstr, new.msgstr_plural, new.flags) == (old.msgstr, old.msgstr_plural, old.flags)
            continue
        said = [new.msgstr] if not old.msgid_plural else list(new.msgstr_plural.values())[:1]
        assert [value.strip() for value in said] == [f"【{wanted.strip()}】"]
        assert "fuzzy" in new.flags and set(old.flags) <= set(new.flags)


def test_the_script_for_real_documents(
    bench: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.md").write_text("# One\n\nTwo *three*\nfour.\n")
    (tmp_path / "b.html").write_text("<p>One <b>two</b></p>")
    (tmp_path / "c.json").write_text('{"broken": ')
    monkeypatch.setattr("sys.argv", ["round_trips.py", str(tmp_path)])
    assert bench.main() == 0
    assert capsys.readouterr().out.splitlines() == [
        "html: 1 files, 1 units, 0 not understood, 0 units put in otherwise",
        "json: 1 unreadable",
        "markdown: 1 files, 2 units, 0 not understood, 0 units put in otherwise",
    ]
