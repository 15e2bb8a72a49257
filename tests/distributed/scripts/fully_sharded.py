"""fully_shard: the numbers of one process on the whole batch, and what it refuses."""

import contextlib
import copy
import gc
import sys
import time
import weakref
from pathlib import Path

import numpy as np

import jtorch
import jtorch.distributed as dist
from jtorch import nn
from jtorch.autograd.graph import saved_tensors_hooks
from jtorch.distributed.fsdp import (
    FSDPModule,
    MixedPrecisionPolicy,
    fully_shard,
    register_fsdp_forward_method,
)
from jtorch.distributed.sharded import ShardedParameter
from jtorch.nn import functional as F
from jtorch.utils.checkpoint import checkpoint

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


class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(7, 2), nn.Linear(7, 2)

    def forward(self, x, which):
        return (self.a if which else self.b)(x)


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
    with expect(ValueError, "parameter head.weight is shared with embedding, which", "apply fully_shard"):
        fully_shard(broken)


def frozen():
    """Parameters without a gradient beside others, and a group that has only such."""

    def build():
        model = made(Net)
        model.layers[0].requires_grad_(False)
        model.layers[1].up.weight.requires_grad_(False)
        model.layers[2].norm.requires_grad_(False)
        return model

    plain, model = build(), build()
    for layer in model.layers:
        fully_shard(layer)
    fully_shard(model)
    # a leaf under all of it, so that backward goes through the frozen layers, too
    gradients = []
    for each, part in ((plain, slice(None)), (model, PART)):
        x, y = next(batches(1))
        x = x[part].requires_grad_()
        loss_of(each, x, y[part]).backward()
        gradients.append(x.grad.numpy())
    assert np.allclose(gradients[0][PART] * WORLD, gradients[1], atol=1e-6)
    found, expected = train(model, PART), train(plain, slice(None))
    assert np.abs(found - expected).max() < 2e-6
    assert identical(found)
    assert model.layers[0].up.weight.grad is None
    assert not any(group_of(m).is_gathered for m in units(model))
    later = model.layers[1].up.weight.requires_grad_()  # unfrozen: it takes part from now on
    train(model, PART, 1)
    assert later.grad is not None
    # an optimizer that steps while backward still needs frozen parameters of the same group
    whole_group = fully_shard(build())
    for p in whole_group.parameters():
        if p.requires_grad:
            p.register_post_accumulate_grad_hook(lambda p: jtorch.optim.SGD([p], lr=0.1).step())
    x, y = next(batches(1))
    loss_of(whole_group, x[PART].requires_grad_(), y[PART]).backward()


def units(model):
    return [m for m in model.modules() if isinstance(m, FSDPModule)]


def group_of(module):
    return module._fsdp.group


def accumulation():
    """Gradients over several passes, synchronised at the last alone, at each, and not released in between."""
    x, y = next(batches(1))
    plain = made(Net)
    loss_of(plain, x, y).backward()
    expected = np.concatenate([p.grad.numpy().ravel() for p in plain.parameters()])
    half = BATCH // WORLD // 2
    for way in ("last", "each", "kept"):
        model = sharded()
        for k in range(2):
            begin = PART.start + k * half
            model.set_requires_gradient_sync(way == "each" or k == 1)
            model.set_reshard_after_backward(way != "kept")
            (loss_of(model, x[begin : begin + half], y[begin : begin + half]) / 2).backward()
            if way == "last" and k == 0:
                assert all(p.grad is None for p in model.parameters())
        found = np.concatenate([p.grad.full_tensor().numpy().ravel() for p in model.parameters()])
        assert np.allclose(found, expected, atol=1e-6), way
        assert any(group_of(m).is_gathered for m in units(model)) == (way == "kept"), way
        model.set_gradient_divide_factor(1.0)
        model.zero_grad()
        loss_of(model, x[PART], y[PART]).backward()
        assert np.allclose(model.head.bias.grad.full_tensor().numpy(), WORLD * expected[-2:], atol=1e-5)


