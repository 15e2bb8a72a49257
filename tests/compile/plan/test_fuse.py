"""What may and what should share a kernel, and that no decision asks for a size."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import jtorch
import jtorch.nn.functional as F
from jtorch.compile.graph.finalise import finalise
from jtorch.compile.graph.ir import Graph, Var
from jtorch.compile.graph.passes import Fuel
from jtorch.compile.graph.reads import Reader
from jtorch.compile.plan.fuse import MAX_VIEWS, Fused, fuse
from tests.compile.chain import assert_chain, optimised, trace
from tests.compile.programs import Program, programs


def floats(*shape, seed=0):
    return jtorch.from_numpy(np.random.default_rng(seed).normal(size=shape).astype(np.float32))


def graph_of(function, *leaves) -> Graph:
    with jtorch.no_grad():
        return finalise(optimised(trace(function, leaves).graph))


def fused_of(function, *leaves) -> Fused:
    return fuse(graph_of(function, *leaves), Fuel(-1))


def shape_of(fused: Fused) -> list[str]:
    """Each step in a word: its style, or its kind where it is no loop."""
    return [s.group.style if s.group else s.kind for s in fused.steps]


X = floats(4, 6)

ONE_KERNEL = {
    "elementwise chain": (lambda x: (x * 2.0 + 1.0).tanh() * x, "map"),
    "broadcast": (lambda x: x + x[0] * x[:, :1], "map"),
    "softmax": (lambda x: F.softmax(x, -1), "row"),
    "log_softmax": (lambda x: F.log_softmax(x, -1), "row"),
    "layer_norm": (lambda x: F.layer_norm(x, 6), "row"),
    "variance": (lambda x: x.var(1), "row"),
    "two reductions of one row": (lambda x: x.sum(1) * x.amax(1), "row"),
    "a loss": (lambda x: ((x - 1.0) ** 2).mean(), "row"),
    "column sum with prologue": (lambda x: (x * x).sum(0), "column"),
    "column sums with epilogue": (lambda x: ((x * x).sum(0) + 1.0).sqrt(), "column"),
    "two outputs of one array": (lambda x: (x * 2.0, x + 1.0), "map"),
}


@pytest.mark.parametrize("name", ONE_KERNEL)
def test_one_kernel(name):
    function, style = ONE_KERNEL[name]
    fused = fused_of(function, X)
    loops = [s for s in fused.steps if s.eqns and s.group and len(s.eqns) > 0]
    numbers = [s for s in loops if not s.group.domain]
    assert [s.group.style for s in loops if s not in numbers] == [style], shape_of(fused)


def test_pooling_and_its_gradient_are_one_kernel():
    image = floats(1, 2, 8, 8).requires_grad_()
    made = trace(lambda x: jtorch.autograd.grad((F.max_pool2d(x, 2) ** 2).sum(), x), (image,))
    assert shape_of(fuse(finalise(optimised(made.graph)), Fuel(-1))) == ["map"]


def test_a_matrix_product_stands_alone():
    assert shape_of(fused_of(lambda x: (x.t() @ x).relu() + 1.0, X)) == ["gemm", "map"]


# -- what must not be fused: each of these was wrong, or would be ------------------------------------------

SEPARATE = {
    "columns used over the domain": lambda x: F.softmax(x, 0),
    "columns centred": lambda x: (x - x.mean(0)) ** 2,
    "column sum of what a column sum made": lambda x: ((x - x.amax(0)).exp()).sum(0),
    "a value read at another place": lambda x: (lambda y: y + y.flip(0))(x * 2.0),
    "a value read transposed": lambda x: (lambda y: y[:4, :4] + y[:4, :4].t())(x * 2.0),
    "a value read through a reshape": lambda x: (lambda y: y.reshape(6, 4).t() + y)(x * 2.0),
    "one row's sum used by all": lambda x: (lambda s: x * s[3])(x.sum(1)),
    "one row's sum, through a number": lambda x: (lambda s: x * (s[3] * 2.0 + s[0]))(x.sum(1)),
    "a sum through a reshape to a number": lambda x: (lambda s: x * s.reshape(2, 2)[1, 1])(x.sum(1)),
    "a gather of what was just computed": lambda x: (x * 2.0)[jtorch.tensor([3, 0, 0, 1])] + x,
    "a number of a gather's source": lambda x: (lambda y: y[jtorch.tensor([3, 0])] * y[1, 1])(x * 2.0),
    "concatenation of what was just computed": lambda x: jtorch.cat((x * 2.0, x + 1.0)),
    "numbers stacked": lambda x: jtorch.stack((x.sum(), x.amax(), x[0, 0] * 2.0)),
    "a stack that comes back": lambda x: (lambda s: x * jtorch.stack((s, s * 2.0))[1])(x.sum()),
    "argmax as an index": lambda x: x[x.argmax(0)] + x.amax(),
    "a cycle through another kernel": lambda x: (lambda y: y.sum(0) @ y.t() + y.sum(1))(x.tanh()),
    "rows and columns": lambda x: (lambda y: y - y.mean(1, keepdim=True) - y.mean(0))(x * x),
}


@pytest.mark.parametrize("name", SEPARATE)
def test_what_looks_fusible_but_is_not(name):
    with jtorch.no_grad():
        assert_chain(SEPARATE[name], [X], exact=False)


def test_a_scatter_does_not_swallow_what_others_need():
    """The embedding's gradient beside the direct one: a scatter kernel stores nothing but its sums."""

    def program(x):
        s = x[jtorch.tensor([0, 0, 2])] + x[:3]
        loss = jtorch.tanh(s @ s.t()).sum()
        loss.backward()
        return loss.detach().clone()

    x = floats(4, 6)
    assert_chain(program, [x.requires_grad_(True)], exact=False)


