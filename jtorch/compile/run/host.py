"""Memory by address, as NumPy arrays: what a library call between kernels works on."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from jtorch.compile.graph.access import Layout
from jtorch.compile.graph.ir import Var


def array_at(address: int, var: Var) -> np.ndarray:
    """The row-major memory at ``address`` as an array of the variable's type."""
    if var.type.size == 0:
        return np.empty(var.shape, var.dtype)
    raw: Any = (ctypes.c_char * var.type.nbytes).from_address(address)
    return np.frombuffer(raw, var.dtype).reshape(var.shape)


def view_of(address: int, var: Var, layout: Layout) -> np.ndarray:
    """The variable as the view that ``layout`` makes of its owner's memory at ``address``."""
    if var.type.size == 0:
        return np.empty(var.shape, var.dtype)
    owner = array_at(address, layout.owner).reshape(-1)
    strides = [s * owner.itemsize for s in layout.strides]
    return np.lib.stride_tricks.as_strided(owner[layout.offset :], var.shape, strides)
