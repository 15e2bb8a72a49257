"""The place on the tape of random numbers drawn of tensors: their gradient is zero, as in PyTorch."""

from __future__ import annotations

from typing import Any

from jtorch.core import op as op_module
from jtorch.eager.node import Node
from jtorch.eager.rebase import edge_of
from jtorch.eager.tensor import Tensor, wrap


class Drawn(Node):
    """What a draw left for backward: the shapes and dtypes of what it was given."""

    __slots__ = ()
    frees = False

    @staticmethod
    def vjp(xp: Any, g: Any, *given: tuple[tuple[int, ...], Any]) -> tuple[Any, ...]:
        return tuple(xp.full(0.0, shape=shape, dtype=dtype) for shape, dtype in given)

    def backward_on_tensors(self, xp: Any, g: Any) -> Any:
        return self.vjp(xp, g, *self.check_saved())


class NormalBackward0(Drawn):
    """Of ``normal``."""

    __slots__ = ()


class BernoulliBackward0(Drawn):
    """Of ``bernoulli``."""

    __slots__ = ()


class PoissonBackward0(Drawn):
    """Of ``poisson``."""

    __slots__ = ()


class NotImplementedBackward(Drawn):
    """Of ``binomial``, whose gradient PyTorch refuses."""

    __slots__ = ()

    @staticmethod
    def vjp(xp: Any, g: Any, *given: Any) -> Any:
        raise RuntimeError("derivative for aten::binomial is not implemented")


def drawn_of(numbers: Tensor, node: type[Drawn], *given: Any) -> Tensor:
    """``numbers`` as drawn of ``given``, of which tensors may require grad."""
    tensors = [t for t in given if isinstance(t, Tensor)]
    if not (op_module.CONTEXT.get().grad and any(t._requires_grad for t in tensors)):
        return numbers
    shapes = tuple((tuple(t._data.shape), t._data.dtype) for t in tensors)
    made = (numbers._data.shape, numbers._data.dtype)
    return wrap(numbers._data, (node(tuple(edge_of(t) for t in tensors), shapes, (), made), 0))
