"""What the formats with fields have in common: which fields are meant."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..errors import UsageError

MOST_NAMED = 12


def check_fields(fields: Sequence[str], found: Iterable[str], known: Iterable[str]) -> None:
    """Raises UsageError where no field is named, or one of which nothing was found; `known` are those that there are."""
    names = list(dict.fromkeys(known))
    there = ", ".join(names[:MOST_NAMED]) + (", …" if len(names) > MOST_NAMED else "")
    there = f"it has {there}" if names else "it has none with text"
    if not fields:
        raise UsageError(f"which fields are to be translated? Name them with --field; {there}")
    missing = [field for field in fields if field not in set(found)]
    if missing:
        raise UsageError(f"no field {missing[0]!r} with text: {there}")
