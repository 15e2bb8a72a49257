"""``set_``, ``is_set_to``, ``as_strided_``: a tensor that looks at other memory, in PyTorch's way."""

from __future__ import annotations

import pytest

import jtorch
from tests.each import each
from tests.ops.support import needs_torch

LIBRARIES = pytest.mark.parametrize("library", ["jtorch", "torch"])


@LIBRARIES
def test_set_to_a_tensor(library):
    L = pytest.importorskip(library)
    a, b = L.zeros(2), L.arange(6.0)
    before = a.view(2)
    assert a.set_(b) is a
    assert a.is_set_to(b)
    assert b.is_set_to(a)
    assert not a.is_set_to(b[1:])
    assert not b[:4].is_set_to(b[:4].view(2, 2))
    b[0] = 9
    a[1] = 8
    assert a.tolist() == b.tolist() == [9.0, 8.0, 2.0, 3.0, 4.0, 5.0]
    assert before.tolist() == [0.0, 0.0]
    assert a.set_().shape == (0,)


@LIBRARIES
def test_windows_of_a_storage(library):
    L = pytest.importorskip(library)
    b = L.arange(6.0)
    part = b[2:]
    for source, start in ((b.untyped_storage(), 1), (part, -1), (part.detach().untyped_storage(), 1)):
        a = L.zeros(1).set_(source, start, (2, 2), (1, 3))
        assert (a.tolist(), a.stride(), a.storage_offset()) == ([[1.0, 4.0], [2.0, 5.0]], (1, 3), 1)
        assert a.untyped_storage().data_ptr() == b.data_ptr()
        assert a.as_strided((2,), (1,), 0).tolist() == [0.0, 1.0]
    assert L.zeros(1).set_(b.untyped_storage()).tolist() == b.tolist()
    assert L.zeros(1).set_(source=part, storage_offset=0, size=(2, 2)).tolist() == [[2.0, 3.0], [4.0, 5.0]]
    assert L.zeros(1).set_(b, 3, (0, 2)).shape == (0, 2)
    a[0, 0] = 7
    assert b[1] == 7


def _refused(L):
    b = L.arange(6.0)
    return {
        "leaf": lambda: L.zeros(2, requires_grad=True).set_(b),
        "view of a leaf": lambda: L.zeros(2, requires_grad=True)[:1].set_(b),
        "double": lambda: L.zeros(2).set_(b.double()),
        "half": lambda: L.zeros(2).set_(b.half()),
        "int64": lambda: L.zeros(2).set_(b.long()),
        "float": lambda: L.zeros(2, dtype=L.bool).set_(b),
        "device": lambda: L.zeros(2).set_(L.zeros(2, device="meta")),
        "lengths": lambda: L.zeros(2).set_(b, 0, (2, 2), (1,)),
        "strided_ beyond": lambda: b.clone().as_strided_((2,), (7,)),
        "strided_ lengths": lambda: b.clone().as_strided_((2, 3), (7,)),
        "strided_ leaf": lambda: L.zeros(2, requires_grad=True).as_strided_((1,), (1,)),
    }


def _said(L, name):
    with pytest.raises(RuntimeError) as error:
        _refused(L)[name]()
    return str(error.value).replace("jtorch", "torch")


@needs_torch
@each("name", list(_refused(jtorch)))
def test_refuses_in_pytorchs_words(name):
    import torch

    assert _said(jtorch, name) == _said(torch, name)


BEYOND_PYTORCH = {
    "memory grows": (lambda a, b: a.set_(b, 1, (7,)), "out of bounds for storage of size 24"),
    "negative stride": (lambda a, b: a.set_(b, 1, (2,), (-1,)), r"negative numbers in sizes \[2\], strides"),
    "gradients of the source": (lambda a, b: a.set_(b.requires_grad_()), "derivative for 'set_' is not"),
    "gradients of the result": (lambda a, b: (b.requires_grad_() * 2).set_(a), "derivative for 'set_' is"),
}  # fmt: skip


