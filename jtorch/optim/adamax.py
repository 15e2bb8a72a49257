"""Adamax: Adam in the infinity norm.

Source: https://docs.pytorch.org/docs/stable/generated/torch.optim.Adamax.html
"""

from __future__ import annotations

from typing import Any

from jtorch.core import op
from jtorch.core.dtypes import float32
from jtorch.eager.public import Tensor, update_each, zeros, zeros_like
from jtorch.optim.optimizer import Optimizer
from jtorch.optim.options import adam_numbers, check_adam, check_corrections, check_implementation


class Adamax(Optimizer):
    """Steps scaled by a decaying maximum of the gradient. Kingma and Ba 2015, section 7.1.

    State per parameter: "step" (0-d float32), "exp_avg", "exp_inf". Raises ValueError for options out of
    range. ``foreach`` and ``capturable`` are taken for compatibility.

    >>> import jtorch
    >>> w = jtorch.ones(1, requires_grad=True)
    >>> w.grad = jtorch.full((1,), 3.0)
    >>> jtorch.optim.Adamax([w], lr=0.1).step()
    >>> print(f"{w.item():.3f}")  # the first step is of size lr
    0.900
    """

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_adam(lr, betas, eps, weight_decay)
        check_implementation(self, differentiable)
        options = {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "foreach": foreach,
            "maximize": maximize, "differentiable": differentiable, "capturable": capturable,
        }  # fmt: skip
        super().__init__(params, options)

    def _new_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        return {
            "step": zeros((), dtype=float32),
            "exp_avg": zeros_like(param),
            "exp_inf": zeros_like(param),
        }

    def _update(self, group: dict[str, Any], context: op.Context) -> None:
        evaluator = context.evaluator
        lr, beta1, beta2, eps, weight_decay = adam_numbers(evaluator, group)
        check_corrections(evaluator, group, beta1)
        update_each(
            self.state, group, context, "adamax_update", ("exp_avg", "exp_inf", "step"),
            (lr, beta1, beta2, eps, weight_decay), decay=bool(weight_decay != 0),
        )  # fmt: skip
