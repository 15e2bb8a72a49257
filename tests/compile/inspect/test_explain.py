"""``explain()``, ``stats()``: what a compiled function says of itself."""

import numpy as np
import pytest

import jtorch
import jtorch.nn as nn


@pytest.fixture
def trained():
    jtorch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 2))
    optimizer = jtorch.optim.Adam(model.parameters(), lr=0.01)

    @jtorch.compile
    def step(x):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    x = jtorch.ones(5, 6)
    for _ in range(3):
        step(x)
    return model, optimizer, step, x


def test_captured_state_has_qualified_names(trained):
    _, _, step, _ = trained
    told = step.explain()
    captured = {c.name: c for c in told.captured}
    for name in ("model.0.weight", "model.3.bias"):
        assert captured[name].written
        for state in ("exp_avg", "exp_avg_sq", "step"):
            assert captured[f"optimizer.state[{name}].{state}"].written
    assert str(captured["model.0.weight"].type) == "f32[8, 6]"
    assert captured["['betas'][0]"].type.shape == () and not captured["['lr']"].written
    assert captured["generator.call"].written


def test_methods_closures_and_containers_have_names_too():
    class Trainer:
        def __init__(self):
            self.layers = [nn.Linear(2, 2), {"head": nn.Linear(2, 1)}]
            self.scale = jtorch.ones(2)

        def step(self, x):
            return self.layers[1]["head"](self.layers[0](x) * self.scale)

    trainer = Trainer()
    f = jtorch.compile(trainer.step)
    f(jtorch.ones(3, 2))
    names = {c.name for c in f.explain().captured}
    assert "self.layers[0].weight" in names and "self.layers[1]['head'].bias" in names
    assert "self.scale" in names


def test_ops_steps_and_memory(trained):
    _, _, step, _ = trained
    told = step.explain()
    assert told.ops["matmul"] == 5  # two forward, two for the weights, one for what is between the layers
    assert sum(s.kind == "gemm" for s in told.steps) == told.ops["matmul"]
    assert told.host_calls == 0 and told.segments == 1
    assert all("test_explain.py:" in s.source for s in told.steps)
    inside = [op for s in told.steps if s.kind == "kernel" for op in s.ops]
    assert "relu" in inside and "uniform" in inside
    assert 0 < told.arena_bytes < told.peak_bytes


def test_what_was_not_fused_and_why():
    f = jtorch.compile(lambda x, w: ((x @ w).relu().sum(0), (x * 2).sum(1)))
    f(jtorch.ones(4, 3), jtorch.ones(3, 5))
    reasons = {(n.producer, n.reason) for n in f.explain().not_fused}
    assert ("matmul", "one of them is a library call") in reasons
    g = jtorch.compile(lambda x: (x - x.sum(0)) * 2)
    g(jtorch.ones(4, 3))
    told = g.explain().not_fused
    assert [n.reason for n in told] == ["sums over leading axes are known only after the loop"]


def test_guards_are_listed(trained):
    _, _, step, _ = trained
    guards = step.explain().guards
    assert any("(5, 6)" in g for g in guards) and any("context.mode == 1" in g for g in guards)


def test_host_calls_and_segments():
    f = jtorch.compile(lambda x: (x * 2)[jtorch.randperm(4)] + 1)
    f(jtorch.ones(4))
    told = f.explain()
    assert told.host_calls >= 1 and told.segments == 2


def test_the_text_has_all_sections(trained):
    _, _, step, _ = trained
    text = str(step.explain())
    for section in (
        "step: ",
        "runs as 1 native segments",
        "captured state: ",
        "steps: ",
        "not fused: ",
        "guards: ",
    ):
        assert section in text
    assert "model.0.weight" in text and max(map(len, text.splitlines())) < 250


def test_nothing_to_explain_before_the_first_call():
    with pytest.raises(RuntimeError, match="call it once"):
        jtorch.compile(lambda x: x).explain()


# -- stats -------------------------------------------------------------------------------------------------


def test_stats_of_a_step_put_everything_back(trained):
    model, optimizer, step, x = trained
    before = [
        t.detach().clone() for t in (*model.parameters(), *(s["exp_avg"] for s in optimizer.state.values()))
    ]
    grads = [p.grad.clone() for p in model.parameters()]
    generator = jtorch.get_rng_state().clone()
    stats = step.stats()
    after = [*model.parameters(), *(s["exp_avg"] for s in optimizer.state.values())]
    for a, b in zip(before, after, strict=True):
        assert bool((a == b).all())
    for g, p in zip(grads, model.parameters(), strict=True):
        assert bool((g == p.grad).all())
    assert bool((generator == jtorch.get_rng_state()).all())
    assert stats.calls == step.calls == 3
    stages = [stats.guard_us, stats.marshal_us, stats.kernels_us, stats.wrap_us]
    assert all(us > 0 for us in stages) and stats.call_us == pytest.approx(sum(stages))
    assert stats.eager_us > stats.call_us
    assert stats.compile_seconds > 0
    saved = (stats.eager_us - stats.call_us) * 1e-6
    assert stats.calls_to_pay_back == int(np.ceil(stats.compile_seconds / saved))
    text = str(stats)
    for row in ("guard us", "kernels us", "eager us", "trace ms", "build ms", "calls until paid back"):
        assert row in text
    assert step(x).item() > 0  # and the step goes on


def test_stats_for_given_arguments_and_outside_backward():
    w = jtorch.ones(3, requires_grad=True)
    f = jtorch.compile(lambda x: (w * x).sum())
    f(jtorch.ones(3))
    f(jtorch.ones(5, 3))
    assert f.stats(jtorch.ones(5, 3)).calls == 2
    with pytest.raises(RuntimeError, match="no recording for these arguments"):
        f.stats(jtorch.ones(7, 3))
    with pytest.raises(RuntimeError, match="are gone: pass some"):
        f.stats()
