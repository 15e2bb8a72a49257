"""Objects that a function makes once and keeps outside: the call that fills a cache leaves it filled, and the
recording is of a function that finds it so."""

import jtorch
from jtorch import nn
from jtorch.core.errors import CompileError
from tests.compile.observe.observing import t


class Backend:
    def __init__(self, rate=2.0):
        self.rate = rate


class Holder:
    backend = None

    def get(self):
        if self.backend is None:
            self.backend = Backend()
        return self.backend


class Lazy(nn.Module):
    backend = None
    get = Holder.get

    def forward(self, x):
        return x * self.get().rate


def recordings(compiled):
    return sum(map(len, compiled.plans.values()))


def test_a_dict_of_any_keys_is_filled_once():
    cache = {}

    def found(key):
        if key not in cache:
            cache[key] = Backend()
        return cache[key]

    f = jtorch.compile(lambda x: x * found(int).rate * found("name").rate * found((1, str)).rate)
    assert f(t(1)).tolist() == f(t(1)).tolist() == [8.0]
    assert list(cache) == [int, "name", (1, str)] and recordings(f) == 1
    kept = cache[int]
    kept.rate = 5.0
    assert f(t(1)).tolist() == [20.0] and cache[int] is kept
    cache.clear()
    assert f(t(1)).tolist() == [8.0] and cache[int] is not kept and len(cache) == 3


def test_an_attribute_is_filled_once():
    for owner, f in ((holder := Holder(), lambda x: x * holder.get().rate), (lazy := Lazy(), lazy)):
        compiled = jtorch.compile(f)
        assert compiled(t(1)).tolist() == compiled(t(1)).tolist() == [2.0]
        kept = owner.backend
        kept.rate = 3.0
        assert compiled(t(1)).tolist() == [3.0] and owner.backend is kept


def test_what_a_function_fills_before_it_raises_stays():
    cache = {}

    def f(x):
        cache["a"] = cache.get("a") or Backend()
        raise ValueError("no")

    try:
        jtorch.compile(f)(t(1))
    except ValueError:
        assert cache["a"].rate == 2.0


def test_a_recording_that_fails_comes_after_the_call_that_fills():
    cache = {}

    def f(x):
        if "a" not in cache:
            cache["a"] = Backend()
        return x.repeat(20).tolist()

    compiled = jtorch.compile(f)
    assert compiled(t(1)) == [1.0] * 20
    kept = cache["a"]
    try:
        compiled(t(1))
        raise AssertionError("is refused")
    except CompileError as error:
        assert "tolist" in str(error) and cache == {"a": kept}


def test_the_first_call_goes_its_own_way():
    def by_a_flag(x, cache):
        first = "a" not in cache
        if first:
            cache["a"] = Backend()
        return x * (100 if first else 1) * cache["a"].rate

    def by_a_return(x, cache):
        if "a" in cache:
            return x * 5
        cache["a"] = Backend()
        return x * 2

    def by_a_number(x, cache):
        n, k = len(cache), 1.0
        if "a" not in cache:
            cache["a"] = Backend()
            k = 50.0
        return x * k + n

    def by_a_later_branch(x, cache):
        if "a" not in cache:
            cache["a"] = Backend()
        if "b" not in cache:
            cache["b"] = Backend(cache["a"].rate * 3)
            return x * cache["b"].rate
        return x - cache["b"].rate

    for f in (by_a_flag, by_a_return, by_a_number, by_a_later_branch):
        mine, theirs = {}, {}
        cached = jtorch.compile(lambda x, f=f, cache=mine: f(x, cache))
        for _ in range(3):
            assert cached(t(1)).tolist() == f(t(1), theirs).tolist(), f.__name__
        mine.clear()
        theirs.clear()
        for _ in range(2):
            assert cached(t(1)).tolist() == f(t(1), theirs).tolist(), f.__name__


def test_an_object_that_is_new_at_each_call_or_holds_what_is_computed_is_refused():
    holder = Holder()

    def anew(x):
        holder.backend = Backend()
        return x

    def computed(x):
        if holder.backend is None:
            holder.backend = Backend(x * 2)
        return x

    for f in (computed, anew):
        before = holder.backend
        compiled = jtorch.compile(f)
        try:
            if f is anew:  # which the first call does not know
                assert compiled(t(1)).tolist() == [1.0]
                before = holder.backend
            compiled(t(1))
            raise AssertionError("is refused")
        except CompileError as error:
            assert f"in {f.__name__}: '{f.__name__}' changes 'backend' of a Holder" in str(error)
            assert holder.backend is before


def test_what_is_done_to_an_object_after_it_was_kept_is_not_lost():
    def with_one_line(x):
        if holder.backend is None:
            holder.backend = Backend()
            holder.backend.rate = 3.0
        return x * holder.backend.rate

    holder = Holder()
    try:
        jtorch.compile(with_one_line)(t(1))
        raise AssertionError("is refused")
    except CompileError as error:
        assert "in with_one_line: 'with_one_line' changes 'backend' of a Holder" in str(error)
    assert holder.backend is None
    assert with_one_line(t(1)).tolist() == jtorch.compile(with_one_line)(t(1)).tolist() == [3.0]


def test_what_was_changed_before_something_is_kept_is_not_lost():
    class Held:
        pass

    held, log = Held(), {"n": 0}
    held.cache = None

    def f(x):
        if held.cache is None:
            log["n"] += 1
            held.cache = Held()
        return x * 2

    try:
        jtorch.compile(f)(jtorch.ones(2))
    except CompileError as error:
        assert "held" in str(error) or "cache" in str(error)
    assert (held.cache is None) == (log["n"] == 0)  # both or neither
