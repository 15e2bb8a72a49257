"""Autocast: its switches, what it casts once, and that it belongs to a thread and to a recording."""

from __future__ import annotations

import threading

import pytest

import jtorch
from jtorch.core.casting import OFF
from jtorch.core.errors import CompileError
from jtorch.core.op import CONTEXT
from jtorch.nn import functional as F
from jtorch.utils.checkpoint import checkpoint
from tests.ops.support import HAS_TORCH

if HAS_TORCH:
    import torch

MODES = {"eager": lambda f: f, "compiled": jtorch.compile}


@pytest.fixture(params=MODES)
def mode(request):
    return MODES[request.param]


X = jtorch.linspace(-1, 1, 12).reshape(3, 4)


def weight():
    return jtorch.linspace(-2, 1, 20).reshape(5, 4).clone().requires_grad_()


def lowered(dtype=jtorch.float16, **options):
    return jtorch.autocast("cpu", dtype=dtype, **options)


# -- switches ----------------------------------------------------------------------------------------------


def test_a_device_may_be_named_with_its_number(mode):
    @mode
    def product(x):
        with jtorch.autocast("cpu:0"):
            return x @ x.T, jtorch.is_autocast_enabled("cpu:0")

    found, enabled = product(X)
    assert found.dtype is jtorch.bfloat16
    assert enabled
    assert jtorch.autocast("cpu:0").device == "cpu:0"
    assert jtorch.autocast("cuda:0", enabled=False).fast_dtype is jtorch.float16
    assert jtorch.get_autocast_dtype("cpu:0") is jtorch.bfloat16
    assert jtorch.amp.is_autocast_available("cpu:0")
    with pytest.raises(RuntimeError, match="unknown device type"):
        jtorch.autocast("cpu:x")


def test_blocks_nest_and_end_where_they_began():
    assert not jtorch.is_autocast_enabled("cpu")
    with jtorch.autocast("cpu"):
        assert (X @ X.T).dtype is jtorch.bfloat16
        with lowered():
            assert (X @ X.T).dtype is jtorch.float16
            with jtorch.autocast("cpu", enabled=False):
                assert (X @ X.T).dtype is jtorch.float32
                assert not jtorch.is_autocast_enabled("cpu")
            assert (X @ X.T).dtype is jtorch.float16
        assert jtorch.get_autocast_dtype("cpu") is jtorch.bfloat16
    assert (X @ X.T).dtype is jtorch.float32


def test_an_error_ends_the_block():
    with pytest.raises(KeyError), lowered():
        raise KeyError
    assert not jtorch.is_autocast_enabled("cpu")


def test_it_decorates_functions_which_may_call_themselves():
    @jtorch.autocast("cpu")
    def product(depth):
        inner = product(depth - 1) if depth else X
        return (inner @ X.T @ X).to(jtorch.float32) if depth else inner @ X.T @ X

    assert product(0).dtype is jtorch.bfloat16 and product(2).dtype is jtorch.float32
    assert not jtorch.is_autocast_enabled("cpu")
    with pytest.raises(TypeError, match="requires a callable"):
        jtorch.autocast("cpu")(3)


def test_a_block_may_be_entered_again_inside_itself():
    block = lowered()
    with block, block:
        assert (X @ X.T).dtype is jtorch.float16
    assert not jtorch.is_autocast_enabled("cpu")


def test_it_is_switched_for_the_thread_by_functions():
    try:
        jtorch.set_autocast_enabled("cpu", True)
        jtorch.set_autocast_dtype("cpu", jtorch.float16)
        jtorch.set_autocast_cache_enabled(False)
        assert (X @ X.T).dtype is jtorch.float16 and not jtorch.is_autocast_cache_enabled()
        found = []
        other = threading.Thread(target=lambda: found.append((X @ X.T).dtype))
        other.start()
        other.join()
        assert found == [jtorch.float32]
        with jtorch.autocast("cpu"):  # whose type is what was set
            assert (X @ X.T).dtype is jtorch.float16
    finally:
        jtorch.set_autocast_enabled("cpu", False)
        jtorch.set_autocast_dtype("cpu", jtorch.bfloat16)
        jtorch.set_autocast_cache_enabled(True)
    assert CONTEXT.get().mode == 1


