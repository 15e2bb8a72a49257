"""Kernels of a fake device: the machine of ``tests/cuda/ptx`` over its allocations.

    kernel = load(text)["name"]
    launch(kernel, (blocks, steps), (x, y), [bytes of each argument], memory)

Nobody tells a driver what memory is for, so in all of it several threads may write one value to one place, as
they do to words of errors. ``plans.py`` knows better, and allows that there alone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from tests.cuda.allocations import Fault, Memory
from tests.cuda.ptx import errors, machine
from tests.cuda.ptx.memory import Allocation, Memory as Seen
from tests.cuda.ptx.translate import Kernel, load

_STATUS = {errors.MisalignedError: 716, errors.EndlessError: 702, errors.BadLaunchError: 1}

__all__ = ["launch", "load"]


def launch(
    kernel: Kernel, grid: tuple[int, int], block: tuple[int, int], arguments: Sequence[bytes], memory: Memory
) -> None:
    """Run all blocks. Raises ``Fault`` for what a device would punish, or bear in silence."""
    seen, whose = Seen(), {}
    for a in memory.allocations:
        if not a.freed and a.size:
            whose[seen.add(Allocation(a.base, a.data, str(a), a.written, flags=True))] = a
    try:
        shadows = machine.launch(kernel, (*grid, 1), (*block, 1), arguments, seen)
    except errors.LaunchError as error:
        raise Fault(_explained(error, memory), _STATUS.get(type(error), 700)) from None
    for allocation, shadow in shadows.items():
        if allocation in whose:  # and no constant of the kernel
            for written, codes in ((False, shadow.read), (True, shadow.write)):
                memory.mark(whose[allocation], written, np.repeat(codes != 0, shadow.granule))


def _explained(error: errors.LaunchError, memory: Memory) -> str:
    """With what the fake device knows of an address: whose memory it was before it was freed."""
    found = re.search(r"(\d+) bytes at (0x\w+) are in no allocation", str(error))
    if found:
        try:
            memory.find(int(found[2], 16), int(found[1]))
        except Fault as fault:
            return f"{error}: {fault}"
    return str(error)
