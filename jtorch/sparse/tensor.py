"""``SparseTensor``: the elements that are there, by their indices.

It is made of two ordinary tensors and computes with ordinary ops, so that gradients reach its values and
compiled functions take it as they take any object. It is no Tensor: functions ask it by
``__torch_function__``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jtorch
from jtorch.core import memory_formats as formats
from jtorch.eager.public import Size, SparseGradientError, Tensor


def _uncompared(name: str) -> Callable:
    """The method of an operator that has no sparse result: without it Python would compare who they are."""

    def compare(self: Any, other: Any) -> Any:
        if not isinstance(other, (int, float, complex, Tensor, SparseTensor)):
            return NotImplemented
        raise NotImplementedError(
            f"{name}() is not there for sparse tensors, where it would hold for most of what is not there: "
            "compare x.to_dense()"
        )

    return compare


def _no_divisor(what: str, divisor: Any) -> RuntimeError:
    return RuntimeError(
        f"Sparse {what} requires a scalar or zero-dim dense tensor divisor (got shape "
        f"{list(divisor.shape)} for divisor): what is not there would be 0 / 0"
    )


def _check_divisor(what: str, divisor: Any) -> None:
    if isinstance(divisor, SparseTensor) or (isinstance(divisor, Tensor) and divisor.ndim):
        raise _no_divisor(what, divisor)


class SparseTensor:
    """Elements ``values`` (nnz, dense dims) at ``indices`` (sparse dims, nnz; int64)
    of a tensor of ``shape``, zero elsewhere. ``layout`` is how it shows: COO, or CSR and CSC, which have two
    dims.

    The same place may be there several times, and counts as their sum, unless it is ``coalesced``: then
    places are in order, each once.
    """

    is_sparse = True
    is_leaf = property(lambda self: self._v.is_leaf)
    is_sparse_csr = property(lambda self: self.layout is formats.sparse_csr)
    requires_grad = property(lambda self: self._v.requires_grad)
    dtype = property(lambda self: self._v.dtype)
    device = property(lambda self: self._v.device)
    grad_fn = property(lambda self: self._v.grad_fn)
    ndim = property(lambda self: len(self.shape))
    T = property(lambda self: self.t())

    def __init__(
        self, indices: Tensor, values: Tensor, shape: Any, coalesced: bool = False,
        layout: formats.layout = formats.sparse_coo,
    ) -> None:  # fmt: skip
        self._i, self._v, self.shape = indices, values, Size(shape)
        self._coalesced, self.layout = coalesced, layout

    # -- what it is ----------------------------------------------------------------------------------------

    def size(self, dim: int | None = None) -> Any:
        return self.shape if dim is None else self.shape[dim]

    def dim(self) -> int:
        return len(self.shape)

    def numel(self) -> int:
        return math.prod(self.shape)

    def sparse_dim(self) -> int:
        return self._i.shape[0]

    def dense_dim(self) -> int:
        return self._v.ndim - 1

    def _nnz(self) -> int:
        return self._i.shape[1]

    def _indices(self) -> Tensor:
        return self._i

    def _values(self) -> Tensor:
        return self._v

    def is_coalesced(self) -> bool:
        return self._coalesced

    def indices(self) -> Tensor:
        self._check_coalesced("indices")
        return self._i

    def values(self) -> Tensor:
        self._check_coalesced("values")
        return self._by_columns()._v if self.layout is formats.sparse_csc else self._v

    def _by_columns(self) -> SparseTensor:
        """The transpose, whose rows are the columns of this one."""
        return self.t().coalesce()

    def _check_coalesced(self, what: str) -> None:
        if not self._coalesced:
            raise RuntimeError(f"Cannot get {what} on an uncoalesced tensor, please call .coalesce() first")

    def crow_indices(self) -> Tensor:
        """Where each row begins among the elements, and the end: (rows + 1,)."""
        return _begins(self.coalesce()._i[0], self.shape[0])

    def col_indices(self) -> Tensor:
        return self.coalesce()._i[1]

    def ccol_indices(self) -> Tensor:
        """Where each column begins among the elements by columns, and the end: (columns + 1,)."""
        return _begins(self._by_columns()._i[0], self.shape[1])

    def row_indices(self) -> Tensor:
        return self._by_columns()._i[1]

    def __repr__(self) -> str:
        parts = [
            f"indices={_aligned(self._i, 'indices=')}",
            f"values={_aligned(self._v.detach(), 'values=')}",
        ]
        if self.is_sparse_csr:
            crow, col = self.crow_indices(), self.col_indices()
            parts[0] = f"crow_indices={_aligned(crow, 'crow_indices=')}"
            parts.insert(1, f"col_indices={_aligned(col, 'col_indices=')}")
        if self.layout is formats.sparse_csc:
            columns, rows = self.ccol_indices(), self.row_indices()
            parts = [
                f"ccol_indices={_aligned(columns, 'ccol_indices=')}",
                f"row_indices={_aligned(rows, 'row_indices=')}",
                f"values={_aligned(self.values().detach(), 'values=')}",
            ]
        values, comma, dtype = parts[-1].partition(", dtype=")  # which stands at the end
        parts[-1] = values + ")" if comma else values
        said = f", dtype={dtype.removesuffix(')')}" if comma else ""
        grad = ", requires_grad=True" if self.requires_grad else ""
        parts.append(f"size={tuple(self.shape)}, nnz={self._nnz()}{said}, layout={self.layout}{grad})")
        return "tensor(" + ",\n       ".join(parts)

    @property
    def _data(self) -> Any:
        """What the rest of eager mode computes with: reached where this is the gradient of a dense tensor."""
        raise SparseGradientError(
            "this gradient is sparse, which SGD, Adagrad and SparseAdam alone take: p.grad = "
            "p.grad.to_dense() makes it an ordinary one"
        )

    def _take(self, other: SparseTensor) -> SparseTensor:
        """Become ``other``, of the same shape: what a gradient does that is added to in place."""
        self._i, self._v, self._coalesced = other._i, other._v, other._coalesced
        return self

    # -- other forms ---------------------------------------------------------------------------------------

    def _with(self, values: Tensor) -> SparseTensor:
        """The same places with other values."""
        return SparseTensor(self._i, values, self.shape, self._coalesced, self.layout)

    def to_dense(self) -> Tensor:
        zeros = jtorch.zeros(tuple(self.shape), dtype=self.dtype)
        return zeros.index_put(tuple(self._i), self._v, accumulate=True)

    def coalesce(self) -> SparseTensor:
        """The same with each place once, in order. Looks at the elements of the indices."""
        if self._coalesced:
            return self
        sizes = tuple(self.shape[: self.sparse_dim()])
        places, which = _flat(self._i, sizes).unique(return_inverse=True)
        values = jtorch.zeros(len(places), *self._v.shape[1:], dtype=self.dtype).index_add(0, which, self._v)
        return SparseTensor(_unflat(places, sizes), values, self.shape, True, self.layout)

    def to_sparse(
        self, sparse_dim: int | None = None, *, layout: formats.layout | None = None
    ) -> SparseTensor:
        layout = layout or formats.sparse_coo
        found = self if layout is formats.sparse_coo else self.coalesce()
        return SparseTensor(found._i, found._v, self.shape, found._coalesced, layout)

    def to_sparse_coo(self) -> SparseTensor:
        return self.to_sparse()

    def to_sparse_csr(self) -> SparseTensor:
        return self.to_sparse(layout=formats.sparse_csr)

    def to_sparse_csc(self) -> SparseTensor:
        return self.to_sparse(layout=formats.sparse_csc)

    def t(self) -> SparseTensor:
        return self.transpose(0, 1)

    def transpose(self, dim0: int, dim1: int) -> SparseTensor:
        """Two sparse dims change places."""
        order = list(range(self.sparse_dim()))
        order[dim0], order[dim1] = order[dim1], order[dim0]
        shape = [*(self.shape[k] for k in order), *self.shape[len(order) :]]
        return SparseTensor(self._i[order], self._v, shape)

    def to(self, *args: Any, **kwargs: Any) -> SparseTensor:
        values = self._v.to(*args, **kwargs)
        return SparseTensor(self._i.to(values.device), values, self.shape, self._coalesced, self.layout)

    def cpu(self) -> SparseTensor:
        return self.to("cpu")

    def cuda(self, device: Any = None) -> SparseTensor:
        return self.to("cuda" if device is None else device)

    def half(self) -> SparseTensor:
        return self._with(self._v.half())

    def bfloat16(self) -> SparseTensor:
        return self._with(self._v.bfloat16())

    def float(self) -> SparseTensor:
        return self._with(self._v.float())

    def double(self) -> SparseTensor:
        return self._with(self._v.double())

    def long(self) -> SparseTensor:
        return self._with(self._v.long())

    def clone(self) -> SparseTensor:
        return SparseTensor(self._i.clone(), self._v.clone(), self.shape, self._coalesced, self.layout)

    def detach(self) -> SparseTensor:
        return self._with(self._v.detach())

    @property
    def data(self) -> SparseTensor:
        """The same memory without the tape."""
        return self.detach()

    @data.setter
    def data(self, other: SparseTensor) -> None:
        if not isinstance(other, SparseTensor):
            raise RuntimeError(
                f"a sparse tensor's data is another sparse tensor, not a {type(other).__name__}"
            )
        self._check_shape(other)
        requires_grad = self.requires_grad
        self._take(other.detach()).requires_grad_(requires_grad)

    def zero_(self) -> SparseTensor:
        """None of its elements are left."""
        self._i, self._v, self._coalesced = self._i[:, :0], self._v[:0].detach(), True
        return self

    def requires_grad_(self, requires_grad: bool = True) -> SparseTensor:
        self._v.requires_grad_(requires_grad)
        return self

    @property
    def grad(self) -> SparseTensor | None:
        """The gradient of the values, at their places."""
        return None if self._v.grad is None else self._with(self._v.grad)

    # -- arithmetic ----------------------------------------------------------------------------------------

    def __matmul__(self, other: Any) -> Any:
        _check_matrices(self, other)
        if isinstance(other, SparseTensor):
            return _of_sparse(self, other)
        rows, columns = self._i
        products = self._v * other[columns] if other.ndim == 1 else self._v.unsqueeze(1) * other[columns]
        zeros = jtorch.zeros(self.shape[0], *other.shape[1:], dtype=products.dtype)
        return zeros.index_add(0, rows, products)

    def __rmatmul__(self, other: Tensor) -> Tensor:
        return (self.t() @ other.t()).t() if other.ndim == 2 else self.t() @ other

    def __add__(self, other: Any) -> Any:
        if isinstance(other, SparseTensor):
            self._check_shape(other)
            values = jtorch.cat([self._v, other._v])
            both = SparseTensor(jtorch.cat([self._i, other._i], 1), values, self.shape)
            return both.to_sparse_csr() if self.layout is other.layout is formats.sparse_csr else both
        return self.__radd__(other)

    def __radd__(self, other: Any) -> Tensor:
        if not isinstance(other, Tensor):
            raise TypeError(f"add(): a sparse tensor and a {type(other).__name__}: to_dense() it first")
        self._check_shape(other)
        dtype = jtorch.result_type(other, self._v)
        return other.to(dtype).index_put(tuple(self._i), self._v.to(dtype), accumulate=True)

    def __sub__(self, other: Any) -> Any:
        return self + -other

    def __rsub__(self, other: Any) -> Tensor:
        return other + -self

    def __neg__(self) -> SparseTensor:
        return self._with(-self._v)

    def __mul__(self, other: Any) -> SparseTensor:
        """Element by element: zero where one of them is."""
        if isinstance(other, SparseTensor):
            self._check_shape(other)
            mine = self.coalesce()
            return mine._with(mine._v * other.to_dense()[tuple(mine._i)])
        if isinstance(other, Tensor) and other.ndim:
            self._check_shape(other)
            return self._with(self._v * other[tuple(self._i)])
        return self._with(self._v * other)

    __rmul__ = __mul__

    def add(self, other: Any, *, alpha: Any = 1) -> Any:
        return self + (other if alpha == 1 else other * alpha)

    def sub(self, other: Any, *, alpha: Any = 1) -> Any:
        return self - (other if alpha == 1 else other * alpha)

    mul = __mul__

    def mul_(self, other: Any) -> SparseTensor:
        """The same in place: what clips gradients scales them so."""
        return self._take(self * other)

    def __truediv__(self, other: Any) -> SparseTensor:
        _check_divisor("division", other)
        return self._with(self._v / other)

    def __floordiv__(self, other: Any) -> SparseTensor:
        """By a number; what is not there stays 0."""
        _check_divisor("floor division", other)
        mine = self.coalesce()
        return mine._with(mine._v // other)

    def __rtruediv__(self, other: Any) -> SparseTensor:
        raise _no_divisor("division", self)

    def __rfloordiv__(self, other: Any) -> SparseTensor:
        raise _no_divisor("floor division", self)

    floor_divide = __floordiv__

    def div(self, other: Any, *, rounding_mode: str | None = None) -> SparseTensor:
        if rounding_mode is None:
            return self / other
        _check_divisor("division", other)
        mine = self.coalesce()  # the parts of one element can't be rounded one by one
        return mine._with(mine._v.div(other, rounding_mode=rounding_mode))

    def div_(self, other: Any) -> SparseTensor:
        """By a number: what averages gradients over processes or steps divides them so."""
        return self._take(self / other)

    # -- comparisons ---------------------------------------------------------------------------------------

    __eq__, __ne__, __lt__, __le__, __gt__, __ge__ = map(_uncompared, ("eq", "ne", "lt", "le", "gt", "ge"))
    __hash__ = object.__hash__

    def _check_shape(self, other: Any) -> None:
        if tuple(other.shape) != tuple(self.shape):
            raise RuntimeError(
                f"sizes {tuple(self.shape)} and {tuple(other.shape)} of sparse operands differ"
            )

    def abs(self) -> SparseTensor:
        return self.coalesce()._with(self.coalesce()._v.abs())

    def relu(self) -> SparseTensor:
        return self.coalesce()._with(self.coalesce()._v.relu())

    def sqrt(self) -> SparseTensor:
        return self.coalesce()._with(self.coalesce()._v.sqrt())

    def pow(self, exponent: Any) -> SparseTensor:
        """Each element to a power, a number but 0: that would make 1 of the elements that are not there."""
        if isinstance(exponent, (Tensor, SparseTensor)):
            raise NotImplementedError("pow() of a sparse tensor: the exponent must be a number")
        if exponent == 0:
            raise RuntimeError(
                "pow: cannot raise to zeroth power on sparse tensor; it would make the result tensor dense"
            )
        mine = self.coalesce()
        values = mine._v.pow(exponent)
        if values.dtype is not mine.dtype:
            raise RuntimeError(f"pow() of a sparse tensor: a result of {values.dtype} is no {mine.dtype}")
        return mine._with(values)

    __pow__ = pow

    def square(self) -> SparseTensor:
        return self.pow(2)

    def norm(self, p: Any = "fro") -> Tensor:
        """The ``p``-norm of all elements, 0-d: those at the same indices are added first."""
        return self.coalesce()._v.flatten().norm(p)

    def sum(self, dim: Any = None, dtype: Any = None, **_: Any) -> Any:
        """Of all elements a 0-d tensor, over some of the sparse dims what is left of them."""
        values = self._v if dtype is None else self._v.to(dtype)
        if dim is None:
            return values.sum()
        dims = {d % self.ndim for d in ((dim,) if isinstance(dim, int) else dim)}
        dense = sorted(d - self.sparse_dim() + 1 for d in dims if d >= self.sparse_dim())
        values = values.sum(dense) if dense else values
        left = [d for d in range(self.sparse_dim()) if d not in dims]
        if not left:
            return values.sum(0)
        shape = [n for d, n in enumerate(self.shape) if d not in dims]
        return SparseTensor(self._i[left], values, shape).coalesce()

    def matmul(self, other: Any) -> Any:
        return self @ other

    def mm(self, mat2: Any) -> Any:
        return self @ mat2

    @classmethod
    def __torch_function__(
        cls, func: Callable, types: tuple, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """``jtorch.mm(sparse, dense)`` and the like: the method of that name."""
        name, (first, *others) = func.__name__, (*args, *(kwargs or {}).values())
        if name == "mm" and isinstance(first, Tensor):
            return first @ others[0]
        method = getattr(cls, name, None)
        if method is None or not isinstance(first, SparseTensor):
            raise TypeError(f"{name}() is not there for sparse tensors: x.to_dense() gives an ordinary one")
        named = {k: v for k, v in (kwargs or {}).items() if v is not first and v is not None}
        return method(first, *args[1:], **named)


def _check_matrices(a: SparseTensor, b: Any) -> None:
    if a.sparse_dim() != 2 or a.dense_dim() or b.ndim not in (1, 2):
        raise RuntimeError(f"a sparse product takes matrices and a vector, got {a.ndim} and {b.ndim} dims")
    if a.shape[1] != b.shape[0]:
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({a.shape[0]}x{a.shape[1]} and "
            f"{'x'.join(map(str, b.shape))})"
        )


def _of_sparse(a: SparseTensor, b: SparseTensor) -> SparseTensor:
    """The product of two: each element of ``a`` with the elements of the row of ``b`` that it meets."""
    b = b.coalesce()
    begins = _begins(b._i[0], b.shape[0])
    rows, meets = a._i
    counts = (begins[1:] - begins[:-1])[meets]
    of_a = jtorch.arange(len(meets)).repeat_interleave(counts)
    before = (counts.cumsum(0) - counts)[of_a]
    of_b = begins[meets][of_a] + jtorch.arange(len(of_a)) - before
    indices = jtorch.stack([rows[of_a], b._i[1][of_b]])
    return SparseTensor(indices, a._v[of_a] * b._v[of_b], (a.shape[0], b.shape[1])).coalesce()


def _begins(rows: Tensor, n: int) -> Tensor:
    counts = jtorch.zeros(n + 1, dtype=jtorch.int64)
    return counts.index_add(0, rows + 1, jtorch.ones_like(rows)).cumsum(0)


def _flat(indices: Tensor, sizes: tuple[int, ...]) -> Tensor:
    """One number for each place, in the order of places."""
    found = indices[0]
    for row, n in zip(indices[1:], sizes[1:], strict=True):
        found = found * n + row
    return found


def _unflat(places: Tensor, sizes: tuple[int, ...]) -> Tensor:
    rows = []
    for n in reversed(sizes[1:]):
        rows.append(places % n)
        places = places // n
    return jtorch.stack([places, *reversed(rows)])


def _aligned(tensor: Tensor, name: str) -> str:
    return repr(tensor).replace("\n", "\n" + " " * (len("tensor(") + len(name)))
