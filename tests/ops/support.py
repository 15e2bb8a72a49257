"""What the tests of ops share: samples as Tensors, and calls of ops by name."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
import pytest

from jtorch.core.op import BY_NAME, TABLE
from jtorch.eager.binding import APPLY
from jtorch.eager.tensor import Tensor, leaf
from tests.ops.samples import Sample, samples

HAS_TORCH = importlib.util.find_spec("torch") is not None
needs_torch = pytest.mark.skipif(not HAS_TORCH, reason="PyTorch, the oracle, is not installed")


def tensors(sample: Sample, requires_grad: bool = False) -> list[Any]:
    """The arguments with arrays as Tensors of their own memory; floats require grad if asked."""
    return [
        leaf(np.array(a), requires_grad and a.dtype.kind == "f" and k not in sample.constant)
        if isinstance(a, np.ndarray)
        else a
        for k, a in enumerate(sample.args)
    ]


def call(name: str, arguments: list[Any], sample: Sample) -> tuple[Tensor, ...]:
    """The visible outputs of the op, as a tuple."""
    if sample.symmetric:  # an op that reads one triangle has the gradient of a symmetric argument
        arguments = [(arguments[0] + arguments[0].transpose(-2, -1)) * 0.5, *arguments[1:]]
    try:
        out = APPLY[name](*arguments, **sample.statics)
    except Exception as error:  # which is one of collecting: cases are made of what calls give
        error.add_note(
            f"{name}: do its samples fit? An @entry in tests/ops/entries/ takes the place of the default"
        )
        raise
    return out if isinstance(out, tuple) else (out,)


def _has_gradient(name: str, k: int) -> bool:
    """Whether gradients flow through this sample: not for a cast to int, or where all arguments are ints."""
    op, sample = BY_NAME[name], samples(name)[k]
    return op.differentiable and any(t.requires_grad for t in call(name, tensors(sample, True), sample))


def _is_complex(name: str, k: int) -> bool:
    """Whether complex numbers take part: ``test_complex.py`` sees to these."""
    sample = samples(name)[k]
    outs = call(name, tensors(sample), sample)
    return any(a.dtype.kind == "c" for a in sample.args if isinstance(a, np.ndarray)) or any(
        t.is_complex() for t in outs
    )


ALL_CASES = [(op.name, k) for op in TABLE for k in range(len(samples(op.name)))]
CASES = [pytest.param(n, k, id=f"{n}-{k}") for n, k in ALL_CASES if not _is_complex(n, k)]
DIFFERENTIABLE = [c for c in CASES if _has_gradient(*c.values)]
