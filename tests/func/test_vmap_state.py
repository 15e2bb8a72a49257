"""What ``vmap`` does beside computing: memory, versions, hooks, draws, and both modes of one program."""

from __future__ import annotations

import numpy as np
import pytest

import jtorch
from jtorch import func, nn
from jtorch.nn import functional
from jtorch.utils.checkpoint import checkpoint
from tests.each import each


def looped(function, *batches):
    rows = [function(*parts) for parts in zip(*batches, strict=True)]
    return jtorch.stack(rows)


def close(a, b, tolerance=1e-5):
    assert a.shape == b.shape and a.dtype == b.dtype
    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=tolerance, atol=tolerance)


# -- memory --------------------------------------------------------------------------------------------------


def test_writes_to_an_argument_are_seen_outside():
    x = jtorch.ones(4, 2)
    version = x._version
    out = func.vmap(lambda r: r.mul_(3))(x)
    assert (x == 3).all() and (out == 3).all() and x._version == version + 1


def test_results_that_are_views_are_views_of_the_argument():
    x = jtorch.zeros(4, 3)
    func.vmap(lambda r: r[0])(x).add_(1)
    func.vmap(lambda r: r, out_dims=1)(x).add_(1)
    assert x[:, 0].tolist() == [2] * 4 and x[:, 1].tolist() == [1] * 4


def test_what_no_example_has_a_part_in_happens_once():
    count = jtorch.zeros(())

    def function(r):
        count.add_(1)
        return r * count

    assert func.vmap(function)(jtorch.ones(4, 2)).tolist() == [[1, 1]] * 4
    assert count.item() == 1


def test_a_write_between_forward_and_backward_is_noticed():
    x = jtorch.randn(4, 3, requires_grad=True)
    y = x * 1
    out = func.vmap(lambda r: (r * r).sum())(y).sum()
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.backward()


# -- the tape ------------------------------------------------------------------------------------------------


def test_a_second_backward_is_an_error_unless_the_graph_is_kept():
    x = jtorch.randn(4, 3, requires_grad=True)
    out = func.vmap(lambda r: (r * r).sum())(x).sum()
    out.backward(retain_graph=True)
    out.backward()
    close(x.grad, 4 * x)
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        out.backward()


def test_hooks_see_the_sum_of_the_examples_once():
    w, x = jtorch.randn(8, requires_grad=True), jtorch.randn(4, 8)
    seen = []
    w.register_hook(lambda g: seen.append(("leaf", g.shape)))
    h = w * 2
    h.register_hook(lambda g: seen.append(("node", g.shape)))
    func.vmap(lambda r: (r * h * w).sum())(x).sum().backward()
    assert seen == [("node", (8,)), ("leaf", (8,))]
    close(w.grad, 4 * w * x.sum(0))


