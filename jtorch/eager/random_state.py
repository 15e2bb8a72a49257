"""The state of random generators as tensors, as PyTorch hands it out and takes it back.

Source: https://docs.pytorch.org/docs/stable/random.html
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from jtorch.core.generator import Generator, default_generator
from jtorch.eager.tensor import Tensor, _concrete, wrap

_BYTES = 16  # the seed and the count of random ops, 64 bits each


def state_of(self: Generator) -> Tensor:
    """The state: a uint8 tensor of 16 elements."""
    return wrap(np.array(self.position(), "<u8").view(np.uint8).copy())


def restore(self: Generator, new_state: Tensor) -> None:
    """Go on from a state that ``get_state`` gave. Raises TypeError or RuntimeError for anything else."""
    if not isinstance(new_state, Tensor) or new_state._data.dtype != np.uint8:
        found = new_state.type() if isinstance(new_state, Tensor) else type(new_state).__name__
        raise TypeError(f"expected a torch.ByteTensor, but got {found}")
    array = _concrete(new_state, "set_rng_state()")
    if array.size != _BYTES:
        raise RuntimeError(
            f"Expected a CPUGeneratorImplState of size {_BYTES} but found the input RNG state size to be "
            f"{array.size}: a state is that of jtorch's own generator, which is not PyTorch's"
        )
    seed, call = np.ascontiguousarray(array).view("<u8").tolist()
    self.move_to((seed, call))


Generator.get_state, Generator.set_state = state_of, restore


def get_rng_state() -> Tensor:
    """The state of the default generator: a uint8 tensor."""
    return default_generator.get_state()


def set_rng_state(new_state: Tensor) -> None:
    """Go on from a state that ``get_rng_state`` gave."""
    default_generator.set_state(new_state)


@contextmanager
def fork_rng(
    devices: Iterable[Any] | None = None, enabled: bool = True, device_type: str = "cuda", **callers: Any
) -> Iterator[None]:
    """Draw in the ``with`` block without moving the generator outside. Also a decorator.

    ``devices`` names other devices whose generators to keep: this build has none, and naming one is an error.
    Source: https://docs.pytorch.org/docs/stable/random.html#torch.random.fork_rng
    """
    if devices is not None and list(devices):
        raise RuntimeError(f"fork_rng(): this build has no {device_type} devices, got devices={devices!r}")
    before = default_generator.position()
    try:
        yield
    finally:
        if enabled:
            default_generator.move_to(before)
