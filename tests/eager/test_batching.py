"""The evaluator of batches: that it answers for all that an evaluator does, and has a rule for each op."""

from __future__ import annotations

import logging

import numpy as np
import pytest

import jtorch
from jtorch import func
from jtorch.core.op import CONTEXT, TABLE, Evaluator, Kind
from jtorch.eager.batching.boundary import Crossing
from jtorch.eager.batching.evaluator import Batching
from jtorch.eager.batching.loop import looped
from jtorch.eager.batching.rules import RULES, composed, pointwise, rule_of
from jtorch.eager.batching.values import Batched, MappedAxis
from jtorch.ops import xp


def test_it_does_all_that_evaluators_do():
    duties = {name for name in vars(Evaluator) if not name.startswith("_")}
    made = Batching(MappedAxis(2, "error", "f"), CONTEXT.get().evaluator)
    assert not [name for name in duties if name not in vars(Batching) and name not in vars(made)]


def test_the_ops_that_are_computed_example_by_example():
    """What depends on how many elements satisfy something, or is no routine of NumPy for several at once."""
    found = {op.name for op in TABLE if rule_of(op) is looped}
    factors = {"geqrf", "ldl_factor", "ldl_solve", "reflected"}
    assert found == {"histogram_counts", "places_of_mask", "repeated_places", *factors}


def test_each_rule_is_of_an_op_that_needs_one():
    for name in RULES:
        (op,) = (op for op in TABLE if op.name == name)
        assert op.kind is not Kind.ELEMENTWISE and not op.leads
    assert rule_of(next(op for op in TABLE if op.name == "add")) is pointwise
    assert rule_of(next(op for op in TABLE if op.name == "gelu")) is composed


def test_the_log_tells_of_a_loop_once(caplog):
    edges = jtorch.linspace(-1, 1, 5)
    with caplog.at_level(logging.INFO, logger="jtorch.vmap"):
        for _ in range(2):
            found = func.vmap(lambda r: jtorch.histogram(r, edges)[0])(jtorch.zeros(3, 4))
    assert found.tolist() == [[0, 0, 4, 0]] * 3
    assert [r.getMessage() for r in caplog.records if "histogram_counts" in r.getMessage()][1:] == []


def _batched(*shape):
    axis = MappedAxis(shape[0], "error", "f")
    return Batched(np.zeros(shape), axis), Batching(axis, CONTEXT.get().evaluator)


def test_a_value_says_what_one_example_would():
    x, _ = _batched(5, 3, 4)
    assert (x.shape, x.ndim, x.size, x.dtype) == ((3, 4), 2, 12, np.float64)
    assert x.strides == (32, 8) and x.flags.c_contiguous
    turned, _ = _batched(5, 4, 3)
    assert not Batched(turned.value.transpose(0, 2, 1), turned.axis).flags.c_contiguous


@pytest.mark.parametrize("shared", ["x", "y"])
def test_a_shared_matrix_is_one_product(shared, monkeypatch):
    x, batching = _batched(7, 3, 4)
    matrix = np.ones((4, 5)) if shared == "y" else np.ones((2, 3))
    sizes = []

    def product(a, b, **statics):
        sizes.append((a.shape, b.shape))
        return (xp.dot_general if statics else xp.matmul)(a, b, **statics)

    ops = {op.name: op.index for op in TABLE}
    batching.table_below = list(batching.table_below)
    batching.table_below[ops["matmul"]] = batching.table_below[ops["dot_general"]] = product
    values = (x, matrix) if shared == "y" else (matrix, x)
    out = batching.table[ops["matmul"]](*values)
    assert out.shape == ((3, 5) if shared == "y" else (2, 4)) and len(sizes) == 1
    assert matrix.shape in sizes[0]


def test_the_sum_of_gradients_is_one_product():
    """What all examples share gets it without a gradient for each of them."""
    w = jtorch.zeros(300, 300, requires_grad=True)
    x = jtorch.ones(2000, 300)
    made = []
    before = Batched.__init__

    def noting(self, value, axis):
        made.append(value.nbytes)
        before(self, value, axis)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Batched, "__init__", noting)
        func.vmap(lambda r: w @ r)(x).sum().backward()
    assert w.grad.shape == (300, 300) and (w.grad == 2000).all()
    assert max(made) < 8 * 2000 * 300 * 2  # and not 2000 * 300 * 300 * 4


def test_inside_there_is_no_view_of_what_is_outside():
    crossing = Crossing(MappedAxis(3, "error", "f"))
    x = jtorch.ones(3, 2)
    inside = crossing.enter(x, 0)
    assert crossing.is_batched(inside) and not crossing.is_batched(x)
    with crossing.inside():
        out = inside * 2
    (left,) = crossing.leave([out], [1])
    assert left.shape == (2, 3)
