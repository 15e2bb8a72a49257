"""Errors in PyTorch's words, from what NumPy refused."""

from __future__ import annotations

from typing import Any

import numpy as np

from jtorch.core import dtypes as dt
from jtorch.core.number_ranges import check_number, is_number, number_type
from jtorch.core.op import Kind, Op


def explain(op: Op, values: tuple, error: Exception) -> Exception:
    """The error to raise when computing ``op`` on ``values`` failed with ``error``."""
    from jtorch.core.errors import CompileError, LinAlgError

    if isinstance(error, (CompileError, LinAlgError)):
        return error
    for value in values:
        if getattr(value, "leaked", False):  # made while a function was compiled, or mapped, and used outside
            try:
                value.concrete(op.name)
            except RuntimeError as leak:
                return leak
    shapes = [tuple(v.shape) for v in values if hasattr(v, "shape")]
    if isinstance(error, IndexError):
        return IndexError(str(error))
    if type(error) is RuntimeError:  # a sentence of our own
        return error
    if isinstance(error, ValueError) and (op.kind is Kind.ELEMENTWISE or "broadcast" in str(error)):
        mismatch = broadcast_mismatch(shapes)
        if mismatch is not None:
            return RuntimeError(mismatch)
    if isinstance(error, TypeError):
        refused = _refused_dtype(op, values, str(error))
        if refused is not None:
            return refused
    dtypes = [str(v.dtype) for v in values if hasattr(v, "dtype")]
    sentence = f"{op.name}: {error} (shapes {shapes}, dtypes {dtypes})"
    if isinstance(error, MemoryError):  # NumPy's own kind takes a shape and a dtype
        return MemoryError(sentence)
    return type(error)(sentence)


def check_bools(op: Op, values: tuple, target: np.dtype) -> None:
    """Raise for the tensors of bools that ``op`` refuses; a power of bools may be a Python bool."""
    sentence = op.refuses_bools
    if sentence is None:
        return
    if sentence.startswith('"'):
        if target.kind == "b" and not (op.name == "pow" and values[-1].__class__ is bool):
            raise NotImplementedError(sentence)
        return
    kinds = ["b" if v.__class__ is bool else v.dtype.kind for v in values if _has_kind(v)]
    if "b" in kinds and kinds != ["b", "b"]:  # two of them NumPy refuses, in another sentence
        raise RuntimeError(sentence)


def _has_kind(value: Any) -> bool:
    return value.__class__ is bool or hasattr(value, "dtype")


def check_power(op: Op, values: tuple, target: np.dtype) -> None:
    """Raise for a negative number as the power of integers, also of none, and of unsigned, where it wraps;
    and for one that the dtype cannot hold. (Of float32 PyTorch takes it.)"""
    if not op.fitting:
        return
    power = values[-1]
    if target.kind in "iu" and number_type(power) is int and power < 0:
        raise RuntimeError("Integers to negative integer powers are not allowed.")
    if target.kind in "iu" or target.itemsize == 2:
        check_number(power, target)


def _refused_dtype(op: Op, values: tuple, sentence: str) -> Exception | None:
    """What PyTorch says where NumPy has no function for a dtype."""
    if "boolean negative" in sentence:
        return RuntimeError(f"Negation, the `-` operator, on a bool tensor is not supported. {_MASK}")
    if "boolean subtract" in sentence:
        return RuntimeError(
            "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or "
            "`logical_xor()` operator instead."
        )
    if "not supported for the input types" not in sentence and "did not contain a loop" not in sentence:
        return None
    kind = next(v.dtype for v in reversed(values) if hasattr(v, "dtype"))
    return NotImplementedError(f"\"{op.name}_cpu\" not implemented for '{long_name(kind)}'")


_MASK = "If you are trying to invert a mask, use the `~` or `logical_not()` operator instead."


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
    wrong = next((v for v in values if not hasattr(v, "dtype") and not is_number(v)), values[-1])
    hint = " Make it one with jtorch.tensor(...)." if isinstance(wrong, (list, tuple)) else ""
    return f"{op.public or op.name}(): argument must be Tensor or a number, not {type(wrong).__name__}.{hint}"


def not_a_tensor(name: str, given: dict[str, Any], error: AttributeError) -> Exception:
    """What to raise where a function failed with ``error``: PyTorch's error, if an argument was to blame."""
    for k, (argument, value) in enumerate(given.items(), 1):
        if error.name is not None and value is error.obj and not hasattr(value, "_data"):
            return _must_be_tensor(name, k, argument, value)
    return error


def check_tensors(name: str, **given: Any) -> None:
    """Raise TypeError for an argument that is no tensor, where a number would do but is none in PyTorch."""
    for k, (argument, value) in enumerate(given.items(), 1):
        if not hasattr(value, "_data"):
            raise _must_be_tensor(name, k, argument, value)


def _must_be_tensor(name: str, position: int, argument: str, value: Any) -> TypeError:
    kind = f"{'numpy.' if isinstance(value, np.ndarray) else ''}{type(value).__name__}"
    return TypeError(f"{name}(): argument '{argument}' (position {position}) must be Tensor, not {kind}")


def long_name(d: np.dtype) -> str:
    """The name PyTorch's errors give a dtype: Float, Long..."""
    return dt.LONG_NAMES[dt.of(d).name]


def not_floating(op: Op, d: np.dtype) -> str:
    return (
        f"{op.public}(): could not infer output dtype. Input dtype must be either a floating point or "
        f"complex dtype. Got: {long_name(d)}"
    )


def not_ordered(op: Op, d: np.dtype) -> str:
    return (
        f"\"{op.public or op.name}_cpu\" not implemented for '{long_name(d)}': complex numbers have no order"
    )
