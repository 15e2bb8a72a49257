"""ZeroRedundancyOptimizer: the plain optimizer's numbers, with a part of its state in each process."""

import copy
import sys

import numpy as np

import jtorch
import jtorch.distributed as dist
from jtorch import nn
from jtorch.distributed.optim import ZeroRedundancyOptimizer
from jtorch.nn.parallel import DistributedDataParallel

dist.init_process_group("mpi", timeout=30)
RANK, WORLD = dist.get_rank(), dist.get_world_size()
OPTIONS = {"lr": 1e-2, "weight_decay": 0.1}


def model():
    jtorch.manual_seed(2)
    layers = [nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 12), nn.Tanh(), nn.Linear(12, 1)]
    return DistributedDataParallel(nn.Sequential(*layers))


def groups(m):
    layers = m.module
    return [{"params": layers[0].parameters()}, {"params": [*layers[2].parameters(), *layers[4].parameters()],
             "lr": 3e-3}]  # fmt: skip


def train(m, optimizer, steps, first=0):
    schedule = jtorch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
    for k in range(first, first + steps):
        numbers = np.random.default_rng(k * 100 + RANK).standard_normal((4, 8))
        x = jtorch.from_numpy(numbers.astype(np.float32))
        optimizer.zero_grad()
        m(x).square().sum().backward()
        optimizer.step()
        schedule.step()
    return np.concatenate([p.detach().numpy().ravel() for p in m.parameters()])


def elements(optimizer):
    return sum(t.numel() for facts in optimizer.state.values() for t in facts.values())


plain, sharded = model(), model()
adam = jtorch.optim.AdamW(groups(plain), **OPTIONS)
zero = ZeroRedundancyOptimizer(groups(sharded), jtorch.optim.AdamW, **OPTIONS)
expected = train(plain, adam, 10)
assert np.array_equal(expected, train(sharded, zero, 10))
share = elements(zero.optim) / elements(adam)
assert 0 < share < (0.6 if WORLD == 2 else 0.54), share  # the largest of six parameters is 0.53 of all
counts = jtorch.tensor([elements(zero.optim)])
dist.all_reduce(counts)
assert counts.item() == elements(adam), "every piece of state is in one process, and in one alone"

# the whole state in one process: that of the plain optimizer
zero.consolidate_state_dict(to=1)
if RANK == 1:
    ours, theirs = zero.state_dict(), adam.state_dict()
    assert [*ours["state"]] == [*theirs["state"]]
    assert [g["lr"] for g in ours["param_groups"]] == [g["lr"] for g in theirs["param_groups"]]
    for k, facts in theirs["state"].items():
        for name, value in facts.items():
            assert np.array_equal(ours["state"][k][name].numpy(), value.numpy()), (k, name)
else:
    try:
        zero.state_dict()
    except RuntimeError as error:
        assert "has not been consolidated on this rank" in str(error)

# a plain state dict, shared out again, goes on as the plain optimizer does
again = model()
again.load_state_dict(plain.state_dict())
fresh = ZeroRedundancyOptimizer(groups(again), jtorch.optim.AdamW, **OPTIONS)
fresh.load_state_dict(copy.deepcopy(adam.state_dict()))  # else both go on with the same tensors
assert np.array_equal(train(plain, adam, 5, 10), train(again, fresh, 5, 10))
try:
    jtorch.compile(fresh.step)()
except jtorch.errors.CompileError as error:
    assert "ZeroRedundancyOptimizer.step() in a compiled function" in str(error)
else:
    sys.exit("a step was compiled")
print(f"rank {RANK}: {share:.2f} of the state, the numbers of the plain optimizer")
