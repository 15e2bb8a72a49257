"""Compiled functions with collectives inside: what they compute, how they overlap, and what they refuse."""

import contextlib
import functools
import itertools
import os
import sys

import numpy as np

import jtorch
import jtorch.distributed as dist
from jtorch import nn
from jtorch.nn import functional as F
from jtorch.nn.parallel import DistributedDataParallel as DDP  # noqa: N817 - as everybody writes it

dist.init_process_group("mpi", timeout=30)
RANK, WORLD = dist.get_rank(), dist.get_world_size()
compile_ = functools.partial(jtorch.compile, mode=os.environ.get("MODE"))


def mlp():
    return nn.Sequential(nn.Linear(12, 20), nn.Tanh(), nn.Linear(20, 16), nn.Tanh(), nn.Linear(16, 4))


def with_norms():
    return nn.Sequential(nn.Linear(12, 20), nn.BatchNorm1d(20), nn.ReLU(), nn.Linear(20, 4))


def with_sync_norms():
    return nn.SyncBatchNorm.convert_sync_batchnorm(with_norms())


def batch(k, n=12):
    rng = np.random.default_rng([RANK, k])
    x, y = rng.standard_normal((n, 12)).astype(np.float32), rng.integers(0, 4, n)
    return jtorch.from_numpy(x), jtorch.from_numpy(y)


def flat(tensors):
    return np.concatenate([t.detach().numpy().ravel() for t in tensors])


def identical(values):
    """Whether these numbers are the same in all processes, bit for bit."""
    mine = jtorch.from_numpy(np.ascontiguousarray(values).view(np.uint8).copy())
    everyone = [jtorch.zeros_like(mine) for _ in range(WORLD)]
    dist.all_gather(everyone, mine)
    return all(t.numpy().tobytes() == mine.numpy().tobytes() for t in everyone)


def refuses(call, words, kind=Exception):
    try:
        call()
    except kind as error:
        assert words in str(error), f"{words!r} is not in: {error}"
    else:
        raise AssertionError(f"no error: {words}")


def trained(make, compiled, steps=100, **options):
    """(module, step) after ``steps`` steps of SGD with momentum, each on this process's batch."""
    jtorch.manual_seed(3)
    module = make()
    model = DDP(module, **options)
    optimizer = jtorch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    run = compile_(step) if compiled else step
    for k in range(steps):
        run(*batch(k))
    return module, run


SMALL = 0.0005  # MB: several buckets


def check_training():
    """Parameters are the same everywhere, bit for bit, and those of eager mode up to rounding."""
    for make in (mlp, with_norms, with_sync_norms):
        for deterministic in (False, True):
            options = {"bucket_cap_mb": SMALL, "deterministic": deterministic}
            module, _ = trained(make, True, **options)
            values = flat(module.parameters())
            assert identical(values)
            eager = flat(trained(make, False, **options)[0].parameters())
            moved = np.abs(values - flat(trained(make, False, 0)[0].parameters())).max()
            apart = np.abs(values - eager).max()
            assert apart < 1e-4 < 0.05 < moved, (apart, moved)
            print(f"{make.__name__}: moved {moved:.3f}, apart {apart:.1e}")


def check_deterministic_bits_do_not_depend_on_buckets():
    one = flat(trained(mlp, True, 30, deterministic=True)[0].parameters())
    many = flat(trained(mlp, True, 30, deterministic=True, bucket_cap_mb=SMALL)[0].parameters())
    assert one.tobytes() == many.tobytes()


def check_a_compiled_process_meets_an_eager_one():
    """The collectives are the same, in the same order."""
    module, _ = trained(with_norms, RANK == 0, 20, bucket_cap_mb=SMALL)
    assert identical(flat(module.parameters()))


def check_gradients():
    """What is in ``grad`` after a step is the average; accumulated ones are averaged as in eager mode."""
    found = []
    for compiled in (False, True):
        jtorch.manual_seed(1)
        model = DDP(mlp())

        def backward(x, y, model=model):
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            return loss

        run = compile_(backward) if compiled else backward
        with model.no_sync():
            run(*batch(0))
        assert not identical(flat(p.grad for p in model.parameters()))
        run(*batch(1))
        found.append(flat(p.grad for p in model.parameters()))
        assert identical(found[-1])
    np.testing.assert_allclose(*found, rtol=1e-4, atol=1e-6)


def check_collectives():
    """all_reduce and broadcast by themselves: in place, with work between start and wait."""

    @compile_
    def exchange(x):
        y = x.sum(0)
        work = dist.all_reduce(y, async_op=True)
        square = x @ x.t()
        work.wait()
        mean = square.clone()
        dist.all_reduce(mean, dist.ReduceOp.AVG)
        first = x[:, ::2] * 2
        dist.broadcast(first, 0)
        largest = y.max().reshape(1)
        dist.all_reduce(largest, dist.ReduceOp.MAX)
        everyone = jtorch.empty(WORLD, 6, dtype=x.dtype)
        dist.all_gather_into_tensor(everyone, x[1])
        return y, square, mean, first, largest, everyone

    for k in range(3):
        arrays = [np.random.default_rng([r, k]).standard_normal((5, 6)) for r in range(WORLD)]
        mine = arrays[RANK]
        expected = (
            sum(a.sum(0) for a in arrays), mine @ mine.T, sum(a @ a.T for a in arrays) / WORLD,
            arrays[0][:, ::2] * 2, [sum(a.sum(0) for a in arrays).max()],
            np.stack([a[1] for a in arrays]),
        )  # fmt: skip
        for got, wanted in zip(exchange(jtorch.from_numpy(mine)), expected, strict=True):
            np.testing.assert_allclose(got.numpy(), wanted, rtol=1e-12)


