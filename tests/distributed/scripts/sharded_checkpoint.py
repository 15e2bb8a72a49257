"""Checkpoints of sharded models: written by some processes, read by others, bit by bit."""

import sys
from pathlib import Path

import numpy as np

import jtorch
import jtorch.distributed as dist
import jtorch.distributed.checkpoint as dcp
from jtorch import nn
from jtorch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    get_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
    set_state_dict,
)
from jtorch.distributed.fsdp import fully_shard
from jtorch.distributed.optim import ZeroRedundancyOptimizer
from jtorch.nn.parallel import DistributedDataParallel

what, kind, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
alone = "alone" in sys.argv[4:]
if not alone:
    dist.init_process_group("mpi", timeout=30)
RANK, WORLD = (0, 1) if alone else (dist.get_rank(), dist.get_world_size())
FULL = StateDictOptions(full_state_dict=True)


class Net(nn.Module):
    """Rows that no number of processes divides, fewer than processes, a buffer, a shared and a frozen one."""

    def __init__(self):
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(5, 7), nn.BatchNorm1d(7), nn.Linear(7, 5)
        self.again = nn.Linear(7, 5, bias=False)
        self.again.weight = self.last.weight
        self.gain = nn.Parameter(jtorch.ones(1))
        self.first.bias.requires_grad_(False)

    def forward(self, x):
        x = jtorch.tanh(self.norm(self.first(x)))
        return self.gain * (self.last(x) + self.again(x))


def made(seed):
    jtorch.manual_seed(seed)
    model = Net()
    if kind == "sharded":
        fully_shard(model.first)
        fully_shard(model)
    elif kind == "ddp" or kind == "zero":
        model = DistributedDataParallel(model)
    first = [p for n, p in model.named_parameters() if "first" in n]
    others = [p for n, p in model.named_parameters() if "first" not in n]
    groups = [{"params": first, "lr": 0.01}, {"params": others, "lr": 0.02}]
    if kind == "zero":
        return model, ZeroRedundancyOptimizer(groups, jtorch.optim.AdamW, lr=0.1)
    return model, jtorch.optim.AdamW(groups, lr=0.1)


def trained(seed, steps):
    model, optimizer = made(seed)
    for k in range(steps):
        x = jtorch.from_numpy(np.random.default_rng(k).standard_normal((6, 5)).astype(np.float32))
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
    return model, optimizer


def digest(model, optimizer):
    """All numbers of both, whole, as one dict of arrays; in all processes, where they have them."""
    found = {f"model.{k}": v.numpy() for k, v in get_model_state_dict(model, options=FULL).items()}
    state = get_optimizer_state_dict(model, optimizer, options=FULL)
    for name, facts in state["state"].items():
        found.update({f"optim.{name}.{k}": v.numpy() for k, v in facts.items()})
    for k, group in enumerate(state["param_groups"]):
        found[f"lr.{k}"] = group["lr"]
    return {name: np.array(value) for name, value in found.items()}  # as they are now


def save():
    model, optimizer = trained(1, 3)
    model_state, optimizer_state = get_state_dict(model, optimizer)
    state = {"model": model_state, "optim": optimizer_state, "epoch": 7, "notes": ["a", 2.5, None]}
    dcp.save(state, checkpoint_id=folder / "now")
    facts = digest(model, optimizer)
    future = dcp.async_save(state, checkpoint_id=folder / "async")
    for _ in range(5):  # while a thread writes and talks to those of the others
        model(jtorch.ones(6, 5)).square().mean().backward()
        optimizer.step()
    future.result()
    names = {p.name for p in (folder / "now").iterdir()}
    assert ".metadata" in names and len(names) == WORLD + 1, names
    if RANK == 0:
        np.savez(folder / "expected.npz", **facts)
        own = sum(p.stat().st_size for p in (folder / "now").glob("*.safetensors"))
        whole = sum(v.nbytes for v in facts.values())
        print(f"{WORLD} files of {own} bytes for {whole}")


def load():
    expected = dict(np.load(folder / "expected.npz"))
    for place in ("now", "async"):
        model, optimizer = made(2)
        model_state, optimizer_state = get_state_dict(model, optimizer)
        state = {"model": model_state, "optim": optimizer_state, "epoch": 0, "notes": []}
        dcp.load(state, checkpoint_id=folder / place)
        assert state["epoch"] == 7 and state["notes"] == ["a", 2.5, None]
        set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optim"])
        found = digest(model, optimizer)
        assert found.keys() == expected.keys(), found.keys() ^ expected.keys()
        for name, value in found.items():
            assert value.tobytes() == expected[name].tobytes(), name
        loss = model(jtorch.ones(3, 5)).sum()  # and it goes on from there
        loss.backward()
        optimizer.step()


def whole():
    """Whole state dicts: to one process and from it, and the plain model's names."""
    model, optimizer = trained(1, 2)
    in_one = StateDictOptions(full_state_dict=True, cpu_offload=True)
    full, state = get_state_dict(model, optimizer, options=in_one)
    expected = digest(model, optimizer)
    assert bool(full) == bool(state) == (RANK == 0)
    if RANK == 0:
        jtorch.save({"model": full, "optim": state}, folder / "whole.pt")
        plain = Net()
        plain.load_state_dict(jtorch.load(folder / "whole.pt")["model"])
        assert [*plain.state_dict()] == [*full]
    other, its = made(5)
    wanted = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    set_model_state_dict(other, full, options=wanted)
    set_optimizer_state_dict(other, its, state, options=wanted)
    found = digest(other, its)
    assert all(found[k].tobytes() == v.tobytes() for k, v in expected.items())
    again, its = made(6)
    set_model_state_dict(again, get_model_state_dict(model, options=FULL))
    set_optimizer_state_dict(again, its, get_optimizer_state_dict(model, optimizer, options=FULL))
    found = digest(again, its)
    assert all(found[k].tobytes() == v.tobytes() for k, v in expected.items())
    incomplete(again, its, get_optimizer_state_dict(again, its, options=FULL))
    few = get_model_state_dict(model, options=StateDictOptions(ignore_frozen_params=True))
    assert "first.bias" not in few and "first.weight" in few


def incomplete(model, optimizer, state):
    """A state dict without what a parameter needs changes nothing, and is an error in who updates it."""
    before = digest(model, optimizer)
    facts = {n: {k: v + 1 for k, v in its.items()} for n, its in state["state"].items() if n != "last.weight"}
    try:
        set_optimizer_state_dict(model, optimizer, {**state, "state": facts})
    except ValueError as error:
        assert "no optimizer state of last.weight" in str(error), error
        mistaken = True
    else:
        mistaken = False
    everyone = [None] * WORLD
    dist.all_gather_object(everyone, mistaken)
    assert any(everyone) if kind == "zero" else all(everyone)
    if all(everyone):
        found = digest(model, optimizer)
        assert all(found[k].tobytes() == v.tobytes() for k, v in before.items())


{"save": save, "load": load, "whole": whole}[what]()
print(f"rank {RANK}: all is well")