def test_early_names_say_the_same():
    with pytest.warns(FutureWarning), jtorch.cpu.amp.autocast(dtype=jtorch.float16):
        assert jtorch.is_autocast_cpu_enabled() and jtorch.get_autocast_cpu_dtype() is jtorch.float16
        jtorch.set_autocast_cpu_enabled(False)
        assert (X @ X.T).dtype is jtorch.float32
    assert jtorch.autocast_increment_nesting() == 1 and jtorch.autocast_decrement_nesting() == 0
    assert jtorch.amp.is_autocast_available("cpu") and not jtorch.is_autocast_enabled()


def test_devices_that_are_not_here_keep_what_is_set_for_them():
    """A program that saves and restores these finds them again; nothing else changes."""
    for L in (jtorch, torch) if HAS_TORCH else (jtorch,):
        for kind, usual in (("mps", L.float16), ("hpu", L.bfloat16)):
            assert not L.is_autocast_enabled(kind) and L.get_autocast_dtype(kind) is usual
            L.set_autocast_enabled(kind, True)
            L.set_autocast_dtype(kind, L.float32)
            assert L.is_autocast_enabled(kind) and L.get_autocast_dtype(kind) is L.float32
            assert not L.is_autocast_enabled("cpu") and (L.ones(2, 2) @ L.ones(2, 2)).dtype is L.float32
            L.set_autocast_enabled(kind, False)
            L.set_autocast_dtype(kind, usual)
    assert CONTEXT.get().casting.number == OFF.number, "as if nothing had been set"


def test_compiled_functions_see_what_is_set_for_devices_that_are_not_here():
    f = jtorch.compile(lambda x: x * 2 if jtorch.is_autocast_enabled("mps") else x + 1)
    assert f(jtorch.ones(1)).item() == f(jtorch.ones(1)).item() == 2.0
    jtorch.set_autocast_enabled("mps", True)
    try:
        assert f(jtorch.full((1,), 5.0)).item() == 10.0
    finally:
        jtorch.set_autocast_enabled("mps", False)
    assert f(jtorch.full((1,), 5.0)).item() == 6.0


def test_what_cannot_be_on_is_off_with_a_warning_or_an_error():
    with pytest.warns(UserWarning, match="CUDA is not available"), jtorch.autocast("cuda"):
        assert (X @ X.T).dtype is jtorch.float32
    with pytest.warns(UserWarning, match=r"only supports dtypes of \S+bfloat16"):
        assert not jtorch.autocast("cpu", dtype=jtorch.float64)._enabled
    with pytest.raises(ValueError, match="Expected `device_type` of type `str`"):
        jtorch.autocast(jtorch.bfloat16)
    with pytest.raises(RuntimeError, match="'vulkan'"):
        jtorch.autocast("vulkan")
    for refused, error in (("meta", RuntimeError), (True, TypeError)):
        with pytest.raises(error, match="device"):
            jtorch.set_autocast_enabled(refused, True)
    with pytest.raises(RuntimeError, match="autocast lowers to"):
        jtorch.set_autocast_dtype("cpu", jtorch.float64)


