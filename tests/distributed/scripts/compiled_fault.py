"""A process that does not come to a compiled step: an error in the others, where nothing has changed."""

import time

import numpy as np

import jtorch
import jtorch.distributed as dist
from jtorch import nn
from jtorch.nn.parallel import DistributedDataParallel as DDP  # noqa: N817 - as everybody writes it

dist.init_process_group("mpi", timeout=2)
model = DDP(nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.Linear(5, 1)))
optimizer = jtorch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def state():
    held = [*model.parameters(), *model.buffers(), *(s["momentum_buffer"] for s in optimizer.state.values())]
    return [t.detach().numpy().copy() for t in held]


@jtorch.compile
def step(x):
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    return loss


x = jtorch.randn(8, 6)
step(x)
step(x)
before = state()
if dist.get_rank() == 1:
    time.sleep(3)
    raise SystemExit(0)
begin = time.monotonic()
try:
    step(x)
except dist.DistBackendError as error:
    print(f"[rank 0: {time.monotonic() - begin:.1f} s] {error}")
else:
    raise AssertionError("no error")
assert all(np.array_equal(a, b) for a, b in zip(before, state(), strict=True))
print("nothing has changed")
try:
    step(x)
except dist.DistBackendError as error:
    assert "can't be used any more" in str(error), error
