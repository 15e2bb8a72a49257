"""Modules, optimizers, gradients; threads; unusual values, sizes, dtypes: cases 21 to 35 but for the fork."""

from __future__ import annotations

import threading
from typing import Any

from benchmarks.soundness.cases.ingredients import grid, model_of, numbers, training, weights
from benchmarks.soundness.table import case


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
