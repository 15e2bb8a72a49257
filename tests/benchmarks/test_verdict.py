"""The sentences say what the figures of a row say."""

import pytest

from benchmarks.contestant import COMPILED, EAGER
from benchmarks.first_call import FirstCall
from benchmarks.measure import Row
from benchmarks.program import Epoch
from benchmarks.timing import Timing
from benchmarks.verdict import saves, sentences
from benchmarks.workloads import ROWS


def row(eager, compiled, first=2.1, second=None, name="lenet"):
    found = Row(ROWS[name])
    found.timings = {EAGER: Timing(tuple(eager), 1), COMPILED: Timing(tuple(compiled), 1)}
    found.first_call = FirstCall(first, {}, second)
    return found


def test_a_network_for_which_compiling_pays():
    found = row([3.1e-3] * 5, [2e-3] * 5, second=0.11)
    found.timings["torch"] = Timing((5.2e-3,), 1)
    assert sentences(found, ["torch"]) == [
        "LeNet 28x28, batch 64, Adam: compiling costs 2.10 s once and saves 1.10 ms a step (2.00 ms "
        "instead of 3.10 ms), so it pays after 1,900 steps (2 epochs of MNIST).",
        "It does not pay for fewer: 190 steps (0.2 epochs of MNIST) take 2.48 s compiled and 589 ms eager.",
        "From the second process on the kernels are on disk: then the first call takes 110 ms, and pays "
        "after 100 steps (0.1 epochs of MNIST).",
        "PyTorch eager takes 5.20 ms a step, 2.6 times the compiled one's.",
    ]


def test_a_network_for_which_it_does_not():
    assert sentences(row([2e-3] * 5, [3e-3] * 5)) == [
        "LeNet 28x28, batch 64, Adam: compiling costs 2.10 s once; a step then takes 3.00 ms instead of "
        "2.00 ms: it does not pay."
    ]


def test_noise_is_no_saving():
    noisy = row([1.0, 3.0, 2.0, 5.0, 1.5], [3.0, 1.0, 5.0, 1.9, 1.5])
    assert saves(noisy) is None
    (sentence,) = sentences(noisy)
    assert sentence.endswith("too much to tell which is less: no saving is seen.")


def test_samples_that_took_turns_are_compared_in_pairs():
    """A machine that slows down threefold on the way hides nothing."""
    slower = [1.0, 1.1, 3.0, 3.3, 3.1, 1.0]
    assert saves(row([1.1 * s for s in slower], slower)) is True
    assert saves(row(slower, [1.1 * s for s in slower])) is False


@pytest.mark.parametrize("missing", [EAGER, COMPILED])
def test_without_figures_there_is_nothing_to_say(missing):
    found = row([3.1e-3], [2e-3])
    del found.timings[missing]
    assert sentences(found) == []


def test_epochs_are_those_of_the_data():
    assert ROWS["lenet"].epoch == Epoch("MNIST", -(-60_000 // 64))
    assert ROWS["mlp"].epoch == Epoch("the digits", -(-1797 // 32))
