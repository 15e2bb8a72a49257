"""Random zeros while training. Masks come from counted random bits, the same in eager and compiled mode.

Source: https://docs.pytorch.org/docs/stable/nn.functional.html#dropout-functions
"""

from __future__ import annotations

import math
import warnings
from typing import Any

from jtorch.core import dtypes as dt, op as op_module
from jtorch.core.generator import default_generator
from jtorch.eager.public import Tensor, check_tensors, long_name, ones, ops

# what saturated SELU units give, -scale * alpha: Klambauer et al. 2017, arXiv:1706.02515
_SELU_FLOOR = -1.7580993408473766


def _check(p: float, name: str = "", input: Any = None) -> None:
    if input.__class__ is not Tensor and name:
        check_tensors(name, input=input)
    if not 0.0 <= p <= 1.0:
        kind = ValueError if p < 0.0 or p > 1.0 else RuntimeError  # PyTorch's own code refuses NaN
        raise kind(f"dropout probability has to be between 0 and 1, but got {p}")


def _dropped(input: Tensor, p: float) -> Tensor:
    if not input.is_floating_point():
        raise RuntimeError(
            f"result type Float can't be cast to the desired output type {long_name(input.dtype.numpy)}"
        )
    seed, call = op_module.CONTEXT.get().evaluator.next_call(default_generator)
    return ops.dropout_with(input, seed, call, dt.plain(p))


def _finished(input: Tensor, out: Tensor, inplace: bool) -> Tensor:
    return input.copy_(out) if inplace else out


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zero each element with probability ``p`` and scale the others by 1/(1-p), while training.

    Raises ValueError for a probability outside [0, 1]. Source: Hinton et al. 2012, arXiv:1207.0580.

    >>> import jtorch
    >>> set(jtorch.nn.functional.dropout(jtorch.ones(1000), p=0.5).tolist()) == {0.0, 2.0}
    True
    >>> jtorch.nn.functional.dropout(jtorch.ones(3), training=False)
    tensor([1., 1., 1.])
    """
    _check(p, "dropout", input)
    if not training or p == 0.0:
        return input
    return _finished(input, _dropped(input, p), inplace)


def _feature_mask(input: Tensor, p: float) -> Tensor:
    """(N, C, 1, ...): 0 with probability ``p``, else 1/(1-p)."""
    if input.ndim < 2:
        raise RuntimeError("Feature dropout requires at least 2 dimensions in the input")
    return _dropped(
        ones((*input.shape[:2], *(1,) * (input.ndim - 2)), dtype=input.dtype, device=input.device), p
    )


def _feature_dropout(input: Tensor, p: float, training: bool, inplace: bool) -> Tensor:
    if not training or p == 0.0:
        return input
    return _finished(input, input * _feature_mask(input, p), inplace)


def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zero whole channels of (N, C, L) or (C, L), each with probability ``p``.

    >>> import jtorch
    >>> out = jtorch.nn.functional.dropout1d(jtorch.ones(1, 100, 8))
    >>> set(out.mean(2).flatten().tolist()) == {0.0, 2.0}  # a channel as a whole
    True

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.dropout1d.html
    """
    _check(p)
    if input.ndim not in (2, 3):
        raise RuntimeError(
            f"dropout1d: Expected 2D or 3D input, but received a {input.ndim}D input. Note that dropout1d "
            "exists "
            "to provide channel-wise dropout on inputs with 1 spatial dimension, a channel dimension, and an "
            "optional batch dimension (i.e. 2D or 3D inputs)."
        )
    if not training or p == 0.0:
        return input
    if input.ndim == 2:
        return _finished(input, _feature_dropout(input.unsqueeze(0), p, training, False).squeeze(0), inplace)
    return _feature_dropout(input, p, training, inplace)


