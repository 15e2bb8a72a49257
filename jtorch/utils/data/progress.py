"""How far a loader's pass has come, so that another process can go on from there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from operator import index
from typing import Any

from jtorch.core.generator import Generator, default_generator
from jtorch.utils.data.distributed import DistributedSampler
from jtorch.utils.data.sampler import (
    BatchSampler,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

Position = tuple[int, int] | None  # None: the program's generator between passes, which is not the loader's
Positions = list[Position]

# Those whose length is no guess. One of the user's own may not know it, or have another in each epoch.
_SURE_OF_THEIR_LENGTH = (
    SequentialSampler, RandomSampler, SubsetRandomSampler, WeightedRandomSampler, DistributedSampler,
)  # fmt: skip


@dataclass
class Progress:
    """Where a pass began, and the batches that it gave since. What happens is told by the methods alone.

    A loader has one: of its latest pass, or, made by ``loaded``, of the pass that the next one goes on with.
    """

    generators: Positions = field(default_factory=list)  # where they stood; none before the first pass
    epoch: Any = None  # of a sampler that has one
    skip: int = 0  # batches that an earlier process gave
    given: int = 0  # batches that need not come again: those of skip, too, once they are passed by
    waiting: bool = False  # loaded, and not yet gone on with
    ended: bool = False
    frozen: bool = False

    @classmethod
    def begin(cls, loader: Any) -> Progress:
        """Of a new pass. Goes on with what the loader has loaded: puts generators and epoch as they were."""
        last: Progress = loader._progress
        found = generators(loader)
        if last.waiting:
            _move(found, last.generators)
            _set_epoch(loader, last.epoch)
        skip = last.given if last.waiting else 0
        return cls([one.position() for one in found], _epoch(loader), skip)

    def passed_by(self) -> None:
        """The pass stands where the earlier process left it."""
        self.given = self.skip

    def count(self) -> None:
        """One more batch was given, or failed for good."""
        if not self.frozen:
            self.given += 1

    def end(self) -> None:
        """Nothing is left: the next pass begins at its beginning."""
        self.ended = not self.frozen

    def freeze(self) -> None:
        """Stay here: from now on batches are missing, or the end is none, so that counts tell no place."""
        self.frozen = True

    def state(self, loader: Any) -> dict[str, Any]:
        """As plain data."""
        if self.ended or not self.generators:
            return {"given": 0, "generators": _own_positions(loader), "epoch": _epoch(loader)}
        positions = [None if one is None else list(one) for one in self.generators]
        return {"given": self.given, "generators": positions, "epoch": self.epoch}

    @classmethod
    def loaded(cls, loader: Any, state: Any) -> Progress:
        """Of a pass to go on with. A state of between passes is set here: an epoch, and own generators.

        Raises ValueError for what is no state of such a loader.
        """
        if not isinstance(state, Mapping) or set(state) != {"given", "generators", "epoch"}:
            found = sorted(map(str, state)) if isinstance(state, Mapping) else type(state).__name__
            raise _refusal(f"no state of a DataLoader: {found}")
        given, epoch, positions = state["given"], state["epoch"], _positions(state["generators"])
        if type(given) is not int or given < 0:
            raise _refusal(f"'given' should be a count of batches, but is {given!r}")
        fitting = len(positions) == len(generators(loader)) and not (given and None in positions)
        if not fitting and (positions or given):
            raise _refusal("the state is of a loader with other generators")
        if epoch is not None and _with_epochs(loader) is None:
            kind = type(innermost(loader)).__name__
            raise _refusal(f"the state is of a sampler with epochs, and this {kind} has none")
        _check_length(loader, given)
        own = generators(loader)[: len(positions)]
        of_the_program = [p for one, p in zip(own, positions, strict=True) if one is default_generator]
        if given or any(of_the_program):
            return cls(positions, epoch, given=given, waiting=True)
        _move(own, positions)
        _set_epoch(loader, epoch)
        return cls()


def _refusal(why: str) -> ValueError:
    return ValueError(f"DataLoader.load_state_dict: {why}")


def _positions(found: Any) -> Positions:
    try:
        return [None if one is None else _position(*one) for one in found]
    except (TypeError, ValueError):
        text = f"'generators' should be pairs of a seed and a count of draws, but is {found!r}"
    raise _refusal(text)


def _position(seed: Any, drawn: Any) -> tuple[int, int]:
    seed, drawn = index(seed), index(drawn)
    if not 0 <= seed < 2**64 or drawn < 0:
        raise ValueError("no position of a generator")
    return seed, drawn


def _check_length(loader: Any, given: int) -> None:
    sure = type(innermost(loader)) in _SURE_OF_THEIR_LENGTH
    if sure and type(loader.batch_sampler) in (BatchSampler, type(None)) and given > len(loader):
        raise _refusal(f"the state is {given} batches into a pass, but a pass has only {len(loader)}")


def _own_positions(loader: Any) -> list[Any]:
    """Where the loader's own generators stand; empty where it has none."""
    found = generators(loader)
    own = [None if one is default_generator else list(one.position()) for one in found]
    return own if any(own) else []


