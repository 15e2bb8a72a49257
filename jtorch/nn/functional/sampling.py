"""Images read at places that a tensor names.

Source: https://docs.pytorch.org/docs/stable/nn.functional.html#vision-functions
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

from jtorch.core.dtypes import bool_
from jtorch.eager.public import Tensor, autocasts, functions, linspace, ones, ops, zeros


@autocasts(cuda="as_is")
def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """Where ``theta`` (N, 2, 3) or (N, 3, 4) sends each place of an image of ``size`` (N, C, ...), for
    ``grid_sample``: (N, H, W, 2) or (N, D, H, W, 3), in [-1, 1].

    Raises NotImplementedError for sizes of other lengths, ValueError where ``theta`` doesn't fit.

    >>> import jtorch
    >>> shifted = jtorch.tensor([[[1.0, 0.0, 0.5], [0.0, 1.0, 0.0]]])  # 0.5 to the right
    >>> jtorch.nn.functional.affine_grid(shifted, (1, 1, 1, 3), align_corners=True)
    tensor([[[[-0.5000,  0.0000],
              [ 0.5000,  0.0000],
              [ 1.5000,  0.0000]]]])

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.affine_grid.html
    """
    if not theta.is_floating_point():
        raise ValueError(f"Expected theta to have floating point type, but got {theta.dtype}")
    rank = len(size) - 2
    if rank not in (2, 3):
        raise NotImplementedError(
            "affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, respectively. "
            "Got size "
            f"{list(size)}"
        )
    if theta.ndim != 3 or tuple(theta.shape[-2:]) != (rank, rank + 1):
        raise ValueError(
            f"Expected a batch of {rank}D affine matrices of shape Nx{rank}x{rank + 1} for size "
            f"{list(size)}. Got "
            f"{list(theta.shape)}."
        )
    sizes = tuple(int(n) for n in size[2:])
    base = _places(sizes, bool(align_corners), theta.dtype).to(theta.device)
    return (base @ theta.transpose(1, 2)).reshape(theta.shape[0], *sizes, rank)


@autocasts("as_is")
def _places(sizes: tuple[int, ...], align_corners: bool, dtype: Any) -> Tensor:
    """(x, y, ..., 1) of each place, in lines: the last spatial dim is x."""
    axes = [_axis(n, align_corners, dtype) for n in sizes]
    places = [*reversed(functions.meshgrid(*axes, indexing="ij")), ones(sizes, dtype=dtype)]
    return functions.stack(places, -1).reshape(-1, len(sizes) + 1)


def _axis(n: int, align_corners: bool, dtype: Any) -> Tensor:
    """The places along one dim, rounded as PyTorch rounds them: where theta is the identity they lie on
    pixels, where one bit decides from which side grid_sample's gradient is taken.
    """
    if n <= 1:
        return zeros(n, dtype=dtype)
    line = linspace(-1, 1, n, dtype=dtype)
    return line if align_corners else line * (n - 1) / n


@autocasts(cpu="float32", cuda="promote")
def grid_sample(
    input: Tensor, grid: Tensor, mode: str = "bilinear", padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Tensor:  # fmt: skip
    """``input`` (N, C, H, W) at the places ``grid`` (N, OH, OW, 2) of (x, y) in [-1, 1]; volumes likewise.

    ``mode`` is bilinear, nearest or, of images, bicubic; ``padding_mode`` is zeros, border or reflection.
    Raises ValueError for others, RuntimeError for shapes that don't fit.

    >>> import jtorch
    >>> image = jtorch.tensor([[[[1.0, 2.0, 4.0]]]])
    >>> places = jtorch.tensor([[[[-1.0, 0.0], [0.5, 0.0]]]])  # the left end, and between the last two
    >>> jtorch.nn.functional.grid_sample(image, places, align_corners=True)
    tensor([[[[1., 3.]]]])

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.grid_sample.html
    """
    _check_sample(input, grid, mode, padding_mode)
    rank, sizes = input.ndim - 2, tuple(input.shape[2:])
    places = []
    for axis, n in enumerate(sizes):
        x: Any = grid[..., rank - 1 - axis]
        x = (x + 1.0) * ((n - 1) / 2) if align_corners else ((x + 1.0) * n - 1.0) / 2
        places.append(x if mode == "bicubic" else _inside(x, n, padding_mode, bool(align_corners)))
    flat = input.reshape(*input.shape[:2], math.prod(sizes))
    out: Any = None
    for corner in itertools.product(_NEIGHBOURS[mode], repeat=rank):
        axes = [_neighbour(x, k, mode) for x, k in zip(places, corner, strict=True)]
        if mode == "bicubic":  # whose neighbours are put inside, and not the place itself
            axes = [
                (_inside(at, n, padding_mode, bool(align_corners)), weight)
                for (at, weight), n in zip(axes, sizes, strict=True)
            ]
        part = _corner(flat, axes, sizes)
        out = part if out is None else out + part
    if (
        mode == "nearest" and grid.requires_grad
    ):  # which gets zeros: no small step changes the nearest element
        never = zeros(out.shape, dtype=bool_, device=out.device)
        out = functions.where(never, grid[..., 0].reshape(len(grid), 1, out.shape[2]), out)
    return out.reshape(*input.shape[:2], *grid.shape[1:-1])


def _inside(x: Any, n: int, padding_mode: str, align_corners: bool) -> Any:
    if padding_mode == "zeros":
        return x
    if padding_mode == "reflection":
        low, span = (0.0, n - 1.0) if align_corners else (-0.5, float(n))
        if span == 0:
            x = x * 0.0
        else:
            away = (x - low).abs()
            turns = (away / span).floor().detach()
            rest = away - turns * span
            odd = (turns % 2.0).detach()
            x = rest * (1.0 - 2.0 * odd) + odd * span + low
    return functions.where(x == x, x.clamp(0, n - 1), 0.0)  # NaN is at the first pixel, as in PyTorch


_NEIGHBOURS = {"nearest": (0,), "bilinear": (0, 1), "bicubic": (-1, 0, 1, 2)}
"""How many pixels from the one below a place, along each axis."""


def _neighbour(x: Any, k: int, mode: str) -> tuple[Any, Any]:
    """(where the one is that is ``k`` pixels from the one below ``x``, its weight), None of the nearest."""
    if mode == "nearest":
        return x.detach().round(), None
    low = x.detach().floor()
    share = x - low
    if mode == "bilinear":
        return low + float(k), share if k else 1.0 - share
    away = share - float(k) if k < 1 else float(k) - share  # how far it is
    a = -0.75  # of cubic convolution (Keys, IEEE Trans. Acoust. Speech Signal Process. 29, 1981)
    if k in (0, 1):
        return low + float(k), ((a + 2) * away - (a + 3)) * away * away + 1
    return low + float(k), ((a * away - 5 * a) * away + 8 * a) * away - 4 * a


def _corner(flat: Tensor, axes: list[tuple[Any, Any]], sizes: tuple[int, ...]) -> Tensor:
    """What one of the neighbours of each place adds: of each axis, where it is, and its weight."""
    index: Any = 0
    weight: Any = None
    inside: Any = None
    for (at, share), n in zip(axes, sizes, strict=True):
        if share is not None:
            weight = share if weight is None else weight * share
        fits = (at >= 0) & (at <= n - 1)
        inside = fits if inside is None else inside & fits
        index = index * n + functions.where(fits, at, 0.0).long()
    n, c = flat.shape[:2]
    in_line = (n, 1, math.prod(index.shape[1:]))
    read = functions.gather(flat, 2, index.reshape(in_line).expand(n, c, in_line[2]))
    inside = inside.reshape(in_line)
    if weight is None:
        return ops.where(inside, read, 0.0)
    weight = weight.reshape(in_line)
    # at no place, NaN or infinite, an image is NaN and a volume 0, as in PyTorch, without gradients
    outside = weight * 0.0 if len(axes) == 2 else 0.0
    return ops.where(inside, read * ops.where(inside, weight, 0.0), outside)


def _check_sample(input: Tensor, grid: Tensor, mode: str, padding_mode: str) -> None:
    if mode not in ("bilinear", "nearest", "bicubic"):
        raise ValueError(
            "nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', but got: "
            f"'{mode}'"
        )
    if padding_mode not in ("zeros", "border", "reflection"):
        raise ValueError(
            "nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or 'reflection', "
            "but got: "
            f"'{padding_mode}'"
        )
    if input.ndim not in (4, 5) or input.ndim != grid.ndim:
        raise RuntimeError(
            "grid_sampler(): expected 4D or 5D input and grid with same number of dimensions, but got "
            "input with "
            f"sizes {list(input.shape)} and grid with sizes {list(grid.shape)}"
        )
    if input.shape[0] != grid.shape[0]:
        raise RuntimeError(
            "grid_sampler(): expected grid and input to have same batch size, but got input with sizes "
            f"{list(input.shape)} and grid with sizes {list(grid.shape)}"
        )
    if grid.shape[-1] != input.ndim - 2:
        raise RuntimeError(
            f"grid_sampler(): expected grid to have size {input.ndim - 2} in last dimension, but got grid "
            "with "
            f"sizes {list(grid.shape)}"
        )
    if mode == "bicubic" and input.ndim == 5:
        raise RuntimeError("grid_sampler(): bicubic interpolation only supports 4D input")
