"""The part of YAML that Marian writes: configurations of a folder, and the architecture in a file of weights."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

from .errors import CheckpointError

Values: TypeAlias = Mapping[str, str | list[str]]

MAX_YAML_BYTES = 1 << 20
_PAIR = re.compile(r"([A-Za-z][\w-]*)\s*:(?:\s+(.*))?$")


def read_yaml(path: Path) -> Values:
    """The settings in a file. Raises CheckpointError if it cannot be read, is too long, or is not written as Marian writes."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_YAML_BYTES + 1)
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror or error}") from error
    if len(content) > MAX_YAML_BYTES:
        raise CheckpointError(f"{path} is too long to be a configuration ({MAX_YAML_BYTES} bytes and more)")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise CheckpointError(f"{path} is not UTF-8 at byte {error.start}: it is no configuration") from None
    for number, line in enumerate(text.splitlines(), start=1):
        if not _is_read(line):
            raise CheckpointError(f"{path} line {number} is not `key: value` nor a list: {line.strip()[:40]!r}")
    return parse_yaml(text)


def _is_read(line: str) -> bool:
    """Whether a line is one that `parse_yaml` reads, or may pass over."""
    pair = _PAIR.match(line)
    if pair is None:
        return not line.strip() or line[0] in " \t#-%" or line.startswith("...")
    value = (pair[2] or "").strip()
    if value[:1] == "[":
        return _plain(value).endswith("]")
    return value[:1] not in ("'", '"') or value[0] in value[1:]


def parse_yaml(text: str) -> Values:
    """`key: value` and lists of values, at the left margin. Values are strings;
    whatever is written otherwise (nested maps, anchors, blocks) is passed over."""
    values: dict[str, str | list[str]] = {}
    key = ""
    for line in text.splitlines():
        stripped = line.strip()
        pair = _PAIR.match(line)
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
