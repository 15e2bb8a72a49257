"""Views whose memory is written to after they got a hook, were made under no_grad, as one of several, or
before their base required grad: what hooks see, where gradients go, and what is refused, as in PyTorch."""

from __future__ import annotations

import pytest

import jtorch
from tests.each import each
from tests.ops.support import HAS_TORCH, needs_torch

pytestmark = pytest.mark.usefixtures("whole_heap")

if HAS_TORCH:
    import torch

NO_GRAD, SEVERAL = "A view was created in no_grad mode and", "This view is the output of a function that"
ELSEWHERE = "its base or another view of its base has been modified inplace"


def followed_write(L, y, v):
    y.mul_(3)


def write_through_the_view(L, y, v):
    v.mul_(3)


def quiet_write(L, y, v):
    with L.no_grad():
        y.mul_(3)


def quiet_write_through_the_view(L, y, v):
    with L.no_grad():
        v.mul_(3)


def write_to_an_alias(L, y, v):
    y.detach().mul_(3)


def write_behind_the_version(L, y, v):
    y.data.mul_(3)


def item(L, y, v):
    v[0] = 9.0


def masked(L, y, v):
    v[v > 1] = 9.0


def through_a_part(L, y, v):
    v[:1].mul_(3)


def copied(L, y, v):
    y.copy_(L.ones(3))


# the gradient of x where v was used before (2), is used after (5), and y is: a hook multiplies by 10 what
# comes of the use before alone, unless the version does not tell of the write
GRADIENTS = {
    followed_write: [38.0, 38.0, 3.0], write_through_the_view: [38.0, 38.0, 1.0],
    quiet_write: [26.0, 26.0, 1.0], quiet_write_through_the_view: [26.0, 26.0, 1.0],
    write_to_an_alias: [26.0, 26.0, 1.0], write_behind_the_version: [71.0, 71.0, 1.0],
    item: [20.0, 26.0, 1.0], masked: [26.0, 20.0, 1.0], through_a_part: [38.0, 26.0, 1.0],
    copied: [20.0, 20.0, 0.0],
}  # fmt: skip


def gradient_with_a_hook_on_the_view(L, write):
    asked = []
    x = L.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = x * 1
    v = y[:2]
    v.register_hook(lambda g: asked.append(1) or g * 10)
    before = v * 2
    write(L, y, v)
    (before.sum() + (v * 5).sum() + y.sum()).backward()
    return x.grad.tolist(), len(asked)


def libraries():
    return (jtorch, torch) if HAS_TORCH else (jtorch,)


@each("write", GRADIENTS, ids=[w.__name__ for w in GRADIENTS])
def test_a_hook_on_a_view_sees_what_was_computed_of_it_before_the_write(write):
    for L in libraries():
        assert gradient_with_a_hook_on_the_view(L, write) == (GRADIENTS[write], 1)


@each("write", [w for w in GRADIENTS if w is not masked], ids=lambda w: w.__name__)
def test_a_hook_on_a_view_sees_the_same_in_compiled_code(write):
    @jtorch.compile(fullgraph=True)
    def gradient(x):
        y = x * 1
        v = y[:2]
        v.register_hook(lambda g: g * 10)
        before = v * 2
        write(jtorch, y, v)
        (before.sum() + (v * 5).sum() + y.sum()).backward()

    for _ in range(2):
        x = jtorch.tensor([1.0, 2.0, 3.0], requires_grad=True)
        gradient(x)
        assert x.grad.tolist() == GRADIENTS[write]


def hooks_of_a_part_and_of_its_whole(L, quiet):
    asked = []
    x = L.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = x * 1
    v = y[:2]
    part = v[:1]
    v.register_hook(lambda g: asked.append("v"))
    with L.set_grad_enabled(not quiet):
        y.mul_(2)
    part.sum().backward()
    return asked, x.grad.tolist()


@pytest.mark.parametrize("quiet", [False, True])
def test_a_part_of_a_view_with_a_hook_is_taken_anew_too(quiet):
    for L in libraries():
        assert hooks_of_a_part_and_of_its_whole(L, quiet) == ([], [1.0 if quiet else 2.0, 0.0, 0.0])


def hooked_view_over_steps(L, compiled):
    asked = []
    w = L.tensor([1.0, 2.0, 3.0], requires_grad=True)
    v = w[:2]
    v.register_hook(lambda g: asked.append(g.tolist()))
    optimizer = L.optim.SGD([w], lr=0.5)

    def step():
        (w * w).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    step = jtorch.compile(step, fullgraph=True) if compiled else step
    for _ in range(3):
        (v * v).sum().backward()
        step()
    return asked


def test_a_hook_on_a_view_of_a_parameter_ends_with_the_step():
    assert hooked_view_over_steps(jtorch, False) == [[2.0, 4.0]]
    assert hooked_view_over_steps(jtorch, True) == [[2.0, 4.0]]


@needs_torch
def test_a_hook_on_a_view_of_a_parameter_ends_with_pytorchs_step():
    assert hooked_view_over_steps(torch, False) == [[2.0, 4.0]]


# -- views of what requires grad later --------------------------------------------------------------------


def view_of_what_requires_grad_later(L, write, compiled=False):
    base = L.ones(2, 2)
    view = base[0]
    base.requires_grad_()

    def quietly(base, view):
        with L.no_grad():
            write(base, view)

    (jtorch.compile(quietly, fullgraph=True) if compiled else quietly)(base, view)
    (view * view).sum().backward()
    return view.is_leaf, base.grad.tolist()


