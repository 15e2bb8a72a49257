"""Runs kernels: all threads of many blocks side by side, one lane of a NumPy array each.

Lanes wait in front of basic blocks. Of the blocks that lanes wait at, the first in the text runs, for all of
its lanes at once: so lanes that went apart come together again. At a barrier lanes wait until all threads of
their block are there. No order of threads shows in what a launch does, for two accesses that an order would
decide are an error (``shadow.py``).

    kernel = load(text)["name"]
    launch(kernel, (blocks, 1, 1), (threads, 1, 1), [struct.pack("Q", address), struct.pack("q", n)], memory)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

import numpy as np

from tests.cuda.ptx.access import Access, check_alignment
from tests.cuda.ptx.blocks import Block
from tests.cuda.ptx.errors import BadLaunchError, BarrierDivergenceError, EndlessError, LaunchError
from tests.cuda.ptx.memory import Allocation, Memory, Piece
from tests.cuda.ptx.parse import Instruction
from tests.cuda.ptx.shadow import Shadow, codes
from tests.cuda.ptx.translate import Kernel

LANES = 1 << 15  # that run side by side, in whole thread blocks
STEPS = 1 << 20  # basic blocks that these may go through
MAX_SHARED = 48 << 10  # bytes of a block
GARBAGE = 0xCB  # what registers and shared memory begin with

Shape = tuple[int, int, int]


def launch(
    kernel: Kernel, grid: Shape, block: Shape, arguments: Sequence[bytes], memory: Memory, steps: int = STEPS
) -> dict[Allocation, Shadow]:
    """Run ``kernel`` over ``grid`` blocks of ``block`` threads; it is done when this returns.

    ``arguments``: the bytes of each, as many as its ``.param`` has. ``memory``: all that addresses may point
    to. Returns who read and wrote what of it. Raises a LaunchError for whatever the launch does wrong; what
    it wrote until then stays.
    """
    _check_shape(kernel, grid, block)
    _check_arguments(kernel, arguments)
    tables = [memory.add(table) for table in kernel.tables.values()]
    access, threads = Access(), prod(block)
    together = max(LANES // threads, 1)
    try:
        for first in range(0, prod(grid), together):
            numbers = np.arange(first, min(first + together, prod(grid)))
            _Run(kernel, grid, block, arguments, memory, access, numbers).run(steps)
    finally:
        for table in tables:
            memory.remove(table)
    return access.shadows


def _check_shape(kernel: Kernel, grid: Shape, block: Shape) -> None:
    shape = f"{kernel.name}: a grid of {grid} blocks of {block} threads"
    if min(*grid, *block) < 1 or grid[0] >= 1 << 31 or max(grid[1:]) >= 1 << 16:
        raise BadLaunchError(f"{shape} is none")
    if prod(block) > kernel.max_threads:
        raise BadLaunchError(f"{shape}: the kernel is compiled for {kernel.max_threads} threads")
    shared = sum(array.size for array in kernel.shared.values())
    if shared > MAX_SHARED:
        raise BadLaunchError(f"{shape}: {shared} bytes of shared memory")


def _check_arguments(kernel: Kernel, arguments: Sequence[bytes]) -> None:
    if len(arguments) != len(kernel.parameters):
        raise BadLaunchError(f"{kernel.name} takes {len(kernel.parameters)} arguments, not {len(arguments)}")
    for k, (given, parameter) in enumerate(zip(arguments, kernel.parameters, strict=True)):
        if len(given) != parameter.size:
            wanted = f".param .{parameter.kind} {parameter.size}"
            raise BadLaunchError(f"{kernel.name}: argument {k} is {len(given)} bytes, and {wanted}")


class _Run:
    """Some thread blocks of a launch. The translated code calls ``get`` and the methods below it."""

    def __init__(
        self, kernel: Kernel, grid: Shape, block: Shape, arguments: Sequence[bytes], memory: Memory,
        access: Access, numbers: np.ndarray,
    ) -> None:  # fmt: skip
        self.kernel, self.grid, self.block, self.arguments = kernel, grid, block, arguments
        self.access, self.numbers = access, numbers
        self.threads = prod(block)
        self.n = self.threads * len(numbers)
        self.row = np.arange(self.n) // self.threads  # which of these blocks a lane is in
        self.thread = np.arange(self.n) % self.threads
        self.epochs = np.zeros(len(numbers), np.int64)  # barriers that a block has passed
        self.has_ended = np.zeros(self.n, bool)
        self.who = codes(self.numbers[self.row], self.epochs[self.row], self.thread)
        self.registers: list[np.ndarray] = [_garbage(1, dtype) for dtype in kernel.dtypes]
        self.spaces = {"global": memory, "shared": self._shared()}
        self.lanes = np.arange(self.n)  # that are at the instruction

    def _shared(self) -> Memory:
        memory = Memory()
        for name, array in self.kernel.shared.items():
            base = self.kernel.shared_bases[name]
            found = Allocation(base, np.empty(0, np.uint8), f"shared memory {name}", row=array.size)
            found.data = _garbage(found.stride * len(self.numbers), np.dtype(np.uint8))
            found.written = np.zeros(len(found.data), bool)
            memory.add(found)
        return memory

    # -- control -------------------------------------------------------------------------------------------

    @np.errstate(all="ignore")
    def run(self, steps: int) -> None:
        waiting: dict[int, list[np.ndarray]] = {0: [self.lanes]}  # in front of basic blocks
        stopped: dict[int, list[np.ndarray]] = {}  # at the barriers that blocks end with
        while waiting or stopped:
            if not waiting:
                waiting = self._release(stopped)
            number = min(waiting)
            self.lanes = _joined(waiting.pop(number))
            block = self.kernel.blocks[number]
            if steps == 0:
                raise self._located(EndlessError("the launch does not end"), block.instructions[0])
            steps -= 1
            taken = self.kernel.functions[number](self, self._at())
            if block.is_barrier:
                stopped.setdefault(number, []).append(self.lanes)
                continue
            for target, lanes in self._ways(block, taken):
                waiting.setdefault(target, []).append(lanes)

    def _at(self) -> slice | np.ndarray | None:
        """The lanes as an index: none where it is all of them, and a slice where they are neighbours."""
        first, last = int(self.lanes[0]), int(self.lanes[-1])
        if len(self.lanes) == self.n:
            return None
        return slice(first, last + 1) if last - first == len(self.lanes) - 1 else self.lanes

    def _ways(self, block: Block, taken: np.ndarray | None) -> Iterable[tuple[int, np.ndarray]]:
        """Where lanes go after a block, those aside that have ended."""
        if taken is None:
            ways = [(block.below if block.taken is None else block.taken, self.lanes)]
        else:
            taken = np.broadcast_to(taken, self.lanes.shape)
            ways = [(block.taken, self.lanes[taken]), (block.below, self.lanes[~taken])]
        for target, lanes in ways:
            if target is None:
                self.has_ended[lanes] = True
            elif len(lanes):
                yield target, lanes

    def _release(self, stopped: dict[int, list[np.ndarray]]) -> dict[int, list[np.ndarray]]:
        """Thread blocks of which all threads wait at one barrier go on."""
        free: dict[int, list[np.ndarray]] = {}
        for number, groups in list(stopped.items()):
            lanes = _joined(groups)
            complete = np.bincount(self.row[lanes], minlength=len(self.numbers)) == self.threads
            goes = complete[self.row[lanes]]
            self.epochs[complete] += 1
            stopped[number] = [lanes[~goes]]
            if goes.any():
                free[self.kernel.blocks[number].below] = [lanes[goes]]
            if goes.all():
                del stopped[number]
        if not free:
            raise self._divergence(stopped)
        self.who = codes(self.numbers[self.row], self.epochs[self.row], self.thread)
        return free

    def _divergence(self, stopped: dict[int, list[np.ndarray]]) -> LaunchError:
        """Of one thread block: how many of its threads are where."""
        numbers = sorted(stopped)
        (self.lanes,) = stopped[numbers[0]]
        row = self.row[self.lanes[0]]
        found = []
        for number in numbers:
            if many := int((self.row[stopped[number][0]] == row).sum()):
                found.append(f"{many} wait at line {self.kernel.blocks[number].end.line}")
        if ended := int((self.has_ended & (self.row == row)).sum()):
            found.append(f"{ended} have ended")
        fault = BarrierDivergenceError(f"the block's {self.threads} threads do not meet: {', '.join(found)}")
        return self._located(fault, self.kernel.blocks[numbers[0]].end)

    def _located(self, fault: LaunchError, item: Instruction) -> LaunchError:
        """The fault with its place in its message."""
        lane = self.lanes[min(fault.lane, len(self.lanes) - 1)]
        block = _coordinates(int(self.numbers[self.row[lane]]), self.grid)
        thread = _coordinates(int(self.thread[lane]), self.block)
        place = f"{self.kernel.name}, line {item.line} `{item.text}`, block {block}, thread {thread}"
        return type(fault)(f"{place}: {fault.what}")

    # -- registers -----------------------------------------------------------------------------------------

    def get(self, slot: int, at: slice | np.ndarray | None) -> np.ndarray:
        value = self.registers[slot]
        return value if at is None or len(value) == 1 else value[at]

    def put(self, slot: int, value: np.ndarray, at: slice | np.ndarray | None) -> None:
        if at is None:
            self.registers[slot] = value
            return
        if len(self.registers[slot]) == 1:
            self.registers[slot] = np.repeat(self.registers[slot], self.n)
        self.registers[slot][at] = value

    def special(self, name: str, at: slice | np.ndarray | None) -> np.ndarray:
        what, axis = name.split(".")
        k = "xyz".index(axis)
        if what in ("ntid", "nctaid"):
            return np.array([self.block[k] if what == "ntid" else self.grid[k]])
        lanes = slice(None) if at is None else at
        if what == "tid":
            return self.thread[lanes] // prod(self.block[:k]) % self.block[k]
        return self.numbers[self.row[lanes]] // prod(self.grid[:k]) % self.grid[k]

    def parameter(self, number: int) -> np.ndarray:
        """The bytes of an argument."""
        return np.frombuffer(self.arguments[number], np.uint8)

    # -- memory --------------------------------------------------------------------------------------------

    def load(
        self, space: str, addresses: np.ndarray, width: int, number: int, promised: bool = False
    ) -> np.ndarray:
        try:
            pieces = self._pieces(space, addresses, width)
            values = [self.access.load(piece, width, who, promised) for piece, who in pieces]
        except LaunchError as fault:
            raise self._located(fault, self.kernel.items[number]) from None
        if len(pieces) == 1:
            return values[0]
        found = np.empty(len(self.lanes), f"u{width}")
        for (piece, _), value in zip(pieces, values, strict=True):
            found[piece.lanes] = value
        return found

    def store(self, space: str, addresses: np.ndarray, width: int, number: int, values: np.ndarray) -> None:
        values = np.broadcast_to(values, self.lanes.shape)
        try:
            for piece, who in self._pieces(space, np.broadcast_to(addresses, self.lanes.shape), width):
                self.access.store(piece, width, who, values[piece.lanes])
        except LaunchError as fault:
            raise self._located(fault, self.kernel.items[number]) from None

    def _pieces(self, space: str, addresses: np.ndarray, width: int) -> list[tuple[Piece, np.ndarray]]:
        """Where an access goes, and the codes of the threads that access. Of constant memory one address may
        serve all lanes; elsewhere each has its own, in the row of its thread block."""
        check_alignment(addresses, width)
        found = []
        for piece in self.spaces[space].pieces(addresses, width):
            a, lanes = piece.allocation, self.lanes[piece.lanes]
            if not a.constant:
                offsets = piece.offsets + (self.row[lanes] * a.stride if a.row else 0)
                piece = Piece(a, np.broadcast_to(offsets, lanes.shape), piece.lanes)
            found.append((piece, self.who[lanes]))
        return found


def _joined(groups: list[np.ndarray]) -> np.ndarray:
    return groups[0] if len(groups) == 1 else np.sort(np.concatenate(groups))


def _garbage(n: int, dtype: np.dtype) -> np.ndarray:
    return np.full(n * dtype.itemsize, GARBAGE, np.uint8).view(dtype)


def _coordinates(number: int, shape: Shape) -> Shape:
    x, y, _ = shape
    return number % x, number // x % y, number // (x * y)
