"""``x[mask]`` whose number of elements a recording cannot know: changed in place and written back."""

import pytest

import jtorch
from jtorch.core.errors import CompileError


def program(text):
    """The function of x (3, 4) and v, a number, that changes y = 1.5 x by the lines of ``text``."""
    lines = "".join(f"    {line}\n" for line in text.split("; "))
    names = {"jtorch": jtorch}
    code = f"def f(x, v):\n    y = x * 1.5\n{lines}    return y\n"
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


def test_what_needs_the_number_of_elements_is_an_error():
    for line in (
        "y = x[x > 0]", "y = x[x > 0].sum()", "y = x * x[x > 0].shape[0]", "y = jtorch.exp(x[x > 0])",
        "y[x > 0] = x[x < 0]", "y[x > 0][0] = 1", "y = x[x > 0][0]", "y = x[x > 0] @ x[x > 0]",
        "y = jtorch.cat([x[x > 0], x[0]])", "y = x * len(x[x > 0])", "y = x[x > 0] + x[0]", "y = [x[x > 0]]",
    ):  # fmt: skip
        with pytest.raises(CompileError, match=r"selecting.py:3 .*indexing with a boolean mask needs"):
            jtorch.compile(program(line))(jtorch.tensor(VALUES[0]), 2.5)
