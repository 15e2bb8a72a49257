"""What ``backward`` of a custom Function and hooks find outside when backward() comes later than the call."""

import types

import numpy as np
import pytest

import jtorch
from jtorch import nn
from jtorch.errors import CompileError

GLOBAL = 2.0


def _squared(gradient, forward=lambda: None):
    """A Function whose gradient is ``gradient(x, g)``."""

    class Squared(jtorch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            forward()
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            return gradient(ctx.saved_tensors[0], g)

    return Squared.apply


def _attribute():
    config = types.SimpleNamespace(k=2.0)
    return _squared(lambda x, g: g * x * config.k), lambda k: setattr(config, "k", k)


def _read_in_forward_too():
    config = types.SimpleNamespace(k=2.0)
    return _squared(lambda x, g: g * x * config.k, lambda: config.k), lambda k: setattr(config, "k", k)


def _entries():
    factors = [2.0]
    return _squared(lambda x, g: g * x * sum(factors)), factors.append


def _global():
    return _squared(lambda x, g: g * x * GLOBAL), lambda k: globals().update(GLOBAL=k)


def _mode():
    layer = nn.Dropout()
    squared = _squared(lambda x, g: g * x * (2.0 if layer.training else 3.0))
    return squared, lambda k: layer.train(k % 2 == 0)


def _called_module():
    layer = nn.Dropout(0.0)
    return _squared(lambda x, g: g * layer(x)), lambda k: layer.train(k % 2 == 0)


def _flag_of_a_parameter():
    w = nn.Parameter(jtorch.ones(3))
    return _squared(lambda x, g: g * x if w.requires_grad else g), lambda k: w.requires_grad_(k % 2 == 0)


def _hook_of_a_tensor():
    config = types.SimpleNamespace(k=2.0)

    def twice(x):
        y = x * x
        y.register_hook(lambda g: g * config.k)
        return y * 2

    return twice, lambda k: setattr(config, "k", k)


def _other_memory():
    factor = jtorch.ones(3)
    return _squared(lambda x, g: g * x * factor), lambda k: setattr(factor, "data", jtorch.ones(3) * k)


def _used_in_forward_too():
    factor = jtorch.ones(3)
    return _squared(lambda x, g: g * x * factor, factor.sum), lambda k: factor.fill_(k)


READS = [
    _attribute, _read_in_forward_too, _entries, _global, _mode, _called_module, _flag_of_a_parameter,
    _hook_of_a_tensor, _other_memory, _used_in_forward_too,
]  # fmt: skip


def _gradients(case, compiled, at, n_calls=1):
    """The gradients of three passes; before that of number ``at`` something changes what it reads."""
    globals().update(GLOBAL=2.0)
    function, change = case()
    f = jtorch.compile(lambda x: function(x) + 1) if compiled else lambda x: function(x) + 1
    found = []
    for k in range(3):
        xs = [(jtorch.arange(3.0) + k + n).requires_grad_() for n in range(n_calls)]
        results = [f(x).sum() for x in xs]
        if k == at:
            change(5)
        for result in results:
            result.backward()
        found.append([x.grad.tolist() for x in xs])
    return found


@pytest.mark.parametrize("n_calls", [1, 2])
@pytest.mark.parametrize("case", READS)
def test_what_the_way_back_reads_may_not_change_before_it(case, n_calls):
    assert _gradients(case, True, None, n_calls) == _gradients(case, False, None, n_calls)
    if case is not _called_module:  # whose mode makes no difference to the values
        assert _gradients(case, False, 0, n_calls) != _gradients(case, False, None, n_calls)
    for at in (0, 1, 2):
        with pytest.raises(RuntimeError, match=r"on the way back through|modified by an inplace operation"):
            _gradients(case, True, at, n_calls)


def _elements():
    factor = jtorch.ones(3)
    return _squared(lambda x, g: g * x * factor), lambda k: factor.fill_(k)


def _elements_of_an_array():
    factor = np.ones(3, np.float32)
    return _squared(lambda x, g: g * x * jtorch.from_numpy(factor)), factor.fill


def _elements_of_a_parameter():
    w = nn.Parameter(jtorch.ones(2, 3))
    return _squared(lambda x, g: g * x * w.detach().t()[:, 0]), lambda k: w.data.fill_(k)


@pytest.mark.parametrize("n_calls", [1, 2])
@pytest.mark.parametrize("at", [None, 0, 1, 2])
@pytest.mark.parametrize("case", [_elements, _elements_of_an_array, _elements_of_a_parameter])
def test_elements_that_the_way_back_alone_reads_are_those_of_the_pass(case, at, n_calls):
    assert _gradients(case, True, at, n_calls) == _gradients(case, False, at, n_calls)


def _draws():
    return _squared(lambda x, g: g * x * jtorch.rand(3))


def _writes_a_buffer():
    norm = nn.BatchNorm1d(3)
    return _squared(lambda x, g: g * norm(jtorch.stack([x, x * x])).sum(0))


def _writes_in_place():
    total = jtorch.zeros(3)
    return _squared(lambda x, g: g * total.add_(g))


def _reads_a_gradient():
    w = nn.Parameter(jtorch.ones(3))
    w.grad = jtorch.ones(3)
    return _squared(lambda x, g: g * x * w.grad)


def _reads_what_it_counts():
    state = types.SimpleNamespace(n=0)
    return _squared(lambda x, g: g * x * state.n, lambda: setattr(state, "n", state.n + 1))


def _reads_what_it_keeps():
    state = types.SimpleNamespace(last=None)

    def keep(x):
        state.last = x.detach() * 3
        y = x * x
        y.register_hook(lambda g: g * state.last)
        return y * 1

    return keep


def _checkpoints_what_writes():
    norm = nn.BatchNorm1d(3)

    def f(x):
        rows = jtorch.stack([x, x * x])
        return jtorch.utils.checkpoint.checkpoint(norm, rows, use_reentrant=False).sum(0)

    return f


@pytest.mark.parametrize(
    "make",
    [
        _draws, _writes_a_buffer, _writes_in_place, _reads_a_gradient, _reads_what_it_counts,
        _reads_what_it_keeps, _checkpoints_what_writes,
    ],
)  # fmt: skip
def test_what_a_later_pass_would_do_by_itself_is_refused(make):
    f = jtorch.compile(make())
    with pytest.raises(CompileError, match="on the way back"):
        f(jtorch.ones(3, requires_grad=True))


def test_inside_all_of_it_may_be_done():
    state = types.SimpleNamespace(n=0)
    times = _squared(lambda x, g: g * x * state.n + jtorch.rand(3), lambda: setattr(state, "n", state.n + 1))

    def step(x):
        x = x.clone().requires_grad_()
        times(x).sum().backward()
        return x.grad

    found = []
    for f in (step, jtorch.compile(step)):
        jtorch.manual_seed(0)
        state.n = 0
        found.append([f(jtorch.ones(3) * k).tolist() for k in range(4)])
    assert found[0] == found[1]
