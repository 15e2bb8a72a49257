"""``vmap`` against PyTorch's: the same programs give the same numbers, gradients and ``requires_grad``."""

from __future__ import annotations

import numpy as np
import pytest

import jtorch
from tests.each import each
from tests.func.test_func import flat

RNG = np.random.default_rng(1)
A, B, V = RNG.normal(size=(4, 3, 5)), RNG.normal(size=(5, 6)), RNG.normal(size=(4, 3))
IMAGES, KERNELS = RNG.normal(size=(4, 2, 3, 6, 6)), RNG.normal(size=(4, 8, 3, 3, 3))
PLACES = np.array([[0, 2], [4, 1], [1, 1], [0, 0]])
ALONG = RNG.integers(0, 5, (4, 3, 2))
CLASSES = RNG.integers(0, 5, (4, 3))
QUERIES = RNG.normal(size=(4, 2, 3, 5))


def _first(library, out, *inputs):
    return library.autograd.grad((out * out).sum(), inputs, allow_unused=True)


def _second(library, out, *inputs):
    found = library.autograd.grad((out * out).sum(), inputs, create_graph=True)
    return library.autograd.grad(sum((g * g).sum() for g in found), inputs, allow_unused=True)


def nesting(L):
    """vmap in vmap, and beside derivatives."""
    F, a, b, v, ag, bg, _ = _tensors(L)
    first, second = (lambda *args: _first(L, *args)), (lambda *args: _second(L, *args))

    def layer(r):
        return L.tanh(r @ bg) * r.sum()

    return {
        "twice": lambda: F.vmap(F.vmap(lambda r: L.tanh(r @ b)))(a),
        "in dims": lambda: F.vmap(F.vmap(lambda r, s: r.sum() * s, in_dims=(1, None)), in_dims=(0, None))(
            a, b[0]
        ),
        "closed over the outer": lambda: F.vmap(
            lambda m: F.vmap(lambda r: r * m.sum())(m.T), out_dims=2
        )(a),
        "pairs": lambda: F.vmap(F.vmap(lambda x, y: (x - y).norm(), (None, 0)), (0, None))(v, v[:2]),
        "gradient of it": lambda: first(F.vmap(layer)(ag), ag, bg),
        "second gradient of it": lambda: second(F.vmap(layer)(ag), ag, bg),
        "second gradient of two": lambda: second(F.vmap(F.vmap(layer))(ag), ag, bg),
        "to another dim": lambda: second(F.vmap(lambda r: L.tanh(r @ bg), out_dims=1)(ag), ag, bg),
        "from another dim": lambda: second(
            F.vmap(lambda r: L.tanh(r @ bg), in_dims=1, out_dims=-1)(ag), ag, bg
        ),
        "per-example gradients": lambda: F.vmap(
            F.grad(lambda w, x: L.tanh(x @ w).sum(), argnums=0), in_dims=(None, 0)
        )(b, a),
        "through per-example gradients": lambda: first(
            F.vmap(F.grad(lambda w, x: L.tanh(x @ w).sum(), argnums=0), in_dims=(None, 0))(bg, ag), ag, bg
        ),
        "hessian inside": lambda: F.vmap(F.hessian(lambda x: (L.sin(x) * x.sum()).sum()))(v),
        "jacrev inside": lambda: F.vmap(F.jacrev(lambda x: L.sin(x) * x.sum()))(v),
        "jacfwd inside": lambda: F.vmap(F.jacfwd(lambda x: (L.sin(x) * x.sum()).repeat(2)))(v),
        "inside jacrev": lambda: F.jacrev(lambda w: F.vmap(lambda r: L.tanh(r @ w))(a))(b),
        "inside hessian": lambda: F.hessian(
            lambda w: F.vmap(lambda r: L.tanh(r @ w).sum())(a).sum()
        )(b[:, :2]),
        "inside grad of grad": lambda: F.grad(
            lambda w: (F.grad(lambda u: F.vmap(lambda r: L.tanh(r @ u).sum())(a).prod())(w) ** 2).sum()
        )(b),
        "jvp inside": lambda: F.vmap(lambda x, y: F.jvp(lambda z: L.sin(z) * z.sum(), (x,), (y,)))(v, v * 2),
        "vjp inside": lambda: F.vmap(lambda x, y: F.vjp(lambda z: L.sin(z) * z.sum(), x)[1](y)[0])(v, v * 2),
        "grad around": lambda: F.grad(lambda x: F.vmap(F.grad(lambda y: (y**3).sum()))(x).sum())(v),
        "third derivative": lambda: F.vmap(F.grad(F.grad(F.grad(lambda y: y**4))))(v[:, 0]),
        "jacfwd of many outputs": lambda: F.jacfwd(lambda y: L.outer(y, y).sin())(v[0]),
        "jacrev by chunks": lambda: F.jacrev(lambda y: L.outer(y, y).sin(), chunk_size=4)(v[0]),
        "jacfwd of jacfwd": lambda: F.jacfwd(F.jacfwd(lambda y: L.outer(y, y).sin()))(v[0]),
        "jacrev of two": lambda: F.jacrev(lambda x, y: (x * y, y.sum()), argnums=(0, 1))(v[0], v[1]),
    }  # fmt: skip


