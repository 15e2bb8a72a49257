"""jtorch: a PyTorch-shaped deep-learning library that runs one program two ways, eager and compiled."""

import functools as _functools
import importlib as _importlib
import typing as _typing
from math import e, inf, nan, pi
from typing import Any as _Any

import jtorch.compile  # the decorator; it loads the compiler when it is first used
import jtorch.ops
from jtorch import autograd
from jtorch.core import higher as _higher
from jtorch.core.allocation import keep_freed_memory as _keep_freed_memory
from jtorch.core.devices import device, get_default_device, set_default_device
from jtorch.core.dtypes import (
    bfloat16,
    complex64,
    complex128,
    dtype,
    float16,
    float32,
    float64,
    get_default_dtype,
    int8,
    int16,
    int32,
    int64,
    set_default_dtype,
    uint8,
    uint16,
    uint32,
    uint64,
)
from jtorch.core.dtypes import bool_ as bool
from jtorch.core.memory_formats import (
    channels_last,
    channels_last_3d,
    contiguous_format,
    layout,
    memory_format,
    preserve_format,
    sparse_coo,
    sparse_csr,
    strided,
)
from jtorch.eager.creation import FACTORIES as _FACTORIES
from jtorch.eager.evaluate import EAGER as _EAGER
from jtorch.eager.grad_mode import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from jtorch.eager.methods import FUNCTIONS as _FUNCTIONS
from jtorch.eager.printing import set_printoptions
from jtorch.eager.tensor import Size, Tensor
from jtorch.lazy_names import ORIGIN as _ORIGIN
from jtorch.lazy_names import SUBMODULES as _SUBMODULES
from jtorch.random import (
    Generator,
    default_generator,
    get_rng_state,
    initial_seed,
    manual_seed,
    seed,
    set_rng_state,
)

if _typing.TYPE_CHECKING:  # what the op table and __getattr__ add below, written by tools/stubs.py
    from jtorch._functions import *  # noqa: F403

    def compile(function: _Any = None, **options: _Any) -> _Any: ...


@_functools.cache
def _shortcuts() -> _Any:
    from jtorch.eager import machine

    return machine


@_functools.cache
def _pooling() -> _Any:
    from jtorch.native import pooling

    return pooling


@_functools.cache
def _lines() -> _Any:
    from jtorch.native import lines

    return lines


@_functools.cache
def _products() -> _Any:
    from jtorch.native import products

    return products


def _tensor_html() -> _Any:
    from jtorch.viz import html

    return html.tensor_html


def _most_threads() -> _Any:
    from jtorch.native import blas

    return blas.most_threads()


_higher.provide(
    shortcuts=_shortcuts, pooling=_pooling, lines=_lines, products=_products, most_threads=_most_threads,
    formulas=jtorch.compile.kernels_of_formulas, tensor_html=_tensor_html,
    device=jtorch.compile.device_memory,
)  # fmt: skip
_keep_freed_memory()
globals().update({name: f for name, f in _FUNCTIONS.items() if name not in _ORIGIN})  # the whole function
globals().update(_FACTORIES)
double, half, long, int, short, float = float64, float16, int64, int32, int16, float32
cfloat, cdouble = complex64, complex128
newaxis = None

if not _typing.TYPE_CHECKING:  # to type checkers a misspelt name is none

    def __getattr__(name: str) -> _Any:
        """A submodule or a name of one that nobody asked for yet; see ``lazy_names.py``."""
        if name in _SUBMODULES:
            return _importlib.import_module(f"jtorch.{name}")
        if name in _ORIGIN:
            module, real = _ORIGIN[name]
            value = getattr(_importlib.import_module(module), real)
        elif name == "__version__":
            value = _importlib.import_module("jtorch.version").__version__
        else:
            types = _importlib.import_module("jtorch.compat.legacy").TYPES if name.endswith("Tensor") else {}
            if name not in types:
                raise AttributeError(f"module 'jtorch' has no attribute '{name}'")
            value = types[name]
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_SUBMODULES, *_ORIGIN, "__version__"})
