"""Which sizes of a call's arguments, and which integers among them, are symbols while it is recorded: see
``core/dim.py``.

An integer that has been several is a number that each call brings (``items.py``) as long as it only meets
tensors and arithmetic. Where more is asked of it, it is a symbol as sizes are: the next attempt has it so.
"""

from __future__ import annotations

import operator
import weakref
from collections import Counter
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from jtorch.compile.record.arrays import is_lent
from jtorch.core.dim import Dim, is_symbolic, symbol
from jtorch.core.environment import LEAST, Environment, Exact
from jtorch.core.sizes import shape_of
from jtorch.eager.tensor import Tensor

if TYPE_CHECKING:
    from jtorch.compile.record.capture import Capture


@dataclass(eq=False)
class Sizing:
    """``shapes`` are those of arguments with symbols in them, by the argument's place, ``texts`` the same as
    Python; of an integer it is one symbol. ``asked`` is what the function asked of them, as Python, once it
    is recorded."""

    env: Environment = field(default_factory=Environment)
    shapes: dict[int, tuple] = field(default_factory=dict)
    texts: dict[int, tuple[str, ...]] = field(default_factory=dict)
    asked: tuple[str, ...] = ()
    counts: dict[str, int] = field(default_factory=dict)
    """How many elements masks name, by symbol, as of the latest call."""
    counted: tuple[str, ...] = ()  # the symbol of each mask that is counted; "" where that is none of these
    alike: dict[str, str] = field(default_factory=dict)  # symbols that were found to be what Python says

    def space(self, leaves: Sequence[Any]) -> dict[str, Any]:
        """The symbols as they are for these arguments, and what else texts name."""
        sizes: dict[str, int] = dict(self.counts)
        for k, texts in self.texts.items():
            for text, n in zip(texts, sizes_of(leaves[k]) or (), strict=True):
                sizes.setdefault(text, n)
        return self.env.functions | {name: sizes[name] for name in self.env.symbols}

    def recorded(self, counts: Sequence[Any]) -> None:
        """The recording is over, in which masks named so many elements: from now on its plan is made."""
        names = [f"N{k}" if f"N{k}" in self.env.symbols else "" for k in range(len(counts))]
        self.counts = {name: n.value for name, n in zip(names, counts, strict=True) if name}
        texts = [n.text if is_symbolic(n) else "" for n in counts]  # where one was asked for, that of another
        self.counted = tuple(text if text in self.counts else "" for text in texts)
        self.alike = {name: text for name, text in zip(names, texts, strict=True) if name and name != text}
        self.asked = tuple(self.env.tests)
        self.env.planning = True

    def pinned_at(self, name: str) -> str:
        """Where in the program symbol ``name`` had to be a number; nothing where it is free."""
        guards = (g for g in self.env.guards.values() if g.pins and g.text.startswith(f"{name} == "))
        return next((str(guard.source) for guard in guards), "")

    def facts(self) -> tuple:
        """What a plan is made from, in a form that compares with another recording's."""
        return self.texts, self.asked


class Counted(Enum):
    """What numbers of elements are that masks name."""

    APART = "a symbol for each mask"
    ALIKE = "equal numbers are one symbol: x[m] * y[n]; a mask that holds everywhere names what it has"
    EXACT = "a plan for each number, as for each way through a branch"


class Masks(NamedTuple):
    """What a recording takes the number of elements for that a mask names. Those in ``pinned`` would be
    symbols and are the numbers of this call."""

    numbers: Counted = Counted.APART
    pinned: frozenset[str] = frozenset()

    def closer(self, asked: Exact) -> Masks | None:
        """What is tried where it was ``asked`` whether such numbers are equal, and they are (by chance?)."""
        if self.numbers is Counted.APART:
            return Masks(Counted.ALIKE)
        more = {name for name in asked.symbols if name.startswith("N")} - self.pinned
        if more and self.numbers is Counted.ALIKE:
            return Masks(Counted.ALIKE, self.pinned | more)
        return None if self.numbers is Counted.EXACT else Masks(Counted.EXACT)


