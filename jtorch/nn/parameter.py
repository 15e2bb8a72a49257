"""Parameter: a tensor that a Module lists among its own."""

from __future__ import annotations

from typing import Any

import numpy as np

from jtorch.dtypes import get_default_dtype
from jtorch.eager.tensor import Tensor


class Parameter(Tensor):
    """A leaf tensor that becomes part of ``parameters()`` when it is assigned to a Module.

    ``data`` is a Tensor (whose memory it shares) or an array; it requires grad unless told otherwise.
    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.parameter.Parameter.html
    """

    __slots__ = ()

    def __init__(self, data: Any = None, requires_grad: bool = True) -> None:
        if data is None:
            data = np.zeros(0, get_default_dtype().numpy)
        if isinstance(data, Tensor):
            super().__init__(data._data)
            self._cell = data._cell
        elif hasattr(data, "dtype"):
            super().__init__(data)
        else:
            raise TypeError(
                f"Parameter() wraps a Tensor, got {type(data).__name__}; make one first: "
                "Parameter(jtorch.tensor(...))"
            )
        if requires_grad:
            self.requires_grad_()

    def __repr__(self) -> str:
        return "Parameter containing:\n" + super().__repr__()
