"""Loops that elements of tensors end, in compiled functions on the tests' device: the host reads, turn by
turn, whether another one follows."""

from __future__ import annotations

import numpy as np
import pytest

import jtorch
from jtorch import nn
from jtorch.compile.run import cuda_turns
from jtorch.compile.run.cuda_turns import Turns
from jtorch.compiler import disable, scan, while_loop
from jtorch.core.errors import CudaError
from tests.compile.codegen.cuda_programs import tensor
from tests.cuda.marks import compiles
from tests.cuda.test_compiled import leaves, plans, same
from tests.each import each

pytestmark = [
    pytest.mark.usefixtures("cuda"),
    compiles,
]
SCALES = (4.0, 0.25, 30.0, 0.0, 1.0, 300.0, 9.0)


def far(c):
    return c.abs().max() > 0.5


def halved(x, w):
    return while_loop(far, lambda c: c * 0.5, x, max_steps=20)


def to_the_bound(x, w):
    return while_loop(lambda c: (c == c).all(), lambda c: c * w + 1, x, max_steps=3)


def in_rows_as_many(x, w):
    return while_loop(far, lambda c: c * w, x, max_steps=x.shape[0] + 2)


def without_end(x, w):
    return while_loop(far, lambda c: c * w, x, max_steps=10**12)


def several(x, w):
    def body(carry):
        total, left = carry["total"], carry["left"]
        return {"total": total * 0.5 + w, "left": left - 1, "odd": ~carry["odd"]}

    begin = {"total": x, "left": x[0, 0].abs().long(), "odd": x[0, 0] > 1}
    return while_loop(lambda c: c["left"] > 0, body, begin, max_steps=400)


def with_a_product(x, w):
    return while_loop(far, lambda c: (c @ (w.outer(w) * 0.3)).relu() + c * 0.25, x, max_steps=30)


def in_a_scan(x, w):
    def step(c, row):
        c, n = while_loop(lambda d: d.abs().max() > 1, lambda d: d * w, c + row, max_steps=20)
        return c, (c * 2, n)

    return scan(step, x[0], x)


def of_scans(x, w):
    return while_loop(
        lambda c: c.abs().max() > 1, lambda c: scan(lambda d, r: (d * 0.5 + r * 0.1, None), c, x)[0] * 0.5,
        x[0], max_steps=20,
    )  # fmt: skip


def in_another(x, w):
    def body(c):
        c, n = while_loop(lambda d: d.abs().max() > 2, lambda d: d * w, c * 3, max_steps=20)
        return c * 0.2 + n * 0

    return while_loop(far, body, x, max_steps=20)


def twice(x, w):
    h, n = while_loop(lambda c: c.abs().max() > 4, lambda c: c * w, x, max_steps=20)
    last, m = while_loop(far, lambda c: c * 0.5, h * 0.75, max_steps=20)
    return last, n, m, last * n


def trained(loop):
    def step(x, w):
        w = w.detach().requires_grad_()
        x = x.detach().requires_grad_()
        found = [t for t in leaves(loop(x, w)) if t.is_floating_point()]
        sum((t * t).sum() for t in found).backward()
        return [w.grad, x.grad, *(t.detach() for t in found)]

    step.__name__ = f"gradients_{loop.__name__}"
    return step


LOOPS = [
    halved, to_the_bound, in_rows_as_many, without_end, several, with_a_product,
    in_a_scan, of_scans, in_another, twice,
    *map(trained, (to_the_bound, in_rows_as_many, with_a_product, in_a_scan, of_scans, twice)),
]  # fmt: skip


@pytest.mark.slow
@each("loop", LOOPS)
def test_a_loop_gives_what_it_gives_on_the_host(loop):
    compared(loop)


def compared(loop):
    """One of LOOPS gives on the device what it gives on the host."""
    on_host, compiled = (jtorch.compile(loop, fullgraph=True) for _ in range(2))
    w = jtorch.tensor([0.5, -0.25, 0.625])
    for scale in SCALES:
        x = jtorch.tensor([[1.0, -0.5, 0.75], [0.25, 1.0, -0.125]]) * scale
        expected = leaves(on_host(x, w))
        for a, b in zip(leaves(compiled(x.cuda(), w.cuda())), expected, strict=True):
            if b is not None and b.dtype == jtorch.int64 and not b.ndim:  # how many turns there were
                assert a.device.type == loop(x.cuda(), w.cuda())[1].device.type if loop is halved else True
                assert int(a) == int(b), scale
            elif b is None:
                assert a is None
            else:
                same(a, b, 2e-6)
    assert all(plan.program.target.name == "cuda" for plan in plans(compiled))
    assert any(isinstance(part, Turns) for plan in plans(compiled) for part in parts(plan))


