"""Functions and properties that ``functools`` caches, which ran for the first time while they were recorded,
since they might see what the compiled function had written (``once.py`` is about the others).

Their cache keeps what they gave then: traced tensors, of no use afterwards, where eager mode would have real
ones, computed once. So they get the elements that eager mode would have given them, and the function is
recorded once more: then the cached tensor is one from outside, as in each later call.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import numpy as np

from jtorch.compile.graph.interpret import interpret
from jtorch.compile.graph.ir import Graph
from jtorch.compile.graph.passes import Fuel, prune
from jtorch.compile.observe.effects import Kept
from jtorch.compile.observe.kinds import is_users
from jtorch.compile.observe.scalar import Scalar
from jtorch.compile.record.inputs import CounterInput, of
from jtorch.compile.record.sym import Sym
from jtorch.core.errors import CompileError, Restart
from jtorch.eager.tensor import Tensor

_BARE = ("builtins", "jtorch", "functools")  # whose objects hold nothing that was computed


class Filled(Restart):
    """Caches were filled: record again, with what they hold."""


def fill(tracer: Any, caches: dict[Any, tuple[Any, Any]], changing: set[Any]) -> bool:
    """Give the tensors of this recording that ``caches`` keep (each with the line of its call) their
    elements; whether there were any, or a property got its value. Raises CompileError where elements are not
    all that they would have, as with functions whose code is among ``changing``: what changed outside."""
    filled = False
    for cache, source in caches.values():
        values = _values_in(cache)
        filled |= isinstance(cache, Kept) and bool(values)
        traced = [v for v in _computed_in(values) if _is_traced(v, tracer)]
        if isinstance(cache, Kept) and values and not traced and _code_of(cache) in changing:
            traced = values
        for value in traced:
            problem, array = "", np.empty(0)
            if _code_of(cache) in changing:
                problem = "it changes something outside"
            elif isinstance(value, Tensor) and value._version:
                problem = "it is written in place"
            else:
                problem, array = _elements(tracer, value)
            nested = isinstance(value, Scalar) and not (isinstance(cache, Kept) and value is values[0])
            if nested:
                problem = "it holds a number that is computed from tensors or arguments"
            if problem:
                cache.cache_clear()
                raise CompileError(
                    f"{source}: '{tracer.name}' asks '{cache.__name__}' for the first time, whose result "
                    f"functools caches, and {problem}, which a recording would do once for all calls: its "
                    "cache is emptied. Call it once before, outside, or compute that without a cache."
                )
            if isinstance(value, Tensor):
                value.hold(array, value._requires_grad)
                value._base = value._how = None
            else:
                cache.facts[cache.__name__] = array.item()
            filled = True
    return filled


def _code_of(cache: Any) -> Any:
    return getattr(getattr(cache, "__wrapped__", None), "__code__", None)


def _is_traced(value: Tensor | Scalar, tracer: Any) -> bool:
    if isinstance(value, Scalar):
        return value.tracer is tracer
    return isinstance(value._data, Sym) and value._data.tracer is tracer


def _values_in(cache: Any) -> list[Any]:
    if isinstance(cache, Kept):
        return [cache.facts[cache.__name__]] if cache.__name__ in cache.facts else []
    return [r for r in gc.get_referents(cache) if r is not cache.__wrapped__]


def _computed_in(values: list[Any]) -> Iterator[Tensor | Scalar]:
    """The tensors, and numbers known at each call, that the results in a cache are, or hold in lists, tuples,
    sets, dicts and objects."""
    stack = list(values)
    seen: set[int] = set()
    while stack:
        value = stack.pop()
        if id(value) in seen or isinstance(value, (type, str, bytes, np.ndarray)):
            continue
        seen.add(id(value))
        if isinstance(value, (Tensor, Scalar)):
            yield value
        elif isinstance(value, dict):
            stack += [*value.keys(), *value.values()]
        elif isinstance(value, (list, tuple, set, frozenset)):
            stack += value
        elif is_users(cls := type(value)) or cls.__module__.partition(".")[0] not in _BARE:
            stack += vars(value).values() if hasattr(value, "__dict__") else ()


def _elements(tracer: Any, value: Tensor | Scalar) -> tuple[str, Any]:
    """(what stands against it, the elements that a tensor has in this call, or the number)"""
    if isinstance(value, Tensor) and value._node is not None:
        return "it has a graph", None
    atom = tracer.read(value._data) if isinstance(value, Tensor) else value.var
    inputs = tuple(entry.var for entry in tracer.inputs)
    graph = prune(Graph(tracer.name, inputs, tuple(tracer.eqns), (atom,)), Fuel(-1))
    used = {a for eqn in graph.eqns for a in eqn.inputs}.union(graph.outputs)
    entries = [entry for entry in tracer.inputs if entry.var in used]
    if of(CounterInput, entries):
        return "it draws random numbers", None
    graph = graph.replace(inputs=tuple(entry.var for entry in entries))
    return "", interpret(graph, [entry.now() for entry in entries])[0]
