"""Checkpointing that keeps the results of some ops: those are not computed again in backward.

The first run keeps copies of what the policy says, in the order of the ops; the second run takes them from
there. Source: https://docs.pytorch.org/docs/stable/checkpoint.html
"""

from __future__ import annotations

import enum
import threading
from collections import defaultdict
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from jtorch.compat import aten
from jtorch.core.op import Op
from jtorch.eager.public import WatchOfAll, copied, shown

_CONSUMED, _RECOMPUTE = object(), object()
_NAMES = {
    "softmax": "_softmax", "log_softmax": "_log_softmax", "layer_norm": "native_layer_norm",
    "convolution_input": "convolution", "dot_general": "bmm",
}  # fmt: skip
_MISMATCH = "The function has run other ops than in forward: it must compute the same both times."
SAC_IGNORED_OPS: frozenset = frozenset()  # of PyTorch's no op is one here


class CheckpointPolicy(enum.Enum):
    """What to do about the result of an op: keep it for backward, or compute it again there.

    On the CPU there is nowhere to offload to: those policies compute again, as PyTorch's do in eager mode.

    >>> import jtorch
    >>> jtorch.utils.checkpoint.CheckpointPolicy(0)
    <CheckpointPolicy.MUST_SAVE: 0>
    """

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4
    PREFER_CPU_OFFLOAD = 5


class SelectiveCheckpointContext:
    """What a policy function is told beside an op and its arguments: ``op_output``, its result.
    ``is_recompute`` is False always: policies are asked in the first run."""

    def __init__(self, *, is_recompute: bool, op_output: Any = None) -> None:
        self.is_recompute = is_recompute
        self.op_output = op_output


class _OfThisThread:
    """A context in which the ops of the thread that entered it go through ``_run``."""

    def __init__(self, kept: dict[str, dict[int, Any]]) -> None:
        self.kept = kept
        self.watch = WatchOfAll(self._instead_of, lambda node, xp, g, compute: compute(node, xp, g))

    def __enter__(self) -> None:
        self.counts: dict[str, int] = defaultdict(int)
        self.thread, self.busy = threading.get_ident(), False
        self.watch.start()

    def __exit__(self, *exception: Any) -> None:
        self.watch.stop()

    def _instead_of(self, op: Op, function: Callable) -> Callable:
        def run(*values: Any, **statics: Any) -> Any:
            if self.busy or threading.get_ident() != self.thread:
                return function(*values, **statics)
            number = self.counts[op.name]
            self.counts[op.name] += 1
            self.busy = True  # what policies and copies compute is none of the function's ops
            try:
                return self._run(op, number, function, values, statics)
            finally:
                self.busy = False

        return run

    def _run(self, op: Op, number: int, function: Callable, values: tuple, statics: dict[str, Any]) -> Any:
        raise NotImplementedError


class _Keeping(_OfThisThread):
    def __init__(self, policy: Callable, kept: dict[str, dict[int, Any]]) -> None:
        super().__init__(kept)
        self.policy = policy

    def _run(self, op: Op, number: int, function: Callable, values: tuple, statics: dict[str, Any]) -> Any:
        out = function(*values, **statics)
        context = SelectiveCheckpointContext(is_recompute=False, op_output=shown(out))
        chosen = self.policy(context, _overload(op, values), *(shown(v) for v in values), **statics)
        saves = chosen in (True, CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_SAVE)
        self.kept[op.name][number] = copied(out) if saves else _RECOMPUTE
        return out


class _Taking(_OfThisThread):
    def _run(self, op: Op, number: int, function: Callable, values: tuple, statics: dict[str, Any]) -> Any:
        entry = self.kept[op.name].get(number)
        if entry is None:
            raise RuntimeError(
                f"{op.name} invocation index {number} encountered during backward but not found in storage. "
                + _MISMATCH
            )
        if entry is _CONSUMED:
            raise RuntimeError(
                "Trying to backward an extra time. You are only allowed to backward once on any region "
                "computed under selective activation checkpoint."
            )
        if entry is _RECOMPUTE:
            return function(*values, **statics)
        self.kept[op.name][number] = _CONSUMED
        return entry


def _overload(op: Op, values: tuple) -> Any:
    """The op under PyTorch's name for it."""
    name = _NAMES.get(op.name, op.name)
    if op.name == "linear":
        name = "mm" if values[2] is None else "addmm"
    if op.name == "matmul":
        name = "mm" if min(values[0].ndim, values[1].ndim) <= 2 else "bmm"
    return aten.named(name).default


def create_selective_checkpoint_contexts(
    policy_fn_or_list: Any, allow_cache_entry_mutation: bool = False
) -> tuple[AbstractContextManager, AbstractContextManager]:
    """The contexts of both runs, for ``checkpoint``'s ``context_fn``: some results are kept.

    A list names ops whose results are; a function gets a ``SelectiveCheckpointContext``, an op, and its
    arguments, and returns a ``CheckpointPolicy``. Results are copied, so that they may be changed in place
    (``allow_cache_entry_mutation`` is taken for compatibility). An op is what jtorch runs at once, which may
    be several of PyTorch's: ``linear`` is "addmm", attention is not "bmm". Which overload is named does not
    matter. Raises ValueError for what is no overload of an op, TypeError for no list or function.

    >>> import functools
    >>> import jtorch
    >>> from jtorch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts
    >>> kept = functools.partial(create_selective_checkpoint_contexts, [jtorch.ops.aten.mm.default])
    >>> x = jtorch.ones(2, 2, requires_grad=True)
    >>> y = checkpoint(lambda x: (x @ x).sigmoid() * x, x, use_reentrant=False, context_fn=kept)
    """
    if isinstance(policy_fn_or_list, list):
        for op in policy_fn_or_list:
            if not isinstance(op, aten.OpOverload):
                more = (
                    "Please update the OpOverloadPacket to a specific OpOverload.For example, if you have "
                    "`torch.ops.aten.mm`, change it to `torch.ops.aten.mm.default`."
                    if isinstance(op, aten.OpOverloadPacket)
                    else ""
                )
                raise ValueError(
                    f"Expected op in `op_list` to be an OpOverload but got: {op} of type {type(op)}. {more}"
                )
        packets = [op.overloadpacket for op in policy_fn_or_list]

        def policy(context: Any, op: Any, *args: Any, **statics: Any) -> CheckpointPolicy:
            saves = op.overloadpacket in packets
            return CheckpointPolicy.MUST_SAVE if saves else CheckpointPolicy.PREFER_RECOMPUTE

    elif callable(policy_fn_or_list):
        policy = policy_fn_or_list
    else:
        raise TypeError("policy_fn_or_list must be either a function or a list of ops.")
    kept: dict[str, dict[int, Any]] = defaultdict(dict)
    return _Keeping(policy, kept), _Taking(kept)  # type: ignore[return-value]
