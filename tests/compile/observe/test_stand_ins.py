"""What stands for a number of the call is one to all code: or the number itself is recorded, and guarded."""

from __future__ import annotations

import array
import collections
import contextlib
import dataclasses
import decimal
import fractions
import json
import marshal
import math
import numbers
import operator
import pickle
import statistics
import typing

import pytest

import jtorch
from tests.compile.numbers_of_the_call import assert_as_eager, of_a_counter, of_an_argument


@dataclasses.dataclass
class Settings:
    rate: object


@typing.runtime_checkable
class HasValue(typing.Protocol):
    value: float


def _matched(k):
    match k:
        case float():
            return "a float"
        case int():
            return "an int"


def _caught(ask):
    """Programs that catch an error that eager mode does not raise must not go another way for it."""

    def caught(k):
        try:
            return ask(k)
        except (TypeError, ValueError, AttributeError) as error:
            return type(error).__name__

    def suppressed(k):
        found = ["nothing"]
        with contextlib.suppress(TypeError, ValueError, AttributeError):
            found = [ask(k)]
        return found

    return caught, suppressed


TYPES = {
    "json": lambda k: json.dumps({"a": [k]}),
    "a json key": lambda k: json.dumps({k: 1}),
    "pickle": lambda k: pickle.loads(pickle.dumps({"k": (k,)})),
    "marshal": lambda k: marshal.loads(marshal.dumps(k)),
    "statistics": lambda k: statistics.mean([k, k]),
    "decimal": lambda k: str(decimal.Decimal(k)),
    "plus a decimal": lambda k: str(k + decimal.Decimal(1)),
    "a complex number": lambda k: (k + 1j, 1j * k, k == 1j),
    "type": lambda k: type(k).__name__,
    "getattr": lambda k: getattr(k, "value", k),
    "an attribute": lambda k: k.value,
    "set": lambda k: setattr(k, "value", 1),
    "hasattr": lambda k: [
        hasattr(k, name) for name in ("value", "var", "__index__", "__floor__", "__iter__")
    ],
    "dir": lambda k: "var" in dir(k),
    "classes": lambda k: (
        [isinstance(k, c) for c in (float, int, numbers.Real, numbers.Integral, collections.abc.Iterable)],
        isinstance(k, HasValue),
    ),
    "match": _matched,
    "texts": lambda k: (f"{k}", f"{k!r:>8}", str(k), "%s" % k, "%.2f" % k, "{:>5}".format(k)),  # noqa: UP031, UP032
    "a whole text": lambda k: "%d %x" % (k, k),  # noqa: UP031
    "a format": lambda k: f"{k:03d}",
    "index": operator.index,
    "range": lambda k: list(range(k)),
    "repeated": lambda k: ([1] * k, "a" * k),
    "an item": lambda k: list(range(9))[k],
    "a key": lambda k: {k: 1, 9: 2}[k],
    "a member": lambda k: (k in {5, 2.0}, k in [5, 2.0], [5, 2.0, -1.5].index(k)),
    "bits": lambda k: ~k,
    "shifted": lambda k: k << 1,
    "modulo": lambda k: pow(k, 2, 3),
    "plus nothing": lambda k: k + None,
    "plus a text": lambda k: "a" + k,
    "iterated": lambda k: [0 for _ in k],
    "ldexp": lambda k: math.ldexp(1.0, k),
    "factorial": math.factorial,
    "an array": lambda k: array.array("d", [k]).tolist(),
    "a fraction": lambda k: str(fractions.Fraction(k) + fractions.Fraction(1, 2) + k),
}
PROGRAMS = dict(TYPES)
for _name in ("json", "pickle", "marshal", "plus a decimal", "a complex number", "an attribute", "repeated"):
    for _wrapped in _caught(TYPES[_name]):
        PROGRAMS[f"{_name}, {_wrapped.__name__}"] = _wrapped


def _outcome(function, *args):
    try:
        return repr(function(*args))
    except jtorch.errors.CompileError as error:
        return error
    except Exception as error:  # whatever Python raises
        return type(error), str(error)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("made_of", "series"), [(of_an_argument, [(5.0, 2.0, -1.5)]), (of_a_counter, [(5, 2), (2.0, 5.5)])]
)
def test_numbers_of_the_call_are_numbers_to_all_code(made_of, series):
    assert_as_eager(PROGRAMS, made_of, series, _outcome)


def test_a_number_that_only_a_replay_knows_is_refused_whatever_the_function_catches():
    failures = []
    for name, program in PROGRAMS.items():
        if "marshal" in name:
            continue  # whose error tells nothing of the number
        compiled = jtorch.compile(lambda x, f=program: f(x.item()), mode="interpret")
        for k in (5.0, 5):
            want, got = _outcome(program, k), _outcome(compiled, jtorch.tensor(k))
            if isinstance(got, jtorch.errors.CompileError):
                if f"{__file__}:" not in str(got) or isinstance(got, jtorch.errors.InternalError):
                    failures.append(f"{name} of {k!r}: {got}")
            elif want != got and (isinstance(want, str) or want[0] is not got[0]):
                failures.append(f"{name} of {k!r}: {got}, want {want}")
    assert not failures, "\n".join(failures)


def test_only_the_number_that_is_handed_over_is_recorded_anew():
    compiled = jtorch.compile(lambda x, name, rate: (x * rate, json.dumps(name)))
    x = jtorch.ones(1)
    compiled(x, 1.0, 0.5)
    with jtorch.testing.assert_no_retrace(compiled):
        for rate in (0.25, 3.0):
            scaled, text = compiled(x, 1.0, rate)
            assert (scaled.item(), text) == (rate, "1.0")
    for name in (2.0, 0.0, -0.0, math.nan, -math.nan, math.inf):
        assert compiled(x, name, 0.5)[1] == json.dumps(name)
    assert len(compiled.retraces) == 6
    for name in (-0.0, math.nan, math.inf, 0.0):
        assert compiled(x, name, 0.5)[1] == json.dumps(name)
    assert len(compiled.retraces) == 6


def test_errors_that_the_program_means_stay_its_own():
    def f(x, k):
        try:
            if k > 1.0:
                raise TypeError("no Scalar here", k)
            json.loads("nothing")
        except (TypeError, ValueError):
            return x * k
        return x

    compiled = jtorch.compile(f)
    compiled(jtorch.ones(1), 2.0), compiled(jtorch.ones(1), 0.5)
    with jtorch.testing.assert_no_retrace(compiled):
        assert [compiled(jtorch.ones(1), k).item() for k in (3.0, 0.25, 7.0)] == [3.0, 0.25, 7.0]
