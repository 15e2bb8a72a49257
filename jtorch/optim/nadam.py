"""NAdam: Adam with Nesterov's momentum.

Source: https://docs.pytorch.org/docs/stable/generated/torch.optim.NAdam.html
"""

from __future__ import annotations

from typing import Any

from jtorch.core import op
from jtorch.core.dtypes import float32
from jtorch.eager.public import Tensor, ones, update_each, zeros, zeros_like
from jtorch.optim.optimizer import Optimizer
from jtorch.optim.options import adam_numbers, check_adam, check_implementation, decay_kind, not_negative


class NAdam(Optimizer):
    """Adam that looks one step of momentum ahead. Dozat 2016.

    State per parameter: "step" and "mu_product" (0-d float32), "exp_avg", "exp_avg_sq". Raises ValueError
    for options out of range. ``foreach`` and ``capturable`` are taken for compatibility.

    >>> import jtorch
    >>> w = jtorch.ones(1, requires_grad=True)
    >>> optimizer = jtorch.optim.NAdam([w], lr=0.1)
    >>> for _ in range(100):
    ...     optimizer.zero_grad()
    ...     (w * w).sum().backward()
    ...     optimizer.step()
    >>> abs(w.item()) < 0.01  # the minimum is at 0
    True
    """

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_adam(lr, betas, eps, weight_decay)
        not_negative("momentum_decay value", momentum_decay)
        check_implementation(self, differentiable)
        options = {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay,
            "momentum_decay": momentum_decay, "decoupled_weight_decay": decoupled_weight_decay,
            "maximize": maximize, "foreach": foreach, "capturable": capturable,
            "differentiable": differentiable,
        }  # fmt: skip
        super().__init__(params, options)

    def _new_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        return {
            "step": zeros((), dtype=float32),
            "mu_product": ones((), dtype=float32),
            "exp_avg": zeros_like(param),
            "exp_avg_sq": zeros_like(param),
        }

    def _update(self, group: dict[str, Any], context: op.Context) -> None:
        evaluator = context.evaluator
        lr, beta1, beta2, eps, weight_decay = adam_numbers(evaluator, group)
        momentum_decay = evaluator.scalar(group, "momentum_decay")
        update_each(
            self.state, group, context, "nadam_update", ("exp_avg", "exp_avg_sq", "mu_product", "step"),
            (lr, beta1, beta2, eps, weight_decay, momentum_decay),
            decay=decay_kind(evaluator, group, weight_decay),
        )  # fmt: skip
