"""The user's configuration file: where it is, what may stand in it, and what it says to a command.

It is a TOML file whose keys are the long names of options, those at the top for every command that has such an option,
those in a table for the command of its name:

    model = "en-zh"
    threads = 2

    [translate]
    to = "zh"

    [evaluate.qa]
    threshold = 0.5

A flag on the command line comes before the environment, that before the file, and in it a table before the top. What
the file or the environment says and a run has no use for is left out of it (`again`). Loaded only where there is a file or
something went wrong, and light, for every start of `tx` may come here.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ..model.errors import ConfigError, TxError, UsageError
from .text_io import complain

# What a file may set for each command: its options, but for those that name what one run reads, writes or asks.
_ALL = "encoding model threads device engine"
_EVALUATE = "json model threads device engine"
OPTIONS = {
    "translate": f"{_ALL} format field paragraph from to beam shortlist precision batch-size jobs max-memory glossary n-best json score align strict quiet no-progress",
    "summarize": f"{_ALL} words sentences extract rewrite json strict quiet",
    "qa": f"{_ALL} top-k threshold json strict quiet",
    "show-attention": f"{_ALL} from to beam json quiet task kind layer head pieces no-special list top scale values ascii "
    "color background width format",
    "evaluate.translate": f"{_EVALUATE} from to beam batch-size",
    "evaluate.summarize": f"{_EVALUATE} words sentences extract rewrite",
    "evaluate.qa": f"{_EVALUATE} threshold",
    "models.list": "json",
    "bench": "encoding model threads device from to beam json quiet",
    "models.info": "json",
}
FLAGS = "paragraph shortlist json score align strict quiet no-progress extract rewrite pieces no-special list values ascii".split()  # noqa: SIM905
PATHS = ["glossary", "model"]  # where ~ is the home folder, for no shell has made it that
REPEATED = ["field"]  # a text or a list of texts
VARIABLES = {
    "model": "TX_MODEL",
    "threads": "TX_THREADS",
    "engine": "TX_ENGINE",
    "device": "TX_DEVICE",
    "color": "TX_COLOR",
}
OPPOSITES = {"extract": "rewrite", "rewrite": "extract"}  # the one on the command line takes the place of the other
# What an error says that is about an option without naming it; {} is the option's value.
WORDS = {
    "model": "no model ",
    "encoding": "unknown encoding",
    "from": "does not translate",
    "to": "does not translate",
    "glossary": "{}",
    "field": "{}",
    "device": "no device ",
}
# What one says of a model that has no use for an option.
NOT_OF_THE_MODEL = {
    "shortlist": "has no shortlist",
    "from": "does not say its languages",
    "to": "does not say its languages",
}
# How an error ends that is about a value by itself, and not about two options or an option and the input.
WRONG_VALUE = re.compile(r", not (['\"]).*\1$|is empty: ")
# How one begins that is about an option without effect; where the file says it, that is nothing to speak of.
IDLE = re.compile(r"--\S+ means nothing to |give --\S+ or --.*, not both$")


class Setting(NamedTuple):
    """One line of the file: `table` is "" at the top, else "translate" or "evaluate.qa"; a flag's value is a bool."""

    table: str
    key: str
    value: str | bool | tuple[str, ...]
    place: str  # for messages: the file and the line


def config_path(environment: Mapping[str, str]) -> str:
    """Where the file is or would be: $TX_CONFIG, which may be empty for none, else $XDG_CONFIG_HOME/tx/config.toml. As the
    XDG specification says, a variable that is unset, empty or no absolute path stands for ~/.config."""
    if "TX_CONFIG" in environment:
        return environment["TX_CONFIG"]
    folder = environment.get("XDG_CONFIG_HOME", "")
    if not os.path.isabs(folder):
        folder = os.path.join(os.path.expanduser("~"), ".config")
    return os.path.join(folder, "tx", "config.toml")


