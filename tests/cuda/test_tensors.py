"""Tensors on the tests' device: where they are, what is computed there, and that it is what the CPU gives."""

from __future__ import annotations

import copy
import logging

import numpy as np
import pytest

import jtorch
from jtorch import nn
from tests.cuda.marks import compiles
from tests.each import each

pytestmark = pytest.mark.usefixtures("cuda")


def on_both(*shape, dtype=jtorch.float32):
    """The same draws on the host and on the device."""
    x = jtorch.randn(*shape).to(dtype)
    return x, x.cuda()


def bits(tensor):
    return np.ascontiguousarray(tensor.detach().cpu().numpy()).tobytes()


def assert_same(found, expected, tolerance=0.0):
    assert found.is_cuda and not expected.is_cuda
    assert found.shape == expected.shape and found.dtype == expected.dtype
    if tolerance:
        jtorch.testing.assert_close(found.cpu(), expected, rtol=tolerance, atol=tolerance)
    else:
        assert bits(found) == bits(expected)


def test_a_tensor_goes_there_and_back():
    x, there = on_both(3, 4)
    assert there.device == jtorch.device("cuda", 0) and there.is_cuda and there.get_device() == 0
    assert there.to("cuda") is there and x.cpu() is x
    assert_same(there, x)
    assert there.cpu().device == jtorch.device("cpu")
    assert repr(jtorch.tensor([1.0, 2.0], device="cuda")) == "tensor([1., 2.], device='cuda:0')"
    assert jtorch.tensor(3, device="cuda").item() == 3
    assert jtorch.zeros(2, device="cuda").tolist() == [0.0, 0.0]


def test_numpy_gets_nothing_unasked():
    there = jtorch.ones(2, device="cuda")
    for ask in (there.numpy, lambda: np.asarray(there), lambda: np.concatenate([there, there])):
        with pytest.raises(
            TypeError, match=r"can't convert cuda:0 device type tensor to numpy\. Use Tensor\.cpu"
        ):
            ask()


def test_devices_do_not_mix_but_numbers_do():
    x, there = on_both(2, 2)
    for mix in (lambda: there + x, lambda: x @ there, lambda: nn.functional.linear(there, x)):
        with pytest.raises(
            RuntimeError, match="Expected all tensors to be on the same device, but found at least"
        ):
            mix()
    assert_same(there * jtorch.tensor(2.0), x * 2.0)
    assert_same(jtorch.tensor(2.0) - there, 2.0 - x)
    assert_same(there[jtorch.tensor([1])], x[jtorch.tensor([1])])


VIEWS = {
    "t": lambda x: x.t(),
    "transpose": lambda x: x.transpose(0, 1),
    "select": lambda x: x[1],
    "slice": lambda x: x[1:, ::2],
    "reshape": lambda x: x.reshape(2, 6),
    "expand": lambda x: x[None].expand(2, 3, 4),
    "diagonal": lambda x: x.diagonal(),
    "squeeze": lambda x: x.unsqueeze(1).squeeze(1),
    "unfold": lambda x: x.unfold(1, 2, 1),
    "as_strided": lambda x: x.as_strided((2, 2), (4, 2), 1),
}


@each("name", VIEWS)
def test_views_share_memory(name):
    x, there = on_both(3, 4)
    seen, expected = VIEWS[name](there), VIEWS[name](x)
    assert_same(seen, expected)
    assert seen.stride() == expected.stride()
    before = seen._version
    there.add_(1.0), x.add_(1.0)
    assert_same(seen, expected)
    assert seen._version == before + 1


@each("name", VIEWS.keys() - {"expand", "unfold"})
def test_writes_through_views_arrive(name):
    x, there = on_both(3, 4)
    VIEWS[name](there).mul_(3.0), VIEWS[name](x).mul_(3.0)
    assert_same(there, x)


