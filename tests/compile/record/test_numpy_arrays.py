"""What ``.numpy()`` gives in a compiled function: arithmetic, elements, memory, and what is refused."""

from __future__ import annotations

import functools
import random
import warnings

import numpy as np
import pytest

import jtorch
import jtorch.nn.functional as F
from jtorch import nn
from jtorch.core.errors import CompileError
from tests.each import each

OUTSIDE = np.arange(3, dtype=np.float32) + 1
WIDE = np.arange(9.0).reshape(3, 3)
WEIGHT = jtorch.ones(3, requires_grad=True)


def _element_before_a_write(x):
    y = x * 2
    element, row = y.numpy()[0, 0], y.numpy()[0]
    y.add_(1)
    return element, row + 0, y.numpy()[1, ...]


def _written_through_a_tensor(x):
    array = (x * 2).numpy()
    jtorch.from_numpy(array).add_(1)
    return array, array + 0


def _sums(x):
    total, of_rows = 0.0, 0.0
    for row in x.numpy():
        of_rows = of_rows + row * 0.5
        for value in row:
            total += value
    return total, of_rows, sum(row[0] for row in x.numpy())


def _branch(x):
    return x * 2 if x.numpy().max() > 1.0 else x - 1


def _normalised(x):
    a = x.numpy()
    a = (a - a.mean()) / (a.std() + 1e-8)
    return jtorch.tensor(a), a.var(axis=0), a.var(ddof=1)


def _turned(x):
    out, running = [], 0.0
    for row in x.numpy()[::-1]:
        running = 0.9 * running + row[0]
        out.append([running])
    out.reverse()
    return (
        jtorch.tensor(out, dtype=jtorch.float),
        x.numpy()[:, ::-1] * 1,
        x.numpy()[::-1].reshape(-1)[::-1] + 0,
    )


def _own_array_that_changes(x):
    own = np.ones(3, np.float32)
    found = own * x.numpy()
    own[0] = 7
    return found


