"""Adam and AdamW.

Source: https://docs.pytorch.org/docs/stable/generated/torch.optim.Adam.html
"""

from __future__ import annotations

from typing import Any

from jtorch.core import op
from jtorch.core.dtypes import float32
from jtorch.eager.public import Tensor, update_each, zeros, zeros_like
from jtorch.optim.optimizer import Optimizer
from jtorch.optim.options import adam_numbers, check_adam, check_corrections, check_implementation, decay_kind

_STATE = "exp_avg", "exp_avg_sq", "step"
_AMSGRAD_STATE = "exp_avg", "exp_avg_sq", "max_exp_avg_sq", "step"


class Adam(Optimizer):
    """Steps scaled by running means of the gradient and of its square. Kingma and Ba 2015.

    ``weight_decay`` is added to the gradient; ``amsgrad`` keeps the largest second moment (Reddi et al.
    2018). State per parameter: "step" (0-d float32), "exp_avg" and "exp_avg_sq" (and "max_exp_avg_sq") of
    the parameter's shape. Raises ValueError for options out of range.
    ``fused`` runs all updates as one compiled call; ``foreach`` and ``capturable`` are taken as well.

    >>> import jtorch
    >>> w = jtorch.tensor([1.0], requires_grad=True)
    >>> optimizer = jtorch.optim.Adam([w], lr=0.1)
    >>> (3 * w).sum().backward()
    >>> optimizer.step()
    >>> print(f"{w.item():.3f}")  # the first step is of size lr
    0.900
    """

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
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
        if isinstance(lr, Tensor) and foreach and not capturable:
            raise ValueError("lr as a Tensor is not supported for capturable=False and foreach=True")
        check_adam(lr, betas, eps, weight_decay)
        check_implementation(self, differentiable, foreach, fused)
        if not all(isinstance(b, float) for b in betas) and not all(isinstance(b, Tensor) for b in betas):
            raise ValueError("betas must be either both floats or both Tensors")
        options = {
            "lr": lr, "betas": tuple(float(b) for b in betas), "eps": eps, "weight_decay": weight_decay,
            "amsgrad": amsgrad, "maximize": maximize, "foreach": foreach, "capturable": capturable,
            "differentiable": differentiable, "fused": fused,
            "decoupled_weight_decay": decoupled_weight_decay,
        }  # fmt: skip
        super().__init__(params, options)

    def _refuses_sparse(self, group: dict[str, Any]) -> str:
        return "Adam does not support sparse gradients, please consider SparseAdam instead"

    def _new_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        state = {
            "step": zeros((), dtype=float32),
            "exp_avg": zeros_like(param),
            "exp_avg_sq": zeros_like(param),
        }
        if group["amsgrad"]:
            state["max_exp_avg_sq"] = zeros_like(param)
        return state

    def _update(self, group: dict[str, Any], context: op.Context) -> None:
        evaluator = context.evaluator
        lr, beta1, beta2, eps, weight_decay = adam_numbers(evaluator, group)
        check_corrections(evaluator, group, beta1, beta2)
        amsgrad = evaluator.option(group, "amsgrad")
        update_each(
            self.state, group, context, "amsgrad_update" if amsgrad else "adam_update",
            _AMSGRAD_STATE if amsgrad else _STATE, (lr, beta1, beta2, eps, weight_decay),
            decay=decay_kind(evaluator, group, weight_decay),
        )  # fmt: skip


class AdamW(Adam):
    """Adam whose weight decay shrinks the parameter itself. Loshchilov and Hutter 2019.

    >>> import jtorch
    >>> w = jtorch.ones(1, requires_grad=True)
    >>> w.grad = jtorch.zeros(1)
    >>> jtorch.optim.AdamW([w], lr=0.1, weight_decay=0.5).step()
    >>> print(f"{w.item():.3f}")  # without a gradient only the decay moves it: 1 - 0.1 * 0.5
    0.950
    """

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
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
