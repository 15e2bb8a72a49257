"""The cases that can be said in JAX, for ``jax.jit``. The others have no counterpart there."""

from __future__ import annotations

import threading
from typing import Any

from benchmarks.soundness.table import Program

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


@case(2)
def flag(jax: Any, wrap: Any) -> Any:
    f = wrap(lambda x, double: x * 2 if double else x - 1)
    return [f(numbers(jax, 1, 2), double) for double in (True, False)]


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


@case(10)
def keywords(jax: Any, wrap: Any) -> Any:
    f = wrap(lambda x, y, scale=2.0: (x - y) * scale)
    x, y = numbers(jax, 1, 2), numbers(jax, 3, 5)
    return [f(x, y), f(x, y=y), f(y=y, x=x), f(x, y, scale=3.0)]


@case(13)
def new_shape(jax: Any, wrap: Any) -> Any:
    f = wrap(lambda x: jax.nn.softmax(x, -1).sum(0))
    return [f(jax.numpy.ones(shape)) for shape in ((2, 3), (4, 3), (1, 3))]


@case(15)
def other_results(jax: Any, wrap: Any) -> Any:
    f = wrap(lambda x, n: (x * n, n, "text"))
    return [f(numbers(jax, 1, 2), n) for n in (2, 3)]


@case(19)
def random(jax: Any, wrap: Any) -> Any:
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


@case(25)
def rates(jax: Any, wrap: Any) -> Any:
    class Optimizer:
        lr = 0.1

    optimizer = Optimizer()
    step = wrap(lambda w: w - optimizer.lr * jax.grad(lambda v: (v**2).sum())(w))
    first = step(numbers(jax, 1, 2))
    optimizer.lr = 0.5
    return first, step(numbers(jax, 1, 2))


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
    x = numbers(jax, float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1.0)
    f = wrap(lambda x: (jax.nn.relu(x), jax.numpy.clip(x, -1, 1), jax.numpy.tanh(x), x.max(), x * 0.5, 1 / x))
    return f(x)


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
