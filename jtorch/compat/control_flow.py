"""``torch.cond`` and ``torch.while_loop``: Python's ``if`` and ``while`` as functions.

A compiled function takes them as it takes the statements: a branch is recorded for each outcome, a loop for
each number of steps. ``jtorch.compiler.while_loop`` records one step, given a bound.
Source: https://docs.pytorch.org/docs/stable/cond.html
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jtorch.eager.public import Tensor


def cond(pred: Any, true_fn: Callable, false_fn: Callable, operands: Any = ()) -> Any:
    """``true_fn(*operands)`` where ``pred``, a bool or tensor of one, holds, else ``false_fn(*operands)``.

    >>> import jtorch
    >>> jtorch.cond(jtorch.tensor(True), lambda x: x + 1, lambda x: x - 1, (jtorch.tensor(5),))
    tensor(6)
    """
    if not callable(true_fn) or not callable(false_fn):
        raise RuntimeError("Expect both branches to be callable.")
    if not isinstance(pred, (bool, int)) and not (isinstance(pred, Tensor) and pred.numel() == 1):
        raise RuntimeError(f"Expected pred to be bool or single-element tensor, but got {pred}.")
    if not isinstance(operands, (tuple, list)):
        raise RuntimeError(
            f"Expect operands to be a tuple of possibly nested dict/list/tuple that only consists of tensor "
            f"leaves, but got {operands}."
        )
    return true_fn(*operands) if bool(pred) else false_fn(*operands)


def while_loop(cond_fn: Callable, body_fn: Callable, carried_inputs: Any) -> tuple[Any, ...]:
    """``carried = body_fn(*carried)`` while ``cond_fn(*carried)`` holds; what is carried at the end.

    >>> import jtorch
    >>> jtorch.while_loop(lambda n: n < 100, lambda n: (2 * n,), (jtorch.tensor(3),))
    (tensor(192),)
    """
    if not callable(cond_fn):
        raise RuntimeError("Expect cond_fn to be callable.")
    if not callable(body_fn):
        raise RuntimeError("Expect body_fn to be callable.")
    if not isinstance(carried_inputs, (tuple, list)):
        raise RuntimeError(f"Expect carried_inputs to be a tuple or list, got {type(carried_inputs)}")
    carried = tuple(carried_inputs)
    while bool(cond_fn(*carried)):
        carried = body_fn(*carried)
        carried = (carried,) if isinstance(carried, Tensor) else tuple(carried)
    return carried
