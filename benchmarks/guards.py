"""What guards cost per call, and that they notice: ``python -m benchmarks guards``.

Guards on plain Python state cost something for each distinct read; models of any size tell of changes by
themselves and cost nothing. At each size one randomly chosen value is changed, and the next call must see it.
The third table sets, before each call, state that the function does not read: what the call takes then.
"""

from __future__ import annotations

import random
import statistics
import time
import types
from collections.abc import Callable
from typing import Any

import jtorch
from jtorch import nn
from jtorch.compile.run.lines import Return, function_of, until

READS = (0, 10, 100, 1000)
PARAMETERS = (10, 100, 1000, 10_000)


class State:
    """``size`` numbers outside the function: a third each in a dict, in a list and in attributes."""

    def __init__(self, size: int) -> None:
        third = size // 3
        self.items = {f"k{n}": float(n) for n in range(third)}
        self.entries = [float(n) for n in range(third)]
        self.options = types.SimpleNamespace(**{f"a{n}": float(n) for n in range(size - 2 * third)})
        self.names = tuple(vars(self.options))

    def total(self) -> float:
        """The sum of all of them, each read by itself."""
        found = 0.0
        for key in tuple(f"k{n}" for n in range(len(self.items))):
            found += self.items[key]
        for place in range(len(self.entries)):
            found += self.entries[place]
        for name in self.names:
            found += getattr(self.options, name)
        return found

    def change(self, chosen: random.Random) -> None:
        """Another value for one of them."""
        kind = chosen.randrange(3)
        if kind == 0:
            self.items[chosen.choice(sorted(self.items))] += 1.0
        elif kind == 1:
            self.entries[chosen.randrange(len(self.entries))] += 1.0
        else:
            name = chosen.choice(self.names)
            setattr(self.options, name, getattr(self.options, name) + 1.0)


def guards_of(compiled: Any) -> Callable[[tuple], Any]:
    """The guards of the newest plan as a function of their own: its generated call up to the marshalling."""
    plan = compiled._newest()
    return function_of([*until(plan.lines, "marshal"), Return("True")], dict(plan.call.__globals__))


def microseconds(function: Callable[[tuple], Any], values: tuple, samples: int = 15) -> float:
    """The best of some samples of many calls each."""
    assert function(values) is True, "the guards do not hold"
    times, calls = [], 200
    for _ in range(samples):
        start = time.perf_counter()
        for _ in range(calls):
            function(values)
        times.append((time.perf_counter() - start) / calls * 1e6)
    return min(times)


def with_reads(size: int, chosen: random.Random) -> tuple[float, int, bool]:
    """(guard us per call, distinct reads guarded, whether a change was noticed) for ``size`` numbers."""
    state = State(size)
    compiled = jtorch.compile(lambda x: x + state.total())
    x = jtorch.zeros(())
    before = compiled(x).item()
    cost = microseconds(guards_of(compiled), (x,))
    reads = sum(read.guarded for read in compiled._newest().capture.plain)
    if not size:
        return cost, reads, True
    state.change(chosen)
    return cost, reads, compiled(x).item() == before + 1.0


def with_parameters(size: int, chosen: random.Random) -> tuple[float, int, bool]:
    """The same for a model of ``size`` parameters, one of which is replaced, and another set in place."""
    model = nn.ParameterList([nn.Parameter(jtorch.zeros(1)) for _ in range(size)])

    def total() -> Any:
        at_once = 32
        found: list[Any] = list(model.parameters())
        while len(found) > 1:
            found = [jtorch.cat(found[k : k + at_once]) for k in range(0, len(found), at_once)]
        return found[0].detach().sum()

    compiled = jtorch.compile(lambda x: x + total())
    x = jtorch.zeros(())
    compiled(x)
    cost = microseconds(guards_of(compiled), (x,))
    reads = sum(read.guarded for read in compiled._newest().capture.plain)
    model[chosen.randrange(size)].data = jtorch.ones(1)
    noticed = compiled(x).item() == 1.0
    with jtorch.no_grad():
        model[chosen.randrange(size)].add_(1.0)
    return cost, reads, noticed and compiled(x).item() == 2.0


class Agent(nn.Module):
    """A network that collects what it has seen, as agents do."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 2))
        self.data: list[Any] = []

    def forward(self, x: jtorch.Tensor) -> jtorch.Tensor:
        return self.body(x)


def foreign_changes(agent: Agent) -> dict[str, Callable[[], Any]]:
    """Changes that a step of ``agent`` does not depend on."""
    other = nn.Linear(2, 2)
    return {
        "nothing": lambda: None,
        "agent.data = []": lambda: setattr(agent, "data", []),
        "agent.fresh = object()": lambda: setattr(agent, "fresh", object()),
        "other.note = object()": lambda: setattr(other, "note", object()),
        "nn.Linear(2, 2)": lambda: nn.Linear(2, 2),
        "agent.state_dict()": lambda: agent.state_dict(),
        "agent.eval(), .train()": lambda: (agent.eval(), agent.train()),
    }


def with_foreign_state(samples: int) -> dict[str, float]:
    """Microseconds of a training step right after each change, interleaved: medians."""
    agent = Agent()
    optimizer = jtorch.optim.Adam(agent.parameters())

    @jtorch.compile
    def step(x: jtorch.Tensor) -> jtorch.Tensor:
        optimizer.zero_grad()
        loss = agent(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    x, changes = jtorch.ones(4, 8), foreign_changes(agent)
    times: dict[str, list[float]] = {name: [] for name in changes}
    step(x), step(x)
    for _ in range(samples):
        for name, change in changes.items():
            change()
            start = time.perf_counter()
            step(x)
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(taken) * 1e6 for name, taken in times.items()}


def report(quick: bool = False, seed: int = 0) -> int:
    """Print the tables; 1 if a change went by unnoticed. ``seed`` is that of the values that are changed."""
    chosen, failed = random.Random(seed), False
    tables = (("reads", READS, with_reads), ("parameters", PARAMETERS, with_parameters))
    for name, sizes, measure in tables:
        print(f"{name:>10}  guarded reads  guards us/call  ns per read  change noticed")
        for size in sizes[:2] if quick else sizes:
            cost, reads, noticed = measure(size, chosen)
            each = f"{cost * 1e3 / reads:11.1f}" if reads else f"{'-':>11}"
            print(f"{size:>10}  {reads:>13}  {cost:>14.2f}  {each}  {'yes' if noticed else 'NO':>14}")
            failed |= not noticed
    print(f"{'changed before each call, not read':>36}  us/call")
    for name, cost in with_foreign_state(20 if quick else 500).items():
        print(f"{name:>36}  {cost:7.2f}")
    return int(failed)
