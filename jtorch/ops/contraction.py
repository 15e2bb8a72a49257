"""Matrix products. ``matmul`` and ``dot_general`` are the primitives; the others are well-known uses."""

from __future__ import annotations

import math

from jtorch.core import dtypes as dt
from jtorch.core.number_ranges import check_factor, element, whole
from jtorch.core.op import agree, composite, contraction
from jtorch.core.products import dot_general_axes, free_axes, matmul_axes
from jtorch.ops.routines import direct


def swap(xp, x):
    """``x`` with its last two axes exchanged."""
    n = x.ndim
    return xp.permute(x, axes=(*range(n - 2), n - 1, n - 2))


_CROSSED = {"x": "y", "y": "x"}  # each factor is saved for the gradient of the other


def _matmul_shape(x, y):
    if x[-1] != y[-2]:
        (n, k), (m, p) = x[-2:], y[-2:]
        raise RuntimeError(f"mat1 and mat2 shapes cannot be multiplied ({n}x{k} and {m}x{p})")
    batch = x[:-2] if len(x) >= len(y) else y[:-2]
    return (*batch, x[-2], y[-1])


@contraction(
    shape=_matmul_shape,
    contracted=matmul_axes,
    public=None,
    grad_name="BmmBackward0",
    saved_for=_CROSSED,
    autocast="lower",
)
def matmul(xp, x, y):
    """``(..., n, k) @ (..., k, m)``; leading axes are equal or one operand has none."""
    return xp.matmul(x, y)


def _products(xp, g, x, y, needs):
    gx = xp.matmul(g, swap(xp, y)) if needs[0] else None
    if not needs[1]:
        return gx, None
    if x.ndim > 2 and y.ndim == 2:  # one product over all rows, not a sum of products
        flat = xp.reshape(x, shape=(math.prod(x.shape[:-1]), x.shape[-1]))
        return gx, xp.matmul(swap(xp, flat), xp.reshape(g, shape=(flat.shape[0], g.shape[-1])))
    return gx, xp.matmul(swap(xp, x), g)


@matmul.vjp
def _(xp, g, x, y, needs):
    return _products(xp, g, x, y, needs)


def _dot_general_shape(x, y, batch, inner, order):
    axes = dot_general_axes(len(x), len(y), batch, inner, order)
    for a, b in (*axes.batch, *axes.inner):
        if x[a] != y[b]:
            raise RuntimeError(f"axis {a} of {list(x)} and axis {b} of {list(y)} differ in a product of them")
    sizes = (*(x[a] for a, _ in axes.batch), *(x[k] for k in axes.rows), *(y[k] for k in axes.columns))
    return tuple(sizes[k] for k in order)


@contraction(
    shape=_dot_general_shape, contracted=dot_general_axes, public=None, saved_for=_CROSSED, autocast="lower"
)
def dot_general(xp, x, y, *, batch, inner, order):
    """Sums over pairs of axes of x and y, ``inner``; axes in ``batch`` go together. Both are
    (axes of x, axes of y). The result has the batch axes, then what is left of x, then of y, in the
    order ``order``, and lies in memory so.

    Source: https://docs.jax.dev/en/latest/_autosummary/jax.lax.dot_general.html
    """
    return xp.dot_general(x, y, batch=batch, inner=inner, order=order)


def _one_factor(xp, g, other, n, batch, inner, order, own):
    """The gradient of factor ``own`` (0 or 1), which has ``n`` axes."""
    together = len(batch[0])
    free = free_axes(n, batch[own], inner[own])
    others_free = free_axes(other.ndim, batch[1 - own], inner[1 - own])
    # g's axes: those of the batch, and those that were left of the other factor
    first = together + (len(free) if own == 0 else 0)
    in_g = [order.index(k) for k in range(first, first + len(others_free))]
    pairs = sorted(zip(in_g, others_free, strict=True))
    of_g, of_other = (tuple(p[k] for p in pairs) for k in (0, 1))
    batch_of_g = tuple(order.index(k) for k in range(together))
    # what is left of g, in its own order, then what is left of ``other``
    left = [k for k in range(g.ndim) if k not in batch_of_g and k not in of_g]
    start = together if own == 0 else together + len(others_free)
    axes = [*batch[own], *(free[order[k] - start] for k in left)]
    axes += [inner[own][inner[1 - own].index(k)] for k in sorted(inner[1 - own])]
    return xp.dot_general(
        g, other, batch=(batch_of_g, batch[1 - own]), inner=(of_g, of_other),
        order=tuple(axes.index(k) for k in range(n)),
    )  # fmt: skip


