"""Operators with things that are no tensors and know how to go with one."""

from __future__ import annotations

import operator
from fractions import Fraction

import pytest

import jtorch


class Unit:
    """A user's quantity."""

    def __init__(self, name):
        self.name = name

    def _with(self, tensor):
        return self.name, tensor.shape

    __radd__ = __rsub__ = __rmul__ = __rtruediv__ = __rpow__ = __rfloordiv__ = __rmatmul__ = __rand__ = _with

    def __rmod__(self, tensor):
        return NotImplemented


OPERATORS = (
    operator.add, operator.sub, operator.mul, operator.truediv, operator.pow, operator.floordiv,
    operator.matmul,
)  # fmt: skip


@pytest.mark.parametrize("compiled", [lambda f: f, jtorch.compile], ids=["eager", "compiled"])
def test_the_other_operand_is_asked(compiled):
    metre = Unit("m")
    for op in OPERATORS:
        assert compiled(lambda x, op=op: op(x, metre))(jtorch.ones(2)) == ("m", (2,)), op
    assert jtorch.tensor([3]) & metre == ("m", (1,))


def test_functions_ask_as_operators_do():
    assert jtorch.add(jtorch.ones(1), Unit("s")) == ("s", (1,))


def test_who_does_not_know_either_is_the_error_of_before():
    for other in (Unit("kg"), Fraction(1, 2), "text", object()):
        with pytest.raises(TypeError, match=rf"remainder\(\): argument .* not {type(other).__name__}"):
            jtorch.ones(1) % other
    with pytest.raises(TypeError, match="expected Tensors, got Tensor and object"):
        jtorch.ones(1) @ object()
