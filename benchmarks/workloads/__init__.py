"""The programs that are measured, smallest first. A workload may have several rows.

``transformer`` is not among them: it is measured in eager mode alone (``benchmarks.eager``).
"""

from __future__ import annotations

from benchmarks.program import Workload
from benchmarks.workloads import call, lenet, mlp, rnn, rnn_cell, toy, width

WORKLOADS: dict[str, tuple[Workload, ...]] = {
    "call": (call.WORKLOAD,),
    "toy": (toy.WORKLOAD,),
    "rnn_cell": (rnn_cell.WORKLOAD,),
    "mlp": (mlp.WORKLOAD,),
    "lenet": (lenet.WORKLOAD,),
    "rnn": (rnn.WORKLOAD,),
    "width": width.WORKLOADS,
}

ROWS: dict[str, Workload] = {row.name: row for rows in WORKLOADS.values() for row in rows}
