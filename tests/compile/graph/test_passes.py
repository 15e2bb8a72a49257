"""The passes, one by one, and the rows of ``rules.py``: exact, and blind to the size of a batch."""

from __future__ import annotations

import numpy as np
import pytest

import jtorch
import jtorch.nn.functional as F
from jtorch.compile.graph import finalise as finalise_module
from jtorch.compile.graph.finalise import finalise
from jtorch.compile.graph.interpret import interpret
from jtorch.compile.graph.ir import Eqn, Graph, Literal, Type, Var, check
from jtorch.compile.graph.passes import PASSES, Fuel, fold, optimise, prune, share, simplify
from jtorch.compile.graph.rules import RULES
from jtorch.core.op import BY_NAME
from tests.compile.chain import arguments_of, optimised, trace

F4, I8 = np.dtype(np.float32), np.dtype(np.int64)


def floats(*shape):
    return jtorch.from_numpy(np.random.default_rng(0).normal(size=shape).astype(np.float32))


def graph_of(function, *leaves):
    with jtorch.no_grad():
        return trace(function, leaves).graph


def ops(graph):
    return [e.op.name for e in graph.eqns]


def test_prune_drops_what_nothing_needs():
    graph = graph_of(lambda x: (x * 2.0, x.exp().sum())[0], floats(3))
    assert ops(prune(graph, Fuel(-1))) == ["mul"]


def test_share_finds_equal_equations():
    def program(x):
        return x.exp() * 2.0 + x.exp() * 2.0, (x * x[0]).sum() - (x[0] * x).sum()

    graph = prune(share(graph_of(program, floats(3)), Fuel(-1)), Fuel(-1))
    assert ops(graph).count("exp") == 1
    assert ops(graph).count("sum") == 1


def test_share_tells_zeros_of_either_sign_apart():
    x = Var(Type(F4, (2,)))
    outs = [Var(Type(F4, (2,))) for _ in range(2)]
    eqns = tuple(
        Eqn(BY_NAME["mul"], (x, Literal(z, F4)), {}, (o,)) for z, o in zip((0.0, -0.0), outs, strict=True)
    )
    assert len(share(Graph("g", (x,), eqns, tuple(outs)), Fuel(-1)).eqns) == 2


def test_fold_computes_what_is_known():
    graph = optimised(graph_of(lambda x: x * (jtorch.ones(3) * 2.0 + 1.0), floats(3)))
    (eqn,) = graph.eqns
    assert eqn.op.name == "mul"
    assert eqn.inputs[1].value == 3.0


def test_fold_keeps_float32():
    graph = optimised(graph_of(lambda x: x * (jtorch.full((3,), 0.1) + 0.2), floats(3)))
    assert graph.eqns[0].inputs[1].value == np.float32(0.1) + np.float32(0.2)


SIMPLER = {
    "times one": (lambda x: x * jtorch.ones(3, 4), []),
    "over one": (lambda x: x / jtorch.ones(3, 4), []),
    "minus minus": (lambda x: x.neg().neg(), []),
    "cast to its own": (lambda x: (x + 0.0).to(jtorch.float32), ["add"]),
    "clones": (lambda x: x.clone().clone() * 2.0, ["mul"]),
    "transposed twice": (lambda x: x.t().t() * 2.0, ["mul"]),
    "three permutations": (lambda x: x.unsqueeze(2).permute(2, 0, 1).permute(1, 2, 0), ["unsqueeze"]),
    "reshaped twice": (lambda x: x.reshape(12).reshape(2, 6) * 2.0, ["reshape", "mul"]),
    "squeezed again": (lambda x: x.unsqueeze(1).squeeze(1) * 2.0, ["mul"]),
    "squared": (lambda x: x**2, ["mul"]),
    "views of a number": (lambda x: x * jtorch.full((4, 3), 2.0).t().reshape(3, 4), ["mul"]),
    "kept axis": (lambda x: (x.sum(1, keepdim=True) * 2.0).exp(), ["sum", "mul", "exp", "unsqueeze"]),
}


@pytest.mark.parametrize("name", SIMPLER)
def test_rules(name):
    function, expected = SIMPLER[name]
    x = floats(3, 4)
    made = trace(lambda t: jtorch.floor(function(t)), [x])
    graph = optimised(made.graph)
    before, after = (interpret(g, arguments_of(made)) for g in (made.graph, graph))
    np.testing.assert_array_equal(after[0], before[0])
    assert [n for n in ops(graph) if n != "floor"] == expected


EXACT = {
    "abs of abs": lambda x: x.abs().abs(),
    "over and over": lambda x: x.reciprocal().reciprocal(),
    "abs of minus": lambda x: x.neg().abs(),
    "log of exp": lambda x: x.exp().log(),
    "added and taken away": lambda x: (x + 3) - 3,
    "halved and doubled": lambda x: (x * 0.5) * 2.0,
    **{name: function for name, (function, _) in SIMPLER.items()},
}


