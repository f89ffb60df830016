"""gettext: what is filled in, how it is written, what is left alone."""

from __future__ import annotations

import polib
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tx.model.errors import InputError
from tx.model.formats import parse
from tx.model.formats.gettext_po import PLURAL_FORMS

HEADER = """msgid ""
msgstr ""
"Language: \\n"
"Plural-Forms: nplurals=INTEGER; plural=EXPRESSION;\\n"
"Content-Type: text/plain; charset=UTF-8\\n"

"""
ENTRIES = """# by hand
#: main.c:1
#, c-format
msgid "Copied %d files\\n"
msgstr ""

msgid "Done"
msgstr "Fertig"

#, fuzzy
msgid "Open"
msgstr ""

#, fuzzy
msgid "Old"
msgstr "Alt"

msgctxt "menu"
msgid ""
"A long "
"text"
msgstr ""
""

msgid "%d file"
msgid_plural "%d files"
msgstr[0] ""
msgstr[1] ""

#~ msgid "Gone"
#~ msgstr ""
"""


def test_only_what_is_empty_is_translated() -> None:
    document = parse("po", HEADER + ENTRIES, target="zh")
    assert document.texts == ["Copied %d files", "Open", "A long text", "%d files"]
    assert document.lines == [10, 17, 25, 32]


def test_what_is_filled_in() -> None:
    document = parse("po", HEADER + ENTRIES, target="zh")
    filled = document.fill(["复制了 %d 个文件", '打"开"', "长\n文", "%d 个文件"])
    entries = polib.pofile(filled)
    assert [(e.msgid, e.msgstr, e.flags) for e in entries if not e.obsolete] == [
        ("Copied %d files\n", "复制了 %d 个文件\n", ["fuzzy", "c-format"]),
        ("Done", "Fertig", []),
        ("Open", '打"开"', ["fuzzy"]),
        ("Old", "Alt", ["fuzzy"]),
        ("A long text", "长\n文", ["fuzzy"]),
        ("%d file", "", ["fuzzy"]),
    ]
    assert entries.metadata["Language"] == "zh"
    assert entries.metadata["Plural-Forms"] == PLURAL_FORMS["zh"]
    assert entries.find("%d file").msgstr_plural == {0: "%d 个文件", 1: ""}
    assert filled.endswith('#~ msgid "Gone"\n#~ msgstr ""\n')
    assert '#, fuzzy, c-format\nmsgid "Copied' in filled
    assert 'msgstr ""\n"长\\n"\n"文"\n' in filled


@pytest.mark.parametrize(
    ("header", "target", "outputs", "forms"),
    [
        ("nplurals=2; plural=(n != 1);", None, ["一", "二"], {0: "一", 1: "二"}),
        ("nplurals=1; plural=0;", "zh", ["二"], {0: "二", 1: ""}),
        ("nplurals=3; plural=n;", "ru", ["一", "二"], {0: "一", 1: "二", 2: "二"}),
        ("", "zh_CN", ["二"], {0: "二", 1: ""}),
        ("", "fr", ["一", "二"], {0: "一", 1: "二"}),
        ("", "pl", ["一", "二"], {0: "一", 1: "二", 2: "二"}),
    ],
)
def test_plural_forms(header: str, target: str | None, outputs: list[str], forms: dict[int, str]) -> None:
    text = f'msgid ""\nmsgstr "Plural-Forms: {header}\\n"\n\n' if header else ""
    text += 'msgid "a dog"\nmsgid_plural "dogs"\nmsgstr[0] ""\nmsgstr[1] ""\n'
    filled = parse("po", text, target=target).fill(outputs)
    assert polib.pofile(filled)[0].msgstr_plural == forms


