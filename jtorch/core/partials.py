"""In what order the terms of a sum are added: a function of sizes alone, for eager mode and kernels alike.

A running sum of n terms is off by up to n roundings, and stands still when it is 2^24 times its terms. So
the terms are cut into *partials*, contiguous runs of a length that this file says; each is added up in the
dtype itself, and the partials, in their order, with twice the digits. The error then does not grow with n,
and the result does not depend on threads: whoever computes a partial, it is the same.

Terms that lie side by side are added in the lanes of vector registers, 16 to 64 of them, so a partial may be
longer than where each result has a column of its own and every term waits for the one before. With these
lengths sums of 10^7 random terms are off by at most one unit in the last place, of equal terms by two
(`python -m benchmarks accuracy`), and the mean of 10^6 takes no longer than as one running sum.
"""

from __future__ import annotations

from jtorch.core.dim import least, most

LINE = 512  # terms of a partial that lie side by side
ROWS = 64  # terms of a partial that lie rows apart


def line(terms: int) -> int:
    """The length of the partials of a sum over ``terms`` neighbours in memory."""
    return most(1, least(terms, LINE))


def rows(terms: int) -> int:
    """The length of the partials of sums over ``terms`` rows, one sum per column."""
    return most(1, least(terms, ROWS))
