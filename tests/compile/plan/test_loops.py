"""Loop nests and the text of kernels: levels, passes over a row, merged loops, arguments."""

from __future__ import annotations

import re

import numpy as np
import pytest

import jtorch
import jtorch.nn.functional as F
from jtorch.compile.codegen.source import Number, Pointer, emit
from jtorch.compile.graph.finalise import finalise
from jtorch.compile.plan.plan import Place, Where
from tests.compile.chain import assert_chain, destinations_of, optimised, planned, trace


def floats(*shape, seed=0):
    return jtorch.from_numpy(np.random.default_rng(seed).normal(size=shape).astype(np.float32))


def kernels_of(function, *leaves):
    with jtorch.no_grad():
        made = trace(function, leaves)
    plan = planned(finalise(optimised(made.graph)), destinations_of(made))
    return list(emit(plan).kernels.values())


def body(kernel):
    """The lines of a kernel's function, comments aside."""
    lines = kernel.source.split("):\n", 1)[1].splitlines()
    return [line.strip() for line in lines if not line.strip().startswith("#")]


def n_loops(kernel):
    return sum(line.startswith("for ") for line in body(kernel))


def test_an_elementwise_chain_over_arrays_in_order_is_one_loop():
    (kernel,) = kernels_of(lambda x, y: (x * 2.0 + y).exp(), floats(2, 3, 4), floats(2, 3, 4))
    assert n_loops(kernel) == 1
    assert body(kernel)[-1] == "y0[i0] = t4"


def test_broadcasting_keeps_the_loops_it_needs():
    (kernel,) = kernels_of(lambda x, y: x * y, floats(2, 3, 4), floats(4))
    assert n_loops(kernel) == 2  # the first two axes are one line of memory


def test_what_no_loop_changes_is_read_once():
    (kernel,) = kernels_of(lambda x, s: x * s.exp(), floats(3, 4), floats())
    lines = body(kernel)
    assert next(k for k, t in enumerate(lines) if "exp_f32" in t) < next(
        k for k, t in enumerate(lines) if t.startswith("for")
    )


def test_softmax_reads_its_row_three_times_and_computes_exp_once():
    (kernel,) = kernels_of(lambda x: F.softmax(x, -1), floats(4, 6))
    assert kernel.source.count("exp_f32(") == 2  # in the first partial of a row, and in the others
    assert n_loops(kernel) == 5  # rows; largest, sum (two), quotients
    assert sum(isinstance(a, Pointer) for a in kernel.arguments) == 3  # x, exp(x - largest), the result


def test_a_cheap_value_is_computed_again_and_not_stored():
    (kernel,) = kernels_of(lambda x: F.layer_norm(x, 6), floats(4, 6))
    assert sum(isinstance(a, Pointer) for a in kernel.arguments) == 2


@pytest.mark.parametrize("sizes", [(4, 6), (1, 6), (6, 6), (2, 2)])
def test_sizes_and_literals_are_arguments(sizes):
    def program(x):
        return (F.log_softmax(x * 0.37, -1) - 5.25).mean(), (x.t() + x.sum(0).unsqueeze(1)).exp().sum()

    expected = kernels_of(program, floats(5, 9))
    found = kernels_of(program, floats(*sizes))
    assert [k.source for k in found] == [k.source for k in expected]
    for kernel in found:
        assert not re.search(r"0\.37|5\.25", kernel.source)


@pytest.mark.xfail(strict=True, reason="a result in permuted order is copied, one of one row otherwise")
def test_sizes_of_a_permuted_result_are_arguments():
    expected, found = (kernels_of(lambda x: (x.t() * 2).exp(), floats(rows, 6)) for rows in (5, 1))
    assert [k.source for k in found] == [k.source for k in expected]


def test_every_literal_in_the_text_is_typed():
    def program(x, ids):
        loss = F.cross_entropy(F.relu(F.dropout(x, 0.4) * 3.0), ids)
        return loss, x.argmax(1), (x > 0.5).any(0)

    for kernel in kernels_of(program, floats(4, 6), jtorch.tensor([0, 1, 2, 3])):
        for line in body(kernel):
            assert not re.search(r"(?<![\w(.])\d+\.\d+", line), line  # 2.0 alone would be a double
            assert not re.search(r"\[\d{2,}\]", line), line


