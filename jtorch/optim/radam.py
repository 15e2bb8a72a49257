"""RAdam: Adam with a rectified start.

Source: https://docs.pytorch.org/docs/stable/generated/torch.optim.RAdam.html
"""

from __future__ import annotations

from typing import Any

from jtorch.core import op
from jtorch.core.dtypes import float32
from jtorch.eager.public import Tensor, update_each, zeros, zeros_like
from jtorch.optim.optimizer import Optimizer
from jtorch.optim.options import adam_numbers, check_adam, check_implementation, decay_kind


class RAdam(Optimizer):
    """Adam that leaves out the second moment while too few steps tell of it. Liu et al. 2020.

    State per parameter: "step" (0-d float32), "exp_avg", "exp_avg_sq". Raises ValueError for options out of
    range. ``foreach`` and ``capturable`` are taken for compatibility.

    >>> import jtorch
    >>> w = jtorch.ones(1, requires_grad=True)
    >>> w.grad = jtorch.full((1,), 3.0)
    >>> jtorch.optim.RAdam([w], lr=0.1).step()
    >>> print(f"{w.item():.3f}")  # the first steps follow the gradient alone: 1 - 0.1 * 3
    0.700
    """

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_adam(lr, betas, eps, weight_decay)
        check_implementation(self, differentiable)
        options = {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
            "foreach": foreach, "capturable": capturable, "decoupled_weight_decay": decoupled_weight_decay,
            "differentiable": differentiable,
        }  # fmt: skip
        super().__init__(params, options)

    def _new_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        return {
            "step": zeros((), dtype=float32),
            "exp_avg": zeros_like(param),
            "exp_avg_sq": zeros_like(param),
        }

    def _update(self, group: dict[str, Any], context: op.Context) -> None:
        evaluator = context.evaluator
        lr, beta1, beta2, eps, weight_decay = adam_numbers(evaluator, group)
        update_each(
            self.state, group, context, "radam_update", ("exp_avg", "exp_avg_sq", "step"),
            (lr, beta1, beta2, eps, weight_decay), decay=decay_kind(evaluator, group, weight_decay),
        )  # fmt: skip
