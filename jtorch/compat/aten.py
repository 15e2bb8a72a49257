"""``torch.ops.aten``: the ops there are, under the names of PyTorch's schemas.

``torch.ops.aten.add.Tensor`` is ``torch.add``. Which overload is named decides nothing, since each function
takes the arguments of all of them; ``self`` may be given by keyword, as the schemas call it.
Source: https://docs.pytorch.org/docs/stable/torch.compiler_ir.html
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jtorch
from jtorch import fft, linalg, special
from jtorch.compat import low_level
from jtorch.eager.public import Tensor
from jtorch.nn import functional as F

# PyTorch's names of overloads, of all ops together
_OVERLOADS = frozenset((
    "Dim", "IntList", "self", "Scalar", "ScalarList", "ScalarOpt_dim", "Scalar_Tensor", "Scalar_mode",
    "Scalar_out",
    "Tensor", "TensorList", "Tensor_Scalar", "Tensor_Tensor", "Tensor_mode", "Tensor_out", "correction",
    "default",
    "dim", "dim_DimnameList", "dim_IntList", "dim_max", "dim_min", "dims", "dim_values", "dtype", "indices",
    "input", "int", "int_out", "list", "other", "out", "self_int", "self_Tensor", "size", "start",
    "start_step",
    "step", "unary_out", "value", "vec", "dtype_layout", "ScalarOpt_dtype", "ScalarOpt_dim_dtype",
    "grad_input",
    "generator", "low", "from", "to", "sections", "decimals", "two_d", "stable", "Int", "mode", "src",
    "value_reduce", "reduce", "names", "padding", "Tensor_indices_or_sections",
))  # fmt: skip


def _of_softmax(function: Callable) -> Callable:
    return lambda x, dim, half_to_float=False: function(x, dim)


def _convolution_backward(
    grad_output: Tensor, input: Tensor, weight: Tensor, bias_sizes: Any, stride: Any, padding: Any,
    dilation: Any, transposed: bool, output_padding: Any, groups: int, output_mask: Any,
) -> tuple[Tensor | None, ...]:  # fmt: skip
    """The gradients of input, weight and bias that the mask asks for, None for the others."""
    bias = weight.new_zeros(bias_sizes) if output_mask[2] else None
    leaves: list[Any] = [t if t is None else t.detach().requires_grad_() for t in (input, weight, bias)]
    with jtorch.enable_grad():
        geometry = (stride, padding, dilation, transposed, output_padding, groups)
        out = low_level.convolution(leaves[0], leaves[1], leaves[2], *geometry)
    wanted = [t for t, is_wanted in zip(leaves, output_mask, strict=True) if is_wanted]
    found = iter(jtorch.autograd.grad(out, wanted, grad_output) if wanted else ())
    return tuple(next(found) if is_wanted else None for is_wanted in output_mask)


_RENAMED: dict[str, Callable] = {
    "convolution_backward": _convolution_backward,
    "_softmax": _of_softmax(jtorch.softmax), "_log_softmax": _of_softmax(jtorch.log_softmax),
    "_to_copy": lambda x, dtype=None, **_: x.clone() if dtype is None else x.to(dtype, copy=True),
    "_unsafe_view": lambda x, size: x.reshape(size), "alias": lambda x: x.view(x.shape),
    "lift_fresh_copy": lambda x: x.clone(),
    "scalar_tensor": lambda value, **named: jtorch.tensor(value, **named),
}  # fmt: skip
_PLACES = (("linalg_", linalg), ("fft_", fft), ("special_", special))


def _function(name: str) -> Callable | None:
    """What computes ``aten::name``; None where there is none."""
    if name in _RENAMED:
        return _RENAMED[name]
    for prefix, module in _PLACES:
        if name.startswith(prefix):
            return getattr(module, name.removeprefix(prefix), None)
    method = None if name.startswith("__") else getattr(Tensor, name, None)
    if name.endswith("_") and callable(method):
        return method
    found = getattr(jtorch, name, None)
    found = vars(F).get(name) if not callable(found) or isinstance(found, type) else found
    return found if callable(found) else (method if callable(method) else None)


class OpOverload:
    """One overload of an op."""

    def __init__(self, packet: OpOverloadPacket, overload: str) -> None:
        self.overloadpacket = packet
        self._overloadname = overload
        self.__name__ = f"{packet.__name__}.{overload}"

    def __call__(self, /, *args: Any, **named: Any) -> Any:
        return self.overloadpacket(*args, **named)

    def name(self) -> str:
        """``aten::add.Tensor``"""
        whole = f"aten::{self.overloadpacket.__name__}"
        return whole if self._overloadname == "default" else f"{whole}.{self._overloadname}"

    def __repr__(self) -> str:
        return f"<OpOverload(op='aten.{self.overloadpacket.__name__}', overload='{self._overloadname}')>"

    def __str__(self) -> str:
        return f"aten.{self.__name__}"


class OpOverloadPacket:
    """An op, with its overloads as attributes."""

    def __init__(self, name: str, function: Callable) -> None:
        self.__name__ = name
        self._function = function

    def __call__(self, /, *args: Any, **named: Any) -> Any:
        if "self" in named:
            args = (named.pop("self"), *args)
        return self._function(*args, **named)

    def __getattr__(self, overload: str) -> OpOverload:
        if overload not in _OVERLOADS:
            raise AttributeError(
                f"The underlying op of 'aten.{self.__name__}' has no overload name '{overload}'"
            )
        made = OpOverload(self, overload)
        setattr(self, overload, made)
        return made

    def __repr__(self) -> str:
        return f"<OpOverloadPacket(op='aten.{self.__name__}')>"

    def __str__(self) -> str:
        return f"aten.{self.__name__}"


def named(name: str) -> OpOverloadPacket:
    """``aten.name``, also of an op that has no function of that name: calling it is refused."""

    def refuse(*args: Any, **options: Any) -> Any:
        raise NotImplementedError(f"torch.ops.aten.{name} is a part of other ops, and no function of its own")

    try:
        return __getattr__(name) if name not in globals() else globals()[name]
    except AttributeError:
        packet = globals()[name] = OpOverloadPacket(name, refuse)
        return packet


def __getattr__(name: str) -> OpOverloadPacket:
    function = None if name.startswith("__") else _function(name)
    if function is None:
        raise AttributeError(f"'_OpNamespace' 'aten' object has no attribute '{name}'")
    packet = globals()[name] = OpOverloadPacket(name, function)
    return packet