@settings(deadline=None)
@given(
    st.lists(
        st.text(alphabet='ab "\\\\\n\t%s中', min_size=1, max_size=20).filter(str.strip),
        min_size=1,
        unique=True,
        max_size=4,
    )
)
def test_quotation_marks_and_escapes_come_through(messages: list[str]) -> None:
    made = polib.POFile(wrapwidth=20)
    made.extend(polib.POEntry(msgid=message) for message in messages)
    document = parse("po", str(made), target="zh")
    assert document.texts == [message.strip() for message in messages]
    assert document.fill(document.texts) == str(made)
    filled = polib.pofile(document.fill([f'"{text}"' for text in document.texts]))
    assert [entry.msgid for entry in filled] == messages
    assert [entry.msgstr for entry in filled] == [m.replace(m.strip(), f'"{m.strip()}"', 1) for m in messages]


def test_white_space_around_a_text_stays() -> None:
    filled = parse("po", 'msgid " a\\n"\nmsgstr ""\n').fill(["甲"])
    assert filled == '#, fuzzy\nmsgid " a\\n"\nmsgstr " 甲\\n"\n'


def test_what_comes_back_as_it_was_stays_empty() -> None:
    document = parse("po", HEADER + ENTRIES, target="zh")
    filled = document.fill([document.texts[0], "开", document.texts[2], document.texts[3]])
    assert filled.count("fuzzy") == (HEADER + ENTRIES).count("fuzzy")
    assert filled.replace('msgstr "开"', 'msgstr ""', 1)[len(HEADER) :] != ENTRIES[: len(HEADER)]
    assert polib.pofile(filled).find("Open").msgstr == "开"
    assert polib.pofile(filled).find("A long text").msgstr == ""


def test_an_entry_that_stays_empty_is_told_of() -> None:
    document = parse("po", 'msgid "Open"\nmsgstr ""\n\nmsgid "%s: a@b.example"\nmsgstr ""\n', target="zh")
    document.fill(document.texts)
    assert document.problems == ["line 1: no translation; its msgstr stays empty"]


@pytest.mark.parametrize(
    ("msgid", "text", "target", "output", "msgstr"),
    [
        ("&Open", "Open", "zh", "打开", "打开(&O)"),
        ("Save &As...", "Save As...", "zh_CN", "另存为...", "另存为(&A)..."),
        ("E&xit", "Exit", "zh", "退出", "退出(&X)"),
        ("_Quit", "Quit", "zh", "退出", "退出(_Q)"),
        ("Pre_ferences…", "Preferences…", "ja", "設定……", "設定(_F)……"),
        ("_Save as", "Save as", "de", "Speichern als", "_Speichern als"),
        ("_Quit", "Quit", "de", "Beenden", "_Beenden"),
        ("打开(&O)", "打开", "en", "Open", "&Open"),
        # no marks of keys
        ("AT&T", "AT&T", "zh", "电话", "电话"),
        ("Black & white", "Black & white", "zh", "黑白", "黑白"),
        ("A &amp; B", "A &amp; B", "zh", "甲 &amp; 乙", "甲 &amp; 乙"),
        ("&lt;none&gt;", "&lt;none&gt;", "zh", "无", "无"),
        ("The file_name is bad", "The file_name is bad", "zh", "file_name 不对", "file_name 不对"),
        ("_Cut and _paste", "_Cut and _paste", "zh", "剪贴", "剪贴"),
    ],
)
def test_the_key_of_a_menu_entry(msgid: str, text: str, target: str, output: str, msgstr: str) -> None:
    document = parse("po", f'msgid "{msgid}"\nmsgstr ""\n', target=target)
    assert document.texts == [text]
    assert polib.pofile(document.fill([output]))[0].msgstr == msgstr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('msgid "a\nmsgstr ""\n', "line 1: not a line of a .po file"),
        ('msgid "a"\nmsgstr ""\n\n"more"\n', "line 4: not a line"),
        ("Hello\n", "line 1: not a line"),
        ('msgid "a"\nmsgstr "b"\nmsgstr "c"\n', "line 3: a second msgstr"),
    ],
)
def test_what_is_no_po_file(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse("po", text)


def test_every_table_of_plural_forms_has_a_number() -> None:
    assert all(forms.startswith("nplurals=") and forms.endswith(";") for forms in PLURAL_FORMS.values())
