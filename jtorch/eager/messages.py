"""Errors in PyTorch's words, from what NumPy refused."""

from __future__ import annotations

import numpy as np

from jtorch import dtypes as dt
from jtorch.op import Kind, Op


def explain(op: Op, values: tuple, error: Exception) -> Exception:
    """The error to raise when computing ``op`` on ``values`` failed with ``error``."""
    from jtorch.errors import CompileError

    if isinstance(error, CompileError):
        return error
    for value in values:
        if getattr(value, "leaked", False):  # made while a function was compiled, and used outside
            try:
                value.concrete(op.name)
            except CompileError as leak:
                return leak
    shapes = [tuple(v.shape) for v in values if hasattr(v, "shape")]
    if isinstance(error, IndexError):
        return IndexError(str(error))
    if op.kind is Kind.ELEMENTWISE and isinstance(error, ValueError):
        mismatch = broadcast_mismatch(shapes)
        if mismatch is not None:
            return RuntimeError(mismatch)
    dtypes = [str(v.dtype) for v in values if hasattr(v, "dtype")]
    return type(error)(f"{op.name}: {error} (shapes {shapes}, dtypes {dtypes})")


def broadcast_mismatch(shapes: list[tuple[int, ...]]) -> str | None:
    """PyTorch's sentence for shapes that don't broadcast, None for shapes that do."""
    for k in range(1, len(shapes)):
        a, b = shapes[0], shapes[k]
        for back in range(1, min(len(a), len(b)) + 1):
            if a[-back] != b[-back] and 1 not in (a[-back], b[-back]):
                place = max(len(a), len(b)) - back
                return (
                    f"The size of tensor a ({a[-back]}) must match the size of tensor b ({b[-back]}) at "
                    f"non-singleton dimension {place}"
                )
    return None


def bad_argument(op: Op, values: tuple) -> str:
    """For an argument that is neither a tensor nor a number."""
    wrong = next((v for v in values if not hasattr(v, "dtype") and not isinstance(v, (int, float))), None)
    hint = " Make it one with jtorch.tensor(...)." if isinstance(wrong, (list, tuple)) else ""
    return f"{op.public or op.name}(): argument must be Tensor or a number, not {type(wrong).__name__}.{hint}"


_LONG_NAMES = {
    "float16": "Half", "float32": "Float", "float64": "Double", "int64": "Long", "int32": "Int",
    "int16": "Short", "int8": "Char", "uint8": "Byte", "bool": "Bool", "uint64": "UInt64",
}  # fmt: skip


def long_name(d: np.dtype) -> str:
    """The name PyTorch's errors give a dtype: Float, Long..."""
    return _LONG_NAMES[dt.of(d).name]


def not_floating(op: Op, d: np.dtype) -> str:
    return (
        f"{op.public}(): could not infer output dtype. Input dtype must be either a floating point or "
        f"complex dtype. Got: {long_name(d)}"
    )
