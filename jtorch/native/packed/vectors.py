"""What the parts of the packed product's text share: its layout in memory, and vectors of one dtype."""

from __future__ import annotations

import platform
from typing import NamedTuple

from jtorch.native.llvm_text import Value, Writer

AXES = 6
"""Axes that rows, columns, the inner axis and the batch may have each."""

# Words of a description: the addresses of two factors and of c, how many products are summed, the addresses
# of malloc and free, which of the factors is a (0 or 1; the other one is b), the address of the bias, one
# number per column that is added to the result, or 0, and the four parts, each AXES times (size, bytes in a,
# in b, in c), the last axis innermost and unused ones in front, with size 1.
INNER, MALLOC, FREE, FIRST, BIAS = 3, 4, 5, 6, 7
AXIS_WORDS = 4
PARTS = {name: 8 + k * AXES * AXIS_WORDS for k, name in enumerate(("batch", "rows", "columns", "inner"))}
IN_A, IN_B, IN_C = 1, 2, 3

INNER_BLOCK = 256
"""KC: products that are summed in registers before they are added to the result."""

SMALL_ROWS, SMALL_PAIRS = 256, 8
"""Rows, and pairs of vectors of columns, that the kernel of many small matrices knows at a time, at most."""

RUNS = 4
"""Loads that a vector is put together from at most: rows of 4 pixels need four for 16 lanes."""

PLAIN = RUNS + 1

RUN_WORDS = 1 + 2 * RUNS
"""How a vector is loaded: the number of runs (0: there are more; PLAIN: one that has all lanes),
then for each run which lanes it has, as bits, and where lane 0 would be."""

_PACKED_ROWS = 1 << 20
"""Bytes of the rows that are packed together, at most: they stay in a core's second cache, and all columns
are packed again for each. A quarter of it takes 1.1 to 1.25 times as long for 700 x 200 by 200 x 10,000.
"""

_MACHINE = platform.machine().lower()
REGISTER_CLASS = {"x86_64": "v", "amd64": "v", "aarch64": "w", "arm64": "w"}.get(_MACHINE)
"""That of vectors, as constraints of inline assembler spell it; None where it is not known."""

_ITEM = {"f32": 4, "f64": 8}
_FLOAT = {"f32": "float", "f64": "double"}


class Registers(NamedTuple):
    """How the innermost loop uses a machine: bytes of a vector, rows of the result at a time, and whether an
    instruction makes float32 of float16."""

    vector: int
    rows: int
    widens: bool = False


