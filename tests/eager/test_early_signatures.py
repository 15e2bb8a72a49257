"""Signatures of early PyTorch, with the factor before what it multiplies."""

import warnings

import pytest

import jtorch

PROGRAMS = {
    "add": lambda T, x, y, z: T.add(x, 2, y),
    "x.add": lambda T, x, y, z: x.add(2, y),
    "x.add_": lambda T, x, y, z: x.add_(-0.5, y),
    "sub": lambda T, x, y, z: T.sub(x, 2, y),
    "x.sub_": lambda T, x, y, z: x.sub_(2, y),
    "addcmul": lambda T, x, y, z: T.addcmul(x, 2, y, z),
    "x.addcmul_": lambda T, x, y, z: x.addcmul_(0.25, y, z),
    "addcdiv": lambda T, x, y, z: T.addcdiv(x, 2, y, z),
    "x.addcdiv_": lambda T, x, y, z: x.addcdiv_(-2, y, z),
    "number, number, tensor": lambda T, x, y, z: T.add(2, 3, x),
    "number, tensor": lambda T, x, y, z: T.sub(2, x),
}


def tensors(T):
    return T, T.tensor([1.0, 2.0]), T.tensor([3.0, 4.0]), T.tensor([5.0, 8.0])


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_factor_may_come_first(name):
    torch = pytest.importorskip("torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert PROGRAMS[name](*tensors(jtorch)).tolist() == PROGRAMS[name](*tensors(torch)).tolist()


def test_its_value_and_its_gradient():
    x, y = jtorch.tensor([1.0]), jtorch.tensor([3.0], requires_grad=True)
    with pytest.warns(UserWarning, match="overload of add is deprecated: the number goes last, as alpha="):
        out = jtorch.add(x, 2, y)
    out.backward()
    assert (out.item(), y.grad.item()) == (7.0, 2.0)


def test_the_warning_names_the_users_line_and_comes_once_for_it():
    x = jtorch.ones(2)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("default")
        for _ in range(3):
            x.add_(2, x.clone())
    assert [(w.filename, w.category) for w in seen] == [(__file__, UserWarning)]


@pytest.mark.parametrize("call", [lambda x: jtorch.add(x, x, 2), lambda x: x.sub_(x, 2)])
def test_a_third_argument_without_a_number_before_it_is_an_error(call):
    x = jtorch.ones(2)
    with pytest.raises(TypeError, match="takes 2 positional arguments but 3 were given"):
        call(x)
    assert x.tolist() == [1.0, 1.0]


def test_an_early_optimizer_step_compiles():
    def step(p, g, mean, square):
        mean.mul_(0.9).add_(0.1, g)
        square.mul_(0.99).addcmul_(0.01, g, g)
        p.addcdiv_(-0.1, mean, square.sqrt().add_(1e-8))
        return p

    def run(step):
        made = [jtorch.linspace(1, 2, 5) * k for k in range(1, 5)]
        for _ in range(3):
            step(*made)
        return [t.tolist() for t in made]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for ours, theirs in zip(run(jtorch.compile(step)), run(step), strict=True):
            assert ours == pytest.approx(theirs, rel=1e-6)
