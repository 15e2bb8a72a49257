"""Which product of matrices a contraction computes, and where its factors lie."""

from __future__ import annotations

from typing import NamedTuple

from jtorch.compile.graph.access import Find, Layout, layout_of, strides_of
from jtorch.compile.graph.ir import Eqn, Var
from jtorch.core.products import Product, product_of_layouts


class Factors(NamedTuple):
    x: Layout
    y: Layout
    product: Product


def product_of(eqn: Eqn, find: Find) -> Factors | None:
    """None where the product has too many axes, or a factor is no view."""
    assert eqn.op.contracted is not None
    x, y = eqn.inputs
    assert isinstance(x, Var) and isinstance(y, Var)
    at_x, at_y = layout_of(x, find), layout_of(y, find)
    if at_x is None or at_y is None:
        return None
    axes = eqn.op.contracted(len(x.shape), len(y.shape), **eqn.statics)
    product = product_of_layouts(
        axes, (x.shape, at_x.strides), (y.shape, at_y.strides), strides_of(eqn.outputs[0])
    )
    return None if product is None else Factors(at_x, at_y, product)
