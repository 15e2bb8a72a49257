"""``dynamic=True``: one plan for all sizes, of which each gives what eager mode gives, and what a plan of its
own gives, bit for bit."""

from __future__ import annotations

import contextlib
import functools
import io
import types
import warnings

import numpy as np
import pytest

import jtorch
from jtorch import nn
from tests.compile.sizes.programs import PROGRAMS, STATE, Pair, fresh_state

SIZES = (5, 7, 9, 33, 40, 8, 4, 2, 3, 60, 1, 16, 0, 64, 5, 12)


def plain(value):
    """A value as one that compares: bits, strides and the types of numbers included."""
    if isinstance(value, jtorch.Tensor):
        array = value.detach().numpy()
        return str(array.dtype), array.shape, value.stride(), np.ascontiguousarray(array).tobytes()
    if isinstance(value, np.ndarray):
        return "array", str(value.dtype), value.tolist()
    if isinstance(value, dict):
        return "dict", [(plain(k), plain(v)) for k, v in value.items()]
    if isinstance(value, (set, frozenset)):
        return type(value).__name__, sorted(map(plain, value))
    if isinstance(value, Pair):
        return plain((value.n, value.y))
    if isinstance(value, types.SimpleNamespace):
        return plain(vars(value))
    if isinstance(value, functools.partial):
        return plain(value.args)
    if isinstance(value, types.FunctionType):
        return plain(value())
    if isinstance(value, (slice, range)):
        return plain((value.start, value.stop, value.step))
    if isinstance(value, (tuple, list)) or hasattr(value, "maxlen"):
        return type(value).__name__, [plain(v) for v in value]
    return type(value).__name__, repr(value)


def rounded(found):
    """The same without the last bits of floats, which kernels round otherwise."""
    if isinstance(found, tuple) and len(found) == 4 and str(found[0]).startswith("float"):
        values = np.frombuffer(found[3], found[0])
        return *found[:3], [float(f"{v:.3g}") if abs(v) > 1e-4 else 0.0 for v in values]
    if isinstance(found, (tuple, list)):
        return [rounded(part) for part in found]
    return found


def outcome(f, n):
    """What a call gives, leaves outside and prints."""
    jtorch.manual_seed(n)
    x = jtorch.arange(4.0 * n).reshape(n, 4) / 8
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = plain(f(x))
        except Exception as error:
            found = type(error).__name__, str(error)
    return found, plain(x), plain(STATE), printed.getvalue()


def outcomes(f, sizes=SIZES):
    fresh_state()
    return [outcome(f, n) for n in sizes]


def recordings(f):
    return [plan for plans in f.plans.values() for plan in plans]


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_each_size_is_as_in_eager_mode_and_as_a_plan_of_its_own(name):
    program = PROGRAMS[name]
    any_size = outcomes(jtorch.compile(program, dynamic=True))
    for n, found, expected in zip(
        SIZES, any_size, outcomes(jtorch.compile(program, dynamic=False)), strict=True
    ):
        assert found == expected, n
    if name != "prints":  # what is printed is told once
        for n, found, expected in zip(SIZES, any_size, outcomes(program), strict=True):
            assert rounded(found) == rounded(expected), n


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("branch", 4), ("halves", 4), ("counted", 4), ("reductions", 5), ("squares", 5),
        ("with_a_gradient", 4), ("writes", 3), ("in_objects", 3),
        ("sets_an_attribute", 3), ("with_dropout", 3),
    ],
)  # fmt: skip
def test_few_recordings_serve_all_sizes(name, most):
    f = jtorch.compile(PROGRAMS[name], dynamic=True)
    outcomes(f)
    assert len(recordings(f)) <= most
    assert any(plan.capture.sizing is not None for plan in recordings(f))


def test_one_plan_for_six_hundred_sizes():
    f = jtorch.compile(lambda x: jtorch.tanh(x @ x.t()).sum(0) * 2, dynamic=True)
    for n in range(5, 605):
        x = jtorch.ones(n, 3)
        assert f(x).shape == (n,)
    assert len(recordings(f)) == 1


