"""What is taken as a dim."""

from __future__ import annotations

import pytest

import jtorch


@pytest.mark.parametrize(
    "function",
    [
        lambda x: jtorch.softmax(x, True),
        lambda x: x.sum(dim=True),
        lambda x: x.argmax(False),
        lambda x: jtorch.cat([x, x], True),
        lambda x: jtorch.nn.functional.softmax(x.repeat(200, 200), True),  # at every size
    ],
)
def test_bools_are_no_dims(function):
    with pytest.raises(TypeError, match="must be int, not bool"):
        function(jtorch.ones(2, 2))
