"""``x[mask]`` whose number of elements a recording cannot know: changed in place and written back."""

import pytest

import jtorch

pytestmark = pytest.mark.usefixtures("unjitted")


def program(text, arguments="x, v"):
    """The function of x (3, 4) and v, a number, that changes y = 1.5 x by the lines of ``text``."""
    lines = "".join(f"    {line}\n" for line in text.split("; "))
    names = {"jtorch": jtorch}
    code = f"def f({arguments}):\n    y = x * 1.5\n{lines}    return y\n"
    exec(compile(code, "selecting.py", "exec"), names)
    return names["f"]


MASKS = ("x > 0", "~(x > 0)", "x > 100", "x > -100", "(x > 0) & (x < 1)", "(x > 0)[:, 0]", "0, x[0] > 0")
CHANGES = ("+= v", "-= 2", "*= v", "*= -1", "/= v", "**= 2", "%= 2", "//= 2", "= v")
LINES = [f"y[{mask}] {change}" for mask in MASKS for change in CHANGES]
LINES += [
    "y[x[:, 0] > 0, 1] += v", "y[:, x[0] > 0] *= v", "y[x[:, 0] > 0] *= x[1]", "y[1:][x[1:] > 0] *= v",
    "y.t()[x.t() > 0] *= v", "y.view(-1)[x.view(-1) > 0] -= v", "y[x > 0] += x[x > 0]",
    "y[x > 0] = x[x > 0].log()", "y[x > 0] = x[x > 0].sqrt() * v", "y[x > 0] = v / x[x > 0]",
    "y[x > 0] = x[x > 0] ** v", "y[x > 0] = -abs(x[x > 0])", "y[x > 0] = x[x > 0].clamp(0, 1)",
    "y[x > 0] = x[x > 0].relu().tanh().detach()", "y[x > 0] = x[x > 0].to(jtorch.float64)",
    "k = x > 0; t = y[k]; t += 1; y[k] = t * 2", "k = x > 0; y[k] -= y[k] * v + 2",
    "k = x > 0; y[k] = (y[k] - x[k]) * v", "k = x > 0; t = y[k]; k.logical_not_(); y[x > 0] = t + 1",
    "k = x > 0; t = y[k]; y[~k] = 5.0; y[x > 0] = t",
]  # fmt: skip
VALUES = (
    [[2.0, -1.0, 0.5, 0.0], [0.3, 3.0, -2.0, 1.0], [-0.1, 4.0, 0.2, -3.0]],
    [[0.0, -1.0, 2.0, 0.0], [3.0, 0.0, 0.0, 1.0], [0.0, 0.0, 5.0, -2.0]],
    [[-1.0] * 4] * 3,
)


def outcomes(f, inside):
    """What each call gives, with the gradients of its arguments."""
    found = []
    for values in VALUES * 2:
        x, v = jtorch.tensor(values).requires_grad_(), jtorch.tensor(2.5).requires_grad_()
        y = f(x, v)
        if not inside:
            (y * y).sum().backward()
        found.append([y.detach(), x.grad, v.grad])
    return found


def with_backward(f):
    def step(x, v):
        y = f(x, v)
        (y * y).sum().backward()
        return y

    return step


@pytest.mark.slow
@pytest.mark.parametrize("inside", [False, True], ids=["backward outside", "backward inside"])
def test_a_selection_that_is_changed_and_written_back(inside):
    for line in LINES:
        f = with_backward(program(line)) if inside else program(line)
        compiled = jtorch.compile(f)
        for got, expected in zip(outcomes(compiled, inside), outcomes(f, inside), strict=True):
            for a, b in zip(got, expected, strict=True):
                assert (a is None) == (b is None), line
                assert a is None or jtorch.allclose(a, b, rtol=1e-5, equal_nan=True), (line, a, b)
        assert sum(map(len, compiled.plans.values())) == 1, line


