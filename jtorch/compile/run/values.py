"""Arguments that are made anew for each call and count by what they are: sizes, slices, numbers, methods.

Compared by identity, as objects are, they would have each call recorded again.
"""

from __future__ import annotations

import types
from datetime import date, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import PurePath
from typing import Any

import numpy as np

from jtorch.compile.observe.guards import same
from jtorch.core.devices import device
from jtorch.eager.tensor import Size

_BY_TEXT = (Size, range, device, PurePath, Decimal, Fraction, date, timedelta)


def counts_by_value(value: Any) -> bool:
    """Whether another object that is ``alike`` does as well."""
    if isinstance(value, slice):
        return all(isinstance(part, (int, type(None))) for part in (value.start, value.stop, value.step))
    known = value.__class__.__module__ in _MODULES  # a user's subclass may have more parts
    return isinstance(value, (np.generic, types.MethodType)) or (known and isinstance(value, _BY_TEXT))


_MODULES = frozenset(cls.__module__ for cls in _BY_TEXT)


def alike(now: Any, before: Any) -> bool:
    """Whether ``now`` is what ``before`` is, of which values count."""
    if now.__class__ is not before.__class__:
        return False
    if isinstance(before, np.generic):
        return same(now, before)
    if isinstance(before, types.MethodType):
        return now.__self__ is before.__self__ and now.__func__ is before.__func__
    return repr(now) == repr(before)
