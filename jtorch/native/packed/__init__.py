"""Products of matrices that lie anywhere in memory: our own packed kernel.

BLAS wants a matrix with one leading dimension. Here rows, columns, the inner axis and the batch are each a
list of axes with strides of any kind, so that what a convolution multiplies, the windows of an image, needs
no copy: the columns of that product are (image, row, column) and its inner axis is (channel, row, column of
the window).

The way is that of Goto and van de Geijn (Anatomy of High-Performance Matrix Multiplication, 2008): blocks
of both factors are copied ("packed") into panels that lie in the order in which the innermost loop reads
them, which keeps ``rows x 2`` vectors of the result in registers.

    for each KC of the inner axis:                                          loops.py
        for each block of rows:            pack it: panels of up to MR rows, [KC][vector]
            for each two vectors of columns:   pack them: [KC][2 vectors]   packing.py
                for each panel of rows:        registers += panel x panel, then to the result   panel.py

Where rows are worth no copy, the images' windows above all, another kernel reads them where they lie
(direct.py); and so does the one of many small matrices (small.py).

Each element of the result is the sum over the inner axis in order, KC products at a time. Which rows and
columns a call computes changes no bit of it.
"""

from __future__ import annotations

import ctypes
import enum
import functools
import os
from pathlib import Path

from jtorch.core.products import Product
from jtorch.native import blas, cache, cache_files
from jtorch.native.loader import Effort
from jtorch.native.packed.vectors import (
    AXES,
    BIAS as BIAS,
    FIRST as FIRST,
    INNER_BLOCK,
    PARTS,
    SMALL_PAIRS,
    SMALL_ROWS,
    Registers,
    Vectors,
)

PIECE_WORDS = 7
"""Words of an argument block: the description's address, and first and last of batch, rows, columns."""


NO_MEMORY = 2
"""Status where there is none for the blocks: about a megabyte for each thread."""


def registers() -> Registers:
    """Those of this machine, as far as Linux tells; the narrowest elsewhere."""
    flags = blas.cpu_flags()
    widens = "f16c" in flags
    if "avx512f" in flags:
        return Registers(64, 12, widens)
    return Registers(32 if "avx2" in flags else 16, 6, widens)


def describe(product: Product, item: int, first: int = 0, item_out: int = 0) -> list[int]:
    """The words of a product of factors of ``item`` bytes an element, and a result of ``item_out`` if that is
    not the same; its addresses (words 0 to 2: the factors and the result; BIAS) still 0. ``first`` is the
    word of the factor that has the rows: 1 where the product is the transposed one. Raises ValueError where a
    part has more than AXES axes.
    """
    words = [0, 0, 0, product.sizes[3], *memory_functions(), first, 0]
    for name in PARTS:
        axes = getattr(product, name)
        if len(axes) > AXES:
            raise ValueError(f"a product has at most {AXES} axes of {name}, not {len(axes)}")
        words += (1, 0, 0, 0) * (AXES - len(axes))
        for size, in_x, in_y, in_out in axes:
            words += (max(size, 1), in_x * item, in_y * item, in_out * (item_out or item))
    return words


@functools.cache
def memory_functions() -> tuple[int, ...]:
    """The addresses of malloc and free. Blocks lie on the heap: a thread's stack may be smaller than they."""
    library = ctypes.CDLL(None) if os.name == "posix" else ctypes.cdll.msvcrt
    functions = (getattr(library, name) for name in ("malloc", "free"))
    return tuple(ctypes.cast(f, ctypes.c_void_p).value or 0 for f in functions)


class Way(enum.Enum):
    """The kernels, by their names in machine code."""

    PACKED = "jtorch_product"
    DIRECT = "jtorch_direct_product"
    SMALL = "jtorch_small_product"


def fits_small(product: Product, item: int) -> bool:
    """Whether ``Way.SMALL`` can compute it."""
    _, rows, columns, inner = product.sizes
    widest = SMALL_PAIRS * 2 * (registers().vector // item)
    return rows <= SMALL_ROWS and columns <= widest and inner <= INNER_BLOCK


def kernel(dtype: str, way: Way = Way.PACKED) -> int:
    """The address of a kernel for "f32" or "f64", or for factors of "f16" or "bf16" and a result of float32;
    its block has PIECE_WORDS words, its status may be NO_MEMORY."""
    return _kernels(dtype, registers())[way.value]


@functools.cache
def _kernels(dtype: str, shape: Registers) -> dict[str, int]:
    identity = f"packed product {dtype} {tuple(shape)} {fingerprint()}"
    name = f"packed_product_{dtype}"
    # LLVM's pipeline takes seven times as long, and its code is a tenth slower: it moves the loops about
    return cache.get_or_build_written_ir(identity, name, lambda: _text(dtype, shape), Effort.REGISTERS)


def _text(dtype: str, shape: Registers) -> str:
    from jtorch.native.packed.direct import direct
    from jtorch.native.packed.halves import HALVES, Halves
    from jtorch.native.packed.loops import loops
    from jtorch.native.packed.packing import offsets, pack, runs
    from jtorch.native.packed.panel import panel
    from jtorch.native.packed.small import small

    v = Halves(dtype, shape) if dtype in HALVES else Vectors(dtype, shape)
    panels = [panel(v, n + 1) for n in range(v.rows)]
    kernels = loops(v, NO_MEMORY), direct(v, NO_MEMORY), small(v, NO_MEMORY)
    found = [runs(v, item) for item in sorted({v.item, v.factor_item})]
    return "\n".join([offsets(), *found, pack(v), *panels, *kernels, v.declarations()])


@functools.cache
def fingerprint() -> str:
    """Of what decides the text beside the files of ``native``, which the whole cache goes by."""
    files = sorted(Path(__file__).parent.glob("*.py"))
    return cache_files.digest(*(file.read_bytes() for file in files)).hex()