FUNCTIONS = {
    "arithmetic": (lambda x: (x * 2.0 + 1) / (x.abs().sqrt() + 1), 0.0),
    "transcendental": (lambda x: (x * 2.0 + 1).tanh() / (x.exp() + 1), 1e-6),  # NumPy's own functions
    "number": (lambda x: x.clamp(-0.5, 0.5) ** 2, 0.0),
    "choice": (lambda x: jtorch.where(x > 0, x, -x), 0.0),
    "sum": (lambda x: x.sum(1), 1e-6),
    "mean of columns": (lambda x: x.t().mean(0), 1e-6),
    "softmax": (lambda x: x.softmax(1), 1e-6),
    "product": (lambda x: x @ x.t(), 1e-6),
    "layer_norm": (lambda x: nn.functional.layer_norm(x, (x.shape[1],)), 1e-5),
    "cat": (lambda x: jtorch.cat([x, x * 2], 1), 0.0),
    "gather": (lambda x: x[:, jtorch.tensor([2, 0])], 0.0),
    "sort": (lambda x: x.sort(1).values, 0.0),
    "cumsum": (lambda x: x.cumsum(0), 1e-6),
    "float64": (lambda x: x.double().sin(), 1e-15),
    "complex": (lambda x: (x + 1j * x).abs(), 1e-6),
}


@compiles
@pytest.mark.slow
@each("name", FUNCTIONS)
def test_functions_and_gradients_are_those_of_the_cpu(name):
    function, tolerance = FUNCTIONS[name]
    x, there = on_both(3, 4)
    x.requires_grad_(), there.requires_grad_()
    expected, found = function(x), function(there)
    assert_same(found, expected, tolerance)
    weights, there_weights = on_both(*expected.shape, dtype=expected.dtype)
    (expected * weights).sum().backward()
    (found * there_weights).sum().backward()
    assert_same(there.grad, x.grad, 1e-5)


def test_what_no_kernel_does_goes_by_the_host_and_says_so_once(caplog):
    with caplog.at_level(logging.INFO, "jtorch.device"):
        for _ in range(2):
            jtorch.ones(3, device="cuda").cumprod(0)
    told = [r.message for r in caplog.records if "is computed on the host" in r.message]
    assert len(told) <= 1  # other tests may have been told
    assert all("cumprod" in text for text in told)


def test_an_index_out_of_range_is_the_error_of_the_cpu():
    x, there = on_both(3, 2)
    for tensor, place in ((x, "cpu"), (there, "cuda")):
        with pytest.raises(IndexError, match="out of"):
            tensor.index_select(0, jtorch.tensor([5], device=place))


def test_gradients_go_from_one_device_to_the_other():
    x = jtorch.randn(2, 3, requires_grad=True)
    (x.cuda() * 2.0).sum().backward()
    assert not x.grad.is_cuda and x.grad.tolist() == [[2.0] * 3] * 2


def test_gradients_accumulate_where_they_lie_and_graphs_are_kept():
    w = jtorch.ones(3, device="cuda", requires_grad=True)
    loss = (w * w).sum()
    loss.backward(retain_graph=True)
    kept = w.grad
    loss.backward()
    assert w.grad is kept and kept.tolist() == [4.0] * 3
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        loss.backward()


def test_second_gradients():
    w = jtorch.tensor([1.0, 2.0], device="cuda", requires_grad=True)
    (g,) = jtorch.autograd.grad((w**3).sum(), w, create_graph=True)
    g.sum().backward()
    assert w.grad.tolist() == [6.0, 12.0]


def test_a_saved_tensor_that_was_changed_is_refused():
    w = jtorch.ones(2, device="cuda", requires_grad=True)
    y = w * 2.0
    out = (y * y).sum()
    with jtorch.no_grad():
        y.add_(1.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.backward()


def test_writes_to_views_of_what_has_a_gradient():
    w, there = (jtorch.ones(3, 2, requires_grad=True) for _ in range(2))
    for leaf, place in ((w, "cpu"), (there, "cuda")):
        y = leaf.to(place) * 2.0
        y[1] = y[0] * 3.0
        y.sum().backward()
    assert there.grad.tolist() == w.grad.tolist()


class Double(jtorch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2.0

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        assert g.is_cuda and x.is_cuda
        return g * 2.0


def test_custom_functions_and_hooks_see_tensors_there():
    w = jtorch.ones(2, device="cuda", requires_grad=True)
    seen = []
    y = Double.apply(w)
    y.register_hook(lambda g: seen.append(g.is_cuda))
    w.register_hook(lambda g: g * 10.0)
    y.sum().backward()
    assert seen == [True] and w.grad.tolist() == [20.0, 20.0]


def test_draws_are_those_of_the_cpu():
    found = []
    for place in ("cpu", "cuda"):
        jtorch.manual_seed(5)
        x = jtorch.ones(50, device=place)
        found.append(
            [jtorch.randn(4, device=place), nn.functional.dropout(x), jtorch.rand_like(x), x.bernoulli(0.3)]
        )
    for expected, there in zip(*found, strict=True):
        assert_same(there, expected)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.out = nn.RNNCell(4, 6), nn.Linear(6, 3)

    def forward(self, x):
        h = jtorch.zeros(x.shape[0], 6, device=x.device)
        for step in range(3):
            h = self.cell(x[:, step], h)
        return self.out(h)


def perceptron():
    return nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 3))


