"""What the kernel says of a process."""

from __future__ import annotations

import os
from contextlib import suppress

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def resident_bytes(pid: int) -> int | None:
    """Resident memory of a process; None: it is gone."""
    words = _read(pid, "statm").split()
    return int(words[1]) * _PAGE_BYTES if words else None


def cpu_s(pid: int) -> float | None:
    """Processor time of a process, in user mode and in the kernel; None: it is gone."""
    words = _read(pid, "stat").rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / _TICKS_PER_S if words else None


def shared_memory_bytes() -> int:
    """Size of all files in memory that this process has open, each once."""
    found = {}
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # closed meanwhile
            if os.readlink(f"/proc/self/fd/{name}").startswith("/memfd:"):
                status = os.stat(f"/proc/self/fd/{name}")
                found[status.st_ino] = status.st_size
    return sum(found.values())


def _read(pid: int, name: str) -> str:
    if pid <= 0:
        return ""
    try:
        with open(f"/proc/{pid}/{name}") as file:
            return file.read()
    except OSError:
        return ""