def test_sizes_that_are_equal_once_are_told_apart_later():
    f = jtorch.compile(lambda x, y: x.sum() * 2 + (y * y.shape[0]).sum() * (x.shape[0] + 1), dynamic=True)
    for n, m in ((5, 5), (5, 7), (7, 5), (6, 6), (5, 5), (0, 3), (3, 0), (1, 9)):
        x, y = jtorch.ones(n), jtorch.ones(m)
        assert float(f(x, y)) == 2 * n + m * m * (n + 1)


def test_a_size_of_a_parameters_is_no_other_program():
    layer, other = jtorch.nn.Linear(8, 16), jtorch.nn.Linear(16, 8)
    f = jtorch.compile(lambda x: other(jtorch.relu(layer(x))).softmax(0), dynamic=True)
    with jtorch.no_grad():
        for n in (5, 8, 16, 7, 8, 16, 9):
            x = jtorch.randn(n, 8)
            assert np.allclose(f(x), other(jtorch.relu(layer(x))).softmax(0), atol=1e-6)


def test_a_batch_that_does_not_fit_is_the_error_of_eager_mode():
    f = jtorch.compile(lambda x, w: x @ w, dynamic=True)
    assert f(jtorch.ones(3, 4), jtorch.ones(4, 5)).shape == (3, 5)
    with pytest.raises(RuntimeError, match="mat1 and mat2 shapes cannot be multiplied"):
        f(jtorch.ones(3, 6), jtorch.ones(4, 5))
    assert f(jtorch.ones(3, 6), jtorch.ones(6, 5)).shape == (3, 5)


def test_an_index_out_of_range_names_its_line():
    f = jtorch.compile(lambda x, k: x[k] * 2, dynamic=True)
    for n in (5, 9):
        x = jtorch.arange(float(n))
        assert f(x, jtorch.tensor([n - 1])).tolist() == [2.0 * (n - 1)]
        with pytest.raises(IndexError, match="out of"):
            f(x, jtorch.tensor([n, 0]))


def test_layouts_and_flags_have_plans_of_their_own():
    f = jtorch.compile(lambda x: (x * 2).sum(0), dynamic=True)
    for n in (4, 6, 9):
        x = jtorch.randn(n, 3)
        w = x.clone().requires_grad_()
        for given in (x, x.t().contiguous().t(), x[::2], w):
            assert np.allclose(f(given).detach(), (given * 2).sum(0).detach(), atol=1e-5)
            assert f(given).stride() == (given * 2).sum(0).stride()
        f(w).sum().backward()
        assert w.grad.tolist() == [[2.0] * 3] * n


@pytest.mark.slow
def test_backward_outside_at_any_size():
    weight = jtorch.nn.Parameter(jtorch.ones(4, 3))

    def network(x):
        h = jtorch.tanh(x @ weight)
        return h, h.sum(0) / x.shape[0]

    def gradient(f, n, which):
        weight.grad = None
        x = jtorch.linspace(0, 1, 4 * n).reshape(n, 4)
        found = f(x)
        sum((found[k] ** 2).sum() for k in which).backward()
        return plain([*found, weight.grad])

    any_size = jtorch.compile(network, dynamic=True)
    for n in (5, 7, 3, 4, 2, 1, 30):
        for which in ((0, 1), (1,), (0,)):
            exact = jtorch.compile(network, dynamic=False)
            assert rounded(gradient(any_size, n, which)) == rounded(gradient(network, n, which))
            assert gradient(any_size, n, which) == gradient(exact, n, which)


def test_a_network_keeps_calls_apart_until_their_backward():
    weight = jtorch.nn.Parameter(jtorch.ones(2))
    f = jtorch.compile(lambda x: (x * weight).exp().sum(), dynamic=True)
    inputs = [jtorch.ones(n, 2) * 0.1 for n in (3, 5, 4, 9)]
    kept = [f(x) for x in inputs]
    for x, y in zip(inputs, kept, strict=True):
        weight.grad = None
        y.backward()
        assert np.allclose(weight.grad, 0.1 * np.exp(0.1) * len(x))


def test_what_pins_a_size_is_a_guard_with_its_line():
    f = jtorch.compile(lambda x: x * len([*range(x.shape[0])]), dynamic=True)
    f(jtorch.ones(5))
    (plan,) = recordings(f)
    (guard,) = plan.capture.sizing.env.guards.values()
    assert guard.pins and guard.text == "S0 == 5" and guard.source.file == __file__


