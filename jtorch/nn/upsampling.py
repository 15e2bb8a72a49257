"""Images in another size, and channels traded for pixels, as modules."""

from __future__ import annotations

from typing import Any

from jtorch.eager.public import Tensor
from jtorch.nn import functional as F
from jtorch.nn.module import Module


class Upsample(Module):
    """(N, C, ...) with its spatial dims in ``size``, or ``scale_factor`` times as large: see
    ``F.interpolate``.

    >>> import jtorch
    >>> jtorch.nn.Upsample(scale_factor=2)(jtorch.tensor([[[1.0, 2.0]]]))
    tensor([[[1., 1., 2., 2.]]])
    >>> jtorch.nn.Upsample(size=(8, 6), mode="bilinear")(jtorch.zeros(1, 3, 4, 4)).shape
    torch.Size([1, 3, 8, 6])

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.Upsample.html
    """

    def __init__(
        self, size: Any = None, scale_factor: Any = None, mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.name = type(self).__name__
        self.size = size
        many = isinstance(scale_factor, tuple)
        self.scale_factor = (
            tuple(float(s) for s in scale_factor) if many else float(scale_factor) if scale_factor else None
        )
        self.mode = mode
        self.align_corners = align_corners
        self.recompute_scale_factor = recompute_scale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.interpolate(
            input, self.size, self.scale_factor, self.mode, self.align_corners, self.recompute_scale_factor
        )

    def extra_repr(self) -> str:
        if self.scale_factor is not None:
            return f"scale_factor={self.scale_factor!r}, mode={self.mode!r}"
        return f"size={self.size!r}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """``Upsample(mode="nearest")`` under its older name.

    >>> import jtorch
    >>> jtorch.nn.UpsamplingNearest2d(scale_factor=2)(jtorch.tensor([[[[1.0, 2.0]]]]))
    tensor([[[[1., 1., 2., 2.],
              [1., 1., 2., 2.]]]])

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.UpsamplingNearest2d.html
    """

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """``Upsample(mode="bilinear", align_corners=True)`` under its older name.

    >>> import jtorch
    >>> jtorch.nn.UpsamplingBilinear2d(size=(1, 3))(jtorch.tensor([[[[1.0, 2.0]]]]))
    tensor([[[[1.0000, 1.5000, 2.0000]]]])

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.UpsamplingBilinear2d.html
    """

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)


class PixelShuffle(Module):
    """(..., C r r, H, W) to (..., C, H r, W r). Source: Shi et al. 2016, arXiv:1609.05158.

    >>> import jtorch
    >>> jtorch.nn.PixelShuffle(2)(jtorch.arange(4.0).reshape(1, 4, 1, 1))
    tensor([[[[0., 1.],
              [2., 3.]]]])
    """

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.pixel_shuffle(input, self.upscale_factor)

    def extra_repr(self) -> str:
        return f"upscale_factor={self.upscale_factor}"


class PixelUnshuffle(Module):
    """(..., C, H r, W r) to (..., C r r, H, W): ``PixelShuffle`` backwards.

    >>> import jtorch
    >>> jtorch.nn.PixelUnshuffle(2)(jtorch.zeros(1, 1, 12, 12)).shape
    torch.Size([1, 4, 6, 6])
    """

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.pixel_unshuffle(input, self.downscale_factor)

    def extra_repr(self) -> str:
        return f"downscale_factor={self.downscale_factor}"


class ChannelShuffle(Module):
    """Channels dealt out to ``groups`` in turn. Source: Zhang et al. 2017, arXiv:1707.01083.

    >>> import jtorch
    >>> jtorch.nn.ChannelShuffle(2)(jtorch.arange(4).reshape(1, 4, 1, 1)).flatten()
    tensor([0, 2, 1, 3])
    """

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: Tensor) -> Tensor:
        return F.channel_shuffle(input, self.groups)

    def extra_repr(self) -> str:
        return f"groups={self.groups}"
