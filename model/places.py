"""Where a user's own models lie: a folder each, by name. Standard library only, for every start of `tx` may come here."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def models_folder() -> Path:
    """$XDG_DATA_HOME/tx/models. As the XDG specification says, a variable that is unset, empty or no absolute path stands
    for ~/.local/share."""
    data = os.environ.get("XDG_DATA_HOME", "")
    if not os.path.isabs(data):
        data = os.path.join(os.path.expanduser("~"), ".local", "share")
    return Path(data, "tx", "models")


def user_models() -> dict[str, Path]:
    """The user's models by name, sorted, whole ones and damaged ones.

    A folder with a file in it is a model. One with folders only is that of an owner, whose models are named as on a hub:
    "owner/name". What begins with a dot is neither: so are folders named that are still being written.
    """
    found: dict[str, Path] = {}
    for folder in _folders(models_folder()):
        if _has_files(folder):
            found[folder.name] = folder
        else:
            found |= {f"{folder.name}/{inner.name}": inner for inner in _folders(folder) if _has_files(inner)}
    return found


def _folders(path: Path) -> list[Path]:
    with contextlib.suppress(OSError):  # not there, or not ours to read
        return sorted(entry for entry in path.iterdir() if not entry.name.startswith(".") and entry.is_dir())
    return []


def _has_files(path: Path) -> bool:
    with contextlib.suppress(OSError):
        return any(entry.is_file() for entry in path.iterdir())
    return False
