"""Every op of the table under ``vmap`` against a loop over the examples: values and gradients."""

from __future__ import annotations

import pytest

from tests.each import each
from tests.func.batches import Case, compare, patterns
from tests.ops.samples import samples
from tests.ops.support import ALL_CASES, DIFFERENTIABLE

_WITH_GRADIENT = {tuple(case.values) for case in DIFFERENTIABLE}
_CASES = [
    pytest.param(name, k, batched, id=f"{name}-{k}-{''.join(map(str, batched))}")
    for name, k in ALL_CASES
    for batched in patterns(samples(name)[k])
]


@each("name, k, batched", _CASES)
def test_a_batch_is_a_loop_over_examples(name, k, batched):
    compare(Case(name, samples(name)[k], batched), (name, k) in _WITH_GRADIENT)
