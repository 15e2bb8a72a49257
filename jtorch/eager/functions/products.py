"""Matrix products of all ranks.

Source: https://docs.pytorch.org/docs/stable/torch.html#blas-and-lapack-operations
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

from jtorch.core import dtypes as dt
from jtorch.core.number_ranges import check_number, number_type
from jtorch.core.op import BY_NAME
from jtorch.eager.autocasting import autocasts
from jtorch.eager.binding import APPLY, public_function
from jtorch.eager.functions.joining import _common
from jtorch.eager.inplace import in_place_function
from jtorch.eager.messages import long_name
from jtorch.eager.reflected import answer, is_asked
from jtorch.eager.sixteen_bits import in_float32, is_half
from jtorch.eager.tensor import Tensor
from jtorch.ops import axes as ax
from jtorch.ops.contraction import as_numbers, check_dtypes, check_expands, in_kind

_mm_unchecked = APPLY["mm"]
_mm = public_function(BY_NAME["mm"])
_dot = APPLY["dot"]
_bmm = public_function(BY_NAME["bmm"])


def matmul(input: Tensor, other: Tensor) -> Tensor:
    """Matrix product of vectors, matrices or batches of them, with broadcast batch dims.

    Source: https://docs.pytorch.org/docs/stable/generated/torch.matmul.html
    """
    try:
        x, y = input._data, other._data
    except AttributeError:
        if isinstance(input, Tensor) and is_asked("matmul", other):
            return answer("matmul", input, other)
        if not isinstance(input, Tensor) and hasattr(type(input), "__matmul__"):
            return input @ other
        names = f"{type(input).__name__} and {type(other).__name__}"
        raise TypeError(f"matmul(): expected Tensors, got {names}") from None
    if x.ndim == 2 == y.ndim and x.dtype is y.dtype and x.dtype.kind != "b":
        return _mm_unchecked(input, other)  # the hot case
    n, m = input.ndim, other.ndim
    if n == 0 or m == 0:
        raise RuntimeError(f"both arguments to matmul need to be at least 1D, but they are {n}D and {m}D")
    if n == 2 and m == 2:
        return _mm(input, other)
    if n == 1 and m == 1:
        return _lower_dot(input, other)
    if n == 2 and m == 1:
        return _lower_mv(input, other)
    if n == 1:
        return matmul(input.unsqueeze(0), other).squeeze(-2)
    if m == 1:
        return matmul(input, other.unsqueeze(1)).squeeze(-1)
    if m == 2:
        rows = _mm(input.reshape(math.prod(input.shape[:-1]), input.shape[-1]), other)
        return rows.reshape(*input.shape[:-1], other.shape[-1])
    batch = _common(tuple(input.shape[:-2]), tuple(other.shape[:-2]))
    a = input.expand(*batch, *input.shape[-2:]).reshape(math.prod(batch), *input.shape[-2:])
    b = other.expand(*batch, *other.shape[-2:]).reshape(math.prod(batch), *other.shape[-2:])
    return _bmm(a, b).reshape(*batch, input.shape[-2], other.shape[-1])


# -- vectors ---------------------------------------------------------------------------------------


def _check_vectors(name: str, x: Tensor, y: Tensor) -> None:
    if x.ndim != 1 or y.ndim != 1:
        raise RuntimeError(f"1D tensors expected, but got {x.ndim}D and {y.ndim}D tensors")
    if x.dtype is not y.dtype:
        raise RuntimeError(
            f"{name} : expected both vectors to have same dtype, but found {long_name(x._data.dtype)} and "
            f"{long_name(y._data.dtype)}"
        )
    n, m = x.numel(), y.numel()
    if n != m:
        raise RuntimeError(
            f"inconsistent tensor size, expected tensor [{n}] and src [{m}] to have the same number of "
            f"elements, but got {n} and {m} elements respectively"
        )


@autocasts(cuda="promote")
def dot(input: Tensor, tensor: Tensor) -> Tensor:
    """The inner product of two vectors."""
    _check_vectors("dot", input, tensor)
    if input._data.dtype.kind == "b":
        check_dtypes(input, tensor)
    return _dot(input, tensor)


def vdot(input: Tensor, other: Tensor) -> Tensor:
    """The inner product of two vectors, the first one conjugated where it is complex."""
    return dot(input.conj() if input.is_complex() else input, other)


@autocasts(cpu="as_is", cuda="lower")
def mv(input: Tensor, vec: Tensor) -> Tensor:
    """Matrix times vector."""
    _check_mv(input, vec, 1)
    return _mm(input, vec.unsqueeze(1)).squeeze(1)


# of vectors, autocast lowers what ``matmul`` is asked for alone
_lower_dot, _lower_mv = autocasts("lower")(dot), autocasts("lower")(mv)


def _check_mv(mat: Tensor, vec: Tensor, ndim: int) -> None:
    if mat.ndim != 2 or vec.ndim != 1:
        raise RuntimeError(f"vector + matrix @ vector expected, got {ndim}, {mat.ndim}, {vec.ndim}")
    n, m = mat.shape
    if m != vec.numel():
        raise RuntimeError(f"size mismatch, got input ({n}), mat ({n}x{m}), vec ({vec.numel()})")


def outer(input: Tensor, vec2: Tensor) -> Tensor:
    """All products of the elements of two vectors."""
    for name, t in (("self", input), ("vec2", vec2)):
        if t.ndim != 1:
            raise RuntimeError(f"outer: Expected 1-D argument {name}, but got {t.ndim}-D")
    return input.unsqueeze(1) * vec2.unsqueeze(0)


def ger(input: Tensor, vec2: Tensor) -> Tensor:
    """``outer``"""
    return outer(input, vec2)


def inner(input: Tensor, other: Tensor) -> Tensor:
    """Products summed over the last dims of both; with a number, the product."""
    if not input.ndim or not other.ndim:
        return input * other
    if input.shape[-1] != other.shape[-1]:
        raise RuntimeError(
            f"inner() the last dimension must match on both input tensors but got shapes {list(input.shape)} "
            f"and {list(other.shape)}"
        )
    if input.ndim == 1 == other.ndim:
        return _uncast_tensordot(input, other, ([-1], [-1]))
    return tensordot(input, other, ([-1], [-1]))


# -- products added to something -------------------------------------------------------------------


def _added(function: Callable, input: Tensor, x: Tensor, y: Tensor, beta: Any, alpha: Any) -> Tensor:
    """beta input + alpha function(x, y); what is multiplied by 0 does not matter, NaN included."""
    if is_half(input._data) and input.dtype is x.dtype is y.dtype:
        return in_float32(functools.partial(_added, function), input, x, y, beta, alpha)
    product = function(x, y)
    check_expands(input.shape, tuple(product.shape))
    beta, alpha = in_kind(product, beta), in_kind(product, alpha)
    if function is outer and alpha != 1:  # BLAS leaves out what is multiplied by 0, and this is not its
        product, alpha = product * alpha, 1
    if beta == 0 or alpha == 0:
        return APPLY["weighted"](input, product, beta=beta, alpha=alpha)
    return (product if alpha == 1 else product * alpha) + (input if beta == 1 else input * beta)


def _check_factors(input: Tensor, *factors: Any) -> None:
    """Raise for what the very dtype cannot hold, of 16 bits as well: PyTorch computes these in it."""
    for factor in factors:
        check_number(factor, input._data.dtype)


@autocasts(cpu="as_is", cuda="lower")
def addmv(input: Tensor, mat: Tensor, vec: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta input + alpha mat vec"""
    _check_mv(mat, vec, input.ndim)
    beta, alpha = as_numbers("addmv", beta=beta, alpha=alpha)
    _check_factors(input, beta, alpha)
    return _added(mv, input, mat, vec, beta, alpha)


