"""``vmap``: a function of single examples as a function of batches, by a loop.

PyTorch computes the batch at once; here the function is called once per example and the results are stacked.
The numbers are the same, not the speed: for a hot path write the batched form.
Source: https://docs.pytorch.org/docs/stable/generated/torch.func.vmap.html
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from jtorch.core import op
from jtorch.eager.public import Tensor, flatten, functions, noted_draws, repeated_draws

_RANDOM = (
    "vmap: called random operation while in randomness error mode. Please either use the 'same' or "
    "'different' "
    "randomness flags on vmap or perform the randomness operation out of vmap"
)


def vmap(
    func: Callable,
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable:
    """A function that maps ``func`` over dim ``in_dims`` of its arguments and stacks along ``out_dims``.

    ``in_dims`` is an int, None for an argument that all calls share, or a tuple with one entry per argument.
    ``randomness`` says what random ops do: "error", "different" or "same" numbers in each call.
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
        dims = _dims(in_dims, args)
        count = _batch_size(leaves, dims)
        op.CONTEXT.get().evaluator.unrolls(
            "the function of vmap", count, "Write it for the whole batch at once (`x @ m.T` for `m @ row`)."
        )
        notes: list = []
        results = []
        for k in range(count):
            picked = [t if d is None else t.select(d, k) for t, d in zip(leaves, dims, strict=True)]
            with _draws(randomness, notes, k):
                results.append(func(*rebuild(picked), **kwargs))
            if notes and randomness == "error":
                raise RuntimeError(_RANDOM)
        return _stacked(results, out_dims)

    return wrapped


def _draws(randomness: str, notes: list, k: int) -> Any:
    if randomness == "different":
        return nullcontext()
    return noted_draws(notes) if k == 0 or randomness == "error" else repeated_draws(notes)


def _dims(in_dims: Any, args: tuple) -> list[int | None]:
    """The dim of each leaf of ``args``."""
    what = f"vmap(f, in_dims={in_dims}, ...)(<inputs>)"
    if isinstance(in_dims, int):
        in_dims = (in_dims,) * len(args)
    if not isinstance(in_dims, (tuple, list)):
        raise ValueError(
            f"{what}: expected `in_dims` to be int or a (potentially nested) tuple matching the structure of "
            f"inputs, got: {type(in_dims)}."
        )
    if len(in_dims) != len(args):
        raise ValueError(
            f"{what}: in_dims is not compatible with the structure of inputs: {len(args)} arguments"
        )
    found: list[int | None] = []
    for dim, arg in zip(in_dims, args, strict=True):
        leaves, _ = flatten(arg)
        several = flatten(dim)[0] if isinstance(dim, (tuple, list, dict)) else [dim] * len(leaves)
        found += [_dim(what, d, t) for d, t in zip(several, leaves, strict=True)]
    return found


def _dim(what: str, dim: Any, leaf: Any) -> int | None:
    """The dim to map over, as PyTorch checks it; None for what is no tensor."""
    if dim is not None and not isinstance(dim, int):
        raise ValueError(
            f"{what}: Got in_dim={dim} for an input but in_dim must be either an integer dimension or None."
        )
    if dim is None or not isinstance(leaf, Tensor):
        return None
    if not -leaf.ndim <= dim < leaf.ndim:
        raise ValueError(
            f"{what}: Got in_dim={dim} for some input, but that input is a Tensor of dimensionality "
            f"{leaf.ndim} so expected in_dim to satisfy -{leaf.ndim} <= in_dim < {leaf.ndim}."
        )
    return dim


def _batch_size(leaves: list[Any], dims: list[int | None]) -> int:
    sizes = [t.shape[d] for t, d in zip(leaves, dims, strict=True) if d is not None]
    if not sizes:
        raise ValueError("vmap: at least one input must have a dim to map over (in_dims that is not None)")
    if len(set(sizes)) > 1:
        raise ValueError(
            f"vmap: Expected all tensors to have the same size in the mapped dimension, got sizes {sizes} "
            "for "
            "the mapped dimension"
        )
    if not sizes[0]:
        raise NotImplementedError("vmap over a dim of size 0: the shape of the results is not known")
    return sizes[0]


def _check_tensors(leaves: tuple) -> None:
    """Raise PyTorch's error where these, of all examples, are no tensors: numbers that differ were read."""
    if all(isinstance(leaf, Tensor) for leaf in leaves):
        return
    if isinstance(leaves[0], (bool, int, float)) and any(leaf != leaves[0] for leaf in leaves):
        raise RuntimeError(
            "vmap: It looks like you're calling .item() on a Tensor. We don't support vmap over calling "
            ".item() on a Tensor, please try to rewrite what you're doing with other operations: return it."
        )
    raise ValueError(
        f"vmap: the function must only return Tensors, got type {type(leaves[0])}. Did you mean to set "
        "out_dims= to None for output?"
    )


def _stacked(results: list[Any], out_dims: Any) -> Any:
    columns = [flatten(r)[0] for r in results]
    _, rebuild = flatten(results[0])
    for leaves in zip(*columns, strict=True):
        _check_tensors(leaves)
    dims = flatten(out_dims)[0]
    dims = dims * len(columns[0]) if len(dims) == 1 else dims
    if len(dims) != len(columns[0]):
        raise ValueError(
            f"vmap(f, ..., out_dims={out_dims})(<inputs>): out_dims is not compatible with the structure of "
            f"`outputs`: {len(columns[0])} tensors"
        )
    parts = [
        c[0] if d is None else functions.stack(list(c), dim=d)
        for c, d in zip(zip(*columns, strict=True), dims, strict=True)
    ]
    return rebuild(parts)
