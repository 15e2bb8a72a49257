"""Disabled functions in compiled functions on the tests' device: Python between two graphs, which
gets tensors where they lie."""

from __future__ import annotations

import threading

import pytest

import jtorch
from jtorch import nn
from jtorch.compile.record import handed
from jtorch.compile.run.cuda_host import CallOut
from jtorch.compiler import disable
from jtorch.core.errors import CompileError, CudaError, EagerWarning
from jtorch.native.cuda.device import Device
from jtorch.native.cuda.graph import Graph
from tests.compile.codegen.cuda_programs import tensor
from tests.cuda.marks import compiles
from tests.cuda.test_compiled import leaves, plans, same
from tests.each import each

F = nn.functional
pytestmark = [
    pytest.mark.usefixtures("cuda"),
    compiles,
]


def whole(function):
    return jtorch.compile(function, fullgraph=True)


def parts(step, kind):
    (plan,) = plans(step)
    return [part for part in plan.program.runner.graph.parts if isinstance(part, kind)]


# -- values --------------------------------------------------------------------------------------------------


def trained(device, wrap):
    """A step that logs, asks the host for weights of its examples, and learns; what was seen when."""
    jtorch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Dropout(0.2), nn.Linear(8, 2)).to(device)
    optimizer, seen = jtorch.optim.Adam(model.parameters(), lr=0.01), []

    @disable
    def log(tag, loss, weight):
        seen.append((tag, loss.item(), weight is model[0].weight, weight.device.type, weight.sum().item()))

    @disable
    def weights(errors):
        order = errors.cpu().argsort().float()
        seen.append(("weights", errors.is_cuda))
        return (1 + order / len(order)).to(errors.device), len(seen)

    def step(x, y):
        optimizer.zero_grad()
        errors = F.cross_entropy(model(x), y, reduction="none")
        by, number = weights(errors.detach())
        loss = (errors * by).mean()
        log("before", loss, model[0].weight)
        loss.backward()
        optimizer.step()
        log("after", loss * number, model[0].weight)
        return loss.detach()

    step, losses = wrap(step), []
    for k in range(4):
        x, y = tensor(6, 4, seed=k), jtorch.tensor([0, 1, 1, 0, 1, 0])
        losses.append(step(x.to(device), y.to(device)))
    state = [*model.parameters(), *(p.grad for p in model.parameters())]
    assert all(t.device.type == device for t in (*losses, *state))
    return [t.detach().cpu() for t in (*losses, *state)], seen, step


@pytest.mark.slow
def test_a_training_step_is_that_of_the_host():
    found, seen, step = trained("cuda", whole)
    expected, expected_seen, _ = trained("cpu", whole)
    assert len(parts(step, CallOut)) == 3 and len(parts(step, Graph)) >= 3
    for a, b in zip(found, expected, strict=True):
        jtorch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)
    for a, b in zip(seen, expected_seen, strict=True):
        if a[0] == "weights":
            assert (a, b) == (("weights", True), ("weights", False))
            continue
        assert (a[0], a[2]) == (b[0], b[2]) == (a[0], True) and (a[3], b[3]) == ("cuda", "cpu")
        assert a[1] == pytest.approx(b[1], rel=1e-5) and a[4] == pytest.approx(b[4], rel=1e-4, abs=1e-5)


@disable
def plus(x, number=1.0):
    return x + number


@disable
def in_rows(x):
    return (x + 1).contiguous()


@disable
def largest(x):
    return x.max().item(), int(x.argmax())


@disable
def of_the_host(x):
    return x.cpu() * 2


@disable
def several(x, names, scale):
    return {"double": x * scale, "row": x[0].clone(), "count": len(names), "none": None, "mask": x > 0}