POLES = [  # (what is done, v): where the mask does not hold, 1 stands, which is a pole of each
    ("v / (y[k] - 1)", 2.0), ("v // (y[k] - 1)", 2.0), ("v % (y[k] - 1)", 2.0), ("(y[k] - 1) ** -v", 2.0),
    ("(y[k] - v) ** -2", 1.0), ("(y[k] - v) ** 0.5", 1.0), ("(y[k] - 1) ** v", 0.5), ("1 / (y[k] - v)", 1.0),
    ("(y[k] - v).reciprocal()", 1.0), ("(y[k] / v - 1).log()", 1.0), ("(y[k] - v).abs().log2()", 1.0),
    ("(y[k] - v).log10()", 1.0), ("(v * y[k] - 2).log1p()", 1.0), ("(v - y[k]).sqrt()", 1.0),
    ("(v - y[k]).rsqrt()", 1.0), ("(y[k] * v).exp()", 100.0), ("(y[k] * v).expm1()", 100.0),
    ("(y[k] * v).exp2()", 1000.0), ("(y[k] * v).sinh()", 100.0), ("(y[k] * v).cosh()", 100.0),
    ("v ** (y[k] * 1000)", 2.0), ("(y[k] * v).asin()", 1.0), ("(y[k] * v).acos()", 1.0),
    ("(y[k] * v).acosh()", 1.0), ("(y[k] * v).atanh()", 1.0), ("(y[k] * v).erfinv()", 1.0),
    ("(y[k] - v).lgamma()", 1.0), ("(y[k] - v).digamma()", 1.0), ("(y[k] - v).atan2(y[k] - 1)", 1.0),
    ("(y[k] - v).hypot(y[k] - 1)", 1.0), ("(y[k] - 1).copysign(y[k] - v)", 1.0),
    ("(y[k] - 1).fmod(y[k] - v)", 1.0),
    ("(y[k] - v).sqrt().clamp(max=v)", 1.0), ("(v - y[k]).log().maximum(v)", 1.0),
    ("y[k].sub(v).div_(y[k] - 1)", 1.0), ("y[k].clone().div_(y[k] - v).mul_(v)", 1.0),
    ("(w[k] / (y[k] - 1)) * v", 2.0), ("(y[k] - w[k]).sqrt() * v", 2.0), ("(w[k] - v).log()", 1.0),
]  # fmt: skip
INTO = ("y[k] = {}", "y[k] += {}", "y[k] *= {}", "t = y[k]; t -= {}; y[k] = t", "y[k] /= {}; y[k] **= v")
PLACES = [[3.0, 0.5, 1.0, 0.25], [1.0, -2.0, 0.1, 1.0]]


def gradients(f, v, dtype, twice):
    """What ``f`` gives for v, and the gradients of its arguments, or their gradients' own."""
    x, w = (jtorch.tensor(row).requires_grad_() for row in PLACES)
    v = jtorch.tensor(v, dtype=dtype).requires_grad_() if dtype else v
    args = [a for a in (x, w, v) if isinstance(a, jtorch.Tensor)]
    y = f(x, w, v)
    found = jtorch.autograd.grad(y.sum(), args, create_graph=twice, allow_unused=True)
    if twice:
        used = [(g * g).sum() for g in found if g is not None and g.requires_grad]
        found = jtorch.autograd.grad(sum(used), args, allow_unused=True) if used else ()
    return [y.detach(), *found]


def different(a, b):
    if a is None or b is None:
        return a is not b
    return (a.dtype, a.shape) != (b.dtype, b.shape) or not jtorch.allclose(a, b, rtol=1e-4, equal_nan=True)


def check_poles(lines, dtype, twice=False):
    wrong = []
    for line, v in lines:
        f = program(f"y = x.clone(); k = x != 1; {line}", "x, w, v")
        compiled = (
            jtorch.compile(lambda f=f, v=v: gradients(f, v, dtype, True)) if twice else jtorch.compile(f)
        )
        got = compiled() if twice else gradients(compiled, v, dtype, False)
        expected = gradients(f, v, dtype, twice)
        wrong += [(line, a, b) for a, b in zip(got, expected, strict=True) if different(a, b)]
    assert not wrong, "\n".join(map(str, wrong))


@pytest.mark.slow
def test_poles_where_the_mask_does_not_hold_reach_no_gradient():
    check_poles([(INTO[0].format(done), v) for done, v in POLES], jtorch.float32)
    for dtype in (jtorch.float64, None):
        some = [(into.format(done), v) for into in INTO for done, v in POLES[:: 9 - 2 * bool(dtype)]]
        check_poles(some, dtype)


