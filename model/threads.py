"""How many threads the engines use, and how they wait: settled by the environment at the moment of their import."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

# The libraries that NumPy may multiply with, and where each looks for a number before it looks at OMP_NUM_THREADS.
BLAS_THREADS = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
WAITING = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")  # how threads of OpenMP wait for each other


@contextmanager
def blas_threads(threads: int | None = None) -> Iterator[None]:
    """A NumPy that is imported within it uses `threads` threads, or one if that is None and the user has set nothing.
    Nothing happens if NumPy is there already."""
    changes: dict[str, str] = {}
    if "numpy" not in sys.modules:
        if threads is not None:
            changes = dict.fromkeys(BLAS_THREADS, str(threads))
        elif "OMP_NUM_THREADS" not in os.environ:
            changes = {name: "1" for name in BLAS_THREADS if name not in os.environ}
    with _environment(changes):
        yield


@contextmanager
def patient_threads() -> Iterator[None]:
    """The threads of a PyTorch that is imported within it sleep while they wait for each other, unless the user has
    said how they should wait. By default they spin: twice the time as soon as one of the cores is busy."""
    said = "torch" in sys.modules or any(name in os.environ for name in WAITING)
    with _environment({} if said else {"OMP_WAIT_POLICY": "PASSIVE"}):
        yield


@contextmanager
def _environment(changes: Mapping[str, str]) -> Iterator[None]:
    """Variables for the time of an import only: other libraries and programs would read them too."""
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
