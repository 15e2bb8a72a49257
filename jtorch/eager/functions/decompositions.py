"""Eigenvalues, singular values, QR, and what is computed from them: ``torch.linalg``, second half.

Source: https://docs.pytorch.org/docs/stable/linalg.html
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from jtorch.core import op as op_module, return_types
from jtorch.core.errors import LinAlgError
from jtorch.eager.autocasting import autocasts
from jtorch.eager.binding import APPLY
from jtorch.eager.functions.norms import matrix_norm
from jtorch.eager.functions.products import matmul
from jtorch.eager.functions.solvers import _identity, check_floats, check_matrices, inv, long_of
from jtorch.eager.tensor import Tensor, wrap

_UPLO = ("L", "U", "l", "u")


@autocasts(cpu="float32")
def eigh(A: Tensor, UPLO: str = "L") -> Any:
    """(eigenvalues in ascending order, eigenvectors as columns) of Hermitian (..., n, n).

    Only the triangle that ``UPLO`` names is read. The gradient of the vectors is finite only where no two
    eigenvalues are equal, and of complex ones defined only for what does not depend on their phases.
    """
    return return_types.linalg_eigh(*APPLY["eigh"](_triangle(A, UPLO)))


@autocasts(cpu="float32")
def eigvalsh(A: Tensor, UPLO: str = "L") -> Tensor:
    """The eigenvalues of Hermitian (..., n, n) in ascending order."""
    return APPLY["eigvalsh"](_triangle(A, UPLO))


def _triangle(A: Tensor, uplo: str) -> Tensor:
    check_matrices("linalg.eigh", A, dtype="linalg_eigh_cpu")
    if uplo not in _UPLO:
        raise RuntimeError(f"Expected UPLO argument to be 'L' or 'U', but got {uplo}")
    return A if uplo in "Ll" else A.mH


@autocasts(cpu="float32")
def eig(A: Tensor) -> Any:
    """(eigenvalues, eigenvectors of length 1 as columns) of (..., n, n), complex and in no order.

    The gradient of the vectors is finite only where no two eigenvalues are equal, and defined only for what
    does not depend on their phases.
    """
    check_matrices("linalg.eig", A)
    return return_types.linalg_eig(*APPLY["eig"](A))


@autocasts(cpu="float32")
def eigvals(A: Tensor) -> Tensor:
    """The eigenvalues of (..., n, n), complex and in no order."""
    check_matrices("linalg.eigvals", A)
    values: Tensor = APPLY["eig"](A)[0]
    return values


@autocasts(cpu="float32")
def svd(A: Tensor, full_matrices: bool = True, *, driver: str | None = None) -> Any:
    """(U, S, Vh) with A = U diag(S) Vh, S descending. Raises LinAlgError for NaN and infinity.

    The gradient of U and Vh is finite only where no two singular values are equal, and of complex ones
    defined only for what does not depend on their phases.
    """
    check_matrices("linalg.svd", A, square=False, dtype="linalg_svd_cpu" if A.is_floating_point() else None)
    _no_driver("linalg.svd", driver)
    return return_types.linalg_svd(*APPLY["svd"](A, full=full_matrices))


def _no_driver(name: str, driver: str | None) -> None:
    if driver is not None:
        raise RuntimeError(
            f"{name}: keyword argument `driver=` is only supported on CUDA inputs with cuSOLVER backend."
        )


@autocasts(cpu="float32")
def svd_old(input: Tensor, some: bool = True, compute_uv: bool = True) -> Any:
    """(U, S, V) with input = U diag(S) V^H: ``linalg.svd`` under its old name in the module ``torch``."""
    if not compute_uv:
        raise NotImplementedError("svd(): compute_uv=False: use linalg.svdvals")
    U, S, Vh = svd(input, full_matrices=not some)
    return return_types.svd(U, S, Vh.mH)


@autocasts(cpu="float32")
def svdvals(A: Tensor, *, driver: str | None = None) -> Tensor:
    """The singular values of (..., m, n), descending."""
    check_matrices("linalg.svd", A, square=False, dtype="linalg_svd_cpu" if A.is_floating_point() else None)
    _no_driver("linalg.svdvals", driver)
    return APPLY["svdvals"](A)


@autocasts(cpu="float32")
def qr(A: Tensor, mode: str = "reduced") -> Any:
    """(Q, R) with A = Q R; ``mode`` is "reduced", "complete" or "r" (then Q is empty)."""
    check_matrices("linalg.qr", A, square=False, dtype=None)
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(
            f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', or "
            "'complete'"
        )
    if mode == "r":
        _, R = APPLY["qr"](A.detach(), complete=False)
        if A.requires_grad and op_module.CONTEXT.get().grad:
            raise NotImplementedError("linalg.qr: the gradient of mode='r' needs Q: use mode='reduced'")
        return return_types.linalg_qr(_empty(A), R)
    return return_types.linalg_qr(*APPLY["qr"](A, complete=mode == "complete"))


def _empty(like: Tensor) -> Tensor:
    return wrap(op_module.CONTEXT.get().xp.full(0.0, shape=(0,), dtype=like._data.dtype))


@autocasts(cpu="float32")
def qr_old(input: Tensor, some: bool = True) -> Any:
    """``linalg.qr`` under its old name in the module ``torch``."""
    return return_types.qr(*qr(input, "reduced" if some else "complete"))


# -- from singular values --------------------------------------------------------------------------


def _tolerances(A: Tensor, atol: Any, rtol: Any) -> tuple[Any, Any]:
    """PyTorch's defaults: rtol = max(m, n) eps, unless an absolute tolerance is given alone."""
    if rtol is None:
        given = atol is not None and (isinstance(atol, Tensor) or atol > 0)
        rtol = 0.0 if given else float(np.finfo(A._data.dtype).eps) * max(A.shape[-2:])
    return 0.0 if atol is None else atol, rtol


