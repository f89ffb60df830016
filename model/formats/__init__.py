"""Documents of several formats: which of their text is to be translated, and the same document with other text in its place.

A parser finds *units*, texts without layout of whole sentences where that can be; everything else of a document stays as it
is, to the byte. `parse` is the way in. Only what a format needs is imported, and only then.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..errors import TxError, UsageError

if TYPE_CHECKING:
    from .document import Document

FORMATS = ("text", "markdown", "html", "srt", "vtt", "po", "json", "jsonl", "csv", "tsv")
BY_FIELD = frozenset(["json", "jsonl", "csv", "tsv"])  # of these only the fields that are named are translated

_ENDINGS = {
    ".md": "markdown",
    ".markdown": "markdown",
    ".mkd": "markdown",
    ".html": "html",
    ".htm": "html",
    ".xhtml": "html",
    ".srt": "srt",
    ".vtt": "vtt",
    ".po": "po",
    ".pot": "po",
    ".json": "json",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
}


def by_ending(path: str) -> str:
    """The format of a file by the ending of its name, "text" where that says nothing."""
    return _ENDINGS.get(os.path.splitext(path)[1].lower(), "text")


def parse(name: str, text: str, *, fields: Sequence[str] = (), target: str | None = None) -> Document:
    """The document in a text of the format `name` (one of FORMATS).

    `fields` name the values to translate where the format has fields (BY_FIELD): "title", nested "meta.title", of items of
    a list too; a column of a table by its name or its number. `target` is the language of the translation: a .po file has
    as many plural forms as that needs, and says its name.

    Raises UsageError for an unknown format and for fields that do not fit it, InputError where the text is not of that
    format, TxError where the optional libraries are not installed.
    """
    if name not in FORMATS:
        raise UsageError(f"unknown format {name!r}: choose from {', '.join(FORMATS)}")
    if fields and name not in BY_FIELD:
        raise UsageError(f"{name} has no fields: --field is for {', '.join(f for f in FORMATS if f in BY_FIELD)}")
    if name == "text":
        from . import plain

        return plain.parse(text)
    if name == "markdown":
        try:
            from . import markdown
        except ModuleNotFoundError as error:
            raise _missing(name, error) from None
        return markdown.parse(text)
    if name == "html":
        from . import html_pages

        return html_pages.parse(text)
    if name in ("srt", "vtt"):
        from . import subtitles

        return subtitles.parse(text, name)
    if name == "po":
        from . import gettext_po

        return gettext_po.parse(text, target)
    if name in ("json", "jsonl"):
        from . import json_values

        return json_values.parse(text, fields, lines=name == "jsonl")
    from . import tables

    return tables.parse(text, fields, "\t" if name == "tsv" else None)


def _missing(name: str, error: ModuleNotFoundError) -> TxError:
    return TxError(
        f"{name} needs pip install 'tx-transformer[formats]' (there is no {error.name}); --format text goes without it"
    )