FUNCTIONS = {
    "the first": lambda x: plus(x) * 2,
    "the last": lambda x: plus(x * 2),
    "alone": lambda x: plus(x),
    "twice": lambda x: plus(plus(x * 2) * 3) - 1,
    "a view": lambda x: in_rows((x * 2).t()[1:]) + 1,
    "a view of an argument": lambda x: in_rows(x.t()[1:]) + 1,
    "numbers": lambda x: (lambda value, place: (x * value + place, value))(*largest(x + 1)),
    "numbers of elements": lambda x: plus(x, x.sum().item()) * x.mean().item(),
    "a tensor of the host": lambda x: (of_the_host(x * 3) + 1, x + 1),
    "many": lambda x: several(x + 1, ("a", "b"), scale=x.abs().max()),
    "of nothing": lambda x: plus(x[:0]).sum() + plus(x[:0]).shape[0],
    "nothing to graph": lambda x: plus(jtorch.zeros(2, device=x.device)),
    "beside a library": lambda x: plus((x * 2).cumsum(1)).sort(0)[0] + plus(x),
    "of 16 bits": lambda x: plus(x.bfloat16() * 2).float() + plus(x.half()),
    "whole numbers": lambda x: plus((x * 4).long(), 1) + (x > 0),
    "draws": lambda x: plus(x + jtorch.rand(3, 3, device=x.device)) * jtorch.rand(3, 3, device=x.device),
    "in place": lambda x: (lambda y: (y.add_(1), plus(y), y.mul_(2)))(x * 2),
}


@pytest.mark.slow
@each("name", FUNCTIONS)
def test_a_function_gives_what_it_gives_on_the_host(name):
    compared(name)


def compared(name):
    """One of FUNCTIONS gives on the device what it gives on the host."""
    function = FUNCTIONS[name]
    on_host, compiled = whole(function), whole(function)
    for seed in range(3):
        x = tensor(3, 3, seed=seed)
        jtorch.manual_seed(seed)
        expected = leaves(on_host(x))
        jtorch.manual_seed(seed)
        for a, b in zip(leaves(compiled(x.cuda())), expected, strict=True):
            if not isinstance(b, jtorch.Tensor):
                assert type(a) is type(b) and (a is b is None or a == pytest.approx(b, rel=1e-6))
            elif name == "a tensor of the host" and b is expected[0]:
                assert a.device.type == "cpu"
                jtorch.testing.assert_close(a, b)
            else:
                same(a, b, 2e-6)
    (plan,) = plans(compiled)
    assert plan.program.target.name == "cuda"


def test_sizes_that_move_are_recorded_one_by_one():
    step = jtorch.compile(lambda x: plus(x * 2).sum(0) + 1, fullgraph=True, dynamic=True)
    for n in (3, 5, 2, 5):
        x = tensor(n, 4)
        same(step(x.cuda()), (x * 2 + 1).sum(0) + 1, 2e-6)


# -- what it gets, and what it keeps -------------------------------------------------------------------------


def test_it_gets_the_tensors_that_the_user_knows():
    weight, seen = nn.Parameter(tensor(3).cuda()), []
    weight.tag = "mine"
    note = disable(lambda *given: seen.append(given))

    def step(x):
        note(weight, x, x * 2)
        return x + weight.detach()

    step, x = whole(step), tensor(3).cuda()
    for _ in range(2):
        step(x)
        first, second, third = seen.pop()
        assert first is weight and first.tag == "mine" and second is x and third.is_cuda
        same(third, x * 2)


def test_what_is_written_by_then_comes_with_its_new_elements():
    """And goes back to what it was where the call fails afterwards."""
    weight, seen, rows = tensor(3).cuda(), [], tensor(4, 3).cuda()
    look = disable(lambda w: seen.append((w is weight, w.tolist())))

    def step(k):
        weight.mul_(2.0)
        look(weight)
        weight.add_(rows[k].sum())
        return weight.sum()

    step, expected = whole(step), weight.cpu()
    for k in (1, 3):
        step(jtorch.tensor([k]).cuda())
        expected = expected * 2
        assert seen.pop() == (True, expected.tolist())
        expected = expected + rows[k].sum().cpu()
        same(weight, expected, 1e-6)
    before = weight.tolist()
    with pytest.raises(IndexError):
        step(jtorch.tensor([4]).cuda())
    assert weight.tolist() == before


@each("planted", (False, True))
def test_what_it_keeps_stays_as_it_was(planted, monkeypatch):
    kept = []
    keep = disable(lambda x: kept.append(x))
    step = whole(lambda x: (keep(x * 2), x * 3)[1])
    if planted:
        monkeypatch.setattr(handed, "copied", lambda value: value)
    given = [tensor(3, seed=k) for k in range(3)]
    for x in given:
        step(x.cuda())
    found = [(k * 1.0).tolist() == (x * 2).tolist() for k, x in zip(kept, given, strict=True)]
    assert found == ([True, False, True] if planted else [True] * 3)  # the first one was recorded


