"""The part of YAML that Marian writes: configurations of a folder, and the architecture in a file of weights."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

from .errors import CheckpointError

Values: TypeAlias = Mapping[str, str | list[str]]

MAX_YAML_BYTES = 1 << 20


def read_yaml(path: Path) -> Values:
    """The settings in a file. Raises CheckpointError if it cannot be read or is too long."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_YAML_BYTES + 1)
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror or error}") from error
    if len(content) > MAX_YAML_BYTES:
        raise CheckpointError(f"{path} is too long to be a configuration ({MAX_YAML_BYTES} bytes and more)")
    return parse_yaml(content.decode("utf-8", errors="replace"))


def parse_yaml(text: str) -> Values:
    """`key: value` and lists of values, at the left margin. Values are strings;
    whatever is written otherwise (nested maps, anchors, blocks) is passed over."""
    values: dict[str, str | list[str]] = {}
    key = ""
    for line in text.splitlines():
        stripped = line.strip()
        pair = re.match(r"([A-Za-z][\w-]*)\s*:(?:\s+(.*))?$", line)
        if pair:
            key, value = pair[1], _plain(pair[2] or "")
            if value.startswith("[") and value.endswith("]"):
                values[key] = [_plain(item) for item in value[1:-1].split(",") if item.strip()]
            else:
                values[key] = value
        elif stripped.startswith("- ") and key:
            items = values[key]
            if isinstance(items, str):
                items = values[key] = []
            items.append(_plain(stripped[2:]))
        elif stripped and not stripped.startswith("#") and line[0] not in " \t-":
            key = ""  # what follows belongs to something else
    return values


def _plain(value: str) -> str:
    """A scalar without its comment and quotation marks."""
    value = value.strip()
    for mark in "\"'":
        if value.startswith(mark) and mark in value[1:]:
            return value[1 : value.index(mark, 1)]
    return re.split(r"(?:^|\s)#", value, maxsplit=1)[0].strip()


def number(values: Values, key: str, default: float, path: Path) -> float:
    """Raises CheckpointError, with the file's path, for anything else."""
    value = values.get(key, default)
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise CheckpointError(f"{path}: {key} must be a number, not {str(value)[:40]!r}") from None


def whole(values: Values, key: str, default: int | None, path: Path) -> int:
    """Raises CheckpointError for anything else, and for a key that is missing and has no default."""
    value = values.get(key, default)
    if isinstance(value, int) or (isinstance(value, str) and re.fullmatch("[0-9]{1,9}", value)):
        return int(value)
    raise CheckpointError(f"{path}: {key} must be a whole number, not {str(value)[:40]!r}")
