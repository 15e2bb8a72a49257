"""The eager evaluator: values are NumPy arrays and ops run at once."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from jtorch.core.lazy_grad import LazyGrad
from jtorch.core.op import TABLE, Context, Evaluator, Kind, Op, set_default_context
from jtorch.core.strides import takes_sums
from jtorch.eager import formulas
from jtorch.ops import xp


class Eager(Evaluator):
    def __init__(self) -> None:
        self.xp = xp
        self.table = [formulas.body(op, _implementation(op)) for op in TABLE]

    def as_value(self, value: Any) -> np.ndarray:
        return np.asarray(value)

    def write(self, tensor: Any, value: Any) -> None:
        try:
            tensor._data[...] = value
        except ValueError:
            from jtorch.eager.overlap import writeable

            own = writeable(tensor._data)
            if own is None:
                raise
            own[...] = value

    def concrete(self, value: np.ndarray, wanted_by: str) -> np.ndarray:
        return value

    def own(self, value: np.ndarray, given: set[int]) -> np.ndarray:
        if value.base is None and id(value) not in given:
            given.add(id(value))
            return value
        return np.array(value, order="C")

    def window(self, value: np.ndarray) -> tuple[Any, int]:
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
        if g.dtype is not data.dtype or not takes_sums(data):
            return None
        np.add(data, g, data)
        before._cell[0] += 1
        return before

    def next_call(self, generator: Any) -> tuple[int, int]:
        return generator.next_call()


def _implementation(op: Op) -> Any:
    """What computes ``op`` on arrays: NumPy's own function where the body is only its name."""
    if op.renames:
        return getattr(xp, op.renames)
    if op.kind is Kind.COMPOSITE:
        return functools.partial(op.body, xp)
    return getattr(xp, op.name)


EAGER = Eager()
set_default_context(Context(EAGER))
