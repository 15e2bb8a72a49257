"""What the machine refuses: text that it does not know, and launches that do something wrong."""

from __future__ import annotations


class PtxError(Exception):
    """The text says something that the machine does not know."""


class LaunchError(Exception):
    """What a launch did wrong; the message names kernel, instruction, block and thread.

    ``lane``: which of the threads at the instruction did it, until the machine has put its name in.
    """

    def __init__(self, what: str, lane: int = 0) -> None:
        super().__init__(what)
        self.what, self.lane = what, lane


class BadLaunchError(LaunchError):
    """Arguments or a shape that the kernel does not take."""


class OutOfBoundsError(LaunchError):
    """An address in no allocation."""


class MisalignedError(LaunchError):
    """An address that is no multiple of the access's width."""


class UnwrittenError(LaunchError):
    """A read of memory that nobody wrote."""


class ConstantWrittenError(LaunchError):
    """A write to constant memory, or to what the same launch reads by ``ld.global.nc``."""


class RaceError(LaunchError):
    """Two threads at one place, one of them writing, and nothing that says which comes first."""


class BarrierDivergenceError(LaunchError):
    """Threads of a block wait at different barriers, or some have ended."""


class EndlessError(LaunchError):
    """A launch that does not end."""