def calling(L):
    """Structures of arguments and results, and what is shared."""
    F, a, b, v, ag, bg, vg = _tensors(L)
    first, second = (lambda *args: _first(L, *args)), (lambda *args: _second(L, *args))
    made = bg[1, :3] * bg[2, :3]
    return {
        "dict": lambda: F.vmap(
            lambda d: {"s": d["a"] * d["b"], "l": [d["a"].sum()]}, in_dims=({"a": 0, "b": None},)
        )({"a": a, "b": b[0, :5]}),
        "tuple": lambda: F.vmap(lambda p, q: p[0] @ p[1] + q, in_dims=((0, None), None))((a, b), v[0, 0]),
        "a dim for all of a container": lambda: F.vmap(lambda p: p[0] + p[1], in_dims=(0,))((v, v)),
        "keywords are shared": lambda: F.vmap(lambda r, *, s: r * s)(v, s=b[0, 0]),
        "nested results": lambda: F.vmap(lambda r: (r, (r * 2, r.sum())), out_dims=(0, (1, 0)))(v),
        "what differs not is repeated": lambda: F.vmap(lambda r: (r, b))(v),
        "or given as it is": lambda: F.vmap(lambda r: (r, b), out_dims=(0, None))(v),
        "gradient of what is repeated": lambda: first(F.vmap(lambda r: bg * 2)(v), bg),
        "gradient of both": lambda: second(F.vmap(lambda r: (bg * 2).sum() * r)(vg), vg, bg),
        "gradient of what was made outside": lambda: second(
            F.vmap(lambda r: (made * bg[0, :3]).sum() * r * made)(vg), vg, bg
        ),
        "gradient of an argument": lambda: first(F.vmap(lambda r: r)(vg), vg),
        "chunks": lambda: F.vmap(lambda r: L.tanh(r @ b), chunk_size=3)(a),
        "chunks to other dims": lambda: F.vmap(
            lambda r: (L.tanh(r @ b), r.sum()), out_dims=(1, 0), chunk_size=3
        )(a),
        "no example": lambda: F.vmap(lambda r: L.tanh(r @ b).sum(0))(a[:0]),
        "one example": lambda: F.vmap(lambda r: L.tanh(r @ b).sum(0))(a[:1]),
        "detached": lambda: first(F.vmap(lambda r: r.detach() * r)(ag), ag),
        "of no gradients": lambda: _without_gradients(L, lambda: F.vmap(lambda r: r @ b)(ag)),
    }