@pytest.mark.slow
def test_the_graph_is_told_with_symbols():
    f = jtorch.compile(lambda x: (x * 2).reshape(-1), dynamic=True)
    f(jtorch.ones(5, 7))
    assert "f32[S0, S1]" in f.recording() and "f32[(S0*S1)]" in f.recording()
    assert "S0" in str(f.explain()) and f.profile(jtorch.ones(6, 3)).steps


@pytest.mark.parametrize("verify", ["first", "every:2"])
def test_verified_at_any_size(verify):
    layer = jtorch.nn.Linear(4, 3)
    optimizer = jtorch.optim.Adam(layer.parameters())

    @jtorch.compile(dynamic=True, verify=verify)
    def step(x):
        optimizer.zero_grad()
        loss = layer(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    for n in (5, 7, 9, 5, 6):
        step(jtorch.randn(n, 4))


# -- sizes that are marked


def test_a_marked_size_is_a_symbol_and_others_are_numbers():
    f = jtorch.compile(lambda x: x.sum(0) * x.shape[1])
    x = jtorch.ones(5, 3)
    jtorch.compiler.mark_dynamic(x, 0)
    f(x)
    (plan,) = recordings(f)
    assert plan.capture.sizing.texts == {0: ("S0", "3")}
    for n in (7, 9, 4, 100):
        assert f(jtorch.ones(n, 3)).tolist() == [3.0 * n] * 3
    assert len(f.retraces) == 0
    assert f(jtorch.ones(7, 4)).tolist() == [28.0] * 4
    assert len(recordings(f)) == 2


def test_what_lies_beyond_the_marks_has_plans_of_its_own():
    f = jtorch.compile(lambda x: x.sum(0) * (2 if x.shape[0] < 200 else 3))
    x = jtorch.ones(5, 3)
    jtorch.compiler.mark_dynamic(x, -2, min=4, max=100)
    for n in (5, 4, 100):
        assert f(jtorch.ones(n, 3) if n != 5 else x).tolist() == [2.0 * n] * 3
    assert len(f.retraces) == 0 and not recordings(f)[0].capture.sizing.env.guards  # the marks answer
    for n in (3, 101, 1):
        assert f(jtorch.ones(n, 3)).tolist() == [2.0 * n] * 3
    assert "x.shape[0] is 3" in str(f.retraces[0])


def test_marks_are_checked_and_can_be_ignored():
    x = jtorch.ones(5, 3)
    with pytest.raises(IndexError, match="Dimension out of range"):
        jtorch.compiler.mark_dynamic(x, 2)
    with pytest.raises(ValueError, match="size 0 is 5, which is not from 6 to any"):
        jtorch.compiler.mark_dynamic(x, 0, min=6)
    with pytest.raises(ValueError, match="size 1 is 3, which is not from 2 to 2"):
        jtorch.compiler.mark_dynamic(x, [1], max=2)
    jtorch.compiler.mark_dynamic(x, (0, 1))
    f = jtorch.compile(lambda x: x * 2, dynamic=False)
    f(x)
    assert recordings(f)[0].capture.sizing is None


def test_a_mark_is_of_one_tensor():
    x = jtorch.ones(5, 3)
    jtorch.compiler.mark_dynamic(x, 0)
    del x
    f = jtorch.compile(lambda x: x * 2)
    for _ in range(20):  # one of them may lie where x lay
        f(jtorch.ones(5, 3))
    assert recordings(f)[0].capture.sizing is None


LAZY = {
    "linear": (lambda: nn.LazyLinear(3), (4,)), "conv": (lambda: nn.LazyConv1d(3, 2), (4, 5)),
    "norm": (lambda: nn.LazyBatchNorm1d(), (4,)),
}  # fmt: skip


@pytest.mark.parametrize("make, rest", LAZY.values(), ids=LAZY)
@pytest.mark.filterwarnings("ignore:Lazy modules")
def test_a_module_that_takes_its_shapes_from_the_first_call_holds_numbers(make, rest):
    module = make()
    f = jtorch.compile(lambda x: module(x), dynamic=True)
    for n in (2, 6, 7):
        assert f(jtorch.ones(n, *rest)).shape[0] == n
    sizes = [v for v in vars(module).values() if isinstance(v, int)]
    assert sizes and all(type(v) in (int, bool) for v in sizes)
    assert len(f.retraces) <= 1
