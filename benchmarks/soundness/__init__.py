"""``python -m benchmarks soundness``: forty-four ways in which compiled code could differ from eager."""
