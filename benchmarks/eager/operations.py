"""What one op costs: tiny tensors, so that all of it is overhead, and a chain with its backward.

A call runs ``OPS`` ops, one statement each, as a program would write them: results are dropped, and
with them their nodes on the tape.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.program import Program, Workload, torch_program

OPS, CHAIN = 100, 110
_GENERATOR = np.random.default_rng(0)
X, Y = (_GENERATOR.uniform(0.5, 1.5, 4).astype(np.float32) for _ in range(2))
A, B = (_GENERATOR.standard_normal((8, 8)).astype(np.float32) for _ in range(2))


def _add(torch: Any, x: Any, y: Any) -> Any:
    for _ in range(OPS):
        out = x + y
    return out


def _mul(torch: Any, x: Any, y: Any) -> Any:
    for _ in range(OPS):
        out = x * y
    return out


def _tanh(torch: Any, x: Any, y: Any) -> Any:
    for _ in range(OPS):
        out = x.tanh()
    return out


def _sum(torch: Any, x: Any, y: Any) -> Any:
    for _ in range(OPS):
        out = x.sum()
    return out


def _reshape(torch: Any, x: Any, y: Any) -> Any:
    for _ in range(OPS):
        out = x.reshape(2, 2)
    return out


def _getitem(torch: Any, x: Any, y: Any) -> Any:
    for _ in range(OPS):
        out = x[1]
    return out


def _mm(torch: Any, x: Any, y: Any) -> Any:
    for _ in range(OPS):
        out = torch.mm(x, y)
    return out


def _program(torch: Any, function: Callable, x: np.ndarray, y: np.ndarray) -> Program:
    """``function`` of two tensors that require grad: every op hangs a node on the tape."""
    inputs = [torch.from_numpy(a.copy()).requires_grad_() for a in (x, y)]

    def step() -> Any:
        return function(torch, *inputs)

    return torch_program(torch, step, step, [()], {})


def _chain(torch: Any) -> Program:
    x, w = (torch.from_numpy(a.copy()).requires_grad_() for a in (X, Y / Y.max()))
    ones = torch.ones(4)

    def forward() -> Any:
        y = x
        for _ in range(CHAIN):
            y = y * w
        return y

    def step() -> Any:
        x.grad = w.grad = None
        y = forward()
        y.backward(ones)
        return y

    return torch_program(torch, step, forward, [()], {"x": x, "w": w})


def _workload(name: str, what: str, function: Callable, x: np.ndarray, y: np.ndarray) -> Workload:
    return Workload(f"op-{name}", what, partial(_program, function=function, x=x, y=y))


ON_FOUR = "4 elements, forward with tape"
WORKLOADS = (
    _workload("add", f"x + y, {ON_FOUR}", _add, X, Y),
    _workload("mul", f"x * y, {ON_FOUR}", _mul, X, Y),
    _workload("tanh", f"x.tanh(), {ON_FOUR}", _tanh, X, Y),
    _workload("sum", f"x.sum(), {ON_FOUR}", _sum, X, Y),
    _workload("reshape", f"x.reshape(2, 2), {ON_FOUR}", _reshape, X, Y),
    _workload("getitem", f"x[1], {ON_FOUR}", _getitem, X, Y),
    _workload("mm", "mm of 8x8, forward with tape", _mm, A, B),
)
CHAIN_WORKLOAD = Workload("chain", f"{CHAIN} multiplications, forward and backward", _chain)
