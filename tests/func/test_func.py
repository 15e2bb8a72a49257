"""``jtorch.func`` against PyTorch's."""

from __future__ import annotations

import numpy as np
import pytest

import jtorch
from jtorch import func, nn

X = [0.5, -1.2, 2.0]
Y = [1.5, 0.3, -0.7]


def of(library):
    """Programs over ``library`` that give a nested structure of tensors."""
    f = library.func
    x = library.tensor(X, dtype=library.float64)
    y = library.tensor(Y, dtype=library.float64)
    return {
        "grad": lambda: f.grad(lambda x: (x**3).sum())(x),
        "grad of second": lambda: f.grad(lambda x, y: (x * y.exp()).sum(), argnums=1)(x, y),
        "grad of both": lambda: f.grad(lambda x, y: (x * y.exp()).sum(), argnums=(0, 1))(x, y),
        "grad of dict": lambda: f.grad(lambda p: (p["a"] * p["b"]).sum())({"a": x, "b": y}),
        "grad and aux": lambda: f.grad(lambda x: ((x**2).sum(), x * 2), has_aux=True)(x),
        "grad and value": lambda: f.grad_and_value(lambda x: (x**2).sum())(x),
        "third derivative": lambda: f.grad(f.grad(f.grad(lambda t: t**4)))(x[2]),
        "vjp": lambda: (lambda out, pull: (out, pull(y)))(*f.vjp(lambda x: x.sin(), x)),
        "vjp of two": lambda: (lambda out, pull: pull(out))(*f.vjp(lambda x, y: (x * y, x + y), x, y)),
        "vjp and aux": lambda: f.vjp(lambda x: (x.sin(), x.cos()), x, has_aux=True)[2],
        "jvp": lambda: f.jvp(lambda x, y: x * y.sin(), (x, y), (y, x)),
        "jvp of constant": lambda: f.jvp(lambda x: x * 0 + 1, (x,), (y,)),
        "linearize": lambda: _along(f.linearize(lambda x: x.sin() * x.sum(), x), (y,), (x,)),
        "linearize two": lambda: _along(f.linearize(lambda x, y: (x * y, {"a": y.exp()}), x, y), (y, x)),
        "linearize a dict": lambda: _along(
            f.linearize(lambda p: p["a"] * p["b"], {"a": x, "b": y}), [{"a": y, "b": x}]
        ),
        "linearize and vmap": lambda: f.vmap(f.linearize(lambda x: (x**3).cumsum(0), x)[1])(
            library.eye(3, dtype=library.float64)
        ),
        "jacrev": lambda: f.jacrev(lambda x: x.exp() * x.sum())(x),
        "jacrev of both": lambda: f.jacrev(lambda x, y: (x * y, y.sum()), argnums=(0, 1))(x, y),
        "jacfwd": lambda: f.jacfwd(lambda x: x.exp() * x.sum())(x),
        "hessian": lambda: f.hessian(lambda x: (x**3).sum() * x[0])(x),
        "vmap": lambda: f.vmap(lambda a, b: a @ b, in_dims=(0, None))(x.reshape(3, 1), y[:1]),
        "vmap of grad": lambda: f.vmap(f.grad(lambda t: t**3))(x),
        "vmap to last": lambda: f.vmap(lambda a: (a, a * 2), out_dims=(0, 1))(library.outer(x, y)),
    }


def _along(linear, *tangents):
    output, jvp_fn = linear
    return [output, *(jvp_fn(*one) for one in tangents)]


def flat(found):
    if isinstance(found, dict):
        return [t for key in sorted(found) for t in flat(found[key])]
    if isinstance(found, (tuple, list)):
        return [t for part in found for t in flat(part)]
    return [found]


@pytest.mark.filterwarnings("ignore:`torch.jit.script`:DeprecationWarning")  # the oracle's own
@pytest.mark.filterwarnings("ignore:Attempted to insert a get_attr Node:UserWarning")
@pytest.mark.parametrize("name", list(of(jtorch)))
def test_same_numbers(name):
    torch = pytest.importorskip("torch")
    have, want = flat(of(jtorch)[name]()), flat(of(torch)[name]())
    assert len(have) == len(want)
    for h, w in zip(have, want, strict=True):
        assert tuple(h.shape) == tuple(w.shape)
        assert h.requires_grad == w.requires_grad
        np.testing.assert_allclose(h.numpy(), w.numpy(), rtol=1e-12, atol=1e-14)


