"""Values from outside, arguments, results, and what is done with them: cases 1 to 20."""

from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass
from typing import Any

from benchmarks.soundness.cases.ingredients import grid, numbers
from benchmarks.soundness.table import case

SETTINGS = {"rate": 2.0}


@case(1, "a closure number changes between calls")
def closure_number(lib: Any, wrap: Any) -> Any:
    scale = 2.0
    f = wrap(lambda x: x * scale)
    first = f(numbers(lib, 1, 2))
    scale = 5.0
    return first, f(numbers(lib, 1, 2))


@case(1, "a global dict's number changes between calls")
def global_number(lib: Any, wrap: Any) -> Any:
    f = wrap(lambda x: x * SETTINGS["rate"])
    try:
        first = f(numbers(lib, 1, 2))
        SETTINGS["rate"] = 5.0
        return first, f(numbers(lib, 1, 2))
    finally:
        SETTINGS["rate"] = 2.0


@case(1, "an item of a list changes between calls")
def list_number(lib: Any, wrap: Any) -> Any:
    table = [0.5, 2.0]
    f = wrap(lambda x: x * table[0])
    first = f(numbers(lib, 1, 2))
    table[0] = 5.0
    return first, f(numbers(lib, 1, 2))


@case(2, "`if flag:` on a Python argument")
def flag(lib: Any, wrap: Any) -> Any:
    f = wrap(lambda x, double: x * 2 if double else x - 1)
    return [f(numbers(lib, 1, 2), double) for double in (True, False, True, 0, 1)]


@case(3, "`if tensor:`")
def branch(lib: Any, wrap: Any) -> Any:
    f = wrap(lambda x: x * 2 if x.sum() > 0 else x - 1)
    return [f(numbers(lib, v, v)) for v in (1, -1, 2, -2)]


@case(4, "`.item()` used as a shape", may_refuse=True)
def item_as_shape(lib: Any, wrap: Any) -> Any:
    f = wrap(lambda x, n: lib.ones(int(n.item())) * x.sum())
    return [f(numbers(lib, 1, 2), lib.tensor(n)) for n in (2, 3)]


@case(5, "`float(t)`", may_refuse=True)
def float_of(lib: Any, wrap: Any) -> Any:
    f = wrap(lambda x: x * float(x.sum()))
    return [f(numbers(lib, v, 2)) for v in (1, 3)]


@case(5, "`.tolist()`", may_refuse=True)
def to_list(lib: Any, wrap: Any) -> Any:
    f = wrap(lambda x: x * sum(x.tolist()))
    return [f(numbers(lib, v, 2)) for v in (1, 3)]


@case(5, "`.numpy()`", may_refuse=True)
def to_numpy(lib: Any, wrap: Any) -> Any:
    f = wrap(lambda x: x * lib.from_numpy(x.numpy() + 1))
    return [f(numbers(lib, v, 2)) for v in (1, 3)]


@case(6, "a method decorated in the class body, two instances", own_way=True)
def decorated_method(lib: Any, wrap: Any) -> Any:
    class Scaler:
        def __init__(self, factor: float) -> None:
            self.factor = factor

        @wrap
        def apply(self, x: Any) -> Any:
            return x * self.factor

    a, b, x = Scaler(2.0), Scaler(3.0), numbers(lib, 1, 2)
    return [a.apply(x), b.apply(x), a.apply(x)]


@case(7, "outputs kept from earlier calls")
def kept_outputs(lib: Any, wrap: Any) -> Any:
    f = wrap(lambda x: x * 2)
    return [f(numbers(lib, k, k)) for k in range(5)]


@case(8, "the same tensor passed twice")
def same_twice(lib: Any, wrap: Any) -> Any:
    def bump(x: Any, y: Any) -> Any:
        x.add_(1.0)
        return x * y

    f, x, y = wrap(bump), numbers(lib, 1, 2), numbers(lib, 3, 4)
    return [f(x, y), f(x, x), f(y, x), x, y]


@case(9, "an output fed back as input")
def fed_back(lib: Any, wrap: Any) -> Any:
    f, x = wrap(lambda x: x * 1.5 + 1), numbers(lib, 1, 2)
    for _ in range(5):
        x = f(x)
    return x


