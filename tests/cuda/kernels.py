"""Kernels of a fake device: the machine of ``tests/cuda/ptx`` over its allocations.

kernel = load(text)["name"]
launch(kernel, (blocks, steps), (x, y), [bytes of each argument], memory)
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from tests.cuda.allocations import Fault, Memory
from tests.cuda.ptx import errors, machine
from tests.cuda.ptx.translate import Kernel, load

_STATUS = {errors.MisalignedError: 716, errors.EndlessError: 702, errors.BadLaunchError: 1}

__all__ = ["launch", "load"]


def launch(
    kernel: Kernel, grid: tuple[int, int], block: tuple[int, int], arguments: Sequence[bytes], memory: Memory
) -> None:
    """Run all blocks. Raises ``Fault`` for what a device would punish, or bear in silence."""
    try:
        shadows = machine.launch(kernel, (*grid, 1), (*block, 1), arguments, memory.seen)
    except errors.LaunchError as error:
        raise Fault(_explained(error, memory), _STATUS.get(type(error), 700)) from None
    for allocation, shadow in shadows.items():
        if allocation in memory.whose:  # and no constant of the kernel
            for written, codes in ((False, shadow.read), (True, shadow.write)):
                memory.mark(memory.whose[allocation], written, np.repeat(codes != 0, shadow.granule))


def _explained(error: errors.LaunchError, memory: Memory) -> str:
    """With what the fake device knows of an address: whose memory it was before it was freed."""
    found = re.search(r"(\d+) bytes at (0x\w+) are in no allocation", str(error))
    if found:
        try:
            memory.find(int(found[2], 16), int(found[1]))
        except Fault as fault:
            return f"{error}: {fault}"
    return str(error)
