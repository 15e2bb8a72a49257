"""Channels traded for pixels, and channels in another order.

Source: https://docs.pytorch.org/docs/stable/nn.functional.html#vision-functions
"""

from __future__ import annotations

from jtorch.eager.public import Tensor, apart, integer


def _check_image(name: str, input: Tensor, what: str, factor: int) -> None:
    if input.ndim < 3:
        raise RuntimeError(
            f"{name} expects input to have at least 3 dimensions, but got input with {input.ndim} "
            "dimension(s)"
        )
    if integer(name, what, factor) <= 0:
        raise RuntimeError(f"{name} expects a positive {what}, but got {factor}")


def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """(..., C r r, H, W) to (..., C, H r, W r). Source: Shi et al. 2016, arXiv:1609.05158.

    >>> import jtorch
    >>> jtorch.pixel_shuffle(jtorch.tensor([[[1.0]], [[2.0]], [[3.0]], [[4.0]]]), 2).tolist()
    [[[1.0, 2.0], [3.0, 4.0]]]
    """
    r = upscale_factor
    _check_image("pixel_shuffle", input, "upscale_factor", r)
    *lead, c, h, w = input.shape
    if c % (r * r):
        raise RuntimeError(
            "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of "
            f"upscale_factor, but input.size(-3)={c} is not divisible by {r * r}"
        )
    k = len(lead)
    split = input.reshape(*lead, c // (r * r), r, r, h, w)
    shuffled = split.permute(*range(k + 1), k + 3, k + 1, k + 4, k + 2)
    return apart(shuffled.reshape(*lead, c // (r * r), h * r, w * r), input)


def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """(..., C, H r, W r) to (..., C r r, H, W): ``pixel_shuffle`` backwards.

    >>> import jtorch
    >>> jtorch.pixel_unshuffle(jtorch.tensor([[[1.0, 2.0], [3.0, 4.0]]]), 2).flatten()
    tensor([1., 2., 3., 4.])
    """
    r = downscale_factor
    _check_image("pixel_unshuffle", input, "downscale_factor", r)
    *lead, c, h, w = input.shape
    for name, place, n in (("height", -2, h), ("width", -1, w)):
        if n % r:
            raise RuntimeError(
                f"pixel_unshuffle expects {name} to be divisible by downscale_factor, but "
                f"input.size({place})={n} "
                f"is not divisible by {r}"
            )
    k = len(lead)
    split = input.reshape(*lead, c, h // r, r, w // r, r)
    shuffled = split.permute(*range(k + 1), k + 2, k + 4, k + 1, k + 3)
    return apart(shuffled.reshape(*lead, c * r * r, h // r, w // r), input)


def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """Channels of (N, C, ...) dealt out to ``groups`` in turn. Source: Zhang et al. 2017,
    arXiv:1707.01083.

    >>> import jtorch
    >>> jtorch.channel_shuffle(jtorch.arange(4.0).reshape(1, 4, 1), 2).flatten()
    tensor([0., 2., 1., 3.])
    """
    if input.ndim < 3:
        raise RuntimeError(
            f"channel_shuffle expects input with > 2 dims, but got input with sizes {list(input.shape)}"
        )
    if groups <= 0:
        raise RuntimeError(
            f"Number of groups to divide channels in must be positive. Value of groups:{groups}"
        )
    n, c, *rest = input.shape
    if c % groups:
        raise RuntimeError(
            f"Number of channels must be divisible by groups. Got {c} channels and {groups} groups."
        )
    dealt = input.reshape(n, groups, c // groups, *rest).transpose(1, 2)
    return apart(dealt.reshape(n, c, *rest), input)


native_channel_shuffle = channel_shuffle
