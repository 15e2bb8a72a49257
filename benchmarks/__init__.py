"""Eager against compiled, in interleaved runs: ``python -m benchmarks``.

In the order data flows: ``workloads`` are the programs, ``program`` the form they have, ``agree``
checks that both modes compute the same, ``timing`` takes turns between contestants, ``measure``
puts the figures of one row together, ``report`` prints them. ``peers`` runs the same programs in
PyTorch and JAX, each in a process of its own.
"""
