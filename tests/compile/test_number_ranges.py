"""A number of the call that a dtype cannot hold is refused by a compiled function, as in eager mode."""

from __future__ import annotations

import pytest

import jtorch


def _with_first(x, k):
    x = x.clone()
    x[0] = k
    return x


PROGRAMS = {
    "masked_fill": lambda x, k: x.masked_fill(x > 0, k),
    "alpha": lambda x, k: x.add(x, alpha=k),
    "fill_": lambda x, k: x.clone().fill_(k),
    "full_like": lambda x, k: jtorch.full_like(x, k),
    "index_fill": lambda x, k: x.index_fill(0, jtorch.tensor([0]), k),
    "clamp": lambda x, k: x.clamp(max=k),
    "clamp_min": lambda x, k: x.clamp_min(k),
    "addcmul": lambda x, k: jtorch.addcmul(x, x, x, value=k),
    "addmv": lambda x, k: jtorch.addmv(x, x[:, None], x[:1], alpha=k),
    "sub": lambda x, k: jtorch.sub(x, x, alpha=k),
    "pow": lambda x, k: x**k,
    "setitem": _with_first,
    "where": lambda x, k: jtorch.where(x > 0, x, k),
}
DTYPES = ("int64", "uint8", "bool", "float16", "float32")
NUMBERS = (1.0, 2.7, 1e6, 65519.0, 1e39, -1.0, 3, 300, -1)


def _outcome(function, x, k):
    try:
        found = function(x, k)
    except (RuntimeError, OverflowError, NotImplementedError) as error:
        return str(error)
    return found.dtype, found.tolist()


@pytest.mark.slow
def test_numbers_of_the_call_are_checked_at_each_call():
    failures = []
    for name, program in PROGRAMS.items():
        for dtype in DTYPES:
            x = jtorch.ones(2, dtype=getattr(jtorch, dtype))
            compiled = jtorch.compile(program, mode="interpret")
            for k in NUMBERS:
                want, got = _outcome(program, x, k), _outcome(compiled, x, k)
                if want != got:
                    failures.append(f"{name} of {dtype} with {k}: {got}, want {want}")
    assert not failures, "\n".join(failures)


def test_numbers_that_the_function_computes_are_checked_without_a_guard_on_them():
    x = jtorch.ones(2)
    for name, program in PROGRAMS.items():
        if name in ("pow", "addmv"):  # one takes any exponent of float32, the other asks whether it is 1
            continue
        compiled = jtorch.compile(lambda x, k, program=program: program(x, k * 2.0), mode="interpret")
        for k in (1.0, 2.5, 1e6, 3e38, 0.5, -1e300, 4.0, float("inf"), 7.0):
            want, got = (
                _outcome(lambda x, k, program=program: program(x, k * 2.0), x, k),
                _outcome(compiled, x, k),
            )
            assert want == got, f"{name} with {k}"
        assert len(compiled.retraces) <= 2, f"{name}: {compiled.retraces}"


def test_a_number_that_is_not_finite_says_nothing_of_finite_ones():
    x = jtorch.ones(2)
    for first in (float("inf"), -float("inf"), float("nan")):
        for name in ("clamp", "where", "masked_fill", "full_like"):
            program, compiled = PROGRAMS[name], jtorch.compile(PROGRAMS[name], mode="interpret")
            for k in (first, 1e39, -1e39, first, 3.0):
                want, got = _outcome(program, x, k), _outcome(compiled, x, k)
                assert repr(want) == repr(got), f"{name} with {k} after {first}"
