"""Numbers of ``.item()``, disabled callees and observation where Python's own rules are easily missed."""

from __future__ import annotations

import fractions
import functools
import operator
import pathlib
import sys
import threading
import types
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import jtorch
from jtorch.compiler import disable
from jtorch.core.errors import CompileError, VerifyError
from tests.compile.observe.observing import assert_noticed, setting, t


def outcome(function, arguments):
    try:
        return repr(function(*arguments))
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def check(function, *calls, plans=1):
    """Compiled, it gives what it gives uncompiled, or raises the same, by that many recordings."""
    compiled = jtorch.compile(function, mode="interpret")
    for arguments in calls:
        assert outcome(compiled, arguments) == outcome(function, arguments)
    assert sum(map(len, compiled.plans.values())) == plans


def refused(function, match, *arguments):
    with pytest.raises(CompileError, match=rf"test_python_rules\.py:\d+ in .*{match}"):
        jtorch.compile(function, mode="interpret")(*arguments)


# -- numbers -------------------------------------------------------------------------------------------------

FLOATS = [(t(1.5, 2),), (t(-0.5, 3),)]
INTS = [(jtorch.tensor([1, 2]),), (jtorch.tensor([-7, 3]),)]
BOOLS = [(jtorch.tensor([True, False]),), (jtorch.tensor([False, False]),)]


@pytest.mark.parametrize(
    ("function", "calls"),
    [
        (lambda x: x * (x[0].item() * np.int64(2)), FLOATS),  # was computed in int64
        (lambda x: x * (np.int64(3) - x[0].item()), FLOATS),
        (lambda x: x * (np.int8(3) + x[0].item()), FLOATS),
        (lambda x: x * (np.float64(0.5) + x[0].item()), FLOATS),
        (lambda x: x * (x[0].item() + np.float32(0.5)), FLOATS),
        (lambda x: x + x[0].item() * np.array([2, 4]), FLOATS),
        (lambda x: x + (x[0].item() + np.bool_(True)), INTS),
        (lambda x: x[0].item() / x, [(t(5, 1, 3),), (t(7, 1, 3),)]),
        (lambda x: abs(x[0].item()), [(t(-0.0),), (t(0.0),)]),
        (lambda x: (abs(x[0].item()), +x[0].item(), -x[0].item()), BOOLS),
        (lambda x: x[0].item() is None, BOOLS),
        (lambda x: (x > 0).sum().item() + (x > 1).sum().item() - 5, INTS),
        (lambda x: 1 / x[0].item(), [(t(2),), (t(0),)]),
        (lambda x: 1 / x[0].item(), [(jtorch.tensor([2]),), (jtorch.tensor([0]),)]),
        (lambda x: 1.0 / x[0].item(), [(jtorch.tensor([2]),), (jtorch.tensor([0]),)]),
        (lambda x: x[0].item() + 2**70, FLOATS),
        (lambda x: x[0].item() == "a", FLOATS),
    ],
)
def test_numbers_compute_as_pythons(function, calls):
    check(function, *calls)


def test_a_float_item_below_an_integer_that_is_no_int64():
    check(lambda x: x[0].item() < 2**70, *FLOATS)


def test_comparing_with_numpys_bools():
    check(lambda x: bool(x[0].item() == np.True_), *INTS, plans=2)


BIG = jtorch.tensor([2**62, 2**62])


@pytest.mark.parametrize(
    ("function", "before", "after"),
    [
        (lambda x: x[0].item() + x[1].item(), jtorch.tensor([1, 2]), BIG),
        (lambda x: x[0].item() / 3, jtorch.tensor([1, 2]), jtorch.tensor([2**53 + 1, 0])),
        (lambda x: x[0].item() == 2.0**53, jtorch.tensor([1, 2]), jtorch.tensor([2**53 + 1, 0])),
        (lambda x: -x[0].item(), jtorch.tensor([1, 2]), jtorch.tensor([-(2**63), 0])),
    ],
)
def test_integers_too_large_are_refused_in_later_calls_too(function, before, after):
    compiled = jtorch.compile(function, mode="interpret")
    assert compiled(before) == function(before)
    with pytest.raises(CompileError, match=r"an integer of more than \d+ needs"):
        compiled(after)