@each("name", list(BEYOND_PYTORCH))
def test_what_pytorch_lets_pass_is_refused(name):
    call, match = BEYOND_PYTORCH[name]
    with pytest.raises(RuntimeError, match=match):
        call(jtorch.zeros(2), jtorch.arange(6.0))


@pytest.mark.parametrize("given", [([1, 2],), (jtorch.zeros(2), 1)])
def test_arguments_that_it_does_not_take(given):
    with pytest.raises(TypeError, match=r"set_\(\) takes nothing, a tensor or an UntypedStorage"):
        jtorch.zeros(2).set_(*given)


def test_without_gradients_a_parameter_is_set():
    p = jtorch.nn.Parameter(jtorch.zeros(2))
    with jtorch.no_grad():
        p.set_(jtorch.ones(3))
    (p * 2).sum().backward()
    assert p.requires_grad
    assert p.grad.tolist() == [2.0] * 3


CHANGES = {"another memory": lambda c, q: c.set_(jtorch.zeros(3)), "its memory": lambda c, q: q.add_(1)}


@each("name", list(CHANGES))
def test_what_a_gradient_has_saved_is_guarded(name):
    x, c = jtorch.ones(3, requires_grad=True), jtorch.ones(3)
    q = jtorch.zeros(1).set_(c)
    z = x * c
    CHANGES[name](c, q)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


def test_compiled():
    b = jtorch.arange(6.0)
    outside = jtorch.zeros(2)

    def inside(x):
        made = jtorch.zeros(2)
        made.set_(x)
        made.add_(1)
        return made * 2

    x = jtorch.ones(3)
    assert jtorch.compile(inside, fullgraph=True)(x).tolist() == [4.0] * 3
    assert x.tolist() == [2.0] * 3
    with pytest.raises(jtorch.errors.CompileError, match=r"other memory \(\.data =, set_\(\)"):
        jtorch.compile(lambda x: outside.set_(x), fullgraph=True)(b)
    with pytest.raises(jtorch.errors.CompileError, match="asks where a tensor lies in memory"):
        jtorch.compile(lambda x: jtorch.zeros(2).set_(x, 1, (2,)) * 1, fullgraph=True)(b)


@LIBRARIES
def test_as_strided_in_place(library):
    L = pytest.importorskip(library)
    b = L.arange(6.0)
    a = b[2:]
    assert a.as_strided_((2, 2), (1, 1)) is a
    assert (a.tolist(), a.storage_offset()) == ([[2.0, 3.0], [3.0, 4.0]], 2)
    assert b.clone().as_strided_((2,), (2,), 1).tolist() == [1.0, 3.0]
    w = L.arange(6.0, requires_grad=True)
    y = w * 2
    y.as_strided_((2, 2), (1, 1))
    y.sum().backward()
    assert w.grad.tolist() == [2.0, 4.0, 2.0, 0.0, 0.0, 0.0]


def test_as_strided_in_place_compiled():
    def strided(x):
        y = x * 2
        y.as_strided_((2, 2), (1, 1))
        return y.sum()

    for wrap in (lambda f: f, lambda f: jtorch.compile(f, fullgraph=True)):
        x = jtorch.arange(6.0, requires_grad=True)
        wrap(strided)(x).backward()
        assert x.grad.tolist() == [2.0, 4.0, 2.0, 0.0, 0.0, 0.0]


@LIBRARIES
def test_a_generator_that_goes_on_from_another(library):
    L = pytest.importorskip(library)
    g = L.Generator().manual_seed(3)
    L.rand(2, generator=g)
    cloned = g.clone_state()
    assert (type(cloned), cloned.device) == (type(g), g.device)
    first = L.rand(4, generator=g).tolist()
    assert L.rand(4, generator=cloned).tolist() == first
    assert L.rand(4, generator=g).tolist() != first
