"""Values of the user that come with each call, static arguments and keys of dicts: whether two are the same.

Some are made anew for each call and count by what they are: sizes, slices, numbers, methods. Compared by
identity, as objects are, they would have each call recorded again; by ``==``, 1 would pass for 1.0 and True.
"""

from __future__ import annotations

import types
from datetime import date, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import PurePath
from typing import Any

import numpy as np

from jtorch.compile.observe.guards import PLAIN, same
from jtorch.compile.observe.kinds import is_users
from jtorch.core.devices import device
from jtorch.eager.tensor import Size

_BY_TEXT = (Size, range, device, PurePath, Decimal, Fraction, date, timedelta)


def counts_by_value(value: Any) -> bool:
    """Whether another object that is ``alike`` does as well."""
    if isinstance(value, slice):
        return all(isinstance(part, (*PLAIN, np.generic)) for part in _parts(value))
    if isinstance(value, (*PLAIN, np.generic, types.MethodType)):
        return True
    return counts_by_text(value)


def counts_by_text(value: Any) -> bool:
    """Whether it is what its text says; of a user's subclass, which may have more parts, it is not."""
    return isinstance(value, _BY_TEXT) and not is_users(type(value))


def alike(now: Any, before: Any) -> bool:
    """Whether ``now`` is ``before``, or is what ``before`` is where values count."""
    if now is before:
        return True
    if now.__class__ is not before.__class__ or not counts_by_value(before):
        return same(now, before)
    if isinstance(before, types.MethodType):
        return now.__self__ is before.__self__ and now.__func__ is before.__func__
    if isinstance(before, slice):
        return all(map(same, _parts(now), _parts(before)))
    return same(now, before) if isinstance(before, (*PLAIN, np.generic)) else repr(now) == repr(before)


def _parts(value: slice) -> tuple[Any, Any, Any]:
    return value.start, value.stop, value.step
