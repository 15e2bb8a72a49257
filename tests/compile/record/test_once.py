"""Functions that functools caches, asked for the first time by a compiled function: what they do is done
once, and what they keep is asked for at each call.

A program is a function of ``wrap``, which is the identity for eager and ``jtorch.compile`` for compiled; it
gives what is to be compared, call by call.
"""

import dataclasses
import functools

import pytest

import jtorch
from jtorch import nn
from jtorch.core.errors import CompileError
from tests.compile.collecting import collectors
from tests.compile.observe.observing import t

PROGRAMS, REFUSED, program, refused = collectors()


def plainly(value):
    if isinstance(value, jtorch.Tensor):
        return value.tolist()
    return [plainly(v) for v in value] if isinstance(value, (list, tuple)) else value


def results_of(make, wrap):
    jtorch.manual_seed(0)
    return [repr(plainly(value)) for value in make(wrap)]


@pytest.mark.slow
def test_compiled_equals_eager_call_by_call():
    for name, make in PROGRAMS.items():
        assert results_of(make, jtorch.compile) == results_of(make, lambda f: f), name


def test_what_comes_in_another_order_is_refused_with_the_line():
    for name, (make, sentence) in REFUSED.items():
        results_of(make, lambda f: f)
        with pytest.raises(CompileError) as caught:
            results_of(make, jtorch.compile)
        assert sentence in str(caught.value), name
        assert str(caught.value).startswith(f"{__file__}:"), name


@program
def effects_of_a_plain_result(wrap):
    log, state = [], {"n": 0}

    @functools.lru_cache
    def scale(n):
        log.append(n)
        state["n"] += 1
        return n * 2.0

    f = wrap(lambda x: x * scale(x.shape[0]) + state["n"])
    for n in (3, 3, 2, 3, 2):
        yield f(jtorch.ones(n)), log, state["n"]


@program
def a_setup_that_gives_nothing(wrap):
    table, buffer = {}, t(0, 0)

    @functools.cache
    def setup():
        table["k"] = t(1, 2)
        buffer.add_(1)

    def f(x):
        setup()
        return x * table["k"] + buffer

    f = wrap(f)
    for _ in range(3):
        yield f(t(1, 1)), buffer
    table["k"] = t(5, 5)
    yield f(t(1, 1))


@program
def emptied_between_calls(wrap):
    value = [1.0]

    @functools.lru_cache(None)
    def number(n):
        return value[0] * n

    @functools.lru_cache(None)
    def tensor(n):
        return jtorch.full((n,), value[0])

    f = wrap(lambda x: x * number(2) + tensor(2))
    yield f(t(1, 1))
    for value[0] in (5.0, 7.0):
        yield f(t(1, 1))
        number.cache_clear()
        yield f(t(1, 1))
        tensor.cache_clear()
        yield f(t(1, 1)), f(t(1, 1))


@program
def dropped_by_a_small_cache(wrap):
    log = []

    @functools.lru_cache(maxsize=2)
    def double(n):
        log.append(n)
        return n * 2.0

    f = wrap(lambda x, n: x * double(n))
    for n in (1, 2, 1, 2, 1, 3, 1, 2, 2, 3, 1):
        yield f(t(1, 1), n), log


@program
def which_of_two_is_asked(wrap):
    log, state = [], {"first": True}

    @functools.cache
    def double(n):
        log.append(n)
        return n * 2.0

    f = wrap(lambda x: x * double(1) if state["first"] else x * double(2))
    for first in (True, True, False, True):
        state["first"] = first
        yield f(t(1, 1)), log
    double.cache_clear()
    for first in (False, False, True):
        state["first"] = first
        yield f(t(1, 1)), log


@program
def keywords_and_what_partial_adds(wrap):
    log = []

    @functools.lru_cache(maxsize=8)
    def helper(n, *, scale=1.0, shift=0):
        log.append((n, scale, shift))
        return n * scale + shift

    @functools.lru_cache(typed=True)
    def typed(n, k=1):
        log.append((n, k))
        return n * 1.0

    part = functools.partial(helper, scale=2.0, shift=1)

    def f(x):
        x = x * helper(2, scale=3.0) * helper(2, shift=1, scale=2.0) * helper(2, **{"shift": 4})
        return x * part(2) * part(2, shift=2) * typed(2) * typed(2.0) * typed(n=3) * typed(1, k=True)

    f = wrap(f)
    for _ in range(2):
        yield f(t(1, 1)), log
    helper.cache_clear()
    for _ in range(2):
        yield f(t(1, 1)), log


