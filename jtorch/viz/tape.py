"""The tape under a tensor as plain data: boxes with names and the edges between them, leaves included."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from jtorch.eager.public import Tensor


@dataclass
class Box:
    """A node of the tape, a leaf, or the tensor itself: ``kind`` is "node", "leaf" or "result". ``inputs``
    are the numbers of the boxes that it was made of."""

    name: str
    detail: str
    kind: str
    inputs: list[int] = field(default_factory=list)


def tape_of(tensor: Tensor, names: Mapping[str, Tensor] | None = None) -> list[Box]:
    """The boxes of all that ``tensor`` was computed from, each after its inputs, ``tensor`` itself last.

    ``names`` gives names to leaves, as ``dict(model.named_parameters())`` does.
    """
    called = {id(t): name for name, t in (names or {}).items()}
    boxes: list[Box] = []
    numbers: dict[int, int] = {}
    keep: list[Any] = []  # so that ids stay those of one object

    def box_of(function: Any) -> Box:
        leaf = getattr(function, "variable", None)
        if leaf is None:
            return Box(function.name(), "", "node")
        return Box(called.get(id(leaf), "leaf"), type_text(leaf), "leaf")

    def key(function: Any) -> int:
        return id(getattr(function, "variable", function))

    stack = [] if tensor.grad_fn is None else [(tensor.grad_fn, False)]
    while stack:
        function, is_ready = stack.pop()
        keep.append(function)
        if key(function) in numbers:
            continue
        below = [f for f, _ in function.next_functions if f is not None]
        if not is_ready:
            stack.append((function, True))
            stack += [(f, False) for f in reversed(below) if key(f) not in numbers]
            keep += below
            continue
        box = box_of(function)
        box.inputs = [numbers[key(f)] for f in below]
        numbers[key(function)] = len(boxes)
        boxes.append(box)
    last = Box(called.get(id(tensor), "tensor"), type_text(tensor), "result")
    last.inputs = [] if tensor.grad_fn is None else [numbers[key(tensor.grad_fn)]]
    return [*boxes, last]


def type_text(tensor: Tensor) -> str:
    """As ``float32 [2, 3]``."""
    return f"{str(tensor.dtype).rpartition('.')[2]} {list(tensor.shape)}"
