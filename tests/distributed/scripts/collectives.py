"""Every collective, against what NumPy computes from all processes' tensors."""

import ml_dtypes
import numpy as np

import jtorch
import jtorch.distributed as dist
from jtorch.distributed import ReduceOp

dist.init_process_group("mpi", timeout=30)
RANK, WORLD = dist.get_rank(), dist.get_world_size()
OPS = {
    ReduceOp.SUM: np.add, ReduceOp.PRODUCT: np.multiply, ReduceOp.MIN: np.minimum, ReduceOp.MAX: np.maximum,
    ReduceOp.BAND: np.bitwise_and, ReduceOp.BOR: np.bitwise_or, ReduceOp.BXOR: np.bitwise_xor,
}  # fmt: skip
FLOATS = [jtorch.float32, jtorch.float64, jtorch.float16, jtorch.bfloat16]
INTS = [jtorch.int8, jtorch.uint8, jtorch.int16, jtorch.int32, jtorch.int64]
HALVES = (np.float16, ml_dtypes.bfloat16)


def given(rank, dtype, shape=(5, 3)):
    """What ``rank`` contributes: small whole numbers, so that every order of adding gives the same."""
    numbers = np.random.default_rng(rank).integers(0, 4, shape)
    return numbers.astype(dtype.numpy)


def mine(dtype, shape=(5, 3)):
    return jtorch.from_numpy(given(RANK, dtype, shape))


def equal(tensor, expected):
    found = tensor.detach().numpy()
    assert found.dtype == expected.dtype and found.shape == expected.shape, (found, expected)
    assert found.tobytes() == np.ascontiguousarray(expected).tobytes(), (found, expected)


def reduced(dtype, op, shape=(5, 3)):
    everyone = [given(r, dtype, shape) for r in range(WORLD)]
    return np.array(op.reduce(everyone, axis=0), dtype.numpy)


def check_all_reduce():
    for dtype in [*FLOATS, *INTS, jtorch.bool]:
        for op, ufunc in OPS.items():
            if dtype.is_floating_point and ufunc in (np.bitwise_and, np.bitwise_or, np.bitwise_xor):
                try:
                    dist.all_reduce(mine(dtype), op)
                except RuntimeError as error:
                    assert op.name in str(error) and dtype.name in str(error), error
                    continue
                raise AssertionError(f"{op} of {dtype}")
            for send in (dist.all_reduce, dist.ordered_all_reduce):
                t = mine(dtype)
                assert send(t, op) is None
                equal(t, reduced(dtype, ufunc))
    for dtype in FLOATS:
        t = mine(dtype)
        dist.all_reduce(t, ReduceOp.AVG)
        equal(t, (reduced(jtorch.float64, np.add) / WORLD).astype(dtype.numpy))
    for shape in ((0, 4), (2, 0, 3)):
        dist.all_reduce(jtorch.zeros(shape))
        dist.broadcast(jtorch.zeros(shape), 0)
    z = jtorch.complex(mine(jtorch.float32), mine(jtorch.float32))
    dist.all_reduce(z)
    equal(z.real, reduced(jtorch.float32, np.add))


def check_layouts():
    """Transposed, sliced, empty and 0-d tensors; a change is counted; memory that cannot be written."""
    for make in (lambda t: t.t(), lambda t: t[::2, 1:], lambda t: t[:0], lambda t: t[0, 0]):
        t = mine(jtorch.float32)
        version = t._version
        part = make(t)
        dist.all_reduce(part)
        equal(part, make(jtorch.from_numpy(reduced(jtorch.float32, np.add))).numpy())
        assert t._version > version
    leaf = jtorch.ones(2, requires_grad=True)
    y = leaf * 2
    square = y * y
    dist.all_reduce(y)
    try:
        square.sum().backward()
    except RuntimeError as error:
        assert "modified by an inplace operation" in str(error)
    else:
        raise AssertionError("a saved tensor was overwritten unseen")
    for tensor, words in (
        (jtorch.ones(1).expand(3), "more than one element"), (np.ones(3), "of type torch.Tensor"),
    ):  # fmt: skip
        try:
            dist.all_reduce(tensor)
        except (RuntimeError, TypeError) as error:
            assert words in str(error), error
        else:
            raise AssertionError(words)


