"""Gradients in buckets: which parameters travel together, and in what order.

The last layers' gradients are there first, so buckets are filled from the last parameter to the first, and a
bucket's collective runs while backward computes the gradients of the next one.
Source: Li et al. 2020, "PyTorch Distributed: Experiences on Accelerating Data Parallel Training",
arXiv:2006.15704.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jtorch.eager.public import Tensor, no_grad, zeros

FIRST_MB = 1.0  # of the first bucket: the smaller it is, the sooner something is under way
MB = 1 << 20


class Bucket:
    """Some parameters of one dtype, and the memory that their gradients travel in."""

    def __init__(self, index: int, params: Sequence[tuple[int, str, Tensor]]) -> None:
        self.index = index
        self.numbers = [number for number, _, _ in params]
        self.names = [name for _, name, _ in params]
        self.params = [p for _, _, p in params]
        self.dtype = self.params[0].dtype
        self.begins = [0]
        for p in self.params:
            self.begins.append(self.begins[-1] + p.numel())
        self.flat = zeros(self.begins[-1], dtype=self.dtype)
        self.missing = 0  # gradients that have not come yet
        self.under_way: Any = None

    @property
    def nbytes(self) -> int:
        return self.flat.numel() * self.dtype.itemsize

    def part(self, k: int, of: Tensor | None = None) -> Tensor:
        """The elements of the ``k``-th gradient, in its shape; they share the bucket's memory."""
        flat = self.flat if of is None else of
        return flat[self.begins[k] : self.begins[k + 1]].view(self.params[k].shape)

    def put(self, k: int, gradient: Tensor | None) -> None:
        """Copy the gradient of the ``k``-th parameter in, zeros where it has none."""
        with no_grad():
            part = self.part(k)
            part.zero_() if gradient is None else part.copy_(self.checked(k, gradient).detach())

    def checked(self, k: int, gradient: Tensor) -> Tensor:
        """The gradient of the ``k``-th parameter. Raises RuntimeError for another dtype, whose values would
        be rounded here."""
        if gradient.dtype is not self.dtype:
            raise RuntimeError(
                f"the gradient of {self.names[k]} is {gradient.dtype.name}, and its bucket "
                f"{self.dtype.name}: the module was converted after DistributedDataParallel was made; "
                "convert it before (DistributedDataParallel(module.double()))"
            )
        return gradient

    def __str__(self) -> str:
        size = f"{self.nbytes / MB:.2f} MB" if self.nbytes >= MB / 10 else f"{self.nbytes} bytes"
        return f"{self.index}: {self.dtype.name}, {size}: {', '.join(self.names)}"


class GradBucket:
    """What a communication hook gets: one bucket's gradients, flat, before they are averaged.

    Source: https://docs.pytorch.org/docs/stable/ddp_comm_hooks.html#torch.distributed.GradBucket
    """

    def __init__(self, bucket: Bucket, is_last: bool) -> None:
        self._bucket = bucket
        self._is_last = is_last
        self._buffer = bucket.flat

    def index(self) -> int:
        """Its number, in the order in which buckets are sent."""
        return self._bucket.index

    def buffer(self) -> Tensor:
        """The gradients of all its parameters, flat."""
        return self._buffer

    def set_buffer(self, tensor: Tensor) -> None:
        """Let ``buffer()`` and ``gradients()`` be ``tensor`` and its parts."""
        self._buffer = tensor

    def gradients(self) -> list[Tensor]:
        """The gradients, in their shapes; they share the memory of ``buffer()``."""
        return [self._bucket.part(k, self._buffer) for k in range(len(self._bucket.params))]

    def parameters(self) -> list[Tensor]:
        """The parameters that the gradients are of."""
        return list(self._bucket.params)

    def is_last(self) -> bool:
        """Whether it is the last of this backward pass."""
        return self._is_last


def plan(named: Sequence[tuple[str, Tensor]], first_mb: float, cap_mb: float) -> list[Bucket]:
    """The buckets of these parameters: at most so large unless one gradient is, of one dtype each."""
    open_: dict[Any, list] = {}  # dtype -> what is in its unfinished bucket
    size: dict[Any, int] = {}
    closed: list[list] = []
    for number, (name, p) in reversed(list(enumerate(named))):
        cap = (cap_mb if closed else first_mb) * MB
        nbytes = p.numel() * p.dtype.itemsize
        if open_.get(p.dtype) and size[p.dtype] + nbytes > cap:
            closed.append(open_.pop(p.dtype))
        open_.setdefault(p.dtype, []).append((number, name, p))
        size[p.dtype] = size[p.dtype] + nbytes if len(open_[p.dtype]) > 1 else nbytes
    # the gradient of a bucket's first parameter comes last: whose comes first is sent first
    closed = sorted([*closed, *open_.values()], key=lambda params: -params[-1][0])
    return [Bucket(k, params) for k, params in enumerate(closed)]
