"""The targets there are."""

from __future__ import annotations

from jtorch.compile.codegen import cuda, source
from jtorch.compile.run.interpreted import Interpreted
from jtorch.compile.run.replay import Replay
from jtorch.compile.run.simulated import Simulated
from jtorch.compile.run.unjitted import Unjitted
from jtorch.compile.target import Target
from jtorch.core import config

# One native call.
CPU = Target("cpu", lambda plan: source.emit(plan), lambda code, _, binding: Replay(code, binding))
# The text of the same kernels, run as plain Python.
PYTHON = Target("python", lambda plan: source.emit(plan), lambda code, _, binding: Unjitted(code, binding))
# No kernel is run: the recorded graph is, by NumPy.
INTERPRETER = Target("interpreter", lambda plan: source.emit(plan), Interpreted)
# CUDA kernels under numba-cuda's simulator.
CUDA_SIMULATOR = Target(
    "cuda simulator", lambda plan: cuda.emit_cuda(plan), lambda code, _, binding: Simulated(code, binding)
)


def default() -> Target:
    """The one that ``JTORCH_JIT`` asks for."""
    return CPU if config.jitted() else PYTHON