def test_what_it_closes_over_stays_on_the_tape():
    w = jtorch.tensor(2.0, dtype=jtorch.float64, requires_grad=True)
    g = func.grad(lambda x: w * x**3)(jtorch.tensor(3.0, dtype=jtorch.float64))
    assert g.item() == 54
    g.backward()
    assert w.grad.item() == 27


def test_tracked_arguments_stay_on_the_tape():
    x = jtorch.tensor(3.0, dtype=jtorch.float64, requires_grad=True)
    func.grad(lambda x: x**3)(x).backward()
    assert x.grad.item() == 18


def test_linearize_runs_the_function_once():
    runs = []

    def cube(x):
        runs.append(1)
        return x**3

    x = jtorch.tensor([1.0, 2.0], requires_grad=True)
    output, jvp_fn = func.linearize(cube, x)
    assert jtorch.equal(output, x**3)
    v = jtorch.tensor([1.0, 10.0], requires_grad=True)
    assert jvp_fn(v).tolist() == [3.0, 120.0]
    assert jvp_fn(jtorch.zeros(2)).tolist() == [0.0, 0.0]
    assert len(runs) == 1
    jvp_fn(v).sum().backward()
    assert v.grad.tolist() == [3.0, 12.0]
    assert x.grad.tolist() == [6.0, 120.0]  # of 3 x^2 v


def test_linearize_compiled():
    def along(x):
        return func.linearize(lambda y: (y**3).sum(), x)[1](x)

    assert jtorch.compile(along, fullgraph=True)(jtorch.arange(3.0)).item() == 27
    jvp_fn = func.linearize(lambda x: x**3, jtorch.arange(3.0))[1]
    with pytest.raises(jtorch.errors.CompileError, match="built outside"):
        jtorch.compile(lambda v: jvp_fn(v) * 2, fullgraph=True)(jtorch.ones(3))


@pytest.mark.filterwarnings("ignore:`torch.jit.script`:DeprecationWarning")  # the oracle's own
@pytest.mark.filterwarnings("ignore:Attempted to insert a get_attr Node:UserWarning")
@pytest.mark.parametrize("name", ["jtorch", "torch"])
def test_tangents_that_linearize_refuses(name):
    library = pytest.importorskip(name)
    jvp_fn = library.func.linearize(lambda x: x * 2, library.ones(3))[1]
    with pytest.raises(
        RuntimeError, match=r"^tangent:0 with shape torch.Size\(\[4\]\) in flattened pytree doesn't"
    ):
        jvp_fn(library.ones(4))
    with pytest.raises(
        RuntimeError, match=r"dtype \w+.float64 in .* match the dtype \w+.float32 of the corr"
    ):
        jvp_fn(library.ones(3, dtype=library.float64))
    with pytest.raises(
        RuntimeError, match=r"Expected the tangents (.|\n)* to have the same argspec as the primals"
    ):
        jvp_fn(library.ones(3), library.ones(3))


def test_functional_call_with_grad():
    model = nn.Linear(3, 1)
    parameters = {k: p.detach() for k, p in model.named_parameters()}
    x = jtorch.randn(5, 3)

    def loss(parameters):
        return func.functional_call(model, parameters, (x,)).square().mean()

    found = func.grad(loss)(parameters)
    model(x).square().mean().backward()
    for name, p in model.named_parameters():
        np.testing.assert_allclose(found[name].numpy(), p.grad.numpy(), rtol=1e-6)


def test_random_numbers_under_vmap():
    ones = jtorch.ones(4, 3)
    with pytest.raises(RuntimeError, match="called random operation while in randomness error mode"):
        func.vmap(lambda t: t * jtorch.rand(3))(ones)
    same = func.vmap(lambda t: t * jtorch.rand(3), randomness="same")(ones)
    different = func.vmap(lambda t: t * jtorch.rand(3), randomness="different")(ones)
    assert len({tuple(row) for row in same.tolist()}) == 1
    assert len({tuple(row) for row in different.tolist()}) == 4


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda x: func.grad(lambda x: x)(x), "return a scalar tensor, got tensor with 1 dims"),
        (lambda x: func.grad(lambda x: 3)(x), "to return a tensor, got <class 'int'>"),
        (lambda x: func.grad(lambda x: x.sum(), argnums=2)(x), "Got argnum=2, but only 1 positional inputs"),
        (lambda x: func.jvp(lambda x: x, x, x), "Expected primals to be a tuple"),
        (lambda x: func.vmap(lambda x: x, randomness="some"), "Only allowed values for randomness"),
        (lambda x: func.jvp(lambda x: x, (x,), (x[:1],)), "a tangent of shape"),
    ],
)
def test_errors(call, match):
    with pytest.raises(RuntimeError, match=match):
        call(jtorch.tensor(X))


