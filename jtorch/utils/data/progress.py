"""How far a loader's pass has come, so that another process can go on from there."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from jtorch.generator import Generator, default_generator
from jtorch.utils.data.sampler import RandomSampler


@dataclass
class Progress:
    """One pass: batches given out, and where the generators stood at its beginning."""

    skip: int = 0  # batches that an earlier process gave
    given: int = 0
    ended: bool = False
    generators: list[tuple[int, int]] = field(default_factory=list)
    epoch: int | None = None  # of a sampler that has one


def generators(loader: Any) -> list[Generator]:
    """Those that decide the order of a pass: the loader's and its sampler's, each once."""
    samplers = [loader, loader.sampler, loader.batch_sampler, getattr(loader.batch_sampler, "sampler", None)]
    found = [getattr(one, "generator", None) or default_generator for one in samplers if one is not None]
    return [one for k, one in enumerate(found) if all(one is not other for other in found[:k])]


def innermost(loader: Any) -> Any:
    """The sampler that gives single indices."""
    return getattr(loader.batch_sampler, "sampler", loader.sampler)


def check_replayable(loader: Any) -> None:
    """Raise for a sampler that draws during the pass from the generator that all the program draws from."""
    sampler = innermost(loader)
    if not isinstance(sampler, RandomSampler) or sampler.generator not in (None, default_generator):
        return
    if sampler.replacement or sampler.num_samples > len(sampler.data_source):
        raise RuntimeError(
            "DataLoader.state_dict: this RandomSampler draws again and again during a pass, from the "
            "program's generator, so that its order depends on what else is drawn. Give it one of its own: "
            "RandomSampler(..., generator=jtorch.Generator())"
        )
