"""Factors of matrices as LAPACK keeps them, and what multiplies and solves by them.

Source: https://docs.pytorch.org/docs/stable/linalg.html
"""

from __future__ import annotations

from typing import Any

from jtorch.core import return_types
from jtorch.core.dtypes import int32
from jtorch.eager.binding import APPLY, accepting
from jtorch.eager.functions.solvers import (
    _batched,
    _factors,
    _identity,
    check_floats,
    check_matrices,
    long_of,
    lu_parts,
    lu_solve,
    solve_triangular,
)
from jtorch.eager.tensor import Tensor

# -- LU ------------------------------------------------------------------------------------------------------


def lu_factor_ex(A: Tensor, *, pivot: bool = True, check_errors: bool = False) -> Any:
    """(LU, pivots, info): info is 0, or which diagonal element of U is the first to be zero, from 1 on. That
    is
    an error only with ``check_errors``."""
    try:
        LU, pivots = _factors(A, pivot, checked=check_errors)
    except RuntimeError as error:
        raise type(error)(
            str(error).replace("torch.linalg.lu_factor:", "torch.linalg.lu_factor_ex:")
        ) from None
    zero = APPLY["eq"](LU.detach().diagonal(0, -2, -1), 0)
    if not zero.shape[-1]:
        return return_types.linalg_lu_factor_ex(LU, pivots, zero.sum(-1).to(int32))
    first = zero.int().argmax(-1) + 1
    return return_types.linalg_lu_factor_ex(LU, pivots, APPLY["where"](zero.any(-1), first, 0).to(int32))


@accepting
def lu_unpack(
    LU_data: Tensor, LU_pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True
) -> Any:
    """(P, L, U) of what ``lu_factor`` gives; what is not asked for is empty.

    >>> import jtorch
    >>> LU, pivots = jtorch.linalg.lu_factor(jtorch.tensor([[2.0, 1.0], [4.0, 0.0]]))
    >>> P, L, U = jtorch.lu_unpack(LU, pivots)
    >>> L, U
    (tensor([[1.0000, 0.0000],
            [0.5000, 1.0000]]), tensor([[4., 0.],
            [0., 1.]]))
    """
    if unpack_pivots and LU_pivots.dtype is not int32:
        raise RuntimeError(
            "torch.lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 dtype.\nNote: "
            "this "
            "function is intended to be used with the output produced by torch.linalg.lu_factor"
        )
    P, L, U = lu_parts(LU_data, LU_pivots)
    empty = LU_data.new_zeros(0)
    parts = (L, U) if unpack_data else (empty, empty)
    return return_types.lu_unpack(P if unpack_pivots else empty, *parts)


@accepting
def lu_solve_old(input: Tensor, LU_data: Tensor, LU_pivots: Tensor) -> Tensor:
    """``linalg.lu_solve`` under its old name in the module ``torch``.

    >>> import jtorch
    >>> LU, pivots = jtorch.linalg.lu_factor(jtorch.tensor([[2.0, 0.0], [0.0, 4.0]]))
    >>> jtorch.lu_solve(jtorch.tensor([[2.0], [8.0]]), LU, pivots)
    tensor([[1.],
            [2.]])
    """
    return lu_solve(LU_data, LU_pivots, input)


@accepting
def lu_old(A: Tensor, pivot: bool = True, get_infos: bool = False) -> Any:
    """(LU, pivots), with info where ``get_infos``: ``linalg.lu_factor`` under its old name.

    >>> import jtorch
    >>> LU, pivots = jtorch.lu(jtorch.tensor([[2.0, 1.0], [4.0, 0.0]]))
    >>> LU, pivots.tolist()
    (tensor([[4.0000, 0.0000],
            [0.5000, 1.0000]]), [2, 2])
    """
    LU, pivots, info = lu_factor_ex(A, pivot=pivot)
    return (LU, pivots, info) if get_infos else (LU, pivots)


