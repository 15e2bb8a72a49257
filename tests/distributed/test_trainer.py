"""``Trainer(distributed=True)`` in several processes."""

import pytest

from tests.machine_code import needs_kernels


@pytest.mark.slow
@needs_kernels
@pytest.mark.parametrize("count", [2, 3])
def test_trainer(launch, count):
    assert launch(count, "trainer.py").text.count("all is well") == count
