"""The compiler: records a function once, optimises the graph as a whole, generates kernels, replays them.

    function -record-> Graph -passes-> Graph -fuse-> [Step] -plan-> Plan -emit-> Code -load-> Runner

This package is also the decorator: ``@jtorch.compile``. A module cannot be called, so it gives itself a class
that can; of the ways to do this, it is the one that survives every form of import.
"""

from __future__ import annotations

import inspect
import sys
import types
from typing import Any

from jtorch.compile.decorator import compile as _compile

__signature__ = inspect.signature(_compile)
__doc__ = f"jtorch.compile{__signature__}\n\n{_compile.__doc__}\n{__doc__}"  # for help()


class _CallableModule(types.ModuleType):
    __call__ = staticmethod(_compile)


def kernels_of_formulas() -> Any:
    """What eager mode asks, see ``eager/formulas.py``; None where there are no kernels."""
    from jtorch.compile.run import bodies

    return bodies.call_of if bodies.is_offered() else None


def device_memory() -> Any:
    """What knows the device that tensors may lie on; nobody has looked for it yet."""
    from jtorch.compile.run import device_memory

    return device_memory


def meta_memory() -> Any:
    """The memory of tensors without elements."""
    from jtorch.compile.run import meta_memory

    return meta_memory.memory


sys.modules[__name__].__class__ = _CallableModule
