"""What ``strict=True`` checks in ``autograd.functional``: that nothing is independent of anything."""

from __future__ import annotations

from typing import Any, Literal

from jtorch.eager.creation import zeros_like
from jtorch.eager.tensor import Tensor

Stage = Literal["back", "back_trick", "double_back", "double_back_trick"]  # which pass gave the gradients

_UNTRACKED = {
    "outputs": (
        "Output {i} of the user-provided function does not require gradients. The outputs must be computed "
        "in a "
        "differentiable manner from the input when running in strict mode."
    ),
    "grad_inputs": (
        "The gradient with respect to input {i} is independent of the inputs of the user-provided function. "
        "This is not allowed in strict mode."
    ),
    "jacobian": (
        "While computing the hessian, found that the jacobian of the user-provided function with respect to "
        "input {i} is independent of the input. This is not allowed in strict mode. You should ensure that "
        "your "
        "function is twice differentiable and that the jacobian depends on the inputs (this would be "
        "violated "
        "by a linear function for example)."
    ),
    "hessian": (
        "The hessian of the user-provided function with respect to input {i} is independent of the input. "
        "This "
        "is not allowed in strict mode. You should ensure that your function is thrice differentiable and "
        "that "
        "the hessian depends on the inputs."
    ),
}
_MISSING = {
    "back": (
        "The output of the user-provided function is independent of input {i}. This is not allowed in strict "
        "mode."
    ),
    "back_trick": (
        "The gradient with respect to the input is independent of entry {i} in the grad_outputs when using "
        "the "
        "double backward trick to compute forward mode gradients. This is not allowed in strict mode."
    ),
    "double_back": (
        "The jacobian of the user-provided function is independent of input {i}. This is not allowed in "
        "strict "
        "mode."
    ),
    "double_back_trick": (
        "The hessian of the user-provided function is independent of entry {i} in the grad_jacobian. This is "
        "not allowed in strict mode as it prevents from using the double backward trick to replace forward "
        "mode "
        "AD."
    ),
}


def require_tracked(found: tuple[Any, ...], what: str, strict: bool) -> None:
    """Raise where ``strict`` and one of ``found`` is None or off the tape."""
    for i, t in enumerate(found if strict else ()):
        if t is None:
            raise RuntimeError(_MISSING["back"].format(i=i))
        if not t.requires_grad:
            raise RuntimeError(_UNTRACKED[what].format(i=i))


def fill_zeros(
    grads: tuple, like: tuple[Tensor, ...], strict: bool, create_graph: bool, stage: Stage
) -> tuple[Tensor, ...]:
    """Zeros for the gradients that are None; where ``strict``, errors for these and for constant ones."""
    for i, g in enumerate(grads if strict else ()):
        if g is None:
            raise RuntimeError(_MISSING[stage].format(i=i))
        if create_graph and not g.requires_grad:
            which = "hessian" if "double" in stage else "jacobian"
            raise RuntimeError(
                f"The {which} of the user-provided function is independent of input {i}. This is not "
                "allowed in "
                "strict mode when create_graph=True."
            )
    return tuple(zeros_like(t) if g is None else g for g, t in zip(grads, like, strict=True))
