"""Calls that cannot be recorded run eagerly: as if nobody had tried, and told once."""

from __future__ import annotations

import array
import bisect
import collections
import contextlib
import contextvars
import ctypes
import decimal
import functools
import hashlib
import heapq
import io
import itertools
import logging
import operator
import queue
import random
import struct
import threading
import types
import unittest.mock
import warnings
import zlib

import numpy as np
import pytest

import jtorch
from jtorch.compile import recorder
from jtorch.errors import CompileError, EagerWarning, InternalError

nn, F = jtorch.nn, jtorch.nn.functional


@pytest.fixture(autouse=True)
def _as_users_run_it(monkeypatch):
    monkeypatch.delenv("JTORCH_FULLGRAPH", raising=False)


def refused(x):
    """A line that no recording takes."""
    return np.sort(x.detach().numpy()[None])[0]


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
        EagerWarning, match=r"test_eager_calls.py:\d+ in refused: np.sort\(\) of .* needs the elements"
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


class Scaled(jtorch.nn.Module):
    """A scale that the first batch decides, as in flows; once it stands, nothing here cannot be recorded."""

    def __init__(self):
        super().__init__()
        self.scale = jtorch.nn.Parameter(jtorch.ones(3))
        self.register_buffer("initialized", jtorch.tensor(False))

    def forward(self, x):
        if not self.initialized:
            with jtorch.no_grad():
                self.scale.copy_(jtorch.from_numpy(refused(x.std(0))))
                self.initialized.fill_(True)
        return x * self.scale


def test_what_the_first_batch_decides_is_no_reason_for_later_ones():
    def trained(compiled):
        module = Scaled()
        optimizer = jtorch.optim.Adam(module.parameters(), 0.1)

        def step(x):
            optimizer.zero_grad()
            loss = (module(x) - 1).square().mean()
            loss.backward()
            optimizer.step()
            return loss

        step = jtorch.compile(step) if compiled else step
        x = jtorch.arange(12.0).reshape(4, 3).sin()
        return [step(x + k).item() for k in range(6)], step

    expected, _ = trained(compiled=False)
    with pytest.warns(EagerWarning):
        found, step = trained(compiled=True)
    assert np.allclose(found, expected, rtol=1e-5)
    assert sum(map(len, step.plans.values())) == 1
    assert step.calls >= 4


def test_ways_that_cannot_be_recorded_are_not_tried_forever(monkeypatch):
    tried = []

    def capture(*args, of=recorder.capture, **kwargs):
        tried.append(1)
        return of(*args, **kwargs)

    monkeypatch.setattr(recorder, "capture", capture)

    @jtorch.compile
    def step(x):
        return refused(x) if x.sum() > 0 else x

    with pytest.warns(EagerWarning):
        for _ in range(12):
            assert len(step(jtorch.ones(3))) == 3
    assert len(tried) == 3


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

    expected = step(jtorch.ones(3))  # eager, to see the callee at work
    assert calls == [1]
    with pytest.warns(EagerWarning, match="needs the elements"):  # and goes on from what it gave
        assert step(jtorch.ones(3)).tolist() == expected.tolist()
    assert calls == [1, 1]
    step(jtorch.ones(3))
    step(jtorch.ones(4))
    assert calls == [1, 1, 1, 1]


def test_internal_errors_stay_errors(monkeypatch):
    def broken(*_, **__):
        raise AssertionError("broken")

    monkeypatch.setattr(recorder, "CompiledPlan", broken)
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

    for k in range(3):
        step(jtorch.ones(2) * k)
    told = [f"sum tensor({2 * k}.)\ntwice {4.0 * k}\n" for k in range(3)]
    assert capsys.readouterr().out == "".join(told)


# -- what code that is written in C did ----------------------------------------------------------------------