def _wide(value: Any, dims: int) -> Any:
    """A tolerance per matrix, ready to meet singular values or matrices."""
    return value[(..., *(None,) * dims)] if isinstance(value, Tensor) else value


def pinv(
    A: Tensor,
    rtol_: Any = None,
    *,
    atol: Any = None,
    rtol: Any = None,
    hermitian: bool = False,
    rcond: Any = None,
) -> Tensor:
    """The pseudo-inverses of (..., m, n): singular values up to max(atol, rtol * the largest) count as 0."""
    if A.ndim < 2 or not (A.is_floating_point() or A.is_complex()) or A.element_size() < 4:
        raise RuntimeError(
            f"linalg.pinv({long_of(A)}{{{list(A.shape)}}}): expected a tensor with 2 or more dimensions of "
            "float, double, cfloat or cdouble types"
        )
    for other in (rtol_, rcond):
        rtol = other if rtol is None else rtol
    if hermitian:
        check_matrices("linalg.pinv", A)
    if A.numel() == 0:
        return A.mT * 1.0
    atol, rtol = _tolerances(A, atol, rtol)
    return APPLY["pinv"](A, _wide(atol, 1), _wide(rtol, 1), hermitian=hermitian)


@autocasts(cpu="float32")
def pinverse(input: Tensor, rcond: float = 1e-15) -> Tensor:
    """``linalg.pinv``"""
    return pinv(input, rtol=rcond)


@autocasts(cpu="float32")
def matrix_rank(
    A: Tensor, tol: Any = None, *, atol: Any = None, rtol: Any = None, hermitian: bool = False
) -> Tensor:
    """How many singular values of (..., m, n) are above max(atol, rtol * the largest)."""
    if A.ndim < 2:
        raise RuntimeError("linalg.matrix_rank: The input tensor input must have at least 2 dimensions.")
    check_floats("linalg.svd", A, "linalg_svd_cpu" if A.is_floating_point() else None)
    if tol is not None:
        atol, rtol = tol, 0.0
    atol, rtol = _tolerances(A, atol, rtol)
    detached = A.detach()
    S = APPLY["eigvalsh"](detached).abs() if hermitian else APPLY["svdvals"](detached)
    if not S.shape[-1]:
        return S.sum(-1).long()
    limit = S.amax(-1, True) * _wide(rtol, 1)
    limit = APPLY["maximum"](limit, limit * 0.0 + _wide(atol, 1))
    return APPLY["gt"](S, limit).sum(-1)


