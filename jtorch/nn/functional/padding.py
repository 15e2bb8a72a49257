"""Borders around the last dims.

Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.pad.html
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from jtorch.core.number_ranges import check_number, number_type
from jtorch.core.sizes import index
from jtorch.eager.public import Tensor, apart, autocasts, full, functions, ops

_Borders = list[tuple[int, int]]  # (before, after) of each dim, the first dim first


def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """``input`` with ``pad`` = (left, right, top, bottom, ...) elements around its last dims.

    ``mode`` is "constant" (``value``, 0 by default; negative widths take away), "reflect" (without
    repeating the edge),
    "replicate" (the edge again) or "circular". Raises RuntimeError where the widths don't
    fit the input, NotImplementedError for numbers of dims that a mode does not pad.

    >>> import jtorch
    >>> jtorch.nn.functional.pad(jtorch.ones(1, 2), (1, 0, 0, 1))  # one on the left, one below
    tensor([[0., 1., 1.],
            [0., 0., 0.]])
    >>> jtorch.nn.functional.pad(jtorch.tensor([[1.0, 2.0, 3.0]]), (2, 2), mode="reflect")
    tensor([[3., 2., 1., 2., 3., 2., 1.]])
    """
    return apart(bordered(input, pad, mode, value), input)


def bordered(input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """``pad``, whose result is ``input`` or a view of it where nothing is put around: for what only reads."""
    widths = [index(n) for n in pad]
    if len(widths) % 2:
        raise RuntimeError("Padding length must be divisible by 2")
    if len(widths) // 2 > input.ndim:
        raise RuntimeError(
            f"Padding length should be less than or equal to two times the input dimension but got padding "
            f"length {len(widths)} and input of dimension {input.ndim}"
        )
    borders = [(0, 0)] * (input.ndim - len(widths) // 2)
    borders += list(zip(widths[-2::-2], widths[-1::-2], strict=True))
    if mode == "constant":
        return _constant(input, borders, 0.0 if value is None else value)
    if value is not None and value != 0:
        raise RuntimeError(f'Padding mode "{mode}" doesn\'t take in value argument')
    if mode not in _EDGES:
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    _check_rank(input, len(widths))
    wide = mode == "replicate" or (mode == "reflect" and len(widths) < 6)  # which autocast knows
    return (_around_wide if wide else _around)(input, borders, mode)


def _along_borders(input: Tensor, borders: _Borders, mode: str) -> Tensor:
    for dim, (before, after) in enumerate(borders):
        if before or after:
            input = _EDGES[mode](input, dim, before, after)
    return input


_around, _around_wide = autocasts("as_is")(_along_borders), autocasts(cpu="float32")(_along_borders)


def _constant(input: Tensor, borders: _Borders, value: Any) -> Tensor:
    shape = [n + a + b for n, (a, b) in zip(input.shape, borders, strict=True)]
    if any(n < 0 for n in shape):
        raise RuntimeError(
            f"The input size {list(input.shape)}, plus negative padding {[w for b in borders for w in b]}, "
            "resulted in a negative output size"
        )
    for dim, (before, after) in enumerate(borders):
        if before < 0 or after < 0:
            start, stop = max(-before, 0), input.shape[dim] - max(-after, 0)
            input = functions.narrow(input, dim, start, stop - start)
    low = tuple(max(a, 0) for a, _ in borders)
    high = tuple(max(b, 0) for _, b in borders)
    if not any(low) and not any(high):
        return input
    if isinstance(value, complex) and not input.is_complex():
        raise TypeError("pad(): argument 'value' (position 4) must be float, not complex")
    if value.__class__ in (int, float) and value == 0 and math.copysign(1.0, value) > 0:
        return ops.pad(input, low=low, high=high, interior=(0,) * input.ndim)
    if number_type(value) is int and input.dtype.numpy.kind == "u":
        check_number(value * 1.0, input.dtype.numpy)  # a C double in PyTorch, which wraps around nowhere
    around = full(tuple(shape), value, dtype=input.dtype, device=input.device)
    stop = tuple(a + n for a, n in zip(low, input.shape, strict=True))
    return ops.slice_put(around, input, start=low, stop=stop, step=(1,) * input.ndim)


def _check_rank(input: Tensor, padded: int) -> None:
    if not (padded in (2, 4, 6) and input.ndim in (padded // 2 + 1, padded // 2 + 2)):
        raise NotImplementedError(
            f"Padding size {padded} is not supported for {input.ndim}D input tensor.\n"
            "Supported combinations for non-constant padding:\n"
            "  - 2D or 3D input: padding size = 2 (pads last dimension)\n"
            "  - 3D or 4D input: padding size = 4 (pads last 2 dimensions)\n"
            "  - 4D or 5D input: padding size = 6 (pads last 3 dimensions)"
        )


def _without(input: Tensor, dim: int, before: int, after: int) -> Tensor:
    """``input`` less what negative widths take away."""
    start, stop = max(-before, 0), input.shape[dim] - max(-after, 0)
    if stop <= start:
        axis = "WHD"[input.ndim - 1 - dim]
        raise RuntimeError(
            f"input ({axis}: {input.shape[dim]}) is too small. Calculated output {axis}: "
            f"{input.shape[dim] + before + after}"
        )
    return input if stop - start == input.shape[dim] else functions.narrow(input, dim, start, stop - start)


def _reflected(input: Tensor, dim: int, before: int, after: int) -> Tensor:
    n = input.shape[dim]
    if before >= n or after >= n:
        raise RuntimeError(
            f"Argument #{2 * (input.ndim - dim) + 2}: Padding size should be less than the corresponding "
            f"input dimension, but got: padding ({before}, {after}) at dimension {dim} of input "
            f"{list(input.shape)}"
        )
    parts = [functions.narrow(input, dim, 1, before).flip(dim)] if before > 0 else []
    parts.append(_without(input, dim, before, after))
    if after > 0:
        parts.append(functions.narrow(input, dim, n - 1 - after, after).flip(dim))
    return functions.cat(parts, dim)


def _replicated(input: Tensor, dim: int, before: int, after: int) -> Tensor:
    n, left = input.shape[dim], input.shape[dim] + before + after
    if left > 0 and n > 0 and (before <= -n or after <= -n):  # what is left lies beyond one border
        shape = [left if k == dim else m for k, m in enumerate(input.shape)]
        return functions.narrow(input, dim, n - 1 if before < 0 else 0, 1).expand(shape).clone()
    kept = _without(input, dim, before, after)
    n = kept.shape[dim]

    def edge(place: int, width: int) -> list[Tensor]:
        shape = [width if k == dim else m for k, m in enumerate(kept.shape)]
        return [functions.narrow(kept, dim, place, 1).expand(shape)] if width > 0 else []

    return functions.cat([*edge(0, before), kept, *edge(n - 1, after)], dim)


def _circular(input: Tensor, dim: int, before: int, after: int) -> Tensor:
    n = input.shape[dim]
    if before > n or after > n:
        raise RuntimeError("Padding value causes wrapping around more than once.")
    if n + before + after < 0:
        raise RuntimeError("Negative padding value is resulting in an empty dimension")
    kept = _without(input, dim, before, after)
    parts = [functions.narrow(kept, dim, kept.shape[dim] - before, before)] if before > 0 else []
    parts.append(kept)
    if after > 0:
        parts.append(functions.narrow(kept, dim, 0, after))
    return functions.cat(parts, dim)


_EDGES = {"reflect": _reflected, "replicate": _replicated, "circular": _circular}