LATER = {"base": lambda base, view: base.mul_(3), "view": lambda base, view: view.mul_(3)}


@pytest.mark.parametrize("write", LATER.values(), ids=[*LATER])
def test_a_view_follows_its_base_from_the_first_write_on(write):
    expected = (False, [[6.0, 6.0], [0.0, 0.0]])
    for L in libraries():
        assert view_of_what_requires_grad_later(L, write) == expected
    assert view_of_what_requires_grad_later(jtorch, write, compiled=True) == expected


# -- what PyTorch refuses --------------------------------------------------------------------


def made_quietly(L, y):
    with L.no_grad():
        return y[:2]


VIEWS = {
    made_quietly: (NO_GRAD, "Given that this use case is ambiguous"),
    lambda L, y: y.split(2)[1]: ("Output 1 of Split is a view and", SEVERAL),
    lambda L, y: y.chunk(2)[1]: ("Output 1 of Split is a view and", SEVERAL),
    lambda L, y: y.unbind()[1]: ("Output 1 of Unbind is a view and", SEVERAL),
    lambda L, y: [*y][1]: ("Output 1 of Unbind is a view and", SEVERAL),
    lambda L, y: y.split(2)[1][:1]: ("Output 0 of Slice is a view and", SEVERAL),
}


def error_of_using_a_view(L, make, graph, compiled=False):
    """What is said of a view of ``y`` when that was written to, tracked, and the view is used."""

    def use(x, y):
        view = make(L, y)
        y.mul_(x)
        return (view * 2).sum() + x.sum()

    def whole(x):
        return use(x, x * 1 if graph else L.ones(4))

    x = L.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
    with pytest.raises(RuntimeError) as caught:
        (jtorch.compile(whole) if compiled else whole)(x).backward()
    return str(caught.value)


@each("graph", [True, False], ids=["graph", "no graph"])
@each("make", VIEWS, ids=[str(k) for k in range(len(VIEWS))])
def test_views_are_refused_where_their_base_was_written_to(make, graph):
    begin, end = VIEWS[make] if graph else (NO_GRAD, VIEWS[make][1])
    for L in libraries():
        text = error_of_using_a_view(L, make, graph)
        assert text.startswith(f"{begin} {ELSEWHERE}"), text
        assert end in text
    assert ELSEWHERE in error_of_using_a_view(jtorch, make, graph, compiled=True)


def test_a_view_of_a_view_made_quietly_is_refused_too():
    for L in libraries():
        text = error_of_using_a_view(L, lambda L, y: made_quietly(L, y).view(2), True)
        assert ELSEWHERE in text
        assert NO_GRAD.rpartition(" view ")[2].removesuffix(" and") in text


def test_views_that_are_refused_are_so_only_where_they_are_used():
    x = jtorch.tensor([1.0, 2.0], requires_grad=True)
    y = x * 1
    first, second = y.unbind()
    y.mul_(3)
    assert (first.item(), second.item()) == (3.0, 6.0)
    y.sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]


def test_as_strided_of_a_view_made_quietly_is_no_way_to_its_base():
    for L in libraries():
        x = L.tensor([1.0, 2.0, 3.0], requires_grad=True)
        with L.no_grad():
            view = x[1:]
        (view.as_strided((2,), (1,)) * x[:2]).sum().backward()
        assert x.grad.tolist() == [2.0, 3.0, 0.0]


def leaf_that_was_written_to_since(L, freed, compiled=False):
    def program(w):
        x = w.detach().clone().requires_grad_()
        y = x * 2
        x.requires_grad_(False) if freed == "requires_grad_" else x.detach_()
        x.mul_(w)
        (y + x).sum().backward()

    w = L.tensor([3.0, 4.0], requires_grad=True)
    with pytest.raises(RuntimeError) as caught:
        (jtorch.compile(program) if compiled else program)(w)
    return str(caught.value)


@pytest.mark.parametrize("freed", ["requires_grad_", "detach_"])
def test_gradients_of_a_leaf_that_is_none_any_more_are_refused(freed):
    sentence = "leaf variable has been moved into the graph interior"
    for L in libraries():
        assert leaf_that_was_written_to_since(L, freed) == sentence
    assert sentence in leaf_that_was_written_to_since(jtorch, freed, compiled=True)


def use_of_what_was_made_and_written_quietly(L, way, compiled=False):
    def program(x):
        base = x if way == "leaf" else x * 1
        with L.no_grad():
            view = base[:2]
            view.mul_(3)
            kept = view.clone()
        loss = (base * base).sum() + kept.sum()
        return loss + view.sum() if way != "unused" else loss

    x = L.tensor([1.0, 2.0, 3.0], requires_grad=True)
    (jtorch.compile(program) if compiled else program)(x).backward()
    return x.grad.tolist()


@pytest.mark.parametrize("way", ["leaf", "made"])
def test_a_view_made_and_written_to_quietly_is_not_used_where_gradients_flow(way):
    for L, compiled in [*((L, False) for L in libraries()), (jtorch, True)]:
        with pytest.raises(RuntimeError) as caught:
            use_of_what_was_made_and_written_quietly(L, way, compiled)
        assert str(caught.value).startswith(f"{NO_GRAD} {ELSEWHERE}")


def test_elsewhere_it_may_be_used():
    for L, compiled in [*((L, False) for L in libraries()), (jtorch, True)]:
        assert use_of_what_was_made_and_written_quietly(L, "unused", compiled) == [6.0, 12.0, 6.0]
