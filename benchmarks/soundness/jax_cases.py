"""The cases that can be said in JAX, for ``jax.jit``, in its own idioms; those with state are in
``jax_state.py``. The others have no counterpart there."""

from __future__ import annotations

import threading
from collections import namedtuple
from typing import Any

import numpy as np

from benchmarks.soundness.table import Program, plainly

SETTINGS = {"rate": 2.0}
PROGRAMS: dict[int, list[Program]] = {}


def case(number: int) -> Any:
    def declare(program: Program) -> Program:
        PROGRAMS.setdefault(number, []).append(program)
        return program

    return declare


def numbers(jax: Any, *values: float) -> Any:
    return jax.numpy.array([float(v) for v in values])


@case(1)
def closure_number(jax: Any, wrap: Any) -> Any:
    scale = 2.0
    f = wrap(lambda x: x * scale)
    first = f(numbers(jax, 1, 2))
    scale = 5.0
    return first, f(numbers(jax, 1, 2))


@case(1)
def global_number(jax: Any, wrap: Any) -> Any:
    f = wrap(lambda x: x * SETTINGS["rate"])
    try:
        first = f(numbers(jax, 1, 2))
        SETTINGS["rate"] = 5.0
        return first, f(numbers(jax, 1, 2))
    finally:
        SETTINGS["rate"] = 2.0


@case(1)
def list_number(jax: Any, wrap: Any) -> Any:
    table = [0.5, 2.0]
    f = wrap(lambda x: x * table[0])
    first = f(numbers(jax, 1, 2))
    table[0] = 5.0
    return first, f(numbers(jax, 1, 2))


@case(2)
def flag(jax: Any, wrap: Any) -> Any:
    def f(x: Any, double: Any) -> Any:
        return x * 2 if double else x - 1

    f = f if wrap is plainly else wrap(f, static_argnums=1)
    return [f(numbers(jax, 1, 2), double) for double in (True, False, True, 0, 1)]


@case(3)
def branch(jax: Any, wrap: Any) -> Any:
    f = wrap(lambda x: x * 2 if x.sum() > 0 else x - 1)
    return [f(numbers(jax, v, v)) for v in (1, -1)]


@case(4)
def item_as_shape(jax: Any, wrap: Any) -> Any:
    f = wrap(lambda x, n: jax.numpy.ones(int(n.item())) * x.sum())
    return [f(numbers(jax, 1, 2), jax.numpy.array(n)) for n in (2, 3)]


@case(5)
def float_of(jax: Any, wrap: Any) -> Any:
    f = wrap(lambda x: x * float(x.sum()))
    return [f(numbers(jax, v, 2)) for v in (1, 3)]


@case(5)
def to_list(jax: Any, wrap: Any) -> Any:
    f = wrap(lambda x: x * sum(x.tolist()))
    return [f(numbers(jax, v, 2)) for v in (1, 3)]


@case(5)
def to_numpy(jax: Any, wrap: Any) -> Any:
    f = wrap(lambda x: x * (np.asarray(x) + 1))
    return [f(numbers(jax, v, 2)) for v in (1, 3)]


@case(6)
def decorated_method(jax: Any, wrap: Any) -> Any:
    class Scaler:
        def __init__(self, factor: float) -> None:
            self.factor = factor

        @wrap
        def apply(self, x: Any) -> Any:
            return x * self.factor

    a, b, x = Scaler(2.0), Scaler(3.0), numbers(jax, 1, 2)
    return [a.apply(x), b.apply(x), a.apply(x)]


@case(7)
def kept_outputs(jax: Any, wrap: Any) -> Any:
    f = wrap(lambda x: x * 2)
    return [f(numbers(jax, k, k)) for k in range(5)]


@case(8)
def same_twice(jax: Any, wrap: Any) -> Any:
    f, x, y = wrap(lambda x, y: (x + 1.0) * y), numbers(jax, 1, 2), numbers(jax, 3, 4)
    return [f(x, y), f(x, x), f(y, x), x, y]


@case(9)
def fed_back(jax: Any, wrap: Any) -> Any:
    f, x = wrap(lambda x: x * 1.5 + 1), numbers(jax, 1, 2)
    for _ in range(5):
        x = f(x)
    return x


@case(10)
def keywords(jax: Any, wrap: Any) -> Any:
    f = wrap(lambda x, y, scale=2.0: (x - y) * scale)
    x, y = numbers(jax, 1, 2), numbers(jax, 3, 5)
    return [f(x, y), f(x, y=y), f(y=y, x=x), f(x, y, scale=3.0), f(x, y, 4.0)]


@case(11)
def nested(jax: Any, wrap: Any) -> Any:
    inner = wrap(lambda x: x * 2)
    outer = wrap(lambda x: inner(x) + 1)
    return [outer(numbers(jax, 1, 2)), inner(numbers(jax, 1, 2)), outer(numbers(jax, 3, 4, 5))]


