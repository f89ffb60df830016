"""`tx translate` of several files, each into a file of its own."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from ..model.errors import InputError, UsageError
from .text_io import Output, Source, complain, open_file

Pair = tuple[str, str]  # the path of a file and that of its translation


def plan(files: Sequence[str], output: str | None, suffix: str | None, in_place: bool) -> list[Pair]:
    """Each file with where its translation goes. Raises UsageError where that makes no sense, or two would go to one
    place; InputError for a file that is not there. Nothing is written but the folder, if it is not there yet."""
    if in_place and (output is not None or suffix is not None):
        raise UsageError("--in-place writes each file back: leave out -o and --suffix")
    option = "--in-place" if in_place else "--suffix" if suffix is not None else "-o FOLDER"
    if not files or "-" in files:
        raise UsageError(f"{option} needs files by name: -i FILE")
    if suffix is not None and (os.sep in suffix or "/" in suffix):
        raise UsageError(f"--suffix is an ending such as .zh, not {suffix!r}")
    if output is not None and not (os.path.isdir(output) or output.endswith(("/", os.sep))):
        raise UsageError(
            f"with --suffix -o names a folder, and {output} is none: make it, or end its name with a slash"
        )
    for path in files:
        if in_place and os.path.exists(path) and not os.path.isfile(path):
            raise UsageError(f"--in-place needs files, and {path} is none")
    pairs = [(path, path if in_place else _target(path, output, suffix or "")) for path in files]
    sources = {os.path.realpath(path): path for path, _ in pairs}
    seen: dict[str, str] = {}
    for path, target in pairs:
        real = os.path.realpath(target)
        if real in seen:
            raise UsageError(f"{seen[real]} and {path} would both be written to {target}")
        if not in_place and real in sources:
            raise UsageError(f"{target} is one of the files to be read: --in-place says that it may be replaced")
        seen[real] = path
    if output is not None:
        try:
            os.makedirs(output, exist_ok=True)
        except OSError as error:
            raise InputError(f"cannot make the folder {output}: {error.strerror or error}") from None
    return pairs


def _target(path: str, folder: str | None, suffix: str) -> str:
    """a.txt becomes a.zh.txt with the suffix ".zh": its last ending, which says what it is, stays the last."""
    stem, ending = os.path.splitext(path)
    named = stem + suffix + ending
    return named if folder is None else os.path.join(folder, os.path.basename(named))


def each(pairs: Sequence[Pair], translate: Callable[[Sequence[Source], Output], None]) -> bool:
    """Translates file after file; one that cannot be read is said and left out. Whether there was any such."""
    failed = False
    for path, target in pairs:
        try:
            source = open_file(path)
            with source.stream, Output(target) as out:
                translate([source], out)
        except InputError as error:
            complain(str(error))
            failed = True
    return failed
