"""Checks of the options that optimizers take, with PyTorch's sentences."""

from __future__ import annotations

import operator
from typing import Any

from jtorch.core import op
from jtorch.eager.public import Tensor


def not_negative(name: str, value: Any) -> None:
    """Raise ValueError for an option below zero (or NaN)."""
    if not value >= 0.0:
        raise ValueError(f"Invalid {name}: {value}")


def check_rate(lr: Any) -> None:
    """Raise ValueError for a learning rate below zero or a tensor of more than one element."""
    if isinstance(lr, Tensor) and lr.numel() != 1:
        raise ValueError("Tensor lr must be 1-element")
    not_negative("learning rate", lr)


def refuse_parts(name: str, params: Any) -> None:
    """Raise NotImplementedError for parameters of which this process has some rows alone (``fully_shard``):
    what is computed of all elements would be of these rows."""
    for p in params:
        if (sharding := getattr(p, "sharding", None)) is not None and sharding.group.size() > 1:
            raise NotImplementedError(
                f"{name} looks at whole parameters, and this one is shared out between processes: "
                f"{sharding}. Use an optimizer that works element by element, such as AdamW"
            )


def check_betas(betas: Any) -> None:
    """Raise ValueError for a coefficient outside [0, 1)."""
    for k in (0, 1):
        if not 0.0 <= betas[k] < 1.0:
            raise ValueError(f"Invalid beta parameter at index {k}: {betas[k]}")


def check_adam(lr: Any, betas: Any, eps: Any, weight_decay: Any) -> None:
    """Raise ValueError for one of the options of Adam and its kin that is out of range."""
    check_rate(lr)
    not_negative("epsilon value", eps)
    check_betas(betas)
    not_negative("weight_decay value", weight_decay)


def check_implementation(
    optimizer: Any, differentiable: bool, foreach: bool | None = None, fused: bool | None = None
) -> None:
    """``foreach``, ``fused`` and ``capturable`` choose among PyTorch's implementations of one result, so
    they are taken; ``differentiable`` would put the step on the tape, which is not there."""
    if fused and differentiable:
        raise RuntimeError("`fused` does not support `differentiable`")
    if fused and foreach:
        raise RuntimeError("`fused` and `foreach` cannot be `True` together.")
    if differentiable:
        raise NotImplementedError(
            f"{type(optimizer).__name__}(differentiable=True) is not there yet; leave it False"
        )


def number(evaluator: op.Evaluator, group: dict[str, Any], key: Any) -> Any:
    """A hyper-parameter as a runtime scalar; a tensor of one element counts as its number."""
    value = evaluator.scalar(group, key)
    return float(value) if isinstance(value, Tensor) else value


def adam_numbers(evaluator: op.Evaluator, group: dict[str, Any]) -> tuple[Any, Any, Any, Any, Any]:
    """(lr, beta1, beta2, eps, weight_decay) of a group of Adam or its kin, as runtime scalars."""
    return (
        number(evaluator, group, "lr"),
        evaluator.scalar(group, ("betas", 0)),
        evaluator.scalar(group, ("betas", 1)),
        evaluator.scalar(group, "eps"),
        evaluator.scalar(group, "weight_decay"),
    )


def check_corrections(evaluator: op.Evaluator, group: dict[str, Any], beta1: Any, beta2: Any = 0.0) -> None:
    """Raise what Python does for the bias corrections of betas that were set by hand, unchecked: nothing is
    divided by ``1 - beta1 ** step`` where that is 0, and ``1 - beta2 ** step`` has a root. As in PyTorch not
    where a fused kernel does it."""
    if beta1 == 1.0 and not group.get("fused"):
        check_divisor(evaluator, group, 0.0)
    if beta2 > 1.0 and not group.get("fused") and _has_gradients(evaluator, group):
        raise RuntimeError(
            "the bias correction 1 - beta2 ** step is negative and has no root: beta2 is over 1"
        )


def check_divisor(evaluator: op.Evaluator, group: dict[str, Any], number: Any) -> None:
    """Raise ZeroDivisionError where an update would divide by ``number``, which is 0: PyTorch computes that
    in Python, for each parameter that has a gradient."""
    if number == 0.0 and _has_gradients(evaluator, group):
        operator.truediv(1.0, 0.0)  # raises, in the words of this Python


def _has_gradients(evaluator: op.Evaluator, group: dict[str, Any]) -> bool:
    return any(evaluator.get_grad(p) is not None for p in group["params"])


def decay_kind(evaluator: op.Evaluator, group: dict[str, Any], weight_decay: Any) -> str:
    """How weight decay enters: "l2" (added to the gradient), "decoupled", or "" for none."""
    if weight_decay == 0:
        return ""
    return "decoupled" if evaluator.option(group, "decoupled_weight_decay") else "l2"
