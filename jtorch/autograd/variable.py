"""``Variable``, the name of early programs for a tensor with a gradient.

Source: https://docs.pytorch.org/docs/stable/autograd.html#variable-deprecated
"""

from __future__ import annotations

import warnings
from typing import Any

from jtorch.eager.tensor import Tensor

_VOLATILE = "volatile was removed and now has no effect. Use `with torch.no_grad():` instead."


class _VariableType(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Tensor)


class Variable(metaclass=_VariableType):
    """``Variable(tensor, requires_grad=False)`` is a tensor over the same memory, off the tape.

    ``volatile`` has no effect any more, and warns. Raises TypeError for what is no tensor.

    >>> import jtorch
    >>> jtorch.autograd.Variable(jtorch.ones(2), requires_grad=True)
    tensor([1., 1.], requires_grad=True)
    """

    def __new__(  # type: ignore[misc]
        cls, data: Any = None, requires_grad: bool = False, volatile: bool | None = None
    ) -> Tensor:
        if volatile:
            warnings.warn(_VOLATILE, stacklevel=2)
        if not isinstance(data, Tensor):
            raise TypeError(f"Variable data has to be a tensor, but got {type(data).__name__}")
        return data.detach().requires_grad_(requires_grad)
