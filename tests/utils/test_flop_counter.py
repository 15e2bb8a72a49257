"""``FlopCounterMode`` against PyTorch's and by hand, and the tracker of modules below it."""

from __future__ import annotations

import importlib

import pytest

import jtorch
from jtorch import nn
from jtorch.utils.flop_counter import FlopCounterMode, conv_flop_count, register_flop_formula
from tests.each import each

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit")  # the oracle's own


def _network(L):
    class Network(L.nn.Module):
        def __init__(self):
            super().__init__()
            self.a = L.nn.Linear(4, 4)
            self.b = L.nn.Sequential(L.nn.Linear(4, 8, bias=False), L.nn.ReLU(), L.nn.Linear(8, 2))

        def forward(self, x):
            return self.b(self.a(x))

    return Network()


def _back(out):
    out.sum().backward()


def _leaf(L, *shape):
    return L.ones(*shape, requires_grad=True)


def _attention(L):
    attention = L.nn.MultiheadAttention(16, 4)
    attention(*[L.ones(3, 2, 16)] * 3)


PROGRAMS = {
    "mm": lambda L: _back(_leaf(L, 3, 4) @ _leaf(L, 4, 5)),
    "mm of one leaf": lambda L: _back(_leaf(L, 3, 4) @ L.ones(4, 5)),
    "bmm": lambda L: _back(L.bmm(_leaf(L, 2, 3, 4), _leaf(L, 2, 4, 5))),
    "rows of a batch": lambda L: _back(_leaf(L, 2, 3, 4) @ _leaf(L, 4, 5)),
    "matmul of a batch": lambda L: _back(_leaf(L, 6, 2, 3, 4) @ _leaf(L, 6, 2, 4, 5)),
    "addmm": lambda L: _back(L.addmm(L.ones(3, 5), _leaf(L, 3, 4), _leaf(L, 4, 5))),
    "multi_dot": lambda L: L.linalg.multi_dot([L.ones(4, 7), L.ones(7, 4), L.ones(4, 7)]),
    "tensordot": lambda L: L.tensordot(L.ones(5, 3, 4), L.ones(4, 7), 1),
    "linear": lambda L: _back(L.nn.functional.linear(_leaf(L, 5, 3, 4), _leaf(L, 7, 4), L.ones(7))),
    "conv": lambda L: _back(L.nn.Conv2d(3, 6, 3)(L.ones(2, 3, 8, 8))),
    "conv in groups": lambda L: _back(
        L.nn.Conv2d(4, 6, 3, groups=2, padding=1, stride=2)(_leaf(L, 2, 4, 8, 8))
    ),
    "transposed conv": lambda L: _back(
        L.nn.ConvTranspose2d(4, 6, 3, groups=2, stride=2)(_leaf(L, 2, 4, 8, 8))
    ),
    "conv of a line": lambda L: _back(L.nn.Conv1d(3, 6, 3)(L.ones(3, 8))),
    "network": lambda L: _back(_network(L)(L.ones(2, 4))),
    "network, forward": lambda L: _network(L)(L.ones(2, 4)),
    "attention": _attention,
    "nothing": lambda L: L.ones(2).exp(),
}


def _counted(L, name):
    counter = importlib.import_module(f"{L.__name__}.utils.flop_counter").FlopCounterMode(display=False)
    with counter:
        PROGRAMS[name](L)
    told = {
        module: {str(op): n for op, n in counts.items()}
        for module, counts in counter.get_flop_counts().items()
    }
    return counter.get_total_flops(), told


@each("name", list(PROGRAMS))
def test_counts_are_pytorchs(name):
    torch = pytest.importorskip("torch")
    assert _counted(jtorch, name) == _counted(torch, name)


BY_HAND = {
    "attention": (lambda x: nn.functional.scaled_dot_product_attention(x, x, x), 2 * 2 * 2 * 3 * 3 * 4, 2),
    "RNN": (lambda x: nn.RNN(4, 6)(x)[0], 2 * 6 * 6 * (4 + 6), 2),
    "GRU": (lambda x: nn.GRU(4, 6)(x)[0], 2 * 6 * 18 * (4 + 6), 2),
    "LSTM": (lambda x: nn.LSTM(4, 6)(x)[0], 2 * 6 * 24 * (4 + 6), 2),
    "LSTM, projected": (lambda x: nn.LSTM(4, 6, proj_size=5)(x)[0], 2 * 6 * (24 * (4 + 5) + 5 * 6), 2),
    "einsum": (lambda x: jtorch.einsum("bij,bkj->bik", x, x), 2 * 2 * 3 * 3 * 4, 2),
    "matrix and vector": (lambda x: x[0] @ x[0, 0], 2 * 3 * 4, 2),
}


@each("name", list(BY_HAND))
def test_counts_by_hand(name):
    function, forward, backward = BY_HAND[name]
    x = jtorch.ones(2, 3, 4, requires_grad=True)
    with FlopCounterMode(display=False) as counter:
        out = function(x)
    assert counter.get_total_flops() == forward
    with FlopCounterMode(display=False) as counter:
        out.sum().backward()
    assert counter.get_total_flops() == backward * forward


def test_second_derivatives_are_counted():
    x = jtorch.ones(3, 3, requires_grad=True)
    with FlopCounterMode(display=False) as counter:
        (g,) = jtorch.autograd.grad((x @ x @ x).sum(), x, create_graph=True)
        before = counter.get_total_flops()
        g.sum().backward()
    assert counter.get_total_flops() > before > 2 * 2 * 27


