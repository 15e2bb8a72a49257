"""``vmap``: a function of single examples as a function of batches, which are computed at once.

The function runs once. Inside it a tensor that is mapped over looks like one example, and each op computes
all of them: see ``eager/batching``.
Source: https://docs.pytorch.org/docs/stable/generated/torch.func.vmap.html
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from jtorch.eager.public import (
    Crossing,
    MappedAxis,
    Tensor,
    flatten,
    functions,
    integer,
    noted_draws,
    repeated_draws,
)
from jtorch.func.dims import in_dims_of, name_of, out_dims_of


def vmap(
    func: Callable,
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable:
    """A function that maps ``func`` over dim ``in_dims`` of its arguments and stacks along ``out_dims``.

    ``in_dims`` is an int, None for an argument that all examples share, or a nested tuple of the structure of
    the arguments; keywords are shared. ``randomness`` says what random ops do: "error", "different" or "same"
    numbers for each example. With ``chunk_size`` so many examples are computed at once.

    >>> import jtorch
    >>> dot = jtorch.func.vmap(jtorch.dot, in_dims=(0, None))
    >>> dot(jtorch.tensor([[1.0, 2.0], [3.0, 4.0]]), jtorch.tensor([1.0, 10.0]))
    tensor([21., 43.])

    Raises RuntimeError where the function asks for an element of an example (``item()``, ``if tensor:``), or
    how many elements of it satisfy something, or writes what differs among examples to a tensor that they
    share.
    """
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(
            f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}"
        )
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        leaves, rebuild = flatten(args)
        dims = in_dims_of(func, in_dims, args, leaves)
        size = _batch_size(leaves, dims)

        def call(part: list[Any], count: Any) -> Any:
            axis = MappedAxis(count, randomness, name_of(func))
            return _mapped(func, axis, part, dims, rebuild, kwargs, out_dims)

        if chunk_size is None or size <= chunk_size:
            return call(leaves, size)
        return _by_chunks(call, leaves, dims, size, chunk_size, randomness, out_dims)

    return wrapped


def _mapped(
    func: Callable, axis: MappedAxis, leaves: list[Any], dims: list[int | None], rebuild: Callable,
    kwargs: dict[str, Any], out_dims: Any,
) -> Any:  # fmt: skip
    """``func`` of all examples of ``leaves`` at once."""
    crossing = Crossing(axis)
    given = [t if d is None else crossing.enter(t, d) for t, d in zip(leaves, dims, strict=True)]
    with crossing.inside():
        result = func(*rebuild(given), **kwargs)
    outputs, rebuild_output = flatten(result)
    wanted = out_dims_of(func, out_dims, result, outputs, crossing.is_batched)
    places = [k for k, t in enumerate(outputs) if isinstance(t, Tensor)]
    left = crossing.leave([outputs[k] for k in places], [wanted[k] for k in places])
    for k, tensor in zip(places, left, strict=True):
        outputs[k] = tensor
    return rebuild_output(outputs)


def _by_chunks(
    call: Callable, leaves: list[Any], dims: list[int | None], size: int, chunk: int, randomness: str,
    out_dims: Any,
) -> Any:  # fmt: skip
    """``call`` of ``chunk`` examples after the other; what it gives is joined along ``out_dims``."""
    notes: list = []
    found = []
    for start in range(0, size, chunk):
        count = min(chunk, size - start)
        part = [t if d is None else t.narrow(d, start, count) for t, d in zip(leaves, dims, strict=True)]
        with _draws(randomness, notes, start):
            found.append(call(part, count))
    columns = [flatten(f)[0] for f in found]
    _, rebuild = flatten(found[0])
    ways = out_dims_of(None, out_dims, found[0], columns[0], lambda t: True)
    return rebuild([
        parts[0] if d is None else functions.cat(list(parts), dim=d)
        for parts, d in zip(zip(*columns, strict=True), ways, strict=True)
    ])  # fmt: skip


def _draws(randomness: str, notes: list, start: int) -> AbstractContextManager:
    """Where all examples get the same numbers, later chunks draw those of the first."""
    if randomness != "same":
        return nullcontext()
    return repeated_draws(notes) if start else noted_draws(notes)


def _batch_size(leaves: list[Any], dims: list[int | None]) -> Any:
    sizes = [t.shape[d] for t, d in zip(leaves, dims, strict=True) if d is not None]
    if not sizes:
        raise ValueError("vmap: Expected at least one Tensor to vmap over")
    if any(size != sizes[0] for size in sizes[1:]):
        raise ValueError(
            "vmap: Expected all tensors to have the same size in the mapped dimension, got sizes "
            f"{[integer('vmap', 'size', s) for s in sizes]} for the mapped dimension"
        )
    return sizes[0]
