"""``DistributedDataParallel`` in a compiled function: its buckets' collectives are part of the recording.

The hooks of eager mode run while backward is recorded. A bucket whose gradients are all there is one
equation, so a replay sends it when they have been computed, and waits when an average is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jtorch.core.errors import CompileError
from jtorch.distributed import recorded
from jtorch.distributed.reduction import ReduceOp
from jtorch.distributed.work import Order
from jtorch.eager.public import Tensor, call_at_end, no_grad
from jtorch.nn.parallel.buckets import Bucket


class RecordedPass:
    """One backward pass of a recording."""

    def __init__(self, reducer: Any, output: Any) -> None:
        self.reducer = reducer
        self.is_done = False
        reducer.note_outputs(output)
        self.came: set[int] = set()
        self.sent: list[tuple[Bucket, recorded.Begun]] = []

    def accumulated(self, number: int) -> None:
        self.reducer.check_once(number, None if self.is_done else self.came)
        if self.is_done:
            return
        if not self.came:
            call_at_end(self._end)
        self.came.add(number)
        buckets = self.reducer.buckets
        while len(self.sent) < len(buckets) and self.came.issuperset(buckets[len(self.sent)].numbers):
            self._send(buckets[len(self.sent)])

    def _send(self, bucket: Bucket) -> None:
        gradients = [bucket.checked(k, _gradient(p)) for k, p in enumerate(bucket.params)]
        group = self.reducer.group
        order = Order("ordered_all_reduce" if self.reducer.deterministic else "all_reduce",
                      (bucket.begins[-1],), bucket.dtype.name, ReduceOp.AVG.name)  # fmt: skip
        begun = recorded.all_reduce(group, gradients, order, ReduceOp.AVG, self.reducer.deterministic)
        self.sent.append((bucket, begun))

    def _end(self) -> None:
        """All gradients of the pass are there: their averages take their places."""
        self.is_done = True
        self.reducer.check_came(self.came)
        with no_grad():
            for bucket, begun in self.sent:
                for p, begin in zip(bucket.params, bucket.begins, strict=False):
                    _gradient(p).copy_(begun.result(begin, tuple(p.shape)))


def _gradient(p: Tensor) -> Tensor:
    assert p.grad is not None
    return p.grad


def refuse_what_is_not_recorded(ddp: Any) -> None:
    """Raise CompileError for the ways of averaging that a recording does not know."""
    for wanted, name in (
        (ddp.find_unused_parameters, "find_unused_parameters (or static_graph)"),
        (ddp.reducer.hook is not None, "a communication hook"),
        (ddp._join_config.enable, "join()"),
    ):
        if wanted:
            raise CompileError(
                f"DistributedDataParallel with {name} in a compiled function is not implemented: compile the "
                "module inside it (DistributedDataParallel(module) of a module.compile()), or leave it out"
            )


def broadcast_coalesced(tensors: Sequence[Tensor], group: Any, root: int) -> None:
    """``broadcast`` of many tensors, those of one dtype at once."""
    by_dtype: dict[Any, list[Tensor]] = {}
    for t in tensors:
        by_dtype.setdefault(t.dtype, []).append(t)
    for dtype, alike in by_dtype.items():
        order = Order("broadcast", (sum(t.numel() for t in alike),), dtype.name, f"from {root}")
        begun = recorded.broadcast(group, alike, order, root)
        begin = 0
        with no_grad():
            for t in alike:
                t.copy_(begun.result(begin, tuple(t.shape)))
                begin += t.numel()
