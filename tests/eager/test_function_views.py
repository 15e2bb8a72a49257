"""Custom Functions that give back an input or a view: what may be written to that memory."""

from __future__ import annotations

import itertools

import pytest

import jtorch

pytestmark = pytest.mark.usefixtures("whole_heap")

FROM_FUNCTION = "This view was created inside a custom Function"
OF_SEVERAL = "This view is the output of a function that returns multiple views"
MODES = {"eager": lambda function: function, "compiled": jtorch.compile}


def made(library, forward):
    """A Function whose gradient is ten times what arrives at its first output."""

    def backward(ctx, first, *others):
        return first.reshape(ctx.shape) * 10.0

    def noted(ctx, x):
        ctx.shape = x.shape
        return forward(ctx, x)

    names = {"forward": staticmethod(noted), "backward": staticmethod(backward)}
    return type("S", (library.autograd.Function,), names)


def tripled(ctx, x):
    x.mul_(3.0)
    ctx.mark_dirty(x)
    return x


def tripled_and_seen(ctx, x):
    return tripled(ctx, x), x.view(-1)


def unmarked(ctx, x):
    x.mul_(3.0)
    return x


def marked_and_kept(ctx, x):
    tripled(ctx, x)
    return x.clone()


def saved(ctx, x):
    ctx.save_for_backward(x)
    return x


FORWARDS = {
    "same": lambda ctx, x: x, "view": lambda ctx, x: x.view(-1), "slice": lambda ctx, x: x[:],
    "clone": lambda ctx, x: x.clone(), "detached": lambda ctx, x: x.detach(),
    "view of its own": lambda ctx, x: (x * 2.0).view(-1), "same and clone": lambda ctx, x: (x, x.clone()),
    "view and clone": lambda ctx, x: (x.view(-1), x.clone()), "two views": lambda ctx, x: (x.view(-1), x[:]),
    "dirty": tripled, "dirty and view": tripled_and_seen, "unmarked": unmarked, "saved": saved,
    "marked and kept": marked_and_kept,
}  # fmt: skip
INPUTS = {
    "leaf": lambda library, b: b,
    "made": lambda library, b: b * 1.0, "view": lambda library, b: (b * 1.0)[0:2],
    "view of a leaf": lambda library, b: b[0:2], "plain": lambda library, b: library.tensor([1.0, 2.0]),
    "plain view": lambda library, b: library.tensor([1.0, 2.0, 3.0])[:2],
}  # fmt: skip


def quietly(library, tensor):
    with library.no_grad():
        tensor.mul_(-1.0)


WRITES = {
    "none": lambda library, b, z, x: None, "output": lambda library, b, z, x: x.mul_(-1.0),
    "output by b": lambda library, b, z, x: x.mul_(b), "input": lambda library, b, z, x: z.mul_(-1.0),
    "input by b": lambda library, b, z, x: z.mul_(b),
    "output, no_grad": lambda library, b, z, x: quietly(library, x),
    "input, no_grad": lambda library, b, z, x: quietly(library, z),
    "output detached": lambda library, b, z, x: x.detach().mul_(-1.0),
    "part of the output": lambda library, b, z, x: x[0:1].mul_(-1.0),
    "asked": lambda library, b, z, x: (z.mul_(-1.0), x.grad_fn),
}  # fmt: skip


def outcome(library, forward, made_input, write, quiet):
    """(elements, gradient of the first output, gradient of the input), or what was raised."""
    b = library.tensor([1.0, 2.0], requires_grad=True)
    try:
        z = made_input(library, b)
        with library.set_grad_enabled(not quiet):
            x = made(library, forward).apply(z)
        x = x[0] if isinstance(x, tuple) else x
        write(library, b, z, x)
        grads = [
            library.autograd.grad(
                (t * library.tensor([1.0, 10.0])).sum(), b, retain_graph=True, allow_unused=True
            )
            for t in (x, z)
            if t.grad_fn is not None
        ]
        return x.tolist(), z.tolist(), x is z, [g and g[0].tolist() for g in grads]
    except Exception as error:
        return type(error).__name__, str(error)


@pytest.mark.slow
def test_as_pytorch_every_way_to_write():
    torch = pytest.importorskip("torch")
    different = []
    for (f, forward), (i, made_input), (w, write), quiet in itertools.product(
        FORWARDS.items(), INPUTS.items(), WRITES.items(), (False, True)
    ):
        ours, theirs = (outcome(library, forward, made_input, write, quiet) for library in (jtorch, torch))
        # views of what requires grad, made while that is off, do so themselves in PyTorch: no gradient either
        off = quiet and f in ("view", "slice", "view and clone", "two views", "dirty and view")
        if ours != theirs and not off:
            different.append(((f, i, w, quiet), ours, theirs))
    assert not different, "\n".join(map(str, different[:5]))


