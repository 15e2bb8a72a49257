"""Collectives between processes, while a function is recorded: one equation each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jtorch.core import op as op_module
from jtorch.eager.tensor import Tensor, wrap


def exchanged(collective: Any, tensors: Sequence[Tensor]) -> Tensor:
    """What ``tensors`` (of one dtype) are after a collective that the recording does at each replay: one flat
    tensor of all their elements, or ``collective.parts`` times that, with them in part ``collective.place``.
    ``collective.start(flat)`` begins it in place and gives what waits for it.
    """
    return wrap(op_module.CONTEXT.get().evaluator.exchange(collective, [t._data for t in tensors]))
