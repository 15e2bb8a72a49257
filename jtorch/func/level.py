"""One level of differentiation: its inputs are tensors of its own, which nobody outside gets to see.

Inside, the inputs require grad. A result is on the tape outside only where it depends on something else that
requires grad: an argument, a tensor that the function closes over, or the inputs of a level around this one.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from jtorch.autograd import grad
from jtorch.eager.public import Captured, Node, Tensor, carry, mapped


class Level:
    """The inputs of one level, made of the tensors given."""

    def __init__(self, given: list[Tensor]) -> None:
        self.inputs = [
            t.view_as(t) if t.requires_grad else carry(t, t.detach()).requires_grad_() for t in given
        ]
        self.own = {t for t in self.inputs if t.is_leaf}

    def called(self, func: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
        """``func(*args, **kwargs)``. Raises RuntimeError where it writes to a tensor that it was not given
        and did not make."""
        with Captured(func, (args, kwargs), self.inputs):
            return func(*args, **kwargs)

    def outside(self, outputs: list[Tensor]) -> bool:
        """Whether ``outputs`` depend on leaves that are not this level's."""
        return bool(_leaves(outputs) - self.own)

    def joined(self, other: Level) -> Level:
        """Both levels as one, whose inputs are those of ``other``."""
        both = copy.copy(other)
        both.own = self.own | other.own
        return both

    def shown(self, tree: Any) -> Any:
        """The tensors of ``tree`` as those outside may see them."""
        return mapped(lambda t: t if self.outside([t]) else carry(t, t.detach()), tree)

    def pull(self, outputs: list[Tensor], seeds: list[Tensor | None], again: bool = False) -> list[Tensor]:
        """The gradients of the inputs, zeros where they don't matter; on the tape where others need that."""
        tracked = [(o, s) for o, s in zip(outputs, seeds, strict=True) if o.requires_grad]
        if not tracked:
            return [t.new_zeros(t.shape) for t in self.inputs]
        outs, weights = [o for o, _ in tracked], [s for _, s in tracked]
        found = grad(
            outs, self.inputs, weights, retain_graph=True, allow_unused=True, materialize_grads=True,
            create_graph=again or self.outside([*outs, *(s for s in weights if s is not None)]),
        )  # fmt: skip
        return list(found)  # type: ignore[arg-type]


def _leaves(tensors: list[Tensor]) -> set[Tensor]:
    """The leaves that require grad below ``tensors`` on the tape."""
    stack = [t if t.grad_fn is None else t.grad_fn for t in tensors if t.requires_grad]
    seen = set(stack)
    while stack:
        target = stack.pop()
        if isinstance(target, Node):
            for edge in target.edges:
                if edge is not None and edge[0] not in seen:
                    seen.add(edge[0])
                    stack.append(edge[0])
    return {t for t in seen if isinstance(t, Tensor)}