def ops(L):
    """What networks and scripts call."""
    F, a, b, v, ag, bg, vg = _tensors(L)

    def second(out, *inputs):
        return _second(L, out, *inputs)

    N = L.nn.functional
    places, along, classes = (L.from_numpy(i) for i in (PLACES, ALONG, CLASSES))
    images, kernels, queries = (L.from_numpy(t) for t in (IMAGES, KERNELS, QUERIES))

    def written(r):
        r = r.clone()
        r[0] = r[1] * 2
        r[:, 1:3] += 1
        return r

    return {
        "x[i]": lambda: F.vmap(lambda r, i: r[i])(v, L.tensor([0, 2, 1, 0])),
        "x[:, i]": lambda: F.vmap(lambda r, i: r[:, i])(a, places),
        "shared[i]": lambda: F.vmap(lambda i: b[i])(places),
        "x[i, j]": lambda: F.vmap(lambda r, i, j: r[i, j])(a, places % 3, places),
        "x[-i]": lambda: F.vmap(lambda r, i: r[i])(v, L.tensor([[-1], [-2], [1], [0]])),
        "gradient of x[:, i]": lambda: second(F.vmap(lambda r, i: r[:, i] * r.sum())(ag, places), ag),
        "gradient of shared[i]": lambda: second(F.vmap(lambda i: bg[i] * bg.sum())(places), bg),
        "gather": lambda: F.vmap(lambda r, i: r.gather(1, i))(a, along),
        "where": lambda: F.vmap(lambda r: L.where(r > 0, r, -r))(a),
        "masked_fill": lambda: F.vmap(lambda r: r.masked_fill(r > 0, 2.0))(a),
        "assignment": lambda: F.vmap(written)(a),
        "gradient of assignment": lambda: second(F.vmap(lambda r: written(r) * r)(ag), ag),
        "in place": lambda: F.vmap(lambda r: r.clone().mul_(2).add_(r[0]))(a),
        "new_zeros": lambda: F.vmap(lambda r: r.new_zeros(5).add_(r[0]))(a),
        "zeros_like": lambda: F.vmap(lambda r: L.zeros_like(r).add_(r))(a),
        "full_like": lambda: F.vmap(lambda r: L.full_like(r, 2.0).mul_(r))(a),
        "sort": lambda: F.vmap(lambda r: L.sort(r, dim=1)[0])(a),
        "topk": lambda: F.vmap(lambda r: L.topk(r, 2)[0])(a),
        "einsum": lambda: F.vmap(lambda r: L.einsum("ij,jk->ki", r, b))(a),
        "argmax": lambda: F.vmap(lambda r: r.argmax())(a),
        "argmax along": lambda: F.vmap(lambda r: r.argmax(1, keepdim=True))(a),
        "cat with shared": lambda: F.vmap(lambda r: L.cat([r, b.T[:, :5]], 0))(a),
        "stack with shared": lambda: F.vmap(lambda r: L.stack([r[0], b[0, :5]], 1))(a),
        "solve": lambda: F.vmap(lambda r: L.linalg.solve(r @ r.T + L.eye(3, dtype=L.float64), r))(a),
        "solve by shared": lambda: F.vmap(lambda r: L.linalg.solve(b[:5, :5], r.T))(a),
        "view": lambda: F.vmap(lambda r: r.view(5, 3).t().flatten())(a),
        "promotion of a number": lambda: F.vmap(lambda s: s * L.ones(3, dtype=L.float32))(v[:, 0]),
        "promotion of ints": lambda: F.vmap(lambda s: s + L.arange(3))(v[:, 0].float()),
        "cross_entropy": lambda: F.vmap(N.cross_entropy)(a, classes),
        "interpolate": lambda: F.vmap(lambda r: N.interpolate(r[None, None], scale_factor=2))(a),
        "linear": lambda: second(F.vmap(lambda r: N.linear(r, bg.T, bg[0]))(ag), ag, bg),
        "layer_norm": lambda: second(
            F.vmap(lambda r: N.layer_norm(r, (5,), bg[:, 0], bg[:, 1]))(ag), ag, bg
        ),
        "layer_norm of each": lambda: F.vmap(lambda r: N.layer_norm(r, (5,), r[0], r[1]))(a),
        "conv2d": lambda: F.vmap(lambda x: N.conv2d(x, kernels[0], padding=1))(images),
        "conv2d of each": lambda: F.vmap(lambda x, w: N.conv2d(x, w, w[:, 0, 0, 0], stride=2))(
            images, kernels
        ),
        "conv2d of shared images": lambda: F.vmap(lambda w: N.conv2d(images[0], w))(kernels),
        "gradient of conv2d": lambda: F.vmap(
            F.grad(lambda w, x: (N.conv2d(x, w) ** 2).sum()), in_dims=(None, 0)
        )(kernels[0], images),
        "conv_transpose2d": lambda: F.vmap(N.conv_transpose2d)(
            images.repeat(1, 1, 3, 1, 1)[:, :, :8], kernels
        ),
        "max_pool2d": lambda: F.vmap(lambda x: N.max_pool2d(x, 2))(images),
        "gradient of max_pool2d": lambda: F.vmap(F.grad(lambda x: (N.max_pool2d(x, 2) ** 2).sum()))(images),
        "avg_pool2d": lambda: F.vmap(lambda x: N.avg_pool2d(x, 2))(images),
        "batch_norm in eval": lambda: F.vmap(lambda x: N.batch_norm(x, b[0, :3], b[1, :3] ** 2))(images),
        "batch_norm of each batch": lambda: F.vmap(lambda x: N.batch_norm(x, None, None, training=True))(
            images
        ),
        "group_norm": lambda: F.vmap(lambda x: N.group_norm(x, 3))(images),
        "embedding": lambda: F.vmap(lambda i: N.embedding(i, b))(places),
        "gradient of embedding": lambda: F.vmap(
            F.grad(lambda w, i: (N.embedding(i, w) ** 2).sum()), (None, 0)
        )(b, places),
        "attention": lambda: F.vmap(lambda q: N.scaled_dot_product_attention(q, q, q, is_causal=True))(
            queries
        ),
        "unfold": lambda: F.vmap(lambda r: r.unfold(1, 3, 1))(a),
        "pad": lambda: F.vmap(lambda r: N.pad(r, (1, 2)))(a),
        "products with shared": lambda: second(F.vmap(lambda r: L.matmul(queries[0], r.T))(ag), ag),
        "matrix times vector": lambda: second(F.vmap(lambda r: bg.T[:3, :3] @ r)(vg), vg, bg),
        "dot": lambda: second(F.vmap(lambda r: r.dot(bg[0, :3]))(vg), vg, bg),
        "searchsorted": lambda: F.vmap(lambda s, x: L.searchsorted(s.sort()[0], x))(v, v),
        "prod": lambda: second(F.vmap(lambda r: r.prod())(vg), vg),
        "tril": lambda: F.vmap(lambda r: r.tril())(a),
        "diag": lambda: F.vmap(L.diag)(v),
    }  # fmt: skip


