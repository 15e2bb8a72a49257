"""float16 and bfloat16 in compiled code: kernels compute in float32 and round as often as eager mode, bit for
bit."""

from __future__ import annotations

import math

import numpy as np
import pytest

import jtorch
from jtorch.compile.plan.fuse import StepKind
from jtorch.nn import functional as F
from tests.each import each

HALVES = (jtorch.bfloat16, jtorch.float16)
PLACES = jtorch.tensor([2, 0, 1])

# what is arithmetic, comparing and moving; the gradients of these, too
EXACT = {
    "chain": lambda x, y: (x * y + x) / (y.abs() + 1) - 0.3,
    "numbers": lambda x, y: (2.5 * x - 1) / 3,
    "relu": lambda x, y: x.relu() * y,
    "clamp": lambda x, y: x.clamp(-0.5, 0.7),
    "where": lambda x, y: jtorch.where(x > y, x, y),
    "maximum": lambda x, y: jtorch.maximum(x, y) + jtorch.minimum(x, 0.1 * y),
    "square and root": lambda x, y: (x**2).sqrt(),
    "division": lambda x, y: x // y + x % y,
    "fused multiplication": lambda x, y: jtorch.addcmul(x, x, y, value=0.1).lerp(y, 0.3),
    "sum": lambda x, y: (x * y).sum(1) + x.sum(),
    "mean": lambda x, y: (x * y).mean(0),
    "extremes": lambda x, y: x.amax(0) - y.amin(0),
    "max": lambda x, y: x.max(1)[0],
    "argmax": lambda x, y: x.argmax(1),
    "var": lambda x, y: x.var(1),
    "prod": lambda x, y: x.prod(1),
    "permute": lambda x, y: x.t().contiguous() * 2,
    "cat": lambda x, y: jtorch.cat([x, y * 2], 1),
    "stack": lambda x, y: jtorch.stack([x, y]),
    "pad": lambda x, y: F.pad(x, (1, 2)) + F.pad(y, (2, 1), value=3.1),
    "index": lambda x, y: x[PLACES] + y[1:4],
    "flip": lambda x, y: x.flip(0) + y.roll(1, 0),
    "slice": lambda x, y: x[::2, 1:] + 1,
    "expand": lambda x, y: x[:, :1].expand(x.shape) + y,
    "tril": lambda x, y: x.tril().masked_fill(y > 0, -1e4),
    "conversions": lambda x, y: (x.float() * 2).to(x.dtype) + (x.double() / 3).to(x.dtype),
    "integers": lambda x, y: (x * 10).long() + x.bool().long() + (y * 3).int().to(x.dtype).int(),
    "comparisons": lambda x, y: (x == y) | x.isnan() | (x < 0.5),
    "made": lambda x, y: jtorch.full_like(x, 0.1) + jtorch.arange(7, dtype=x.dtype) * x,
    "in place": lambda x, y: x.clone().add_(y, alpha=0.1).mul_(y),
    "library calls": lambda x, y: x.sort(1)[0] + y.cumsum(1),
    "gather": lambda x, y: F.embedding(PLACES, x) + y.gather(0, PLACES[:, None].expand(3, 7)),
    "draws": lambda x, y: F.dropout(x, 0.3) + jtorch.rand_like(y),
    "products": lambda x, y: x @ y.t(),
    "einsum": lambda x, y: jtorch.einsum("ij,kj->ik", x, y),
    "linear": lambda x, y: F.linear(x, y),
    "pooling": lambda x, y: F.max_pool1d(x[None], 2) + F.avg_pool1d(y[None], 2),
    "losses": lambda x, y: F.mse_loss(x, y) + F.l1_loss(x, y),
}


def _bits(t):
    return t.detach()._data.view(np.uint16) if t.dtype in HALVES else t.detach().numpy()


def _run(f, dtype):
    jtorch.manual_seed(0)
    x, y = (jtorch.randn(5, 7).to(dtype).requires_grad_() for _ in range(2))
    out = f(x, y)
    if out.requires_grad:
        out.double().sum().backward()
    return [_bits(t) for t in (out, x.grad, y.grad) if t is not None]


