"""typer's parser, made to take every text literally and to answer mistakes on one line."""

from __future__ import annotations

import difflib
import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from . import user_settings
from .text_io import ExitStatus
from .user_settings import Setting

EXIT_CODES = (
    "Exit codes: 0 ok, 1 failed, 2 wrong usage, 3 something was cut, looped or lost (only with --strict), "
    "130 interrupted, 143 terminated."
)
EXIT_CODES_PLAIN = "Exit codes: 0 ok, 1 failed, 2 wrong usage, 130 interrupted, 143 terminated."
HINT_DASH = 'a text that begins with "-" needs "--" before it: {} -- "-5 degrees"'
WITHOUT_TEXT = {"evaluate", "models", "bench", "config", "help", "completion"}  # commands whose arguments are no texts

# UsageError of the command-line parser, in whichever of its two homes (click, or typer's own copy) typer has it.
ParserError: Any = typer.BadParameter.__base__


class _AsGiven:
    """Hands an option's text to the command unchanged. Every option here is text or a flag, and typer's own conversion
    would first import a validation library for longer than the whole of `tx --help` may take."""

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        if value is None and (param.multiple or param.nargs == -1):
            return ()
        return value


class _PlainParams:
    """What Command and Group share: every parameter, typer's own included, takes its value as given."""

    def get_params(self, ctx: Any) -> Any:
        params = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            if hasattr(param, "_runtime_param"):  # typer 0.29 and later
                param._runtime_param = _AsGiven()
            if param.param_type_name == "argument" and hasattr(param, "display_type_rich"):
                param.display_type_rich = lambda ctx: None  # types of Python say nothing to a user
            if param.name in ("install_completion", "show_completion"):
                param.hidden = True  # `tx completion` is what people are told of
        return params


class Command(_PlainParams, TyperCommand):
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Takes out what undoes an option, as --no-json does, with all that was said of that option before it, the
        configuration file included. Refuses a value attached to a short option: "-only you" is a text more often than the
        file "nly you"."""
        options = {
            name: param for param in self.get_params(ctx) if param.param_type_name == "option" for name in param.opts
        }
        undoing = user_settings.undoing(".".join(ctx.command_path.split()[1:]))
        kept: list[tuple[Any, list[str]]] = []  # each option with its tokens; None with a token that is none
        tokens = iter(args)
        for token in tokens:
            option = options.get(token.split("=")[0] if token.startswith("--") else _last(token, options, ctx))
            if token == "--":
                kept.append((None, [token, *tokens]))
            elif token in undoing and token not in options:
                undone = options[undoing[token]]
                kept = [(param, found) for param, found in kept if param is not undone]
                ctx.default_map = {k: v for k, v in (ctx.default_map or {}).items() if k != undone.name}
            elif option is None or option.is_flag or "=" in token:
                kept.append((option, [token]))
            else:
                kept.append((option, [token, *itertools.islice(tokens, 1)]))  # its value, whatever that looks like
        try:
            return super().parse_args(ctx, [token for _, found in kept for token in found])
        except ParserError as error:
            error.ctx = error.ctx or ctx  # not every one knows which command it is about
            raise


def _last(token: str, options: Mapping[str, Any], ctx: Any) -> str:
    """The last of the short options that a token like "-qo" is, "" if it is no such token; the others of them are flags.
    Raises ParserError for a value in the same token."""
    if not token.startswith("-") or token == "-":
        return ""
    letters = token[1:]
    while len(letters) > 1 and (option := options.get(f"-{letters[0]}")) is not None:
        if not option.is_flag:
            name = f"-{letters[0]}"
            raise ParserError(f"{name} needs a space before its value; {HINT_DASH.format(ctx.command_path)}", ctx=ctx)
        letters = letters[1:]
    return f"-{letters[0]}"


class Group(_PlainParams, TyperGroup):
    def list_commands(self, ctx: Any) -> list[str]:
        """The commands in the order of app.py, those about tx itself last."""
        return sorted(super().list_commands(ctx), key=lambda name: name in ("bench", "config", "help", "completion"))


def group(text: str, **settings: Any) -> typer.Typer:
    """A command that has others in it; alone it prints its help."""
    names = {"help_option_names": ["-h", "--help"]}
    return typer.Typer(
        cls=Group,
        help=text,
        epilog=EXIT_CODES,
        context_settings=names,
        invoke_without_command=True,
        rich_markup_mode=None,  # plain text: no boxes, no markup, no colour codes, in pipes and files too
        pretty_exceptions_enable=False,
        **settings,
    )


def defaults(command: Any, path: Sequence[str], settings: Mapping[str, Setting]) -> dict[str, Any]:
    """What the configuration file says of the options of the command that `path` leads to, as a context wants it."""
    if path:
        return {path[0]: defaults(command.commands[path[0]], path[1:], settings)}
    named = [(param.name, name[2:]) for param in command.params for name in param.opts]
    return {keyword: settings[key].value for keyword, key in named if key in settings}


def help_if_alone(ctx: typer.Context) -> None:
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help(), err=True)
        raise typer.Exit(ExitStatus.USAGE)


def describe(error: Any, name: str, arguments: Sequence[str]) -> str:
    """A mistake in the command line of the program `name`, with what to do next."""
    path = error.ctx.command_path if error.ctx else name
    rejected = getattr(error, "option_name", None)
    hints = [f"see {path} --help"]
    if near := difflib.get_close_matches(rejected or "", getattr(error, "possibilities", None) or (), n=1):
        hints.insert(0, f"did you mean {near[0]}?")
    if rejected and WITHOUT_TEXT.isdisjoint(path.split()) and _is_text(rejected, arguments):
        hints.insert(0, HINT_DASH.format(path if " " in path else f"{path} translate"))
    what = (error.message or error.format_message()).removesuffix(".").replace(". Did you mean", "; did you mean")
    return f"{what[:1].lower()}{what[1:]} ({'; '.join(hints)})"


def _is_text(rejected: str, arguments: Sequence[str]) -> bool:
    """Whether the argument that was rejected as the option "-x" or "--xyz" looks like a text: it has a space in it, is
    nothing but dashes, or has a single dash and a number or a word after it."""
    options = list(arguments)
    options = options[: options.index("--")] if "--" in options else options
    letter = rejected.lstrip("-")
    tokens = [t for t in options if t.startswith(rejected) or (len(rejected) == 2 and t[:1] == "-" and letter in t)]
    token = tokens[0] if tokens else rejected
    return any(c.isspace() for c in token) or not token.strip("-") or bool(re.match(r"-(\d|\w\w)", token))
