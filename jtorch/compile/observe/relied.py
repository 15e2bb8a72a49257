"""What a recording relies on that tells of its changes by itself: modules, optimizers and captured arrays.

Reads of the user's code are known one by one. Code of the library's is not watched; what it may read of a
module that the recording came upon follows from that code: of any module the mode and the hooks; of one that
code of the library's computes with, and of each below it, the containers of parameters, buffers and
submodules, and every name that the source of its class mentions. A module that is handed to a function of
the library's, or to C code, counts as read as a whole. All else may change between calls, and no call pays
for it.
"""

from __future__ import annotations

import dis
import functools
import inspect
import sys
import types
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from jtorch.compile.observe.guards import MISSING, ItemRead, LengthRead, Read, contents, in_words, same
from jtorch.compile.observe.kinds import is_users
from jtorch.core import watch
from jtorch.eager.tensor import Tensor
from jtorch.nn.changes import Changeable
from jtorch.nn.hook_methods import HOOKS, Hooked
from jtorch.nn.module import Module
from jtorch.nn.tree import Tree
from jtorch.optim.optimizer import Optimizer

_CONTAINERS = ("_parameters", "_buffers", "_modules")
_OF_EACH = frozenset({
    *HOOKS, *_CONTAINERS, "training", "forward", "_hooked", "_is_full_backward_hook", "_compiled_call_impl",
    "_non_persistent_buffers_set",
})  # fmt: skip
_COMPARED_INSIDE = frozenset({*HOOKS, "_non_persistent_buffers_set"})  # others change in place, too
_BASES = (Module, Changeable, Tree, Hooked, object)  # what these read is said above
_TELLING = (watch.Dict, watch.List, watch.DefaultDict)


class ReadFact:
    """What was read is as it was then."""

    def __init__(self, read: Read) -> None:
        self.container, self.read = read.container, read

    def concerns(self, key: Any) -> bool:
        return key is watch.WHOLE or key == self.read.key

    def holds(self, key: Any) -> bool:
        return self.read.holds()

    def label(self, key: Any) -> str:
        return self.read.label()


class EntriesFact:
    """A container has the entries that it has now; under ``replaced``, which each replay writes anew, tensors
    of the same kind."""

    def __init__(self, container: Any, what: str, replaced: frozenset[Any] = frozenset()) -> None:
        self.container, self.what, self.replaced = container, what, replaced
        self.before = self._now()

    def concerns(self, key: Any) -> bool:
        return True

    def holds(self, key: Any) -> bool:
        return same(self._now(), self.before)

    def label(self, key: Any) -> str:
        return self.what

    def _now(self) -> tuple:
        if not self.replaced:
            return contents(self.container)
        entries = self.container.items()
        return tuple((k, _kind(v) if k in self.replaced else v) for k, v in entries)


def _kind(value: Any) -> Any:
    """What code of the library's may see of a tensor without reading elements."""
    if not isinstance(value, Tensor):
        return value
    data = value._data
    return type(value), data.shape, data.strides, data.dtype.str, value._requires_grad, value._node is None


class ModuleFact:
    """The attributes ``names`` of a module, or all where that is None, are what they are now; ``replaced``
    are as in ``EntriesFact``: hooks set some."""

    def __init__(
        self, module: Any, names: frozenset[str] | None, replaced: frozenset[Any] = frozenset()
    ) -> None:
        self.container, self.names, self.replaced = module.__dict__, names, replaced
        self.owner = type(module).__name__
        self.before = {name: self._now(name) for name in (self.container if names is None else names)}

    def concerns(self, key: Any) -> bool:
        return self.names is None or key is watch.WHOLE or key in self.names

    def holds(self, key: Any) -> bool:
        return self._is_same(key) if key is not watch.WHOLE else self._changed() is None

    def label(self, key: Any) -> str:
        key = self._changed() if key is watch.WHOLE else key
        return f"a {self.owner}" if key is None else f"{in_words(key)} of a {self.owner}"

    def _is_same(self, name: Any) -> bool:
        return same(self._now(name), self.before.get(name, MISSING))

    def _changed(self) -> str | None:
        """The first attribute that is another one."""
        names = self.before.keys() | (self.container if self.names is None else ())
        return next((name for name in names if not self._is_same(name)), None)

    def _now(self, name: str) -> Any:
        value = self.container.get(name, MISSING)
        if name in self.replaced:
            return _kind(value)
        inside = name in _COMPARED_INSIDE and isinstance(value, (dict, set))
        return contents(value) if inside else value


