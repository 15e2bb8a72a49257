"""``torch._foreach_*`` against PyTorch: values, what is written where, sentences."""

from __future__ import annotations

import numpy as np
import pytest

import jtorch
from jtorch.eager import foreach
from tests.each import each
from tests.ops.support import HAS_TORCH, needs_torch

if HAS_TORCH:
    import torch

RNG = np.random.default_rng(0)
SHAPES = ((3,), (2, 2), ())
A, B, C = ([np.asarray(RNG.uniform(0.2, 0.9, s)) for s in SHAPES] for _ in range(3))
UNARY = foreach._UNARY
CALLS = {
    **{name: lambda L, f, a, b, c: f(a) for name in UNARY},
    **{f"{name} lists": lambda L, f, a, b, c: f(a, b) for name in foreach._BINARY},
    **{f"{name} number": lambda L, f, a, b, c: f(a, 2.0) for name in foreach._BINARY},
    **{f"{name} numbers": lambda L, f, a, b, c: f(a, [0.5, 2.0, 3.0]) for name in foreach._BINARY},
    "add alpha": lambda L, f, a, b, c: f(a, b, alpha=3),
    "sub alpha": lambda L, f, a, b, c: f(a, b, alpha=0.5),
    "add tensor": lambda L, f, a, b, c: f(a, L.tensor(2.0, dtype=L.float64)),
    "mul tensor": lambda L, f, a, b, c: f(a, b[2]),
    "lerp number": lambda L, f, a, b, c: f(a, b, 0.3),
    "lerp numbers": lambda L, f, a, b, c: f(a, b, [0.1, 0.6, 0.9]),
    "lerp lists": lambda L, f, a, b, c: f(a, b, c),
    "addcmul": lambda L, f, a, b, c: f(a, b, c),
    "addcmul value": lambda L, f, a, b, c: f(a, b, c, value=0.5),
    "addcdiv numbers": lambda L, f, a, b, c: f(a, b, c, [1.0, 2.0, -3.0]),
    "addcdiv tensor": lambda L, f, a, b, c: f(a, b, c, L.tensor([1.0, 2.0, -3.0])),
}
ALONE = {
    "norm": lambda L, f, a, b, c: f(a),
    "norm 1": lambda L, f, a, b, c: f(a, 1),
    "norm inf": lambda L, f, a, b, c: f(a, float("inf"), dtype=L.float64),
    "max": lambda L, f, a, b, c: f(a),
    "clone": lambda L, f, a, b, c: f(a),
    "pow of a number": lambda L, f, a, b, c: f(2.0, a),
    "mm": lambda L, f, a, b, c: f([a[1]], [b[1]]),
}


def _lists(L):
    return ([L.tensor(x) for x in group] for group in (A, B, C))


@needs_torch
@each("name", [*CALLS, *ALONE])
def test_equals_pytorch(name):
    found = []
    for L in (jtorch, torch):
        function = getattr(L, f"_foreach_{name.split()[0]}")
        found.append((CALLS | ALONE)[name](L, function, *_lists(L)))
    assert type(found[0]) is type(found[1]) is tuple
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-12, strict=True)


@needs_torch
@each("name", CALLS)
def test_in_place_equals_pytorch(name):
    found = []
    for L in (jtorch, torch):
        a, b, c = _lists(L)
        first, kept = a[0], list(a)
        out = CALLS[name](L, getattr(L, f"_foreach_{name.split()[0]}_"), a, b, c)
        assert out is a
        assert all(x is y for x, y in zip(out, kept, strict=True))
        assert out[0] is first
        found.append(a)
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-12, strict=True)


def test_copies_and_zeros():
    a, b, _ = _lists(jtorch)
    assert jtorch._foreach_copy_(a, b) is a
    np.testing.assert_array_equal(a[1].numpy(), B[1])
    jtorch._foreach_zero_(a)
    assert [float(t.abs().sum()) for t in a] == [0, 0, 0]
    np.testing.assert_array_equal(b[1].numpy(), B[1])


def test_is_differentiable_and_compiles():
    def clipped(x, y):
        norms = jtorch._foreach_norm([x, y])
        total = jtorch.stack(norms).norm()
        return jtorch._foreach_mul([x, y], 1 / total)[0].sum()

    x, y = (jtorch.tensor(a, requires_grad=True) for a in A[:2])
    expected = jtorch.autograd.grad(clipped(x, y), [x, y])
    compiled = jtorch.compile(lambda x, y: jtorch.autograd.grad(clipped(x, y), [x, y]), fullgraph=True)
    for a, b in zip(compiled(x, y), expected, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-12)


BAD = {
    "no tensors": lambda L: L._foreach_add([], 1),
    "norm of none": lambda L: L._foreach_norm([]),
    "another count": lambda L: L._foreach_add([L.ones(2)] * 2, [L.ones(2)]),
    "numbers": lambda L: L._foreach_mul([L.ones(2)] * 2, [1.0]),
    "shape": lambda L: L._foreach_copy_([L.ones(2)], [L.ones(3)]),
}


@needs_torch
@each("name", BAD)
def test_refuses_in_pytorchs_words(name):
    with pytest.raises(RuntimeError) as theirs:
        BAD[name](torch)
    with pytest.raises(RuntimeError) as ours:
        BAD[name](jtorch)
    assert str(ours.value) == str(theirs.value)


def test_a_tensor_is_no_list():
    with pytest.raises(TypeError, match="must be tuple of Tensors, not Tensor"):
        jtorch._foreach_add(jtorch.ones(2), 1)
