"""Autocast of tensors on a device: its switches beside the CPU's, its classes, and steps in both modes."""

from __future__ import annotations

import warnings

import pytest

import jtorch
from jtorch import nn
from jtorch.core.op import CONTEXT
from jtorch.training import Trainer
from tests.amp.by_host import by_host
from tests.cuda.marks import compiles
from tests.cuda.test_compiled import plans
from tests.each import each

F = nn.functional
HALF, WIDE = jtorch.float16, jtorch.float32


@pytest.fixture
def there(monkeypatch):
    """A device without kernels."""
    with by_host(monkeypatch):
        yield


# -- switches ----------------------------------------------------------------------------------------------


def test_blocks_of_two_devices_nest(there):
    x = jtorch.ones(2, 2)
    with jtorch.autocast("cuda"):
        assert jtorch.is_autocast_enabled("cuda") and jtorch.is_autocast_enabled()
        assert not jtorch.is_autocast_enabled("cpu")
        assert (x @ x).dtype is WIDE and (x.cuda() @ x.cuda()).dtype is HALF
        with jtorch.autocast("cpu"), jtorch.autocast("cuda", dtype=jtorch.bfloat16):
            assert (x @ x).dtype is (x.cuda() @ x.cuda()).dtype is jtorch.bfloat16
            with jtorch.autocast("cuda", enabled=False):
                assert (x @ x).dtype is jtorch.bfloat16 and (x.cuda() @ x.cuda()).dtype is WIDE
        assert (x.cuda() @ x.cuda()).dtype is HALF and jtorch.get_autocast_dtype("cuda") is HALF
    with jtorch.autocast("cpu"):
        assert (x.cuda() @ x.cuda()).dtype is WIDE and x.cuda().half().exp().dtype is HALF
    assert not jtorch.is_autocast_enabled() and CONTEXT.get().mode == 1


def test_it_is_switched_for_the_thread_by_functions(there):
    x = jtorch.ones(2, 2, device="cuda")
    try:
        jtorch.set_autocast_dtype("cuda", jtorch.bfloat16)
        assert jtorch.get_autocast_gpu_dtype() is jtorch.bfloat16
        assert jtorch.get_autocast_dtype("cpu") is jtorch.bfloat16 and (x @ x).dtype is WIDE
        jtorch.set_autocast_enabled("cuda", True)
        assert (x @ x).dtype is jtorch.bfloat16
        with pytest.warns(FutureWarning), jtorch.cuda.amp.autocast():
            assert (x @ x).dtype is HALF
        jtorch.set_autocast_enabled(False)
        assert (x @ x).dtype is WIDE
    finally:
        jtorch.set_autocast_enabled("cuda", False)
        jtorch.set_autocast_dtype("cuda", HALF)
    assert CONTEXT.get().mode == 1


def test_what_it_lowers_to_is_one_of_three_dtypes(there):
    with pytest.warns(UserWarning, match="In CUDA autocast, but the target dtype is not supported"):
        assert not jtorch.autocast("cuda", dtype=jtorch.float64)._enabled
    with pytest.raises(RuntimeError, match=r"set_autocast_dtype\('cuda', jtorch.int8\): autocast lowers to"):
        jtorch.set_autocast_dtype("cuda", jtorch.int8)
    x = jtorch.ones(2, 2, device="cuda", dtype=HALF)
    with jtorch.autocast("cuda", dtype=WIDE):
        assert (x @ x).dtype is WIDE


def test_halves_of_a_custom_function_run_as_each_other(there):
    seen = []

    class Product(jtorch.autograd.Function):
        @staticmethod
        @jtorch.amp.custom_fwd(device_type="cuda", cast_inputs=WIDE)
        def forward(ctx, x):
            seen.append((x.dtype, jtorch.is_autocast_enabled("cuda")))
            return x * 2

        @staticmethod
        @jtorch.amp.custom_bwd(device_type="cuda")
        def backward(ctx, g):
            seen.append((g.dtype, jtorch.is_autocast_enabled("cuda")))
            return g * 2

    x = jtorch.ones(2, 2, device="cuda", dtype=HALF, requires_grad=True)
    with jtorch.autocast("cuda"):
        Product.apply(x).sum().backward()
    assert seen == [(WIDE, False)] * 2


# -- classes -----------------------------------------------------------------------------------------------

