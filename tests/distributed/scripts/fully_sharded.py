"""fully_shard: the numbers of one process on the whole batch, and what it refuses."""

import contextlib
import sys

import numpy as np

import jtorch
import jtorch.distributed as dist
from jtorch import nn
from jtorch.distributed.fsdp import FSDPModule, fully_shard
from jtorch.distributed.sharded import ShardedParameter
from jtorch.nn import functional as F

dist.init_process_group("mpi", timeout=30)
RANK, WORLD = dist.get_rank(), dist.get_world_size()
BATCH = 24  # which 2, 3 and 4 processes divide
PART = slice(RANK * BATCH // WORLD, (RANK + 1) * BATCH // WORLD)


class Block(nn.Module):
    """Rows of many counts: 7 and 13 that no number of processes divides, 1 and 2 that are fewer."""

    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 13), nn.Linear(13, width, bias=False)
        self.gain = nn.Parameter(jtorch.ones(1))

    def forward(self, x):
        return x + self.gain * self.down(jtorch.tanh(self.up(self.norm(x))))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Block(7) for _ in range(3)])
        self.head = nn.Linear(7, 2)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.mix = nn.Embedding(11, 7), nn.Linear(7, 7)
        self.head = nn.Linear(7, 11, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, x):
        return self.head(jtorch.tanh(self.mix(self.embedding(x))))


def made(kind, seed=3):
    jtorch.manual_seed(seed)
    return kind()


def sharded(kind=Net, **options):
    model = made(kind)
    for layer in getattr(model, "layers", ()):
        fully_shard(layer, **options)
    return fully_shard(model, **options)


def whole(model):
    return np.concatenate([p.full_tensor().numpy().ravel() if isinstance(p, ShardedParameter) else
                           p.detach().numpy().ravel() for p in model.parameters()])  # fmt: skip


def identical(values):
    everyone = [None] * WORLD
    dist.all_gather_object(everyone, jtorch.from_numpy(np.ascontiguousarray(values)))
    return all(t.numpy().tobytes() == everyone[0].numpy().tobytes() for t in everyone)


def batches(count, kind=Net):
    rng = np.random.default_rng(5)
    for _ in range(count):
        x = rng.standard_normal((BATCH, 7)).astype(np.float32)
        ids = rng.integers(0, 11, (BATCH,))
        y = rng.integers(0, 2 if kind is Net else 11, (BATCH,))
        yield jtorch.from_numpy(ids if kind is Tied else x), jtorch.from_numpy(y)


def loss_of(model, x, y):
    return F.cross_entropy(model(x), y)


OPTIMIZERS = {
    "SGD": lambda p: jtorch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01),
    "AdamW": lambda p: jtorch.optim.AdamW(p, lr=1e-2, weight_decay=0.1),
    "RMSprop": lambda p: jtorch.optim.RMSprop(p, lr=1e-2, centered=True),
    "Adagrad": lambda p: jtorch.optim.Adagrad(p, lr=1e-2),
    "NAdam": lambda p: jtorch.optim.NAdam(p, lr=1e-2),
    "ASGD": lambda p: jtorch.optim.ASGD(p, lr=1e-2),
}


def train(model, part, steps=8, kind=Net, optimizer="AdamW"):
    optimizer = OPTIMIZERS[optimizer](model.parameters())
    for x, y in batches(steps, kind):
        optimizer.zero_grad()
        loss_of(model, x[part], y[part]).backward()
        optimizer.step()
    return whole(model)


def compare(name, kind=Net, optimizer="AdamW", **options):
    start, plain = whole(made(kind)), train(made(kind), slice(None), kind=kind, optimizer=optimizer)
    model = sharded(kind, **options)
    found = train(model, PART, kind=kind, optimizer=optimizer)
    moved, apart = np.abs(plain - start).max(), np.abs(plain - found).max()
    print(f"{name}: moved {moved:.3f}, apart {apart:.1e}")
    assert moved > 0.01 and apart < 2e-5 * max(1, moved), (name, moved, apart)
    assert identical(found), name
    return model


def expect(kind, *words):
    @contextlib.contextmanager
    def context():
        try:
            yield
        except kind as error:
            for word in words:
                assert word in str(error), (word, str(error))
        else:
            raise AssertionError(f"no {kind.__name__}: {words}")

    return context()


def training():
    for options in ({}, {"reshard_after_forward": False}):
        model = compare(f"{options or 'stage 3'}", **options)
        assert isinstance(model, FSDPModule) and isinstance(model, Net)
        assert type(model).__name__ == "FSDPNet"
        for name, p in model.named_parameters():
            begin, end = p.sharding.rows
            assert tuple(p.shape) == (end - begin, *p.sharding.shape[1:]), name
    for name in OPTIMIZERS:
        compare(name, optimizer=name)
    assert "FSDP" not in type(fully_shard(nn.Sequential(nn.Linear(2, 2), nn.ReLU()))[:1]).__name__


def tied():
    model = compare("tied", Tied)
    assert model.head.weight is model.embedding.weight
    broken = made(Tied)
    fully_shard(broken.embedding)
    with expect(ValueError, "parameter head.weight is shared with a module", "apply fully_shard"):
        fully_shard(broken)


CHECKS = {check.__name__: check for check in (training, tied)}
for name in sys.argv[1:] or CHECKS:
    CHECKS[name]()
print(f"rank {RANK}: all is well")
