"""Views that are made at once are those that the ops make, also for who writes through them."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import jtorch
from jtorch.eager import plain_views
from jtorch.eager.evaluate import EAGER
from tests.ops.support import HAS_TORCH

if HAS_TORCH:
    import torch

_ = slice
ITEMS = [
    1, -1, None, ..., (), _(1, 3), _(None, None, 2), _(-3, None), _(3, 1), _(10, 20), (1, 2), (-1, -2, -3),
    (..., 1), (..., 1, None), (None, ..., None), (1, ..., -1), (_(1, 3), None, 2),
    (_(None), _(1, None, 3), 0), (_(None), None),
    (0, _(None), ..., None, _(2)), (None, None, 1, _(0, 0)), (..., _(1, 4)), (_(0, 4), _(0, 5), _(0, 6)),
]  # fmt: skip


def numbers(L):
    return L.arange(120, dtype=L.float64).reshape(4, 5, 6).clone()


@pytest.mark.parametrize("item", ITEMS, ids=str)
def test_they_see_what_the_ops_and_numpy_see(item, monkeypatch):
    def facts():
        x = numbers(jtorch)
        view = x[item]
        found = [view.numpy().tobytes(), view.shape, view.stride(), view.storage_offset(), view._base is x]
        view += 1000
        return [*found, x.numpy().tobytes(), x._version]

    at_once = facts()
    changed = numbers(jtorch).numpy()
    index = item if isinstance(item, tuple) else (item,)
    assert at_once[:2] == [changed[index].tobytes(), changed[index].shape]
    changed[index] += 1000
    assert at_once[5] == changed.tobytes()
    monkeypatch.setattr(EAGER, "skips_table", False)
    assert at_once == facts()


def written(L, item, second):
    """What is written through a view of a view follows the tape, and views made before see it."""
    x = numbers(L)
    before, outer = x[1:], x[item]
    view = outer[second]
    w = L.full(tuple(view.shape), 3.0, dtype=L.float64, requires_grad=True)
    view.mul_(w)
    loss = (x * x).sum() + before.sum() + (outer * 2).sum() + view.sum()
    loss.backward()
    return [loss.detach().numpy(), w.grad.numpy(), x.requires_grad, before.requires_grad, view.is_leaf]


@pytest.mark.parametrize("second", [..., None, (..., None)], ids=str)
@pytest.mark.parametrize("item", [i for i in ITEMS if i is not ... and i != ()], ids=str)
def test_writes_through_them_follow_the_tape(item, second, monkeypatch):
    at_once = written(jtorch, item, second)
    monkeypatch.setattr(EAGER, "skips_table", False)
    step_by_step = written(jtorch, item, second)
    libraries = [step_by_step] + ([written(torch, item, second)] if HAS_TORCH else [])
    for other in libraries:
        assert all(np.array_equal(a, b) for a, b in zip(at_once, other, strict=True))


@pytest.mark.parametrize("item", [5, (0, 9), (0, 0, 0, 0), (..., 7), (1, 2, 3, None, 0)], ids=str)
def test_what_is_out_of_range_is_refused_as_before(item, monkeypatch):
    x = numbers(jtorch)
    with pytest.raises(IndexError) as at_once:
        x[item]
    monkeypatch.setattr(EAGER, "skips_table", False)
    with pytest.raises(IndexError) as step_by_step:
        x[item]
    assert str(at_once.value) == str(step_by_step.value)


@pytest.mark.parametrize("item", [_(None, None, -1), _(None, None, 0), (..., _(3, 1, -1))], ids=str)
def test_slices_that_do_not_go_forward_are_refused(item):
    with pytest.raises(ValueError, match=r"step (must be greater than|cannot be) zero"):
        numbers(jtorch)[item]


@pytest.mark.skipif(not HAS_TORCH, reason="PyTorch is the oracle")
def test_a_second_ellipsis_is_what_it_is_to_pytorch():
    assert numbers(jtorch)[..., 0, ...].tolist() == numbers(torch)[..., 0, ...].tolist()


SEVERAL = {
    "split": lambda x: x.split(2),
    "chunk": lambda x: x.chunk(2, 1),
    "unbind": lambda x: x.unbind(2),
    "split_with_sizes": lambda x: x.split([1, 3]),
    "rows": lambda x: [*x],
}


@pytest.mark.parametrize("name", SEVERAL)
def test_views_of_several_are_those_of_the_ops(name, monkeypatch):
    def run():
        x = numbers(jtorch)
        views = SEVERAL[name](x)
        facts = [(v.numpy().tobytes(), v.stride(), v.storage_offset(), v._base is x) for v in views]
        views[1].add_(1)
        facts.append(x.numpy().tobytes())
        with pytest.raises(RuntimeError) as told:
            views[0].mul_(jtorch.ones((), dtype=jtorch.float64, requires_grad=True))
        return [*facts, str(told.value)]

    at_once = run()
    monkeypatch.setattr(EAGER, "skips_table", False)
    assert at_once == run()


def test_parts_that_may_be_written_to_follow_the_tape():
    x, w = numbers(jtorch), jtorch.ones((), dtype=jtorch.float64, requires_grad=True)
    parts = x.tensor_split(3)
    parts[1].mul_(w)
    x.sum().backward()
    assert w.grad.item() == parts[1].sum().item()


@pytest.mark.parametrize("make", [lambda x: x.split(2), lambda x: x[1:], lambda x: x[..., None]])
def test_tensors_that_have_such_views_do_not_change_places(make):
    base = numbers(jtorch)
    for tensor in (base, base[:]):
        view, other = make(tensor), numbers(jtorch)
        with pytest.raises(RuntimeError, match="it has views"):
            jtorch.utils.swap_tensors(tensor, other)
        del view
        gc.collect()


def test_tangents_are_seen_through_them():
    x, t = numbers(jtorch), jtorch.ones(4, 5, 6, dtype=jtorch.float64)
    view = x[1:, ..., 2]

    def f(x):
        return x[1:, ..., 2] * 3

    value, tangent = jtorch.func.jvp(f, (x,), (t,))
    assert jtorch.equal(value, view * 3) and jtorch.equal(tangent, jtorch.full_like(view, 3.0))


@pytest.mark.parametrize("item", [_(-2, None), _(2, None), (-1, None), (..., _(-2, None))], ids=str)
def test_a_view_keeps_the_places_that_it_was_made_of(item, monkeypatch):
    """Places that count from the end were once those of the source as it is when somebody asks."""

    def run():
        w, x = jtorch.tensor(2.0, requires_grad=True), jtorch.arange(4.0)
        view = x[item]
        x.resize_(6)
        view.mul_(w)
        return jtorch.autograd.grad((x[:4] * jtorch.arange(1.0, 5.0)).sum(), w)[0].item()

    at_once = run()
    monkeypatch.setattr(EAGER, "skips_table", False)
    assert at_once == run()


def test_nothing_is_worked_out_to_know_what_a_view_was_made_of(monkeypatch):
    """Each step of a chain was once made anew by all that lie behind it."""
    worked_out = []
    real = plain_views.steps_by_item
    monkeypatch.setattr(plain_views, "steps_by_item", lambda *a: worked_out.append(a) or real(*a))
    w, views = jtorch.tensor(2.0, requires_grad=True), [jtorch.zeros(50, 4)]
    for _k in range(60):
        views.append(views[-1][:, 0:])
    views[-1].mul_(w)
    assert len(worked_out) <= 2 * 60 + 60  # to write, and to hang each view on its new place


def test_a_callee_that_reads_a_part_of_what_has_changed_is_refused():
    buffer = jtorch.arange(6.0)
    seen = []

    @jtorch.compiler.disable
    def look():
        seen.append(buffer[1:3].tolist())

    @jtorch.compile(fullgraph=True)
    def step(x):
        buffer.add_(10)
        look()
        return x + 1

    with pytest.raises(jtorch.errors.CompileError, match="has changed by then"):
        for _k in range(3):
            step(jtorch.ones(1))


@pytest.mark.parametrize("rename", [lambda x: x.t_(), lambda x: x.swapaxes_(0, 1), lambda x: x.unsqueeze_(0)])
@pytest.mark.parametrize(
    "make", [lambda x: x[0], lambda x: x[..., 1], lambda x: x.split(2)[0], lambda x: x.T]
)
def test_views_of_what_has_another_shape_since_refuse_gradients(make, rename):
    """They were once read at their old places in the new shape: gradients were those of other elements."""
    w, x = jtorch.tensor(10.0, requires_grad=True), jtorch.arange(9.0).view(3, 3) + 0
    view = make(x)
    rename(x)
    with pytest.raises(RuntimeError, match=r"another shape since|multiple views"):
        view.mul_(w)
    view.mul_(2.0)  # without gradients all is as it was
    anew = x[0]
    x.mul_(w)
    (anew.sum() + x.sum()).backward()
    assert w.grad == (anew.sum() + x.sum()).item() / 10
    with pytest.raises(RuntimeError, match=r"another shape since"):
        view.sum().backward()


def test_a_parameter_gets_another_shape_whoever_has_viewed_it():
    """Nothing that the tape follows is written to a leaf: nobody looks for its views."""
    p = jtorch.nn.Parameter(jtorch.ones(2, 3))
    view = p[0]
    gc.freeze()
    try:
        with jtorch.no_grad():
            p.t_()
    finally:
        gc.unfreeze()
    assert p.shape == (3, 2) and view.tolist() == [1.0, 1.0, 1.0]
