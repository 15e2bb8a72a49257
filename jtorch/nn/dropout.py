"""Dropout as modules."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from jtorch.eager.public import Tensor
from jtorch.nn import functional as F
from jtorch.nn.module import Module


class _Dropout(Module):
    drop: ClassVar[Callable]

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if p < 0 or p > 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p = p
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return type(self).drop(input, self.p, self.training, self.inplace)

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_Dropout):
    """While training, zeroes each element with probability ``p`` and scales the others by 1/(1-p).

    Raises ValueError for a probability outside [0, 1]. Source: Hinton et al. 2012, arXiv:1207.0580.

    >>> import jtorch
    >>> layer = jtorch.nn.Dropout(p=0.5)
    >>> set(layer(jtorch.ones(1000)).tolist()) == {0.0, 2.0}
    True
    >>> layer.eval()(jtorch.ones(3))
    tensor([1., 1., 1.])
    """

    drop = staticmethod(F.dropout)


class Dropout1d(_Dropout):
    """Dropout of whole channels of (N, C, L) or (C, L). Source: Tompson et al. 2014, arXiv:1411.4280.

    >>> import jtorch
    >>> out = jtorch.nn.Dropout1d(p=0.5)(jtorch.ones(1, 100, 8))
    >>> sorted({tuple(row) for row in out[0, :, :2].tolist()})  # a channel as a whole
    [(0.0, 0.0), (2.0, 2.0)]
    """

    drop = staticmethod(F.dropout1d)


class Dropout2d(_Dropout):
    """Dropout of whole channels of (N, C, H, W). Source: Tompson et al. 2014, arXiv:1411.4280.

    >>> import jtorch
    >>> out = jtorch.nn.Dropout2d(p=0.5)(jtorch.ones(1, 100, 4, 4))
    >>> set(out.mean((2, 3)).flatten().tolist()) == {0.0, 2.0}  # a channel as a whole
    True
    """

    drop = staticmethod(F.dropout2d)


class Dropout3d(_Dropout):
    """Dropout of whole channels of (N, C, D, H, W) or (C, D, H, W).

    >>> import jtorch
    >>> out = jtorch.nn.Dropout3d(p=0.5)(jtorch.ones(1, 100, 2, 2, 2))
    >>> set(out.mean((2, 3, 4)).flatten().tolist()) == {0.0, 2.0}  # a channel as a whole
    True
    """

    drop = staticmethod(F.dropout3d)


class AlphaDropout(_Dropout):
    """Dropout for SELU networks: keeps mean 0 and variance 1. Source: Klambauer et al. 2017,
    arXiv:1706.02515.

    >>> import jtorch
    >>> out = jtorch.nn.AlphaDropout(p=0.5)(jtorch.randn(100_000))
    >>> abs(out.mean().item()) < 0.02, abs(out.std().item() - 1) < 0.02
    (True, True)
    """

    drop = staticmethod(F.alpha_dropout)


class FeatureAlphaDropout(_Dropout):
    """``AlphaDropout`` of whole channels.

    >>> import jtorch
    >>> jtorch.nn.FeatureAlphaDropout(p=0.5).eval()(jtorch.ones(1, 2, 2))
    tensor([[[1., 1.],
             [1., 1.]]])
    """

    drop = staticmethod(F.feature_alpha_dropout)
