"""A way back that raises where ``backward()`` comes later than the call: the error is that of backward()."""

import pytest

import jtorch
from jtorch.core.errors import CompileError


def _raises(ctx, g):
    raise ValueError("my own")


def _doubling(backward):
    """A Function with this ``backward``, or without any."""
    facts = {"forward": staticmethod(lambda ctx, x: x * 2)}
    if backward is not None:
        facts["backward"] = staticmethod(backward)
    return type("Doubling", (jtorch.autograd.Function,), facts)


def _by_a_hook(x):
    y = x * 2
    y.register_hook(lambda g: _raises(None, g))
    return y


BACKWARDS = {
    "raises": _raises,
    "is missing": None,
    "gives too many": lambda ctx, g: (g, g),
    "gives another shape": lambda ctx, g: g[:1],
    "gives a number": lambda ctx, g: 3,
}  # fmt: skip


def _outcome(f, x):
    """What the call gives, and how its backward() ends, twice."""
    found = []
    for _ in range(2):
        y = f(x)
        with pytest.raises(Exception) as caught:
            y.backward()
        found.append((y.item(), type(caught.value), str(caught.value), x.grad))
    return found


@pytest.mark.parametrize("name", BACKWARDS)
def test_the_error_comes_in_backward(name):
    apply = _doubling(BACKWARDS[name]).apply

    def f(x):
        return apply(x).sum()

    x = jtorch.ones(2, requires_grad=True)
    compiled = jtorch.compile(f)
    assert _outcome(compiled, x) == _outcome(f, x)
    assert [entry.outcome for entry in compiled.retraces] == ["eager"]  # told once


def test_a_hook_that_raises():
    def f(x):
        return _by_a_hook(x).sum()

    x = jtorch.ones(2, requires_grad=True)
    assert _outcome(jtorch.compile(f), x) == _outcome(f, x)


def test_the_type_of_the_error_is_the_users():
    class OwnError(Exception):
        pass

    def backward(ctx, g):
        raise OwnError("with", 2) from KeyError("cause")

    apply = _doubling(backward).apply
    y = jtorch.compile(lambda x: apply(x).sum())(jtorch.ones(2, requires_grad=True))
    with pytest.raises(OwnError) as caught:
        y.backward()
    assert caught.value.args == ("with", 2) and isinstance(caught.value.__cause__, KeyError)


def test_what_is_changed_outside_is_changed_once():
    for wrap in (lambda f: f, jtorch.compile):
        seen, state = [], {"n": 0}
        apply = _doubling(_raises).apply
        total = jtorch.zeros(2)

        @wrap
        def f(x, state=state, seen=seen, total=total, apply=apply):
            state["n"] += 1
            seen.append(state["n"])
            total.add_(x.detach())
            return apply(x * jtorch.rand(2)).sum()

        jtorch.manual_seed(0)
        x = jtorch.ones(2, requires_grad=True)
        values = [f(x).item() for _ in range(3)]
        assert (state, seen, total.tolist()) == ({"n": 3}, [1, 2, 3], [3.0, 3.0])
        if wrap is not jtorch.compile:
            expected = values
    assert values == expected


def test_calls_without_gradients_are_compiled_all_the_same():
    apply = _doubling(None).apply
    f = jtorch.compile(lambda x: apply(x).sum())
    assert f(jtorch.ones(2, requires_grad=True)).item() == 4.0
    for _ in range(2):
        assert f(jtorch.ones(2)).item() == 4.0
    assert f.calls == 2
    with jtorch.no_grad():
        assert f(jtorch.ones(3, requires_grad=True)).item() == 6.0
    assert f.calls == 3


def test_sizes_that_are_symbols():
    apply = _doubling(_raises).apply
    f = jtorch.compile(lambda x: apply(x).sum(), dynamic=True)
    for n in (2, 3, 4):
        y = f(jtorch.ones(n, requires_grad=True))
        assert y.item() == 2.0 * n
        with pytest.raises(ValueError, match="my own"):
            y.backward()


def test_one_that_must_not_run_twice_is_an_error_of_the_call():
    runs = []

    @jtorch.compiler.disable
    def outside(x):
        runs.append(1)
        return x.detach() * 1

    apply = _doubling(_raises).apply
    f = jtorch.compile(lambda x: apply(x).sum() + outside(x).sum())
    with pytest.raises(CompileError, match="the way back raises ValueError: my own"):
        f(jtorch.ones(2, requires_grad=True))
    assert runs == [1]


def test_backward_inside_raises_in_the_call():
    apply = _doubling(_raises).apply

    @jtorch.compile
    def f(x):
        apply(x).sum().backward()

    with pytest.raises(ValueError, match="my own"):
        f(jtorch.ones(2, requires_grad=True))
