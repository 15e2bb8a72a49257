"""Gradients as they are, or in 16 bits on the way. The ``state`` of these hooks is a process group, or None.

Source: https://docs.pytorch.org/docs/stable/ddp_comm_hooks.html#default-communication-hooks
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jtorch.distributed as dist
from jtorch.core import dtypes as dt
from jtorch.eager.public import Tensor
from jtorch.futures import Future

Hook = Callable[[Any, Any], Future]


def allreduce_hook(process_group: Any, bucket: Any) -> Future:
    """The average, as without a hook.

    Source: https://docs.pytorch.org/docs/stable/ddp_comm_hooks.html
    """
    return _averaged(process_group, bucket.buffer()).then(lambda future: future.value()[0])


def fp16_compress_hook(process_group: Any, bucket: Any) -> Future:
    """The average of gradients rounded to float16, which travel in half the bytes; sums are made in float32.

    Source: https://docs.pytorch.org/docs/stable/ddp_comm_hooks.html
    """
    return _compressed(process_group, bucket.buffer(), dt.float16)


def bf16_compress_hook(process_group: Any, bucket: Any) -> Future:
    """``fp16_compress_hook`` with bfloat16: the range of float32, and three digits less.

    Source: https://docs.pytorch.org/docs/stable/ddp_comm_hooks.html
    """
    return _compressed(process_group, bucket.buffer(), dt.bfloat16)


def fp16_compress_wrapper(hook: Hook) -> Hook:
    """``hook`` on gradients rounded to float16.

    Source: https://docs.pytorch.org/docs/stable/ddp_comm_hooks.html
    """
    return _wrapped(hook, dt.float16)


def bf16_compress_wrapper(hook: Hook) -> Hook:
    """``hook`` on gradients rounded to bfloat16.

    Source: https://docs.pytorch.org/docs/stable/ddp_comm_hooks.html
    """
    return _wrapped(hook, dt.bfloat16)


def noop_hook(_: Any, bucket: Any) -> Future:
    """No communication: shows what a step costs without.

    Source: https://docs.pytorch.org/docs/stable/ddp_comm_hooks.html
    """
    future = Future()
    future.set_result(bucket.buffer())
    return future


def _averaged(group: Any, buffer: Tensor) -> Future:
    work = dist.all_reduce(buffer, dist.ReduceOp.AVG, group, True)
    assert work is not None, "the process is in the group of its own module"
    return work.get_future()


def _compressed(group: Any, buffer: Tensor, dtype: Any) -> Future:
    return _averaged(group, buffer.to(dtype)).then(lambda future: buffer.copy_(future.value()[0]))


def _wrapped(hook: Hook, dtype: Any) -> Hook:
    def wrapped(state: Any, bucket: Any) -> Future:
        buffer = bucket.buffer()
        bucket.set_buffer(buffer.to(dtype))

        def widened(future: Future) -> Tensor:
            found = future.value()
            return buffer.copy_(found[0] if isinstance(found, list) else found)

        return hook(state, bucket).then(widened)

    return wrapped
