"""Rprop: steps by the sign of the gradient alone.

Source: https://docs.pytorch.org/docs/stable/generated/torch.optim.Rprop.html
"""

from __future__ import annotations

from typing import Any

from jtorch.core import op
from jtorch.core.dtypes import float32
from jtorch.eager.public import Tensor, full_like, update_each, zeros, zeros_like
from jtorch.optim.optimizer import Optimizer
from jtorch.optim.options import check_implementation, check_rate, number


class Rprop(Optimizer):
    """Riedmiller and Braun 1993: each element has a step size, for whole batches.

    State per parameter: "step" (0-d float32), "prev" (the last gradient), "step_size". Raises ValueError for
    options out of range. ``foreach`` and ``capturable`` are taken for compatibility.

    >>> import jtorch
    >>> w = jtorch.ones(2, requires_grad=True)
    >>> w.grad = jtorch.tensor([30.0, -0.1])
    >>> jtorch.optim.Rprop([w], lr=0.25).step()
    >>> w.tolist()  # only the sign of a gradient counts
    [0.75, 1.25]
    """

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_rate(lr)
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        check_implementation(self, differentiable)
        options = {
            "lr": lr, "etas": etas, "step_sizes": step_sizes, "foreach": foreach, "maximize": maximize,
            "differentiable": differentiable, "capturable": capturable,
        }  # fmt: skip
        super().__init__(params, options)

    def _new_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        return {
            "step": zeros((), dtype=float32),
            "prev": zeros_like(param),
            "step_size": full_like(param, float(group["lr"])),
        }

    def _update(self, group: dict[str, Any], context: op.Context) -> None:
        evaluator = context.evaluator
        numbers = (
            number(evaluator, group, "lr"),
            *(evaluator.scalar(group, (name, k)) for name in ("etas", "step_sizes") for k in (0, 1)),
        )
        update_each(self.state, group, context, "rprop_update", ("prev", "step_size", "step"), numbers)
