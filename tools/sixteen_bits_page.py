"""Writes docs/sixteen_bits.md, how results in 16 bits compare: ``python -m tools.sixteen_bits_page``.

It asks PyTorch and computes every call of ``tests/amp/sixteen_bits_calls.py`` compiled, too,
which takes minutes. What the page says of a call already, of another processor, stays where it is more.
"""

from __future__ import annotations

import math
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import jtorch
from tests.amp.sixteen_bits_calls import ALL, LISTED

FILE = Path(__file__).parents[1] / "docs" / "sixteen_bits.md"
HALVES = ("bfloat16", "float16")
_BITS = {"bfloat16": 7, "float16": 10, "float32": 23, "float64": 52}
HEAD = """# Results in 16 bits

<!-- Written by `python -m tools.sixteen_bits_page`; a test compares. -->

What {count} calls give in bfloat16 and float16, beside PyTorch {version} on the CPU: of arguments in 16
bits, and under [autocast](amp.md) those that it casts. The dtypes of results are PyTorch's where the tables
name no other. Numbers are the largest difference of both types, in units: the step between neighbouring
numbers of the dtype (for gradients, of the 16 bits) at an element's size, or at a sixteenth of the largest
one's where the element is smaller. Rounding takes 0.5. On another processor PyTorch's kernels add in another
order, and a unit may be lost or gained: a row holds the larger distance of an AMD EPYC and an Intel Xeon.

**Compiled and eager** give the same bits, results and gradients, in all calls but these: {compiled}.
A kernel's `exp` and `sinh` and NumPy's differ in the last place of float32, now and then.
"""
_NEARER = "as near or nearer"
_WHY = {
    "each step of a recurrence is rounded, and the errors of the steps before go on": (
        "GRU", "LSTM", "RNN", "RNNCell", "GRUCell", "LSTMCell",
    ),
    "products after each other, each rounded": ("matrix_power", "bilinear"),
    "the factor that shortens is rounded, and so is its gradient": ("renorm",),
    "factors in another order, in float32": ("prod",),
    "terms in another order, in float32": ("binary_cross_entropy_with_logits", "kl_div"),
}  # fmt: skip


@dataclass
class Measured:
    """One call in one type: dtypes, and distances in units, None where there are no gradients of both."""

    dtype: str
    theirs: str
    result: float
    gradient: float | None
    off: tuple[float, float | None]
    theirs_off: tuple[float, float | None]


class _Numbers:
    """A library whose random numbers are those handed in."""

    def __init__(self, library: Any, drawn: Iterable[Any]) -> None:
        self._library, self._drawn = library, iter(drawn)

    def randn(self, *shape: int) -> Any:
        return next(self._drawn)

    rand = randn

    def __getattr__(self, name: str) -> Any:
        return getattr(self._library, name)


class _Drawing(_Numbers):
    """jtorch with numbers of NumPy's, which it notes."""

    def __init__(self) -> None:
        super().__init__(jtorch, ())
        self.rng, self.noted = np.random.default_rng(0), []  # type: tuple[Any, list]

    def _note(self, values: np.ndarray) -> Any:
        self.noted.append(values.astype(np.float32))
        return jtorch.tensor(self.noted[-1])

    def randn(self, *shape: int) -> Any:
        return self._note(self.rng.standard_normal(shape))

    def rand(self, *shape: int) -> Any:
        return self._note(self.rng.random(shape))


def arguments(call: Callable) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """(what the call draws, what it gives a dtype), in float32"""
    numbers, given = _Drawing(), []

    def note(t: Any) -> Any:
        given.append(t.detach().float().numpy())
        return t

    call(numbers, note)
    return numbers.noted, given


def rounded(values: np.ndarray, half: str) -> np.ndarray:
    return jtorch.tensor(values).to(getattr(jtorch, half)).float().numpy()


def results(
    L: Any,
    call: Callable,
    values: Any,
    half: str,
    given: str,
    lower: str | None = None,
    compiled: bool = False,
) -> tuple[str, np.ndarray, list[np.ndarray] | None]:
    """(dtype, result, gradients or None) of the call with arguments that ``half`` holds, in the dtype
    ``given``; under autocast to ``lower``."""
    drawn = [L.tensor(rounded(a, half)) for a in values[0]]
    drawn = [t.double() for t in drawn] if given == "float64" else drawn
    leaves = [L.tensor(rounded(a, half), requires_grad=True) for a in values[1]]
    dtype, type_of_block = getattr(L, given), getattr(L, lower or "bfloat16")

    def run(drawn: list, leaves: list) -> Any:
        rest = iter(leaves)
        with L.autocast("cpu", dtype=type_of_block, enabled=lower is not None):
            return call(_Numbers(L, drawn), lambda _: next(rest).to(dtype))

    out = (L.compile(run) if compiled else run)(drawn, leaves)
    gradients = _gradients(L, out, leaves, half)
    name, out = str(out.dtype).partition(".")[2], out.detach()
    out = L.view_as_real(out) if out.is_complex() else out
    return name, out.double().numpy(), gradients