def parts(plan):
    return plan.program.runner.graph.parts


def test_what_is_read_behind_a_loop_of_no_turns_is_written(cuda, monkeypatch):
    monkeypatch.setattr(Turns, "_unwritten", lambda self: ())
    step = jtorch.compile(halved, fullgraph=True, dynamic=True)
    with pytest.raises(CudaError, match="nobody has written"):
        step(jtorch.zeros(3, 4).cuda(), None)
    cuda.fake.fault = None


@pytest.mark.slow
def test_sizes_that_move():
    step = jtorch.compile(halved, fullgraph=True)
    for rows, scale in ((3, 4.0), (5, 30.0), (2, 0.0), (3, 9.0), (7, 1.0)):
        x = tensor(rows, 4) * scale
        found, expected = step(x.cuda(), None), halved(x, None)
        same(found[0], expected[0])
        assert int(found[1]) == int(expected[1])
    assert len(plans(step)) == 2


class Settling(nn.Module):
    """A layer whose output is where another one comes to rest."""

    def __init__(self):
        super().__init__()
        self.inner, self.head = nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, x):
        def turn(c):
            z, _ = c
            new = (self.inner(z) * 0.3 + x).tanh()
            return new, (new - z).abs().max()

        z, _ = while_loop(lambda c: c[1] > 1e-2, turn, (x, x.abs().sum() + 1), max_steps=30)[0]
        return self.head(z)


def settled(device, wrap):
    jtorch.manual_seed(0)
    model = Settling().to(device)
    optimizer = jtorch.optim.Adam(model.parameters(), lr=0.05)

    def step(x, y):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    step, y = wrap(step), jtorch.tensor([0, 1, 1])
    losses = [step(tensor(3, 4, seed=k).to(device), y.to(device)) for k in range(4)]
    return [t.detach().cpu() for t in (*losses, *model.parameters())]


@pytest.mark.slow
def test_a_training_step():
    found = settled("cuda", lambda f: jtorch.compile(f, fullgraph=True))
    for a, b in zip(found, settled("cpu", jtorch.compile), strict=True):
        jtorch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


# -- what a turn costs ---------------------------------------------------------------------------------------


def test_a_turn_is_a_graph_and_one_question(cuda):
    """Of turns that keep nothing four have graphs of their own, however many there are."""
    step, w = jtorch.compile(without_end, fullgraph=True), jtorch.tensor([0.5, -0.25, 0.625]).cuda()
    x = jtorch.tensor([[1.0, -0.5, 0.75]]).cuda()
    for scale in (2.0, 4.0, 2.0**30):
        step(x * scale, w)
    calls = cuda.fake.calls
    begin = len(calls)
    turns = int(step(x * 2.0**31, w)[1])
    asked = calls[begin:]
    assert turns == int(without_end(x.cpu() * 2.0**31, w.cpu())[1]) > 40
    assert asked.count("cuGraphLaunch") == turns + 2 and "cuGraphInstantiateWithFlags" not in asked
    # errors before it and after it, how many turns are left out, and how many there were
    assert asked.count("cuMemcpyDtoHAsync_v2") == turns + 4
    ((plan,),) = step.plans.values()
    (loop,) = [part for part in parts(plan) if isinstance(part, Turns)]
    assert len(loop.known) <= 4


def test_memory_of_other_calls_is_not_seen():
    """Places that no turn has written hold nothing of calls before."""
    step, w = jtorch.compile(trained(in_rows_as_many), fullgraph=True), jtorch.tensor([0.5, 0.25, 0.5])
    for value in (float("inf"), 64.0, float("nan"), 1.0, float("inf"), 3.0, 300.0):
        x = jtorch.full((2, 3), value)
        for a, b in zip(step(x.cuda(), w.cuda()), trained(in_rows_as_many)(x, w), strict=True):
            assert (a is None) == (b is None)
            if b is None:
                continue
            jtorch.testing.assert_close(a.cpu(), b, rtol=1e-6, atol=0.0, equal_nan=True)


# -- errors --------------------------------------------------------------------------------------------------