def _tensors(library):
    plain = [library.from_numpy(t.copy()) for t in (A, B, V)]
    tracked = [library.from_numpy(t.copy()).requires_grad_() for t in (A, B, V)]
    return library.func, *plain, *tracked


def _without_gradients(library, function):
    with library.no_grad():
        return function()


_CASES = [(family, name) for family in (nesting, calling, ops) for name in family(jtorch)]


@pytest.mark.filterwarnings("ignore:`torch.jit.script`:DeprecationWarning")  # the oracle's own
@pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning")
@each("family, name", _CASES)
def test_the_same_as_pytorch(family, name):
    torch = pytest.importorskip("torch")
    have, want = flat(family(jtorch)[name]()), flat(family(torch)[name]())
    assert len(have) == len(want)
    for h, w in zip(have, want, strict=True):
        if h is None or w is None:
            assert all(t is None or not t.any() for t in (h, w))
            continue
        assert tuple(h.shape) == tuple(w.shape)
        assert str(h.dtype).partition(".")[2] == str(w.dtype).partition(".")[2]
        assert h.requires_grad == w.requires_grad
        np.testing.assert_allclose(h.detach().numpy(), w.detach().numpy(), rtol=1e-9, atol=1e-11)


def _puts(library):
    """Values of each example, put into a tensor that they share."""
    x = library.arange(6.0).reshape(2, 3).requires_grad_()
    k = library.tensor([[0, 1, 1], [3, 2, 3]])
    shared = library.arange(4.0).requires_grad_()
    both = library.func.vmap(lambda a, i: shared.index_put((i,), a * a, accumulate=True))(x, k)
    grads = library.autograd.grad((both * library.arange(8.0).reshape(2, 4)).sum(), (x, shared))
    values = library.func.vmap(lambda a: shared.index_put((k[0],), a))(x)
    places = library.func.vmap(lambda i: shared.index_put((i,), x[0, :1]))(k[:, :1])
    return [t.tolist() for t in (both, *grads, values, places)]


def test_index_put_into_what_the_examples_share():
    torch = pytest.importorskip("torch")
    assert _puts(jtorch) == _puts(torch)


def _terms(w, x):
    """Uses of ``w`` whose gradients are one for all examples, one for each, and one that is counted twice."""
    return [(w * 1).sum(), (w * 2).sum(), (w * x).sum(), (w * w).sum()]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (0, 2, 1), (3, 0, 1, 2), (2, 2), (3, 3)], ids=str)
def test_gradients_of_examples_meet_those_of_the_batch(dtype, order):
    L, kind = jtorch, getattr(jtorch, dtype)
    w, x = L.tensor([1.0, 2, 3], dtype=kind), L.tensor([[1.0, 2, 3], [4, 5, 6]], dtype=kind)
    have = L.vmap(L.func.grad(lambda w, x: sum(_terms(w, x)[i] for i in order)), (None, 0))(w, x)
    each = [L.full((2, 3), 1.0), L.full((2, 3), 2.0), x.float(), 2 * w.float().expand(2, 3)]
    assert have.dtype == w.dtype
    assert have.tolist() == sum(each[i] for i in order).tolist()
