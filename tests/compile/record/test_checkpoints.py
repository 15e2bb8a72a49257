"""``checkpoint`` in a compiled function, with ``backward()`` outside: its second run is recorded."""

from __future__ import annotations

import types

import numpy as np
import pytest

import jtorch
from jtorch import nn
from jtorch.core.errors import CompileError
from jtorch.utils.checkpoint import checkpoint, checkpoint_sequential

LINEAR = nn.Linear(3, 3)
STACK = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 3))
DROPPING = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5))
NORMED = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
COUNT = jtorch.zeros(3)


def _keeping_little(function, *args):
    return checkpoint(function, *args, use_reentrant=False)


class _Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([nn.Linear(3, 3), nn.Linear(3, 3)])

    def forward(self, x):
        for block in self.blocks:
            x = _keeping_little(lambda v, block=block: block(v).relu(), x)
        return x


NET = _Net()
PROGRAMS = {
    "a layer": lambda x: _keeping_little(LINEAR, x),
    "a function": lambda x: _keeping_little(lambda v: (v * 2).exp(), x),
    "layers": lambda x: _keeping_little(STACK, x),
    "in pieces": lambda x: checkpoint_sequential(STACK, 2, x, use_reentrant=False),
    "blocks": NET,
    "random numbers": lambda x: _keeping_little(DROPPING, x),
    "a parameter passed": lambda x: _keeping_little(lambda a, b: a @ b, x, LINEAR.weight),
    "nested": lambda x: _keeping_little(lambda a: _keeping_little(jtorch.exp, -a * a).tanh(), x),
    "several results": lambda x: _keeping_little(lambda a: (a.exp(), a.sin()), x)[0].cos(),
    "facts of the tensor": lambda x: _keeping_little(lambda a: a.exp() if a.requires_grad else a, x),
}
MODULES = (LINEAR, STACK, DROPPING, NET)


def _gradients(f):
    found = []
    for k in range(2):
        jtorch.manual_seed(k)
        for module in MODULES:
            module.zero_grad()
        x = (jtorch.tensor([0.5, 1.0, 1.5]) + k).requires_grad_()
        y = f(x)
        y.sum().backward()
        grads = [p.grad for module in MODULES for p in module.parameters() if p.grad is not None]
        found += [y.detach().numpy(), x.grad.numpy(), *(g.numpy().copy() for g in grads)]
    return found


@pytest.mark.slow
def test_backward_outside_runs_it_again():
    for name, program in PROGRAMS.items():
        for mode in (None, "interpret"):
            compiled = _gradients(jtorch.compile(program, mode=mode))
            expected = _gradients(program)
            assert len(compiled) == len(expected)
            for a, b in zip(compiled, expected, strict=True):
                np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6, err_msg=f"{name}, {mode}")


def test_a_float_argument_that_changes_is_not_recorded_anew():
    @jtorch.compile
    def f(x, s):
        return _keeping_little(lambda v: v**3 * s, x)

    for s in (2.0, 3.0, 4.0):
        x = jtorch.ones(2, requires_grad=True)
        f(x, s).sum().backward()
        assert x.grad.tolist() == [3 * s, 3 * s]
    assert not f.retraces


def test_a_function_that_counts_may_checkpoint():
    counter = types.SimpleNamespace(n=0)

    @jtorch.compile
    def f(x):
        counter.n += 1
        return _keeping_little(lambda v: v**3, x * counter.n)

    for k in range(1, 4):
        x = jtorch.ones(2, requires_grad=True)
        f(x).sum().backward()
        assert x.grad.tolist() == [3.0 * k**3] * 2
    assert not f.retraces


def test_what_the_second_run_reads_of_what_is_written_is_refused():
    counter = types.SimpleNamespace(n=0)

    def f(x):
        counter.n += 1
        return _keeping_little(lambda v: v**3 * counter.n, x)

    with pytest.raises(CompileError, match="reads on the way back what it has written"):
        jtorch.compile(f)(jtorch.ones(2, requires_grad=True))
    assert counter.n == 0


def test_several_calls_before_their_backward():
    f = jtorch.compile(lambda x: _keeping_little(jtorch.exp, x * 2))
    xs = [jtorch.full((2,), float(k), requires_grad=True) for k in range(3)]
    sum(f(x).sum() for x in xs).backward()
    for x in xs:
        np.testing.assert_allclose(x.grad.numpy(), 2 * np.exp(2 * x.detach().numpy()), rtol=1e-6)


def test_an_argument_that_is_changed_before_is_an_error():
    f = jtorch.compile(lambda x: _keeping_little(lambda v: v * v, x))
    x = jtorch.ones(2, requires_grad=True)
    y = f(x)
    with jtorch.no_grad():
        x.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_a_module_beside_may_change_between_calls():
    """A change that makes no other program is no other program on the way back either."""
    layer = nn.Sequential(nn.Linear(3, 3), nn.Tanh())

    def f(x):
        return layer(x), checkpoint(lambda v: v.sin() * v, x, use_reentrant=False)

    found = []
    for function in (f, jtorch.compile(f)):
        for k in range(4):
            layer.train(k % 2 == 0)
            x = jtorch.full((3,), float(k), requires_grad=True)
            sum(y.sum() for y in function(x)).backward()
            found.append(x.grad.tolist())
    np.testing.assert_allclose(found[4:], found[:4], rtol=1e-6)
    layer.train()
    late = jtorch.compile(f)
    x = jtorch.ones(3, requires_grad=True)
    y = late(x)
    layer.eval()  # between the call and its backward: what the second run would find is not known
    with pytest.raises(CompileError, match="'training' of a Sequential"):
        y[1].sum().backward()


def _counting(v):
    COUNT.add_(1)
    return v * v


REFUSED = {
    "reentrant": (lambda x: checkpoint(LINEAR, x, use_reentrant=True), "use_reentrant=False"),
    "other draws": (
        lambda x: checkpoint(DROPPING, x, use_reentrant=False, preserve_rng_state=False),
        "draws random numbers",
    ),
    "running statistics": (
        lambda x: checkpoint(NORMED, x.expand(4, 3), use_reentrant=False),
        "changes a tensor in place",
    ),
    "a write": (lambda x: checkpoint(_counting, x, use_reentrant=False), "changes a tensor in place"),
}


def test_what_a_second_run_would_do_later_is_refused_with_the_line():
    for name, (program, told) in REFUSED.items():
        before = COUNT.tolist()
        with pytest.raises(CompileError) as caught:
            jtorch.compile(program)(jtorch.ones(3, requires_grad=True))
        line = program.__code__.co_firstlineno if name != "a write" else _counting.__code__.co_firstlineno + 1
        said = str(caught.value)
        assert told in said, name
        assert any(f"{__file__}:{line + k} in" in said for k in range(2)), (name, said)
        assert COUNT.tolist() == before