@dot_general.vjp
def _(xp, g, x, y, needs, batch, inner, order):
    return (
        _one_factor(xp, g, y, x.ndim, batch, inner, order, 0) if needs[0] else None,
        _one_factor(xp, g, x, y.ndim, batch, inner, order, 1) if needs[1] else None,
    )


def _named_product(name, ndim, grad_name, fitting):
    """``fitting`` is the test of the shapes of two factors of ``ndim`` dimensions, as text."""
    data, other = "input._data", "mat2._data"
    floats = f"{data}.dtype is {other}.dtype and {data}.dtype.kind == 'f'"

    @composite(
        name=name,
        grad_name=grad_name,
        methods=(name,),
        renames="matmul",
        saved_for=_CROSSED,
        autocast="lower",
    )
    def body(xp, x, y):
        """The product of two matrices; for ``bmm`` those of a batch, (b, n, m) times (b, m, p)."""
        return xp.matmul(x, y)

    @body.vjp
    def _(xp, g, x, y, needs):
        return _products(xp, g, x, y, needs)

    @body.lean_face(usual=(f"{data}.ndim == {ndim} == {other}.ndim and {floats}{fitting}", "input, mat2"))
    def _(input, mat2):
        _check(name, input, mat2, ndim)
        return input, mat2

    return body


_C_NAMES = {
    "float32": "float", "float64": "double", "int64": "long int", "int32": "int", "int16": "short",
    "bool": "bool", "int8": "signed char", "uint8": "unsigned char", "float16": "c10::Half",
    "bfloat16": "c10::BFloat16",
}  # fmt: skip


_WHOLE = frozenset(("int64", "int32", "int16", "int8", "uint8", "uint16", "uint32", "uint64"))


def check_dtypes(x, y):
    """Raise PyTorch's error where two factors differ in dtype, or are bools."""
    if not agree(x, y):
        a, b = (_C_NAMES.get(t.dtype.name, t.dtype.name) for t in (x, y))
        raise RuntimeError(f"expected m1 and m2 to have the same dtype, but got: {a} != {b}")
    if x.dtype.name == "bool":
        raise NotImplementedError("\"addmm_impl_cpu_\" not implemented for 'Bool'")


def _check_ndims(name, a, b, ndim):
    if name == "bmm":
        for k, shape in enumerate((a, b), 1):
            if len(shape) != ndim:
                raise RuntimeError(f"batch{k} must be a 3D tensor")
    elif len(a) != ndim or len(b) != ndim:
        names = ("self", "mat2") if name == "mm" else ("mat1", "mat2")
        raise RuntimeError(f"{names[0] if len(a) != ndim else names[1]} must be a matrix")


def _check(name, x, y, ndim):
    a, b = x.shape, y.shape
    if x.dtype is not y.dtype or x.dtype.name == "bool":
        check_dtypes(x, y)
    if len(a) != ndim or len(b) != ndim:
        _check_ndims(name, a, b, ndim)
    if ndim == 3 and (a[0] != b[0] or a[2] != b[1]):
        raise RuntimeError(
            f"Expected size for first two dimensions of batch2 tensor to be: [{a[0]}, {a[2]}] but got: "
            f"[{b[0]}, {b[1]}]."
        )
    if a[-1] != b[-2]:
        raise RuntimeError(f"mat1 and mat2 shapes cannot be multiplied ({a[0]}x{a[1]} and {b[0]}x{b[1]})")


