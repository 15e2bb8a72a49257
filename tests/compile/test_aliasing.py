"""Memory that several tensors share: what a program sees afterwards is what eager mode leaves.

Each program gets ``wrap``, which is ``jtorch.compile`` or nothing, and returns what it saw.
"""

from __future__ import annotations

import numpy as np
import pytest

import jtorch
import jtorch.nn as nn
from jtorch.core.errors import CompileError

PROGRAMS = {}
LIMITS = {}


def program(function):
    PROGRAMS[function.__name__] = function
    return function


def refused(words):
    """What compiled code answers with an error that says the way out."""

    def add(function):
        LIMITS[function.__name__] = function, words
        return function

    return add


def t(*values):
    return jtorch.tensor([float(v) for v in values])


def seen(value):
    """``value`` with NumPy copies for tensors."""
    if isinstance(value, jtorch.Tensor):
        return value.detach().numpy().copy()
    if isinstance(value, (list, tuple)):
        return [seen(v) for v in value]
    return value


def assert_equal(a, b):
    if isinstance(a, jtorch.Tensor):
        a, b = seen(a), seen(b)
    if isinstance(a, (list, tuple)):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            assert_equal(x, y)
    elif isinstance(a, np.ndarray):
        assert a.dtype == b.dtype and a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=1e-6)
    else:
        assert a == b


@pytest.mark.parametrize("name", PROGRAMS)
def test_compiled_equals_eager(name):
    expected = PROGRAMS[name](lambda f: f)
    assert_equal(PROGRAMS[name](jtorch.compile), expected)


@pytest.mark.parametrize("name", LIMITS)
def test_is_refused(name):
    function, words = LIMITS[name]
    function(lambda f: f)
    with pytest.raises(CompileError, match=words):
        function(jtorch.compile)


# -- arguments changed in place ------------------------------------------------------------------


@program
def an_argument_through_a_slice_and_a_transpose(wrap):
    def change(x):
        x[1:, ::2].mul_(3.0)
        x.t()[0].add_(1.0)
        x.flatten()[2:4].zero_()
        x.view(-1)[-1:].fill_(7.0)
        return x.sum()

    f, x = wrap(change), jtorch.arange(12.0).reshape(3, 4)
    return [[seen(f(x)), seen(x)] for _ in range(3)]


@program
def a_view_as_the_argument(wrap):
    """The base changes with it, and its version moves."""
    f = wrap(lambda v: v.add_(1.0).sum())
    base = jtorch.arange(12.0).reshape(3, 4)
    found = []
    for view in (base[1], base[:, 1], base[::2, 1:3], base.t(), base[1], base[0:0]):
        version = base._version
        found += [seen(f(view)), seen(base), base._version > version]
    return found


@program
def strides_of_all_kinds(wrap):
    f = wrap(lambda x, y: (x * 2 + y, x.mul_(2.0) is x))
    base = jtorch.arange(24.0).reshape(4, 6)
    pairs = [
        (base[::2, ::3].clone(), base[::2, ::3]), (base.flip(0)[:2], base[:2]), (base.t(), jtorch.ones(6, 4)),
        (jtorch.zeros(0, 3), jtorch.ones(0, 3)), (jtorch.tensor(3.0), jtorch.tensor(4.0)),
        (jtorch.ones(1, 3).clone(), jtorch.ones(1, 1).expand(2, 3)[:1]),
    ]  # fmt: skip
    return [[seen(f(x, y)), seen(x)] for x, y in pairs for _ in range(2)]


@program
def numpy_memory_with_negative_strides(wrap):
    array = np.arange(6.0, dtype=np.float32)
    f = wrap(lambda x: x.flip(0) * 2 + x)
    first = f(jtorch.from_numpy(array))
    second = f(jtorch.from_numpy(array[::-1].copy()))
    array += 1
    return [seen(first), seen(second), seen(f(jtorch.from_numpy(array)))]


@program
def a_captured_tensor_through_a_view_of_it(wrap):
    total = jtorch.zeros(3, 2)
    row = total[1]

    def add(x):
        total[1].add_(x)
        return total.sum()

    f = wrap(add)
    found = []
    for k in range(3):
        found += [seen(f(t(k, 1))), seen(total), seen(row)]
        row.mul_(2.0)
    return found


