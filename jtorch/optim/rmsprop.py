"""RMSprop: steps over the root of a running mean of squares.

Source: https://docs.pytorch.org/docs/stable/generated/torch.optim.RMSprop.html
"""

from __future__ import annotations

from typing import Any

from jtorch.core import op
from jtorch.core.dtypes import float32
from jtorch.eager.public import Tensor, update_each, zeros, zeros_like
from jtorch.optim.optimizer import Optimizer
from jtorch.optim.options import check_implementation, check_rate, not_negative, number


class RMSprop(Optimizer):
    """Tieleman and Hinton 2012; ``centered`` subtracts the squared mean (Graves 2013).

    State per parameter: "step" (0-d float32), "square_avg", with momentum "momentum_buffer", centered
    "grad_avg". Raises ValueError for options out of range, KeyError for a step whose state was made before
    an option asked for more of it. ``foreach`` and ``capturable`` are taken for compatibility.

    >>> import jtorch
    >>> w = jtorch.ones(1, requires_grad=True)
    >>> w.grad = jtorch.full((1,), 3.0)
    >>> jtorch.optim.RMSprop([w], lr=0.01, alpha=0.99).step()
    >>> print(f"{w.item():.3f}")  # 3 over the root of 0.01 * 9 is 10, times lr
    0.900
    """

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_rate(lr)
        not_negative("epsilon value", eps)
        not_negative("momentum value", momentum)
        not_negative("weight_decay value", weight_decay)
        not_negative("alpha value", alpha)
        check_implementation(self, differentiable)
        options = {
            "lr": lr, "momentum": momentum, "alpha": alpha, "eps": eps, "centered": centered,
            "weight_decay": weight_decay, "capturable": capturable, "foreach": foreach,
            "maximize": maximize, "differentiable": differentiable,
        }  # fmt: skip
        super().__init__(params, options)

    def _new_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        state = {"step": zeros((), dtype=float32), "square_avg": zeros_like(param)}
        if group["momentum"] > 0:
            state["momentum_buffer"] = zeros_like(param)
        if group["centered"]:
            state["grad_avg"] = zeros_like(param)
        return state

    def _update(self, group: dict[str, Any], context: op.Context) -> None:
        evaluator = context.evaluator
        lr, alpha = number(evaluator, group, "lr"), evaluator.scalar(group, "alpha")
        eps, momentum = evaluator.scalar(group, "eps"), evaluator.scalar(group, "momentum")
        weight_decay = evaluator.scalar(group, "weight_decay")
        centered, moving = evaluator.option(group, "centered"), bool(momentum > 0)
        names = (
            "square_avg", "grad_avg" if centered else None, "momentum_buffer" if moving else None, "step",
        )  # fmt: skip
        update_each(
            self.state, group, context, "rmsprop_update", names, (lr, alpha, eps, weight_decay, momentum),
            decay=bool(weight_decay != 0), centered=centered, moving=moving,
        )  # fmt: skip
