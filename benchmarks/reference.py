"""Some work that has nothing to do with jtorch, timed in turns with each row: how fast the machine is.

Where a neighbour begins to work between two runs, or the clock is lowered, it takes longer in the second, and
no change of jtorch can be the cause.
"""

from __future__ import annotations

import numpy as np

from benchmarks.timing import Calls

_SIZE, _TURNS = 2048, 200


def reference() -> Calls:
    """A loop of Python's and two of NumPy's, over 24 KB: some 20 us."""
    x = np.linspace(-1.0, 1.0, _SIZE, dtype=np.float32)
    y, out = x[::-1].copy(), np.empty_like(x)

    def work() -> int:
        total = 0
        for k in range(_TURNS):
            total += k & 7
        np.multiply(x, y, out=out)
        np.tanh(out, out=out)
        return total

    return Calls(work, [()])
