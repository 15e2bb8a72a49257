"""Elementwise ops and reductions over four million floats, against NumPy: here memory and loops count."""

from __future__ import annotations

import functools
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.agree import Tolerance
from benchmarks.program import Program, Workload, torch_program

ELEMENTS = 4 * 1024 * 1024


@functools.cache
def _arrays() -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    return tuple(generator.standard_normal(ELEMENTS, dtype=np.float32) for _ in range(2))  # type: ignore[return-value]


# name -> (as written with Tensors, as written with NumPy, what it is called)
FORMS: dict[str, tuple[Callable, Callable]] = {
    "add": (lambda torch, x, y: x + y, lambda x, y: x + y),
    "exp": (lambda torch, x, y: x.exp(), lambda x, y: np.exp(x)),
    "tanh": (lambda torch, x, y: x.tanh(), lambda x, y: np.tanh(x)),
    "relu": (lambda torch, x, y: torch.relu(x), lambda x, y: np.maximum(x, 0)),
    "sum": (lambda torch, x, y: x.sum(), lambda x, y: x.sum()),
    "mean": (lambda torch, x, y: x.mean(), lambda x, y: x.mean()),
    "max": (lambda torch, x, y: x.max(), lambda x, y: x.max()),
    "var": (lambda torch, x, y: x.var(), lambda x, y: x.var(ddof=1)),
}


def _with_tensors(torch: Any, function: Callable) -> Program:
    def step(x: Any, y: Any) -> Any:
        return function(torch, x, y)

    return torch_program(torch, step, step, [_arrays()], {})


def _with_numpy(function: Callable) -> Program:
    return Program(function, [_arrays()], lambda: None, dict)


def _workload(name: str) -> Workload:
    # sums in another order; a float32 sum that cancels is known to within its largest partial sums
    tolerance = Tolerance(losses=1e-3 if name in ("sum", "mean") else 1e-5)
    tensors = partial(_with_tensors, function=FORMS[name][0])
    return Workload(f"array-{name}", f"{name} of 4M floats", tensors, tolerance=tolerance)


WORKLOADS = tuple(_workload(name) for name in FORMS)
NUMPY: dict[str, Callable[[], Program]] = {
    f"array-{name}": partial(_with_numpy, function=numpy) for name, (_, numpy) in FORMS.items()
}
