"""Runs a program in one of its ways, and compares what two ways gave.

How close two results must be is measured, program by program: eager mode runs a second time with every dtype
float64 and a third time with its data changed by a rounding. What those three differ by is what roundings do
to the program; another order of the same sums is allowed ``MARGIN`` times that, and a few units in the last
place of the largest element; at least one unit of the data, which are of order one: what is far smaller than
they is the rest of a cancellation (1 - tanh(x)**2 where tanh(x) is 1 but for a rounding).
"""

from __future__ import annotations

import contextlib
import functools
import linecache
import traceback
import warnings
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.fuzz.programs import PRELUDE, Program

MARGIN = 16
UNITS = 32
EPS = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
_HALVES = (("bfloat16", "BF16"), ("float16", " F16"), ("float16", "(F16"), ("float16", "=F16"))
UNSTABLE = 0.05  # roundings change this part of the largest element: nothing is to be compared


@dataclass
class Outcome:
    """What a run showed after each call, by name, and the error that ended it."""

    shown: list[dict[str, Any]] = field(default_factory=list)
    error: BaseException | None = None

    @property
    def error_name(self) -> str:
        return type(self.error).__name__ if self.error else "no error"


@dataclass(frozen=True)
class Array:
    """A tensor as it was: its facts, and its elements as float64 or whole numbers."""

    dtype: str
    elements: np.ndarray
    facts: tuple[Any, ...]
    writes: int | None  # by how much its version moved since it was last looked at; None where it is new


def run(
    program: Program,
    library: str = "jtorch",
    compile: Callable | None = None,
    wide: bool = False,
    nudge: float = 0.0,
) -> Outcome:
    """The program by eager mode, or with ``compile``; with ``wide`` all floats are float64."""
    space: dict[str, Any] = {"__name__": "fuzzed"}
    outcome = Outcome()
    exec(_prelude(library), space)
    T = space["T"]
    T.manual_seed(5)
    look = _Look(T)
    space |= {"compile": compile or (lambda f: f), "NUDGE": nudge}
    space["show"] = lambda *_: outcome.shown.append(look(space))
    if wide:
        space |= dict.fromkeys(("F16", "BF16", "F32"), T.float64)
    before = T.get_default_dtype()
    try:
        T.set_default_dtype(T.float64 if wide else before)
        exec(_code(program.script(), f"program {program.seed}"), space)
    except Exception as error:
        outcome.error = error
    finally:
        T.set_default_dtype(before)
    return outcome


@functools.cache
def _prelude(library: str) -> Any:
    return _code(PRELUDE.replace("jtorch", library), "prelude")


def _code(text: str, name: str) -> Any:
    """Compiled, with its lines where tracebacks and the observer look for them."""
    file = f"<{name}, {hash(text) & 0xFFFFFF:x}>"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    return compile(text, file, "exec")


class _Look:
    """All that a program can see, as values: its variables, modules, optimizers and state."""

    def __init__(self, T: Any) -> None:
        self.T = T
        self.known: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
        self.versions: dict[int, int] = {}
        self.latest: dict[int, int] = {}

    def __call__(self, space: dict[str, Any]) -> dict[str, Any]:
        hidden = ("T", "np", "nn", "F", "optim", "NUDGE")
        names = [n for n in space if not n.startswith("__") and n not in hidden]
        found = {k: v for name in names for k, v in self.facts(name, space[name])}
        self.versions = self.latest.copy()  # a tensor may have several names
        return found

    def facts(self, name: str, value: Any) -> Iterator[tuple[str, Any]]:
        T = self.T
        if isinstance(value, T.Tensor):
            yield name, self.array(value)
            if value.is_leaf and value.grad is not None:
                yield f"{name}.grad", self.array(value.grad)
        elif isinstance(value, (int, float, str, type(None))):
            yield name, value
        elif isinstance(value, T.nn.Module):
            yield f"{name}.training", value.training
            yield from self.parts(name, dict((*value.named_parameters(), *value.named_buffers())))
        elif isinstance(value, T.optim.Optimizer):
            yield from self.parts(f"{name}.state", value.state_dict()["state"])
        elif isinstance(value, (list, tuple)):
            yield f"len({name})", len(value)
            yield from self.parts(name, dict(enumerate(value)))
        elif isinstance(value, dict):
            yield from self.parts(name, value)
        elif type(value).__name__ == "State":
            yield from self.parts(name, vars(value))

    def parts(self, name: str, parts: dict[Any, Any]) -> Iterator[tuple[str, Any]]:
        for key, part in parts.items():
            yield from self.facts(f"{name}.{key}", part)

    def array(self, t: Any) -> Array:
        dtype = str(t.dtype).split(".")[-1]
        plain = t.detach()
        elements = np.array(plain.double().numpy() if dtype in EPS else plain.numpy())
        facts = (tuple(t.shape), t.requires_grad, t.is_leaf)
        if self.known.get(id(t)) is not t:
            self.versions.pop(id(t), None)  # of a tensor that is gone
        before = self.versions.get(id(t))
        writes = None if before is None else t._version - before
        self.known[id(t)], self.latest[id(t)] = t, t._version
        return Array(dtype, elements, facts, writes)


