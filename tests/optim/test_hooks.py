"""Hooks of optimizers: order, replaced arguments, removal, and in compiled steps."""

from __future__ import annotations

import importlib.util

import pytest

import jtorch
from jtorch.optim import SGD


def make():
    p = jtorch.zeros(1, requires_grad=True)
    p.grad = jtorch.ones(1)
    return p, SGD([p], lr=1.0)


def test_step_hooks_run_around_the_step_and_are_removed():
    p, optimizer = make()
    seen = []
    before = optimizer.register_step_pre_hook(lambda o, a, k: seen.append(("pre", o, p.item(), a, k)))
    optimizer.register_step_post_hook(lambda o, a, k: seen.append(("post", o, p.item(), a, k)))
    optimizer.step()
    assert seen == [
        ("pre", optimizer, 0.0, (optimizer,), {}),
        ("post", optimizer, -1.0, (optimizer,), {}),
    ]
    before.remove()
    optimizer.step()
    assert [name for name, *_ in seen] == ["pre", "post", "post"]


def test_a_pre_hook_replaces_the_arguments():
    _, optimizer = make()
    optimizer.register_step_pre_hook(lambda o, args, kwargs: ((o, lambda: "other"), {}))
    assert optimizer.step(lambda: "mine") == "other"
    optimizer.register_step_pre_hook(lambda o, args, kwargs: 3)
    with pytest.raises(RuntimeError, match=r"None or a tuple of \(new_args, new_kwargs\), but got 3"):
        optimizer.step()


def test_state_dict_hooks():
    _, optimizer = make()
    order = []
    optimizer.register_state_dict_pre_hook(lambda o: order.append("second"))
    optimizer.register_state_dict_pre_hook(lambda o: order.append("first"), prepend=True)
    optimizer.register_state_dict_post_hook(lambda o, state: state | {"extra": 1})
    state = optimizer.state_dict()
    assert order == ["first", "second"] and state["extra"] == 1

    def faster(o, state):
        groups = [group | {"lr": 5.0} for group in state["param_groups"]]
        return state | {"param_groups": groups}

    optimizer.register_load_state_dict_pre_hook(faster)
    optimizer.register_load_state_dict_post_hook(lambda o: order.append(o.param_groups[0]["lr"]))
    optimizer.load_state_dict(state)
    assert order[-1] == 5.0 and state["param_groups"][0]["lr"] == 1.0


@pytest.mark.skipif(
    importlib.util.find_spec("numba") is None, reason="compiling needs Numba, which is not installed"
)
def test_a_hook_added_after_capture_reaches_the_compiled_step():
    p, optimizer = make()

    @jtorch.compile
    def step():
        optimizer.step()

    step()
    step()
    assert p.item() == -2.0

    def double(o, args, kwargs):
        with jtorch.no_grad():
            p.mul_(2.0)

    handle = optimizer.register_step_post_hook(double)
    step()
    assert p.item() == -6.0
    handle.remove()
    step()
    assert p.item() == -7.0
