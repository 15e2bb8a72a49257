"""Files of runs for the tests of the page."""

import functools
import json
from dataclasses import replace

import numpy as np

import jtorch
from benchmarks.contestant import COMPILED, EAGER
from benchmarks.first_call import STAGES, FirstCall
from benchmarks.measure import Row
from benchmarks.report import write_json
from benchmarks.timing import Timing
from benchmarks.verdict import sentences
from benchmarks.workloads import ROWS

MACHINE = {
    "command": "python -m benchmarks run --json <run>.json", "cpu": "a CPU", "cores": 2, "threads": None,
    "jtorch_threads": 2, "python": "3.11", "versions": {"numpy": "2.4"}, "load_1min": 0.5,
}  # fmt: skip
PROFILE = [{"name": "matmul", "kind": "gemm", "source": "a.py:3 in step", "us": 31.5, "of_limit": 0.21}]


@functools.cache
def _document():
    def step(x):
        loss = x.tanh().sum()
        loss.backward()
        return loss

    compiled = jtorch.compile(step)
    compiled(jtorch.ones(3, requires_grad=True))
    return compiled.document(with_reasons=True)


def write(path, seed=0, factor=1.0):
    """A run of three rows: one for which compiling pays, one slower compiled, one with an error."""
    generator = np.random.default_rng(seed)

    def timing(ms):
        samples = (generator.normal(ms, 0.01 * ms, 24) * 1e-3).tolist()
        return Timing(tuple(samples), 10, (3,) * 8)

    lenet, call, toy = (Row(ROWS[name]) for name in ("lenet", "call", "toy"))
    lenet.timings = {EAGER: timing(3.0), COMPILED: timing(2.0 * factor), "torch": timing(5.0)}
    call.timings = {EAGER: timing(1.0), COMPILED: timing(1.2)}
    toy.timings = {EAGER: timing(0.03)}
    toy.errors = {COMPILED: "</script><b>differs"}
    for row in (lenet, call):
        row.first_call = FirstCall(2.1, dict.fromkeys(STAGES, 0.1), 0.1)
    lenet.first_call = replace(lenet.first_call, document=_document())
    rows = [row.as_dict() | {"verdict": sentences(row, ["torch"])} for row in (lenet, call, toy)]
    rows[0]["profile"] = PROFILE
    write_json(path, MACHINE, rows, {"quick": False})
    return json.loads(path.read_text())
