"""Random programs through the chain of equal results."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings

import jtorch
from tests.compile.chain import assert_chain
from tests.compile.programs import Program, programs

_SETTINGS = {"deadline": None, "derandomize": True, "suppress_health_check": list(HealthCheck)}


@given(programs())
@settings(max_examples=150, **_SETTINGS)
def test_random_programs(program: Program):
    with jtorch.no_grad():
        assert_chain(program, program.leaves(), jit=False)
