"""jtorch: a PyTorch-shaped deep-learning library that runs one program two ways, eager and compiled."""

import importlib as _importlib
import typing as _typing
from math import e, inf, nan, pi
from typing import Any as _Any

import jtorch.compile  # the decorator; it loads the compiler when it is first used
import jtorch.ops
from jtorch import autograd
from jtorch import threads as _threads
from jtorch.allocation import keep_freed_memory as _keep_freed_memory
from jtorch.devices import device, get_default_device, set_default_device
from jtorch.dtypes import (
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
from jtorch.dtypes import (
    bool_ as bool,
)
from jtorch.eager import shortcuts as _shortcuts
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
from jtorch.memory_formats import (
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
from jtorch.random import (
    Generator,
    default_generator,
    get_rng_state,
    initial_seed,
    manual_seed,
    seed,
    set_rng_state,
)
from jtorch.xp import _pooling, _products

if _typing.TYPE_CHECKING:  # what the op table adds below, written by tools/stubs.py
    from jtorch._functions import *  # noqa: F403

    def compile(function: _Any = None, **options: _Any) -> _Any: ...




def _find_shortcuts() -> _Any:
    from jtorch.compile import shortcuts

    return shortcuts


def _find_pooling() -> _Any:
    from jtorch.kernels import pooling

    return pooling


def _find_products() -> _Any:
    from jtorch.kernels import products

    return products


def _find_most_threads() -> _Any:
    from jtorch.compile.runtime import blas

    return blas.most_threads()


_threads.find_most = _find_most_threads
_shortcuts.find, _pooling.find, _products.find = _find_shortcuts, _find_pooling, _find_products
_keep_freed_memory()
globals().update(_FUNCTIONS)
globals().update(_FACTORIES)
double, half, long, int, short, float = float64, float16, int64, int32, int16, float32
cfloat, cdouble = complex64, complex128
newaxis = None

if _typing.TYPE_CHECKING:  # what __getattr__ below imports when it is asked for
    from jtorch import (
        accelerator,
        amp,
        backends,
        compiler,
        cpu,
        cuda,
        distributions,
        func,
        jit,
        linalg,
        mps,
        nn,
        optim,
        random,
        return_types,
        special,
        testing,
        utils,
        version,
        xpu,
    )
    from jtorch.amp import (
        GradScaler,
        autocast,
        get_autocast_dtype,
        is_autocast_enabled,
    )
    from jtorch.eager.windows import (
        bartlett_window,
        blackman_window,
        hamming_window,
        hann_window,
        kaiser_window,
    )
    from jtorch.func import vmap
    from jtorch.legacy import set_default_tensor_type
    from jtorch.low_level import (
        addmv_,
        affine_grid_generator,
        alpha_dropout,
        alpha_dropout_,
        arccos_,
        arccosh_,
        arcsin_,
        arcsinh_,
        arctan_,
        arctanh_,
        batch_norm,
        clamp_,
        clip_,
        constant_pad_nd,
        convolution,
        cosine_embedding_loss,
        ctc_loss,
        detach_,
        dropout,
        dropout_,
        feature_alpha_dropout,
        feature_alpha_dropout_,
        fill_,
        fix_,
        frac_,
        get_device,
        grid_sampler,
        group_norm,
        gru_cell,
        hinge_embedding_loss,
        index_put_,
        instance_norm,
        is_conj,
        ldexp_,
        lstm_cell,
        margin_ranking_loss,
        negative_,
        norm_except_dim,
        poisson_nll_loss,
        renorm,
        resize_as_,
        rnn_relu_cell,
        rnn_tanh_cell,
        square_,
        triplet_margin_loss,
        zero_,
    )
    from jtorch.nn.functional import (
        adaptive_avg_pool1d,
        avg_pool1d,
        bilinear,
        channel_shuffle,
        conv1d,
        conv2d,
        conv3d,
        conv_transpose1d,
        conv_transpose2d,
        conv_transpose3d,
        max_pool1d,
        max_pool1d_with_indices,
        max_pool2d,
        max_pool3d,
        native_channel_shuffle,
        pixel_shuffle,
        pixel_unshuffle,
        rms_norm,
    )
    from jtorch.nn.functional import (
        adaptive_max_pool1d_with_indices as adaptive_max_pool1d,
    )
    from jtorch.serialization import load, save
    from jtorch.settings import (
        are_deterministic_algorithms_enabled,
        get_deterministic_debug_mode,
        get_float32_matmul_precision,
        get_num_interop_threads,
        get_num_threads,
        is_deterministic_algorithms_warn_only_enabled,
        set_deterministic_debug_mode,
        set_float32_matmul_precision,
        set_flush_denormal,
        set_num_interop_threads,
        set_num_threads,
        use_deterministic_algorithms,
    )
    from jtorch.type_info import (
        can_cast,
        finfo,
        iinfo,
        is_storage,
        promote_types,
        result_type,
        typename,
    )


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
            types = _importlib.import_module("jtorch.legacy").TYPES if name.endswith("Tensor") else {}
            if name not in types:
                raise AttributeError(f"module 'jtorch' has no attribute '{name}'")
            value = types[name]
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_SUBMODULES, *_ORIGIN, "__version__"})