def _gradients(L: Any, out: Any, leaves: list, half: str) -> list[np.ndarray] | None:
    if not out.requires_grad or out.is_complex():
        return None
    weights = np.random.default_rng(1).standard_normal(tuple(out.shape)).astype(np.float32)
    try:
        out.backward(L.tensor(rounded(weights, half)).to(out.dtype))
    except (RuntimeError, NotImplementedError):  # PyTorch has none
        return None
    return [np.zeros(t.shape) if t.grad is None else t.grad.double().numpy() for t in leaves]


def units(ours: np.ndarray, theirs: np.ndarray, dtype: str) -> float:
    """The largest difference, in steps of ``dtype``; infinite where one has numbers and the other has not."""
    finite = np.isfinite(theirs)
    same = ours.shape == theirs.shape and np.array_equal(ours[~finite], theirs[~finite], equal_nan=True)
    if not same or not np.isfinite(ours[finite]).all():
        return math.inf
    ours, theirs = ours[finite], theirs[finite]
    if not theirs.size:
        return 0.0
    size = np.maximum(np.maximum(np.abs(theirs), np.abs(theirs).max() / 16), 2.0**-14)
    return float((np.abs(ours - theirs) / 2.0 ** (np.floor(np.log2(size)) - _BITS[dtype])).max())


def apart(ours: tuple, theirs: tuple, half: str) -> tuple[float, float | None]:
    """Units between two results, and between their gradients."""
    result = units(ours[1], theirs[1], ours[0] if ours[0] in _BITS else "float32")
    if ours[2] is None or theirs[2] is None:
        return result, None
    pairs = zip(ours[2], theirs[2], strict=True)
    return result, max([units(a, b, half) for a, b in pairs], default=0.0)


def _settings(torch: Any, call: Callable, values: Any, half: str, autocast: bool) -> dict[str, Any] | None:
    """The dtype of the arguments and the type of autocast: under it float32 where that is cast down, or 16
    bits where these are cast up; None where it does neither, or PyTorch refuses the call."""
    tried = [("float32", half), (half, half)] if autocast else [(half, None)]
    for given, lower in tried:
        try:
            found = results(torch, call, values, half, given, lower)
        except (RuntimeError, NotImplementedError, TypeError):
            continue
        if not autocast or (found[0] == half) is (given != half):
            return {"half": half, "given": given, "lower": lower}
    return None


