"""Names for what a function holds: ``model.0.weight`` for a captured tensor, ``x`` for an argument.

A walk from the function's closure, globals, bound object and arguments to the modules, optimizers and
tensors that hang there. Names serve messages alone; what is compiled does not depend on them.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import types
from collections.abc import Callable, Iterator
from typing import Any

from jtorch.compile.observe.guards import in_words, instance_facts
from jtorch.compile.record.tree import Shared
from jtorch.eager.tensor import Tensor
from jtorch.nn.module import Module
from jtorch.optim.optimizer import Optimizer

_DEPTH = 4  # objects that hold objects
_WIDTH = 100  # items of a list or dict that are looked at


class Named:
    """What was found: name -> module, optimizer or tensor, each object under its first name."""

    def __init__(self) -> None:
        self.modules: dict[str, Module] = {}
        self.optimizers: dict[str, Optimizer] = {}
        self.tensors: dict[str, Tensor] = {}
        self._seen: set[int] = set()
        self._keep: list[Any] = []

    def name_of_array(self, array: Any) -> str | None:
        """The name of the tensor whose memory ``array`` is."""
        return next((name for name, t in self.tensors.items() if t._data is array), None)

    def name_of(self, tensor: Any) -> str | None:
        return next((name for name, t in self.tensors.items() if t is tensor), None)

    def visit(self, name: str, value: Any, depth: int = 0) -> None:
        """Look at ``value``, which the program calls ``name``."""
        if depth > _DEPTH or id(value) in self._seen or isinstance(value, (str, bytes, int, float, type)):
            return
        self._seen.add(id(value))
        self._keep.append(value)
        if isinstance(value, Tensor):
            self.tensors[name] = value
        elif isinstance(value, Module):
            self._visit_module(name, value)
        elif isinstance(value, Optimizer):
            self.optimizers[name] = value
        else:
            for part, inner in _parts(name, value):
                self.visit(part, inner, depth + 1)

    def _visit_module(self, name: str, module: Module) -> None:
        for path, part in module.named_modules():
            full = f"{name}.{path}" if path else name
            self.modules[full] = part
            self._seen.add(id(part))
            for key, value in dict.copy(vars(part)).items():
                if isinstance(value, (Tensor, Optimizer, types.FunctionType)):
                    self.visit(f"{full}.{key}", value, 1)
        for path, tensor in (*module.named_parameters(), *module.named_buffers()):
            self.visit(f"{name}.{path}", tensor)

    def finish(self) -> Named:
        """Name the state of optimizers, when the parameters have their names."""
        for name, optimizer in self.optimizers.items():
            for k, (param, state) in enumerate(list(optimizer.state.items())):
                of = self.name_of(param) or str(k)
                for key, value in state.items():
                    if isinstance(value, Tensor):
                        self.tensors.setdefault(f"{name}.state[{of}].{key}", value)
            for k, group in enumerate(optimizer.param_groups):
                for n, param in enumerate(group["params"]):
                    self.visit(f"{name}.param_groups[{k}]['params'][{n}]", param)
        return self


def named_by(function: Callable, arguments: dict[str, Any] | None = None) -> Named:
    """Everything that ``function`` and its ``arguments`` (label -> value) lead to, by name."""
    found = Named()
    for label, value in (arguments or {}).items():
        found.visit(label, value)
    found.visit(getattr(function, "__name__", type(function).__name__), function)
    return found.finish()


def _parts(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """What hangs on an object that is neither tensor, module nor optimizer."""
    if isinstance(value, types.MethodType):
        yield "self", value.__self__
        yield name, value.__func__
    elif isinstance(value, functools.partial):
        yield name, value.func
        yield from ((f"{name}[{k}]", v) for k, v in enumerate(value.args))
        yield from value.keywords.items()
    elif isinstance(value, types.FunctionType):
        if not (value.__module__ or "").startswith("jtorch."):
            yield from _outside(value)
    elif isinstance(value, (list, tuple)):
        plain: Any = list if isinstance(value, list) else tuple  # a subclass may give anything
        first = plain.__getitem__(value, slice(_WIDTH))
        yield from ((f"{name}[{k}]", v) for k, v in enumerate(first))
    elif isinstance(value, dict):
        yield from ((f"{name}[{in_words(k)}]", v) for k, v in _first(value))
    elif not isinstance(value, types.ModuleType):
        facts = instance_facts(value) or {}
        yield from ((f"{name}.{k}", v) for k, v in _first(facts))


def _first(held: dict) -> Iterator[tuple[Any, Any]]:
    """The first entries of a copy: a finalizer or another thread may take some out meanwhile."""
    return itertools.islice(dict.copy(held).items(), _WIDTH)


def _outside(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # an empty cell
            continue
    for name in _global_names(function.__code__):
        if name in function.__globals__:
            yield name, function.__globals__[name]


def _global_names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _global_names(constant)


def labels_of(structure: Any, function: Callable) -> list[str]:
    """What to call each leaf of flattened ``(args, kwargs)``: ``x``, ``batch['images']``, ``pair[0]``."""
    (_, _, (args, kwargs)) = structure
    parameters = _parameters(function)
    labels: list[str] = []
    for k, part in enumerate(args[2]):
        labels += _labels(parameters[k] if k < len(parameters) else f"args[{k}]", part)
    for name, part in zip(kwargs[1], kwargs[2], strict=True):
        labels += _labels(name, part)
    return labels


def _parameters(function: Callable) -> list[str]:
    try:
        found = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    return [p.name for p in found if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]


def _labels(name: str, structure: Any) -> Iterator[str]:
    if structure == "*":
        yield name
        return
    if isinstance(structure, Shared):  # its leaves have names already
        return
    cls, keys, parts = structure
    for k, part in enumerate(parts):
        if keys is None:
            inner = f"{name}[{k}]"
        elif issubclass(cls, dict):
            inner = f"{name}[{in_words(keys[k])}]"
        else:
            inner = f"{name}.{keys[k]}"
        yield from _labels(inner, part)