def test_an_error_of_a_turn_comes_where_it_is_taken():
    """And leaves everything as it was: eager mode, which then raises it, begins with that."""
    found = []
    for device, wrap in (("cpu", lambda f: f), ("cuda", lambda f: jtorch.compile(f, fullgraph=True))):
        table, weight, k = tensor(5).to(device), tensor(3).to(device), jtorch.tensor(3).to(device)

        def step(first, table=table, weight=weight, k=k):
            def turn(c):
                return c[0] + table[c[1]], c[1] + k

            weight.mul_(2.0)
            last, n = while_loop(lambda c: c[1] < 7, turn, (weight, first), max_steps=9)
            weight.add_(last[0])
            return last[0], n

        step, seen = wrap(step), []
        for first in (4, 2, 3, 1):
            try:
                seen.append(int(step(jtorch.tensor(first).to(device))[1]))
            except IndexError as error:
                seen.append(str(error).partition(" (at")[0])
            seen += [weight.tolist(), weight._version]
        found.append(seen)
    wrong = "index 5 is out of bounds for dimension 0 with size 5"
    assert found[0][::3] == [1, wrong, wrong.replace("5 is", "6 is"), 2]
    assert found[0] == found[1]


def test_ctrl_c_between_turns_leaves_everything_as_it_was(monkeypatch):
    weight = tensor(3).cuda()

    def step(x):
        weight.mul_(2.0)
        last, _ = while_loop(far, lambda c: c * 0.5, x + 0, max_steps=20)
        return last + weight

    step, x = jtorch.compile(step, fullgraph=True), tensor(3) * 64
    step(x.cuda())
    before, version, turns = weight.tolist(), weight._version, []
    ended = Turns._has_ended

    def stopped(self):
        turns.append(self)
        if len(turns) == 3:
            raise KeyboardInterrupt
        return ended(self)

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(Turns, "_has_ended", stopped)
        step(x.cuda())
    assert (weight.tolist(), weight._version) == (before, version)
    found = step(x.cuda())
    same(found, halved(x, None)[0] + jtorch.tensor(before) * 2, 1e-6)


def test_beside_a_disabled_function():
    seen = []
    note = disable(lambda n, c: seen.append((n.item(), c.is_cuda)))

    def step(x):
        c, n = while_loop(far, lambda c: c * 0.5, x, max_steps=20)
        note(n, c)
        return c + 1

    step = jtorch.compile(step, fullgraph=True)
    for scale in SCALES:
        x = jtorch.ones(3) * scale
        same(step(x.cuda()), halved(x, None)[0] + 1)
        assert seen.pop() == (int(halved(x, None)[1]), True)


# -- planted faults ------------------------------------------------------------------------------------------

FAULTS = {
    "one turn too many": ("_has_ended", lambda ended: lambda self: False),
    "one turn alone": ("_has_ended", lambda ended: lambda self: True),
    "the first turn again": ("_at", lambda at: lambda self, k, is_first: at(self, k, True)),
    "no first turn": ("_at", lambda at: lambda self, k, is_first: at(self, k, k == 0 and not self.known)),
    "turns in one place": ("_at", lambda at: lambda self, k, is_first: at(self, k & ~1, is_first)),
    "from the beginning": (
        "_word",
        lambda word: lambda self, var, begin: max(word(self, var, begin), 0) and 0,
    ),
}


@pytest.mark.slow
@each("fault", FAULTS)
def test_each_fault_is_found(fault, cuda):
    """By results that are not those, or by memory that is read before somebody has written it."""
    name, change = FAULTS[fault]
    found = set()
    for scale in (4.0, 0.0, 30.0):
        x, w = jtorch.tensor([[1.0, -0.5, 0.75]]) * scale, jtorch.tensor([0.5, -0.25, 0.625])
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(cuda_turns.Turns, name, change(getattr(Turns, name)))
            step = jtorch.compile(twice, fullgraph=True)
            try:
                given = [np.array(t.cpu().numpy()) for t in step(x.cuda(), w.cuda())]
                cuda.synchronize()
            except CudaError as error:
                assert "nobody has written" in str(error)
                found.add(scale)
                cuda.fake.fault = None
                continue
        expected = [t.numpy() for t in twice(x, w)]
        if any(not np.array_equal(a, b) for a, b in zip(given, expected, strict=True)):
            found.add(scale)
    assert found
