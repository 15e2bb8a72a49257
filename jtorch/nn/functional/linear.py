"""Linear maps of one vector and of two.

Source: https://docs.pytorch.org/docs/stable/nn.functional.html#linear-functions
"""

from __future__ import annotations

from typing import Any

from jtorch.eager.public import Tensor, autocasts, functions

linear = functions.linear


@autocasts(cpu="as_is", cuda="promote")
def bilinear(input1: Any, input2: Any, weight: Any, bias: Any = None) -> Tensor:
    """``x1 @ weight[k] @ x2`` for each k, plus ``bias``: (..., I), (..., J) and (K, I, J) to (..., K).

    Raises RuntimeError for shapes that don't fit.

    >>> import jtorch
    >>> x, y = jtorch.tensor([[1.0, 2.0]]), jtorch.tensor([[3.0, 4.0]])
    >>> jtorch.nn.functional.bilinear(x, y, jtorch.ones(1, 2, 2))  # (1 + 2) (3 + 4)
    tensor([[21.]])
    """
    if input1.ndim != input2.ndim or input1.shape[:-1] != input2.shape[:-1]:
        raise RuntimeError(
            f"bilinear(): input batch dimensions do not match: got {list(input1.shape)} and "
            f"{list(input2.shape)}"
        )
    outputs, left, right = weight.shape
    for place, x, wanted in ((1, input1, left), (2, input2, right)):
        if x.shape[-1] != wanted:
            raise RuntimeError(
                f"bilinear(): input{place} size does not match weight size: got {x.shape[-1]} but expected "
                f"{wanted}"
            )
    rows = input1.reshape(-1, left)
    pairs = rows.unsqueeze(2) * input2.reshape(-1, right).unsqueeze(1)
    out = pairs.reshape(rows.shape[0], left * right) @ weight.reshape(outputs, left * right).t()
    out = out.reshape(*input1.shape[:-1], outputs)
    return out if bias is None else out + bias