@pytest.mark.parametrize("dtype", ["float32", "float64", "uint8", "int8", "int32", "int64"])
@pytest.mark.parametrize("name", EXACT)
def test_no_rule_changes_a_bit(name, dtype):
    """Of ordinary numbers and of the ends of each dtype: what looks simpler must not be something else."""
    rng = np.random.default_rng(3)
    if dtype.startswith("float"):
        values = rng.normal(scale=30.0, size=(3, 4)).astype(dtype)
        values[0] = np.nan, np.inf, -0.0, np.finfo(dtype).tiny / 8
    else:
        ends = np.iinfo(dtype)
        values = rng.integers(ends.min, ends.max, (3, 4), dtype, endpoint=True)
        values[0] = ends.min, ends.max, 0, 1
    with jtorch.no_grad(), np.errstate(all="ignore"):
        made = trace(EXACT[name], [jtorch.from_numpy(values)])
        arguments = arguments_of(made)
        before, after = (interpret(g, arguments) for g in (made.graph, optimised(made.graph)))
    assert [(a.dtype, a.tobytes()) for a in before] == [(a.dtype, a.tobytes()) for a in after]


def test_no_rule_changes_a_zero_or_a_nan():
    x = jtorch.tensor([0.0, -0.0, float("nan"), float("inf"), -1.0])
    ones = jtorch.ones(5)

    def program(x):
        return [x * ones, ones * x, x / ones, x.neg().neg(), x + 0.0, x - 0.0, x * 0.0, x**2]

    made = trace(program, [x])
    arguments = arguments_of(made)
    for a, b in zip(
        interpret(made.graph, arguments), interpret(optimised(made.graph), arguments), strict=True
    ):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(np.signbit(a), np.signbit(b))


def test_a_number_that_follows_from_a_size_makes_no_other_graph():
    """1/n is 1.0 for a batch of one: the multiplication stays."""
    graphs = [optimised(graph_of(lambda x: (x**2).mean(0).sum(), floats(n, 4))) for n in (8, 1)]
    assert ops(graphs[0]) == ops(graphs[1])


@pytest.mark.parametrize("run", PASSES, ids=lambda p: p.__name__)
def test_a_pass_without_fuel_changes_nothing_but_dead_code(run):
    graph = graph_of(lambda x: x.neg().neg() * jtorch.ones(3, 4) + x.clone(), floats(3, 4))
    assert len(run(graph, Fuel(0)).eqns) == len(graph.eqns)


@pytest.mark.parametrize("run", (fold, simplify, share, prune), ids=lambda p: p.__name__)
def test_a_pass_is_pure_and_keeps_inputs_and_outputs(run):
    graph = graph_of(lambda x: F.layer_norm(x, 4) * 1.0 + x.clone(), floats(3, 4))
    text = str(graph)
    result = run(graph, Fuel(-1))
    check(result)
    assert str(graph) == text
    assert result.inputs == graph.inputs
    assert [o.type for o in result.outputs] == [o.type for o in graph.outputs]


def test_a_broken_pass_is_found_with_check(monkeypatch):
    from jtorch.compile.graph import passes
    from jtorch.core.errors import GraphError

    def lose_an_equation(graph, fuel):
        return graph.replace(eqns=graph.eqns[1:])

    monkeypatch.setenv("JTORCH_CHECK", "1")
    monkeypatch.setattr(passes, "PASSES", (lose_an_equation,))
    with pytest.raises(GraphError, match="before it is defined"):
        optimise(graph_of(lambda x: (x * 2.0).exp(), floats(3)), Fuel(-1))


def test_every_rule_names_an_op():
    assert {name for name, _ in RULES} <= BY_NAME.keys()


# -- finalise ----------------------------------------------------------------------------------------------


def test_outputs_get_memory_of_their_own():
    graph = finalise(optimised(graph_of(lambda x: (x, x, x.t(), jtorch.zeros(2)), floats(2, 3))))
    check(graph)
    assert len(set(graph.outputs)) == len(graph.outputs)
    assert not set(graph.outputs) & set(graph.inputs)


@pytest.mark.parametrize("rows", [5, 1])
def test_a_reshape_out_of_order_copies_first_whatever_the_batch(rows):
    graph = finalise(
        optimised(graph_of(lambda x: x.permute(1, 0, 2).reshape(-1, 4) * 2.0, floats(rows, 3, 4)))
    )
    assert ops(graph) == ["permute", "clone", "reshape", "mul"]


def test_a_transpose_becomes_a_flag_of_the_product():
    graph = finalise(optimised(graph_of(lambda x, w: x @ w.t(), floats(2, 3), floats(4, 3))))
    assert ops(graph) == ["permute", "matmul"]


