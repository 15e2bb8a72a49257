"""One thread for each process that pytest-xdist starts, unless the environment says otherwise.

Two processes with two BLAS threads each on two cores wait for each other: small products of NumPy then take
milliseconds instead of microseconds. Set here, before the first import of NumPy, which reads it. A single
process (`-n 0`) has what users have: default threads.
"""

import os

if "PYTEST_XDIST_WORKER" in os.environ:
    for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(_name, "1")

from jtorch.eager import shortcuts


def pytest_collection_modifyitems(items):
    """Long runs are slow ones, too: ``-m "not slow"`` takes the place of pyproject's ``-m "not soak"``."""
    for item in items:
        if item.get_closest_marker("soak"):
            item.add_marker("slow")


shortcuts.prepare()  # the first op of all may compile them, into the cache folder of a test
