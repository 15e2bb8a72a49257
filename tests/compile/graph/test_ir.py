"""The IR: printing, checking, interpreting."""

from __future__ import annotations

import ast

import numpy as np
import pytest

from jtorch.compile.graph.interpret import interpret
from jtorch.compile.graph.ir import Eqn, Graph, Literal, Type, Var, check, names_of, short
from jtorch.core.errors import GraphError, Source
from jtorch.core.op import BY_NAME

F4, I8 = np.dtype(np.float32), np.dtype(np.int64)


def var(*shape, dtype=F4, hint=""):
    return Var(Type(dtype, shape), hint)


def example():
    x, w = var(2, 3, hint="x"), var(4, 3, hint="w")
    a, b, c, d = var(3, 4), var(2, 4), var(2, 4), var(2)
    where = Source("scripts/train.py", 12, "step")
    eqns = (
        Eqn(BY_NAME["permute"], (w,), {"axes": (1, 0)}, (a,), where),
        Eqn(BY_NAME["matmul"], (x, a), {}, (b,), where),
        Eqn(BY_NAME["mul"], (b, Literal(0.5, F4)), {}, (c,), where),
        Eqn(BY_NAME["sum"], (c,), {"axis": (1,), "keepdims": False}, (d,), where),
    )
    return Graph("step", (x, w), eqns, (d, c))


def test_a_graph_prints_as_python():
    text = str(example())
    ast.parse(text.replace("f32[2, 3]", "0").replace("f32[4, 3]", "0"))
    assert text.splitlines() == [
        "def step(x: f32[2, 3], w: f32[4, 3]):",
        "    a = permute(w, axes=(1, 0))            # f32[3, 4]        train.py:12 step",
        "    b = matmul(x, a)                       # f32[2, 4]        train.py:12 step",
        "    c = mul(b, 0.5)                        # f32[2, 4]        train.py:12 step",
        "    d = sum(c, axis=(1,), keepdims=False)  # f32[2]           train.py:12 step",
        "    return (d, c,)",
    ]


def test_names_are_hints_where_free_and_never_keywords():
    inputs = tuple(var(hint="x") for _ in range(3)) + tuple(var() for _ in range(30 * 26))
    names = list(names_of(Graph("g", inputs, (), ())).values())
    assert names[:4] == ["x", "x_2", "x_3", "a"]
    assert len(set(names)) == len(names)
    assert not {"as", "if", "in", "is", "or", "x"} & set(names[1:])


def test_a_sound_graph_passes():
    check(example())


def _with(graph, k, **changes):
    eqns = list(graph.eqns)
    eqns[k] = eqns[k].replace(**changes)
    return graph.replace(eqns=tuple(eqns))


FAULTS = {
    "before it is defined": lambda g: g.replace(eqns=g.eqns[1:]),
    "a second time": lambda g: g.replace(eqns=(*g.eqns, g.eqns[-1])),
    "the variable says": lambda g: _with(g, 1, outputs=(var(2, 5),)),
    "not broadcast": lambda g: _with(g, 2, inputs=(g.eqns[1].outputs[0], g.inputs[0])),
    "composite": lambda g: _with(g, 2, op=BY_NAME["softmax"], statics={"axis": (1,)}),
    "an output is not defined": lambda g: g.replace(outputs=(var(2),)),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_broken_graph_is_shown_around_the_fault(fault):
    with pytest.raises(GraphError, match=fault):
        check(FAULTS[fault](example()))


def test_the_fault_is_marked():
    with pytest.raises(GraphError) as caught:
        check(_with(example(), 2, inputs=(example().inputs[0], Literal(1.0, F4))))
    assert "uses" in str(caught.value)
    with pytest.raises(GraphError) as caught:
        graph = example()
        check(_with(graph, 3, statics={"axis": (0,), "keepdims": False}))
    marked = [line for line in str(caught.value).splitlines() if line.startswith(">")]
    assert len(marked) == 1
    assert "sum(" in marked[0]


def test_interpreting_is_numpy():
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(2, 3)).astype(F4), rng.normal(size=(4, 3)).astype(F4)
    total, half = interpret(example(), [x, w])
    np.testing.assert_array_equal(half, (x @ w.T) * np.float32(0.5))
    np.testing.assert_array_equal(total, half.sum(1))


def test_a_number_as_input_and_literals_as_outputs():
    s = var(dtype=F4)
    (out, literal) = interpret(Graph("g", (s,), (), (s, Literal(3, I8))), [2.5])
    assert (out.dtype, float(out)) == (F4, 2.5)
    assert (literal.dtype, int(literal)) == (I8, 3)


def test_types_know_their_bytes():
    assert (Type(F4, (2, 3)).size, Type(F4, (2, 3)).nbytes, Type(I8, ()).nbytes, Type(F4, (0, 3)).size) == (
        6, 24, 8, 0,
    )  # fmt: skip
    assert str(Type(np.dtype(bool), (2,))) == "bool[2]"
    assert short(np.dtype(np.uint64)) == "u64"
