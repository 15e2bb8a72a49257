"""The early kind of checkpoint: one node on the tape, whose gradient is a backward pass of its own.

Source: https://docs.pytorch.org/docs/stable/checkpoint.html
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from jtorch.autograd import Function, backward, enable_grad
from jtorch.core import op as op_module
from jtorch.eager.public import Tensor, as_before, current_run, noted_draws, repeated_draws


class Reentrant(Function):
    """``function(*args)``, computed without a tape now and with one in backward."""

    @staticmethod
    def forward(ctx: Any, function: Callable, preserve_rng_state: bool, *args: Any) -> Any:
        tensors = [a for a in args if isinstance(a, Tensor)]
        if not any(t.requires_grad for t in tensors):
            warnings.warn("None of the inputs have requires_grad=True. Gradients will be None", stacklevel=2)
        ctx.casting = op_module.CONTEXT.get().casting
        ctx.function, ctx.preserve, ctx.draws = function, preserve_rng_state, []
        ctx.rest = [None if isinstance(a, Tensor) else a for a in args]
        ctx.places = [k for k, a in enumerate(args) if isinstance(a, Tensor)]
        ctx.save_for_backward(*tensors)
        with noted_draws(ctx.draws) if preserve_rng_state else nullcontext():
            return function(*args)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        op_module.CONTEXT.get().evaluator.runs_again(ctx.function, goes_back=True)
        if current_run().captures is not None:
            raise RuntimeError(
                "When use_reentrant=True, torch.utils.checkpoint is incompatible with .grad() or passing an "
                "`inputs` parameter to .backward(). To resolve this error, you can either set "
                "use_reentrant=False, or call .backward() without passing the `inputs` argument."
            )
        inputs = list(ctx.rest)
        for k, t in zip(ctx.places, ctx.saved_tensors, strict=True):
            inputs[k] = t.detach().requires_grad_(t.requires_grad)
        repeating = repeated_draws(ctx.draws) if ctx.preserve else nullcontext()
        with enable_grad(), as_before(ctx.casting), repeating:
            found = ctx.function(*inputs)
        outputs = (found,) if isinstance(found, Tensor) else tuple(found)
        pairs = [
            (o, g) for o, g in zip(outputs, grads, strict=True) if isinstance(o, Tensor) and o.requires_grad
        ]
        if not pairs:
            raise RuntimeError("none of output has requires_grad=True, this checkpoint() is not necessary")
        backward([o for o, _ in pairs], [g for _, g in pairs])
        return None, None, *(t.grad if isinstance(t, Tensor) else None for t in inputs)
