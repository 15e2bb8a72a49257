"""Activations as modules: each calls the function of its name in ``nn.functional``.

Source: https://docs.pytorch.org/docs/stable/nn.html#non-linear-activations-weighted-sum-nonlinearity
"""

from __future__ import annotations

import warnings
from typing import Any

from jtorch.eager.public import Tensor, empty
from jtorch.nn import functional as F, init
from jtorch.nn.module import Module
from jtorch.nn.parameter import Parameter


class Tanh(Module):
    """The hyperbolic tangent.

    >>> import jtorch
    >>> jtorch.nn.Tanh()(jtorch.tensor([0.0, 50.0]))
    tensor([0., 1.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return input.tanh()


class Sigmoid(Module):
    """1 / (1 + exp(-x))

    >>> import jtorch
    >>> jtorch.nn.Sigmoid()(jtorch.tensor([-100.0, 0.0, 100.0]))
    tensor([0.0000, 0.5000, 1.0000])
    """

    def forward(self, input: Tensor) -> Tensor:
        return input.sigmoid()


class LogSigmoid(Module):
    """The logarithm of sigmoid, without its underflow.

    >>> import jtorch
    >>> jtorch.nn.LogSigmoid()(jtorch.tensor([-1000.0, 1000.0]))  # sigmoid(-1000) is 0 in float32
    tensor([-1000.,     0.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.logsigmoid(input)


class Softsign(Module):
    """x / (1 + |x|)

    >>> import jtorch
    >>> jtorch.nn.Softsign()(jtorch.tensor([-1.0, 0.0, 3.0]))
    tensor([-0.5000,  0.0000,  0.7500])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.softsign(input)


class Tanhshrink(Module):
    """x - tanh(x)"""

    def forward(self, input: Tensor) -> Tensor:
        return F.tanhshrink(input)


# -- those that can overwrite their input ------------------------------------------------------------------


class _Inplace(Module):
    """An activation that overwrites its input where ``inplace``."""

    inplace: bool

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""

    def _and_inplace(self, text: str) -> str:
        return f"{text}, inplace=True" if self.inplace else text


class ReLU(_Inplace):
    """max(x, 0)

    >>> import jtorch
    >>> jtorch.nn.ReLU()(jtorch.tensor([-1.0, 0.0, 2.0]))
    tensor([0., 0., 2.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return input.relu_() if self.inplace else input.relu()


class SiLU(_Inplace):
    """x sigmoid(x), also called swish.

    >>> import jtorch
    >>> jtorch.nn.SiLU()(jtorch.tensor([0.0, 100.0]))
    tensor([  0., 100.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.silu(input, self.inplace)


class Mish(_Inplace):
    """x tanh(softplus(x))

    >>> import jtorch
    >>> jtorch.nn.Mish()(jtorch.tensor([0.0, 100.0]))
    tensor([  0., 100.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.mish(input, self.inplace)


class SELU(_Inplace):
    """elu, scaled so that activations keep mean 0 and variance 1.

    >>> import jtorch
    >>> jtorch.nn.SELU()(jtorch.tensor([-100.0, 0.0, 1.0]))
    tensor([-1.7581,  0.0000,  1.0507])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.selu(input, self.inplace)


class Hardsigmoid(_Inplace):
    """min(max(x + 3, 0), 6) / 6

    >>> import jtorch
    >>> jtorch.nn.Hardsigmoid()(jtorch.tensor([-3.0, 0.0, 1.5, 3.0]))
    tensor([0.0000, 0.5000, 0.7500, 1.0000])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.hardsigmoid(input, self.inplace)

    def extra_repr(self) -> str:
        return ""


class Hardswish(_Inplace):
    """x hardsigmoid(x)

    >>> import jtorch
    >>> jtorch.nn.Hardswish()(jtorch.tensor([-1.5, 0.0, 1.0, 5.0]))
    tensor([-0.3750,  0.0000,  0.6667,  5.0000])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.hardswish(input, self.inplace)

    def extra_repr(self) -> str:
        return ""


class Hardtanh(_Inplace):
    """x limited to [min_val, max_val]. Raises AssertionError unless the first is the smaller.

    >>> import jtorch
    >>> jtorch.nn.Hardtanh(-2.0, 2.0)(jtorch.tensor([-3.0, 1.0, 5.0]))
    tensor([-2.,  1.,  2.])
    """

    def __init__(
        self,
        min_val: float = -1.0,
        max_val: float = 1.0,
        inplace: bool = False,
        min_value: float | None = None,
        max_value: float | None = None,
    ) -> None:
        super().__init__(inplace)
        if min_value is not None:
            min_val = _renamed("min_value", "min_val", min_value)
        if max_value is not None:
            max_val = _renamed("max_value", "max_val", max_value)
        if max_val <= min_val:
            raise AssertionError(f"max_val ({max_val}) must be greater than min_val ({min_val})")
        self.min_val = min_val
        self.max_val = max_val

    def forward(self, input: Tensor) -> Tensor:
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def extra_repr(self) -> str:
        return self._and_inplace(f"min_val={self.min_val}, max_val={self.max_val}")


def _renamed(old: str, new: str, value: float) -> float:
    warnings.warn(
        f"keyword argument `{old}` is deprecated and renamed to `{new}`", FutureWarning, stacklevel=3
    )
    return value


class ReLU6(Hardtanh):
    """min(max(x, 0), 6)

    >>> import jtorch
    >>> jtorch.nn.ReLU6()(jtorch.tensor([-1.0, 4.0, 9.0]))
    tensor([0., 4., 6.])
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


class ELU(_Inplace):
    """x where positive, else ``alpha`` (exp(x) - 1).

    >>> import jtorch
    >>> jtorch.nn.ELU(alpha=2.0)(jtorch.tensor([-100.0, 0.0, 3.0]))
    tensor([-2.,  0.,  3.])
    """

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.alpha = alpha

    def forward(self, input: Tensor) -> Tensor:
        return F.elu(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        return self._and_inplace(f"alpha={self.alpha}")


class CELU(ELU):
    """x where positive, else ``alpha`` (exp(x / alpha) - 1).

    >>> import jtorch
    >>> jtorch.nn.CELU(alpha=2.0)(jtorch.tensor([-100.0, 0.0, 3.0]))
    tensor([-2.,  0.,  3.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.celu(input, self.alpha, self.inplace)


class LeakyReLU(_Inplace):
    """x where positive, else ``negative_slope`` x.

    >>> import jtorch
    >>> jtorch.nn.LeakyReLU(0.1)(jtorch.tensor([-10.0, 0.0, 10.0]))
    tensor([-1.,  0., 10.])
    """

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.negative_slope = negative_slope

    def forward(self, input: Tensor) -> Tensor:
        return F.leaky_relu(input, self.negative_slope, self.inplace)

    def extra_repr(self) -> str:
        return self._and_inplace(f"negative_slope={self.negative_slope}")


class RReLU(_Inplace):
    """leaky_relu whose slopes are drawn from [lower, upper) while training, their middle otherwise.

    >>> import jtorch
    >>> jtorch.nn.RReLU(0.1, 0.3).eval()(jtorch.tensor([-10.0, 10.0]))  # the slope is 0.2
    tensor([-2., 10.])
    """

    def __init__(self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.lower = lower
        self.upper = upper

    def forward(self, input: Tensor) -> Tensor:
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self) -> str:
        return self._and_inplace(f"lower={self.lower}, upper={self.upper}")


class Threshold(_Inplace):
    """x above ``threshold``, else ``value``.

    >>> import jtorch
    >>> jtorch.nn.Threshold(0.5, value=20.0)(jtorch.tensor([0.0, 1.0]))
    tensor([20.,  1.])
    """

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.threshold = threshold
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        return F.threshold(input, self.threshold, self.value, self.inplace)

    def extra_repr(self) -> str:
        return self._and_inplace(f"threshold={self.threshold}, value={self.value}")


# -- with other options ------------------------------------------------------------------------------------


class GELU(Module):
    """x times the normal distribution function of x; ``approximate="tanh"`` is the cheaper form.

    >>> import jtorch
    >>> jtorch.nn.GELU()(jtorch.tensor([0.0, 100.0]))
    tensor([  0., 100.])
    """

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        return F.gelu(input, approximate=self.approximate)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


class Softplus(Module):
    """log(1 + exp(beta x)) / beta, the line itself where beta x is above ``threshold``.

    >>> import jtorch
    >>> jtorch.nn.Softplus()(jtorch.tensor([0.0, 20.0]))  # log(2) at 0
    tensor([ 0.6931, 20.0000])
    """

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta = beta
        self.threshold = threshold

    def forward(self, input: Tensor) -> Tensor:
        return F.softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        return f"beta={self.beta}, threshold={self.threshold}"


class Hardshrink(Module):
    """x outside [-lambd, lambd], else 0.

    >>> import jtorch
    >>> jtorch.nn.Hardshrink(0.5)(jtorch.tensor([-1.0, 0.25, 0.75]))
    tensor([-1.0000,  0.0000,  0.7500])
    """

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Tensor) -> Tensor:
        return F.hardshrink(input, self.lambd)

    def extra_repr(self) -> str:
        return f"{self.lambd}"


class Softshrink(Hardshrink):
    """x moved towards 0 by ``lambd``, and 0 within it.

    >>> import jtorch
    >>> jtorch.nn.Softshrink(0.5)(jtorch.tensor([-1.0, 0.25, 0.75]))
    tensor([-0.5000,  0.0000,  0.2500])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.softshrink(input, self.lambd)


class PReLU(Module):
    """x where positive, else ``weight`` x: a parameter of ``num_parameters`` slopes, one for each channel.

    >>> import jtorch
    >>> jtorch.nn.PReLU()(jtorch.tensor([-4.0, 4.0])).tolist()
    [-1.0, 4.0]

    Source: He et al. 2015, https://arxiv.org/abs/1502.01852
    """

    def __init__(
        self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        self.weight = Parameter(empty(num_parameters, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        init.constant_(self.weight, self.init)

    def forward(self, input: Tensor) -> Tensor:
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"


# -- along a dim -------------------------------------------------------------------------------------------


class GLU(Module):
    """The first half along ``dim`` times the sigmoid of the second.

    >>> import jtorch
    >>> jtorch.nn.GLU()(jtorch.tensor([[8.0, 6.0, 0.0, 100.0]]))  # 8 sigmoid(0), 6 sigmoid(100)
    tensor([[4., 6.]])
    """

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        return F.glu(input, self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class _AlongDim(Module):
    """A function along one dim."""

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class Softmax(_AlongDim):
    """exp(x), scaled to sum to one along ``dim``.

    >>> import jtorch
    >>> jtorch.nn.Softmax(dim=1)(jtorch.tensor([[3.0, 3.0, -200.0]]))
    tensor([[0.5000, 0.5000, 0.0000]])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.softmax(input, self.dim, _stacklevel=5)


class Softmin(_AlongDim):
    """softmax of -x along ``dim``.

    >>> import jtorch
    >>> jtorch.nn.Softmin(dim=1)(jtorch.tensor([[3.0, 3.0, 200.0]]))
    tensor([[0.5000, 0.5000, 0.0000]])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.softmin(input, self.dim, _stacklevel=5)


class LogSoftmax(_AlongDim):
    """The logarithm of softmax along ``dim``.

    >>> import jtorch
    >>> jtorch.nn.LogSoftmax(dim=1)(jtorch.tensor([[3.0, 3.0]]))  # -log(2)
    tensor([[-0.6931, -0.6931]])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.log_softmax(input, self.dim, _stacklevel=5)


class Softmax2d(Module):
    """softmax over the channels of (N, C, H, W) or (C, H, W).

    >>> import jtorch
    >>> jtorch.nn.Softmax2d()(jtorch.zeros(1, 4, 2, 2))[0, :, 0, 0]
    tensor([0.2500, 0.2500, 0.2500, 0.2500])
    """

    def forward(self, input: Tensor) -> Tensor:
        if input.ndim not in (3, 4):
            raise ValueError(f"Softmax2d: expected input to be 3D or 4D, got {input.ndim}D instead")
        return F.softmax(input, -3, _stacklevel=5)