@program
def the_same_tensor_twice(wrap):
    def change(x, y):
        x.add_(1.0)
        return x + y

    f, x, y = wrap(change), t(1, 2), t(5, 5)
    return [seen([f(*args), x, y]) for args in ((x, y), (x, x), (y, y), (y, x))]


@program
def detach_inside(wrap):
    def change(x):
        d = x.detach()
        d.add_(1.0)
        x.data.mul_(2.0)
        return x.sum(), d

    f, x = wrap(change), t(1, 2)
    found = []
    for _ in range(3):
        total, d = f(x)
        found += [seen(total), seen(d), seen(x)]
        d.add_(10.0)
        found.append(seen(x))
    return found


# -- results that alias ------------------------------------------------------------------


@program
def results_that_alias_arguments(wrap):
    f = wrap(lambda x: (x, x[1:], x.detach(), x.t(), x + 1, x.reshape(-1)))
    x = jtorch.arange(6.0).reshape(3, 2)
    found = []
    for k in range(3):
        results = f(x)
        results[1].add_(100.0)
        results[3][0].zero_()
        results[4].fill_(-1.0)
        results[5][-1:].fill_(float(k))
        found += [seen(x), seen(list(results)), results[0] is x]
    return found


@program
def results_that_alias_each_other(wrap):
    def make(x):
        y = x * 2
        return y, y[0], y.t(), y, y.view(-1)[2:]

    f, x = wrap(make), jtorch.arange(6.0).reshape(2, 3)
    found = []
    for _ in range(2):
        results = f(x)
        results[1].add_(10.0)
        results[4].mul_(-1.0)
        found += [seen(list(results)), results[0] is results[3], results[0]._version]
    return found


@program
def parts_that_overlap_and_parts_that_do_not(wrap):
    """The second is how the halves of a result are usually returned."""
    w = t(1, 2, 3, 4).requires_grad_()

    def overlapping(x):
        y = (x * 2).view(2, 2)
        return y.t(), y[1], y[:, 1], y.detach()[0]

    def halves(x):
        return (w * x).chunk(2)

    f, g, found = wrap(overlapping), wrap(halves), []
    for k in range(3):
        results = f(t(1, 2, 3, k))
        results[1].add_(10.0)
        results[2].mul_(2.0)
        found.append(seen(list(results)))
        w.grad = None
        a, b = g(t(1, k, 1, 1))
        (a * b).sum().backward()
        found.append(seen([a, b, w.grad]))
    return found


@program
def overlapping_parts_with_a_graph(wrap):
    w = t(1, 2, 3).requires_grad_()

    def make(x):
        y = w * x
        return y[:2], y[1:], y[1]

    f, found = wrap(make), []
    for k in range(3):
        w.grad = None
        a, b, c = f(t(1, k, 2))
        (a * 2).sum().backward(retain_graph=True)
        (b * b).sum().backward(retain_graph=True)
        c.backward()
        found.append(seen([a, b, c, w.grad]))
        with jtorch.no_grad():
            a[1] = 50.0
        found.append(seen([a, b, c]))
    return found


@program
def results_that_alias_captured_tensors(wrap):
    held = jtorch.arange(6.0).reshape(3, 2)
    f = wrap(lambda x: (held, held[1], held + x))
    found = []
    for k in range(3):
        a, b, c = f(t(1, k))
        b.add_(1.0)
        c.zero_()
        found += [a is held, seen([a, b, c]), seen(held)]
    return found


@program
def two_views_of_one_computed_tensor_without_the_whole(wrap):
    def make(x):
        y = x * 2
        return y[:2], y[1:]

    f = wrap(make)
    found = []
    for _ in range(2):
        a, b = f(t(1, 2, 3))
        a[1].add_(100.0)
        found += [seen([a, b])]
    return found


@program
def an_output_as_the_next_input_and_written(wrap):
    def change(h, x):
        h = h + x
        h.mul_(0.5)
        return h

    f, h = wrap(change), t(0, 0)
    kept = []
    for k in range(50):
        h = f(h, t(k, 1))
        kept.append(h)
    return seen(kept)


@program
def an_output_is_the_argument_and_goes_in_again(wrap):
    f, h = wrap(lambda h: h.add_(1.0)), t(0, 0)
    same = []
    for _ in range(5):
        out = f(h)
        same.append(out is h)
        h = out
    return [same, seen(h)]


