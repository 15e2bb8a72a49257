"""Calls that cannot be recorded run eagerly: as if nobody had tried, and told once."""

from __future__ import annotations

import collections
import contextvars
import functools
import io
import itertools
import logging
import random
import types
import warnings

import numpy as np
import pytest

import jtorch
from jtorch.compile import api
from jtorch.errors import CompileError, EagerWarning, InternalError

nn, F = jtorch.nn, jtorch.nn.functional


@pytest.fixture(autouse=True)
def _as_users_run_it(monkeypatch):
    monkeypatch.delenv("JTORCH_FULLGRAPH", raising=False)


def refused(x):
    """A line that no recording takes."""
    return x.detach().numpy().copy()


VARIABLE = contextvars.ContextVar("variable", default=0)


class Counting:
    def __init__(self):
        self.n, self.log, self.table = 0, [], {}


# Each is (what there is at first, the function over it): it does something, and then what cannot be recorded.


def appends():
    log = []
    return log, lambda x: (log.append(x.sum().item()), log.extend([1, 2]), refused(x))[-1]


def attributes():
    s = Counting()

    def f(x):
        s.n += 1
        s.table["k"] = s.n
        s.log.append(s.n)
        s.last = s.n
        return refused(x * s.n)

    return s, f


def iterators():
    source = itertools.count()
    return source, lambda x: refused(x * next(source))


def generators():
    source = (n * n for n in range(100))
    return [source], lambda x: refused(x + next(source))


def zipped():
    source = zip(range(100), "ab" * 50, strict=True)

    def f(x):
        n, text = next(source)
        return refused(x * n), text

    return [source], f


def deques():
    queue = collections.deque(range(20))

    def f(x):
        first = queue.popleft()
        queue.append(-first)
        return refused(x * first)

    return queue, f


def dicts():
    table = {n: str(n) for n in range(20)}

    def f(x):
        key, _ = table.popitem()
        table.setdefault("seen", []).append(key)
        return refused(x * key)

    return table, f


def counters():
    seen = collections.Counter()

    def f(x):
        seen["calls"] += 1
        seen.update(["a", "b"])
        return refused(x), seen["calls"]

    return seen, f


def optimizers():
    jtorch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 1))
    optimizer = jtorch.optim.Adam(model.parameters(), lr=0.1)

    def f(x):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return refused(loss)

    return model.state_dict(), f


def schedulers():
    parameter = nn.Parameter(jtorch.ones(2))
    optimizer = jtorch.optim.SGD([parameter], lr=1.0, momentum=0.9)
    scheduler = jtorch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)

    def f(x):
        optimizer.zero_grad()
        (parameter * x.sum()).sum().backward()
        optimizer.step()
        scheduler.step()
        return refused(parameter), optimizer.param_groups[0]["lr"]

    return parameter, f


def draws():
    jtorch.manual_seed(7)
    own = jtorch.Generator().manual_seed(3)
    return None, lambda x: refused(x + jtorch.randn(5, 3) + jtorch.rand(5, 3, generator=own))


def python_draws():
    random.seed(3)
    np.random.seed(4)
    return None, lambda x: refused(x * random.random()) + np.random.rand()


def in_place():
    state = jtorch.zeros(3)

    def f(x):
        state.add_(x.sum(0))
        state[0] = 5.0
        x.mul_(2)
        return refused(state), state._version

    return state, f


def numpy_arrays():
    array = np.zeros(3)

    def f(x):
        array[0] += 1
        return refused(x), array.copy()

    return array, f


def gradients():
    p = nn.Parameter(jtorch.ones(3))

    def f(x):
        (p * x).sum().backward()
        return refused(p.grad)

    return p, f


def streams():
    stream = io.StringIO()

    def f(x):
        stream.write("x")
        stream.seek(0)
        stream.write("yz")
        return refused(x), stream.getvalue()

    return stream, f


def cached():
    calls = []

    @functools.lru_cache
    def helper(n):
        calls.append(n)
        return n * 2

    return calls, lambda x: refused(x * helper(x.shape[0]))


