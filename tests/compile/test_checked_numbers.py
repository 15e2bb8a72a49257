"""A number that a function of the library checks before it computes is checked at each call of a compiled
function, however the number comes: what eager mode refuses is refused, in its words."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import jtorch
import jtorch.distributions as D
import jtorch.nn.functional as F

X = jtorch.tensor([-2.0, 0.5, 3.0])
ROWS = jtorch.tensor([[1.0, -2.0, 0.5], [0.0, 3.0, 1.0]])
WHOLE = jtorch.tensor([1, 5, -3])
BYTES = jtorch.tensor([1, 5, -3], dtype=jtorch.int8)
LABELS = jtorch.tensor([1, 0])
FIRST = jtorch.tensor([0])


def _with_first(n):
    made = BYTES.clone()
    made[0] = n
    return made


# functions of a number, with three numbers at equal distances: two that are taken, and one that is refused
FLOATS = {
    "huber_loss": (lambda n: F.huber_loss(X, X + 2, delta=n), (2.0, 0.5, -1.0)),
    "HuberLoss": (lambda n: jtorch.nn.HuberLoss(delta=n)(X, X + 2), (2.0, 0.5, -1.0)),
    "smooth_l1_loss": (lambda n: F.smooth_l1_loss(X, X + 2, beta=n), (2.0, 0.5, -1.0)),
    "SmoothL1Loss": (lambda n: jtorch.nn.SmoothL1Loss(beta=n)(X, X + 2), (2.0, 0.5, -1.0)),
    "celu": (lambda n: F.celu(X, n), (2.0, 1.0, 0.0)),
    "celu_": (lambda n: jtorch.celu_(X.clone(), n), (2.0, 1.0, 0.0)),
    "hardtanh": (lambda n: F.hardtanh(X, 0.0, n), (2.0, 0.5, -1.0)),
    "hardtanh of min_val": (lambda n: F.hardtanh(X, n, 1.0), (-2.0, 0.0, 2.0)),
    "softshrink": (lambda n: F.softshrink(X, n), (2.0, 0.5, -1.0)),
    "rrelu": (lambda n: F.rrelu(X, n, 0.5), (0.125, 0.5, 0.875)),
    "gaussian_nll_loss": (lambda n: F.gaussian_nll_loss(X, X + 1, n), (2.0, 0.5, -1.0)),
    "triplet_margin": (
        lambda n: F.triplet_margin_with_distance_loss(ROWS, ROWS + 1, ROWS * 2, margin=n), (2.0, 0.5, -1.0),
    ),
    "triplet_margin_loss": (
        lambda n: F.triplet_margin_loss(ROWS, ROWS + 1, ROWS * 2, margin=n), (2.0, 0.5, -1.0),
    ),
    "label_smoothing": (lambda n: F.cross_entropy(ROWS, LABELS, label_smoothing=n), (0.25, 0.875, 1.5)),
    "dropout": (lambda n: F.dropout(X, n), (0.25, 0.875, 1.5)),
    "dropout1d": (lambda n: F.dropout1d(ROWS[None], n), (0.75, 0.25, -0.25)),
    "attention": (
        lambda n: F.scaled_dot_product_attention(ROWS, ROWS, ROWS, dropout_p=n), (0.25, 0.75, 1.25),
    ),
    "uniform_": (lambda n: X.clone().uniform_(0.0, n), (2.0, 0.5, -1.0)),
    "normal_": (lambda n: X.clone().normal_(0.0, n), (2.0, 0.5, -1.0)),
    "normal": (lambda n: jtorch.normal(0.0, n, (3,)), (2.0, 0.5, -1.0)),
    "log_normal_": (lambda n: X.clone().log_normal_(0.0, n), (1.0, 0.25, -0.5)),
    "cauchy_": (lambda n: X.clone().cauchy_(0.0, n), (2.0, 0.5, -1.0)),
    "exponential_": (lambda n: X.clone().exponential_(n), (2.0, 0.5, -1.0)),
    "bernoulli_": (lambda n: X.clone().bernoulli_(n), (0.25, 0.875, 1.5)),
    "bernoulli": (lambda n: jtorch.bernoulli(X, n), (0.25, 0.875, 1.5)),
    "isclose": (lambda n: jtorch.isclose(X, X + 0.5, atol=n), (2.0, 0.25, -1.5)),
    "Normal": (lambda n: D.Normal(X, n).log_prob(X), (2.0, 0.5, -1.0)),
    "Laplace": (lambda n: D.Laplace(0.0, n).log_prob(X), (2.0, 0.5, -1.0)),
    "Cauchy": (lambda n: D.Cauchy(X, n).log_prob(X), (2.0, 0.5, -1.0)),
    "Exponential": (lambda n: D.Exponential(n).log_prob(X.abs()), (2.0, 0.5, -1.0)),
    "Bernoulli": (lambda n: D.Bernoulli(n).log_prob((X > 0).float()), (0.25, 0.875, 1.5)),
    "Uniform": (lambda n: D.Uniform(-3.0, n).log_prob(X), (6.0, 3.5, 1.0)),
    "masked_fill": (lambda n: X.half().masked_fill(X > 0, n), (1.0, 40000.0, 79999.0)),
    "full": (lambda n: jtorch.full((2,), n, dtype=jtorch.float16), (1.0, 40000.0, 79999.0)),
    "pow of 16 bits": (lambda n: X.half() ** n, (2.0, 40001.0, 80000.0)),
}  # fmt: skip
INTS = {
    "pow": (lambda n: WHOLE**n, (3, 1, -1)),
    "jtorch.pow": (lambda n: jtorch.pow(WHOLE, n), (3, 1, -1)),
    "pow of bools": (lambda n: (WHOLE > 0) ** n, (3, 1, -1)),
    "pow_": (lambda n: WHOLE.clone().pow_(n), (3, 1, -1)),
    "clamp min": (lambda n: BYTES.clamp(min=n), (2, 101, 200)),
    "clamp max": (lambda n: BYTES.clamp(max=n), (2, 101, 200)),
    "clamp_": (lambda n: BYTES.clone().clamp_(n), (2, 101, 200)),
    "clamp_max": (lambda n: jtorch.clamp_max(BYTES, n), (2, 101, 200)),
    "where": (lambda n: jtorch.where(BYTES > 0, n, BYTES), (2, 101, 200)),
    "where not": (lambda n: jtorch.where(BYTES > 0, BYTES, n), (2, 101, 200)),
    "addcmul": (lambda n: jtorch.addcmul(BYTES, BYTES, BYTES, value=n), (2, 101, 200)),
    "add": (lambda n: BYTES.add(BYTES, alpha=n), (2, 101, 200)),
    "add to a number": (lambda n: BYTES.add(1, alpha=n), (2, 101, 200)),
    "sub": (lambda n: BYTES.sub(BYTES, alpha=n), (2, 101, 200)),
    "rsub": (lambda n: jtorch.rsub(BYTES, BYTES, alpha=n), (2, 101, 200)),
    "addr": (lambda n: jtorch.addr(BYTES[:, None] * BYTES, BYTES, BYTES, alpha=n), (2, 101, 200)),
    "masked_fill": (lambda n: BYTES.masked_fill(BYTES > 0, n), (2, 101, 200)),
    "fill_": (lambda n: BYTES.clone().fill_(n), (2, 101, 200)),
    "full_like": (lambda n: jtorch.full_like(BYTES, n), (2, 101, 200)),
    "new_full": (lambda n: BYTES.new_full((2,), n), (2, 101, 200)),
    "index_fill": (lambda n: BYTES.index_fill(0, FIRST, n), (2, 101, 200)),
    "scatter": (lambda n: BYTES.scatter(0, FIRST, n), (2, 101, 200)),
    "pad": (lambda n: F.pad(BYTES, (1, 1), value=n), (2, 101, 200)),
    "pad of bytes": (lambda n: F.pad(BYTES.abs().byte(), (1, 1), value=n), (7, 3, -1)),
    "setitem": (_with_first, (2, 101, 200)),
    "threshold": (lambda n: F.threshold(BYTES, 0, n), (2, 101, 200)),
    "hardtanh": (lambda n: F.hardtanh(BYTES, -1, n), (2, 101, 200)),
    "scalar_tensor": (lambda n: jtorch.scalar_tensor(n, dtype=jtorch.int8), (2, 101, 200)),
    "fill_diagonal_": (lambda n: (BYTES[:, None] * BYTES).fill_diagonal_(n), (2, 101, 200)),
}


def argument(program, wrap):
    function = wrap(lambda x, n: program(n))
    return lambda n: function(X, n)


def read_from_a_dict(program, wrap):
    state = {}
    function = wrap(lambda x: program(state["n"]))

    def call(n):
        state["n"] = n
        return function(X)

    return call


def counter(program, wrap):
    state = {}

    def counted(x):
        state["n"] += state["by"]
        return program(state["n"])

    function = wrap(counted)

    def call(n):
        if not state:
            state.update(n=n, by=0)
        elif not state["by"]:
            state["by"] = n - state["n"]
        return function(X)

    return call


def item(program, wrap):
    function = wrap(lambda x, t: program(t.item()))
    return lambda n: function(X, jtorch.tensor(n, dtype=jtorch.float64 if type(n) is float else None))


def sum_of_arguments(program, wrap):
    function = wrap(lambda x, n, m: program(n + m))
    return lambda n: function(X, n, 0.0 if type(n) is float else 0)


WAYS = (argument, read_from_a_dict, counter, item, sum_of_arguments)


def _outcome(call, number):
    jtorch.manual_seed(0)
    try:
        found = call(number)
    except jtorch.errors.CompileError:
        raise
    except Exception as error:
        return type(error).__name__, str(error).split(" (at ")[0]
    return found.dtype, repr(found.tolist())


def _check(program, numbers, way):
    eager = way(program, lambda f: f)
    compiled = way(program, jtorch.compile(mode="interpret"))
    for k, number in enumerate(numbers):
        want, got = _outcome(eager, number), _outcome(compiled, number)
        assert want == got, f"with {number}, after {numbers[:k]}"
        if k == 2:
            assert isinstance(want[0], str), f"{number} is taken: {want}"


def _check_all(cases, ways=WAYS):
    failures = []
    for name, (program, numbers) in cases.items():
        for way in ways:
            try:
                _check(program, numbers, way)
            except Exception as error:
                failures.append(f"{name}, {way.__name__}: {type(error).__name__}: {str(error)[:400]}")
    assert not failures, "\n".join(failures)


@pytest.mark.slow
def test_floats_are_checked_at_each_call():
    _check_all(FLOATS)


@pytest.mark.slow
def test_integers_are_checked_at_each_call():
    _check_all(INTS)


@pytest.mark.slow
def test_integers_in_the_place_of_floats_are_checked_at_each_call():
    whole = {k: (f, [round(4 * n) for n in ns]) for k, (f, ns) in FLOATS.items() if ns[2] <= 0 < ns[1]}
    for name in ("dropout1d", "gaussian_nll_loss"):  # of which only a float counts as a number
        del whole[name]
    assert len(whole) > 15
    _check_all(whole)


def test_an_attribute_of_a_module_that_the_function_changes_is_checked_at_each_call():
    made = jtorch.nn.HuberLoss(delta=1.5)

    def step(criterion, x):
        criterion.delta -= 1.0
        return criterion(x, x + 2)

    eager, mine = copy.deepcopy(made), made
    compiled = jtorch.compile(lambda x: step(mine, x), mode="interpret")
    assert compiled(X).item() == step(eager, X).item()
    for f in (compiled, lambda x: step(eager, x)):
        with pytest.raises(RuntimeError, match="does not support non-positive values for delta"):
            f(X)
    assert mine.delta == eager.delta == -0.5


@pytest.mark.slow
def test_numbers_that_were_floats_once_are_checked_as_integers():
    numbers = (1.5, 2, 7, 2**31)
    programs = {
        "where": lambda x, n: jtorch.where(x > 0, n, x),
        "clamp": lambda x, n: x.clamp(max=n),
        "add": lambda x, n: x.add(1, alpha=n),
        "addcmul": lambda x, n: x.addcmul(x, x, value=n),
    }
    failures = []
    for name, program in programs.items():
        for way in (argument, read_from_a_dict):
            calls = [
                way(lambda n, f=program: f(WHOLE.int(), n), wrap) for wrap in (lambda f: f, jtorch.compile)
            ]
            for number in numbers:
                want, got = (_outcome(call, number) for call in calls)
                if want != got:
                    failures.append(f"{name}, {way.__name__}, with {number}: {got}, want {want}")
    assert not failures, "\n".join(failures)


INFINITE = {
    "masked_fill": lambda x, n: x.masked_fill(x > 0, n),
    "fill_": lambda x, n: x.clone().fill_(n),
    "full": lambda x, n: jtorch.full((2,), n, dtype=x.dtype),
    "new_full": lambda x, n: x.new_full((2,), n),
    "index_fill": lambda x, n: x.index_fill(0, FIRST, n),
    "scatter": lambda x, n: x.scatter(0, FIRST, n),
    "pad": lambda x, n: F.pad(x, (1, 1), value=n),
    "fill_diagonal_": lambda x, n: (x[:, None] * x).fill_diagonal_(n),
    "clamp": lambda x, n: x.clamp(max=n),
    "where": lambda x, n: jtorch.where(x > 0, n, x),
    "add": lambda x, n: x.add(x, alpha=n),
    "addcmul": lambda x, n: x.addcmul(x, x, value=n),
    "setitem": lambda x, n: x.clone().masked_fill_(x > 0, n),
    "threshold": lambda x, n: F.threshold(x, 0.0, n),
    "linspace": lambda x, n: jtorch.linspace(0.0, n, 5),
    "linspace from": lambda x, n: jtorch.linspace(n, 2.0, 4),
    "isin": lambda x, n: jtorch.isin(x, n),
    "Normal": lambda x, n: D.Normal(x, n).log_prob(x),
}


@pytest.mark.slow
def test_infinities_and_nan_of_item_are_what_they_are_in_eager_mode():
    failures = []
    numbers = [1.0, -1.5, *map(float, ("-inf", "nan", "inf")), 1e5, 1e39, 2.0]
    for name, program in INFINITE.items():
        for dtype in (jtorch.float32, jtorch.float16):
            x = X.to(dtype)
            if name == "Normal" and dtype is jtorch.float16:
                continue
            calls = [item(lambda n, f=program, x=x: f(x, n), w) for w in (lambda f: f, jtorch.compile)]
            for number in numbers:
                want, got = (_outcome(call, number) for call in calls)
                if want != got:
                    failures.append(f"{name} of {dtype} with {number}: {got}, want {want}")
    assert not failures, "\n".join(failures)


def test_a_number_that_a_tensor_has_surely_is_not_looked_at():
    compiled = jtorch.compile(lambda x, t: x.clamp(max=t.item()).masked_fill(x > 0, t.sum().item()))
    compiled(X, jtorch.tensor(1.0))
    assert "expect" not in str(compiled.graph())


def test_two_numbers_to_choose_from_may_come_from_item():
    for other in (0.0, 1, 2.5):
        for program in (
            lambda x, n: jtorch.where(x > 1, x.sum().item(), n),
            lambda x, n: jtorch.where(x > 1, n, x.long().sum().item()),
            lambda x, n: jtorch.where(x > 1, n, 7),
        ):
            want, got = program(X, other), jtorch.compile(program)(X, other)
            assert want.dtype is got.dtype and want.tolist() == got.tolist()


BAD = {
    "scale": (lambda x, s: D.Normal(x, s).log_prob(x), [1.0, 2.0, 0.5], [1.0, 0.0, 1.0]),
    "probs": (lambda x, p: D.Categorical(p).sample(), [0.5, 0.25, 0.25], [0.5, -1.0, 0.5]),
    "probability": (lambda x, p: D.Bernoulli(p).log_prob((x > 0).float()), [0.5, 0.25, 1.0], [0.5, 2.0, 0.0]),
    "support": (
        lambda x, k: D.Categorical(jtorch.ones(3)).log_prob(k.sum().long()), [0.0, 1.0, 1.0], [4.0, 0.0, 0.0],
    ),
    "rate": (lambda x, s: D.Exponential(s).log_prob(x.abs()), [1.0, 2.0, 0.5], [1.0, float("nan"), 1.0]),
    "bounds": (lambda x, s: D.Uniform(-3.0, s).log_prob(x), [4.0, 5.0, 6.0], [4.0, 5.0, -6.0]),
}  # fmt: skip


def test_errors_that_tell_elements_are_eagers():
    for name, (program, good, bad) in BAD.items():
        compiled = jtorch.compile(program, mode="interpret")
        for numbers in (good, bad, good, bad):
            given = jtorch.tensor(numbers)
            want, got = (_outcome(lambda s, f=f: f(X, s), given) for f in (program, compiled))
            assert want == got, name
            assert isinstance(want[0], str) is (numbers is bad), name


def test_what_is_done_before_such_an_error_is_done_once():
    seen, total = [], jtorch.zeros(())

    @jtorch.compile
    def f(x, s):
        seen.append(len(seen))
        total.add_(1)
        try:
            return D.Normal(x, s).log_prob(x).sum()
        except ValueError:
            return total * 2

    for k, scale in enumerate((1.0, 0.0, 2.0, -1.0)):
        found = f(X, jtorch.tensor(scale))
        assert total.item() == k + 1 == len(seen)
        assert (found.item() == 2 * total.item()) is (scale <= 0)


def test_a_text_of_the_users_own_stays_an_error():
    for program in (lambda x: str(D.Normal(x, x)), lambda x: f"{x.sum().item()}", lambda x: repr(x)):
        with pytest.raises(jtorch.errors.CompileError, match="text"):
            jtorch.compile(program)(X.abs()[0])


@pytest.mark.slow
def test_a_divisor_that_is_0_is_an_error_though_nobody_reads_the_quotient():
    programs = [
        lambda y, q, held: y // q,
        lambda y, q, held: y % q,
        lambda y, q, held: jtorch.fmod(y, held["by"]),
        lambda y, q, held: jtorch.div(y, q, rounding_mode="trunc"),
        lambda y, q, held: y.clone().floor_divide_(q),
        lambda y, q, held: (y // q).shape[0],
        lambda y, q, held: y // (y * 0 + q),
        lambda y, q, held: q // jtorch.tensor([q]),
    ]
    for program in programs:

        def plain(y, q, held, program=program):
            program(y, q, held)
            return y * 2

        for step in (plain, jtorch.compile(plain)):
            for q in (1, 2, 0, 1, 0):
                y = jtorch.tensor([3, 1])
                if q:
                    assert step(y, q, {"by": q}).tolist() == [6, 2]
                else:
                    with pytest.raises(RuntimeError, match=r"ZeroDivisionError|division by zero"):
                        step(y, q, {"by": q})


CHECKED = {
    "huber_loss": lambda x, a: F.huber_loss(x, x * 2, delta=a),
    "smooth_l1_loss": lambda x, a: F.smooth_l1_loss(x, x * 2, beta=a),
    "hardtanh": lambda x, a: F.hardtanh(x, -a, a),
    "softshrink": lambda x, a: F.softshrink(x, a),
}


@pytest.mark.parametrize("kind", [float, np.float64, np.float32])
@pytest.mark.parametrize("name", CHECKED)
def test_numbers_of_numpy_are_checked_at_each_call_too(name, kind):
    function, x = CHECKED[name], jtorch.tensor([-1.0, 0.5, 2.0])
    step = jtorch.compile(function)
    for value in (0.5, -1.0, 0.25, -0.5, 0.75):
        found = []
        for f in (function, step):
            try:
                found.append(f(x, kind(value)).tolist())
            except (RuntimeError, ValueError) as error:
                found.append(type(error).__name__)
        assert found[0] == found[1]
        assert isinstance(found[0], str) == (value < 0)
