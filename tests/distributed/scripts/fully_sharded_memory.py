"""fully_shard: what a process holds of the parameters at each moment of a step, counted by the allocator."""

import gc
import sys
import tracemalloc

import numpy as np

import jtorch
import jtorch.distributed as dist
from jtorch import nn
from jtorch.distributed.fsdp import fully_shard

dist.init_process_group("mpi", timeout=30)
RANK, WORLD = dist.get_rank(), dist.get_world_size()
LAYERS, WIDTH = 10, 480
LAYER = (WIDTH * WIDTH + WIDTH) * 4  # bytes
MODEL = LAYERS * LAYER
SMALL = 0.4 * LAYER  # what activations, nodes and works may take


def measured(reshard_after_forward):
    """(held before a step, most in forward, held after it, most in backward, held after a step)"""
    jtorch.manual_seed(0)
    model = nn.Sequential(*[nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()) for _ in range(LAYERS)])
    if reshard_after_forward is not None:
        for layer in model:
            fully_shard(layer, reshard_after_forward=reshard_after_forward)
        fully_shard(model, reshard_after_forward=reshard_after_forward)
    optimizer = jtorch.optim.SGD(model.parameters(), lr=0.01)
    x = jtorch.from_numpy(np.ones((2, WIDTH), np.float32))
    for _ in range(2):
        found = [held()]
        tracemalloc.reset_peak()
        loss = model(x).square().mean()
        found += [tracemalloc.get_traced_memory()[1], held()]
        tracemalloc.reset_peak()
        loss.backward()
        del loss
        found.append(tracemalloc.get_traced_memory()[1])
        optimizer.step()
        optimizer.zero_grad()
        found.append(held())
    return [n - BEFORE for n in found]


def held():
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


tracemalloc.start()
BEFORE = 0
for way in (None, True, False):
    measured(way)  # once for what is imported and kept
    BEFORE = held()
    idle, forward, between, backward, after = measured(way)
    gc.collect()
    shares = [f"{n / MODEL:.3f}" for n in (idle, forward, between, backward)]
    print(f"rank {RANK}, {way}: of {MODEL / 1e6:.1f} MB idle, forward, between, backward: {shares}")
    part = MODEL / (1 if way is None else WORLD)
    assert abs(idle - part) < SMALL, "each process holds its part"
    assert abs(after - idle) < SMALL, "and nothing else after a step"
    if way is True:
        # a layer as it is used and the next one, each for a moment in two copies: as it came, and in place
        assert forward < part + 3.5 * LAYER
        assert between < part + SMALL, "the tape holds no parameters"
        # the same, parts of all gradients, and the gradients of a layer: as they came, packed, exchanged
        assert backward < 2 * part + 5 * LAYER
    else:
        assert between > MODEL - SMALL, "this sees them where they stay"
sys.stdout.flush()
print(f"rank {RANK}: all is well")