RECORDED = {
    "the array": lambda x: (x.numpy(), (x * 2).numpy(), [{"a": (x * 3).numpy()}]),
    "views": lambda x: (x.numpy()[1:], x.numpy().T, x.numpy()[None, 0], x.numpy()[..., 0], x.numpy()[:, 1:3]),
    "twice": lambda x: (x.numpy() is x.numpy(), (x * 2).numpy(), x),
    "elements": lambda x: (x.numpy()[0, 1], x.numpy()[-1][0], x.sum().numpy(), x.sum().numpy()[()] + 1),
    "shapes": lambda x: (x.numpy().reshape(-1), x.numpy().flatten(), x.numpy().squeeze(), x.numpy().copy()),
    "facts": lambda x: (x.numpy().shape, len(x.numpy()), x.numpy().ndim, x.numpy().dtype, x.numpy().nbytes),
    "python numbers": lambda x: (2 * x.numpy() - 1.5, 1 / x.numpy(), -x.numpy(), abs(x.numpy())),
    "numbers": lambda x: (np.float64(2) * x.numpy(), x.numpy() / np.float32(3), np.int64(1) - x.numpy()),
    "arrays": lambda x: (OUTSIDE * x.numpy(), x.numpy() - OUTSIDE, x.numpy()[:1] + WIDE, WIDE[0] / x.numpy()),
    "tensors": lambda x: (x * x.numpy(), x.numpy() * x, x.double().numpy() * x, x * x.double().numpy()),
    "an element and a tensor": lambda x: (x + x.numpy()[0, 0], x.double().numpy()[0, 0] * x),
    "integers": lambda x: (
        x.argmax(1).numpy() + 1, x.argmax(1).numpy() / 2, x.argmax(1).numpy() * 0.5,
        x.argmax(1).int().numpy() * 2, x.argmax(1).numpy().sum(),
    ),
    "powers": lambda x: (x.numpy() ** 2, x.numpy() ** 3.0, x.numpy() ** -1),
    "comparisons": lambda x: (
        x.numpy() < 0.5, np.less(OUTSIDE, x.numpy()), x.numpy() == x.numpy(), (x > 0).numpy()
    ),
    "reductions": lambda x: (
        x.numpy().sum(), x.numpy().mean(axis=0), x.numpy().max(), x.numpy().min(axis=1), np.mean(x.numpy()),
        np.sum(x.numpy(), axis=0), x.numpy().mean(keepdims=True), x.numpy().sum() / x.numpy().size,
    ),
    "functions": lambda x: (np.exp(x.numpy()), np.sqrt(abs(x.numpy())[0, 0]), np.add(OUTSIDE, x.numpy())),
    "functions of an item": lambda x: (
        np.exp(x.mean().item()), float(np.sqrt(x.sum().abs().item())), np.isnan(x.sum().item()),
        np.add(x.sum().item(), 1),
        np.maximum(x.argmax().item(), 2), x * np.tanh(x.mean().item()), np.less((x > 0).sum().item(), 2.5),
    ),
    "casts": lambda x: (x.numpy().astype(np.float64), x.numpy().astype(int), x.numpy().astype("float32")),
    "classes": lambda x: (
        isinstance(x.numpy(), np.ndarray), isinstance(x.numpy(), jtorch.Tensor),
        isinstance(x.numpy()[0, 0], np.floating), isinstance(x.double().numpy()[0, 0], float),
    ),
    "tensors of lists": lambda x: (
        jtorch.tensor([row[0] for row in x.numpy()]),
        jtorch.tensor([[row[0], 1.0] for row in x.numpy()]),
        jtorch.tensor([1 * row for row in x.numpy()]),
        jtorch.tensor(x.numpy()[0, 0]), jtorch.tensor(x.numpy()),
    ),
    "tensors of arrays": lambda x: (jtorch.from_numpy(x.numpy()[0]) + 1, jtorch.as_tensor(x.numpy())),
    "tensors of early classes": lambda x: (
        jtorch.FloatTensor(x.numpy() * 2), jtorch.Tensor(x.double().numpy()), jtorch.DoubleTensor(x.numpy()),
        jtorch.LongTensor(x.argmax(1).numpy()), x.new(x.double().numpy()),
    ),
    "numpy.array of numbers": lambda x: (
        np.array([x.sum().item(), 1.0]), np.array([[row[0], 1] for row in x.numpy()]),
        np.array(list(x.numpy())), np.array([(x > 0).sum().item(), 2]) / 4,
        np.asarray([x.numpy()[0, 0], x.numpy()[0, 1]]),
    ),
    "statistics of numbers": lambda x: (
        np.mean([x.sum().item(), x.max().item()]), np.sum([1.5, x.sum().item()]),
        np.std([x.numpy()[0, 0], 1]),
    ),
    "joined": lambda x: (
        np.stack([x.numpy(), x.numpy() * 2]), np.concatenate([x.numpy(), WIDE]), np.stack(list(x.numpy())),
    ),
    "joined along an axis": lambda x: (
        np.stack([x.numpy(), WIDE], axis=1), np.stack([x.numpy(), x.numpy()], -1),
        np.vstack([x.numpy(), WIDE[0][None]]),
        np.concatenate((x.numpy(), WIDE[:, :2]), axis=1), np.concatenate([x.numpy(), x.numpy()], -1),
        np.hstack([x.numpy(), WIDE]), np.hstack([x.numpy()[0], OUTSIDE]), np.vstack([x.numpy()[0], OUTSIDE]),
        np.expand_dims(x.numpy(), 0), np.repeat(x.numpy(), 2, axis=1), x.numpy().repeat(2),
    ),
    "places": lambda x: (
        x.numpy().argmax(), x.numpy().argmax(1), np.argmax(x.numpy(), axis=0), np.argmin(x.numpy(), axis=-1),
        (x * 0).numpy().argmax(1), jtorch.where(x > 0.5, jtorch.nan, x).numpy().argmax(axis=1),
    ),
    "counts": lambda x: (
        (x.numpy() > 0.5).sum(), (x.numpy() > 0.5).sum(axis=1), (x.numpy() > 0.5).mean(),
        np.mean(x.numpy() > 0.5, 0),
        (x.argmax(1).numpy() == np.arange(3)).mean(), x.argmax(1).numpy().mean(), x.int().numpy().sum(0),
        np.any(x.numpy() > 0.5), (x.numpy() > 0.5).all(axis=1), np.all(x.numpy() > -9, keepdims=True),
    ),
    "bounds": lambda x: (
        np.clip(x.numpy(), 0.1, 0.5), x.numpy().clip(max=0.5), np.clip(x.numpy(), a_min=0.25, a_max=None),
        x.numpy().clip(np.float64(0.1), 1), np.maximum(x.numpy(), WIDE), np.minimum(0.5, x.numpy()),
        np.maximum(jtorch.where(x > 0.5, jtorch.nan, x).numpy(), 0), x.argmax(1).numpy().clip(0.5, 1),
        x.numpy().clip(0, x.sum().item()),
    ),
    "choices": lambda x: (
        np.where(x.numpy() > 0.5, 1, 0), np.where(x.numpy() > 0.5, x.numpy(), 0.0),
        np.where(x.numpy() > 0.5, 1.5, WIDE),
        np.where(WIDE > 2, x.numpy(), np.float64(2)), np.where((x > 0.5).numpy(), x.numpy()[0, 0], x.numpy()),
        (x.numpy() > 0.5) & (x.numpy() < 0.8), ~(x.numpy() > 0.5) | (WIDE > 2),
        np.logical_not(x.numpy() > 0.5),
    ),
    "more functions": lambda x: (
        np.floor(x.numpy() * 3), np.ceil(x.numpy() * 3), np.round(x.numpy() * 4), np.rint(x.numpy() * 2),
        np.isnan(x.numpy()).any(), np.isfinite((x / 0).numpy()), np.isinf((x / 0).numpy()),
        np.square(x.numpy()),
        np.power(x.numpy(), 2), np.sin(x.numpy()), np.cos(x.double().numpy()), np.log1p(abs(x.numpy())),
        np.cumsum(x.numpy()), x.numpy().cumsum(axis=1), np.max(x.numpy(), axis=0), np.amin(x.numpy()),
    ),
    "products": lambda x: (
        x.numpy() @ x.numpy().T, np.dot(x.numpy(), OUTSIDE), x.numpy()[0] @ x.numpy()[1], WIDE @ x.numpy(),
        np.linalg.norm(x.numpy()), np.linalg.norm(x.numpy(), axis=1),
        np.matmul(x.numpy(), WIDE), x.numpy().dot(WIDE),
    ),
    "an index": lambda x: (x[x.argmax(1).numpy()], x[:, x.argmax(0).numpy()]),
    "a weight": lambda x: (WEIGHT.detach().numpy(), WEIGHT.detach().numpy() * x.numpy()),
    "python's numbers": lambda x: (
        float(x.numpy()[0, 0]), float(x.sum().numpy()), int(x.argmax().numpy()),
    ),
    "an item": lambda x: (x.numpy().mean().item(), x.numpy().max().astype(np.float64)),
    "a write": _element_before_a_write, "a write to the array": _written_through_a_tensor, "loops": _sums,
    "an own array that changes": _own_array_that_changes, "a branch": _branch,
    "normalised": _normalised, "turned": _turned,
}  # fmt: skip