def read(path: str) -> list[Setting]:
    """What the file says; nothing where there is none. Raises ConfigError that names the file and the line."""
    if not path:
        return []
    try:
        with open(path, "rb") as stream:
            raw = stream.read()
    except FileNotFoundError:
        if path == os.environ.get("TX_CONFIG"):
            raise ConfigError(f"no such file: {path} (TX_CONFIG names it)") from None
        return []
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"cannot read the configuration file {path}: {getattr(error, 'strerror', None) or error}"
        ) from None
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise ConfigError(f"{path} line {line} is not UTF-8") from None
    return list(_settings(path, text, "", _parse(path, text)))


def _parse(path: str, text: str) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib as toml
    else:
        import tomli as toml

    try:
        found: dict[str, Any] = toml.loads(text)
        return found
    except toml.TOMLDecodeError as error:
        parts = re.fullmatch(r"(.*) \(at (?:line (\d+), column \d+|end of document)\)", str(error))
        what, line = parts.groups() if parts else (str(error), None)
        place = f"{path} line {line or text.count(chr(10)) + 1}"
        raise ConfigError(f'{place} is no TOML: {what[:1].lower()}{what[1:]} (texts need quotes: to = "zh")') from None
    except RecursionError:
        raise ConfigError(f"{path} is no configuration: tables in tables without end") from None


def _settings(path: str, text: str, table: str, values: Mapping[str, Any]) -> Iterator[Setting]:
    for key, value in values.items():
        place = f"{path} line {_line_of(text, table, key)}"
        inner = f"{table}.{key}" if table else key
        if isinstance(value, dict):
            if not _commands(inner):
                tables = sorted({name for command in OPTIONS for name in (command, command.split(".")[0])})
                raise ConfigError(f"{place}: there is no command {inner.replace('.', ' ')!r}{_nearest(inner, tables)}")
            yield from _settings(path, text, inner, value)
            continue
        known = sorted({name for command in _commands(table) for name in OPTIONS[command].split()})
        if key not in known:
            where = f" in [{table}]" if table else ""
            raise ConfigError(f"{place}: unknown setting {key!r}{where}{_nearest(key, known)}")
        yield Setting(table, key, _checked(place, key, value), place)


def _commands(table: str) -> list[str]:
    """The commands that a table speaks of: with "" all, with "evaluate" all of evaluate."""
    return [name for name in OPTIONS if not table or name == table or name.startswith(table + ".")]


def _checked(place: str, key: str, value: Any) -> str | bool | tuple[str, ...]:
    if key in FLAGS:
        if not isinstance(value, bool):
            raise ConfigError(f"{place}: {key} is true or false, not {_shown(value)}")
        return value
    if key in REPEATED and isinstance(value, list) and all(isinstance(one, str) and one for one in value):
        return tuple(value)
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise ConfigError(f"{place}: {key} needs a text or a number, not {_shown(value)}")
    if value == "":
        raise ConfigError(f"{place}: {key} is empty: give it a value or leave it out")
    if key in PATHS:
        return os.path.expanduser(str(value))
    return (str(value),) if key in REPEATED else str(value)


def _shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else repr(value)


def _nearest(name: str, known: Sequence[str]) -> str:
    import difflib

    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"; did you mean {near[0]!r}?" if near else f"; there are {', '.join(known)}"


def _line_of(text: str, table: str, key: str) -> int:
    """The line of a key in its table, or of a table; the first line where it is written in another way."""
    name = r"[\"']?" + re.escape(key) + r"[\"']?"
    parents = r"\s*\.\s*".join(r"[\"']?" + re.escape(part) + r"[\"']?" for part in table.split(".")) if table else ""
    header = re.compile(rf"\s*\[\s*{parents}\s*\]") if table else None
    inner = re.compile(rf"\s*\[\s*{parents + r'[.]' if table else ''}{name}\s*[\].]")
    inside = not table
    for number, line in enumerate(text.splitlines(), 1):
        if inner.match(line):
            return number
        if line.lstrip().startswith("["):
            inside = bool(header and header.match(line))
        elif inside and re.match(rf"\s*{name}\s*[=.]", line):
            return number
    return 1


