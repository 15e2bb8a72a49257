"""One call on jtorch and on PyTorch: values, dtypes, shapes, gradients and names of nodes must agree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import jtorch


def compare(
    call: Callable,
    ours_library: Any,
    torch_library: Any,
    arrays: Sequence[np.ndarray],
    *,
    names: bool = False,
    requires: bool = True,
    rtol: float = 2e-5,
    atol: float = 2e-6,
) -> None:
    """``call(library, *tensors)`` on both; results may be a tensor or a tuple of tensors.

    Gradients are compared for the floating-point arrays, with random weights on the outputs. ``names``
    asks for equal names of nodes, ``requires`` for equal ``requires_grad``.
    """
    import torch

    x = [jtorch.tensor(a).requires_grad_(a.dtype.kind in "fc") for a in arrays]
    y = [torch.tensor(a).requires_grad_(a.dtype.kind in "fc") for a in arrays]
    ours, theirs = _many(call(ours_library, *x)), _many(call(torch_library, *y))
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        _compare_values(a, b, rtol, atol)
        if requires:  # a few of PyTorch's nodes are there only to raise in backward
            assert a.requires_grad == b.requires_grad
        if names and a.requires_grad:
            assert a.grad_fn.name() == b.grad_fn.name()
    pairs = [(a, b) for a, b in zip(ours, theirs, strict=True) if a.requires_grad]
    if not pairs:
        return
    rng = np.random.default_rng(2)
    seeds = [rng.uniform(0.5, 1.5, tuple(a.shape)).astype(a.detach().numpy().dtype) for a, _ in pairs]
    jtorch.autograd.backward([a for a, _ in pairs], [jtorch.tensor(s) for s in seeds])
    torch.autograd.backward([b for _, b in pairs], [torch.tensor(s) for s in seeds])
    close = {"rtol": 2.5 * rtol, "atol": 2.5 * atol}
    for a, b in zip(x, y, strict=True):
        assert (a.grad is None) == (b.grad is None)
        if a.grad is not None:
            np.testing.assert_allclose(a.grad.numpy(), b.grad.resolve_conj().numpy(), **close)


def _many(result: Any) -> tuple[Any, ...]:
    return tuple(result) if isinstance(result, (tuple, list)) else (result,)


def _compare_values(ours: Any, theirs: Any, rtol: float, atol: float) -> None:
    assert str(ours.dtype).partition(".")[2] == str(theirs.dtype).partition(".")[2]
    assert tuple(ours.shape) == tuple(theirs.shape)
    np.testing.assert_allclose(
        ours.detach().numpy(), theirs.detach().resolve_conj().numpy(), rtol=rtol, atol=atol
    )
