"""Networks of ordinary size, written anew after public ones, for ``python -m benchmarks compiled``."""
