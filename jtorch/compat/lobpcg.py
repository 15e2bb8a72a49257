"""``lobpcg``: some of the largest or smallest eigenvalues of a large symmetric matrix.

Source: A. V. Knyazev, "Toward the optimal preconditioned eigensolver: locally optimal block preconditioned
conjugate gradient method", SIAM J. Sci. Comput. 23 (2001).
"""

from __future__ import annotations

from typing import Any

import jtorch
from jtorch.core import op as op_module
from jtorch.eager.function import Function
from jtorch.eager.tensor import Tensor

_WAY_OUT = "Call it outside of the compiled function, or use linalg.eigh."


def lobpcg(
    A: Any, k: int | None = None, B: Any = None, X: Tensor | None = None, n: int | None = None,
    iK: Any = None, niter: int | None = None, tol: float | None = None, largest: bool | None = None,
    method: str | None = None, tracker: Any = None, ortho_iparams: Any = None, ortho_fparams: Any = None,
    ortho_bparams: Any = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """(E, X): the ``k`` largest eigenvalues (..., k) of symmetric ``A`` (..., m, m), or the smallest with
    ``largest=False``, and their vectors (..., m, k), so that A X = B X diag(E).

    ``A`` and ``B`` may be sparse matrices. It iterates from ``X`` (..., m, n), or ``n`` random directions,
    until residuals are below ``tol`` (the root of the dtype's epsilon) or ``niter`` times (1000; -1: without
    end). ``iK`` is a preconditioner; ``method`` and what tells PyTorch how to orthogonalize have no effect.
    Gradients reach ``A`` and ``B`` from E, and a dense ``A`` without ``B`` from X: that is computed with all
    eigenvectors; of others it is an error in ``backward()``. Compiled functions run it eagerly. Raises
    ValueError where m is below 3 n.

    >>> import jtorch
    >>> E, X = jtorch.lobpcg(jtorch.diag(jtorch.tensor([1.0, 2.0, 3.0, 9.0])), k=1)
    >>> print(f"{E.item():.3f}")
    9.000
    """
    op_module.CONTEXT.get().evaluator.refuse("iterates lobpcg() until it converges", _WAY_OUT)
    if method not in (None, "basic", "ortho"):
        raise ValueError(f"lobpcg: unknown method {method!r}: 'basic' or 'ortho'")
    if tracker is not None:
        raise NotImplementedError("lobpcg: tracker is not there: it is called at no iteration")
    if A.shape[-1] != A.shape[-2]:
        raise AssertionError(f"A must be square, got shape {A.shape}")
    if B is not None and tuple(B.shape) != tuple(A.shape):
        raise AssertionError(f"A and B must have same shape, got {A.shape} vs {B.shape}")
    m = A.shape[-1]
    k = (1 if X is None else X.shape[-1]) if k is None else k
    n = X.shape[-1] if X is not None else k if n is None else n
    if m < 3 * n:
        raise ValueError(
            f"LOBPCG algorithm is not applicable when the number of A rows (={m}) is smaller than 3 x the "
            f"number of requested eigenpairs (={n})"
        )
    if X is None:
        X = jtorch.randn(*A.shape[:-2], m, n, dtype=A.dtype).to(A.device)
    largest = True if largest is None else largest
    tol = jtorch.finfo(A.dtype).eps ** 0.5 if tol is None else tol
    with jtorch.no_grad():
        vectors = _of_each(A, B, X, iK, 1000 if niter is None else niter, tol, largest)[..., :k]
    given = [M if isinstance(M, Tensor) else M._values() for M in (A, B) if M is not None]
    if not any(M.requires_grad for M in given):
        return _quotients(A, B, vectors), vectors
    X = LOBPCGBackward.apply(vectors, B is None and isinstance(A, Tensor), *given)
    return LOBPCGValues.apply(X, (A, B), *given), X


def _of_each(A: Any, B: Any, X: Tensor, iK: Any, niter: int, tol: float, largest: bool) -> Tensor:
    """The vectors of each matrix of a batch."""
    if len(A.shape) == 2:
        return _iterated(A, B, X, iK, niter, tol, largest)
    count = range(A.shape[0])
    parts = [(A[j], None if B is None else B[j], X[j], None if iK is None else iK[j]) for j in count]
    return jtorch.stack([_of_each(*part, niter, tol, largest) for part in parts])


def _iterated(A: Any, B: Any, X: Tensor, iK: Any, niter: int, tol: float, largest: bool) -> Tensor:
    """The best of the space of the vectors, their residuals and the last steps, again and again."""
    size_a, size_b = (1.0 if M is None else _norm(M @ X) / _norm(X) for M in (A, B))
    X, E = _best(A, B, X, X.shape[1], largest)
    steps = X[:, :0]
    while niter != 0:
        niter -= 1
        residual = A @ X - _times(B, X) * E
        if bool((residual.norm(dim=0) <= tol * X.norm(dim=0) * (size_a + E.abs() * size_b)).all()):
            break
        residual = residual if iK is None else iK @ residual
        # what is not yet in the space of X, twice: once leaves rounding errors as large as small residuals
        for _ in range(2):
            residual = residual - X @ (X.mT @ _times(B, residual))
        before = X
        X, E = _best(A, B, jtorch.cat([X, residual / residual.norm(dim=0).clamp(min=1e-30), steps], 1),
                     X.shape[1], largest)  # fmt: skip
        steps = X - before @ (before.mT @ _times(B, X))
        steps = steps / steps.norm(dim=0).clamp(min=1e-30)
    return X


def _best(A: Any, B: Any, S: Tensor, n: int, largest: bool) -> tuple[Tensor, Tensor]:
    """The ``n`` best vectors in the space of the columns of ``S``, orthonormal by ``B``, and their values."""
    lengths, directions = jtorch.linalg.eigh(S.mT @ _times(B, S))
    kept = lengths > lengths[-1] * S.shape[1] * jtorch.finfo(S.dtype).eps
    basis = S @ (directions[:, kept] / lengths[kept].sqrt())
    values, found = jtorch.linalg.eigh(basis.mT @ (A @ basis))
    values, found = (values.flip(0), found.flip(1)) if largest else (values, found)
    return basis @ found[:, :n], values[:n]


def _times(B: Any, X: Tensor) -> Tensor:
    return X if B is None else B @ X


def _norm(x: Tensor) -> float:
    return float(x.norm())


def _quotients(A: Any, B: Any, X: Tensor) -> Tensor:
    """x^T A x / x^T B x: the eigenvalues, which have those of the quotients' gradients at their vectors."""
    above, below = ((X * (M @ X)).sum(-2) for M in (A, _Identity() if B is None else B))
    return above / below


def _products(M: Any, X: Tensor, Y: Tensor) -> Tensor:
    """X Y^T, of a sparse ``M`` at the places where it has elements."""
    if isinstance(M, Tensor):
        return X @ Y.mT
    rows, columns = M._indices()
    return (X[rows] * Y[columns]).sum(-1)


class _Identity:
    def __matmul__(self, other: Tensor) -> Tensor:
        return other


class LOBPCGValues(Function):
    """The quotients. Where they are largest or smallest the vectors have no part in their gradient, but in
    that gradient's own."""

    @staticmethod
    def forward(ctx: Any, X: Tensor, matrices: tuple, *given: Tensor) -> Tensor:
        ctx.matrices = matrices
        ctx.save_for_backward(X, *given)
        A, B = matrices
        return _quotients(A, B, X)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        X, (A, B) = ctx.saved_tensors[0], ctx.matrices
        weights = X * (g / (X * _times(B, X)).sum(-2)).unsqueeze(-2)
        found = [_products(A, weights, X)]
        if B is not None:
            found.append(_products(B, -weights * _quotients(A, B, X).unsqueeze(-2), X))
        return None, None, *found


class LOBPCGBackward(Function):
    """Vectors that depend on matrices by a way without a gradient: it is that of ``eigh``, whose vectors they
    are up to their signs."""

    @staticmethod
    def forward(ctx: Any, X: Tensor, is_dense: bool, *given: Tensor) -> Tensor:
        ctx.is_dense, ctx.vectors = is_dense, X
        ctx.save_for_backward(*given)
        return X.clone()

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        if not ctx.is_dense:
            raise NotImplementedError(
                "lobpcg: its vectors have no gradient by sparse matrices, nor beside B: those of linalg.eigh "
                "have one"
            )
        (A,), X, again = ctx.saved_tensors, ctx.vectors, jtorch.is_grad_enabled()
        with jtorch.enable_grad():
            _, vectors = jtorch.linalg.eigh((A + A.mT) / 2)
            place = (vectors.mT @ X).detach().abs().argmax(-2, keepdim=True)
            found = vectors.gather(-1, place.expand(X.shape))
            found = found * (found * X).sum(-2, keepdim=True).detach().sign()
        return None, None, *jtorch.autograd.grad(found, A, g, create_graph=again)