def _move(found: list[Generator], positions: Positions) -> None:
    for one, position in zip(found, positions, strict=True):
        if position is not None:
            one.move_to(position)


@contextmanager
def generators_kept(loader: Any) -> Iterator[None]:
    """Put the program's generator back where it was: others draw from it, too, and have set it as they want.

    After a failure put all back, so that it can be tried again.
    """
    kept = [(one, one.position()) for one in generators(loader)]
    done = False
    try:
        yield
        done = True
    finally:
        for one, position in kept:
            if one is default_generator or not done:
                one.move_to(position)


def generators(loader: Any) -> list[Generator]:
    """Those that decide the order of a pass: the loader's and its sampler's, each once.

    They have no names in a state. A loader made in the same way shares them in the same way, so that each
    first appears in the same place.
    """
    found = [_generator(one) for one in _drawing(loader)]
    return [one for k, one in enumerate(found) if all(one is not other for other in found[:k])]


def _drawing(loader: Any) -> list[Any]:
    samplers = [loader.sampler, loader.batch_sampler, getattr(loader.batch_sampler, "sampler", None)]
    return [loader, *(one for one in samplers if one is not None)]


def _generator(sampler: Any) -> Generator:
    found = getattr(sampler, "generator", None)
    return found if isinstance(found, Generator) else default_generator


def innermost(loader: Any) -> Any:
    """The sampler that gives single indices."""
    return getattr(loader.batch_sampler, "sampler", loader.sampler)


def _with_epochs(loader: Any) -> Any:
    """The sampler whose order depends on an epoch, or None: the outer one of two, which hands its own on."""
    samplers = (loader.batch_sampler, innermost(loader))
    return next((one for name in ("epoch", "set_epoch") for one in samplers if hasattr(one, name)), None)


def _epoch(loader: Any) -> Any:
    return getattr(_with_epochs(loader), "epoch", None)


def _set_epoch(loader: Any, epoch: Any) -> None:
    sampler = _with_epochs(loader)
    if epoch is None:
        return
    if hasattr(sampler, "set_epoch"):
        sampler.set_epoch(epoch)
    else:
        sampler.epoch = epoch


def check_replayable(loader: Any, name: str) -> None:
    """Raise RuntimeError where the same batches can't be had again in the same order."""
    if not loader.in_order and loader.num_workers > 0:
        raise RuntimeError(
            f"DataLoader.{name}: batches that come as they are ready (in_order=False) are in another order "
            "each time, so that a count doesn't tell which were given. Make the loader with in_order=True"
        )
    for one in _drawing(loader):
        found = getattr(one, "generator", None)
        if found is not None and not isinstance(found, Generator):
            raise RuntimeError(
                f"DataLoader.{name}: {type(one).__name__} draws from a {type(found).__name__}, whose place "
                "isn't kept. Let it draw from a jtorch.Generator()"
            )
    sampler = innermost(loader)
    if not isinstance(sampler, RandomSampler) or sampler.generator not in (None, default_generator):
        return
    if sampler.replacement or sampler.num_samples > len(sampler.data_source):
        raise RuntimeError(
            f"DataLoader.{name}: this RandomSampler draws again and again during a pass, from the program's "
            "generator, so that its order depends on what else is drawn. Give it one of its own: "
            "RandomSampler(..., generator=jtorch.Generator())"
        )
