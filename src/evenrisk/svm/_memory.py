"""How much memory is available, so that a kernel matrix that is too large is refused in time."""

from __future__ import annotations

import os
from pathlib import Path

UNKNOWN = 4 * 2**30  # where the system does not say
CONTROL_GROUP = Path("/sys/fs/cgroup")


def available_memory() -> int:
    """Bytes this process may still take: the system's free memory, or its control group's limit."""
    candidates = [_meminfo(), _control_group()]
    found = [value for value in candidates if value is not None]
    return min(found) if found else _physical()


def _meminfo() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        fields = dict(line.split(":", 1) for line in lines)
        return int(fields["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return None


def _control_group() -> int | None:
    """Limit minus use of a container (version 2 of control groups); "max" means none."""
    try:
        limit = int((CONTROL_GROUP / "memory.max").read_text())
        used = int((CONTROL_GROUP / "memory.current").read_text())
    except (OSError, ValueError):
        return None
    return max(limit - used + _droppable(), 0)


def _droppable() -> int:
    """Bytes of cached files: they count as used, but are freed when memory is needed."""
    try:
        lines = (CONTROL_GROUP / "memory.stat").read_text().splitlines()
        return int(dict(line.split() for line in lines)["inactive_file"])
    except (OSError, KeyError, ValueError):
        return 0


def _physical() -> int:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    except (AttributeError, OSError, ValueError):
        return UNKNOWN