@program
def outputs_kept_over_fifty_calls(wrap):
    model = nn.Linear(3, 2)
    with jtorch.no_grad():
        for k, p in enumerate(model.parameters()):
            p.fill_(0.1 * (k + 1))
    f = wrap(lambda x: (model(x), model(x).sum(), x[0] * 2))
    kept = [f(jtorch.full((2, 3), float(k))) for k in range(50)]
    return seen([list(results) for results in kept])


# -- parameters and gradients ------------------------------------------------------------------


def _training(lr=0.5):
    w, b = t(1, 2, 3).requires_grad_(), t(0.5).requires_grad_()
    optimizer = jtorch.optim.SGD([w, b], lr=lr, momentum=0.9)

    def step(x):
        optimizer.zero_grad()
        loss = ((w * x).sum() + b).pow(2).sum()
        loss.backward()
        optimizer.step()
        return loss

    return w, b, step


@program
def gradients_kept_by_the_user(wrap):
    w, b, step = _training(0.01)
    f, kept = wrap(step), []
    for k in range(6):
        f(t(k, 1, 1))
        if k % 2:
            kept.append((w.grad, w.grad[1:], b.grad))
    return seen([list(g) for g in kept])


@program
def gradients_changed_by_the_user(wrap):
    """In place, replaced, and accumulated into."""
    w = t(1, 2, 3).requires_grad_()

    def accumulate(x):
        (w * x).sum().backward()
        return w.grad * 1

    f, found = wrap(accumulate), []
    for k in range(8):
        found += [seen(f(t(k, 1, 1))), seen(w.grad)]
        if k == 1:
            w.grad.mul_(10.0)
        elif k == 3:
            w.grad = t(7, 7, 7)
        elif k == 4:
            w.grad = None
        elif k == 5:
            w.grad[0] = 5.0
        elif k == 6:
            w.grad = w.grad.detach()[:]
    return found


@program
def one_gradient_for_two_tensors(wrap):
    w, v = t(1, 2).requires_grad_(), t(3, 4).requires_grad_()
    g = t(10, 20)
    w.grad = v.grad = g

    def accumulate(x):
        (w * x).sum().backward()

    f = wrap(accumulate)
    for _ in range(3):
        f(t(1, 1))
    return seen([w.grad, v.grad, g])


def _strided():
    memory = np.zeros(3, np.float32)
    return memory[:2], np.lib.stride_tricks.as_strided(memory, (2,), (4,))


def _strided_twice():
    memory = np.zeros(3, np.float32)
    return tuple(np.lib.stride_tricks.as_strided(memory, (2,), (4,)) for _ in range(2))


def _buffers():
    memory = bytearray(12)
    return tuple(np.frombuffer(memory, np.float32, 2, 4 * k) for k in range(2))


@pytest.mark.parametrize("make", [_strided, _strided_twice, _buffers])
def test_gradients_that_come_to_share_memory_are_refused(make):
    """Memory that no array of NumPy's owns, so that no owner tells that it is shared."""
    a, b = t(1, 1).requires_grad_(), t(1, 1).requires_grad_()
    a.grad, b.grad = t(0, 0), t(0, 0)

    @jtorch.compile
    def accumulate(x):
        ((a * x).sum() + (b * x * 2).sum()).backward()

    accumulate(t(1, 1))
    one, other = make()
    a.grad, b.grad = jtorch.from_numpy(one), jtorch.from_numpy(other)
    with pytest.raises(CompileError, match=r"adds to the gradient.*whose memory it uses under another name"):
        accumulate(t(1, 1))
    assert not one.any()
    assert not other.any()


def test_gradients_apart_in_one_buffer_are_added_to():
    memory = bytearray(16)
    a, b = t(1, 1).requires_grad_(), t(1, 1).requires_grad_()
    a.grad, b.grad = (jtorch.from_numpy(np.frombuffer(memory, np.float32, 2, 8 * k)) for k in range(2))

    @jtorch.compile
    def accumulate(x):
        ((a * x).sum() + (b * x * 2).sum()).backward()

    for _ in range(2):
        accumulate(t(1, 1))
    assert np.frombuffer(memory, np.float32).tolist() == [2.0, 2.0, 4.0, 4.0]


