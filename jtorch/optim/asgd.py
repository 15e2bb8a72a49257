"""ASGD: stochastic gradient descent that averages its path.

Source: https://docs.pytorch.org/docs/stable/generated/torch.optim.ASGD.html
"""

from __future__ import annotations

from typing import Any

from jtorch.core import op
from jtorch.core.dtypes import float32
from jtorch.eager.public import Tensor, full, ones, update_each, zeros, zeros_like
from jtorch.optim.optimizer import Optimizer
from jtorch.optim.options import check_implementation, check_rate, not_negative, number


class ASGD(Optimizer):
    """Polyak and Juditsky 1992.

    State per parameter: "step", "eta" and "mu" (0-d float32) and "ax", the mean from step ``t0`` on. Raises
    ValueError for options out of range. ``foreach`` and ``capturable`` are taken for compatibility.

    >>> import jtorch
    >>> w = jtorch.ones(1, requires_grad=True)
    >>> w.grad = jtorch.full((1,), 3.0)
    >>> jtorch.optim.ASGD([w], lr=0.1).step()
    >>> print(f"{w.item():.3f}")  # 1 - 0.1 * 3, the average begins at step t0
    0.700
    """

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_rate(lr)
        not_negative("weight_decay value", weight_decay)
        check_implementation(self, differentiable)
        options = {
            "lr": lr, "lambd": lambd, "alpha": alpha, "t0": t0, "weight_decay": weight_decay,
            "foreach": foreach, "maximize": maximize, "differentiable": differentiable,
            "capturable": capturable,
        }  # fmt: skip
        super().__init__(params, options)

    def _new_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        return {
            "step": zeros((), dtype=float32),
            "eta": full((), float(group["lr"]), dtype=float32),
            "mu": ones((), dtype=float32),
            "ax": zeros_like(param),
        }

    def _update(self, group: dict[str, Any], context: op.Context) -> None:
        evaluator = context.evaluator
        lr, lambd = number(evaluator, group, "lr"), evaluator.scalar(group, "lambd")
        alpha, t0 = evaluator.scalar(group, "alpha"), evaluator.scalar(group, "t0")
        weight_decay = evaluator.scalar(group, "weight_decay")
        update_each(
            self.state, group, context, "asgd_update", ("ax", "mu", "eta", "step"),
            (lr, lambd, alpha, t0, weight_decay), decay=bool(weight_decay != 0),
        )  # fmt: skip
