"""The shapes of what ``jtorch.func``'s derivatives return."""

import jtorch
from jtorch import func


def test_the_product_of_one_primal_comes_in_a_tuple():
    out, pull = func.vjp(lambda x: x.sin(), jtorch.zeros(3))
    (product,) = pull(jtorch.ones(3))
    assert product.tolist() == [1.0, 1.0, 1.0] and out.shape == (3,)