@case(10, "positional against keyword")
def keywords(lib: Any, wrap: Any) -> Any:
    f = wrap(lambda x, y, scale=2.0: (x - y) * scale)
    x, y = numbers(lib, 1, 2), numbers(lib, 3, 5)
    return [f(x, y), f(x, y=y), f(y=y, x=x), f(x, y, scale=3.0), f(x, y, 4.0)]


@case(11, "compiled functions nested")
def nested(lib: Any, wrap: Any) -> Any:
    inner = wrap(lambda x: x * 2)
    outer = wrap(lambda x: inner(x) + 1)
    return [outer(numbers(lib, 1, 2)), inner(numbers(lib, 1, 2)), outer(numbers(lib, 3, 4, 5))]


@case(12, "views with other offsets and strides")
def views(lib: Any, wrap: Any) -> Any:
    f, x = wrap(lambda x: x.exp().sum(0)), grid(lib, 4, 4)
    return [f(v) for v in (x, x.t(), x[1:], x[:, ::2], x[:, 1:3], x[0:1].expand(4, 4))]


@case(13, "a new shape")
def new_shape(lib: Any, wrap: Any) -> Any:
    f = wrap(lambda x: x.softmax(-1).sum(0))
    return [f(grid(lib, *shape)) for shape in ((2, 3), (4, 3), (1, 3), (2, 3, 4))]


@dataclass
class Batch:
    images: Any
    scale: float


Pair = namedtuple("Pair", "left right")


@case(14, "lists, dicts, dataclasses as arguments and results")
def containers(lib: Any, wrap: Any) -> Any:
    def f(batch: Any, extra: Any, pair: Any) -> Any:
        return {"sum": batch.images * batch.scale + extra["x"][0], "pair": Pair(pair.right, [pair.left])}

    f = wrap(f)
    x = numbers(lib, 1, 2)
    return [f(Batch(x, scale), {"x": [x * 2]}, Pair(x, x + 1)) for scale in (2.0, 3.0)]


@case(15, "results that are no tensors")
def other_results(lib: Any, wrap: Any) -> Any:
    f = wrap(lambda x, n: (x * n, n, "text", None, {"n": n + 1}, 2.5))
    return [f(numbers(lib, 1, 2), n) for n in (2, 3)]


@case(16, "no tensor op at all")
def no_op(lib: Any, wrap: Any) -> Any:
    f = wrap(lambda x, n: (n + 1, "done"))
    return [f(numbers(lib, 1), n) for n in (1, 2)]


@case(17, "in-place on an argument")
def in_place(lib: Any, wrap: Any) -> Any:
    def f(x: Any) -> Any:
        x.mul_(2.0)
        return x.sum()

    f, x = wrap(f), numbers(lib, 1, 2)
    return [f(x), f(x), x]


@case(18, "slice assignment, then a read")
def slices(lib: Any, wrap: Any) -> Any:
    def f(x: Any) -> Any:
        y = x.clone()
        y[1:] = y[:-1] * 10
        y[0] += 1
        return y, y.sum()

    f = wrap(f)
    return [f(numbers(lib, *v)) for v in ((1, 2, 3), (4, 5, 6))]


@case(19, "random ops: new draws each call")
def new_draws(lib: Any, wrap: Any) -> Any:
    f = wrap(lambda x: lib.nn.functional.dropout(x, 0.5) + lib.rand(6) + lib.randn(6))
    lib.manual_seed(3)
    draws = [f(lib.ones(6)).tolist() for _ in range(3)]
    return [a == b for a in draws for b in draws]


@case(19, "random ops: the same draws as eager's")
def same_draws(lib: Any, wrap: Any) -> Any:
    f = wrap(lambda x: lib.nn.functional.dropout(x, 0.5) + lib.rand(6) + lib.randn(6))
    lib.manual_seed(3)
    return [f(lib.ones(6)) for _ in range(3)]


@case(20, "`list.append` inside", may_refuse=True)
def appending(lib: Any, wrap: Any) -> Any:
    seen: list[float] = []

    def f(x: Any) -> Any:
        seen.append(1.0)
        return x * 2

    f = wrap(f)
    for _ in range(3):
        f(numbers(lib, 1, 2))
    return len(seen)
