"""Adadelta: steps in the units of the parameter.

Source: https://docs.pytorch.org/docs/stable/generated/torch.optim.Adadelta.html
"""

from __future__ import annotations

from typing import Any

from jtorch.core import op
from jtorch.core.dtypes import float32
from jtorch.eager.public import Tensor, update_each, zeros, zeros_like
from jtorch.optim.optimizer import Optimizer
from jtorch.optim.options import check_implementation, check_rate, not_negative, number


class Adadelta(Optimizer):
    """Zeiler 2012.

    State per parameter: "step" (0-d float32), "square_avg", "acc_delta". Raises ValueError for options out
    of range. ``foreach`` and ``capturable`` are taken for compatibility.

    >>> import jtorch
    >>> w = jtorch.ones(1, requires_grad=True)
    >>> w.grad = jtorch.full((1,), 3.0)
    >>> jtorch.optim.Adadelta([w], eps=0.01).step()
    >>> print(f"{w.item():.3f}")  # about the root of eps / 0.1, whatever the gradient is
    0.686
    """

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_rate(lr)
        if not 0.0 <= rho <= 1.0:
            raise ValueError(f"Invalid rho value: {rho}")
        not_negative("epsilon value", eps)
        not_negative("weight_decay value", weight_decay)
        check_implementation(self, differentiable)
        options = {
            "lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
            "capturable": capturable, "foreach": foreach, "differentiable": differentiable,
        }  # fmt: skip
        super().__init__(params, options)

    def _new_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        return {
            "step": zeros((), dtype=float32),
            "square_avg": zeros_like(param),
            "acc_delta": zeros_like(param),
        }

    def _update(self, group: dict[str, Any], context: op.Context) -> None:
        evaluator = context.evaluator
        lr, rho = number(evaluator, group, "lr"), evaluator.scalar(group, "rho")
        eps, weight_decay = evaluator.scalar(group, "eps"), evaluator.scalar(group, "weight_decay")
        update_each(
            self.state, group, context, "adadelta_update", ("square_avg", "acc_delta", "step"),
            (lr, rho, eps, weight_decay), decay=bool(weight_decay != 0),
        )  # fmt: skip
