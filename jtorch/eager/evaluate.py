"""The eager evaluator: values are NumPy arrays and ops run at once."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from jtorch.core.device_array import DeviceArray
from jtorch.core.dtypes import HALVES
from jtorch.core.lazy_grad import LazyGrad
from jtorch.core.narrow import FLOAT32, evaluated, narrow_ops, narrowed, rounds_in_between
from jtorch.core.op import BY_NAME, TABLE, Context, Evaluator, Kind, Op, set_default_context
from jtorch.core.strides import takes_sums
from jtorch.eager import formulas
from jtorch.eager.on_device import Computing, dispatching, lies_on_device, memory_of
from jtorch.ops import xp

_NARROW_ADD = narrowed()[BY_NAME["add"]].index


class Eager(Evaluator):
    narrows = True

    def __init__(self) -> None:
        self.xp = xp
        self._of_table = [formulas.body(op, _implementation(op)) for op in TABLE]
        self.on_host = [*self._of_table]
        self.on_host += [_at_first_call(op, self.on_host, self._narrow) for op in narrow_ops()]
        """For values that are known to lie there, which asks nothing of them."""
        self.on_device = Computing(self.on_host)
        pairs = zip(evaluated(), self.on_host, strict=True)
        self.table = [dispatching(op, at_once, self.on_device) for op, at_once in pairs]

    def _narrow(self, op: Op) -> Any:
        """What computes an op of 16 bits: NumPy, too, rounds once by itself what has no numbers beside."""
        assert op.narrows is not None
        at_once, widens = self._of_table[op.narrows.index], rounds_in_between(op.narrows)

        def computed(*values: Any, **statics: Any) -> Any:
            if not (widens or float in map(type, values) or values[-1].size >= formulas.LEAST):
                return at_once(*values, **statics)
            halves = [v.__class__ is np.ndarray and v.dtype in HALVES for v in values]
            wide = [xp.cast(v, dtype=FLOAT32) if h else v for v, h in zip(values, halves, strict=True)]
            out = at_once(*wide, **statics)
            return xp.cast(out, dtype=values[halves.index(True)].dtype) if out.dtype is FLOAT32 else out

        return formulas.body(op, computed)

    def as_value(self, value: Any) -> Any:
        return value if value.__class__ is DeviceArray else np.asarray(value)

    def move(self, value: Any, device: Any, later: bool = False) -> Any:
        if value.__class__ is DeviceArray and device.type != "meta":
            value = value.concrete("a copy to the host")
        if device.type == "cpu":
            return value
        return memory_of(device).uploaded(value, later)

    def namespace(self, value: Any) -> Any:
        return self.on_device.xp(value.block.memory) if value.__class__ is DeviceArray else self.xp

    def namespace_at(self, place: Any) -> Any:
        return self.on_device.xp(memory_of(place)) if place.type == "cuda" else self.xp

    def backward(self, node: Any, xp: Any, g: Any) -> Any:
        return self.on_device.gradient(node, g) if lies_on_device(g) else node.backward(xp, g)

    def knows(self, value: Any) -> bool:
        return value.__class__ is DeviceArray

    def write(self, tensor: Any, value: Any) -> None:
        try:
            tensor._data[...] = value
        except TypeError:
            if value.__class__ is not DeviceArray:
                raise
            tensor._data[...] = value.concrete("a copy to the host")
        except ValueError:
            from jtorch.eager.overlap import writeable

            own = writeable(tensor._data)
            if own is None:
                raise
            own[...] = value

    def concrete(self, value: Any, wanted_by: str) -> np.ndarray:
        return value.concrete(wanted_by) if value.__class__ is DeviceArray else value

    def own(self, value: np.ndarray, given: set[int]) -> np.ndarray:
        if value.base is None and id(value) not in given:
            given.add(id(value))
            return value
        if value.__class__ is DeviceArray:
            return value.block.memory.copied(value)
        return np.array(value, order="C")

    def window(self, value: np.ndarray) -> tuple[Any, int]:
        if value.__class__ is DeviceArray:
            return value.block, value.address
        return None, value.__array_interface__["data"][0]

    def scalar(self, container: Any, key: Any) -> Any:
        if key.__class__ is tuple:
            return container[key[0]][key[1]]
        return container[key]

    def get_grad(self, tensor: Any) -> Any:
        grad = tensor._grad
        return grad.resolve() if isinstance(grad, LazyGrad) else grad

    def set_grad(self, tensor: Any, grad: Any) -> None:
        before = tensor._grad
        tensor._grad = grad
        if isinstance(before, LazyGrad):
            before.forget()

    def add_to_grad(self, before: Any, g: np.ndarray) -> Any:
        """``before`` + ``g`` in the memory of ``before``, as PyTorch adds: whoever kept it sees the sum."""
        data = before._data
        if g.dtype is not data.dtype or g.shape != data.shape or not takes_sums(data):
            return None
        if data.__class__ is DeviceArray:
            data[...] = data + g
        elif data.dtype in HALVES and g.__class__ is np.ndarray:  # rows of a table add themselves
            data[...] = self.on_host[_NARROW_ADD](data, g)
        else:
            np.add(data, g, data)
        before._cell[0] += 1
        return before

    def next_call(self, generator: Any) -> tuple[int, int]:
        return generator.next_call()


def _at_first_call(op: Op, table: list[Any], make: Callable[[Op], Any]) -> Any:
    """What ``make`` gives for ``op``, made when it is called, as few programs do; ``table`` gets it then, but
    where somebody watches the calls."""

    @functools.cache
    def made() -> Any:
        return make(op)

    def first(*values: Any, **statics: Any) -> Any:
        if table[op.index] is first:
            table[op.index] = made()
        return made()(*values, **statics)

    return first


def _implementation(op: Op) -> Any:
    """What computes ``op`` on arrays: NumPy's own function where the body is only its name."""
    if op.renames:
        return getattr(xp, op.renames)
    if op.kind is Kind.COMPOSITE:
        return functools.partial(op.body, xp)
    return getattr(xp, op.name)


EAGER = Eager()
EAGER.skips_table = True  # those that are made of it look at the calls
set_default_context(Context(EAGER))
