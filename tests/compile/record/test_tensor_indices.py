"""``x[i]`` for a tensor of one integer inside compiled functions: reads, writes, what a view would see."""

from __future__ import annotations

import pytest

import jtorch

T = jtorch.tensor
INDICES = (0, 2, -1, 1, -3)


def base():
    return jtorch.arange(12.0).reshape(3, 4)


def assigned(w, i):
    w = w.clone()
    w[i] = w[i] * 2 + 1
    w[:, i] = 7.0
    w[i, 1:] = jtorch.arange(3.0)
    w[i, i] = w[i].sum()
    return w


def counted(w, i):
    counts = jtorch.zeros(3, dtype=jtorch.int64)
    counts[i] += 1
    counts[i.abs() % 3] += 2
    w = w.clone()
    row = w[i]
    row.mul_(3)
    row[1:] += 1
    return counts, w, row


READS = {
    "w[i]": lambda w, i: w[i],
    "w[:, i]": lambda w, i: w[:, i],
    "w[..., i]": lambda w, i: w[..., i],
    "w[i, 1]": lambda w, i: w[i, 1],
    "w[1:, i]": lambda w, i: w[:, i][1:],
    "w[i, i]": lambda w, i: w[i, i],
    "w[i, None]": lambda w, i: w[i, None],
    "w[i, list]": lambda w, i: w[i, [0, 2]],
    "w[list, i]": lambda w, i: w[[0, 2], i],
    "w[i, :, list]": lambda w, i: w[None][:, i, [1, 0]],
    "w[i][i]": lambda w, i: w[i][i],
    "select": lambda w, i: (w.select(0, i), w.select(1, i)),
    "int32": lambda w, i: w[i.int()],
    "uint8": lambda w, i: w[i > 0],
    "argmax": lambda w, i: w[(w[:, 0] * (i + 4)).argmax()],
    "element": lambda w, i: w[jtorch.stack([i, i])[0]] + 1,
    "assigned": assigned,
    "counted": counted,
    "computed": lambda w, i: (w * 2)[i] - w.t()[i, i],
}


@pytest.mark.parametrize("name", READS)
def test_an_index_that_is_a_tensor(name):
    f = READS[name]
    compiled = jtorch.compile(f)
    for i in INDICES:
        assert repr(compiled(base(), T(i))) == repr(f(base(), T(i)))
    assert sum(map(len, compiled.plans.values())) == (2 if name == "uint8" else 1)


@pytest.mark.parametrize(
    "name", sorted(READS.keys() - {"uint8", "int32", "element", "select", "counted", "argmax"})
)
def test_an_index_that_is_a_number_of_item(name):
    def by_number(w, i):
        return READS[name](w, i.item())

    compiled = jtorch.compile(by_number)
    for i in INDICES:
        assert repr(compiled(base(), T(i))) == repr(by_number(base(), T(i)))
    assert sum(map(len, compiled.plans.values())) == 1
    with pytest.raises(IndexError):
        compiled(base(), T(5))


def test_an_index_that_is_a_number_outside():
    """Counted on, it is one for each call."""

    def make():
        state = {"k": 0}

        def f(w):
            state["k"] = (state["k"] + 1) % 3
            return w[state["k"]] * 2

        return f

    eager, compiled = make(), jtorch.compile(make())
    for _ in range(7):
        assert repr(compiled(base())) == repr(eager(base()))
    assert sum(map(len, compiled.plans.values())) <= 2


@pytest.mark.parametrize("name", ["w[i]", "w[:, i]", "select", "assigned", "counted"])
def test_out_of_range(name):
    compiled = jtorch.compile(READS[name])
    compiled(base(), T(1))
    for i in (4, -5):
        with pytest.raises(IndexError):
            compiled(base(), T(i))


def test_a_ring_buffer():
    def made():
        buffer, position = jtorch.zeros(4, 2), jtorch.zeros((), dtype=jtorch.int64)

        def f(x):
            buffer[position] = x
            position.add_(1).remainder_(4)
            return buffer.mean(0)

        return f, buffer, position

    (eager, *state), (plain, *others) = made(), made()
    compiled = jtorch.compile(plain)
    for k in range(6):
        x = jtorch.full((2,), float(k))
        assert repr(compiled(x)) == repr(eager(x))
        assert repr(others) == repr(state)


def test_gradients():
    def f(w, i):
        y = w[i] * w[:, i][:3].sum()
        z = w * 1
        z[i] = y * 2
        (y.sum() + (z**2).sum()).backward()
        return w.grad

    compiled = jtorch.compile(f)
    for i in INDICES:
        expected = f(base().requires_grad_(), T(i))
        assert jtorch.allclose(compiled(base().requires_grad_(), T(i)), expected)


def changed_after(w, i):
    w = w.clone()
    row = w[i]
    w.add_(1)
    return row * 1


def changed_on_the_tape(w, i):
    w = w.clone().requires_grad_() * 1
    w[i] += 1
    return w.sum()


def changed_by_another(w, i):
    w = w.clone()
    row, other = w[i], w[i]
    row.add_(1)
    return other + 1


def changed_in_places_that_are_one(w, i):
    row = w.unsqueeze(0).expand(2, *w.shape)[i]  # all rows are w: eager mode writes there
    row.mul_(2)
    return row * 1


@pytest.mark.parametrize(
    "f", [changed_after, changed_on_the_tape, changed_by_another, changed_in_places_that_are_one]
)
def test_what_only_a_view_would_see_is_refused(f):
    told = r"test_tensor_indices\.py:\d+ in changed_.*x\[i\] with a"
    with pytest.raises(jtorch.errors.CompileError, match=told):
        jtorch.compile(f)(base(), T(1))


def test_beside_arrays_apart():
    with pytest.raises(jtorch.errors.CompileError, match="index in two steps"):
        jtorch.compile(lambda w, i: w[None][i, :, [0, 1]])(base(), T(0))


def the_loss_alone(x, i):
    loss = x[i].double().sin().sum()
    loss.backward()
    return loss.detach()


def the_loss_and_more(x, i):
    picked = x[i[0]]
    loss = sum((v.double().sin().sum() for v in (x.tanh(), picked, x)), jtorch.zeros(()))
    loss.backward()
    return loss.detach(), picked.detach() * 2


def two_picks(x, i):
    first, second = x[i[0]], x[i[-1]]
    loss = first.exp() * second.cos()
    loss.backward()
    return loss.detach(), first.detach().sin(), second.detach() + 1


def test_a_number_that_is_picked_and_goes_back_is_there_for_others(unjitted):
    """What spreads its gradient over ``x`` stores nothing else: a step before stores the picked number."""
    cases = ((the_loss_alone, jtorch.tensor(1)), (the_loss_and_more, jtorch.tensor([2, 0])),
             (two_picks, jtorch.tensor([0, 1])))  # fmt: skip
    for function, i in cases:
        compiled = jtorch.compile(function)
        for k in (0, 1):
            x, y = (jtorch.tensor([0.3, 0.5, -0.7]).add_(k).requires_grad_() for _ in range(2))
            assert repr(compiled(y, i)) == repr(function(x, i)), function.__name__
            assert jtorch.allclose(y.grad, x.grad, rtol=1e-6), function.__name__
