"""PowerSGD: a gradient matrix travels as two thin ones, and what that leaves out is added the next time.

Source: Vogels, Karimireddy, Jaggi 2019, "PowerSGD: Practical Low-Rank Gradient Compression for Distributed
Optimization", arXiv:1905.13727; https://docs.pytorch.org/docs/stable/ddp_comm_hooks.html#powersgd-communication-hook
"""

from __future__ import annotations

import math
from typing import Any

import jtorch
import jtorch.distributed as dist
from jtorch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from jtorch.eager.public import Tensor, no_grad, randn, zeros
from jtorch.futures import Future


class PowerSGDState:
    """The settings of ``powerSGD_hook``, and what it keeps from step to step: errors and factors.

    Matrices are approximated with rank ``matrix_approximation_rank`` where that sends at least
    ``min_compression_rate`` times less; the first ``start_powerSGD_iter`` steps send all.
    Source: https://docs.pytorch.org/docs/stable/ddp_comm_hooks.html#powersgd-state
    """

    def __init__(
        self, process_group: Any, matrix_approximation_rank: int = 1, start_powerSGD_iter: int = 1000,
        min_compression_rate: float = 2, use_error_feedback: bool = True, warm_start: bool = True,
        orthogonalization_epsilon: float = 0, random_seed: int = 0,
        compression_stats_logging_frequency: int = 10_000, batch_tensors_with_same_shape: bool = False,
    ) -> None:  # fmt: skip
        if (use_error_feedback or warm_start) and start_powerSGD_iter <= 1:
            raise ValueError(
                "Expect `start_powerSGD_iter` > 1 if `use_error_feedback` or `warm_start` is enabled, "
                "because PowerSGD can only be applied after the first two iterations in DDP."
            )
        self.process_group = process_group
        self.matrix_approximation_rank = matrix_approximation_rank
        self.start_powerSGD_iter = start_powerSGD_iter
        self.min_compression_rate = min_compression_rate
        self.use_error_feedback = use_error_feedback
        self.warm_start = warm_start
        self.orthogonalization_epsilon = orthogonalization_epsilon
        self.compression_stats_logging_frequency = compression_stats_logging_frequency
        self.batch_tensors_with_same_shape = batch_tensors_with_same_shape
        self.generator = jtorch.Generator().manual_seed(random_seed)  # the same draws in all processes
        self.error_dict: dict[int, Tensor] = {}
        self.q_memory_dict: dict[int, list[Tensor]] = {}
        self.iter = 0

    def factors(self, bucket: int, shapes: list[tuple[int, int, int]]) -> list[Tensor]:
        """The right factors to start from: of the step before, or drawn, the same in all processes."""
        if self.warm_start and bucket in self.q_memory_dict:
            return self.q_memory_dict[bucket]
        return [randn(m, r, generator=self.generator) for _, m, r in shapes]


def powerSGD_hook(state: PowerSGDState, bucket: Any) -> Future:  # noqa: N802 - PyTorch's name
    """Average a bucket's matrices by PowerSGD, its vectors and small matrices as they are.

    Source: https://docs.pytorch.org/docs/stable/ddp_comm_hooks.html#powersgd-hooks
    """
    if state.iter < state.start_powerSGD_iter:
        state.iter += bucket.is_last()
        return allreduce_hook(state.process_group, bucket)
    with no_grad():
        return _Compression(state, bucket).future()


class _Compression:
    """One bucket under way: the left factors and what is not compressed first, then the right factors."""

    def __init__(self, state: PowerSGDState, bucket: Any) -> None:
        self.state, self.bucket = state, bucket
        state.iter += bucket.is_last()
        self.buffer = bucket.buffer()
        if state.use_error_feedback:
            error = state.error_dict.setdefault(bucket.index(), zeros(self.buffer.numel()).to(self.buffer))
            self.buffer.add_(error)
            self.whole = self.buffer.clone()
        self.plain: list[Tensor] = []
        self.matrices: list[Tensor] = []
        for gradient in bucket.gradients():
            (self.matrices if self._pays(gradient) else self.plain).append(gradient)
        self.matrices = [m.view(m.shape[0], -1) for m in self.matrices]
        rank = state.matrix_approximation_rank
        shapes = [(*map(int, m.shape), min(rank, *m.shape)) for m in self.matrices]
        self.q = [_orthogonal(q, state) for q in state.factors(bucket.index(), shapes)]
        self.p = [m @ q for m, q in zip(self.matrices, self.q, strict=True)]

    def _pays(self, gradient: Tensor) -> bool:
        if gradient.ndim < 2:
            return False
        n, m = gradient.shape[0], math.prod(gradient.shape[1:])
        rank = min(self.state.matrix_approximation_rank, n, m)
        return (n + m) * rank * self.state.min_compression_rate < n * m

    def future(self) -> Future:
        """The second half runs when it is waited for: in the order of buckets, in all processes."""
        sent = [*self.plain, *self.p]
        flat = jtorch.cat([t.reshape(-1) for t in sent])
        work = dist.all_reduce(flat, dist.ReduceOp.AVG, self.state.process_group, True)
        assert work is not None, "the process is in the group of its own module"

        def rest(future: Future) -> Tensor:
            with no_grad():
                _unflatten(future.value()[0], sent)
                return self._finished()

        return work.get_future().then(rest)

    def _finished(self) -> Tensor:
        state = self.state
        if self.matrices:
            self.p = [_orthogonal(p, state) for p in self.p]
            self.q = [m.t() @ p for m, p in zip(self.matrices, self.p, strict=True)]
            flat = jtorch.cat([q.reshape(-1) for q in self.q])
            dist.all_reduce(flat, dist.ReduceOp.AVG, state.process_group)
            _unflatten(flat, self.q)
            for m, p, q in zip(self.matrices, self.p, self.q, strict=True):
                m.copy_(p @ q.t())
        if state.warm_start:
            state.q_memory_dict[self.bucket.index()] = self.q
        if state.use_error_feedback:
            self._keep_error()
        return self.buffer

    def _keep_error(self) -> None:
        """What the approximation left out of this process's matrices; of what went whole, nothing."""
        approximated = self.buffer.clone()
        error = self.whole.sub_(approximated)
        self.state.error_dict[self.bucket.index()] = error
        begin = 0
        for gradient in self.bucket.gradients():
            if not self._pays(gradient):
                error[begin : begin + gradient.numel()] = 0
            begin += gradient.numel()


def _orthogonal(matrix: Tensor, state: PowerSGDState) -> Tensor:
    """Columns of length 1 at right angles, by QR."""
    if state.orthogonalization_epsilon:
        matrix = matrix + state.orthogonalization_epsilon
    return jtorch.linalg.qr(matrix).Q


def _unflatten(flat: Tensor, tensors: list[Tensor]) -> None:
    begin = 0
    for t in tensors:
        t.copy_(flat[begin : begin + t.numel()].view(t.shape))
        begin += t.numel()
