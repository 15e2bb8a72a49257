"""Numbers that a function counts on: computed with at each call, or plain where their digits are needed."""

import logging
import math
import types
import warnings

import pytest

import jtorch
from jtorch.core.errors import CompileError, RetraceWarning
from tests.compile.observe.observing import t

CASES = {
    # a function of (state, x, n): how often it is recorded again in six more calls
    "a remainder": (lambda s, x, n: x * 2 if n % 3 == 0 else x, 1),
    "of negative numbers": (lambda s, x, n: x * ((n - 9) % 3) + (n - 9) // -2 + n % -3, 0),
    "a power of a float": (lambda s, x, n: x * (1 - 0.9**n), 0),
    "a product": (lambda s, x, n: x * (n * n) + n * 3, 0),
    "the smaller of two": (lambda s, x, n: x * min(n, 4), 1),
    "divmod": (lambda s, x, n: x * divmod(n, 3)[0] + divmod(n, 3)[1], 0),
    "the real part": (lambda s, x, n: x * n.real + n.imag, 0),
    "a choice": (lambda s, x, n: x * (1.0 if n < 3 else 0.5), 1),
    "a float's remainder": (lambda s, x, n: x * (n % 1.5), 6),
    "a power of itself": (lambda s, x, n: x * n**2, 0),
    "a power of two that change": (lambda s, x, n: x * 0.1 * n**n, 6),
    "a function of math": (lambda s, x, n: x * math.cos(n), 0),
    "a function that is no op": (lambda s, x, n: x * math.gamma(n), 6),
    "a length": (lambda s, x, n: x[:n], 6),
    "a range": (lambda s, x, n: sum(x for _ in range(n)), 6),
    "a key": (lambda s, x, n: x * s.table[n], 6),
    "an index": (lambda s, x, n: x[n], 0),
    "a text": (lambda s, x, n: s.kept.append(f"step {n}") or x, 6),
    "float()": (lambda s, x, n: s.kept.append(float(n)) or x, 0),
    "bits": (lambda s, x, n: x * (n << 1) + (n & 1) + (~n) + (1 << n), 6),
    "a method of numbers": (lambda s, x, n: x * n.bit_length(), 6),
    "its type": (lambda s, x, n: x * (type(n) is int), 6),
    "a shift": (lambda s, x, n: x.roll(n), 6),
    "a size of parts": (lambda s, x, n: x.split(n)[0], 6),
    "a shape": (lambda s, x, n: jtorch.ones(n), 6),
}


@pytest.mark.filterwarnings("ignore::jtorch.errors.RetraceWarning")
@pytest.mark.parametrize("name", CASES)
def test_counts_are_those_of_eager_mode(name):
    body, retraces = CASES[name]
    seen = []
    for wrap in (lambda f: f, jtorch.compile):
        state = types.SimpleNamespace(n=0, kept=[], table={k: k * 2.0 for k in range(9)})

        def f(x, state=state):
            state.n += 1
            return body(state, x, state.n)

        f = wrap(lambda x, f=f: f(x))
        made = [f(t(*range(8))) for _ in range(7)]
        seen.append((state.n, state.kept))
        made = [m.tolist() for m in made]
        seen[-1] += (made,)
    assert seen[0][:2] == seen[1][:2]
    for expected, got in zip(seen[0][2], seen[1][2], strict=True):
        assert got == pytest.approx(expected, rel=1e-6)
    assert len(f.retraces) == retraces


def test_where_the_function_catches_everything():
    state = {"n": 0, "kept": []}

    @jtorch.compile
    def f(x):
        state["n"] += 1
        try:
            state["kept"].append(str(state["n"]))
        except BaseException:
            state["kept"].append("never")
        return x

    for _ in range(3):
        f(t(1))
    assert state == {"n": 3, "kept": ["1", "2", "3"]}


def test_logging_counts(caplog):
    caplog.set_level(logging.INFO)
    n = 0

    @jtorch.compile
    def f(x):
        nonlocal n
        n += 1
        logging.getLogger("counters").info("step %d", n)
        return x

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(3):
            f(t(1))
    assert [r.getMessage() for r in caplog.records if r.name == "counters"] == ["step 1", "step 2", "step 3"]


def test_a_warning_names_the_count_and_the_way_out():
    state = {"steps": 0}

    @jtorch.compile
    def f(x):
        state["steps"] += 1
        return x * math.gamma(state["steps"])

    with pytest.warns(RetraceWarning, match=r"'steps'.*keep it in a tensor.*pass in"):
        for _ in range(8):
            f(t(1))


def test_numbers_of_tensors_stay_unknown():
    n = 0

    @jtorch.compile
    def f(x):
        nonlocal n
        n += 1
        return x * math.gamma(x.sum().item() + n)

    with pytest.raises(CompileError, match=r"float\(\) needs the number that .item\(\) gives"):
        f(t(1))
    assert n == 0
