"""Products with Jacobians and Hessians against PyTorch's."""

from __future__ import annotations

import numpy as np
import pytest

import jtorch
from jtorch.autograd import functional

X = [0.5, -1.2, 2.0]
Y = [1.5, 0.3, -0.7]


def smooth(x):
    return x.exp() * x.sum()


def two_inputs(x, y):
    return x * y.sin() + x.sum()


def two_outputs(x, y):
    return (x * y).sum(), x.reshape(3, 1) * y


def cube(x):
    return (x**3).sum()


def mixed(x, y):
    return (x**2 * y.exp()).sum()


def free_of_y(x, y):
    return x * 2


def flat(found):
    if isinstance(found, tuple):
        return [t for part in found for t in flat(part)]
    return [found]


def assert_same(have, want):
    have, want = flat(have), flat(want)
    assert len(have) == len(want)
    for h, w in zip(have, want, strict=True):
        assert tuple(h.shape) == tuple(w.shape)
        assert h.requires_grad == w.requires_grad
        np.testing.assert_allclose(h.detach().numpy(), w.detach().numpy(), rtol=1e-12, atol=1e-14)


def inputs(library, count, requires_grad=False):
    made = tuple(
        library.tensor(v, dtype=library.float64, requires_grad=requires_grad) for v in (X, Y)[:count]
    )
    return made if count > 1 else made[0]


CALLS = [
    ("vjp", smooth, 1, 1), ("vjp", two_inputs, 2, 1), ("vjp", free_of_y, 2, 1), ("vjp", cube, 1, 0),
    ("jvp", smooth, 1, 1), ("jvp", two_inputs, 2, 2), ("jvp", free_of_y, 2, 2), ("jvp", two_outputs, 2, 2),
    ("vhp", cube, 1, 1), ("vhp", mixed, 2, 2), ("hvp", cube, 1, 1), ("hvp", mixed, 2, 2),
    ("jacobian", smooth, 1, 0), ("jacobian", two_inputs, 2, 0), ("jacobian", two_outputs, 2, 0),
    ("jacobian", free_of_y, 2, 0), ("hessian", cube, 1, 0), ("hessian", mixed, 2, 0),
]  # fmt: skip


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize(("name", "func", "count", "directions"), CALLS)
def test_same_numbers(name, func, count, directions, create_graph):
    torch = pytest.importorskip("torch")
    found = []
    for library in (jtorch, torch):
        call = getattr(library.autograd.functional, name)
        v = (inputs(library, directions),) if directions else ()
        found.append(call(func, inputs(library, count, create_graph), *v, create_graph=create_graph))
    assert_same(*found)


def test_differentiable_again():
    x = inputs(jtorch, 1, requires_grad=True)
    h = functional.hessian(lambda x: (x**4).sum(), x, create_graph=True)
    h.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 24 * np.array(X))


@pytest.mark.parametrize("name", ["jacobian", "hessian"])
def test_other_strategies(name):
    func = smooth if name == "jacobian" else cube
    x = inputs(jtorch, 1)
    call = getattr(functional, name)
    want = call(func, x)
    keyword = "strategy" if name == "jacobian" else "outer_jacobian_strategy"
    forward = call(func, x, vectorize=True, **{keyword: "forward-mode"})
    np.testing.assert_allclose(forward.numpy(), want.numpy(), rtol=1e-12)
    np.testing.assert_allclose(call(func, x, vectorize=True).numpy(), want.numpy(), rtol=1e-12)


def test_empty_and_scalar_shapes():
    assert tuple(functional.jacobian(lambda x: x * 2, jtorch.zeros(0)).shape) == (0, 0)
    assert functional.jacobian(lambda x: x**2, jtorch.tensor(3.0)).item() == 6


ERRORS = [
    ("vjp", lambda x: 3, {}), ("vjp", lambda x: x, {}), ("jvp", lambda x: x, {}),
    ("vhp", lambda x: x, {"v": X}), ("hvp", lambda x: (x.sum(),), {"v": X}),
    ("hessian", lambda x: x, {}), ("hessian", lambda x: (x.sum(),), {}),
    ("jacobian", lambda x: x.detach(), {"strict": True}), ("vjp", lambda x: x.detach(), {"strict": True}),
    ("hessian", lambda x: x.sum(), {"strict": True}), ("vhp", lambda x: x.sum(), {"strict": True, "v": X}),
    ("jvp", lambda x: x * 2, {"v": [1.0]}), ("jacobian", smooth, {"strict": True, "vectorize": True}),
    ("jvp", lambda x: x.detach(), {"strict": True, "v": X}),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(ERRORS)))
def test_error_sentences(number):
    torch = pytest.importorskip("torch")
    name, func, options = ERRORS[number]
    said = []
    for library in (torch, jtorch):
        given = dict(options)
        if "v" in given:
            given["v"] = library.tensor(given["v"], dtype=library.float64)
        with pytest.raises((RuntimeError, TypeError)) as error:
            getattr(library.autograd.functional, name)(func, inputs(library, 1), **given)
        said.append((type(error.value), str(error.value)))
    assert said[1] == said[0]


def test_unknown_strategy():
    with pytest.raises(AssertionError, match="Expected strategy to be either"):
        functional.jacobian(cube, inputs(jtorch, 1), strategy="sideways")
    with pytest.raises(NotImplementedError, match="only implemented for `vectorize=True`"):
        functional.jacobian(cube, inputs(jtorch, 1), strategy="forward-mode")
    with pytest.raises(NotImplementedError, match="create_graph=True"):
        functional.jacobian(cube, inputs(jtorch, 1), create_graph=True, strategy="forward-mode")