def _in_place(x):
    a = (x * 2).numpy()
    a += 1
    return a


def _set(x):
    y = x * 2
    y.numpy()[0] = 5
    return y


def _turned_before_a_write(x):
    y = x * 2
    a = y.numpy()[::-1]
    y.add_(1)
    return a + 0


def _said(function, *args):
    try:
        return function(*args)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


EAGER = {
    "in place": _in_place, "set": _set, "turned before a write": _turned_before_a_write,
    "turned": lambda x: x.numpy()[::-1],
    "a tensor over what is turned": lambda x: _said(jtorch.from_numpy, x.numpy()[::-1]),
    "a tensor over a number": lambda x: _said(jtorch.from_numpy, x.numpy()[0, 0]),
    "an impossible shape": lambda x: _said(x.numpy().reshape, 7),
    "of nothing": lambda x: _said(x[:0].numpy().max),
    "compared with a tensor": lambda x: (_said(lambda: x == x.numpy()), _said(lambda: x > x.numpy()[0, 0])),
    "no axis": lambda x: x.numpy().sum(axis=()), "plus of bools": lambda x: _said(lambda: +(x > 0).numpy()),
    "too large": lambda x: _said(lambda: x.argmax(1).numpy() + 2**70),
    "bytes": lambda x: np.exp((x > 0).numpy()),
    "no such axis": lambda x: (_said(x.numpy().squeeze, 0), _said(x.numpy().sum, 3)),
    "the truth of several": lambda x: _said(lambda: 1 if x.numpy() else 2),
    "a root": lambda x: abs(x.numpy()) ** 0.5,
    "stacks of other shapes": lambda x: _said(np.stack, [x.numpy(), x.numpy()[0]]),
    "float of a row": lambda x: _said(float, x.numpy()[:1, :1]),
    "shapes of a number": lambda x: x.numpy()[0, 0].T,
    "two dots": lambda x: _said(lambda: x.numpy()[..., ...]),
    "a dtype of a sum": lambda x: x.numpy().sum(dtype=np.float64),
    "no copy": lambda x: x.numpy().astype(np.float32, copy=False), "an order": lambda x: x.numpy().ravel("F"),
    "branches on many means": lambda x: [1 if v > 0 else 2 for v in x.repeat(4, 4).numpy().mean(axis=0)],
    "type": lambda x: type(x.numpy()) is np.ndarray, "text": lambda x: f"{x.numpy().mean():.2f}",
    "an int": lambda x: int(x.numpy()[0, 0]), "round": lambda x: round(x.numpy().mean(), 2),
    "key": lambda x: {x.numpy()[0, 0]: 1}, "largest": lambda x: max(row[0] for row in x.numpy()),
    "sorted": lambda x: sorted(x.numpy()[0]), "tolist": lambda x: x.numpy().tolist(),
    "an array of a dtype": lambda x: np.array([x.numpy()[0, 0], 1.0], dtype=np.float64),
    "asarray": lambda x: np.asarray(x.numpy()),
    "of a tensor": lambda x: np.asarray(x), "stack": lambda x: _said(np.stack, [x.numpy(), x.numpy()], 4),
    "mask": lambda x: x.numpy()[x.numpy() > 0], "list index": lambda x: x.numpy()[[0, 1]],
    "where": lambda x: np.where(x.numpy() > 0), "where without bools": lambda x: np.where(x.numpy(), 1, 0),
    "clip": lambda x: _said(x.numpy().clip, x),
    "of an item": lambda x: np.where(x.numpy() > 0, 0, x.sum().item()),
    "matmul": lambda x: _said(lambda: x.numpy() @ x.numpy()[:2]), "half": lambda x: x.half().numpy() * 2,
    "bools": lambda x: (x > 0).numpy().cumsum(), "bits": lambda x: x.argmax(1).numpy() & 1,
    "a sign": lambda x: np.sign(x.numpy()), "floors": lambda x: np.floor(x.argmax(1).numpy()),
    "a norm": lambda x: np.linalg.norm(x.numpy(), 1), "the order": lambda x: np.argsort(x.numpy()),
    "digits": lambda x: np.round(x.numpy(), 1), "an array to write to": lambda x: np.zeros_like(x.numpy()),
    "no such axis to join": lambda x: _said(np.concatenate, [x.numpy(), WIDE], 2),
    "complex": lambda x: x.numpy() * 1j,
    "a text": lambda x: x.numpy() == "1",
}  # fmt: skip


