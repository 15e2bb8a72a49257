"""What eager mode checks of elements: compiled code raises for the same ones, or recording it is an error."""

from __future__ import annotations

import pytest

import jtorch

F = jtorch.nn.functional
T = jtorch.tensor
distributions = jtorch.distributions

ONES = jtorch.ones(3, 2)
MATRIX = T([[4.0, 1.0], [1.0, 3.0]])
HALF = T([0.5, 0.2])
INDEX, TOO_LARGE, NEGATIVE = T([0, 1]), T([0, 3]), T([-4, 2])
SCORES = T([[0.1, 0.2, 0.3], [0.3, 0.1, 0.2]])

# (function, arguments that are right, arguments that are not)
OF_INDICES = {
    "one_hot": (lambda i: F.one_hot(i, 3), [INDEX], [TOO_LARGE]),
    "one_hot of negative ones": (lambda i: F.one_hot(i, 3), [INDEX], [T([-1, 2])]),
    "index of zeros": (lambda i: jtorch.zeros(3)[i], [INDEX], [TOO_LARGE]),
    "index of arange": (lambda i: jtorch.arange(3)[i], [INDEX], [NEGATIVE]),
    "index of eye": (lambda i: jtorch.eye(3)[:, i], [INDEX], [TOO_LARGE]),
    "index of an expanded axis": (lambda x, i: x.expand(3, 2)[i], [HALF, INDEX], [HALF, TOO_LARGE]),
    "gather of an expanded axis": (
        lambda x, i: x.expand(3, 2).gather(0, i[None]), [HALF, INDEX], [HALF, TOO_LARGE]
    ),
    "index": (lambda x, i: x[i], [ONES, INDEX], [ONES, NEGATIVE]),
    "index_select": (lambda x, i: x.index_select(0, i), [ONES, INDEX], [ONES, TOO_LARGE]),
    "gather": (lambda x, i: x.gather(0, i[None]), [ONES, INDEX], [ONES, T([0, -1])]),
    "take": (lambda x, i: x.take(i), [ONES, INDEX], [ONES, T([0, 6])]),
    "take_along_dim": (lambda x, i: x.take_along_dim(i[None], 0), [ONES, INDEX], [ONES, TOO_LARGE]),
    "scatter": (lambda x, i: x.scatter(0, i[None], 2.0), [ONES, INDEX], [ONES, TOO_LARGE]),
    "scatter_add": (
        lambda x, i: x.scatter_add(0, i[None], ONES[:1]), [ONES, INDEX], [ONES, TOO_LARGE]
    ),
    "index_add": (lambda x, i: x.index_add(0, i, ONES[:2]), [ONES, INDEX], [ONES, TOO_LARGE]),
    "index_fill": (lambda x, i: x.index_fill(0, i, 2.0), [ONES, INDEX], [ONES, TOO_LARGE]),
    "index_copy": (lambda x, i: x.index_copy(0, i, ONES[:2]), [ONES, INDEX], [ONES, TOO_LARGE]),
    "embedding": (lambda i, w: F.embedding(i, w), [INDEX, ONES], [TOO_LARGE, ONES]),
    "embedding of ones": (lambda i: F.embedding(i, jtorch.ones(3, 2)), [INDEX], [T([0, -1])]),
    "embedding_bag": (
        lambda i, w: F.embedding_bag(i[None], w), [INDEX, ONES], [TOO_LARGE, ONES]
    ),
    "nll_loss": (lambda x, t: F.nll_loss(x, t), [SCORES, INDEX], [SCORES, TOO_LARGE]),
    "cross_entropy": (lambda x, t: F.cross_entropy(x, t), [SCORES, INDEX], [SCORES, T([0, -1])]),
    "multi_margin_loss": (lambda x, t: F.multi_margin_loss(x, t), [SCORES, INDEX], [SCORES, TOO_LARGE]),
    "max_unpool1d": (
        lambda x, i: F.max_unpool1d(x[None, None], i[None, None], 2), [HALF, T([0, 3])], [HALF, T([0, 4])]
    ),
    "bincount": (lambda i: jtorch.bincount(i, minlength=4), [INDEX], [NEGATIVE]),
    "repeat_interleave": (lambda x, i: x.repeat_interleave(i), [HALF, INDEX], [HALF, T([0, -1])]),
}  # fmt: skip
OF_NUMBERS = {
    "binary_cross_entropy": (F.binary_cross_entropy, [HALF, HALF], [T([1.5, 0.2]), HALF]),
    "binary_cross_entropy below": (
        lambda p, t: F.binary_cross_entropy(p, t, reduction="none"), [HALF, HALF], [T([0.5, -0.2]), HALF]
    ),
    "BCELoss of nan": (jtorch.nn.BCELoss(), [HALF, HALF], [T([0.5, float("nan")]), HALF]),
    "bernoulli": (lambda p: p.bernoulli(), [HALF], [T([1.5, 0.5])]),
    "bernoulli_": (lambda x, p: x.clone().bernoulli_(p), [HALF, HALF], [HALF, T([-1.5, 0.5])]),
    "multinomial": (lambda p: p.multinomial(1), [HALF], [T([-1.0, 2.0])]),
    "multinomial of nothing": (lambda p: p.multinomial(1), [HALF], [T([0.0, 0.0])]),
    "poisson": (jtorch.poisson, [HALF], [-HALF]),
    "binomial": (jtorch.binomial, [T([2.0, 3.0]), HALF], [T([2.0, 3.0]), HALF + 1]),
    "normal": (lambda s: jtorch.normal(0.0, s), [HALF], [-HALF]),
    "cholesky": (jtorch.linalg.cholesky, [MATRIX], [-MATRIX]),
    "inv": (jtorch.linalg.inv, [MATRIX], [jtorch.ones(2, 2)]),
    "solve": (jtorch.linalg.solve, [MATRIX, HALF], [jtorch.ones(2, 2), HALF]),
    "integer division": (lambda a, b: a // b, [INDEX, T([1, 2])], [INDEX, INDEX]),
    "integer remainder": (lambda a, b: a % b, [INDEX, T([1, 2])], [INDEX, INDEX]),
    "Categorical": (lambda p: distributions.Categorical(p).entropy(), [HALF], [T([0.5, -0.2])]),
    "Categorical's value": (
        lambda p, v: distributions.Categorical(p).log_prob(v), [HALF, T(1)], [HALF, T(2)]
    ),
    "Normal": (lambda s: distributions.Normal(0.0, s).variance, [HALF], [-HALF]),
    "Bernoulli": (lambda p: distributions.Bernoulli(p).mean, [HALF], [HALF * 4]),
    "Beta's value": (
        lambda p, v: distributions.Beta(p, p).log_prob(v), [HALF, HALF], [HALF, HALF * 4]
    ),
}  # fmt: skip
CHECKED = OF_INDICES | OF_NUMBERS


@pytest.mark.parametrize("name", CHECKED)
def test_what_eager_refuses_is_no_number(name):
    """After a good call, as the first call, and good ones again after a bad one."""
    function, good, bad = CHECKED[name]
    with pytest.raises((RuntimeError, IndexError, ValueError)):
        function(*bad)

    for before in ([good], []):
        compiled = jtorch.compile(lambda *arguments: function(*arguments))
        try:
            for arguments in before:
                compiled(*arguments)
        except jtorch.errors.CompileError:
            return  # a clear error for any elements
        with pytest.raises((RuntimeError, IndexError, ValueError)):
            compiled(*bad)
        compiled(*good)
        with pytest.raises((RuntimeError, IndexError, ValueError)):
            compiled(*bad)


def test_a_probability_outside_is_eagers_error():
    @jtorch.compile
    def f(p, t):
        loss = F.binary_cross_entropy(p, t)
        loss.backward()
        return loss

    f(HALF.clone().requires_grad_(), T([1.0, 0.0]))
    with pytest.raises(RuntimeError, match="all elements of input should be between 0 and 1"):
        f((HALF + 1).requires_grad_(), T([1.0, 0.0]))
