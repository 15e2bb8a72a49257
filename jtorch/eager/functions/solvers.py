"""Inverses, determinants, triangular and least-squares systems: ``torch.linalg``, first half.

Source: https://docs.pytorch.org/docs/stable/linalg.html
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from jtorch.core import op as op_module, return_types
from jtorch.core.dtypes import int32, int64
from jtorch.core.errors import LinAlgError
from jtorch.eager.autocasting import autocasts
from jtorch.eager.binding import APPLY
from jtorch.eager.functions.joining import _common
from jtorch.eager.functions.places import positions
from jtorch.eager.functions.products import matmul
from jtorch.eager.messages import long_name
from jtorch.eager.tensor import Tensor, _concrete, wrap


def long_of(tensor: Tensor) -> str:
    return long_name(tensor._data.dtype)


def check_matrices(name: str, A: Tensor, square: bool = True, dtype: str | None = None) -> None:
    """Raise PyTorch's errors for what is no batch of (square) matrices of floats or complex numbers.

    ``dtype`` says how a wrong dtype is told: None as a sentence, else as the kernel that is missing.
    """
    if A.ndim < 2:
        raise RuntimeError(f"{name}: The input tensor A must have at least 2 dimensions.")
    if square and A.shape[-2] != A.shape[-1]:
        raise RuntimeError(
            f"{name}: A must be batches of square matrices, but they are {A.shape[-2]} by {A.shape[-1]} "
            "matrices"
        )
    check_floats(name, A, dtype)


def check_floats(name: str, A: Tensor, dtype: str | None = None) -> None:
    if A.is_complex():
        return
    if not A.is_floating_point():
        if dtype is not None:
            raise NotImplementedError(f"\"{dtype}\" not implemented for '{long_of(A)}'")
        raise RuntimeError(f"{name}: Expected a floating point or complex tensor as input. Got {long_of(A)}")
    if A.element_size() < 4:
        if dtype is not None:
            raise NotImplementedError(f"\"{dtype}\" not implemented for '{long_of(A)}'")
        raise RuntimeError(f"{name}: Low precision dtypes not supported. Got {long_of(A)}")


@autocasts(cpu="float32")
def inv(A: Tensor) -> Tensor:
    """The inverses of (..., n, n). Raises LinAlgError for a singular matrix."""
    check_matrices("linalg.inv", A)
    return APPLY["inv"](A)


@autocasts(cpu="float32")
def inverse(input: Tensor) -> Tensor:
    """``linalg.inv``"""
    return inv(input)


def _checked(name: str, function: Callable, A: Tensor, *others: Tensor, **options: bool) -> tuple:
    """(the result of ``function``, info of zeros); its error is told as that of ``name``."""
    try:
        found = function(A, *others, **options)
    except LinAlgError as error:
        raise LinAlgError(str(error).replace(name.removesuffix("_ex"), name, 1)) from None
    xp = op_module.CONTEXT.get().xp
    return found, wrap(xp.full(0, shape=tuple(A.shape[:-2]), dtype=int32.numpy))


@autocasts(cpu="float32")
def inv_ex(A: Tensor, *, check_errors: bool = False) -> Any:
    """(inverse, info): info is 0 where all went well, else which pivot is zero, from 1 on. A singular matrix
    is an error only with ``check_errors``."""
    if check_errors:
        return return_types.linalg_inv_ex(*_checked("linalg.inv_ex", inv, A))
    check_matrices("linalg.inv", A)
    return return_types.linalg_inv_ex(*APPLY["inv_ex"](A))


def det(input: Tensor) -> Tensor:
    """The determinants of (..., n, n)."""
    check_matrices("linalg.det", input, dtype="lu_cpu" if input.is_floating_point() else None)
    return APPLY["det"](input)


def slogdet(input: Tensor) -> Any:
    """(sign, logabsdet) of the determinants of (..., n, n)."""
    check_matrices("linalg.slogdet", input)
    return return_types.linalg_slogdet(*APPLY["slogdet"](input))


def logdet(input: Tensor) -> Tensor:
    """The logarithm of the determinant: -inf where it is 0, NaN where it is negative; of complex matrices its
    principal value."""
    check_matrices("logdet", input)
    sign, value = APPLY["slogdet"](input)
    if input.is_complex():
        return APPLY["log"](sign) + value
    return APPLY["where"](APPLY["lt"](sign, 0), math.nan, value)


@autocasts(cpu="float32")
def solve(A: Tensor, B: Tensor, *, left: bool = True) -> Tensor:
    """X with A X = B (X A = B unless ``left``); B is (..., n, k), or (..., n) for vectors.

    Raises LinAlgError for a singular matrix.
    """
    A, X, vectors = _equations(A, B, left)
    return _as_given(APPLY["solve"](A, X), left, vectors)


def _equations(A: Tensor, B: Tensor, left: bool) -> tuple[Tensor, Tensor, bool]:
    """(A, X, whether B holds vectors) as ``APPLY["solve"]`` takes them."""
    check_matrices("linalg.solve", A, dtype=None)
    if A.dtype is not B.dtype:
        raise RuntimeError(
            f"linalg.solve: Expected A and B to have the same dtype, but found A of type {long_of(A)} and B "
            f"of type {long_of(B)} instead"
        )
    vectors = B.ndim == 1 or (A.ndim - 1 == B.ndim and tuple(B.shape) == tuple(A.shape[:-1]))
    if vectors and not left:
        raise RuntimeError(
            "linalg.solve: Vector broadcasting of the left hand side is not supported for left=False. In "
            "this case linalg.solve is equivalent to B / A.squeeze(-1)"
        )
    X = B.unsqueeze(-1) if vectors else B
    return *_batched("linalg.solve", *((A, X) if left else (A.mT, X.mT))), vectors


def _as_given(solution: Tensor, left: bool, vectors: bool) -> Tensor:
    """The solution in the form that B had."""
    if vectors:
        return solution.squeeze(-1)
    return solution if left else solution.mT


def _batched(name: str, A: Tensor, B: Tensor) -> tuple[Tensor, Tensor]:
    """Both with equal batch dims. Raises where their rows don't match."""
    if A.shape[-2] != B.shape[-2]:
        raise RuntimeError(
            f"{name}: Incompatible shapes of A and B for the equation AX = B ({A.shape[-2]}x{A.shape[-1]} "
            f"and {B.shape[-2]}x{B.shape[-1]})"
        )
    if A.shape[:-2] == B.shape[:-2]:
        return A, B
    batch = _common(tuple(A.shape[:-2]), tuple(B.shape[:-2]))
    return A.expand(*batch, *A.shape[-2:]), B.expand(*batch, *B.shape[-2:])