@program
def a_parameter_changed_between_calls(wrap):
    w, _, step = _training(0.01)
    f, found = wrap(step), []
    for k in range(8):
        found += [seen(f(t(1, k % 3, 1))), seen(w)]
        with jtorch.no_grad():
            if k == 1:
                w.mul_(0.5)
            elif k == 2:
                w[0] = 9.0
            elif k == 3:
                w.data = t(1, 1, 1)
            elif k == 4:
                w.data[1:].zero_()
            elif k == 5:
                w.detach().add_(1.0)
            elif k == 6:
                w.detach().numpy()[:] = 0.25
    return found


@program
def data_replaced_by_another_tensors_memory(wrap):
    w, v = t(1, 2).requires_grad_(), t(5, 6)
    f = wrap(lambda x: (w * x).sum())
    found = [seen(f(t(1, 1)))]
    w.data = v
    found.append(seen(f(t(1, 1))))
    v.add_(1.0)
    found.append(seen(f(t(1, 1))))
    w.data = jtorch.arange(4.0)[::2]
    found.append(seen(f(t(1, 1))))
    w.data = t(1, 2, 3)
    return [*found, seen(f(t(1, 1, 1)))]


@program
def views_of_a_parameter_held_outside(wrap):
    w, _, step = _training(0.01)
    with jtorch.no_grad():
        part = w[1:]
    f, found = wrap(step), []
    for k in range(4):
        f(t(1, k, 1))
        found += [seen(part), np.shares_memory(part.numpy(), w.detach().numpy())]
    return found


@program
def tied_parameters(wrap):
    w = t(1, 2).requires_grad_()
    a, b = nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False)
    with jtorch.no_grad():
        a.weight.copy_(jtorch.arange(4.0).reshape(2, 2))
    b.weight = a.weight
    optimizer = jtorch.optim.SGD([a.weight], lr=0.001)

    def step(x):
        optimizer.zero_grad()
        loss = (b(a(x)) * w).sum()
        loss.backward()
        optimizer.step()
        return loss

    f, found = wrap(step), []
    for k in range(4):
        found += [seen(f(t(1, k))), seen(a.weight), seen(b.weight.grad), seen(w.grad)]
        if k == 2:
            b.weight = nn.Parameter(jtorch.ones(2, 2))
    return found


@program
def a_flat_buffer_of_parameters(wrap):
    flat = jtorch.arange(6.0)
    a, b = flat[:3].detach().requires_grad_(), flat[3:].detach().requires_grad_()
    optimizer = jtorch.optim.SGD([a, b], lr=0.1)

    def step(x):
        optimizer.zero_grad()
        loss = (a * b * x).sum()
        loss.backward()
        optimizer.step()
        return loss

    f, found = wrap(step), []
    for k in range(4):
        found += [seen(f(t(1, k, 2))), seen(flat)]
        flat.mul_(0.5)
    return found


@program
def a_version_says_that_a_saved_tensor_changed(wrap):
    w = t(1, 2).requires_grad_()
    with jtorch.no_grad():
        alias = w[:1]

    def change(x):
        with jtorch.no_grad():
            alias.add_(x)

    f = wrap(change)
    f(t(1))
    loss = (w * w).sum()
    f(t(1))
    try:
        loss.backward()
    except RuntimeError as error:
        return ["modified by an inplace operation" in str(error), seen(w)]
    return seen(w.grad)


@program
def assigning_a_slice_to_an_overlapping_one(wrap):
    def shift(x):
        x[1:] = x[:-1].clone()
        x[:2] = x[2:4] * 2
        return x

    f, x = wrap(shift), jtorch.arange(6.0)
    return [seen(f(x)) for _ in range(3)]


@program
def one_buffer_twice_that_is_only_read(wrap):
    f, array, found = wrap(lambda x, y: x * 2 + y), np.arange(4.0), []
    for pair in ((array, np.ones(4)), (array, array), (array[:4], array[:]), (array, array[::-1].copy())):
        x, y = map(jtorch.from_numpy, pair)
        found += [seen(f(x, y)), seen(f(y, x.detach())), seen(f(x, x.data))]
        array += 1.0
    base = jtorch.arange(8.0)
    return found + [seen(f(base[i : i + 4], base[2:6])) for i in (0, 1, 2, 4)]