def test_compiled_functions_are_counted_and_go_on_afterwards():
    f = jtorch.compile(lambda x: (x @ x).relu() @ x, fullgraph=True)
    x = jtorch.ones(4, 4)
    expected = f(x)
    recordings = sum(map(len, f.plans.values()))
    with FlopCounterMode(display=False) as counter, jtorch.no_grad():
        assert jtorch.equal(f(x), expected)
    assert counter.get_total_flops() == 2 * 2 * 64
    assert jtorch.equal(f(x), expected)
    assert sum(map(len, f.plans.values())) == recordings


def test_inside_a_compiled_function_it_is_refused():
    def counted(x):
        with FlopCounterMode(display=False):
            return x @ x

    with pytest.raises(jtorch.errors.CompileError, match="watched from inside a compiled function"):
        jtorch.compile(counted, fullgraph=True)(jtorch.ones(2, 2))
    assert jtorch.ones(2, 2).mm(jtorch.ones(2, 2)).tolist() == [[2.0, 2.0], [2.0, 2.0]]


def test_inside_of_another_one_and_of_a_profile():
    x = jtorch.ones(2, 2)
    with FlopCounterMode(display=False) as outer:
        with jtorch.profiler.profile() as profile, FlopCounterMode(display=False) as inner:
            x @ x
        x @ x
    assert (outer.get_total_flops(), inner.get_total_flops()) == (32, 16)
    assert [event.key for event in profile.key_averages()] == ["mm"]
    x @ x
    assert outer.get_total_flops() == 32
    with pytest.raises(ZeroDivisionError), outer:
        raise ZeroDivisionError
    assert outer.get_total_flops() == 0


def test_table(capsys):
    with FlopCounterMode(depth=3) as counter:
        _back(_network(jtorch)(jtorch.ones(2, 4)))
    lines = capsys.readouterr().out.splitlines()
    assert lines[:4] == [
        "Module             FLOP    % Total",
        "---------------  ------  ---------",
        "Network             704    100.00%",
        " - aten.addmm       128     18.18%",
    ]
    assert "  Network.b.0       384     54.55%" in lines
    assert "Network.b.0" not in counter.get_table(2)
    with FlopCounterMode(display=False) as counter:
        jtorch.ones(2, 2) @ jtorch.ones(2, 2)
        nn.Linear(500, 500)(jtorch.ones(100, 500))
    assert counter.get_table().splitlines()[2].split() == ["Global", "50.000M", "100.00%"]
    assert counter.get_table().splitlines()[-2].split() == ["Linear", "50.000M", "100.00%"]
    assert FlopCounterMode().get_table().splitlines()[2].split() == ["Global", "0", "0%"]


def test_formulas_of_users():
    aten = jtorch.ops.aten
    with FlopCounterMode(
        display=False, custom_mapping={aten.sin: lambda x, out_shape: 7 * out_shape[0]}
    ) as c:
        jtorch.ones(3, 2).sin()
    assert c.get_flop_counts()["Global"] == {aten.sin: 21}
    for target, error, match in (
        ("sin", ValueError, "expected each target to be OpOverloadPacket"),
        (aten.mm, RuntimeError, "duplicate registrations for aten.mm"),
    ):
        with pytest.raises(error, match=match):
            register_flop_formula(target)(lambda *shapes, out_shape: 0)
    with pytest.raises(NotImplementedError):
        register_flop_formula(aten.sin, get_raw=True)
    with pytest.warns(UserWarning, match="mods argument is not needed anymore"):
        FlopCounterMode(nn.Linear(1, 1))


def test_a_convolution_by_hand():
    assert conv_flop_count((2, 3, 8), (4, 3, 3), (2, 4, 6)) == 2 * 2 * 6 * 4 * 3 * 3
    assert conv_flop_count((2, 4, 6), (4, 3, 3), (2, 3, 8), True) == 2 * 2 * 6 * 4 * 3 * 3


@pytest.mark.parametrize("library", ["jtorch", "torch"])
def test_modules_forward_and_backward(library):
    L = pytest.importorskip(library)
    tracker = importlib.import_module(f"{library}.utils.module_tracker").ModuleTracker()
    network, seen = _network(L), []

    class Note(L.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            seen.append((sorted(tracker.parents), tracker.is_bw))
            return x * 1

        @staticmethod
        def backward(ctx, g):
            seen.append((sorted(tracker.parents), tracker.is_bw))
            return g

    network.b[1].forward = Note.apply
    with tracker:
        network(L.ones(2, 4, requires_grad=True)).sum().backward()
    assert seen == [(["Global", "Network", "Network.b", "Network.b.1"], k) for k in (False, True)]
    assert tracker.parents == {"Global"}


@pytest.mark.parametrize("library", ["jtorch", "torch"])
def test_the_gradient_of_a_convolution_by_its_name(library):
    L = pytest.importorskip(library)
    x, w = L.arange(10.0).reshape(1, 2, 5), L.arange(12.0).reshape(2, 2, 3)
    given = (L.ones(1, 2, 3), x, w, [2], [1], [0], [1], False, [0], 1)
    found = L.ops.aten.convolution_backward(*given, [True, False, True])
    assert found[1] is None
    assert found[2].tolist() == [3.0, 3.0]
    assert tuple(found[0].shape) == (1, 2, 5)
