"""How far a long run is, on a terminal's standard error: lines, lines a second, time left. Loaded only there."""

from __future__ import annotations

import os
import stat
import threading
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

DELAY = 1.0  # seconds until there is anything to see


def size_of(files: Iterable[int | str]) -> int | None:
    """The bytes of files, by descriptor or path, that are still to be read; None where that cannot be known."""
    total = 0
    for file in files:
        try:
            status = os.stat(file)
            read = os.lseek(file, 0, os.SEEK_CUR) if isinstance(file, int) else 0
        except OSError:
            return None
        if not stat.S_ISREG(status.st_mode):
            return None
        total += max(0, status.st_size - read)
    return total


class Progress:
    """A bar that shows itself a second after it was entered and goes away in the end. `total` are the bytes to be read,
    None if nobody knows."""

    def __init__(self, total: int | None) -> None:
        self.total = total
        self._lines = self._bytes = 0
        self._started = 0.0
        self._bar: Bar | None = None
        self._lock = threading.Lock()
        self._timer = threading.Timer(DELAY, self._show)
        self._timer.daemon = True

    def add(self, lines: int, size: int) -> None:
        """So many more lines, of `size` bytes, are done."""
        self._lines += lines
        self._bytes += size
        with self._lock:
            if self._bar:
                self._update(self._bar)

    def __enter__(self) -> Progress:
        self._started = time.monotonic()
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        with self._lock:
            if self._bar:
                self._bar.stop()
            self._bar = None
            self._timer.cancel()
            self._done = True

    _done = False

    def _show(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        left = [TimeRemainingColumn(), TextColumn("left", markup=False)] if self.total else [TimeElapsedColumn()]
        columns = [BarColumn(), TextColumn("{task.fields[text]}", markup=False), *left]
        with self._lock:
            if self._done:
                return
            self._bar = Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False)
            self._bar.add_task("", total=self.total, text="")
            self._update(self._bar)
            self._bar.start()

    def _update(self, bar: Bar) -> None:
        speed = self._lines / max(time.monotonic() - self._started, 1e-6)
        share = f"{min(100, 100 * self._bytes // self.total)}% " if self.total else ""
        text = f"{share}{self._lines} line{'s' * (self._lines != 1)}, {speed:.{0 if speed >= 10 else 1}f} a second"
        bar.update(bar.task_ids[0], completed=self._bytes, text=text)