def check_moving():
    for dtype in [*FLOATS, jtorch.int64, jtorch.bool, jtorch.complex64]:
        everyone = [given(r, dtype) for r in range(WORLD)]
        t = mine(dtype).t()
        dist.broadcast(t, WORLD - 1)
        equal(t, everyone[-1].T)
        found = [jtorch.zeros(3, 5, dtype=dtype).t() for _ in range(WORLD)]
        dist.all_gather(found, mine(dtype))
        for a, b in zip(found, everyone, strict=True):
            equal(a, b)
        for shape in ((WORLD * 5, 3), (WORLD, 5, 3)):
            whole = jtorch.zeros(*shape, dtype=dtype)
            dist.all_gather_into_tensor(whole, mine(dtype))
            equal(whole, np.stack(everyone).reshape(shape))
        found = [jtorch.zeros(5, 3, dtype=dtype) for _ in range(WORLD)] if RANK == 1 else None
        dist.gather(mine(dtype), found, dst=1)
        if RANK == 1:
            equal(jtorch.stack(found), np.stack(everyone))
        t = jtorch.zeros(3, 5, dtype=dtype).t()
        dist.scatter(t, [jtorch.from_numpy(a) for a in everyone] if RANK == 1 else None, src=1)
        equal(t, everyone[RANK])


def check_reducing_to_one():
    for dtype in [*FLOATS, jtorch.int32, jtorch.bool]:
        for root in range(WORLD):
            t = mine(dtype)
            dist.reduce(t, root, ReduceOp.SUM)
            equal(t, reduced(dtype, np.add) if root == RANK else given(RANK, dtype))
        shape = (WORLD, 4)
        total = reduced(dtype, np.add, shape)
        out = jtorch.zeros(4, dtype=dtype)
        dist.reduce_scatter(out, list(mine(dtype, shape)))
        equal(out, total[RANK])
        out = jtorch.zeros(1, 4, dtype=dtype)
        dist.reduce_scatter_tensor(out, mine(dtype, shape))
        equal(out, total[RANK : RANK + 1])
    average = jtorch.zeros(1)
    dist.reduce_scatter_tensor(average, jtorch.full((WORLD,), float(RANK)), ReduceOp.AVG)
    assert average.item() == (WORLD - 1) / 2


def check_all_to_all():
    rows = jtorch.arange(WORLD) + 10 * RANK
    out = jtorch.zeros(WORLD, dtype=jtorch.int64)
    dist.all_to_all_single(out, rows)
    assert out.tolist() == [10 * r + RANK for r in range(WORLD)]
    # rank r sends s + 1 rows of (r, s) to s
    sent = jtorch.tensor([[RANK, s] for s in range(WORLD) for _ in range(s + 1)])
    out = jtorch.zeros(WORLD * (RANK + 1), 2, dtype=jtorch.int64)
    dist.all_to_all_single(out, sent, [RANK + 1] * WORLD, [s + 1 for s in range(WORLD)])
    assert out.tolist() == [[r, RANK] for r in range(WORLD) for _ in range(RANK + 1)]
    into = [jtorch.zeros(RANK + 1, 2) for _ in range(WORLD)]
    dist.all_to_all(into, [jtorch.full((s + 1, 2), float(RANK)) for s in range(WORLD)])
    for r, t in enumerate(into):
        equal(t, np.full((RANK + 1, 2), r, np.float32))


def check_async():
    """Many at a time, waited for in another order; with two steps, too."""
    tensors = [jtorch.full((1000 * (k + 1),), float(k)) for k in range(6)]
    send = [dist.all_reduce, dist.ordered_all_reduce]
    works = [send[k % 2](t, async_op=True) for k, t in enumerate(tensors)]
    for k in (3, 0, 5, 1, 4, 2):
        assert works[k].wait() is True
        assert works[k].is_completed() and works[k].is_success() and works[k].exception() is None
        assert works[k].result()[0] is tensors[k]
        equal(tensors[k], np.full(1000 * (k + 1), k * WORLD, np.float32))
    future = dist.all_reduce(jtorch.ones(2), async_op=True).get_future().then(lambda f: f.value()[0] / WORLD)
    assert future.wait().tolist() == [1.0, 1.0]
    dist.barrier(async_op=True).wait()


