"""Random training programs: both modes and PyTorch. ``python -m tests.fuzz`` runs as many as one likes."""

import importlib.util

import pytest

from tests.fuzz.generate import program
from tests.fuzz.report import Failure, check, of_seed, small
from tests.fuzz.run import Judge, quiet, run
from tests.fuzz.shrink import shrunk


def _shown(failures: list[Failure]) -> str:
    return "\n\n".join(f"{f.pair} {f.kind} {f.sign}: {f.text}\n{f.program}" for f in map(small, failures))


def _check(seeds: range, pairs: tuple[str, ...], mode: str | None) -> None:
    failures = [f for seed in seeds for f in of_seed(seed, pairs, mode) if f.kind != "refused"]
    assert not failures, _shown(failures[:3])


def test_a_seed_is_a_program():
    assert program(7) == program(7) != program(8)
    compile(str(program(7)), "script", "exec")


def test_runs_of_eager_mode_are_equal():
    judge = Judge(program(3))
    assert judge.plain.shown
    assert judge.complaint(run(program(3))) is None


@pytest.mark.slow
def test_programs_give_the_same_compiled():
    _check(range(12), ("compiled",), "interpret")


@pytest.mark.slow
def test_programs_that_cannot_be_recorded_run_eagerly():
    assert not [f for seed in range(12) for f in of_seed(seed, ("compiled",), "breaks")]


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")
def test_programs_give_what_pytorch_gives():
    _check(range(12), ("torch",), None)


@pytest.mark.soak
@pytest.mark.usefixtures("whole_heap")
@pytest.mark.parametrize("block", range(50))
def test_many_programs(block):
    pairs = ("compiled", "torch") if importlib.util.find_spec("torch") else ("compiled",)
    _check(range(100 * block, 100 * block + 100), pairs, None)


# -- the fuzzer itself ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_wrong_number_is_found_and_made_small():
    """A compiled mode whose results are off by a thousandth."""

    def off(function):
        return lambda *arguments: [o * 1.001 for o in function(*arguments)]

    def fails(p):
        with quiet():
            return (Judge(p).complaint(run(p, compile=off)) or "").startswith("value: ")

    found = [p for p in map(program, range(8)) if fails(p)]
    assert len(found) > 2
    little = shrunk(found[0], fails)
    assert len(little.body) <= 2 and len(little.calls) == 1, little


def test_classes_have_no_numbers_of_the_program():
    first, second = (Failure(s, "compiled", "error", "a", "", program(s)) for s in (1, 2))
    assert first.label == second.label
    assert not check(program(3), ())
