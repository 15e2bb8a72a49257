"""Switches of a whole process that scripts set first: threads, determinism, precision of products.

The number of threads is the one in force, and products of float32 on a CUDA device are as precise as was
asked for. jtorch's results are the same in every run and its products on the CPU are computed in full
precision, so the other switches are kept and told back, and nothing depends on them.
Source: https://docs.pytorch.org/docs/stable/torch.html#parallelism
"""

from __future__ import annotations

from typing import Any

from jtorch.core import threads

_PRECISIONS = ("highest", "high", "medium")
_state: dict[str, Any] = {
    "interop": False, "deterministic": False, "warn_only": False,
    "precision": None, "convolutions": True,
}  # fmt: skip


def get_num_threads() -> int:
    """The most threads that an op uses; see `jtorch.core.threads` for where the number comes from.

    >>> import jtorch
    >>> jtorch.get_num_threads() >= 1
    True
    """
    return threads.count()


def set_num_threads(num: int, /) -> None:
    """Let ops use at most ``num`` threads from the next one on, in eager mode and in compiled functions.

    Or at most as many as their BLAS was built for, which ``get_num_threads`` tells then. Raises RuntimeError
    for what is no positive int, ValueError for what is no C int. NumPy's own calls, outside of jtorch's ops,
    keep theirs.

    >>> import jtorch
    >>> jtorch.set_num_threads(jtorch.get_num_threads())
    """
    threads.set_count(_positive(num, "set_num_threads"))


def get_num_interop_threads() -> int:
    """1: no two ops run at a time, unless the program has threads of its own.

    >>> import jtorch
    >>> jtorch.get_num_interop_threads() >= 1
    True
    """
    return 1


def set_num_interop_threads(num: int, /) -> None:
    """Once at most, as in PyTorch, and to no effect: a second call raises RuntimeError."""
    _positive(num, "set_num_interop_threads")
    if _state["interop"]:
        raise RuntimeError(
            "Error: cannot set number of interop threads after parallel work has started or "
            "set_num_interop_threads called"
        )
    _state["interop"] = True


def _positive(num: Any, name: str) -> int:
    if not isinstance(num, int) or isinstance(num, bool):
        raise RuntimeError(f"{name} expects an int, but got {type(num).__name__}")
    if num <= 0:
        raise RuntimeError(f"{name} expects a positive integer")
    if num >= 2**31:
        raise ValueError(f"Overflow when unpacking long{' long' if num >= 2**63 else ''}")
    return num


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Remember ``mode``: all of jtorch's algorithms are deterministic. What is no bool is a TypeError.

    >>> import jtorch
    >>> jtorch.use_deterministic_algorithms(True)
    >>> jtorch.are_deterministic_algorithms_enabled()
    True
    >>> jtorch.use_deterministic_algorithms(False)
    """
    for name, value in (("mode", mode), ("warn_only", warn_only)):
        if not isinstance(value, bool):
            raise TypeError(
                f"use_deterministic_algorithms(): argument '{name}' must be bool, not {type(value).__name__}"
            )
    _state["deterministic"], _state["warn_only"] = mode, warn_only


def are_deterministic_algorithms_enabled() -> bool:
    """Whether the program asked for deterministic algorithms.

    >>> import jtorch
    >>> jtorch.are_deterministic_algorithms_enabled()
    False
    """
    return _state["deterministic"]


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Whether the program asked for warnings in place of errors.

    >>> import jtorch
    >>> jtorch.is_deterministic_algorithms_warn_only_enabled()
    False
    """
    return _state["warn_only"]


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """``use_deterministic_algorithms`` by number or name: 0 "default", 1 "warn", 2 "error".

    >>> import jtorch
    >>> jtorch.set_deterministic_debug_mode("default")
    >>> jtorch.get_deterministic_debug_mode()
    0
    """
    names = {"default": 0, "warn": 1, "error": 2}
    level = names.get(debug_mode) if isinstance(debug_mode, str) else debug_mode
    if level not in (0, 1, 2):
        raise RuntimeError(
            f"invalid value of debug_mode, expected one of `default`, `warn`, `error`, but got {debug_mode}"
        )
    use_deterministic_algorithms(level > 0, warn_only=level == 1)


