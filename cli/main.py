"""The command `tx`: straight to a plain `tx translate …`, and through typer to everything else."""

from __future__ import annotations

from . import interrupt  # first: from here on Ctrl-C is silent

# isort: split
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..model.errors import TxError
from . import direct, process

if TYPE_CHECKING:
    from .user_settings import Setting


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs `tx` with `arguments` (default: those of the process) and returns its exit status."""
    return process.guarded(_run, arguments)


def _run(arguments: Sequence[str]) -> int:
    options = direct.parse(arguments, os.environ)
    if options is None:
        interrupt.quiet_while_loading()
        try:
            from . import app
        finally:
            interrupt.loaded()
        return app.run(arguments)
    found: Mapping[str, Setting] = {}
    if direct.has_configuration(os.environ):
        from . import user_settings

        found = user_settings.for_command(user_settings.read(user_settings.config_path(os.environ)), "translate")

    def run(settings: Mapping[str, Setting]) -> int:
        by_keyword = {(direct.FLAGS | direct.VALUED)[f"--{key}"]: setting.value for key, setting in settings.items()}
        return _translate(**(direct.parse(arguments, os.environ, by_keyword) or options))

    try:
        return run(found)
    except TxError as error:
        from . import user_settings

        return user_settings.again(error, run, found, arguments)


def _translate(debug: bool, **options: Any) -> int:
    process.show_traceback(debug)
    from . import commands

    return commands.translate(**options)


interrupt.loaded()
