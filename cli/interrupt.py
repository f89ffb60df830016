"""Signals that end `tx`. Imported before anything slow, for Ctrl-C may come while the other modules load.

While they do, the garbage collector rests too: modules are no garbage, and looking for some among them takes a tenth of
the time to the first word.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
from collections.abc import Iterator
from typing import Any

_collects = False  # whether the garbage collector is to go on once all is loaded


class Terminated(BaseException):
    """SIGTERM or SIGHUP as an exception, so that what a command has begun is cleaned up like after Ctrl-C."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.status = 128 + number


def _leave(*_: Any) -> None:
    os._exit(128 + signal.SIGINT)  # nothing has been written yet, so there is nothing to flush


def _raise(number: int, _: Any) -> None:
    signal.signal(number, signal.SIG_IGN)  # `timeout` sends it twice; cleaning up takes no time
    raise Terminated(number)


def quiet_while_loading() -> None:
    """Until `loaded` is called, Ctrl-C ends the process without a word. Leaves handlers of others alone."""
    global _collects
    _collects = gc.isenabled()
    gc.disable()
    with contextlib.suppress(ValueError):  # not the main thread: no signal comes here
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, _leave)


def loaded() -> None:
    """Makes Ctrl-C a KeyboardInterrupt again. Called once more, when further modules were loaded, it does nothing."""
    global _collects
    if _collects:
        gc.enable()
    _collects = False
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@contextlib.contextmanager
def termination_raises() -> Iterator[None]:
    """Within it, SIGTERM and SIGHUP raise Terminated, unless whoever started us decided otherwise (nohup)."""
    names = [name for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]  # Windows has no SIGHUP
    numbers = [n for n in (getattr(signal, name) for name in names) if signal.getsignal(n) is signal.SIG_DFL]
    with contextlib.suppress(ValueError):  # not the main thread
        for number in numbers:
            signal.signal(number, _raise)
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):
            for number in numbers:
                signal.signal(number, signal.SIG_DFL)


quiet_while_loading()
