"""SparseAdam: Adam for the elements that a sparse gradient has.

Source: https://docs.pytorch.org/docs/stable/generated/torch.optim.SparseAdam.html
"""

from __future__ import annotations

import math
from typing import Any

from jtorch.core import op
from jtorch.eager.public import Tensor, no_grad, put_at, zeros_like
from jtorch.optim.optimizer import Optimizer
from jtorch.optim.options import check_betas, number


class SparseAdam(Optimizer):
    """Kingma and Ba 2015, of the elements that are in a gradient alone: the moments and values of all others
    stay as they are.

    Gradients are COO tensors: those of ``nn.Embedding(sparse=True)``, or set as ``p.grad``. State per
    parameter: "step" (an int), "exp_avg" and "exp_avg_sq". Raises ValueError for options out of range and
    complex parameters, RuntimeError for a gradient that is dense. Compiled functions run it eagerly.

    >>> import jtorch
    >>> w = jtorch.ones(3, requires_grad=True)
    >>> w.grad = jtorch.sparse_coo_tensor([[1]], [5.0], (3,))
    >>> jtorch.optim.SparseAdam([w], lr=0.1).step()
    >>> w
    tensor([1.0000, 0.9000, 1.0000], requires_grad=True)
    """

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        if not lr > 0.0:
            raise ValueError(f"Invalid learning rate: {lr}")
        if not eps > 0.0:
            raise ValueError(f"Invalid epsilon value: {eps}")
        check_betas(betas)
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize})
        of_complex = [
            [j, k]
            for j, group in enumerate(self.param_groups)
            for k, p in enumerate(group["params"])
            if p.is_complex()
        ]
        if of_complex:
            raise ValueError(
                f"Complex params at indices {of_complex}: SparseAdam does not support complex parameters"
            )

    def _refuses_sparse(self, group: dict[str, Any]) -> str:
        return ""

    def _new_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        _check(param.grad)
        return {"step": 0, "exp_avg": zeros_like(param), "exp_avg_sq": zeros_like(param)}

    def _update(self, group: dict[str, Any], context: op.Context) -> None:
        found = [(p, context.evaluator.get_grad(p)) for p in group["params"]]
        for _, gradient in found:
            _check(gradient)
        lr = number(context.evaluator, group, "lr")
        with no_grad():
            for p, gradient in found:
                if gradient is not None:
                    self.state[p]["step"] += 1
                    _step(p, -gradient if group["maximize"] else gradient, self.state[p], lr, group)


def _check(gradient: Any) -> None:
    if gradient is not None and not gradient.is_sparse:
        raise RuntimeError("SparseAdam does not support dense gradients, please consider Adam instead")


def _step(p: Tensor, gradient: Any, state: dict[str, Any], lr: float, group: dict[str, Any]) -> None:
    gradient = gradient.coalesce()  # each place once: the update is not linear
    places, g = tuple(gradient.indices()), gradient.values()
    if not g.numel():
        return
    beta1, beta2 = group["betas"]
    mean, square = state["exp_avg"], state["exp_avg_sq"]
    new_mean, new_square = mean[places].lerp(g, 1 - beta1), square[places].lerp(g * g, 1 - beta2)
    put_at(mean, places, new_mean)
    put_at(square, places, new_square)
    size = lr * math.sqrt(1 - beta2 ** state["step"]) / (1 - beta1 ** state["step"])
    put_at(p, places, p[places] - size * (new_mean / (new_square.sqrt() + group["eps"])))