def measured(torch: Any, call: Callable, half: str, autocast: bool) -> Measured | None:
    """None where there is nothing to compare."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        values = arguments(call)
        settings = _settings(torch, call, values, half, autocast)
        if settings is None:
            return None
        ours, theirs = (results(L, call, values, **settings) for L in (jtorch, torch))
        exact = results(torch, call, values, half, "float64")
    exact = (ours[0], *exact[1:])
    return Measured(
        ours[0], theirs[0], *apart(ours, theirs, half), apart(ours, exact, half),
        apart((ours[0], *theirs[1:]), exact, half),
    )  # fmt: skip


def compiled_apart(call: Callable, half: str) -> tuple[float, float | None]:
    """Units between the compiled call in 16 bits and the eager one."""
    values = arguments(call)
    eager, compiled = (results(jtorch, call, values, half, half, compiled=c) for c in (False, True))
    return apart(compiled, eager, half)


# -- the page ----------------------------------------------------------------------------------------------

_ROWS = (0.0, 1.0, 2.0)
_SAID = {0.0: "the same bits", 1.0: "1 unit", 2.0: "2 units", math.inf: "more", None: "-"}


def row_of(found: Iterable[Measured]) -> tuple[float, float | None]:
    """The row of the table that holds all these."""
    found = list(found)
    parts = [m.gradient for m in found if m.gradient is not None]
    return _bound(max(m.result for m in found)), _bound(max(parts)) if parts else None


def _bound(distance: float) -> float:
    return next((row for row in _ROWS if distance <= row), math.inf)


def rows(page: str, title: str) -> dict[str, tuple[float, float | None]]:
    """What the page says of each call, in the table under ``title``."""
    said: dict[str, Any] = {text: bound for bound, text in _SAID.items()}
    table = page.partition(f"## {title}\n")[2].partition("\n## ")[0]
    found: dict[str, tuple[float, float | None]] = {}
    for line in table.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 3 and cells[0] in said:
            names = cells[2].split("`")[1::2]
            found |= dict.fromkeys(names, (said[cells[0]], said[cells[1]]))
    return found


TITLES = {"All in 16 bits": False, "Under autocast": True}


def calls(title: str) -> dict[str, Callable]:
    return LISTED if TITLES[title] else ALL


def text(page: str) -> str:
    """The page anew, which says ``page`` now."""
    import torch

    sections, far = [], set[str]()
    for title, autocast in TITLES.items():
        found: dict[str, list[Measured]] = {}
        for name, call in calls(title).items():
            both = [m for half in HALVES if (m := measured(torch, call, half, autocast)) is not None]
            if both:
                found[name] = [*both, *_elsewhere(both[0], rows(page, title).get(name))]
        new = {name: both for name, both in found.items() if _is_far(both) and name not in far}
        far |= new.keys()
        sections.append(f"\n## {title}\n\n{_table(found)}\n{_far(new)}")
    version = torch.__version__.partition("+")[0].rpartition(".")[0]
    return HEAD.format(count=len(ALL), version=version, compiled=_compiled()) + "".join(sections)


def _elsewhere(here: Measured, said: tuple[float, float | None] | None) -> list[Measured]:
    """What was measured on another processor, as far as the page says."""
    return [] if said is None else [Measured(here.dtype, here.dtype, *said, (0.0, None), (0.0, None))]


def _compiled() -> str:
    found = []
    for name, call in ALL.items():
        distances = [d for half in HALVES if _computes(call, half) for d in compiled_apart(call, half) if d]
        if distances:
            found.append(f"`{name}` ({max(distances):.1g})")
    return ", ".join(found) or "none"


def _computes(call: Callable, half: str) -> bool:
    try:
        results(jtorch, call, arguments(call), half, half)
    except (RuntimeError, NotImplementedError, TypeError):
        return False
    return True


def _table(found: dict[str, list[Measured]]) -> str:
    grouped = defaultdict(list)
    for name, both in found.items():
        grouped[row_of(both)].append(f"`{name}`")
    order = sorted(grouped, key=lambda row: tuple(-1.0 if part is None else part for part in row))
    lines = ["| results | gradients | calls |", "|---|---|---|"]
    lines += [f"| {_SAID[r]} | {_SAID[g]} | {', '.join(sorted(grouped[r, g]))} |" for r, g in order]
    return "\n".join(lines) + "\n"


def _far(found: dict[str, list[Measured]]) -> str:
    """Who is how far from what float64 gives, and why."""
    lines = [
        "The calls of more than 2 units or another dtype, and how far from float64's the farthest result and",
        "gradient are:\n",
        "| call | jtorch: result, gradient | PyTorch: result, gradient | why |",
        "|---|---|---|---|",
    ]
    for name, both in sorted(found.items()):
        ours, theirs = _offs(m.off for m in both), _offs(m.theirs_off for m in both)
        lines.append(f"| `{name}` | {ours} | {theirs} | {_why(name, both)} |")
    return "\n".join(lines) + "\n"


def _is_far(both: list[Measured]) -> bool:
    return math.inf in row_of(both) or any(m.dtype != m.theirs for m in both)


def _largest(offs: Iterable[tuple[float, float | None]]) -> tuple[float, float | None]:
    offs = list(offs)
    parts = [g for _, g in offs if g is not None]
    return max(r for r, _ in offs), max(parts) if parts else None


def _offs(offs: Iterable[tuple[float, float | None]]) -> str:
    return ", ".join("-" if part is None else f"{part:.2g}" for part in _largest(offs))


def _why(name: str, both: list[Measured]) -> str:
    dtypes = {m.theirs for m in both if m.dtype != m.theirs}
    if dtypes:
        return f"{both[0].dtype}, where PyTorch gives {' or '.join(sorted(dtypes))}"
    ours, theirs = _largest(m.off for m in both), _largest(m.theirs_off for m in both)
    if all(a is None or b is None or a <= b + 0.25 for a, b in zip(ours, theirs, strict=True)):
        return _NEARER
    for reason, names in _WHY.items():
        if name in names:
            return reason
    raise ValueError(
        f"{name} is farther from float64's than PyTorch's, {ours} and {theirs}: say why, or mend it"
    )


if __name__ == "__main__":
    FILE.write_text(text(FILE.read_text()))