@autocasts(cpu="float32")
def cond(A: Tensor, p: Any = None) -> Tensor:
    """How much a system with matrix A amplifies errors: |A| |A^-1| in the norm ``p`` (None is 2)."""
    if A.ndim < 2:
        raise RuntimeError("linalg.cond: The input tensor must have at least 2 dimensions.")
    if p in (None, 2, -2):
        S = svdvals(A)
        if not S.shape[-1]:
            return S.sum(-1)
        first, last = S[..., 0], S[..., -1]
        return last / first if p == -2 else first / last
    if A.shape[-1] != A.shape[-2]:
        check_matrices(f"linalg.cond(ord={p})", A)
    try:
        inverse = inv(A)
        return matrix_norm(A, p) * matrix_norm(inverse, p)
    except LinAlgError:
        regular = APPLY["ne"](APPLY["det"](A.detach()), 0)
        safe = APPLY["where"](regular[..., None, None], A, _identity(A))
        return APPLY["where"](regular, matrix_norm(A, p) * matrix_norm(inv(safe), p), math.inf)


# -- powers ----------------------------------------------------------------------------------------


def matrix_exp(input: Tensor) -> Tensor:
    """The exponentials of (..., n, n)."""
    if input.ndim < 2:
        raise RuntimeError("linalg.matrix_exp: The input tensor A must have at least 2 dimensions.")
    check_matrices("linalg.matrix_exp", input)
    return APPLY["matrix_exp"](input)


def matrix_power(input: Tensor, n: int) -> Tensor:
    """(..., m, m) times itself n times: by repeated squaring; negative ``n`` inverts first."""
    if input.ndim < 2:
        raise RuntimeError("linalg.matrix_power: The input tensor A must have at least 2 dimensions.")
    if input.shape[-1] != input.shape[-2]:
        raise RuntimeError(
            "linalg.matrix_power: A must be batches of square matrices, but they are "
            f"{input.shape[-2]} by {input.shape[-1]} matrices"
        )
    n = operator.index(n)  # of a tensor, too: what follows must not change the caller's
    if n < 0:
        input, n = inv(input), -n
    if n == 0:
        return APPLY["clone"](input).copy_(_identity(input))  # which keeps the graph; its gradient is 0
    out: Tensor | None = None
    square = input
    while True:
        if n & 1:
            out = square if out is None else matmul(out, square)
        n >>= 1
        if not n:
            return APPLY["clone"](out) if out is input else out  # type: ignore[return-value]
        square = matmul(square, square)


# -- tensors as matrices ---------------------------------------------------------------------------


@autocasts(cpu="float32")
def tensorinv(A: Tensor, ind: int = 2) -> Tensor:
    """The inverse of A as a map between tensors: the first ``ind`` dims against the others."""
    if ind <= 0:
        raise RuntimeError("Expected a strictly positive integer for 'ind'")
    first, last = math.prod(A.shape[:ind]), math.prod(A.shape[ind:])
    if first != last:
        raise RuntimeError(
            "Expected self to satisfy the requirement prod(self.shape[ind:]) == prod(self.shape[:ind]), but "
            f"got {last} != {first}"
        )
    return inv(A.reshape(first, last)).reshape(*A.shape[ind:], *A.shape[:ind])


@autocasts(cpu="float32")
def tensorsolve(A: Tensor, B: Tensor, dims: Any = None) -> Tensor:
    """X with tensordot(A, X, X.ndim) = B."""
    from jtorch.eager.functions.reordering import movedim
    from jtorch.eager.functions.solvers import solve

    if dims is not None:
        A = movedim(A, tuple(dims), tuple(range(A.ndim - len(dims), A.ndim)))
    shape = A.shape[B.ndim :]
    if math.prod(shape) != B.numel():
        raise RuntimeError(
            "Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == "
            f"prod(self.shape[:other.ndim]), but got {math.prod(shape)} != {B.numel()}"
        )
    return solve(A.reshape(B.numel(), math.prod(shape)), B.reshape(-1)).reshape(shape)


FUNCTIONS: dict[str, Callable] = {
    "svd": svd_old, "qr": qr_old, "pinverse": pinverse, "matrix_power": matrix_power,
    "matrix_exp": matrix_exp,
}  # fmt: skip
METHODS: dict[str, Any] = dict(FUNCTIONS)
