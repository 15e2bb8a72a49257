"""``python -m benchmarks soundness``: the forty-four ways in which compiled code could differ from eager code."""
