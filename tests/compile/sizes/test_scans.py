"""Recurrent layers as loops of the graph: one recording for all lengths, in one piece and by tiles."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import jtorch
from jtorch import nn
from jtorch.compile.run import scans
from jtorch.core import threads
from jtorch.nn import rnn

LENGTHS = [(5, 4), (7, 4), (9, 4), (2, 3), (9, 17), (40, 2)]  # steps and sequences
FEW = [(1, 4), (6, 1), (1, 1)]  # sizes that have plans of their own
KINDS = [nn.RNN, nn.LSTM, nn.GRU]
OPTIONS = [
    {},
    {"bias": False},
    {"num_layers": 2, "bidirectional": True},
    {"batch_first": True, "bidirectional": True},
]
CASES = [(kind, options) for kind in KINDS for options in OPTIONS]
CASES += [(nn.RNN, {"nonlinearity": "relu"}), (nn.LSTM, {"proj_size": 2, "bidirectional": True})]
IDS = [f"{kind.__name__}-{'-'.join(options)}" for kind, options in CASES]


def step_of(layer):
    """A training step over what a layer gives: all of it counts."""

    def step(x, states=None):
        layer.zero_grad()
        out, last = layer(x, states)
        last = last if isinstance(last, tuple) else (last,)
        loss = (out * out).mean() + sum((s * s).sum() for s in last)
        loss.backward()
        return loss, out, *last

    return step


def input_of(layer, steps, batch, seed=0):
    jtorch.manual_seed(seed)
    return jtorch.randn(batch, steps, 5) if layer.batch_first else jtorch.randn(steps, batch, 5)


def states_of(layer, batch):
    layers = len(layer.all_weights)
    h = jtorch.randn(layers, batch, layer.proj_size or 6)
    return (h, jtorch.randn(layers, batch, 6)) if isinstance(layer, nn.LSTM) else h


def run(step, layer, *arguments):
    """All that a step gives and leaves."""
    found = [t.detach().clone() for t in step(*arguments)]
    return found + [p.grad.clone() for p in layer.parameters()]


def assert_alike(found, expected):
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-4, atol=2e-6)


def recorded_ops(compiled):
    return [eqn.op.name for eqn in compiled._newest().capture.graph.eqns]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "options"), CASES, ids=IDS)
@pytest.mark.parametrize("given", [False, True], ids=["", "states"])
def test_one_recording_for_all_lengths(kind, options, given):
    jtorch.manual_seed(1)
    layer = kind(5, 6, **options)
    step = step_of(layer)
    compiled = jtorch.compile(step)
    for k, (steps, batch) in enumerate(LENGTHS + FEW):
        arguments = [input_of(layer, steps, batch), *([states_of(layer, batch)] if given else [])]
        assert_alike(run(compiled, layer, *arguments), run(step, layer, *arguments))
        if k + 1 == len(LENGTHS):  # exact ones, and a symbol for what moves next: steps, then sequences
            assert len(compiled.retraces) <= 2
            assert any("_scan" in name for name in recorded_ops(compiled))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_any_length_has_the_bits_of_its_own_plan(kind):
    jtorch.manual_seed(1)
    layer = kind(5, 6, bidirectional=True)
    step = step_of(layer)
    moving, exact = jtorch.compile(step), jtorch.compile(step, dynamic=False)
    for steps, batch in [*LENGTHS, (30, 64)]:
        x = input_of(layer, steps, batch)
        for a, b in zip(run(moving, layer, x), run(exact, layer, x), strict=True):
            np.testing.assert_array_equal(a.numpy(), b.numpy())


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dynamic", [False, None], ids=["exact", "any size"])
@pytest.mark.usefixtures("number")
def test_tiles_have_the_bits_that_one_piece_has(kind, dynamic, monkeypatch):
    """And so have threads, which share tiles."""
    jtorch.manual_seed(1)
    layer = kind(5, 48)
    step = step_of(layer)
    edges = []
    real = scans.Turns.edges

    def noted(self, sizes, steps):
        edges.append(len(real(self, sizes, steps)))
        return real(self, sizes, steps)

    def found(patch, count):
        threads.set_count(count)
        compiled = jtorch.compile(step, dynamic=dynamic)
        with monkeypatch.context() as m:
            m.setattr(scans.Turns, "edges", patch)
            return [run(compiled, layer, input_of(layer, n, 48)) for n in (20, 25, 30)]

    whole = found(lambda self, sizes, steps: [0, *sizes], 1)
    tiled, alone = found(noted, 2), found(real, 1)
    assert max(edges) > 2
    for other in (tiled, alone):
        for a, b in zip(itertools.chain(*whole), itertools.chain(*other), strict=True):
            np.testing.assert_array_equal(a.numpy(), b.numpy())


@pytest.mark.parametrize("kind", KINDS)
def test_without_gradients_nothing_is_kept_but_what_is_read(kind):
    """Gates are written nowhere; a cell that nobody reads has two places, which steps use in turn."""
    jtorch.manual_seed(1)
    layer = kind(5, 6, bidirectional=True)
    compiled = jtorch.compile(lambda x: layer(x)[0])
    with jtorch.no_grad():
        for steps, batch in LENGTHS:
            x = input_of(layer, steps, batch)
            assert_alike([compiled(x)], [layer(x)[0]])
    loops = [block.loop for block in compiled._newest().runner.scans]
    assert len(loops) == 2
    for loop in loops:
        assert loop.wanted == sorted(loop.scan.carried)
        kept = [argument.mask for argument in loop.arguments[-len(loop.wanted) :]]
        assert kept == [-1] if kind is not nn.LSTM else kept == [-1, 1]


@pytest.mark.parametrize("kind", KINDS)
def test_backward_outside_of_the_compiled_function(kind):
    jtorch.manual_seed(1)
    layer = kind(5, 6)
    compiled = jtorch.compile(lambda x: layer(x)[0])
    for steps, batch in LENGTHS:
        x = input_of(layer, steps, batch)
        grads = []
        for f in (compiled, lambda x: layer(x)[0]):
            layer.zero_grad()
            f(x).square().sum().backward()
            grads.append([p.grad.clone() for p in layer.parameters()])
        assert_alike(*grads)


@pytest.mark.parametrize("kind", KINDS)
def test_states_go_from_call_to_call(kind):
    """Truncated backpropagation, with pieces of several lengths."""
    found = []
    for compiling in (False, True):
        jtorch.manual_seed(1)
        layer = kind(5, 6)
        optimizer = jtorch.optim.SGD(layer.parameters(), lr=0.1)

        def step(x, states, layer=layer, optimizer=optimizer):
            out, states = layer(x, states)
            loss = out.square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            many = isinstance(states, tuple)
            return loss, tuple(s.detach() for s in states) if many else states.detach()

        step = jtorch.compile(step) if compiling else step
        states, losses = states_of(layer, 3), []
        for k, n in enumerate((4, 6, 9, 3, 12)):
            loss, states = step(input_of(layer, n, 3, seed=k), states)
            losses.append(loss.item())
        found.append(losses)
    np.testing.assert_allclose(*found, rtol=1e-5)


@pytest.mark.slow
def test_kinds_of_numbers_without_kernels_are_unrolled():
    layer = nn.LSTM(5, 6).half()
    compiled = jtorch.compile(lambda x: layer(x)[0])
    x = jtorch.randn(4, 2, 5).half()
    np.testing.assert_allclose(compiled(x).detach().numpy(), layer(x)[0].detach().numpy(), atol=2e-3)
    assert "lstm_scan" not in recorded_ops(compiled)


@pytest.mark.slow
def test_float64_is_a_loop_too():
    layer = nn.GRU(5, 6).double()
    compiled = jtorch.compile(step_of(layer))
    for n in (4, 6, 8):
        x = jtorch.randn(n, 2, 5).double()
        for a, b in zip(run(compiled, layer, x), run(step_of(layer), layer, x), strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-12)
    assert {"gru_scan", "gru_scan_back"} <= set(recorded_ops(compiled))


@pytest.mark.parametrize("kind", KINDS)
def test_a_loop_is_its_steps(kind, monkeypatch):
    """The recorded loop, computed by NumPy, and the recording of each step by itself."""
    jtorch.manual_seed(1)
    layer = kind(5, 6)
    x = input_of(layer, 7, 3)
    compiled = jtorch.compile(step_of(layer), mode="interpret")
    looped = run(compiled, layer, x)
    assert any("_scan" in name for name in recorded_ops(compiled))
    monkeypatch.setattr(rnn, "EqualSteps", lambda rows, steps: (rows,) * steps)
    unrolled = jtorch.compile(step_of(layer))
    assert_alike(run(unrolled, layer, x), looped)
    assert not any("_scan" in name for name in recorded_ops(unrolled))


@pytest.mark.slow
def test_second_derivatives_go_step_by_step():
    layer = nn.RNN(5, 6)

    def penalty(x):
        (g,) = jtorch.autograd.grad(layer(x)[0].sum(), x, create_graph=True)
        layer.zero_grad()
        g.square().sum().backward()
        return g

    compiled = jtorch.compile(penalty)
    for n in (3, 4, 5):
        x = jtorch.randn(n, 2, 5, requires_grad=True)
        found = [compiled(x), *(p.grad.clone() for p in layer.parameters() if p.grad is not None)]
        expected = [penalty(x), *(p.grad.clone() for p in layer.parameters() if p.grad is not None)]
        assert_alike([t.detach() for t in found], [t.detach() for t in expected])


@pytest.mark.slow
@pytest.mark.parametrize("jit", ["0", "1"])
def test_a_loop_is_profiled_and_shown(jit, monkeypatch):
    """Where its turn has a plan, that is shown, and its products are counted."""
    monkeypatch.setenv("JTORCH_JIT", jit)
    layer = nn.LSTM(5, 6)
    compiled = jtorch.compile(lambda x: layer(x)[0])
    x = input_of(layer, 7, 3)
    with jtorch.no_grad():
        compiled(x)
        (step,) = [step for step in compiled.profile(x).steps if step.kind == "scan"]
        assert step.flops == (2 * 7 * 3 * 24 * 6 if jit == "1" else 0)
        assert ("a step of lstm_scan" in compiled.plan(x)) == (jit == "1")
