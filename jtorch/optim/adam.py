"""Adam and AdamW.

Source: https://docs.pytorch.org/docs/stable/generated/torch.optim.Adam.html
"""

from __future__ import annotations

from typing import Any

from jtorch import op
from jtorch.dtypes import float32
from jtorch.eager.creation import zeros, zeros_like
from jtorch.eager.tensor import Tensor
from jtorch.optim.optimizer import Optimizer, not_negative, overwrite, with_gradients

_ADAM = op.BY_NAME["adam_update"].index
_NEG = op.BY_NAME["neg"].index


class Adam(Optimizer):
    """Steps scaled by running means of the gradient and of its square. Kingma and Ba 2015.

    ``weight_decay`` is added to the gradient. State per parameter: "step" (0-d float32), "exp_avg" and
    "exp_avg_sq" of the parameter's shape. Raises ValueError for options out of range.
    ``foreach``, ``capturable`` and ``fused`` are taken for compatibility.
    """

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        not_negative("learning rate", lr)
        not_negative("epsilon value", eps)
        for k in (0, 1):
            if not 0.0 <= betas[k] < 1.0:
                raise ValueError(f"Invalid beta parameter at index {k}: {betas[k]}")
        not_negative("weight_decay value", weight_decay)
        name = type(self).__name__
        if amsgrad:
            raise NotImplementedError(f"{name}(amsgrad=True) is not there yet; leave it False")
        if differentiable:
            raise NotImplementedError(
                f"{name}(differentiable=True) is not there yet; leave it False"
            )
        options = {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad,
            "maximize": maximize, "foreach": foreach, "capturable": capturable,
            "differentiable": differentiable, "fused": fused,
            "decoupled_weight_decay": decoupled_weight_decay,
        }  # fmt: skip
        super().__init__(params, options)

    def _new_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        return {
            "step": zeros((), dtype=float32),
            "exp_avg": zeros_like(param),
            "exp_avg_sq": zeros_like(param),
        }

    def _update(self, group: dict[str, Any], context: op.Context) -> None:
        evaluator, table = context.evaluator, context.table
        lr = evaluator.scalar(group, "lr")
        beta1, beta2 = evaluator.scalar(group, ("betas", 0)), evaluator.scalar(group, ("betas", 1))
        eps = evaluator.scalar(group, "eps")
        weight_decay = evaluator.scalar(group, "weight_decay")
        decay = ""
        if weight_decay != 0:
            decay = "decoupled" if evaluator.option(group, "decoupled_weight_decay") else "l2"
        maximize = evaluator.option(group, "maximize")
        for p, g in with_gradients(evaluator, group["params"]):
            if maximize:
                g = table[_NEG](g)
            state = self.state[p]
            step, m, v = state["step"], state["exp_avg"], state["exp_avg_sq"]
            values = table[_ADAM](
                p._data,
                g,
                m._data,
                v._data,
                step._data,
                lr,
                beta1,
                beta2,
                eps,
                weight_decay,
                decay=decay,
            )
            for tensor, value in zip((p, m, v, step), values, strict=True):
                overwrite(evaluator, tensor, value)


class AdamW(Adam):
    """Adam whose weight decay shrinks the parameter itself. Loshchilov and Hutter 2019."""

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(
            params, lr, betas, eps, weight_decay, amsgrad, foreach=foreach, maximize=maximize,
            capturable=capturable, differentiable=differentiable, fused=fused,
            decoupled_weight_decay=True,
        )  # fmt: skip
