"""A gradient that lies in a compiled plan's memory until somebody asks for it."""

from __future__ import annotations

from typing import Any


class LazyGrad:
    """What ``tensor._grad`` holds after a replay: eager mode resolves it when ``tensor.grad`` is read."""

    __slots__ = ()

    def resolve(self) -> Any:
        """The gradient as a Tensor whose memory no later replay changes."""
        raise NotImplementedError

    def forget(self) -> None:
        """The tensor's ``grad`` was set to something else."""
        raise NotImplementedError
