"""The cases about models, optimizers and state as JAX says them: parameters and state go in and come out.

What cannot change in a pure function of arrays (a hook, the grad mode) has no counterpart, nor has a fork: a
child of a process that used JAX hangs at its first op, compiled or not.
"""

from __future__ import annotations

from typing import Any

from benchmarks.soundness.cases.processes import resident
from benchmarks.soundness.jax_cases import case, numbers
from benchmarks.soundness.table import plainly


def model_of(jax: Any) -> list[tuple[Any, Any]]:
    """Weights and biases of a small model, the same each time."""
    sizes, made = [(3, 4), (4, 2)], []
    for n, m in sizes:
        made.append((jax.numpy.sin(jax.numpy.arange(n * m) * 0.7).reshape(n, m), jax.numpy.zeros(m)))
    return made


def apply(jax: Any, params: Any, x: Any) -> Any:
    (w, b), (v, c) = params
    return jax.numpy.tanh(x @ w + b) @ v + c


def grid(jax: Any, *shape: int) -> Any:
    return jax.numpy.sin(jax.numpy.arange(float(shape[0] * shape[1])).reshape(shape) * 0.37)


def adam_step(jax: Any) -> Any:
    """One step of Adam: ``(params, state, rates, x) -> (params, state, loss)``."""
    tree_map = jax.tree_util.tree_map

    def step(params: Any, state: Any, rates: Any, x: Any) -> Any:
        loss, grads = jax.value_and_grad(lambda p: (apply(jax, p, x) ** 2).sum())(params)
        first, second, count = state
        lr, beta, decay = rates
        grads = tree_map(lambda g, p: g + decay * p, grads, params)
        first = tree_map(lambda m, g: beta * m + (1 - beta) * g, first, grads)
        second = tree_map(lambda v, g: 0.99 * v + 0.01 * g * g, second, grads)
        count = count + 1
        params = tree_map(
            lambda p, m, v: p
            - lr * (m / (1 - beta**count)) / (jax.numpy.sqrt(v / (1 - 0.99**count)) + 1e-8),
            params, first, second,
        )  # fmt: skip
        return params, (first, second, count), loss

    return step


def fresh_state(jax: Any, params: Any) -> Any:
    zeros = jax.tree_util.tree_map(jax.numpy.zeros_like, params)
    return zeros, zeros, 0


def leaves(jax: Any, *trees: Any) -> list[Any]:
    return jax.tree_util.tree_leaves(trees)


@case(17)
def in_place(jax: Any, wrap: Any) -> Any:
    def f(x: Any) -> Any:
        x = x.at[:].multiply(2.0)
        return x, x.sum()

    f, x = wrap(f), numbers(jax, 1, 2)
    x, first = f(x)
    x, second = f(x)
    return [first, second, x]


@case(18)
def slices(jax: Any, wrap: Any) -> Any:
    def f(x: Any) -> Any:
        y = x.at[1:].set(x[:-1] * 10)
        y = y.at[0].add(1)
        return y, y.sum()

    f = wrap(f)
    return [f(numbers(jax, *v)) for v in ((1, 2, 3), (4, 5, 6))]


@case(22)
def modes(jax: Any, wrap: Any) -> Any:
    def f(x: Any, train: bool) -> Any:
        return x - x.mean(0) if train else x

    f = f if wrap is plainly else wrap(f, static_argnames="train")
    return [f(grid(jax, 4, 3), train=train) for train in (True, False, True, False)]


@case(24)
def frozen_step(jax: Any, wrap: Any) -> Any:
    def step(params: Any, trains: Any, x: Any) -> Any:
        grads = jax.grad(lambda p: (apply(jax, p, x) ** 2).sum())(params)
        return [
            (w - 0.1 * t * gw, b - 0.1 * t * gb)
            for (w, b), (gw, gb), t in zip(params, grads, trains, strict=True)
        ]

    step, params, found = wrap(step), model_of(jax), []
    for trains in (True, False, True):
        params = step(params, [trains, True], grid(jax, 2, 3))
        found.append(leaves(jax, params))
    return found


@case(25)
def rates(jax: Any, wrap: Any) -> Any:
    step, params, found = wrap(adam_step(jax)), model_of(jax), []
    state = fresh_state(jax, params)
    for change in ((0.1, 0.9, 0.0), (0.01, 0.9, 0.0), (0.01, 0.5, 0.0), (0.01, 0.5, 0.3)):
        params, state, _ = step(params, state, change, grid(jax, 2, 3))
        found.append(leaves(jax, params))
    return found


@case(26)
def first_state(jax: Any, wrap: Any) -> Any:
    step, params = wrap(adam_step(jax)), model_of(jax)
    state = fresh_state(jax, params)
    for _ in range(3):
        params, state, _ = step(params, state, (0.1, 0.9, 0.0), grid(jax, 2, 3))
    return leaves(jax, params, state[:2])


@case(27)
def loading(jax: Any, wrap: Any) -> Any:
    step, params, losses = wrap(adam_step(jax)), model_of(jax), []
    state = fresh_state(jax, params)
    for k in range(4):
        if k == 2:
            params = model_of(jax)
            state = fresh_state(jax, params)
        params, state, loss = step(params, state, (0.1, 0.9, 0.0), grid(jax, 2, 3))
        losses.append(loss)
    return losses, leaves(jax, params)


@case(28)
def reassigned(jax: Any, wrap: Any) -> Any:
    f, params = wrap(lambda params, x: apply(jax, params, x)), model_of(jax)
    found = [f(params, grid(jax, 2, 3))]
    params[0] = (jax.numpy.ones((3, 4)), params[0][1])
    return [*found, f(params, grid(jax, 2, 3))]


@case(29)
def exception(jax: Any, wrap: Any) -> Any:
    def step(w: Any, x: Any, fail: bool) -> Any:
        if fail:
            raise KeyError("mine")
        return w + x

    step = step if wrap is plainly else wrap(step, static_argnums=2)
    w, found = numbers(jax, 1, 2), []
    for fail in (False, True, False):
        try:
            w = step(w, numbers(jax, 3, 4), fail)
            found.append(w)
        except KeyError as error:
            found.append(str(error))
    return found


@case(35)
def accumulated(jax: Any, wrap: Any) -> Any:
    f = wrap(jax.grad(lambda params, x: apply(jax, params, x).sum()))
    params, total = model_of(jax), None
    for k in range(3):
        grads = leaves(jax, f(params, grid(jax, 2, 3) * k))
        total = grads if total is None else [a + b for a, b in zip(total, grads, strict=True)]
    return total


@case(39)
def flat_memory(jax: Any, wrap: Any) -> Any:
    f, x = wrap(lambda x: x * 2 + 1), numbers(jax, *range(256))
    calls = 1_000 if wrap is plainly else 100_000
    for _ in range(1_000):
        f(x)
    before = resident()
    for _ in range(calls):
        f(x)
    return f(x), "flat" if resident() - before < 4 << 20 else f"{resident() - before} bytes more"