@pytest.mark.parametrize(
    ("function", "match", "argument"),
    [
        (lambda x: x[0].item() + 2**70, r"\d+ is too large", INTS[0][0]),
        (lambda x: x[0].item() < 2**70, r"\d+ is too large", INTS[0][0]),
        (lambda x: x[0].item() == 2**53 + 1, r"\d+ is too large", FLOATS[0][0]),
        (lambda x: x * (np.int8(5) + x[0].item()), "NumPy int8", INTS[0][0]),
        (lambda x: "a" * x[0].item(), "a size or an index needs", INTS[0][0]),
        (lambda x: x[0].item() == 1j, r"float\(\) needs", FLOATS[0][0]),
        (lambda x: x[0].item() > fractions.Fraction(1, 2), r"float\(\) needs", FLOATS[0][0]),
        (lambda x: x[0].item() is True, "'is' True or False", BOOLS[0][0]),
    ],
)
def test_what_is_refused_by_name(function, match, argument):
    refused(function, match, argument)


@pytest.mark.parametrize(
    "function", [lambda x: x[0].item() < "2", lambda x: x[0].item() + "a", lambda x: x[0].item() + [1]]
)
def test_what_is_no_number_is_a_type_error(function):
    for run in (function, jtorch.compile(function)):
        with pytest.raises(TypeError, match=r"not supported|unsupported operand"):
            run(FLOATS[0][0])


@pytest.mark.parametrize(
    ("function", "plans"),
    [
        (lambda x, v: x * (v * np.int64(2)), 1),
        (lambda x, v: x * (np.int64(2) + v % np.int32(2)), 2),
        (lambda x, v: v / x, 1),
        (lambda x, v: x * 2 if v == np.True_ else x, 2),
        (lambda x, v: x * 2 if v > fractions.Fraction(3, 2) else x, 2),
        (lambda x, v: x * 2 if v == 1 + 0j else x, 2),
    ],
)
def test_float_arguments_with_other_kinds_of_numbers(function, plans):
    check(function, (t(3, 7), 1.0), (t(3, 7), 5.0), plans=plans)


def test_numpy_arrays_of_floats_next_to_them():
    offsets = np.array([2.0, 4.0], np.float32)
    check(lambda x, v: x + v * offsets, (t(3, 7), 1.0), (t(3, 7), 1.5))
    check(lambda x: x + x[0].item() * offsets, *FLOATS)


# -- disabled callees ----------------------------------------------------------------------------------------


def test_an_error_of_a_callee_that_the_function_catches_is_not_recorded():
    @disable
    def risky(x):
        if x[0] > 0:
            raise ValueError("too large")
        return x * 2

    def careful(x):
        try:
            return risky(x)
        except ValueError:
            return x * 0

    refused(careful, "raises ValueError, which the compiled function catches", t(1))


@pytest.mark.parametrize("keywords", [{}, {"mode": "interpret"}], ids=str)
def test_a_failure_after_a_callee_leaves_tensors_as_they_were(keywords):
    seen, total = [], jtorch.zeros(3)

    @disable
    def note(x):
        seen.append(x.sum().item())

    @functools.partial(jtorch.compile, **keywords)
    def pick(x, index):
        total.add_(x)
        note(x)
        return total[index]

    pick(jtorch.ones(3), jtorch.tensor([1]))
    with pytest.raises(IndexError):
        pick(jtorch.ones(3), jtorch.tensor([7]))
    assert total.tolist() == [1.0, 1.0, 1.0]
    assert seen == [3.0, 3.0]
    assert pick(jtorch.ones(3), jtorch.tensor([0])).tolist() == [2.0]


def test_verifying_a_callee_that_draws_reports_that():
    @disable
    def noisy(x):
        return x + jtorch.rand(3)

    with pytest.raises(VerifyError, match="random generator's position"):
        jtorch.compile(lambda x: noisy(x) * 2, verify="first")(jtorch.ones(3))


# -- arguments that are made anew for each call --------------------------------------------------------------


class Scaler:
    def __init__(self, factor):
        self.factor = factor

    def scale(self, x):
        return x * self.factor


TWICE = Scaler(2)


