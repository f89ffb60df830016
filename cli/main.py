"""The command `tx`: straight to a plain `tx translate …`, and through typer to everything else."""

from __future__ import annotations

from . import interrupt  # first: from here on Ctrl-C is silent

# isort: split
import os
import sys
from collections.abc import Sequence
from typing import Any

from . import direct, process


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs `tx` with `arguments` (default: those of the process) and returns its exit status."""
    options = direct.parse(list(sys.argv[1:] if arguments is None else arguments), os.environ)
    if options is not None:
        return process.guarded(lambda _: _translate(**options), arguments)
    interrupt.quiet_while_loading()
    try:
        from . import app
    finally:
        interrupt.loaded()
    return app.main(arguments)


def _translate(debug: bool, **options: Any) -> int:
    process.show_traceback(debug)
    from . import commands

    return commands.translate(**options)


interrupt.loaded()
