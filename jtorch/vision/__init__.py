"""Image datasets."""

from jtorch.vision import datasets
