"""A loop in parts: where a choice depends on the position alone, as at the joints of a ``cat``, one loop
after the other instead of a choice at each position, which no vector can make.

Eight parts of 16 columns, doubled, take 15 us so and 99 with choices (60,000 elements, one thread), two of
one column 51 and 45. But what is computed of the chosen elements runs in vectors either way, and short loops
cost it their rest: 36 exponentials for each of eight parts of 9 columns took 313 us so, 93 with choices; the
padded images of a ResNet 1.5 to 2.8 times as long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from jtorch.compile.plan.loops import Arithmetic, Choose, Compute, Constant, Nest, Store, Value

Known = Mapping[Value, bool]
"""Comparisons of which it is known, in a part of a loop, whether they hold."""

MOST = 8
"""Parts of a loop; each has the whole body. With more there are none."""

_MOST_COSTLY, _MOST_VALUES = 1, 48
"""Of a body: functions like exp; and computed values in all parts together, 4 ms of compiling each."""


def chosen(value: Value, known: Known) -> Value | None:
    """The branch that a choice takes for sure, if it is one and that is known."""
    holds = _holds(value.condition, known) if isinstance(value, Choose) else None
    if holds is None:
        return None
    assert isinstance(value, Choose)
    return value.then if holds else value.otherwise


def parts_of(value: Value, known: Known) -> tuple[Value, ...]:
    """The values that ``value`` is computed from, of a choice that is known the branch alone."""
    branch = chosen(value, known)
    return value.parts() if branch is None else (branch,)


def next_comparison(
    stores: Iterable[Store], known: Known, is_cut: Callable[[Value], bool]
) -> Arithmetic | None:
    """The first one that a choice depends on, is not known, and can be where a loop is cut."""
    seen: set[Value] = set()
    stack = [s.value for s in stores][::-1]
    while stack:
        value = stack.pop()
        if value in seen:
            continue
        seen.add(value)
        if isinstance(value, Choose) and chosen(value, known) is None:
            for comparison in _comparisons(value.condition):
                if comparison not in known and is_cut(comparison):
                    return comparison
        stack += parts_of(value, known)[::-1]
    return None


def pay(nest: Nest, is_cut: Callable[[Value], bool]) -> bool:
    """Whether the innermost loop had better be in parts, where there are any: not where choices that depend
    on other loops, too, stay in them, nor for the edges of a ``pad``, which are short, and where what is read
    or nothing is chosen in vectors already."""
    choices = [v for v in nest.values() if isinstance(v, Choose)]
    if any(isinstance(branch, Constant) for v in choices for branch in (v.then, v.otherwise)):
        return False
    if not all(is_cut(c) for v in choices for c in _comparisons(v.condition)):
        return False
    computed = [v for v in nest.values() if isinstance(v, Compute)]
    n = count(nest.stores, is_cut)
    return n <= MOST and sum(v.costly for v in computed) <= _MOST_COSTLY and n * len(computed) <= _MOST_VALUES


def count(stores: Iterable[Store], is_cut: Callable[[Value], bool]) -> int:
    """In how many parts the loop would be, up to one more than MOST."""
    return _below(list(stores), is_cut, {}, MOST)


def _below(stores: list[Store], is_cut: Callable[[Value], bool], known: dict[Value, bool], room: int) -> int:
    """In how many parts it is where so much is known, up to one more than ``room``."""
    comparison = next_comparison(stores, known, is_cut)
    if comparison is None or room < 1:
        return 1
    first = _below(stores, is_cut, {**known, comparison: True}, room - 1)
    return first + _below(stores, is_cut, {**known, comparison: False}, room - first)


def _holds(condition: Value, known: Known) -> bool | None:
    if condition in known:
        return known[condition]
    if isinstance(condition, Arithmetic) and condition.sign == "and":
        both = [_holds(part, known) for part in (condition.left, condition.right)]
        return False if False in both else None if None in both else True
    return None


def _comparisons(condition: Value) -> Iterator[Arithmetic]:
    if isinstance(condition, Arithmetic):
        if condition.sign == "and":
            yield from _comparisons(condition.left)
            yield from _comparisons(condition.right)
        else:
            yield condition
