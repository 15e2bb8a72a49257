"""Transforms made of transforms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jtorch
from jtorch import nn


def _lines(name: str, transforms: Any, first: str = "") -> str:
    return "\n".join([f"{name}(", *([first] if first else []), *(f"    {t}" for t in transforms), ")"])


class Compose:
    """One transform after the other."""

    def __init__(self, transforms: Sequence[Callable[[Any], Any]]) -> None:
        self.transforms = transforms

    def __call__(self, img: Any) -> Any:
        for transform in self.transforms:
            img = transform(img)
        return img

    def __repr__(self) -> str:
        return _lines(type(self).__name__, self.transforms)


class Lambda:
    """A function as a transform. Raises TypeError for what can't be called."""

    def __init__(self, lambd: Callable[[Any], Any]) -> None:
        if not callable(lambd):
            raise TypeError(f"Argument lambd should be callable, got {type(lambd).__name__!r}")
        self.lambd = lambd

    def __call__(self, img: Any) -> Any:
        return self.lambd(img)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class RandomApply(nn.Module):
    """All of ``transforms``, or with probability 1 - ``p`` none."""

    def __init__(self, transforms: Any, p: float = 0.5) -> None:
        super().__init__()
        self.transforms = transforms
        self.p = p

    def forward(self, img: Any) -> Any:
        if self.p < jtorch.rand(1).item():
            return img
        for transform in self.transforms:
            img = transform(img)
        return img

    def __repr__(self) -> str:
        return _lines(type(self).__name__, self.transforms, f"    p={self.p}")


class RandomOrder:
    """All of ``transforms``, in a random order."""

    def __init__(self, transforms: Sequence[Callable[[Any], Any]]) -> None:
        self.transforms = transforms

    def __call__(self, img: Any) -> Any:
        for k in jtorch.randperm(len(self.transforms)).tolist():
            img = self.transforms[k](img)
        return img

    def __repr__(self) -> str:
        return _lines(type(self).__name__, self.transforms)


class RandomChoice:
    """One of ``transforms``, with the probabilities ``p`` (any positive weights), or alike."""

    def __init__(self, transforms: Sequence[Callable[[Any], Any]], p: Sequence[float] | None = None) -> None:
        if p is not None and len(p) != len(transforms):
            raise ValueError(f"RandomChoice: {len(p)} probabilities for {len(transforms)} transforms")
        self.transforms = transforms
        self.p = p

    def __call__(self, img: Any) -> Any:
        weights = self.p if self.p is not None else [1.0] * len(self.transforms)
        (chosen,) = jtorch.utils.data.WeightedRandomSampler(weights, 1)
        return self.transforms[chosen](img)

    def __repr__(self) -> str:
        return _lines(type(self).__name__, self.transforms, f"    p={self.p}" if self.p else "")
