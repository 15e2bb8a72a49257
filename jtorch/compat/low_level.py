"""The layers' functions as PyTorch keeps them in the module ``torch``: fewer defaults, another order.

``torch.dropout(x, p, train)``, ``torch.batch_norm(x, weight, bias, mean, var, ...)``: what the functions of
``nn.functional`` call in PyTorch, and what some programs call by themselves. A reduction is a
number, and none where it is left out.
Source: https://github.com/pytorch/pytorch/blob/main/aten/src/ATen/native/native_functions.yaml
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jtorch.eager.binding import accepting
from jtorch.eager.tensor import Tensor
from jtorch.nn import functional as F

_REDUCTIONS = ("none", "mean", "sum")
_SAMPLING = ("bilinear", "nearest", "bicubic")
_PADDING = ("zeros", "border", "reflection")


# -- dropout -------------------------------------------------------------------------------------------------


def _probability(p: float) -> float:
    if not 0.0 <= p <= 1.0:
        raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {p:g}")
    return p


def dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """``nn.functional.dropout``; all arguments are needed."""
    return F.dropout(input, _probability(p), train)


def dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """``dropout``, written over ``input``."""
    return F.dropout(input, _probability(p), train, True)


def alpha_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """``nn.functional.alpha_dropout``; all arguments are needed."""
    return F.alpha_dropout(input, p, train)


def alpha_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """``alpha_dropout``, written over ``input``."""
    return F.alpha_dropout(input, p, train, True)


def feature_alpha_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """``nn.functional.feature_alpha_dropout``; all arguments are needed."""
    return F.feature_alpha_dropout(input, p, train)


def feature_alpha_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """``feature_alpha_dropout``, written over ``input``."""
    return F.feature_alpha_dropout(input, p, train, True)


# -- normalization -------------------------------------------------------------------------------------------


def batch_norm(
    input: Tensor, weight: Any, bias: Any, running_mean: Any, running_var: Any, training: bool,
    momentum: float, eps: float, cudnn_enabled: bool,
) -> Tensor:  # fmt: skip
    """``nn.functional.batch_norm``, weight and bias first; ``cudnn_enabled`` is for GPUs."""
    return F.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)


def instance_norm(
    input: Tensor, weight: Any, bias: Any, running_mean: Any, running_var: Any, use_input_stats: bool,
    momentum: float, eps: float, cudnn_enabled: bool,
) -> Tensor:  # fmt: skip
    """``nn.functional.instance_norm``, weight and bias first; ``cudnn_enabled`` is for GPUs."""
    return F.instance_norm(input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps)


def group_norm(
    input: Tensor, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-05,
    cudnn_enabled: bool = True,
) -> Tensor:  # fmt: skip
    """``nn.functional.group_norm``; ``cudnn_enabled`` is for GPUs."""
    return F.group_norm(input, num_groups, weight, bias, eps)


# -- losses --------------------------------------------------------------------------------------------------


def _reduction(number: int) -> str:
    if number not in (0, 1, 2):
        raise RuntimeError(f"{number} is not a valid value for reduction")
    return _REDUCTIONS[number]


def ctc_loss(
    log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any, blank: int = 0,
    reduction: int = 0, zero_infinity: bool = False,
) -> Tensor:  # fmt: skip
    """``nn.functional.ctc_loss``; ``reduction`` is 0 (none), 1 (mean) or 2 (sum)."""
    kind = _reduction(reduction)
    return F.ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, kind, zero_infinity)


def hinge_embedding_loss(input: Tensor, target: Tensor, margin: float = 1.0, reduction: int = 0) -> Tensor:
    """``nn.functional.hinge_embedding_loss``; ``reduction`` is 0 (none), 1 (mean) or 2 (sum)."""
    return F.hinge_embedding_loss(input, target, margin, reduction=_reduction(reduction))


def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 0
) -> Tensor:
    """``nn.functional.cosine_embedding_loss``; ``reduction`` is 0 (none), 1 (mean) or 2 (sum)."""
    return F.cosine_embedding_loss(input1, input2, target, margin, reduction=_reduction(reduction))


def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 0
) -> Tensor:
    """``nn.functional.margin_ranking_loss``; ``reduction`` is 0 (none), 1 (mean) or 2 (sum)."""
    return F.margin_ranking_loss(input1, input2, target, margin, reduction=_reduction(reduction))


def triplet_margin_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0, p: float = 2.0,
    eps: float = 1e-06, swap: bool = False, reduction: int = 0,
) -> Tensor:  # fmt: skip
    """``nn.functional.triplet_margin_loss``; ``reduction`` is 0 (none), 1 (mean) or 2 (sum)."""
    kind = _reduction(reduction)
    return F.triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, reduction=kind)


def poisson_nll_loss(
    input: Tensor, target: Tensor, log_input: bool, full: bool, eps: float, reduction: int
) -> Tensor:
    """``nn.functional.poisson_nll_loss``; ``reduction`` is 0 (none), 1 (mean) or 2 (sum)."""
    return F.poisson_nll_loss(input, target, log_input, full, eps=eps, reduction=_reduction(reduction))


# -- others --------------------------------------------------------------------------------------------------


def convolution(
    input: Tensor, weight: Tensor, bias: Any, stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int], transposed: bool, output_padding: Sequence[int], groups: int,
) -> Tensor:  # fmt: skip
    """A convolution of 1, 2 or 3 dims, or a transposed one, as the shape of ``weight`` says."""
    dims = weight.ndim - 2
    if dims not in (1, 2, 3):
        raise RuntimeError(f"convolution: expected a weight of 3, 4 or 5 dims, but got {weight.ndim}")
    if not transposed:
        return getattr(F, f"conv{dims}d")(input, weight, bias, stride, padding, dilation, groups)
    function = getattr(F, f"conv_transpose{dims}d")
    return function(input, weight, bias, stride, padding, output_padding, groups, dilation)


def grid_sampler(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """``nn.functional.grid_sample`` with numbers for the modes, in the order of its documentation."""
    mode, padding = _SAMPLING[interpolation_mode], _PADDING[padding_mode]
    return F.grid_sample(input, grid, mode, padding, align_corners)


def affine_grid_generator(theta: Tensor, size: Sequence[int], align_corners: bool) -> Tensor:
    """``nn.functional.affine_grid``."""
    return F.affine_grid(theta, size, align_corners)


def constant_pad_nd(input: Tensor, pad: Sequence[int], value: Any = 0) -> Tensor:
    """``nn.functional.pad`` with a constant."""
    return F.pad(input, pad, "constant", value)


def norm_except_dim(v: Tensor, pow: int = 2, dim: int = 0) -> Tensor:
    """The norms over all dims but ``dim``, which keep their places with size 1; -1 is none of them."""
    if dim == -1:
        return v.norm(pow)
    others = tuple(k for k in range(v.ndim) if k != dim)
    return v.norm(pow, others, True) if others else v.abs()


@accepting
# -- one step of a recurrent layer ---------------------------------------------------------------------------


def lstm_cell(
    input: Tensor, hx: Sequence[Tensor], w_ih: Tensor, w_hh: Tensor, b_ih: Any = None, b_hh: Any = None
) -> tuple[Tensor, Tensor]:
    """(h, c) after one step of an LSTM, given ``hx``, those before."""
    h, c = hx
    gates = F.linear(input, w_ih, b_ih) + F.linear(h, w_hh, b_hh)
    i, f, g, o = gates.chunk(4, 1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def gru_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Any = None, b_hh: Any = None
) -> Tensor:
    """The state after one step of a GRU, given ``hx``, the one before."""
    r, z, n = F.linear(input, w_ih, b_ih).chunk(3, 1)
    hr, hz, hn = F.linear(hx, w_hh, b_hh).chunk(3, 1)
    new = (n + (r + hr).sigmoid() * hn).tanh()
    return new + (z + hz).sigmoid() * (hx - new)


def rnn_tanh_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Any = None, b_hh: Any = None
) -> Tensor:
    """The state after one step of an RNN of tanh."""
    return (F.linear(input, w_ih, b_ih) + F.linear(hx, w_hh, b_hh)).tanh()


def rnn_relu_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Any = None, b_hh: Any = None
) -> Tensor:
    """The state after one step of an RNN of relu."""
    return (F.linear(input, w_ih, b_ih) + F.linear(hx, w_hh, b_hh)).relu()


# -- methods that are functions, too -------------------------------------------------------------------------

METHODS = (
    "addmv_", "arccos_", "arccosh_", "arcsin_", "arcsinh_", "arctan_", "arctanh_", "clamp_", "clip_",
    "fill_", "fix_", "frac_", "get_device", "index_put_", "is_conj", "ldexp_", "negative_",
    "resize_as_", "square_", "zero_",
)  # fmt: skip


def detach_(input: Tensor) -> Tensor:
    """Take ``input`` itself off the tape."""
    return input.detach_()


def __getattr__(name: str) -> Callable:
    """``fill_`` and its kin: the Tensor's method of that name."""
    if name in METHODS:
        return getattr(Tensor, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