def clipping():
    for kind in (1.0, 2.0, 3.5, float("inf"), float("-inf")):
        plain, model = made(Net), sharded()
        x, y = next(batches(1))
        loss_of(plain, x, y).backward()
        loss_of(model, x[PART], y[PART]).backward()
        expected = nn.utils.clip_grad_norm_(plain.parameters(), 0.01, kind).item()
        found = nn.utils.get_total_norm([p.grad for p in model.parameters()], kind).item()
        again = nn.utils.clip_grad_norm_(model.parameters(), 0.01, kind).item()
        assert found == again and abs(found - expected) < 1e-5 * expected + 1e-9, (kind, found, expected)
        assert identical(np.array([found]))
        for p, q in zip(plain.parameters(), model.parameters(), strict=True):
            assert np.allclose(p.grad.numpy(), q.grad.full_tensor().numpy(), atol=1e-6)


def scaler():
    """An infinite gradient in one process alone: none of them takes the step."""
    model = sharded()
    optimizer = jtorch.optim.SGD(model.parameters(), lr=0.1)
    scaler = jtorch.amp.GradScaler("cpu", init_scale=4.0)
    before, (x, y) = whole(model), next(batches(1))
    scaler.scale(loss_of(model, x[PART], y[PART])).backward()
    if RANK == 0:
        model.layers[0].up.weight.grad[0, 0] = float("inf")
    scaler.step(optimizer)
    scaler.update()
    assert np.array_equal(before, whole(model)) and scaler.get_scale() == 2.0


def lists():
    """Modules that are called one after another as one group."""
    plain, model = made(Net), made(Net)
    assert fully_shard([model.layers[1], model.layers[2]])[0] is model.layers[1]
    fully_shard([model.layers[0], model.head])
    fully_shard(model)
    assert group_of(model.layers[1]) is group_of(model.layers[2]) is not group_of(model.head)
    assert len(group_of(model.head).params) == len(list(plain.layers[0].parameters())) + 2
    gathered = []
    model.layers[2].register_forward_pre_hook(lambda *_: gathered.append(group_of(model.layers[1]).wholes))
    x, y = next(batches(1))
    loss_of(plain, x, y).backward()
    loss = loss_of(model, x[PART], y[PART])
    assert gathered[0] and not any(group_of(m).is_gathered for m in units(model))
    loss.backward()
    for p, q in zip(plain.parameters(), model.parameters(), strict=True):
        assert np.allclose(p.grad.numpy(), q.grad.full_tensor().numpy(), atol=1e-6)
    assert not any(group_of(m).is_gathered for m in units(model))
    found = train(model, PART, 3)
    assert np.abs(found - train(plain, slice(None), 3)).max() < 2e-6 and identical(found)


def between_calls():
    """unshard and reshard, one after another and by a handle; other methods than forward."""
    model, plain = sharded(), made(Net)
    expected = plain.head.weight.detach().numpy()
    model.unshard()
    assert np.array_equal(model.head.weight.detach().numpy(), expected)
    model.head(jtorch.ones(1, 7)).sum().backward()
    model.reshard()
    assert isinstance(model.head.weight, ShardedParameter) and not group_of(model).is_gathered
    assert np.allclose(model.head.weight.grad.full_tensor().numpy(), 1.0)
    handle = model.layers[0].unshard(async_op=True)
    handle.wait()
    assert model.layers[0].up.weight.shape == (13, 7)
    model.layers[0].reshard()
    model.unshard()
    with jtorch.no_grad():
        model.head.weight.fill_(0.0)
    with expect(RuntimeError, "the parameter head.weight was changed in place while fully_shard"):
        model.reshard()
    assert np.array_equal(model.head.weight.full_tensor().numpy(), expected)
    register_fsdp_forward_method(model.layers[1], "extra_repr")
    seen = []
    model.layers[1].__dict__["shape_of_up"] = lambda: seen.append(model.layers[1].up.weight.shape)
    register_fsdp_forward_method(model.layers[1], "shape_of_up")
    model.layers[1].shape_of_up()
    assert seen == [(13, 7)] and isinstance(model.layers[1].up.weight, ShardedParameter)