@case(12)
def views(jax: Any, wrap: Any) -> Any:
    f, x = wrap(lambda x: jax.numpy.exp(x).sum(0)), jax.numpy.arange(16.0).reshape(4, 4) / 7
    return [f(v) for v in (x, x.T, x[1:], x[:, ::2], x[:, 1:3], jax.numpy.broadcast_to(x[0:1], (4, 4)))]


@case(13)
def new_shape(jax: Any, wrap: Any) -> Any:
    f = wrap(lambda x: jax.nn.softmax(x, -1).sum(0))
    return [f(jax.numpy.ones(shape)) for shape in ((2, 3), (4, 3), (1, 3))]


Pair = namedtuple("Pair", "left right")


@case(14)
def containers(jax: Any, wrap: Any) -> Any:
    def f(batch: Any, extra: Any, pair: Any) -> Any:
        total = batch["images"] * batch["scale"] + extra["x"][0]
        return {"sum": total, "pair": Pair(pair.right, [pair.left])}

    f, x = wrap(f), numbers(jax, 1, 2)
    return [f({"images": x, "scale": s}, {"x": [x * 2]}, Pair(x, x + 1)) for s in (2.0, 3.0)]


@case(15)
def other_results(jax: Any, wrap: Any) -> Any:
    f = wrap(lambda x, n: (x * n, n, "text"))
    return [f(numbers(jax, 1, 2), n) for n in (2, 3)]


@case(16)
def no_op(jax: Any, wrap: Any) -> Any:
    f = wrap(lambda x, n: n + 1)
    return [float(f(numbers(jax, 1), n)) for n in (1, 2)]


@case(19)
def new_draws(jax: Any, wrap: Any) -> Any:
    f, key = wrap(lambda key: jax.random.normal(key, (6,))), jax.random.key(3)
    draws = [f(k).tolist() for k in jax.random.split(key, 3)]
    return [a == b for a in draws for b in draws]


@case(19)
def same_draws(jax: Any, wrap: Any) -> Any:
    f = wrap(lambda key: jax.random.normal(key, (6,)))
    return [f(jax.random.key(k)) for k in range(3)]


@case(20)
def appending(jax: Any, wrap: Any) -> Any:
    seen: list[float] = []

    def f(x: Any) -> Any:
        seen.append(1.0)
        return x * 2

    f = wrap(f)
    for _ in range(3):
        f(numbers(jax, 1, 2))
    return len(seen)


@case(30)
def threads(jax: Any, wrap: Any) -> Any:
    f = wrap(lambda x: (x * 2).sum())
    wrong: list[float] = []

    def work(k: int) -> None:
        wrong.extend(1.0 for _ in range(50) if float(f(jax.numpy.ones(100) * k)) != 200.0 * k)

    workers = [threading.Thread(target=work, args=(k,)) for k in (1, 2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return len(wrong)


@case(32)
def special(jax: Any, wrap: Any) -> Any:
    x = numbers(jax, float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1e-40, 1.0)
    f = wrap(lambda x: (jax.nn.relu(x), jax.numpy.clip(x, -1, 1), jax.numpy.tanh(x), x.max(), x * 0.5, 1 / x))
    found = f(x)
    return *found, found[4] != 0


@case(33)
def empty(jax: Any, wrap: Any) -> Any:
    f = wrap(lambda x: (x * 2, x.sum(), x.sum(0)))
    return [f(jax.numpy.ones((n, 3))) for n in (2, 0, 1)]


@case(34)
def dtypes(jax: Any, wrap: Any) -> Any:
    f, x = wrap(lambda x: (x * 2, x.sum())), jax.numpy.arange(5)
    return [f(v) for v in (x.astype("float32"), x, x.astype("int16"))]


@case(36)
def leaked(jax: Any, wrap: Any) -> Any:
    kept: list[Any] = [None]

    def f(x: Any) -> Any:
        kept[0] = x * 2
        return x + 1

    f = wrap(f)
    return [(f(numbers(jax, k, k)), kept[0] + 1) for k in (1, 2)]


@case(41)
def wrong_index(jax: Any, wrap: Any) -> Any:
    f = wrap(lambda x, k: x[k] * 2)
    return f(numbers(jax, 1, 2), jax.numpy.array([5]))


@case(42)
def divided_by_zero(jax: Any, wrap: Any) -> Any:
    f = wrap(lambda a, b: a // b)
    return f(jax.numpy.array([6, 8]), jax.numpy.array([2, 0]))


@case(43)
def mask(jax: Any, wrap: Any) -> Any:
    f = wrap(lambda x: x[x > 0] * 2)
    return f(numbers(jax, 1, -2, 3))


@case(43)
def nonzero(jax: Any, wrap: Any) -> Any:
    f = wrap(lambda x: jax.numpy.argwhere(x))
    return [f(numbers(jax, *v)) for v in ((1, 0, 3), (0, 0, 3))]


@case(44)
def attribute(jax: Any, wrap: Any) -> Any:
    class Counter:
        steps = 0

    counter = Counter()

    def f(x: Any) -> Any:
        counter.steps += 1
        return x * counter.steps

    f = wrap(f)
    return [f(numbers(jax, 1, 2)) for _ in range(3)], counter.steps
