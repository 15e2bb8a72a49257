"""DistributedDataParallel: what it computes, and what it refuses."""

import contextlib
import sys

import numpy as np

import jtorch
import jtorch.distributed as dist
from jtorch import nn
from jtorch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from jtorch.nn import functional as F
from jtorch.nn.parallel import DistributedDataParallel as DDP  # noqa: N817 - as everybody writes it

dist.init_process_group("mpi", timeout=30)
RANK, WORLD = dist.get_rank(), dist.get_world_size()
STEPS, BATCH = 100, 24  # which 2, 3 and 4 processes divide


def mlp():
    return nn.Sequential(nn.Linear(12, 20), nn.Tanh(), nn.Linear(20, 4))


def lenet():
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 6, 2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(24, 16), nn.ReLU(), nn.Linear(16, 4),
    )  # fmt: skip


def made(make, seed):
    jtorch.manual_seed(seed)
    return make()


def flat(module):
    return np.concatenate([p.detach().numpy().ravel() for p in module.parameters()])


def identical(values):
    """Whether these numbers are the same in all processes, bit for bit."""
    mine = jtorch.from_numpy(np.ascontiguousarray(values).view(np.uint8).copy())
    everyone = [jtorch.zeros_like(mine) for _ in range(WORLD)]
    dist.all_gather(everyone, mine)
    return all(t.numpy().tobytes() == mine.numpy().tobytes() for t in everyone)


def batches(shape):
    rng = np.random.default_rng(5)
    inputs = rng.standard_normal((STEPS, BATCH, *shape)).astype(np.float32)
    return [(jtorch.from_numpy(x), jtorch.from_numpy(y)) for x, y in
            zip(inputs, rng.integers(0, 4, (STEPS, BATCH)), strict=True)]  # fmt: skip


def train(model, part, shape, steps=STEPS):
    optimizer = jtorch.optim.Adam(model.parameters(), lr=1e-3)
    for x, y in batches(shape)[:steps]:
        optimizer.zero_grad()
        F.cross_entropy(model(x[part]), y[part]).backward()
        optimizer.step()
    return flat(model)


