"""Who read and who wrote what since a launch began, to find races whatever order the threads run in."""

from __future__ import annotations

import numpy as np

_THREAD_BITS, _EPOCH_BITS = 12, 28
_EPOCH, _BLOCK = _THREAD_BITS, _THREAD_BITS + _EPOCH_BITS  # where these begin in a code
_ALL_THREADS = np.int64((1 << _THREAD_BITS) - 1)  # no thread has this number: several of one block and epoch
_MANY_BLOCKS = np.int64(((1 << 63 - _BLOCK) - 1) << _BLOCK)


def codes(blocks: np.ndarray, epochs: np.ndarray, threads: np.ndarray) -> np.ndarray:
    """Who accesses: the block, the epoch (how many barriers it has passed), the thread. 0 is nobody."""
    return ((blocks + 1) << _BLOCK) | (epochs << _EPOCH) | threads


class Shadow:
    """The last writer and the readers of each granule of an allocation.

    Two accesses race if one of them writes and they are of different blocks, or of different threads of one
    block between the same two barriers. Of writers the last is enough: it raced with the ones before, or
    comes after them. Readers are joined to "several threads" and "several blocks".
    """

    def __init__(self, size: int) -> None:
        self.granule = 8  # bytes; smaller once something narrower is accessed
        n = -(-size // self.granule)
        self.read, self.write = np.zeros(n, np.int64), np.zeros(n, np.int64)
        self.promised = np.zeros(n, bool)  # read by ``ld.global.nc``: nobody may write it

    def places(self, offsets: np.ndarray, width: int) -> np.ndarray:
        """The granules of accesses, a row each."""
        if width < self.granule:
            for name in ("read", "write", "promised"):
                setattr(self, name, np.repeat(getattr(self, name), self.granule // width))
            self.granule = width
        return (offsets // self.granule)[:, None] + np.arange(width // self.granule)

    def reads(self, places: np.ndarray, who: np.ndarray) -> np.ndarray:
        """Record reads; tells which race with a write."""
        code = np.broadcast_to(who[:, None], places.shape)
        joined = _joined(self.read[places], code)
        self.read[places] = joined
        # of several lanes at one place the last one's code is there now
        other = self.read[places] ^ joined
        if other.any():
            same_block = (other != 0) & (other >> _BLOCK == 0)
            self.read[places[same_block]] = (joined | _ALL_THREADS)[same_block]
            self.read[places[other >> _BLOCK != 0]] = _MANY_BLOCKS
        return _races(self.write[places], code).any(1)

    def writes(self, places: np.ndarray, who: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Record writes; tells which race with a read, with an earlier write, and with another one of now."""
        code = np.broadcast_to(who[:, None], places.shape)
        with_read = _races(self.read[places], code).any(1)
        with_write = _races(self.write[places], code).any(1)
        self.write[places] = code
        return with_read, with_write, (self.write[places] != code).any(1)


def _joined(before: np.ndarray, code: np.ndarray) -> np.ndarray:
    """Readers so far and one more. A reader of an earlier epoch is forgotten: only another block can still
    race with it, and that races with the later reader, too."""
    change = before ^ code
    alone = (before == 0) | (change == 0) | ((change >> _BLOCK == 0) & (change >> _EPOCH != 0))
    several = np.where(change >> _BLOCK != 0, _MANY_BLOCKS, code | _ALL_THREADS)
    return np.where(alone, code, several)


def _races(record: np.ndarray, code: np.ndarray) -> np.ndarray:
    change = record ^ code
    return (record != 0) & (change != 0) & ((change >> _BLOCK != 0) | (change >> _EPOCH == 0))
