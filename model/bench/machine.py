"""What a measurement was made on: processor, memory, load, versions. Standard library only."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import platform
import subprocess
import sys
from typing import Any

from ..threads import cores

BUSY = 0.3  # a load average above this share of the cores shows in every figure
# Instructions that multiply matrices are made of, by the names that Linux has for them (x86, then ARM).
INSTRUCTIONS = (
    *("avx", "avx2", "fma", "f16c", "avx_vnni", "avx512f", "avx512_vnni", "avx512_bf16", "avx512_fp16"),
    *("amx_tile", "amx_int8", "amx_bf16", "amx_fp16"),
    *("asimd", "asimddp", "asimdhp", "bf16", "i8mm", "sve", "sve2", "svebf16", "svei8mm"),
)


def describe() -> dict[str, Any]:
    """The machine, as it is now, in values that JSON can hold; None for what cannot be known here."""
    load_average = load()
    return {
        "processor": processor(),
        "cores": os.cpu_count(),
        "cores_usable": cores(),
        "instructions": instructions(),
        "memory_bytes": _memory(),
        "load_average": load_average,
        "busy": is_busy(load_average),
        "system": platform.platform(),
        "python": platform.python_version(),
        **{name: version(name) for name in ("torch", "numpy")},
    }


def load() -> float | None:
    """The load average of the last minute: how many processes wanted a core. None where the system does not say."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


def is_busy(load_average: float | None) -> bool:
    return load_average is not None and load_average > BUSY * (os.cpu_count() or 1)


def version(package: str) -> str | None:
    """The version of an installed package, which is not imported for it."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def peak_bytes() -> int | None:
    """The most memory that this process has had at once. Not `ru_maxrss` where it can be helped: that of a child is never
    below what its parent had when it started it."""
    with contextlib.suppress(OSError, ValueError), open("/proc/self/status", encoding="ascii") as file:
        for line in file:
            if line.startswith("VmHWM:"):
                return 1024 * int(line.split()[1])
    if sys.platform == "win32":
        return None
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def processor() -> str:
    if name := _cpuinfo("model name"):
        return name
    if sys.platform == "darwin":
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            command = ["sysctl", "-n", "machdep.cpu.brand_string"]
            return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
    return platform.processor() or platform.machine()


def instructions() -> list[str]:
    """Those of INSTRUCTIONS that the processor says it has; none where the system does not say."""
    said = set((_cpuinfo("flags") or _cpuinfo("Features")).split())
    return [name for name in INSTRUCTIONS if name in said]


def _cpuinfo(key: str) -> str:
    """The first value of a key in what Linux says of its processors, "" where there is none."""
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        for line in file:
            name, _, value = line.partition(":")
            if name.strip() == key:
                return value.strip()
    return ""


def _memory() -> int | None:
    with contextlib.suppress(OSError, ValueError, AttributeError):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return None
