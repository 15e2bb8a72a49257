"""Lists, dicts and dataclasses among the arguments that a compiled function changes."""

import collections
import dataclasses
import itertools
from collections import OrderedDict

import numpy as np
import pytest

import jtorch
from jtorch import nn
from jtorch.core.errors import CompileError

CALLS = 4


def t(*values, grad=False):
    return jtorch.tensor([float(v) for v in values], requires_grad=grad)


@dataclasses.dataclass
class State:
    x: object
    n: int = 0


def pops_and_sets(batch):
    y = batch.pop("y")
    batch["z"] = y * 2
    return batch["x"] + y


def deletes(batch):
    del batch["y"]
    batch["n"] = 3
    return batch["x"] * batch["n"]


def updates(batch):
    batch.update(x=batch["x"] * 2, k=batch["y"])
    batch |= {"u": batch["x"].sum()}
    return batch.setdefault("x", 1), batch.setdefault("w", batch["y"] + 1)


def pops_what_is_missing(batch):
    try:
        batch.pop("nothing")
    except KeyError:
        return batch.pop("nothing", None), batch.popitem()[1] * 2


def clears(batch):
    x, y = batch["x"], batch["y"]
    batch.clear()
    batch[1], batch["b", 2] = y, x * 2


def reorders(batch):
    batch["x"] = batch.pop("x")


def to_the_end(batch):
    ordered = batch["ordered"]
    ordered.move_to_end("a")
    ordered["b"] = ordered["b"] * 2


def nested(batch):
    batch["inner"]["q"] = batch["x"] + batch["inner"].pop("r")
    batch["list"].append(batch["inner"])
    batch["pair"][0].extend([batch["x"], 5, None])
    batch["new"] = {"deep": [batch["y"] * 3]}
    return batch["inner"], batch["new"]


def returns_it(batch):
    batch["z"] = batch["x"] + 1
    return batch


def a_number(batch):
    batch["loss"] = (batch["x"] * batch["y"]).sum().item()
    batch["f"] = batch["f"] * 0.5
    batch["text"] += "!"


def an_array(batch):
    a = batch.pop("array")
    batch["b"], batch["sum"] = a, jtorch.from_numpy(a) + batch["x"]


def of_a_dataclass(batch):
    state = batch["state"]
    state.x, state.n = state.x * 2, 7
    state.more = batch["x"]
    return state


def raises(batch):
    batch["before"] = batch["x"] * 2
    raise ValueError("no")


def with_itself(batch):
    batch["self"] = batch
    batch["list"].append(batch["list"])
    del batch["list"][0], batch["self"]


def requires_grad(batch):
    batch["loss"] = (batch["w"] * batch["x"]).sum()
    return (batch.pop("w") ** 2).sum()


def backward_inside(batch):
    loss = (batch["w"] * batch["x"]).sum()
    loss.backward()
    batch["loss"] = loss.detach()
    batch["grad"] = batch["w"].grad


def in_place(batch):
    batch["x"].mul_(2)
    batch["view"] = batch["x"][:1]


PROGRAMS = [
    pops_and_sets, deletes, updates, pops_what_is_missing, clears, reorders, to_the_end, nested, returns_it,
    a_number, an_array, of_a_dataclass, raises, with_itself, requires_grad, backward_inside, in_place,
]  # fmt: skip


def batch_of(k):
    return {
        "x": t(k, 1), "w": t(2, k + 1, grad=True), "state": State(t(k + 5)), "list": [1, t(k)],
        "inner": {"r": t(k, 3)}, "ordered": OrderedDict(a=t(k), b=t(k + 1)), "pair": ([t(1)], 2),
        "f": 0.5 * k, "text": "a", "array": np.arange(2.0, dtype=np.float32) + k, "y": t(k + 1, k),
    }  # fmt: skip


def plain(value, seen=()):
    """What compares: tensors as lists, with what they say of their graph; dicts with their order."""
    if id(value) in seen:
        return "itself"
    seen = (*seen, id(value))
    if isinstance(value, jtorch.Tensor):
        return value.dtype, value.tolist(), value.requires_grad, value.is_leaf
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, dict):
        return type(value), [(k, plain(v, seen)) for k, v in value.items()]
    if isinstance(value, (list, tuple)):
        return type(value), [plain(v, seen) for v in value]
    return plain(vars(value), seen) if isinstance(value, State) else value


def outcome(function, batch):
    held = dict(batch)
    try:
        returned = function(batch)
    except ValueError as error:
        returned = str(error)
    if isinstance(returned, jtorch.Tensor) and returned.requires_grad:
        (returned + batch.get("loss", 0)).backward()
    same = [key for key, value in held.items() if batch.get(key) is value]
    is_given = returned is batch or returned is held["state"]
    return plain(returned), plain(batch), plain(held), same, is_given, held["w"].grad is not None


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
@pytest.mark.parametrize("verify", ["off", "every:2"])
def test_what_is_changed_is_the_callers_own_at_each_call(program, verify):
    compiled = jtorch.compile(program, verify=verify)
    for k in range(CALLS):
        assert outcome(compiled, batch_of(k)) == outcome(program, batch_of(k)), k
    if program is not raises:
        assert sum(map(len, compiled.plans.values())) == 1
        assert compiled.calls == CALLS


def test_lists():
    def change(values, x, scale=2.0):
        values.append(x * scale)
        values[0] = x + 1
        values.insert(1, values[-1])
        values += [scale]
        values.reverse()
        return values.pop(1), values.pop(), len(values)

    compiled = jtorch.compile(change)
    for k in range(CALLS):
        lists = [[t(k), t(5), k % 2] for _ in range(2)]
        results = [f(v, t(k, 2), scale=k / 2) for f, v in zip((compiled, change), lists, strict=True)]
        assert plain(results[0]) == plain(results[1]) and plain(lists[0]) == plain(lists[1])
    assert sum(map(len, compiled.plans.values())) == 2  # one for each number that stands in the list


