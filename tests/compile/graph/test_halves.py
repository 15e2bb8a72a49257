"""The passes that compute floats of 16 bits in float32, and that leave products to a library that does."""

from __future__ import annotations

import numpy as np
import pytest

from jtorch.compile.graph.halves import Multiplies, has_halves, narrowed, widened
from jtorch.compile.graph.ir import Eqn, Graph, Literal, Type, Var, check
from jtorch.core.dtypes import HALVES
from jtorch.core.errors import GraphError, Source
from jtorch.core.op import BY_NAME

FLOAT32 = np.dtype(np.float32)


@pytest.mark.parametrize("half", sorted(HALVES, key=str), ids=str)
@pytest.mark.parametrize("of", ["variable", "literal"])
@pytest.mark.parametrize("to", ["half", "float32", "int64"])
def test_a_number_that_is_repeated(half, of, to):
    dtype = half if to == "half" else np.dtype(to)
    number = Var(Type(half, ())) if of == "variable" else Literal(half.type(1.5), half, False)
    eqn = Eqn(
        BY_NAME["full"],
        (number,),
        {"shape": (3,), "dtype": dtype},
        (Var(Type(dtype, (3,))),),
        Source("", 1, "f"),
    )
    left, turns = [eqn], 0
    while left:
        found = widened(left.pop(), None)
        left += [e for e in found or () if has_halves(e)]
        turns += 1
        assert turns < 10


def product(*eqns, inputs, outputs):
    return narrowed(Graph("f", inputs, eqns, outputs), Multiplies.ALL)


def eqn(name, inputs, dtype, shape=(3, 3)):
    statics = {"dtype": dtype} if name == "cast" else {}
    return Eqn(BY_NAME[name], inputs, statics, (Var(Type(dtype, shape)),), Source("", 1, "f"))


@pytest.mark.parametrize("half", sorted(HALVES, key=str), ids=str)
def test_casts_around_products_are_left_out(half):
    a, b = (Var(Type(half, (3, 3))) for _ in range(2))
    d, e = (eqn("cast", (x,), FLOAT32) for x in (a, b))
    f = eqn("matmul", (*d.outputs, *e.outputs), FLOAT32)
    c = eqn("cast", f.outputs, half)
    (found,) = product(d, e, f, c, inputs=(a, b), outputs=c.outputs).eqns
    assert (found.op.name, found.inputs, found.outputs) == ("matmul", (a, b), c.outputs)
    (found,) = product(d, e, f, inputs=(a, b), outputs=f.outputs).eqns  # in float32, for who reads that
    assert (found.inputs, found.outputs) == ((a, b), f.outputs)
    names = [e.op.name for e in product(d, e, f, c, inputs=(a, b), outputs=(*c.outputs, *f.outputs)).eqns]
    assert names == ["matmul", "cast"]


@pytest.mark.parametrize("half", sorted(HALVES, key=str), ids=str)
@pytest.mark.parametrize("by", Multiplies, ids=lambda by: by.name)
def test_what_products_give_obeys_the_rules_of_graphs(half, by):
    a, b = (Var(Type(half, (3, 3))) for _ in range(2))
    d, e = (eqn("cast", (x,), FLOAT32) for x in (a, b))
    f = eqn("matmul", (*d.outputs, *e.outputs), FLOAT32)
    check(narrowed(Graph("f", (a, b), (d, e, f), f.outputs), by))
    other = next(iter(HALVES - {half}))
    for inputs, dtype in (((a, b), other), ((a, b), np.dtype(np.float64)), ((a, *e.outputs), FLOAT32)):
        with pytest.raises(GraphError, match="matmul"):
            check(Graph("f", (a, b), (e, g := eqn("matmul", inputs, dtype)), g.outputs))


def test_casts_of_two_dtypes_stay():
    (a, b), other = (Var(Type(half, (3, 3))) for half in HALVES), Var(Type(FLOAT32, (3, 3)))
    d, e = (eqn("cast", (x,), FLOAT32) for x in (a, b))
    mixed = eqn("matmul", (*d.outputs, *e.outputs), FLOAT32)
    assert len(product(d, e, mixed, inputs=(a, b), outputs=mixed.outputs).eqns) == 3
    beside = eqn("matmul", (*d.outputs, other), FLOAT32)
    assert len(product(d, beside, inputs=(a, other), outputs=beside.outputs).eqns) == 2
