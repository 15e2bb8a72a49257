"""Generators of random numbers: a seed and a count of the random ops drawn so far.

The k-th random op of a generator draws from stream (seed, k), so its numbers depend on nothing else: not
on fusion, not on order inside an op, not on the mode. Source: https://docs.pytorch.org/docs/stable/notes/randomness.html
"""

from __future__ import annotations

import secrets
from typing import Any


class Generator:
    """A stream of random ops: ``manual_seed`` starts it again."""

    __slots__ = ("call", "seed")

    def __init__(self, device: Any = "cpu") -> None:
        self.seed = 67280421310721  # PyTorch's default seed
        self.call = 0

    def manual_seed(self, seed: int) -> Generator:
        self.seed = int(seed) & (2**64 - 1)
        self.call = 0
        return self

    def initial_seed(self) -> int:
        return self.seed

    def next_call(self) -> tuple[int, int]:
        """(seed, number of this random op), advancing the count."""
        call = self.call
        self.call = call + 1
        return self.seed, call

    def get_state(self) -> tuple[int, int]:
        return self.seed, self.call

    def set_state(self, state: tuple[int, int]) -> None:
        self.seed, self.call = state


default_generator = Generator()


def manual_seed(seed: int) -> Generator:
    """Start the default generator again with ``seed``."""
    return default_generator.manual_seed(seed)


def seed() -> int:
    """Start the default generator with a seed from the system; returns it."""
    value = secrets.randbits(63)
    default_generator.manual_seed(value)
    return value


def initial_seed() -> int:
    return default_generator.seed


def get_rng_state() -> tuple[int, int]:
    """(seed, random ops drawn) of the default generator."""
    return default_generator.get_state()


def set_rng_state(state: tuple[int, int]) -> None:
    default_generator.set_state(state)