class ArrayFact:
    """The tensor that holds an array holds it still, and requires grad or not as it did: who changes that
    says how to tell. Which graph it has counts where ``by_graph`` the recording goes back through it."""

    def __init__(self, array: Any, by_graph: bool = False) -> None:
        self.container, self.by_graph = array, by_graph

    def concerns(self, key: Any) -> bool:
        return self.by_graph or not (isinstance(key, tuple) and key[0] == "graph")

    def holds(self, key: Any) -> bool:
        return False

    def label(self, key: Any) -> str:
        return (
            f"{key if isinstance(key, str) else 'memory'} of a tensor of shape {tuple(self.container.shape)}"
        )


class Relied:
    """The modules and optimizers that a recording came upon, and what they were then: before code of the
    library's read them. Of those that it has made, which are ``inside``, no other thread knows."""

    def __init__(self, inside: Mapping[int, Any]) -> None:
        self._inside = inside
        self.met: dict[int, Any] = {}
        self.opened: dict[
            int, Any
        ] = {}  # of which a method of ``Module`` was called, or a container was read
        self.handed: dict[int, Any] = {}  # to code that may read anything
        self.used: dict[int, Optimizer] = {}  # of which code of the library's may read the state
        self._looked_at: dict[int, Any] = {}
        self._then: list[watch.Fact] = []

    def meet(self, module: Any) -> None:
        if id(module) not in self.met:
            self.met[id(module)] = module
            self._look(module)

    def hand(self, module: Any) -> None:
        if id(module) not in self.handed:
            self.handed[id(module)] = module
            self._look(module)

    def open(self, module: Any) -> None:
        self.meet(module)
        self.opened[id(module)] = module

    def use(self, optimizer: Optimizer) -> None:
        self.used[id(optimizer)] = optimizer

    def meet_optimizer(self, optimizer: Any) -> None:
        containers = _containers([optimizer.param_groups, optimizer.state])
        self._then += [EntriesFact(c, "") for c in containers if isinstance(c, _TELLING)]

    def _look(self, module: Any) -> None:
        for each in _trees([module], self._looked_at):
            self._looked_at[id(each)] = each
            if id(each) not in self._inside:
                self._then += facts_of_module(each)

    def check(self, subscription: watch.Subscription) -> None:
        """Let ``subscription`` expire where something is another than it was then, and this thread has not
        told of it: another thread changed it meanwhile, and may tell of that only later."""
        for fact in self._then:
            if not fact.holds(watch.WHOLE) and not subscription.has_told(fact):
                subscription.expire("what another thread changed while it was recorded")
                return


def relied_on(
    observer: Any, reads: Iterable[Read], arrays: Iterable[np.ndarray], by_graph: bool = False
) -> list[watch.Fact]:
    """All of it, as it is now that the recording has ended, with the ``arrays`` that it captured; for
    ``by_graph`` see ``ArrayFact``."""
    found: list[watch.Fact] = [ReadFact(read) for read in reads if not read.guarded]
    captured = {id(array): array for array in arrays}
    found += [ArrayFact(array, by_graph) for array in captured.values()]
    relied = observer.relied
    whole = {id(module) for module in _trees(relied.handed.values(), observer.inside)}
    apart = [module for module in relied.met.values() if _is_read_by_users_alone(module)]
    found += [ModuleFact(m, _OF_EACH) for m in apart if id(m) not in observer.inside]
    known = {id(module) for module in apart} - relied.opened.keys()
    trees = [module for key, module in relied.met.items() if key not in known]
    for module in _trees([*trees, *relied.handed.values()], observer.inside):
        seen = _replaced(observer, module, captured, id(module) in whole)
        found += facts_of_module(module, id(module) in whole, seen)
    roots = _optimizers(observer)
    held: list[Any] = [o.param_groups for o in roots]
    held += [o.state for o in roots if id(o) in relied.used]
    held += [
        read.value for read in reads if isinstance(read.value, _TELLING)
    ]  # what an optimizer has asked the evaluator for
    told = [c for c in _containers(held) if isinstance(c, _TELLING)]
    found += [EntriesFact(c, "the groups or the state of an optimizer") for c in told]
    return found


def _is_read_by_users_alone(module: Any) -> bool:
    """Whether no code of the library's but ``Module``'s own reads attributes of it by their names: a hook
    may, that of ``weight_norm``."""
    return names_of(type(module)) is _OF_EACH and not module._hooked


def untold(observer: Any) -> Iterator[Read]:
    """Reads of all that users' own dicts and lists have which they put into the state of an optimizer: those
    tell of no changes. What the function writes there itself is another thing."""
    known = observer.effects.known
    for container in _containers(o.state for o in _optimizers(observer) if id(o) in observer.relied.used):
        if isinstance(container, _TELLING):
            continue
        yield LengthRead(container, None, len(container))
        entries = container.items() if isinstance(container, dict) else enumerate(container)
        yield from (ItemRead(container, k, v) for k, v in entries if (id(container), k) not in known)


