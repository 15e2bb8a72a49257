"""Programs over x of shape (n, 4) that ask about n in every way: each is the same compiled for any n."""

from __future__ import annotations

import dataclasses
import functools
import math
import types
from collections import deque, namedtuple

import numpy as np

import jtorch
import jtorch.nn.functional as F

PROGRAMS = {}
STATE: dict = {}  # what programs keep outside
TABLE = {5: 2.0, 7: 3.0}


def program(f):
    PROGRAMS[f.__name__] = f
    return f


def fresh_state():
    """Forget what programs have kept."""
    STATE.clear()
    STATE.update(
        n=0, total=0, list=[], held=types.SimpleNamespace(n=0), queue=deque(maxlen=3), tensor=jtorch.zeros(2)
    )


# -- arithmetic, questions and shapes


@program
def branch(x):
    return x * 2 if x.shape[0] > 32 else x * 3


@program
def loop(x):
    s = x[0]
    for i in range(1, x.shape[0]):
        s = s * 0.5 + x[i]
    return s


@program
def floats_of_sizes(x):
    n = x.shape[0]
    return x.sum() / n + (1 / n) * x + x * n**-0.5 + x * math.sqrt(n) + x * (n + 0.5), n / 3, 1.5 * n


@program
def halves(x):
    return x.reshape(x.shape[0] // 2, -1) * 2 if x.shape[0] % 2 == 0 else x * 5


@program
def slices(x):
    n = x.shape[0]
    return (
        x[: n // 2] * 2,
        x[-1] + x[n - 1],
        x[1:] - x[:-1],
        x[n:],
        x[:-1].sum(0),
        x[::2],
        x[: max(n // 2, 4)],
    )


@program
def counted(x):
    n = x.shape[0]
    up, down = jtorch.arange(n), jtorch.arange(n, 0, -1)
    return up.float().unsqueeze(1) * x + down.unsqueeze(1), jtorch.arange(1, 2 * n, 2)


@program
def reductions(x):
    return (
        x.mean() + x.var() + x.std(0).sum(),
        jtorch.softmax(x, 0) + jtorch.softmax(x, 1),
        x.sum(0) / x.numel(),
    )


@program
def text(x):
    return x * len(f"{x.shape[0]}"), str(x.shape[0]), f"{x.shape}"


@program
def kinds(x):
    n = x.shape[0]
    return x * (2 if isinstance(n, int) else 3) * (5 if type(n) is int else 7), type(n).__name__


@program
def looked_up(x):
    return x * TABLE.get(x.shape[0], 9.0), [1, 2, 3][x.shape[0] % 3]


@program
def sizes_as_results(x):
    n = x.shape[0]
    return (
        x * 2,
        n,
        n * 3 + 1,
        tuple(x.shape),
        x.shape,
        x.size(),
        x[1:].shape,
        [n, {"n": n}],
        n > 6,
        {n: 1},
        {n},
    )


@program
def padded(x):
    n = x.shape[0]
    return F.pad(x, (0, 0, 0, (8 - n % 8) % 8)) * 2


@program
def squares(x):
    n = x.shape[0]
    outer = jtorch.zeros(n, n) + x[:, 0].unsqueeze(1) + x[:, 1]
    return outer, x[:, :1].expand(n, n) * 2, jtorch.triu(x @ x.t()).sum(), x @ x if n == x.shape[1] else x * 2


@program
def joined(x):
    y = jtorch.cat([x, x, x[:2]])
    return y * 2 if y.shape[0] == x.shape[0] * 2 + 2 else y * 3


@program
def as_python_numbers(x):
    n = x.shape[0]
    found = (
        int(n),
        float(n),
        round(n / 3, 2),
        n & 1,
        n << 1,
        hash(n) % 3,
        bool(n),
        complex(n, 1),
        divmod(n, 3),
        2**n,
    )
    return x * (found[0] + found[3]), found, sorted([n, 6]), sum(x.shape), math.ceil(n / 2), np.zeros(n).size


@program
def numpys(x):
    n = x.shape[0]
    return (
        np.sqrt(n),
        np.int64(n),
        np.prod(x.shape),
        np.float64(2) * n,
        n * np.int32(3),
        np.array([n, 2]),
        np.float32(1) + n,
    )


@program
def with_tensors(x):
    n = x.shape[0]
    numbers = x * (n + 1), n - x, n / (x + 99), x // n, x % n, x.clamp(-n, n / 2), x.abs() ** n
    made = jtorch.full((n,), n), jtorch.full((2,), 1 / n), jtorch.tensor([n, 2.5]), jtorch.linspace(0, 1, n)
    return numbers, jtorch.where(x > n, n, x), made


@program
def put_into_tensors(x):
    n = x.shape[0]
    known = len(x[x[:, 0] > 0])
    made = jtorch.tensor([[n, 0], [known, n // 2]]), x.new_tensor([n, known]), jtorch.tensor(n / 4)
    table = jtorch.zeros(3, 2)
    table[1], table[2, 0], table[0][x[0, :2] > 0] = n, n / 4, known
    return made, jtorch.as_tensor(x.shape), jtorch.tensor([n, known], dtype=jtorch.int32), table


@program
def moved(x):
    n = x.shape[0]
    return (
        jtorch.roll(x, n // 2, 0),
        x.repeat(2, 1),
        x.flip(0),
        x.t().contiguous() @ x,
        x.unsqueeze(1).expand(n, 3, 4),
    )


@program
def windows(x):
    return F.conv1d(x.t().unsqueeze(0), jtorch.ones(2, 4, 3), padding=1), F.avg_pool1d(
        x.t().unsqueeze(0), 3, 1, 1
    )


@program
def by_a_library(x):
    return jtorch.cumsum(x, 0), jtorch.topk(x[:, 0], 1)[0], jtorch.sort(x, 0)[0]


@program
def in_pieces(x):
    return sum(c.sum() * k for k, c in enumerate(x.chunk(3))), x.split(2)[0]


@program
def with_dropout(x):
    return F.dropout(x, 0.5), jtorch.rand(x.shape[0]), jtorch.randn_like(x)


@program
def with_a_gradient(x):
    w = jtorch.ones(4, requires_grad=True)
    ((x * w).sum(1) ** 2).mean().backward()
    return w.grad


@program
def written_into(x):
    x[x.shape[0] // 2 :] *= 2
    x += x.shape[0]
    return x.sum()


@program
def raises(x):
    if x.shape[0] > 50:
        raise ValueError(f"too long: {x.shape[0]}")
    return x * 2


# -- what is kept outside, or returned in an object: numbers, never symbols


@program
def writes(x):
    STATE["n"] = x.shape[0]
    STATE["both"] = (x.shape[0], x.shape[0] / 2)
    return x * 2


@program
def counts(x):
    STATE["total"] += x.shape[0]
    return x * STATE["total"]


@program
def appends(x):
    STATE["list"].append(x.shape[0])
    STATE["list"].append({"n": x.shape[0]})
    return x * 2


@program
def sets_an_attribute(x):
    STATE["held"].n = x.shape[0]
    return x * 2


@program
def queues(x):
    STATE["queue"].append(x.shape[0])
    return x * 2


@program
def fills(x):
    STATE["tensor"].fill_(x.shape[0])
    return x * 2


@dataclasses.dataclass
class Pair:
    n: int
    y: object


class Plain:
    def __init__(self, n):
        self.n = n


Named = namedtuple("Named", "a n")


@program
def in_objects(x):
    n = x.shape[0]
    return Pair(n, x * 2), Named(x * 3, n)


@program
def in_a_plain_object(x):
    return Plain(x.shape[0]).n, vars(types.SimpleNamespace(n=x.shape[0])), x * 2


@program
def gives_a_plain_object(x):
    return vars(Plain([x.shape[0]]))["n"]


@program
def gives_a_namespace(x):
    return types.SimpleNamespace(n=x.shape[0], h=[x.shape[0] / 2])


@program
def gives_a_closure(x):
    n = x.shape[0]
    return lambda: n + 1


@program
def gives_others(x):
    n = x.shape[0]
    return slice(0, n), range(n), frozenset([n]), functools.partial(max, n, 3)


@functools.lru_cache
def _doubled(n):
    return n * 2.0


@program
def cached(x):
    return x * _doubled(x.shape[0]), _doubled(x.shape[0])


@program
def prints(x):
    print(x.shape[0], tuple(x.shape))
    return x * 2


# -- bits that depend on what else a kernel computes


@program
def places_beside_sums(x):
    rows = x.t()
    return rows.argmax(-1), rows.softmax(-1), rows.argmin(-1), rows.var(-1), rows.logsumexp(-1)


@program
def pooled(x):
    images = x.t().unsqueeze(0).contiguous().detach().requires_grad_()
    loss = F.adaptive_avg_pool1d(images, 2).square().sum()
    return loss, jtorch.autograd.grad(loss, images)[0]


@program
def two_normalisations(x):
    rows = x.t().contiguous().detach().requires_grad_()
    width = rows.shape[-1:]
    y = F.layer_norm(rows, width) + F.rms_norm(rows, width) + F.layer_norm(rows * 2, width)
    return y, jtorch.autograd.grad((y * y * y).sum(), rows)[0]
