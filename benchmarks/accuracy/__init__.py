"""How far sums are off, in both modes, beside PyTorch: ``python -m benchmarks accuracy``."""
