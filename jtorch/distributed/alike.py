"""That the models of all processes have the same parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jtorch.distributed.objects import all_gather_object
from jtorch.eager.public import Tensor


def check_alike(name: str, named: Sequence[tuple[str, Tensor]], group: Any) -> None:
    """Raise RuntimeError, in all processes, where their models have other parameters; ``name`` asks."""
    mine = [f"{parameter}: {p.dtype.name}{list(p.shape)}" for parameter, p in named]
    everyone: list[Any] = [None] * group.size()
    all_gather_object(everyone, mine, group)
    for rank, theirs in enumerate(everyone):
        if len(theirs) != len(everyone[0]):
            raise RuntimeError(
                f"{name} expects same model across all ranks, but Rank 0 has {len(everyone[0])} params, "
                f"while rank {rank} has inconsistent {len(theirs)} params."
            )
        for first, other in zip(everyone[0], theirs, strict=True):
            if first != other:
                raise RuntimeError(
                    f"{name} expects same model across all ranks, with parameters of the same shapes, but "
                    f"rank 0 has {first}, and rank {rank} has {other}"
                )
