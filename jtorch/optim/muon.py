"""Muon: momentum whose matrix is made nearly orthogonal before each update.

Source: https://docs.pytorch.org/docs/stable/generated/torch.optim.Muon.html;
K. Jordan, https://kellerjordan.github.io/posts/muon/
"""

from __future__ import annotations

import math
from typing import Any

from jtorch.core import op
from jtorch.eager.public import Tensor, no_grad, zeros_like
from jtorch.optim.optimizer import Optimizer
from jtorch.optim.options import number, refuse_parts

_COEFFICIENTS = (3.4445, -4.7750, 2.0315)  # of the iteration's polynomial, which is steep at 0
_LEARNING_RATES = ("original", "match_rms_adamw")


class Muon(Optimizer):
    """``p -= lr r O``, and O the orthogonal matrix nearest to a running mean of gradients, roughly: five
    steps of a Newton-Schulz iteration. For matrices alone; biases and embeddings go to another optimizer.

    r is sqrt(max(1, rows / columns)), or with ``adjust_lr_fn="match_rms_adamw"`` 0.2 sqrt(max(rows,
    columns)). The iteration rounds to bfloat16, as PyTorch's does. Raises ValueError for negative options and
    for parameters that are no matrices.

    >>> import jtorch
    >>> w = jtorch.eye(2).requires_grad_()
    >>> optimizer = jtorch.optim.Muon([w], lr=0.1, weight_decay=0.0)
    >>> (w * jtorch.tensor([[1.0, 0.0], [0.0, 2.0]])).sum().backward()
    >>> optimizer.step()
    >>> bool((w.diagonal() < 1).all())
    True
    """

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = _COEFFICIENTS,
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        if not lr >= 0.0:
            raise ValueError(f"Learning rate should be >= 0 but is: {lr}")
        if not momentum >= 0.0:
            raise ValueError(f"momentum should be >= 0 but is: {momentum}")
        if not weight_decay >= 0.0:
            raise ValueError(f"weight decay should be >= 0 but is: {weight_decay}")
        if adjust_lr_fn is not None and adjust_lr_fn not in _LEARNING_RATES:
            raise ValueError(f"Adjust learning rate function {adjust_lr_fn} is not supported")
        options = {
            "lr": lr, "weight_decay": weight_decay, "momentum": momentum, "nesterov": nesterov,
            "ns_coefficients": ns_coefficients, "eps": eps, "ns_steps": ns_steps,
            "adjust_lr_fn": adjust_lr_fn,
        }  # fmt: skip
        super().__init__(params, options)
        for group in self.param_groups:
            for p in group["params"]:
                if p.ndim != 2:
                    raise ValueError(
                        f"Muon only supports 2D parameters whereas we found a parameter with size: {p.size()}"
                    )

    def _new_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        refuse_parts("Muon", [param])
        if param.is_complex():
            raise RuntimeError("Muon does not support complex parameters")
        return {"momentum_buffer": zeros_like(param)}

    def _update(self, group: dict[str, Any], context: op.Context) -> None:
        evaluator = context.evaluator
        lr = number(evaluator, group, "lr")
        momentum = evaluator.scalar(group, "momentum")
        kept = 1.0 - lr * evaluator.scalar(group, "weight_decay")
        names = ("nesterov", "ns_coefficients", "eps", "ns_steps", "adjust_lr_fn")
        nesterov, coefficients, eps, steps, adjusted = (evaluator.option(group, name) for name in names)
        with no_grad():
            for p in group["params"]:
                g = evaluator.get_grad(p)
                if g is None:
                    continue
                mean = self.state[p]["momentum_buffer"]
                mean.lerp_(g, 1.0 - momentum)
                direction = g.lerp(mean, momentum) if nesterov else mean
                nearest = orthogonalized(direction, coefficients, steps, eps)
                p.mul_(kept)
                p.sub_(nearest.to(p.dtype) * (lr * _ratio(adjusted, p.shape)))


def _ratio(adjusted: str | None, shape: Any) -> float:
    rows, columns = shape
    if adjusted == "match_rms_adamw":
        return 0.2 * math.sqrt(max(rows, columns))
    return math.sqrt(max(1, rows / columns))


def orthogonalized(
    matrix: Tensor, coefficients: tuple[float, float, float], steps: int, eps: float
) -> Tensor:
    """``matrix`` with singular values near 1: a x + b (x x^T) x + c (x x^T)^2 x, ``steps`` times, from a
    matrix of norm 1. Raises ValueError for what is no matrix, or for 100 steps and more."""
    if steps >= 100:
        raise ValueError("Number of steps must be less than 100 for computational efficiency")
    if matrix.ndim != 2:
        raise ValueError("Input tensor gradient must be a 2D matrix")
    if len(coefficients) != 3:
        raise ValueError("Coefficients must be a tuple of exactly 3 values")
    a, b, c = coefficients
    tall = matrix.shape[0] > matrix.shape[1]
    x = _rounded(matrix.float())
    x = x.T if tall else x
    x = _rounded(x / _rounded(x.norm()).clamp(min=eps))
    for _ in range(steps):
        gram = _rounded(x @ x.T)
        weights = _rounded(b * gram + c * (gram @ gram))
        x = _rounded(a * x + weights @ x)
    return x.T if tall else x


def _rounded(x: Tensor) -> Tensor:
    """The nearest numbers of 8 binary digits, which bfloat16 has: in float32, so that it compiles.

    Source: T. J. Dekker, "A floating-point technique for extending the available precision" (1971)
    """
    wide = x * 65537.0
    return wide - (wide - x)
