"""``p.data = y`` of a tensor from outside: what each call does again, and what runs eagerly."""

import threading
import warnings

import numpy as np
import pytest

import jtorch
from jtorch import nn
from tests.each import each


def parameter(value=1.0, requires_grad=False):
    return nn.Parameter(jtorch.full((3,), value), requires_grad=requires_grad)


def averaged(p, x):
    p.data = p.data * 0.5 + x


RECORDED, EAGER = {}, {}  # name -> body(p, x, kept); what is in ``kept`` is compared, too


def recorded(body):
    RECORDED[body.__name__] = body
    return body


def eager(body):
    EAGER[body.__name__] = body
    return body


@recorded
def read_after_it(p, x, kept):
    averaged(p, x)
    return p * 2


@recorded
def the_tensor_itself(p, x, kept):
    averaged(p, x)
    return p


@recorded
def what_it_has_now(p, x, kept):
    averaged(p, x)
    return p.data, p.detach(), p


@recorded
def kept_outside(p, x, kept):
    averaged(p, x)
    kept.append(p)
    kept.append(p.data)
    return x * 1


@recorded
def what_is_returned_shares_it(p, x, kept):
    y = x * 2 + p
    p.data = y
    y.add_(1)
    return y, y.view(3, 1), y[:2]


@recorded
def of_numpy(p, x, kept):
    averaged(p, x)
    return p.numpy()


@recorded
def several_times(p, x, kept):
    for _ in range(4):
        averaged(p, x)
    return p * 1


@recorded
def written_afterwards(p, x, kept):
    old = p.data
    averaged(p, x)
    p.data.mul_(0.5)
    p.data.add_(old)
    return p * 2


@recorded
def without_reading_it(p, x, kept):
    p.data = x * 3
    return p + x


@recorded
def the_same_again(p, x, kept):
    p.data = p.data
    return p + x


@recorded
def branches_on_what_it_was(p, x, kept):
    y = x * 2 if p[0] > 1.5 else x * 3
    averaged(p, x)
    return y


@recorded
def as_a_number_before(p, x, kept):
    first = p.data[0].item()
    averaged(p, x)
    return x * first, first


@recorded
def by_setattr_and_map(p, x, kept):
    setattr(p, "data", next(v * 0.5 for v in [p.data]) + x)  # noqa: B010
    return p * 1


@recorded
def batched(p, x, kept):
    averaged(p, x)
    return jtorch.func.vmap(lambda row: row * p)(jtorch.stack([x, x]))


@recorded
def caught_in_the_middle(p, x, kept):
    try:
        averaged(p, x)
        raise KeyError
    except KeyError:
        p.data = p.data + 1
    return p + x


@eager
def what_it_had_is_returned(p, x, kept):
    old = p.data
    averaged(p, x)
    return old


@eager
def a_part_of_what_it_had_is_kept(p, x, kept):
    kept.append(p.data[1:])
    averaged(p, x)
    return x * 1


@eager
def what_it_had_is_a_gradient(p, x, kept):
    p.grad = p.data
    averaged(p, x)
    return p.grad * x


@eager
def a_view_of_it_is_returned(p, x, kept):
    averaged(p, x)
    return p.view(3, 1)


@eager
def what_it_had_is_written_before(p, x, kept):
    p.data.mul_(0.5)
    averaged(p, x)
    return p * 2


@eager
def what_it_had_is_written_later(p, x, kept):
    old = p.data
    averaged(p, x)
    old.add_(1)
    return p + old


@eager
def written_itself_afterwards(p, x, kept):
    averaged(p, x)
    p[0] = 7.0
    return p * 2


@eager
def written_under_another_name(p, x, kept):
    averaged(p, x)
    p.detach().add_(1)
    return p * 2


@eager
def memory_of_an_argument(p, x, kept):
    p.data = x
    return p + x


@eager
def a_view(p, x, kept):
    p.data = jtorch.stack([p * 0.5, x])[0]
    return p + x


@eager
def expanded(p, x, kept):
    p.data = x.sum().expand(3)
    return p + x


@eager
def another_dtype(p, x, kept):
    p.data = p.data.double() + x
    return p * 2


@eager
def another_shape(p, x, kept):
    p.data = jtorch.cat([p.data, x])[:4].clone()
    return p * 2