def get_deterministic_debug_mode() -> int:
    """0, 1 or 2: nothing was asked for, warnings, errors.

    >>> import jtorch
    >>> jtorch.get_deterministic_debug_mode()
    0
    """
    return (1 if _state["warn_only"] else 2) if _state["deterministic"] else 0


def get_float32_matmul_precision() -> str:
    """ "highest", "high" or "medium", as it was set.

    >>> import jtorch
    >>> jtorch.get_float32_matmul_precision()
    'highest'
    """
    return _state["precision"] or "highest"


def set_float32_matmul_precision(precision: str) -> None:
    """Allow products of float32 on a CUDA device to be less precise: see `allows_tf32`. On the CPU none are.

    >>> import jtorch
    >>> jtorch.set_float32_matmul_precision("highest")
    >>> jtorch.get_float32_matmul_precision()
    'highest'
    """
    if precision not in _PRECISIONS:
        raise RuntimeError(f"{precision} is not one of 'highest', 'high', 'medium'")
    _set_precision(precision)


class Matmul:
    """``backends.cuda.matmul``: ``set_float32_matmul_precision`` by other names, and switches that nothing
    depends on. Its attributes are plain ones, so that a recording knows what it has read."""

    allow_tf32: bool  # whether factors of float32 may be rounded to it
    fp32_precision: str  # "none" where nobody has asked, "ieee" or "tf32"
    allow_fp16_reduced_precision_reduction = True
    allow_bf16_reduced_precision_reduction = True
    allow_fp16_accumulation = False

    def __init__(self) -> None:
        self.follow(None)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "allow_tf32":
            set_float32_matmul_precision("high" if is_allowed(value) else "highest")
        elif name == "fp32_precision":
            _set_precision(asked_precision(value))
        else:
            super().__setattr__(name, value)

    def __reduce__(self) -> str:
        """There is one, and a copy of it would be another name for the same switch."""
        return "MATMUL"

    def follow(self, precision: str | None) -> None:
        told = {None: "none", "highest": "ieee"}.get(precision, "tf32")
        vars(self).update(allow_tf32=told == "tf32", fp32_precision=told)


MATMUL = Matmul()


def _set_precision(precision: str | None) -> None:
    _state["precision"] = precision
    MATMUL.follow(precision)


def asked_precision(precision: str) -> str | None:
    """What ``set_float32_matmul_precision`` calls an ``fp32_precision``; None for "none"."""
    asked = {"none": None, "ieee": "highest", "tf32": "high"}
    if not isinstance(precision, str):
        raise TypeError(f"fp32_precision must be a str, not {type(precision).__name__}")
    if precision not in asked:
        if precision == "bf16":  # oneDNN's products on the CPU have it
            raise RuntimeError("backend 'cuda' does not support precision 'bf16'")
        raise RuntimeError(f"Unknown precision: {precision}")
    return asked[precision]


def is_allowed(value: object) -> bool:
    """What a switch for TF32 is set to. Raises PyTorch's RuntimeError for what is no bool."""
    if not isinstance(value, bool):
        raise RuntimeError(f"set_allow_tf32_cublas expects a bool, but got {type(value).__name__}")
    return value


def allow_tf32_in_convolutions(allowed: bool) -> None:
    """``backends.cudnn.allow_tf32``."""
    _state["convolutions"] = is_allowed(allowed)


def allows_tf32() -> bool:
    """Whether products on a CUDA device may round factors of float32 to TF32, 10 bits of fraction for 23.

    Convolutions are products, too, and nobody tells them apart: so it must be asked for for products, and not
    be refused for convolutions.
    """
    return get_float32_matmul_precision() != "highest" and _state["convolutions"]


def set_flush_denormal(mode: bool, /) -> bool:
    """Whether denormals could be set to zero: they are kept, so True for False only.

    >>> import jtorch
    >>> jtorch.set_flush_denormal(False)
    True
    """
    return not mode
