"""Lists, dicts and dataclasses among the arguments that a function changes.

It is recorded with containers that were built anew. What it leaves in them is told as the difference from
what was in them: which entries stay, and which are new, results like those that it returns. A replay does the
same to the containers of its own call, when all else is done.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from jtorch.compile.observe.guards import by_value
from jtorch.compile.observe.observer import Observer
from jtorch.compile.observe.writes import is_key
from jtorch.core.errors import CompileError
from jtorch.core.watch import MISSING


@dataclass(frozen=True)
class Change:
    """What becomes of container ``index`` of a call: for each entry that it has then the position of the key
    before, or -1 and the ``key``; and the position of the value before, or -1 where it is a new one."""

    index: int
    keys: tuple[tuple[int, Any], ...]
    values: tuple[int, ...]

    def make(self, container: Any, new: Iterator[Any]) -> None:
        """Change ``container``; ``new`` gives the new values of its entries."""
        keys, before = opened(container)
        now = [next(new) if k < 0 else before[k] for k in self.values]
        names = [key if k < 0 else keys[k] for k, key in self.keys]
        if isinstance(container, list):
            container[:] = now
        elif isinstance(container, dict):
            container.clear()
            container.update(zip(names, now, strict=True))
        else:
            _change_fields(container, dict(zip(keys, before, strict=True)), names, now)

    def new_in(self, container: Any) -> list[Any]:
        """What the new values are, in a container that was changed so; all of it where it was not."""
        values = opened(container)[1]
        if len(values) != len(self.values):
            return [values]
        return [value for value, k in zip(values, self.values, strict=True) if k < 0]

    def facts(self) -> tuple:
        """In a form that compares with another recording's."""
        return self.index, [(k, by_value(key)) for k, key in self.keys], self.values


def snapshot(container: Any) -> Callable[[], None]:
    """What makes a container again as it is now."""
    keys, values = opened(container)
    entries = tuple((-1, key) for key in keys)
    return lambda: Change(-1, entries, (-1,) * len(keys)).make(container, iter(values))


def opened(container: Any) -> tuple[list[Any], list[Any]]:
    """(keys, values) of the entries of a list, a dict or a dataclass; those of a list have none."""
    if isinstance(container, list):
        return [None] * len(container), list(container)
    if isinstance(container, dict) and not dataclasses.is_dataclass(container):
        return list(container), list(container.values())
    facts = {f.name: getattr(container, f.name, MISSING) for f in dataclasses.fields(container)}
    facts = {name: value for name, value in facts.items() if value is not MISSING}
    facts |= getattr(container, "__dict__", {})
    return list(facts), list(facts.values())


def _change_fields(owner: Any, before: dict[str, Any], names: list[str], now: list[Any]) -> None:
    for name in before.keys() - set(names):
        object.__delattr__(owner, name)
    for name, value in zip(names, now, strict=True):
        if before.get(name, MISSING) is not value:
            object.__setattr__(owner, name, value)


def changer(changes: Sequence[Change]) -> Callable[[Any, Sequence[Any]], Any]:
    """From (what the function returned, the new values) and the containers of a call to what it returned,
    after changing those."""

    def change_all(made: tuple[Any, list[Any]], containers: Sequence[Any]) -> Any:
        returned, new = made
        values = iter(new)
        for change in changes:
            change.make(containers[change.index], values)
        return returned

    return change_all


def changed_of(leaves: Sequence[Any], changes: Sequence[Change]) -> list[int]:
    """The ids of the containers of a call that these change; none where only its leaves are known."""
    containers = getattr(leaves, "containers", ())
    return [id(containers[change.index]) for change in changes] if containers else []


class Given:
    """The containers of a recording's arguments, and what was in them."""

    def __init__(self, made: Sequence[Any], callers: Sequence[Any]) -> None:
        self.callers = callers  # those of the call that is recorded
        self.before = {k: (tree, _facts(tree)) for k, tree in enumerate(made) if not isinstance(tree, tuple)}
        self.numbers = {id(tree): k for k, (tree, _) in self.before.items()}

    def changes(self, observer: Observer) -> tuple[list[Change], list[Any]]:
        """(what the function changed, the new values in that order). Raises CompileError where a replay
        could not do that."""
        changes: list[Change] = []
        new: list[Any] = []
        for k, (tree, before) in self.before.items():
            now = _facts(tree)
            if _same(before, now):
                continue
            self._check(k, before, now, observer)
            change = _change(k, tree, before, now)
            changes.append(change)
            new += change.new_in(tree)
        return changes, new

    def _check(self, k: int, before: _Facts, now: _Facts, observer: Observer) -> None:
        where = "".join(f"{source}: " for source in observer.given_changed[:1])
        if len(now) > 2:
            does = "changes a dataclass among its arguments that is a dict as well"
        elif self.callers and id(self.callers[k]) in observer.outside:
            does = "changes a list or dict among its arguments that it also reaches from outside"
        elif any(not is_key(key) for key in now[0] if not any(key is old for old in before[0])):
            does = "changes a dict among its arguments, which gets a key that only this call knows"
        else:
            return
        raise CompileError(
            f"{where}'{observer.name}' {does}: a recording would not. Return what is new instead."
        )


_Facts = tuple[list[Any], ...]


def _facts(tree: Any) -> _Facts:
    if isinstance(tree, dict) and dataclasses.is_dataclass(tree):
        return *opened(tree), list(tree), list(tree.values())
    return opened(tree)


def _same(before: _Facts, now: _Facts) -> bool:
    return all(
        len(a) == len(b) and all(x is y for x, y in zip(a, b, strict=True))
        for a, b in zip(before, now, strict=True)
    )


def _change(index: int, tree: Any, before: _Facts, now: _Facts) -> Change:
    if isinstance(tree, list):
        before, now = ([*range(len(before[0]))], before[1]), ([*range(len(now[0]))], now[1])
    keys = {key: k for k, key in enumerate(before[0])}
    places = {id(value): k for k, value in reversed([*enumerate(before[1])])}
    values = [
        k if (k := keys.get(key, -1)) >= 0 and before[1][k] is value else places.get(id(value), -1)
        for key, value in zip(now[0], now[1], strict=True)
    ]
    return Change(index, tuple((keys.get(key, -1), key) for key in now[0]), tuple(values))