# -- comparing -----------------------------------------------------------------------------------------------


class Judge:
    """What eager mode of a library gives for a program, and how far another run may be from that."""

    def __init__(self, program: Program, library: str = "jtorch") -> None:
        self.program, self.library = program, library
        # Both modes of a library round alike; another library may keep what the halves of formulas lose.
        script = program.script() if library != "jtorch" else ""
        self.coarsest = max((EPS[n] for n, sign in _HALVES if sign in script), default=0.0)
        self.plain = run(program, library)
        self._others: list[Outcome] | None = None

    def others(self) -> list[Outcome]:
        if self._others is None:
            ways = ({"wide": True}, {"nudge": 2.0**-24}, {"nudge": 2.0**-22})
            self._others = [run(self.program, self.library, **way) for way in ways]
        return self._others

    def complaint(self, found: Outcome, versions: bool = True) -> str | None:
        """How ``found`` differs, beginning with the kind of difference; None where it does not."""
        plain = self.plain
        for call, (a, b) in enumerate(zip(plain.shown, found.shown, strict=False)):
            for name in dict.fromkeys((*a, *b)):
                why = self._differs(call, name, a.get(name, _ABSENT), b.get(name, _ABSENT), versions)
                if why:
                    return f"{why} ({name} after call {call})"
        if plain.error_name != found.error_name:
            return f"error: {plain.error_name} {_text(plain)} and {found.error_name} {_text(found)}"
        return None

    def _differs(self, call: int, name: str, a: Any, b: Any, versions: bool) -> str | None:
        if not isinstance(a, Array) or not isinstance(b, Array):
            return self._plain_differs(call, name, a, b)
        if (a.dtype, a.facts) != (b.dtype, b.facts):
            return f"facts: {a.dtype, *a.facts} and {b.dtype, *b.facts}"
        if versions and None not in (a.writes, b.writes) and a.writes != b.writes:
            return f"version: written {a.writes} and {b.writes} times"
        if np.array_equal(a.elements, b.elements, equal_nan=a.dtype in EPS):
            return None
        allowed = self._allowed(call, name, a)
        if allowed is None or _close(a.elements, b.elements, allowed):
            return None
        off = f"off by {_distance(a.elements, b.elements):.3g}, allowed {allowed:.3g}"
        return f"value: {_few(a.elements)} and {_few(b.elements)}, {off}"

    def _plain_differs(self, call: int, name: str, a: Any, b: Any) -> str | None:
        if type(a) is not type(b):
            return f"facts: {_word(a)} and {_word(b)}"
        if isinstance(a, float) and a != b:
            one, two = (Array("float32", np.array(x), (), 0) for x in (a, b))
            return self._differs(call, name, one, two, False)
        return None if a == b else f"value: {a!r} and {b!r}"

    def _allowed(self, call: int, name: str, a: Array) -> float | None:
        """None where roundings decide the result."""
        largest = float(np.max(np.abs(a.elements[np.isfinite(a.elements)]), initial=0.0))
        distances = []
        for other in self.others():
            b = other.shown[call].get(name, _ABSENT) if call < len(other.shown) else _ABSENT
            if isinstance(b, float):
                b = Array("float64", np.array(b), (), 0)
            if not isinstance(b, Array) or b.elements.shape != a.elements.shape:
                return None
            distances.append(_distance(a.elements, b.elements))
        spread = max(distances)
        if not spread <= UNSTABLE * max(largest, 1e-3):
            return None
        unit = max(EPS.get(a.dtype, 0.0), self.coarsest)
        if a.dtype == "float64" and distances[0] > UNITS * largest * unit:
            unit = max(
                unit, EPS["float32"]
            )  # with all floats in float64 it is another one: parts are float32
        return MARGIN * spread + max(UNITS * largest, 1.0) * unit


_ABSENT = "absent"


def _word(value: Any) -> str:
    return f"a tensor {value.dtype}{value.facts[0]}" if isinstance(value, Array) else repr(value)


def _text(outcome: Outcome) -> str:
    return f"({str(outcome.error).splitlines()[0][:160]})" if outcome.error and str(outcome.error) else ""


def _few(elements: np.ndarray) -> str:
    return np.array2string(elements.reshape(-1)[:6], precision=7, separator=", ")


def _distance(a: np.ndarray, b: np.ndarray) -> float:
    """The largest difference; infinity where one is nan or infinite and the other is not."""
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    gaps = np.abs(np.where(same, 0.0, a) - np.where(same, 0.0, b))
    return float(np.max(np.where(np.isnan(gaps), np.inf, gaps), initial=0.0))


def _close(a: np.ndarray, b: np.ndarray, allowed: float) -> bool:
    return a.shape == b.shape and _distance(a, b) <= allowed


def place_of(error: BaseException) -> str:
    """Where it was raised: the innermost file and function of the library."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "/jtorch/" in f.filename]
    return f"{frames[-1].filename.split('/jtorch/')[-1]}:{frames[-1].name}" if frames else "outside"


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield
