"""Devices: the CPU, a CUDA device where there is a driver, and "meta", where tensors have no elements.
Asking for what is not there is an error, never a silent CPU. Nobody looks for a driver before a CUDA device
is asked for.

Source: https://docs.pytorch.org/docs/stable/tensor_attributes.html#torch.device
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from jtorch.core import config, higher

_TYPES = (
    "cpu", "cuda", "ipu", "xpu", "mkldnn", "opengl", "opencl", "ideep", "hip", "ve", "fpga", "maia", "xla",
    "lazy", "vulkan", "mps", "meta", "hpu", "mtia", "privateuseone",
)  # fmt: skip


class DeviceError(AssertionError, RuntimeError):
    """A device this build lacks: PyTorch raises one class or the other, by the kind of device."""


class device:  # noqa: N801 - the name users of PyTorch know
    """A name of a place: ``device("cpu")``, ``device("cuda", 0)``. Any can be named; using one that this
    build lacks is the error. As a context manager it is where factories make tensors.

    Raises RuntimeError for a kind of device that PyTorch doesn't know.
    """

    __slots__ = ("index", "type")

    type: str
    index: int | None

    def __init__(self, type: str | device | int, index: int | None = None) -> None:
        if isinstance(type, device):
            self.type, self.index = type.type, type.index
            return
        if isinstance(type, int):
            if not cuda_is_available():
                raise DeviceError("Cannot access accelerator device when none is available.")
            self.type, self.index = "cuda", type
            return
        if not isinstance(type, str):
            raise TypeError(f"device(): argument 'type' must be str, not {type.__class__.__name__}")
        kind, colon, number = type.partition(":")
        if kind not in _TYPES:
            raise RuntimeError(
                f"Expected one of {', '.join(_TYPES)} device type at start of device string: {kind}"
            )
        if colon and (not number.isdigit() or index is not None):
            raise RuntimeError(
                f"type (string) must not include an index because index was passed explicitly: {type}"
                if number.isdigit()
                else f"Invalid device string: '{type}'"
            )
        self.type = kind
        self.index = int(number) if colon else index

    def __repr__(self) -> str:
        index = "" if self.index is None else f", index={self.index}"
        return f"device(type='{self.type}'{index})"

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, device) and (self.type, self.index) == (other.type, other.index)

    def __hash__(self) -> int:
        return hash((self.type, self.index))

    def __reduce__(self) -> tuple:
        return device, (str(self),)

    def __enter__(self) -> device:
        _entered.set((*_entered.get(), check(self)))
        return self

    def __exit__(self, *exception: object) -> None:
        _entered.set(_entered.get()[:-1])

    def __call__(self, function: Callable) -> Callable:
        """``@device(...)``: the function runs with this device as the default."""

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return wrapped


CPU = device("cpu")
META = device("meta")


_entered: ContextVar[tuple[device, ...]] = ContextVar("jtorch_device", default=())
_default = CPU


def check(spec: str | device | int | None) -> device:
    """The device a ``device=`` argument asks for; CPU for None. Raises DeviceError for others."""
    return CPU if spec is None or spec is CPU else _present(device(spec))


def _present(wanted: device) -> device:
    if wanted.type == "cpu":
        return CPU if wanted == CPU else wanted  # the very object, which factories ask for at each call
    if wanted.type == "cuda" and cuda_is_available():
        if wanted.index:
            raise RuntimeError(
                f"CUDA error: invalid device ordinal: {wanted} was asked for, and jtorch uses one device, "
                "cuda:0"
            )
        return device("cuda", 0)
    if wanted.type in ("cuda", "xpu"):
        raise DeviceError(f"Torch not compiled with {wanted.type.upper()} enabled")
    if wanted.type == "meta":
        return META
    raise DeviceError(f"PyTorch is not linked with support for {wanted.type} devices")


def cuda_is_available() -> bool:
    """Whether there is a CUDA device that computes; the first to ask looks for its driver."""
    return higher.device is not None and bool(higher.device().is_available())


def get_default_device() -> device:
    """Where factories make tensors."""
    entered = _entered.get()
    return entered[-1] if entered else _default


def chosen(spec: str | device | int | None) -> device:
    """The device that a factory's ``device=`` asks for; the default one for None."""
    return get_default_device() if spec is None else check(spec)


def set_default_device(device: str | device | int | None) -> None:
    """Make tensors on ``device`` from now on. Raises DeviceError for one that is not there."""
    global _default
    _default = check(device)


def follow_setting() -> None:
    """Make the device that ``JTORCH_DEVICE`` names the default one, once what knows devices is there. Raises
    DeviceError for one that is not."""
    set_default_device(str(config.get("DEVICE")))
