"""jtorch: a PyTorch-shaped deep-learning library that runs one program two ways, eager and compiled."""

import functools as _functools
import importlib as _importlib
import typing as _typing
from math import e as e, inf as inf, nan as nan, pi as pi
from typing import Any as _Any

import jtorch.compile  # the decorator; it loads the compiler when it is first used
import jtorch.ops
from jtorch import autograd as autograd
from jtorch.core import higher as _higher
from jtorch.core.allocation import keep_freed_memory as _keep_freed_memory
from jtorch.core.devices import (
    device as device,
    follow_setting as _follow_device_setting,
    get_default_device as get_default_device,
    set_default_device as set_default_device,
)
from jtorch.core.dtypes import (
    bfloat16 as bfloat16,
    bool_ as _bool,
    complex64 as complex64,
    complex128 as complex128,
    dtype as dtype,
    float16 as float16,
    float32 as float32,
    float64 as float64,
    get_default_dtype as get_default_dtype,
    int8 as int8,
    int16 as int16,
    int32 as int32,
    int64 as int64,
    set_default_dtype as set_default_dtype,
    uint8 as uint8,
    uint16 as uint16,
    uint32 as uint32,
    uint64 as uint64,
)
from jtorch.core.memory_formats import (
    channels_last as channels_last,
    channels_last_3d as channels_last_3d,
    contiguous_format as contiguous_format,
    layout as layout,
    memory_format as memory_format,
    preserve_format as preserve_format,
    sparse_coo as sparse_coo,
    sparse_csc as sparse_csc,
    sparse_csr as sparse_csr,
    strided as strided,
)
from jtorch.eager.creation import FACTORIES as _FACTORIES
from jtorch.eager.evaluate import EAGER as _EAGER
from jtorch.eager.examples import show as _show_examples
from jtorch.eager.grad_mode import (
    enable_grad as enable_grad,
    inference_mode as inference_mode,
    is_grad_enabled as is_grad_enabled,
    is_inference_mode_enabled as is_inference_mode_enabled,
    no_grad as no_grad,
    set_grad_enabled as set_grad_enabled,
)
from jtorch.eager.methods import FUNCTIONS as _FUNCTIONS
from jtorch.eager.printing import set_printoptions as set_printoptions
from jtorch.eager.tensor import Size as Size, Tensor as Tensor
from jtorch.lazy_names import ORIGIN as _ORIGIN, SUBMODULES as _SUBMODULES
from jtorch.random import (
    Generator as Generator,
    default_generator as default_generator,
    get_rng_state as get_rng_state,
    initial_seed as initial_seed,
    manual_seed as manual_seed,
    seed as seed,
    set_rng_state as set_rng_state,
)

if _typing.TYPE_CHECKING:  # what the op table and __getattr__ add below, written by tools/stubs.py
    from jtorch._functions import *  # noqa: F403
    from jtorch.compile.decorator import compile as compile


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
def _narrowing() -> _Any:
    from jtorch.native import narrowing

    return narrowing


@_functools.cache
def _draws() -> _Any:
    from jtorch.native import draws

    return draws


@_functools.cache
def _products() -> _Any:
    from jtorch.native import products

    return products


def _named(name: str) -> _Any:
    return getattr(_importlib.import_module("jtorch"), name)


def _sparse() -> _Any:
    from jtorch.sparse import making

    return making


def _tensor_html() -> _Any:
    from jtorch.viz import html

    return html.tensor_html


def _most_threads() -> _Any:
    from jtorch.native import blas

    return blas.most_threads()


_higher.provide(
    shortcuts=_shortcuts, pooling=_pooling, lines=_lines, draws=_draws, products=_products,
    narrowing=_narrowing,
    most_threads=_most_threads, formulas=jtorch.compile.kernels_of_formulas, tensor_html=_tensor_html,
    device=jtorch.compile.device_memory, meta=jtorch.compile.meta_memory, sparse=_sparse, named=_named,
)  # fmt: skip
_follow_device_setting()
_keep_freed_memory()
globals().update({name: f for name, f in _FUNCTIONS.items() if name not in _ORIGIN})  # the whole function
globals().update(_FACTORIES)
bool, double, half, long, int, short, float = _bool, float64, float16, int64, int32, int16, float32
cfloat, cdouble = complex64, complex128
newaxis = None
_show_examples(globals())
_show_examples(vars(Tensor))

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
