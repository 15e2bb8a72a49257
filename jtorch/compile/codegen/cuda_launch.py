"""How CUDA kernels are launched: argument blocks, grids, and many steps in one launch.

The text of a kernel serves every size; what a size decides is here. A kernel runs in one or several
*phases*, launches of one entry that differ in the argument ``phase``:

    map      0                       one thread per element
    row      0                       a team of ``lanes`` threads (x) per row, several rows (y) in a block
    column   0                       a team (y) per column, neighbouring columns side by side (x)
    both     1, 2... when split      the teams of one result are spread over ``splits`` blocks; each phase
                                     leaves partial results in scratch memory for the next one
    scatter  0 clears, 1 adds        one thread per (line of the output, owner)
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jtorch.compile.codegen.emitter import Number, Pointer
from jtorch.compile.plan.fuse import Style

THREADS = 256  # of a block; the shared arrays of the kernels have this many items
MAX_BLOCKS = 2048  # of an elementwise launch: some 16 per multiprocessor, the rest by striding
MAX_SPLITS = 256
TILE = 32  # columns side by side: a warp reads them as one line of memory


@dataclass(frozen=True, slots=True)
class Scratch:
    """An argument: memory for ``items`` partial results, which need not outlive the kernel."""

    dtype: np.dtype
    items: int


@dataclass(frozen=True, slots=True)
class Status:
    """An argument: one int64 per error of the kernel, zero before, set to 1 where it happened."""

    items: int


@dataclass(frozen=True, slots=True)
class Phase:
    """An argument: the phase of the launch."""


Argument = Pointer | Number | Scratch | Status | Phase


@dataclass(frozen=True, slots=True)
class Work:
    """What a launch rule asks of a kernel: its style, and how much there is to do."""

    style: Style
    kept: int  # independent results: elements of a map, rows, columns, or (line, owner) pairs
    reduced: int = 1  # elements that each result is made of
    splits: int = 1
    passes: tuple[bool, ...] = (False,)  # for each phase from 1 on: whether it walks over the elements
    cleared: int = 0  # elements that phase 0 of a scatter sets to zero


@dataclass(frozen=True, slots=True)
class Launch:
    grid: tuple[int, int]  # blocks of one step, steps
    block: tuple[int, int]
    phase: int


def power_of_two(n: int) -> int:
    """The smallest power of two that is at least ``n``."""
    return 1 << max(n - 1, 0).bit_length()


def block_of(works: Sequence[Work], threads: int) -> tuple[int, int]:
    """The shape of the blocks: teams are powers of two, as the reduction tree wants them."""
    style = works[0].style
    if style == Style.ROW:
        lanes = min(power_of_two(max(w.reduced for w in works)), threads)
        return lanes, threads // lanes
    if style == Style.COLUMN:
        columns = min(power_of_two(max(w.kept for w in works)), TILE, threads)
        return columns, threads // columns
    return threads, 1


def splits_for(style: Style, kept: int, reduced: int, threads: int = THREADS) -> int:
    """How many blocks share one result. One, unless the results alone would leave most of the device idle
    and each share is worth a second launch."""
    block = block_of([Work(style, kept, reduced)], threads)
    lanes, side = block if style == Style.ROW else block[::-1]
    if reduced <= 64 * lanes:
        return 1
    tiles = -(-kept // side)
    return max(1, min(reduced // (16 * lanes), MAX_SPLITS, 1024 // max(tiles, 1)))


def launches(works: Sequence[Work], threads: int = THREADS) -> tuple[Launch, ...]:
    """The launches, in order, that do ``works``: steps with one text, each a row of the argument table."""
    block = block_of(works, threads)
    style, many = works[0].style, len(works)
    found: list[tuple[int, int]] = []  # (blocks, phase)
    if style == Style.MAP:
        found.append((max(_strided(w.kept, threads) for w in works), 0))
    elif style == Style.SCATTER:
        found.append((max(_strided(w.cleared, threads) for w in works), 0))
        found.append((max(_strided(w.kept, threads) for w in works), 1))
    elif all(w.splits == 1 for w in works):
        found.append((max(_tiles(w, block) for w in works), 0))
    else:
        for k, walks in enumerate(works[0].passes):
            blocks = (_tiles(w, block) * (w.splits if walks else 1) for w in works)
            found.append((max(blocks), k + 1))
    return tuple(Launch((blocks, many), block, phase) for blocks, phase in found if blocks)


def _strided(elements: int, threads: int) -> int:
    return min(-(-elements // threads), MAX_BLOCKS)


def _tiles(work: Work, block: tuple[int, int]) -> int:
    side = block[1] if work.style == Style.ROW else block[0]
    return -(-work.kept // side)


# -- arguments ---------------------------------------------------------------------------------------------


def argument_block(arguments: Sequence[Argument], address: Callable[[Any], int]) -> np.ndarray:
    """int64[n]: one word per argument, as the CPU's kernels get them; floats are the bits of a float64.

    ``address`` tells where a Pointer's variable begins, and where Scratch and Status memory lies. The words
    of several steps, one after the other, are the table of one launch.
    """
    return np.array([_word(a, address) for a in arguments], np.int64)


def _word(argument: Argument, address: Callable[[Any], int]) -> int:
    if isinstance(argument, Phase):
        return 0  # comes with the launch
    if isinstance(argument, Pointer):
        return address(argument) + argument.offset * argument.var.dtype.itemsize
    if isinstance(argument, (Scratch, Status)):
        return address(argument)
    if argument.dtype.kind == "f":
        return struct.unpack("q", struct.pack("d", argument.value))[0]
    return int(np.asarray(argument.value).astype(argument.dtype).astype(np.int64))


# -- many steps in one launch ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Footprint:
    """The addresses that a step reads and writes, in bytes."""

    reads: tuple[range, ...]
    writes: tuple[range, ...]


def independent(a: Footprint, b: Footprint) -> bool:
    """Whether two steps may run at the same time: neither writes what the other touches."""
    return not (_overlap(a.writes, (*b.reads, *b.writes)) or _overlap(b.writes, (*a.reads, *a.writes)))


def _overlap(some: Sequence[range], others: Sequence[range]) -> bool:
    return any(x.start < y.stop and y.start < x.stop for x in some for y in others)


def batches(steps: Sequence[tuple[str, Footprint]]) -> list[list[int]]:
    """Steps in order, as (kernel source, footprint), cut into launches: neighbours with one text that may run
    at the same time are one."""
    found: list[list[int]] = []
    for k, (source, footprint) in enumerate(steps):
        last = found[-1] if found else []
        if last and all(steps[n][0] == source and independent(steps[n][1], footprint) for n in last):
            last.append(k)
        else:
            found.append([k])
    return found