def test_one_dict_over_many_calls_is_recorded_until_its_keys_stay():
    compiled, batches = jtorch.compile(pops_and_sets), [{"x": t(1, 2)}, {"x": t(1, 2)}]
    for k in range(CALLS):
        for batch in batches:
            batch["y"] = t(k, 1)
        assert plain(compiled(batches[0])) == plain(pops_and_sets(batches[1]))
        assert plain(batches[0]) == plain(batches[1])
    assert sum(map(len, compiled.plans.values())) == 2


def test_a_list_that_stands_at_two_places_is_changed_once():
    compiled = jtorch.compile(lambda a, b, x: a.append(x + 1) or b.append(2))
    for k in range(CALLS):
        one = []
        compiled(one, one, t(k))
        assert plain(one) == plain([t(k + 1), 2])


def test_keyword_arguments_and_modules():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(2, 1)

        def forward(self, batch, *, out):
            y = batch.pop("y")
            out["loss"] = (self.layer(batch["x"]) - y).square().mean()
            return out

    net = Net()
    compiled = jtorch.compile(net)
    optimizer = jtorch.optim.SGD(net.parameters(), lr=0.1)
    for k in range(CALLS):
        outs = [{}, {"old": 1}]
        for f, out in zip((net, compiled), outs, strict=True):
            assert f({"x": t(k, 1), "y": t(k)}, out=out) is out
        assert outs[0]["loss"].item() == pytest.approx(outs[1]["loss"].item(), rel=1e-6)
        assert list(outs[1]) == ["old", "loss"]
        optimizer.zero_grad()
        outs[1]["loss"].backward()
        optimizer.step()
    assert len(compiled.retraces) == 0


def test_a_container_that_is_returned_or_kept_is_the_callers():
    kept = {}

    @jtorch.compile
    def keep(batch, x):
        kept["batch"] = batch
        batch["y"] = x * 2
        return [batch["inner"], batch]

    for k in range(CALLS):
        batch = {"inner": [1]}
        inner, whole = keep(batch, t(k))
        assert inner is batch["inner"] and whole is batch and kept["batch"] is batch
        assert batch["y"].tolist() == [2 * k]


def test_nothing_is_changed_where_a_replay_fails():
    @jtorch.compile
    def check(batch, index):
        batch["y"] = batch["x"][index]
        return batch.pop("x")

    check({"x": t(1, 2)}, jtorch.tensor([1]))
    batch = {"x": t(1, 2)}
    with pytest.raises(IndexError):
        check(batch, jtorch.tensor([7]))
    assert list(batch) == ["x"]


def test_stats_and_explain_leave_the_arguments_alone():
    compiled = jtorch.compile(pops_and_sets)
    compiled({"x": t(1, 2), "y": t(3, 4)})
    batch = {"x": t(1, 2), "y": t(3, 4)}
    assert compiled.stats(batch).kernels_us >= 0
    assert str(compiled.explain(batch))
    assert list(batch) == ["x", "y"]


SHARED = {"x": 1.0}


def also_global(batch, x):
    batch["x"] = 2.0
    return x * SHARED["x"]


def test_refusals_name_the_line_and_change_nothing():
    compiled = jtorch.compile(also_global)
    assert compiled({"x": 1.0}, t(1)).tolist() == [1]
    with pytest.raises(CompileError, match=r"test_containers.py:\d+ in also_global.*reaches from outside"):
        compiled(SHARED, t(1))
    assert SHARED == {"x": 1.0}

    def by_tensor(batch, x):
        batch[x] = 1

    batch = {}
    with pytest.raises(CompileError, match=r"test_containers.py:\d+ in by_tensor.*a key that only this call"):
        jtorch.compile(by_tensor)(batch, t(1))
    assert batch == {}


def test_a_hook_that_would_change_one_at_a_later_backward_is_refused():
    def hooks(batch, w):
        y = w * 2
        y.register_hook(lambda g: batch.update(g=g))
        return y.sum()

    with pytest.raises(CompileError, match=r"on the way back.*changes what is outside"):
        jtorch.compile(hooks)({}, t(1, grad=True))

    def inside(batch, w):
        hooks(batch, w).backward()

    compiled = jtorch.compile(inside)
    for _ in range(CALLS):
        batch = {}
        compiled(batch, t(1, grad=True))
        assert batch["g"].tolist() == [1]


def test_an_empty_list_passed_by_keyword_alone_is_told_from_none():
    f = jtorch.compile(lambda x, *, out=None: x * 2 if out is None else x * 3)
    assert [f(t(1), out=[]).item(), f(t(1)).item(), f(t(1), out=[]).item(), f(t(1)).item()] == [3, 2, 3, 2]


def test_what_lies_in_a_list_or_dict_of_another_class_is_the_callers():
    class Rows(list):
        pass

    class Table(dict):
        pass

    kinds = (lambda v: Rows([v]), lambda v: Table({0: v}), lambda v: collections.defaultdict(list, {0: v}))
    values = (lambda x: x.sum().item(), lambda x: x * 2, lambda x: (x * 2).numpy(), lambda x: 5)
    for k, (make, value) in enumerate(itertools.product(kinds, values)):

        def f(x, held):
            held[0].append(value(x))  # noqa: B023
            return x * len(held[0])

        compiled = jtorch.compile(f)
        for n in (1, 2, 2):
            plain, recorded = make([]), make([])
            expected = f(jtorch.ones(2) * n, plain)
            assert compiled(jtorch.ones(2) * n, recorded).tolist() == expected.tolist(), (k, n)
            assert repr(recorded) == repr(plain), (k, n)