APART = Masks()


def sizes_of(leaf: Any) -> tuple[int, ...] | None:
    """The shape of a tensor; an integer itself. None of what has no sizes."""
    if isinstance(leaf, Tensor):
        return tuple(leaf._data.shape)
    return (leaf,) if leaf.__class__ is int else None


def why_numbers(made: Capture) -> str:
    """Why a recording is for these very sizes alone; nothing where it is not, or nothing else was tried."""
    sizing = made.sizing
    if sizing is not None and all(map(sizing.pinned_at, sizing.env.symbols)):
        return f"the number itself is needed at {sizing.pinned_at(sizing.env.symbols[0])}"
    return made.why_exact


Axes = frozenset[tuple[int, int]]  # (place of an argument, axis)


class Moving(NamedTuple):
    """Sizes that have been several, and integers by axis 0; why sizes are no symbols, where they were in
    vain. ``digits``: integers of which more is asked than to be computed with."""

    axes: Axes = frozenset()
    why_exact: str = ""
    integers: frozenset[int] = frozenset()
    digits: frozenset[int] = frozenset()


STILL = Moving()

Sizings = Callable[[Set[int], Set[int]], "Sizing | None"]
"""Says which sizes are symbols, where arguments are fixed, and integers have to be."""


class Moved:
    """Which sizes of a function's arguments have been several at its recordings, by the calls' structure."""

    def __init__(self) -> None:
        self._latest: dict[Any, dict[int, tuple[int, ...]]] = {}
        self._axes: dict[Any, set[tuple[int, int]]] = {}
        self._digits: dict[Any, set[int]] = {}
        self._flags: dict[Any, tuple[list[bool], bool]] = {}  # the latest; whether several have moved at once
        self._pinned: Counter[tuple[Any, int]] = Counter()  # integers whose digits a plan was recorded for
        self._in_vain: dict[Any, list[str]] = {}

    def with_call(self, structure: Any, leaves: Sequence[Any]) -> Moving:
        """Those that have, with a call that is about to be recorded."""
        known = self._latest.setdefault(structure, {})
        axes = self._axes.setdefault(structure, set())
        integers = set()
        for k, leaf in enumerate(leaves):
            shape = sizes_of(leaf)
            if shape is not None:
                before = known.get(k, shape)
                if len(before) == len(shape):
                    pairs = zip(before, shape, strict=True)
                    axes.update((k, axis) for axis, (n, m) in enumerate(pairs) if n != m)
                known[k] = shape
                if leaf.__class__ is int and (k, 0) in axes and self._pinned[structure, k] < _TRIES:
                    integers.add(k)
        integers.update(
            k for k in self._moving_flags(structure, leaves) if self._pinned[structure, k] < _TRIES
        )
        found = frozenset(axes)
        reasons = self._in_vain.get((structure, found), [])
        why = reasons[-1] if len(reasons) >= _TRIES else ""
        return Moving(found, why, frozenset(integers), frozenset(self._digits.get(structure, ())))

    def _moving_flags(self, structure: Any, leaves: Sequence[Any]) -> list[int]:
        """Flags are modes, each with a plan, until several are others at once: then they are data."""
        places = [k for k, leaf in enumerate(leaves) if leaf.__class__ is bool]
        now = [leaves[k] for k in places]
        before, are_data = self._flags.get(structure, (now, False))
        are_data = are_data or sum(map(operator.ne, before, now)) > 1
        self._flags[structure] = now, are_data
        return places if are_data else []

    def recorded(self, structure: Any, moving: Moving, made: Capture) -> None:
        """A call was, with symbols for ``moving``, or without, for a reason."""
        digits = (moving.integers | made.of_numpy) & made.exact
        self._digits.setdefault(structure, set()).update(digits)
        sizing = made.sizing
        for k in digits:
            if made.why_exact or (sizing and k in sizing.texts and sizing.pinned_at(*sizing.texts[k])):
                self._pinned[structure, k] += 1
        if not moving.axes or moving.why_exact:
            return
        reason = why_numbers(made)
        if reason:
            self._in_vain.setdefault((structure, moving.axes), []).append(reason)


