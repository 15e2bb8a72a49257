"""A kernel as Python functions over NumPy arrays, one for each basic block, and a line for each instruction.

def block_3(m, at):                # at: which lanes are here, None for all
    rd4 = m.get(7, at)
    f1 = m.load('global', rd4, 4, 12).view(F4)
    f2 = f1 * F4_40000000
    ...
    m.put(9, f2, at)               # only what other blocks read
    return p1                      # which lanes take the branch
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from jtorch.native.intrinsics import fma
from tests.cuda.ptx import arithmetic
from tests.cuda.ptx.blocks import Block, blocks_of
from tests.cuda.ptx.errors import PtxError
from tests.cuda.ptx.instructions import array_type, lines
from tests.cuda.ptx.memory import Allocation
from tests.cuda.ptx.parse import Array, Entry, Immediate, Module, Operand, Register, Special, Symbol, parse

_SHARED_APART = 1 << 20  # bytes from one shared array to the next: what runs over the end of one meets none


class Kernel:
    """A translated entry: ``functions[k](machine, lanes)`` runs basic block ``k``."""

    def __init__(self, entry: Entry, arrays: dict[str, Array], tables: dict[str, Allocation]) -> None:
        self.name, self.parameters, self.max_threads = entry.name, entry.parameters, entry.max_threads
        self.blocks = blocks_of(entry)
        self.items = [item for block in self.blocks for item in block.instructions]
        self.slots = {name: k for k, name in enumerate(entry.registers)}
        self.dtypes = [dtype_of(kind) for kind in entry.registers.values()]
        self.shared = {name: array for name, array in arrays.items() if array.space == "shared"}
        self.shared_bases = {name: (k + 1) * _SHARED_APART for k, name in enumerate(self.shared)}
        self.tables = tables
        writer = _Writer(self, entry.registers)
        self.source = "\n".join(map(writer.block, self.blocks))
        namespace: dict[str, Any] = {"np": np, "fma": fma, **vars(arithmetic), **writer.constants}
        exec(compile(self.source, f"<ptx {self.name}>", "exec"), namespace)
        self.functions: list[Callable] = [namespace[f"block_{block.number}"] for block in self.blocks]

    def __repr__(self) -> str:
        return f"<kernel {self.name} of PTX>"


@lru_cache(maxsize=1024)
def load(text: str) -> dict[str, Kernel]:
    """The kernels of a module by name. Raises PtxError for what the machine does not know."""
    module = parse(text)
    tables = _tables(module)
    return {name: Kernel(entry, module.arrays, tables) for name, entry in module.entries.items()}


def _tables(module: Module) -> dict[str, Allocation]:
    """The module's arrays in device memory. What has a content is a table, which no kernel may write."""
    tables = {}
    for name, array in module.arrays.items():
        if array.space != "shared":
            room = np.zeros(array.size + array.align, np.uint8)
            skipped = -room.ctypes.data % array.align
            data = room[skipped : skipped + array.size]
            data[:] = np.frombuffer(array.data or bytes(array.size), np.uint8)
            tables[name] = Allocation(data.ctypes.data, data, name, constant=array.data is not None)
    return tables


def dtype_of(kind: str) -> np.dtype:
    return np.dtype(bool if kind == "pred" else getattr(arithmetic, array_type(kind)))


