"""What commands check of their options and texts that `tx translate` has no use for."""

from __future__ import annotations

import io
import math
import os

from ..model.errors import InputError, UsageError
from .text_io import Source, open_sources, read_whole


def number(option: str, value: str | None) -> float | None:
    """The value of an option that takes any number, None where it was not given. Raises UsageError for anything else."""
    if value is None:
        return None
    try:
        found = float(value)
    except ValueError:
        found = math.nan
    if math.isnan(found):
        raise UsageError(f"{option} needs a number, not {value!r}")
    return found


def argument_text(text: str, name: str, encoding: str) -> str:
    """An argument as the locale decoded it; where it could not, its bytes in `encoding`. Raises InputError that names it."""
    try:
        text.encode()
        return text
    except UnicodeEncodeError as error:
        place = error.start + 1
    try:
        raw = os.fsencode(text)
    except UnicodeEncodeError:  # no shell passed this
        raise InputError(f"{name} has a lone surrogate at character {place}: not Unicode") from None
    return read_whole(Source(name, io.BytesIO(raw)), encoding)


def open_text(path: str, option: str) -> Source:
    """The file of that name, or for "-" the standard input. Raises InputError; where there is no such file, it names the
    option that takes a text instead."""
    if path != "-" and not os.path.exists(path):
        raise InputError(f"no such file: {path} (a text itself is given with {option} TEXT)")
    return open_sources((), [path])[0]
