"""The default generator of random numbers: ``torch.random``.

Source: https://docs.pytorch.org/docs/stable/random.html
"""

from __future__ import annotations

from jtorch.core.generator import Generator, default_generator
from jtorch.eager.random_state import fork_rng, get_rng_state, set_rng_state


def manual_seed(seed: int) -> Generator:
    """Start the default generator again with ``seed``, and return it."""
    return default_generator.manual_seed(seed)


def seed() -> int:
    """Start the default generator with a seed from the system; returns it."""
    return default_generator.seed()


def initial_seed() -> int:
    """The seed that the default generator was last started with."""
    return default_generator.initial_seed()


__all__ = [
    "Generator", "default_generator", "fork_rng", "get_rng_state", "initial_seed", "manual_seed", "seed",
    "set_rng_state",
]  # fmt: skip