class Vectors:
    """Vectors of "f32" or "f64" on a machine, and what LLVM does with them."""

    def __init__(self, dtype: str, registers: Registers) -> None:
        self.item, self.float = _ITEM[dtype], _FLOAT[dtype]
        self.factor_item = self.item  # bytes of an element in memory
        self.bytes, self.rows, self.widens = registers
        self.lanes = self.bytes // self.item
        self.kind = f"<{self.lanes} x {self.float}>"
        self.offsets, self.mask = f"<{self.lanes} x i64>", f"<{self.lanes} x i1>"
        self.bits = f"i{self.lanes}"
        self.every = (1 << self.lanes) - 1
        self.suffix = f"v{self.lanes}{dtype}"
        self.left = -(-self.rows // self.lanes)  # vectors of a packed panel of rows
        self.panel_bytes = INNER_BLOCK * self.left * self.bytes
        self.panels = _PACKED_ROWS // self.panel_bytes  # of rows that are packed together

    def declarations(self) -> str:
        """Of all intrinsics that the text calls."""
        v, name = self.kind, self.suffix
        pointers = f"<{self.lanes} x ptr>"
        return f"""
declare {v} @llvm.fmuladd.{name}({v}, {v}, {v})
declare {v} @llvm.masked.gather.{name}.v{self.lanes}p0({pointers}, i32, {self.mask}, {v})
declare {v} @llvm.masked.load.{name}.p0(ptr, i32, {self.mask}, {v})
declare void @llvm.masked.store.{name}.p0({v}, ptr, i32, {self.mask})
declare {self.bits} @llvm.cttz.{self.bits}({self.bits}, i1)
"""

    def load(self, w: Writer, place: Value) -> Value:
        return w.operation(self.kind, f"load {self.kind}, {place}, align {self.item}")

    def store(self, w: Writer, vector: Value, place: Value) -> None:
        w.instruction(f"store {vector}, {place}, align {self.item}")

    def masked_load(self, w: Writer, place: Value, mask: Value, otherwise: Value) -> Value:
        arguments = f"{place}, i32 {self.item}, {mask}, {otherwise}"
        return w.operation(self.kind, f"call {self.kind} @llvm.masked.load.{self.suffix}.p0({arguments})")

    # how factors are read, which may be other than what is computed in: see halves.py

    def read(self, w: Writer, place: Value) -> Value:
        return self.load(w, place)

    def masked_read(self, w: Writer, place: Value, mask: Value, otherwise: Value) -> Value:
        return self.masked_load(w, place, mask, otherwise)

    def read_one(self, w: Writer, place: Value) -> Value:
        """A single element."""
        return w.load(place, kind=self.float)

    def gather(self, w: Writer, place: Value, offsets: Value) -> Value:
        """The elements at ``offsets``, in bytes, from a place."""
        pointers = w.operation(f"<{self.lanes} x ptr>", f"getelementptr i8, {place}, {offsets}")
        name = f"@llvm.masked.gather.{self.suffix}.v{self.lanes}p0"
        arguments = f"{pointers}, i32 {self.item}, {self.mask} splat (i1 true), {self.kind} poison"
        return w.operation(self.kind, f"call {self.kind} {name}({arguments})")

    def masked_store(self, w: Writer, vector: Value, place: Value, mask: Value) -> None:
        arguments = f"{vector}, {place}, i32 {self.item}, {mask}"
        w.instruction(f"call void @llvm.masked.store.{self.suffix}.p0({arguments})")

    def multiply_add(self, w: Writer, a: Value, b: Value, c: Value) -> Value:
        return w.operation(self.kind, f"call {self.kind} @llvm.fmuladd.{self.suffix}({a}, {b}, {c})")

    def in_order(self, w: Writer, vector: Value) -> Value:
        """The vector itself, computed before memory is read that is read after it in the text.

        LLVM would load all that a loop needs first, and then have no registers left to sum in.
        """
        if REGISTER_CLASS is None:
            return vector
        text = f'asm sideeffect "", "={REGISTER_CLASS},0,~{{memory}}"'
        return w.operation(self.kind, f"call {self.kind} {text}({vector})")

    def spread(self, w: Writer, number: Value, kind: str) -> Value:
        """A vector of copies."""
        one = w.operation(kind, f"insertelement {kind} poison, {number}, i64 0")
        zeros = f"<{self.lanes} x i32> zeroinitializer"
        return w.operation(kind, f"shufflevector {one}, {kind} poison, {zeros}")

    def mask_of(self, w: Writer, word: Value) -> Value:
        """The bits of a word as a mask of lanes."""
        bits = w.operation(self.bits, f"trunc {word} to {self.bits}")
        return w.operation(self.mask, f"bitcast {bits} to {self.mask}")

    def first(self, w: Writer, count: Value) -> Value:
        """A mask of the first ``count`` lanes: of none, or of all, where it is beyond their range."""
        numbers = ", ".join(f"i64 {n}" for n in range(self.lanes))
        counts = self.spread(w, count, f"<{self.lanes} x i64>")
        return w.operation(self.mask, f"icmp sgt {counts}, <{numbers}>")

    @property
    def nothing(self) -> Value:
        """What adding it changes nothing, not even the sign of 0."""
        return Value(self.kind, f"splat ({self.float} -0.0)")

    @property
    def zero(self) -> Value:
        return Value(self.kind, "zeroinitializer")
