"""``jtorch.autograd.graph``: looking at the tape, and hooks on it.

Source: https://docs.pytorch.org/docs/stable/autograd.html#autograd-graph
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from jtorch.eager import engine, node
from jtorch.eager.node import AccumulateGrad, GradientEdge
from jtorch.eager.saved_hooks import disable_saved_tensors_hooks, saved_tensors_hooks
from jtorch.eager.tensor import Tensor

__all__ = [
    "GradientEdge", "Node", "disable_saved_tensors_hooks", "get_gradient_edge", "increment_version",
    "register_multi_grad_hook", "save_on_cpu", "saved_tensors_hooks",
]  # fmt: skip


class Node(ABC):  # noqa: B024 - the classes registered below have it all
    """What ``grad_fn`` and ``next_functions`` hold, for ``isinstance``.

    >>> import jtorch
    >>> y = jtorch.ones(1, requires_grad=True) * 2
    >>> isinstance(y.grad_fn, jtorch.autograd.graph.Node), y.grad_fn.name()
    (True, 'MulBackward0')

    Source: https://docs.pytorch.org/docs/stable/autograd.html#torch.autograd.graph.Node
    """

    __slots__ = ()


Node.register(node.Node)
Node.register(AccumulateGrad)


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """Where the gradient of ``tensor`` arrives, for ``grad`` and ``backward`` in the tensor's stead.

    Raises RuntimeError for a tensor that doesn't require grad.

    >>> import jtorch
    >>> x = jtorch.tensor(3.0, requires_grad=True)
    >>> y = x * x
    >>> jtorch.autograd.grad(jtorch.autograd.graph.get_gradient_edge(y), x)
    (tensor(6.),)
    """
    if not tensor.requires_grad:
        raise RuntimeError(
            "It is not possible to get the gradient edge for a Tensor that does not require gradients"
        )
    place = AccumulateGrad(tensor) if tensor.grad_fn is None else tensor.grad_fn
    return GradientEdge(place, tensor.output_nr)


def increment_version(tensor: Tensor | Iterable[Tensor]) -> None:
    """Say that the tensors' memory was changed behind the tape's back.

    >>> import jtorch
    >>> x = jtorch.zeros(2)
    >>> jtorch.autograd.graph.increment_version(x)
    >>> x._version
    1
    """
    for t in (tensor,) if isinstance(tensor, Tensor) else tensor:
        t._cell[0] += 1


class save_on_cpu(saved_tensors_hooks):  # noqa: N801
    """Keep saved tensors in the CPU's memory, where they are already; ``pin_memory`` changes nothing.

    >>> import jtorch
    >>> x = jtorch.tensor(3.0, requires_grad=True)
    >>> with jtorch.autograd.graph.save_on_cpu():
    ...     y = x * x
    >>> jtorch.autograd.grad(y, x)
    (tensor(6.),)
    """

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        super().__init__(lambda tensor: (tensor.device, tensor), lambda kept: kept[1].to(kept[0]))


class _Handles:
    """Removes several hooks at once."""

    def __init__(self, handles: Sequence[Any]) -> None:
        self.handles = tuple(handles)

    def remove(self) -> None:
        for handle in self.handles:
            handle.remove()

    def __enter__(self) -> _Handles:
        return self

    def __exit__(self, *exception: Any) -> None:
        self.remove()


def register_multi_grad_hook(tensors: Sequence[Tensor], fn: Callable, *, mode: str = "all") -> Any:
    """Call ``fn(grads)`` when the gradients of all ``tensors`` have arrived, once a pass.

    ``grads`` is a list with None for tensors that this pass does not reach. With ``mode="any"`` it is
    ``fn(grad)`` of the first to arrive. Returns a handle with ``remove()``. Raises ValueError for other
    modes.

    >>> import jtorch
    >>> x, y = jtorch.ones(1, requires_grad=True), jtorch.ones(1, requires_grad=True)
    >>> handle = jtorch.autograd.graph.register_multi_grad_hook((x, y), lambda grads: print(grads))
    >>> (2 * x + 3 * y).backward()
    [tensor([2.]), tensor([3.])]
    """
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    tensors = tuple(tensors)
    seen = _Arrivals(tensors, fn) if mode == "all" else _First(fn)
    hooked = enumerate(tensors)
    if mode == "any":
        hooked = ((k, t) for k, t in hooked if t.requires_grad)  # type: ignore[assignment]
    return _Handles([t.register_hook(partial(seen.note, k)) for k, t in hooked])


class _Arrivals:
    """The gradients of one pass, until the last of them is in."""

    def __init__(self, tensors: tuple[Tensor, ...], fn: Callable) -> None:
        edges = [get_gradient_edge(t) for t in tensors]
        self.targets = [(getattr(e.node, "variable", e.node), e.output_nr) for e in edges]
        self.fn = fn
        self.passes: dict[int, list[Tensor | None]] = {}

    def note(self, k: int, g: Tensor) -> None:
        run = engine.current_run()
        grads = self.passes.setdefault(run.number, [None] * len(self.targets))
        grads[k] = g
        due = sum(run.reaches(target) for target, _ in self.targets)
        if sum(found is not None for found in grads) == due:
            del self.passes[run.number]
            self.fn(grads)


class _First:
    def __init__(self, fn: Callable) -> None:
        self.fn = fn
        self.run: Any = None  # the pass that was served

    def note(self, k: int, g: Tensor) -> None:
        run = engine.current_run()
        if run.number != self.run:
            self.run = run.number
            self.fn(g)
