"""Gradients through collectives, against those of one process that computes for all."""

import numpy as np

import jtorch
import jtorch.distributed as dist
import jtorch.distributed.nn.functional as dnn
from jtorch.distributed import ReduceOp

dist.init_process_group("mpi", timeout=30)
RANK, WORLD = dist.get_rank(), dist.get_world_size()
LAST = WORLD - 1


def given(rank, count=1):
    numbers = np.random.default_rng(rank).standard_normal((count, 2 * WORLD, 3))
    return [jtorch.tensor(n, requires_grad=True) for n in numbers]


def weights(rank, count):
    return [
        jtorch.tensor(n) for n in np.random.default_rng(100 + rank).standard_normal((count, 2 * WORLD, 3))
    ]


def loss(outputs, rank):
    found = outputs if isinstance(outputs, tuple) else (outputs,)
    pairs = zip(found, weights(rank, len(found)), strict=True)
    return sum((out.square() * w[: out.shape[0]]).sum() for out, w in pairs)


def check(name, ours, alone, count=1):
    """``ours(x)`` here and ``alone(everyone, rank)`` in one process have the same results and gradients."""
    x = given(RANK, count)
    out = ours(x)
    loss(out, RANK).backward()
    everyone = [given(r, count) for r in range(WORLD)]
    expected = [alone(everyone, r) for r in range(WORLD)]
    sum(loss(e, r) for r, e in enumerate(expected)).backward()
    mine = expected[RANK] if isinstance(expected[RANK], tuple) else (expected[RANK],)
    for a, b in zip(out if isinstance(out, tuple) else (out,), mine, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-12, err_msg=name)
    for a, b in zip(x, everyone[RANK], strict=True):
        wanted = np.zeros(a.shape) if b.grad is None else b.grad.numpy()
        np.testing.assert_allclose(a.grad.numpy(), wanted, rtol=1e-12, atol=1e-14, err_msg=name)


def firsts(everyone):
    return [x[0] for x in everyone]


def rows(t, rank):
    return t[2 * rank : 2 * rank + 2]


check("all_reduce", lambda x: dnn.all_reduce(x[0]), lambda all_, r: sum(firsts(all_)))
check("mean", lambda x: dnn.all_reduce(x[0], ReduceOp.AVG), lambda all_, r: sum(firsts(all_)) / WORLD)
check("broadcast", lambda x: dnn.broadcast(x[0], LAST), lambda all_, r: all_[LAST][0] * 1)
check(
    "reduce",
    lambda x: dnn.reduce(x[0], LAST),
    lambda all_, r: sum(firsts(all_)) if r == LAST else all_[r][0].detach(),
)
check("all_gather", lambda x: dnn.all_gather(x[0]), lambda all_, r: tuple(t * 1 for t in firsts(all_)))
check(
    "gather",
    lambda x: dnn.gather(x[0], LAST),
    lambda all_, r: tuple(t * (1.0 if r == LAST else 0.0) for t in firsts(all_)),
)
check("scatter", lambda x: dnn.scatter(x, LAST), lambda all_, r: all_[LAST][r] * 1, WORLD)
check(
    "reduce_scatter",
    lambda x: dnn.reduce_scatter(jtorch.empty(2 * WORLD, 3).double(), x),
    lambda all_, r: sum(x[r] for x in all_),
    WORLD,
)
check(
    "all_to_all",
    lambda x: dnn.all_to_all([jtorch.zeros(2 * WORLD, 3).double() for _ in x], x),
    lambda all_, r: tuple(x[r] * 1 for x in all_),
    WORLD,
)
check(
    "all_to_all_single",
    lambda x: dnn.all_to_all_single(jtorch.zeros(2 * WORLD, 3).double(), x[0]),
    lambda all_, r: jtorch.cat([rows(t, r) for t in firsts(all_)]),
)

x = jtorch.ones(2, requires_grad=True)
twice = jtorch.autograd.grad(dnn.all_reduce(x.square()).sum(), x, create_graph=True)[0]
assert jtorch.autograd.grad(twice.sum(), x)[0].tolist() == [2.0 * WORLD] * 2
try:
    dnn.all_reduce(x, ReduceOp.MAX)
except NotImplementedError as error:
    assert "the gradient of MAX" in str(error)
else:
    raise AssertionError("MAX has a gradient")
assert dnn.all_reduce(x.detach() * RANK, ReduceOp.MAX).tolist() == [float(LAST)] * 2
print("gradients agree")
dist.destroy_process_group()
