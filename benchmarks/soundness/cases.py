"""The forty-four, as programs that run in jtorch and in PyTorch alike. The tests run them, too.

Each program makes everything it needs, so that runs don't meet. What it returns is compared.
"""

from __future__ import annotations

import threading
from collections import namedtuple
from dataclasses import dataclass
from typing import Any

from benchmarks.soundness.table import case

SETTINGS = {"rate": 2.0}


def numbers(lib: Any, *values: float) -> Any:
    return lib.tensor([float(v) for v in values])


def grid(lib: Any, *shape: int) -> Any:
    """Distinct numbers of a moderate size."""
    n = 1
    for k in shape:
        n *= k
    return (lib.arange(n).float().reshape(shape) * 0.37).sin()


def model_of(lib: Any) -> Any:
    """A small model with the same weights each time."""
    lib.manual_seed(0)
    return lib.nn.Sequential(lib.nn.Linear(3, 4), lib.nn.Tanh(), lib.nn.Linear(4, 2))


def training(lib: Any, model: Any, optimizer: Any) -> Any:
    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = (model(x) ** 2).sum()
        loss.backward()
        optimizer.step()
        return loss

    return step


def weights(model: Any) -> list[Any]:
    return [p.detach().clone() for p in model.parameters()]


# -- values from outside, arguments --------------------------------------------------------------------------


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


# -- modules, optimizers, gradients --------------------------------------------------------------------------


@case(21, "a hook added after capture")
def hook(lib: Any, wrap: Any) -> Any:
    model = model_of(lib)
    f, x = wrap(lambda x: model(x).sum()), grid(lib, 2, 3)
    first = f(x)
    handle = model[0].register_forward_hook(lambda module, args, out: out * 3)
    second = f(x)
    handle.remove()
    return first, second, f(x)


@case(21, "a gradient hook added after capture, whole step")
def gradient_hook(lib: Any, wrap: Any) -> Any:
    w = numbers(lib, 1, 2).requires_grad_()

    def step(x: Any) -> Any:
        w.grad = None
        (w * x).sum().backward()

    step, grads = wrap(step), []
    step(numbers(lib, 3, 4))
    grads.append(w.grad.clone())
    w.register_hook(lambda g: g * 10)
    step(numbers(lib, 3, 4))
    return [*grads, w.grad.clone()]


@case(22, "`train()`/`eval()` toggled")
def modes(lib: Any, wrap: Any) -> Any:
    model = lib.nn.Sequential(lib.nn.Dropout(1.0), lib.nn.BatchNorm1d(3))
    f, x, found = wrap(lambda x: model(x)), grid(lib, 4, 3), []
    for train in (True, False, True, False):
        model.train(train)
        found.append(f(x))
    return [*found, model[1].running_mean.clone(), model[1].num_batches_tracked.clone()]


@case(23, "`no_grad` toggled")
def no_grad(lib: Any, wrap: Any) -> Any:
    model = model_of(lib)
    f, x, found = wrap(lambda x: model(x)), grid(lib, 2, 3), []
    for _ in range(2):
        found.append(f(x).requires_grad)
        with lib.no_grad():
            found.append(f(x).requires_grad)
    return found


@case(24, "`requires_grad_` toggled, a layer frozen")
def frozen(lib: Any, wrap: Any) -> Any:
    model = model_of(lib)
    f, x, found = wrap(lambda x: model(x).sum()), grid(lib, 2, 3), []
    for trains in (True, False, True):
        model[0].requires_grad_(trains)
        model.zero_grad()
        f(x).backward()
        found.append([None if p.grad is None else p.grad.clone() for p in model.parameters()])
    return found


@case(24, "a layer frozen, whole step")
def frozen_step(lib: Any, wrap: Any) -> Any:
    model = model_of(lib)
    step = wrap(training(lib, model, lib.optim.SGD(model.parameters(), lr=0.1)))
    found = []
    for trains in (True, False, True):
        model[0].requires_grad_(trains)
        step(grid(lib, 2, 3))
        found.append(weights(model))
    return found


@case(25, "lr, betas, weight decay changed")
def rates(lib: Any, wrap: Any) -> Any:
    model = model_of(lib)
    optimizer = lib.optim.Adam(model.parameters(), lr=0.1)
    step, found = wrap(training(lib, model, optimizer)), []
    changes: tuple[dict[str, Any], ...] = (
        {},
        {"lr": 0.01},
        {"betas": (0.5, 0.9)},
        {"weight_decay": 0.3},
        {"eps": 1e-3},
    )
    for change in changes:
        optimizer.param_groups[0].update(change)
        step(grid(lib, 2, 3))
        found.append(weights(model))
    return found


