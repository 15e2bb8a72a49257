"""Averages gradients while backward runs: each parameter's hook fills its bucket, a full bucket is sent.

All processes send their buckets in the same order, whatever order their gradients come in. The hook of the
last gradient waits for all buckets and writes the averages into ``grad``.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import jtorch.distributed as dist
from jtorch.compiler import is_compiling
from jtorch.eager.public import Tensor, call_at_end, no_grad, reached, tensor, zeros
from jtorch.nn.parallel.buckets import Bucket, GradBucket, plan
from jtorch.nn.parallel.recorded import RecordedPass

_UNFINISHED = (
    "Expected to have finished reduction in the prior iteration before starting a new one. This error "
    "indicates that your module has parameters that were not used in producing loss. You can enable unused "
    "parameter detection by passing the keyword argument `find_unused_parameters=True` to "
    "`torch.nn.parallel.DistributedDataParallel`, and by making sure all `forward` function outputs "
    "participate in calculating loss. Parameters which did not receive grad for rank {rank}: {names}"
)
_ONCE = (
    "Expected to mark a variable ready only once. Parameter {name} (index {number}) has been marked as ready "
    "twice: the gradients of this forward were averaged already, or are being so, and this one would not be. "
    "Call backward() once for each forward of DistributedDataParallel, on the sum of its losses; a "
    "checkpoint must not run a parameter several times"
)


_OUTSIDE = (
    "DistributedDataParallel was called in a compiled function, and backward() outside of it, where nothing "
    "averages the gradients: call backward() in that function, too, or compile the module alone: "
    "model = jtorch.compile(DistributedDataParallel(module))"
)


class Reducer:
    """The buckets of a module's parameters, and what is under way between the processes."""

    def __init__(
        self, named: Sequence[tuple[str, Tensor]], group: Any, first_mb: float, cap_mb: float,
        find_unused: bool, deterministic: bool,
    ) -> None:  # fmt: skip
        self.group = group
        self.names = [name for name, _ in named]
        self.params = [p for _, p in named]
        self.buckets = plan(named, first_mb, cap_mb)
        self.place = {n: (b, k) for b in self.buckets for k, n in enumerate(b.numbers)}
        self.find_unused = find_unused
        self.deterministic = deterministic
        self.recorded: RecordedPass | None = None  # of the function that is being recorded
        self.send = dist.ordered_all_reduce if deterministic else dist.all_reduce
        self.hook: Callable | None = None
        self.hook_state: Any = None
        self.divisor = group.size()
        self.expects = False  # gradients of a backward pass that is to be averaged
        self.began = False  # whether a gradient of it has come
        self.came: set[int] = set()
        # with a gradient of their own since the last averages: in this pass, in no_sync, or from before
        self.touched = {n for n, p in enumerate(self.params) if p.grad is not None}
        self.outputs: weakref.WeakSet = weakref.WeakSet()  # nodes of forwards whose gradients are averaged
        self.next = 0  # the bucket to send next
        for number, p in enumerate(self.params):
            p.register_post_accumulate_grad_hook(functools.partial(self._accumulated, number))

    # -- a backward pass -----------------------------------------------------------------------------------

    def prepare(self, output: Any, divisor: int) -> None:
        """Expect the gradients of the parameters that ``output`` was computed from.

        Raises RuntimeError where some of the pass before never came.
        """
        self.check_finished()
        self.expects, self.divisor, self.next = True, divisor, 0
        self.began = False
        self.came = set()
        self.note_outputs(output)
        for bucket in self.buckets:
            bucket.missing = len(bucket.params)

    def note_outputs(self, output: Any) -> None:
        self.outputs.update(node for t in tensors_in(output) if (node := t.grad_fn) is not None)

    def check_finished(self) -> None:
        if self.expects and self.began:
            self.check_came(self.came)

    def check_came(self, came: set[int]) -> None:
        """Raise RuntimeError where the gradients of some parameters are not among those that came."""
        missing = [name for n, name in enumerate(self.names) if n not in came]
        if missing:
            raise RuntimeError(_UNFINISHED.format(rank=self.group.rank(), names=", ".join(missing)))

    def _accumulated(self, number: int, param: Tensor) -> None:
        if is_compiling():
            if self.recorded is not None:
                self.recorded.accumulated(number)
            return
        self.check_once(number, self.came if self.expects else None)
        if not self.expects and self.recorded is not None and not self.recorded.is_done:
            raise RuntimeError(_OUTSIDE)
        self.touched.add(number)
        if not self.expects:
            return
        if not self.began:
            self._begin(number)
        self.came.add(number)
        self._take(number)
        self.group.progress()
        if self.next == len(self.buckets):
            self._finish()

    def check_once(self, number: int, came: set[int] | None) -> None:
        """Raise RuntimeError for a gradient that came before, or where none is expected (``came`` is None)
        though it is of a forward whose gradients are averaged."""
        again = bool(reached(self.outputs)) if came is None else number in came
        if again:
            raise RuntimeError(_ONCE.format(name=self.names[number], number=number))

    def _begin(self, first: int) -> None:
        """At the ``first`` gradient of a pass: those that it does not lead to will not come.

        Nothing is sent before: a forward may have no backward in one process.
        """
        self.began = True
        self.touched = {n for n in self.touched if self.params[n].grad is not None}
        if self.find_unused:
            comes = {id(p) for p in reached(self.params)}
            self.came = {n for n, p in enumerate(self.params) if n != first and id(p) not in comes}
            for number in sorted(self.came, reverse=True):
                self._take(number)
            call_at_end(self._end)

    def _end(self) -> None:
        """At the end of the pass: an operation gave None as the gradient of those that did not come."""
        if self.expects:
            for number in sorted(set(range(len(self.params))) - self.came, reverse=True):
                self.came.add(number)
                self._take(number)
            self._finish()

    def _take(self, number: int) -> None:
        """The gradient of this parameter is there, or is known not to come."""
        bucket, k = self.place[number]
        bucket.put(k, self.params[number].grad)
        bucket.missing -= 1
        while self.next < len(self.buckets) and self.buckets[self.next].missing == 0:
            self._send(self.buckets[self.next])
            self.next += 1

    def _send(self, bucket: Bucket) -> None:
        if self.hook is not None:
            last = bucket is self.buckets[-1]
            bucket.under_way = self.hook(self.hook_state, GradBucket(bucket, last))
            return
        average = dist.ReduceOp.AVG if self.divisor == self.group.size() else dist.ReduceOp.SUM
        bucket.under_way = self.send(bucket.flat, average, self.group, True)

    def _received(self, bucket: Bucket) -> Tensor:
        """The bucket's averages, once they are there."""
        under_way, bucket.under_way = bucket.under_way, None
        if self.hook is None:
            under_way.wait()
            if self.divisor != self.group.size():
                bucket.flat.div_(self.divisor)
            return bucket.flat
        found = under_way.wait()
        found = found[0] if isinstance(found, (list, tuple)) else found
        if not isinstance(found, Tensor) or found.numel() != bucket.flat.numel():
            raise RuntimeError(
                f"the communication hook {getattr(self.hook, '__name__', self.hook)} gave for bucket "
                f"{bucket.index} a {type(found).__name__}, expected a Future of a tensor of "
                f"{bucket.flat.numel()} elements"
            )
        return found

    def _finish(self) -> None:
        self.expects = False
        everywhere_unused = self._everywhere_unused(self.touched) if self.find_unused else set()
        self.touched = set()
        with no_grad():
            for bucket in self.buckets:
                flat = self._received(bucket)
                for k, number in enumerate(bucket.numbers):
                    if number not in everywhere_unused:
                        self._write(bucket.params[k], bucket.part(k, flat))

    def _everywhere_unused(self, here: set[int]) -> set[int]:
        """The parameters that are in no process among those that have a gradient ``here``."""
        used = tensor([int(n in here) for n in range(len(self.params))])
        dist.all_reduce(used, group=self.group)
        return {n for n, count in enumerate(used.tolist()) if count == 0}

    def _write(self, param: Tensor, average: Tensor) -> None:
        if param.grad is None:
            param.grad = average.clone()
        else:
            param.grad.copy_(average)

    # -- in the place of a process that has no more inputs ---------------------------------------------------

    def shadow(self, divisor: int) -> None:
        """Take part in the collectives of the others' backward pass, with zeros."""
        self.divisor = divisor
        for bucket in self.buckets:
            bucket.flat.zero_()
            self._send(bucket)
        if self.find_unused:
            self._everywhere_unused(set())
        for bucket in self.buckets:
            self._received(bucket)


def tensors_in(value: Any) -> list[Tensor]:
    """The tensors in lists, tuples, dicts and objects with fields."""
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, dict):
        return [t for part in value.values() for t in tensors_in(part)]
    if isinstance(value, (list, tuple)):
        return [t for part in value for t in tensors_in(part)]
    if hasattr(value, "__dataclass_fields__"):
        return [t for name in value.__dataclass_fields__ for t in tensors_in(getattr(value, name))]
    return []


def broadcast_coalesced(tensors: Sequence[Tensor], group: Any, root: int) -> None:
    """``broadcast`` of many tensors, those of one dtype at once."""
    by_dtype: dict[Any, list[Tensor]] = {}
    for t in tensors:
        by_dtype.setdefault(t.dtype, []).append(t.detach())
    with no_grad():
        for dtype, alike in by_dtype.items():
            flat = zeros(sum(t.numel() for t in alike), dtype=dtype)
            begin = 0
            for t in alike:
                flat[begin : begin + t.numel()] = t.reshape(-1)
                begin += t.numel()
            dist.broadcast(flat, group=group, group_src=root)
            begin = 0
            for t in alike:
                t.copy_(flat[begin : begin + t.numel()].view(t.shape))
                begin += t.numel()
