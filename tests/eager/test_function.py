"""Custom Functions in both styles."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import jtorch
from jtorch.autograd import Function, grad, gradcheck, gradgradcheck, once_differentiable


def leaf(*values):
    return jtorch.tensor(values, dtype=jtorch.float64, requires_grad=True)


class Cube(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 3 * g * x**2


class SeparateContext(Function):
    @staticmethod
    def forward(x, power):
        return x**power

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, ctx.power = inputs
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return ctx.power * g * x ** (ctx.power - 1), None


class Exp(Function):
    """The early style; saves its output."""

    def forward(self, x):
        y = x.exp()
        self.save_for_backward(y)
        return y

    def backward(self, g):
        (y,) = self.saved_tensors
        return g * y


class Scale(Function):
    """The early style with a constructor."""

    def __init__(self, factor):
        self.factor = factor

    def forward(self, x, y):
        self.asked = self.needs_input_grad
        return x * self.factor + y

    def backward(self, g):
        return g * self.factor, g


@pytest.mark.parametrize("function", [Cube.apply, lambda x: SeparateContext.apply(x, 3), Exp(), Exp.apply])
def test_first_and_second_gradients(function):
    x = leaf(0.5, -1.5, 2.0)
    assert gradcheck(function, x)
    assert gradgradcheck(function, x)


def test_name_and_tape():
    y = Cube.apply(leaf(2.0))
    assert y.grad_fn.name() == "CubeBackward"
    assert repr(y) == "tensor([8.], dtype=jtorch.float64, grad_fn=<CubeBackward>)"
    assert not Cube.apply(jtorch.ones(1)).requires_grad
    with jtorch.no_grad():
        assert not Cube.apply(leaf(2.0)).requires_grad


def test_early_style_with_constructor():
    x, y = leaf(1.0, 2.0), leaf(3.0, 4.0)
    scale = Scale(5.0)
    z = scale(x, y.detach())
    assert scale.asked == (True, False)
    z.sum().backward()
    assert (x.grad.tolist(), y.grad) == ([5.0, 5.0], None)


def test_an_instance_called_twice_keeps_both_graphs():
    exp = Exp()
    x, y = leaf(0.0), leaf(1.0)
    a, b = exp(x), exp(y)
    (a + b).backward()
    np.testing.assert_allclose([x.grad.item(), y.grad.item()], [1.0, np.e])


def test_the_node_shows_what_forward_set_on_its_context():
    class Scaled(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.options = {"by": 2.0}
            ctx.save_for_backward(x)
            return x * 2.0

        @staticmethod
        def backward(ctx, g):
            return g * ctx.options["by"]

    x = leaf(1.0)
    y = Scaled.apply(x)
    assert y.grad_fn.options == {"by": 2.0} and y.grad_fn.needs_input_grad == (True,)
    assert y.grad_fn.saved_tensors[0] is x
    with pytest.raises(AttributeError, match="'ScaledBackward' object has no attribute 'by'"):
        _ = y.grad_fn.by
    y.grad_fn.options["by"] = 5.0
    y.backward()
    assert x.grad.item() == 5.0


def test_several_outputs_and_materialized_gradients():
    seen = []

    class Two(Function):
        @staticmethod
        def forward(ctx, x, materialize):
            ctx.set_materialize_grads(materialize)
            return x * 2, x * 3

        @staticmethod
        def backward(ctx, g, h):
            seen.append(None if h is None else h.tolist())
            return g * 2 if h is None else g * 2 + h * 3, None

    x = leaf(1.0)
    Two.apply(x, True)[0].backward()
    Two.apply(x, False)[0].backward()
    assert seen == [[0.0], None]
    a, b = Two.apply(x, True)
    x.grad = None
    (a + b).backward()
    assert x.grad.item() == 5.0


def test_not_differentiable_and_other_outputs():
    class Rounded(Function):
        @staticmethod
        def forward(ctx, x):
            rounded = x.floor()
            ctx.mark_non_differentiable(rounded)
            return x * 1, rounded, "note"

        @staticmethod
        def backward(ctx, g, h, note):
            return g * 7

    x = leaf(1.5)
    y, rounded, note = Rounded.apply(x)
    assert (rounded.requires_grad, note) == (False, "note")
    y.backward()
    assert x.grad.item() == 7.0


def test_mark_dirty():
    class AddOne(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            x.add_(1)
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 3

    x = leaf(1.0)
    y = x * 2
    z = AddOne.apply(y)
    assert z is y
    assert z.item() == 3.0
    z.backward()
    assert x.grad.item() == 6.0


def test_returning_an_input_is_a_node_of_its_own():
    class Through(Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 2

    x = leaf(1.0)
    y = Through.apply(x)
    assert y is not x
    y.backward()
    assert x.grad.item() == 2.0


def test_once_differentiable():
    class Square(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @once_differentiable
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * 2 * x

    x = leaf(3.0)
    Square.apply(x).backward()
    assert x.grad.item() == 6.0
    y = Square.apply(x * 1)
    weight = leaf(1.0)
    (g,) = grad((y * weight).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="marked with @once_differentiable"):
        g.sum().backward()


def test_wrong_number_or_shape_of_gradients():
    class Bad(Function):
        @staticmethod
        def forward(ctx, x, y, wrong):
            ctx.wrong = wrong
            return x + y

        @staticmethod
        def backward(ctx, g):
            return ctx.wrong(g)

    x, y = leaf(1.0, 2.0), leaf(1.0, 2.0)
    with pytest.raises(RuntimeError, match=r"incorrect number of gradients \(expected 3, got 1\)"):
        Bad.apply(x, y, lambda g: g).sum().backward()
    with pytest.raises(RuntimeError, match=r"invalid gradient at index 0 - got \[3\] but expected shape"):
        Bad.apply(x, y, lambda g: (jtorch.ones(3), g, None)).sum().backward()
    with pytest.raises(TypeError, match="returned a float as gradient 0"):
        Bad.apply(x, y, lambda g: (1.0, g, None)).sum().backward()


def test_saved_tensors_are_freed_and_watched():
    x = leaf(2.0)
    y = Cube.apply(x)
    y.backward()
    with pytest.raises(RuntimeError, match=r"^Trying to backward through the graph a second time"):
        y.backward()
    t = leaf(2.0) * 1
    y = Cube.apply(t)
    t.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_unimplemented_parts_say_so():
    class Nothing(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

    with pytest.raises(NotImplementedError, match="implement either the backward"):
        Nothing.apply(leaf(1.0)).backward()
    with pytest.raises(NotImplementedError, match="implement the forward"):
        Function.apply(leaf(1.0))


def test_gradient_returned_by_user_code_is_not_taken_over():
    kept = jtorch.ones(2, dtype=jtorch.float64)

    class Constant(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return kept

    x = leaf(1.0, 2.0)
    Constant.apply(x).sum().backward()
    x.grad.zero_()
    assert kept.tolist() == [1.0, 1.0]


def test_no_reference_cycle():
    gc.collect()
    gc.disable()
    try:
        y = Exp()(leaf(1.0))
        node = weakref.ref(y.grad_fn)
        y.backward()
        del y
        assert node() is None
        z = Cube.apply(leaf(1.0))
        node = weakref.ref(z.grad_fn)
        del z
        assert node() is None
    finally:
        gc.enable()


class Scaled(Function):
    """Arguments by keyword and with defaults, and a gradient under its other name."""

    @staticmethod
    def forward(x, factor=3.0):
        return x * factor

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.factor = inputs[1]
        ctx.save_for_forward(inputs[0])

    @staticmethod
    def vjp(ctx, g):
        return g * ctx.factor, None


def test_arguments_by_keyword_and_vjp():
    x = leaf(1.0, 2.0)
    Scaled.apply(x).sum().backward()
    Scaled.apply(x=x, factor=2.0).sum().backward()
    assert x.grad.tolist() == [5.0, 5.0]
    with pytest.raises(TypeError, match="takes no keyword arguments"):
        Cube.apply(x=x)


def test_two_gradients_are_an_error():
    class Both(Cube):
        @staticmethod
        def vjp(ctx, g):
            return g

    with pytest.raises(RuntimeError, match="Implementing both 'backward' and 'vjp'"):
        Both.apply(leaf(1.0)).backward()


def test_early_functions_that_work_in_place():
    from jtorch.autograd.function import InplaceFunction

    class Double(InplaceFunction):
        def forward(self, x):
            if self.inplace:
                self.mark_dirty(x)
                return x.mul_(2)
            return x * 2

        def backward(self, g):
            return g * 2

    x = leaf(1.0)
    y = x * 1
    assert Double(inplace=True)(y) is y
    Double()(y).backward()
    assert x.grad.item() == 4
