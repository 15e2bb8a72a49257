"""One process fails to write or to read: the others hear of it, and nothing is done by halves."""

import functools
import sys
from pathlib import Path

import jtorch
import jtorch.distributed as dist
import jtorch.distributed.checkpoint as dcp
from jtorch import nn
from jtorch.distributed.checkpoint import reading, writing
from jtorch.distributed.fsdp import fully_shard
from jtorch.distributed.layout import rows_of
from jtorch.distributed.sharded import Sharding, mark

dist.init_process_group("mpi", timeout=20)
RANK, WORLD = dist.get_rank(), dist.get_world_size()
folder = Path(sys.argv[1])


def made(seed):
    jtorch.manual_seed(seed)
    return fully_shard(nn.Linear(5, 7))


def whole(model):
    return model.weight.full_tensor().tolist()


def raises(function, own, *words):
    """In rank 1 its own error, in the others one that tells of it."""
    expected = own if RANK == 1 else dcp.CheckpointException
    try:
        function()
    except expected as error:
        for word in words:
            assert word in str(error), error
        if RANK != 1:
            assert set(error.failures) == {1}
    else:
        raise AssertionError("no error")


old, new, target = made(1), made(2), made(3)
dcp.save({"model": old.state_dict()}, checkpoint_id=folder)
dist.barrier()
before = sorted(p.name for p in folder.iterdir())
dist.barrier()

real = writing.write_atomically


def no_space(path, content):
    if RANK == 1:
        raise OSError(28, "No space left on device", str(path))
    real(path, content)


writing.write_atomically = no_space
raises(lambda: dcp.save({"model": new.state_dict()}, checkpoint_id=folder), OSError, "No space left")
future = dcp.async_save({"model": new.state_dict()}, checkpoint_id=folder)
raises(future.result, OSError, "No space left")
writing.write_atomically = real
dist.barrier()
assert sorted(p.name for p in folder.iterdir()) == before
expected = whole(old)
dcp.load({"model": target.state_dict()}, checkpoint_id=folder)
assert whole(target) == expected

checked = reading.Reading._checked


def damaged(self, entry, chunk):
    if RANK == 1:
        raise jtorch.errors.DataError(f"{self.folder / chunk.file}: damaged")
    return checked(self, entry, chunk)


reading.Reading._checked = damaged
kept = whole(new)
state = {"model": new.state_dict()}
raises(lambda: dcp.load(state, checkpoint_id=folder), jtorch.errors.DataError, ": damaged")
assert whole(new) == kept
reading.Reading._checked = checked

# each process finds another checkpoint, as where folders of one name are those of each machine
own_folder = folder.parent / f"of rank {RANK}"
dcp.save({"model": made(4 + RANK).weight.to_local()}, checkpoint_id=own_folder, no_dist=True)
copied = {"model": jtorch.zeros_like(made(4).weight.to_local())}
try:
    dcp.load(copied, checkpoint_id=own_folder)
except jtorch.errors.DataError as error:
    assert "different checkpoints" in str(error) and str(own_folder) in str(error), error
    assert not copied["model"].any()
else:
    raise AssertionError("parts of several checkpoints were loaded as one")

# rows without elements, in order between tensors that have some
begin, end = rows_of(5, WORLD, RANK)
hollow = mark(jtorch.zeros(end - begin, 0), Sharding((5, 0), old.weight.sharding.group))
dcp.save({"hollow": hollow, "z": jtorch.ones(2)}, checkpoint_id=folder.parent / "hollow")
found = {"hollow": hollow, "z": jtorch.zeros(2)}
dcp.load(found, checkpoint_id=folder.parent / "hollow")
assert found["z"].tolist() == [1, 1]

# parts that differ between processes and are not marked as such are no tensor
try:
    dcp.save({"w": jtorch.zeros(RANK + 1)}, checkpoint_id=folder)
except ValueError as error:
    assert "w is float32[1] on rank 0, and float32[2] on rank 1" in str(error)
else:
    raise AssertionError("tensors of several shapes were saved as one")
try:
    part = old.weight.detach() if RANK else old.weight.to_local()
    dcp.save({"w": part}, checkpoint_id=folder)
except ValueError as error:
    assert "w is float32" in str(error)
else:
    raise AssertionError("a part was saved as a whole")

# a value that is no plain data, in one process alone
value = object() if RANK == 1 else 1
raises(lambda: dcp.save({"v": value}, checkpoint_id=folder), TypeError, "v: ", "object")

# one name for a value and for a dict
try:
    dcp.save({"v": {"a": 1} if RANK == 1 else 1}, checkpoint_id=folder)
except ValueError as error:
    assert "v is a tensor or a value in one process" in str(error), error
else:
    raise AssertionError("a value was saved as a dict, too")


class Broken:
    def state_dict(self):
        if RANK == 1:
            raise LookupError("no state here")
        return {}

    def load_state_dict(self, state_dict):
        pass


# an error of an object's own state_dict, of which nothing has been told yet
for function in (dcp.save, dcp.async_save, dcp.load):
    call = functools.partial(function, {"broken": Broken()}, checkpoint_id=folder)
    raises(call, LookupError, "no state here")

# a later save wins, and one that is under way when the group is left is waited for
works = [dcp.async_save({"model": m.state_dict()}, checkpoint_id=folder) for m in (old, new)]
dist.destroy_process_group()
assert all(work.done() for work in works)
if RANK == 0:
    again = nn.Linear(5, 7)
    dcp.load({"model": again.state_dict()}, checkpoint_id=folder, no_dist=True)
    assert again.weight.tolist() == kept
print(f"rank {RANK}: all is well")
