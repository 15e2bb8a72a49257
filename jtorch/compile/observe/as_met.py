"""Modules and optimizers as a function came upon them: the net under what is seen of changes.

What a user's code does to them is seen, instruction by instruction, and so are methods that are known to
change them (``changes``). What else code of the library's does is not: ``m += [layer]``, ``weight_norm(m)``,
a method that C code calls, an entry of ``m._buffers``. So each is remembered as it is met, and looked at once
more when all that was seen has been taken back: what is another one then was changed once, by no replay.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from jtorch.compile.observe.changes import OWN
from jtorch.compile.observe.guards import MISSING, PLAIN, same, told
from jtorch.optim.optimizer import Optimizer

_FOLLOWED = frozenset({*OWN, "training"})  # modes are part of what a replay sets
_LOOKED_AT = frozenset({"state", "_hooks"})  # what is in these is put back where it is seen to change
_Identity = tuple[int, Any]


class AsMet:
    """Those that a recording came upon."""

    def __init__(self) -> None:
        self._met: dict[int, _Before] = {}
        self._kept: set[_Identity] = set()  # what was computed once and stays, as in eager mode
        self._restored: set[_Identity] = set()  # (id of a container, key) of what was not as before

    def meet(self, owner: Any) -> None:
        """``owner``, a module or an optimizer, was reached from outside, with all modules below it."""
        if id(owner) in self._met:
            return
        for part in owner.modules() if hasattr(owner, "modules") else (owner,):
            if id(part) not in self._met and not hasattr(part, "cls_to_become"):  # a lazy one becomes it once
                self._met[id(part)] = _Before(part)

    def keep(self, container: Any, key: Any) -> None:
        """What will be there is computed once, and stays."""
        self._kept.add((id(container), key))

    @contextmanager
    def keeping(self) -> Iterator[None]:
        """What is changed in this block stays so."""
        before = {change.identity for change in self._changes(set())}
        yield
        self._kept.update({change.identity for change in self._changes(set())} - before)

    def take_back(self, seen: set[_Identity]) -> list[str]:
        """Make all of them as they were, but for the places that were ``seen`` to be changed: what was
        changed, in words."""
        found = list(self._changes(seen | self._kept))
        for change in found:
            change.undo()
        self._restored.update(change.identity for change in found)
        return [change.what for change in found]

    def put_back(self) -> set[_Identity]:
        """The recording is not to be: make what steps of optimizers keep in mind as it was, too. What was put
        back, now and before."""
        own = {place for before in self._met.values() for place in before.put_back_own()}
        return self._restored | own

    def _changes(self, known: set[_Identity]) -> Iterator[_Change]:
        for before in self._met.values():
            yield from before.changes(known)


@dataclass(slots=True)
class _Change:
    """``key`` of ``container``, or all of it, is not as it was; ``what`` says it in words."""

    container: Any
    key: Any
    what: str
    undo: Callable[[], None]

    @property
    def identity(self) -> _Identity:
        return id(self.container), self.key


class _Before:
    """What an object holds, and what is in the containers that it holds."""

    __slots__ = ("cls", "containers", "facts", "of_class", "own", "owner")

    def __init__(self, owner: Any) -> None:
        self.owner, self.cls = owner, type(owner)
        # a class that one module has for itself, whose properties are what is parametrized
        self.of_class = dict(vars(self.cls)) if "parametrize_base_" in vars(self.cls) else None
        self.facts = _facts(owner)
        self.own = _own(owner)
        self.containers = [(name, held, _copied(held)) for name, held in _held(owner)]

    def put_back_own(self) -> Iterator[_Identity]:
        """Make what steps keep in mind as it was: its places."""
        facts = vars(self.owner)
        if self.own is not None:
            yield from ((id(facts), name) for name in facts if _is_own(name))
            for name in [name for name in facts if _is_own(name) and name not in self.own]:
                del facts[name]
        for name, (value, held) in (self.own or {}).items():
            facts[name] = value
            if held is not None:
                _refill_dict(value, held) if isinstance(value, dict) else _refill(value, held)

    def changes(self, known: set[_Identity]) -> Iterator[_Change]:
        """What is another one now, but for the places that are ``known`` to change."""
        whose, facts = f"a {self.cls.__name__}", vars(self.owner)
        if type(self.owner) is not self.cls:
            set_class = partial(object.__setattr__, self.owner, "__class__", self.cls)
            yield _Change(self.owner, "__class__", f"the class of {whose}", set_class)
        if self.of_class is not None:
            for key in _changed(vars(self.cls), self.of_class):
                put = partial(_put_in_class, self.cls, key, self.of_class.get(key, MISSING))
                yield _Change(vars(self.cls), key, f"{told(key)} of the class of {whose}", put)
        for key in _changed(_facts(self.owner), self.facts):
            if (id(facts), key) not in known:
                put = partial(_put, facts, key, self.facts.get(key, MISSING))
                yield _Change(facts, key, f"{told(key)} of {whose}", put)
        for name, held, before in self.containers:
            if isinstance(held, dict):
                for key in _changed(held, before):
                    if (id(held), key) not in known:
                        what = f"{told(key)} in {told(name)} of {whose}"
                        yield _Change(held, key, what, partial(_put_in_order, held, key, before))
            elif (id(held), None) not in known and not _is_same(held, before, known):
                yield _Change(held, None, f"{told(name)} of {whose}", partial(_refill, held, before))


def _facts(owner: Any) -> dict[str, Any]:
    """What lies in it by name; of an optimizer but what steps keep in mind."""
    if isinstance(owner, Optimizer):
        return {name: value for name, value in vars(owner).items() if not name.startswith("_")}
    return dict(vars(owner))


def _is_own(name: str) -> bool:
    return name.startswith("_") or name == "state"


def _own(owner: Any) -> dict[str, tuple[Any, Any]] | None:
    """What steps of an optimizer keep in mind, with the content of what is a container."""
    if not isinstance(owner, Optimizer):
        return None
    return {
        name: (
            value,
            _copied(value) if isinstance(value, (dict, list, set)) and name not in _LOOKED_AT else None,
        )
        for name, value in vars(owner).items()
        if _is_own(name)
    }


def _held(owner: Any) -> Iterator[tuple[str, Any]]:
    for name, value in _facts(owner).items():
        if name not in _FOLLOWED and isinstance(value, (dict, list, set)):
            yield name, value
    if isinstance(owner, Optimizer):
        yield from (("a group", group) for group in owner.param_groups)
        yield from (("the hooks", hooks) for hooks in owner._hooks.values())


def _copied(held: Any) -> Any:
    return dict(held) if isinstance(held, dict) else list(held)


def _changed(now: Mapping, before: Mapping) -> list[Any]:
    keys = now.keys() | before.keys() if now.keys() != before.keys() else before
    return [
        key
        for key in keys
        if key not in _FOLLOWED and not _is_one(now.get(key, MISSING), before.get(key, MISSING))
    ]


def _is_same(now: list[Any] | set[Any], before: list[Any], known: set[_Identity]) -> bool:
    if isinstance(now, set):
        return now == set(before)
    if (id(now), "the end") in known:
        return True
    pairs = zip(now, before, strict=False)
    return len(now) == len(before) and all(
        _is_one(a, b) or (id(now), k) in known for k, (a, b) in enumerate(pairs)
    )


def _is_one(a: Any, b: Any) -> bool:
    """Whether one is the other, or like it: library code puts containers that tell of changes in the place of
    plain ones."""
    if a is b or (isinstance(a, PLAIN) and same(a, b)):
        return True
    if (isinstance(a, list) and isinstance(b, list)) or type(a) is type(b) is tuple:
        return len(a) == len(b) and all(map(_is_one, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_is_one(a[key], b[key]) for key in a)
    return False


def _refill(held: list[Any] | set[Any], before: list[Any]) -> None:
    held.clear()
    held.extend(before) if isinstance(held, list) else held.update(before)


def _refill_dict(held: dict, before: dict) -> None:
    for key in [key for key in held if key not in before]:
        _put(held, key, MISSING)
    for key, value in before.items():
        _put(held, key, value)


def _put_in_class(cls: type, key: str, value: Any) -> None:
    if value is MISSING:
        type.__delattr__(cls, key)
    else:
        type.__setattr__(cls, key, value)


def _put_in_order(held: dict, key: Any, before: dict) -> None:
    """An entry that was gone comes back where it was, not at the end."""
    _put(held, key, before.get(key, MISSING))
    if [k for k in held if k in before] != [k for k in before if k in held]:
        now = dict(held)
        for k in (*before, *(k for k in now if k not in before)):
            if k in now:
                _put(held, k, MISSING)
                _put(held, k, now[k])


def _put(held: dict, key: Any, value: Any) -> None:
    cls: Any = OrderedDict if isinstance(held, OrderedDict) else dict  # and nobody is told
    if value is not MISSING:
        cls.__setitem__(held, key, value)
    elif key in held:
        cls.__delitem__(held, key)