@program
def detached_and_data_aliases_of_an_argument(wrap):
    def change(x, y):
        y.add_(1.0)
        return x * 2

    f, x, found = wrap(change), t(1, 2).requires_grad_(), []
    for alias in (x.detach(), x.data, t(3, 4), x.detach()):
        version = alias._version
        found += [seen(f(x, alias)), seen(x), alias._version > version]
    return found


@program
def a_captured_tensor_is_also_the_argument(wrap):
    held = t(1, 2)

    def change(x):
        held.add_(1.0)
        return x * 2

    f, other, found = wrap(change), t(5, 5), []
    for x in (other, held, other, held, held):
        found += [seen(f(x)), seen(held)]
    return found


# -- overlaps that are written to: refused, also where a plan for other tensors exists ------------------


def _add_to_the_first(wrap):
    def change(x, y):
        x.add_(1.0)
        return y * 2

    f = wrap(change)
    f(t(1, 2), t(3, 4))
    return f


@program
def one_buffer_by_from_numpy_twice(wrap):
    array = np.arange(2.0, dtype=np.float32)
    f = _add_to_the_first(wrap)
    return [(f(jtorch.from_numpy(array), jtorch.from_numpy(array[:])), array.tolist()) for _ in range(3)]


@program
def a_detached_alias_of_an_argument(wrap):
    x, f = t(1, 2), _add_to_the_first(wrap)
    return [(f(x, x.detach()[:]).tolist(), x.tolist()) for _ in range(3)]


@program
def windows_of_one_tensor(wrap):
    base, f = jtorch.arange(8.0), _add_to_the_first(wrap)
    return [(f(base[k : k + 2], base[1:3]), base.clone()) for k in (1, 2, 4, 2)]


@program
def a_view_of_a_captured_tensor_that_is_written(wrap):
    held = t(1, 2)

    def change(x):
        held.add_(1.0)
        return x * 2

    f = wrap(change)
    return [(f(x).tolist(), held.tolist()) for x in (t(1, 2), held[:], t(3, 4), held[:])]


@refused("overlap")
def a_buffer_of_the_model_as_its_input(wrap):
    norm = nn.BatchNorm1d(2)
    f = wrap(lambda x: norm(x).sum(0))
    f(jtorch.arange(6.0).reshape(3, 2))
    f(norm.running_mean.expand(3, 2))


@program
def two_captured_tensors_that_overlap(wrap):
    base = jtorch.arange(6.0)
    a, b = base[:4].detach(), base[2:].detach()

    def change(x):
        a.add_(x)
        return b * 1

    f = wrap(change)
    return [(f(1.0 + k), base.clone()) for k in range(3)]


@program
def a_part_of_memory_that_captured_tensors_share(wrap):
    """Both of these are written, so all of ``base`` counts as one: the argument is a part of that."""
    base = jtorch.zeros(6)
    a, b = base[:2], base[1:3]

    def change(x):
        a.add_(1.0)
        b.mul_(2.0)
        x.add_(1.0)
        return x + a

    f = wrap(change)
    parts = (base[4:], base[4:], base[2:4], t(1, 1), base[4:], jtorch.zeros(6)[4:])
    return [(f(x).tolist(), base.tolist(), x.tolist()) for x in parts]


@program
def a_view_that_is_replaced_by_what_is_computed_from_it(wrap):
    """The first call finds a part of ``base``, the second a tensor with memory of its own."""
    base = jtorch.zeros(4)
    state = {"hidden": base[:2]}

    def change(x):
        base.add_(1.0)
        state["hidden"] = state["hidden"] + x
        return state["hidden"] * 1

    f, found = wrap(change), []
    for k in range(4):
        found += [f(t(1, 1)).tolist(), base.tolist(), state["hidden"].tolist()]
        if k == 2:
            state["hidden"] = base[2:]
    return found


@program
def overlapping_views_that_are_written_and_replaced(wrap):
    base = jtorch.zeros(4)
    state = {"a": base[:2], "b": base[1:3]}

    def change(x):
        state["a"].add_(x)
        state["a"] = state["a"] * 1
        state["b"].add_(10.0)
        state["b"] = state["b"] * 1
        return state["a"] + state["b"]

    f = wrap(change)
    return [(f(1.0).tolist(), base.tolist(), state["a"].tolist(), state["b"].tolist()) for _ in range(3)]