def for_command(settings: Sequence[Setting], command: str) -> dict[str, Setting]:
    """What the settings say to a command ("translate", "evaluate.qa"): those of its own table before those of others."""
    options = OPTIONS.get(command, "").split()
    found: dict[str, Setting] = {}
    for setting in sorted(settings, key=lambda s: len(s.table)):
        if setting.key in options and command in _commands(setting.table):
            found[setting.key] = setting
    return found


def without_opposites(settings: Mapping[str, Setting], arguments: Sequence[str]) -> dict[str, Setting]:
    """The settings but for those that something on the command line excludes."""
    return {key: s for key, s in settings.items() if f"--{OPPOSITES.get(key)}" not in arguments}


def undoing(command: str) -> dict[str, str]:
    """The names of options that leave out what the file says to a command, and of those that they undo: {"--no-json":
    "--json", "--progress": "--no-progress"}."""
    keys = OPTIONS.get(command, "").split()
    return {f"--{key[3:] if key.startswith('no-') else f'no-{key}'}": f"--{key}" for key in keys}


def again(
    error: TxError,
    run: Callable[[Mapping[str, Setting]], int],
    settings: Mapping[str, Setting],
    arguments: Sequence[str],
) -> int:
    """The exit status of `run`, which has failed with `error`, without the settings of the file and the environment that do
    not go with the rest: what the command line says is what is wanted now. A note says which.

    Raises the error where it is about something else; where it is about the value of a setting, with the line or the
    variable that it comes from.
    """
    hidden: dict[str, str] = {}  # variables of the environment that are left out
    try:
        while True:
            key = _out_of_place(error, settings, arguments)
            if key is None:
                raise _blamed(error, settings, arguments) from None
            origin = _origin(key, settings, arguments)
            if not IDLE.match(str(error)) and "quiet" not in settings and {"-q", "--quiet"}.isdisjoint(arguments):
                complain(f"{key} ({origin}) is left out: {error}", kind="note")
            if origin is not None and origin == VARIABLES.get(key):
                hidden[origin] = os.environ.pop(origin)
            else:
                settings = {name: setting for name, setting in settings.items() if name != key}
            try:
                return run(settings)
            except TxError as next_error:
                error = next_error
    finally:
        os.environ.update(hidden)


def _origin(key: str, settings: Mapping[str, Setting], arguments: Sequence[str]) -> str | None:
    """The variable or the line that an option comes from; None for the command line or nowhere."""
    own = list(arguments)[: arguments.index("--") if "--" in arguments else None]
    if any(token.split("=")[0] == f"--{key}" for token in own):
        return None
    variable = VARIABLES.get(key, "")
    return variable if os.environ.get(variable) else settings[key].place if key in settings else None


def _out_of_place(error: TxError, settings: Mapping[str, Setting], arguments: Sequence[str]) -> str | None:
    """The first option that the error names and that only the file or the environment gives, if it is not its value that
    is wrong."""
    if not isinstance(error, UsageError) or WRONG_VALUE.search(str(error)):
        return None
    named = re.findall(r"--([a-z][a-z-]*)", str(error))
    named += [key for key, words in NOT_OF_THE_MODEL.items() if words in str(error)]
    return next((key for key in named if _origin(key, settings, arguments)), None)


def _blamed(error: TxError, settings: Mapping[str, Setting], arguments: Sequence[str]) -> TxError:
    """The error again, as one of the variable or the line, where it is about an option that only that gives."""
    for key in dict.fromkeys([*VARIABLES, *settings]):
        origin = _origin(key, settings, arguments)
        if origin is None:
            continue
        value = os.environ[origin] if origin == VARIABLES.get(key) else settings[key].value
        texts = value if isinstance(value, tuple) else [str(value)]
        rest = str(error).removeprefix(f"--{key} ")
        named = rest != str(error)
        if named or any(key in WORDS and WORDS[key].format(text) in str(error) for text in texts):
            if origin == VARIABLES.get(key):
                return type(error)(f"{origin} {rest}" if named else f"{origin}: {error}")
            return ConfigError(f"{origin}: {key} {rest}" if named else f"{origin}: {error}")
    return error
