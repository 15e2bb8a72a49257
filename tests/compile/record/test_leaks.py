"""Traced values that outlive their recording: the error names where they were made and who kept them; and
recordings that differ when they are done again."""

from __future__ import annotations

import pytest

import jtorch
from jtorch.core.errors import CompileError, VerifyError

pytestmark = pytest.mark.usefixtures("whole_heap")

KEPT: list = []
X = jtorch.ones(3)


class LeakError(Exception):
    """Its traceback carries a traced value out of its recording: nothing else can, short of C code."""


def leaked(make):
    """What ``make(X)`` gives while it is recorded."""

    @jtorch.compile
    def f(x):
        held = make(x)
        raise LeakError(held is None)

    try:
        f(X)
    except LeakError as error:
        place = error.__traceback__
    while place.tb_next is not None:
        place = place.tb_next
    return place.tb_frame.f_locals["held"]


@pytest.fixture(autouse=True)
def nothing_kept():
    yield
    KEPT.clear()


@pytest.mark.slow
def test_a_global_list():
    KEPT.append(leaked(lambda x: x * 2))
    made = r"test_leaks\.py:\d+ in <lambda>\) is used after that\. "
    with pytest.raises(CompileError, match=made + r"It is kept by 'KEPT\[0\]' of the module .*test_leaks\."):
        KEPT[0] + 1
    with pytest.raises(CompileError, match="return it from the function"):
        KEPT[0].sum().item()


@pytest.mark.slow
def test_a_list_of_an_enclosing_function_and_a_number():
    losses = [leaked(lambda x: x.sum().item())]

    def total():
        return sum(losses)

    with pytest.raises(CompileError, match=r"It is kept by 'losses\[0\]', which 'total' uses\."):
        total()


@pytest.mark.slow
def test_an_attribute():
    class Box:
        held = None

    box = Box()
    box.held = leaked(lambda x: x * 3)
    with pytest.raises(CompileError, match="'held' of a Box"):
        box.held + 1


def test_recorded_again():
    f = jtorch.compile(lambda x: (x * 2).sum())
    f(X)
    assert f.record_again(X) == "" == f.record_again()


def test_what_traced_differently_is_named():
    numbers = [3.0]
    f = jtorch.compile(lambda x: (x + 1) * numbers[0])
    f(X)
    numbers[0] = 9.0  # a guard knows, too; here as an example of what none does
    told = f.record_again()  # of the latest call
    assert "recorded again, it differs" in told and "test_leaks.py" in told
    assert "mul(b, 3.0)" in told and "mul(b, 9.0)" in told


@pytest.mark.slow
def test_verification_says_that_the_recording_differs():
    def unseen(x):
        return x * float(id(object()) % 7919)

    f = jtorch.compile(unseen, verify="every:1")
    held, told = [], ""
    for _ in range(50):
        held.append(object())  # the next object lies elsewhere
        try:
            f(X)
        except VerifyError as error:
            told = str(error)
            break
    assert "first differing equation" in told
