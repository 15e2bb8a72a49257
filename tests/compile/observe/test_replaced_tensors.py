"""Tensors from outside that a function reads and replaces by others: arguments that nobody passes."""

import types
import warnings

import pytest

import jtorch
from jtorch import nn
from jtorch.core.errors import CompileError
from tests.compile.observe.observing import Slotted


class Average(nn.Module):
    """A running mean in a buffer that ``forward`` assigns."""

    def __init__(self, size=3):
        super().__init__()
        self.register_buffer("mean", jtorch.zeros(size))
        self.register_buffer("steps", jtorch.tensor(0))
        self.register_buffer("last", None)
        self.weight = nn.Parameter(jtorch.ones(size))

    def forward(self, x):
        self.mean = 0.9 * self.mean + 0.1 * x.detach()
        self.steps += 1
        return (x - self.mean) * self.weight / self.steps


class WriteOnly(Average):
    def forward(self, x):
        self.last = x.detach() * 2
        self.mean = x.detach() + 1
        return x * self.weight + self.last


class Twice(Average):
    def forward(self, x):
        for _ in range(2):
            self.mean = self.mean * 0.5 + x.detach()
        self.mean.mul_(2)
        return self.mean * self.weight


class Swap(Average):
    """Two buffers change places."""

    def __init__(self):
        super().__init__()
        self.last = jtorch.ones(3)

    def forward(self, x):
        self.mean, self.last = self.last + x.detach(), self.mean
        return self.mean * self.weight - self.last


class Nested(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Average(), Average()])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x + sum(b.sum() for b in self.layers[0].buffers())


class Plain(Average):
    """An attribute that is not registered."""

    def __init__(self):
        super().__init__()
        self.state = {"h": jtorch.zeros(3)}
        self.plain = jtorch.zeros(3)

    def forward(self, x):
        self.plain = self.plain * 0.5 + x.detach()
        self.state["h"] = self.plain.tanh() + self.state["h"]
        return self.state["h"] * self.weight


class Graph(Average):
    """Recurrent state that carries a graph, cut at the next call."""

    def forward(self, x):
        h = self.mean.detach()
        self.mean = (h * self.weight + x).tanh()
        return self.mean


MODULES = [Average, WriteOnly, Twice, Swap, Nested, Plain, Graph]


def state_of(module):
    found = {k: v.tolist() for k, v in module.state_dict().items()}
    return found | {k: v.tolist() for k, v in vars(module).items() if isinstance(v, jtorch.Tensor)}


