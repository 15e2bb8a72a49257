"""``GradScaler`` on the CPU: scales, skipped steps, state and errors are PyTorch's."""

from __future__ import annotations

import pytest

import jtorch


def steps(library):
    """What a few steps leave, one of them with an infinite gradient; every other one is unscaled by hand."""
    w = library.ones(3, requires_grad=True)
    optimizer = library.optim.SGD([w], lr=0.1)
    scaler = library.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2)
    found = []
    for k in range(6):
        optimizer.zero_grad()
        scaler.scale((w * (float("inf") if k == 2 else 1.5)).sum()).backward()
        if k % 2:
            scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
        found.append((w.tolist(), scaler.get_scale(), scaler.state_dict()))
    again = library.amp.GradScaler("cpu")
    again.load_state_dict(scaler.state_dict())
    return [*found, again.get_scale(), again.scale([w.sum()])[0].item()]


def test_a_scaled_training_is_that_of_pytorch():
    torch = pytest.importorskip("torch")
    assert steps(jtorch) == steps(torch)


def test_an_infinite_gradient_leaves_the_step_out_and_halves_the_scale():
    found = steps(jtorch)
    assert found[1][0] == found[2][0] and found[2][1] == found[1][1] / 2


MISUSES = {
    "step first": lambda s, o, w: s.step(o),
    "update first": lambda s, o, w: s.update(),
    "unscaled twice": lambda s, o, w: (s.scale(w.sum()).backward(), s.unscale_(o), s.unscale_(o)),
    "stepped twice": lambda s, o, w: (s.scale(w.sum()).backward(), s.step(o), s.step(o)),
    "unscaled late": lambda s, o, w: (s.scale(w.sum()).backward(), s.step(o), s.unscale_(o)),
    "closure": lambda s, o, w: s.step(o, closure=lambda: 1),
    "empty state": lambda s, o, w: s.load_state_dict({}),
    "no tensor": lambda s, o, w: s.scale(3),
}


@pytest.mark.parametrize("name", MISUSES)
def test_errors_are_pytorchs(name):
    torch = pytest.importorskip("torch")
    told = []
    for library in (jtorch, torch):
        w = library.ones(3, requires_grad=True)
        optimizer = library.optim.SGD([w], lr=0.1)
        with pytest.raises((AssertionError, RuntimeError, ValueError)) as error:
            MISUSES[name](library.amp.GradScaler("cpu"), optimizer, w)
        told.append((error.type, str(error.value)))
    assert told[0] == told[1]