@dataclasses.dataclass(frozen=True)
class Key:
    a: int


@program
def keys_of_every_kind(wrap):
    log = []

    @functools.cache
    def helper(key, more=(1, 2)):
        log.append(repr(key)[:8])
        return 2.0

    weight = t(1, 2)
    layer = nn.Linear(1, 1)

    def f(x, s):
        for key in (Key(3), helper, float, weight, layer, layer.forward, "text", None, (1, (2,)), s):
            x = x * helper(key)
        return x * helper(Key(3), more=(3, (Key(4),)))

    f = wrap(f)
    for s in (1.5, 2.5, 1.5):
        yield f(t(1, 1), s), log


@program
def keys_that_are_made_anew(wrap):
    log = []

    @functools.cache
    def helper(key):
        log.append(1)
        return 2.0

    f = wrap(lambda x: x * helper(lambda: 1) * helper(x + 1))
    for _ in range(3):
        yield f(t(1, 1)), log


@program
def tensors_among_the_arguments(wrap):
    log = []

    @functools.lru_cache(None)
    def first(x):
        log.append(1)
        return x * 2

    f = wrap(lambda x: x + first(x))
    a, b = t(1, 2), t(1, 2)
    for x in (a, a, b, a, b):
        yield f(x), log
    a.add_(1)
    yield f(a), log


@program
def a_number_that_is_counted(wrap):
    state, log = {"n": 0}, []

    @functools.cache
    def helper(k):
        log.append(k)
        return k * 2.0

    def f(x):
        state["n"] += 1
        return x * helper(state["n"] % 2)

    f = wrap(f)
    for _ in range(5):
        yield f(t(1, 1)), log, state["n"]


@program
def what_is_kept_changes(wrap):
    class Table:
        rate = 1.0

    @functools.cache
    def table():
        return {"a": 1.0, "b": [t(1, 1)], "c": Table()}

    f = wrap(lambda x: x * table()["a"] + table()["b"][0] * table()["c"].rate)
    yield f(t(1, 1))
    table()["a"] = 3.0
    yield f(t(1, 1))
    table()["b"][0].add_(4)
    yield f(t(1, 1))
    table()["c"].rate = 2.0
    yield f(t(1, 1)), f(t(1, 1))


@program
def methods_and_modules(wrap):
    class Rotary(nn.Module):
        def __init__(self):
            super().__init__()
            self.calls, self.log = 0, []

        @functools.lru_cache(maxsize=8)  # noqa: B019
        def table(self, n):
            self.log.append(n)
            return jtorch.arange(float(n))

        @functools.cached_property
        def rate(self):
            self.log.append("rate")
            return 2.0

        @functools.cached_property
        def mask(self):
            self.log.append("mask")
            return jtorch.rand(3)

        def forward(self, x):
            return x * self.table(x.shape[-1]) * self.rate * self.mask * layer(1)(x[..., :1])

    @functools.cache
    def layer(n):
        return nn.Linear(n, n)

    module = Rotary()
    f = wrap(module)
    for _ in range(2):
        yield f(jtorch.ones(1, 3)), module.log
    with jtorch.no_grad():
        layer(1).weight.zero_()
    del module.rate
    for _ in range(2):
        yield f(jtorch.ones(2, 3)), module.log


@program
def random_draws_and_an_optimizer(wrap):
    model = nn.Linear(2, 1)

    @functools.cache
    def made():
        return jtorch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), jtorch.rand(2)

    def step(x):
        optimizer, noise = made()
        optimizer.zero_grad()
        loss = model(x + noise + jtorch.rand(2)).sum()
        loss.backward()
        optimizer.step()
        return loss

    step = wrap(step)
    for _ in range(3):
        yield step(jtorch.ones(1, 2))


@program
def a_seed_that_is_set_once(wrap):
    @functools.cache
    def seeded():
        jtorch.manual_seed(3)

    def f(x):
        seeded()
        return x * jtorch.rand(2)

    f = wrap(f)
    for _ in range(3):
        yield f(t(1, 1))


@program
def what_is_written_into_what_is_kept(wrap):
    @functools.lru_cache
    def buffers(n):
        return [jtorch.zeros(n)]

    def f(x):
        buffer = buffers(2)[0]
        buffer.add_(x)
        return buffer * 1

    f = wrap(f)
    for _ in range(3):
        yield f(t(1, 1)), buffers(2)


