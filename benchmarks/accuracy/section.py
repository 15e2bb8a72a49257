"""Measure and print the table; the bound is 4 times PyTorch's error, or one unit in the last place."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks.accuracy.cases import CASES, Case

SIZES = (10**5, 10**6, 10**7)
QUICK_SIZES = (10**4,)
BOUND = 4.0  # times PyTorch's error
_BITS = {"float32": (24, -126), "float16": (11, -14), "bfloat16": (8, -126)}


def error(got: np.ndarray, exact: np.ndarray, dtype: str) -> float:
    """The largest error in units in the last place that ``dtype`` has at the largest exact value."""
    bits, lowest = _BITS[dtype]
    _, exponent = np.frexp(np.abs(np.asarray(exact, np.float64)).max())
    unit = np.ldexp(1.0, np.maximum(exponent, lowest + 1) - bits)
    with np.errstate(invalid="ignore"):
        off = np.abs(np.asarray(got, np.float64) - exact) / unit
    worst = float(off.max(initial=0.0))
    return math.inf if math.isnan(worst) else worst


def measure(case: Case, n: int, dtype: str, with_torch: bool) -> dict[str, float]:
    """The error of each contestant; compiled mode has no bfloat16."""
    import jtorch

    modes: dict[str, Callable[..., Any]] = {"eager": lambda *a: case.program(jtorch, *a)}
    if dtype != "bfloat16":
        modes["compiled"] = jtorch.compile(lambda *a: case.program(jtorch, *a))
    drawn = [jtorch.tensor(a).to(getattr(jtorch, dtype)) for a in case.inputs(np.random.default_rng(0), n)]
    rounded = [t.to(jtorch.float64).numpy() for t in drawn]
    exact = case.exact(*rounded)
    found = {
        name: error(run(*drawn).detach().to(jtorch.float64).numpy(), exact, dtype)
        for name, run in modes.items()
    }
    if with_torch:
        torch = importlib.import_module("torch")
        tensors = [torch.from_numpy(a).to(getattr(torch, dtype)) for a in rounded]
        result = case.program(torch, *tensors).detach().to(torch.float64).numpy()
        found["torch"] = error(result, exact, dtype)
    return found


def run(sizes: Sequence[int], with_torch: bool) -> int:
    """Print a line for each case, dtype and size; 1 if one is beyond the bound."""
    print("Largest error in units in the last place (and in units of PyTorch's error)")
    print(f"{'':32} {'dtype':9} {'elements':>9} {'eager':>18} {'compiled':>18} {'PyTorch':>9}")
    failed = False
    for case in CASES:
        for dtype in case.dtypes:
            for n in sizes:
                found = measure(case, n, dtype, with_torch)
                line, beyond = _line(found)
                print(f"{case.name:32} {dtype:9} {n:9} {line}{'  BEYOND' if beyond else ''}", flush=True)
                failed |= beyond
    return int(failed)


def _line(found: dict[str, float]) -> tuple[str, bool]:
    """The figures of one line, and whether one of them is beyond the bound."""
    torch = found.get("torch")
    cells = [_cell(found.get(name), torch) for name in ("eager", "compiled")]
    limit = max(BOUND * torch, 1.0) if torch is not None else math.inf
    beyond = any(found.get(name, 0.0) > limit for name in ("eager", "compiled"))
    return f"{cells[0]:>18} {cells[1]:>18} {'-' if torch is None else _short(torch):>9}", beyond


def _cell(own: float | None, torch: float | None) -> str:
    if own is None:
        return "-"
    return _short(own) + (f" ({_short(own / torch)})" if torch else "")


def _short(value: float) -> str:
    return f"{value:.2f}" if value < 100 else f"{value:.3g}"