def test_numbers_are_seen_through_without_looking_twice():
    """A diamond of numbers 40 levels deep has 2**40 paths."""

    def program(x):
        s = x.sum()
        for _ in range(40):
            s = s * 0.5 + s * 0.25
        return x * s

    start = time.perf_counter()
    fused_of(program, X)
    assert time.perf_counter() - start < 2.0


def test_a_group_keeps_within_the_arguments_of_a_kernel():
    def program(*xs):
        total = xs[0]
        for x in xs[1:]:
            total = total + x
        return total

    leaves = [floats(3, seed=k) for k in range(60)]
    fused = fused_of(program, *leaves)
    reader = Reader(fused.graph)
    assert 3 <= len(fused.steps) <= 6
    for step in fused.steps:
        own = {v for e in step.eqns for v in e.outputs}
        assert len({v for e in step.eqns for v in reader.memory_of(e)} - own) <= 24


def test_parts_of_one_array_are_arguments_of_a_kernel_too():
    """Each has an address of its own, which the innermost loop must hold."""
    x = floats(4, 120)
    fused = fused_of(lambda x: sum(x[:, k : k + 60] * 0.5 for k in range(60)), x)
    groups = [step.group for step in fused.steps if step.group]
    assert len(groups) == 2 and {tuple(g.domain) for g in groups} == {(4, 60)}
    assert all(len(g.views - g.made) <= MAX_VIEWS for g in groups)


