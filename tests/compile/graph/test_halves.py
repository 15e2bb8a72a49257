"""The pass that computes floats of 16 bits in float32 ends, whatever stands in an equation."""

from __future__ import annotations

import numpy as np
import pytest

from jtorch.compile.graph.halves import has_halves, widened
from jtorch.compile.graph.ir import Eqn, Literal, Type, Var
from jtorch.core.dtypes import HALVES
from jtorch.core.errors import Source
from jtorch.core.op import BY_NAME

FLOAT32 = np.dtype(np.float32)


@pytest.mark.parametrize("half", sorted(HALVES, key=str), ids=str)
@pytest.mark.parametrize("of", ["variable", "literal"])
@pytest.mark.parametrize("to", ["half", "float32", "int64"])
def test_a_number_that_is_repeated(half, of, to):
    dtype = half if to == "half" else np.dtype(to)
    number = Var(Type(half, ())) if of == "variable" else Literal(half.type(1.5), half, False)
    eqn = Eqn(
        BY_NAME["full"],
        (number,),
        {"shape": (3,), "dtype": dtype},
        (Var(Type(dtype, (3,))),),
        Source("", 1, "f"),
    )
    left, turns = [eqn], 0
    while left:
        found = widened(left.pop(), None)
        left += [e for e in found or () if has_halves(e)]
        turns += 1
        assert turns < 10
