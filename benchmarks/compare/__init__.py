"""``python -m benchmarks compare A.json B.json``: what changed between two runs.

``runs`` reads the files, ``changes`` says of each row whether it changed, ``section`` prints it.
"""
