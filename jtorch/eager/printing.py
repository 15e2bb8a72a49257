"""``repr`` of tensors, character for character as PyTorch prints them.

Source: the rules of torch/_tensor_str.py: one width for all elements, scientific notation where the range is
wide, the middle of large tensors left out.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from jtorch.core import dtypes as dt, op as op_module
from jtorch.core.device_array import DeviceArray
from jtorch.core.devices import META
from jtorch.eager.duals import tangent_of
from jtorch.eager.tensor import has_elements


class _Options:
    """The settings of ``set_printoptions``."""

    def __init__(self) -> None:
        self.precision = 4
        self.threshold = 1000
        self.edgeitems = 3
        self.linewidth = 80
        self.sci_mode: bool | None = None


OPTIONS = _Options()
_PROFILES: dict[str, dict[str, Any]] = {
    "default": {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80},
    "short": {"precision": 2, "threshold": 1000, "edgeitems": 2, "linewidth": 80},
    "full": {"precision": 4, "threshold": math.inf, "edgeitems": 3, "linewidth": 80},
}


def set_printoptions(
    precision: int | None = None, threshold: float | None = None, edgeitems: int | None = None,
    linewidth: int | None = None, profile: str | None = None, sci_mode: bool | None = None,
) -> None:  # fmt: skip
    """How tensors print: digits, elements before summarising, elements kept at each end, columns.

    A value that is no number (no bool for ``sci_mode``) is a TypeError, an unknown profile a ValueError; then
    nothing is changed. (PyTorch takes anything and fails when the next tensor is printed.)
    Source: https://docs.pytorch.org/docs/stable/generated/torch.set_printoptions.html
    """
    if profile is not None and profile not in _PROFILES:
        raise ValueError(
            f"set_printoptions(): profile must be one of {', '.join(_PROFILES)}, not {profile!r}"
        )
    changes: dict[str, Any] = dict(_PROFILES[profile]) if profile is not None else {}
    given = {
        "precision": precision,
        "threshold": threshold,
        "edgeitems": edgeitems,
        "linewidth": linewidth,
    }
    changes |= {name: value for name, value in given.items() if value is not None}
    for name, value in changes.items():
        if not isinstance(value, numbers.Real if name == "threshold" else numbers.Integral):
            raise TypeError(f"set_printoptions(): {name} must be a number, not {type(value).__name__}")
    if not isinstance(sci_mode, bool | None):
        raise TypeError(f"set_printoptions(): sci_mode must be a bool, not {type(sci_mode).__name__}")
    for name, value in changes.items():
        setattr(OPTIONS, name, value)
    OPTIONS.sci_mode = sci_mode


def get_printoptions() -> dict[str, Any]:
    """The options now, as keywords for ``set_printoptions``."""
    return dict(vars(OPTIONS))


@contextmanager
def printoptions(**options: Any) -> Iterator[None]:
    """Other options in the ``with`` block."""
    before = get_printoptions()
    set_printoptions(**options)
    try:
        yield
    finally:
        set_printoptions(**before)


class _Formatter:
    """One width and notation for all elements of a tensor."""

    def __init__(self, data: np.ndarray) -> None:
        self.floating = data.dtype.kind in "fV"
        self.whole = True  # all elements are integers: print "1." for 1.0
        self.scientific = False
        self.width = 1
        values = data.ravel().astype(np.float64) if self.floating else data.ravel()
        if self.floating:
            self._measure(values[np.isfinite(values) & (values != 0)])
        else:
            self.width = max((len(str(v)) for v in values.tolist()), default=1)

    def _measure(self, values: np.ndarray) -> None:
        if not values.size:
            return
        small, large = np.abs(values).min(), np.abs(values).max()
        self.whole = bool((values == np.ceil(values)).all())
        self.scientific = bool(large / small > 1000.0 or large > 1e8 or small < 1e-4)
        if OPTIONS.sci_mode is not None:
            self.scientific = OPTIONS.sci_mode
        if self.scientific:
            style, extra = f".{OPTIONS.precision}e", 0
        elif self.whole:
            style, extra = ".0f", 1
        else:
            style, extra = f".{OPTIONS.precision}f", 0
        self.width = max(1, *(len(format(v, style)) + extra for v in values.tolist()))

    def __call__(self, value: Any) -> str:
        if not self.floating:
            text = str(value)
        elif self.scientific:
            text = format(value, f"{self.width}.{OPTIONS.precision}e")
        elif self.whole:
            text = format(value, ".0f") + ("." if math.isfinite(value) else "")
        else:
            text = format(value, f".{OPTIONS.precision}f")
        return text.rjust(self.width)


class _ComplexFormatter:
    """The two parts of complex elements, each with a width and notation of its own."""

    def __init__(self, data: np.ndarray) -> None:
        self.real, self.imag = _Formatter(data.real), _Formatter(data.imag)
        self.width = self.real.width + self.imag.width + 1

    def __call__(self, value: complex) -> str:
        imag = (self.imag(value.imag) + "j").lstrip()
        return self.real(value.real) + ("" if imag[0] in "+-" else "+") + imag


def _formatter(data: np.ndarray) -> Any:
    return (_ComplexFormatter if data.dtype.kind == "c" else _Formatter)(data)


def _ends(data: np.ndarray) -> np.ndarray:
    """``data`` with the middle of each long axis left out: what is printed when summarising."""
    edge = OPTIONS.edgeitems
    for axis, n in enumerate(data.shape):
        if n > 2 * edge:
            kept = [*range(edge), *range(n - edge, n)]
            data = np.take(data, kept, axis)
    return data


def _row(data: np.ndarray, indent: int, summarize: bool, form: Any) -> str:
    edge = OPTIONS.edgeitems
    if summarize and not edge:
        texts = ["..."]
    elif summarize and len(data) > 2 * edge:
        first = [form(v) for v in data[:edge].tolist()]
        texts = [*first, " ...", *(form(v) for v in data[len(data) - edge :].tolist())]
    else:
        texts = [form(v) for v in data.tolist()]
    per_line = max(1, (OPTIONS.linewidth - indent) // (form.width + 2))
    lines = [", ".join(texts[k : k + per_line]) for k in range(0, len(texts), per_line)]
    return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"


def _nested(data: np.ndarray, indent: int, summarize: bool, form: Any) -> str:
    if data.ndim == 0:
        return form(data.item())
    if data.ndim == 1:
        return _row(data, indent, summarize, form)
    edge, n = OPTIONS.edgeitems, len(data)
    if summarize and n > 2 * edge:
        head = [_nested(data[k], indent + 1, summarize, form) for k in range(edge)]
        parts = [
            *head,
            "...",
            *(_nested(data[k], indent + 1, summarize, form) for k in range(n - edge, n)),
        ]
    else:
        parts = [_nested(part, indent + 1, summarize, form) for part in data]
    return "[" + ("," + "\n" * (data.ndim - 1) + " " * (indent + 1)).join(parts) + "]"


def _with_suffixes(text: str, suffixes: list[str], indent: int) -> str:
    """The facts after the elements, on a new line where the last one is full."""
    length = len(text) - text.rfind("\n") + 1
    for suffix in suffixes:
        if length + len(suffix) + 2 > OPTIONS.linewidth:
            text += ",\n" + " " * indent + suffix
            length = indent + len(suffix)
        else:
            text += ", " + suffix
            length += len(suffix) + 2
    return text + ")"


def _prefix(tensor: Any) -> str:
    kind = type(tensor)
    plain = kind.__name__ in ("Tensor", "Parameter", "Buffer") and kind.__module__.split(".")[0] in _OWN
    return "tensor(" if plain else f"{kind.__name__}("


_OWN = ("jtorch", "torch")


def graph_text(tensor: Any) -> str:
    """What the text of a tensor tells of its graph, empty where it has none."""
    if tensor.grad_fn is not None:
        return f"grad_fn=<{tensor.grad_fn.name()}>"
    return "requires_grad=True" if tensor.requires_grad else ""


def tensor_text(tensor: Any, graph: str | None = None) -> str:
    """What ``repr(tensor)`` is. A traced tensor has no elements: its shape and dtype stand for them.
    ``graph`` is told of its graph, None for what there is."""
    data, prefix = tensor._data, _prefix(tensor)
    op_module.CONTEXT.get().evaluator.check_text()
    if not has_elements(tensor):
        return f"{prefix}..., shape={tuple(data.shape)}, dtype={tensor.dtype})"
    suffixes = []
    if tensor.device is META:
        return _text_without_elements(tensor, prefix, graph)
    if tensor._data.__class__ is DeviceArray:
        data = data.concrete("its text")
        suffixes.append(f"device='{tensor.device}'")
    default = dt.get_default_dtype()
    if data.size == 0:
        body = "[]"
        if data.ndim != 1:
            suffixes.append(f"size={tuple(data.shape)}")
        if tensor.dtype is not default:
            suffixes.append(f"dtype={tensor.dtype}")
    else:
        if not OPTIONS.edgeitems:
            suffixes.append(f"size={tuple(data.shape)}")
        plain_complex = dt.complex128 if default is dt.float64 else dt.complex64
        if tensor.dtype not in (default, plain_complex, dt.int64, dt.bool_):
            suffixes.append(f"dtype={tensor.dtype}")
        summarize = data.size > OPTIONS.threshold
        body = _nested(data, len(prefix), summarize, _formatter(_ends(data) if summarize else data))
    graph = graph_text(tensor) if graph is None else graph
    if graph:
        suffixes.append(graph)
    if (tangent := tangent_of(tensor)) is not None:
        suffixes.append(f"tangent={tensor_text(tangent)}")
    return _with_suffixes(prefix + body, suffixes, len(prefix))


def _text_without_elements(tensor: Any, prefix: str, graph: str | None) -> str:
    suffixes = ["device='meta'", f"size={tuple(tensor.shape)}"]
    if tensor.dtype is not dt.get_default_dtype():
        suffixes.append(f"dtype={tensor.dtype}")
    graph = graph_text(tensor) if graph is None else graph
    return _with_suffixes(f"{prefix}...", [*suffixes, graph] if graph else suffixes, len(prefix))
