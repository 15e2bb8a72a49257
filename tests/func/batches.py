"""Batches made of the samples of ops: a few examples of each argument, and what a loop over them gives."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

import jtorch
from jtorch import func
from jtorch.eager.tensor import leaf
from tests.ops.samples import Sample
from tests.ops.support import call

SIZE = 3


def examples(array: np.ndarray) -> list[np.ndarray]:
    """As many arrays like ``array``: floats a little smaller each, integers and bools in another order."""
    if array.dtype.kind in "fc":
        return [array * (1 - 0.03 * k) for k in range(SIZE)]
    return [np.roll(array.reshape(-1), k).reshape(array.shape) for k in range(SIZE)]


def patterns(sample: Sample) -> Iterator[tuple[int, ...]]:
    """Which arguments differ among examples: each alone, and all."""
    arrays = [k for k, a in enumerate(sample.args) if isinstance(a, np.ndarray)]
    found = [*((k,) for k in arrays), tuple(arrays)]
    return (p for p in dict.fromkeys(found) if p)


class Case:
    """One sample with the arguments of ``batched`` differing. Where examples are no valid input they are all
    the same."""

    def __init__(self, name: str, sample: Sample, batched: tuple[int, ...]) -> None:
        self.name, self.sample, self.batched = name, sample, batched
        self.arguments = self._stacked(differ=True)
        try:
            self.looped(False)
        except (RuntimeError, ValueError, IndexError, np.linalg.LinAlgError):
            self.arguments = self._stacked(differ=False)

    def _stacked(self, differ: bool) -> list[Any]:
        return [
            np.stack(examples(a) if differ else [a] * SIZE) if k in self.batched else a
            for k, a in enumerate(self.sample.args)
        ]

    def _tensors(self, requires_grad: bool) -> list[Any]:
        return [
            leaf(np.array(a), requires_grad and a.dtype.kind == "f" and k not in self.sample.constant)
            if isinstance(a, np.ndarray)
            else a
            for k, a in enumerate(self.arguments)
        ]

    def _run(self, arguments: list[Any]) -> tuple[Any, ...]:
        return call(self.name, arguments, self.sample)

    def looped(self, gradients: bool) -> tuple[list[np.ndarray], list[Any]]:
        """(what each output is for all examples, the gradients of the arguments) of a loop."""
        tensors = self._tensors(gradients)
        rows = [
            self._run([t[k] if n in self.batched else t for n, t in enumerate(tensors)]) for k in range(SIZE)
        ]
        return self._found([jtorch.stack(list(column)) for column in zip(*rows, strict=True)], tensors)

    def mapped(self, gradients: bool) -> tuple[list[np.ndarray], list[Any]]:
        """The same of ``vmap``."""
        tensors = self._tensors(gradients)

        def one(*picked: Any) -> Any:
            given = iter(picked)
            return self._run([next(given) if n in self.batched else t for n, t in enumerate(tensors)])

        found = func.vmap(one)(*(tensors[n] for n in self.batched))
        return self._found(list(found), tensors)

    def _found(self, outs: list[Any], tensors: list[Any]) -> tuple[list[np.ndarray], list[Any]]:
        tracked = [o for o in outs if o.requires_grad]
        total: Any = 0.0
        for o in tracked:
            o = o.abs() if o.is_complex() else o
            weights = np.cos(np.arange(o.numel(), dtype=o.detach().numpy().dtype)).reshape(tuple(o.shape))
            total = total + (o * jtorch.from_numpy(weights)).sum()
        if tracked:
            total.backward()
        grads = [
            None if t.grad is None else t.grad.numpy() if isinstance(t, jtorch.Tensor) else None
            for t in tensors if isinstance(t, jtorch.Tensor)
        ]  # fmt: skip
        return [o.detach().numpy() for o in outs], grads


def compare(case: Case, gradients: bool) -> None:
    """Raise AssertionError where ``vmap`` gives something else than a loop."""
    want, have = case.looped(gradients), case.mapped(gradients)
    for w, h in zip(itertools.chain(*want), itertools.chain(*have), strict=True):
        if w is None or h is None:
            assert w is None or not np.any(w), "a gradient that vmap has not"
            assert h is None or not np.any(h), "a gradient that the loop has not"
            continue
        assert h.shape == w.shape, (h.shape, w.shape)
        assert h.dtype == w.dtype, (h.dtype, w.dtype)
        np.testing.assert_allclose(h, w, rtol=1e-9, atol=1e-11)
