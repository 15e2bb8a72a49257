"""What cannot be known while recording, and may be refused: cases 36 and 41 to 44."""

from __future__ import annotations

from typing import Any

from benchmarks.soundness.cases.ingredients import grid, model_of, numbers, training, weights
from benchmarks.soundness.table import case


@case(36, "a traced value leaked into a global", may_refuse=True)
def leaked(lib: Any, wrap: Any) -> Any:
    kept: list[Any] = []

    def f(x: Any) -> Any:
        kept[:] = [x * 2]
        return x + 1

    f = wrap(f)
    found = []
    for k in (1, 2):
        found.append(f(numbers(lib, k, k)))
        found.append(kept[0] + 1)
    return found


@case(41, "a class target out of range", may_refuse=True)
def wrong_target(lib: Any, wrap: Any) -> Any:
    f = wrap(lambda x, y: lib.nn.functional.cross_entropy(x, y))
    good = f(grid(lib, 2, 3), lib.tensor([0, 2]))
    return good, f(grid(lib, 2, 3), lib.tensor([0, 3]))


@case(41, "an index out of range", may_refuse=True)
def wrong_index(lib: Any, wrap: Any) -> Any:
    f = wrap(lambda x, k: x[k] * 2)
    good = f(numbers(lib, 1, 2), lib.tensor([1]))
    return good, f(numbers(lib, 1, 2), lib.tensor([5]))


@case(42, "integer division by zero", may_refuse=True)
def divided_by_zero(lib: Any, wrap: Any) -> Any:
    f = wrap(lambda a, b: a // b)
    good = f(lib.tensor([6, 8]), lib.tensor([2, 3]))
    return good, f(lib.tensor([6, 8]), lib.tensor([2, 0]))


@case(43, "a boolean mask", may_refuse=True)
def mask(lib: Any, wrap: Any) -> Any:
    f = wrap(lambda x: x[x > 0] * 2)
    return [f(numbers(lib, *v)) for v in ((1, -2, 3), (-1, -2, 3))]


@case(43, "`nonzero`", may_refuse=True)
def nonzero(lib: Any, wrap: Any) -> Any:
    f = wrap(lambda x: x.nonzero())
    return [f(numbers(lib, *v)) for v in ((1, 0, 3), (0, 0, 3))]


@case(44, "`self.step += 1` inside", may_refuse=True)
def attribute(lib: Any, wrap: Any) -> Any:
    class Counter:
        steps = 0

    counter = Counter()

    def f(x: Any) -> Any:
        counter.steps += 1
        return x * counter.steps

    f = wrap(f)
    return [f(numbers(lib, 1, 2)) for _ in range(3)], counter.steps


@case(44, "`scheduler.step()` inside", may_refuse=True)
def scheduler(lib: Any, wrap: Any) -> Any:
    model = model_of(lib)
    optimizer = lib.optim.SGD(model.parameters(), lr=0.1)
    schedule = lib.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    inner = training(lib, model, optimizer)

    def step(x: Any) -> Any:
        loss = inner(x)
        schedule.step()
        return loss

    step = wrap(step)
    for _ in range(3):
        step(grid(lib, 2, 3))
    return weights(model), optimizer.param_groups[0]["lr"]
