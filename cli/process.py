"""What every run of `tx` has around it: errors as one line, signals and closed pipes as exit codes. Standard library only."""

from __future__ import annotations

import errno
import gc
import os
import signal
import sys
from collections.abc import Callable, Sequence

from ..model.errors import TxError, UsageError
from . import interrupt
from .text_io import ExitStatus, complain

DISK_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}

_debug = False


def show_traceback(value: bool) -> None:
    """Whether an error of this run shows where it came from; once true, it stays so."""
    global _debug
    _debug = _debug or value


def _silence(*descriptors: int) -> None:
    """Points standard streams at nothing, so that the interpreter's own last flush meets no broken pipe."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    for descriptor in descriptors:
        os.dup2(nothing, descriptor)


def _drop_what_cannot_be_written() -> None:
    """Points a standard stream that takes no more, as on a full disk, at nothing: what is left for it was said to be lost,
    and the interpreter's last flush would fail again, with an exit status of its own."""
    for descriptor, stream in ((1, sys.stdout), (2, sys.stderr)):
        try:
            if stream is not None:
                stream.flush()
        except OSError:
            _silence(descriptor)


def _report(error: Exception) -> int:
    if _debug or os.environ.get("TX_DEBUG", "0") not in ("", "0"):
        import traceback

        traceback.print_exception(error)
    if isinstance(error, TxError):
        complain(str(error))
        return ExitStatus.USAGE if isinstance(error, UsageError) else ExitStatus.FAILED
    if isinstance(error, OSError) and error.errno in DISK_ERRORS and error.filename is None:
        complain(f"cannot write the standard output: {error.strerror}")
        return ExitStatus.FAILED
    complain(f"unexpected {type(error).__name__}: {error} (run again with --debug for a traceback)")
    return ExitStatus.FAILED


def _without_documentation() -> None:
    """Lets NumPy be imported without the texts that it hangs onto its objects for help(): a tenth of its import, which no
    one can read in a process that ends with its command. A NumPy that has no such modules takes no notice."""
    for name in ("numpy._core._add_newdocs", "numpy._core._add_newdocs_scalars"):
        sys.modules.setdefault(name, type(sys)(name))


def guarded(run: Callable[[Sequence[str]], int], arguments: Sequence[str] | None) -> int:
    """The exit status of `run(arguments)`, whatever happens in it. None: the arguments of a process that ends then."""
    global _debug
    _debug = False
    if arguments is None:
        gc.disable()  # until a command has loaded what it needs
        _without_documentation()
    try:
        try:
            for stream in (sys.stdout, sys.stderr):
                if hasattr(stream, "reconfigure"):  # help and messages are UTF-8 under every locale, as results are
                    stream.reconfigure(encoding="utf-8", errors="backslashreplace")
            with interrupt.termination_raises():
                status = run(sys.argv[1:] if arguments is None else arguments)
            if sys.stdout is not None:
                sys.stdout.flush()
            _drop_what_cannot_be_written()
            return int(status)
        except BrokenPipeError:
            raise
        except Exception as error:
            status = _report(error)
            _drop_what_cannot_be_written()
            return int(status)
    except BrokenPipeError:  # whoever read our output has seen enough
        _silence(1, 2)
        return int(ExitStatus.OK)
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # a second one ends the process at once
        return int(ExitStatus.INTERRUPTED)
    except interrupt.Terminated as request:
        return request.status
    finally:
        gc.enable()
        if arguments is None:
            gc.freeze()  # the process ends: the interpreter's last searches for garbage have nothing to go through
