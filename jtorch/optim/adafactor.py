"""Adafactor: second moments of a matrix from its rows and columns.

Source: https://docs.pytorch.org/docs/stable/generated/torch.optim.Adafactor.html
"""

from __future__ import annotations

from typing import Any

from jtorch.core import op
from jtorch.core.dtypes import float32
from jtorch.eager.public import Tensor, finfo, update_each, zeros, zeros_like
from jtorch.optim.optimizer import Optimizer
from jtorch.optim.options import check_divisor, number, refuse_parts

_MATRIX, _OTHER = ("row_var", "col_var", "step"), ("variance", None, "step")


class Adafactor(Optimizer):
    """Shazeer and Stern 2018, with the step sizes of PyTorch.

    State per parameter: "step" (0-d float32) and, for two axes or more, "row_var" and "col_var" (the last or
    the second last axis of size 1), else "variance". Raises ValueError for options out of range, and at
    the first step NotImplementedError for parameters that processes share (``fully_shard``). ``foreach``
    is taken for compatibility.

    >>> import jtorch
    >>> w = jtorch.ones(1, requires_grad=True)
    >>> w.grad = jtorch.full((1,), 3.0)
    >>> jtorch.optim.Adafactor([w], lr=0.1).step()
    >>> print(f"{w.item():.3f}")  # the first step is of size lr times the mean size of w
    0.900
    """

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        if not lr >= 0.0:
            raise ValueError(f"Learning rate should be >= 0 but is: {lr}")
        if not beta2_decay <= 0.0:
            raise ValueError(f"beta2_decay should be <= 0 but is: {beta2_decay}")
        if eps[0] is not None and not eps[0] >= 0.0:
            raise ValueError(f"epsilon1 should be >= 0 but is: {eps[0]}")
        if not eps[1] >= 0.0:
            raise ValueError(f"epsilon2 should be >= 0 but is: {eps[1]}")
        if not d >= 1.0:
            raise ValueError(f"Clipping threshold d should be >= 1 but is: {d}")
        if not weight_decay >= 0.0:
            raise ValueError(f"weight_decay should be >= 0 but is: {weight_decay}")
        options = {
            "lr": lr, "beta2_decay": beta2_decay, "eps": eps, "d": d, "weight_decay": weight_decay,
            "foreach": foreach, "maximize": maximize,
        }  # fmt: skip
        super().__init__(params, options)

    def _new_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        refuse_parts("Adafactor", [param])
        step = zeros((), dtype=float32)
        if param.ndim < 2:
            return {"step": step, "variance": zeros_like(param)}
        *outer, rows, columns = param.shape
        return {
            "step": step,
            "row_var": zeros((*outer, rows, 1), dtype=param.dtype),
            "col_var": zeros((*outer, 1, columns), dtype=param.dtype),
        }

    def _update(self, group: dict[str, Any], context: op.Context) -> None:
        evaluator = context.evaluator
        lr, d = number(evaluator, group, "lr"), evaluator.scalar(group, "d")
        check_divisor(evaluator, group, d)
        beta2_decay = evaluator.scalar(group, "beta2_decay")
        weight_decay = evaluator.scalar(group, "weight_decay")
        eps1, eps2 = evaluator.option(group, "eps")
        numbers, decay = (lr, beta2_decay, d, weight_decay), bool(weight_decay != 0)
        matrices = [p for p in group["params"] if p.ndim > 1]
        others = [p for p in group["params"] if p.ndim < 2]
        for params, names in ((matrices, _MATRIX), (others, _OTHER)):
            for dtype in dict.fromkeys(p.dtype for p in params):
                update_each(
                    self.state, group, context, "adafactor_update", names, numbers,
                    [p for p in params if p.dtype is dtype],
                    eps1=finfo(dtype).eps if eps1 is None else eps1, eps2=eps2, decay=decay,
                )  # fmt: skip
