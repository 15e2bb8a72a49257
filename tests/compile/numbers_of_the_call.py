"""Programs of a number, each as a function of a number of the call: what is computed must be what eager mode
computes."""

from __future__ import annotations

import types
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jtorch


def of_an_argument(program: Callable, wrap: Callable) -> Callable:
    """``call(k)``: ``program(k)`` in a function that is passed the number."""
    function = wrap(lambda x, k: program(k))
    return lambda k: function(jtorch.ones(1), k)


def of_a_counter(program: Callable, wrap: Callable) -> Callable:
    """The same of a number outside, which the function counts up."""
    state = types.SimpleNamespace()

    def counted(x):
        k = state.n
        state.n = k + 1
        return program(k)

    function = wrap(counted)

    def call(k):
        state.n = k
        return function(jtorch.ones(1))

    return call


def assert_as_eager(
    programs: dict[str, Callable], made_of: Callable, series: Iterable[Sequence[Any]], outcome: Callable
) -> None:
    """Each program gives, called with the numbers of each series in turn, the ``outcome(call, k)`` of eager
    mode."""
    failures = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", jtorch.errors.RetraceWarning)
        for name, program in programs.items():
            for numbers in series:
                eager = made_of(program, lambda f: f)
                compiled = made_of(program, lambda f: jtorch.compile(f, mode="interpret"))
                for k in numbers:
                    want, got = outcome(eager, k), outcome(compiled, k)
                    if want != got:
                        failures.append(f"{name} of {k!r}: {got}, want {want}")
    assert not failures, "\n".join(failures)