_TRIES = 2  # of a function that may be recorded with symbols at other sizes, or later on


def sizing_of(
    leaves: Sequence[Any], every: bool, moved: Axes = frozenset(), integers: Set[int] = frozenset(),
    fixed: Set[int] = frozenset(),
) -> Sizing | None:  # fmt: skip
    """A symbol for each size, or for those alone that are marked or have moved, and for ``integers``; equal
    ones share it, 0 and 1 have none. None where that gives no symbol.

    Tensors that do not lie row by row keep their sizes, and so do those that are ``fixed``.
    """
    found = Sizing()
    symbols: dict[int, Dim] = {}
    sized = [(k, leaf) for k, leaf in enumerate(leaves) if k not in fixed and _may_have_symbols(leaf)]
    marks = {k: _marks_of(leaf) for k, leaf in sized}
    for k, leaf in sized:
        numbers = sizes_of(leaf)
        assert numbers is not None
        if leaf.__class__ is int:
            moving = [k in integers and LEAST <= leaf <= _MOST]
        else:
            moving = [
                n >= LEAST and (every or axis in marks[k] or (k, axis) in moved)
                for axis, n in enumerate(numbers)
            ]
        if not any(moving):
            continue
        for n in (n for n, is_moving in zip(numbers, moving, strict=True) if is_moving):
            if n not in symbols:
                symbols[n] = symbol(found.env, f"S{len(symbols)}", n, *_bounds_of(n, sized, marks))
        shape = zip(numbers, moving, strict=True)
        sizes: list[Any] = [symbols[n] if is_moving else n for n, is_moving in shape]
        found.shapes[k] = shape_of(sizes)
        found.texts[k] = tuple(n.text if is_symbolic(n) else str(n) for n in sizes)
    return found if found.shapes else None


_MOST = 2**31 - 1  # of an integer that is a symbol: two of them multiplied are an int64


def _may_have_symbols(leaf: Any) -> bool:
    if leaf.__class__ is int:
        return True
    return isinstance(leaf, Tensor) and not is_lent(leaf) and leaf._data.flags.c_contiguous


# -- sizes that users say will move

Limits = tuple[int, int | None]  # the least size, and the largest; None for any
_marked: dict[int, tuple[weakref.ref[Tensor], dict[int, Limits]]] = {}  # by the id of a tensor


def mark(tensor: Tensor, axis: int, limits: Limits) -> None:
    """Have size ``axis`` be a symbol where a function that is recorded gets ``tensor``."""
    key = id(tensor)
    known = _marks_of(tensor)
    gone = weakref.ref(tensor, lambda _: _marked.pop(key, None))
    _marked[key] = gone, known | {axis: limits}


def are_marked(leaves: Sequence[Any]) -> bool:
    """Whether a size of one of them is."""
    return bool(_marked) and any(_marks_of(leaf) for leaf in leaves)


def _marks_of(leaf: Any) -> dict[int, Limits]:
    reference, marks = _marked.get(id(leaf), (None, {}))
    return marks if reference is not None and reference() is leaf else {}


def _bounds_of(n: int, sized: Sequence[tuple[int, Any]], marks: dict[int, dict[int, Limits]]) -> Limits:
    """What all marks of sizes that are ``n`` now allow, and integers that are."""
    limits = [given for k, leaf in sized for axis, given in marks[k].items() if leaf._data.shape[axis] == n]
    limits += [(LEAST, _MOST) for _, leaf in sized if leaf.__class__ is int and leaf == n]
    highs = [high for _, high in limits if high is not None]
    return max([LEAST, *(low for low, _ in limits)]), min(highs, default=None)
