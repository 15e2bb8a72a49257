"""``detect_anomaly``: find the forward call whose gradient failed or is NaN.

While it is on, each node keeps the stack of its forward call, and the engine looks for NaN in what a node
gives back. Off, it costs one truth test per op.
Source: https://docs.pytorch.org/docs/stable/autograd.html#anomaly-detection
"""

from __future__ import annotations

import os
import traceback
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from jtorch.core import watch
from jtorch.eager.unusual import WATCHERS

ACTIVE: list[bool] = []  # one entry per mode in force: whether it looks for NaN
_PACKAGE = str(Path(__file__).resolve().parents[1]) + os.sep


class detect_anomaly:  # noqa: N801
    """``with detect_anomaly(): ...``: backward errors name the forward call, and NaN is an error.

    Slow: for debugging only.

    >>> import jtorch
    >>> x = jtorch.zeros(1, requires_grad=True)
    >>> with jtorch.autograd.detect_anomaly():
    ...     try:
    ...         (x.sqrt() * 0).sum().backward()
    ...     except RuntimeError as error:
    ...         print(error)
    Function 'SqrtBackward0' returned nan values in its 0th output.
    """

    def __init__(self, check_nan: bool = True) -> None:
        self.check_nan = check_nan
        warnings.warn(
            "Anomaly Detection has been enabled. This mode will increase the runtime and should only be "
            "enabled for debugging.",
            stacklevel=2,
        )

    def __enter__(self) -> None:
        _set([*ACTIVE, self.check_nan])

    def __exit__(self, *exception: Any) -> None:
        _set(ACTIVE[:-1])


class set_detect_anomaly:  # noqa: N801
    """Switch anomaly detection by a bool, at once; as a context manager it is undone at the end.

    >>> import jtorch
    >>> with jtorch.autograd.set_detect_anomaly(True):
    ...     print(jtorch.autograd.is_anomaly_enabled())
    True
    """

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self._before = list(ACTIVE)
        _set([check_nan] if mode else [])

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: Any) -> None:
        _set(self._before)


def _set(modes: list[bool]) -> None:
    if bool(modes) != bool(ACTIVE):
        (WATCHERS.append if modes else WATCHERS.remove)(remember_stack)
    before = list(ACTIVE)
    ACTIVE[:] = modes
    watch.tell_all("detect_anomaly", lambda: before == ACTIVE)  # compiled functions run eagerly meanwhile


def is_anomaly_enabled() -> bool:
    """Whether anomaly detection is on.

    >>> import jtorch
    >>> jtorch.autograd.is_anomaly_enabled()
    False
    """
    return bool(ACTIVE)


def is_anomaly_check_nan_enabled() -> bool:
    return bool(ACTIVE) and ACTIVE[-1]


def remember_stack(node: Any) -> None:
    """Keep on ``node`` the stack of the user's call that made it."""
    frames = [f for f in traceback.extract_stack() if not f.filename.startswith(_PACKAGE)]
    node.extend().stack = "".join(traceback.format_list(frames))


def name_forward(node: Any, error: Exception) -> None:
    """Add the stack of the forward call to an error raised in backward."""
    if node.extras is not None and node.extras.stack is not None:
        error.add_note(f"Traceback of forward call that caused the error:\n{node.extras.stack}")


def check(node: Any, grads: Any) -> None:
    """Raise PyTorch's error where a gradient holds NaN, while that is looked for."""
    if not is_anomaly_check_nan_enabled():
        return
    for k, g in enumerate(grads if isinstance(grads, tuple) else (grads,)):
        data = getattr(g, "_data", g)
        if isinstance(data, (np.ndarray, np.generic)) and data.dtype.kind == "f" and np.isnan(data).any():
            error = RuntimeError(f"Function '{node.name()}' returned nan values in its {k}th output.")
            name_forward(node, error)
            raise error
