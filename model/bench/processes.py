"""Whole processes, from their start to their end: what a user waits for. Standard library only."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ..errors import TxError


class Run(NamedTuple):
    """Seconds of wall clock and of processors, the peak of memory, and what was written to the standard output. Where the
    system does not say, the seconds of processors are 0 and the peak is None."""

    seconds: float
    cpu: float
    peak_bytes: int | None
    output: str


@dataclass(frozen=True)
class Command:
    """A command of tx by the Python that runs this, without what the user's settings would change."""

    arguments: tuple[str, ...]

    @property
    def line(self) -> list[str]:
        return [sys.executable, "-m", "tx.cli", *self.arguments]

    def run(self) -> Run:
        """Raises TxError with what the command said, if it fails."""
        return timed(self.line)


def environment() -> dict[str, str]:
    """This process's, but for the settings of tx."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TX_")}
    return kept | {"TX_CONFIG": ""}


def timed(command: Sequence[str], cwd: str | Path | None = None) -> Run:
    """Runs a command to its end. Output goes to files: no pipe can block. Raises TxError if it fails."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        start = time.perf_counter()
        process = subprocess.Popen(
            list(command), stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=environment(), cwd=cwd
        )
        cpu, peak = 0.0, None
        try:
            if hasattr(os, "wait4"):  # the usage of this very child
                _, status, usage = os.wait4(process.pid, 0)
                process.returncode = os.waitstatus_to_exitcode(status)
                cpu = usage.ru_utime + usage.ru_stime
                peak = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
            else:
                process.wait()
        except BaseException:
            process.kill()
            raise
        seconds = time.perf_counter() - start
        out.seek(0)
        err.seek(0)
        if process.returncode:
            said = err.read().decode(errors="replace").strip().splitlines()
            shown = said[-1].removeprefix("tx: error: ") if said else f"exit status {process.returncode}"
            raise TxError(f"{' '.join(command[1:5])} … failed: {shown}")
        return Run(seconds, cpu, peak, out.read().decode(errors="replace"))
