"""Eager mode: every op runs at once and hangs a node on a tape.

In the order data flows: ``evaluate`` computes values with NumPy; ``binding`` makes the Tensor-level
function of each op from its declaration; ``tensor`` is what users hold; ``node`` is the tape; ``engine``
plays it in reverse.
"""

from jtorch.eager import evaluate
