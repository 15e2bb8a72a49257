"""Plans on the PTX machine: arguments come in a table or one by one, and blocks are of any size."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

import jtorch
import jtorch.nn.functional as F
from tests.compile.chain import arguments_of, execute, trace
from tests.compile.codegen.cuda_chain import on_machine, plan_of
from tests.compile.codegen.cuda_programs import MAPS, REDUCTIONS
from tests.cuda.plans import on_ptx_machine

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("numba_cuda") is None, reason="numba-cuda is not installed (the extra 'cuda')"
)
PROGRAMS = {**MAPS, **REDUCTIONS}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["where, cast, bool", "integers", "embedding backward", "cross_entropy", "dropout"]
)
def test_arguments_in_a_table_or_one_by_one(name):
    function, leaves = PROGRAMS[name]
    made = trace(function, leaves)
    plan, arguments = plan_of(made), arguments_of(made)
    tabled = execute(plan, on_ptx_machine(splits=2), arguments)
    given = execute(plan, on_ptx_machine(splits=2, table=False), arguments)
    for a, b in zip(tabled, given, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("threads", [1, 32, 64])
@pytest.mark.parametrize("name", ["softmax", "argmax", "narrow columns"])
def test_blocks_of_any_size(name, threads):
    for splits in (None, 3):
        on_machine(*PROGRAMS[name], on_ptx_machine(splits, threads))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [jtorch.bfloat16, jtorch.float16], ids=str)
def test_floats_of_16_bits_are_those_of_eager_mode(dtype):
    x, y = (jtorch.randn(5, 7).to(dtype) for _ in range(2))
    for f in (
        lambda x, y: (x * y + x).relu() - 0.3,
        lambda x, y: (x * y).sum(1),
        lambda x, y: jtorch.cat([x, y], 1),
    ):
        made = trace(f, (x, y))
        (found,) = execute(plan_of(made), on_ptx_machine(splits=2), arguments_of(made))
        np.testing.assert_array_equal(np.asarray(found).view(np.uint16), f(x, y)._data.view(np.uint16))


def test_idle_teams_do_not_read_what_their_neighbours_write_over():
    """Five rows leave teams of a block idle. The result lies where what it is made of was."""

    def normalised(x, w):
        return [F.layer_norm((x @ w + w[0]).relu(), (16,), w[1], w[2]) @ w]

    x, w = (jtorch.randn(n, 16) for n in (5, 16))
    machine = on_machine(normalised, [x, w])
    plan = machine.runner.plan
    rows = [task for task in plan.tasks if task.nest is not None and task.nest.style == "row"]
    assert any({plan.places[v] for v in t.reads} & {plan.places[v] for v in t.writes} for t in rows)


def test_idle_teams_report_no_errors():
    """Their sum is that of nothing, by which nothing is divided."""

    def stored_and_divided(x):
        y = x + 1
        return [y, 100 // y.sum(1)]

    on_machine(stored_and_divided, [jtorch.randint(0, 3, (5, 7))])
