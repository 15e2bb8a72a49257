"""gradcheck finds wrong gradients, and detect_anomaly says where they were made."""

from __future__ import annotations

import numpy as np
import pytest

import jtorch
from jtorch.autograd import (
    Function,
    GradcheckError,
    detect_anomaly,
    gradcheck,
    gradgradcheck,
    set_detect_anomaly,
)


class WrongSine(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * x.cos() * 1.01


class DetachedSquare(Function):
    """Right once, wrong twice: its gradient forgets the tape."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 2 * x.detach()


@pytest.fixture
def x():
    return jtorch.tensor([0.3, 1.2], dtype=jtorch.float64, requires_grad=True)


def test_wrong_gradient_is_found(x):
    with pytest.raises(GradcheckError, match="Jacobian mismatch for output 0 with respect to input 0"):
        gradcheck(WrongSine.apply, x)
    assert not gradcheck(WrongSine.apply, x, raise_exception=False)


def test_wrong_second_gradient_is_found(x):
    assert gradcheck(DetachedSquare.apply, x)
    with pytest.raises(GradcheckError):
        gradgradcheck(DetachedSquare.apply, x)


def test_several_inputs_and_outputs(x):
    y = jtorch.tensor([2.0, 3.0], dtype=jtorch.float64, requires_grad=True)
    assert gradcheck(lambda a, b, n: (a * b, (a * n).sum()), (x, y, 3))
    assert gradgradcheck(lambda a, b: (a * b).exp(), (x, y))


def test_no_input_requires_grad():
    sentence = "at least one input tensor to require gradient.*none of them have requires_grad=True"
    for given in (jtorch.ones(1), (jtorch.ones(2),)):
        with pytest.raises(ValueError, match=sentence):
            gradcheck(lambda a: a, given)


def test_inputs_are_put_back(x):
    before = x.tolist()
    gradcheck(lambda a: a.exp(), x)
    assert x.tolist() == before


def test_anomaly_names_the_forward_line(x):
    enabled = pytest.warns(UserWarning, match="Anomaly Detection has been enabled")
    # pytest.warns would show NumPy's warnings again, as the test's own
    with np.errstate(all="ignore"), enabled, detect_anomaly():
        y = (x * 0).log() * 0
        with pytest.raises(RuntimeError, match="Function 'LogBackward0' returned nan values") as caught:
            y.sum().backward()
    assert "y = (x * 0).log() * 0" in "".join(caught.value.__notes__)


def test_anomaly_is_undone(x):
    with set_detect_anomaly(True):
        assert (x * 2).grad_fn.extras is not None
    assert (x * 2).grad_fn.extras is None
    set_detect_anomaly(True)
    set_detect_anomaly(False)
    assert not jtorch.autograd.is_anomaly_enabled()


def test_error_in_backward_carries_the_forward_stack(x):
    class Failing(Function):
        @staticmethod
        def forward(ctx, t):
            return t * 1

        @staticmethod
        def backward(ctx, g):
            raise KeyError("lost")

    with set_detect_anomaly(True):
        y = Failing.apply(x)
        with pytest.raises(KeyError) as caught:
            y.sum().backward()
    assert "y = Failing.apply(x)" in "".join(caught.value.__notes__)


class Conjugating(Function):
    """The square, with the gradient of a holomorphic function left unconjugated: wrong for complex."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 2 * x


class Constant(Function):
    """A backward that does not look at what it gets."""

    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, g):
        return g * 0 + 1


def test_complex_gradients_are_checked():
    z = jtorch.tensor([0.3 + 1.2j, -0.7 + 0.1j], dtype=jtorch.complex128, requires_grad=True)
    assert gradcheck(lambda z: (z * z).exp(), z)
    assert gradcheck(lambda z: z.abs(), z)
    with pytest.raises(GradcheckError, match="Jacobian mismatch"):
        gradcheck(Conjugating.apply, z)


def test_backward_must_multiply_by_what_it_gets(x):
    with pytest.raises(GradcheckError, match="backward not multiplied by grad_output"):
        gradcheck(Constant.apply, x[:1])


def test_imprecise_inputs_warn():
    single = jtorch.tensor([1.0], requires_grad=True)
    with pytest.warns(UserWarning, match="Input #0 requires gradient and is not a double precision"):
        gradcheck(lambda x: x * 2, single, eps=1e-2, atol=1e-2)


@pytest.mark.parametrize("option", ["check_batched_forward_grad", "check_batched_grad"])
def test_checks_that_are_not_there(x, option):
    with pytest.raises(NotImplementedError):
        gradcheck(lambda x: x * 2, x, **{option: True})


class WrongTangent(jtorch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2

    @staticmethod
    def jvp(ctx, tangent):
        return tangent * 3


def test_forward_mode(x):
    assert gradcheck(lambda x: x.exp().cumsum(0), x, check_forward_ad=True)
    assert gradgradcheck(lambda x: x.exp().cumsum(0), x, check_fwd_over_rev=True)
    z = jtorch.tensor([1 + 2j, 0.5 - 1j], dtype=jtorch.complex128, requires_grad=True)
    assert gradcheck(lambda z: (z * z.conj() + z.exp()).abs(), z, check_forward_ad=True)
    with pytest.raises(GradcheckError, match="Jacobian computed with forward mode mismatch for output 0"):
        gradcheck(WrongTangent.apply, x, check_forward_ad=True)
    with pytest.raises(AssertionError, match="at least one of check_forward_ad or check_backward_ad"):
        gradcheck(lambda x: x, x, check_backward_ad=False)


def test_strided_gradients(x):
    assert gradgradcheck(lambda x: x.exp(), x, gen_non_contig_grad_outputs=True, fast_mode=True)
