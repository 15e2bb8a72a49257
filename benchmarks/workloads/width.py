"""The MLP at growing width: where the cost of Python ends and that of arithmetic begins."""

from __future__ import annotations

from functools import partial

from benchmarks.program import Workload
from benchmarks.workloads import mlp

WIDTHS = (16, 64, 256, 1024)


def _row(hidden: int) -> Workload:
    return Workload(
        f"width-{hidden}",
        f"MLP 64-{hidden}-10, batch 32, Adam",
        partial(mlp.torch_like, hidden=hidden),
        partial(mlp.jax, hidden=hidden),
    )


WORKLOADS = tuple(_row(hidden) for hidden in WIDTHS)
