"""Whole documents in other formats than plain lines: read, translated unit by unit, and written with all else as it was."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ..model.errors import InputError, UsageError
from ..model.results import Translation
from .text_io import Output, Source, read_whole

if TYPE_CHECKING:
    from ..model.formats.document import Document, Unit
    from ..model.glossary import Glossary

FIRST_BATCH = 32  # units that are translated together at first, so that one sees soon how fast it goes
BATCH = 256  # at most: each batch has twice as many as that before it
BROKEN = "markup"  # flag of a document that could not be put together, or not be read, as it should

Spans = Sequence[tuple[int, int]]
Batch = tuple[list[str], list[Spans]]  # texts, and what must be kept in each
Translate = Callable[[list[str], list[Spans]], Sequence[Translation]]
TranslateAll = Callable[[Sequence[Batch]], Sequence[Sequence[Translation]]]  # of each batch, in order


def format_of(source: str, given: str | None) -> str:
    """The format of a source by what was `given`, else by the ending of its name."""
    from ..model.formats import by_ending

    return given or by_ending(source)


def run(
    sources: Sequence[Source],
    output: Output,
    *,
    format: str | None,
    fields: Sequence[str],
    target: str | None,
    encoding: str,
    translate: Translate,
    note: Callable[[str, Translation], None],
    warn: Callable[[str], None],
    translate_all: TranslateAll | None = None,
    glossary: Glossary | None = None,
) -> set[str]:
    """Writes each source, a document of the given `format` (or of that of its name's ending), with its units translated.

    `note` is called with the place of each unit ("a.md line 7") and its translation, `warn` with what could not be read or
    put in place. `translate_all` does what `translate` does, but for all batches of a document at once; terms of the
    `glossary` stay in their links and the like. Returns the flags of all translations, and BROKEN where `warn` was called.
    A document is written when all of it is translated. Raises InputError
    for what is not of its format, UsageError for fields that it has not, TxError where libraries are missing.
    """
    from ..model.formats import parse

    flags: set[str] = set()
    for source in sources:
        text = read_whole(source, encoding)
        name = format_of(source.name, format)
        try:
            document = parse(name, text, fields=fields, target=target)
        except (InputError, UsageError) as error:
            raise type(error)(f"{source.name}: {error}") from None
        results = _translated(document, translate, translate_all, glossary)
        for line, result in zip(document.lines, results, strict=True):
            note(f"{source.name} line {line}", result)
            flags.update(result.flags)
        output.write(document.fill([result.text for result in results]))
        for problem in document.problems:
            warn(f"{source.name} {problem}")
            flags.add(BROKEN)
    return flags


def _translated(
    document: Document,
    translate: Translate,
    translate_all: TranslateAll | None,
    glossary: Glossary | None,
) -> list[Translation]:
    """A translation of each unit. Where the marks in it came out in disorder, or a term left those around it, the parts
    between them are translated each by itself: a worse sentence, but sound markup."""

    def fits(unit: Unit, found: Translation) -> bool:
        terms = glossary.find(unit.text, found.source_language, found.target_language) if glossary else ()
        return unit.fits(found.text, terms)

    batches: list[Sequence[Unit]] = []
    start, size = 0, FIRST_BATCH
    while start < len(document.units):
        batches.append(document.units[start : start + size])
        start, size = start + size, min(2 * size, BATCH)
    asked: list[Batch] = [([unit.text for unit in units], [unit.protected for unit in units]) for units in batches]
    answers = translate_all(asked) if translate_all else (translate(*batch) for batch in asked)
    results: list[Translation] = []
    for units, answer in zip(batches, answers, strict=True):
        found = list(answer)
        torn = [i for i, unit in enumerate(units) if not fits(unit, found[i])]
        runs = [run for i in torn for run in units[i].runs()]
        waiting = iter(translate(runs, [[]] * len(runs)) if runs else ())
        for i in torn:
            parts = list(itertools.islice(waiting, len(units[i].runs())))
            flags = {flag for part in parts for flag in part.flags} - {"copied"}
            text = units[i].of_runs([part.text for part in parts])
            found[i] = dataclasses.replace(found[i], text=text, flags=tuple(sorted(flags)))
        results += found
    return results