@autocasts(cuda="lower")
def addr(input: Tensor, vec1: Tensor, vec2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta input + alpha (all products of vec1 and vec2)"""
    for name, t in (("vec1", vec1), ("vec2", vec2)):
        if t.ndim != 1:
            raise RuntimeError(f"addr: Expected 1-D argument {name}, but got {t.ndim}-D")
    beta, alpha = as_numbers("addr", beta=beta, alpha=alpha)
    tensors = (input, vec1, vec2)
    target = dt.of(dt.promote((t._data.dtype, t._data.ndim) for t in tensors))
    if not (target.is_floating_point or target.is_complex):
        for name, factor in (("beta", beta), ("alpha", alpha)):
            if number_type(factor) is float:
                raise RuntimeError(
                    f"For integral input tensors, argument {name} must not be a floating point number."
                )
    for name, factor in (("beta", beta), ("alpha", alpha)):
        if number_type(factor) is bool and target is not dt.bool_:
            raise RuntimeError(f"Boolean {name} only supported for Boolean results.")
    input, vec1, vec2 = (t.to(target) for t in tensors)
    _check_factors(input, beta, alpha)
    if target is dt.bool_:
        beta, alpha = bool(beta), bool(alpha)
    return _added(outer, input, vec1, vec2, beta, alpha)


@autocasts("lower")
def baddbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta input + alpha batch1 @ batch2, for batches of matrices"""
    beta, alpha = as_numbers("baddbmm", beta=beta, alpha=alpha)
    return _added(_bmm, input, batch1, batch2, beta, alpha)


@autocasts("lower")
def addbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta input + alpha (batch1 @ batch2 summed over the batch)"""
    if batch1.ndim == 3 == batch2.ndim and batch1.shape[2] != batch2.shape[1]:
        (_, a, b), (_, c, d) = batch1.shape, batch2.shape
        raise RuntimeError(f"Incompatible matrix sizes for bmm ({a}x{b} and {c}x{d})")
    beta, alpha = as_numbers("addbmm", beta=beta, alpha=alpha)
    return _added(_summed_bmm, input, batch1, batch2, beta, alpha)


def _summed_bmm(batch1: Tensor, batch2: Tensor) -> Tensor:
    return _bmm(batch1, batch2).sum(0)


# -- other contractions ----------------------------------------------------------------------------


@autocasts(cuda="promote")
def tensordot(a: Tensor, b: Tensor, dims: Any = 2) -> Tensor:
    """Products summed over ``dims``: a pair of lists, or how many last dims of ``a`` and first of ``b``."""
    if isinstance(dims, Tensor):
        dims = dims.tolist()
    if isinstance(dims, int):
        if dims < 0:
            raise RuntimeError(f"tensordot expects dims >= 0, but got dims={dims}")
        if dims > min(a.ndim, b.ndim):
            raise RuntimeError(f"tensordot expects dims < ndim_a or ndim_b, but got dims={dims}")
        left, right = list(range(-dims, 0)), list(range(dims))
    else:
        left, right = (list(d) if isinstance(d, (list, tuple)) else [d] for d in dims)
    if len(left) != len(right):
        raise RuntimeError("both dimension lists should have same length")
    for k, m in zip(left, right, strict=True):
        n, other = a.shape[ax.one(k, a.ndim)], b.shape[ax.one(m, b.ndim)]
        if n != other and 1 not in (n, other):
            raise RuntimeError(
                f"contracted dimensions need to match, but first has size {n} in dim {k} and second has size "
                f"{other} in dim {m}"
            )
    return _contracted(a, b, [ax.one(k, a.ndim) for k in left], [ax.one(k, b.ndim) for k in right])


_uncast_tensordot = autocasts(cpu="as_is", cuda="promote")(tensordot)


def _contracted(a: Tensor, b: Tensor, left: list[int], right: list[int]) -> Tensor:
    for k, m in zip(left, right, strict=True):  # one of them has size 1: sum over the other alone
        if a.shape[k] != b.shape[m]:
            a, b = (a.sum(k, keepdim=True), b) if b.shape[m] == 1 else (a, b.sum(m, keepdim=True))
    free_a = [k for k in range(a.ndim) if k not in left]
    free_b = [k for k in range(b.ndim) if k not in right]
    inside = math.prod(a.shape[k] for k in left)
    shape_a, shape_b = [a.shape[k] for k in free_a], [b.shape[k] for k in free_b]
    rows = a.permute(*free_a, *left) if a.ndim else a
    columns = b.permute(*right, *free_b) if b.ndim else b
    rows = rows.reshape(math.prod(shape_a), inside)
    return _mm(rows, columns.reshape(inside, math.prod(shape_b))).reshape(*shape_a, *shape_b)


def kron(input: Tensor, other: Tensor) -> Tensor:
    """The Kronecker product: each element of ``input`` replaced by it times ``other``."""
    n = max(input.ndim, other.ndim)
    a, b = ((1,) * (n - t.ndim) + tuple(t.shape) for t in (input, other))
    x = input.reshape([m for k in a for m in (k, 1)])
    y = other.reshape([m for k in b for m in (1, k)])
    return (x * y).reshape([k * m for k, m in zip(a, b, strict=True)])


def cross_along(input: Tensor, other: Tensor, dim: int) -> Tensor:
    """The cross product along ``dim``, of size 3; other dims broadcast."""
    if input.ndim != other.ndim:
        raise RuntimeError("linalg.cross: inputs must have the same number of dimensions.")
    axis = ax.one(dim, input.ndim)
    if input.shape[axis] != 3 or other.shape[axis] != 3:
        raise RuntimeError(
            f"linalg.cross: inputs dimension {dim} must have length 3. Got {input.shape[axis]} and "
            f"{other.shape[axis]}"
        )
    return input.roll(-1, axis) * other.roll(1, axis) - input.roll(1, axis) * other.roll(-1, axis)


@autocasts(cuda="promote")
def cross(input: Tensor, other: Tensor, dim: int | None = None) -> Tensor:
    """The cross product along ``dim``, by default the first dim of size 3."""
    if dim is None:
        shape = _common(tuple(input.shape), tuple(other.shape))
        if 3 not in shape:
            raise RuntimeError("no dimension of size 3 in input")
        dim = shape.index(3)
    return cross_along(input, other, dim)


@autocasts(cpu="float32", cuda="as_is")
def trace(input: Tensor) -> Tensor:
    """The sum of the diagonal of a matrix."""
    if input.ndim != 2:
        raise RuntimeError(f"trace: expected a matrix, but got tensor with dim {input.ndim}")
    return input.diagonal().sum()


# -- chains ----------------------------------------------------------------------------------------


def multi_dot(tensors: Sequence[Tensor]) -> Tensor:
    """The product of a chain of matrices in the cheapest order; the ends may be vectors.

    Source: T. Cormen et al., "Introduction to Algorithms", 15.2
    """
    tensors = list(tensors)
    if len(tensors) < 2:
        raise RuntimeError(f"multi_dot(): expected at least 2 tensors but got {len(tensors)}")
    first, last = tensors[0].ndim == 1, tensors[-1].ndim == 1
    if first:
        tensors[0] = tensors[0].unsqueeze(0)
    if last:
        tensors[-1] = tensors[-1].unsqueeze(1)
    for k, t in enumerate(tensors):
        if t.ndim != 2:
            ends = {0: "the first tensor must be 1D or", len(tensors) - 1: "the last tensor must be 1D or"}
            raise RuntimeError(f"multi_dot(): {ends.get(k, f'tensor {k} must be')} 2D but got {t.ndim}D")
    for k in range(len(tensors) - 1):
        if tensors[k].shape[1] != tensors[k + 1].shape[0]:
            raise RuntimeError(
                f"multi_dot(): tensors {k} and {k + 1} with shapes {list(tensors[k].shape)} and "
                f"{list(tensors[k + 1].shape)} cannot be multiplied"
            )
    out = _chained(tensors, _best_splits([t.shape[0] for t in tensors] + [tensors[-1].shape[1]]))
    if first or last:
        out = out.reshape([n for n, drop in zip(out.shape, (first, last), strict=True) if not drop])
    return out


def _best_splits(sizes: list[int]) -> dict[tuple[int, int], int]:
    """Where to cut the chain from matrix i to j, for all i < j."""
    n = len(sizes) - 1
    cost = {(i, i): 0 for i in range(n)}
    cut: dict[tuple[int, int], int] = {}
    for width in range(1, n):
        for i in range(n - width):
            j = i + width
            choices = [
                (cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k) for k in range(i, j)
            ]
            cost[i, j], cut[i, j] = min(choices)
    return cut


def _chained(tensors: list[Tensor], cut: dict, i: int = 0, j: int | None = None) -> Tensor:
    j = len(tensors) - 1 if j is None else j
    if i == j:
        return tensors[i]
    k = cut[i, j]
    return _mm(_chained(tensors, cut, i, k), _chained(tensors, cut, k + 1, j))


@autocasts("lower")
def chain_matmul(*matrices: Tensor) -> Tensor:
    """``linalg.multi_dot`` of matrices; of one alone a copy."""
    return APPLY["clone"](matrices[0]) if len(matrices) == 1 else multi_dot(matrices)


FUNCTIONS: dict[str, Callable] = {
    f.__name__: f
    for f in (
        matmul, dot, vdot, mv, outer, ger, inner, addmv, addr, baddbmm, addbmm, tensordot, kron, cross, trace,
        chain_matmul,
    )
}  # fmt: skip
METHODS: dict[str, Any] = {k: f for k, f in FUNCTIONS.items() if k not in ("tensordot", "chain_matmul")}
METHODS |= {f"{k}_": in_place_function(FUNCTIONS[k]) for k in ("addmv", "addr", "baddbmm", "addbmm")}