def _optimizers(observer: Any) -> list[Optimizer]:
    return [value for value in observer.outside.values() if isinstance(value, Optimizer)]


def facts_of_module(
    module: Any, whole: bool = False, replaced: Mapping[str, frozenset[Any]] = MappingProxyType({})
) -> Iterator[watch.Fact]:
    """What code of the library's may read of a module, or all that it holds; ``replaced`` are keys of its
    containers, see ``EntriesFact``."""
    none: frozenset[Any] = frozenset()
    yield ModuleFact(module, None if whole else names_of(type(module)), replaced.get("__dict__", none))
    for place in _CONTAINERS:
        if (container := module.__dict__.get(place)) is not None:
            what = f"the {place[1:]} of a {type(module).__name__}"
            yield EntriesFact(container, what, replaced.get(place, none))
    for place in HOOKS if module._hooked else ():  # else nobody asks for them
        if isinstance(hooks := module.__dict__.get(place), watch.HookDict):
            yield EntriesFact(hooks, f"the {place[1:]} of a {type(module).__name__}")


def _replaced(
    observer: Any, module: Any, captured: Mapping[int, Any], whole: bool
) -> dict[str, frozenset[Any]]:
    """The buffers and attributes of a module that a replay writes, and whose value before counts by guards of
    its own, or not at all: code of the library's, which is not watched, has not computed with it."""
    containers = {"__dict__": module.__dict__, "_buffers": module.__dict__.get("_buffers", {})}
    return {name: _replaced_in(observer, held, captured, whole) for name, held in containers.items()}


def _replaced_in(
    observer: Any, container: dict[str, Any], captured: Mapping[int, Any], whole: bool
) -> frozenset[Any]:
    """Those of one container, of a module whose attributes, but not its buffers, hooks may set: what
    ``weight_norm`` computes."""
    places = [place for place in observer.effects.places if place.container is container]
    keys = {place.key for place in places}
    unseen = {key for key in keys if id(getattr(container.get(key), "_data", None)) not in captured}
    if whole:  # whoever read it, unseen, found what stands for the tensor of each call
        stood_in = {place.key for place in places if place.identity in observer.effects.stood_in}
        return frozenset(stood_in | (unseen if "_buffers" in container else set()))
    guarded = {read.key for read in observer.reads.values() if read.container is container and read.guarded}
    return frozenset(keys & (guarded | unseen))


def _trees(modules: Iterable[Any], others: Container[int]) -> Iterator[Any]:
    """These modules and all below them, each once, but for those of which ``others`` are the ids."""
    stack, seen = list(modules), set()
    while stack:
        module = stack.pop()
        if id(module) in seen or id(module) in others:
            continue
        seen.add(id(module))
        yield module
        stack += [child for child in module.__dict__.get("_modules", {}).values() if child is not None]


def _containers(values: Iterable[Any]) -> Iterator[Any]:
    """The dicts and lists among ``values`` and in them."""
    stack, seen = list(values), set()
    while stack:
        value = stack.pop()
        if isinstance(value, (dict, list)) and id(value) not in seen:
            seen.add(id(value))
            yield value
            stack += dict.values(value) if isinstance(value, dict) else value


def _names(cls: type) -> frozenset[str]:
    """The attributes that code of the library's may read of a module of this class."""
    ours = [base for base in cls.__mro__ if base not in _BASES and not is_users(base)]
    if not ours:
        return _OF_EACH
    names: set[str] = set()
    for base in ours:
        home = vars(sys.modules.get(base.__module__, object))
        functions = [*vars(base).values(), *(f for f in home.values() if isinstance(f, types.FunctionType))]
        for function in functions:
            names |= _mentioned(function)
    return _OF_EACH.union(names)


names_of: Callable[[type], frozenset[str]] = functools.lru_cache(4096)(_names)


def _mentioned(function: Any) -> set[str]:
    """The attributes that the code of a function reads, and its texts where it may read by those."""
    function = getattr(function, "fget", None) or inspect.unwrap(getattr(function, "__func__", function))
    code = getattr(function, "__code__", None)
    found: set[str] = set()
    stack = [] if code is None else [code]
    while stack:
        code = stack.pop()
        found.update(
            str(i.argval) for i in dis.get_instructions(code) if "ATTR" in i.opname or "METHOD" in i.opname
        )
        stack += [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
        if not _BY_NAME.isdisjoint(code.co_names):
            found.update(_texts(code.co_consts))
    return found


_BY_NAME = frozenset({"getattr", "hasattr", "attrgetter", "__dict__", "vars"})


def _texts(constants: Iterable[Any]) -> Iterator[str]:
    for constant in constants:
        if isinstance(constant, str):
            yield constant
        elif isinstance(constant, (tuple, frozenset)):
            yield from _texts(constant)