def test_another_thread_may_use_the_device_while_it_runs():
    def meanwhile(x):
        found = []
        thread = threading.Thread(target=lambda: found.append((x * 2).sum().item()))
        thread.start()
        thread.join(60)
        assert not thread.is_alive()
        return found[0]

    step, x = whole(lambda x: x * disable(meanwhile)(x + 1)), tensor(3)
    for _ in range(2):
        same(step(x.cuda()), x * ((x + 1) * 2).sum(), 2e-6)


# -- errors --------------------------------------------------------------------------------------------------


def failing(at):
    """(a step that writes a parameter and a list, its parameter): what it calls raises ``at`` that call."""
    weight, calls = tensor(3).cuda(), []

    @disable
    def call(x):
        calls.append(x.tolist())
        if len(calls) == at[0]:
            raise at[1]
        return x + 1

    def step(x):
        weight.mul_(2.0)
        y = call(weight * x)
        weight.add_(y)
        return weight + 0

    return whole(step), weight, calls


@each("error", (ValueError, KeyboardInterrupt))
def test_an_error_in_it_leaves_everything_as_it_was(error):
    step, weight, calls = failing((3, error()))
    x, expected = tensor(3), weight.cpu()
    for _ in range(2):
        expected = expected * 2 + (expected * 2 * x + 1)
        same(step(x.cuda()), expected, 1e-6)
    before, version = weight.tolist(), weight._version
    with pytest.raises(error):
        step(x.cuda())
    assert weight.tolist() == before and weight._version == version and len(calls) == 3
    same(step(x.cuda()), expected * 2 + (expected * 2 * x + 1), 1e-6)


def test_it_is_not_called_once_a_kernel_has_reported_an_error():
    calls = []
    note = disable(lambda x: calls.append(x.tolist()))

    def step(table, rows):
        note(table[rows])
        return table + 1

    step, table = whole(step), tensor(4, 3).cuda()
    step(table, jtorch.tensor([0, 3]).cuda())
    assert len(calls) == 1
    with pytest.raises(IndexError):
        step(table, jtorch.tensor([0, 4]).cuda())
    assert len(calls) == 1


def test_what_the_function_raises_after_it_is_raised_once():
    calls = []

    @disable
    def call(x):
        calls.append(x.tolist())
        return x * len(calls)

    def step(x, bad):
        y = call(x)
        if bad:
            raise ValueError(f"after {len(calls)}")
        return y + 1

    step, x = whole(step), tensor(3)
    same(step(x.cuda(), False), x + 1)
    for k in (2, 3):
        with pytest.raises(ValueError, match=f"after {k}"):
            step(x.cuda(), True)
        assert len(calls) == k
    same(step(x.cuda(), False), x * 4 + 1)


PARAMETER = nn.Parameter(tensor(3))


def returns_another_size():
    calls = iter(range(9))
    return lambda x: x[: 1 + next(calls) % 2] * 1


def goes_to_the_host():
    calls = iter(range(9))
    return lambda x: x.clone() if not next(calls) else x.cpu()


REFUSED = {
    "changes its argument in place": lambda: lambda x: x.mul_(2),
    "returns its argument or a view of it": lambda: lambda x: x[1:],
    "gives a tensor that requires grad": lambda: lambda x: x * PARAMETER.to(x.device),
    r"gave f32\[1\] on cuda:0 when it was recorded and now f32\[2\] on cuda:0": returns_another_size,
    r"gave f32\[3\] on cuda:0 when it was recorded and now f32\[3\]\. ": goes_to_the_host,
    "gives a tensor on the device meta": lambda: lambda x: x.to("meta"),
}


@each("problem", REFUSED)
def test_what_would_tie_it_to_the_plan_is_refused(problem):
    call = disable(REFUSED[problem]())
    step = whole(lambda x: (x * 2).sum() + call(x * 2).sum())
    with pytest.raises(CompileError, match=problem):
        for _ in range(3):
            step(tensor(3).cuda())


BEHIND: list[jtorch.Tensor] = []
WAYS = {"an op": lambda w: w.sum(), "elements": lambda w: w.tolist(), "a copy": lambda w: w.cpu()}


