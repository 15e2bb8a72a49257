"""The targets there are."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from jtorch.compile.codegen import source
from jtorch.compile.codegen.code import Code
from jtorch.compile.graph.halves import Multiplies
from jtorch.compile.plan.plan import Plan
from jtorch.compile.run.instances import Instances
from jtorch.compile.run.interpreted import Interpreted
from jtorch.compile.run.replay import Replay
from jtorch.compile.run.scans import Loop, Turns
from jtorch.compile.run.unjitted import Unjitted
from jtorch.compile.target import Binding, Target
from jtorch.core import config
from jtorch.core.environment import Environment, Exact


def _for_any_sizes(env: Environment, names: Sequence[str]) -> Target:
    return Target(
        "cpu, any sizes",
        source.emit,
        lambda code, _, binding: Instances(code, binding, env, _turns, names),
        multiplies=Multiplies.FACTORS,
    )


# One native call.
CPU = Target(
    "cpu",
    source.emit,
    lambda code, _, binding: Replay(code, binding, _turns),
    _for_any_sizes,
    Multiplies.FACTORS,
)
# The text of the same kernels, run as plain Python.
PYTHON = Target("python", source.emit, lambda code, _, binding: Unjitted(code, binding))
# No kernel is run: the recorded graph is, by NumPy.
INTERPRETER = Target("interpreter", source.emit, Interpreted)


def emit_on_device(plan: Plan) -> Code:
    """The kernels of a plan for a CUDA device."""
    from jtorch.compile.codegen import cuda  # 18 ms, which no other target needs

    return cuda.emit_cuda(plan)


def on_device(device: Any) -> Target:
    """A CUDA device, a ``jtorch.native.cuda.device.Device``. Tensors may lie there, or on the host."""

    def load(code: Code, _: Any, binding: Binding) -> Any:
        from jtorch.compile.run.cuda import CudaRunner

        return CudaRunner(code, binding, device)

    def for_any_sizes(env: Environment, names: Sequence[str]) -> Target:
        from jtorch.compile.run.cuda_sizes import CudaSizes

        return Target(
            "cuda, any sizes",
            lambda plan: Code(plan, {}),  # those of each call's sizes are written
            lambda code, graph, binding: CudaSizes(code, graph, binding, env, names, device),
            multiplies=Multiplies.ALL,
        )

    return Target("cuda", emit_on_device, load, for_any_sizes, multiplies=Multiplies.ALL)


def device_memory() -> Any:
    """That of the device that tensors are on."""
    from jtorch.compile.run import device_memory  # with the driver's functions

    return device_memory.current()


def of_sizes(target: Target, env: Environment, names: Sequence[str] | None = None) -> Target:
    """``target`` for a graph over symbols, of these ``names``. Raises ``Exact`` for one that runs none."""
    if target.of_sizes is None:
        raise Exact(f"the target {target.name!r} runs no plans for any sizes")
    return target.of_sizes(env, env.symbols if names is None else names)


def _turns(loop: Loop) -> Turns:
    return Turns(loop, CPU, functools.partial(of_sizes, CPU))


def chosen(interpreted: bool = False, device: Any = None) -> Target:
    """The one that a function's ``mode="interpret"``, or else ``JTORCH_JIT``, asks for; of tensors on a
    ``device`` that device."""
    if device is not None:
        return on_device(device_memory().native)
    if interpreted:
        return INTERPRETER
    return CPU if config.jitted() else PYTHON
