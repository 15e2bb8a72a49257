"""``torch._foreach_*``: functions of each tensor of a list, one after the other.

PyTorch's run as few kernels on a GPU; here the names are what counts, for programs that update parameters by
them. Those with ``_`` at the end write into the tensors of their first list, and return it.
Source: https://docs.pytorch.org/docs/stable/torch.html#foreach-operations
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jtorch.core.number_ranges import is_number
from jtorch.eager.functions.norms import vector_norm
from jtorch.eager.messages import broadcast_mismatch, long_name
from jtorch.eager.methods import FUNCTIONS as _FUNCTIONS
from jtorch.eager.tensor import Tensor

_UNARY = (
    "abs", "acos", "asin", "atan", "ceil", "cos", "cosh", "erf", "erfc", "exp", "expm1", "floor", "frac",
    "lgamma",
    "log", "log10", "log1p", "log2", "neg", "reciprocal", "round", "rsqrt", "sigmoid", "sign", "sin", "sinh",
    "sqrt", "tan", "tanh", "trunc",
)  # fmt: skip
_BINARY = {
    "add": "add", "sub": "sub", "mul": "mul", "div": "div", "pow": "pow", "maximum": "maximum",
    "minimum": "minimum", "clamp_max": "minimum", "clamp_min": "maximum",
}  # fmt: skip
_BOUNDS = {"maximum": "min", "minimum": "max"}  # the bound of ``clamp`` by a number


def _checked(name: str, tensors: Any) -> list[Tensor]:
    if isinstance(tensors, Tensor) or not isinstance(tensors, (list, tuple)):
        raise TypeError(
            f"{name}(): argument 'self' (position 1) must be tuple of Tensors, not {type(tensors).__name__}"
        )
    if not tensors:
        raise RuntimeError("Tensor list must have at least one tensor.")
    return list(tensors)


def _others(tensors: list[Tensor], other: Any) -> list[Any]:
    """What meets each tensor: one thing for all, or a list of tensors or of numbers."""
    if not isinstance(other, (list, tuple)):
        return [other] * len(tensors)
    if len(other) != len(tensors):
        if other and is_number(other[0]):
            raise RuntimeError("Tensor list must have same number of elements as scalar list.")
        raise RuntimeError(
            f"Tensor lists must have the same number of tensors, got {len(tensors)} and {len(other)}"
        )
    return list(other)


def _in_place(function: Callable, name: str) -> Callable:
    """``function`` with its results written into the tensors of the first list."""

    def written(self: Any, *args: Any, **named: Any) -> Any:
        for tensor, result in zip(_checked(name, self), function(self, *args, **named), strict=True):
            tensor.copy_(_of_dtype(tensor, result, name))
        return self

    return written


def _of_dtype(tensor: Tensor, result: Tensor, name: str) -> Tensor:
    if result.shape != tensor.shape:
        raise RuntimeError(
            f"output with shape {list(tensor.shape)} doesn't match the broadcast shape {list(result.shape)}"
        )
    if result.is_floating_point() and not (tensor.is_floating_point() or tensor.is_complex()):
        raise RuntimeError(
            f"result type {long_name(result._data.dtype)} can't be cast to the desired output type "
            f"{long_name(tensor._data.dtype)}"
        )
    return result


def _unary(name: str) -> Callable:
    function = _FUNCTIONS[name]

    def each(self: Any) -> tuple[Tensor, ...]:
        return tuple(function(t) for t in _checked(f"_foreach_{name}", self))

    return each


def _binary(name: str) -> Callable:
    function, bound = _FUNCTIONS[_BINARY[name]], _BOUNDS.get(_BINARY[name])

    def one(x: Any, y: Any) -> Tensor:
        return x.clamp(**{bound: y}) if bound and not isinstance(y, Tensor) else function(x, y)

    def each(self: Any, other: Any = None, *, alpha: Any = 1, **named: Any) -> tuple[Tensor, ...]:
        for word in ("scalar", "scalars", "tensor", "exponent"):
            other = named.pop(word, other)
        if named:
            raise TypeError(f"_foreach_{name}() got an unexpected keyword argument '{next(iter(named))}'")
        if name == "pow" and is_number(self):
            return tuple(function(self, y) for y in _checked("_foreach_pow", other))
        tensors = _checked(f"_foreach_{name}", self)
        pairs = zip(tensors, _others(tensors, other), strict=True)
        if alpha.__class__ is int and alpha == 1:
            return tuple(one(x, y) for x, y in pairs)
        return tuple(function(x, y, alpha=alpha) for x, y in pairs)

    return each


def _pointwise(name: str) -> Callable:
    function = _FUNCTIONS[name]

    def each(
        self: Any, tensor1: Any, tensor2: Any, scalars: Any = 1, *, value: Any = None
    ) -> tuple[Tensor, ...]:
        tensors = _checked(f"_foreach_{name}", self)
        factors = scalars if value is None else value
        if isinstance(factors, Tensor):
            factors = factors.tolist() if factors.ndim else factors.item()
        rows = zip(tensors, _others(tensors, tensor1), _others(tensors, tensor2), strict=True)
        return tuple(
            function(x, y, z, value=f) for (x, y, z), f in zip(rows, _others(tensors, factors), strict=True)
        )

    return each


def _foreach_lerp(self: Any, tensors1: Any, weight: Any = None, *, weights: Any = None) -> tuple[Tensor, ...]:
    tensors = _checked("_foreach_lerp", self)
    shares = _others(tensors, weight if weights is None else weights)
    rows = zip(tensors, _others(tensors, tensors1), shares, strict=True)
    return tuple(_FUNCTIONS["lerp"](x, end, share) for x, end, share in rows)


def _foreach_norm(self: Any, ord: Any = 2, dtype: Any = None) -> tuple[Tensor, ...]:
    """The ``ord``-norm of all elements of each tensor."""
    return tuple(
        vector_norm(t if dtype is None else t.to(dtype), ord) for t in _checked("_foreach_norm", self)
    )


def _foreach_max(self: Any) -> tuple[Tensor, ...]:
    return tuple(t.max() for t in _checked("_foreach_max", self))


def _foreach_mm(self: Any, mat2: Any) -> tuple[Tensor, ...]:
    tensors = _checked("_foreach_mm", self)
    return tuple(x @ y for x, y in zip(tensors, _others(tensors, mat2), strict=True))


def _foreach_clone(self: Any, *, memory_format: Any = None) -> tuple[Tensor, ...]:
    return tuple(t.clone() for t in _checked("_foreach_clone", self))


def _foreach_zero_(self: Any) -> Any:
    for t in _checked("_foreach_zero_", self):
        t.zero_()
    return self


def _foreach_copy_(self: Any, src: Any, non_blocking: bool = False) -> Any:
    tensors = _checked("_foreach_copy_", self)
    for t, source in zip(tensors, _others(tensors, src), strict=True):
        mismatch = broadcast_mismatch([tuple(t.shape), tuple(source.shape)])
        if mismatch is not None:
            raise RuntimeError(mismatch)
        t.copy_(source)
    return self


def _all() -> dict[str, Callable]:
    found = {
        f.__name__: f
        for f in (
            _foreach_clone, _foreach_copy_, _foreach_lerp, _foreach_max, _foreach_mm, _foreach_norm,
            _foreach_zero_,
        )
    }  # fmt: skip
    changing: dict[str, Callable] = {"_foreach_lerp": _foreach_lerp}
    for names, make in ((_UNARY, _unary), (_BINARY, _binary), (("addcmul", "addcdiv"), _pointwise)):
        changing |= {f"_foreach_{name}": make(name) for name in names}
    found |= changing
    for name, function in changing.items():
        found[f"{name}_"] = _in_place(function, f"{name}_")
    for name, each in found.items():
        each.__name__ = each.__qualname__ = name
    return found


ALL = _all()
globals().update(ALL)


def __getattr__(name: str) -> Any:  # for type checkers: the names above are made from tables
    raise AttributeError(f"jtorch.eager.foreach has no {name!r}")