def graphs():
    """Several forwards for one backward, a second backward, a checkpoint, and the tape after a step."""
    x, y = next(batches(1))
    plain, model = made(Net), sharded()
    pairs = ((plain, x, y), (model, x[PART], y[PART]))
    losses = [loss_of(m, a, b) + loss_of(m, a * 0.5, b) for m, a, b in pairs]
    for loss in losses:
        loss.backward(retain_graph=True)
        loss.backward()
    for p, q in zip(plain.parameters(), model.parameters(), strict=True):
        assert np.allclose(p.grad.numpy(), q.grad.full_tensor().numpy(), atol=1e-6)
    for reentrant in (False, True):
        again = sharded()
        a = x[PART].requires_grad_()
        for layer in again.layers:
            a = checkpoint(layer, a, use_reentrant=reentrant)
        head = [p.full_tensor() for p in again.head.parameters()]
        F.cross_entropy(F.linear(a, *head), y[PART]).backward()
        once = made(Net)
        loss_of(once, x, y).backward()
        for p, q in zip(once.layers.parameters(), again.layers.parameters(), strict=True):
            assert np.allclose(p.grad.numpy(), q.grad.full_tensor().numpy(), atol=1e-6), reentrant
        assert not any(group_of(m).is_gathered for m in units(again)), reentrant
    loss = loss_of(model, x[PART], y[PART])
    jtorch.optim.SGD(model.parameters(), lr=0.1).step()
    with expect(RuntimeError, "by an inplace operation: the parameter", "at version 2; expected version 1"):
        loss.backward()
    model.reset_iter_state()
    loss_of(model, x[PART], y[PART]).backward()
    values = model(x[PART])
    grads = jtorch.autograd.grad(values.sum(), list(model.parameters()))
    assert [g.shape for g in grads] == [p.shape for p in model.parameters()]
    values = model(x[PART])
    with expect(RuntimeError, "differentiate twice"):
        found = jtorch.autograd.grad(values.sum(), model.head.weight, create_graph=True)
        found[0].sum().backward()


