"""What a user sees where a result's graph has been used up inside the compiled function."""

from __future__ import annotations

import pytest

import jtorch
from jtorch.compiler import scan, while_loop


def test_a_graph_that_was_used_inside_says_so():
    w = jtorch.ones(2, requires_grad=True)

    @jtorch.compile
    def step(x):
        w.grad = None
        loss = (x * w).sum()
        loss.backward()
        return loss

    loss = step(jtorch.ones(2))
    assert str(loss) == "tensor(2., grad_fn=<UsedGraph>)"
    assert repr(loss.grad_fn) == "<UsedGraph: backward() has been through it, in the compiled function>"
    with pytest.raises(RuntimeError, match="a second time"):
        loss.backward()


class _Saving(jtorch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        return 2 * g * ctx.saved_tensors[0]


def _by_function(x, w):
    y = _Saving.apply(x[0] + w)
    return y + 1, y + 2


def _by_scan(x, w):
    return scan(lambda c, r: ((c + r) * w, c.sum()), jtorch.zeros(3), x)


def _by_function_in_a_scan(x, w):
    return scan(lambda c, r: (_Saving.apply(c) + r + w, c.sum()), jtorch.zeros(3), x)


def _by_scan_that_saves_nothing(x, w):
    return scan(lambda c, r: (c + r + w, c.sum()), jtorch.zeros(3), x)


def _by_while_loop(x, w):
    (c, _), _ = while_loop(
        lambda s: s[1] < 3, lambda s: (s[0] * w + 1, s[1] + 1), (x[0], jtorch.tensor(0)), max_steps=9
    )
    return c + 1, c + 2


FORMS = (_by_function, _by_scan, _by_function_in_a_scan, _by_scan_that_saves_nothing, _by_while_loop)


@pytest.mark.parametrize("inside", ["no pass", "a pass", "a pass that retains"])
@pytest.mark.parametrize("form", FORMS)
def test_a_second_pass_is_refused_where_eager_mode_refuses_it(form, inside):
    def told(compiled):
        w = jtorch.full((3,), 0.5, requires_grad=True)

        def step(x):
            first, second = form(x, w)
            if inside != "no pass":
                (first.sum() + second.sum()).backward(retain_graph=inside != "a pass")
            return first, second

        function = jtorch.compile(step, fullgraph=True) if compiled else step
        found = []
        for _ in range(2):
            for result in function(jtorch.ones(4, 3)):
                try:
                    result.sum().backward()
                except RuntimeError as error:
                    found.append(str(error)[:55])
                else:
                    found.append("passed")
        return found, w.grad.tolist()

    assert told(True) == told(False)