def test_memory_that_is_written_has_one_pointer():
    """Kernels promise LLVM that a written parameter aliases no other."""

    def program(p, m, g):
        m.mul_(0.9).add_(g)
        p.sub_(m * 0.1)

    leaves = [floats(4, 3, seed=k) for k in range(3)]
    made = trace(program, leaves)
    plan = planned(finalise(optimised(made.graph)), destinations_of(made))
    for task, kernel in emit(plan).kernels.items():
        places = [(plan.places[a.var], a.offset) for a in kernel.arguments if isinstance(a, Pointer)]
        assert len(set(places)) == len(places)
        written = {plan.places[v] for v in task.writes}
        for place in written:
            assert sum(p == place for p, _ in places) == 1
        assert {Place(Where.INPUT, 0), Place(Where.INPUT, 1)} & written


def test_equal_steps_have_equal_text_and_other_arguments():
    def program(*tensors):
        return [t.softmax(1) for t in tensors]

    found = kernels_of(program, floats(3, 4), floats(7, 2), floats(2, 5))
    assert len({k.source for k in found}) == 1
    sizes = [next(a.value for a in k.arguments if isinstance(a, Number)) for k in found]
    assert sorted(sizes) == [2, 4, 5]


def test_text_is_the_same_each_time():
    def program(x, ids):
        x = F.dropout(F.layer_norm(x, 6), 0.5)
        return F.cross_entropy(x, ids), jtorch.cat((x, x * 2.0), 1).amax(0)

    leaves = floats(4, 6), jtorch.tensor([0, 1, 2, 3])
    first, second = ([k.source for k in kernels_of(program, *leaves)] for _ in range(2))
    assert first == second


# -- nests that are easy to get wrong ----------------------------------------------------------------------

CASES = {
    "reduced axes outside": (lambda x: x.sum((0, 2)), (3, 4, 5)),
    "reduced axes apart": (lambda x: x.amax((0, 2)) + x.sum((0, 2)), (3, 4, 5)),
    "middle axis": (lambda x: x.sum(1) * 2.0, (3, 4, 5)),
    "position in a middle axis": (lambda x: x.argmax(1), (3, 4, 5)),
    "position over all axes": (lambda x: x.argmax(), (3, 4, 5)),
    "three passes": (lambda x: F.softmax(F.layer_norm(x, 5), -1), (3, 5)),
    "pass after pass": (lambda x: ((x - x.mean(1, keepdim=True)).exp()).sum(1), (3, 5)),
    "row value repeated": (lambda x: x.sum(1).unsqueeze(1).expand(3, 5) + 0.0, (3, 5)),
    "row value of an empty row": (lambda x: x.sum(1) + 1.0, (3, 0)),
    "no rows": (lambda x: F.softmax(x, -1), (0, 5)),
    "column of no rows": (lambda x: x.sum(0) + 1.0, (0, 5)),
    "mean of nothing": (lambda x: x.mean(0), (0, 5)),
    "strided rows": (lambda x: x[::2, 1::2].sum(1), (5, 7)),
    "strided columns": (lambda x: x[::2, 1::2].sum(0), (5, 7)),
    "reversed": (lambda x: x.flip(0, 1).amax(1), (4, 5)),
    "view under a sum": (lambda x: x.permute(2, 0, 1)[1:].sum(2), (3, 4, 5)),
    "windows": (lambda x: F.max_pool2d(x, 3, stride=1), (1, 2, 5, 6)),
    "any and all": (lambda x: ((x > 0).any(1).float(), (x > -9).all(0).float()), (4, 5)),
    "nested choice": (lambda x: jtorch.cat((x, jtorch.cat((x * 2.0, x), 1), x), 1), (2, 3)),
    "choice of patterns": (lambda x: jtorch.cat((x, jtorch.zeros(1, 3), jtorch.ones(2, 3))), (2, 3)),
    "positions as values": (lambda x: jtorch.cat((x, jtorch.arange(3.0).unsqueeze(0))), (2, 3)),
    "integers of both kinds": (lambda x: jtorch.cat((x.long(), jtorch.arange(3).unsqueeze(0))), (2, 3)),
    "a row filled with the sum": (lambda x: jtorch.cat((jtorch.full((1, 3), x.sum().item()), x[1:])), (2, 3)),
    "padded with the largest": (lambda x: F.pad(x[:, 1:], (1, 0), value=x.amax().item()), (2, 3)),
    "a scalar of a view": (lambda x: x * x[1, 2], (3, 4)),
    "size one": (lambda x: F.softmax(x, -1) + x.sum(0), (1, 1)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_nests(name):
    function, shape = CASES[name]
    with jtorch.no_grad():
        assert_chain(function, [floats(*shape)], exact=False)
