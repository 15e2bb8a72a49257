"""Functions of sizes that may be symbols, which Python's own would pin to their numbers.

Source: https://docs.pytorch.org/docs/stable/torch.html#symbolic-numbers
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from jtorch.core.dim import Dim, as_float, called, least, most


def sym_int(a: Any) -> Any:
    """``int(a)``"""
    return a if type(a) is Dim else int(a)


def sym_float(a: Any) -> Any:
    """``float(a)``"""
    return as_float(a) if type(a) is Dim else float(a)


def sym_max(a: Any, b: Any) -> Any:
    """The larger of two numbers: a float where one of them is, as in PyTorch."""
    _refuse_tensors("sym_max", a, b)
    return _of_both(most(a, b), a, b)


def sym_min(a: Any, b: Any) -> Any:
    """The smaller of two numbers: a float where one of them is, as in PyTorch."""
    _refuse_tensors("sym_min", a, b)
    return _of_both(least(a, b), a, b)


def _of_both(found: Any, a: Any, b: Any) -> Any:
    return float(found) if isinstance(a, float) or isinstance(b, float) else found


def _refuse_tensors(name: str, *numbers: Any) -> None:
    for number in numbers:
        if hasattr(number, "requires_grad"):
            raise TypeError(f"{name}() takes numbers and sizes: torch.maximum() and minimum() take tensors")


def sym_not(a: Any) -> bool:
    """``not a``"""
    return not a


def sym_ite(b: bool, t: Any, f: Any) -> Any:
    """``t if b else f``. Raises AssertionError unless ``b`` is a bool and both have one type."""
    if not isinstance(b, bool):
        raise AssertionError(f"expected SymBool or bool, got {type(b)}")
    if type(t) is not type(f):
        raise AssertionError(f"expected both of one type, got {type(t)} and {type(f)}")
    return t if b else f


def sym_sqrt(a: Any) -> Any:
    """The root of ``a``, a float."""
    return called(a, math.sqrt) if type(a) is Dim else math.sqrt(a)


def sym_sum(args: Iterable[Any]) -> Any:
    """``sum(args)``"""
    return sum(args)
