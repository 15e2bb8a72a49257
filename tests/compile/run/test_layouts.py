"""The layout of a way that is taken from a wider one runs what one runs that is put together for this way."""

from __future__ import annotations

import random

import pytest

import jtorch
import jtorch.nn.functional as F
from jtorch import nn
from jtorch.compile.run import layouts
from jtorch.compile.run.layout import Layout
from jtorch.compile.run.layouts import Layouts
from jtorch.compile.run.parts import LoopPieces, OtherProduct
from jtorch.core import threads
from jtorch.native import workers


@pytest.fixture(autouse=True)
def _two_threads():
    before = threads.count()
    threads.set_count(2)
    if not workers.pool():
        threads.set_count(before)
        pytest.skip("nothing is cut where no threads share work")
    yield
    threads.set_count(before)


def images():
    """A step of a CNN over images of moving sides."""
    jtorch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3, padding=1),
        nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10),
    )  # fmt: skip
    optimizer = jtorch.optim.Adam(model.parameters())

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    def batch(side):
        jtorch.manual_seed(side)
        return jtorch.randn(4, 1, side, side), jtorch.randint(0, 10, (4,))

    return step, batch, lambda side: (4, side), range(12, 64, 2)


def rows():
    """Products that BLAS computes, in pieces from some 300 rows on, a sort, and loops that read arguments."""
    jtorch.manual_seed(0)
    v, w = jtorch.randn(512, 8), jtorch.randn(8, 512)

    def function(x):
        h = (x @ v).sort(0).values
        return h @ w, (x * 2).exp().sum(1), x[:, :16].exp().sum(1)

    return (
        function,
        lambda n: (jtorch.linspace(-1, 1, n * 512).reshape(n, 512),),
        lambda n: (n, 512),
        range(300, 3000, 90),
    )


def run_by(made, n_words):
    """(kernel, words of its block, pool of threads that share it) of all that a table runs, in order.
    ``n_words`` has those of a block, and of the memory that the blocks of a row share. An address that a call
    brings is the number of its argument, and negative."""
    begin, memory = made.memory.ctypes.data, made.memory.copy()
    rows, patches = made.layout.tables(made.memory)
    for argument, to, beyond in patches.tolist():
        if 0 <= to - begin < memory.nbytes:  # runtime scalars are elsewhere
            memory[(to - begin) // 8] = -1_000_000 * (argument + 1) + beyond
    owners = made.layout.owners
    for owner, (kernel, block, repeat, stride, pool) in zip(owners, rows.tolist(), strict=True):
        n, shared = n_words[owner]
        for k in range(repeat):
            at = (block + k * stride - begin) // 8
            words = memory[at : at + n].tolist()
            if shared:  # which the first word points to
                at = (words.pop(0) - begin) // 8
                words += memory[at : at + shared].tolist()
            yield kernel, words, pool


PROGRAMS = {"images": images, "rows": rows}


@pytest.mark.parametrize("spare", [4096, 300])
@pytest.mark.parametrize("name", PROGRAMS)
def test_it_runs_the_same_blocks(name, spare, monkeypatch):
    function, batch, sizes_of, numbers = PROGRAMS[name]()
    fast = jtorch.compile(function, dynamic=True)
    fast(*batch(20))
    ((plan,),) = fast.plans.values()
    runner, taken = plan.runner, []

    def noted(wide, way, parts):
        taken.append((way, wide))
        return narrowed(wide, way, parts)

    monkeypatch.setattr(layouts, "_narrowed", noted)
    monkeypatch.setattr(layouts, "_SPARE", spare)
    for n in random.Random(name).sample(numbers, len(numbers)):
        found = []
        for way_to_find in (Layouts._taken, put_together):
            runner.found.clear()
            runner.layouts.known.clear()
            with monkeypatch.context() as patch:
                patch.setattr(Layouts, "_taken", way_to_find)
                found.append(runner.at(*sizes_of(n)).made)
        n_words = of_blocks(found[1].layout.way)
        one, other = ([*run_by(made, n_words)] for made in found)
        assert one == other
        more = len(found[0].memory) - len(found[1].memory)
        assert 0 <= more <= 2 * spare  # with patches of these blocks
    if spare > 1000:
        assert len({wide for _, wide in taken}) < len(dict(taken)) / 3  # most are taken from few
    assert len(runner.layouts.wide) <= layouts._WIDE


def test_bits_are_those_of_a_recording_of_each_size():
    losses = []
    for dynamic in (True, False):
        step, batch, _, _ = images()
        fast = jtorch.compile(step, dynamic=dynamic)
        losses.append([fast(*batch(side)).detach().numpy().tobytes() for side in (34, 62, 46, 20, 58, 46)])
    assert losses[0] == losses[1]


def test_where_none_can_be_taken_no_more_are_looked_for(monkeypatch):
    monkeypatch.setattr(layouts, "_SPARE", -1)
    step, batch, sizes_of, sides = images()
    fast = jtorch.compile(step, dynamic=True)
    fast(*batch(20))
    ((plan,),) = fast.plans.values()
    found = plan.runner.layouts
    for side in sides:
        plan.runner.at(*sizes_of(side))
    assert (found.taken, found.made) == (0, len(found.known))
    assert found.made > layouts._UNUSED + 2
    assert not found.wide
    monkeypatch.delattr(layouts, "_serves")
    found.known.clear()
    plan.runner.found.clear()
    assert plan.runner.at(*sizes_of(62)) is not None


def put_together(self, way):
    return Layout(way, self.parts, self.numbers, self.n_arguments)


narrowed = layouts._narrowed


def of_blocks(way):
    """Of each task the words of a block, and those that its blocks share."""
    found = {}
    for step in way.steps:
        block = step.block
        if isinstance(step, LoopPieces):
            found[block.task] = block.n, 0
        elif isinstance(step, OtherProduct):
            found[block.task] = step.told.n_words, step.told.n_shared
        else:
            found[block.task] = 4, 0
    return found
