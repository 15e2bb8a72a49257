"""Whole programs: handwritten training steps, and random ones through the chain of equal results."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import jtorch
from jtorch.compile.record.tree import flatten
from jtorch.native import cache
from tests.compile.chain import assert_chain
from tests.compile.programs import FIRST_SEED, Program, minimised, of_seed, programs
from tests.compile.programs_check import RefusedError, check_program, compare
from tests.compile.programs_steps import Step
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


@pytest.mark.slow
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


@pytest.mark.slow
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
#
# Numbered programs, in blocks that processes share. JTORCH_TEST_SEED moves all of them to other numbers;
# ``-m soak`` runs every one of them under Numba.

BLOCK = 110


def check_block(first: int, count: int, jit: bool = False) -> None:
    """``count`` programs from number ``first`` on, odd ones with gradients. The first that fails is made
    small before it is shown."""
    refused = 0
    for seed in range(FIRST_SEED + first, FIRST_SEED + first + count):
        grad = bool(seed % 2)
        program = of_seed(seed, grad=grad, in_place=not grad)
        try:
            check_program(program, grad, jit)
        except RefusedError:
            refused += 1
        except AssertionError as error:
            small = minimised(program, lambda p, g=grad: _fails(p, g, jit))
            pytest.fail(f"seed {seed}: {error}\n\nwhich is, made small:\n{small!r}")
    assert refused < count / 20


def _fails(program: Program, grad: bool, jit: bool) -> bool:
    try:
        check_program(program, grad, jit)
    except RefusedError:
        return False
    except AssertionError:
        return True
    return False


@pytest.mark.slow
@pytest.mark.parametrize("block", range(6))
def test_random_programs(block):
    check_block(block * BLOCK, BLOCK)


@pytest.mark.soak
@pytest.mark.parametrize("block", range(6, 20))
def test_more_random_programs(block):
    check_block(block * BLOCK, BLOCK)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(2))
def test_random_programs_on_numba(block):
    check_block(block * 2 * BLOCK, 40, jit=True)


@pytest.mark.soak
@pytest.mark.parametrize("block", range(20))
def test_all_random_programs_on_numba(block):
    check_block(block * BLOCK, BLOCK, jit=True)


_SETTINGS = {"deadline": None, "derandomize": True, "suppress_health_check": list(HealthCheck)}


@pytest.mark.slow
@given(programs(in_place=True))
@settings(max_examples=60, **_SETTINGS)
def test_programs_that_hypothesis_draws(program: Program):
    with contextlib.suppress(RefusedError):
        check_program(program, grad=False)


@pytest.mark.slow
@given(programs(grad=True))
@settings(max_examples=60, **_SETTINGS)
def test_gradients_of_programs_that_hypothesis_draws(program: Program):
    with contextlib.suppress(RefusedError):
        check_program(program, grad=True)


# -- random training steps ---------------------------------------------------------------------------------


def check_step(step: Step, compiled: Callable) -> None:
    """Four calls with events between them leave behind what eager mode leaves."""
    expected, found = step.run(lambda f: f), step.run(compiled)
    for k, (a, b) in enumerate(zip(expected, found, strict=True)):
        assert a.keys() == b.keys(), f"{step}, call {k}"
        for name, value in a.items():
            compare(f"{step}, call {k}: {name}", [value], [b[name]], value.dtype.name)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["interpret", "unjitted", "numba"])
@pytest.mark.parametrize("seed", range(8))
def test_random_steps(seed, mode, monkeypatch):
    monkeypatch.setenv("JTORCH_JIT", "0" if mode == "unjitted" else "1")
    check_step(Step(FIRST_SEED + seed), jtorch.compile(mode="interpret" if mode == "interpret" else None))


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(8, 208))
def test_more_random_steps(seed):
    check_step(Step(FIRST_SEED + seed), jtorch.compile)


# -- what random programs found ----------------------------------------------------------------------------


def test_full_of_a_runtime_number():
    """``full`` and casts of a number that is an argument are tensors, no arithmetic among numbers."""
    program = jtorch.compile(lambda x, s: x + jtorch.full((3,), s, dtype=jtorch.float64))
    x = jtorch.zeros(3)
    for s in (2.0, -0.5):
        found = program(x, s)
        assert found.dtype == jtorch.float64
        np.testing.assert_array_equal(found.numpy(), [s, s, s])
    assert not program.retraces


def _masked_rows(x, value):
    y = x * 1.0
    y[y[:, 0] > 0.0] = value
    y[:, y[0] > 0.0] = value[:1].unsqueeze(0)
    y[y > 2.0] = 0.5
    return y


FOUND = {
    "a mask names the places of one value": _masked_rows,
    "windows side by side": lambda x, value: (lambda y: (y.unfold(1, 2, 2).mul_(value[0]), y)[1])(x * 1.0),
    "windows of one element": lambda x, value: (lambda y: (y.unfold(1, 1, 1).add_(1.0), y)[1])(x * value),
    "part of each window": lambda x, value: (lambda y: (y.unfold(0, 1, 2)[..., 0].neg_(), y)[1])(x + value),
}


@pytest.mark.parametrize("name", FOUND)
def test_writes_that_were_refused(name):
    """In-place writes that eager mode allows; gradients of both arguments are among what is compared."""

    def program(x, value):
        out = FOUND[name](x, value)
        (out * out).sum().backward()
        return out.detach().clone()

    rng = np.random.default_rng(0)
    leaves = [jtorch.from_numpy(rng.normal(size=s)).requires_grad_(True) for s in ((5, 4), (4,))]
    assert_chain(program, leaves, jit=False)


def test_windows_that_share_elements_are_refused():
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        jtorch.compile(lambda x: x.clone().unfold(0, 2, 1).add_(1.0))(jtorch.zeros(4))
