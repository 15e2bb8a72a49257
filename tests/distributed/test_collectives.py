"""Collectives, messages and objects, in two and four processes."""

import pytest


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 4])
def test_collectives_agree_with_numpy(launch, count):
    assert launch(count, "collectives.py").text.count("all collectives agree with NumPy") == count


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 3])
def test_gradients_go_through_collectives(launch, count):
    assert launch(count, "gradients.py").text.count("gradients agree") == count


@pytest.mark.parametrize("debug", ["OFF", "DETAIL"])
def test_messages_and_objects_arrive(launch, debug):
    ended = launch(2 if debug == "OFF" else 3, "messages.py", JTORCH_DISTRIBUTED_DEBUG=debug)
    assert "messages and objects arrived" in ended.text
    assert "code of a stranger" not in ended.text
