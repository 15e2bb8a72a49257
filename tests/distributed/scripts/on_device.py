"""Collectives of tensors on the tests' device, in both modes: what they give on the host."""

import warnings

import numpy as np

import jtorch
import jtorch.distributed as dist
from jtorch import nn
from jtorch.compile.run import device_memory
from jtorch.core.errors import EagerWarning
from jtorch.nn.parallel import DistributedDataParallel
from tests.cuda.device import cuda_device

dist.init_process_group("mpi", timeout=60)
RANK, WORLD = dist.get_rank(), dist.get_world_size()
DEVICE = cuda_device()
device_memory.use(device_memory.DeviceMemory(DEVICE))
warnings.simplefilter("error", EagerWarning)


def mine(*shape, dtype=jtorch.float32):
    return jtorch.from_numpy(np.random.default_rng(RANK).integers(0, 5, shape)).to(dtype)


def whole(tensor):
    dist.all_reduce(tensor)


def averaged(tensor):
    dist.all_reduce(tensor, dist.ReduceOp.AVG)


def later(tensor):
    dist.all_reduce(tensor, dist.ReduceOp.MAX, async_op=True).wait()


def given(tensor):
    dist.broadcast(tensor, WORLD - 1)


def gathered(tensor):
    parts = [jtorch.zeros_like(tensor) for _ in range(WORLD)]
    dist.all_gather(parts, tensor)
    tensor.copy_(sum(part * (k + 1) for k, part in enumerate(parts)))


def scattered(tensor):
    part = jtorch.zeros_like(tensor)
    dist.reduce_scatter(part, [tensor * k for k in range(WORLD)])
    tensor.copy_(part)


def turned(tensor):
    dist.all_reduce(tensor.t()[1:])


def check_each():
    for collective in (whole, averaged, later, given, gathered, scattered, turned):
        for dtype in (jtorch.float32, jtorch.float16, jtorch.int64):
            if collective is averaged and not dtype.is_floating_point:
                continue
            here, there = mine(3, 4, dtype=dtype), mine(3, 4, dtype=dtype).cuda()
            versions = here._version, there._version
            collective(here)
            collective(there)
            assert there.is_cuda and (there._version > versions[1]) is (here._version > versions[0]), (
                collective
            )
            assert jtorch.equal(there.cpu(), here), (collective, dtype)


def check_refused():
    try:
        dist.all_reduce(mine(1).cuda().expand(3))
    except RuntimeError as error:
        assert "more than one element of the written-to tensor" in str(error)
    else:
        raise AssertionError


def two(x):
    """The second is ready first."""
    y, z = (x @ x).exp() * 1e-3, x + 1
    dist.all_reduce(y)
    dist.all_reduce(z)
    return y + z


def check_compiled():
    x = mine(3, 3)
    step = jtorch.compile(two, fullgraph=True)
    for _ in range(2):
        found = step(x.cuda()).cpu()
        jtorch.testing.assert_close(found, two(x), rtol=1e-6, atol=1e-6)
    both = two if RANK else step  # a process that runs compiled meets one that does not
    jtorch.testing.assert_close(both(x.cuda()).cpu(), two(x), rtol=1e-6, atol=1e-6)
    assert len(step.plans) == 1


def trained(device, compiled):
    jtorch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2)).to(device))
    optimizer = jtorch.optim.SGD(model.parameters(), lr=0.1)

    def step(x):
        optimizer.zero_grad()
        loss = (model(x) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    run = jtorch.compile(step, fullgraph=True) if compiled else step
    losses = [run(mine(5, 4).to(device)).item() for _ in range(3)]
    return losses, [p.detach().cpu() for p in model.parameters()]


def check_training():
    expected = trained("cpu", False)
    for compiled in (False, True):
        jtorch.testing.assert_close(trained("cuda", compiled), expected, rtol=1e-5, atol=1e-6)


check_each()
check_refused()
check_compiled()
check_training()
DEVICE.synchronize()
assert DEVICE.fake.fault is None, DEVICE.fake.fault
print("all is as on the host")
