"""What compiling, the tape and memory cost, row by row: commands of ``python -m benchmarks``."""
