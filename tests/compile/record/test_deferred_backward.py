"""What ``backward`` of a custom Function and hooks find outside when backward() comes later than the call."""

import types

import numpy as np
import pytest

import jtorch
from jtorch import nn
from jtorch.core.errors import CompileError

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


def _called(change, layer=None):
    def case():
        jtorch.manual_seed(0)
        module = layer() if layer is not None else nn.Linear(3, 3)
        return _squared(lambda x, g: g * module(x).detach()), lambda k: change(module, k)

    return case


def _checkpointed(change, layer):
    def case():
        jtorch.manual_seed(0)
        module = layer()
        checkpoint = jtorch.utils.checkpoint.checkpoint

        def run(x):
            return checkpoint(module, x.view(1, 3), use_reentrant=False).pow(2)

        return run, lambda k: change(module)

    return case


def _replaced():
    class Twice(jtorch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    return Twice.apply, lambda k: setattr(Twice, "backward", staticmethod(lambda ctx, g: g * k))


def _default_dtype():
    def gradient(x, g):
        return g * x * (2 if jtorch.tensor(0.5).dtype == jtorch.float64 else 3)

    return _squared(gradient), lambda k: jtorch.set_default_dtype(jtorch.float64)


def _frozen_and_used_before():
    jtorch.manual_seed(0)
    layer = nn.Linear(3, 3).requires_grad_(False)
    return _squared(lambda x, g: g * layer(x), lambda: layer(jtorch.ones(3))), lambda k: layer.weight.fill_(k)


CALLED = {
    "data": _called(lambda m, k: setattr(m.weight, "data", jtorch.ones(3, 3) * k)),
    "parameter": _called(lambda m, k: setattr(m, "weight", nn.Parameter(jtorch.ones(3, 3) * k))),
    "attribute": _called(lambda m, k: setattr(m, "negative_slope", k), lambda: nn.LeakyReLU(0.1)),
    "a hook": _called(lambda m, k: m.register_forward_hook(lambda m, i, o: o * k)),
    "a child": _called(lambda m, k: m.__setitem__(0, nn.Tanh()), lambda: nn.Sequential(nn.ReLU())),
    "mode of what is checkpointed": _checkpointed(
        lambda m: m.train(), lambda: nn.Sequential(nn.Linear(3, 3), nn.Dropout()).eval()
    ),
    "memory of what is checkpointed": _checkpointed(
        lambda m: setattr(m[0].weight, "data", jtorch.ones(3, 3)),
        lambda: nn.Sequential(nn.Linear(3, 3), nn.Tanh()),
    ),
    "backward": _replaced, "the default dtype": _default_dtype, "frozen": _frozen_and_used_before,
}  # fmt: skip


@pytest.mark.parametrize("at", [0, 2])
@pytest.mark.parametrize("what", CALLED)
def test_what_is_called_on_the_way_back_may_not_change_before_it(what, at):
    for compiled in (False, True):
        jtorch.testing.assert_close(
            jtorch.tensor(_gradients(CALLED[what], compiled, None)),
            jtorch.tensor(_gradients(CALLED[what], False, None)),
        )
    try:
        with pytest.raises(RuntimeError, match=r"on the way back through|modified by an inplace operation"):
            _gradients(CALLED[what], True, at)
    finally:
        jtorch.set_default_dtype(jtorch.float32)


def _is_there():
    state = types.SimpleNamespace(average=jtorch.ones(3))

    def twice(x):
        y = x * x
        y.register_hook(lambda g: g * 2 if state.average is not None else g)
        return y * 2

    return twice, lambda k: setattr(state.average, "data", jtorch.ones(3) * k)


def _is_there_and_written():
    state = types.SimpleNamespace(seen=jtorch.zeros(3))

    def twice(x):
        state.seen.add_(x.detach())
        y = x * x
        y.register_hook(lambda g: g * 2 if state.seen is not None else g)
        return y * 2

    return twice, lambda k: None


def _shape():
    bias = jtorch.ones(3)

    def twice(x):
        y = x * x + bias
        y.register_hook(lambda g: g * bias.shape[0])
        return y * 2

    return twice, lambda k: bias.add_(k)


@pytest.mark.parametrize("n_calls", [1, 2])
@pytest.mark.parametrize("at", [None, 0, 1])
@pytest.mark.parametrize("case", [_is_there, _is_there_and_written, _shape])
def test_tensors_of_which_the_way_back_uses_no_element_may_change(case, at, n_calls):
    assert _gradients(case, True, at, n_calls) == _gradients(case, False, at, n_calls)


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


def _branches():
    flag = jtorch.ones(3)
    return _squared(lambda x, g: g * 2 if flag.sum() > 0 else g * 3)


def _branches_on_the_gradient():
    return _squared(lambda x, g: g * 2 if g.sum() > 0 else g * 3)


def _sets_a_gradient():
    w = nn.Parameter(jtorch.ones(3))

    def gradient(x, g):
        w.grad = None
        return g * x

    return _squared(gradient)


def _keeps_the_gradient():
    w = nn.Parameter(jtorch.ones(3))

    def gradient(x, g):
        w.grad = g.clone()
        return g * x

    return _squared(gradient)


def _sets_a_mode():
    layer = nn.Dropout()
    return _squared(lambda x, g: g * x * (layer.eval() is not None))


def _sets_requires_grad():
    w = jtorch.ones(3, requires_grad=True)
    return _squared(lambda x, g: g * x * (w.requires_grad_(False) is not None))


def _calls_what_is_disabled():
    outside = jtorch.compiler.disable(lambda t: t * 2)
    return _squared(lambda x, g: g * outside(x))


def _uses_an_array_before_too():
    array = np.ones(3, np.float32)

    class Scaled(jtorch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * jtorch.from_numpy(array)

        @staticmethod
        def backward(ctx, g):
            return g * jtorch.from_numpy(array)

    return Scaled.apply


def _reads_a_gradient_that_it_read_before():
    w = nn.Parameter(jtorch.ones(3))
    w.grad = jtorch.ones(3)
    return _squared(lambda x, g: g * x * w.grad, lambda: w.grad.sum())


def _asks_an_argument():
    def twice(x):
        y = x * x
        y.register_hook(lambda g: g * (2 if x.requires_grad else 3))
        return y * 2

    return twice


def _asks_what_hangs_on_an_argument():
    def twice(x):
        y = x * x
        y.register_hook(lambda g: g * getattr(x, "tag", 2))
        return y * 2

    return twice


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
        _reads_what_it_keeps, _checkpoints_what_writes, _branches, _branches_on_the_gradient,
        _sets_a_gradient, _keeps_the_gradient, _sets_a_mode, _sets_requires_grad, _calls_what_is_disabled,
        _uses_an_array_before_too, _reads_a_gradient_that_it_read_before, _asks_an_argument,
        _asks_what_hangs_on_an_argument,
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


def test_a_recording_whose_way_back_fails_for_some_results_is_confirmed():
    """A module's mode moves in between: what trying the ways back recorded is no part of the program."""
    layer = jtorch.nn.LayerNorm(3)

    @jtorch.compile(mode="interpret")
    def step(x):
        y = layer(x)
        z = jtorch.nn.functional.logsigmoid(y)
        y[-1].add_(0.5)
        return z, y

    x = jtorch.ones(3, 3, requires_grad=True)
    step(x)
    for train in (False, True):
        layer.train(train)
        z, y = step(x)
        y.sum().backward()
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            z.sum().backward()


class Both(jtorch.autograd.Function):
    """Two outputs, whose gradients are None where nobody goes back from them."""

    materializes = False

    @classmethod
    def forward(cls, ctx, a, b):
        ctx.set_materialize_grads(cls.materializes)
        return a + b, a * b

    @staticmethod
    def backward(ctx, g, h):
        return g, g * 100 if h is None else h * 3


def test_gradients_that_are_none_by_which_result_somebody_goes_back_from():
    def gradients(f, k):
        a, b = (jtorch.ones(2, requires_grad=True) for _ in range(2))
        f(a, b)[k].sum().backward()
        return [g if g is None else g.tolist() for g in (a.grad, b.grad)]

    def inside(a, b):
        Both.apply(a, b)[0].sum().backward()

    with pytest.raises(CompileError, match="gets None for outputs that no gradient reaches"):
        jtorch.compile(lambda a, b: Both.apply(a, b), fullgraph=True)(
            *(jtorch.ones(2, requires_grad=True),) * 2
        )
    one = jtorch.compile(lambda a, b: Both.apply(a, b)[:1], fullgraph=True)
    for _ in range(3):
        assert gradients(one, 0) == gradients(Both.apply, 0) == [[1, 1], [100, 100]]
    a, b = (jtorch.ones(2, requires_grad=True) for _ in range(2))
    jtorch.compile(inside, fullgraph=True)(a, b)
    assert b.grad.tolist() == [100, 100]
