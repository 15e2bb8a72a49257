"""Products of 16 bits by cuBLAS: its types, summed in float32 and rounded once, in both modes."""

from __future__ import annotations

import numpy as np
import pytest

import jtorch
from jtorch.compile.run import cuda_products
from jtorch.core.errors import CudaError
from jtorch.native.cuda import blas
from jtorch.native.cuda.blas import Factor
from jtorch.nn import functional as F
from tests.cuda.device import cuda_device
from tests.cuda.half_products import SHAPES, arguments, whole
from tests.cuda.marks import compiles
from tests.cuda.test_compiled import plans
from tests.each import each

KINDS = {"float16": jtorch.float16, "bfloat16": jtorch.bfloat16}
on_device = [pytest.mark.slow, pytest.mark.usefixtures("cuda"), compiles]


# what eager mode does not widen first
EAGERLY = {"matrices", "turned", "batches", "parts"}


def marked(function):
    for mark in on_device:
        function = mark(function)
    return function


def products(device) -> list[str]:
    """What cuBLAS was asked for, such as "float16 to float16"."""
    device.synchronize()
    return [name.partition(" of ")[2] for name in device.fake.ran if "cuBLAS" in name and "begun" not in name]


@marked
@each("name", SHAPES)
@each("kind", KINDS)
def test_one_is_the_rounded_sum_in_both_modes(name, kind, cuda):
    function, given = SHAPES[name][0], arguments(name, KINDS[kind])
    expected = function(*(x.float() for x in given)).to(KINDS[kind])
    there = [x.cuda() for x in given]
    compiled = jtorch.compile(function, fullgraph=True)
    for run, names in ((function, EAGERLY), (compiled, SHAPES.keys() - {"nothing", "vectors"})):
        cuda.fake.ran.clear()
        found = run(*there)
        assert found.dtype is KINDS[kind] and jtorch.equal(found.cpu(), expected), run
        if name in names:
            assert set(products(cuda)) == {f"{kind} to {kind}"}, run


@marked
def test_one_that_is_rounded_in_parts_would_be_seen(cuda):
    """What cuBLAS does by default: without the mode that forbids it the same programs differ."""
    x, y = arguments("matrices", jtorch.float16)
    cuda.blas.cublas.cublasSetMathMode(cuda.blas.handle, 0)
    found = (x.cuda() @ y.cuda()).cpu()
    assert not jtorch.equal(found, (x.float() @ y.float()).half())
    assert (found - (x.float() @ y.float())).abs().max() <= 16  # a unit in the last place of 16 bits


@marked
def test_two_axes_of_terms_are_not_rounded_between_calls(cuda, monkeypatch):
    """The gradient of a kernel adds up over images and places: one call each, or a copy."""

    def function(x, w, g):
        w.requires_grad_()
        (F.conv1d(x, w) * g).sum().backward()
        return w.grad

    given = [whole(*shape, dtype=jtorch.float16) for shape in ((2, 3, 40), (4, 3, 3), (2, 4, 38))]
    monkeypatch.setattr(cuda_products, "_CALL", 0)  # copies never gain
    for dtype, rounds in ((jtorch.float16, True), (jtorch.float32, False)):
        compiled = jtorch.compile(function, fullgraph=True)
        found = compiled(*(x.to("cuda", dtype) for x in given))
        assert jtorch.equal(found.cpu(), function(*(x.float() for x in given)).to(dtype))
        (plan,) = plans(compiled)
        calls = [step.product for step in plan.program.runner.steps.all if step.product]
        assert calls and {one.dtype for one in calls} == {np.dtype(dtype.numpy)}
        assert any(gemm.add for one in calls for gemm in one.gemms) is not rounds


@marked
def test_what_is_read_in_float32_is_not_rounded(cuda):
    """A product of 16 bits that the program widens is rounded; one of widened factors is not, and has no
    casts."""

    def wide(x, y):
        return x.float() @ y.float()

    x, y = (whole(3, 3, dtype=jtorch.float16, seed=k) * 100 for k in range(2))
    compiled = jtorch.compile(wide, fullgraph=True)
    assert jtorch.equal(compiled(x.cuda(), y.cuda()).cpu(), wide(x, y))
    (plan,) = plans(compiled)
    assert [e.op.name for e in plan.program.plan.fused.graph.eqns] == ["matmul"]
    assert products(cuda) == ["float16 to float32"]


@marked
def test_a_factor_that_others_read_in_float32_stays(cuda):
    def both(x, y):
        wide = x.float()
        return wide @ y.float(), wide.exp(), (x @ y).float() + 1

    x, y = (whole(3, 3, dtype=jtorch.bfloat16, seed=k) for k in range(2))
    for a, b in zip(jtorch.compile(both, fullgraph=True)(x.cuda(), y.cuda()), both(x, y), strict=True):
        jtorch.testing.assert_close(a.cpu(), b, rtol=1e-6, atol=1e-6)


@marked
@each("kind", KINDS)
def test_gradients_of_products(kind, cuda):
    def step(x, w, y):
        (F.linear(x, w) * y).sum().backward()
        return x.grad, w.grad

    def leaves(device):
        shapes = [(4, 60), (3, 60), (4, 3)]
        x, w, y = (whole(*shape, dtype=KINDS[kind], seed=k).to(device) for k, shape in enumerate(shapes))
        return x.requires_grad_(), w.requires_grad_(), y

    expected = step(*leaves("cpu"))
    for run in (step, jtorch.compile(step, fullgraph=True)):
        cuda.fake.ran.clear()
        assert all(map(jtorch.equal, (g.cpu() for g in run(*leaves("cuda"))), expected))
    assert set(products(cuda)) == {f"{kind} to {kind}"}


def test_types_that_do_not_go_together_are_refused(monkeypatch):
    device = cuda_device()
    buffer = device.allocate(64)
    factor = Factor(buffer.address, False, 2, 0)
    half, wide = np.dtype(np.float16), np.dtype(np.float64)
    for dtypes in ((half, wide), (wide, half)):
        with pytest.raises(CudaError, match="cublasGemmStridedBatchedEx: CUBLAS_STATUS_NOT_SUPPORTED"):
            device.blas.gemm(dtypes, (1, 2, 2, 2), factor, factor, factor, False)
    monkeypatch.setattr(blas, "_DEFAULT_ALGORITHM", 99)
    with pytest.raises(CudaError, match="CUBLAS_STATUS_NOT_SUPPORTED"):
        device.blas.gemm((half, half), (1, 2, 2, 2), factor, factor, factor, False)
    with pytest.raises(CudaError, match="cublasSetMathMode: CUBLAS_STATUS_INVALID_VALUE"):
        device.blas.cublas.cublasSetMathMode(device.blas.handle, 5)