def test_sizes_must_agree_under_vmap():
    with pytest.raises(ValueError, match="same size in the mapped dimension"):
        func.vmap(lambda x, y: x + y)(jtorch.ones(2), jtorch.ones(3))


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"in_dims": 2}, "in_dims=2.*dimensionality 2 so expected in_dim to satisfy -2 <= in_dim < 2"),
        ({"in_dims": -3}, "Got in_dim=-3 for some input"),
        ({"in_dims": None}, "expected `in_dims` to be int or a .*, got: <class 'NoneType'>"),
        ({"in_dims": "a"}, "expected `in_dims` to be int or a .*, got: <class 'str'>"),
        (
            {"in_dims": (1.5,)},
            "in_dim=1.5 for an input but in_dim must be either an integer dimension or None",
        ),
        ({"in_dims": (0, 1)}, "in_dims is not compatible with the structure of"),
        ({"out_dims": (0, 1)}, "out_dims is not compatible with the structure of `outputs`"),
        ({"chunk_size": 0}, "chunk_size should be None or greater than 0"),
    ],
)
@pytest.mark.parametrize("name", ["jtorch", "torch"])
def test_dims_that_vmap_refuses(name, options, match):
    library = pytest.importorskip(name)
    with pytest.raises(ValueError, match=match):
        library.func.vmap(lambda row: row * 2, **options)(library.ones(2, 3))


@pytest.mark.parametrize("wrap", [lambda f: f, jtorch.compile])
def test_a_tensor_without_dims_under_vmap(wrap):
    with pytest.raises(ValueError, match="a Tensor of dimensionality 0 so expected in_dim"):
        wrap(lambda x: func.vmap(lambda row: row * 2)(x))(jtorch.tensor(2.0))


def test_numbers_read_of_examples_are_pytorchs_error():
    with pytest.raises(RuntimeError, match=r"It looks like you're calling \.item\(\) on a Tensor"):
        jtorch.func.vmap(lambda x: x.item())(jtorch.arange(3.0))
    with pytest.raises(ValueError, match="must only return Tensors, got type <class 'float'>"):
        jtorch.func.vmap(lambda x: 1.0)(jtorch.arange(3.0))


def test_a_compiled_functions_gradients_of_a_batch():
    def both(r):
        return r * 2, (r * r).cumsum(0)

    x, compiled = jtorch.tensor([1.0, 2.0, 3.0]), jtorch.compile(both)
    for ours, wanted in zip(func.jacrev(compiled)(x), func.jacrev(both)(x), strict=True):
        assert jtorch.equal(ours, wanted)
    for rows in (jtorch.eye(3), jtorch.zeros(0, 3)):
        pulled = [func.vmap(func.vjp(one, x)[1])((rows, rows))[0] for one in (compiled, both)]
        assert jtorch.equal(*pulled)
    nested = [
        func.vmap(func.vmap(func.vjp(one, x)[1]))((jtorch.ones(2, 3, 3),) * 2)[0] for one in (compiled, both)
    ]
    assert jtorch.equal(*nested)


def test_functionalize_gives_what_the_function_gives():
    def f(x):
        y = x.clone()
        y.view(-1)[0] = 7.0
        x.add_(1)
        return y * x

    for remove in ("mutations", "mutations_and_views"):
        x, z = jtorch.ones(2, 2), jtorch.ones(2, 2)
        assert jtorch.func.functionalize(f, remove=remove)(x).tolist() == f(z).tolist()
        assert x.tolist() == z.tolist() == [[2.0, 2.0]] * 2  # what is written to an argument stays written
    assert jtorch.func.functionalize(f).__name__ == "f"
    with pytest.raises(RuntimeError, match="invalid argument for kwarg 'remove'"):
        jtorch.func.functionalize(f, remove="views")
