"""A graph built at every step, and the same graph built once.

    python examples/dynamic_vs_static.py

Dynamic: each op runs at once and leaves a node on a tape; backward() plays the tape in reverse and
frees it, so the next step builds another. Static: jtorch.compile runs the same function once to
record it, looks at the graph as a whole, and turns it into native code that replays it. The network
is the recurrent cell that PyTorch's first README drew.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import jtorch


def rnn_cell(W_x: Any, W_h: Any, x: Any, prev_h: Any) -> Any:
    i2h = jtorch.mm(W_x, x.t())  # (20, 10) @ (10, 1)
    h2h = jtorch.mm(W_h, prev_h.t())  # (20, 20) @ (20, 1)
    next_h = (i2h + h2h).tanh()
    return next_h.sum()


def tape(node: Any, depth: int = 0) -> list[str]:
    """The tape behind a result, one line per node, inputs indented under the op that used them."""
    lines = ["    " * depth + node.name()]
    if node.name() == "AccumulateGrad":
        lines[0] += f"    into a leaf of shape {tuple(node.variable.shape)}"
    for target, _ in node.next_functions:
        if target is None:
            lines.append("    " * (depth + 1) + "None    an input that needs no gradient")
        else:
            lines += tape(target, depth + 1)
    return lines


def microseconds(call: Callable[[], Any], calls: int = 1000) -> float:
    call()
    start = time.perf_counter()
    for _ in range(calls):
        call()
    return (time.perf_counter() - start) / calls * 1e6


def dynamic(W_x: Any, W_h: Any, x: Any, prev_h: Any) -> None:
    print("== Dynamic: the graph is what just ran ==\n")
    loss = rnn_cell(W_x, W_h, x, prev_h)
    print(f"loss = {loss}\n")
    print("The tape, from the result back to the leaves:")
    print("\n".join(tape(loss.grad_fn)))
    print(f"\nloss.grad_fn.next_functions = {loss.grad_fn.next_functions}")

    loss.backward(retain_graph=True)
    print(f"\nAfter backward(), W_h.grad has shape {tuple(W_h.grad.shape)}.")
    once = W_h.grad.clone()
    loss.backward()
    ratio = (W_h.grad.sum() / once.sum()).item()
    print(f"The tape was retained, and played again: gradients are {ratio:.0f} times the first.")
    try:
        loss.backward()
    except RuntimeError as error:
        print(f"The second backward() freed it. A third one: {str(error).split('. ')[0]}.")


def static(W_x: Any, W_h: Any, x: Any, prev_h: Any) -> None:
    def step(x: Any, prev_h: Any) -> Any:
        W_x.grad = W_h.grad = None
        loss = rnn_cell(W_x, W_h, x, prev_h)
        loss.backward()
        return loss

    print("\n== Static: the same function, recorded once ==\n")
    compiled = jtorch.compile(step)
    expected, found = step(x, prev_h).item(), compiled(x, prev_h).item()
    print(f"eager gives {expected:.6f}, compiled {found:.6f}\n")
    print("Its graph, forward and backward in one, after all passes:")
    print(compiled.graph())
    print(f"\nIts kernels ({len(compiled.kernels())} beside the matrix products):")
    print(compiled.source())

    spent = compiled.timings
    print("== What it costs ==\n")
    for stage in ("trace", "passes", "fuse", "plan", "build", "first_call"):
        print(f"{stage.replace('_', ' '):<12}{getattr(spent, stage) * 1e3:>9.2f} ms")
    eager, fast = microseconds(lambda: step(x, prev_h)), microseconds(lambda: compiled(x, prev_h))
    print(f"\na step, eager     {eager:>9.2f} us, graph built each time")
    print(f"a step, compiled  {fast:>9.2f} us, {eager / fast:.1f} times as fast")
    if eager > fast:
        steps = spent.first_call * 1e6 / (eager - fast)
        print(f"compiling has paid for itself after {steps:,.0f} steps")


def main() -> None:
    jtorch.manual_seed(0)
    W_x, W_h = (jtorch.randn(20, n, requires_grad=True) for n in (10, 20))
    x, prev_h = jtorch.randn(1, 10), jtorch.randn(1, 20)
    dynamic(W_x, W_h, x, prev_h)
    W_x.grad = W_h.grad = None
    static(W_x, W_h, x, prev_h)


if __name__ == "__main__":
    main()