# class -> calls of matrices of 16 bits that are 1/2 throughout, and what is beside them
CLASSES = {
    "lower": {
        "mm": lambda x: x.float() @ x.float(), "linear": lambda x: F.linear(x.float(), x, x[0].float()),
        "mv": lambda x: x.float().mv(x[0]), "addmv": lambda x: jtorch.addmv(x[0].float(), x, x[0]),
        "addr": lambda x: jtorch.addr(x.float(), x[0], x[0]),
        "einsum": lambda x: jtorch.einsum("i,j->ij", x[0].float(), x[0]),
        "conv": lambda x: F.conv1d(x[None].float(), x[:, :, None]),
        "prelu": lambda x: F.prelu(x.float(), x[0, :1].float()),
        "attention": lambda x: F.scaled_dot_product_attention(x[None].float(), x[None], x[None]),
        "GRUCell": lambda x: nn.GRUCell(2, 3, device="cuda")(x.float()),
        "LSTM": lambda x: nn.LSTM(2, 3, device="cuda")(x.float())[1][1],
    },
    "float32": {
        "exp": jtorch.exp, "log": jtorch.log, "pow": lambda x: x**2, "rpow": lambda x: 2**x,
        "reciprocal": lambda x: 1 / x, "sum": jtorch.sum, "prod": jtorch.prod,
        "cumsum": lambda x: x.cumsum(0), "softmax": lambda x: x.softmax(0),
        "log_softmax": lambda x: F.log_softmax(x, 0), "layer_norm": lambda x: F.layer_norm(x, (2,)),
        "norm": jtorch.norm, "renorm": lambda x: x.renorm(2, 0, 1.0), "softplus": F.softplus,
        "cosine_similarity": lambda x: F.cosine_similarity(x, x),
        "interpolate": lambda x: F.interpolate(x[None], scale_factor=2),
        "mse_loss": lambda x: F.mse_loss(x, x), "cross_entropy": lambda x: F.cross_entropy(x, x),
        "nuclear": lambda x: jtorch.linalg.matrix_norm(x, "nuc"),
    },
    "promote": {
        "addcmul": lambda x: jtorch.addcmul(x, x.float(), x), "atan2": lambda x: jtorch.atan2(x, x.float()),
        "dot": lambda x: jtorch.dot(x[0], x[0].float()),
        "bilinear": lambda x: F.bilinear(x, x, x[None].float()),
        "tensordot": lambda x: jtorch.tensordot(x, x.float(), 1),
        "scatter_add": lambda x: x.scatter_add(0, jtorch.zeros_like(x).long(), x.float()),
        "index_put": lambda x: x.index_put((x[0].long(),), x.float()),
    },
    "none": {
        "add": lambda x: x + x, "sqrt": jtorch.sqrt, "mean": jtorch.mean, "gelu": F.gelu, "std": jtorch.std,
        "nansum": jtorch.nansum, "trace": jtorch.trace, "exp_": lambda x: x.clone().exp_(),
        "sum of a dtype": lambda x: x.sum(dtype=HALF),
        "softmax of a dtype": lambda x: x.softmax(0, dtype=HALF),
        "norm of a dtype": lambda x: jtorch.norm(x, dtype=HALF),
        "area": lambda x: F.interpolate(x[None], scale_factor=2, mode="area"),
        "out": lambda x: jtorch.mm(x, x, out=x.clone()),
        "max_pool3d": lambda x: F.max_pool3d(x[None, None], 1), "median": jtorch.median,
    },
}  # fmt: skip
GIVES = {"lower": HALF, "float32": WIDE, "promote": WIDE, "none": HALF}


@each("name", CLASSES)
def test_ops_give_the_dtypes_of_their_class(name, there):
    x = jtorch.full((2, 2), 0.5, dtype=HALF, device="cuda")
    with jtorch.autocast("cuda"):
        found = {call: function(x).dtype for call, function in CLASSES[name].items()}
    assert set(found.values()) == {GIVES[name]}, found


def test_float64_and_integers_are_left_alone(there):
    x = jtorch.ones(2, 2, device="cuda", dtype=jtorch.float64)
    with jtorch.autocast("cuda"):
        assert (x @ x).dtype is x.exp().dtype is jtorch.float64
        assert x.long().sum().dtype is jtorch.int64


def test_the_other_16_bits_are_refused_beside_the_block_s_own(there):
    x = jtorch.ones(3, device="cuda")
    with jtorch.autocast("cuda"), pytest.raises(RuntimeError, match="bfloat16 tensors where autocast is of"):
        jtorch.dot(x.bfloat16(), x)


def test_binary_cross_entropy_of_probabilities_is_banned(there):
    x = jtorch.full((3,), 0.5, device="cuda")
    with jtorch.autocast("cuda"):
        with pytest.raises(RuntimeError, match="BCELoss are unsafe to autocast"):
            F.binary_cross_entropy(x, x)
        assert F.binary_cross_entropy_with_logits(x, x).dtype is WIDE
        assert F.binary_cross_entropy(x.cpu(), x.cpu()).dtype is WIDE
        with jtorch.autocast("cuda", enabled=False):
            assert F.binary_cross_entropy(x, x).dtype is WIDE


def test_a_parameter_is_cast_once_in_the_outermost_block(there):
    w = jtorch.ones(2, 2, device="cuda", requires_grad=True)
    with jtorch.autocast("cuda"):
        ((w @ w) @ w).sum().backward()
        assert len(CONTEXT.get().casting.cache) == 1
    assert w.grad.dtype is WIDE


