"""From a kernel's text to LLVM IR, and what its object code may not need.

A kernel module is Python text with one entry function and, beside it, the types of its arguments:

    ARGUMENTS = ("f32*", "f32*", "i64", "f32")

    def scale_f32(out, x, n, factor):
        for i in range(n):
            out[i] = x[i] * factor

Pointers are declared `noalias`: two parameters never address the same memory unless both are only
read. An entry without `ARGUMENTS` takes the block itself (one pointer to int64). `front_end.py`
writes what generated kernels consist of; anything else is for Numba.
"""

from __future__ import annotations

import contextlib
import hashlib
import linecache
import logging
from collections.abc import Iterator, Mapping
from typing import Any

from jtorch.native import objects

_log = logging.getLogger("jtorch.cache")

SCALARS = ("f32", "f64", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "bool")

_LIBM = """
    acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp2 expm1 fabs
    floor fma fmax fmin fmod frexp hypot ldexp lgamma log log10 log1p log2 nearbyint pow remainder
    rint round sin sincos sinh sqrt tan tanh tgamma trunc
""".split()  # noqa: SIM905
ALLOWED_SYMBOLS = (
    frozenset(_LIBM)
    | {name + "f" for name in _LIBM}
    | {"memcpy", "memmove", "memset", "memcmp", "bcmp"}
    # what LLVM makes of loops that fill memory on macOS, and its mark on Windows that floats are used
    | {"bzero", "__bzero", "memset_pattern16", "_fltused"}
)


class KernelBuildError(RuntimeError):
    """A kernel's source could not become object code; the message names the kernel and the cause."""


def symbol_name(source: str, entry: str) -> str:
    """The kernel's symbol: what it is, then what is in it. Equal text gives equal names in every
    process.
    """
    digest = hashlib.sha256(f"{entry}\0{source}".encode()).hexdigest()
    return f"jtorch_{entry}_{digest[:16]}"


def llvm_text(source: str, entry: str, module_globals: Mapping[str, Any] | None = None) -> str:
    """LLVM IR of function `entry` of the module text `source`: a module with `symbol_name(source, entry)`.

    `module_globals` are names given to the module before it runs (tests use it; cached kernels must spell
    their imports). Raises KernelBuildError where the text does not run or Numba cannot type it; ImportError
    where what compiles is not installed.
    """
    symbol = symbol_name(source, entry)
    function, arguments = _load_entry(source, entry, symbol, module_globals or {})
    text = _written_here(source, entry, symbol, function, arguments)
    return _by_numba(function, arguments, symbol) if text is None else text


def check(code: bytes, symbol: str) -> None:
    """Raise KernelBuildError where object code of a kernel needs other symbols than libm's and the memory
    functions, which no other process could give it.
    """
    unexpected = sorted(set(objects.undefined_symbols(code)) - ALLOWED_SYMBOLS)
    if unexpected:
        raise KernelBuildError(
            f"kernel {symbol} needs symbols that cached code may not use: {', '.join(unexpected)}. "
            "Only libm and the memory functions are allowed; an allocation, a string or an "
            "exception with arguments in the source is the usual cause"
        )


def _written_here(
    source: str, entry: str, symbol: str, function: Any, arguments: tuple[str, ...] | None
) -> str | None:
    """The text by the short way, None for a text that only Numba compiles."""
    with _compiler_at_hand():
        from jtorch.native import front_end
    if arguments is None:
        return None
    try:
        module = front_end.kernel_module(source, entry, arguments, function.__globals__, symbol)
    except front_end.UnwrittenError as reason:
        _log.info("kernel %s goes by way of Numba: %s", symbol, reason)
        return None
    return str(module)


def _by_numba(function: Any, arguments: tuple[str, ...] | None, symbol: str) -> str:
    """The text by way of Numba."""
    with _compiler_at_hand():
        from jtorch.native import numba_front_end
    try:
        return numba_front_end.kernel_text(function, arguments, symbol)
    except numba_front_end.UncompiledError as error:
        raise KernelBuildError(f"kernel {symbol}: Numba cannot compile it.\n{error}") from error


@contextlib.contextmanager
def _compiler_at_hand() -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise ImportError(
            "compiled functions need Numba and llvmlite, which make their kernels: pip install numba. With "
            f"JTORCH_COMPILE=0 decorated functions run eagerly. ({error})"
        ) from error


def _load_entry(
    source: str, entry: str, symbol: str, module_globals: Mapping[str, Any]
) -> tuple[Any, tuple[str, ...] | None]:
    """Run the module text; return its entry function and its ARGUMENTS."""
    filename = f"<{symbol}>"
    # With its lines in linecache, Numba's messages and tracebacks show the kernel's text.
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    namespace: dict[str, Any] = {"__name__": symbol, **module_globals}
    try:
        exec(compile(source, filename, "exec"), namespace)
    except Exception as error:
        raise KernelBuildError(f"kernel {symbol}: its module text fails to run: {error!r}") from error
    if not callable(namespace.get(entry)):
        raise KernelBuildError(f"kernel {symbol}: the module text defines no function {entry!r}")
    arguments = namespace.get("ARGUMENTS")
    if arguments is None:
        return namespace[entry], None
    for name in arguments:
        if name.removesuffix("*") not in SCALARS:
            raise KernelBuildError(
                f"kernel {symbol}: ARGUMENTS has {name!r}; expected one of {', '.join(SCALARS)}, "
                "with a trailing * for a pointer"
            )
    return namespace[entry], tuple(arguments)
