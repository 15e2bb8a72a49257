"""``jacrev``, ``jacfwd`` and ``hessian``: all derivatives of outputs by inputs.

``jacrev`` goes backward from all elements of an output at once: the products with the rows of the identity
are one batch for ``vmap``. ``jacfwd`` goes backward twice, the second time along all elements of the inputs
at once, where there are fewer of these.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from jtorch.eager.public import Tensor, enable_grad, eye, ones_like, tensors_of, zeros, zeros_like
from jtorch.func.derivatives import Argnums, chosen, replaced, split_aux
from jtorch.func.level import Level
from jtorch.func.mapping import vmap


def jacrev(
    func: Callable, argnums: Argnums = 0, *, has_aux: bool = False, chunk_size: int | None = None
) -> Callable:
    """A function that gives the Jacobian: for each output and input a tensor of shape (*output, *input).

    It has the structure of the output, with the structure of the chosen arguments in each place. It nests.
    With ``chunk_size`` it goes backward from so many elements at once.

    >>> import jtorch
    >>> jtorch.func.jacrev(lambda x: x**2)(jtorch.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])

    Source: https://docs.pytorch.org/docs/stable/generated/torch.func.jacrev.html
    """
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError("jacrev: `chunk_size` should be greater than 0.")

    def rows(level: Level, outputs: list[Tensor]) -> list[list[Tensor]]:
        return [_rows(level, out, chunk_size) for out in outputs]

    return _jacobian(func, argnums, has_aux, "jacrev", rows)


def jacfwd(
    func: Callable, argnums: Argnums = 0, has_aux: bool = False, *, randomness: str = "error"
) -> Callable:
    """The numbers of ``jacrev``, for functions of few inputs and many outputs.

    >>> import jtorch
    >>> jtorch.func.jacfwd(lambda x: x**2)(jtorch.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])

    Source: https://docs.pytorch.org/docs/stable/generated/torch.func.jacfwd.html
    """
    return _jacobian(func, argnums, has_aux, "jacfwd", _rows_or_columns)


def hessian(func: Callable, argnums: Argnums = 0) -> Callable:
    """A function that gives the second derivatives: the Jacobian of the Jacobian.

    >>> import jtorch
    >>> jtorch.func.hessian(lambda x: (x**3).sum())(jtorch.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])

    Source: https://docs.pytorch.org/docs/stable/generated/torch.func.hessian.html
    """
    return jacfwd(jacrev(func, argnums), argnums)


def _jacobian(func: Callable, argnums: Argnums, has_aux: bool, name: str, blocks_of: Callable) -> Callable:
    """A function that gives what ``blocks_of`` a level and its outputs makes: for each output one for each
    input."""

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        with enable_grad():
            given, rebuild = tensors_of(chosen(args, argnums), f"{name}: the inputs to differentiate")
            level = Level(given)
            found = level.called(func, replaced(args, argnums, rebuild(level.inputs)), kwargs)
            output, aux = split_aux(found, has_aux, name)
            outputs, rebuild_output = tensors_of(output, f"{name}: the output of f")
            blocks = rebuild_output([rebuild(parts) for parts in blocks_of(level, outputs)])
            return (blocks, level.shown(aux)) if has_aux else blocks

    return wrapped


def _rows(level: Level, out: Tensor, chunk_size: int | None = None) -> list[Tensor]:
    """The derivatives of ``out`` by each input of the level, by a pass from each of its elements."""
    n = out.numel()
    if n == 0:
        return [zeros(*out.shape, *t.shape, dtype=out.dtype) for t in level.inputs]
    if n == 1:
        rows = level.pull([out], [ones_like(out).detach()])
    else:
        basis = eye(n, dtype=out.dtype).reshape(n, *out.shape)
        rows = vmap(lambda seed: level.pull([out], [seed]), chunk_size=chunk_size)(basis)
    return [r.reshape((*out.shape, *t.shape)) for r, t in zip(rows, level.inputs, strict=True)]


def _rows_or_columns(level: Level, outputs: list[Tensor]) -> list[list[Tensor]]:
    """Passes from each element of the outputs or along each one of the inputs, whichever are fewer; along the
    inputs where an output has another dtype, which is that of its derivatives, as in forward mode."""
    other_dtype = any(
        out.is_floating_point() and t.is_floating_point() and out.dtype is not t.dtype
        for out in outputs
        for t in level.inputs
    )
    if other_dtype or sum(t.numel() for t in level.inputs) < sum(out.numel() for out in outputs):
        return _columns(level, outputs)
    return [_rows(level, out) for out in outputs]


def _columns(level: Level, outputs: list[Tensor]) -> list[list[Tensor]]:
    """The derivatives of the outputs by each input, by a pass along each element of the inputs.

    The products with cotangents are linear in these, so going back through them gives those with tangents.
    """
    cotangents = Level([zeros_like(o) for o in outputs])
    pulled = level.pull(outputs, list(cotangents.inputs), again=True)
    both = level.joined(cotangents)

    def along(tangent: Tensor, k: int) -> list[Tensor]:
        return both.pull([pulled[k]], [tangent])

    found: list[list[Tensor]] = [[] for _ in outputs]
    for k, t in enumerate(level.inputs):
        n = t.numel()
        basis = eye(n, dtype=t.dtype).reshape(n, *t.shape)
        columns = vmap(along, in_dims=(0, None), out_dims=-1)(basis, k) if n else []
        for j, out in enumerate(outputs):
            shape = (*out.shape, *t.shape)
            part = columns[j].reshape(shape) if n else zeros(*shape, dtype=out.dtype)
            found[j].append(both.shown(part))
    return found
