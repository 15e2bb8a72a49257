import pytest

from benchmarks.first_call import STAGES, measure


@pytest.mark.slow
def test_the_second_process_finds_the_kernels_of_the_first():
    found = measure("toy")
    assert set(found.stages) == set(STAGES)
    assert all(seconds > 0 for seconds in found.stages.values())
    assert sum(found.stages.values()) <= found.seconds
    assert 0 < found.second_process < found.seconds
    assert found.as_dict()["build_s"] == found.stages["build"]
    assert found.document["function"] == "step" and found.document["measured"]


def test_a_process_that_fails_says_why():
    with pytest.raises(RuntimeError, match="the first call in a new process: KeyError: 'nothing'"):
        measure("nothing")