def test_a_refusal_writes_nothing():
    base = jtorch.arange(8.0)
    version = base._version
    with pytest.raises(CompileError, match="overlap"):
        _add_to_the_first(jtorch.compile)(base[1:3], base[2].expand(2))
    assert base.tolist() == list(range(8)) and base._version == version


def test_neighbours_in_one_buffer_are_no_overlap():
    f, base = _add_to_the_first(jtorch.compile), jtorch.zeros(8)
    for k in (0, 2, 4):
        assert f(base[k : k + 2], base[k + 2 : k + 4]).tolist() == [0.0, 0.0]
    assert base.tolist() == [1.0] * 6 + [0.0] * 2
    assert sum(map(len, f.plans.values())) == 1


def test_results_own_their_memory():
    """What leaves a call is not in the arena, also where two results are equal."""
    f = jtorch.compile(lambda x: (x + 1, x + 1, x * 1))
    x = t(1, 2)
    kept = [f(x) for _ in range(3)]
    arrays = [r.numpy() for results in kept for r in results]
    for i, a in enumerate(arrays):
        assert not np.shares_memory(a, x.numpy())
        assert not any(np.shares_memory(a, b) for b in arrays[:i])
    kept[0][0].fill_(9.0)
    assert kept[0][1].tolist() == [2.0, 3.0]


# -- memory that lies between each other, and views that repeat nothing ------------------------------------


@program
def columns_and_rows_of_one_base(wrap):
    def f(a, b):
        a.add_(1)
        return a * b

    f, found = wrap(f), []
    cuts = (lambda t: (t[:, 0], t[:, 1]), lambda t: (t[::2, 0], t[1::2, 0]), lambda t: (t[:, 1], t[:, 0]))
    for cut in cuts:
        base = jtorch.arange(16.0).view(8, 2)
        found += [seen(f(*cut(base))), seen(base)]
    return found


@program
def captured_columns_of_one_base(wrap):
    base = jtorch.arange(8.0).view(4, 2)
    a, b = base[:, 0], base[:, 1]

    def f(x):
        b.add_(a)
        return b * x

    f = wrap(f)
    return [seen(f(jtorch.ones(4))), seen(f(jtorch.ones(4))), seen(base)]


@program
def columns_that_share_one(wrap):
    def f(a, b):
        a.add_(1)
        return a * b

    base, f = jtorch.arange(12.0).view(4, 3), wrap(f)
    first = f(base[:, :1], base[:, 1:2])  # a plan for columns that lie apart takes no others
    return first, f(base[:, :1], base[::1, :1]), base


EXPANDED = {
    "expand": lambda x: x.expand(1, 2, 2), "the same shape": lambda x: x.expand(2, 2),
    "broadcast_to": lambda x: jtorch.broadcast_to(x, (2, 2)), "minus one": lambda x: x.expand(1, -1, -1),
    "a part": lambda x: x.expand(1, 1, 2, 2)[0, 0, 1],
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("way", EXPANDED)
@pytest.mark.parametrize("graph", [False, True])
def test_a_write_through_a_view_that_expand_repeats_nothing_in(way, graph):
    found = []
    for wrap in (lambda f: f, jtorch.compile):

        def f(x, w):
            y = EXPANDED[way](x * w if graph else x)
            y.mul_(w[0, 0] if graph else 2)
            y.add_(1)
            return y

        f = wrap(f)
        for _ in range(2):
            x, w = jtorch.tensor([[1.0, 2.0], [3.0, 4.0]]), jtorch.full((2, 2), 3.0, requires_grad=True)
            y = f(x, w)
            if graph:
                y.sum().backward()
            found += [y.tolist(), x.tolist(), None if w.grad is None else w.grad.tolist()]
    assert found[len(found) // 2 :] == found[: len(found) // 2]


def test_a_write_through_a_view_that_expand_repeats_elements_in():
    def f(x):
        x.expand(3, 2).mul_(2)

    for run in (f, jtorch.compile(f)):
        with pytest.raises(RuntimeError, match="more than one element"):
            run(jtorch.ones(2))
        with pytest.raises(RuntimeError, match="more than one element"):
            run(jtorch.ones(2, requires_grad=True) * 1)