@pytest.mark.parametrize(
    ("function", "make", "other"),
    [
        (lambda x, v: x.reshape(v), lambda: jtorch.ones(2, 1).shape, jtorch.ones(1, 2).shape),
        (lambda x, v: x[v], lambda: slice(0, 1), slice(1, 2)),
        (lambda x, v: x * sum(v), lambda: range(3), range(4)),
        (lambda x, v: x * (2 if v == 2 else 1), lambda: np.int64(2), np.int64(3)),
        (lambda x, v: x / (1 if str(v) == "0.0" else 2), lambda: np.float64(0.0), np.float64(-0.0)),
        (lambda x, v: x * v, lambda: np.float32("nan"), np.float64(2)),
        (lambda x, v: x * len(str(v)), lambda: pathlib.PurePath("a"), pathlib.PurePath("ab")),
        (lambda x, v: x * float(v), lambda: fractions.Fraction(1, 2), fractions.Fraction(1, 3)),
        (lambda x, v: v(x), lambda: TWICE.scale, Scaler(3).scale),
        (lambda x, v: x.to(v), lambda: jtorch.device("cpu"), None),
    ],
)
def test_values_made_anew_are_recorded_once(function, make, other):
    compiled, x = jtorch.compile(function, mode="interpret"), t(1, 2)
    for _ in range(3):
        assert repr(compiled(x, make())) == repr(function(x, make()))
    assert sum(map(len, compiled.plans.values())) == 1
    if other is not None:
        assert repr(compiled(x, other)) == repr(function(x, other))
        assert sum(map(len, compiled.plans.values())) == 2


# -- observation ---------------------------------------------------------------------------------------------


def _keywords():
    scale = functools.partial(lambda a, b=1: a * b, 3, b=4)
    return lambda x: x * scale(), setting(scale.keywords, "b", 9)


def _registry():
    @functools.singledispatch
    def scale(value):
        return 2

    return lambda x: x * scale("a"), lambda: scale.register(str, lambda value: 7) and None


def _bound_key():
    weights = {1: 5, 3: 2}
    return lambda x: x * max([1, 3], key=weights.get), setting(weights, 3, 9)


def _names():
    config = types.SimpleNamespace(a=1)
    return lambda x: x * (2 if "b" in dir(config) else 1), setting(config, "b", 1)


def _imported():
    def module(scale):
        made = types.ModuleType("jtorch_test_scales")
        made.scale = scale
        sys.modules["jtorch_test_scales"] = made

    def f(x):
        import jtorch_test_scales

        return x * jtorch_test_scales.scale

    def change():
        module(5)
        return lambda: sys.modules.pop("jtorch_test_scales")

    module(2)
    return f, change


@pytest.mark.parametrize("make", [_keywords, _registry, _bound_key, _names, _imported])
def test_noticed(make):
    assert_noticed(make)


def _in_a_thread(x):
    thread = threading.Thread(target=lambda: None)
    thread.start()
    thread.join()
    return x


def _in_a_pool(x):
    with ThreadPoolExecutor(1) as pool:
        return x * pool.submit(lambda: 2).result()


def test_other_threads_are_not_started_by_a_recording():
    refused(_in_a_thread, "starts work in another thread", t(1))
    refused(_in_a_pool, "starts work in another thread", t(1))


def test_changes_through_methods_that_are_handed_on():
    numbers, table = [1], {}
    refused(lambda x: x * len(list(map(numbers.extend, [[2]]))), "changes the entries of a list", t(1))
    refused(lambda x: x * len(list(map(table.__setitem__, [1], [2]))), "changes the entries of a dict", t(1))
    refused(
        lambda x: x * len(list(map(operator.setitem, [numbers], [0], [9]))), r"hands setitem\(\) to", t(1)
    )
    assert (numbers, table) == ([1], {})
    refused(lambda x: x * len(list(map(numbers.append, [3]))), "changes the entries of a list", t(1))
    assert numbers == [1]


def test_an_object_of_another_class():
    class Mild:
        scale = 2

    class Strong:
        scale = 5

    chosen = Mild()
    assert_noticed(lambda: (lambda x: x * chosen.scale, setting(chosen, "__class__", Strong)))
