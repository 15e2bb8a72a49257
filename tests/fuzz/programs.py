"""Random training programs: what one is, and the writer that puts it together.

A program is text: statements that set up modules and state, those of a function ``step``, and those of
several calls. It is made without running anything (the writer knows dtypes and shapes by rules of its own),
so a seed gives the same program whatever the library does. What a program prints as is a script.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

PRELUDE = Path(__file__).with_name("prelude.py").read_text()
FLOATS = ("F32", "F64", "F16", "BF16")
_RANK = {"BOOL": 0, "I32": 1, "I64": 2, "F16": 3, "BF16": 3, "F32": 4, "F64": 5}


@dataclass(frozen=True)
class Program:
    seed: int
    setup: tuple[str, ...]
    signature: str
    body: tuple[str, ...]
    calls: tuple[tuple[str, ...], ...]

    def script(self) -> str:
        """The program without its head: what is run."""
        body = "\n".join(f"    {line}" for s in self.body for line in s.splitlines())
        parts = ["\n".join(self.setup), "", f"def step({self.signature}):", body, "", "step = compile(step)"]
        for call in self.calls:
            parts += ["", *call]
        return "\n".join(parts) + "\n"

    def __str__(self) -> str:
        return f"{PRELUDE}\n\ncompile = T.compile  # eager: lambda f: f\n{self.script()}"


@dataclass
class Value:
    """A variable of the step, as the writer knows it. ``fresh``: made by an op, so it may be written."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    grad: bool = False
    fresh: bool = True

    @property
    def is_float(self) -> bool:
        return self.dtype in FLOATS


@dataclass
class Writer:
    """A program under way. ``pick`` chooses, ``let`` appends a statement that makes a value."""

    rng: np.random.Generator
    values: list[Value] = field(default_factory=list)
    reals: list[str] = field(default_factory=list)  # expressions that are Python floats
    wholes: list[str] = field(default_factory=list)  # and ints
    setup: list[str] = field(default_factory=list)
    body: list[str] = field(default_factory=list)
    parameters: list[str] = field(default_factory=list)  # expressions that give lists of them
    modules: list[str] = field(default_factory=list)
    count: int = 0
    floats: tuple[str, ...] = FLOATS  # the float dtypes that occur

    def one(self, options: Sequence[Any]) -> Any:
        return options[int(self.rng.integers(len(options)))]

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def number(self, low: int, high: int) -> int:
        """low <= it < high"""
        return int(self.rng.integers(low, high))

    def name(self, letter: str = "v") -> str:
        self.count += 1
        return f"{letter}{self.count}"

    def pick(self, fits: Callable[[Value], bool] = lambda v: True) -> Value | None:
        """A value that fits, the latest rather than the first."""
        found = [v for v in self.values if fits(v)]
        return found[max(self.number(0, len(found)) for _ in range(2))] if found else None

    def a_float(self, fits: Callable[[Value], bool] = lambda v: True) -> Value | None:
        return self.pick(lambda v: v.is_float and fits(v))

    def let(self, text: str, dtype: str, shape: Iterable[int], grad: bool, fresh: bool = True) -> Value:
        made = Value(self.name(), dtype, tuple(shape), grad and dtype in FLOATS, fresh)
        self.body.append(f"{made.name} = {text}")
        self.values.append(made)
        return made

    def say(self, text: str) -> None:
        self.body.append(text)

    def fresh_name(self, prefix: str, text: str) -> str:
        """A new name of the set-up, bound to ``text``."""
        name = self.name(prefix)
        self.setup.append(f"{name} = {text}")
        return name

    def real(self) -> str:
        """A Python float: of the call, of the state, or written out."""
        return self.one(self.reals) if self.reals and self.chance(0.6) else self.one(_REALS)

    def whole(self) -> str:
        return self.one(self.wholes) if self.wholes and self.chance(0.4) else self.one(("2", "3", "1"))


_REALS = ("0.5", "-1.25", "2.0", "0.1", "3.0", "1e-3")


def promoted(*dtypes: str) -> str:
    """The dtype of ops on tensors of some dimension."""
    if {"F16", "BF16"} <= set(dtypes) and not {"F32", "F64"} & set(dtypes):
        return "F32"
    return max(dtypes, key=_RANK.__getitem__)


def together(a: Value, b: Value) -> str:
    """The dtype of an op on two tensors: one without dimensions counts by its category alone."""
    if bool(a.shape) != bool(b.shape):
        big, small = (a, b) if a.shape else (b, a)
        if _category(small.dtype) <= _category(big.dtype):
            return big.dtype
        return small.dtype
    return promoted(a.dtype, b.dtype)


def _category(dtype: str) -> int:
    return 0 if dtype == "BOOL" else 1 if dtype in ("I32", "I64") else 2


def broadcast(*shapes: tuple[int, ...]) -> tuple[int, ...] | None:
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        return None