def check_expands(shape, target):
    """Raise PyTorch's error where a tensor of ``shape`` can't be added to a product of shape ``target``."""
    new = len(target) - len(shape)
    for k, n in reversed(list(enumerate(shape))):
        if new < 0 or n not in (1, target[k + new]):
            raise RuntimeError(
                f"The expanded size of the tensor ({target[k + new]}) must match the existing size ({n}) at "
                f"non-singleton dimension {k + new}.  Target sizes: {list(target)}.  Tensor sizes: "
                f"{list(shape)}"
                if new >= 0
                else f"expand({list(shape)}, size={list(target)}): the number of sizes provided "
                f"({len(target)}) must be greater or equal to the number of dimensions in the tensor "
                f"({len(shape)})"
            )


mm = _named_product("mm", 2, "MmBackward0", "")  # the product itself refuses other sizes, in the same words
bmm = _named_product("bmm", 3, "BmmBackward0", " and input._data.shape[::2] == mat2._data.shape[:2]")


@composite(public=None, grad_name="DotBackward0", saved_for=_CROSSED)
def dot(xp, x, y):
    """The sum of the products of two vectors: as a matrix product, BLAS would add up millions in 32 lanes."""
    found = direct(xp, "_products", "inner", x, y)
    return xp.sum(x * y, axis=(0,), keepdims=False) if found is None else found


@dot.vjp
def _(xp, g, x, y, needs):
    return g * y if needs[0] else None, g * x if needs[1] else None


def as_numbers(name, **factors):
    """``factors`` as numbers, in their order: 0-d tensors are taken for their element, as in PyTorch, unless
    a gradient would have to reach them. Raises TypeError for others."""
    for parameter, factor in factors.items():
        if not hasattr(factor, "requires_grad"):
            yield factor
        elif factor.ndim or factor.requires_grad:
            raise TypeError(f"{name}(): argument '{parameter}' must be Number, not Tensor")
        else:
            yield factor.item()


def in_kind(product, factor):
    """``factor`` as a number of the kind of ``product``: a product of integers takes its whole part. Raises
    RuntimeError where the dtype cannot hold it."""
    if factor.__class__ is int and factor == 1:
        return factor
    dtype = getattr(product.dtype, "numpy", product.dtype)
    check_factor(factor, dtype)
    return element(whole(factor), dtype) if product.dtype.name in _WHOLE else dt.plain(factor)


@composite(grad_name="AddmmBackward0", in_place=True, saved_for=_CROSSED, fuses=False, autocast="lower")
def addmm(xp, input, x, y, *, beta, alpha):
    """beta input + alpha mat1 @ mat2"""
    return _weighted(xp, input, xp.matmul(x, y), beta, alpha)


def _weighted(xp, input, product, beta, alpha):
    """What is multiplied by 0 does not matter, NaN included."""
    if alpha == 0:
        product = xp.full(0, shape=tuple(product.shape), dtype=product.dtype)
    elif alpha != 1:
        product = product * alpha
    if beta == 0:
        return product
    return product + (input if beta == 1 else input * beta)


@addmm.vjp
def _(xp, g, x, y, needs, beta, alpha):
    gx, gy = _products(xp, g if alpha == 1 else g * alpha, x, y, needs[1:])
    return g if beta == 1 else g * beta, gx, gy  # the engine sums over what broadcasting repeated


@composite(public=None, grad_name="AddBackward0", fuses=False)
def weighted(xp, input, product, *, beta, alpha):
    """beta input + alpha product, where one of the two numbers is 0; ``input`` broadcasts to ``product``."""
    return _weighted(xp, input, product, beta, alpha)


@weighted.vjp
def _(xp, g, beta, alpha):
    return g * beta, g * alpha


