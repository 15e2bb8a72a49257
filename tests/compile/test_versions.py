"""Version counters of tensors that compiled functions change in place: they move as in eager mode."""

import pytest

import jtorch
from jtorch import nn


def _captured(w, x):
    w.add_(x)
    w[0] = 1
    v = w.view(3)
    v.mul_(2)


def _argument(w, x):
    x.add_(w)
    x.mul_(2)


def _through_views(w, x):
    w[1:].add_(1)
    w.detach().zero_()
    x[0] = 3.0


def _both(w, x):
    _captured(w, x)
    _argument(w, x)
    return x * 2


def _once(w, x):
    w.copy_(x)


@pytest.mark.parametrize("way", [_captured, _argument, _through_views, _both, _once])
def test_versions_move_once_for_each_change(way):
    found = []
    for wrap in (lambda f: f, jtorch.compile):
        w = jtorch.zeros(3)
        f = wrap(lambda x, w=w: way(w, x))
        view = w[1:]
        for k in range(4):
            x = jtorch.ones(3)
            f(x)
            found.append((w._version, x._version, view._version, w.detach()._version))
            if k == 2:
                w.add_(1)
    assert found[4:] == found[:4]


def test_versions_move_after_recordings_for_other_arguments_and_errors():
    found = []
    for wrap in (lambda f: f, jtorch.compile):
        w = jtorch.zeros(1)

        def f(x, w=w):
            w.add_(1)
            y = w[x] * 1
            w.mul_(2)
            return y

        f = wrap(f)
        for x in ([0], [0, 0], [0], [3], [0, 0], [0, 0, 0], [0]):
            try:
                f(jtorch.tensor(x))
            except IndexError:
                found.append("IndexError")
            found.append(w._version)
    assert found[len(found) // 2 :] == found[: len(found) // 2]


def test_versions_of_gradients_and_parameters():
    found = []
    for wrap in (lambda f: f, jtorch.compile):
        m = nn.Linear(2, 1)
        o = jtorch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9)

        def step(x, m=m, o=o):
            o.zero_grad(set_to_none=False)
            m(x).sum().backward()
            (m(x) * 2).sum().backward()
            o.step()

        m(jtorch.ones(2)).sum().backward()
        kept, step = m.weight.grad, wrap(step)
        for _ in range(3):
            step(jtorch.ones(2))
            found.append((m.weight._version, kept._version, m.weight.grad is kept))
    assert found[3:] == found[:3]


@pytest.mark.filterwarnings("ignore")
def test_a_version_that_is_asked_after_a_change():
    found = []
    for wrap in (lambda f: f, jtorch.compile):
        b = jtorch.zeros(2)

        def f(x, b=b):
            first = b._version
            b.add_(x)
            x.add_(1)
            return first, b._version, b.detach()._version, x._version

        f = wrap(f)
        found.append([(f(jtorch.ones(2)), b._version) for _ in range(3)])
    assert found[0] == found[1]


def _with_views(x):
    y = x * 2
    y.add_(1)
    z = y[0]
    z.mul_(3)
    return y, z, y.detach(), y + 1


def _parts(x):
    y = x * 2
    y.add_(1)
    return y[:1], y[1:]


RESULTS = {
    "in place": lambda x: (x * 1).mul_(2), "zero_": lambda x: (x * 1).zero_(), "with views": _with_views,
    "relu_": lambda x: jtorch.relu_(x * 1), "of a detached one": lambda x: (x * 1).detach().mul_(2),
    "item": lambda x: [y := x * 1, y.__setitem__(0, 5.0)][0], "parts": _parts, "none": lambda x: x * 1,
}  # fmt: skip


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("name", RESULTS)
def test_results_have_the_versions_of_eager_mode(name, requires_grad):
    f = RESULTS[name]
    compiled = jtorch.compile(f)
    for _ in range(3):
        x = jtorch.ones(2, requires_grad=requires_grad)
        found, expected = compiled(x), f(x)
        if not isinstance(expected, tuple):
            found, expected = (found,), (expected,)
        assert [t._version for t in found] == [t._version for t in expected]
        found[0].detach().add_(1)
        assert found[0]._version == expected[0]._version + 1
