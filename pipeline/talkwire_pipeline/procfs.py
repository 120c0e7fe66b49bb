"""What the kernel says of a process."""

from __future__ import annotations

import os

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


def _read(pid: int, name: str) -> str:
    if pid <= 0:
        return ""
    try:
        with open(f"/proc/{pid}/{name}") as file:
            return file.read()
    except OSError:
        return ""
