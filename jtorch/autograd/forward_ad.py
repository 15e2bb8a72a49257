"""Forward mode: tensors that carry a tangent along through each op.

A *dual tensor* has a value, its primal, and a tangent: the derivative of the primal along a direction. Inside
a level each op of dual tensors computes the tangent of its result, too, with and without gradients.

>>> import jtorch
>>> from jtorch.autograd import forward_ad
>>> with forward_ad.dual_level():
...     x = forward_ad.make_dual(jtorch.tensor([1.0, 2.0]), jtorch.tensor([1.0, 10.0]))
...     forward_ad.unpack_dual(x**3).tangent
tensor([  3., 120.])

The rules are in ``eager/forward.py``.
Source: https://docs.pytorch.org/docs/stable/autograd.html#forward-mode-automatic-differentiation
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

from jtorch.core import op
from jtorch.eager import duals
from jtorch.eager.duals import Level
from jtorch.eager.tensor import Tensor

__all__ = [
    "UnpackedDualTensor", "dual_level", "enter_dual_level", "exit_dual_level", "make_dual", "unpack_dual",
]  # fmt: skip

_NO_LEVEL = (
    "Trying to create a dual Tensor for forward AD but no level exists, make sure to enter_dual_level() "
    "first."
)
_LEFT = (
    "forward_ad: the level was entered inside a block (no_grad, enable_grad, autocast) that has ended since, "
    "and with it the level: enter it outside of that block."
)
_COVERED = (
    "forward_ad.make_dual() inside forward() or jvp() of a custom Function, which carry no tangents along: "
    "make the tensor dual outside."
)


class UnpackedDualTensor(NamedTuple):
    """What ``unpack_dual`` gives: the value of a dual tensor, and its tangent or None."""

    primal: Tensor
    tangent: Tensor | None


def enter_dual_level() -> int:
    """Enter a level, of which there may be one at a time; its number, 0. It is of this thread alone.

    Raises RuntimeError inside another one.
    Source: https://docs.pytorch.org/docs/stable/generated/torch.autograd.forward_ad.enter_dual_level.html
    """
    duals.enter()
    return 0


def exit_dual_level(*, level: int | None = None) -> None:
    """Leave the level: its tangents are freed, and dual tensors are ordinary ones.

    Raises RuntimeError where ``level`` is not the last one, or there is none.
    Source: https://docs.pytorch.org/docs/stable/generated/torch.autograd.forward_ad.exit_dual_level.html
    """
    current = duals.OPEN.get()
    if level is not None and level != (-1 if current is None else 0):
        raise RuntimeError(
            "Trying to exit a forward AD level that was not the last one that was created. This is not "
            "supported."
        )
    if current is None:
        raise RuntimeError("Dual level must be a positive number.")
    duals.leave(current)


class dual_level:  # noqa: N801
    """``with dual_level():`` a level for the block; also a decorator, for each call of a function.

    >>> import jtorch
    >>> from jtorch.autograd.forward_ad import dual_level, make_dual, unpack_dual
    >>> with dual_level():
    ...     y = make_dual(jtorch.tensor(3.0), jtorch.tensor(1.0)).square()
    ...     unpack_dual(y).tangent.item()
    6.0
    >>> unpack_dual(y).tangent is None
    True

    Source: https://docs.pytorch.org/docs/stable/generated/torch.autograd.forward_ad.dual_level.html
    """

    def __enter__(self) -> int:
        return enter_dual_level()

    def __exit__(self, *exception: Any) -> None:
        exit_dual_level()

    def __call__(self, function: Callable) -> Callable:
        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with dual_level():
                return function(*args, **kwargs)

        return wrapped


def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """A tensor over the memory of ``tensor`` that has this ``tangent``, of the same shape.

    Gradients go back to both. Raises RuntimeError outside of a level, for another shape, and for a tensor
    or a tangent that has a tangent itself; ValueError for integers.
    Source: https://docs.pytorch.org/docs/stable/generated/torch.autograd.forward_ad.make_dual.html
    """
    current = _current(level, "_make_dual")
    if current is None:
        raise RuntimeError(_NO_LEVEL)
    if current.covered:
        raise RuntimeError(_COVERED)
    for name, given in (("primal", tensor), ("tangent", tangent)):
        if not (given.is_floating_point() or given.is_complex()):
            raise ValueError(
                f"Expected {name} to be floating point or complex, but got: torch.{given.dtype.name}"
            )
    if duals.is_dual(tensor):
        raise RuntimeError(
            "Making a dual Tensor based on a Tensor that already has a forward gradient at the same level 0 "
            "is not supported."
        )
    if duals.is_dual(tangent):
        raise RuntimeError(
            "Setting a forward grad that itself has a forward gradient at the same level0 is not supported."
        )
    return duals.made(tensor, duals.checked(tangent, tensor))


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """(its value, its tangent); None where it has no tangent, or there is no level.

    Source: https://docs.pytorch.org/docs/stable/generated/torch.autograd.forward_ad.unpack_dual.html
    """
    if _current(level, "_fw_primal") is None:
        return UnpackedDualTensor(tensor, None)
    tangent = duals.tangent_of(tensor)
    return UnpackedDualTensor(duals.primal_of(tensor), tangent)


def _current(level: int | None, name: str) -> Level | None:
    """The level in force, which has the number ``level`` if that is given."""
    current = duals.OPEN.get()
    if current is not None and op.CONTEXT.get().level is not current and not current.covered:
        raise RuntimeError(_LEFT)
    if level is not None and level >= 0 and (current is None or level != 0):
        raise RuntimeError(f"Invalid level given to {name}")
    return None if level is not None and level < 0 else current