@pytest.mark.parametrize(
    ("uses", "rows", "dtype", "clones"),
    [
        (11, 9, "f4", 0), (12, 9, "f4", 1), (30, 64, "f8", 1), (30, 65, "f4", 0), (30, 7, "f4", 0),
        (30, 9, "i8", 0),
    ],
)  # fmt: skip
def test_a_weight_of_many_short_products_is_turned_once(uses, rows, dtype, clones):
    def across(x, w):
        return plain(x, w.t())

    def plain(x, w):
        for _ in range(uses):
            x = x @ w
        return x

    leaves = [jtorch.from_numpy(np.ones(shape, dtype)) for shape in ((rows, 3), (3, 3))]
    for function, expected in ((across, clones), (plain, 0)):
        graph = finalise(optimised(graph_of(function, *leaves)))
        check(graph)
        assert ops(graph).count("clone") == expected
        products = [eqn for eqn in graph.eqns if eqn.op.name == "matmul"]
        assert len({eqn.inputs[1] for eqn in products}) == 1 and len(products) == uses


def test_a_large_weight_is_not_turned(monkeypatch):
    def repeated(x, w):
        for _ in range(12):
            x = x @ w.t()
        return x

    monkeypatch.setattr(finalise_module, "_LARGEST", 35)
    graph = finalise(optimised(graph_of(repeated, floats(9, 3), floats(3, 3))))
    assert ops(graph) == ["permute", *["matmul"] * 12]


def test_a_product_of_repeated_rows_copies_nothing():
    graph = finalise(optimised(graph_of(lambda x, w: x[:1].expand(2, 3) @ w, floats(2, 3), floats(3, 4))))
    assert "clone" not in ops(graph)


def test_a_convolution_copies_no_windows():
    weight = floats(4, 3, 3, 3)
    graph = finalise(optimised(graph_of(lambda x: jtorch.conv2d(x, weight), floats(2, 3, 6, 6))))
    assert "clone" not in ops(graph)[:-1]  # the last one puts the result in order


@pytest.mark.parametrize("batch", [7, 5])
@pytest.mark.parametrize("swapped", [False, True])
def test_matrices_without_elements_are_as_many_as_one_likes(batch, swapped):
    """A reshape of them may make another number of them, which is no merging of batches."""

    def program(x, y):
        x = x.reshape(batch, 4, 0)
        if swapped:
            return x.transpose(1, 2) @ y.reshape(batch, 4, 0)
        return x @ y.reshape(batch, 0, 5)

    leaves = floats(2, 3, 4, 0), floats(2, 3, 4, 0) if swapped else floats(2, 3, 0, 5)
    assert jtorch.equal(jtorch.compile(program)(*leaves), program(*leaves))


@pytest.mark.parametrize("shape", [(24,), (6, 4), (2, 3, 4)])
def test_batches_of_a_product_may_come_from_anything(shape):
    def program(x, y):
        return x.reshape(2, 3, 4) @ y.reshape(2, 4, 3)

    leaves = floats(*shape), floats(2, 2, 2, 3)
    assert jtorch.allclose(jtorch.compile(program)(*leaves), program(*leaves))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [jtorch.float32, jtorch.float64, jtorch.int64, jtorch.int32, jtorch.uint8])
@pytest.mark.parametrize("shape", [(7,), (1,), (5, 3), (3, 1), (4, 5, 6)])
def test_the_place_of_an_extreme_is_the_first_one(shape, dtype):
    """Of equal elements, also 0.0 and -0.0, and of NaNs; along each axis and among all elements."""
    rng = np.random.default_rng(0)
    array = rng.integers(0, 3, shape) * (rng.integers(0, 2, shape) * 2 - 1 if dtype != jtorch.uint8 else 1)
    plain = jtorch.from_numpy(np.array(array, np.float64) * -1.0 if dtype.is_floating_point else array).to(
        dtype
    )
    given = [plain]
    if dtype.is_floating_point:
        holes = plain.clone()
        holes[jtorch.from_numpy(rng.random(shape) < 0.3)] = float("nan")
        given += [holes, jtorch.full(shape, float("nan"), dtype=dtype), -jtorch.zeros(shape, dtype=dtype)]
        given += [
            jtorch.full(shape, float("-inf"), dtype=dtype),
            jtorch.full(shape, float("inf"), dtype=dtype),
        ]

    def places(x):
        axes = range(x.ndim)
        return [
            x.argmax(),
            x.argmin(),
            *(f(k, keep) for k in axes for f in (x.argmax, x.argmin) for keep in (False, True)),
        ]

    for dynamic in (False, True):
        compiled = jtorch.compile(places, dynamic=dynamic, fullgraph=True)
        for x in given:
            for found, expected in zip(compiled(x), places(x), strict=True):
                assert found.dtype == expected.dtype and found.tolist() == expected.tolist()


def test_no_loop_carries_the_place_of_a_float_along():
    compiled = jtorch.compile(lambda x: x.max(1), fullgraph=True)
    x = jtorch.randn(6, 9)
    compiled(x)
    graph = str(compiled.plan(x)) + compiled.source(x)
    assert "argmax" not in graph and "where(" in graph
