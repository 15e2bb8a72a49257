"""Numbers from ``.item()`` inside compiled functions: what leaves, adds up, decides, and is refused."""

from __future__ import annotations

import math
import numbers

import pytest

import jtorch

INPUTS = [jtorch.ones(4, 3) * k for k in (1.0, 2.0, -0.5)]


def check(f, plans=1):
    """``f`` compiled gives eager's very numbers, of the same types, with so many plans for all inputs."""
    compiled = jtorch.compile(f)
    for x in INPUTS:
        expected, found = f(x), compiled(x)
        assert repr(found) == repr(expected) and type(found) is type(expected)
    assert sum(map(len, compiled.plans.values())) == plans


def test_a_step_returns_its_loss():
    model = jtorch.nn.Linear(3, 2)
    optimizer = jtorch.optim.SGD(model.parameters(), lr=0.1)

    def step(x):
        optimizer.zero_grad()
        loss = (model(x) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss.item()

    start = {k: v.clone() for k, v in model.state_dict().items()}
    expected = [step(x) for x in INPUTS]
    model.load_state_dict(start)
    compiled = jtorch.compile(step)
    found = [compiled(INPUTS[0])]
    with jtorch.testing.assert_no_retrace(compiled):
        found += [compiled(x) for x in INPUTS[1:]]
    assert all(type(v) is float for v in found)
    assert found == pytest.approx(expected, rel=1e-6)


def running_sum(x):
    total = 0.0
    for row in x:
        total += row.sum().item() * 2
        total -= row.mean().item() / 3
    return total, -total, sum([x.sum().item(), 1])


def counts(x):
    right = (x > 0).sum().item()
    return right, right + 1, right / len(x), (x > 1).any().item(), 1.0 / (right + 1)


def containers(x):
    return {"loss": x.sum().item(), "parts": [x.mean().item(), (x.long().max().item(), "text")]}


def meets_tensors(x):
    n = (x > 0).sum().item()
    return x * x.sum().item(), x + n, x.long() * n, x.long() + x.sum().item(), x * (x > 1).any().item()


def fills(x):
    return jtorch.full((2,), (x > 0).sum().item()), jtorch.full((2,), x.sum().item())


def bounds(x):
    return x.clamp(max=x.mean().item()), jtorch.add(x, x, alpha=x.sum().item())


def before_a_write(x):
    y = x.clone()
    total = y.sum()
    first = total.item()
    y.add_(1.0)
    total.add_(5.0)
    return first, total.item(), first + y.sum().item()


def kinds(x):
    found = (x.sum().item(), (x > 0).sum().item(), (x > 0).any().item())
    return [[isinstance(v, kind) for v in found] for kind in (float, int, bool, numbers.Real, jtorch.Tensor)]


def with_float64_and_int32(x):
    return x.double().sum().item() + 0.1, x.int().sum().item(), x.half().sum().item()


@pytest.mark.parametrize(
    "f",
    [running_sum, counts, containers, meets_tensors, fills, bounds, before_a_write, kinds,
     with_float64_and_int32],
)  # fmt: skip
def test_numbers_leave_and_compute_without_a_recording_for_each(f):
    check(f)


def test_comparisons_are_branches():
    check(lambda x: x * 2 if x.sum().item() > 15 else x, plans=2)
    check(lambda x: (max(x.sum().item(), 3.0), abs(x.sum().item())), plans=2)
    check(lambda x: 1 if x.sum().item() else 2)


def test_interpreted_and_verified():
    for keywords in ({"mode": "interpret"}, {"verify": "every:1"}):
        compiled = jtorch.compile(counts, **keywords)
        for x in INPUTS:
            assert repr(compiled(x)) == repr(counts(x))


def test_division_by_zero_is_pythons():
    compiled = jtorch.compile(lambda x: 1.0 / x.sum().item())
    assert compiled(INPUTS[0]) == 1 / 12
    with pytest.raises(ZeroDivisionError):
        compiled(jtorch.zeros(3))


def test_gradients_stop_at_item():
    w = jtorch.ones(3, requires_grad=True)

    def f(x):
        w.grad = None
        (w * x * (w * x).sum().item()).sum().backward()
        return w.grad.clone()

    assert jtorch.compile(f)(jtorch.ones(3) * 2).tolist() == f(jtorch.ones(3) * 2).tolist() == [12.0] * 3


@pytest.mark.parametrize(
    "f",
    [
        lambda x: int(x.sum()),
        lambda x: f"{x.sum().item():.2f}",
        lambda x: str(x.sum().item()),
        lambda x: math.floor(x.sum().item()),
        lambda x: round(x.sum().item(), 2),
        lambda x: jtorch.ones((x > 0).sum().item()),
        lambda x: x[: (x > 9).sum().item()],
        lambda x: x.sum(dim=(x > 9).sum().item()),
        lambda x: {x.sum().item(): 1},
        lambda x: x.sum().item() ** x.mean().item(),
        lambda x: x.long().sum().item() * 3,
        lambda x: jtorch.tensor([x.sum()], dtype=jtorch.int64),
        lambda x: type(x.sum().item()) is float,
    ],
)
def test_what_needs_the_digits_is_refused_with_the_line(f):
    with pytest.raises(jtorch.errors.CompileError, match=r"test_items\.py:\d+ in <lambda>"):
        jtorch.compile(f)(INPUTS[0])


def test_integers_that_are_known_to_be_small_multiply():
    def scaled(x):
        return (x > 0).sum().item() * 3 * (x > 9).sum().item(), x.byte().max().item() * 1000

    for x in INPUTS:
        assert jtorch.compile(scaled)(x) == scaled(x)


def test_a_float_becomes_an_integer_where_it_is_one():
    compiled = jtorch.compile(lambda x: jtorch.tensor([x.sum().item()], dtype=jtorch.int64))
    for number in (3.7, -2.5, 1e6):
        assert compiled(jtorch.tensor([number])).tolist() == [int(jtorch.tensor(number).item())]
    for number in (1e19, float("nan"), -float("inf"), 2.0**63):
        with pytest.raises(RuntimeError, match="value cannot be converted to type int64 without overflow"):
            compiled(jtorch.tensor([number]))


@pytest.mark.slow
def test_a_number_that_leaked_is_an_error():
    @jtorch.compile
    def f(x):
        number = x.sum().item()
        raise ValueError(number > 0)

    with pytest.raises(ValueError) as found:
        f(INPUTS[0])
    kept = (found.traceback[-1].frame.f_locals["number"],)
    for use in (float, repr, lambda v: v + 1.0, lambda v: v > 0):
        with pytest.raises(jtorch.errors.CompileError, match="is used after that"):
            use(kept[0])


def test_more_than_one_element_is_eagers_error():
    with pytest.raises(RuntimeError, match="a Tensor with 12 elements cannot be converted to Scalar"):
        jtorch.compile(lambda x: x.item())(INPUTS[0])


def written_into_a_row(x):
    x[0] = x.sum().item()


def written_into_a_column(x):
    x[:, 0] = x.mean().item()


def written_into_an_element(x):
    x[0, 0] = x.norm().item()
    x[-1, -1] = x.argmax().item()


def written_into_rows(x):
    x[1:] = x.max().item()


def written_into_another(x):
    y = jtorch.zeros(3, 3)
    y[1] = x.sum().item()
    y[2:].fill_((x > 2).sum().item())
    return y


def written_into_a_diagonal(x):
    x.fill_diagonal_(x.sum().item())


def put_together(x):
    q = x.sum().item()
    return jtorch.cat([jtorch.full((1, 3), q), x[1:]]), jtorch.nn.functional.pad(x, (1, 0), value=q)


def made_of_several(x):
    return jtorch.tensor([x.sum().item(), x.max().item()]), jtorch.diag(jtorch.full((2,), x.amax().item()))


def made_of_rows(x):
    return jtorch.cat([jtorch.full((1,), row.max().item()) for row in x])


def chosen_by_a_number(x):
    return jtorch.where(x > 4, jtorch.full((3, 3), x.sum().item()), x).roll(1, 0)


def normalised_by_a_number(x):
    y = x.clone()
    y[0] = x.sum().item()
    y[1] = (y / y.sum().item()).max().item()
    return y


def test_a_number_of_all_elements_is_put_among_them(unjitted):
    """What is put there is known when all elements were read, not at each of them."""
    functions = (
        written_into_a_row, written_into_a_column, written_into_an_element, written_into_rows,
        written_into_another, written_into_a_diagonal, put_together, made_of_several, made_of_rows,
        chosen_by_a_number, normalised_by_a_number,
    )  # fmt: skip
    for function in functions:
        compiled = jtorch.compile(function)
        for k in range(2):
            wanted, found = (jtorch.arange(9.0).view(3, 3) + k for _ in range(2))
            expected, got = function(wanted), compiled(found)
            assert repr(got) == repr(expected), function.__name__
            assert found.tolist() == wanted.tolist(), function.__name__


def test_a_history_of_losses():
    model, history = jtorch.nn.Linear(3, 2), jtorch.zeros(10)

    @jtorch.compile
    def step(x, k):
        loss = model(x).square().mean()
        history[k] = loss.item()
        return loss

    for k in range(4):
        loss = step(jtorch.ones(5, 3) * k, k)
        assert history[k].item() == loss.item(), k
