"""In-place writes through views: memory, versions and gradients follow, or the write is refused."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import jtorch
from tests.each import each
from tests.ops.support import HAS_TORCH, needs_torch

pytestmark = pytest.mark.usefixtures("whole_heap")

if HAS_TORCH:
    import torch


def write_to_base(L, x, w):
    y = x * 2
    view = y[:2]
    y.mul_(3)
    return view * w[0]


def write_to_view(L, x, w):
    y = x * 2
    y[:2].mul_(w[0, 0])
    return y


def write_to_view_of_view(L, x, w):
    y = x * 2
    y.t()[1:].reshape(-1)[0].mul_(5) if y.t()[1:].is_contiguous() else y.t()[1:][0].mul_(5)
    return y


def sibling_views(L, x, w):
    y = x * 2
    a, b = y[0], y[:, 1]
    a.mul_(w[1])
    return b * b


def view_kept_through_two_writes(L, x, w):
    y = x * 2
    v = y.view(-1)
    y[0] = w[1]
    y.add_(w)
    v[2:4].exp_()
    return v * y.reshape(-1)


def fill_a_buffer_step_by_step(L, x, w):
    out = L.zeros(4, 3, dtype=L.float64)
    h = x[0]
    for t in range(4):
        h = (h * w[0]).tanh()
        out[t] = h
    return out


def buffer_with_views_made_before(L, x, w):
    out = L.zeros(2, 3, dtype=L.float64)
    rows = [out[0], out[1]]
    out[1] = x[0] * w[1]
    return rows[0] + rows[1] * 2


def copy_into_a_view(L, x, w):
    y = x * 2
    y[1:].copy_(w[:1] * 3)
    return y


def zero_a_view(L, x, w):
    y = x * w
    y[:, 0].zero_()
    return y * y


def masked_write(L, x, w):
    y = x * 2
    y[x > 0] = w[0, 1]
    return y * x


def gathered_write(L, x, w):
    y = x * 1
    y[[0, 0], [1, 2]] = w[0, :2]
    return y * y


def slices_and_arrays(L, x, w):
    y = x * 1
    y[:, L.tensor([0, 2])] = w[:, :2]
    return y * x


def unsqueezed(L, x, w):
    y = x * 1
    y.unsqueeze(0).squeeze(0).transpose(0, 1).mul_(w.t())
    return y * y


def twice_differentiable(L, x, w):
    y = x * x
    y[0].mul_(w[0])
    (g,) = L.autograd.grad((y * y).sum(), x, create_graph=True)
    return g


PROGRAMS = [
    write_to_base, write_to_view, write_to_view_of_view, sibling_views, view_kept_through_two_writes,
    fill_a_buffer_step_by_step, buffer_with_views_made_before, copy_into_a_view, zero_a_view, masked_write,
    gathered_write, slices_and_arrays, unsqueezed, twice_differentiable,
]  # fmt: skip


def _run(L, program):
    rng = np.random.default_rng(0)
    x = L.tensor(rng.standard_normal((2, 3))).requires_grad_()
    w = L.tensor(rng.standard_normal((2, 3))).requires_grad_()
    out = program(L, x, w)
    seed = L.tensor(np.random.default_rng(1).standard_normal(tuple(out.shape)))
    out.backward(seed)
    return [None if t is None else t.detach().numpy() for t in (out, x.grad, w.grad)]


@needs_torch
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_values_and_gradients_equal_pytorchs(program):
    for ours, theirs in zip(_run(jtorch, program), _run(torch, program), strict=True):
        assert (ours is None) == (theirs is None)
        if ours is not None:
            np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("program", [p for p in PROGRAMS if p is not masked_write], ids=lambda p: p.__name__)
def test_compiled_equals_eager(program):
    def gradients(x, w):
        out = program(jtorch, x, w)
        return out, *jtorch.autograd.grad((out * out).sum(), (x, w), allow_unused=True)

    rng = np.random.default_rng(0)
    x, w = (jtorch.tensor(rng.standard_normal((2, 3))).requires_grad_() for _ in range(2))
    expected = gradients(x, w)
    for ours, theirs in zip(jtorch.compile(gradients)(x, w), expected, strict=True):
        assert (ours is None) == (theirs is None)
        if ours is not None:
            np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), rtol=1e-12)


def test_nodes_have_pytorchs_names():
    y = jtorch.ones(3, requires_grad=True) * 2
    y[:2].mul_(2)
    assert y.grad_fn.name() == "CopySlices"
    z = jtorch.ones(3, requires_grad=True) * 2
    z.copy_(y)
    assert z.grad_fn.name() == "CopyBackwards"


def test_leaves_and_their_views_are_refused_before_anything_is_written():
    x = jtorch.ones(4, requires_grad=True)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used in an in-place"):
        x.add_(1)
    with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad is being used in"):
        x[:2].add_(1)
    with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad"):
        x[0] = 1.0
    assert (x.tolist(), x._version) == ([1, 1, 1, 1], 0)


def leaf_view(make):
    """What makes a leaf that is a view of memory without a graph."""
    return lambda L: make(L).requires_grad_()


LEAF_VIEWS = {
    "reshape": leaf_view(lambda L: L.ones(4).reshape(2, 2)),
    "view": leaf_view(lambda L: L.arange(4.0).view(2, 2)),
    "slice": leaf_view(lambda L: L.ones(3, 2)[:2]),
    "t": leaf_view(lambda L: L.ones(2, 2).t()),
    "diagonal": leaf_view(lambda L: L.ones(2, 2, 2).diagonal()),
    "as_strided": leaf_view(lambda L: L.ones(4).as_strided((2, 2), (2, 1))),
    "from_numpy": leaf_view(lambda L: L.from_numpy(np.ones((3, 2), np.float32))[1:]),
}
WRITES = {
    "add_": lambda L, w: w.add_(1), "mul_": lambda L, w: w.mul_(w), "zero_": lambda L, w: w.zero_(),
    "-=": lambda L, w: w.__isub__(0.5), "copy_": lambda L, w: w.copy_(L.ones(2, 2)),
    "fill_": lambda L, w: w.fill_(2), "[0] =": lambda L, w: w.__setitem__(0, 1.0),
    "[mask] =": lambda L, w: w.__setitem__(w > 0, 2.0), "uniform_": lambda L, w: w.uniform_(),
    "index_fill_": lambda L, w: w.index_fill_(0, L.tensor([0]), 2.0), "t_": lambda L, w: w.t_(),
    "relu": lambda L, w: L.nn.functional.relu(w, inplace=True), "part of it": lambda L, w: w[0].add_(1),
}  # fmt: skip


def refusal(program):
    """How it is refused, up to the explanation."""
    with pytest.raises(RuntimeError) as caught:
        program()
    return str(caught.value).partition(" Given that")[0]


@pytest.mark.slow
@needs_torch
@each("write", WRITES.values(), ids=[*WRITES])
@each("make", LEAF_VIEWS.values(), ids=[*LEAF_VIEWS])
def test_leaves_that_are_views_are_refused_in_both_modes(make, write):
    expected = refusal(lambda: write(torch, make(torch)))
    w = make(jtorch)
    before = w.detach().clone()
    assert refusal(lambda: write(jtorch, w)) == expected
    assert refusal(lambda: jtorch.compile(lambda: write(jtorch, w))()) == expected
    assert refusal(lambda: jtorch.compile(lambda w: write(jtorch, w))(w)) == expected
    assert refusal(lambda: jtorch.compile(lambda: write(jtorch, make(jtorch)))()) == expected
    assert jtorch.equal(w, before)
    assert w.requires_grad and w._version == 0


def test_leaf_that_is_a_view_may_be_written_off_the_tape():
    b = jtorch.ones(4)
    w = b.reshape(2, 2).requires_grad_()
    with jtorch.no_grad():
        w.add_(1)
    w.detach().mul_(3)
    b.add_(1)  # the memory has no graph
    assert (w.tolist(), w.is_leaf) == ([[7, 7], [7, 7]], True)
    (w * w).sum().backward()
    assert w.grad.tolist() == [[14, 14], [14, 14]]


@needs_torch
def test_view_of_a_leaf_made_under_no_grad_is_refused():
    def program(L, write):
        w = L.ones(4, requires_grad=True)
        with L.no_grad():
            view = w[:2]
        write(view, L.ones(2, requires_grad=True))

    for write in (lambda view, p: view.add_(1), lambda view, p: view.add_(p)):
        assert refusal(lambda: program(jtorch, write)) == refusal(lambda: program(torch, write))  # noqa: B023


@needs_torch
def test_one_of_several_views_is_refused_with_and_without_a_graph():
    def program(L, make, write):
        write(make(L.ones(2, 2, 2)), L.ones(2, 2, requires_grad=True))

    for make in (
        lambda x: x.unbind(0)[1],
        lambda x: x.unbind(0)[1].requires_grad_(),
        lambda x: x.requires_grad_().unbind(0)[1],
        lambda x: (x.requires_grad_() * 2).unbind(0)[1],
    ):
        for write in (lambda view, p: view.add_(p), lambda view, p: view[0].add_(p[0])):
            expected = refusal(lambda: program(torch, make, write))  # noqa: B023
            assert refusal(lambda: program(jtorch, make, write)) == expected  # noqa: B023


def test_view_made_under_no_grad_is_refused():
    w = jtorch.ones(2, requires_grad=True)
    x = jtorch.zeros(4)
    with jtorch.no_grad():
        view = x[:2]
    with pytest.raises(RuntimeError, match="A view was created in no_grad mode"):
        view.mul_(w)
    view.add_(1)  # nothing to record
    assert x.tolist() == [1, 1, 0, 0]


def test_expanded_memory_is_refused():
    x = jtorch.ones(1, requires_grad=True) * 2
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        x.expand(3).mul_(2)


def test_reshape_that_copies_is_no_view():
    x = jtorch.ones(2, 3, requires_grad=True) * 2
    flat = x.t().reshape(-1)
    flat.mul_(5)
    assert flat._base is None
    assert x.tolist() == [[2, 2, 2], [2, 2, 2]]
    assert x.grad_fn.name() == "MulBackward0"


def test_saved_view_that_was_written_over_is_an_error():
    x = jtorch.ones(3, requires_grad=True)
    y = x * 2
    out = y[:2] * y[1:]
    y[0] = 5.0
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def _write_after_views_of_a_leaf(L):
    """The gradients of two views, one of the other, made while their base was a leaf that required grad."""
    p = L.ones(2, 3, requires_grad=True)
    rows, w = p.reshape(3, 2), L.full((2, 3), 2.0, requires_grad=True)
    row = rows[1]
    p.requires_grad_(False)
    p.mul_(w)
    row.sum().backward()
    return row, p, w


@pytest.mark.slow
@needs_torch
def test_views_of_a_leaf_follow_once_it_requires_no_grad():
    for ours, theirs in zip(
        _write_after_views_of_a_leaf(jtorch), _write_after_views_of_a_leaf(torch), strict=True
    ):
        np.testing.assert_array_equal(ours.detach().numpy(), theirs.detach().numpy())
        assert ours.requires_grad == theirs.requires_grad
    w, theirs = _write_after_views_of_a_leaf(jtorch)[2], _write_after_views_of_a_leaf(torch)[2]
    np.testing.assert_array_equal(w.grad.numpy(), theirs.grad.numpy())


def test_views_of_a_leaf_cannot_be_found_after_gc_freeze():
    p, w = jtorch.ones(4, requires_grad=True), jtorch.full((4,), 2.0, requires_grad=True)
    view = p[:2]
    p.requires_grad_(False)
    gc.freeze()
    try:
        p.mul_(3.0)  # nothing that the tape follows
        with pytest.raises(RuntimeError, match=r"gc\.unfreeze\(\)"):
            p.mul_(w)
        assert p.tolist() == [3.0] * 4 and not p.requires_grad and view.tolist() == [3.0] * 2
    finally:
        gc.unfreeze()


def test_views_of_a_leaf_are_searched_once(monkeypatch):
    searches = []
    monkeypatch.setattr(gc, "get_referrers", lambda *x: searches.append(x) or [])
    p, w = jtorch.ones(4, requires_grad=True), jtorch.ones(4, requires_grad=True)
    kept = p[:2]
    p.requires_grad_(False)
    for _ in range(10):
        p.mul_(0.9)
    assert not searches
    for _ in range(10):
        p.mul_(w)
    assert len(searches) == 1 and kept is not None


def test_a_view_of_a_leaf_as_a_subclass_moves_too():
    class Mine(jtorch.Tensor):
        pass

    p, w = jtorch.ones(4, requires_grad=True), jtorch.full((4,), 2.0, requires_grad=True)
    view = p.view(2, 2).as_subclass(Mine)
    p.requires_grad_(False)
    p.mul_(w)
    view.sum().backward()
    assert w.grad.tolist() == [1.0] * 4 and p.grad is None


def test_views_of_a_parameter_do_not_pile_up():
    p = jtorch.ones(4, requires_grad=True)
    kept = [p[:2] for _ in range(100)]
    assert len(p._cell) == 2, kept
    for _ in range(1000):
        p.requires_grad_(True)
        kept = [p[:2]]
        p.requires_grad_(False)
        kept = [p[:2], p[2:]]
    assert len(p._cell) < 70, kept


@pytest.mark.slow
def test_views_of_a_buffer_do_not_pile_up():
    buffer = jtorch.zeros(100, 2)
    for k in range(5000):
        _ = buffer[k % 100]
    assert len(buffer._cell) < 130
    gc.collect()


# -- random programs ---------------------------------------------------------------------------------------

VIEWS = {
    "first": lambda L, t: t[0],
    "rest": lambda L, t: t[1:],
    "steps": lambda L, t: t[::2],
    "t": lambda L, t: t.transpose(0, -1),
    "row": lambda L, t: t.unsqueeze(0),
    "flat": lambda L, t: t.view(-1) if t.is_contiguous() else t,
    "narrow": lambda L, t: t.narrow(-1, 0, 1),
    "base": lambda L, t: t,
}
WRITES = {
    "mul_": lambda L, t, w: t.mul_(w),
    "add_": lambda L, t, w: t.add_(w * 2),
    "tanh_": lambda L, t, w: t.tanh_(),
    "copy_": lambda L, t, w: t.copy_(w * w),
    "zero_": lambda L, t, w: t.zero_(),
    "div_": lambda L, t, w: t.div_(2.5),
    "set": lambda L, t, w: t.__setitem__(..., w),
}
STEPS = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from([*VIEWS]), st.sampled_from([None, *WRITES])),
    min_size=1,
    max_size=7,
)


def _program(steps, on_tape):
    """The random program of ``steps``: (which tensor made so far, a view of it, a write to that view)."""

    def program(L, x, w):
        base = x * 2 if on_tape else L.ones(2, 3, dtype=L.float64)
        made = [base]
        for which, view, write in steps:
            source = made[which % len(made)]
            if source.dim() == 0 or 0 in source.shape:
                continue
            made.append(VIEWS[view](L, source))
            if write is not None:
                WRITES[write](L, made[-1], w[0, 1])
        total = sum((t * t).sum() * (k + 1) for k, t in enumerate(made))
        return total + (x * w).sum()

    return program


@pytest.mark.slow
@needs_torch
@settings(max_examples=150, deadline=None, derandomize=True)
@given(steps=STEPS, on_tape=st.booleans())
def test_random_programs_equal_pytorch(steps, on_tape):
    program = _program(steps, on_tape)
    try:
        expected = _run(torch, program)
    except RuntimeError as error:  # PyTorch's in-place ops save their output; ours keep a copy
        assert "modified by an inplace operation" in str(error)
        return
    for ours, theirs in zip(_run(jtorch, program), expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)


def _whole_copy(w):
    return jtorch.zeros(2).copy_(w)


def _whole_item(w):
    y = jtorch.zeros(2)
    y[...] = w
    return y


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("copied", [_whole_copy, _whole_item])
def test_a_copy_of_a_leaf_is_no_leaf(copied, compiled):
    """Its place on the tape was the leaf itself, and ``repr`` an AttributeError."""
    w = jtorch.ones(2, requires_grad=True)
    y = (jtorch.compile(copied) if compiled else copied)(w)
    assert y.requires_grad and not y.is_leaf and "grad_fn" in repr(y)
    if not compiled:
        assert y.grad_fn.name() == "CopyBackwards"
        assert y.grad_fn.next_functions[1][0].variable is w
    y.register_hook(lambda g: g * 2)
    y.retain_grad()
    assert y.retains_grad
    (y**3).sum().backward()
    assert w.grad.tolist() == y.grad.tolist() == [6.0, 6.0]


@pytest.mark.slow
def test_a_copy_of_a_leaf_is_differentiated_twice():
    w = jtorch.ones(2, requires_grad=True)
    (g,) = jtorch.autograd.grad((_whole_copy(w) ** 3).sum(), w, create_graph=True)
    assert jtorch.autograd.grad(g.sum(), w)[0].tolist() == [6.0, 6.0]
