"""Modes in force around some calls of a compiled function, and not around others."""

import contextlib
import threading

import pytest

import jtorch
from jtorch import nn
from jtorch.autograd.graph import disable_saved_tensors_hooks, save_on_cpu, saved_tensors_hooks
from jtorch.distributions import Distribution, Normal
from jtorch.nn.utils import parametrize
from jtorch.utils.checkpoint import checkpoint


def _product(wrap):
    w = jtorch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    f = wrap(lambda x: (w * x).sum())

    def call(k):
        w.grad = None
        y = f(jtorch.arange(3.0) + k)
        y.backward()
        return y.item(), w.grad.tolist()

    return call


def _product_with_hooks(wrap):
    w = jtorch.tensor([1.0, 2.0, 3.0], requires_grad=True)

    def product(x):
        with saved_tensors_hooks(lambda t: t * 1, lambda t: t * 3):
            return (w * x).sum()

    f = wrap(product)

    def call(k):
        w.grad = None
        f(jtorch.arange(3.0) + k).backward()
        return w.grad.tolist()

    return call


def _step_inside(wrap):
    w = jtorch.tensor([1.0, 2.0, 3.0], requires_grad=True)

    def step(x):
        w.grad = None
        (w * x).sum().backward()
        return w.grad

    f = wrap(step)
    return lambda k: f(jtorch.arange(3.0) + k).tolist()


def _which_mode(wrap):
    f = wrap(lambda x: x * 2 if jtorch.is_inference_mode_enabled() else x * 3)
    without = jtorch.no_grad()(f)
    return lambda k: (f(jtorch.ones(2)).tolist(), without(jtorch.ones(2)).tolist())


class _Noisy(nn.Module):
    def forward(self, w):
        return w * 2 + jtorch.rand(2, 2).double()


def _noisy_layer():
    layer = nn.Linear(2, 2).double()
    parametrize.register_parametrization(layer, "weight", _Noisy())
    return layer, jtorch.ones(2).double()


def _rounded(values):
    return [round(value, 9) for value in values.tolist()]


def _parametrized(wrap):
    layer, x = _noisy_layer()
    f = wrap(lambda x: layer(x) + layer.weight.sum())
    return lambda k: [_rounded(f(x + k)) for _ in range(2)]


def _cached_inside(wrap):
    layer, x = _noisy_layer()

    def f(x):
        with parametrize.cached():
            return layer(x) + layer.weight.sum()

    f = wrap(f)
    return lambda k: _rounded(f(x + k))


def _checked(wrap):
    f = wrap(lambda x: x + Normal(0.0, -1.0).mean)

    def call(k):
        try:
            return f(jtorch.ones(2)).tolist()
        except (ValueError, jtorch.errors.CompileError):  # of the check, which needs elements
            return "refused"

    return call


@contextlib.contextmanager
def _unchecked():
    Distribution.set_default_validate_args(False)
    try:
        yield
    finally:
        Distribution.set_default_validate_args(True)


_HOOKS = saved_tensors_hooks(lambda t: t * 1, lambda t: t * 2)


@pytest.mark.parametrize(
    ("mode", "program"),
    [
        (lambda: _HOOKS, _product), (lambda: _HOOKS, _product_with_hooks), (lambda: _HOOKS, _step_inside),
        (save_on_cpu, _product), (lambda: disable_saved_tensors_hooks("none here"), _product),
        (lambda: disable_saved_tensors_hooks("none here"), _product_with_hooks),
        (jtorch.inference_mode, _which_mode), (jtorch.no_grad, _which_mode),
        (parametrize.cached, _parametrized), (parametrize.cached, _cached_inside),
        (_unchecked, _checked),
    ],
)  # fmt: skip
def test_a_mode_around_some_calls_holds_for_those(mode, program):
    found = []
    for wrap in (lambda f: f, jtorch.compile):
        jtorch.manual_seed(0)
        call, results = program(wrap), []
        for k in range(7):
            with mode() if k % 3 == 1 else contextlib.nullcontext():
                try:
                    results.append(call(k))
                except RuntimeError as error:
                    results.append(str(error))
        found.append(results)
    assert found[0] == found[1]


