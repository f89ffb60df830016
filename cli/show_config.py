"""`tx config`: every setting that a configuration file may have, its value, and where that comes from."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from . import user_settings
from .text_io import ExitStatus, Output, one_line


class Row(NamedTuple):
    setting: str  # "threads", or "translate.to" for one command only
    value: str
    origin: str  # "default", "TX_THREADS", or the file and the line


def path() -> ExitStatus:
    """Prints where the file is or would be; an empty line where TX_CONFIG says that there is none."""
    with Output(None) as out:
        out.write(user_settings.config_path(os.environ) + "\n")
    return ExitStatus.OK


def show(group: Any, *, as_json: bool) -> ExitStatus:
    """Prints the settings, those of all commands first. Raises ConfigError where the file is wrong."""
    file = user_settings.config_path(os.environ)
    rows = list(_rows(group, user_settings.read(file)))
    with Output(None) as out:
        if as_json:
            out.write("".join(json.dumps(row._asdict(), ensure_ascii=False) + "\n" for row in rows))
        else:
            there = "" if os.path.exists(file) else " (there is no such file)"
            widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
            out.write(f"# {one_line(file) or 'no file'}{there if file else ''}\n")
            out.write("".join(_line(row, widths) for row in rows))
    return ExitStatus.OK


def _line(row: Row, widths: list[int]) -> str:
    return f"{row.setting:<{widths[0]}}  {row.value:<{widths[1]}}  {one_line(row.origin)}\n"


def _rows(group: Any, settings: list[user_settings.Setting]) -> Iterator[Row]:
    top = {s.key: s for s in settings if not s.table}
    for key in sorted({key for options in user_settings.OPTIONS.values() for key in options.split()}):
        variable = user_settings.VARIABLES.get(key, "")
        if os.environ.get(variable):
            yield Row(key, os.environ[variable], variable)
        elif key in top:
            yield Row(key, _shown(top[key].value), top[key].place)
        else:
            yield Row(key, _default(group, key), "default")
    for setting in sorted(s for s in settings if s.table):
        variable = user_settings.VARIABLES.get(setting.key, "")
        if not os.environ.get(variable):  # which comes before it
            yield Row(f"{setting.table}.{setting.key}", _shown(setting.value), setting.place)


def _shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else ", ".join(value) if isinstance(value, tuple) else value


def _default(group: Any, key: str) -> str:
    """The default of an option as its help gives it, of the first command that has one; "-" for none."""
    for name, options in user_settings.OPTIONS.items():
        if key in options.split():
            command = group
            for part in name.split("."):
                command = command.commands[part]
            option = next(param for param in command.params if f"--{key}" in param.opts)
            if option.default is not None and option.default != ():
                return _shown(option.default)
            said = re.search(r"\(default: ([^()]*)\)|(\w+) \((?:[^();]*; )?the default[;)]", option.help or "")
            if said:
                return said[1] or said[2]
    return "-"
