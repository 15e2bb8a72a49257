"""``torch.nn.modules``: the layers under the paths that programs import them from.

Each file of it is imported when it is asked for, as are the layers' names here.
"""

from __future__ import annotations

import importlib
from typing import Any

from jtorch.nn.modules import module as module
from jtorch.nn.modules.module import Module as Module

_FILES = frozenset(
    (
        "activation", "adaptive", "batchnorm", "channelshuffle", "container", "conv", "distance",
        "dropout", "flatten", "fold", "instancenorm", "linear", "loss", "normalization", "padding",
        "pixelshuffle", "pooling", "rnn", "sparse", "transformer", "upsampling",
        "utils",
    )
)  # fmt: skip


def __getattr__(name: str) -> Any:
    """A file of layers, or a layer, which is that of ``jtorch.nn``."""
    if name in _FILES:
        return importlib.import_module(f"jtorch.nn.modules.{name}")
    layers = importlib.import_module("jtorch.nn")
    found = getattr(layers, name, None) if name[:1].isupper() else None
    if found is None:
        raise AttributeError(f"module 'jtorch.nn.modules' has no attribute '{name}'")
    return found
