"""``jacrev``, ``jacfwd`` and ``hessian``: all derivatives of outputs by inputs.

Both Jacobians are computed row by row through backward passes: ``jacfwd`` gives the numbers of ``jacrev``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from jtorch.core import op
from jtorch.eager.public import Tensor, enable_grad, functions, tensors_of, zeros
from jtorch.func.derivatives import Argnums, chosen, replaced, split_aux
from jtorch.func.level import Level


def jacrev(
    func: Callable, argnums: Argnums = 0, *, has_aux: bool = False, chunk_size: int | None = None
) -> Callable:
    """A function that gives the Jacobian: for each output and input a tensor of shape (*output, *input).

    It has the structure of the output, with the structure of the chosen arguments in each place. It nests.
    Source: https://docs.pytorch.org/docs/stable/generated/torch.func.jacrev.html
    """
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError("jacrev: `chunk_size` should be greater than 0.")

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        with enable_grad():
            given, rebuild = tensors_of(chosen(args, argnums), "jacrev: the inputs to differentiate")
            level = Level(given)
            found = func(*replaced(args, argnums, rebuild(level.inputs)), **kwargs)
            output, aux = split_aux(found, has_aux, "jacrev")
            outputs, rebuild_output = tensors_of(output, "jacrev: the output of f")
            blocks = rebuild_output([rebuild(_rows(level, out)) for out in outputs])
            return (blocks, level.shown(aux)) if has_aux else blocks

    return wrapped


def _rows(level: Level, out: Tensor) -> list[Tensor]:
    """The derivatives of ``out`` by each input of the level."""
    flat = out.reshape(-1)
    if not out.numel():
        return [zeros(*out.shape, *t.shape, dtype=out.dtype) for t in level.inputs]
    op.CONTEXT.get().evaluator.unrolls(
        "a backward pass for each element of the output of jacrev, jacfwd or hessian", out.numel(),
        "Ask for the products that you need (vjp, jvp), or leave this function uncompiled.",
    )  # fmt: skip
    rows = [level.pull([flat[k]], [None]) for k in range(out.numel())]
    return [
        functions.stack(list(column)).reshape((*out.shape, *t.shape))
        for column, t in zip(zip(*rows, strict=True), level.inputs, strict=True)
    ]


def jacfwd(
    func: Callable, argnums: Argnums = 0, has_aux: bool = False, *, randomness: str = "error"
) -> Callable:
    """``jacrev`` under the name of forward mode, which is not there: a pass per output element.

    Source: https://docs.pytorch.org/docs/stable/generated/torch.func.jacfwd.html
    """
    return jacrev(func, argnums, has_aux=has_aux)


def hessian(func: Callable, argnums: Argnums = 0) -> Callable:
    """A function that gives the second derivatives: the Jacobian of the Jacobian.

    Source: https://docs.pytorch.org/docs/stable/generated/torch.func.hessian.html
    """
    return jacfwd(jacrev(func, argnums), argnums)