@eager
def beside_what_is_disabled(p, x, kept):
    averaged(p, x)
    return jtorch.compiler.disable(lambda: p * 2)()


def flattened(value):
    if isinstance(value, (list, tuple)):
        return [leaf for part in value for leaf in flattened(part)]
    return [value]


def seen_of(value, p):
    """What a caller can see of a result."""
    if isinstance(value, (float, str)):
        return value
    array = value.detach().numpy() if isinstance(value, jtorch.Tensor) else value
    facts = value is p, getattr(value, "_base", None) is p, np.shares_memory(array, p.data.numpy())
    return (type(value).__name__, *facts, array.tolist())


def outcome(body, wrap, calls=5):
    """What calls give, each before and after the caller has written to all that it got."""
    p, kept, told = parameter(), [], []
    f = wrap(lambda x: body(p, x, kept))
    for n in range(calls):
        found = flattened([f(jtorch.arange(3.0) + n), kept])
        told.append([seen_of(value, p) for value in found])
        for value in found:
            if not isinstance(value, float):
                value += 1
        told.append([p.tolist(), p.grad is None, *(seen_of(value, p) for value in found)])
    return told, f


@each("name", RECORDED)
def test_each_call_does_it_again(name):
    expected, _ = outcome(RECORDED[name], lambda f: f)
    found, f = outcome(RECORDED[name], jtorch.compile)
    assert repr(found) == repr(expected)
    assert len(f.retraces) <= 1


@each("name", EAGER)
def test_what_cannot_be_done_again_runs_eagerly(name):
    expected, _ = outcome(EAGER[name], lambda f: f)
    with pytest.warns(jtorch.errors.EagerWarning):
        found, _ = outcome(EAGER[name], lambda f: jtorch.compile(f, fullgraph=False))
    assert repr(found) == repr(expected)


def both_ways(run):
    """What ``run(wrap)`` gives in both modes, compared; and the function that it compiled."""
    made = []

    def compiled(f):
        made.append(jtorch.compile(f, fullgraph=False))
        return made[-1]

    jtorch.manual_seed(0)
    expected = run(lambda f: f)
    jtorch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = run(compiled)
    assert len(found) == len(expected)
    for mine, theirs in zip(found, expected, strict=True):
        assert np.allclose(mine, theirs, rtol=1e-5, equal_nan=True), (mine, theirs)
    return made[-1]


def state_of(*tensors):
    return [t.detach().numpy().copy() for t in tensors]