@pytest.mark.slow
@each("name", [pytest.param(name, id=name) for name in EXACT])
def test_bits_are_those_of_eager_mode(name):
    for dtype in HALVES:
        expected = _run(EXACT[name], dtype)
        for options in ({}, {"mode": "interpret"}):
            found = _run(jtorch.compile(EXACT[name], fullgraph=True, **options), dtype)
            assert len(found) == len(expected)
            for a, b in zip(found, expected, strict=True):
                np.testing.assert_array_equal(a, b, err_msg=f"{dtype} {options}")


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_the_text_of_kernels_runs_as_plain_python_too(dtype, monkeypatch):
    names = ("chain", "mean", "extremes", "pad", "conversions")
    expected = [_run(EXACT[name], dtype) for name in names]
    monkeypatch.setenv("JTORCH_JIT", "0")
    for name, outcome in zip(names, expected, strict=True):
        for a, b in zip(_run(jtorch.compile(EXACT[name], fullgraph=True), dtype), outcome, strict=True):
            np.testing.assert_array_equal(a, b, err_msg=name)


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_a_chain_is_one_kernel_that_rounds_at_each_op(dtype):
    chain = jtorch.compile(EXACT["chain"], fullgraph=True)
    x, y = jtorch.randn(40, 7).to(dtype), jtorch.randn(40, 7).to(dtype)
    chain(x, y)
    (plan,) = next(iter(chain.plans.values()))
    assert [task.step.kind for task in plan.program.plan.tasks] == [StepKind.LOOP]
    once = (x.float() * y.float() + x.float()) / (y.float().abs() + 1) - 0.3
    assert not np.array_equal(_bits(chain(x, y)), _bits(once.to(dtype)))  # fewer roundings, other bits


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_functions_differ_by_the_last_place_at_most(dtype):
    """Those of kernels and NumPy's are not the same in float32; few results lie near enough to a middle."""
    x = jtorch.linspace(-4, 4, 2000).to(dtype)
    for f in (jtorch.exp, jtorch.tanh, jtorch.sin, jtorch.sigmoid, F.gelu, F.silu, jtorch.erf):
        a, b = _bits(f(x)).astype(np.int64), _bits(jtorch.compile(f)(x)).astype(np.int64)
        assert np.abs(a - b).max() <= 1 and (a != b).mean() < 0.005, f


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_special_values_survive(dtype):
    x = jtorch.tensor([np.nan, np.inf, -np.inf, 0.0, -0.0, 6e-8, -1e-40, 6e4, 3e38]).to(dtype)
    for f in (lambda x: x + x, lambda x: x * 0.5, lambda x: -x, lambda x: x.relu(), lambda x: x.flip(0)):
        with np.errstate(all="ignore"):
            a, b = f(x).float().numpy(), jtorch.compile(f)(x).float().numpy()
        np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(np.signbit(a[~np.isnan(a)]), np.signbit(b[~np.isnan(b)]))


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_a_training_step_of_a_narrow_network(dtype):
    def trained(mode):
        jtorch.manual_seed(0)
        net = jtorch.nn.Sequential(jtorch.nn.Linear(7, 16), jtorch.nn.ReLU(), jtorch.nn.Linear(16, 3)).to(
            dtype
        )
        optimizer = jtorch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        x, y = jtorch.randn(12, 7).to(dtype), jtorch.randn(12, 3).to(dtype)

        def step():
            optimizer.zero_grad()
            loss = F.mse_loss(net(x), y)
            loss.backward()
            optimizer.step()
            return loss

        step = mode(step)
        losses = [step().item() for _ in range(5)]
        return losses, [_bits(p) for p in net.parameters()]

    (losses, ours), (eager, theirs) = trained(jtorch.compile), trained(lambda f: f)
    assert losses == pytest.approx(eager, rel=2**-6)
    for a, b in zip(ours, theirs, strict=True):
        assert (a != b).mean() < 0.1


def test_items_of_bfloat16_are_numbers():
    @jtorch.compile
    def halved(x):
        n = x.sum().item()
        return x * 2 if n > 3 else x, n

    for values in ([1.5, 2.5], [0.5, 0.25]):
        out, n = halved(jtorch.tensor(values, dtype=jtorch.bfloat16))
        assert n == sum(values) and out.tolist() == [v * 2 if n > 3 else v for v in values]