def lenet():
    features = (nn.Conv2d(1, 3, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(3, 4, 3), nn.ReLU())
    return nn.Sequential(*features, nn.Flatten(), nn.Linear(16, 3))


NETS = {
    "perceptron": (perceptron, (6, 5)),
    "recurrent": (Recurrent, (6, 3, 4)),
    "lenet": (lenet, (4, 1, 8, 8)),
}
OPTIMIZERS = {
    "SGD": lambda p: jtorch.optim.SGD(p, lr=0.05, momentum=0.9),
    "Adam": lambda p: jtorch.optim.Adam(p, lr=0.01),
}


def trained(net, optimizer, place):
    """The parameters after three steps, and the last loss."""
    jtorch.manual_seed(0)
    make, shape = NETS[net]
    model = make().to(place)
    assert all(p.device.type == place for p in model.parameters())
    steps = OPTIMIZERS[optimizer](model.parameters())
    x, target = jtorch.randn(*shape).to(place), jtorch.randint(0, 3, shape[:1]).to(place)
    for _ in range(3):
        steps.zero_grad()
        loss = nn.functional.cross_entropy(model(x), target)
        loss.backward()
        steps.step()
    return [*(p.detach().cpu() for p in model.parameters()), loss.detach().cpu()]


@pytest.mark.slow
@each("case", [f"{net} {optimizer}" for net in NETS for optimizer in OPTIMIZERS])
def test_training_is_that_of_the_cpu(case):
    pairs = zip(trained(*case.split(), "cpu"), trained(*case.split(), "cuda"), strict=True)
    assert max((a - b).abs().max().item() for a, b in pairs) <= 1e-6


def test_a_default_device():
    with jtorch.device("cuda"):
        assert jtorch.zeros(2).is_cuda and jtorch.tensor([1.0]).is_cuda
        assert not jtorch.zeros(2, device="cpu").is_cuda
    assert not jtorch.zeros(2).is_cuda
    jtorch.set_default_device("cuda")
    try:
        assert jtorch.arange(3).is_cuda and jtorch.get_default_device().type == "cuda"
    finally:
        jtorch.set_default_device("cpu")


def test_another_device_than_the_one_there_is():
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        jtorch.zeros(2, device="cuda:1")


def test_copies_are_there_and_apart():
    x = jtorch.ones(2, device="cuda", requires_grad=True)
    twin = copy.deepcopy(x)
    twin.data.add_(1.0)
    assert twin.is_cuda and twin.requires_grad and x.tolist() == [1.0, 1.0]


def test_copy_between_devices_in_place():
    x, there = on_both(2, 2)
    there.copy_(x * 2.0)
    assert_same(there, x * 2.0)
    x.copy_(there)
    assert_same(there, x)


def test_a_copy_to_meta_has_no_elements():
    x = jtorch.ones(2, 3, device="cuda").t()
    there = x.to("meta")
    assert there.device.type == "meta" and there.shape == (3, 2) and there.dtype == x.dtype
    assert there.to("meta") is there and x.device.type == "cuda"


def test_other_libraries_find_the_memory():
    x = jtorch.ones(2, 3, device="cuda").t()
    told = x.__cuda_array_interface__
    assert told["shape"] == (3, 2) and told["strides"] == (4, 12) and told["data"] == (x.data_ptr(), False)


def test_a_profile_notes_what_runs_there_once():
    w = jtorch.ones(3, device="cuda", requires_grad=True)
    with jtorch.profiler.profile() as profile:
        (w.exp() + 1.0).sum().backward()
    names = [event.name for event in profile.events()]
    assert [names.count(name) for name in ("exp", "add", "sum")] == [1, 1, 1]
    assert "ExpBackward0" in " ".join(names) and w.grad.is_cuda
