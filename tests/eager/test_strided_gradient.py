"""``as_strided`` of views whose gradient is wanted, of memory in another order, and beside its input."""

from __future__ import annotations

import importlib
import importlib.util
import warnings

import numpy as np
import pytest

import jtorch
from jtorch.errors import CompileError
from tests.each import each

HAS_TORCH = importlib.util.find_spec("torch") is not None
VIEWS = {  # what is taken of a vector of 12 -> the arguments of as_strided, which values it gives
    "slice": (lambda y: y[3:], ((2, 2), (1, 2)), [3, 5, 4, 6]),
    "slice from the begin": (lambda y: y[3:], ((2, 2), (1, 2), 1), [1, 3, 2, 4]),
    "steps": (lambda y: y[::3], ((3,), (2,)), [0, 2, 4]),
    "columns": (lambda y: y.view(3, 4)[:, 1:3], ((2, 3), (1, 3)), [1, 4, 7, 2, 5, 8]),
    "turned": (lambda y: y.view(3, 4).t(), ((2, 3), (1, 3)), [0, 3, 6, 1, 4, 7]),
    "turned, windows": (lambda y: y.view(3, 4).t(), ((2, 3), (1, 1), 2), [2, 3, 4, 3, 4, 5]),
    "turned, a number": (lambda y: y.view(2, 2, 3).permute(2, 0, 1), ((), (), 3), [3]),
    "expanded": (lambda y: y[2:5].expand(4, 3), ((2, 2), (1, 1)), [2, 3, 3, 4]),
    "expanded, more": (lambda y: y[2:5].expand(4, 3), ((2, 2), (3, 1), 1), [1, 2, 4, 5]),
    "windows": (lambda y: y.unfold(0, 3, 1), ((5,), (2,), 1), [1, 3, 5, 7, 9]),
    "number": (lambda y: y[4], ((), ()), [4]),
    "number, more": (lambda y: y[4], ((3,), (2,), 0), [0, 2, 4]),
    "repeated": (lambda y: y[4:6], ((3, 2), (0, 1)), [4, 5] * 3),
    "one of one": (lambda y: y[::5][1:2], ((1,), (7,)), [5]),
    "nothing": (lambda y: y[4:6], ((0, 2), (1, 1)), []),
}  # fmt: skip
IN_ORDER = ("slice", "turned", "turned, windows", "turned, a number", "number", "repeated", "one of one")


def libraries():
    return [jtorch] + ([importlib.import_module("torch")] if HAS_TORCH else [])


def leaf(L):
    return (L.arange(12.0, dtype=L.float64) * 0.5 + 1).requires_grad_()


def derivatives(L, name, x):
    """The view, the gradients to what it was taken of and to ``x``, and that of the first one's square."""
    make, arguments, _ = VIEWS[name]
    source = make(x * 1)
    z = source.as_strided(*arguments)
    weights = L.arange(1.0, z.numel() + 1, dtype=L.float64).reshape(tuple(z.shape))
    to_source, to_x = L.autograd.grad((z**3 * weights).sum(), (source, x), create_graph=True)
    if not z.numel():
        return z * 1, to_source * 1, to_x * 1
    (second,) = L.autograd.grad((to_source * to_source).sum(), x)
    return z * 1, to_source * 1, to_x * 1, second * 1


@each("name", VIEWS)
def test_gradients_are_pytorchs(name):
    torch = pytest.importorskip("torch")
    wanted = derivatives(torch, name, leaf(torch))
    for got, right in zip(derivatives(jtorch, name, leaf(jtorch)), wanted, strict=True):
        np.testing.assert_allclose(got.detach().numpy(), right.detach().numpy(), rtol=1e-12)


@each("name", VIEWS)
def test_elements_beside_the_input_have_no_gradient(name):
    """Of what is read, those that the input has get it; of one place it is the sum, whoever reads it."""
    make, arguments, places = VIEWS[name]
    x = jtorch.arange(12.0, requires_grad=True)
    source = make(x * 1)
    z = source.as_strided(*arguments)
    assert z.reshape(-1).tolist() == places and "AsStrided" in z.grad_fn.name()
    z.sum().backward()
    has = set(make(jtorch.arange(12)).reshape(-1).tolist())
    np.testing.assert_allclose(x.grad, [places.count(k) if k in has else 0 for k in range(12)], rtol=1e-6)


