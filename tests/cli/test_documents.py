"""Whole documents through the command line's part: read, translated in batches, written, and what is said."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tx.cli import documents
from tx.cli.text_io import Output, Source
from tx.model.errors import InputError, UsageError
from tx.model.glossary import Glossary
from tx.model.results import Translation


class Run:
    """Runs documents through `translate` and keeps what was asked and said."""

    def __init__(self, tmp_path: Path) -> None:
        self.path = tmp_path / "out"
        self.batches: list[tuple[list[str], list[Any]]] = []
        self.notes: list[str] = []
        self.warnings: list[str] = []
        self.outputs: dict[str, str] = {}
        self.flags: tuple[str, ...] = ()

    def translate(self, texts: list[str], protected: list[documents.Spans]) -> Sequence[Translation]:
        self.batches.append((texts, protected))
        return [Translation(t, self.outputs.get(t, t), "en", "zh", 0.0, self.flags) for t in texts]

    def __call__(
        self,
        *sources: tuple[str, str],
        format: str | None = None,
        fields: Sequence[str] = (),
        glossary: Glossary | None = None,
    ) -> set[str]:
        with Output(str(self.path)) as output:
            return documents.run(
                [Source(name, io.BytesIO(text.encode())) for name, text in sources],
                output,
                format=format,
                fields=fields,
                target="zh",
                encoding="utf-8",
                translate=self.translate,
                note=lambda place, result: self.notes.append(f"{place}: {result.text}"),
                warn=self.warnings.append,
                glossary=glossary,
            )

    @property
    def text(self) -> str:
        return self.path.read_bytes().decode()


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path)


def test_documents_by_their_endings(run: Run) -> None:
    run.outputs = {"Title": "题", "A **b** c": "甲 **乙**"}
    run.flags = ("split",)
    assert run(("a.md", "# Title\r\n\n`x`\n"), ("b.html", "<p>Title</p>"), ("c.md", "A **b** c")) == {"split"}
    assert run.text == "# 题\r\n\n`x`\n<p>题</p>甲 **乙**"
    assert run.notes == ["a.md line 1: 题", "b.html line 1: 题", "c.md line 1: 甲 **乙**"]
    assert [protected for _, protected in run.batches] == [[[]], [[]], [[(2, 4), (5, 7)]]]


def test_the_format_that_is_given_counts(run: Run) -> None:
    run(("stdin", '{"a": "x", "b": "y"}'), format="json", fields=["b"])
    assert run.batches == [(["y"], [[]])]


@pytest.mark.parametrize(
    "torn",
    ["甲 <b>乙", "甲 乙", "</b>甲<b> 乙", "甲 <b></b> 乙", "<b>甲</b> <b>乙</b>"],
    ids=["not closed", "lost", "disorder", "nothing inside", "twice"],
)
def test_where_the_marks_are_torn_the_parts_between_them_are_translated(run: Run, torn: str) -> None:
    run.outputs = {"A <b>b</b> c": torn, "A": "甲", "b": "乙", "c": "丙"}
    assert run(("a.html", "\n<p>A <b>b</b> c</p>")) == set()
    assert run.text == "\n<p>甲 <b>乙</b> 丙</p>"
    assert run.notes == ["a.html line 2: 甲 <b>乙</b> 丙"]


@pytest.mark.parametrize(
    ("text", "output", "parts", "written"),
    [
        ("see [the red house](u)", "红房子在[看](u)", {"see": "看", "the red house": "红房子"}, "看 [红房子](u)"),
        ("see [the red house](u)", "看[红房子](u)", {}, "看[红房子](u)"),
        ("the red house is [old](u)", "[红房子旧](u)", {"the red house is": "红房子是", "old": "旧"}, "红房子是 [旧](u)"),
        ("*red house*, red house", "*红房子*和红房子", {}, "*红房子*和红房子"),
        ("*red house*, red house", "*红房子和红房子*", {"red house": "红房子", ", red house": "，红房子"}, "*红房子*，红房子"),
        ("see [the red house](u)", "看[它](u)", {}, "看[它](u)"),  # lost, which is said by a flag
    ],
)  # fmt: skip
def test_a_term_stays_in_its_link(run: Run, text: str, output: str, parts: dict[str, str], written: str) -> None:
    run.outputs = {text: output, **parts}
    run(("a.md", text), glossary=Glossary([("red house", "红房子")], ("en", "zh")))
    assert run.text == written
    assert len(run.batches) == 1 + bool(parts)


def test_marks_that_are_nested_otherwise_are_torn(run: Run) -> None:
    run.outputs = {"A <a>b</a> c <i>d</i>": "甲 <a>乙 <i>丁</i></a> 丙"}
    run(("a.html", "<p>A <a>b</a> c <i>d</i></p>"))
    assert run.text == "<p>A <a>b</a> c <i>d</i></p>"
    assert len(run.batches) == 2


def test_a_long_document_is_translated_in_batches_and_comes_back_as_it_was(run: Run) -> None:
    text = "".join(f"<p>Word {n}</p>\n" for n in range(2 * documents.BATCH - documents.FIRST_BATCH + 3))
    assert run(("a.html", text)) == set()
    assert [len(texts) for texts, _ in run.batches] == [32, 64, 128, documents.BATCH, 3]
    assert run.text == text


def test_a_byte_order_mark_is_dropped(run: Run) -> None:
    run(("a.html", "\ufeff<p>Word</p>"))
    assert run.text == "<p>Word</p>"


@pytest.mark.parametrize(
    ("name", "text", "kind", "message"),
    [
        ("a.json", '{"a": ', UsageError, "a.json: "),
        ("a.srt", "Hello\n", InputError, "a.srt: not SubRip"),
        ("a.csv", "a,b\n1,2\n", UsageError, "a.csv: which fields are to be translated"),
    ],
)
def test_errors_name_the_file_and_nothing_is_written(
    run: Run, name: str, text: str, kind: type[Exception], message: str
) -> None:
    if name == "a.json":
        kind = InputError
    with pytest.raises(kind, match=message):
        run((name, text))
    assert not run.path.exists()