@addmm.face
def _(input, mat1, mat2, *, beta=1, alpha=1):
    _check("addmm", mat1, mat2, 2)
    check_expands(input.shape, (mat1.shape[0], mat2.shape[1]))
    if hasattr(beta, "requires_grad") or hasattr(alpha, "requires_grad"):
        beta, alpha = as_numbers("addmm", beta=beta, alpha=alpha)
    return (input, mat1, mat2), {"beta": in_kind(mat1, beta), "alpha": in_kind(mat1, alpha)}


def _rows(xp, x):
    """``x`` with all axes but the last as one: a vector is one row."""
    return x if x.ndim == 2 else xp.reshape(x, shape=(math.prod(x.shape[:-1]), x.shape[-1]))


def _column(xp, x):
    return xp.reshape(x, shape=(x.shape[0], 1))


@composite(
    grad_name="AddmmBackward0",
    methods=(),
    saved_for={"x": "weight", "weight": "x"},
    fuses=False,
    autocast="lower",
)
def linear(xp, x, weight, bias):
    if weight.ndim == 1:  # each row gives one number
        return xp.reshape(xp.matmul(_rows(xp, x), _column(xp, weight)), shape=tuple(x.shape[:-1]))
    found = direct(xp, "_linear", "forward", x, weight, bias)
    if found is not None:
        return found
    rows = x if x.ndim > 1 else _rows(xp, x)
    out = xp.matmul(rows, xp.permute(weight, axes=(1, 0)))
    if bias is not None:
        as_rows = x.ndim == 2 or bias.ndim < 2  # what PyTorch's addmm adds the bias to
        target = (math.prod(x.shape[:-1]), weight.shape[0]) if as_rows else (*x.shape[:-1], weight.shape[0])
        check_expands(bias.shape, target)
        out = out + bias
    return out if x.ndim > 1 else xp.reshape(out, shape=(weight.shape[0],))


@linear.vjp
def _(xp, g, x, weight, needs):
    if weight.ndim == 1:
        rows = xp.reshape(g, shape=(math.prod(x.shape[:-1]), 1))
        gx = xp.reshape(rows * weight, shape=tuple(x.shape)) if needs[0] else None
        gw = (
            xp.reshape(xp.matmul(swap(xp, _rows(xp, x)), rows), shape=tuple(weight.shape))
            if needs[1]
            else None
        )
        return gx, gw, g
    found = direct(xp, "_linear", "gradients", g, x, weight, needs)
    if found is not None:
        return *found, g
    if x.ndim == 2:
        gx = xp.matmul(g, weight) if needs[0] else None
        return gx, xp.matmul(xp.permute(g, axes=(1, 0)), x) if needs[1] else None, g
    gx = gw = None
    if needs[0]:
        gx = xp.matmul(g if g.ndim > 1 else _rows(xp, g), weight)
        gx = gx if g.ndim > 1 else xp.reshape(gx, shape=tuple(x.shape))
    if needs[1]:
        gw = xp.matmul(swap(xp, _rows(xp, g)), _rows(xp, x))
    return gx, gw, g  # the engine sums the bias gradient over the rows


@linear.lean_face(
    usual=(
        "weight._data.ndim == 2 and input._data.shape[-1:] == weight._data.shape[1:] and "
        "input._data.dtype is weight._data.dtype",
        "input, weight, bias",
    )
)
def _(input, weight, bias=None):
    one_row = weight.ndim == 1 and input.ndim and input.shape[-1] == weight.shape[0]
    if one_row and bias is not None:
        raise RuntimeError("mat2 must be a matrix, got 1-D tensor")
    if not one_row and (weight.ndim != 2 or input.shape[-1:] != weight.shape[1:]):
        rows = 1
        for n in input.shape[:-1]:
            rows *= n
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({rows}x{(input.shape or (1,))[-1]} and "
            f"{'x'.join(map(str, reversed(weight.shape)))})"
        )
    if not agree(input, weight):
        raise RuntimeError(
            f"mat1 and mat2 must have the same dtype, but got {input.dtype} and {weight.dtype}"
        )
    return input, weight, bias