@each("name", VIEWS)
def test_compiled(name):
    """What lies side by side is recorded; the rest runs as it is, with a warning."""

    def step(x):
        return derivatives(jtorch, name, x)

    wanted = step(leaf(jtorch))
    got = jtorch.compile(step)
    if name in (*IN_ORDER, "nothing"):
        found = got(leaf(jtorch))
    else:
        with pytest.raises(CompileError, match=r"test_strided_gradient.*as_strided\(\)"):
            got(leaf(jtorch))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = jtorch.compile(step, fullgraph=False)(leaf(jtorch))
    for value, right in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(value.detach().numpy(), right.detach().numpy())


@pytest.mark.filterwarnings("ignore:`torch.jit.script`:DeprecationWarning")  # the oracle's own
@each("name", VIEWS)
def test_forward_mode_reads_the_tangent_there(name):
    for L in libraries():
        make, arguments, places = VIEWS[name]
        with L.autograd.forward_ad.dual_level():
            x = L.autograd.forward_ad.make_dual(L.arange(12.0), L.arange(12.0) + 10)
            tangent = L.autograd.forward_ad.unpack_dual(make(x).as_strided(*arguments)).tangent
        assert tangent.reshape(-1).tolist() == [10.0 + k for k in places]


def test_leaves_that_lie_in_other_memory():
    """A solver's state: a row of a matrix that begins to require grad, and a transposed parameter."""
    for L in libraries():
        rows = L.arange(6.0).view(3, 2)
        for given in (rows[1], rows.t(), rows[1:].t(), rows[:, 1]):
            x = given.detach().requires_grad_()
            number = L.as_strided(x, (), ())
            assert number.item() == x.reshape(-1)[0].item()
            (number * 3).backward()
            assert x.grad.reshape(-1).tolist() == [3.0] + [0.0] * (x.numel() - 1)


def test_without_gradients_all_of_the_memory_is_there():
    for L in libraries():
        base = L.arange(8.0)
        for part in (base[:3].detach(), base[1::2].detach(), base.view(2, 4).t().detach()):
            assert part.as_strided((8,), (1,), 0).tolist() == list(range(8))
            with pytest.raises(RuntimeError, match="out of bounds for storage of size 32"):
                part.as_strided((9,), (1,), 0)
        with L.no_grad():
            assert base.requires_grad_()[::2].as_strided((2,), (1,), 1).tolist() == [1.0, 2.0]


def test_a_write_to_memory_beside_the_input_is_refused_where_gradients_flow():
    w = jtorch.ones(2, requires_grad=True)
    base = jtorch.arange(6.0)
    for source in (base[::2].detach(), (base * w[0])[::2]):
        view = source.as_strided((2,), (1,))
        with pytest.raises(
            RuntimeError, match=r"as_strided\(\) made a view of memory that its input has not"
        ):
            view.mul_(w)
    view = base[::2].detach().as_strided((2,), (1,), 1)
    view.mul_(10)  # nothing follows that
    assert base.tolist() == [0.0, 10.0, 20.0, 3.0, 4.0, 5.0]


def test_a_write_to_what_lies_side_by_side_is_followed():
    for L in libraries():
        x = L.arange(6.0, requires_grad=True)
        y = (x * 2).view(2, 3).t()
        y.as_strided((2,), (1,), 1).mul_(x[:2])
        y.sum().backward()
        assert x.grad.tolist() == [4.0, 4.0, 2.0, 2.0, 2.0, 2.0]


def test_in_functions_that_are_mapped():
    rows = jtorch.arange(12.0).reshape(3, 4)
    seen = jtorch.vmap(jtorch.func.grad(lambda a: (a[1:].as_strided((2, 2), (1, 1)) ** 2).sum()))(rows)
    assert seen.tolist() == [[0.0, 2 * b, 4 * c, 2 * d] for _, b, c, d in rows.tolist()]
    for read in (lambda a: a[1:].as_strided((2,), (1,), 0), lambda a: a[::2].as_strided((2,), (1,))):
        with pytest.raises(NotImplementedError, match=r"vmap\(\) maps"):
            jtorch.vmap(jtorch.func.grad(lambda a, read=read: read(a).sum()))(rows)
