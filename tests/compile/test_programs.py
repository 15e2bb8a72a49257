"""Whole programs: handwritten training steps, and random ones through the chain of equal results."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import jtorch
from jtorch.compile import cache
from jtorch.compile.tree import flatten
from tests.compile.chain import assert_chain
from tests.compile.programs import Program, programs
from tests.compile.workloads import WORKLOADS

CLOSE = {"rtol": 2e-5, "atol": 2e-6}  # three steps of float32; sums in another order


def _made(name):
    jtorch.manual_seed(3)
    return WORKLOADS[name]()


def _state(model, optimizer):
    """What a step leaves behind, by name."""
    found = dict(model.named_parameters()) | dict(model.named_buffers())
    found |= {f"{n}.grad": p.grad for n, p in model.named_parameters()}
    for k, facts in optimizer.state_dict()["state"].items():
        found |= {f"state.{k}.{n}": v for n, v in facts.items() if isinstance(v, jtorch.Tensor)}
    return {n: v.detach().numpy().copy() for n, v in found.items() if v is not None}


def _assert_same(found, expected, where):
    assert found.keys() == expected.keys(), where
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, **CLOSE, err_msg=f"{where}: {name}")


def _run(name, rows, compiled):
    """What each step on batches of ``rows`` returned and left behind, and the plans' kernels compiled."""
    model, optimizer, step, batch = _made(name)
    step = jtorch.compile(step) if compiled else step
    rng = np.random.default_rng(0)
    seen, kernels = [], []
    for n in rows:
        jtorch.manual_seed(n)
        before = cache.counters.compiled
        outs = [t.detach().numpy().copy() for t in flatten(step(*batch(n, rng)))[0]]
        seen.append({f"result {k}": v for k, v in enumerate(outs)} | _state(model, optimizer))
        kernels.append(cache.counters.compiled - before)
    return seen, kernels, float(jtorch.rand(1))


@pytest.mark.parametrize("name", WORKLOADS)
def test_training_equals_eager(name):
    found, _, draw = _run(name, (6, 6, 6), compiled=True)
    expected, _, expected_draw = _run(name, (6, 6, 6), compiled=False)
    for k, (a, b) in enumerate(zip(found, expected, strict=True)):
        _assert_same(a, b, f"{name}, step {k}")
    assert draw == expected_draw  # the generator stands where eager's does


# One row against one row has nothing to broadcast: for a batch of one the pairwise differences of
# "contrastive", and the sums of their gradients, are other equations.
NOT_GENERIC = {("contrastive", 1)}


@pytest.mark.parametrize("name", WORKLOADS)
def test_other_batch_sizes_compile_no_kernel(name, monkeypatch, tmp_path):
    monkeypatch.setenv("JTORCH_CACHE", str(tmp_path))
    monkeypatch.setattr(cache, "_loaded", {})
    sizes = (32, 7, 1)
    found, kernels, _ = _run(name, sizes, compiled=True)
    expected, _, _ = _run(name, sizes, compiled=False)
    for n, a, b, compiled in zip(sizes, found, expected, kernels, strict=True):
        _assert_same(a, b, f"{name}, batch of {n}")
        assert (compiled > 0) == (n == 32 or (name, n) in NOT_GENERIC), (
            f"{name}: {kernels} kernels for {sizes} rows"
        )


# -- random programs ---------------------------------------------------------------------------------------

_SETTINGS = {"deadline": None, "derandomize": True, "suppress_health_check": list(HealthCheck)}


@given(programs(in_place=True))
@settings(max_examples=150, **_SETTINGS)
def test_random_programs(program: Program):
    with jtorch.no_grad():
        assert_chain(program, program.leaves(), jit=False, exact=False)


@given(programs())
@settings(max_examples=100, **_SETTINGS)
def test_gradients_of_random_programs(program: Program):
    assert_chain(program.gradients, program.leaves(requires_grad=True), jit=False, exact=False)


@given(programs(max_size=8))
@settings(max_examples=25, **_SETTINGS)
def test_random_programs_on_numba(program: Program):
    assert_chain(program.gradients, program.leaves(requires_grad=True), exact=False)
