"""The lengths of partials: a function of sizes, and of nothing else."""

import pytest

from jtorch.core import partials

RULES = [(partials.line, partials.LINE), (partials.rows, partials.ROWS)]


@pytest.mark.parametrize(("rule", "longest"), RULES)
def test_lengths(rule, longest):
    assert [rule(n) for n in (0, 1, 7, longest, longest + 1, 10**9)] == [1, 1, 7, longest, longest, longest]
