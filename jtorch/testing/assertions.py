"""``assert_close``: whether two results are the same up to rounding, and where they differ most.

Source: https://docs.pytorch.org/docs/stable/testing.html
"""

from __future__ import annotations

import cmath
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np

from jtorch.core import dtypes as dt
from jtorch.eager.public import Tensor, as_tensor

_TOLERANCES = {  # relative, absolute; other dtypes must be equal
    dt.float16: (1e-3, 1e-5), dt.bfloat16: (1.6e-2, 1e-5), dt.float32: (1.3e-6, 1e-5),
    dt.float64: (1e-7, 1e-7), dt.complex64: (1.3e-6, 1e-5), dt.complex128: (1e-7, 1e-7),
}  # fmt: skip
_NUMBERS = (int, float, complex, np.number)
_SPREAD = {int: dt.int64, float: dt.float64, complex: dt.complex128}


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: str | Callable[[str], str] | None = None,
) -> None:
    """Raise AssertionError unless |actual - expected| <= atol + rtol |expected| holds everywhere.

    Tensors, arrays and numbers are compared by value, sequences item by item and mappings key by key.
    Without ``rtol`` and ``atol`` the dtype decides: for float32 1.3e-6 and 1e-5, for float64 1e-7 both, for
    float16 1e-3 and 1e-5, for bfloat16 1.6e-2 and 1e-5, for integers 0; of two dtypes the looser one. Shapes
    must be equal, and dtypes and strides where asked. ``msg`` replaces the text of the error, or makes it of
    that. There is one device and one layout: ``check_device`` and ``check_layout`` are taken and always hold.

    Raises ValueError where only one of ``rtol`` and ``atol`` is given, TypeError for what cannot be compared.
    Source: https://docs.pytorch.org/docs/stable/testing.html#torch.testing.assert_close

    >>> import jtorch
    >>> jtorch.testing.assert_close(jtorch.tensor([1.0, 2.0]), jtorch.tensor([1.0, 2.000001]))
    >>> jtorch.testing.assert_close(jtorch.tensor(1), jtorch.tensor(2))
    Traceback (most recent call last):
        ...
    AssertionError: Scalars are not equal!
    <BLANKLINE>
    Expected 2 but got 1.
    Absolute difference: 1
    Relative difference: 0.5
    """
    comparison = _Comparison(rtol, atol, equal_nan, check_dtype, check_stride, allow_subclasses, msg)
    if (rtol is None) is not (atol is None):
        missing = "rtol" if rtol is None else "atol"
        comparison.fail(
            f"Both 'rtol' and 'atol' must be either specified or omitted, but got no {missing}.", ValueError
        )
    comparison.compare(actual, expected)


def assert_allclose(
    actual: Any, expected: Any, rtol: float | None = None, atol: float | None = None, equal_nan: bool = True,
    msg: str = "",
) -> None:  # fmt: skip
    """``assert_close`` as it was called before: NaNs are equal, and dtypes and devices may differ.

    Source: https://docs.pytorch.org/docs/stable/testing.html#torch.testing.assert_allclose
    """
    if not isinstance(actual, Tensor):
        actual = as_tensor(actual)
    if not isinstance(expected, Tensor):
        expected = as_tensor(expected, dtype=actual.dtype)
    if rtol is None and atol is None:
        rtol, atol = _tolerances(actual.dtype, expected.dtype)
    assert_close(
        actual, expected, rtol=rtol, atol=atol, equal_nan=equal_nan, check_dtype=False, msg=msg or None
    )


def _tolerances(*dtypes: dt.dtype) -> tuple[float, float]:
    relative, absolute = zip(*(_TOLERANCES.get(d, (0.0, 0.0)) for d in dtypes), strict=True)
    return max(relative), max(absolute)