@pytest.mark.filterwarnings("ignore:torch.set_autocast_gpu_dtype:DeprecationWarning")
@pytest.mark.parametrize("switch", [(True,), ("cuda", True), ("cuda:0", True)])
def test_switched_on_for_cuda_it_leaves_the_cpu_alone(switch):
    """Also where there is no such device, as in PyTorch."""
    for L in (jtorch, torch) if HAS_TORCH else (jtorch,):
        x = L.ones(2, 2)
        before = L.get_autocast_dtype("cuda")
        try:
            L.set_autocast_enabled(*switch)
            L.set_autocast_gpu_dtype(L.bfloat16)
            assert L.is_autocast_enabled() and L.is_autocast_enabled("cuda")
            assert not L.is_autocast_enabled("cpu")
            assert (x @ x).dtype is L.float32 and L.get_autocast_dtype("cuda") is L.bfloat16
            if L is jtorch:
                assert jtorch.compile(lambda x: x @ x)(x).dtype is jtorch.float32
        finally:
            L.set_autocast_enabled("cuda", False)
            L.set_autocast_dtype("cuda", before)
        assert not L.is_autocast_enabled("cuda")


EARLY = {
    "cuda.amp.autocast": lambda L: L.cuda.amp.autocast(enabled=False),
    "cuda.amp.GradScaler": lambda L: L.cuda.amp.GradScaler(enabled=False),
    "cpu.amp.autocast": lambda L: L.cpu.amp.autocast(),
    "cpu.amp.GradScaler": lambda L: L.cpu.amp.GradScaler(),
    "cuda.amp.custom_fwd": lambda L: L.cuda.amp.custom_fwd(lambda ctx, x: x),
    "cuda.amp.custom_fwd with": lambda L: L.cuda.amp.custom_fwd(cast_inputs=L.float32),
    "cuda.amp.custom_bwd": lambda L: L.cuda.amp.custom_bwd(lambda ctx, x: x),
}


@pytest.mark.parametrize("name", EARLY)
def test_early_names_say_where_they_are_now(name):
    told = []
    for L in (jtorch, torch) if HAS_TORCH else (jtorch,):
        with pytest.warns(FutureWarning, match="is deprecated. Please use `torch.amp") as caught:
            assert callable(EARLY[name](L)) or "Scaler" in name
        told.append([(str(w.message), w.filename) for w in caught])
    assert told[0] == told[-1]
    assert [file for _, file in told[0]] == [__file__]


# -- what it casts -------------------------------------------------------------------------------------------


def test_in_place_and_out_are_left_alone_as_in_pytorch():
    with lowered(jtorch.bfloat16):
        out = jtorch.empty(3, 3)
        assert jtorch.mm(X, X.T, out=out).dtype is jtorch.float32
        assert jtorch.equal(out, X.mm(X.T, out=jtorch.empty(3, 3)))
        assert jtorch.equal(jtorch.zeros(3, 3).addmm_(X, X.T), out)
        assert jtorch.equal(jtorch.zeros(1, 3, 3).baddbmm_(X[None], X.T[None])[0], out)
        assert (X @ X.T).dtype is jtorch.bfloat16


def test_tensors_of_different_dtypes_meet():
    narrow = X.bfloat16()
    with lowered(jtorch.bfloat16):
        assert F.linear(narrow, weight(), jtorch.ones(5)).dtype is jtorch.bfloat16
        assert jtorch.mm(narrow, X.T).dtype is jtorch.bfloat16
        assert jtorch.cat([narrow, X]).dtype is jtorch.float32
        with pytest.raises(RuntimeError, match="same dtype"):
            jtorch.mm(narrow, X.double().T)
        with pytest.raises(RuntimeError, match="float16 tensors where autocast is of"):
            jtorch.cat([X.half(), X])
    with pytest.raises(RuntimeError, match="same dtype"):
        jtorch.mm(narrow, X.T)


def test_a_parameter_is_cast_once_in_the_outermost_block():
    w = weight()

    def casts(**options):
        with lowered(jtorch.bfloat16, **options):
            with lowered(jtorch.bfloat16, **options):
                first = F.linear(X, w)
            cache = CONTEXT.get().casting.cache
            second = F.linear(X, w)
            assert CONTEXT.get().casting.cache is cache
            return len(cache), first, second

    count, first, second = casts()
    assert count == 1 and CONTEXT.get().casting.cache == {}
    (first.sum() + second.sum()).backward()
    assert w.grad.dtype is jtorch.float32
    assert casts(cache_enabled=False)[0] == 0
    with lowered(jtorch.bfloat16), jtorch.no_grad():
        F.linear(X, w)
        with jtorch.enable_grad():  # not the one that is on no tape
            assert F.linear(X, w).requires_grad
        jtorch.clear_autocast_cache()
        assert CONTEXT.get().casting.cache == {}