def context_variables():
    VARIABLE.set(0)

    def f(x):
        VARIABLE.set(VARIABLE.get() + 1)
        return refused(x * VARIABLE.get())

    return VARIABLE, f


def nonlocals():
    n = 0

    def f(x):
        nonlocal n
        n += 1
        return refused(x), n

    return None, f


def modes():
    module = nn.Dropout(0.5)

    def f(x):
        module.train(not module.training)
        jtorch.manual_seed(1)
        return refused(module(x)), module.training

    return module, f


def buffers():
    module = nn.BatchNorm1d(3)

    def f(x):
        return refused(module(x))

    return module.state_dict(), f


def raised():
    log = []

    def f(x):
        log.append("in")
        refused(x)
        log.append("out")
        raise KeyError(f"told {len(log)}")

    return log, f


def handled():
    log = []

    def f(x):
        try:
            log.append(float(refused(x).sum()))
            raise ValueError
        except ValueError:
            log.append("caught")
        finally:
            log.append("finally")
        return refused(x)

    return log, f


def branches():
    log = []

    def f(x):
        if x.sum() > 0:
            log.append("positive")
        return refused(x)

    return log, f


def masks():
    return None, lambda x: refused(x[x > 0])


def classes():
    made = []

    def f(x):
        made.append(type("Made", (), {"n": len(made)}))
        return refused(x), [cls.n for cls in made]

    return None, f


def hooks():
    module, log = nn.Linear(3, 2), []
    jtorch.manual_seed(0)
    module.register_forward_hook(lambda m, a, out: log.append(out.shape))

    def f(x):
        module.register_buffer("seen", jtorch.ones(1) * len(log))
        return refused(module(x) * module.seen)

    return log, f


PROGRAMS = [
    appends, attributes, iterators, generators, zipped, deques, dicts, counters, optimizers, schedulers,
    draws, python_draws, in_place, numpy_arrays, gradients, streams, cached, context_variables, nonlocals,
    modes, buffers, raised, handled, branches, masks, classes, hooks,
]  # fmt: skip


def shown(value):
    """What one sees of a value."""
    if isinstance(value, jtorch.Tensor):
        return shown(value.detach().numpy()), shown(value.grad), value.requires_grad
    if isinstance(value, np.ndarray):
        return value.dtype.name, value.shape, value.tolist()
    if isinstance(value, io.StringIO):
        return value.getvalue(), value.tell()
    if isinstance(value, contextvars.ContextVar):
        return value.get()
    if isinstance(value, dict):
        return [(key, shown(v)) for key, v in value.items()]
    if isinstance(value, (list, tuple, collections.deque)):
        return [shown(v) for v in value]
    if isinstance(value, (Counting, nn.Module)):
        return [(key, shown(v)) for key, v in vars(value).items() if key[0] != "_"]
    return next(value) if isinstance(value, (types.GeneratorType, zip)) else repr(value)


def run(make, wrap, calls):
    state, f = make()
    f, found = wrap(f), []
    for k in range(calls):
        x = jtorch.arange(15.0).reshape(5, 3) - (k % 3) * 6
        try:
            found.append((shown(f(x)), shown(x)))
        except Exception as error:
            found.append((type(error), str(error), shown(x)))
    return found, shown(state), jtorch.rand(2).tolist(), random.random()