def _calls():
    jtorch.manual_seed(0)
    return [jtorch.rand(3, 3) + 0.1, -jtorch.rand(3, 3), jtorch.rand(3, 3) * 3, jtorch.rand(3, 3) + 1]


def _check(found, expected):
    """Raise AssertionError where classes, dtypes, shapes or values differ."""
    assert type(found) is type(expected)
    if isinstance(found, dict):
        assert len(found) == len(expected)
        found, expected = [*found, *found.values()], [*expected, *expected.values()]
    if isinstance(found, (list, tuple)):
        assert len(found) == len(expected)
        for a, b in zip(found, expected, strict=True):
            _check(a, b)
    elif isinstance(found, jtorch.Tensor):
        _check(found.detach().numpy(), expected.detach().numpy())
    elif isinstance(found, (np.ndarray, np.generic)):
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    else:
        assert found == (pytest.approx(expected, rel=1e-5) if isinstance(expected, float) else expected)


@pytest.mark.slow
@each("name", RECORDED)
def test_is_recorded(name):
    function = RECORDED[name]
    compiled = jtorch.compile(function, fullgraph=True)
    for x in _calls():
        _check(compiled(x.clone()), function(x.clone()))
    assert len(compiled.retraces) <= (1 if name == "a branch" else 0), str(compiled.retraces)
    assert any(compiled.plans.values())


