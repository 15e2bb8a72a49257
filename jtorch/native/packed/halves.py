"""Factors of 16 bits, which become float32 as they are read.

So no copy of a factor in the larger form is ever in memory. What is multiplied and summed is what a product
of the converted factors would be, to the bit.
"""

from __future__ import annotations

from jtorch.native.llvm_text import Value, Writer
from jtorch.native.packed.vectors import Registers, Vectors

HALVES = ("f16", "bf16")

_LEAST, _MOVED, _INFINITE = (127 - 14) << 23, (127 - 15) << 23, (255 - 31) << 23


class Halves(Vectors):
    """Vectors of float32, of factors of "f16" or "bf16"."""

    def __init__(self, dtype: str, registers: Registers) -> None:
        super().__init__("f32", registers)
        self.dtype, self.factor_item = dtype, 2
        self.raw, self.words = f"<{self.lanes} x i16>", f"<{self.lanes} x i32>"

    def declarations(self) -> str:
        n, raw = self.lanes, self.raw
        return f"""{super().declarations()}
declare {raw} @llvm.masked.gather.v{n}i16.v{n}p0(<{n} x ptr>, i32, {self.mask}, {raw})
declare {raw} @llvm.masked.load.v{n}i16.p0(ptr, i32, {self.mask}, {raw})
"""

    def read(self, w: Writer, place: Value) -> Value:
        return self._wide(w, w.operation(self.raw, f"load {self.raw}, {place}, align 2"))

    def masked_read(self, w: Writer, place: Value, mask: Value, otherwise: Value) -> Value:
        arguments = f"{place}, i32 2, {mask}, {self.raw} zeroinitializer"
        name = f"@llvm.masked.load.v{self.lanes}i16.p0"
        found = self._wide(w, w.operation(self.raw, f"call {self.raw} {name}({arguments})"))
        return w.chosen(mask, found, otherwise)

    def gather(self, w: Writer, place: Value, offsets: Value) -> Value:
        n = self.lanes
        pointers = w.operation(f"<{n} x ptr>", f"getelementptr i8, {place}, {offsets}")
        arguments = f"{pointers}, i32 2, {self.mask} splat (i1 true), {self.raw} poison"
        name = f"@llvm.masked.gather.v{n}i16.v{n}p0"
        return self._wide(w, w.operation(self.raw, f"call {self.raw} {name}({arguments})"))

    def read_one(self, w: Writer, place: Value) -> Value:
        return self._wide(w, w.load(place, kind="i16"))

    def _wide(self, w: Writer, raw: Value) -> Value:
        """Numbers, or one, of these bits: ``native/halves.py`` says why."""
        several = raw.kind == self.raw
        words, made, truth = (self.words, self.kind, self.mask) if several else ("i32", self.float, "i1")

        def apply(name: str, value: Value, number: int, kind: str = words) -> Value:
            return w.operation(kind, f"{name} {value}, {f'splat (i32 {number})' if several else number}")

        def of_bits(value: Value) -> Value:
            return w.operation(made, f"bitcast {value} to {made}")

        if self.dtype == "f16" and self.widens:
            half = raw.kind.replace("i16", "half")
            return w.operation(made, f"fpext {w.operation(half, f'bitcast {raw} to {half}')} to {made}")
        bits = w.operation(words, f"zext {raw} to {words}")
        if self.dtype == "bf16":
            return of_bits(apply("shl", bits, 16))
        size = apply("shl", apply("and", bits, 0x7FFF), 13)  # exponent and fraction where float32 has them
        exponent = apply("and", size, 0x0F800000)
        least = of_bits(apply("or", Value(words, "zeroinitializer" if several else "0"), _LEAST))
        small = w.operation(made, f"fsub {of_bits(apply('add', size, _LEAST))}, {least.name}")
        below = w.operation(words, f"bitcast {small} to {words}")  # normal numbers are 1.f, these 0.f
        found = w.chosen(apply("icmp eq", exponent, 0, truth), below, apply("add", size, _MOVED))
        infinite = apply("icmp eq", exponent, 0x0F800000, truth)
        found = w.chosen(infinite, apply("add", size, _INFINITE), found)
        sign = apply("shl", apply("and", bits, 0x8000), 16)
        return of_bits(w.operation(words, f"or {found}, {sign.name}"))
