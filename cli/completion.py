"""`tx completion SHELL`: the script that makes a shell complete commands, options, and names of models."""

from __future__ import annotations

import importlib

from ..model.errors import UsageError
from .text_io import ExitStatus, Output

SHELLS = ("bash", "zsh", "fish")


def show(shell: str, program: str) -> ExitStatus:
    """Prints the script for the name by which tx was called. Raises UsageError for another shell."""
    if shell not in SHELLS:
        raise UsageError(f"no completion for {shell!r}: there is {', '.join(SHELLS)}")
    script = importlib.import_module("typer.completion").get_completion_script
    variable = f"_{program}_COMPLETE".replace("-", "_").upper()
    with Output(None) as out:
        out.write(script(prog_name=program, complete_var=variable, shell=shell) + "\n")
    return ExitStatus.OK