class _Writer:
    def __init__(self, kernel: Kernel, registers: dict[str, str]) -> None:
        self.kernel, self.registers = kernel, registers
        self.constants: dict[str, np.ndarray] = {}
        self.number = 0

    def block(self, block: Block) -> str:
        """The function of a block."""
        text = [f"{_name(r)} = m.get({self._slot(r)}, at)" for r in sorted(block.reads)]
        for item in block.body:
            try:
                text += lines(self, item)
            except (PtxError, ValueError) as error:
                raise self._unknown(item, error) from error
            self.number += 1
        text += [f"m.put({self._slot(r)}, {_name(r)}, at)" for r in sorted(block.writes & block.live)]
        if block.end:
            text += self._end(block)
            self.number += 1
        return f"def block_{block.number}(m, at):\n" + "".join(f"    {line}\n" for line in text or ["pass"])

    def _end(self, block: Block) -> list[str]:
        if block.is_barrier and block.end.text.split() != ["bar.sync", "0"]:
            raise self._unknown(block.end, "only barrier 0 of all threads is known")
        guard = block.end.guard
        return [f"return {'~' if block.end.negated else ''}{_name(guard.name)}"] if guard else []

    def _unknown(self, item: Any, why: Any) -> PtxError:
        return PtxError(f"{self.kernel.name}, line {item.line} `{item.text}`: {why}")

    def _slot(self, register: str) -> int:
        if register not in self.kernel.slots:
            raise PtxError(f"{self.kernel.name}: the register {register} is not declared")
        return self.kernel.slots[register]

    # -- operands ------------------------------------------------------------------------------------------

    def read(self, operand: Operand, kind: str) -> str:
        if isinstance(operand, Register):
            return self._register(operand.name, kind)
        if isinstance(operand, Special):
            return f"m.special({operand.name!r}, at).astype({array_type(kind)})"
        if isinstance(operand, Immediate):
            return self._constant(self._bits(operand, kind), kind)
        if isinstance(operand, Symbol):
            return self._constant(self._address(operand.name), kind)
        raise PtxError("unknown operand")

    def _register(self, name: str, kind: str) -> str:
        self._slot(name)
        has, wanted = self.registers[name], array_type(kind)
        if array_type(has) == wanted:
            return _name(name)
        have, size = dtype_of(has).itemsize, dtype_of(kind).itemsize
        if have < size or "pred" in (has, kind):
            raise PtxError(f"{name} is a .{has}, and read as .{kind}")
        low = _name(name) if have == size else f"{_name(name)}.astype(U{size})"
        return low if have != size and wanted == f"U{size}" else f"{low}.view({wanted})"

    @staticmethod
    def _bits(operand: Immediate, kind: str) -> int:
        if operand.kind and operand.kind != kind and operand.kind[1:] != kind[1:]:
            raise PtxError(f"a number of .{operand.kind} is read as .{kind}")
        if kind[0] == "f" and not operand.kind:
            raise PtxError(f"an integer is read as .{kind}")
        return operand.bits

    def _constant(self, bits: int, kind: str) -> str:
        dtype = dtype_of(kind)
        if kind == "pred":
            name, array = f"bool_{bool(bits)}", np.array([bool(bits)])
        else:
            bits %= 1 << 8 * dtype.itemsize
            name, array = f"{array_type(kind)}_{bits:x}", np.array([bits], f"u{dtype.itemsize}").view(dtype)
        self.constants[name] = array
        return name

    def _address(self, name: str) -> int:
        if name in self.kernel.tables:
            return self.kernel.tables[name].base
        if name not in self.kernel.shared:
            raise PtxError(f"{name} is not declared")
        return self.kernel.shared_bases[name]

    def parameter(self, name: str) -> tuple[int, int]:
        for number, parameter in enumerate(self.kernel.parameters):
            if parameter.name == name:
                return number, parameter.size
        raise PtxError(f"no parameter {name}")

    def assign(self, target: Operand, text: str, kind: str) -> str:
        if not isinstance(target, Register):
            raise PtxError("the target is no register")
        self._slot(target.name)
        has, given = dtype_of(self.registers[target.name]), dtype_of(kind)
        if has.itemsize < given.itemsize or (has.kind == "b") != (given.kind == "b"):
            raise PtxError(f"{target.name} is a .{self.registers[target.name]}, and gets a .{kind}")
        if has.itemsize > given.itemsize:
            if given.kind == "f":
                raise PtxError(f"{target.name} is a .{self.registers[target.name]}, and gets a .{kind}")
            text = f"({text}).astype({given.kind.upper()}{has.itemsize})"
            given = np.dtype(f"{given.kind}{has.itemsize}")
        return f"{_name(target.name)} = {text if has == given else f'({text}).view({array_type_of(has)})'}"


def array_type_of(dtype: np.dtype) -> str:
    return f"{dtype.kind.upper()}{dtype.itemsize}"


def _name(register: str) -> str:
    """The variable of a register: rd4 for %rd4."""
    return re.sub(r"\W", "_", register.removeprefix("%"))