def applied(forward, write):
    """The gradient of what ``forward`` gives, after ``write(z, x)``."""

    def function(b):
        z = b * 1.0
        x = made(jtorch, forward).apply(z)
        write(z, x)
        return jtorch.autograd.grad(x.sum(), b)[0]

    return function


@pytest.mark.parametrize("mode", MODES)
def test_a_write_beside_a_function_is_refused(mode):
    for forward in (FORWARDS["same"], FORWARDS["view"]):
        for write, place in (
            (lambda z, x: z.mul_(-1.0), "its base or another view of its base has been"),
            (lambda z, x: x.mul_(-1.0), "is being"),
            (lambda z, x: x[0:1].zero_(), "is being"),
            (lambda z, x: quietly(jtorch, z), "its base or another view of its base has been"),
        ):
            with pytest.raises(
                RuntimeError, match=f"is a view and {place} modified inplace. {FROM_FUNCTION}"
            ):
                MODES[mode](applied(forward, write))(jtorch.ones(2, requires_grad=True))
    fine = applied(FORWARDS["same"], lambda z, x: None)
    assert MODES[mode](fine)(jtorch.ones(2, requires_grad=True)).tolist() == [10.0, 10.0]
    used_before = applied(FORWARDS["clone"], lambda z, x: z.mul_(-1.0))
    assert MODES[mode](used_before)(jtorch.ones(2, requires_grad=True)).tolist() == [10.0, 10.0]


@pytest.mark.parametrize("mode", MODES)
def test_what_was_used_before_the_write_keeps_its_gradient(mode):
    def function(b):
        z = b * 1.0
        x = made(jtorch, FORWARDS["same"]).apply(z)
        used = x.sum()
        z.mul_(-1.0)
        return jtorch.autograd.grad(used, b)[0]

    assert MODES[mode](function)(jtorch.ones(2, requires_grad=True)).tolist() == [10.0, 10.0]


@pytest.mark.parametrize("mode", MODES)
def test_one_that_writes_a_leaf_is_refused(mode):
    leaf, part = jtorch.ones(2, requires_grad=True), jtorch.ones(2, requires_grad=True)
    for one in (leaf, jtorch.ones(4)[:2].requires_grad_()):
        with pytest.raises(
            RuntimeError, match=r"^a leaf Variable that requires grad has been used in an in-place"
        ):
            MODES[mode](lambda b: made(jtorch, tripled).apply(b))(one)
    with pytest.raises(
        RuntimeError, match=r"^a view of a leaf Variable that requires grad is being used in an"
    ):
        MODES[mode](lambda b: made(jtorch, tripled).apply(b[0:1]))(part)
    with pytest.raises(RuntimeError, match="marked as dirty during the forward method were not returned"):
        MODES[mode](lambda b: made(jtorch, marked_and_kept).apply(b * 1.0))(jtorch.ones(2))
    assert MODES[mode](lambda b: made(jtorch, tripled).apply(b * 1.0))(jtorch.ones(2)).tolist() == [3.0, 3.0]


def test_several_outputs_and_views():
    z = jtorch.ones(4, requires_grad=True) * 1.0
    first, second = made(jtorch, FORWARDS["two views"]).apply(z)
    with pytest.raises(
        RuntimeError, match=f"Output 1 of S is a view and is being modified inplace. {OF_SEVERAL}"
    ):
        second.zero_()
    with pytest.raises(RuntimeError, match="your Function cannot return more than one Tensor"):
        made(jtorch, tripled_and_seen).apply(z[1:])
    assert first.tolist() == [1.0, 3.0, 3.0, 3.0]  # written before it is known, as in PyTorch


def test_setup_context_may_not_save_what_is_returned_as_it_is():
    class Same(jtorch.autograd.Function):
        @staticmethod
        def forward(x):
            return x

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(output)

    with pytest.raises(RuntimeError, match="returned as-is as output is being saved for backward"):
        Same.apply(jtorch.ones(2, requires_grad=True))


@pytest.mark.slow
def test_an_argument_given_back_by_a_function_is_no_result_of_a_compiled_one():
    identity = made(jtorch, FORWARDS["same"])
    with pytest.raises(jtorch.errors.CompileError, match="returns memory of a tensor from outside"):
        jtorch.compile(lambda b: identity.apply(b))(jtorch.ones(2, requires_grad=True))
    b = jtorch.ones(2, requires_grad=True)
    jtorch.compile(lambda b: identity.apply(b) * 2.0)(b).sum().backward()
    assert b.grad.tolist() == [20.0, 20.0]


@pytest.mark.slow
def test_views_of_functions_are_not_kept():
    from jtorch.eager.rebase import NOTED

    before = len(NOTED)
    z = jtorch.ones(2, requires_grad=True) * 1.0
    views = [made(jtorch, FORWARDS["same"]).apply(z) for _ in range(3)]
    assert len(NOTED) == before + 1
    del views
    assert len(NOTED) == before