@each("way", WAYS)
def test_it_may_not_read_behind_the_plan_what_that_has_written_by_then(way):
    weight = tensor(3).cuda()
    BEHIND[:] = [weight]
    peek = disable(lambda: (WAYS[way](BEHIND[0]), None)[1])

    def step(x):
        weight.mul_(2.0)
        peek()
        return weight + x

    with pytest.raises(CompileError, match=r"can reach|reads a tensor that the compiled function has"):
        whole(step)(tensor(3).cuda())


def test_the_first_call_is_an_eager_one(monkeypatch):
    """Which sees whether a plan can have it."""
    monkeypatch.delenv("JTORCH_FULLGRAPH", raising=False)
    calls = []
    note = disable(lambda x: calls.append(x.is_cuda))
    step = jtorch.compile(lambda x: (note(x * 2), x + 1)[1])
    for k in range(3):
        step(tensor(3).cuda())
        assert len(plans(step)) == (k > 0)
    assert calls == [True] * 3
    spoils = disable(lambda x: x.mul_(2).sum())
    step = jtorch.compile(lambda x: spoils(x * 2) + 1)
    with pytest.warns(EagerWarning, match="changes its argument in place"):
        for _ in range(2):
            same(step(tensor(3).cuda()), (tensor(3) * 4).sum() + 1, 1e-6)


def test_one_that_goes_to_the_device_by_itself():
    away = disable(lambda x: x.cuda())
    step, x = whole(lambda x: plus(away(x)) * 2), tensor(3)
    for _ in range(2):
        same(step(x), (x + 1) * 2, 1e-6)
    with pytest.raises(RuntimeError, match="found at least two devices"):
        whole(lambda x: away(x) + x)(x)


HERE = tensor(3)


def test_a_tensor_of_the_host_may_not_meet_one_of_the_device_that_comes_later():
    there = tensor(3).cuda()
    for function in (lambda x: (x * 2 + 1) + there, lambda x: (HERE * 2) + plus(there)):
        with pytest.raises(RuntimeError, match="found at least two devices"):
            whole(function)(tensor(3))


# -- planted faults ------------------------------------------------------------------------------------------


class Without:
    """A device that leaves out what is ``missing``."""

    def __init__(self, device, missing):
        self.device, self.missing = device, missing

    def __getattr__(self, name):
        return (lambda *given: None) if name == self.missing else getattr(self.device, name)


@each("missing", ("copy", "upload"))
def test_what_it_gives_is_copied(missing, monkeypatch):
    """Else a kernel reads what nobody has written."""
    step = whole(lambda x: (plus if missing == "copy" else of_the_host)(x * 2).sum() + 1)
    step(tensor(3).cuda())
    for part in parts(step, CallOut):
        device, part.device = part.device, Without(part.device, missing)
    for part in parts(step, CallOut):
        for var in part.written:  # the first run has left something there
            allocation, begin = device.fake.memory.find(part.address(var), var.type.nbytes)
            allocation.written[begin : begin + var.type.nbytes] = False
    with pytest.raises(CudaError, match="nobody has written"):
        step(tensor(3).cuda())
    device.fake.fault = None


# -- Ctrl-C --------------------------------------------------------------------------------------------------


@each("calls", (False, True))
def test_what_others_see_is_written_by_one_instruction(calls, cuda, monkeypatch):
    """A graph that writes parameters where they lie, and copies to where they do, come with the count of
    runs: to Python all are one instruction, so Ctrl-C comes before all or after."""
    weight, other = tensor(3).cuda(), tensor(3).cuda()

    def step(x):
        weight.mul_(x)
        y = plus(weight) if calls else weight
        other.add_(y)
        return other + 1

    step, ended = whole(step), []
    finish = Device.finish

    def noting(self, graphs, copies, downloads, end):
        ended.append((len(graphs), len(copies)))
        return finish(self, graphs, copies, downloads, end)

    x = tensor(3).cuda()
    with monkeypatch.context() as patched:
        patched.setattr(Device, "finish", noting)
        step(x)
    (plan,) = plans(step)
    graph = plan.program.runner.graph
    assert (graph.last is graph.parts[-1]) and ended[0][0] == 1
    assert ended[0][1] == (3 if calls else 1)  # parameters, where a call may fail, and the result

    def interrupted(self, *given):
        raise KeyboardInterrupt

    before = weight.tolist(), other.tolist(), weight._version
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(Device, "finish", interrupted)
        step(x)
    assert (weight.tolist(), other.tolist(), weight._version) == before