@dataclass(frozen=True)
class _Comparison:
    rtol: float | None
    atol: float | None
    equal_nan: bool
    check_dtype: bool
    check_stride: bool
    allow_subclasses: bool
    message: str | Callable[[str], str] | None
    place: tuple[Any, ...] = ()  # the keys that lead to what is compared

    def fail(self, text: str, kind: type[Exception] = AssertionError) -> NoReturn:
        if isinstance(self.message, str):
            raise kind(self.message)
        if self.place:
            text += f"\n\nThe failure occurred for item {''.join(f'[{key!r}]' for key in self.place)}"
        raise kind(self.message(text) if callable(self.message) else text)

    def at(self, key: Any) -> _Comparison:
        return replace(self, place=(*self.place, key))

    def compare(self, actual: Any, expected: Any) -> None:
        both = (actual, expected)
        if all(isinstance(v, Mapping) for v in both):
            return self._mappings(actual, expected)
        if all(isinstance(v, Sequence) and not isinstance(v, (str, bytes)) for v in both):
            return self._sequences(actual, expected)
        if actual is None or expected is None:
            if actual is not expected:
                self.fail(f"None mismatch: {actual} is not {expected}")
            return None
        if all(isinstance(v, (bool, np.bool_)) for v in both):
            if bool(actual) is not bool(expected):
                self.fail(f"Booleans mismatch: {bool(actual)} is not {bool(expected)}")
            return None
        if all(isinstance(v, _NUMBERS) and not isinstance(v, bool) for v in both):
            return self._numbers(*(v.item() if isinstance(v, np.number) else v for v in both))
        related = isinstance(actual, type(expected)) or isinstance(expected, type(actual))
        if not related or (not self.allow_subclasses and type(actual) is not type(expected)):
            self._unknown(actual, expected)
        tensors = []
        for value in both:
            if isinstance(value, (str, bytes)):
                self._unknown(actual, expected)
            try:
                tensors.append(value if isinstance(value, Tensor) else as_tensor(value))
            except (TypeError, ValueError, RuntimeError):
                self._unknown(actual, expected)
        return self._tensors(*(t.detach() for t in tensors))

    def _unknown(self, actual: Any, expected: Any) -> NoReturn:
        self.fail(
            f"No comparison pair was able to handle inputs of type {type(actual)} and {type(expected)}.",
            TypeError,
        )

    def _mappings(self, actual: Mapping, expected: Mapping) -> None:
        missing, added = set(expected) - set(actual), set(actual) - set(expected)
        if missing or added:
            self.fail(
                "The keys of the mappings do not match:\n"
                f"Missing keys in the actual mapping: {sorted(missing, key=repr)}\n"
                f"Additional keys in the actual mapping: {sorted(added, key=repr)}"
            )
        for key in expected:
            self.at(key).compare(actual[key], expected[key])

    def _sequences(self, actual: Sequence, expected: Sequence) -> None:
        if len(actual) != len(expected):
            self.fail(f"The length of the sequences mismatch: {len(actual)} != {len(expected)}")
        for k in range(len(actual)):
            self.at(k).compare(actual[k], expected[k])

    def _numbers(self, actual: Any, expected: Any) -> None:
        if self.check_dtype and type(actual) is not type(expected):
            self.fail(f"The (d)types do not match: {type(actual)} != {type(expected)}.")
        rtol, atol = self._allowed(_SPREAD[type(actual)], _SPREAD[type(expected)])
        if actual == expected or (self.equal_nan and cmath.isnan(actual) and cmath.isnan(expected)):
            return
        difference = abs(actual - expected)
        if not (cmath.isfinite(difference) and difference <= atol + rtol * abs(expected)):
            self._different_numbers(actual, expected, rtol, atol)

    def _different_numbers(self, actual: Any, expected: Any, rtol: float, atol: float) -> NoReturn:
        difference = abs(actual - expected)
        relative = float("inf") if expected == 0 else difference / abs(expected)
        self.fail(
            f"Scalars are not {_how(rtol, atol)}!\n\nExpected {expected} but got {actual}.\n"
            f"Absolute difference: {difference}{_limit(rtol, atol, atol)}\n"
            f"Relative difference: {relative}{_limit(rtol, atol, rtol)}"
        )

    def _allowed(self, *dtypes: dt.dtype) -> tuple[float, float]:
        if self.rtol is None or self.atol is None:
            return _tolerances(*dtypes)
        return self.rtol, self.atol

    def _tensors(self, actual: Tensor, expected: Tensor) -> None:
        facts: list[tuple[str, Any, Any]] = [("shape", actual.shape, expected.shape)]
        if self.check_dtype:
            facts.append(("dtype", actual.dtype, expected.dtype))
        if self.check_stride:
            facts.append(("stride()", actual.stride(), expected.stride()))
        for name, a, b in facts:
            if a != b:
                self.fail(f"The values for attribute '{name}' do not match: {a} != {b}.")
        rtol, atol = self._allowed(actual.dtype, expected.dtype)
        pair = [(t.float() if t.dtype is dt.bfloat16 else t).numpy() for t in (actual, expected)]
        a, b = map(_wide, pair)
        with np.errstate(all="ignore"):
            difference = np.abs(a - b)
            close = np.equal(*pair)
            if rtol or atol:
                close |= np.isfinite(difference) & (difference <= atol + rtol * np.abs(b))
            if self.equal_nan:
                close |= np.isnan(a) & np.isnan(b)
            if close.all():
                return
            if not a.ndim:
                self._different_numbers(actual.item(), expected.item(), rtol, atol)
            relative = (difference / np.abs(b)).astype(np.float64)
        difference[close], relative[close] = 0, 0
        count = int((~close).sum())
        self.fail(
            f"Tensor-likes are not {_how(rtol, atol)}!\n\n"
            f"Mismatched elements: {count} / {close.size} ({count / close.size:.1%})\n"
            f"Greatest absolute difference: {_greatest(difference)}{_limit(rtol, atol, atol)}\n"
            f"Greatest relative difference: {_greatest(relative)}{_limit(rtol, atol, rtol)}"
        )


def _wide(a: np.ndarray) -> np.ndarray:
    """The same values in a dtype that holds the difference of two of them."""
    return a.astype({"f": np.float64, "c": np.complex128}.get(a.dtype.kind, np.longdouble))


def _greatest(values: np.ndarray) -> str:
    place = np.unravel_index(int(np.argmax(values)), values.shape)
    value = values[place]
    shown = float(value) if values.dtype == np.float64 else int(value)
    return f"{shown} at index {tuple(map(int, place))}"


def _how(rtol: float, atol: float) -> str:
    return "equal" if rtol == 0 and atol == 0 else "close"


def _limit(rtol: float, atol: float, limit: float) -> str:
    return "" if rtol == 0 and atol == 0 else f" (up to {limit} allowed)"
