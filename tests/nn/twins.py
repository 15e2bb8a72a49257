"""Two modules with equal weights, and the comparison of all that they compute, in float64."""

from __future__ import annotations

from typing import Any

import numpy as np

import jtorch

TOLERANCE: dict[str, float] = {"rtol": 1e-10, "atol": 1e-10}


def draw(*shape: int, seed: int = 0) -> np.ndarray:
    return np.asarray(np.random.default_rng([seed, *shape]).standard_normal(shape))


def twins(torch: Any, name: str, *args: Any, **options: Any) -> tuple[Any, Any]:
    """(ours, theirs), both in float64; the weights go there and back through NumPy."""
    torch.manual_seed(0)
    theirs = getattr(torch.nn, name)(*args, **options).double()
    ours = getattr(jtorch.nn, name)(*args, **options).double()
    state = {k: jtorch.from_numpy(v.numpy().copy()) for k, v in theirs.state_dict().items()}
    ours.load_state_dict(state)
    theirs.load_state_dict({k: torch.from_numpy(v.numpy().copy()) for k, v in ours.state_dict().items()})
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert repr(ours) == repr(theirs)
    return ours, theirs


def flat(value: Any) -> list[Any]:
    """The tensors in nested tuples, without None."""
    if isinstance(value, (tuple, list)):
        return [t for part in value for t in flat(part)]
    return [] if value is None else [value]


def same(ours: Any, theirs: Any) -> None:
    assert len(flat(ours)) == len(flat(theirs))
    for a, b in zip(flat(ours), flat(theirs), strict=True):
        assert tuple(a.shape) == tuple(b.shape)
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), **TOLERANCE)


def backward(lib: Any, outs: Any) -> None:
    """Gradients of a weighted sum of all floating-point outputs."""
    total: Any = 0.0
    for k, t in enumerate(flat(outs)):
        if t.requires_grad:
            total = total + (t * lib.tensor(draw(*t.shape, seed=k + 1))).sum()
    total.backward()


def leaves(lib: Any, arrays: list[Any]) -> list[Any]:
    """Tensors of ``arrays`` (None stays None) that require grad where they can."""
    return [
        a if a is None else lib.tensor(a, requires_grad=True) if a.dtype.kind == "f" else lib.tensor(a)
        for a in arrays
    ]


def compare(torch: Any, ours: Any, theirs: Any, arrays: list[Any], call: Any) -> None:
    """Outputs and all gradients of ``call(lib, module, *tensors)`` are equal on both sides."""
    found = []
    for lib, module in ((jtorch, ours), (torch, theirs)):
        tensors = leaves(lib, arrays)
        outs = call(lib, module, *tensors)
        backward(lib, outs)
        gradients = [t.grad for t in tensors if t is not None and t.dtype.is_floating_point]
        found.append((outs, gradients, [p.grad for p in module.parameters()]))
    (a, a_inputs, a_parameters), (b, b_inputs, b_parameters) = found
    same(a, b)
    for mine, other in zip(a_inputs + a_parameters, b_inputs + b_parameters, strict=True):
        assert (mine is None) == (other is None)
        same(mine, other)