def test_backward_may_run_twice_through_what_was_cast_once():
    w = weight()
    with lowered(jtorch.bfloat16):
        F.linear(X, w).sum().backward()
        first = w.grad.clone()
        F.linear(X, w).sum().backward()
    assert jtorch.equal(w.grad, first * 2)


def test_a_parameter_that_has_changed_is_cast_anew():
    """PyTorch computes on with what it has cast before."""
    w = weight()
    with lowered(jtorch.bfloat16):
        before = F.linear(X, w)
        with jtorch.no_grad():
            w.mul_(2)
        assert jtorch.equal(F.linear(X, w), before * 2)
        w.data = w.data * 2
        assert jtorch.equal(F.linear(X, w), before * 4)


# -- backward ------------------------------------------------------------------------------------------------


def test_backward_runs_in_the_dtypes_of_forward_wherever_it_is_called():
    def gradient(inside, create_graph):
        w, x = weight(), X.clone().requires_grad_()
        loss = (F.linear(x, w) ** 2).sum()
        with lowered(enabled=inside):
            (g,) = jtorch.autograd.grad(loss, w, create_graph=create_graph)
        return g.detach()

    for create_graph in (False, True):
        assert jtorch.equal(gradient(True, create_graph), gradient(False, create_graph))


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_a_checkpoint_runs_again_as_it_ran_first(use_reentrant):
    def gradient(run):
        w, x = weight(), X.clone().requires_grad_()
        with lowered(jtorch.bfloat16):
            out = run(lambda x: F.linear(x, w).exp(), x)
        out.sum().backward()
        return w.grad

    again = gradient(lambda f, x: checkpoint(f, x, use_reentrant=use_reentrant))
    assert jtorch.equal(again, gradient(lambda f, x: f(x)))


def test_custom_functions_say_what_they_run_in():
    seen = []

    class Product(jtorch.autograd.Function):
        @staticmethod
        @jtorch.amp.custom_fwd(device_type="cpu", cast_inputs=jtorch.float32)
        def forward(ctx, x, w):
            seen.append((x.dtype, jtorch.is_autocast_enabled("cpu")))
            ctx.save_for_backward(x, w)
            return x @ w

        @staticmethod
        @jtorch.amp.custom_bwd(device_type="cpu")
        def backward(ctx, g):
            x, w = ctx.saved_tensors
            seen.append(jtorch.is_autocast_enabled("cpu"))
            return g @ w.T, x.T @ g

    class Plain(Product):
        @staticmethod
        @jtorch.amp.custom_fwd(device_type="cpu")
        def forward(ctx, x, w):
            ctx.save_for_backward(x, w)
            return x @ w

    w = weight()
    with lowered():
        out = Product.apply(X.half(), w.T)
        plain = Plain.apply(X, w.T)
    assert out.dtype is jtorch.float32 and plain.dtype is jtorch.float16
    out.sum().backward()
    plain.sum().backward()
    assert seen == [(jtorch.float32, False), False, True]
    with pytest.raises(ValueError, match="device_type"):
        jtorch.amp.custom_fwd(device_type=3)


# -- compiled functions --------------------------------------------------------------------------------------


def test_a_compiled_function_holds_for_the_setting_it_was_recorded_in():
    @jtorch.compile
    def product(x):
        return x @ x.T

    assert product(X).dtype is jtorch.float32
    with lowered():
        assert product(X).dtype is jtorch.float16
        with lowered(jtorch.bfloat16, enabled=False):  # as outside
            assert product(X).dtype is jtorch.float32
    assert product(X).dtype is jtorch.float32
    assert sum(map(len, product.plans.values())) == 2
    assert "autocast: off -> float16" in str(product.retraces)


