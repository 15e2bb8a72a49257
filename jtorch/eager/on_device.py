"""Ops on values that lie on a device: views by their strides, the rest by kernels where somebody offers some,
and by the host and back where not.

It is reached by the class of the values alone: ``dispatching`` puts the question before what computes on the
host. What has kernels is known by ``core/higher.py``; this file works without, as slowly as copies are.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from jtorch.core import higher
from jtorch.core.device_array import UFUNCS, DeviceArray
from jtorch.core.devices import META, device
from jtorch.core.dtypes import HALVES
from jtorch.core.op import TABLE, Kind, Op
from jtorch.eager.node import GRADIENTS
from jtorch.ops import xp as host_xp

_log = logging.getLogger("jtorch.device")

MIXED = "Expected all tensors to be on the same device, but found at least two devices, {} and {}!"


class Computing:
    """``table`` is what computes each op on the host, by its index."""

    def __init__(self, table: Sequence[Callable]) -> None:
        self.table = tuple(table)  # as it is: what is noted of an op is noted once
        self._namespaces: dict[Any, _Namespace] = {}
        self._told: set[str] = set()

    def xp(self, memory: Any) -> Any:
        """The namespace of arrays in this memory."""
        if memory not in self._namespaces:
            self._namespaces[memory] = _Namespace(self, memory)
        return self._namespaces[memory]

    def op(self, op: Op, values: tuple, statics: dict[str, Any]) -> Any:
        """``op`` of values some of which lie on a device: what table entries of an evaluator give."""
        device = common_device(values, may_index=op.kind not in COMPUTE or op.scatter is not None)
        statics = with_defaults(op, statics)
        if op.aliases and op.kind is Kind.COMPOSITE:
            return op.body(self.xp(device), *values, **statics)
        if op.aliases and op.affine is not None:
            try:
                return values[0].viewed_by(op, statics)
            except ValueError:  # a reshape that must copy
                pass
        elif op.aliases:
            raise NotImplementedError(
                f"{op.name} of a tensor on {device.name}: parts of complex numbers share no memory there; "
                "take x.cpu() first"
            )
        values = tuple([_brought(v, device) for v in _with_seeds(op, values)])
        if device.name.type == "cuda" and (_halves(values) or statics.get("dtype") in HALVES):
            found = self._in_float32(op, device, values, statics)
            if found is not None:
                return found
        if op.kind is Kind.OPAQUE:
            found = device.routine(op, self.xp(device), values, statics)
            if found is not None:
                return found
        parts = None if op.kind is Kind.OPAQUE else self.xp(device)
        call = device.kernels(op.body, values, statics, parts=parts)
        if call is not None:
            found = call(values)
            if found is not NotImplemented:  # which the host is to explain
                return found
        self._tell(op.name)
        return device.uploaded(self.table[op.index](*_on_host(values), **statics))

    def _in_float32(self, op: Op, device: Any, values: tuple, statics: dict[str, Any]) -> Any:
        """An op of 16 bits, computed in float32 and rounded once, as products do by themselves; None where
        the host is to."""
        if op.kind is Kind.COMPOSITE:
            return op.body(self.xp(device), *values, **statics)
        if op.kind is Kind.OPAQUE:
            return None
        halves, asked = _halves(values), statics.get("dtype")
        if op.kind is Kind.CONTRACTION and len(halves) == 1 and _all_are(values, halves):
            return None  # kernels of a device multiply these
        if asked in HALVES:
            first = values[0].dtype if values and values[0].__class__ is DeviceArray else None
            if op.name != "cast" or not (first in HALVES or first in _ROUNDED_ONCE):
                return None
            statics = statics | {"dtype": _FLOAT32}
            if first == np.float64:
                return device.rounded(values[0], asked)
        wide = _widened(device, values, halves)
        found = wide[0] if op.name == "cast" and asked in HALVES and wide[0].dtype == _FLOAT32 else None
        found = self.op(op, wide, statics) if found is None else found
        if asked is None and len(halves) == 1 and _all_are(values, halves):
            (asked,) = halves
        rounds = asked in HALVES and found.__class__ is DeviceArray and found.dtype == _FLOAT32
        return device.rounded(found, asked) if rounds else found

    def gradient(self, node: Any, g: Any) -> Any:
        """The gradients of a node of the tape whose own gradient lies on a device."""
        if type(node) not in GRADIENTS:
            return node.backward(self.xp(common_device(_parts((g,)))), g)
        saved = tuple(node.check_saved())
        vjp = node.op.vjp_function
        values = (g, *saved)
        device = common_device(_parts(values))
        values = tuple([_brought(v, device) for v in values])
        xp = self.xp(device)
        if device.name.type == "cuda" and (_halves(values) or any(_is_half_dtype(v) for v in saved)):
            return vjp(xp, *values)
        call = device.kernels(vjp, values, {}, moves=xp, parts=xp)
        if call is not None:
            found = call(values)
            if found is not NotImplemented:
                return found
        self._tell(f"the gradient of {node.op.name}")
        return device.uploaded(vjp(host_xp, *_on_host(values)))

    def _tell(self, what: str) -> None:
        if what not in self._told:
            self._told.add(what)
            _log.info("%s is computed on the host, from copies: no kernel of a device does it", what)


def dispatching(op: Op, at_once: Callable, computing: Computing) -> Callable:
    """``at_once``, which computes ``op`` on the host, for values on a device, too. NumPy's own functions ask
    them by themselves."""
    if isinstance(at_once, np.ufunc):
        UFUNCS.setdefault(at_once, lambda operands: computing.op(op, operands, {}))
        return at_once
    if not op.arrays:
        return at_once
    statics, n = bool(op.statics), len(op.arrays)
    if n == 1 and not op.variadic:

        def of_one(x: Any, **statics: Any) -> Any:
            if x.__class__ is DeviceArray:
                return computing.op(op, (x,), statics)
            return at_once(x, **statics)

        return of_one
    if n == 2 and not op.variadic:

        def of_two(x: Any, y: Any, **statics: Any) -> Any:
            if x.__class__ is DeviceArray or y.__class__ is DeviceArray:
                return computing.op(op, (x, y), statics)
            return at_once(x, y, **statics)

        return of_two
    if n == 3 and not op.variadic and not statics:  # where, which has no machine code around it

        def of_three(x: Any, y: Any, z: Any) -> Any:
            if x.__class__ is DeviceArray or y.__class__ is DeviceArray or z.__class__ is DeviceArray:
                return computing.op(op, (x, y, z), {})
            return at_once(x, y, z)

        return of_three

    def of_many(*values: Any, **statics: Any) -> Any:
        for value in values:
            if value.__class__ is DeviceArray:
                return computing.op(op, values, statics)
        return at_once(*values, **statics)

    return of_many


_FLOAT32 = np.dtype(np.float32)
_ROUNDED_ONCE = frozenset(map(np.dtype, ("f4", "f8", "i1", "u1", "i2", "u2", "?")))


def _halves(values: Iterable[Any]) -> set[np.dtype]:
    """The dtypes of 16 bits among arrays on a device."""
    return {v.dtype for v in _parts(values) if v.__class__ is DeviceArray and v.dtype in HALVES}


def _is_half_dtype(value: Any) -> bool:
    return isinstance(value, np.dtype) and value in HALVES


def _all_are(values: Iterable[Any], dtypes: set[np.dtype]) -> bool:
    """Whether no array of floats is of another dtype."""
    arrays = [v for v in _parts(values) if v.__class__ is DeviceArray and v.dtype.kind in "fcV"]
    return all(v.dtype in dtypes for v in arrays)


def _widened(device: Any, value: Any, halves: set[np.dtype]) -> Any:
    """Arrays of 16 bits in float32, and numbers beside them rounded as they are."""
    if value.__class__ is list or value.__class__ is tuple:
        return value.__class__([_widened(device, v, halves) for v in value])
    if value.__class__ is DeviceArray:
        return device.widened(value) if value.dtype in HALVES else value
    if value.__class__ is float and len(halves) == 1:
        return float(np.asarray(value).astype(next(iter(halves))))
    return value


def _any_is(values: Iterable[Any]) -> bool:
    return any(v.__class__ is DeviceArray for v in values)


def lies_on_device(g: Any) -> bool:
    """Whether a gradient, or one of a list of them, does."""
    return g.__class__ is DeviceArray or (g.__class__ is list and _any_is(g))


def _parts(values: Iterable[Any]) -> Iterable[Any]:
    for value in values:
        if value.__class__ is list or value.__class__ is tuple:
            yield from _parts(value)
        else:
            yield value


COMPUTE = (Kind.ELEMENTWISE, Kind.COMPOSITE, Kind.CONTRACTION, Kind.REDUCTION)


def common_device(given: Iterable[Any], may_index: bool = True) -> Any:
    """What the arrays among these lie on. Raises RuntimeError where they lie on several; numbers of the host,
    0-d arrays and what they were expanded to among them, go with any, and so do indices where there may be
    some."""
    values = list(given)
    found = next(v for v in values if v.__class__ is DeviceArray)
    for value in values:
        if value.__class__ is not np.ndarray or not any(value.strides):
            continue
        if not (may_index and value.dtype.kind in "iub"):
            raise RuntimeError(MIXED.format(found.device, "cpu"))
    return found.block.memory


def _with_seeds(op: Op, values: tuple) -> tuple:
    """``values`` with what numbers a draw as arrays: a constant would have kernels for each draw."""
    if not _SEEDS.intersection(op.arrays):
        return values
    named = zip(op.arrays, values, strict=True)
    return tuple([np.asarray(v, np.uint64) if name in _SEEDS else v for name, v in named])


_SEEDS = frozenset({"seed", "call"})


def _brought(value: Any, device: Any) -> Any:
    """``value`` as kernels take it: a number of the host becomes one of the device's."""
    if value.__class__ is np.ndarray or isinstance(value, np.generic):
        return device.uploaded(np.asarray(value))
    if value.__class__ is list or value.__class__ is tuple:
        return value.__class__([_brought(v, device) for v in value])
    return value


def _on_host(value: Any) -> Any:
    if value.__class__ is DeviceArray:
        return value.concrete("a computation on the host")
    if value.__class__ is list or value.__class__ is tuple:
        return value.__class__([_on_host(v) for v in value])
    return value


def with_defaults(op: Op, statics: dict[str, Any]) -> dict[str, Any]:
    return statics if len(statics) == len(op.statics) else op.statics | statics


class _Namespace:
    """``xp`` over arrays in a ``memory``: each function runs as an op by itself. What has no array argument
    is made there."""

    def __init__(self, computing: Computing, memory: Any) -> None:
        for op in TABLE:
            if op.kind is not Kind.COMPOSITE:
                setattr(self, op.name, _function(op, computing, memory))


def _function(op: Op, computing: Computing, memory: Any) -> Callable:
    def function(*values: Any, **statics: Any) -> Any:
        if not _any_is(values):
            return memory.made(op, computing.table[op.index], values, with_defaults(op, statics))
        return computing.op(op, values, statics)

    function.__name__ = op.name
    return function


def memory_of(place: device) -> Any:
    """The memory of a device that is not the host."""
    if place == META:
        assert higher.meta is not None
        return higher.meta()
    assert higher.device is not None
    return higher.device().current()
