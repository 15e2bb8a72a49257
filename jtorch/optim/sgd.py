"""Stochastic gradient descent, with momentum.

Source: https://docs.pytorch.org/docs/stable/generated/torch.optim.SGD.html
"""

from __future__ import annotations

from typing import Any

from jtorch.core import op
from jtorch.eager.public import (
    Tensor,
    add_at,
    fill,
    no_grad,
    ones,
    scaled,
    update_each,
    widened,
    zeros,
    zeros_like,
)
from jtorch.optim.optimizer import Optimizer
from jtorch.optim.options import check_implementation, check_rate, not_negative, number


class SGD(Optimizer):
    """``p -= lr g``; with momentum the gradient goes through a running sum first.

    Raises ValueError for negative options and for Nesterov's form without momentum or with dampening.
    ``fused`` runs all updates as one compiled call; ``foreach`` is taken for compatibility. Of a sparse
    gradient only the elements that are there are moved; with momentum all of them, as if it were dense.

    >>> import jtorch
    >>> w = jtorch.tensor([1.0], requires_grad=True)
    >>> optimizer = jtorch.optim.SGD([w], lr=0.5)
    >>> (3 * w).sum().backward()
    >>> optimizer.step()
    >>> w.tolist()
    [-0.5]
    """

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float | Tensor = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_rate(lr)
        not_negative("momentum value", momentum)
        not_negative("weight_decay value", weight_decay)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        check_implementation(self, differentiable, foreach, fused)
        # 1 once the momentum buffer has seen a gradient: the first one is not dampened. A tensor, not a
        # flag, so that a compiled step needs no second recording.
        self._started: dict[Tensor, Tensor] = {}
        options = {
            "lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay,
            "nesterov": nesterov, "maximize": maximize, "foreach": foreach,
            "differentiable": differentiable, "fused": fused,
        }  # fmt: skip
        super().__init__(params, options)

    def _new_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        if group["momentum"] == 0:
            return {}
        state = self.state[param]
        if state.get("momentum_buffer") is None:
            state["momentum_buffer"] = zeros_like(param)  # over None, too: PyTorch saves that at first
            self._started[param] = widened(zeros((), dtype=param.dtype))
        elif param not in self._started:
            self._started[param] = widened(ones((), dtype=param.dtype))
        return {}

    def _refuses_sparse(self, group: dict[str, Any]) -> str:
        if group["fused"]:
            return "`_fused_sgd` does not support sparse gradients"
        return "weight_decay option is not compatible with sparse gradients" if group["weight_decay"] else ""

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"_started": self._started}

    def _saved_state(self, param: Tensor) -> dict[str, Any]:
        started = self._started.get(param)
        return {} if started is not None and started.item() == 0 else dict(self.state[param])

    def load_state_dict(self, state_dict: Any) -> None:
        super().load_state_dict(state_dict)
        self._started.clear()

    def _update(self, group: dict[str, Any], context: op.Context) -> None:
        evaluator = context.evaluator
        lr = number(evaluator, group, "lr")
        weight_decay = number(evaluator, group, "weight_decay")
        decay = bool(weight_decay != 0)
        momentum = evaluator.scalar(group, "momentum")
        if momentum == 0:

            def move(p: Tensor, gradient: Any) -> None:
                with no_grad():
                    values = gradient._values() * (lr if group["maximize"] else -lr)
                    add_at(p, tuple(gradient._indices()), values.to(p.dtype))

            update_each(
                self.state, group, context, "sgd_update", (), (lr, weight_decay),
                on_sparse=move, decay=decay,
            )  # fmt: skip
            return
        dampening = evaluator.scalar(group, "dampening")
        dampens = bool(dampening != 0)
        nesterov = evaluator.option(group, "nesterov")
        for p in group["params"]:
            if evaluator.get_grad(p) is None:
                continue
            if p not in self._started or self.state[p].get("momentum_buffer") is None:
                # momentum was switched on since, or the buffer was taken away
                with evaluator.outside(self):
                    self.init_state({p})
            started = self._started[p]
            damped = scaled(context, started, dampening) if dampens else 0.0
            update_each(
                self.state, group, context, "momentum_update", ("momentum_buffer",),
                (lr, weight_decay, momentum, damped), (p,),
                decay=decay, nesterov=nesterov, first=False, on_sparse=_as_dense,
            )  # fmt: skip
            fill(context, started, 1.0)


def _as_dense(_: Tensor, gradient: Any) -> Tensor:
    return gradient.to_dense()
