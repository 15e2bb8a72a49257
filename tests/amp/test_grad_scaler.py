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


@pytest.mark.slow
def test_a_scaled_training_is_that_of_pytorch():
    torch = pytest.importorskip("torch")
    assert steps(jtorch) == steps(torch)


def test_an_infinite_gradient_leaves_the_step_out_and_halves_the_scale():
    found = steps(jtorch)
    assert found[1][0] == found[2][0] and found[2][1] == found[1][1] / 2


def test_a_loss_of_16_bits_has_room_for_the_scale():
    """65504 is the largest float16; a tensor with dims stays one, as PyTorch's does."""
    torch = pytest.importorskip("torch")

    def scaled(library, dtype, compiled=lambda f: f):
        dtype, scaler = getattr(library, dtype), library.amp.GradScaler("cpu")
        loss = library.tensor(100.0, dtype=dtype, requires_grad=True)
        double = compiled(lambda loss: scaler.scale([loss * 2.0, (loss * 2.0)[None]]))
        alone, with_dims = double(loss)
        (alone * 1e-6).backward()
        values = [(str(v.dtype).partition(".")[2], v.float().tolist()) for v in (alone, with_dims, loss.grad)]
        return values, library.amp.GradScaler("cpu", init_scale=4.0).scale(loss.double()).dtype.itemsize

    for dtype in ("float16", "bfloat16", "float32", "float64"):
        wanted = scaled(torch, dtype)
        assert scaled(jtorch, dtype) == wanted, dtype
        if dtype != "bfloat16":  # which compiled code lacks
            assert scaled(jtorch, dtype, jtorch.compile) == wanted, dtype


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


def _trained(compile, step_inside):
    model = jtorch.nn.Linear(3, 2)
    with jtorch.no_grad():
        model.weight.fill_(0.5)
        model.bias.zero_()
    optimizer = jtorch.optim.SGD(model.parameters(), lr=0.1)
    scaler = jtorch.amp.GradScaler("cpu", init_scale=4.0, growth_interval=2)

    @compile
    def part(x):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        scaler.scale(loss).backward()
        if step_inside:
            scaler.step(optimizer)
        return loss

    found = []
    for k in range(6):
        x = jtorch.full((4, 3), float("inf") if k == 3 else 1.0)
        loss = part(x)
        if not step_inside:
            scaler.step(optimizer)
        scaler.update()
        found.append((str(loss.item()), model.weight.tolist(), scaler.get_scale()))
    return found, part


@pytest.mark.slow
@pytest.mark.parametrize("step_inside", [False, True])
def test_a_compiled_part_of_a_scaled_step_uses_the_scale_of_each_call(step_inside):
    expected, _ = _trained(lambda f: f, step_inside)
    found, compiled = _trained(jtorch.compile, step_inside)
    assert len({scale for *_, scale in found}) > 1
    assert [f[0::2] for f in found] == [e[0::2] for e in expected]
    for (_, got, _), (_, wanted, _) in zip(found, expected, strict=True):
        assert got == [pytest.approx(row) for row in wanted]
    assert sum(map(len, compiled.plans.values())) == 1 + step_inside  # the step that is left out


def test_a_second_step_before_update_is_an_error_in_a_compiled_function_too():
    w = jtorch.ones(3, requires_grad=True)
    optimizer, scaler = jtorch.optim.SGD([w], lr=0.1), jtorch.amp.GradScaler("cpu")

    @jtorch.compile
    def step():
        w.grad = None
        scaler.scale(w.sum()).backward()
        scaler.step(optimizer)

    for _ in range(2):
        step()
        before = w.tolist()
        with pytest.raises(RuntimeError, match="already been called since"):
            step()
        assert w.tolist() == before
        scaler.update()


def _updated_inside(wrap):
    w = jtorch.ones(3, requires_grad=True)
    optimizer = jtorch.optim.SGD([w], lr=0.1, momentum=0.9)
    scaler = jtorch.amp.GradScaler("cpu", init_scale=4.0, growth_interval=3)
    scheduler = jtorch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)

    def step(x):
        optimizer.zero_grad(set_to_none=False)
        loss = ((w * x - 1) ** 2).sum()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        jtorch.nn.utils.clip_grad_norm_([w], 1.0)
        scaler.step(optimizer)
        scaler.update()
        scheduler.step()
        return loss

    w.grad = jtorch.zeros(3)
    step, rows = wrap(step), []
    for k in range(10):
        step(jtorch.full((3,), float("inf") if k == 5 else 0.1 * k))
        rows.append((w.tolist(), scaler.state_dict(), scheduler.get_last_lr()))
    return rows, step


