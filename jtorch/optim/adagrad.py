"""Adagrad: steps over the root of the sum of all squares.

Source: https://docs.pytorch.org/docs/stable/generated/torch.optim.Adagrad.html
"""

from __future__ import annotations

from typing import Any

from jtorch.core import op
from jtorch.core.dtypes import float32
from jtorch.eager.public import Tensor, add_at, full_like, no_grad, put_at, update_each, zeros
from jtorch.optim.optimizer import Optimizer
from jtorch.optim.options import check_implementation, check_rate, not_negative, number


class Adagrad(Optimizer):
    """Duchi et al. 2011.

    State per parameter, made at once: "step" (0-d float32) and "sum". Raises ValueError for options out of
    range. ``fused`` runs all updates as one compiled call; ``foreach`` is taken for compatibility. Of a
    sparse gradient only the elements that are there count, and are moved.

    >>> import jtorch
    >>> w = jtorch.ones(1, requires_grad=True)
    >>> w.grad = jtorch.full((1,), 3.0)
    >>> jtorch.optim.Adagrad([w], lr=0.1).step()
    >>> print(f"{w.item():.3f}")  # the first step is of size lr
    0.900
    """

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_rate(lr)
        not_negative("lr_decay value", lr_decay)
        not_negative("weight_decay value", weight_decay)
        not_negative("initial_accumulator_value value", initial_accumulator_value)
        not_negative("epsilon value", eps)
        check_implementation(self, differentiable, foreach, fused)
        options = {
            "lr": lr, "lr_decay": lr_decay, "eps": eps, "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value, "foreach": foreach,
            "maximize": maximize, "differentiable": differentiable, "fused": fused,
        }  # fmt: skip
        super().__init__(params, options)
        self.init_state()

    def _saved_state(self, param: Tensor) -> dict[str, Any]:
        return dict(self.state[param])  # also before the first update

    def _new_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        start = self.defaults["initial_accumulator_value"]
        return {"step": zeros((), dtype=float32), "sum": full_like(param, start)}

    def _refuses_sparse(self, group: dict[str, Any]) -> str:
        if group["fused"]:
            return "`fused` does not support sparse grad or complex param"
        return "weight_decay option is not compatible with sparse gradients" if group["weight_decay"] else ""

    def _update(self, group: dict[str, Any], context: op.Context) -> None:
        evaluator = context.evaluator
        lr, eps = number(evaluator, group, "lr"), evaluator.scalar(group, "eps")
        lr_decay = evaluator.scalar(group, "lr_decay")
        weight_decay = evaluator.scalar(group, "weight_decay")

        def move(p: Tensor, gradient: Any) -> None:
            _move(p, -gradient if group["maximize"] else gradient, self.state[p], lr, lr_decay, eps)

        update_each(
            self.state, group, context, "adagrad_update", ("sum", "step"), (lr, lr_decay, eps, weight_decay),
            on_sparse=move, decay=bool(weight_decay != 0),
        )  # fmt: skip


def _move(p: Tensor, gradient: Any, state: dict[str, Any], lr: Any, lr_decay: Any, eps: Any) -> None:
    """The update of the elements that a sparse gradient has."""
    with no_grad():
        gradient = gradient.coalesce()  # each place once: the update is not linear
        places, g = tuple(gradient.indices()), gradient.values()
        state["step"] += 1
        put_at(state["sum"], places, state["sum"][places] + g * g)
        root = state["sum"][places].sqrt() + eps
        add_at(p, places, g / root * (-lr / (1 + (state["step"].item() - 1) * lr_decay)))