@each("name", EAGER)
def test_runs_eagerly(name):
    function = EAGER[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled = jtorch.compile(function, fullgraph=False)
        for x in _calls():
            _check(compiled(x.clone()), function(x.clone()))
    with pytest.raises(CompileError):
        jtorch.compile(function, fullgraph=True)(_calls()[0])


def test_a_mean_that_runs_along_runs_eagerly():
    """It would be recorded for each array that the function finds there."""

    def run(wrap):
        state = {"mean": np.zeros(3, np.float32), "scale": np.float64(1.0)}

        def step(x):
            state["mean"] = 0.9 * state["mean"] + 0.1 * x.numpy()
            state["scale"] = state["scale"] * 0.5 + x.numpy().max()
            return x - jtorch.from_numpy(state["mean"])

        wrapped = wrap(step)
        found = [wrapped(jtorch.arange(3.0) + k).tolist() for k in range(5)]
        return [*found, state["mean"].tolist(), float(state["scale"])], wrapped

    expected, _ = run(lambda f: f)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found, compiled = run(lambda f: jtorch.compile(f, fullgraph=False))
    assert found == expected and not any(compiled.plans.values())


def test_what_has_items_and_no_end():
    compiled = jtorch.compile(lambda x: x * float(np.r_[1.0, 2.0][0]))
    assert compiled(jtorch.ones(2)).tolist() == [1.0, 1.0]


def test_an_array_outside_that_is_turned_round():
    class Holder:
        array = np.arange(3.0)

    compiled = jtorch.compile(lambda x: x + jtorch.tensor(Holder.array), fullgraph=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for k in range(5):
            Holder.array = (np.arange(3.0) + k)[:: -1 if k > 2 else 1]
            assert compiled(jtorch.ones(3)).tolist() == (1 + Holder.array).tolist()


def test_beside_numbers_of_the_call():
    def function(x, s, n):
        a, total = x.numpy(), x.sum().item()
        return (
            s - a,
            a / s,
            s * a[0, 0],
            total - a,
            a * n,
            n - a[0],
            (s < a),
            (total >= a),
            s < a[0, 0],
            a[0, 0] == s,
        )

    compiled = jtorch.compile(function, fullgraph=True)
    for k, x in enumerate(_calls()):
        _check(compiled(x, k + 0.5, k + 3), function(x, k + 0.5, k + 3))
    assert len(compiled.retraces) <= 1


def test_sizes_move():
    compiled = jtorch.compile(
        lambda x: ((x.numpy() - x.numpy().mean()) * 2, x.numpy()[1:], x.numpy().T + 1), fullgraph=True
    )
    for rows in (3, 5, 4, 9, 2, 17):
        x = jtorch.rand(rows, 4)
        found = compiled(x)
        for a, b in zip(
            found, ((x.numpy() - x.numpy().mean()) * 2, x.numpy()[1:], x.numpy().T + 1), strict=True
        ):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    assert len(compiled.retraces) <= 2  # transposed rows have one more


def test_memory_is_shared_as_in_eager_mode():
    optimizer = jtorch.optim.SGD([WEIGHT], 0.1)

    def step(x):
        array = WEIGHT.detach().numpy()
        optimizer.zero_grad()
        (WEIGHT * x).sum().backward()
        optimizer.step()
        return array, array + 0, x.numpy()[1:]

    compiled = jtorch.compile(step, fullgraph=True)
    for k in range(3):
        x = jtorch.arange(3.0) + k
        before = WEIGHT.detach().clone()
        shown, copied, part = compiled(x)
        np.testing.assert_allclose(shown, (before - 0.1 * x).numpy(), rtol=1e-6)
        assert np.shares_memory(shown, WEIGHT.detach().numpy()) and np.shares_memory(part, x.numpy())
        assert not np.shares_memory(copied, shown)


def test_kept_outside():
    log, places = [], {}

    def step(x):
        log.append((x * 2).numpy())
        log.append((x * 3).numpy().mean())
        log.append(x.double().numpy().mean())  # a float of Python's, too
        places["last"] = x.exp().numpy()
        return x

    compiled = jtorch.compile(step, fullgraph=True)
    for x in _calls():
        compiled(x)
        assert type(log[-1]) is np.float64 and log.pop() == pytest.approx(x.double().mean().item())
        np.testing.assert_allclose(log[-2], x.numpy() * 2)
        np.testing.assert_allclose(places["last"], np.exp(x.numpy()), rtol=1e-6)
        assert type(log[-1]) is np.float32 and log[-1] == pytest.approx((x.numpy() * 3).mean(), rel=1e-6)


@pytest.mark.slow
def test_advantages_of_a_policy_gradient():
    """As they are written: backwards through the differences, by a Python loop over the array."""
    jtorch.manual_seed(0)
    net = nn.Linear(4, 1)
    optimizer = jtorch.optim.Adam(net.parameters(), lr=0.01)

    def update(s, s_prime, r, mask):
        target = r + 0.98 * net(s_prime) * mask
        delta = (target - net(s)).detach().numpy()
        advantages, advantage = [], 0.0
        for delta_t in delta[::-1]:
            advantage = 0.98 * 0.95 * advantage + delta_t[0]
            advantages.append([advantage])
        advantages.reverse()
        advantage = jtorch.tensor(advantages, dtype=jtorch.float)
        loss = (net(s) * advantage).mean() + F.smooth_l1_loss(net(s), target.detach())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach(), advantage

    rows = [
        (jtorch.randn(20, 4), jtorch.randn(20, 4), jtorch.randn(20, 1), jtorch.ones(20, 1)) for _ in range(4)
    ]
    start = {name: value.clone() for name, value in net.state_dict().items()}

    def run(function):
        net.load_state_dict(start)
        optimizer.state.clear()
        return [tuple(value.numpy().copy() for value in function(*row)) for row in rows]

    expected = run(update)
    compiled = jtorch.compile(update, fullgraph=True)
    for found, known in zip(run(compiled), expected, strict=True):
        for a, b in zip(found, known, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    assert len(compiled.retraces) <= 1


def test_a_loop_over_many_elements_runs_eagerly():
    compiled = jtorch.compile(lambda x: sum(v for v in x.numpy()), fullgraph=True)
    with pytest.raises(CompileError, match="a loop over 65 elements"):
        compiled(jtorch.rand(65))
    compiled = jtorch.compile(lambda x: sum(x.numpy()[k] for k in range(len(x))), fullgraph=True)
    with pytest.raises(CompileError, match="taking more than 256 elements"):
        compiled(jtorch.rand(257))


def test_what_a_cache_keeps_is_an_array():
    @functools.cache
    def kept(factor):
        return (WEIGHT.detach() * factor).numpy()

    class Holder:
        @functools.cached_property
        def mean(self):
            return (WEIGHT.detach() * 4).numpy().mean()

    holder = Holder()
    compiled = jtorch.compile(lambda x: x + jtorch.from_numpy(kept(2)) + holder.mean, fullgraph=True)
    found = [compiled(jtorch.ones(3)) for _ in range(2)]
    assert type(kept(2)) is np.ndarray and type(holder.mean) is np.float32
    np.testing.assert_allclose(found[1].numpy(), 1 + kept(2) + holder.mean)
    np.testing.assert_array_equal(*found)


def test_a_disabled_function_gets_no_stand_in():
    seen = []
    disabled = jtorch.compiler.disable(lambda array: seen.append(type(array)) or 1.0)
    compiled = jtorch.compile(lambda x: x * disabled(x.numpy()), fullgraph=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled(jtorch.ones(3))
    assert set(seen) == {np.ndarray}


@pytest.mark.parametrize("setting", ["0", "1"])
def test_in_both_modes(setting, monkeypatch):
    monkeypatch.setenv("JTORCH_JIT", setting)
    for mode in ("default", "interpret"):
        compiled = jtorch.compile(RECORDED["turned"], fullgraph=True, mode=mode)
        for x in _calls()[:2]:
            _check(compiled(x), RECORDED["turned"](x))


@pytest.mark.filterwarnings("ignore::jtorch.errors.EagerWarning")
def test_which_array_is_which_runs_eagerly():
    pool = [np.full(2, k, np.float32) for k in range(3)]

    def drawn(x):
        s, t = random.choices(pool, k=2)
        return x * (1 if s is t else 2), s is t, s is not t

    def passed(x, s, t):
        return x * (1 if s is t else 2), s is None

    x, compiled = jtorch.ones(2), jtorch.compile(drawn, fullgraph=False)
    random.seed(0)
    expected = [repr(drawn(x)) for _ in range(12)]
    random.seed(0)
    assert [repr(compiled(x)) for _ in range(12)] == expected
    compiled = jtorch.compile(passed, fullgraph=False)
    for s, t in ((0, 0), (0, 1), (1, 1), (2, 0)):
        assert repr(compiled(x, pool[s], pool[t])) == repr(passed(x, pool[s], pool[t]))


ROLLOUTS = {  # of a list of arrays that are others at each call
    "a tensor": lambda rows: jtorch.tensor(np.array(rows), dtype=jtorch.float) * 2,
    "from numpy": lambda rows: jtorch.from_numpy(np.array(rows)) + 1,
    "returned": lambda rows: np.asarray(rows) * 2,
    "of a tuple": lambda rows: np.array(tuple(rows)),
    "nested": lambda rows: np.array([rows, rows]),
    "beside numbers": lambda rows: np.array([rows[0], [1.0, 2.0, 3.0]]),
    "the largest": lambda rows: np.max(rows),
    "shape": lambda rows: np.array(rows).shape,
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
@pytest.mark.parametrize("name", ROLLOUTS)
def test_arrays_that_each_call_brings_become_one(name, dtype):
    class Agent:
        def __init__(self):
            self.data = []

    def run(wrap):
        agent = Agent()

        @wrap
        def train(x):
            made = ROLLOUTS[name](agent.data)
            agent.data = []
            return made, x * 2

        told = []
        for n in range(5):
            agent.data = [(np.arange(3) * (k + 1) + n).astype(dtype) for k in range(4)]
            made, _ = train(jtorch.ones(2))
            found = made.numpy() if isinstance(made, jtorch.Tensor) else np.asarray(made)
            told.append((type(made), found.dtype, found.tolist(), agent.data))
        return told, train

    expected, _ = run(lambda f: f)
    found, train = run(jtorch.compile)
    assert found == expected
    assert len(train.retraces) <= 1  # that it is another list each time


def test_arrays_of_other_dtypes_are_guarded_as_they_were():
    rows = [np.arange(3, dtype=np.uint8)]

    def f(x):
        return x * jtorch.tensor(np.array(rows)).sum()

    compiled = jtorch.compile(f)
    for n in range(3):
        rows[0] = np.arange(3, dtype=np.uint8) + n
        assert compiled(jtorch.ones(2)).tolist() == f(jtorch.ones(2)).tolist()


@pytest.mark.parametrize("dtype", [jtorch.float32, jtorch.float16, jtorch.bfloat16])
def test_arithmetic_with_a_number_has_the_dtype_that_numpy_gives_it(dtype):
    """NumPy has rules of its own for bfloat16: beside a number it is float32, which result_type() denies."""
    forms = {
        "array": lambda x: jtorch.tensor(x.numpy() + 1.5),
        "elements": lambda x: jtorch.tensor([0.5 + v for v in x.numpy()]),
        "two": lambda x: jtorch.tensor(x.numpy() * np.float32(2)),
    }
    for name, form in forms.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # arithmetic in 16 bits runs eagerly
            compiled = jtorch.compile(form, fullgraph=False)
            found = [compiled(jtorch.ones(3, dtype=dtype) * k) for k in (1, 2, 3)]
        expected = [form(jtorch.ones(3, dtype=dtype) * k) for k in (1, 2, 3)]
        assert [(t.dtype, t.tolist()) for t in found] == [(t.dtype, t.tolist()) for t in expected], name
