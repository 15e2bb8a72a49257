"""What a module does to itself and to all modules below: its mode, gradients, dtype, device, memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from jtorch.core import dtypes as dt, watch
from jtorch.core.devices import META, check
from jtorch.eager.public import Tensor, empty_like, zero_gradient
from jtorch.nn import state
from jtorch.nn.tree import Tree


class Changeable(Tree):
    """The part of Module that changes the whole tree."""

    training: bool

    def apply(self, fn: Callable[[Any], Any]) -> Self:
        """Call ``fn`` on every submodule and then on this one: typically to initialise weights."""
        for child in self.children():
            child.apply(fn)
        fn(self)
        return self

    def train(self, mode: bool = True) -> Self:
        """Set the training mode here and below: what Dropout goes by."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for child in self.children():
            child.train(mode)
        return self

    def eval(self) -> Self:
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Freeze or unfreeze every parameter."""
        for p in self.parameters():
            p.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradients of all parameters, or overwrite them with zeros."""
        for p in self.parameters():
            if set_to_none:
                p.grad = None
            elif p.grad is not None:
                zero_gradient(p.grad)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Every parameter, gradient and buffer becomes ``fn`` of itself; parameters stay the same objects."""
        for child in self.children() if recurse else ():
            child._apply(fn)
        for param in self._parameters.values():
            if param is None:
                continue
            gradient = param.grad
            param.data = fn(param.data)
            if gradient is not None:
                param.grad = fn(gradient.detach())
        for name, buffer in self._buffers.items():
            if buffer is not None:
                changed = fn(buffer)
                if changed is not buffer:
                    self._buffers[name] = changed
                    watch.tell(self._buffers)
        return self

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """``to(device)``, ``to(dtype)`` or ``to(tensor)``: floating-point state only changes its dtype.

        Raises TypeError for an integer dtype, RuntimeError for a device this build lacks.
        """
        dtype, device = state.wanted(args, kwargs)
        if dtype is not None and not dtype.is_floating_point:
            raise TypeError(
                f"nn.Module.to only accepts floating point or complex dtypes, but got desired dtype={dtype}"
            )

        def moved(t: Tensor) -> Tensor:
            if t.is_meta and device is not None and check(device) is not META:
                raise NotImplementedError(
                    "Cannot copy out of meta tensor; no data! Please use torch.nn.Module.to_empty() instead "
                    "of torch.nn.Module.to() when moving module from meta to a different device."
                )
            return t.to(device=device, dtype=dtype if t.is_floating_point() else None)

        return self._apply(moved)

    def to_empty(self, *, device: Any, recurse: bool = True) -> Self:
        """Parameters and buffers on ``device`` that hold anything, without a copy: what a module that was
        made on "meta" is to get elements by. ``recurse``: those of all modules below, too.

        Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html
        """
        return self._apply(lambda t: empty_like(t, device=device), recurse=recurse)

    def float(self) -> Self:
        return self.to(dt.float32)

    def double(self) -> Self:
        return self.to(dt.float64)

    def half(self) -> Self:
        return self.to(dt.float16)

    def bfloat16(self) -> Self:
        return self.to(dt.bfloat16)

    def type(self, dst_type: Any) -> Self:
        """All parameters and buffers in ``dst_type``, integers too."""
        return self._apply(lambda t: t.to(dst_type))

    def share_memory(self) -> Self:
        """Move all parameters and buffers to memory that child processes see: ``Tensor.share_memory_``."""
        for tensor in (*self.parameters(), *self.buffers()):
            tensor.share_memory_()
            if tensor.grad is not None:
                tensor.grad.share_memory_()
        return self

    def cpu(self) -> Self:
        return self.to("cpu")

    def cuda(self, device: Any = None) -> Self:
        return self.to("cuda" if device is None else device)
