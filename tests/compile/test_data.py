"""Tensors made inside compiled functions of tensors and numbers that change from call to call."""

from __future__ import annotations

import pytest

import jtorch

VALUES = ([1.0, 2.0, 4.0], [3.0, 2.0, 5.0], [0.0, 8.0, 1.0], [1.0, 2.0, 4.0])


def of_a_tensor(x):
    return jtorch.tensor(x), jtorch.tensor(x, dtype=jtorch.float64), jtorch.tensor(x.long())


def new_tensor(x):
    return x.new_tensor(x), x.long().new_tensor(x[:2]), x.new_tensor([x[0], 2])


def scalar_tensor(x):
    return jtorch.scalar_tensor(x[1]), jtorch.scalar_tensor(x.sum().item())


def of_lists(x):
    return (
        jtorch.tensor([x[0], x[1] * 2]), jtorch.tensor([[x[0], 1.5], [2, x.long()[1]]]),
        jtorch.tensor([x.long()[0], True]), jtorch.tensor((x[:1], 2.0)), jtorch.tensor([[x[0]], [x[1]]]),
        jtorch.tensor([x.double()[0], 1]), jtorch.tensor([x[0] > 1, x[1] > 2]),
    )  # fmt: skip


def of_items(x):
    n = (x > 1).sum().item()
    many = jtorch.tensor([x.sum().item(), n]), jtorch.tensor([n, 2])
    return many, jtorch.tensor(n), jtorch.tensor(n, dtype=jtorch.float32)


def other_constructors(x):
    return (
        jtorch.as_tensor([x[0], 1.0]), jtorch.asarray([x[0], 1.0]), jtorch.asarray(x, copy=True),
        jtorch.FloatTensor([x[0], 1.0]), jtorch.Tensor([x[0], x[1]]), jtorch.full((2,), x[0]),
        jtorch.full_like(x, x[0]), x.new_full((2,), x[1].item()), jtorch.nn.Parameter(x).detach() * 1,
        jtorch.FloatTensor(x) * 1, jtorch.stack([x[0], x[1]]),
    )  # fmt: skip


def written(x):
    y = x.clone()
    y[0] = x[1].item()
    y[1:] = x.sum().item()
    y[[True, False, False]] = (x > 1).sum().item()
    return y, x[([x.argmax(), 0],)]


FUNCTIONS = [of_a_tensor, new_tensor, scalar_tensor, of_lists, of_items, other_constructors, written]


@pytest.mark.parametrize("kind", ["argument", "computed", "captured"])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_tensor_of_what_changes_is_made_anew(function, kind):
    captured = jtorch.zeros(3)

    def f(x):
        return function({"argument": x, "computed": x * 1, "captured": captured}[kind])

    compiled = jtorch.compile(f)
    for value in VALUES:
        x = jtorch.tensor(value)
        captured.copy_(x)
        assert repr(compiled(x)) == repr(f(x))
    assert sum(map(len, compiled.plans.values())) == 1


def test_lists_with_float_arguments():
    def f(x, a):
        whole = jtorch.tensor([int(a)]), jtorch.LongTensor([a])
        return x + jtorch.tensor([a, 1, a * 2]), jtorch.tensor(a), whole

    compiled = jtorch.compile(f)
    for a in (0.5, 2.5, -1.0):
        assert repr(compiled(jtorch.ones(3), a)) == repr(f(jtorch.ones(3), a))


def test_the_tape_ends_at_the_data():
    def f(x):
        y = jtorch.tensor(x * 2, requires_grad=True)
        (y * y).sum().backward()
        return y.grad, y.is_leaf

    x = jtorch.ones(3, requires_grad=True)
    assert repr(jtorch.compile(f)(x)) == repr(f(x))
    assert x.grad is None


@pytest.mark.parametrize(
    "f",
    [lambda x: jtorch.tensor([x[0]], dtype=jtorch.int8), lambda x: jtorch.LongTensor([x[0], 1])],
)  # fmt: skip
def test_what_may_not_fit_into_integers_is_refused(f):
    with pytest.raises(jtorch.errors.CompileError, match=r"needs the number that .item\(\) gives"):
        jtorch.compile(f)(jtorch.ones(2))


def test_a_number_is_looked_at_before_it_becomes_an_integer(unjitted):
    for dtype in (jtorch.int64, jtorch.int8, jtorch.bool):
        compiled = jtorch.compile(lambda x: jtorch.tensor(x[0].item(), dtype=dtype))  # noqa: B023
        for value in (1.7, -2.5, 100.0, 200.0, 1e30, float("nan"), 9.2e18, 9.3e18, float("inf")):
            x = jtorch.tensor([value])
            try:
                expected = repr(compiled.function(x))
            except RuntimeError as error:
                with pytest.raises(RuntimeError, match=str(error)):
                    compiled(x)
            else:
                assert repr(compiled(x)) == expected, (dtype, value)