@case(26, "optimizer state made on the first step")
def first_state(lib: Any, wrap: Any) -> Any:
    model = model_of(lib)
    optimizer = lib.optim.Adam(model.parameters(), lr=0.1)
    step = wrap(training(lib, model, optimizer))
    for _ in range(3):
        step(grid(lib, 2, 3))
    return weights(model), [s["exp_avg_sq"] for s in optimizer.state.values()]


@case(27, "`load_state_dict` after capture")
def loading(lib: Any, wrap: Any) -> Any:
    model = model_of(lib)
    optimizer = lib.optim.Adam(model.parameters(), lr=0.1)
    step = wrap(training(lib, model, optimizer))
    start = {k: v.clone() for k, v in model.state_dict().items()}
    for _ in range(2):
        step(grid(lib, 2, 3))
    model.load_state_dict(start)
    optimizer.load_state_dict(lib.optim.Adam(model.parameters(), lr=0.05).state_dict())
    return [step(grid(lib, 2, 3)), step(grid(lib, 2, 3)), weights(model)]


@case(27, "`load_state_dict` after capture, forward")
def loading_forward(lib: Any, wrap: Any) -> Any:
    model = model_of(lib)
    f, x = wrap(lambda x: model(x)), grid(lib, 2, 3)
    first = f(x)
    model.load_state_dict({k: v * 2 for k, v in model.state_dict().items()})
    return first, f(x)


@case(28, "a parameter or submodule re-assigned")
def reassigned(lib: Any, wrap: Any) -> Any:
    model = model_of(lib)
    f, x = wrap(lambda x: model(x)), grid(lib, 2, 3)
    found = [f(x)]
    model[0].weight = lib.nn.Parameter(lib.ones(4, 3))
    found.append(f(x))
    model[1] = lib.nn.ReLU()
    found.append(f(x))
    model[2].bias.data = lib.ones(2)
    return [*found, f(x)]


@case(29, "an exception inside leaves no half-done state")
def exception(lib: Any, wrap: Any) -> Any:
    w = numbers(lib, 1, 2).requires_grad_()

    def step(x: Any, fail: bool) -> Any:
        loss = (w * x).sum()
        if fail:
            raise KeyError("mine")
        loss.backward()
        return loss

    step, found = wrap(step), []
    for fail in (False, True, False):
        try:
            found.append(step(numbers(lib, 3, 4), fail))
        except KeyError as error:
            found.append(str(error))
    return [*found, w.grad]


@case(30, "two threads")
def threads(lib: Any, wrap: Any) -> Any:
    f = wrap(lambda x: (x * 2).sum())
    f(lib.ones(100))
    wrong: list[float] = []

    def work(k: int) -> None:
        x = lib.ones(100) * k
        wrong.extend(1.0 for _ in range(50) if float(f(x)) != 200.0 * k)

    workers = [threading.Thread(target=work, args=(k,)) for k in (1, 2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return len(wrong)


@case(32, "NaN, inf, denormals")
def special(lib: Any, wrap: Any) -> Any:
    x = numbers(lib, float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1e-40, 1.0)

    def f(x: Any) -> Any:
        best, _ = x[1:].max(0)
        return x.relu(), x.clamp(-1, 1), x.tanh(), x.exp(), x.max(), best, x * 0.5, 1 / x

    found = wrap(f)(x)
    return *found, found[6] != 0  # denormals are no zeros


@case(33, "empty batch")
def empty(lib: Any, wrap: Any) -> Any:
    model = model_of(lib)
    f = wrap(lambda x: (model(x), x.sum(), x.sum(0)))
    return [f(grid(lib, 2, 3)), f(lib.zeros(0, 3)), f(grid(lib, 1, 3))]


@case(34, "a new dtype")
def dtypes(lib: Any, wrap: Any) -> Any:
    f, x = wrap(lambda x: (x * 2, x.sum())), lib.arange(5)
    outs = [f(v) for v in (x.float(), x.double(), x, x.to(lib.int32), x > 2)]
    return outs, [str(o[0].dtype).split(".")[-1] for o in outs]


@case(35, "gradients accumulated over k calls")
def accumulated(lib: Any, wrap: Any) -> Any:
    model = model_of(lib)
    f = wrap(lambda x: model(x).sum())
    for k in range(3):
        f(grid(lib, 2, 3) * k).backward()
    return [p.grad for p in model.parameters()]


@case(35, "gradients accumulated over k calls, whole step")
def accumulated_step(lib: Any, wrap: Any) -> Any:
    model = model_of(lib)

    def step(x: Any) -> Any:
        model(x).sum().backward()

    step, kept = wrap(step), []
    for k in range(3):
        step(grid(lib, 2, 3) * k)
        kept.append(model[0].weight.grad.clone())
    return kept, [p.grad for p in model.parameters()]


# -- what cannot be known while recording --------------------------------------------------------------------


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
