"""Helpers around training: data loading."""

from jtorch.utils import data