@pytest.mark.parametrize("make", PROGRAMS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("dynamic", [None, True])
def test_a_call_that_cannot_be_recorded_is_eager_mode_s(make, dynamic):
    random.seed(0)
    jtorch.manual_seed(0)
    expected = run(make, lambda f: f, 6)
    random.seed(0)
    jtorch.manual_seed(0)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert run(make, lambda f: jtorch.compile(f, dynamic=dynamic), 6) == expected
    assert [w.category for w in told if issubclass(w.category, EagerWarning)] == [EagerWarning]


def test_it_is_told_once_with_the_line_and_noted():
    @jtorch.compile
    def step(x):
        return refused(x)

    with pytest.warns(
        EagerWarning, match=r"test_eager_calls.py:\d+ in refused: numpy\(\) needs the elements"
    ) as told:
        for n in (3, 4, 3):
            step(jtorch.ones(n))
    assert len(told) == 1
    assert told[0].filename == __file__
    (entry,) = step.retraces
    assert entry.outcome == "eager"
    assert "needs the elements" in str(entry)


def test_fullgraph_makes_an_error_of_it(monkeypatch):
    with pytest.raises(CompileError, match="needs the elements"):
        jtorch.compile(refused, fullgraph=True)(jtorch.ones(3))
    monkeypatch.setenv("JTORCH_FULLGRAPH", "1")
    with pytest.raises(CompileError, match="needs the elements"):
        jtorch.compile(refused)(jtorch.ones(3))
    with pytest.warns(EagerWarning):
        jtorch.compile(refused, fullgraph=False)(jtorch.ones(3))


def test_calls_that_can_be_recorded_are():
    """The way of a flag among the arguments that cannot be is eager, the others are not."""

    @jtorch.compile
    def step(x, told=False):
        y = x * 2
        return refused(y) if told else y + 1

    with pytest.warns(EagerWarning):
        for told in (False, True, False, True, False):
            result = step(jtorch.ones(3), told)
            assert np.allclose(result if told else result.numpy(), 2 if told else 3)
    assert sum(map(len, step.plans.values())) == 1
    assert step.calls >= 2


def test_moving_sizes_are_not_tried_forever():
    tried = []

    @jtorch.compile
    def step(x):
        tried.append(x.shape[0])
        return refused(x)

    with pytest.warns(EagerWarning):
        for n in range(3, 40):
            assert len(step(jtorch.ones(n))) == n
    assert tried == list(range(3, 40))
    assert len(step.retraces) == 1


def test_state_that_lets_it_be_recorded_is_looked_at():
    config = types.SimpleNamespace(told=True)

    @jtorch.compile
    def step(x):
        y = x * 2
        return (refused(y), y)[1] if config.told else y

    with pytest.warns(EagerWarning):
        step(jtorch.ones(3))
    config.told = False
    step(jtorch.ones(3))
    assert sum(map(len, step.plans.values())) == 1


def test_what_a_disabled_callee_did_is_not_done_again():
    calls = []

    @jtorch.compiler.disable
    def callee(x):
        calls.append(1)
        return x * 2

    @jtorch.compile
    def step(x):
        with jtorch.no_grad():
            y = callee(x)
        return refused(y)

    with pytest.raises(CompileError, match="needs the elements"):
        step(jtorch.ones(3))
    assert calls == [1]


def test_internal_errors_stay_errors(monkeypatch):
    def broken(*_, **__):
        raise AssertionError("broken")

    monkeypatch.setattr(api, "CompiledPlan", broken)
    with pytest.raises(InternalError, match="broken"):
        jtorch.compile(lambda x: x + 1)(jtorch.ones(3))


def test_a_compiled_function_inside_another_is_part_of_it():
    inner = jtorch.compile(refused)

    @jtorch.compile
    def outer(x):
        return inner(x * 2) + 1

    with pytest.warns(EagerWarning) as told:
        assert outer(jtorch.ones(2)).tolist() == [3.0, 3.0]
        assert outer(jtorch.ones(2)).tolist() == [3.0, 3.0]
    assert {str(w.message).split("'")[1] for w in told} == {"outer", "refused"}


def test_logging_says_what_eager_mode_says(caplog):
    log = logging.getLogger("some")

    def step(x):
        log.warning("sum %s", x.sum().item())
        return x

    with caplog.at_level("WARNING"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run_it = jtorch.compile(step)
        for k in range(3):
            run_it(jtorch.ones(2) * k)
    assert [r.getMessage() for r in caplog.records] == ["sum 0.0", "sum 2.0", "sum 4.0"]


def test_what_is_printed_is_printed_at_each_call(capsys):
    @jtorch.compile
    def step(x):
        y = x.sum()
        print("sum", y)
        print("twice", y.item() * 2)
        return y

    with pytest.warns(EagerWarning, match="calls print"):
        for k in range(3):
            step(jtorch.ones(2) * k)
    told = [f"sum tensor({2 * k}.)\ntwice {4.0 * k}\n" for k in range(3)]
    assert capsys.readouterr().out == "".join(told)
