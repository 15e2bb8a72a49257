"""What each random program begins with. The text of this file is the head of the script that is printed;
with another library it is run with that library's name in the first import."""

import jtorch as T  # noqa: I001
import numpy as np

nn, F, optim = T.nn, T.nn.functional, T.optim
from jtorch.utils.checkpoint import checkpoint  # noqa: E402, F401

F32, F64, F16, BF16 = T.float32, T.float64, T.float16, T.bfloat16
I64, I32, BOOL = T.int64, T.int32, T.bool
NUDGE = 0.0  # of every number, relative: what a rounding does to the results


def numbers(seed, shape):
    """Multiples of 1/32 between -3 and 3: the same in every dtype."""
    rng = np.random.Generator(np.random.Philox(seed))
    found = np.clip(np.rint(rng.normal(size=shape) * 32) / 32, -3, 3)
    return found * (1 + NUDGE * rng.uniform(-1, 1, size=shape))


def data(seed, shape, dtype=F32, grad=False):
    made = T.tensor(np.asarray(numbers(seed, shape))).to(dtype)
    return made.requires_grad_(True) if grad else made


def ints(seed, high, shape, dtype=I64):
    rng = np.random.Generator(np.random.Philox(seed))
    return T.tensor(np.asarray(rng.integers(0, high, size=shape))).to(dtype)


def filled(seed, module):
    """The module with numbers of ours for parameters: both libraries draw others."""
    with T.no_grad():
        for k, p in enumerate(module.parameters()):
            p.copy_(T.tensor(np.asarray(numbers(seed * 100 + k, tuple(p.shape)) / 2)))
    return module


def total(*values):
    """The sum of what can be differentiated."""
    live = [v for v in values if isinstance(v, T.Tensor) and v.requires_grad]
    return sum((v.double().sin().sum() for v in live), T.zeros((), dtype=F64, requires_grad=True) * 1)


def show(*values):
    print(*values, sep="\n")


class State:
    """What a program keeps between its calls."""


class Scaled(T.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.save_for_backward(x)
        ctx.scale = scale
        return x * x * scale

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 2 * x * ctx.scale, None