@accepting
def triangular_solve(
    input: Tensor, A: Tensor, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> Any:
    """(solution, A): ``linalg.solve_triangular`` under its old name in the module ``torch``.

    >>> import jtorch
    >>> A = jtorch.tensor([[1.0, 0.0], [1.0, 1.0]])
    >>> x, _ = jtorch.triangular_solve(jtorch.tensor([[2.0], [5.0]]), A, upper=False)
    >>> x
    tensor([[2.],
            [3.]])
    """
    turned = A.mT if transpose else A
    found = solve_triangular(turned, input, upper=bool(upper) != bool(transpose), unitriangular=unitriangular)
    return return_types.triangular_solve(found, A.clone())


# -- symmetric matrices --------------------------------------------------------------------------------------


def ldl_factor(A: Tensor, *, hermitian: bool = False) -> Any:
    """(LD, pivots) with A = L D L^T, L^H for L^T where ``hermitian``, up to exchanges of rows: L below the
    diagonal, blocks of one or two rows of D on it. Only the lower triangle is read, and no gradient follows.
    Raises RuntimeError where D is singular."""
    LD, pivots, _ = _ldl(A, hermitian, True)
    return return_types.linalg_ldl_factor(LD, pivots)


def ldl_factor_ex(A: Tensor, *, hermitian: bool = False, check_errors: bool = False) -> Any:
    """(LD, pivots, info): info is 0, or which block of D is the first to be zero, from 1 on. That is an error
    only with ``check_errors``."""
    return return_types.linalg_ldl_factor_ex(*_ldl(A, hermitian, check_errors))


def _ldl(A: Tensor, hermitian: bool, checked: bool) -> tuple[Tensor, Tensor, Tensor]:
    if A.ndim < 2 or A.shape[-2] != A.shape[-1]:
        check_matrices("torch.linalg.ldl_factor_ex", A)
    if not (A.is_floating_point() or A.is_complex()):
        raise RuntimeError(
            "torch.linalg.ldl_factor_ex: Expected a floating point or complex tensor as input. Got "
            f"{long_of(A)}"
        )
    check_floats("torch.linalg.ldl_factor_ex", A, "ldl_factor_cpu")
    found: tuple[Tensor, Tensor, Tensor] = APPLY["ldl_factor"](A, hermitian=bool(hermitian), checked=checked)
    return found


def ldl_solve(LD: Tensor, pivots: Tensor, B: Tensor, *, hermitian: bool = False) -> Tensor:
    """X with A X = B, given ``ldl_factor(A)``."""
    name = "torch.linalg.ldl_solve"
    if LD.ndim < 2 or LD.shape[-2] != LD.shape[-1]:
        check_matrices(name, LD)
    if B.ndim < 2:
        raise RuntimeError(
            f"{name}: Expected B to have at least 2 dimensions, but it has {B.ndim} dimensions instead"
        )
    if tuple(pivots.shape) != tuple(LD.shape[:-1]):
        raise RuntimeError(
            f"{name}: Expected LD.shape[:-1] and pivots.shape to be the same, but got pivots with shape "
            f"{list(pivots.shape)} instead"
        )
    if pivots.is_floating_point() or pivots.is_complex():
        raise RuntimeError(f"{name}: Expected pivots to be integers. Got {long_of(pivots)}")
    if LD.dtype is not B.dtype:
        raise RuntimeError(
            f"Expected b and A to have the same dtype, but found b of type {long_of(B)} and A of type "
            f"{long_of(LD)} instead."
        )
    if LD.shape[-2] != B.shape[-2]:
        raise RuntimeError(
            f"Incompatible matrix sizes for {name}: each A matrix is {LD.shape[-2]} by {LD.shape[-1]} but "
            f"each b "
            f"matrix is {B.shape[-2]} by {B.shape[-1]}"
        )
    LD, B = _batched(name, LD.detach(), B)
    return APPLY["ldl_solve"](LD, pivots.expand(*LD.shape[:-1]), B, hermitian=bool(hermitian))


# -- reflections ---------------------------------------------------------------------------------------------


@accepting
def geqrf(input: Tensor) -> Any:
    """(a, tau): R, and below it the reflections whose product is Q, see ``linalg.householder_product``. No
    gradient follows; ``linalg.qr`` has one.

    >>> import jtorch
    >>> a, tau = jtorch.geqrf(jtorch.tensor([[3.0], [4.0]]))
    >>> a[0].abs()
    tensor([5.])
    """
    if input.ndim < 2:
        raise RuntimeError("torch.geqrf: input must have at least 2 dimensions.")
    check_floats("torch.geqrf", input, "geqrf_cpu")
    return return_types.geqrf(*APPLY["geqrf"](input))


def householder_product(input: Tensor, tau: Tensor) -> Tensor:
    """The first n columns of H_1 H_2 ... H_k of (..., m, n) and (..., k), with H_i = 1 - tau_i v_i v_i^H and
    v_i the i-th column of ``input`` below its diagonal, with a 1 on it."""
    name = "torch.linalg.householder_product"
    if input.ndim < 2:
        raise RuntimeError(f"{name}: input must have at least 2 dimensions.")
    if input.shape[-2] < input.shape[-1]:
        raise RuntimeError(f"{name}: input.shape[-2] must be greater than or equal to input.shape[-1]")
    if input.shape[-1] < tau.shape[-1]:
        raise RuntimeError(f"{name}: input.shape[-1] must be greater than or equal to tau.shape[-1]")
    _check_tau(name, input, tau)
    if tau.dtype is not input.dtype:
        raise RuntimeError(f"{name}: tau dtype {long_of(tau)} does not match input dtype {long_of(input)}")
    check_floats(name, input, "orgqr_cpu")
    return APPLY["reflected"](input, tau, _identity(input), transposed=False)


@accepting
def orgqr(input: Tensor, input2: Tensor) -> Tensor:
    """``linalg.householder_product``

    >>> import jtorch
    >>> jtorch.orgqr(jtorch.tensor([[1.0], [0.0]]), jtorch.tensor([2.0])).abs()
    tensor([[1.],
            [0.]])
    """
    return householder_product(input, input2)


@accepting
def ormqr(
    input: Tensor, input2: Tensor, input3: Tensor, left: bool = True, transpose: bool = False
) -> Tensor:
    """Q C (C Q unless ``left``), or with Q^H, of the whole square Q that (input, tau) stand for, see
    ``linalg.householder_product``; ``input2`` is tau and ``input3`` is C.

    >>> import jtorch
    >>> jtorch.ormqr(jtorch.tensor([[1.0], [0.0]]), jtorch.tensor([2.0]), jtorch.tensor([[5.0], [6.0]]))
    tensor([[-5.],
            [ 6.]])
    """
    tau, other = input2, input3
    name = "torch.ormqr"
    for given, said in ((input, "input"), (other, "other")):
        if given.ndim < 2:
            raise RuntimeError(f"{name}: {said} must have at least 2 dimensions.")
    side = -2 if left else -1
    if tau.ndim and tau.shape[-1] > input.shape[-1]:
        count = f"min(other.shape[{side}], input.shape[-1])"
        raise RuntimeError(f"{name}: tau.shape[-1] must be equal to {count}")
    if other.shape[side] != input.shape[-2]:
        raise RuntimeError(f"{name}: other.shape[{side}] must be equal to input.shape[-2]")
    _check_tau(name, input, tau)
    if other.ndim != input.ndim:
        raise RuntimeError(
            f"{name}: Expected other to have the same number of dimensions as input, but got other.ndim "
            f"equal to "
            f"{other.ndim} and input.ndim is equal to {input.ndim}"
        )
    for given, said in ((tau, "tau"), (other, "other")):
        if given.dtype is not input.dtype:
            raise RuntimeError(
                f"{name}: Expected input and {said} to have the same dtype, but input has "
                f"dtype{long_of(input)} "
                f"and {said} has dtype {long_of(given)}"
            )
    check_floats(name, input, "ormqr_cpu")
    if left:
        return APPLY["reflected"](input, tau, other, transposed=bool(transpose))
    return APPLY["reflected"](input, tau, other.mH, transposed=not transpose).mH


def _check_tau(name: str, input: Tensor, tau: Tensor) -> None:
    if tau.ndim != input.ndim - 1:
        raise RuntimeError(
            f"{name}: Expected tau to have one dimension less than input, but got tau.ndim equal to "
            f"{tau.ndim} "
            f"and input.ndim is equal to {input.ndim}"
        )
    if tuple(tau.shape[:-1]) != tuple(input.shape[:-2]):
        raise RuntimeError(
            f"{name}: Expected batch dimensions of tau to be equal to input.shape[:-2], but got "
            f"{list(tau.shape[:-1])}"
        )
