"""What a case is, and the verdict over one run of it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Program = Callable[[Any, Callable], Any]  # (library, wrap) -> plain values; ``wrap`` compiles, or gives back

CASES: list[Case] = []
# Adam's first steps divide small gradients by their own size, which turns a last bit of float32 into 1e-6;
# what a stale value makes is a hundred times the bound, and more.
RELATIVE = 1e-3


@dataclass(frozen=True)
class Case:
    """``program(library, wrap)`` with the identity as ``wrap`` says what is right.

    ``may_refuse``: a named error that says the line is as good as the right answer. ``own_way``: ``wrap`` is
    used in a way of its own (as a decorator in a class body, in another process), not on a plain function.
    """

    number: int
    title: str
    program: Program
    may_refuse: bool = False
    own_way: bool = False

    @property
    def name(self) -> str:
        return f"{self.number:02d} {self.program.__name__}"


def case(number: int, title: str, may_refuse: bool = False, own_way: bool = False) -> Callable:
    """Declare a case; several may share a number."""

    def declare(program: Program) -> Program:
        CASES.append(Case(number, title, program, may_refuse, own_way))
        return program

    return declare


def plainly(function: Any) -> Any:
    """The ``wrap`` of eager mode."""
    return function


@dataclass(frozen=True)
class Verdict:
    """``kind`` is "correct", "loud error", "warned" or "SILENT"; ``told`` what it said or how it differs."""

    kind: str
    told: str = ""

    def __str__(self) -> str:
        return f"{self.kind}: {self.told}" if self.told else self.kind


def judge(program: Program, library: Any, wrap: Callable) -> Verdict:
    """Run ``program`` eagerly and with ``wrap``; compare."""
    expected, expected_error, _ = _outcome(program, library, plainly)
    found, error, warned = _outcome(program, library, wrap)
    if error is not None:
        if expected_error is not None:
            return Verdict("correct", _told(error))  # both refuse
        return Verdict("loud error", _told(error))
    if expected_error is not None:
        return Verdict("SILENT", f"eager: {_told(expected_error)}; compiled: {found}")
    difference = _difference(expected, found)
    if difference is None:
        return Verdict("correct")
    if warned:
        return Verdict("warned", str(warned[0].message))
    return Verdict("SILENT", difference)


def _outcome(program: Program, library: Any, wrap: Callable) -> tuple[Any, Exception | None, list[Any]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            return plain(program(library, wrap)), None, [w for w in caught if w.category is UserWarning]
        except Exception as error:
            return None, error, []


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def plain(value: Any) -> Any:
    """Tensors and arrays as nested lists."""
    if hasattr(value, "detach"):
        return plain(value.detach().tolist())
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, (tuple, list)):
        return [plain(v) for v in value]
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    return value


def _difference(a: Any, b: Any, where: str = "") -> str | None:
    if isinstance(a, list) and isinstance(b, list):
        if len(a) != len(b):
            return f"{where or 'result'}: {len(a)} entries against {len(b)}"
        parts = (_difference(x, y, f"{where}[{k}]") for k, (x, y) in enumerate(zip(a, b, strict=True)))
        return next((p for p in parts if p), None)
    if isinstance(a, dict) and isinstance(b, dict):
        if a.keys() != b.keys():  # JAX sorts them
            return f"{where or 'result'}: keys {list(a)} against {list(b)}"
        return next((p for k in a if (p := _difference(a[k], b[k], f"{where}[{k!r}]"))), None)
    if isinstance(a, float) and isinstance(b, float):
        same = a == b or (a != a and b != b) or abs(a - b) <= RELATIVE * max(abs(a), abs(b), 1e-2)
    else:
        same = type(a) is type(b) and a == b
    return None if same else f"{where or 'result'}: eager {a!r}, compiled {b!r}"