def array_case(line, n=3):
    def make():
        a = np.arange(float(n))[::-1].copy()
        space = {"a": a, "np": np, "__name__": __name__}
        exec(compile(f"def f(x):\n    {line}", __file__, "exec"), space)
        return space["f"], lambda: a.tolist()

    make.__name__ = line
    return make


def case_of(make_object, change, show):
    def make():
        made = make_object()
        return lambda x: change(made), lambda: show(made)

    return make


def record():
    return np.zeros(2, [("u", "f8"), ("v", "i4")])


def add_to_field(a):
    a["u"][0] += 1


def step_of_semaphore(semaphore):
    semaphore.acquire()


def in_bytes(b):
    struct.pack_into("i", b, 0, struct.unpack_from("i", b, 0)[0] + 1)


def in_buffer(b):
    b[0] = bytes([b[0][0] + 1])


def filled(make):
    made = make()
    for n in range(40):
        made.put(n)
    return made


def all_of(made):
    return [made.get() for _ in range(made.qsize())]


ARRAYS = [
    "a[1:] += 1", "a.sort()", "np.add(a, 1, out=a)", "np.copyto(a, a + 1)", "a.fill(a[0] + 1)",
    "a[:] = a + 1", "a[a > 0] = a[a > 0] + 1", "np.add(a, a, out=a)", "a.flat[0] = a[0] + 5",
    "np.put(a, [0], [a[0] + 1])", "a.put([0], [a[0] + 1])", "a[[0, 1]] += 1", "np.add.at(a, [0], 1)",
    "a.reshape(-1)[0] += 1", "a.T[0] += 2", "a.partition(1)", "a[...] += 1", "np.place(a, a > 0, a[0] + 3)",
    "np.negative(a, a)", "np.random.shuffle(a)",
]  # fmt: skip
CHANGES = {
    **{line: array_case(line) for line in ARRAYS},
    **{f"large: {line}": array_case(line, 2000) for line in ARRAYS},
    "push": case_of(lambda: [5, 3, 9], lambda h: heapq.heappush(h, heapq.heappop(h) + 4), list),
    "heapify": case_of(list, lambda h: (heapq.heappush(h, -len(h)), heapq.heapify(h)), list),
    "replace": case_of(lambda: [3, 4, 5], lambda h: heapq.heapreplace(h, h[0] + 9), list),
    "insort": case_of(lambda: [1, 5, 9], lambda h: bisect.insort(h, len(h)), list),
    "counter": case_of(collections.Counter, lambda c: c.update([len(c)]), dict),
    "queue": case_of(lambda: filled(queue.Queue), lambda q: q.get(), all_of),
    "priorities": case_of(lambda: filled(queue.PriorityQueue), lambda q: q.put(q.get() + 50), all_of),
    "simple": case_of(lambda: filled(queue.SimpleQueue), lambda q: q.get(), all_of),
    "semaphore": case_of(lambda: threading.Semaphore(50), step_of_semaphore, lambda s: s._value),
    "lock": case_of(
        threading.Lock, lambda k: k.release() if k.locked() else k.acquire(), lambda k: k.locked()
    ),
    "bytes": case_of(lambda: bytearray(8), in_bytes, bytes),
    "byte array": case_of(lambda: bytearray(b"ab"), lambda b: b.extend(b"c"), bytes),
    "buffer": case_of(lambda: ctypes.create_string_buffer(4), in_buffer, lambda b: b.raw),
    "array": case_of(lambda: array.array("i", [1]), lambda a: a.append(len(a)), list),
    "field": case_of(record, add_to_field, lambda a: a.tolist()),
    "compressor": case_of(zlib.compressobj, lambda c: c.compress(b"abc" * 3), lambda c: c.flush()),
    "hash": case_of(hashlib.md5, lambda h: h.update(b"a"), lambda h: h.hexdigest()),
    "rotated": case_of(lambda: collections.deque([1, 2, 3]), lambda d: d.rotate(1), list),
    "set": case_of(set, lambda s: s.add(len(s)), sorted),
    "moved": case_of(
        lambda: collections.OrderedDict(a=1, b=2), lambda d: d.move_to_end(next(iter(d))), list
    ),
    "cycle": case_of(lambda: [itertools.cycle("abc")], lambda c: next(c[0]), lambda c: next(c[0])),
    "event": case_of(threading.Event, lambda e: e.clear() if e.is_set() else e.set(), lambda e: e.is_set()),
    "memory": case_of(lambda: memoryview(bytearray(4)), lambda m: m.__setitem__(0, m[0] + 1), bytes),
    "precision": case_of(decimal.Context, lambda c: setattr(c, "prec", c.prec + 1), lambda c: c.prec),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("alone", [False, True])
def test_what_is_changed_in_c_is_changed_once_or_an_error(name, dynamic, alone):
    """By a call that cannot be recorded: for this, or for another line."""

    def outcome(wrap):
        random.seed(0)
        np.random.seed(0)
        change, shown = CHANGES[name]()

        def step(x):
            change(x)
            return x * 2 if alone else refused(x * 2)

        step = wrap(step)
        for k in range(4):
            step(jtorch.ones(3) * k)
        return shown()

    expected = outcome(lambda f: f)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert outcome(lambda f: jtorch.compile(f, dynamic=dynamic)) == expected
    except CompileError as error:
        assert "test_eager_calls.py" in str(error)


def entered(log):
    return types.SimpleNamespace(log=log, close=lambda: None)


class Draws(random.Random):
    pass


OTHERS = {
    "closing": lambda log, x, k: [q.log.append(k) for q in [closed(log)]],
    "default of a variable": lambda log, x, k: IN_VARIABLE.get(log).append(k),
    "iadd": lambda log, x, k: operator.iadd(log, [k]),
    "imul": lambda log, x, k: operator.imul(log, 2) if log else log.append(k),
    "reduce": lambda log, x, k: functools.reduce(operator.iadd, [[k], [k]], log),
    "top": lambda log, x, k: (heapq.heappush(log, (k, "z")), len(log) > 3 and heapq.heappop(log)),
    "replace": lambda log, x, k: heapq.heapreplace(log, k + 1) if log else heapq.heappush(log, k),
    "insort": lambda log, x, k: bisect.insort(log, k),
    "drawn": lambda log, x, k: log.append(DRAWS.random()),
    "reduced": lambda log, x, k: log.extend(itertools.accumulate([k, 1], operator.add)),
    "deque": lambda log, x, k: log.extend(operator.iadd(collections.deque(log, 3), [k])),
}
IN_VARIABLE = contextvars.ContextVar("in_variable")
DRAWS = Draws(0)


def closed(log):
    with contextlib.closing(entered(log)) as q:
        return q


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("alone", [False, True])
def test_code_that_nobody_watches_does_to_a_list_what_it_does_in_eager_mode(name, alone):
    def outcome(wrap):
        log = []
        DRAWS.seed(0)

        def step(x, k):
            OTHERS[name](log, x, k)
            return x * 2 if alone else refused(x * 2)

        step = wrap(step)
        for k in range(5):
            step(jtorch.ones(3), k)
        return log

    expected = outcome(lambda f: f)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert outcome(jtorch.compile) == expected


def test_with_closing_gives_what_is_outside():
    log = []

    @jtorch.compile
    def step(x, k):
        with contextlib.closing(entered(log)) as q:
            q.log.append(k)
        return x * 2

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for k in range(4):
            step(jtorch.ones(3), k)
    assert log == [0, 1, 2, 3]


def test_what_a_mock_replaces_is_replaced_for_as_long():
    class Thing:
        def number(self):
            return 1

    thing, log = Thing(), []

    @jtorch.compile
    def step(x):
        with unittest.mock.patch.object(Thing, "number", lambda self: 7):
            log.append(thing.number())
        log.append(thing.number())
        return x

    with pytest.warns(EagerWarning, match="unittest.mock"):
        step(jtorch.ones(2))
        step(jtorch.ones(2))
    assert log == [7, 1, 7, 1]


@pytest.mark.filterwarnings("ignore:Lazy modules")
@pytest.mark.parametrize("make", [lambda: nn.LazyLinear(2), nn.LazyBatchNorm1d], ids=["linear", "norm"])
def test_a_module_that_takes_its_shapes_from_a_refused_call(make):
    jtorch.manual_seed(0)
    module = make()
    step = jtorch.compile(lambda x: refused(module(x)))
    with pytest.warns(EagerWarning):
        results = [step(jtorch.ones(4, 3)) for _ in range(3)]
    jtorch.manual_seed(0)
    module = make()
    assert [r.tolist() for r in results] == [refused(module(jtorch.ones(4, 3))).tolist() for _ in range(3)]


def test_a_callable_is_not_asked_for_its_hash():
    asked = []

    class Callable:
        def __call__(self, x):
            return x * 2

        def __hash__(self):
            asked.append(1)
            return 1

    call = Callable()
    jtorch.compile(lambda x: call(x))(jtorch.ones(3))
    assert not asked


def test_what_can_be_taken_back_is():
    """Not all of the above is an error."""
    done = set()
    for name, make in CHANGES.items():
        change, _ = make()

        @jtorch.compile
        def step(x, change=change):
            change(x)
            return refused(x)

        with warnings.catch_warnings(), contextlib.suppress(CompileError):
            warnings.simplefilter("ignore")
            step(jtorch.ones(3))
            done.add(name)
    assert done >= {*ARRAYS[:-1], "push", "heapify", "insort", "counter", "byte array", "set", "rotated"}


def test_a_callee_is_not_run_again_where_the_way_back_raises():
    calls = []

    @jtorch.compiler.disable
    def callee(x):
        calls.append(1)
        return x * 2

    class Broken(jtorch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            raise ValueError("no way back")

    @jtorch.compile
    def step(x):
        with jtorch.no_grad():
            y = callee(x)
        return Broken.apply(x * y)

    x = jtorch.ones(3, requires_grad=True)
    step(x)  # eager, to see the callee at work
    with pytest.raises(CompileError, match="no way back"):
        step(x)
    assert len(calls) == 2
    with pytest.warns(EagerWarning, match="no way back"):
        loss = step(x).sum()
    assert len(calls) == 3
    with pytest.raises(ValueError, match="no way back"):
        loss.backward()


def test_questions_say_why_it_runs_eagerly():
    step = jtorch.compile(refused)
    with pytest.warns(EagerWarning):
        step(jtorch.ones(3))
    for ask in (step.explain, step.stats, step.graph, step.source):
        with pytest.raises(RuntimeError, match=r"calls of 'refused' run eagerly.*needs the elements"):
            ask()


def test_it_is_told_once_for_a_line_whatever_the_values():
    counts = collections.Counter()

    @jtorch.compile
    def step(x):
        counts.update([len(counts)])
        return x

    with pytest.warns(EagerWarning) as told:
        for _ in range(4):
            step(jtorch.ones(3))
    assert len(told) == 1
    assert dict(counts) == {0: 1, 1: 1, 2: 1, 3: 1}


def test_a_warning_of_the_function_is_given_as_in_eager_mode():
    def step(x):
        warnings.warn("hello", UserWarning, stacklevel=1)
        return x

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        run_it = jtorch.compile(step)
        for _ in range(3):
            run_it(jtorch.ones(3))
    assert [str(w.message) for w in told if w.category is UserWarning] == ["hello"] * 3


def test_arrays_that_no_tensor_can_be_run_eagerly():
    """Of negative strides; plain ones have a plan all the same."""
    f = jtorch.compile(lambda a: jtorch.tensor(a) * 2)
    for _ in range(3):
        array = np.arange(4.0)[::-1]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", EagerWarning)
            assert f(array).tolist() == [6.0, 4.0, 2.0, 0.0]
        assert f(np.arange(4.0)).tolist() == [0.0, 2.0, 4.0, 6.0]
    assert [retrace.outcome for retrace in f.retraces].count("eager") == 1
    with pytest.raises(CompileError, match="strides are not negative"):
        jtorch.compile(f.function, fullgraph=True)(np.arange(4.0)[::-1])


def test_an_ellipsis_is_no_state():
    f = jtorch.compile(lambda x, k: x[k] * 2)
    assert f(jtorch.ones(2, 3), ...).tolist() == [[2.0] * 3] * 2


@pytest.mark.filterwarnings("ignore")
def test_a_number_that_stood_for_another_one_is_not_put_back():
    class Counting(jtorch.optim.Optimizer):
        def __init__(self, parameters):
            super().__init__(parameters, {})

        @jtorch.no_grad()
        def first(self):
            for p in self.param_groups[0]["params"]:
                self.state[p]["kept"] = p * 2

        @jtorch.no_grad()
        def step(self):
            for p in self.param_groups[0]["params"]:
                self.state[p]["n"] = self.state[p].get("n", 0) + 1

    w = nn.Parameter(jtorch.ones(2))
    optimizer = Counting([w])

    def f(x):
        optimizer.first()
        optimizer.step()

    f = jtorch.compile(f)
    for _ in range(4):
        f(jtorch.ones(2))
    assert optimizer.state[w]["n"] == 4 and optimizer.state[w]["kept"].tolist() == [2.0, 2.0]


@pytest.mark.parametrize("make", [threading.Lock, threading.RLock, threading.Condition, threading.Semaphore])
def test_locks_are_free_afterwards(make):
    """Also where the call cannot be recorded, and runs eagerly within the same lock."""
    lock, log = make(), []

    def program(x):
        with lock:
            log.append(id(x))
            return x * 2

    compiled = jtorch.compile(program, fullgraph=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(3):
            assert compiled(jtorch.ones(2)).tolist() == [2.0, 2.0]
            assert lock.acquire(blocking=False)
            lock.release()


@pytest.mark.parametrize("make", [threading.Lock, threading.RLock])
def test_locks_are_taken_when_a_function_is_recorded(make):
    lock, taken = make(), []

    def program(x):
        with lock:
            return x * 2

    compiled = jtorch.compile(program)
    for _ in range(3):
        taken.append(lock.acquire(blocking=False))
        lock.release()
        assert compiled(jtorch.ones(2)).tolist() == [2.0, 2.0]
    assert taken == [True] * 3 and len(compiled.retraces) == 0


@pytest.mark.slow
def test_a_sum_that_a_long_loop_adds_to():
    """Hundreds of steps are one formula; of too many for Python's stack the call runs eagerly."""
    w = jtorch.randn(4, 4, dtype=jtorch.float64)

    def program(x, n):
        loss = 0
        for k in range(n):
            loss += (x[k % 4] @ w).sum()
        return loss

    compiled = jtorch.compile(program, fullgraph=False)
    x = jtorch.randn(4, 4, dtype=jtorch.float64)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for n in (10, 300):
            assert compiled(x, n).item() == pytest.approx(program(x, n).item())
        assert not told
        assert compiled(x, 1500).item() == pytest.approx(program(x, 1500).item())
    assert all(issubclass(each.category, jtorch.errors.EagerWarning) for each in told)


class _Doubled(jtorch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x.mul_(2))
        return x

    @staticmethod
    def backward(ctx, g):
        return g * 2


def test_a_function_that_writes_to_an_argument_with_a_graph():
    """In a recording such an argument is a leaf."""
    w = jtorch.ones(2, requires_grad=True)
    z = w * 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = jtorch.compile(lambda x: _Doubled.apply(x), fullgraph=False)(z)
    found.sum().backward()
    assert found is z and w.grad.tolist() == [2.0, 2.0]
