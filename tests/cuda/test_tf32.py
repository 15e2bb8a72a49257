"""Products of float32 whose factors are rounded to TF32 where the program asks for it, in both modes."""

from __future__ import annotations

import numpy as np
import pytest

import jtorch
from jtorch.nn import functional as F
from tests.cuda.marks import compiles
from tests.cuda.test_compiled import plans
from tests.cuda.test_half_products import products
from tests.each import each

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("cuda"), compiles]
matmul, cudnn = jtorch.backends.cuda.matmul, jtorch.backends.cudnn


@pytest.fixture(autouse=True)
def switches():
    yield
    matmul.fp32_precision, cudnn.allow_tf32 = "none", True


def factors(*shapes: tuple[int, ...], dtype=jtorch.float32):
    """Odd numbers of 12 bits, of which TF32 keeps 11: x becomes x + 1, since ties go away from zero. A sum of
    two products is exact in float32, of the former and of the latter."""
    rng = np.random.default_rng(0)
    return [jtorch.tensor(rng.integers(1024, 2048, shape) * 2 + 1.0, dtype=dtype) for shape in shapes]


PROGRAMS = {
    "matrices": (lambda x, y: x @ y, [(3, 2), (2, 4)]),
    "batches": (lambda x, y: x @ y, [(2, 3, 2), (2, 2, 4)]),
    "a layer": (lambda x, y: F.linear(x, y), [(5, 2), (3, 2)]),
    "windows": (lambda x, y: F.conv1d(x, y), [(1, 1, 9), (4, 1, 2)]),
}


@each("name", PROGRAMS)
def test_factors_are_rounded_where_it_is_asked_for(name, cuda):
    function, shapes = PROGRAMS[name]
    given = factors(*shapes)
    exact, rounded = function(*given), function(*(x + 1 for x in given))
    assert not jtorch.equal(exact, rounded)
    there, compiled = [x.cuda() for x in given], jtorch.compile(function, fullgraph=True)
    for run in (function, compiled):
        for allowed, expected, kind in (
            (None, exact, "float32"),
            (True, rounded, "tf32"),
            (False, exact, "float32"),
        ):
            cuda.fake.ran.clear()
            if allowed is None:  # as a process begins
                matmul.fp32_precision = "none"
            else:
                matmul.allow_tf32 = allowed
            assert jtorch.equal(run(*there).cpu(), expected), (run, allowed)
            assert set(products(cuda)) == {f"{kind} to float32"}, (run, allowed)
    assert len(plans(compiled)) == 1  # the switch is a part of a graph, and nothing is recorded for it


ASKING = {
    "high": lambda: jtorch.set_float32_matmul_precision("high"),
    "medium": lambda: jtorch.set_float32_matmul_precision("medium"),
    "the newer name": lambda: setattr(matmul, "fp32_precision", "tf32"),
}


@each("name", ASKING)
def test_each_switch_asks_for_it(name, cuda):
    x, y = (factor.cuda() for factor in factors((3, 2), (2, 4)))
    x @ y
    ASKING[name]()
    x @ y
    assert matmul.allow_tf32 and products(cuda) == ["float32 to float32", "tf32 to float32"]
    matmul.fp32_precision = "none"
    cuda.fake.ran.clear()


def test_what_convolutions_are_refused_no_product_does(cuda):
    """A convolution is a product, and nobody tells which."""
    x, y = (factor.cuda() for factor in factors((3, 2), (2, 4)))
    matmul.allow_tf32 = True
    with cudnn.flags(allow_tf32=False):
        x @ y
    assert cudnn.allow_tf32 and products(cuda) == ["float32 to float32"]


def test_other_dtypes_stay_as_they_are(cuda):
    matmul.allow_tf32 = True
    for dtype in (jtorch.float64, jtorch.float16, jtorch.bfloat16):
        x, y = (factor.cuda() for factor in factors((3, 2), (2, 4), dtype=dtype))
        for run in (jtorch.matmul, jtorch.compile(lambda x, y: x @ y)):
            run(x, y)
    assert {name.split()[0] for name in products(cuda)} == {"float64", "float16", "bfloat16"}


def test_gradients_and_loops_of_a_plan_follow(cuda):
    """The backward pass is a product, too; and so are those of a body that a loop runs."""

    def step(w, xs):
        h, _ = jtorch.compiler.scan(lambda h, x: (x @ w + 0 * h, h), jtorch.zeros(1, 4, device=w.device), xs)
        h.sum().backward()
        return w.grad

    def run(w, xs):
        return compiled(w.cuda().requires_grad_(), xs.cuda()).cpu()

    w, xs = factors((2, 4), (2, 1, 2))
    compiled = jtorch.compile(step, fullgraph=True)
    exact = run(w, xs)
    assert set(products(cuda)) == {"float32 to float32"}  # what nobody has asked for is not done
    matmul.allow_tf32 = True
    cuda.fake.ran.clear()
    assert jtorch.equal(run(w, xs), exact + 1)
    assert set(products(cuda)) == {"tf32 to float32"}


def test_graphs_of_all_sizes_follow(cuda):
    compiled = jtorch.compile(lambda x, y: x @ y, fullgraph=True)
    for allowed in (False, True, False):
        matmul.allow_tf32 = allowed
        for n in (3, 4, 5, 6, 3, 7):
            x, y = factors((n, 2), (2, 4))
            expected = (x + allowed) @ (y + allowed)
            assert jtorch.equal(compiled(x.cuda(), y.cuda()).cpu(), expected), (allowed, n)


def test_an_error_right_after_a_turn_loses_nothing(cuda):
    w, x = (factor.cuda() for factor in factors((5, 4), (4, 3)))
    w.requires_grad_()
    optimizer = jtorch.optim.Adam([w], lr=0.1)

    def step(index):
        optimizer.zero_grad()
        (w[index] @ x).sum().backward()
        optimizer.step()

    compiled = jtorch.compile(step, fullgraph=True)
    compiled(jtorch.tensor([0, 1]).cuda())
    before = w.detach().cpu().clone()
    matmul.allow_tf32 = True
    with pytest.raises(IndexError):
        compiled(jtorch.tensor([0, 9]).cuda())
    assert jtorch.equal(w.detach().cpu(), before)
    compiled(jtorch.tensor([0, 1]).cuda())
    assert not jtorch.equal(w.detach().cpu(), before)
