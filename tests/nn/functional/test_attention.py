"""scaled_dot_product_attention against PyTorch and its formula."""

from __future__ import annotations

import numpy as np
import pytest

import jtorch
from jtorch.autograd import gradcheck
from jtorch.nn import functional as F
from tests.nn.twins import compare, draw, same

PLAIN = [(2, 3, 5, 4), (2, 3, 6, 4), (2, 3, 6, 2)]
HIDDEN = np.tril(np.ones((5, 6), bool), -1)  # the first query sees no key
CASES = {
    "plain": (PLAIN, {}, None),
    "matrices": ([(5, 4), (6, 4), (6, 2)], {}, None),
    "scale": (PLAIN, {"scale": 0.3}, None),
    "causal": (PLAIN, {"is_causal": True}, None),
    "bool mask": (PLAIN, {}, HIDDEN),
    "bool mask for each head": (PLAIN, {}, draw(3, 5, 6) > -0.5),
    "float mask": (PLAIN, {}, draw(2, 1, 5, 6)),
    "infinite mask": (PLAIN, {}, np.where(HIDDEN, 0.0, -np.inf)),
    "broadcast batch": ([(3, 5, 4), (2, 1, 6, 4), (2, 3, 6, 2)], {}, None),
    "grouped queries": ([(2, 6, 5, 4), (2, 3, 6, 4), (2, 2, 6, 2)], {"enable_gqa": True}, None),
    "empty batch": ([(0, 5, 4), (0, 6, 4), (0, 6, 4)], {}, None),
    "one key": ([(2, 5, 4), (2, 1, 4), (2, 1, 4)], {}, None),
}


class Nothing:
    """A module without parameters."""

    def parameters(self):
        return []


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_equals_pytorch(torch, case):
    shapes, options, mask = case
    arrays = [draw(*shape, seed=k) for k, shape in enumerate(shapes)]

    def call(lib, _, q, k, v):
        given = None if mask is None else lib.tensor(mask)
        return lib.nn.functional.scaled_dot_product_attention(q, k, v, given, **options)

    compare(torch, Nothing(), Nothing(), arrays, call)


def test_gradient_of_a_float_mask(torch):
    arrays = [draw(*shape, seed=k) for k, shape in enumerate([*PLAIN, (1, 3, 5, 6)])]
    compare(
        torch, Nothing(), Nothing(), arrays,
        lambda lib, _, *t: lib.nn.functional.scaled_dot_product_attention(*t),
    )  # fmt: skip


def test_formula():
    q, k, v = (draw(*s, seed=j) for j, s in enumerate([(5, 4), (6, 4), (6, 2)]))
    scores = np.exp(q @ k.T / 2.0)
    expected = scores / scores.sum(1, keepdims=True) @ v
    out = F.scaled_dot_product_attention(*(jtorch.tensor(a) for a in (q, k, v)))
    np.testing.assert_allclose(out.numpy(), expected, rtol=1e-12)


def test_second_gradient():
    tensors = [jtorch.tensor(draw(*s), requires_grad=True) for s in ((3, 2), (4, 2), (4, 2))]

    def slope(q, k, v):
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return jtorch.autograd.grad((out**2).sum(), q, create_graph=True)[0]

    assert gradcheck(slope, tensors)


def test_dropout_scales_the_weights_that_stay():
    jtorch.manual_seed(0)
    q, v = jtorch.zeros(1, 2), jtorch.eye(400)
    weights = F.scaled_dot_product_attention(q, jtorch.zeros(400, 2), v, dropout_p=0.25)
    values = {round(w * 300, 4) for w in weights[0].tolist()}
    assert values == {0.0, 1.0}
    kept = (weights > 0).float().mean().item()
    assert 0.6 < kept < 0.9


Q = (2, 3, 4)
BAD_CALLS = [
    (lambda f, z: f(z(*Q), z(*Q), z(*Q), z(3, 3), is_causal=True), "Explicit attn_mask should not be set"),
    (lambda f, z: f(z(*Q), z(*Q), z(*Q), z(3, 3).long()), "Expected attn_mask dtype to be bool or float"),
    (lambda f, z: f(z(*Q), z(*Q), z(*Q).double()), "query, key, and value to have the same dtype"),
    (lambda f, z: f(z(*Q), z(*Q), z(*Q), dropout_p=1.5), "has to be between 0 and 1, but got 1.5"),
    (lambda f, z: f(z(4), z(*Q), z(*Q)), r"at least 2 dimensional, but got query.dim: 1 key.dim: 3"),
    (
        lambda f, z: f(z(1, 4, 3, 2), z(1, 3, 3, 2), z(1, 3, 3, 2), enable_gqa=True),
        "must divide the number of heads in ",
    ),
    (lambda f, z: f(z(*Q), z(*Q), z(*Q), z(2, 3)), "The size of tensor a"),
]


@pytest.mark.parametrize(("call", "text"), BAD_CALLS)
def test_errors(call, text):
    with pytest.raises(RuntimeError, match=text):
        call(F.scaled_dot_product_attention, jtorch.zeros)


@pytest.mark.parametrize(("call", "text"), BAD_CALLS)
def test_errors_are_pytorchs(torch, call, text):
    with pytest.raises(RuntimeError, match=text):
        call(torch.nn.functional.scaled_dot_product_attention, torch.zeros)


def test_shapes_that_do_not_fit():
    with pytest.raises(RuntimeError, match="do not fit"):
        F.scaled_dot_product_attention(jtorch.zeros(3, 4), jtorch.zeros(3, 2), jtorch.zeros(3, 2))
    same(jtorch.zeros(1), jtorch.zeros(1))