MINE = slice(RANK * BATCH // WORLD, (RANK + 1) * BATCH // WORLD)
SHAPES = {mlp: (12,), lenet: (1, 12, 12)}


def refuses(call, words, kind=Exception):
    try:
        call()
    except kind as error:
        assert words in str(error), (words, error)
    else:
        raise AssertionError(words)


# -- numbers -----------------------------------------------------------------------------------------------


def check_training_is_that_of_one_process_on_the_whole_batch():
    for make, shape in SHAPES.items():
        start = flat(made(make, 1))
        alone = train(made(make, 1), slice(None), shape)
        model = DDP(made(make, 1 + RANK))  # parameters become those of rank 0
        together = train(model, MINE, shape)
        assert identical(together), make
        moved, apart = np.abs(alone - start).max(), np.abs(alone - together).max()
        assert moved > 0.02, moved
        assert apart < 2e-6, apart
        print(f"rank {RANK}: {make.__name__}: moved {moved:.3g}, apart {apart:.3g}")


def check_bits_do_not_depend_on_buckets():
    for make, shape in SHAPES.items():
        models = [DDP(made(make, 1), bucket_cap_mb=mb, deterministic=True) for mb in (0.0001, 0.0012, 25)]
        assert len({len(model.reducer.buckets) for model in models}) == 3
        found = [train(model, MINE, shape, 30) for model in models]
        assert all(identical(a) for a in found)
        assert len({a.tobytes() for a in found}) == 1


def gradients(model, x):
    model.zero_grad()
    model(x).sum().backward()
    return [None if p.grad is None else p.grad.numpy().copy() for p in model.parameters()]


def local(k=RANK, n=3):
    return jtorch.from_numpy(np.random.default_rng(k).standard_normal((n, 12)).astype(np.float32))


def check_gradients_are_the_mean():
    model = DDP(made(mlp, 1))
    everyone = [gradients(made(mlp, 1), local(r)) for r in range(WORLD)]
    expected = [np.mean(parts, axis=0) for parts in zip(*everyone, strict=True)]
    for g, e in zip(gradients(model, local()), expected, strict=True):
        np.testing.assert_allclose(g, e, rtol=1e-5, atol=1e-6)
        assert identical(g)


def check_no_sync():
    """Gradients add up without being averaged until a step outside averages the sum."""
    model, plain = DDP(made(mlp, 1)), made(mlp, 1)
    with model.no_sync():
        model(local(RANK + 10)).sum().backward()
    here = gradients(plain, local(RANK + 10))
    for p, e in zip(model.parameters(), here, strict=True):
        np.testing.assert_array_equal(p.grad.numpy(), e)
    model(local()).sum().backward()
    expected = [
        np.mean(parts, axis=0) for parts in zip(*[
            [a + b for a, b in zip(gradients(plain, local(r + 10)), gradients(plain, local(r)), strict=True)]
            for r in range(WORLD)
        ], strict=True)
    ]  # fmt: skip
    for p, e in zip(model.parameters(), expected, strict=True):
        np.testing.assert_allclose(p.grad.numpy(), e, rtol=1e-5, atol=1e-5)
        assert identical(p.grad.numpy())


class Branches(nn.Module):
    """Uses one of two layers, or neither; a third one never."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(12, 2) for _ in range(3))

    def forward(self, x, which):
        return {"x": [self.layers[which](x)]}


def check_unused_parameters():
    model = DDP(made(Branches, 1), find_unused_parameters=True)
    for _ in range(2):
        model.zero_grad()
        model(local(), min(RANK, 1))["x"][0].sum().backward()
        used = [[p.grad is not None for p in layer.parameters()] for layer in model.module.layers]
        assert used == [[True] * 2, [True] * 2, [False] * 2]
        for layer, ranks in ((0, [0]), (1, range(1, WORLD))):
            e = sum(local(r).sum(0) for r in ranks) / WORLD
            g = model.module.layers[layer].weight.grad
            np.testing.assert_allclose(g[0].numpy(), e.numpy(), rtol=1e-5, atol=1e-5)
            assert identical(g.numpy())
    model = DDP(made(Branches, 1))
    model(local(), 0)["x"][0].sum().backward()
    refuses(lambda: model(local(), 0), "Parameters which did not receive grad for rank")
    refuses(lambda: model(local(), 0), "layers.1.weight, layers.1.bias, layers.2.weight")


class Heads(nn.Module):
    """Two outputs, of a layer each; ``wrap`` makes one object of them."""

    def __init__(self, wrap=tuple):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(12, 2) for _ in range(2))
        self.wrap = wrap

    def forward(self, x):
        return self.wrap([layer(x).sum() for layer in self.layers])


class Hidden:
    """An output that DistributedDataParallel can't look into."""

    def __init__(self, parts):
        self.parts = parts


def is_mean(parameter, parts):
    """Whether the gradient of a layer's weight is the mean of ``parts``, one a process, everywhere."""
    found = parameter.grad.numpy()
    np.testing.assert_allclose(found[0], (sum(parts) / WORLD).numpy(), rtol=1e-5, atol=1e-5)
    return identical(found)


def check_unused_parameters_that_no_sync_used():
    """What only a pass inside no_sync gave a gradient is averaged with the rest."""
    model = DDP(made(Branches, 1), find_unused_parameters=True)
    for _ in range(2):
        model.zero_grad()
        with model.no_sync():
            model(local(), 0)["x"][0].sum().backward()
        model(local(), 1)["x"][0].sum().backward()
        for layer in model.module.layers[:2]:
            assert is_mean(layer.weight, [local(r).sum(0) for r in range(WORLD)])
        assert model.module.layers[2].weight.grad is None


def check_unused_parameters_of_hidden_outputs():
    model = DDP(made(lambda: Heads(Hidden), 1), find_unused_parameters=True)
    for _ in range(2):
        model.zero_grad()
        sum(model(local()).parts).backward()
        for layer in model.module.layers:
            assert is_mean(layer.weight, [local(r).sum(0) for r in range(WORLD)])


def check_unused_parameters_of_outputs_that_a_loss_leaves_out():
    """All but rank 0 use both outputs in the second step."""
    model = DDP(made(Heads, 1), find_unused_parameters=True)
    model(local())[0].backward()
    assert is_mean(model.module.layers[0].weight, [local(r).sum(0) for r in range(WORLD)])
    assert model.module.layers[1].weight.grad is None
    model.zero_grad()
    sum(model(local())[: 1 + min(RANK, 1)]).backward()
    assert is_mean(model.module.layers[0].weight, [local(r).sum(0) for r in range(WORLD)])
    assert is_mean(model.module.layers[1].weight, [local(r).sum(0) for r in range(1, WORLD)])
    model.zero_grad()
    model(local())[0].backward(inputs=[*model.module.layers[0].parameters()])
    assert is_mean(model.module.layers[0].weight, [local(r).sum(0) for r in range(WORLD)])


class NoGradient(jtorch.autograd.Function):
    """The sum of both, with a gradient of the first alone."""

    @staticmethod
    def forward(ctx, a, b):
        return a + b

    @staticmethod
    def backward(ctx, g):
        return g, None


def check_unused_parameters_that_an_operation_gives_no_gradient():
    """Rank 0's operation gives the second layer none, the others' does."""
    model = DDP(made(lambda: Heads(Hidden), 1), find_unused_parameters=True)
    add = NoGradient.apply if RANK == 0 else jtorch.add
    for _ in range(2):
        model.zero_grad()
        add(*model(local()).parts).backward()
        assert is_mean(model.module.layers[0].weight, [local(r).sum(0) for r in range(WORLD)])
        assert is_mean(model.module.layers[1].weight, [local(r).sum(0) for r in range(1, WORLD)])


def check_unused_parameters_send_nothing_before_backward():
    model = DDP(made(Branches, 1), find_unused_parameters=True, bucket_cap_mb=1e-6)
    if RANK == 0:
        model(local(), 2)  # in one process only, and never backward
    dist.barrier()
    model(local(), 1)["x"][0].sum().backward()
    assert is_mean(model.module.layers[1].weight, [local(r).sum(0) for r in range(WORLD)])


def check_a_second_backward_of_a_forward_is_refused():
    """Its gradients would be of this process alone."""
    for find in (False, True):
        model = DDP(made(mlp, 1), find_unused_parameters=find)
        loss = model(local()).sum()
        loss.backward(retain_graph=True)
        refuses(loss.backward, "Expected to mark a variable ready only once. Parameter 2.bias (index 3)")
        first, second = model(local()).sum(), model(local(RANK + 10)).sum()
        second.backward()
        refuses(first.backward, "Expected to mark a variable ready only once")
        model.zero_grad()
        (model(local()).sum() + model(local()).sum()).backward()
        with model.no_sync():
            model(local()).sum().backward()
        model.module(local()).sum().backward()  # not DistributedDataParallel's
    model = DDP(made(Heads, 1), find_unused_parameters=True)
    losses = model(local())
    losses[0].backward()
    refuses(losses[1].backward, "Parameter layers.1.bias")


def check_a_module_that_is_converted_afterwards_is_refused():
    model = DDP(made(mlp, 1))
    model.double()
    words = "the gradient of 2.bias is float64, and its bucket float32: the module was converted after"
    refuses(model(local().double()).sum().backward, words, RuntimeError)


def check_buffers_and_forwards_without_a_graph():
    model = DDP(nn.Sequential(nn.Linear(12, 4), nn.BatchNorm1d(4)))
    model(local(n=4 + RANK)).sum().backward()
    model.eval()
    with jtorch.no_grad():
        model(local())  # gives everyone the buffers of rank 0
    assert identical(model.module[1].running_mean.numpy())
    assert [*model.state_dict()][:2] == ["module.0.weight", "module.0.bias"]
    model = DDP(nn.Sequential(nn.Linear(12, 4), nn.BatchNorm1d(4)), broadcast_buffers=False)
    model(local(n=4 + RANK)).sum().backward()
    model(local(n=4 + RANK)).sum().backward()
    assert not identical(model.module[1].running_mean.numpy())


def check_sync_batch_norm():
    """The statistics, outputs and gradients of one process that has all of the batch."""
    sizes = [2 + r for r in range(WORLD)]
    whole = np.random.default_rng(0).standard_normal((sum(sizes), 3, 4)).astype(np.float64)
    begin = sum(sizes[:RANK])
    mine = slice(begin, begin + sizes[RANK])
    one = nn.Sequential(nn.BatchNorm1d(3), nn.Flatten(), nn.Linear(12, 1)).double()
    dist.broadcast(one[2].weight, 0)
    many = nn.SyncBatchNorm.convert_sync_batchnorm(nn.Sequential(nn.BatchNorm1d(3))).double()
    assert isinstance(many[0], nn.SyncBatchNorm) and next(iter(many.state_dict())) == "0.weight"
    x, part = (jtorch.from_numpy(a.copy()).requires_grad_() for a in (whole, whole[mine]))
    (one(x) ** 2).sum().backward()
    (one[2](one[1](many(part))) ** 2).sum().backward()
    close = {"rtol": 1e-10, "atol": 1e-10}
    np.testing.assert_allclose(part.grad.numpy(), x.grad.numpy()[mine], **close)
    for name in ("running_mean", "running_var", "num_batches_tracked"):
        np.testing.assert_allclose(getattr(many[0], name).numpy(), getattr(one[0], name).numpy(), **close)
    for name in ("weight", "bias"):
        grad = getattr(many[0], name).grad
        dist.all_reduce(grad)
        np.testing.assert_allclose(grad.numpy(), getattr(one[0], name).grad.numpy(), **close)
    many.eval()
    np.testing.assert_allclose(many(x[:2]).detach().numpy(), one[0].eval()(x[:2]).detach().numpy(), **close)


# -- hooks -------------------------------------------------------------------------------------------------


def check_hooks():
    exact = gradients(DDP(made(mlp, 1)), local())
    for hook, rtol in (
        (default_hooks.allreduce_hook, 1e-6), (default_hooks.fp16_compress_hook, 1e-3),
        (default_hooks.bf16_compress_hook, 1e-2),
        (default_hooks.fp16_compress_wrapper(default_hooks.allreduce_hook), 1e-3),
        (default_hooks.bf16_compress_wrapper(default_hooks.allreduce_hook), 1e-2),
    ):  # fmt: skip
        model = DDP(made(mlp, 1), bucket_cap_mb=0.0005)
        model.register_comm_hook(None, hook)
        for _ in range(2):
            found = gradients(model, local())
        for g, e in zip(found, exact, strict=True):
            np.testing.assert_allclose(g, e, rtol=rtol, atol=rtol)
            assert identical(g)

    def own(state, bucket):
        state.append((bucket.index(), bucket.is_last(), len(bucket.gradients()), len(bucket.parameters())))
        work = dist.all_reduce(bucket.buffer(), async_op=True)
        return work.get_future().then(lambda future: future.value()[0] / WORLD)

    model, seen = DDP(made(mlp, 1), bucket_cap_mb=0.0005), []
    model.register_comm_hook(seen, own)
    for g, e in zip(gradients(model, local()), exact, strict=True):
        np.testing.assert_allclose(g, e, rtol=1e-5, atol=1e-6)
    assert seen == [(0, False, 3, 3), (1, True, 1, 1)], seen
    refuses(lambda: model.register_comm_hook(None, own), "can only be called once")
    model = DDP(made(mlp, 1))
    model.register_comm_hook(None, default_hooks.noop_hook)
    for g, e in zip(gradients(model, local()), gradients(made(mlp, 1), local()), strict=True):
        np.testing.assert_array_equal(g, e)


def check_power_sgd():
    """Of full rank it is exact; of rank 1 the error that is fed back makes up for what is left out."""

    def states(rank):
        return powerSGD_hook.PowerSGDState(None, rank, start_powerSGD_iter=2, min_compression_rate=0.1)

    exact = gradients(DDP(made(mlp, 1)), local())
    for rank in (12, 1):
        model = DDP(made(mlp, 1))
        model.register_comm_hook(states(rank), powerSGD_hook.powerSGD_hook)
        found = [gradients(model, local()) for _ in range(42)]
        tail = [np.mean(parts, axis=0) for parts in zip(*found[2:], strict=True)]
        for g, mean, e in zip(found[-1], tail, exact, strict=True):
            assert identical(g)
            if rank == 12:
                np.testing.assert_allclose(g, e, rtol=1e-3, atol=1e-4)
            np.testing.assert_allclose(mean, e, rtol=0.1, atol=0.1 * np.abs(e).max())


# -- uneven inputs -----------------------------------------------------------------------------------------


def check_join():
    for by_all in (True, False):
        model = DDP(nn.Sequential(nn.Linear(12, 2), nn.BatchNorm1d(2)))
        optimizer = jtorch.optim.SGD(model.parameters(), 0.1)
        with model.join(divide_by_initial_world_size=by_all):
            for k in range(2 + 2 * RANK):
                optimizer.zero_grad()
                model(local(k)).square().sum().backward()
                optimizer.step()
        assert identical(flat(model)) and identical(model.module[1].running_mean.numpy())
    # what is divided by: the last process alone has a third step
    weights = []
    for by_all in (True, False):
        model = DDP(nn.Linear(12, 1, bias=False))
        nn.init.zeros_(model.module.weight)
        with model.join(divide_by_initial_world_size=by_all):
            for _ in range(3 if RANK == WORLD - 1 else 2):
                model.zero_grad()
                model(jtorch.ones(1, 12)).sum().backward()
        if RANK == WORLD - 1:
            weights.append(model.module.weight.grad[0, 0].item())
    if RANK == WORLD - 1:
        np.testing.assert_allclose(weights, [1 / WORLD, 1.0], rtol=1e-6)
    model = DDP(nn.Linear(12, 1))
    with contextlib.suppress(StopIteration):
        words = "exhausted" if RANK == 0 else "Detected at least one rank that exhausted inputs"

        def steps():
            with model.join(throw_on_early_termination=True):
                for _ in range(1 + (RANK > 0)):
                    model(local()).sum().backward()

        refuses(steps, words, RuntimeError)
    dist.barrier()


# -- what is refused ---------------------------------------------------------------------------------------


def check_models_that_differ():
    refuses(lambda: DDP(nn.Linear(12, 2 + RANK)), "rank 0 has weight: float32[2, 12], and rank 1 has weight")
    layers = [nn.Linear(2, 2) for _ in range(2 if RANK else 1)]
    refuses(lambda: DDP(nn.Sequential(*layers)), "inconsistent 4 params")
    refuses(lambda: DDP(nn.Linear(2, 2).requires_grad_(False)), "is not needed when a module doesn't have")
    refuses(lambda: DDP(nn.Linear(2, 2), device_ids=[RANK]), "device_ids and output_device arguments only")
    refuses(lambda: DDP(nn.Linear(2, 2), mixed_precision=True), "mixed_precision", NotImplementedError)


def check_the_bucket_plan():
    layers = nn.Linear(100, 100), nn.Linear(100, 3), nn.Linear(3, 3).double()
    model = DDP(nn.Sequential(*layers), bucket_cap_mb=0.02)
    lines = model.bucket_plan().splitlines()
    assert lines == [
        "0: float64, 96 bytes: 2.bias, 2.weight", "1: float32, 1612 bytes: 1.bias, 1.weight, 0.bias",
        "2: float32, 40000 bytes: 0.weight",
    ], lines  # fmt: skip


def check_compiled_functions():
    """What is not recorded is an error that says so; a compiled model inside DDP is averaged."""

    def total(x):
        dist.reduce(x, 0)
        return x * 2

    kind = jtorch.errors.CompileError
    refuses(lambda: jtorch.compile(total)(jtorch.ones(2)), "distributed.reduce() in a compiled", kind)
    work = dist.all_reduce(jtorch.ones(2), async_op=True)
    # refused before wait() itself could say so: a recording looks at what it finds in the closure
    waiting = jtorch.compile(lambda x: x * work.wait())
    refuses(lambda: waiting(jtorch.ones(2)), "reads elements of a NumPy array from outside", kind)
    assert work.wait()

    @jtorch.compiler.disable
    def summed(x):
        x = x.clone()
        dist.all_reduce(x)
        return x

    @jtorch.compile
    def disabled(x):
        return summed(x) * 2

    for k in (1.0, 2.0):
        assert disabled(jtorch.ones(2) * k).tolist() == [2 * k * WORLD] * 2
    inner = made(mlp, 1)
    expected = gradients(DDP(made(mlp, 1)), local())
    inner.compile()
    compiled = DDP(inner)
    for _ in range(2):
        for g, e in zip(gradients(compiled, local()), expected, strict=True):
            np.testing.assert_allclose(g, e, rtol=1e-5, atol=1e-6)
            assert identical(g)


wanted = sys.argv[1:]
for name, check in sorted(globals().copy().items()):
    if name.startswith("check_") and (not wanted or any(word in name for word in wanted)):
        check()
        dist.barrier()
print(f"rank {RANK}: all is well")
