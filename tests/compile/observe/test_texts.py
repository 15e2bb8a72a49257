"""The text of a tensor inside a compiled function: an error, but for messages."""

# ruff: noqa: UP031, UP032 - each way of making a text is one of the cases

import contextlib
import logging

import pytest

import jtorch
from jtorch.core.errors import CompileError
from tests.compile.observe.observing import t

kept = []
outside = t(1, 2)


@pytest.mark.parametrize(
    "make",
    [
        lambda y: f"y is {y}", lambda y: f"{y!r:>40}", lambda y: "%s" % y, lambda y: "%s %s" % (y, 1),
        lambda y: "{}".format(y), repr, str, lambda y: format(y), lambda y: str([y]), lambda y: f"{[y]}",
        lambda y: kept.append(f"{y}"), lambda y: kept.append((ValueError, f"{y}")), lambda y: y.__repr__(),
        lambda y: len(str(y)), lambda y: " ".join(map(str, [y])), lambda y: print(len(f"{y}")),
    ],
)  # fmt: skip
@pytest.mark.parametrize("of", ["made", "argument", "outside"])
def test_is_refused(make, of):
    @jtorch.compile
    def f(x):
        return make({"made": x * 2, "argument": x, "outside": outside}[of])

    with pytest.raises(CompileError, match=r"test_texts.*text of a tensor"):
        f(t(1, 2))
    assert not kept


def test_is_refused_where_the_function_catches_it():
    @jtorch.compile
    def f(x):
        with contextlib.suppress(Exception):
            kept[0] = str(x)
        return x

    with pytest.raises(CompileError, match="text of a tensor"):
        f(t(1))


_asserts = {}
exec('def f(y):\n    assert y.shape[0] == 1, f"got {y}"', _asserts)  # pytest writes others anew


def _raises(y):
    raise ValueError("got " + str(y))


def _raises_formatted(y):
    raise ValueError("got %s, %s" % (y, 1))


@pytest.mark.parametrize("fails", [_asserts["f"], _raises, _raises_formatted])
def test_exceptions_may_show_it(fails):
    @jtorch.compile
    def f(x):
        fails(x * 2)

    for _ in range(2):
        with pytest.raises((ValueError, AssertionError), match=r"got tensor\(\.\.\., shape=\(2,\)"):
            f(t(1, 2))


@pytest.mark.parametrize(
    "tell",
    [
        print, lambda y: print(f"y {y}", y), lambda y: print("%s" % y), lambda y: print("{}".format(y)),
        lambda y: print(*[y, y]), lambda y: print("y", str(y), sep="-"),
    ],
)  # fmt: skip
def test_print_may_show_it(tell, capsys):
    @jtorch.compile
    def f(x):
        tell(x * 2)
        return x

    for k in (1, 2):
        f(t(k, 2))
        assert f"tensor([{2 * k}., 4.])" in capsys.readouterr().out


def test_logging_may_show_it(caplog):
    @jtorch.compile
    def f(x):
        logging.getLogger("texts").error("y %s", x * 2)
        logging.getLogger("texts").error(f"y {x * 2}")
        return x

    for k in (1, 2):
        f(t(k, 2))
        assert [r.getMessage().count(f"tensor([{2 * k}., 4.])") for r in caplog.records[-2:]] == [1, 1]


def test_the_message_of_a_caught_exception_is_not_kept():
    @jtorch.compile
    def f(x):
        try:
            raise ValueError(f"got {x * 2}")
        except ValueError as error:
            return str(error)

    with pytest.raises(CompileError, match="text of a tensor"):
        f(t(1))
