"""Scalar math for generated kernels, written so that LLVM vectorises it. The table of all functions is `FUNCTIONS`.

Each function is straight-line text over NumPy-typed scalars and the primitives of `intrinsics.py`: no
branches (a `select` computes both sides), no libm, every literal typed. The one text serves three callers: NumPy
scalars, NumPy arrays, and the compiler, which runs it on symbolic values to write LLVM IR (`jit_names.py`).

`ULP_BOUNDS` states for each function how far the result may lie from the exact value, in units in the last
place; the tests measure it. Special values (NaN, infinities, signed zeros, subnormals in and out, overflow) follow C99.
The bounds hold with hardware FMA. Without it LLVM calls libm's fma: the results stay, the speed goes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jtorch.compile.codegen import vecmath_exp, vecmath_log, vecmath_pow, vecmath_special, vecmath_trig

FUNCTIONS: dict[str, Callable[..., Any]] = {}
for _family in (vecmath_exp, vecmath_log, vecmath_pow, vecmath_special, vecmath_trig):
    FUNCTIONS.update({name: getattr(_family, name) for name in _family.__all__})

globals().update(FUNCTIONS)

ULP_BOUNDS: dict[str, float] = {}