def close(a, b):
    if isinstance(a, dict):
        assert a.keys() == b.keys()
        for key in a:
            assert a[key] == pytest.approx(b[key], rel=1e-5, abs=1e-6), key
    else:
        assert a.tolist() == pytest.approx(b.tolist(), rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("inside", [False, True], ids=["backward outside", "backward inside"])
@pytest.mark.parametrize("cls", MODULES)
def test_replaced_tensors_are_those_of_eager_mode(cls, inside):
    ours, eager = cls(), cls()

    def step(module, x):
        out = module(x)
        if inside:
            out.sum().backward()
        return out

    f = jtorch.compile(step)
    jtorch.manual_seed(0)
    for _ in range(8):
        x = jtorch.randn(3)
        out, expected = f(ours, x), step(eager, x)
        if not inside:
            out.sum().backward()
            expected.sum().backward()
        close(out, expected)
        close(state_of(ours), state_of(eager))
        for a, b in zip(ours.parameters(), eager.parameters(), strict=True):
            close(a.grad, b.grad)
    assert len(f.retraces) <= 2, str(f.retraces)


@pytest.mark.parametrize("cls", MODULES)
def test_verified_calls_replace_once(cls):
    ours, eager = cls(), cls()
    f = jtorch.compile(lambda x: ours(x), verify="every:1")
    for k in range(4):
        x = jtorch.full((3,), float(k))
        close(f(x), eager(x))
        close(state_of(ours), state_of(eager))


def test_what_was_replaced_stays_as_it_was_for_who_holds_it():
    module = Average()
    f = jtorch.compile(module)
    held = []
    for k in range(4):
        held.append(module.mean)
        f(jtorch.full((3,), float(k)))
    assert [h[0].item() for h in held] == pytest.approx([0.0, 0.0, 0.1, 0.29])
    assert len({id(h) for h in held}) == 4


def test_a_buffer_that_is_set_outside_meanwhile():
    module = Average()
    f = jtorch.compile(module)
    for k in range(3):
        f(jtorch.ones(3))
        module.mean = jtorch.full((3,), 10.0 * k)
        f(jtorch.ones(3))
        assert module.mean[0].item() == pytest.approx(9.0 * k + 0.1)
        module.load_state_dict(Average().state_dict())
    assert len(f.retraces) == 0, str(f.retraces)


def test_another_shape_or_none_is_recorded_anew():
    class Cache(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("kept", None, persistent=False)

        def forward(self, x, clear=False):
            if clear:
                self.kept = None
                return x
            self.kept = x if self.kept is None else jtorch.cat([self.kept, x])
            return self.kept * 2

    ours, eager = Cache(), Cache()
    f = jtorch.compile(ours)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(3):
            for k in range(4):
                x = jtorch.full((2,), float(k))
                assert f(x).tolist() == eager(x).tolist()
                assert ours.kept.tolist() == eager.kept.tolist()
            f(x, True), eager(x, True)
            assert ours.kept is None
            assert "kept" in ours._buffers
    assert len(f.retraces) <= 5, str(f.retraces)


def test_one_tensor_at_two_places():
    def make():
        state = types.SimpleNamespace(a=jtorch.zeros(2))
        state.b = state.a

        def f(x):
            same = state.a is state.b
            total = state.a + state.b
            state.a = state.a + x
            return total + (100.0 if same else 0.0)

        return f, state

    (f, _), (g, _) = make(), make()
    f = jtorch.compile(f)
    for k in range(4):
        x = jtorch.full((2,), float(k))
        assert f(x).tolist() == g(x).tolist()


def test_the_tensor_that_is_replaced_is_passed_too():
    state = types.SimpleNamespace(h=jtorch.zeros(2))

    def f(x):
        state.h = state.h + x
        return state.h * 2

    f = jtorch.compile(f)
    for expected in (0.0, 2.0, 4.0):
        state.h = jtorch.full((2,), expected / 2)
        assert f(state.h).tolist() == [2 * expected] * 2


def test_places_of_all_kinds():
    h = jtorch.zeros(2)
    slotted, items, table = Slotted(jtorch.zeros(2)), [jtorch.zeros(2)], {"h": jtorch.zeros(2)}

    def f(x):
        nonlocal h
        h = h * 2 + x
        slotted.rate = slotted.rate * 2 + x
        items[0] = items[0] * 2 + x
        table["h"] = table["h"] * 2 + x
        return h + slotted.rate + items[0] + table["h"]

    f = jtorch.compile(f)
    for expected in (1.0, 3.0, 7.0, 15.0):
        assert f(jtorch.ones(2)).tolist() == [4 * expected] * 2
        assert h.tolist() == items[0].tolist() == table["h"].tolist() == slotted.rate.tolist()
    assert len(f.retraces) == 0, str(f.retraces)


def test_what_is_no_tensor_is_refused_as_in_eager_mode():
    module = Average()

    def f(x):
        module.mean = 3.0
        return x

    with pytest.raises(TypeError, match=r"cannot assign 'float' as buffer 'mean'"):
        jtorch.compile(f)(jtorch.ones(3))
    assert module.mean.tolist() == [0.0] * 3


def test_registration_hooks_see_what_is_set():
    from jtorch.nn.modules.module import register_module_buffer_registration_hook

    handle = register_module_buffer_registration_hook(lambda module, name, value: value)
    try:
        with pytest.raises(CompileError, match="changes 'mean'"):
            jtorch.compile(Average())(jtorch.ones(3))
    finally:
        handle.remove()


@pytest.mark.slow
def test_questions_about_the_plan(tmp_path):
    module = Average()
    f = jtorch.compile(module)
    x = jtorch.ones(3)
    for _ in range(2):
        f(x)
    before = state_of(module)
    for ask in (f.stats, f.explain, f.profile, lambda: f.save_repro(tmp_path)):
        assert ask()
        assert state_of(module) == before
    module.mean = jtorch.zeros(3, dtype=jtorch.float64)
    f(jtorch.ones(3))
    assert "mean.dtype" in str(f.retraces), str(f.retraces)