@pytest.mark.slow
def test_the_scale_is_updated_at_each_call():
    expected, _ = _updated_inside(lambda f: f)
    found, compiled = _updated_inside(jtorch.compile)
    for (w, *state), (wanted, *wanted_state) in zip(found, expected, strict=True):
        assert w == pytest.approx(wanted) and state == wanted_state
    assert [state["scale"] for _, state, _ in found] == [4, 4, 8, 8, 8, 4, 4, 4, 8, 8]
    assert len(compiled.retraces) <= 1, compiled.retraces  # for the step that is left out


def test_a_new_scale_is_known_when_the_call_has_ended():
    w, scaler = jtorch.ones(3, requires_grad=True), jtorch.amp.GradScaler("cpu")

    @jtorch.compile
    def step(wanted):
        scaler.scale(w.sum()).backward()
        scaler.update(2.0)
        return scaler.get_scale() if wanted else w.sum()

    step(False)
    assert scaler.get_scale() == 2.0
    with pytest.raises(
        jtorch.errors.CompileError, match=r"test_grad_scaler.py:\d+.*update.*when it has ended"
    ):
        step(True)
    assert scaler.get_scale() == 2.0


def test_a_step_that_is_refused_or_recorded_once_more_leaves_no_stage():
    """What is left over would make the next ``step()`` the second one of an update."""
    counts = {"n": 0}

    def refused(loss, scaler):
        return loss * scaler.get_scale()

    def counted(loss, scaler):
        counts["n"] += 1
        return loss * counts["n"]

    for further in (refused, counted):
        w = jtorch.ones(3, requires_grad=True)
        optimizer, scaler = jtorch.optim.SGD([w], lr=0.1), jtorch.amp.GradScaler("cpu", init_scale=4.0)

        def step(x, w=w, optimizer=optimizer, scaler=scaler, further=further):
            loss = (w * x).sum()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            return further(loss.detach(), scaler)

        compiled = jtorch.compile(step)
        if further is refused:
            with pytest.raises(jtorch.errors.CompileError, match="when it has ended"):
                compiled(jtorch.ones(3))
        else:
            assert [compiled(jtorch.ones(3)).item() for _ in range(2)] == pytest.approx([3.0, 5.4])
        step(jtorch.ones(3), further=lambda loss, scaler: loss)


def scaled_under_autocast(library, mode, dtype):
    """Scales and losses of steps of which the first ones overflow in float16."""
    library.manual_seed(0)
    w = library.linspace(-1, 1, 12).reshape(3, 4).clone().requires_grad_()
    x = library.linspace(0.5, 2, 8).reshape(2, 4)
    optimizer = library.optim.SGD([w], lr=0.01)
    scaler = library.amp.GradScaler("cpu", init_scale=2.0**17, growth_interval=3)

    def step():
        optimizer.zero_grad()
        with library.autocast("cpu", dtype=getattr(library, dtype)):
            loss = (library.nn.functional.linear(x, w) ** 2).mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss

    step = mode(step)
    return [(step().item(), scaler.get_scale()) for _ in range(8)], w.detach()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_steps_under_autocast_are_those_of_pytorch_in_both_modes(dtype):
    torch = pytest.importorskip("torch")
    expected, theirs = scaled_under_autocast(torch, lambda f: f, dtype)
    scales = [scale for _, scale in expected]
    assert (scales[0] < 2.0**17) == (dtype == "float16")  # the first step is left out
    for mode in (lambda f: f, jtorch.compile):
        found, ours = scaled_under_autocast(jtorch, mode, dtype)
        assert [scale for _, scale in found] == scales
        assert [loss for loss, _ in found] == pytest.approx([loss for loss, _ in expected], rel=2**-7)
        assert ours.flatten().tolist() == pytest.approx(theirs.flatten().tolist(), rel=2**-7, abs=2**-9)
