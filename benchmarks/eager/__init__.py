"""Eager mode against PyTorch and NumPy: ``python -m benchmarks eager``.

In the order data flows: ``cases`` says what is measured and what its goal is, ``operations``, ``arrays``
and ``convolutions`` hold the programs (training steps come from ``benchmarks.workloads``), ``measure``
checks that both sides compute the same and times them in turns, ``importing`` times ``import jtorch`` in
new processes, ``report`` prints every line with its goal and verdict, ``section`` puts it all together.
"""