def check_halves_are_added_in_float32():
    """2048 + 1 is 2048 in float16, however often."""
    t = jtorch.tensor([2048.0 if RANK == 0 else 1.0], dtype=jtorch.float16)
    dist.all_reduce(t)
    assert t.item() == float(np.float16(2048 + WORLD - 1))


def check_order_of_ranks():
    """The bits are those of adding from rank 0 on, wherever an element stands."""
    everyone = [np.random.default_rng(r).standard_normal(1001).astype(np.float32) for r in range(WORLD)]
    expected = everyone[0].copy()
    for part in everyone[1:]:
        expected += part
    for begin, end in ((0, 1001), (3, 800), (7, 8)):
        t = jtorch.from_numpy(everyone[RANK][begin:end].copy())
        dist.ordered_all_reduce(t)
        equal(t, expected[begin:end])


def check_groups():
    assert dist.get_backend() == "mpi" and dist.is_initialized() and dist.is_available()
    chosen = [WORLD - 1, 0]
    pair = dist.new_group(chosen)
    alone = [dist.new_group([r]) for r in range(WORLD)][RANK]
    t = jtorch.ones(2) * RANK
    dist.all_reduce(t, group=alone)
    assert t.tolist() == [RANK, RANK] and dist.get_world_size(alone) == 1
    if RANK in chosen:
        assert dist.get_process_group_ranks(pair) == sorted(chosen)
        dist.all_reduce(t, group=pair)
        assert t.tolist() == [float(WORLD - 1)] * 2
        t = jtorch.tensor([RANK])
        dist.broadcast(t, src=WORLD - 1, group=pair)  # a global rank
        assert t.item() == WORLD - 1
        dist.broadcast(t.fill_(RANK), group_src=0, group=pair)
        assert t.item() == 0
        assert dist.get_global_rank(pair, 1) == WORLD - 1 and dist.get_group_rank(pair, WORLD - 1) == 1
        dist.destroy_process_group(pair)
    else:
        assert pair is dist.GroupMember.NON_GROUP_MEMBER and dist.get_rank(pair) == -1


def check_wrong_arguments():
    x = jtorch.ones(3)
    for call, words in (
        (lambda: dist.all_gather([x], x), f"there are {WORLD} processes"),
        (lambda: dist.all_gather([jtorch.ones(2)] * WORLD, x), "tensor_list[0] is float32[2]"),
        (lambda: dist.all_gather_into_tensor(jtorch.ones(4), x), "world_size times input"),
        (lambda: dist.broadcast(x), "Must specify src"),
        (lambda: dist.broadcast(x, WORLD), f"Global rank {WORLD} is not part of group"),
        (lambda: dist.broadcast(x, 0, group_src=0), "Can't specify both"),
        (lambda: dist.all_to_all_single(x[:1], x[:1]), "does not divide"),
        (lambda: dist.all_reduce(jtorch.ones(2).long(), ReduceOp.AVG), "an average of integers is none"),
        (lambda: dist.all_reduce(x, "sum"), "op is one of ReduceOp"),
        (lambda: dist.gather(x, None if RANK == 0 else [x]), "gather_list"),
        (lambda: dist.init_process_group(), "twice"),
        (lambda: dist.new_group([0, 0]), "ranks=[0, 0]"),
    ):
        try:
            call()
        except (ValueError, RuntimeError, TypeError) as error:
            assert words in str(error), (words, error)
        else:
            raise AssertionError(words)
    dist.barrier()  # nothing of that has left the processes apart


for name, check in sorted(globals().copy().items()):
    if name.startswith("check_"):
        check()
dist.destroy_process_group()
assert not dist.is_initialized()
print(f"rank {RANK}: all collectives agree with NumPy")
