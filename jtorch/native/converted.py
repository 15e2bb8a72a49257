"""Products of 16-bit factors by BLAS, from copies in float32 that live as long as the call.

BLAS has no such products. Where it is the one to compute a product of float32 (``contraction.py``), what it
reads is converted into memory of the call's own, some kilobytes that stay in the cache.
"""

from __future__ import annotations

import functools

from jtorch.native import blas, cache
from jtorch.native.llvm_text import NULL, Value, Writer, integer
from jtorch.native.loader import Effort
from jtorch.native.packed import NO_MEMORY, fingerprint, memory_functions, registers
from jtorch.native.packed.halves import Halves
from jtorch.native.packed.vectors import Registers

_X, _Y = 1, 2  # words of BLAS's block
_KERNEL, _MALLOC, _FREE, _SPANS = range(blas.THREADED_WORDS, blas.THREADED_WORDS + 4)
WORDS = _SPANS + 2
"""Words of an argument block: those of BLAS's kernel, as many as it may have, then its address, those of
malloc and free, and how many elements of x and y it may read, from the first one on."""


def kernel(dtype: str) -> int:
    """The address of the kernel for factors of "f16" or "bf16"; its status is BLAS's, or NO_MEMORY."""
    return _kernels(dtype, registers())["jtorch_converted_product"]


def words(of_blas: list[int], by_blas: int, spans: tuple[int, int]) -> list[int]:
    """The block of a product that ``of_blas`` is the block of, in float32, for BLAS's kernel ``by_blas``."""
    rest = [0] * (blas.THREADED_WORDS - len(of_blas))
    return [*of_blas, *rest, by_blas, *memory_functions(), *spans]


@functools.cache
def _kernels(dtype: str, shape: Registers) -> dict[str, int]:
    identity = f"converted product {dtype} {tuple(shape)} {fingerprint()}"
    name = f"converted_product_{dtype}"
    return cache.get_or_build_written_ir(identity, name, lambda: _text(dtype, shape), Effort.REGISTERS)


def _text(dtype: str, shape: Registers) -> str:
    v = Halves(dtype, shape)
    w = Writer("jtorch_converted_product", {"block": "ptr"}, gives="i64")
    block = w.parameters["block"]
    spans = [w.load(block, 8 * (_SPANS + k), kind="i64") for k in range(2)]
    spans = [w.chosen(w.less(n, integer(0)), integer(0), n) for n in spans]  # of no rows
    size = w.times(w.plus(w.plus(*spans), integer(2 * v.lanes)), integer(v.item))
    memory = w.call(w.load(block, 8 * _MALLOC), size)
    w.give_if(w.same(memory, NULL), integer(NO_MEMORY))
    own = w.array("i64", blas.THREADED_WORDS)
    with w.repeat(integer(blas.THREADED_WORDS)) as k:
        w.store_nth(w.load_nth(block, k, kind="i64"), own, k)
    place = memory
    for which, n in zip((_X, _Y), spans, strict=True):
        _convert(v, w, w.load(block, 8 * which), n, place)
        w.store(place, own, 8 * which)
        place = w.at_bytes(place, w.times(n, integer(v.item)))
    status = w.call(w.load(block, 8 * _KERNEL), own, gives="i64")
    w.call(w.load(block, 8 * _FREE), memory, gives="void")
    w.give(status)
    return f"{w.text()}\n{v.declarations()}"


def _convert(v: Halves, w: Writer, source: Value, count: Value, out: Value) -> None:
    """So many elements, in vectors and then one by one: nothing beyond them is read."""
    whole = w.quotient(count, integer(v.lanes))
    with w.repeat(whole) as k:
        here = w.times(k, integer(v.lanes))
        vector = v.read(w, w.at_bytes(source, w.times(here, integer(v.factor_item))))
        v.store(w, vector, w.at_bytes(out, w.times(here, integer(v.item))))
    done = w.times(whole, integer(v.lanes))
    with w.repeat(w.minus(count, done)) as rest:
        here = w.plus(done, rest)
        one = v.read_one(w, w.at_bytes(source, w.times(here, integer(v.factor_item))))
        w.store(one, w.at_bytes(out, w.times(here, integer(v.item))))