def check_a_tensor_outside_is_written():
    total = jtorch.zeros(3, dtype=jtorch.int64)

    @compile_
    def count(x):
        here = (x > 0).sum(0)
        dist.all_reduce(here)
        total.add_(here)

    for _ in range(3):
        count(jtorch.ones(4, 3))
    assert total.tolist() == [3 * 4 * WORLD] * 3


def check_what_stands_below_a_result():
    """It is copied there before the next collective, which needs it, begins."""
    ones = jtorch.ones(5, 5)

    def exchange(x, y):
        x = x * 2
        dist.all_reduce(x)
        joined = jtorch.cat((x, y @ ones)) @ ones
        dist.all_reduce(joined)
        total = joined.sum(0) * 1.5
        dist.all_reduce(total)
        return joined, total

    given = jtorch.ones(3, 5) * (RANK + 1), jtorch.ones(4, 5)
    for got, wanted in zip(compile_(exchange)(*given), exchange(*given), strict=True):
        np.testing.assert_allclose(got.numpy(), wanted.numpy(), rtol=1e-6)


def check_begins_before_it_is_waited_for():
    """Of two buckets the first is under way while the gradients of the second are computed."""
    from jtorch.compile.run.host_calls import Background, Wait
    from jtorch.compile.run.replay import Native, Replay

    made = []
    segments = Replay._make_segments
    Replay._make_segments = lambda self: (segments(self), made.append(self.segments))[0]
    try:
        trained(mlp, True, 1, bucket_cap_mb=SMALL)
    finally:
        Replay._make_segments = segments
    (kinds,) = [[type(s) for s in found] for found in made if any(isinstance(s, Background) for s in found)]
    begins = [k for k, kind in enumerate(kinds) if kind is Background]
    waits = [k for k, kind in enumerate(kinds) if kind is Wait]
    assert len(begins) == len(waits) >= 2
    assert max(begins) < min(waits), kinds
    assert all(Native in kinds[a:b] for a, b in itertools.pairwise(begins)), kinds


def check_a_compiled_data_parallel_module():
    """``jtorch.compile(DDP(module))`` and ``DDP(module).compile()``: the module compiled, the rest eager."""
    found = []
    for how in ("eager", "function", "method"):
        jtorch.manual_seed(3)
        model = DDP(mlp())
        if how == "method":
            model.compile()
        run = jtorch.compile(model) if how == "function" else model
        optimizer = jtorch.optim.SGD(run.parameters(), lr=0.05)
        for k in range(20):
            x, y = batch(k)
            optimizer.zero_grad()
            F.cross_entropy(run(x), y).backward()
            optimizer.step()
        found.append(flat(model.parameters()))
        assert identical(found[-1])
    np.testing.assert_allclose(found[1], found[0], atol=1e-5)
    np.testing.assert_allclose(found[2], found[0], atol=1e-5)


def check_refusals():
    model = DDP(mlp())
    x, y = batch(0)

    @compile_
    def twice(x, y):
        loss = F.cross_entropy(model(x), y)
        loss.backward(retain_graph=True)
        loss.backward()

    refuses(lambda: twice(x, y), "Expected to mark a variable ready only once")

    @compile_
    def forward(x):
        return model(x)

    refuses(forward(x).sum().backward, "and backward() outside of it, where nothing averages")

    @compile_
    def in_part(x):
        model(x)
        model.module[:2](x).sum().backward()

    refuses(lambda: in_part(x), "Parameters which did not receive grad for rank")

    @compile_
    def unused(x, model):
        model(x).sum().backward()

    found = DDP(mlp(), find_unused_parameters=True)
    refuses(lambda: unused(x, found), "find_unused_parameters (or static_graph) in a compiled function")

    @compile_
    def branching(x):
        x = x.clone()
        dist.all_reduce(x)
        return x * 2 if x.sum() > 0 else x

    refuses(lambda: branching(x), "a branch on the elements of a tensor")

    @compile_
    def gather(x):
        out = [jtorch.empty_like(x) for _ in range(WORLD)]
        dist.all_gather(out, x)
        return out

    refuses(lambda: gather(x), "jtorch.distributed.all_gather() in a compiled function")


def check_a_branch_before():
    """A plan that goes the other way has not begun anything."""

    @compile_
    def f(x, sign):
        y = x * 2 if sign.sum() > 0 else x - 1
        dist.all_reduce(y)
        return y

    x = jtorch.arange(4.0)
    for sign in (1.0, -1.0, 1.0, -1.0, -1.0, 1.0):
        got = f(x, jtorch.tensor([sign]))
        assert got.tolist() == [WORLD * v for v in (x * 2 if sign > 0 else x - 1).tolist()]


if __name__ == "__main__":
    wanted = sys.argv[1:]
    for name, check in list(globals().items()):
        if name.startswith("check_") and (not wanted or any(w in name for w in wanted)):
            with contextlib.redirect_stdout(sys.stdout):
                check()
    dist.barrier()
    print("all is well")
    dist.destroy_process_group()
