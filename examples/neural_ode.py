"""A neural ODE: a solver that chooses its steps as it goes, or one whose steps are known before.

    python examples/neural_ode.py                              # dopri5, adaptive steps, eager
    python examples/neural_ode.py --compile                    # each step of it compiled
    python examples/neural_ode.py --method rk4 --compile       # the whole training step compiled

A network is fitted to dy/dt of a spiral, through the solver. Dynamic: the pair of Dormand and Prince (1980)
estimates the error of each step, and Python accepts it or tries a shorter one: the number of steps is known
when they are done, and the tape has those that were accepted. Static: that step, six evaluations of the
network, is recorded once and chained by the tape; with rk4 all steps are known, and scan makes them one loop.
Compiled, 200 training steps by dopri5 took a third of the time, by rk4 a tenth, recording included; but rk4
has 60 steps of its own where dopri5 does with 6 to 18, and eagerly takes three times as long.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import jtorch
import jtorch.nn.functional as F
from jtorch import nn

# Row k: how much of the first k derivatives is in the point where the next one is taken.
DOPRI5 = [
    [1 / 5],
    [3 / 40, 9 / 40],
    [44 / 45, -56 / 15, 32 / 9],
    [19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729],
    [9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656],
    [35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84],  # the end of the step, of order 5
]
ERROR = [71 / 57600, 0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40]  # order 5 minus order 4


def spiral(y: Any) -> Any:
    """dy/dt of what is to be learnt: inwards, and faster the nearer it is."""
    turn = jtorch.tensor([[-0.1, -1.0], [1.0, -0.1]])
    return y @ turn.T / (0.1 + y.square().sum(-1, keepdim=True))


def weighted(weights: list[float], several: list[Any]) -> Any:
    return sum(w * k for w, k in zip(weights, several, strict=True) if w)


def dopri5_step(f: Callable, y: Any, slope: Any, h: float, tolerance: float) -> tuple[Any, Any, Any]:
    """(y after a step of h, the slope there, how many times the tolerance its error is)"""
    slopes, end = [slope], y
    for row in DOPRI5:
        end = y + h * weighted(row, slopes)
        slopes.append(f(end))
    scale = tolerance * (1 + jtorch.maximum(y.abs(), end.abs()))
    return end, slopes[-1], (h * weighted(ERROR, slopes) / scale).square().mean().sqrt().detach()


def dopri5(f: Callable, step: Callable, y: Any, times: list[float], tolerance: float) -> tuple[Any, int, int]:
    """(the solution (times, N, D) from y (N, D) on, how many steps were accepted, how many rejected)"""
    found, slope, h, t, accepted, tried = [y], f(y), times[1] - times[0], times[0], 0, 0
    while t < times[-1]:
        goal = times[len(found)]
        length = min(h, goal - t)
        y_new, slope_new, error = step(f, y, slope, length, tolerance)
        error, tried = error.item(), tried + 1
        if error <= 1:
            y, slope, accepted = y_new, slope_new, accepted + 1
            t = goal if length == goal - t else t + length
            found += [y] if t == goal else []
        h = length * min(5.0, max(0.2, 0.9 * (error + 1e-12) ** -0.2))
    return jtorch.stack(found), accepted, tried - accepted


def rk4(f: Callable, y: Any, lengths: Any) -> Any:
    """The solution after each of the steps, by the classical method of order 4."""

    def step(y: Any, h: Any) -> tuple[Any, Any]:
        a = f(y)
        b = f(y + h / 2 * a)
        c = f(y + h / 2 * b)
        y = y + h / 6 * (a + 2 * b + 2 * c + f(y + h * c))
        return y, y

    return jtorch.cat([y[None], jtorch.compiler.scan(step, y, lengths)[1]])


def main(argv: list[str] | None = None) -> list[float]:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--method", choices=("dopri5", "rk4"), default="dopri5")
    parser.add_argument("--compile", action="store_true", help="compile a step: of dopri5, or of training")
    parser.add_argument("--steps", type=int, default=200, help="of training")
    parser.add_argument("--every", type=int, default=40, help="after how many steps to print")
    parser.add_argument("--tolerance", type=float, default=1e-4)
    args = parser.parse_args(argv)

    jtorch.manual_seed(0)
    jtorch.set_default_dtype(jtorch.float64)  # so that rounding accepts no other step
    model = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 2))
    optimizer = jtorch.optim.Adam(model.parameters(), lr=0.01)
    times = [0.5 * k for k in range(7)]
    lengths = jtorch.full((10 * (len(times) - 1),), 0.05)  # of the steps of rk4
    angles = jtorch.arange(12) * 2.4
    starts = jtorch.stack([angles.cos(), angles.sin()], 1) * jtorch.linspace(0.4, 1.5, 12)[:, None]
    with jtorch.no_grad():
        truth, _, _ = dopri5(spiral, dopri5_step, starts, times, 1e-9)

    def learn(solve: Callable) -> tuple[Any, str]:
        optimizer.zero_grad()
        solution, note = solve()
        loss = F.mse_loss(solution, truth)
        loss.backward()
        optimizer.step()
        return loss, note

    def adaptive() -> tuple[Any, str]:
        solution, accepted, rejected = dopri5(model, step, starts, times, args.tolerance)
        return solution, f"{accepted} steps accepted, {rejected} rejected"

    def fixed() -> tuple[Any, str]:
        return rk4(model, starts, lengths)[::10], f"{len(lengths)} steps"

    step, solve = dopri5_step, adaptive if args.method == "dopri5" else fixed
    if args.compile and args.method == "dopri5":
        step = jtorch.compile(dopri5_step)
    elif args.compile:
        learn = jtorch.compile(learn)
    losses, begin = [], time.perf_counter()
    for k in range(1, args.steps + 1):
        loss, note = learn(solve)
        losses.append(loss.item())
        if k % args.every == 0:
            print(f"step {k}: loss {losses[-1]:.8f}, {note}")
    print(f"{time.perf_counter() - begin:.2f} s in {args.steps} steps")
    return losses


if __name__ == "__main__":
    main()