def test_backward_runs_in_the_dtypes_of_the_forward_pass(there):
    x = jtorch.full((2, 2), 0.5, device="cuda", requires_grad=True)
    with jtorch.autocast("cuda"):
        y = (x @ x).exp()
        y.sum().backward()
    inside, x.grad = x.grad, None
    with jtorch.autocast("cuda"):
        y = (x @ x).exp()
        total = y.sum()
    total.backward()
    assert jtorch.equal(inside, x.grad) and y.dtype is WIDE


# -- steps, by kernels -------------------------------------------------------------------------------------


class ByHand(nn.Module):
    """What autocast makes of ``Plain``: casts are of the program."""

    def __init__(self):
        super().__init__()
        self.first, self.norm, self.second = nn.Linear(6, 8), nn.LayerNorm(8), nn.Linear(8, 4)

    def forward(self, x, target):
        h = F.linear(x.half(), self.first.weight.half(), self.first.bias.half()).tanh()
        h = self.norm(h.float()).half()
        h = F.linear(h, self.second.weight.half(), self.second.bias.half())
        return F.cross_entropy(h.float(), target)


class Plain(ByHand):
    def forward(self, x, target):
        with jtorch.autocast("cuda"):
            h = self.norm(self.first(x).tanh())
            return F.cross_entropy(self.second(h), target)


def steps(network, device, compiled, scaled=True):
    """Losses of three steps, the parameters after them, and the step."""
    jtorch.manual_seed(0)
    model = network().to(device)
    optimizer = jtorch.optim.SGD(model.parameters(), lr=0.5)
    scaler = jtorch.amp.GradScaler("cuda", init_scale=2.0**10, enabled=scaled)

    def step(x, target):
        optimizer.zero_grad()
        loss = model(x, target)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss

    run = jtorch.compile(step, fullgraph=True) if compiled else step
    x, target = jtorch.randn(5, 6), jtorch.arange(5) % 4
    losses = [run(x.to(device), target.to(device)).item() for _ in range(3)]
    return losses, [p.detach().cpu() for p in model.parameters()], run


@pytest.mark.slow
@compiles
@pytest.mark.usefixtures("cuda")
@each("compiled", [False, True], ids=["eager", "compiled"])
def test_a_step_is_the_one_that_is_cast_by_hand(compiled):
    losses, parameters, run = steps(Plain, "cuda", compiled)
    expected_losses, expected, _ = steps(ByHand, "cuda", compiled)
    assert losses == expected_losses and losses[-1] < losses[0]
    assert all(map(jtorch.equal, parameters, expected))
    assert {p.dtype for p in parameters} == {WIDE}
    if compiled:
        (plan,) = plans(run)
        assert plan.program.target.name == "cuda"
        assert {str(v.dtype) for e in plan.program.graph.eqns for v in e.outputs} >= {"float16", "float32"}


@pytest.mark.slow
@compiles
@pytest.mark.usefixtures("cuda")
def test_a_scaler_leaves_out_a_step_whose_gradients_overflow():
    w = jtorch.full((2, 2), 200.0, device="cuda", requires_grad=True)
    optimizer, scaler = jtorch.optim.SGD([w], lr=1.0), jtorch.amp.GradScaler("cuda", init_scale=2.0**15)
    with jtorch.autocast("cuda"):
        loss = (w @ w).float().mean()
    scaler.scale(loss).backward()
    assert not w.grad.isfinite().all()
    scaler.step(optimizer)
    scaler.update()
    assert (w == 200).all() and scaler.get_scale() == 2.0**14


@pytest.mark.slow
@compiles
@pytest.mark.usefixtures("cuda")
def test_a_recording_holds_for_one_setting_of_the_device():
    product = jtorch.compile(lambda x: x @ x, fullgraph=True)
    x = jtorch.ones(3, 3, device="cuda")
    for dtype in (HALF, jtorch.bfloat16):
        with jtorch.autocast("cuda", dtype=dtype):
            assert product(x).dtype is dtype
    with jtorch.autocast("cpu"):
        assert product(x).dtype is WIDE
    assert product(x).dtype is WIDE
    assert any("cuda bfloat16" in str(retrace) for retrace in product.retraces), product.retraces


def test_a_trainer_runs_steps_under_the_autocast_of_its_task_s_device(there):
    seen = []

    class Task(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 2)

        def training_step(self, batch):
            scores = self.layer(batch[0].to("cuda"))
            seen.append(scores.dtype)
            return scores.float().pow(2).mean()

        def configure_optimizers(self):
            return jtorch.optim.SGD(self.parameters(), lr=0.1)

    data = jtorch.utils.data.TensorDataset(jtorch.ones(4, 4))
    trainer = Trainer(max_epochs=1, precision="bf16-mixed", compile=False)
    trainer.fit(Task().to("cuda"), jtorch.utils.data.DataLoader(data, batch_size=2))
    assert seen == [jtorch.bfloat16] * 2


def test_without_a_device_it_warns_and_does_nothing():
    with pytest.warns(UserWarning, match="CUDA is not available"), jtorch.autocast("cuda"):
        assert not jtorch.is_autocast_enabled("cuda")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with jtorch.autocast("cuda", enabled=False):
            assert not jtorch.is_autocast_enabled("cuda")
