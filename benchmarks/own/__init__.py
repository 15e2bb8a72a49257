"""``python -m benchmarks own FILE:FUNCTION``: whether compiling pays for a training step of the user's.

``protocol`` says what a file must have, ``load`` makes a workload of a file, ``section`` measures and tells.
"""
