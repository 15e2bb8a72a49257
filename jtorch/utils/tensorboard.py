"""``torch.utils.tensorboard``: a writer of logs for TensorBoard, by the library tensorboardX.

jtorch writes no such files itself. Tensors are handed on as NumPy's arrays.
Source: https://docs.pytorch.org/docs/stable/tensorboard.html
"""

from __future__ import annotations

from typing import Any

from jtorch.eager.public import Tensor

try:
    from tensorboardX import SummaryWriter as _Writer
except ImportError:

    class _Writer:  # type: ignore[no-redef]
        """In its place: scripts import the name and may not use it."""

        def __init__(self, *args: Any, **named: Any) -> None:
            raise ImportError(
                "SummaryWriter: torch.utils.tensorboard needs the package tensorboardX, which writes "
                "TensorBoard's files: pip install tensorboardX"
            )


def _plain(value: Any) -> Any:
    """``value`` with NumPy's arrays for tensors."""
    if isinstance(value, Tensor):
        return value.detach().cpu().numpy()
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_plain(v) for v in value) if type(value) in (list, tuple) else value
    return value


class SummaryWriter(_Writer):  # type: ignore[misc, valid-type]
    """tensorboardX's writer, whose ``add_...`` take jtorch's tensors."""

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if not name.startswith("add_") or name in ("add_graph", "add_onnx_graph"):
            return found

        def handed_on(*args: Any, **named: Any) -> Any:
            return found(*_plain(args), **_plain(named))

        return handed_on

    def add_graph(self, *args: Any, **named: Any) -> None:
        """Not there: the graph of a jtorch program is shown by ``jtorch.compiler.explain``."""
        raise NotImplementedError(
            "SummaryWriter.add_graph: see jtorch.compiler.explain for the graph of a step"
        )
