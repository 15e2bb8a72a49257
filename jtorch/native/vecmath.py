"""Scalar math for generated kernels, written so that LLVM vectorises it. The table of all functions
is `FUNCTIONS`.

Each function is straight-line text over NumPy-typed scalars and the primitives of `intrinsics.py`:
no branches (a `select` computes both sides), no libm, every literal typed. The one text serves
three callers: NumPy scalars, NumPy arrays, and the compiler, which runs it on symbolic values to
write LLVM IR (`jit_names.py`).

`ULP_BOUNDS` states for each function how far the result may lie from the exact value, in units in
the last place; the tests measure it. Special values (NaN, infinities, signed zeros, subnormals in
and out, overflow) follow C99. The bounds hold with hardware FMA. Without it LLVM calls libm's fma:
the results stay, the speed goes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jtorch.native import (
    vecmath_basic,
    vecmath_exp,
    vecmath_log,
    vecmath_pow,
    vecmath_special,
    vecmath_trig,
)

_FAMILIES = (vecmath_basic, vecmath_exp, vecmath_log, vecmath_pow, vecmath_special, vecmath_trig)

FUNCTIONS: dict[str, Callable[..., Any]] = {}
for _family in _FAMILIES:
    FUNCTIONS.update({name: getattr(_family, name) for name in _family.__all__})


def __getattr__(name: str) -> Callable[..., Any]:  # `from ...vecmath import exp_f32`
    try:
        return FUNCTIONS[name]
    except KeyError:
        raise AttributeError(
            f"no kernel math function is called {name}; there are {sorted(FUNCTIONS)}"
        ) from None


# float32: measured over every 17th of all 2**32 arguments; float64: over some 10**7. Rounded up.
# 0.51 is as good as exact.
ULP_BOUNDS: dict[str, float] = {
    "exp_f32": 0.8, "exp2_f32": 0.8, "expm1_f32": 1.4, "sigmoid_f32": 1.6, "tanh_f32": 1.5,
    "sinh_f32": 1.7, "cosh_f32": 1.2,
    "exp_f64": 0.8, "exp2_f64": 0.8, "expm1_f64": 1.5, "sigmoid_f64": 1.6, "tanh_f64": 1.5,
    "sinh_f64": 1.7, "cosh_f64": 1.2,
    "log_f32": 0.95, "log2_f32": 1.4, "log10_f32": 1.5, "log1p_f32": 1.5,
    "log_f64": 0.9, "log2_f64": 0.9, "log10_f64": 0.9, "log1p_f64": 1.5,
    "pow_f32": 0.51, "pow_f64": 0.8,
    "erf_f32": 1.1, "erfc_f32": 0.51, "erf_f64": 1.2, "erfc_f64": 2.7,
    "rsqrt_f32": 1.5, "rsqrt_f64": 1.5,
    "sin_f32": 1.7, "cos_f32": 1.7, "tan_f32": 0.51, "atan_f32": 1.9,
    "sin_f64": 0.9, "cos_f64": 0.9, "tan_f64": 1.0, "atan_f64": 1.9,
}  # fmt: skip
