"""Weighted sums: ``value`` and ``weight`` are numbers that may change from call to call.

Source: https://docs.pytorch.org/docs/stable/generated/torch.lerp.html
"""

from __future__ import annotations

from jtorch.core import dtypes as dt
from jtorch.core.early import factor_first
from jtorch.core.number_ranges import c_name, check_factor, check_parameters, number_type, whole
from jtorch.core.op import composite


@composite(in_place=True, saved_for={"y": "z", "z": "y"}, autocast={"cuda": "promote"})
def addcmul(xp, x, y, z, value):
    """x + value y z"""
    return x + (y * z if value.__class__ in (int, float) and value == 1 else value * (y * z))


@addcmul.vjp
def _(xp, g, y, z, value, needs):
    scaled = g * value
    return g, scaled * z if needs[1] else None, scaled * y if needs[2] else None, None


@composite(in_place=True, autocast={"cuda": "promote"})
def addcdiv(xp, x, y, z, value):
    """x + value y / z"""
    return x + value * (y / z)


@addcdiv.vjp
def _(xp, g, y, z, value, needs):
    scaled = g * value / z
    return g, scaled if needs[1] else None, -scaled * (y / z) if needs[2] else None, None


@composite(in_place=True, saved_for={"x": "weight", "end": "weight"})
def lerp(xp, x, end, weight):
    """x + weight (end - x), from the nearer end, so that a weight of 1 gives ``end`` itself."""
    step = end - x
    if not hasattr(weight, "dtype"):
        return x + weight * step if weight < 0.5 else end - step * (1.0 - weight)
    return xp.where(xp.lt(weight, 0.5), x + weight * step, end - step * (1.0 - weight))


@lerp.vjp
def _(xp, g, x, end, weight, needs):
    gx = g * (1.0 - weight) if needs[0] else None
    gend = g * weight if needs[1] else None
    return gx, gend, g * (end - x) if needs[2] else None


@lerp.face
def _(input, end, weight):
    dtype = input.dtype.numpy
    if not any_floating(input):
        kernel = "tensor" if hasattr(weight, "dtype") else "scalar"
        raise NotImplementedError(
            f"\"lerp_kernel_{kernel}\" not implemented for '{dt.LONG_NAMES[dtype.name]}'"
        )
    for name, other in (("end", end), ("weight", weight)):
        # a weight without dims counts as a number
        if hasattr(other, "ndim") and other.dtype is not input.dtype and (name == "end" or other.ndim):
            raise RuntimeError(
                f"expected dtype {c_name(dtype)} for `{name}` but got dtype {c_name(other.dtype.numpy)}"
            )
    check_parameters(input, weight)
    return (input, end, weight), {}


@addcmul.face
def _(input, tensor1, tensor2, *early, value=1):
    if early:
        tensor1, tensor2, value = factor_first("addcmul", "value", 3, tensor1, tensor2, *early)
    if value.__class__ is not int or value != 1:
        value = _checked(value, input, tensor1, tensor2)
    return (input, tensor1, tensor2, value), {}


@addcdiv.face
def _(input, tensor1, tensor2, *early, value=1):
    if early:
        tensor1, tensor2, value = factor_first("addcdiv", "value", 3, tensor1, tensor2, *early)
    if not any_floating(tensor1, tensor2):
        raise RuntimeError(
            "Integer division with addcdiv is no longer supported, and in a future  release addcdiv will "
            "perform a true division of tensor1 and tensor2. The historic addcdiv behavior can be "
            "implemented as (input + value * torch.trunc(tensor1 / tensor2)).to(input.dtype) for integer "
            "inputs and as (input + value * tensor1 / tensor2) for float inputs. The future addcdiv "
            "behavior is just the latter implementation: (input + value * tensor1 / tensor2), for all dtypes."
        )
    if value.__class__ is not int or value != 1:
        value = _checked(value, input, tensor1, tensor2)
    return (input, tensor1, tensor2, value), {}


def _checked(value, *tensors):
    """``value`` as a number of the dtype of the result, or PyTorch's error."""
    if hasattr(value, "ndim") or (
        value.__class__ is float and -128 <= value <= 127 and any_floating(*tensors)
    ):
        return value
    target = dt.promote((t.dtype.numpy, t.ndim) for t in tensors if hasattr(t, "ndim"))
    if target.kind == "b":
        raise NotImplementedError("\"addcmul_cpu_out\" not implemented for 'Bool'")
    check_factor(value, target)
    return (
        whole(value) if number_type(value) is float and target.kind in "iu" else value
    )  # as PyTorch takes it


def any_floating(*tensors):
    return not {"f", "V", "c"}.isdisjoint(t.dtype.numpy.kind for t in tensors)
