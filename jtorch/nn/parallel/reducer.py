"""Averages gradients while backward runs: each parameter's hook fills its bucket, a full bucket is sent.

All processes send their buckets in the same order, whatever order their gradients come in. The hook of the
last gradient waits for all buckets and writes the averages into ``grad``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jtorch.distributed as dist
from jtorch.eager.public import Tensor, no_grad, tensor, zeros
from jtorch.nn.parallel.buckets import Bucket, GradBucket, plan

_UNFINISHED = (
    "Expected to have finished reduction in the prior iteration before starting a new one. This error "
    "indicates that your module has parameters that were not used in producing loss. You can enable unused "
    "parameter detection by passing the keyword argument `find_unused_parameters=True` to "
    "`torch.nn.parallel.DistributedDataParallel`, and by making sure all `forward` function outputs "
    "participate in calculating loss. Parameters which did not receive grad for rank {rank}: {names}"
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
        self.send = dist.ordered_all_reduce if deterministic else dist.all_reduce
        self.hook: Callable | None = None
        self.hook_state: Any = None
        self.divisor = group.size()
        self.expects = False  # gradients of a backward pass that is to be averaged
        self.began = False  # whether a gradient of it has come
        self.came: set[int] = set()
        self.used: list[int] = []
        self.next = 0  # the bucket to send next
        for number, p in enumerate(self.params):
            p.register_post_accumulate_grad_hook(functools.partial(self._accumulated, number))

    # -- a backward pass -----------------------------------------------------------------------------------

    def prepare(self, unused: set[int], divisor: int) -> None:
        """Expect the gradients of all parameters but those numbered in ``unused``.

        Raises RuntimeError where some of the pass before never came.
        """
        self.check_finished()
        self.expects, self.divisor, self.next = True, divisor, 0
        self.began = False
        self.used = [int(n not in unused) for n in range(len(self.params))]
        for bucket in self.buckets:
            if bucket.under_way is not None:  # of a forward without a backward; its memory is needed
                self._received(bucket)
            bucket.missing = len(bucket.params)
        self.came = set(unused)
        for number in sorted(unused, reverse=True):
            self._take(number)
        self._finish_if_complete()

    def check_finished(self) -> None:
        missing = [name for n, name in enumerate(self.names) if n not in self.came]
        if self.expects and self.began and missing:
            raise RuntimeError(_UNFINISHED.format(rank=self.group.rank(), names=", ".join(missing)))

    def _accumulated(self, number: int, param: Tensor) -> None:
        if not self.expects:
            return
        if number in self.came:
            raise RuntimeError(
                f"Expected to mark a variable ready only once. Parameter {self.names[number]} (index "
                f"{number}) has been marked as ready twice in one backward pass: it was not found among "
                "those used in forward, or a checkpoint runs it several times"
            )
        self.began = True
        self.came.add(number)
        self._take(number)
        self.group.progress()
        self._finish_if_complete()

    def _finish_if_complete(self) -> None:
        if self.next == len(self.buckets):
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
        everywhere_unused = self._everywhere_unused() if self.find_unused else set()
        with no_grad():
            for bucket in self.buckets:
                flat = self._received(bucket)
                for k, number in enumerate(bucket.numbers):
                    if number not in everywhere_unused:
                        self._write(bucket.params[k], bucket.part(k, flat))

    def _everywhere_unused(self) -> set[int]:
        used = tensor(self.used)
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
            self.used = [0] * len(self.params)
            self._everywhere_unused()
        for bucket in self.buckets:
            self._received(bucket)


def unused_parameters(output: Any, params: Sequence[Tensor]) -> set[int]:
    """The numbers of the parameters that no tensor of ``output`` was computed from."""
    numbers = {id(p): n for n, p in enumerate(params)}
    found: set[int] = set()
    seen: set[Any] = set()
    stack = [node for t in tensors_in(output) if (node := t.grad_fn) is not None]
    found |= {numbers[id(t)] for t in tensors_in(output) if id(t) in numbers}
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        variable = getattr(node, "variable", None)
        if variable is not None and id(variable) in numbers:
            found.add(numbers[id(variable)])
        stack += [below for below, _ in node.next_functions if below is not None]
    return set(range(len(params))) - found


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