def hooks():
    """The user's hooks on saved tensors see what is no parameter; those of parameters see parts."""
    model, seen, packed = sharded(), [], []
    model.head.weight.register_hook(lambda g: seen.append(g.shape))
    model.head.weight.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.shape))
    x, y = next(batches(1))

    def pack(t):
        packed.append(t.shape)
        return t.numpy().copy()

    with saved_tensors_hooks(pack, jtorch.from_numpy):
        loss = loss_of(model, x[PART], y[PART])
    loss.backward()
    assert seen == [model.head.weight.shape] * 2
    assert (13, 7) not in packed and (2, 7) not in packed and (BATCH // WORLD, 7) in packed, packed
    written = model.layers[0](x[PART])
    used = written * written
    written.add_(1.0)
    with expect(RuntimeError, "has been modified by an inplace operation"):
        used.sum().backward()


def other_losses():
    """Parameters that no process uses have no gradient; processes may use others with zeros for them."""
    model = fully_shard(made(Branches))
    x, _ = next(batches(1))
    model(x, True).sum().backward()
    assert model.b.weight.grad is None and model.a.weight.grad is not None
    model.zero_grad()
    model.set_reduce_scatter_unused_params(True)
    model(x, RANK == 0).sum().backward()
    expected = np.tile(x.sum(0).numpy(), (2, 1))
    assert np.allclose(model.a.weight.grad.full_tensor().numpy(), expected / WORLD, atol=1e-4)
    assert np.allclose(model.b.weight.grad.full_tensor().numpy(), expected * (WORLD - 1) / WORLD, atol=1e-4)


def dtypes():
    """Parameters of several dtypes in one group; a module that is converted after it was sharded."""
    model = made(Net).double()
    model.head.float()
    model.head.register_forward_pre_hook(lambda module, args: (args[0].float(),))
    fully_shard(model)
    x, y = next(batches(1))
    loss_of(model, x[PART].double(), y[PART]).backward()
    plain = made(Net)
    loss_of(plain, x, y).backward()
    for p, q in zip(plain.parameters(), model.parameters(), strict=True):
        assert q.grad.dtype is q.dtype
        assert np.allclose(p.grad.numpy(), q.grad.full_tensor().numpy(), atol=1e-6)
    later = sharded().double()
    assert later.head.weight.dtype is jtorch.float64
    loss_of(later, x[PART].double(), y[PART]).backward()
    assert later.head.weight.grad.dtype is jtorch.float64


def precision():
    """Whole parameters and gradients on their way in half precisions, parts in float32."""
    x, y = next(batches(1))
    plain = made(Net)
    loss_of(plain, x, y).backward()
    for param_dtype, reduce_dtype in ((jtorch.bfloat16, jtorch.float32), (jtorch.float16, None)):
        model, seen = made(Net), []
        for layer in model.layers:
            fully_shard(layer, mp_policy=MixedPrecisionPolicy(param_dtype, reduce_dtype))
        fully_shard(model, mp_policy=MixedPrecisionPolicy(param_dtype, reduce_dtype, jtorch.float32))
        model.head.register_forward_hook(lambda m, args, out, s=seen: s.extend([m.weight.dtype, out.dtype]))
        out = model(x[PART])
        F.cross_entropy(out, y[PART]).backward()
        assert seen == [param_dtype] * 2 and out.dtype is jtorch.float32
        for p, q in zip(plain.parameters(), model.parameters(), strict=True):
            assert q.dtype is q.grad.dtype is jtorch.float32
            assert np.abs(p.grad.numpy() - q.grad.full_tensor().numpy()).max() < 0.03
        train(model, PART, 2)


def groups():
    """A part of the processes, each part with a model of its own."""
    ours = dist.new_group([0, 1])
    if RANK < 2:
        model = fully_shard(made(Net), process_group=ours)
        x, y = next(batches(1))
        part = slice(RANK * BATCH // 2, (RANK + 1) * BATCH // 2)
        loss_of(model, x[part], y[part]).backward()
        plain = made(Net)
        loss_of(plain, x, y).backward()
        for p, q in zip(plain.parameters(), model.parameters(), strict=True):
            assert np.allclose(p.grad.numpy(), q.grad.full_tensor().numpy(), atol=1e-6)
    dist.barrier()


def states():
    """State dicts hold parts, load parts and whole tensors, and are not saved by halves."""
    model, plain = sharded(), made(Net, 4)
    kept = {name: t.clone() for name, t in model.state_dict().items()}
    model.load_state_dict(plain.state_dict())
    assert np.array_equal(whole(model), whole(plain))
    model.load_state_dict(kept)
    assert np.array_equal(whole(model), whole(made(Net)))
    model.load_state_dict(plain.state_dict(), assign=True)
    assert np.array_equal(whole(model), whole(plain))
    for thing in (model.state_dict(), model, model.head.weight):
        with expect(TypeError, "sharded", "jtorch.distributed.checkpoint.save"):
            jtorch.save(thing, "whole.pt")
    with expect(TypeError, "can't be copied"):
        copy.deepcopy(model)
    copied = copy.deepcopy(model.head.weight)
    assert copied.sharding == model.head.weight.sharding and copied.requires_grad
    adam = jtorch.optim.Adam(plain.parameters())
    loss_of(plain, *next(batches(1))).backward()
    adam.step()
    ours = jtorch.optim.Adam(model.parameters())
    ours.load_state_dict(adam.state_dict())
    for p, q in zip(plain.parameters(), model.parameters(), strict=True):
        expected = q.sharding.part_of(adam.state[p]["exp_avg"])
        assert np.array_equal(expected.numpy(), ours.state[q]["exp_avg"].numpy())
    saved = ours.state_dict()["state"][0]
    assert saved["exp_avg"].sharding == next(model.parameters()).sharding and saved["step"].ndim == 0


def refused():
    model = sharded()
    x, y = next(batches(1))
    ways = (lambda: jtorch.compile(lambda: model(x))(), lambda: jtorch.compile(model), model.compile)
    for way in ways:
        with expect(jtorch.errors.CompileError, "sharded by fully_shard", "jtorch.compile(optimizer.step)"):
            way()
    loss_of(model, x[PART], y[PART]).backward()
    jtorch.compile(jtorch.optim.Adam(model.parameters()).step)()
    with expect(NotImplementedError, "Adafactor looks at whole parameters"):
        jtorch.optim.Adafactor(model.parameters()).step()
    with expect(NotImplementedError, "LBFGS looks at whole parameters"):
        jtorch.optim.LBFGS(model.parameters()).step(lambda: None)
    with expect(ValueError, "already"):
        fully_shard(model)

    class Scalar(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Module()
            self.inner.scale = nn.Parameter(jtorch.tensor(1.0))

    with expect(ValueError, "fully_shard(Scalar): parameter inner.scale", "1D tensor"):
        fully_shard(Scalar())
    with expect(ValueError, "parameter weight has no shape yet"):
        fully_shard(nn.LazyLinear(3))
    with expect(NotImplementedError, "shard_placement_fn"):
        fully_shard(nn.Linear(1, 1), shard_placement_fn=lambda p: None)
    with expect(NotImplementedError, "reshard_after_forward=2"):
        fully_shard(nn.Linear(1, 1), reshard_after_forward=2)
    with expect(RuntimeError, "fully_shard expects same model across all ranks"):
        fully_shard(nn.Linear(2 + RANK, 2))
    model.head.weight = nn.Parameter(jtorch.zeros(2, 7))
    with expect(RuntimeError, "parameter head.weight was replaced"):
        model(x)
    failing = sharded()
    failing.layers[1].register_forward_pre_hook(lambda *_: 1 // 0)
    with expect(ZeroDivisionError):
        failing(x)
    assert not any(group_of(m).is_gathered for m in units(failing)[1:])
    assert isinstance(failing.head.weight, ShardedParameter)


class Pictures(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([
            nn.Sequential(nn.Conv2d(1, 5, 3, padding=1), nn.GroupNorm(1, 5), nn.ReLU(), nn.MaxPool2d(2)),
            nn.Sequential(nn.ConvTranspose2d(5, 3, 2, stride=2), nn.PReLU(3)),
            nn.Sequential(nn.Flatten(), nn.Linear(108, 4)),
        ])  # fmt: skip

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


class Sequences(nn.Module):
    def __init__(self):
        super().__init__()
        lstm, gru = nn.LSTM(6, 5, 2, batch_first=True), nn.GRU(5, 6, batch_first=True)
        self.layers = nn.ModuleList([nn.Embedding(9, 6), lstm, gru])
        attention = nn.TransformerEncoderLayer(6, 2, 7, dropout=0.0, batch_first=True)
        self.layers.extend([attention, nn.Bilinear(6, 6, 3)])

    def forward(self, x):
        embedding, lstm, gru, attention, bilinear = self.layers
        x = gru(lstm(embedding(x))[0])[0]
        x = attention(x)
        return bilinear(x, x)


def networks():
    """Ops of many kinds: the gradients of one process, and none of them keeps whole parameters."""
    rng = np.random.default_rng(2)
    pictures = jtorch.from_numpy(rng.standard_normal((BATCH, 1, 6, 6)).astype(np.float32))
    for kind, x in ((Pictures, pictures), (Sequences, jtorch.from_numpy(rng.integers(0, 9, (BATCH, 4))))):
        plain, model, blocks = made(kind), sharded(kind), []
        for unit in units(model):
            unit.register_forward_hook(
                lambda m, args, out, b=blocks: b.extend(weakref.ref(w.base) for w in group_of(m).wholes)
            )
        plain(x).square().mean().backward()
        loss = model(x[PART]).square().mean()
        gc.collect()
        assert blocks and not any(block() is not None for block in blocks)
        loss.backward()
        for (name, p), q in zip(plain.named_parameters(), model.parameters(), strict=True):
            assert np.allclose(p.grad.numpy(), q.grad.full_tensor().numpy(), atol=2e-6), name


def mismatch():
    """Processes with gradients of different parameters, though of the same shapes: run by itself, since no
    collective works after it."""
    model = fully_shard(made(Branches))
    x, _ = next(batches(1))
    with expect(dist.DistBackendError, "reduce_scatter_tensor(float32[", ", AVG, ", ".weight, "):
        try:
            model(x, RANK == 0).sum().backward()
        except dist.DistBackendError as error:
            assert "set_reduce_scatter_unused_params" in error.__notes__[0]
            raise


CHECKS = {check.__name__: check for check in (
    training, tied, frozen, lists, accumulation, clipping, scaler, between_calls, graphs, hooks, other_losses,
    dtypes, precision, networks, groups, states, refused,
)}  # fmt: skip
for name in sys.argv[1:] or CHECKS:
    CHECKS.get(name, mismatch)()
print(f"rank {RANK}: all is well", flush=True)
if "mismatch" in sys.argv:  # who ends first ends the others, so they wait for each other, by files
    Path(f"seen-{RANK}").touch()
    while len(list(Path().glob("seen-*"))) < 2:
        time.sleep(0.05)
