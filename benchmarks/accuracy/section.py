"""``python -m benchmarks accuracy``: the error of each case, size and dtype in both modes, beside PyTorch's.

An error is in units in the last place that the dtype has at the largest exact result. From 10^6 elements on
it must be at most one unit, or so many times PyTorch's as the case says.
"""

from __future__ import annotations

import importlib
import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.accuracy.cases import CASES, Case
from benchmarks.machine import describe
from benchmarks.measure import words
from benchmarks.progress import Progress

SIZES, QUICK_SIZES = (10**5, 10**6, 10**7), (10**4,)
MANY = 10**6  # elements from which on the bound counts: of few, it is one rounding more or less that shows
_BITS = {"float32": (24, -126), "float16": (11, -14), "bfloat16": (8, -126)}  # digits, lowest exponent


@dataclass(frozen=True)
class Line:
    """The errors of one case at one size; compiled mode has no bfloat16, PyTorch may not be there."""

    case: str
    dtype: str
    elements: int
    eager: float
    compiled: float | None
    torch: float | None
    bound: float

    @property
    def beyond(self) -> bool:
        """Whether a mode is worse than it may be; without PyTorch nobody knows."""
        if self.torch is None or self.elements < MANY:
            return False
        return max(self.eager, self.compiled or 0.0) > max(self.bound * self.torch, 1.0)


BY_NAME = {case.name: case for case in CASES}


def run(
    cases: Sequence[Case], quick: bool, with_torch: bool, file: Path | None = None, threads: int | None = None
) -> int:
    """Print the table; 1 if an error is beyond its bound or a case fails, 130 after Ctrl-C."""
    print("errors in units in the last place (in units of PyTorch's error)")
    print(f"{'case':22} {'dtype':8} {'elements':>9} {'eager':>17} {'compiled':>17} {'PyTorch':>8}")
    lines, failed = [], False
    with Progress() as progress:
        for case, dtype, n in _cases(cases, QUICK_SIZES if quick else SIZES):
            progress.say(f"{case.name}, {dtype}, {n:,} elements")
            try:
                lines.append(measure(case, n, dtype, with_torch))
                text = _text(lines[-1])
            except Exception as error:
                failed, text = True, f"{case.name:22} {dtype:8} {n:9} ERROR {words(error)}"
            progress.say("")
            print(text, flush=True)
    if file is not None:
        content = {"machine": describe(threads), "lines": [asdict(line) for line in lines]}
        file.write_text(json.dumps(content, indent=2) + "\n")
    return progress.status(failed or any(line.beyond for line in lines))


def _cases(cases: Sequence[Case], sizes: Sequence[int]) -> Iterator[tuple[Case, str, int]]:
    for case in cases:
        for dtype in case.dtypes:
            for n in sizes:
                yield case, dtype, n


def measure(case: Case, n: int, dtype: str, with_torch: bool) -> Line:
    """One line of the table: every library gets the same rounded inputs."""
    import jtorch

    drawn = [jtorch.tensor(a).to(getattr(jtorch, dtype)) for a in case.inputs(np.random.default_rng(0), n)]
    rounded = [t.to(jtorch.float64).numpy() for t in drawn]
    exact = case.exact(*rounded)

    def off(program: Callable[..., Any], library: Any, tensors: Sequence[Any]) -> float:
        return error(program(*tensors).detach().to(library.float64).numpy(), exact, dtype)

    def program(*tensors: Any) -> Any:
        return case.program(jtorch, *tensors)

    eager = off(program, jtorch, drawn)
    compiled = None if dtype == "bfloat16" else off(jtorch.compile(program), jtorch, drawn)
    peer = None
    if with_torch:
        torch = importlib.import_module("torch")
        tensors = [torch.from_numpy(a).to(getattr(torch, dtype)) for a in rounded]
        peer = off(lambda *a: case.program(torch, *a), torch, tensors)
    return Line(case.name, dtype, n, eager, compiled, peer, case.bound)


def error(got: np.ndarray, exact: np.ndarray, dtype: str) -> float:
    """The largest difference, in units in the last place of ``dtype`` at the largest exact value; inf if a
    result is NaN or infinite."""
    digits, lowest = _BITS[dtype]
    _, exponent = np.frexp(np.abs(exact).max())
    worst = float(np.abs(np.asarray(got, np.float64) - exact).max())
    return math.inf if math.isnan(worst) else math.ldexp(worst, digits - max(int(exponent), lowest + 1))


def _text(line: Line) -> str:
    cells = [_cell(value, line.torch) for value in (line.eager, line.compiled)]
    peer = "-" if line.torch is None else _short(line.torch)
    verdict = f"  beyond {line.bound:g} times" if line.beyond else ""
    return f"{line.case:22} {line.dtype:8} {line.elements:9} {cells[0]:>17} {cells[1]:>17} {peer:>8}{verdict}"


def _cell(own: float | None, torch: float | None) -> str:
    if own is None:
        return "-"
    return _short(own) + (f" ({_short(own / torch)})" if torch else "")


def _short(value: float) -> str:
    return f"{value:.2f}" if value < 100 else f"{value:.3g}"