def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zero whole channels of (N, C, H, W), each with probability ``p``.

    A 3-D input is taken as (N, C, L), with PyTorch's warning.

    >>> import jtorch
    >>> out = jtorch.nn.functional.dropout2d(jtorch.ones(1, 100, 4, 4))
    >>> set(out.mean((2, 3)).flatten().tolist()) == {0.0, 2.0}  # a channel as a whole
    True

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.dropout2d.html
    """
    _check(p)
    if input.ndim not in (3, 4):
        warnings.warn(
            f"dropout2d: Received a {input.ndim}-D input to dropout2d, which is deprecated and will "
            "result in an "
            "error in a future release. To retain the behavior and silence this warning, please use dropout "
            "instead. Note that dropout2d exists to provide channel-wise dropout on inputs with 2 spatial "
            "dimensions, a channel dimension, and an optional batch dimension (i.e. 3D or 4D inputs).",
            stacklevel=2,
        )
    if input.ndim == 3:
        warnings.warn(
            "dropout2d: Received a 3D input to dropout2d and assuming that channel-wise 1D dropout "
            "behavior is "
            "desired - input is interpreted as shape (N, C, L), where C is the channel dim. This behavior "
            "will "
            "change in a future release to interpret the input as one without a batch dimension, i.e. shape "
            "(C, H, W). To maintain the 1D channel-wise dropout behavior, please switch to using dropout1d "
            "instead.",
            stacklevel=2,
        )
    return _feature_dropout(input, p, training, inplace)


def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zero whole channels of (N, C, D, H, W) or (C, D, H, W), each with probability ``p``.

    >>> import jtorch
    >>> out = jtorch.nn.functional.dropout3d(jtorch.ones(1, 100, 2, 2, 2))
    >>> set(out.mean((2, 3, 4)).flatten().tolist()) == {0.0, 2.0}  # a channel as a whole
    True

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.dropout3d.html
    """
    _check(p)
    if input.ndim not in (4, 5):
        warnings.warn(
            f"dropout3d: Received a {input.ndim}-D input to dropout3d, which is deprecated and will "
            "result in an "
            "error in a future release. To retain the behavior and silence this warning, please use dropout "
            "instead. Note that dropout3d exists to provide channel-wise dropout on inputs with 3 spatial "
            "dimensions, a channel dimension, and an optional batch dimension (i.e. 4D or 5D inputs).",
            stacklevel=2,
        )
    if not training or p == 0.0:
        return input
    if input.ndim == 4:
        return _finished(input, _feature_dropout(input.unsqueeze(0), p, training, False).squeeze(0), inplace)
    return _feature_dropout(input, p, training, inplace)


def _saturated(input: Tensor, mask: Any, p: float) -> Tensor:
    """``input`` where ``mask`` is not 0, else SELU's floor; then scaled to mean 0 and variance 1 again."""
    if p == 1.0:
        nothing: Any = input * 0.0
        return nothing
    scale = 1.0 / math.sqrt((1.0 + p * _SELU_FLOOR**2) * (1.0 - p))
    kept: Any = (mask != 0).to(input.dtype)
    out: Any = input * (kept * scale) + (1.0 - kept) * (_SELU_FLOOR * scale) - _SELU_FLOOR * scale * p
    return out


def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Dropout for SELU networks: keeps mean 0 and variance 1.

    >>> import jtorch
    >>> jtorch.nn.functional.alpha_dropout(jtorch.ones(3), training=False)
    tensor([1., 1., 1.])

    Source: Klambauer et al. 2017, arXiv:1706.02515.
    """
    _check(p, "alpha_dropout", input)
    if not training or p == 0.0:
        return input
    mask = _dropped(ones(tuple(input.shape), dtype=input.dtype, device=input.device), p)
    return _finished(input, _saturated(input, mask, p), inplace)


def feature_alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """``alpha_dropout`` of whole channels.

    >>> import jtorch
    >>> jtorch.nn.functional.feature_alpha_dropout(jtorch.ones(1, 3), training=False)
    tensor([[1., 1., 1.]])

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.feature_alpha_dropout.html
    """
    _check(p, "feature_alpha_dropout", input)
    if not training or p == 0.0:
        return input
    return _finished(input, _saturated(input, _feature_mask(input, p), p), inplace)
