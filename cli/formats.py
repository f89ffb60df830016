"""`tx translate`: which format each source has, and whether the other options fit it. Loaded where one may be no plain text."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..model.errors import UsageError


def choose(
    files: Sequence[str], given: str | None, fields: Sequence[str], by_line: Sequence[str]
) -> Callable[[str], str]:
    """What gives the format of a source by its name: the format that was given, else by a file's ending. Raises UsageError
    for one that is not known, and for options that do not fit it, of which those of `by_line` are for plain lines."""
    from ..model.formats import BY_FIELD, FORMATS, by_ending

    if given is not None and given not in FORMATS:
        raise UsageError(f"--format must be one of {', '.join(FORMATS)}, not {given!r}")
    found = {path: given or by_ending(path) for path in files} or {"the text": given or "text"}
    for path, kind in found.items():
        if by_line and kind != "text":
            raise UsageError(
                f"{by_line[0]} is for plain lines, and {path} is {kind}: read it as such with --format text"
            )
        if fields and kind not in BY_FIELD:
            raise UsageError(f"--field is for {', '.join(sorted(BY_FIELD))}, and {path} is {kind} (--format NAME says)")
    return lambda name: given or found.get(name, "text")