@pytest.mark.parametrize("k", [3, 5, 7])
def test_a_channel_convolved_alone_is_few_equations_a_tap(k):
    """Forward two parts, a repetition, a product and a sum; for the weight's gradient a product and a sum."""
    x, weight, g = floats(2, 8, 12, 12), floats(8, 1, k, k), floats(2, 8, 12, 12)

    def program(x, weight, g):
        x, weight = x.detach().requires_grad_(), weight.detach().requires_grad_()
        y = F.conv2d(x, weight, padding=k // 2, groups=8)
        return y, *jtorch.autograd.grad(y, (x, weight), g)

    graph = finalise(optimised(trace(program, (x, weight, g)).graph))
    assert len(graph.eqns) <= 12 * k * k + 12
    assert sum(eqn.op.name == "clone" for eqn in graph.eqns) <= 1
    jtorch.testing.assert_close(jtorch.compile(program)(x, weight, g), program(x, weight, g))


def test_updates_of_parameters_are_kernels_of_one_text():
    def program(*tensors):
        for p, g in zip(tensors[::2], tensors[1::2], strict=True):
            p.sub_(g * 0.1)

    shapes = (4, 3), (4, 3), (5,), (5,), (2, 2, 2), (2, 2, 2)
    leaves = [floats(*s, seed=k) for k, s in enumerate(shapes)]
    assert shape_of(fused_of(program, *leaves)) == ["map", "map", "map"]


# -- sizes -------------------------------------------------------------------------------------------------

GENERIC = {
    "layer_norm": lambda x: F.layer_norm(x, x.shape[-1]),
    "centred columns": lambda x: x - x.mean(0),
    "kept columns": lambda x: x - x.mean(0, keepdim=True) * 2.0,
    "transposed twice": lambda x: (x.t() * 2.0).t() + x,
    "x and its transpose": lambda x: (x.t() * 2.0, x + 1.0),
    "row and column means": lambda x: (x.mean(0) * 2.0, x.mean(1) * 3.0),
    "reshaped transpose": lambda x: (x.t().reshape(-1) * 2.0).sum(),
    "log-likelihood": lambda x: F.nll_loss(
        F.log_softmax(x, -1), jtorch.zeros(x.shape[0], dtype=jtorch.int64)
    ),
    "padded": lambda x: jtorch.cat((x[:, :1] * 0.0, x, x[:, -1:]), 1).exp(),
}


@pytest.mark.parametrize("name", GENERIC)
@pytest.mark.parametrize("width", [6, 32])
def test_sizes_decide_nothing(name, width):
    """The same equations in the same kernels: for many rows, for one, for as many as there are columns."""
    seen = []
    for rows in (32, 7, 6, 1):
        fused = fused_of(GENERIC[name], floats(rows, width))
        seen.append([(s.kind, [e.op.name for e in s.eqns], s.group and s.group.style) for s in fused.steps])
    assert all(s == seen[0] for s in seen[1:])


# -- fused graphs are sound --------------------------------------------------------------------------------


@pytest.mark.slow
@given(programs(max_size=20))
@settings(max_examples=120, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_steps_are_complete_and_in_order(program: Program):
    graph = graph_of(program, *program.leaves())
    fused = fuse(graph, Fuel(-1))
    reader = Reader(graph)
    known = set(graph.inputs)
    computed = []
    for step in fused.steps:
        own = {v for e in step.eqns for v in e.outputs}
        for eqn in step.eqns:
            assert reader.memory_of(eqn) <= known | own, "a step reads what no step before it stored"
        known |= own & fused.stored
        computed += step.eqns
    assert len(set(computed)) == len(computed)
    assert {a for a in graph.outputs if isinstance(a, Var)} <= known


def test_fuel_stops_fusion():
    graph = graph_of(lambda x: (x * 2.0 + 1.0).tanh().exp(), X)
    counts = [len(fuse(graph, Fuel(n)).steps) for n in range(6)]
    assert counts == [4, 3, 2, 1, 1, 1]


@pytest.mark.slow
def test_time_grows_with_the_graph_and_not_with_its_square():
    """A recurrent network of 32 steps, and one of 128: about four times the equations."""

    def program(x, w):
        h = x[0]
        for t in range(x.shape[0]):
            h = jtorch.tanh(x[t] @ w + h @ w.t())
        return (h * h).mean()

    def seconds(steps):
        """The best of three: another process may have the core for a while."""
        times = []
        for _ in range(3):
            graph = graph_of(program, floats(steps, 3, 4), floats(4, 4))
            start = time.perf_counter()
            fuse(graph, Fuel(-1))
            times.append(time.perf_counter() - start)
        return min(times)

    short, long = seconds(32), seconds(128)
    assert short < 0.5
    assert long < 12 * short


def test_a_group_that_ends_early_may_wait_for_one_that_ends_late():
    """``h`` and ``k`` are one kernel, which waits for ``a``: what waits for ``h`` is no kernel with ``a``."""

    def program(x, y, w):
        h = x.exp()
        g = (h @ w) @ w
        a = y.sin()
        k = x.cos() * a.flip(0)
        return h, a, k, y.cos() * g

    with jtorch.no_grad():
        assert_chain(program, [floats(4, 4), floats(4, 4), floats(4, 4)])