def test_averages_of_another_network():
    def run(wrap):
        query, key = nn.Linear(3, 2), nn.Linear(3, 2).requires_grad_(False)
        optimizer, told = jtorch.optim.SGD(query.parameters(), lr=0.1), []

        @wrap
        def step(x, m=0.9):
            with jtorch.no_grad():
                for q, k in zip(query.parameters(), key.parameters(), strict=True):
                    k.data = k.data * m + q.data * (1.0 - m)
            loss = (query(x) - key(x)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss

        for n in (4, 4, 5, 7, 4):
            told += state_of(step(jtorch.rand(n, 3)), *query.parameters(), *key.parameters())
        return told

    assert len(both_ways(run).retraces) <= 1  # a size that moves


def test_gradients_that_move_their_parameter():
    def run(wrap):
        net, told = nn.Linear(3, 2), []

        @wrap
        def step(x):
            loss = net(x).square().sum()
            net.zero_grad()
            loss.backward()
            for p in net.parameters():
                p.data = p.data - 0.1 * p.grad
            return loss

        for _ in range(5):
            told += state_of(step(jtorch.rand(4, 3)), *net.parameters(), *(p.grad for p in net.parameters()))
        return told

    assert not both_ways(run).retraces


def test_a_backward_outside_that_needs_none_of_it():
    def run(wrap):
        net, p, told = nn.Linear(3, 3), parameter(), []

        @wrap
        def f(x):
            averaged(p, x)
            return net(x).sum() + p.sum()

        for _ in range(3):
            f(jtorch.rand(3)).backward()
            told += state_of(p, net.weight.grad)
        return told

    both_ways(run)


def test_other_names_for_the_memory_that_it_had():
    def run(wrap):
        p, told = parameter(), []
        v, w = p.detach(), p.data.view(3, 1)

        @wrap
        def f(x):
            y = p + v + w.sum()
            averaged(p, x)
            return y, p + v

        for _ in range(4):
            told += state_of(*f(jtorch.rand(3)), p, v, w)
        return told

    both_ways(run)


SHARED = {  # what happens outside before the third call
    "memory of a tensor that is written": lambda p, q: setattr(p, "data", q.data),
    "of which a part is written": lambda p, q: setattr(p, "data", q.data[:]),
    "given to a tensor that is written": lambda p, q: setattr(q, "data", p.data),
    "new memory": lambda p, q: setattr(p, "data", jtorch.zeros(3)),
    "other strides": lambda p, q: setattr(p, "data", jtorch.zeros(6)[::2]),
    "another dtype": lambda p, q: setattr(p, "data", jtorch.zeros(3, dtype=jtorch.float64)),
    "one element": lambda p, q: setattr(p, "data", jtorch.zeros(1)),
    "gradients": lambda p, q: p.requires_grad_(),
    "elements": lambda p, q: p.data.fill_(3.0),
}


@each("name", SHARED)
def test_what_happens_to_it_between_calls(name):
    def run(wrap):
        p, q, told = parameter(), parameter(3.0), []

        @wrap
        def f(x):
            with jtorch.no_grad():
                averaged(p, x)
                q.mul_(0.9)
            y = (p * x).sum()
            if y.requires_grad:
                y.backward()
            return y.detach()

        for n in range(6):
            if n == 2:
                SHARED[name](p, q)
            told += state_of(f(jtorch.rand(3)), p, q)
        return told

    both_ways(run)


@pytest.mark.parametrize("writes", [False, True])
def test_it_is_an_argument_of_some_calls(writes):
    def run(wrap):
        p, told = parameter(), []

        @wrap
        def f(x):
            if writes:
                x.add_(1.0)
            averaged(p, x)
            return x + p

        for given in (None, None, p, None, p.data, p.data[:], None, p.detach()):
            x = jtorch.rand(3) if given is None else given
            told += state_of(f(x), p, x)
        return told

    both_ways(run)


def test_two_that_share_what_they_get():
    def run(wrap):
        p, q, told = parameter(), parameter(2.0), []

        @wrap
        def f(x):
            y = p + q + x
            p.data = y
            q.data = y
            return y * 1

        for _ in range(4):
            told += state_of(f(jtorch.rand(3)), p, q)
            p.data[0] = 5.0
        return told

    assert not both_ways(run).retraces


def test_an_error_in_the_middle_keeps_what_was_done():
    def run(wrap):
        p, told = parameter(), []

        @wrap
        def f(x, fails):
            averaged(p, x)
            if fails:
                raise ValueError("no")
            p.data = p.data + 1
            return p[jtorch.tensor([0, 4])] if fails is None else p * 1

        for fails in (False, False, True, None, False, True, None):
            try:
                f(jtorch.rand(3), fails)
            except (ValueError, IndexError) as error:
                told.append(len(type(error).__name__))
            told += state_of(p)
        return told

    both_ways(run)


def test_its_version_stays():
    p = parameter()

    @jtorch.compile
    def f(x):
        averaged(p, x)
        return p * 2

    version = p._version
    for _ in range(3):
        f(jtorch.ones(3))
    assert p._version == version


def test_its_version_is_that_of_each_call_where_it_is_asked_afterwards():
    def run(wrap):
        p, found = jtorch.nn.Parameter(jtorch.ones(2)), []

        @wrap
        def f(x):
            p.data = x * 2
            return p._version, p.detach()._version

        for _ in range(4):
            found.append(f(jtorch.ones(2)))
            with jtorch.no_grad():
                p.add_(1)
        return found

    both_ways(run)


def test_a_gradient_that_was_there_is_given_other_memory():
    def clipped(wrap):
        p, found = jtorch.nn.Parameter(jtorch.ones(2)), []
        optimizer = jtorch.optim.SGD([p], lr=1.0)

        @wrap
        def clip():
            p.grad.data = p.grad.data.clamp(-0.1, 0.1)

        for k in range(1, 4):
            optimizer.zero_grad()
            (p * k).sum().backward()
            clip()
            optimizer.step()
            found += state_of(p, p.grad)
        return found

    def divided(wrap):
        p, found = jtorch.nn.Parameter(jtorch.ones(2)), []

        @wrap
        def step(x, is_last):
            (p * x).sum().backward()
            if is_last:
                p.grad.data = p.grad.data / 2

        for k in range(4):
            step(jtorch.full((2,), k + 1.0), k % 2 == 1)
            found += state_of(p.grad)
        return found

    both_ways(clipped)
    both_ways(divided)


def test_memory_that_two_have_already_may_not_be_theirs_later():
    def run(wrap):
        a, b = (jtorch.nn.Parameter(jtorch.full((2,), k)) for k in (0.0, 1.0))
        a.data = b.data

        @wrap
        def f(x):
            a.data = b.data
            return x * 2

        f(jtorch.ones(2))
        a.data = jtorch.full((2,), 5.0)
        f(jtorch.ones(2))
        return state_of(a, b)

    both_ways(run)


def test_views_that_were_taken_outside_stay_as_they_were():
    p = parameter()

    @jtorch.compile
    def f(x):
        averaged(p, x)
        return p * 2

    f(jtorch.ones(3))
    view, before = p.data, p.data.clone()
    f(jtorch.ones(3)), f(jtorch.ones(3))
    assert jtorch.equal(view, before) and not jtorch.equal(p.data, before)


def test_other_compiled_functions_find_it():
    p = parameter()

    @jtorch.compile
    def write(x):
        averaged(p, x)

    @jtorch.compile
    def read(x):
        return p * x

    for _ in range(3):
        write(jtorch.ones(3))
        assert jtorch.equal(read(jtorch.full((3,), 2.0)), p * 2)


def test_threads():
    p = parameter(0.0)

    @jtorch.compile
    def f(x):
        p.data = p.data + x
        return p * 1

    f(jtorch.ones(3))
    threads = [threading.Thread(target=lambda: [f(jtorch.ones(3)) for _ in range(20)]) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 1 < p[0].item() <= 61 and len(set(p.tolist())) == 1
    assert not f.retraces


def test_verified_against_eager_mode():
    p = parameter()

    @jtorch.compile(verify="first")
    def f(x):
        averaged(p, x)
        return p * 1

    for expected in (1.5, 1.75, 1.875):
        assert f(jtorch.ones(3)).tolist() == [expected] * 3 == p.tolist()


def made(x):
    return x.expand(3, 3) * jtorch.tensor([[1.0], [2.0], [3.0]])


VIEWS_OF_WHAT_IT_HAD = {  # y has other memory than the view that was taken of it
    "turned": lambda y, x: (y.t(), setattr(y, "data", y + x)),
    "flat": lambda y, x: (y.view(-1), setattr(y, "data", y + x)),
    "of a view": lambda y, x: (y.t()[1:].view(2, 3, 1), setattr(y, "data", y + x)),
    "between two": lambda y, x: (
        setattr(y, "data", y * 2), y.t(), setattr(y, "data", y + x), y.t(), y.view(9)
    ),
    "the same memory, turned": lambda y, x: (y[0], y[:, 0], setattr(y, "data", y.t())),
    "and back": lambda y, x: (
        setattr(y, "data", y.t()), y[0], y.view(9, 1) if y.is_contiguous() else y.t(),
        setattr(y, "data", y.t()),
    ),
    "the view's own": lambda y, x: (v := y[0], w := v[1:], setattr(v, "data", y[1]), w),
    "the view in between": lambda y, x: (v := y.t(), w := v[1:], setattr(v, "data", v + x), w),
    "a row that becomes all": lambda y, x: (y.t(), y[1], setattr(y, "data", y[2]), y[1:]),
    "written through": lambda y, x: (y.t().mul_(2), setattr(y, "data", y + x), y.t().add_(1)),
}  # fmt: skip


@each("name", VIEWS_OF_WHAT_IT_HAD)
def test_views_that_were_taken_inside_stay_as_they_were(name):
    def f(x):
        y = made(x)
        return y, [v for v in VIEWS_OF_WHAT_IT_HAD[name](y, x) if v is not None]

    def told(f):
        found = []
        for n in range(3):
            tensors = flattened(list(f(jtorch.arange(3.0) + n)))
            for k, one in enumerate(tensors):
                one[(0,) * one.dim()] += 10 * k
            found += [(one.tolist(), one.stride()) for one in tensors]
        return found

    compiled = jtorch.compile(f)
    assert told(compiled) == told(f)
    assert not compiled.retraces
