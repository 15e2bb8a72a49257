"""Generators of random numbers: a seed and a count of the random ops drawn so far.

The k-th random op of a generator draws from stream (seed, k), so its numbers depend on nothing else: not
on fusion, not on order inside an op, not on the mode. Source: https://docs.pytorch.org/docs/stable/notes/randomness.html
"""

from __future__ import annotations

import secrets
from typing import Any

from jtorch.core import devices, watch


class Generator:
    """A stream of random ops: ``manual_seed`` starts it again.

    Source: https://docs.pytorch.org/docs/stable/generated/torch.Generator.html
    """

    __slots__ = ("call", "device", "key")

    get_state: Any  # as tensors: installed by eager/random_state.py
    set_state: Any

    def __init__(self, device: Any = "cpu") -> None:
        self.device = devices.check(device)
        self.key = 67280421310721  # PyTorch's default seed
        self.call = 0

    def manual_seed(self, seed: int) -> Generator:
        """Start again with ``seed``, from -2**63 to 2**64 - 1. Raises ValueError for others."""
        seed = int(seed)
        if not -(2**63) <= seed < 2**64:
            raise ValueError("Overflow when unpacking long long")
        self.move_to((seed & (2**64 - 1), 0))
        return self

    def seed(self) -> int:
        """Start again with a seed from the system; returns it."""
        recording = watch.seeding.get()
        if recording is not None:
            recording.draw_seed()
        self.manual_seed(secrets.randbits(64))
        return self.key

    def initial_seed(self) -> int:
        return self.position()[0]

    def clone_state(self) -> Generator:
        """Another generator, which goes on where this one is.
        Source: https://docs.pytorch.org/docs/stable/generated/torch.Generator.html
        """
        made = Generator(self.device)
        made.move_to(self.position())
        return made

    def next_call(self) -> tuple[int, int]:
        """(seed, number of this random op), advancing the count."""
        call = self.call
        self.call = call + 1
        return self.key, call

    def position(self) -> tuple[int, int]:
        """(seed, random ops drawn): all there is to know."""
        recording = watch.seeding.get()
        return (self.key, self.call) if recording is None else recording.position_of(self)

    def move_to(self, position: tuple[int, int]) -> None:
        recording = watch.seeding.get()
        if recording is None:
            self.key, self.call = position
        else:
            recording.move_to(self, position)


default_generator = Generator()
