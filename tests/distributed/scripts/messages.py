"""Messages between two processes, objects, and what is refused."""

import numpy as np

import jtorch
import jtorch.distributed as dist

dist.init_process_group("gloo", timeout=20)
RANK, WORLD = dist.get_rank(), dist.get_world_size()
assert dist.get_backend() == "gloo"


class Stranger:
    """Unpickling one would run code."""

    def __reduce__(self):
        return (print, ("code of a stranger ran",))


def refuses(call, words, kinds=(ValueError, TypeError, RuntimeError)):
    try:
        call()
    except kinds as error:
        assert words in str(error), (words, error)
    else:
        raise AssertionError(words)


def check_send_and_recv():
    right, left = (RANK + 1) % WORLD, (RANK - 1) % WORLD
    for dtype in (jtorch.float32, jtorch.bfloat16, jtorch.bool, jtorch.int64):
        into = jtorch.zeros(3, 2, dtype=dtype).t()
        sent = dist.isend(jtorch.ones(2, 3, dtype=dtype) * (RANK > 0), right, tag=7)
        received = dist.irecv(into, left, tag=7)
        assert sent.wait() and received.wait()
        assert received.source_rank() == left
        assert into.float().tolist() == [[float(left > 0)] * 3] * 2
    if RANK == 0:
        found = sorted(dist.recv(jtorch.zeros(1)) for _ in range(WORLD - 1))  # from anyone
        assert found == list(range(1, WORLD))
    else:
        dist.send(jtorch.ones(1), 0)
    ops = [dist.P2POp(dist.isend, jtorch.tensor([RANK]), right, tag=3)]
    into = jtorch.zeros(1, dtype=jtorch.int64)
    ops.append(dist.P2POp(dist.irecv, into, left, tag=3))
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    assert into.item() == left
    refuses(lambda: dist.send(jtorch.ones(1), RANK), "should not be the same as the rank")


def check_a_message_of_another_size():
    if RANK == 1:
        dist.send(jtorch.ones(2), 0)
    if RANK == 0:
        refuses(lambda: dist.recv(jtorch.zeros(3), 1), "rank 1 sent 8 bytes, and float32[3] has 12")
    dist.barrier()


def check_objects():
    here = {"rank": RANK, "t": jtorch.full((2,), float(RANK)), "names": ["a", None, (1.5, True)]}
    everyone = [None] * WORLD
    dist.all_gather_object(everyone, here)
    for r, there in enumerate(everyone):
        assert there["rank"] == r and there["names"] == ["a", None, (1.5, True)]
        np.testing.assert_array_equal(there["t"].numpy(), [r, r])
    objects = [{"x": 1}, [jtorch.ones(1)], "text"] if RANK == 1 else [None] * 3
    dist.broadcast_object_list(objects, src=1)
    assert objects[0] == {"x": 1} and objects[1][0].item() == 1 and objects[2] == "text"
    found = [None] * WORLD if RANK == 0 else None
    dist.gather_object(f"of {RANK}", found)
    assert found == ([f"of {r}" for r in range(WORLD)] if RANK == 0 else None)
    out = [None]
    dist.scatter_object_list(out, [{"for": r} for r in range(WORLD)] if RANK == 1 else None, src=1)
    assert out == [{"for": RANK}]


def check_strangers():
    """Nothing is pickled or unpickled: what is no plain data stops at its sender."""
    refuses(lambda: dist.all_gather_object([None] * WORLD, Stranger()), "never pickled", TypeError)
    refuses(lambda: dist.all_gather_object([None], 1), f"a list of {WORLD} objects")
    dist.barrier()
    # and a sender that pickles all the same is an error of the one who reads
    import pickle

    from jtorch.distributed import objects

    content = np.frombuffer(pickle.dumps(Stranger()), np.uint8)
    refuses(lambda: objects._unpacked(content), "a bare pickle, which can run code")


def check_barriers():
    dist.monitored_barrier()
    dist.monitored_barrier(timeout=5, wait_all_ranks=True)
    dist.barrier(device_ids=[0])


for name, check in sorted(globals().copy().items()):
    if name.startswith("check_"):
        check()
print(f"rank {RANK}: messages and objects arrived")
