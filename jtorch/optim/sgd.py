"""Stochastic gradient descent, with momentum.

Source: https://docs.pytorch.org/docs/stable/generated/torch.optim.SGD.html
"""

from __future__ import annotations

from typing import Any

from jtorch import op, watch
from jtorch.eager.creation import zeros_like
from jtorch.eager.tensor import Tensor
from jtorch.optim.optimizer import Optimizer, not_negative, overwrite, with_gradients

_PLAIN = op.BY_NAME["sgd_update"].index
_MOMENTUM = op.BY_NAME["momentum_update"].index
_NEG = op.BY_NAME["neg"].index


class SGD(Optimizer):
    """``p -= lr g``; with momentum the gradient goes through a running sum first.

    Raises ValueError for negative options and for Nesterov's form without momentum or with dampening.
    ``foreach`` and ``fused`` are taken for compatibility: they choose among PyTorch's implementations.
    """

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        not_negative("learning rate", lr)
        not_negative("momentum value", momentum)
        not_negative("weight_decay value", weight_decay)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        if differentiable:
            raise NotImplementedError("SGD(differentiable=True) is not there yet")
        self._unused: set[int] = set()  # ids of parameters whose buffer has yet to see a gradient
        options = {
            "lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay,
            "nesterov": nesterov, "maximize": maximize, "foreach": foreach,
            "differentiable": differentiable, "fused": fused,
        }  # fmt: skip
        super().__init__(params, options)

    def _new_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        if group["momentum"] == 0 or self.state[param].get("momentum_buffer") is not None:
            return {}
        self.state[param].pop("momentum_buffer", None)  # PyTorch saves None before the first step
        self._unused.add(id(param))
        return {"momentum_buffer": zeros_like(param)}

    def _saved_state(self, param: Tensor) -> dict[str, Any]:
        return {} if id(param) in self._unused else dict(self.state[param])

    def load_state_dict(self, state_dict: Any) -> None:
        self._unused.clear()
        super().load_state_dict(state_dict)

    def _update(self, group: dict[str, Any], context: op.Context) -> None:
        evaluator, table = context.evaluator, context.table
        lr = evaluator.scalar(group, "lr")
        weight_decay = evaluator.scalar(group, "weight_decay")
        decay = bool(weight_decay != 0)
        momentum = evaluator.scalar(group, "momentum")
        if momentum != 0:
            self._update_with_momentum(group, context, (lr, weight_decay, momentum), decay)
            return
        for p, g in with_gradients(evaluator, group["params"]):
            if group["maximize"]:
                g = table[_NEG](g)
            overwrite(evaluator, p, table[_PLAIN](p._data, g, lr, weight_decay, decay=decay))

    def _update_with_momentum(
        self, group: dict[str, Any], context: op.Context, numbers: tuple, decay: bool
    ) -> None:
        evaluator, table = context.evaluator, context.table
        dampening = evaluator.scalar(group, "dampening")
        for p, g in with_gradients(evaluator, group["params"]):
            if group["maximize"]:
                g = table[_NEG](g)
            if "momentum_buffer" not in self.state[p]:  # momentum was switched on since
                self.init_state()
            buffer = self.state[p]["momentum_buffer"]
            value, new = table[_MOMENTUM](
                p._data, g, buffer._data, *numbers, dampening,
                decay=decay, nesterov=group["nesterov"], first=self._first_use(p),
            )  # fmt: skip
            overwrite(evaluator, p, value)
            overwrite(evaluator, buffer, new)

    def _first_use(self, param: Tensor) -> bool:
        """Whether the buffer sees its first gradient now: that one is not dampened."""
        if id(param) not in self._unused:
            return False
        self._unused.discard(id(param))
        watch.advance()
        return True
