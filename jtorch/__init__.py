"""jtorch: a PyTorch-shaped deep-learning library that runs one program two ways, eager and compiled."""

from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

import jtorch.compile  # the decorator; it loads the compiler when it is first used
import jtorch.ops
from jtorch import autograd
from jtorch.devices import device
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
from jtorch.eager.creation import FACTORIES as _FACTORIES
from jtorch.eager.evaluate import EAGER as _EAGER
from jtorch.eager.grad_mode import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    no_grad,
    set_grad_enabled,
)
from jtorch.eager.methods import FUNCTIONS as _FUNCTIONS
from jtorch.eager.printing import set_printoptions
from jtorch.eager.tensor import Size, Tensor
from jtorch.memory_formats import (
    channels_last,
    channels_last_3d,
    contiguous_format,
    memory_format,
    preserve_format,
)
from jtorch.random import Generator, get_rng_state, initial_seed, manual_seed, seed, set_rng_state

if _TYPE_CHECKING:  # what the op table adds below

    def compile(function: _Any = None, **options: _Any) -> _Any: ...

    def __getattr__(name: str) -> _Any: ...


globals().update(_FUNCTIONS)
globals().update(_FACTORIES)
double, half, long, int, short, float = float64, float16, int64, int32, int16, float32
cfloat, cdouble = complex64, complex128

from jtorch import linalg, nn, optim, return_types, special, utils  # noqa: E402 - built on the names above
from jtorch.serialization import load, save  # noqa: E402
