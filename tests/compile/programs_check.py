"""Random programs through the chain of equal results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import jtorch
from jtorch.core.errors import CompileError
from tests.compile.chain import TOLERANCE, links, trace
from tests.compile.programs_core import Program

# What a recording may answer instead: named, and never a wrong number.
REFUSALS = (
    "more than one element of the written-to tensor refers to a single memory location",
    "some elements of the input tensor and the written-to tensor refer to a single memory location",
)
AMPLIFIED = 30  # roundings of a program's inner values, as its results show them


class RefusedError(Exception):
    """The compiler does not take this program, and says so."""


def run_of(program: Program, grad: bool) -> tuple[Callable, list[Any]]:
    """What to trace for a program, and on which arguments."""
    return (program.gradients if grad else program), program.leaves(requires_grad=grad)


def check_program(program: Program, grad: bool, jit: bool = False) -> None:
    """Every link gives what eager mode gives. Raises AssertionError with the program, or ``RefusedError``."""
    function, leaves = run_of(program, grad)
    jtorch.manual_seed(5)
    try:
        with jtorch.set_grad_enabled(grad):
            expected = None
            for name, found in links(function, leaves, jit):
                expected = found if expected is None else expected
                compare(f"eager -> {name}", expected, found, precision(program))
    except (RuntimeError, CompileError) as error:
        if any(r in str(error) for r in REFUSALS):
            raise RefusedError(str(error)) from None
        raise AssertionError(f"{type(error).__name__}: {error}\n{program!r}") from error
    except AssertionError as error:
        raise AssertionError(f"{error}\n{program!r}") from None


def precision(program: Program) -> str:
    """The coarsest float dtype that a program may compute in."""
    texts = " ".join(i.text for i in program.instructions)
    return "float64" if set(program.dtypes) == {"float64"} and "float32" not in texts else "float32"


def compare(link: str, expected: Sequence[np.ndarray], found: Sequence[np.ndarray], dtype: str) -> None:
    """Equal dtypes, shapes and, within ``dtype``'s precision, elements."""
    assert len(expected) == len(found), f"{link}: {len(expected)} results against {len(found)}"
    rtol, atol = TOLERANCE.get(dtype, (0.0, 0.0))
    for k, (a, b) in enumerate(zip(expected, found, strict=True)):
        where = f"link {link}, result {k}"
        assert (a.dtype, a.shape) == (b.dtype, b.shape), f"{where}: {a.dtype, a.shape} and {b.dtype, b.shape}"
        if a.dtype.kind != "f":
            np.testing.assert_array_equal(b, a, err_msg=where)
            continue
        largest = float(np.max(np.abs(a), initial=0.0)) if np.all(np.isfinite(a)) else 0.0
        np.testing.assert_allclose(b, a, AMPLIFIED * rtol, AMPLIFIED * (atol + rtol * largest), err_msg=where)


__all__ = ["RefusedError", "check_program", "compare", "run_of", "trace"]
