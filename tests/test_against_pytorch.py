"""What a reading of eager mode against PyTorch found: one case a finding, in the order they were found.

Each case is a program that gets the library as ``T`` and returns what a user would see: numbers, dtypes,
flags or the error. PyTorch is the oracle; a few facts that need none stand below the table.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jtorch

PROGRAMS: dict[str, Callable[[Any], Any]] = {}


def program(function: Callable) -> Callable:
    PROGRAMS[function.__name__] = function
    return function


def seen(function: Callable, *args: Any) -> Any:
    """What ``function`` gives, or the type of its error."""
    try:
        return function(*args)
    except Exception as error:
        return type(error).__name__


def plain(value: Any) -> Any:
    """A result as plain Python: (dtype, shape, elements, requires_grad) of a tensor."""
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if hasattr(value, "requires_grad"):
        shown = value.detach()
        wide = shown.float() if "bfloat16" in str(shown.dtype) else shown
        numbers = np.asarray(wide.numpy())
        return str(shown.dtype).split(".")[-1], tuple(shown.shape), numbers, value.requires_grad
    return str(value).split(".")[-1] if type(value).__name__ == "dtype" else value


def assert_same(found: Any, wanted: Any) -> None:
    assert type(found) is type(wanted)
    if isinstance(wanted, list):
        assert len(found) == len(wanted)
        for f, w in zip(found, wanted, strict=True):
            assert_same(f, w)
    elif isinstance(wanted, tuple):
        assert found[:2] == wanted[:2] and found[3] == wanted[3]
        tolerance = {"float16": 1e-3, "bfloat16": 8e-3}.get(wanted[0], 1e-6)
        np.testing.assert_allclose(found[2], wanted[2], rtol=tolerance, atol=1e-12)
    else:
        assert found == wanted


# -- dtypes --------------------------------------------------------------------------------------------------


@program
def sixteen_bits_stay_sixteen(T):
    found = []
    for dtype in (T.float16, T.bfloat16):
        x = T.tensor([0.3, 1.75, 2.5, -0.75, 4.0]).to(dtype)
        functions = [T.sigmoid, T.erf, T.reciprocal, T.round, T.nn.functional.silu, T.nn.functional.gelu]
        found += [function(x) for function in functions]
        found += [T.rsqrt(x[:3]), T.nn.functional.avg_pool1d(x.reshape(1, 5), 1)]
    return found


@program
def bfloat16_beside_a_wider_tensor(T):
    x, y = T.tensor([1.5, -0.25]).bfloat16(), T.tensor([0.25, 1.0])
    F = T.nn.functional
    losses = [F.l1_loss(x, y), F.mse_loss(x, y), F.kl_div(x, y, reduction="sum"), F.smooth_l1_loss(x, y)]
    others = [T.logaddexp(x, y), F.cosine_similarity(x, y, 0)]
    return [T.fmax(x, y), T.fmin(x, y), *(t.dtype for t in (*losses, *others))]


@program
def layers_answer_in_the_dtype_of_their_input(T):
    F, one, zero, found = T.nn.functional, T.ones(4), T.zeros(4), []
    for dtype in (T.bfloat16, T.float16):
        x = T.arange(8.0).reshape(2, 4).to(dtype)
        found += [F.layer_norm(x, (4,), one, zero).dtype, F.batch_norm(x, zero, one, one, zero).dtype]
        found += [F.group_norm(x, 2, one, zero).dtype]
        found += [F.batch_norm(x, zero + 0, one + 0, one, zero, True).dtype]
        found.append(F.instance_norm(x.reshape(1, 4, 2), weight=one, bias=zero).dtype)
    return found


@program
def rms_norm_of_bfloat16_has_the_epsilon_of_float32(T):
    return T.nn.functional.rms_norm(T.tensor([[1e-4, 2e-4]]).bfloat16(), (2,))


@program
def numpy_scalars_are_weak(T):
    x = T.tensor([1, 2])
    return [x * np.float64(2), x * np.float32(2.5), np.float64(0.5) * x, x + np.int32(1), x / np.float64(4)]


@program
def numbers_wrap_beside_narrow_integers(T):
    x, y = T.tensor([1, 100], dtype=T.uint8), T.tensor([1, 100], dtype=T.int8)
    found = [f(t, n) for f in (T.add, T.mul, T.ge, T.lt, T.bitwise_and) for t in (x, y) for n in (300, -3)]
    return [*found, seen(T.add, x, 2**70), 200 - x, x.clone().add_(-1)]


@program
def a_number_beside_floats_in_xlogy(T):
    x = T.tensor([0.0, 1.5], requires_grad=True)
    y = T.special.xlog1py(x, 2) + T.xlogy(x, 3.0)
    y.sum().backward()
    return [T.xlogy(x, 2), T.special.xlog1py(x, 0.5), T.xlogy(T.tensor([True]), 2), x.grad]


@program
def float_power_of_complex_numbers(T):
    z = T.tensor([1 + 2j, -0.5j])
    return [T.float_power(z, 2), T.float_power(T.tensor([2.0]), 1j), T.float_power(T.tensor([4]), 0.5)]


@program
def ldexp_keeps_the_dtype(T):
    x = T.tensor([1.5, -2.0])
    n = T.tensor([3, -1])
    return [T.ldexp(x.half(), n), T.ldexp(x.bfloat16(), n), T.ldexp(x.double(), n), T.ldexp(n, n)]


@program
def integers_stay_integers_in_limits(T):
    F, x = T.nn.functional, T.tensor([-3, 4, 9])
    others = [F.relu6(x.to(T.uint8)), F.hardtanh_(x + 0)]
    return [F.relu6(x), F.hardtanh(x, -1, 5), F.threshold(x, 4, 0), *others]


@program
def masks_filled_with_numbers(T):
    mask = T.tensor([True, False])
    return [T.tensor([False, True]).masked_fill(mask, 2.0), T.tensor([False, True]).masked_fill(mask, 0.5)]


@program
def signs_of_bools(T):
    return [T.sign(T.tensor([True, False])), T.sgn(T.tensor([True, False]))]


@program
def coordinates_are_int64(T):
    return T.unravel_index(T.tensor([5, 2], dtype=T.uint8), (2, 3))


# -- values --------------------------------------------------------------------------------------------------


@program
def a_dim_given_as_a_tensor(T):
    x, d = T.arange(12.0).reshape(3, 4), T.tensor(0)
    others = [x.mean(d), x.softmax(d), x.median(d)[0]]
    return [x.sum(d), x.amax(d), x.argmax(d), x.std(d), x.logsumexp(d), *others]


@program
def complex_comparisons(T):
    x, z = T.tensor([1.0, 2.0]), T.tensor([1 + 1j, 2 + 0j])
    return [x == 1j, x != 1j, z == 1 + 1j, z == x, T.isreal(z), T.isreal(x)]


@program
def norms_of_complex_numbers(T):
    z = T.tensor([[3 + 4j, 1j], [0j, 2 + 0j]])
    x = T.tensor([3 + 4j, 0j], requires_grad=True)
    x.norm().backward()
    linalg = T.linalg
    found = [linalg.norm(z), linalg.vector_norm(z, 1), linalg.matrix_norm(z)]
    return [z.norm(), *found, T.dist(z, z * 2), x.grad]


@program
def covariances_of_complex_numbers(T):
    z = T.tensor([[1 + 2j, 0.5 - 1j, 2j], [1.0 + 0j, -1j, 3 + 1j]])
    return [T.cov(z), T.cov(z[0])]


@program
def angles_of_infinities(T):
    x = T.tensor([float("inf"), -float("inf"), float("nan"), 0.0, -1.0])
    return [T.angle(x), T.angle(T.tensor([1, -1]))]


@program
def a_power_leaves_its_exponent_alone(T):
    n = T.tensor(2)
    return [T.linalg.matrix_power(T.tensor([[1.0, 2.0], [3.0, 4.0]]), n), n]


@program
def a_histogram_of_one_value(T):
    return list(T.histogram(T.tensor([2.0, 2.0]), 2))


@program
def adaptive_max_pool1d_at_the_top_level(T):
    return list(T.adaptive_max_pool1d(T.arange(6.0).reshape(1, 6), 2))


# -- autograd ------------------------------------------------------------------------------------------------


@program
def inference_mode_takes_its_argument(T):
    x = T.ones(1, requires_grad=True)
    found = []
    with T.inference_mode(False):
        found.append((x * 2).requires_grad)
    with T.inference_mode():
        with T.inference_mode(mode=False):
            found.append((x * 2).requires_grad)
        found += [(x * 2).requires_grad, T.is_inference_mode_enabled()]

    @T.inference_mode(False)
    def recorded():
        return (x * 2).requires_grad

    @T.inference_mode
    def unrecorded():
        return (x * 2).requires_grad

    return [*found, recorded(), unrecorded()]


@program
def modes_around_generators(T):
    @T.no_grad()
    def numbers():
        given = yield T.is_grad_enabled()
        try:
            yield given, T.is_grad_enabled()
        except ValueError:
            yield T.is_grad_enabled()
        return 5

    running = numbers()
    found = [next(running), T.is_grad_enabled(), list(running.send(3)), running.throw(ValueError("out"))]
    with pytest.raises(StopIteration) as end:
        next(running)
    return [*found, end.value.value, T.is_grad_enabled()]


@program
def set_grad_enabled_as_a_decorator(T):
    @T.set_grad_enabled(False)
    def mode():
        return T.is_grad_enabled()

    return [T.is_grad_enabled(), mode(), T.is_grad_enabled()]


@program
def gradients_in_one_flat_buffer(T):
    flat = T.zeros(5)
    p, q = T.ones(2, requires_grad=True), T.ones(3, requires_grad=True)
    p.grad, q.grad = flat[:2], flat[2:].view(3)
    for _ in range(2):
        ((p * 2).sum() + (q * 3).sum()).backward()
    return [flat, p.grad, q.grad, flat._version > 0]


@program
def what_no_gradient_needs_may_change(T):
    """Each factor is saved for the gradient of the other one alone."""
    found = []

    def gradient(make, change):
        a = T.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
        b = a * 2
        out = make(b)
        change(b)
        out.sum().backward()
        found.append(a.grad)

    other = T.tensor([[0.5, 1.0], [2.0, -1.0]])
    makers = [
        lambda b: b * 3, lambda b: b / 2, lambda b: b * other, lambda b: b / other, lambda b: b @ other,
        lambda b: other @ b, lambda b: T.nn.functional.linear(b, other), lambda b: T.addmm(b, b, other),
        lambda b: T.addcmul(b, b, other), lambda b: T.lerp(b, other, 0.25),
        lambda b: T.where(b > 0, b, b * 3), lambda b: T.bmm(b[None], other[None]),
    ]  # fmt: skip
    for make in makers:
        gradient(make, lambda b: b.zero_())
    return found


@program
def what_a_gradient_needs_may_not(T):
    w = T.ones(2, requires_grad=True)
    found = []
    for make in (lambda b: b * w, lambda b: b / w, lambda b: b @ w, lambda b: T.lerp(b, b + 1, w)):
        b = T.ones(2) * 2
        out = make(b)
        b.zero_()
        found.append(seen(lambda out=out: out.sum().backward()))
    return found


@program
def writes_that_end_a_gradient(T):
    found = []
    writes = [
        lambda y: y.eq_(1), lambda y: y.gt_(0), lambda y: y[0].ge_(1), lambda y: y.normal_(),
        lambda y: y.zero_(), lambda y: y[:, 1].random_(), lambda y: y.sign_(),
    ]  # fmt: skip
    for write in writes:
        a = T.ones(2, 3, requires_grad=True)
        y = a * 2
        write(y)
        y.sum().backward()
        found.append(a.grad)
    return found


@program
def gradients_at_the_origin_and_of_broadcast_targets(T):
    p, q = T.zeros(2, requires_grad=True), T.tensor([0.0, 1.0], requires_grad=True)
    T.atan2(p, q).sum().backward()
    x, t = T.full((3, 4), -1.5, requires_grad=True), T.full((4,), 0.25, requires_grad=True)
    T.nn.functional.kl_div(x, t, reduction="sum").backward()
    return [p.grad, q.grad, x.grad, t.grad]


@program
def gradients_of_the_incomplete_gamma_functions(T):
    found = []
    for function in (T.igamma, T.igammac, T.special.zeta):
        a, b = T.tensor([1.5, 2.5]), T.tensor([0.5, 3.0], requires_grad=True)
        function(a, b).sum().backward()
        found += [b.grad, seen(lambda f=function, a=a, b=b: f(b, a).sum().backward())]
    return found


@program
def sixteen_bits_through_layers(T):
    F, found = T.nn.functional, []
    for dtype in (T.bfloat16, T.float16):
        x = (T.arange(64.0).reshape(1, 1, 8, 8) / 64).to(dtype).requires_grad_()
        outs = [
            F.conv2d(x, T.ones(1, 1, 3, 3, dtype=dtype)),
            F.conv_transpose2d(x, T.ones(1, 1, 2, 2, dtype=dtype)),
            F.avg_pool2d(x, 2), F.adaptive_avg_pool2d(x, 2), F.scaled_dot_product_attention(x, x, x),
            F.dropout(x, 0.0), F.dropout(x, 0.5), F.alpha_dropout(x, 0.5, True),
        ]  # fmt: skip
        sum(out.float().sum() for out in outs).backward()
        found += [outs[2], outs[5], [out.dtype for out in outs], x.grad.dtype]
        m = T.nn.MultiheadAttention(8, 2).to(dtype)
        found.append(m(x[0], x[0], x[0])[0].dtype)
    return found


@program
def hooks_may_not_change_what_a_gradient_is(T):
    found = []
    for wrong in (lambda g: "a", lambda g: T.ones(3), lambda g: g.double()):
        for x in (T.ones(2, requires_grad=True), T.ones(2, requires_grad=True) * 1):
            x.register_hook(wrong)
            found.append(seen(lambda x=x: (x * 2).sum().backward()))
    return found


@program
def assigned_gradients_and_data(T):
    x, number = T.ones(2, requires_grad=True), T.ones(2, dtype=T.int64)
    return [
        seen(setattr, x, "grad", T.ones(2, dtype=T.float64)), seen(setattr, x, "data", [1.0]),
        seen(setattr, x, "data", number), x.grad is None, x,
    ]  # fmt: skip


@program
def views_and_leaves_in_place(T):
    x = T.ones(2, requires_grad=True)

    class Add(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x.add_(1)

        @staticmethod
        def backward(ctx, g):
            return g

    return [seen((x * 2).view(2).detach_), seen(Add.apply, x), x.is_leaf]


@program
def clones_in_a_memory_format(T):
    x = T.arange(6.0).reshape(2, 3).t()
    formats = (T.contiguous_format, T.preserve_format)
    copies = [T.clone(x, memory_format=f) for f in formats]
    return [x.clone(memory_format=T.contiguous_format).stride(), *copies]


@program
def classes_of_other_dtypes(T):
    scores, classes = T.arange(12.0).reshape(3, 4), T.tensor([0, 1, 1])
    losses = T.nn.functional.cross_entropy, T.nn.functional.nll_loss
    dtypes = T.int32, T.float32, T.bool, T.uint8
    return [seen(lambda f=f, d=d: f(scores, classes.to(d))) for f in losses for d in dtypes]


@program
def a_folder_that_is_not_there(T):
    return seen(lambda: T.save({"a": 1}, "/nowhere/at/all.pt"))


@program
def strides_without_elements(T):
    return [T.zeros(shape).stride() for shape in ((0,), (0, 3), (3, 0), (2, 0, 3))]


# -- known differences ---------------------------------------------------------------------------------------

KNOWN: dict[str, str] = {}


def known(reason: str) -> Callable:
    def mark(function: Callable) -> Callable:
        KNOWN[function.__name__] = reason
        return program(function)

    return mark


@program
def whether_any_byte_is_set(T):
    x = T.tensor([0, 2], dtype=T.uint8)
    return [x.any(), x.all(), x.any(0)]


@program
def gradients_of_a_median_that_is_there_twice(T):
    x = T.tensor([1.0, 2.0, 2.0, 3.0], requires_grad=True)
    x.median().backward()
    return x.grad


@known("tensors of inference_mode are ordinary ones that require no grad")
def inference_tensors_are_refused(T):
    with T.inference_mode():
        x = T.ones(2)
    return [seen(x.add_, 1), seen(x.requires_grad_), seen(lambda: x * T.ones(2, requires_grad=True))]


@program
def one_of_several_views_in_place(T):
    parts = (T.ones(4, requires_grad=True) * 1).split(2)
    return seen(parts[0].mul_, 2)


@program
def powers_of_bools(T):
    return T.tensor([True, False]) ** True


@program
def arrays_without_dims(T):
    return T.ones(2) + np.array(2.0)


@program
def gradients_of_a_cholesky_factor(T):
    factor = T.tensor([[2.0, 0.0], [1.0, 3.0]], dtype=T.float64, requires_grad=True)
    T.cholesky_solve(T.ones(2, 1, dtype=T.float64), factor).sum().backward()
    return factor.grad


@program
def one_over_what_changes_then(T):
    x = T.ones(2, requires_grad=True)
    y = x * 2
    z = 1 / y
    y.zero_()
    return seen(lambda: z.sum().backward())


@known("clone() and the *_like functions make tensors row by row, whatever the order of the given one")
def strides_are_kept(T):
    x = T.ones(2, 3).t()
    return [x.clone().stride(), T.zeros_like(x).stride()]


def _case(name: str) -> Any:
    marks = [pytest.mark.xfail(strict=True, reason=KNOWN[name])] if name in KNOWN else []
    return pytest.param(name, marks=marks)


@pytest.mark.parametrize("name", [_case(name) for name in PROGRAMS])
def test_the_answer_is_that_of_pytorch(name):
    torch = pytest.importorskip("torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = plain(PROGRAMS[name](torch))
        found = plain(PROGRAMS[name](jtorch))
    assert_same(found, wanted)


# -- without an oracle ---------------------------------------------------------------------------------------


def test_type_errors_name_the_function():
    with pytest.raises(TypeError, match=r"^add\(\) takes 2 positional arguments"):
        jtorch.add(jtorch.ones(1), 1, 2, 3)