def solve_ex(A: Tensor, B: Tensor, *, left: bool = True, check_errors: bool = False) -> Any:
    """(result, info), see ``inv_ex``."""
    if check_errors:
        return return_types.linalg_solve_ex(*_checked("linalg.solve_ex", solve, A, B, left=left))
    A, X, vectors = _equations(A, B, left)
    found, info = APPLY["solve_ex"](A, X)
    return return_types.linalg_solve_ex(_as_given(found, left, vectors), info)


def solve_triangular(
    A: Tensor, B: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Tensor:
    """X with A X = B (X A = B unless ``left``) for triangular A; the other triangle is not read."""
    check_matrices("linalg.solve_triangular", A, dtype="triangular_solve_cpu")
    if B.ndim < 2:
        raise RuntimeError("linalg.solve_triangular: The input tensor B must have at least 2 dimensions.")
    if A.dtype is not B.dtype:
        raise RuntimeError(
            "linalg.solve_triangular: Expected A and B to have the same dtype, but found A of type "
            f"{long_of(A)} and B of type {long_of(B)} instead"
        )
    if not left:
        return solve_triangular(A.mT, B.mT, upper=not upper, unitriangular=unitriangular).mT
    A, B = _batched("linalg.solve_triangular", A, B)
    return APPLY["triangular_solve"](A, B, lower=not upper, unit=unitriangular)


# -- Cholesky --------------------------------------------------------------------------------------


@autocasts(cpu="float32")
def cholesky(A: Tensor, *, upper: bool = False) -> Tensor:
    """L with A = L L^H for Hermitian positive-definite (..., n, n); its conjugate transpose if ``upper``.

    Raises LinAlgError where A is not positive-definite.
    """
    L = APPLY["cholesky"](_lower(A, upper))
    return L.mH if upper else L


def _lower(A: Tensor, upper: bool) -> Tensor:
    """``A`` with what is to be read of it in its lower triangles."""
    check_matrices("linalg.cholesky", A, dtype="cholesky_cpu" if A.is_floating_point() else None)
    return A.mH if upper else A


@autocasts(cpu="float32")
def cholesky_old(input: Tensor, upper: bool = False) -> Tensor:
    """``linalg.cholesky`` under its old name in the module ``torch``."""
    check_matrices("cholesky", input, dtype="cholesky_cpu")
    try:
        return cholesky(input, upper=upper)
    except LinAlgError as error:
        raise LinAlgError(str(error).removeprefix("linalg.")) from None


@autocasts(cpu="float32")
def cholesky_ex(A: Tensor, *, upper: bool = False, check_errors: bool = False) -> Any:
    """(L, info): info is 0 where all went well, else the order of a leading minor that is not positive: L
    is unfinished there. It is an error only with ``check_errors``."""
    if check_errors:
        return return_types.linalg_cholesky_ex(*_checked("linalg.cholesky_ex", cholesky, A, upper=upper))
    L, info = APPLY["cholesky_ex"](_lower(A, upper))
    return return_types.linalg_cholesky_ex(L.mH if upper else L, info)


@autocasts(cpu="float32")
def cholesky_solve(input: Tensor, input2: Tensor, upper: bool = False) -> Tensor:
    """X with A X = ``input``, given the Cholesky factor of A."""
    L = input2
    if input.ndim < 2 or L.ndim < 2:
        which = "b" if input.ndim < 2 else "u"
        raise RuntimeError(
            f"{which} should have at least 2 dimensions, but has {min(input.ndim, L.ndim)} dimensions instead"
        )
    lower = L.mH if upper else L
    check_matrices("cholesky_solve", L, dtype="cholesky_solve_cpu")
    lower, input = _batched("cholesky_solve", lower, input)
    return APPLY["cholesky_solve"](input, lower)


@autocasts(cpu="float32")
def cholesky_inverse(input: Tensor, upper: bool = False) -> Tensor:
    """The inverse of A, given its Cholesky factor."""
    check_matrices("cholesky_inverse", input)
    return cholesky_solve(_identity(input), input, upper)


def _identity(like: Tensor) -> Tensor:
    """Ones on the diagonal, in the shape of ``like``."""
    n = like.ndim
    same = APPLY["eq"](positions(like.shape, n - 2), positions(like.shape, n - 1))
    return same.to(like.device, like.dtype)


# -- LU --------------------------------------------------------------------------------------------


def lu_factor(A: Tensor, *, pivot: bool = True) -> Any:
    """(L and U in one matrix, the rows exchanged at each step, from 1 on). Raises RuntimeError for a singular
    matrix."""
    return return_types.linalg_lu_factor(*_factors(A, pivot, checked=True))


def _factors(A: Tensor, pivot: bool, checked: bool) -> tuple[Tensor, Tensor]:
    if A.ndim < 2:
        raise RuntimeError(
            f"torch.lu_factor: Expected tensor with 2 or more dimensions. Got size: {list(A.shape)} instead"
        )
    check_floats("torch.lu_factor", A, "lu_cpu")
    if not pivot:
        raise RuntimeError("linalg.lu_factor: LU without pivoting is not implemented on the CPU")
    found: tuple[Tensor, Tensor] = APPLY["lu_factor"](A, checked=checked)
    return found


def lu(A: Tensor, *, pivot: bool = True) -> Any:
    """(P, L, U) with A = P L U."""
    return return_types.linalg_lu(*lu_parts(*_factors(A, pivot, checked=False)))


def lu_parts(LU: Tensor, pivots: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(P, L, U) of what ``lu_factor`` gives."""
    m, n = LU.shape[-2:]
    k = min(m, n)
    L = LU[..., :, :k].tril(-1)
    L = L + _identity(L)
    U = LU[..., :k, :].triu()
    order = APPLY["row_order"](pivots, n=m)
    shape = (*LU.shape[:-1], m)
    P = APPLY["eq"](positions(shape, len(shape) - 2), order.unsqueeze(-2).expand(*shape)).to(LU.dtype)
    return P, L, U


def lu_solve(LU: Tensor, pivots: Tensor, B: Tensor, *, left: bool = True, adjoint: bool = False) -> Tensor:
    """X with A X = B (X A = B unless ``left``; A^H for A where ``adjoint``), given ``lu_factor(A)``."""
    if not left:
        return lu_solve(LU, pivots, B.mH, adjoint=not adjoint).mH
    check_matrices("torch.linalg.lu_solve", LU)
    order = APPLY["row_order"](pivots, n=LU.shape[-1])
    LU, B = _batched("torch.linalg.lu_solve", LU, B)
    if adjoint:
        inner = solve_triangular(LU.mH, B, upper=False)
        inner = solve_triangular(LU.mH, inner, upper=True, unitriangular=True)
        order = order.argsort(-1).unsqueeze(-1).expand(*B.shape)
        return APPLY["gather"](inner, order, axis=B.ndim - 2)
    order = order.unsqueeze(-1).expand(*B.shape)
    moved = APPLY["gather"](B, order, axis=B.ndim - 2)
    inner = solve_triangular(LU, moved, upper=False, unitriangular=True)
    return solve_triangular(LU, inner, upper=True)


# -- least squares ---------------------------------------------------------------------------------


@autocasts(cpu="float32", cuda="as_is")
def lstsq(A: Tensor, B: Tensor, rcond: Any = None, *, driver: str | None = None) -> Any:
    """(solution, residuals, rank, singular_values) of min |A X - B|, the X of smallest norm.

    All drivers go through the singular values; ``residuals`` are there for tall matrices of full rank, unless
    the driver is "gelsy", the default.
    """
    check_matrices("torch.linalg.lstsq", A, square=False)
    if driver not in (None, "gels", "gelsy", "gelsd", "gelss"):
        raise RuntimeError(
            "torch.linalg.lstsq: parameter `driver` should be one of (gels, gelsy, gelsd, gelss)"
        )
    driver = driver or "gelsy"
    vectors = A.ndim - 1 == B.ndim and tuple(B.shape) == tuple(A.shape[:-1])
    X = B.unsqueeze(-1) if vectors else B
    if A.shape[-2] != X.shape[-2]:
        raise RuntimeError("torch.linalg.lstsq: input.size(-2) should match other.size(-2)")
    m, n = A.shape[-2:]
    if rcond is None:
        rcond = float(np.finfo(A._data.dtype).eps) * max(m, n)
    solution = matmul(APPLY["pinv"](A, 0.0, rcond, hermitian=False), X)
    values = APPLY["svdvals"](A.detach())
    empty = wrap(op_module.CONTEXT.get().xp.full(0.0, shape=(0,), dtype=values._data.dtype))
    rank = APPLY["gt"](values, values[..., :1] * rcond).sum(-1)
    residuals = empty
    if m > n and driver != "gelsy" and (_concrete(rank, "linalg.lstsq()") == n).all():
        rest = matmul(A, solution) - X
        residuals = ((rest.abs() if rest.is_complex() else rest) ** 2).sum(-2)
    shown = values if driver in ("gelsd", "gelss") else empty
    ranks = wrap(np.zeros((0,), np.int64)) if driver == "gels" else rank.to(int64)
    return return_types.linalg_lstsq(solution.squeeze(-1) if vectors else solution, residuals, ranks, shown)


FUNCTIONS: dict[str, Callable] = {
    f.__name__: f for f in (inverse, det, logdet, slogdet, cholesky_solve, cholesky_inverse)
} | {"cholesky": cholesky_old}
METHODS: dict[str, Any] = dict(FUNCTIONS)