def test_hooks_around_a_call_are_those_of_its_thread_alone():
    w = jtorch.ones(3, requires_grad=True)
    f = jtorch.compile(lambda x: (w * x).sum())
    f(jtorch.ones(3))
    found = []
    with _HOOKS:
        other = threading.Thread(target=lambda: found.append(f(jtorch.ones(3)).grad_fn))
        other.start()
        other.join()
        found.append(f(jtorch.ones(3)).grad_fn)
    assert [type(node).__name__ for node in found] == ["CompiledFunctionBackward", "SumBackward0"]


@pytest.mark.parametrize("reentrant", [True, False])
def test_a_compiled_function_under_checkpoint_runs_twice(reentrant):
    def run(wrap):
        norm = nn.BatchNorm1d(2)
        f, found = wrap(lambda x: norm(x)), []
        for k in range(4):
            x = (jtorch.arange(6.0).view(3, 2) + k).requires_grad_()
            checkpoint(f, x, use_reentrant=reentrant).pow(2).sum().backward()
            found.append((norm.running_mean.clone(), norm.num_batches_tracked.item(), x.grad))
        return found

    eager, compiled = run(lambda f: f), run(jtorch.compile)
    assert [n for _, n, _ in eager] == [n for _, n, _ in compiled] == [2, 4, 6, 8]
    jtorch.testing.assert_close(eager, compiled)


def _suspended():
    with jtorch.no_grad():
        yield


def _weights(layer):
    return layer.weight.sum().item()


def test_a_block_ends_though_a_grad_mode_that_began_inside_ends_later():
    layer, _ = _noisy_layer()
    generator = _suspended()
    with parametrize.cached():
        next(generator)
        assert _weights(layer) == _weights(layer)
    next(generator, None)
    assert _weights(layer) != _weights(layer)

    w, hooks, mode = jtorch.ones(3, requires_grad=True), _HOOKS, jtorch.no_grad()
    f = jtorch.compile(lambda x: (w * x).sum())
    hooks.__enter__()
    mode.__enter__()
    hooks.__exit__()
    mode.__exit__(None, None, None)
    assert type(f(jtorch.ones(3)).grad_fn).__name__ == "CompiledFunctionBackward"


def test_a_grad_mode_that_began_before_ends_inside_a_block():
    w, generator, reused = jtorch.ones(3, requires_grad=True), _suspended(), jtorch.set_grad_enabled(True)
    next(generator)
    with _HOOKS:
        next(generator, None)
        with reused:
            pass
        (w * jtorch.ones(3)).sum().backward()
    assert w.grad.tolist() == [2.0] * 3


def test_a_cache_of_parametrized_tensors_holds_in_all_threads():
    layer, _ = _noisy_layer()
    found = []
    with parametrize.cached():
        found.append(_weights(layer))
        other = threading.Thread(target=lambda: found.append(_weights(layer)))
        other.start()
        other.join()
    assert found[0] == found[1]


def test_a_function_that_leaves_hooks_in_force_is_refused():
    def enter(x):
        saved_tensors_hooks(lambda t: t, lambda t: t * 3).__enter__()
        return x * 2

    w = jtorch.ones(3, requires_grad=True)
    forbidding = disable_saved_tensors_hooks("none here")

    def forbid(x):
        forbidding.__enter__()
        return x * 2

    for function in (enter, forbid, enter):
        with pytest.raises(jtorch.errors.CompileError, match="does not leave it"):
            jtorch.compile(function)(jtorch.ones(3))
    (w * w).sum().backward()
    with _HOOKS:  # which may be entered, and count
        (w * jtorch.ones(3)).sum().backward()
    assert w.grad.tolist() == [4.0] * 3


@pytest.mark.parametrize("wrap", [lambda f: f, jtorch.compile], ids=["eager", "compiled"])
def test_gradients_that_are_switched_on_in_inference_mode(wrap):
    w = jtorch.ones(2, requires_grad=True)

    @wrap
    def f(x):
        return x * w * 2 if jtorch.is_grad_enabled() else x * w * 3

    @wrap
    def inside(x):
        with jtorch.inference_mode(), jtorch.enable_grad():
            return x * w

    for _ in range(2):
        y = f(jtorch.ones(2))
        assert y.tolist() == [2.0, 2.0] and y.requires_grad
        with jtorch.inference_mode():
            assert f(jtorch.ones(2)).tolist() == [3.0, 3.0]
            with jtorch.enable_grad():
                y = f(jtorch.ones(2))
        assert y.tolist() == [2.0, 2.0] and not y.requires_grad
        assert not inside(jtorch.ones(2)).requires_grad