def test_the_type_that_was_set_is_part_of_the_recording():
    @jtorch.compile
    def product(x):
        with jtorch.autocast("cpu"):
            return x @ x.T

    try:
        jtorch.set_autocast_dtype("cpu", jtorch.float16)
        assert product(X).dtype is jtorch.float16
    finally:
        jtorch.set_autocast_dtype("cpu", jtorch.bfloat16)


def test_a_recording_may_not_leave_autocast_switched():
    @jtorch.compile(fullgraph=True)
    def switch(x):
        jtorch.set_autocast_enabled("cpu", True)
        return x + 1.0

    try:
        with pytest.raises(CompileError, match="leaves autocast set otherwise"):
            switch(X)
    finally:
        jtorch.set_autocast_enabled("cpu", False)


@pytest.mark.slow
def test_a_step_with_a_block_inside_is_that_of_eager_mode():
    def trained(mode):
        jtorch.manual_seed(0)
        net = jtorch.nn.Sequential(jtorch.nn.Linear(4, 8), jtorch.nn.Tanh(), jtorch.nn.Linear(8, 2))
        optimizer = jtorch.optim.SGD(net.parameters(), lr=0.1)

        def step(x, y):
            optimizer.zero_grad()
            with lowered():
                loss = F.cross_entropy(net(x), y)
            loss.backward()
            optimizer.step()
            return loss

        step = mode(step)
        losses = [step(X, jtorch.tensor([0, 1, 0])).item() for _ in range(3)]
        return losses, [p.detach() for p in net.parameters()]

    (losses, ours), (eager, theirs) = trained(jtorch.compile), trained(lambda f: f)
    assert losses == pytest.approx(eager, rel=1e-3)
    for a, b in zip(ours, theirs, strict=True):
        jtorch.testing.assert_close(a, b, rtol=2e-3, atol=1e-4)


def test_what_was_cast_outside_is_no_part_of_a_recording():
    w = weight()
    product = jtorch.compile(lambda x: F.linear(x, w))
    with lowered():
        before = F.linear(X, w)
        assert jtorch.equal(product(X), before)
        with jtorch.no_grad():
            w.mul_(2)
        assert jtorch.equal(product(X), before * 2)


def test_what_a_recording_has_cast_is_nothing_outside():
    w = weight()
    product = jtorch.compile(lambda x: F.linear(x, w))
    with lowered():
        first = product(X)
        assert jtorch.equal(F.linear(X, w), first) and jtorch.equal(product(X), first)
    try:
        jtorch.set_autocast_dtype("cpu", jtorch.float16)
        jtorch.set_autocast_enabled("cpu", True)
        other = jtorch.compile(lambda x: F.linear(x, w))
        assert jtorch.equal(other(X), first) and jtorch.equal(F.linear(X, w), first)
        F.linear(X, w).sum().backward()
    finally:
        jtorch.set_autocast_enabled("cpu", False)
        jtorch.set_autocast_dtype("cpu", jtorch.bfloat16)
    assert w.grad.dtype is jtorch.float32 and CONTEXT.get().casting.cache == {}


def test_a_block_made_outside_may_be_entered_inside():
    block = lowered()

    @jtorch.compile(fullgraph=True)
    def product(x):
        with block:
            return x @ x.T

    assert [product(X).dtype for _ in range(3)] == [jtorch.float16] * 3
    with block:
        assert (X @ X.T).dtype is jtorch.float16


def test_disabled_functions_run_as_the_line_that_calls_them():
    @jtorch.compiler.disable
    def product(x):
        return (x @ x.T).float() * 1.0 if (x @ x.T).dtype is jtorch.float16 else x[:, :3] * 0.0

    @jtorch.compile
    def whole(x):
        with lowered():
            return product(x + 1.0)

    with lowered():
        expected = product(X + 1.0)
    assert jtorch.equal(whole(X), expected) and jtorch.equal(whole(X), expected)