class Cube(jtorch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x**3 * w

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return 3 * x**2 * g * w, g * x**3


class Both(jtorch.autograd.Function):
    """One output of what differs among examples, and one of what they share."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x * w, w * 2

    @staticmethod
    def backward(ctx, g, h):
        x, w = ctx.saved_tensors
        return g * w, g * x + 2 * h


@pytest.mark.parametrize("wrap", [lambda f: f, jtorch.compile])
def test_custom_functions(wrap):
    w, x = jtorch.randn(8, requires_grad=True), jtorch.randn(4, 8, requires_grad=True)

    def several(r):
        first, second = Both.apply(r, w)
        return (first * second).sum() + (second * second).sum()

    for function in (lambda r: Cube.apply(r, w).sum(), several):
        whole = wrap(lambda x, f=function: func.vmap(f)(x).square().sum())
        want = jtorch.autograd.grad(looped(function, x).square().sum(), (w, x))
        for g, h in zip(jtorch.autograd.grad(whole(x), (w, x)), want, strict=True):
            close(g, h, 1e-4)


def test_checkpoints():
    w, x = jtorch.randn(8, 8, requires_grad=True), jtorch.randn(4, 8, requires_grad=True)

    def plain(r):
        return jtorch.tanh(w @ r)

    found = func.vmap(lambda r: checkpoint(plain, r, use_reentrant=False).sum())(x).sum()
    want = jtorch.autograd.grad(looped(lambda r: plain(r).sum(), x).sum(), (w, x))
    for g, h in zip(jtorch.autograd.grad(found, (w, x)), want, strict=True):
        close(g, h)


def test_complex_numbers():
    x = jtorch.randn(4, 3, dtype=jtorch.complex64, requires_grad=True)
    w = jtorch.randn(3, dtype=jtorch.complex64, requires_grad=True)

    def function(r):
        return (r * r * w).abs().sum()

    want = jtorch.autograd.grad(looped(function, x).sum(), (x, w))
    for g, h in zip(jtorch.autograd.grad(func.vmap(function)(x).sum(), (x, w)), want, strict=True):
        close(g, h, 1e-4)


# -- layers --------------------------------------------------------------------------------------------------

_LAYERS = {
    "lstm": (lambda: nn.LSTM(8, 5, batch_first=True), (4, 2, 6, 8)),
    "gru": (lambda: nn.GRU(8, 5), (4, 6, 2, 8)),
    "transformer": (
        lambda: nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True),
        (4, 2, 6, 8),
    ),
    "batch norm in eval": (lambda: nn.BatchNorm2d(3).eval(), (4, 2, 3, 5, 5)),
    "instance norm": (lambda: nn.InstanceNorm2d(3, affine=True), (4, 2, 3, 5, 5)),
    "conv1d": (lambda: nn.Conv1d(6, 4, 3, padding=1), (4, 1, 6, 8)),
    "conv3d": (lambda: nn.Conv3d(3, 4, 2), (4, 1, 3, 4, 4, 4)),
    "depthwise": (lambda: nn.Conv2d(6, 6, 3, groups=6), (4, 2, 6, 5, 5)),
    "strided transposed": (lambda: nn.ConvTranspose2d(3, 4, 3, stride=2), (4, 2, 3, 5, 5)),
    "image without a batch": (lambda: nn.Conv2d(3, 6, 3), (4, 3, 5, 5)),
}


@each("name", list(_LAYERS))
def test_layers(name):
    make, shape = _LAYERS[name]
    layer, x = make(), jtorch.randn(*shape)

    def function(r):
        out = layer(r)
        return out[0] if isinstance(out, tuple) else out

    have, want = func.vmap(function)(x), looped(function, x)
    close(have, want, 1e-4)
    parameters = list(layer.parameters())
    found = jtorch.autograd.grad(have.square().sum(), parameters)
    for g, h in zip(found, jtorch.autograd.grad(want.square().sum(), parameters), strict=True):
        close(g, h, 1e-3)


@each("dtype", [jtorch.float16, jtorch.bfloat16], ids=str)
def test_sixteen_bits(dtype):
    x = jtorch.randn(4, 6, 8).to(dtype)
    for function in (
        lambda r: r.softmax(0), lambda r: r @ r.T, lambda r: functional.layer_norm(r, (8,)),
        lambda r: r + 1.5,
        lambda r: r.cumsum(0), lambda r: func.grad(lambda s: (s.softmax(0) * s).sum())(r),
        lambda r: func.grad(lambda s: (s * 2 + s * 3).sum())(r),
    ):  # fmt: skip
        have, want = func.vmap(function)(x), looped(function, x)
        assert have.dtype == want.dtype == dtype
        close(have.float(), want.float(), 2e-2)


def test_ensembles():
    models = [nn.Sequential(nn.Linear(8, 5), nn.ReLU(), nn.Linear(5, 2)) for _ in range(6)]
    x = jtorch.randn(7, 8)
    parameters, buffers = func.stack_module_state(models)

    def output(p, b):
        return func.functional_call(models[0], (p, b), (x,))

    out = func.vmap(output)(parameters, buffers)
    close(out, jtorch.stack([m(x) for m in models]))
    out.square().sum().backward()
    for k, model in enumerate(models):
        model(x).square().sum().backward()
        for name, p in model.named_parameters():
            close(parameters[name].grad[k], p.grad, 1e-4)


@pytest.mark.parametrize("name", ["jtorch", "torch"])
def test_models_that_do_not_stack(name):
    library = pytest.importorskip(name)
    stack, layers = library.func.stack_module_state, library.nn
    with pytest.raises(RuntimeError, match="Expected at least one model, got 0"):
        stack([])
    with pytest.raises(RuntimeError, match="to have the same training/eval mode"):
        stack([layers.Linear(2, 2), layers.Linear(2, 2).eval()])
    with pytest.raises(RuntimeError, match="to be of the same class"):
        stack([layers.Linear(2, 2), layers.Bilinear(2, 2, 2)])


# -- draws ---------------------------------------------------------------------------------------------------

_DRAWS = {
    "randperm": lambda r: jtorch.randperm(5), "randint": lambda r: jtorch.randint(0, 1000, (5,)),
    "bernoulli": lambda r: jtorch.bernoulli(r), "multinomial": lambda r: jtorch.multinomial(r, 3),
    "normal": lambda r: jtorch.normal(r, 1.0), "poisson": lambda r: jtorch.poisson(r * 20),
    "rand_like": jtorch.rand_like, "normal_": lambda r: r.clone().normal_(),
    "dropout": lambda r: functional.dropout(r), "gumbel_softmax": functional.gumbel_softmax,
}  # fmt: skip


@each("name", list(_DRAWS))
def test_draws_differ_or_are_the_same(name):
    x = jtorch.zeros(4, 64) + 0.5

    def rows(**options):
        return {tuple(row) for row in func.vmap(_DRAWS[name], **options)(x).tolist()}

    assert len(rows(randomness="different")) > 1
    assert len(rows(randomness="same")) == 1 or name == "normal_"
    assert len(rows(randomness="same", chunk_size=3)) == 1 or name == "normal_"
    with pytest.raises(RuntimeError, match="in randomness error mode"):
        rows()


@each(
    "outer, inner, count",
    [("different", "different", 24), ("different", "same", 6), ("same", "different", 12)],
)
def test_draws_of_a_batch_of_batches(outer, inner, count):
    def function(row):
        return func.vmap(lambda r: r + jtorch.randn(3), randomness=inner)(row)

    found = func.vmap(function, randomness=outer)(jtorch.zeros(2, 4, 3))
    assert len(np.unique(found.numpy())) == count


def test_the_gradient_of_dropout_has_its_mask():
    w = jtorch.ones(6, requires_grad=True)
    out = func.vmap(lambda r: functional.dropout(r * w), randomness="different")(jtorch.ones(4, 6))
    out.sum().backward()
    close(w.grad, out.sum(0))


# -- compiled ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("randomness", ["same", "different"])
def test_both_modes_draw_the_same(randomness):
    def function(x):
        return func.vmap(lambda r: functional.dropout(r) * jtorch.randn(6), randomness=randomness)(x)

    x, compiled = jtorch.ones(4, 6), jtorch.compile(function)
    found = []
    for f in (function, compiled):
        jtorch.manual_seed(3)
        found.append(jtorch.stack([f(x) for _ in range(3)]))
    assert (found[0] == found[1]).all()


def test_many_examples_are_recorded_as_few():
    def function(x):
        return func.vmap(lambda r: jtorch.tanh(r) * r.sum())(x)

    few, many = jtorch.compile(function), jtorch.compile(function)
    few(jtorch.ones(2, 3)), many(jtorch.ones(1000, 3))
    pairs = ((few, jtorch.ones(2, 3)), (many, jtorch.ones(1000, 3)))
    told = [str(f.explain(x)).partition(" as ")[0] for f, x in pairs]
    assert told[0] == told[1] and "ops" in told[0]


def test_batches_of_any_size_are_one_recording():
    w = jtorch.randn(8, 8)

    def slope(r):
        return func.grad(lambda s: (jtorch.tanh(w @ s) * s.softmax(0)).sum())(r)

    compiled = jtorch.compile(lambda x: func.vmap(slope)(x), dynamic=True)
    for n in (2, 5, 9, 16):
        x = jtorch.randn(n, 8)
        close(compiled(x), func.vmap(slope)(x))
    assert len(compiled.retraces) == 0


def test_a_training_step_of_any_batch():
    layer = nn.Linear(8, 3)

    @jtorch.compile(dynamic=True)
    def step(x):
        loss = func.vmap(lambda r: layer(r).square().sum())(x).mean()
        layer.zero_grad()
        loss.backward()
        return loss

    for n in (2, 5, 9):
        x = jtorch.randn(n, 8)
        loss, found = step(x), layer.weight.grad.clone()
        layer.zero_grad()
        want = layer(x).square().sum(1).mean()
        want.backward()
        close(loss, want)
        close(found, layer.weight.grad, 1e-4)


def test_compiled_functions_inside():
    f = jtorch.compile(lambda r: jtorch.tanh(r) * r.sum())
    x = jtorch.randn(4, 8)
    close(func.vmap(f)(x), looped(f, x))
    close(jtorch.compile(lambda x: func.vmap(f)(x))(x), looped(f, x))


def test_masks():
    x, kept = jtorch.randn(4, 8), jtorch.tensor([True, False] * 4)

    def cleared(r):
        r = r.clone()
        r[r > 0] = 0.0
        return r

    for wrap in (lambda f: f, jtorch.compile):
        close(wrap(lambda x: func.vmap(cleared)(x))(x), x.clamp(max=0))
        close(wrap(lambda x: func.vmap(lambda r: r[kept])(x))(x), x[:, kept])
        with pytest.raises(RuntimeError, match="dynamic shape"):
            wrap(lambda x: func.vmap(lambda r: r[r > 0])(x))(x)
        with pytest.raises(RuntimeError, match="control flow"):
            wrap(lambda x: func.vmap(lambda r: r if r.sum() > 0 else -r)(x))(x)


def test_an_index_that_all_share_makes_a_view():
    x, place = jtorch.randn(4, 8), jtorch.tensor(2)

    def written(r):
        r = r.clone()
        r[place].add_(1)
        return r

    want = x.clone()
    want[:, 2] += 1
    close(func.vmap(written)(x), want)


def test_scans():
    def sums(r):
        return jtorch.compiler.scan(lambda c, q: (c + q, c * q), r[0] * 0, r)[1]

    x = jtorch.randn(4, 5, 3)
    close(func.vmap(sums)(x), looped(sums, x))
    close(jtorch.compile(lambda x: func.vmap(sums)(x))(x), looped(sums, x))


@pytest.mark.slow
@pytest.mark.parametrize("wrap", [lambda f: f, jtorch.compile])
def test_while_loops_take_the_steps_of_each_example(wrap):
    w, x = jtorch.tensor(1.7, requires_grad=True), jtorch.tensor([0.1, 3.0, 9.0, 1.0], requires_grad=True)

    def grown(a):
        last, steps = jtorch.compiler.while_loop(lambda c: c < 5, lambda c: c * w + a, a * 2, max_steps=12)
        return last * steps.float()

    def found(function):
        out = function(x)
        return out, *jtorch.autograd.grad(out.sum(), (x, w))

    want = found(lambda x: looped(grown, x))
    for have in (
        wrap(lambda x: found(lambda x: func.vmap(grown)(x)))(x),
        wrap(lambda x: found(lambda x: func.vmap(func.vmap(grown))(x.reshape(2, 2)).reshape(4)))(x),
    ):
        for h, g in zip(have, want, strict=True):
            close(h, g, 1e-4)


def test_what_is_done_gets_no_gradient_of_a_pole():
    def function(a):
        return jtorch.compiler.while_loop(lambda c: c < 4, lambda c: (4 - c).sqrt() + c, a, max_steps=9)[0]

    x = jtorch.tensor([0.0, 4.0, 3.0], requires_grad=True)
    (have,) = jtorch.autograd.grad(func.vmap(function)(x).sum(), x)
    (want,) = jtorch.autograd.grad(looped(function, x).sum(), x)
    close(have, want)


@pytest.mark.parametrize("wrap", [lambda f: f, jtorch.compile])
def test_the_probabilities_of_all_examples_are_looked_at(wrap):
    x, y = jtorch.rand(4, 6), jtorch.rand(4, 6)
    close(
        wrap(lambda x, y: func.vmap(functional.binary_cross_entropy)(x, y))(x, y),
        looped(functional.binary_cross_entropy, x, y),
    )
    x[2, 3] = 1.5
    with pytest.raises(RuntimeError, match="all elements of input should be between 0 and 1"):
        wrap(lambda x, y: func.vmap(functional.binary_cross_entropy)(x, y))(x, y)
