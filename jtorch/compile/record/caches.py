"""Functions that ``functools`` caches and that ran for the first time while they were recorded.

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
from jtorch.compile.record.inputs import (
    ArrayInput,
    ConstantInput,
    CounterInput,
    GradInput,
    Input,
    NumberInput,
    ScalarInput,
)
from jtorch.compile.record.sym import Sym
from jtorch.core.errors import CompileError, Restart
from jtorch.eager.tensor import Tensor


class Filled(Restart):
    """Caches were filled: record again, with what they hold."""


def fill(tracer: Any, caches: dict[int, tuple[Any, Any]]) -> bool:
    """Give the tensors of this recording that ``caches`` keep (each with the line of its call) their
    elements; whether there were any. Raises CompileError where elements are not all that they would have."""
    filled = False
    for cache, source in caches.values():
        for tensor in [t for t in _tensors_in(cache) if _is_traced(t, tracer)]:
            problem, array = _elements(tracer, tensor)
            if problem:
                cache.cache_clear()
                raise CompileError(
                    f"{source}: '{tracer.name}' calls '{cache.__name__}' for the first time, whose result "
                    f"functools caches, and {problem}, which a recording would do once for all calls: its "
                    "cache is emptied. Call it once before, outside, or compute that without a cache."
                )
            tensor.hold(array, tensor._requires_grad)
            tensor._base = tensor._how = None
            filled = True
    return filled


def _is_traced(tensor: Tensor, tracer: Any) -> bool:
    return isinstance(tensor._data, Sym) and tensor._data.tracer is tracer


def _tensors_in(cache: Any) -> Iterator[Tensor]:
    """The tensors that the results in a cache are, or hold in lists, tuples, sets, dicts and objects."""
    stack: list[Any] = [r for r in gc.get_referents(cache) if r is not cache.__wrapped__]
    seen: set[int] = set()
    while stack:
        value = stack.pop()
        if id(value) in seen or isinstance(value, (type, str, bytes, np.ndarray)):
            continue
        seen.add(id(value))
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, dict):
            stack += [*value.keys(), *value.values()]
        elif isinstance(value, (list, tuple, set, frozenset)):
            stack += value
        elif type(value).__module__.partition(".")[0] not in ("builtins", "jtorch", "functools"):
            stack += vars(value).values() if hasattr(value, "__dict__") else ()


def _elements(tracer: Any, tensor: Tensor) -> tuple[str, Any]:
    """(what stands against it, the elements that ``tensor`` has in this call)"""
    if tensor._node is not None:
        return "it has a graph", None
    atom = tracer.read(tensor._data)
    inputs = tuple(entry.var for entry in tracer.inputs)
    graph = prune(Graph(tracer.name, inputs, tuple(tracer.eqns), (atom,)), Fuel(-1))
    used = {a for eqn in graph.eqns for a in eqn.inputs}.union(graph.outputs)
    entries = [entry for entry in tracer.inputs if entry.var in used]
    if any(isinstance(entry, CounterInput) for entry in entries):
        return "it draws random numbers", None
    graph = graph.replace(inputs=tuple(entry.var for entry in entries))
    return "", interpret(graph, [_value(entry) for entry in entries])[0]


def _value(entry: Input) -> Any:
    if isinstance(entry, (ArrayInput, ConstantInput)):
        return entry.array
    if isinstance(entry, GradInput):
        return entry.tensor.grad._data
    assert isinstance(entry, (ScalarInput, NumberInput))
    return entry.value
