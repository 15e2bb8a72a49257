"""Every op states all that its kind must state, and nothing is declared that nobody can use."""

from __future__ import annotations

import inspect
import re
import string

import numpy as np
import pytest

from jtorch.core.op import BY_NAME, TABLE, Kind
from jtorch.eager.binding import APPLY, TENSOR_XP
from jtorch.ops import xp
from tests.each import each
from tests.ops.samples import samples

OPS = [pytest.param(op, id=op.name) for op in TABLE]


@each("op", OPS)
def test_has_samples(op):
    assert samples(op.name)


@each("op", OPS)
def test_has_a_gradient_or_says_that_there_is_none(op):
    assert (op.vjp_function is not None) == op.differentiable


@each("op", OPS)
def test_kind_states_what_it_must(op):
    if op.kind is Kind.ELEMENTWISE:
        # without a text it is a library call, by the function of its name
        assert op.text or op.integer_text or callable(getattr(xp, op.name))
    elif op.kind is Kind.REDUCTION:
        assert op.combine
    elif op.kind is Kind.VIEW:
        assert op.shape
        assert op.affine or op.index_map or op.woven
    elif op.kind in (Kind.CONTRACTION, Kind.OPAQUE):
        assert op.shape


@each("op", [p for p in OPS if p.values[0].text])
def test_scalar_text_uses_only_arguments_and_known_names(op):
    known = {*op.arrays, *op.statics, "t", "out", "to", "index", "position", "kind", "convert"}
    for text in filter(None, (op.text, op.integer_text)):
        fields = {name for _, name, _, _ in string.Formatter().parse(text) if name}
        assert fields <= known, f"{op.name}: {fields - known} in {text!r}"


@each("op", OPS)
def test_public_ops_are_functions_and_methods(op):
    import jtorch

    assert op.name in APPLY
    if op.public:
        assert callable(getattr(jtorch, op.public))
        for method in op.methods:
            assert callable(getattr(jtorch.Tensor, method))
        if op.in_place:
            assert callable(getattr(jtorch.Tensor, f"{op.public}_"))


# -- the closed dialect ------------------------------------------------------------------------------------

DIALECT = {
    name
    for name, value in vars(xp).items()
    if callable(value) and not name.startswith("_") and name not in ("Array", "Shape", "Any")
}


def test_dialect_is_the_primitive_ops_and_nothing_else():
    primitives = {op.name for op in TABLE if op.kind is not Kind.COMPOSITE}
    assert primitives == DIALECT


def test_every_namespace_offers_the_whole_dialect():
    assert {n for n in dir(TENSOR_XP) if not n.startswith("_")} == DIALECT


@each("op", OPS)
def test_bodies_and_gradients_use_only_the_dialect(op):
    module = inspect.getmodule(op.body)
    used = set(re.findall(r"\bxp\.([A-Za-z_]\w*)", inspect.getsource(module)))
    assert used <= DIALECT, f"{module.__name__} uses xp.{used - DIALECT}"


@each("op", OPS)
def test_bodies_call_no_numpy_on_values(op):
    """np.dtype is metadata; any other NumPy call would fail on traced values."""
    source = inspect.getsource(op.body)
    if op.vjp_function is not None:
        source += inspect.getsource(op.vjp_function)
    used = set(re.findall(r"\bnp\.([A-Za-z_]\w*)", source))
    calls = {name for name in used if not isinstance(getattr(np, name), type)}
    assert not calls, f"{op.name} calls {calls}"
    assert ".size" not in source, f"{op.name}: Tensor.size is a method; use math.prod(shape)"


def test_table_and_names_agree():
    assert [op.index for op in TABLE] == list(range(len(TABLE)))
    assert len(BY_NAME) == len(TABLE)