@program
def an_error_of_the_function_afterwards(wrap):
    log = []

    @functools.cache
    def helper(n):
        log.append(n)
        return n * 2.0

    def f(x, fails):
        y = x * helper(3)
        if fails:
            raise ValueError("no")
        return y

    f = wrap(f)
    for fails in (True, False, True, False):
        try:
            yield f(t(1, 1), fails), log
        except ValueError as error:
            yield str(error), log


@program
def a_key_that_has_no_hash(wrap):
    cached = functools.cache(lambda key: 1.0)

    def f(x):
        try:
            return x * cached([1])
        except TypeError:
            return x + 7

    f = wrap(f)
    for _ in range(2):
        yield f(t(1, 1))


@program
def a_result_made_anew_in_the_link_of_the_old_one(wrap):
    count = []

    @functools.lru_cache(maxsize=1)
    def made(n):
        count.append(n)
        return jtorch.full((2,), float(len(count)))

    f = wrap(lambda x: x + made(1))
    yield f(t(1, 1))
    made(2)
    made(1)
    for _ in range(2):
        yield f(t(1, 1)), count


@program
def a_number_of_the_call_for_a_cache_that_tells_types_apart(wrap):
    log = []

    @functools.lru_cache(typed=True)
    def double(k):
        log.append(k)
        return k * 2

    f = wrap(lambda x, k: x * double(k))
    for k in (1.0, 2.0, 1.0, 2.0):
        yield f(t(1, 1), k), log, double.cache_info().misses


@refused("draws from the random generator that the compiled function draws from")
def draws_after_draws(wrap):
    noise = functools.cache(lambda: jtorch.rand(2))
    yield wrap(lambda x: x * jtorch.rand(2) * noise())(t(1, 1))


@refused("seeds a random generator that the compiled function draws from")
def seeds_after_draws(wrap):
    seeded = functools.cache(lambda: jtorch.manual_seed(3) and 2.0)
    yield wrap(lambda x: x * jtorch.rand(2) * seeded())(t(1, 1))


@refused("reads a tensor that the compiled function has changed by then")
def reads_what_is_written(wrap):
    buffer = t(0, 0)
    total = functools.cache(lambda: buffer.sum().item())

    def f(x):
        buffer.add_(1)
        return x * total()

    yield wrap(f)(t(1, 1))


@refused("changes 'n', which 'f' has read before")
def changes_what_was_read(wrap):
    state = {"n": 1}

    @functools.cache
    def helper():
        state["n"] += 1
        return 2.0

    def f(x):
        n = state["n"]
        return x * helper() * n

    yield wrap(f)(t(1, 1))


@refused("changes a module, an optimizer or a mode")
def sets_the_grad_mode(wrap):
    @functools.cache
    def helper():
        jtorch.set_grad_enabled(False)
        return 2.0

    with jtorch.enable_grad():
        yield wrap(lambda x: x * helper())(t(1, 1)), jtorch.is_grad_enabled()


@refused("raises ValueError (no)")
def raises(wrap):
    @functools.cache
    def helper():
        raise ValueError("no")

    def f(x):
        try:
            return x * helper()
        except ValueError:
            return x

    yield wrap(f)(t(1, 1))


@refused("what the cache of double() has seen")
def asked_by_code_that_is_not_watched(wrap):
    @functools.cache
    def double(n):
        return n * 2.0

    yield wrap(lambda x: x * sum(map(double, (1, 2))))(t(1, 1))


def test_code_that_is_not_watched_finds_what_was_asked_before():
    log = []

    @functools.cache
    def double(n):
        log.append(n)
        return n * 2.0

    f = jtorch.compile(lambda x: x * sum(map(double, (1, 2))))
    with pytest.raises(CompileError, match="has seen"):
        f(t(1))
    assert not log and double.cache_info().currsize == 0
    assert double(1) + double(2) == 6
    assert f(t(1)).tolist() == f(t(1)).tolist() == [6] and log == [1, 2]
    double.cache_clear()
    with pytest.raises(CompileError, match="has seen"):
        f(t(1))


def test_a_hit_costs_no_recording_and_is_counted():
    cached = functools.lru_cache(lambda n: n * 2.0)
    cached.__wrapped__.__name__ = cached.__name__ = "cached"
    f = jtorch.compile(lambda x: x * cached(2))
    f(t(1))
    before = cached.cache_info()
    for _ in range(3):
        f(t(1))
    now = cached.cache_info()
    assert (now.misses, now.currsize) == (1, 1) and now.hits == before.hits + 3
    assert sum(map(len, f.plans.values())) == 1
