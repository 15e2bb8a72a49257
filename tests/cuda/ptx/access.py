"""Loads and stores of one launch, with every check but that of bounds."""

from __future__ import annotations

import numpy as np

from tests.cuda.ptx.errors import (
    ConstantWrittenError,
    LaunchError,
    MisalignedError,
    RaceError,
    UnwrittenError,
)
from tests.cuda.ptx.memory import Allocation, Piece
from tests.cuda.ptx.shadow import Shadow

_UNORDERED = "another thread, and no barrier is between"


class Access:
    """``who`` are the codes of the threads that access (``shadow.codes``)."""

    def __init__(self) -> None:
        self.shadows: dict[Allocation, Shadow] = {}

    def load(self, piece: Piece, width: int, who: np.ndarray, promised: bool) -> np.ndarray:
        """``promised``: nobody writes it during the launch (``ld.global.nc``)."""
        a = piece.allocation
        if a.written is not None:
            whole = a.written[: len(a.data) // width * width].reshape(-1, width)
            unwritten = ~whole[piece.offsets // width].all(1)
            _refuse(UnwrittenError, unwritten, piece, "{} is read, and nobody has written it")
        if not a.constant:
            shadow, places = self._shadow(piece, width)
            raced = shadow.reads(places, who)
            if promised:
                written = (shadow.write[places] != 0).any(1)
                _refuse(
                    ConstantWrittenError,
                    written,
                    piece,
                    "{} is read as constant, and this launch has written it",
                )
                shadow.promised[places] = True
            _refuse(RaceError, raced, piece, "{} is read here and written by " + _UNORDERED)
        return a.words(width)[piece.offsets // width]

    def store(self, piece: Piece, width: int, who: np.ndarray, values: np.ndarray) -> None:
        a = piece.allocation
        if a.constant:
            everyone = np.ones(len(piece.offsets), bool)
            _refuse(ConstantWrittenError, everyone, piece, "{} is constant, and written here")
        words, at = a.words(width), piece.offsets // width
        before = words[at]
        words[at] = values
        if a.written is not None:
            a.written[: len(a.data) // width * width].reshape(-1, width)[at] = True
        shadow, places = self._shadow(piece, width)
        promised = shadow.promised[places].any(1)
        _refuse(
            ConstantWrittenError, promised, piece, "{} is written here, and this launch reads it as constant"
        )
        with_read, with_write, now = shadow.writes(places, who)
        _refuse(RaceError, with_read, piece, "{} is written here and read by " + _UNORDERED)
        if a.flags:
            with_write, now = with_write & (before != values), words[at] != values
        _refuse(RaceError, with_write | now, piece, "{} is written here and written by " + _UNORDERED)

    def _shadow(self, piece: Piece, width: int) -> tuple[Shadow, np.ndarray]:
        """The shadow of an allocation, and the granules of an access."""
        a = piece.allocation
        if a not in self.shadows:
            self.shadows[a] = Shadow(len(a.data))
        return self.shadows[a], self.shadows[a].places(piece.offsets, width)


def check_alignment(addresses: np.ndarray, width: int) -> None:
    off = addresses % np.uint64(width) != 0
    if off.any():
        lane = int(np.argmax(off))
        raise MisalignedError(f"{width} bytes at {int(addresses[lane]):#x} are not aligned", lane)


def _refuse(kind: type[LaunchError], wrong: np.ndarray, piece: Piece, sentence: str) -> None:
    """Raise where a lane is ``wrong``."""
    if wrong.any():
        k = int(np.argmax(wrong))
        place = f"{piece.allocation.name}+{int(piece.offsets[k]) % piece.allocation.stride}"
        lane = k if isinstance(piece.lanes, slice) else int(piece.lanes[k])
        raise kind(sentence.format(place), lane)