def test_poles_where_the_mask_does_not_hold_reach_no_gradient_of_a_gradient():
    check_poles([(INTO[0].format(done), v) for done, v in POLES[::3]], jtorch.float32, True)


def test_the_dtype_of_what_is_computed_with_a_scalar_that_gets_a_gradient():
    """It decides the dtype only where its category is higher, however many places it stands at."""

    def f(x, v):
        y, k = x.clone(), x > 1
        done = [y[k] * v, v / y[k], y[k].clamp(y[k].to(jtorch.float64), v), y[k].to(v), y[k].to(y[k])]
        return [jtorch.zeros(1, dtype=z.dtype) for z in done]

    for kind in (jtorch.int32, jtorch.float16, jtorch.float32, jtorch.float64):
        for scalar in (jtorch.float16, jtorch.float64):
            x, v = jtorch.tensor([1, 2, 3], dtype=kind), jtorch.tensor(2.0, dtype=scalar, requires_grad=True)
            dtypes = [[z.dtype for z in called(x, v)] for called in (f, jtorch.compile(f))]
            assert dtypes[0] == dtypes[1], (kind, scalar)


def test_a_pole_beside_the_mask_and_a_row_that_is_the_same_for_each_place():
    def f(x, row):
        y, k = x.clone(), x[:, 0] > 1
        y[k] = row / (y[k] - 1) + (y[k] - row).sqrt()
        y[:, x[0] != 1] *= 2
        return y

    x = jtorch.tensor([[3.0, 4.0], [1.0, 1.0], [5.0, 1.5]])
    compiled, found = jtorch.compile(f), []
    for called in (f, compiled, compiled):
        row = jtorch.tensor([1.0, 1.25], dtype=jtorch.float64).requires_grad_()
        called(x, row).sum().backward()
        found.append(row.grad)
    assert all(jtorch.allclose(grad, found[0]) and grad.isfinite().all() for grad in found)


def test_integers_and_bools():
    def f(x):
        y, z = (x * 4).long(), x > 0
        y[y > 0] *= -1
        y[y < -2] += 3
        z[x > 1] ^= True
        return y, z

    compiled = jtorch.compile(f)
    for values in VALUES * 2:
        x = jtorch.tensor(values)
        assert all(map(jtorch.equal, compiled(x), f(x)))


def test_a_buffer_and_an_argument():
    class Counting(jtorch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("seen", jtorch.zeros(3, 4))

        def forward(self, x):
            self.seen[x > 0] += 1
            self.seen[~(x > 0)] *= -1
            x[x < 0] *= 2
            return x * self.seen

    eager, model = Counting(), Counting()
    compiled = jtorch.compile(model)
    for values in VALUES * 2:
        a, b = jtorch.tensor(values), jtorch.tensor(values)
        assert jtorch.equal(compiled(a), eager(b))
        assert jtorch.equal(a, b)
        assert jtorch.equal(model.seen, eager.seen)


@pytest.mark.slow
def test_what_needs_the_number_of_elements_has_a_plan_for_each_number_here():
    """Where kernels are not compiled no size is a symbol: see test_counted_masks.py."""
    for line in (
        "y = x[x > 0]", "y = x[x > 0].sum()", "y = x * x[x > 0].shape[0]", "y = jtorch.neg(x[x > 0])",
        "y[x > 0] = x[x < 0]", "y[x > 0][0] = 1", "y = x[x > 0][0]", "y = x[x > 0].outer(x[x > 0])",
        "y = jtorch.cat([x[x > 0], x[0]])", "y = x * len(x[x > 0])", "y = x[x > 0] + x[0]",
        "y = [x[x > 0]][0]",
    ):  # fmt: skip
        function = program(line)
        compiled = jtorch.compile(function)
        for values in VALUES * 2:
            x, found = jtorch.tensor(values), []
            for f in (compiled, function):
                try:
                    found.append(f(x.clone(), 2.5).tolist())
                except (RuntimeError, IndexError) as error:
                    found.append(type(error))
            assert found[0] == found[1], (line, values)
