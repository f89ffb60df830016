"""Lines in, translations out: what `tx translate` does once it knows what is asked. Each batch of lines goes through one call
of the translator, here or (module jobs) in one of several processes."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from ..model.errors import InputError
from .text_io import LONGEST_LINE, Line, Output, Source, complain, is_full

if TYPE_CHECKING:
    from ..model.glossary import Glossary
    from ..model.results import Translation
    from . import documents
    from .jobs import Workers
    from .progress import Progress
    from .resume import Resumable

    Form = Callable[[Line, Translation | None], str]  # what is written for a line and its result, None for a blank one

Task = tuple[list[str], dict[str, Any]]  # texts, and what Translator.translate is told of them

WARNINGS = {
    "split": "longer than the model takes at once; translated in parts",
    "cut": "the translation reached the length limit and was cut",
    "looped": "the translation repeated itself; the repetition was removed",
    "lost": "a number, an address or a placeholder is missing in the translation, or changed",
    "invented": "the translation has a number that is not in the text",
    "untranslated": "it came out as it went in, or not all of it in the language that was asked for",
}
# flags that mean that something may be missing or wrong: exit status 3 under --strict
LOSSES = {"cut", "looped", "lost", "invented", "untranslated"}


class Report:
    """What was noticed about the lines of a run: said as a warning each, and at the end once what is no more than a note."""

    def __init__(self, quiet: bool) -> None:
        self.quiet = quiet
        self.incomplete = False  # whether something may be missing
        self._lines = self._already = 0
        self._language = ""

    def line(self, place: str, result: Translation | None, part: int = 0) -> None:
        """Counts a line and its result, None for a blank one; `part` is its number in a line that came in parts."""
        self._lines += part < 2
        if part == 1:
            self._warn(f"{place} has more than {LONGEST_LINE} bytes; translated in parts")
        if result is None:
            return
        self.incomplete = self.incomplete or not LOSSES.isdisjoint(result.flags)
        for flag in result.flags:
            if flag in WARNINGS:
                self._warn(f"{place}: {WARNINGS[flag]}")
        if "copied" in result.flags and result.source_language == result.target_language:
            self._already += any(map(str.isalpha, result.source))
            self._language = result.target_language

    def broken(self, problem: str) -> None:
        """Counts what of a document could not be read, or not be put in its place."""
        self.incomplete = True
        self._warn(problem)

    def state(self) -> dict[str, Any]:
        """What a run that goes on with this one has to know (`resume`)."""
        names = ("incomplete", "_lines", "_already", "_language")
        return {name: getattr(self, name) for name in names}

    def resume(self, state: dict[str, Any]) -> None:
        for name in state.keys() & self.state().keys():
            setattr(self, name, state[name])

    def end(self) -> None:
        if self._already and not self.quiet:
            which = f"{self._already} of {self._lines} lines" if self._lines > 1 else "the text"
            complain(f"left as it is, for it is in the target language ({self._language}): {which}", kind="note")

    def _warn(self, message: str) -> None:
        if not self.quiet:
            complain(message, kind="warning")


@dataclass
class Work:
    """Sources to translations: who is asked, what is written, who is told."""

    ask: Callable[[Task], list[Translation]]
    workers: Workers | None  # who does `ask` in other processes; None: it is done here
    form: Form
    report: Report
    encoding: str
    most: int  # lines in a batch
    bar: Progress | None
    format: Callable[[str], str] | None  # of a source, by its name; None: all are plain lines
    fields: Sequence[str]
    target: str | None
    paragraph: bool  # whether wrapped lines are joined
    resumed: Resumable | None  # where results go, if that was begun before
    glossary: Glossary | None = None  # of documents, whose terms stay in their links

    def translate(self, sources: Sequence[Source], out: Output) -> None:
        """Writes the translation of each source, in order."""
        for source in sources:
            kind = self.format(source.name) if self.format else "text"
            if kind == "text":
                self._lines(source, out)
            else:
                self._document(source, out, kind)

    def _lines(self, source: Source, out: Output) -> None:
        """For each line, or each paragraph, one line."""
        batches = source.batches(self.encoding, self.most, pauses=self.workers is not None)
        if self.paragraph:
            from .paragraphs import joined

            batches = joined(batches)
        between = "" if out.ended else "\n"  # the last line of a file may lack its end, and another file may follow
        try:
            for lines in batches:
                if self.resumed and lines:
                    left = self.resumed.left(lines)
                    between = between if len(left) == len(lines) else ""
                    self._show(lines[: len(lines) - len(left)])
                    lines = left
                    if not lines:
                        continue
                if lines:
                    self._submit(self._task(lines), partial(self._write, out, between, lines))
                    between = ""
                elif self.workers:
                    self.workers.until_readable(source.stream.fileno())
        except InputError:  # what was read before it is written before it is said
            self._drain()
            raise
        self._drain()

    def _task(self, lines: Sequence[Line]) -> Task:
        """What is to be translated of lines: not the blank ones, for a model asked about nothing would make something up."""
        texts = [line.text.strip() for line in lines]
        return [text for text in texts if text], {"more": is_full(lines, self.most)}

    def _submit(self, task: Task, done: Callable[[list[Translation]], None]) -> None:
        if self.workers:
            self.workers.submit(task, done)
        else:
            done(self.ask(task))

    def _drain(self) -> None:
        if self.workers:
            self.workers.drain()

    def _write(self, out: Output, between: str, lines: Sequence[Line], answers: Sequence[Translation]) -> None:
        waiting = iter(answers)
        results = [next(waiting) if line.text.strip() else None for line in lines]
        text = between + "".join(self.form(line, result) for line, result in zip(lines, results, strict=True))
        out.write(text)
        gc.enable()  # all is loaded
        for line, result in zip(lines, results, strict=True):
            self.report.line(line.place, result, line.part)
        if self.resumed:
            self.resumed.wrote(lines, text, self.report)
        self._show(lines)

    def _show(self, lines: Sequence[Line]) -> None:
        """Shows that these lines are done."""
        if self.bar:
            size = sum(len((line.text + line.end).encode(self.encoding, "replace")) for line in lines)
            self.bar.add(sum(line.part < 2 for line in lines), size)

    def _document(self, source: Source, out: Output, kind: str) -> None:
        from . import documents

        size = None
        if self.bar:
            from .progress import size_of

            size = size_of([source.stream.fileno()])
        if not out.ended:
            out.write("\n")
        documents.run(
            [source],
            out,
            format=kind,
            fields=self.fields,
            target=self.target,
            encoding=self.encoding,
            translate=lambda texts, kept: self._units([(texts, kept)])[0],
            translate_all=lambda batches: self._units(batches, size or 0),
            glossary=self.glossary,
            note=self.report.line,
            warn=self.report.broken,
        )

    def _units(self, batches: Sequence[documents.Batch], size: int | None = None) -> list[list[Translation]]:
        """The translations of units of a document, batch by batch. `size` are the bytes of the document whose units these
        are: each batch is the share of them that its texts are of all texts. None where they were shown before."""
        found: list[list[Translation]] = []
        read = [0, *accumulate(sum(map(len, texts)) for texts, _ in batches)]  # characters before and after each batch
        ends = [at * (size or 0) // max(1, read[-1]) for at in read]

        def done(answers: list[Translation]) -> None:
            if self.bar and size is not None:
                self.bar.add(len(answers), ends[len(found) + 1] - ends[len(found)])
            found.append(answers)

        if self.bar and size and not batches:  # nothing in it is to be translated
            self.bar.add(0, size)

        for texts, kept in batches:
            self._submit((texts, {"protected": kept}), done)
        self._drain()
        return found


def as_text(line: Line, translation: str | None) -> str:
    """The translation on one line, with the line's own spaces before and after it; None is that of a blank line."""
    if translation is None:
        return line.text
    core = line.text.strip()
    start = line.text.index(core)
    return line.text[:start] + translation.replace("\r\n", " ").replace("\n", " ") + line.text[start + len(core) :]


def as_text_line(line: Line, result: Translation | None) -> str:
    return as_text(line, result.text if result else None) + line.end