FUNCTIONS = [
    "rsqrt", "sqrt", "log", "log2", "log10", "log1p", "exp", "exp2", "expm1", "sin", "cos", "tan", "tanh",
    "sigmoid", "reciprocal", "square", "atan", "asin", "acos", "sinh", "cosh", "asinh", "atanh", "erf",
    "erfc", "erfinv", "softplus", "gelu", "silu", "mish", "elu", "selu", "logsigmoid", "softsign",
]  # fmt: skip


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@each("name", FUNCTIONS)
def test_gradients_of_functions_are_rounded_once_in_both_modes(name, dtype):
    def step(x, v):
        y = getattr(x, name)() if hasattr(x, name) else getattr(F, name)(x)
        (y * v).float().sum().backward()
        return x.grad

    jtorch.manual_seed(0)
    x, v = (jtorch.rand(200) * 0.8 + 0.1).to(dtype), jtorch.randn(200).to(dtype)
    eager, compiled = (f(x.clone().requires_grad_(), v) for f in (step, jtorch.compile(step)))
    np.testing.assert_array_equal(_bits(eager), _bits(compiled))
    wide = step(x.float().requires_grad_(), v.float())
    np.testing.assert_allclose(eager.float().numpy(), wide.numpy(), rtol=2.0 * jtorch.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("n", (0, 1, 2, 3, 4, 7, -1, -2, 0.5, -0.5, 0.3, 1.5, 2.3, 5.3, 20.3, 300.0))
def test_powers_and_their_gradients_are_pytorchs_in_both_modes(n, dtype):
    torch = pytest.importorskip("torch", reason="PyTorch, the oracle, is not installed")

    def step(x):
        y = x**n
        y.sum().backward()
        return y, x.grad

    values = np.random.default_rng(0).uniform(*((0.05, 3.0) if abs(n) < 20 else (0.95, 1.02)), 200)
    x = jtorch.tensor(values, dtype=jtorch.float32).to(dtype)
    theirs = step(
        torch.tensor(values, dtype=torch.float32)
        .to(getattr(torch, str(dtype).removeprefix("jtorch.")))
        .requires_grad_()
    )
    if abs(n) == 0.5:
        edges = jtorch.tensor([-0.0, -math.inf, math.inf, math.nan], dtype=dtype)
        ours = [f(edges).float().numpy() for f in (lambda x: x**n, jtorch.compile(lambda x: x**n))]
        np.testing.assert_array_equal(*ours)
        np.testing.assert_array_equal(np.signbit(ours[0][:2]), np.signbit(ours[1][:2]))
    # PyTorch's own root of bfloat16 depends on where in memory an element lies
    tolerance = jtorch.finfo(dtype).eps if dtype is jtorch.bfloat16 and abs(n) == 0.5 else 0.0
    ours = [f(x.clone().requires_grad_()) for f in (step, jtorch.compile(step))]
    for eager, compiled, wanted in zip(*ours, theirs, strict=True):
        np.testing.assert_array_equal(_bits(eager), _bits(compiled))
        found, wanted = (t.detach().float().numpy() for t in (eager, wanted))
        np.testing.assert_allclose(found, wanted, rtol=tolerance)


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("name", ["pow", "atan2"])
def test_gradients_of_functions_of_two_tensors_are_rounded_alike(name, dtype):
    def step(x, y):
        getattr(x, name)(y).float().sum().backward()
        return x.grad, y.grad

    jtorch.manual_seed(0)
    x, y = (jtorch.rand(200) * 2 + 0.1).to(dtype), (jtorch.randn(200) * 2).to(dtype)
    ours = [f(x.clone().requires_grad_(), y.clone().requires_grad_()) for f in (step, jtorch.compile(step))]
    for eager, compiled in zip(*ours, strict=True):
        np.testing.assert_array_equal(_bits(eager), _bits(compiled))


def classes(x):
    return jtorch.tensor([1, 0, 2, 1])


LOSSES = {
    "cross_entropy": lambda x, **how: F.cross_entropy(x, classes(x), **how),
    "cross_entropy, none counts": lambda x, **how: F.cross_entropy(x, classes(x), ignore_index=2, **how),
    "cross_entropy, smoothed": lambda x, **how: F.cross_entropy(x, classes(x), label_smoothing=0.1, **how),
    "cross_entropy, weighted": lambda x, **how: F.cross_entropy(
        x, classes(x), weight=jtorch.ones(3, dtype=x.dtype), **how
    ),
    "nll_loss": lambda x, **how: F.nll_loss(x.log_softmax(1), classes(x), **how),
    "mse_loss": lambda x, **how: F.mse_loss(x, x * 2, **how),
    "smooth_l1_loss": lambda x, **how: F.smooth_l1_loss(x, x * 2, **how),
    "huber_loss": lambda x, **how: F.huber_loss(x, x * 2, **how),
    "binary_cross_entropy_with_logits": lambda x, **how: F.binary_cross_entropy_with_logits(
        x, x.sigmoid(), **how
    ),
    "kl_div": lambda x, reduction: F.kl_div(
        x.log_softmax(1), x.softmax(1), reduction=reduction.replace("mean", "batchmean")
    ),
    "margin": lambda x, **how: F.multi_margin_loss(x, classes(x), **how),
}


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("dtype", [jtorch.bfloat16, jtorch.float16])
def test_losses_and_their_gradients_keep_the_dtype_in_both_modes(dtype, reduction):
    for name, loss in LOSSES.items():
        for wrap in (lambda f: f, jtorch.compile):
            x = jtorch.randn(4, 3).to(dtype).requires_grad_()
            found = wrap(lambda x, loss=loss: loss(x, reduction=reduction))(x)
            found.sum().backward()
            assert found.dtype == x.grad.dtype == dtype, name
