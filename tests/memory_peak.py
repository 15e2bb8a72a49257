"""The most memory that this process held, since it was started or since `forget`.

``ru_maxrss`` says less: a child begins with what its parent held when it forked, and what once was high hides
all that comes later.
"""

from __future__ import annotations

from pathlib import Path

PEAK_SOURCE = Path(__file__).read_text() if "__file__" in globals() else ""  # for a program of a child's
STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def peak() -> int:
    """In bytes; 0 where the system does not tell."""
    if not STATUS.exists():
        return 0
    (line,) = (line for line in STATUS.read_text().splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) << 10


def forget() -> None:
    """Let the peak be what is held now."""
    if CLEAR.exists():
        CLEAR.write_text("5")
