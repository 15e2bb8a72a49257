"""``torch.masked`` in both modes against PyTorch: values, dtypes, gradients and sentences."""

import numpy as np
import pytest

import jtorch
from tests.each import each
from tests.ops.oracle import compare
from tests.ops.support import HAS_TORCH, needs_torch

if HAS_TORCH:
    import torch
    import torch.masked

RNG = np.random.default_rng(0)
X = RNG.standard_normal((3, 4, 2))
MASK = RNG.random((3, 4, 2)) < 0.6
MASK[1, :, 0] = MASK[2] = False  # where nothing counts

REDUCTIONS = (
    "sum", "prod", "amax", "amin", "argmax", "argmin", "mean", "median", "logsumexp", "norm", "var", "std",
)  # fmt: skip
ONE_DIM = ("argmax", "argmin", "median")
ALONG = ("cumsum", "cumprod", "softmax", "log_softmax", "softmin")


def call(name, **options):
    """Of a library, an array and a mask."""

    def of(library, x, mask):
        f = getattr(library.masked, name)
        if name == "normalize":
            return f(x, 2.0, 1, mask=mask, **options)
        return f(x, *([1] if name in ALONG else []), mask=mask, **options)

    return of


CALLS = {name: call(name) for name in (*REDUCTIONS, *ALONG, "normalize")}
CALLS |= {f"{name} of a dim": call(name, dim=1) for name in REDUCTIONS}
CALLS |= {
    f"{name} of dims": call(name, dim=(-1, 0), keepdim=True) for name in REDUCTIONS if name not in ONE_DIM
}
CALLS |= {
    "sum of no dims": call("sum", dim=()),
    "mean of no dims": call("mean", dim=()),
    "max norm": lambda L, x, m: L.masked.norm(x, float("inf"), 1, mask=m),
    "min norm": lambda L, x, m: L.masked.norm(x, float("-inf"), 1, mask=m),
    "var of all": call("var", dim=1, correction=0),
    "biased": call("std", dim=1, unbiased=False, keepdim=True),
    "to float64": lambda L, x, m: L.masked.mean(x, 1, dtype=L.float64, mask=m),
    "softmax to float64": lambda L, x, m: L.masked.softmax(x, 1, dtype=L.float64, mask=m),
    "broadcast": lambda L, x, m: L.masked.sum(x, 1, mask=m[0, :, :1]),
    "numbers as a mask": lambda L, x, m: L.masked.amax(x, 1, mask=m.to(L.int32) * 3),
    "no mask": lambda L, x, m: L.masked.var(x, 1) + L.masked.mean(x, 1) + L.masked.logsumexp(x, 1),
    "no mask, normalized": lambda L, x, m: L.masked.normalize(x, 2.0, 0),
    "logaddexp": lambda L, x, m: L.masked.logaddexp(x, x.flip(0), input_mask=m, other_mask=m.flip(1)),
    "logaddexp of one": lambda L, x, m: L.masked.logaddexp(x, x.flip(0), other_mask=m),
}
ROUNDS_IN_ANOTHER_ORDER = {"rtol": 1e-9, "atol": 1e-11}


@needs_torch
@each("name", CALLS)
def test_equals_pytorch(name):
    compare(CALLS[name], jtorch, torch, [X, MASK], **ROUNDS_IN_ANOTHER_ORDER)
    compare(CALLS[name], jtorch, torch, [X.astype(np.float32), MASK], rtol=1e-4, atol=2e-5)


@each("name", CALLS)
def test_compiled_equals_eager(name):
    def gradient(x, mask):
        y = CALLS[name](jtorch, x, mask)
        return (y, *jtorch.autograd.grad(y[y.isfinite()].sum(), x)) if y.requires_grad else (y,)

    x = jtorch.tensor(X, requires_grad=True)
    mask = jtorch.tensor(MASK)
    for a, b in zip(gradient(x, mask), jtorch.compile(gradient)(x, mask), strict=True):
        jtorch.testing.assert_close(b, a, rtol=1e-12, atol=1e-12, equal_nan=True)


@needs_torch
@each("name", [*REDUCTIONS, "cumsum", "cumprod", "softmax"])
@pytest.mark.filterwarnings("ignore:Casting complex values to real")
@each("kind", ["int32", "int64", "uint8", "bool", "complex64"])
def test_other_dtypes(name, kind):
    """What PyTorch gives, or an error where it raises one."""
    x = (X * 5).astype(np.float32) if kind == "complex64" else np.abs(X * 5)
    x = x.astype(kind)
    mask = MASK.copy()
    mask[:, 0] = True
    try:
        with torch.no_grad():
            theirs = CALLS[name](torch, torch.tensor(x), torch.tensor(mask))
    except (RuntimeError, ValueError, NotImplementedError, AssertionError, TypeError):
        with pytest.raises((RuntimeError, ValueError, NotImplementedError, TypeError)):
            CALLS[name](jtorch, jtorch.tensor(x), jtorch.tensor(mask))
        return
    ours = CALLS[name](jtorch, jtorch.tensor(x), jtorch.tensor(mask))
    assert str(ours.dtype) == str(theirs.dtype).replace("torch", "jtorch")
    np.testing.assert_allclose(ours.numpy(), theirs.resolve_conj().numpy(), rtol=1e-5)


def test_what_is_left_out_has_no_part():
    x = jtorch.tensor([[1.0, jtorch.nan], [jtorch.inf, 4.0]], requires_grad=True)
    mask = jtorch.tensor([[True, False], [False, True]])
    mean = jtorch.masked.mean(x, 1, mask=mask)
    assert mean.tolist() == [1.0, 4.0]
    mean.sum().backward()
    assert x.grad.tolist() == [[1.0, 0.0], [0.0, 1.0]]


BAD = {
    "more axes": lambda L, x, m: L.masked.sum(x, mask=L.ones(1, 3, 4, 2, dtype=L.bool)),
    "twice": lambda L, x, m: L.masked.sum(x, (0, 0), mask=m),
    "no such dim": lambda L, x, m: L.masked.amax(x, 3, mask=m),
    "mean of integers": lambda L, x, m: L.masked.mean(x.to(L.int64), mask=m),
    "mean as integers": lambda L, x, m: L.masked.mean(x, dtype=L.int64, mask=m),
    "median of nothing": lambda L, x, m: L.masked.median(x.to(L.int64), 1, mask=m),
    "two corrections": lambda L, x, m: L.masked.var(x, 1, True, correction=0, mask=m),
    "sparse": lambda L, x, m: L.masked.logsumexp(x[0].to_sparse(), 0),
}


@each("name", BAD)
def test_errors(name):
    raised = (RuntimeError, IndexError, ValueError, AssertionError)
    with pytest.raises(raised) as ours:
        BAD[name](jtorch, jtorch.tensor(X), jtorch.tensor(MASK))
    if HAS_TORCH:
        with pytest.raises(raised) as theirs:
            BAD[name](torch, torch.tensor(X), torch.tensor(MASK))
        assert type(ours.value) is type(theirs.value)
        assert str(ours.value).replace("jtorch", "torch") == str(theirs.value)
