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


def test_a_tensor_without_dims_has_one_to_name():
    """0 or -1, as everywhere: another is out of range, and not the whole."""
    number = jtorch.tensor(1.5)
    functions = (
        "softmax",
        "log_softmax",
        "sum",
        "mean",
        "amax",
        "cumsum",
        "logsumexp",
        "prod",
        "argmax",
        "sort",
    )
    for name in functions:
        function = getattr(jtorch, name)
        for dim in (0, -1):
            function(number, dim)
        for dim in (1, -2):
            for f in (function, jtorch.compile(function)):
                with pytest.raises(IndexError, match=rf"range of \[-1, 0\], but got {dim}"):
                    f(number, dim)
