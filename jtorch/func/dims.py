"""Which dim of each argument ``vmap`` maps over, and where each result has the batch: ``in_dims`` and
``out_dims``, checked in PyTorch's words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jtorch.eager.public import Tensor, flatten


def name_of(func: Any) -> str:
    """What errors call a function."""
    return getattr(func, "__name__", None) or type(func).__name__


def in_dims_of(func: Any, in_dims: Any, args: tuple, leaves: list[Any]) -> list[int | None]:
    """The dim of each leaf of ``args``, counted from the first; None for those that are shared."""
    what = f"vmap({name_of(func)}, in_dims={in_dims}, ...)(<inputs>)"
    if not isinstance(in_dims, (int, tuple, list)):
        raise ValueError(
            f"{what}: expected `in_dims` to be int or a (potentially nested) tuple matching the structure of "
            f"inputs, got: {type(in_dims)}."
        )
    if not args:
        raise ValueError(
            f"vmap({name_of(func)})(<inputs>): got no inputs. Maybe you forgot to add inputs, or you are "
            "trying to vmap over a function with no inputs. The latter is unsupported."
        )
    dims: list[Any] = []
    if not _spread(in_dims if isinstance(in_dims, int) else tuple(in_dims), args, dims):
        raise ValueError(f"{what}: in_dims is not compatible with the structure of `inputs`.")
    return [_in_dim(what, d, leaf) for d, leaf in zip(dims, leaves, strict=True)]


def _spread(dims: Any, tree: Any, found: list[Any]) -> bool:
    """Give each leaf of ``tree`` its entry of ``dims``, a tree of which each leaf stands for all below it.
    Whether the structures fit."""
    if not isinstance(dims, (tuple, list, dict)):
        found.extend([dims] * len(flatten(tree)[0]))
        return True
    if isinstance(dims, dict):
        fits = isinstance(tree, dict) and dims.keys() == tree.keys()
        return fits and all(_spread(dims[key], part, found) for key, part in tree.items())
    fits = isinstance(tree, (tuple, list)) and len(dims) == len(tree)
    return fits and all(_spread(d, part, found) for d, part in zip(dims, tree, strict=True))


def _in_dim(what: str, dim: Any, leaf: Any) -> int | None:
    if dim is None:
        return None
    if not isinstance(dim, int):
        raise ValueError(
            f"{what}: Got in_dim={dim} for an input but in_dim must be either an integer dimension or None."
        )
    if not isinstance(leaf, Tensor):
        raise ValueError(
            f"{what}: Got in_dim={dim} for an input but the input is of type {type(leaf)}. We cannot vmap "
            "over non-Tensor arguments, please use None as the respective in_dim"
        )
    if not -leaf.ndim <= dim < leaf.ndim:
        raise ValueError(
            f"{what}: Got in_dim={dim} for some input, but that input is a Tensor of dimensionality "
            f"{leaf.ndim} so expected in_dim to satisfy -{leaf.ndim} <= in_dim < {leaf.ndim}."
        )
    return dim % leaf.ndim


def out_dims_of(
    func: Any, out_dims: Any, result: Any, outputs: list[Any], is_batched: Callable[[Tensor], bool]
) -> list[int | None]:
    """The dim of each of the ``outputs`` that has the batch, counted from the first; None for those that are
    to be no batch. ``is_batched`` says which of them differ among examples."""
    what = f"vmap({name_of(func)}, ..., out_dims={out_dims})(<inputs>)"
    dims: list[Any] = []
    (single,) = flatten(out_dims)[0] if isinstance(out_dims, (tuple, list)) and len(out_dims) == 1 else (0,)
    alone = isinstance(out_dims, (tuple, list)) and len(out_dims) == 1 and isinstance(result, Tensor)
    if not _spread(single if alone else out_dims, result, dims):
        raise ValueError(
            f"{what}: out_dims is not compatible with the structure of `outputs`: {len(outputs)} tensors."
        )
    return [_out_dim(func, what, d, t, is_batched) for d, t in zip(dims, outputs, strict=True)]


def _out_dim(func: Any, what: str, dim: Any, output: Any, is_batched: Callable[[Tensor], bool]) -> int | None:
    if dim is not None and not isinstance(dim, int):
        raise ValueError(
            f"{what}: `out_dims` must be an int, None or a python collection of ints representing where in "
            "the outputs the vmapped dimension should appear."
        )
    if not isinstance(output, Tensor):
        if dim is None:
            return None
        raise ValueError(
            f"vmap({name_of(func)}, ...): `{name_of(func)}` must only return Tensors, got type "
            f"{type(output)}. Did you mean to set out_dims= to None for output?"
        )
    if func is None:  # it was looked at before, and has the batch by now
        return dim if dim is None else dim % output.ndim
    if dim is None:
        if is_batched(output):
            raise ValueError(
                f"vmap({name_of(func)}, ...): `{name_of(func)}` can not return a BatchedTensor when out_dim "
                "is None"
            )
        return None
    ndim = output.ndim + 1
    if not -ndim <= dim < ndim:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-ndim}, {ndim - 1}], but got {dim})"
        )
    return dim % ndim
