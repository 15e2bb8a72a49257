"""A training step of a model on PyTorch's interface: initial values, Adam, and how a peer runs it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks.program import Program, torch_program

how: str = ""
"""What is done to a peer's model: "compile", "reduce-overhead", which is a mode of compiling, or
"channels_last"; set in the peer's own process, or while the model is made."""

wrap: Callable[[Any], Any] | None = None
"""What the model is put into before it is called: DistributedDataParallel; set in a process of several."""


def initial(model: Any) -> dict[str, np.ndarray]:
    """The same for every library: uniform within 1/sqrt(inputs of a neuron), norms 1, biases 0."""
    generator = np.random.default_rng(0)
    found = {}
    for name, p in model.named_parameters():
        shape = tuple(p.shape)
        if len(shape) > 1:
            bound = float(np.prod(shape[1:])) ** -0.5
            found[name] = generator.uniform(-bound, bound, shape).astype(np.float32)
        else:
            found[name] = np.full(shape, float(name.endswith("weight")), np.float32)
    return found


def training(
    torch: Any,
    model: Any,
    arguments: Sequence[tuple[np.ndarray, ...]],
    loss: Callable[[Any, Any, Any], Any] | None = None,
) -> Program:
    """zero_grad, loss, backward, Adam. ``loss(model, x, y)`` is the cross-entropy where none is given."""
    values = initial(model)
    named = dict(model.named_parameters())
    with torch.no_grad():
        for name, parameter in named.items():
            parameter.copy_(torch.from_numpy(values[name]))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    run = model
    if how == "compile":
        run = torch.compile(model)
    elif how == "reduce-overhead":
        run = torch.compile(model, mode=how)
    elif how == "channels_last":
        model.to(memory_format=torch.channels_last)
    if wrap is not None:
        run = wrap(model)
    cross_entropy = torch.nn.functional.cross_entropy

    def forward(x: Any, y: Any) -> Any:
        if loss is not None:
            return loss(run, x, y)
        scores = run(x)
        return cross_entropy(scores.reshape(-1, scores.shape[-1]), y.reshape(-1))

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        found = forward(x, y)
        found.backward()
        optimizer.step()
        return found

    program = torch_program(torch, step, forward, arguments, named, optimizer)
    if how == "channels_last":
        program.arguments = [
            (x.contiguous(memory_format=torch.channels_last), y) for x, y in program.arguments
        ]
    return program
