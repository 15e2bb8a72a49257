"""Kernel source text in, object code out: the only file that runs Numba.

A kernel module is Python text with one entry function and, beside it, the types of its arguments:

    ARGUMENTS = ("f32*", "f32*", "i64", "f32")

    def scale_f32(out, x, n, factor):
        for i in range(n):
            out[i] = x[i] * factor

The entry is compiled by Numba's front end; the shim `int64 symbol(int64* args)` that unpacks the
argument block and calls it is written here in LLVM IR, so no shim is typed, lowered or named in the
source. Pointers are declared `noalias`: two parameters never address the same memory unless both
are only read. An entry without `ARGUMENTS` takes the block itself (one `CPointer(int64)`).

Numba's own back end would optimise every helper, wrapper and library on its own. Here everything is
linked into one module first, made internal, optimised once by LLVM's standard pipeline, and emitted
once.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import linecache
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from jtorch.native import loader, objects

FAILED = 255
"""Status of a kernel whose body raised; real status codes are smaller."""

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


@dataclass(frozen=True)
class ObjectCode:
    """One compiled kernel: `int64 symbol(int64* args)` inside the relocatable object `code`."""

    symbol: str
    code: bytes
    llvm_ir: str = ""


def symbol_name(source: str, entry: str) -> str:
    """The kernel's symbol: what it is, then what is in it. Equal text gives equal names in every
    process.
    """
    digest = hashlib.sha256(f"{entry}\0{source}".encode()).hexdigest()
    return f"jtorch_{entry}_{digest[:16]}"


def build(
    source: str,
    entry: str,
    *,
    module_globals: Mapping[str, Any] | None = None,
    keep_ir: bool = False,
) -> ObjectCode:
    """Compile function `entry` of the module text `source` to object code.

    `module_globals` are names given to the module before it runs (tests use it; cached kernels must
    spell their imports). Returns an ObjectCode whose symbol is `symbol_name(source, entry)`. Raises
    KernelBuildError where the text does not run, Numba cannot type it, or the result would need a
    symbol other than libm's and the memory functions; ImportError where Numba is not installed.
    """
    _require_numba()
    symbol = symbol_name(source, entry)
    function, arguments = _load_entry(source, entry, symbol, module_globals or {})
    try:
        module, body_name = _front_end(function, arguments, symbol)
    except Exception as error:
        if _is_numba_error(error):
            raise KernelBuildError(f"kernel {symbol}: Numba cannot compile it.\n{error}") from error
        raise
    _make_internal(module, symbol, body_name)
    code = loader.optimise(module)
    _check_undefined(code, symbol)
    return ObjectCode(symbol, code, str(module) if keep_ir else "")


def _require_numba() -> None:
    try:
        import numba  # noqa: F401
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


def _is_numba_error(error: Exception) -> bool:
    from numba.core.errors import NumbaError

    return isinstance(error, NumbaError)


@functools.cache
def _numba_types() -> dict[str, Any]:
    from numba import types

    names = {"f": "float", "i": "int", "u": "uint"}
    table = {s: getattr(types, names[s[0]] + s[1:]) for s in SCALARS if s != "bool"}
    pointers = {f"{name}*": types.CPointer(kind) for name, kind in table.items()}
    # Numba loads a CPointer(boolean) element as i8 and then fails to branch on it: bool memory is
    # read as its byte.
    return table | pointers | {"bool": types.boolean, "bool*": types.CPointer(types.uint8)}


@functools.cache
def _link_only_library() -> Any:
    """A Numba code library that collects IR and neither optimises it nor makes it executable.

    Helpers called by a kernel are compiled by Numba as functions of their own; optimising and
    finalising each costs about 10 ms, thrown away once it is inlined. Such a library still links
    into any other, so helpers stay usable elsewhere.
    """
    from numba.core.codegen import JITCodeLibrary

    class _NoEnvironment:
        @staticmethod
        def set_env(env_name: str, env: object) -> None:
            """Nothing to set: environments exist only in executable code."""

    class LinkOnlyLibrary(JITCodeLibrary):
        @property
        def codegen(self) -> Any:
            return _NoEnvironment

        def _optimize_functions(self, ll_module: Any) -> None:
            pass

        def finalize(self) -> None:
            self._raise_if_finalized()
            for library in dict.fromkeys(self._linking_libraries):
                self._final_module.link_in(library._get_module_for_linking(), preserve=True)
            self._finalized = True

        def get_pointer_to_function(self, name: str) -> int:
            return 0

    return LinkOnlyLibrary


@contextlib.contextmanager
def _numba_link_only(codegen: Any) -> Iterator[None]:
    """Inside: what Numba compiles is linked, not finalised. Numba's compiler lock keeps other
    threads out.
    """
    from numba.core.compiler_lock import global_compiler_lock

    with global_compiler_lock:
        previous = codegen._library_class
        codegen._library_class = _link_only_library()
        try:
            yield
        finally:
            codegen._library_class = previous


def _flags() -> Any:
    from numba.core import compiler

    flags: Any = compiler.Flags()
    flags.no_compile = True
    flags.no_cpython_wrapper = True
    flags.no_cfunc_wrapper = True
    flags.error_model = "numpy"
    flags.nrt = False
    flags.noalias = True
    return flags


def _front_end(function: Any, arguments: tuple[str, ...] | None, symbol: str) -> tuple[Any, str]:
    """Type and lower the entry, add the shim, link the helpers: one LLVM module and the body's name
    in it.
    """
    from numba.core import compiler
    from numba.core.registry import cpu_target

    from jtorch.native import jit_names

    jit_names.register()
    typing_context, target_context = cpu_target.typing_context, cpu_target.target_context
    table = _numba_types()
    kinds = ("i64*",) if arguments is None else arguments
    with _numba_link_only(target_context.codegen()):
        typing_context.refresh()
        target_context.refresh()
        result = compiler.compile_extra(
            typing_context,
            target_context,
            function,
            [table[kind] for kind in kinds],
            None,
            _flags(),
            {},
        )
        library = result.library
        library.add_ir_module(_shim(target_context, result.fndesc, kinds, arguments is None, symbol))
        library.finalize()
    return library._final_module, result.fndesc.llvm_func_name


def _shim(context: Any, fndesc: Any, kinds: tuple[str, ...], raw: bool, symbol: str) -> Any:
    """`int64 symbol(int64* args)`: one word per argument, unpacked, then the call.

    For ("f32*", "i64", "f32") it reads `body(inttoptr(args[0]), args[1],
    fptrunc(as_double(args[2])))`.
    """
    from llvmlite import ir
    from numba import types

    word = ir.IntType(64)
    module = context.create_module(symbol)
    body_type = context.call_conv.get_function_type(fndesc.restype, fndesc.argtypes)
    body = ir.Function(module, body_type, fndesc.llvm_func_name)
    shim = ir.Function(module, ir.FunctionType(word, [word.as_pointer()]), symbol)
    builder = ir.IRBuilder(shim.append_basic_block("entry"))
    block = shim.args[0]
    values = [block] if raw else [_unpack(builder, context, block, i, k) for i, k in enumerate(kinds)]
    status, result = context.call_conv.call_function(builder, body, fndesc.restype, fndesc.argtypes, values)
    if fndesc.restype == types.none:
        code = ir.Constant(word, 0)
    elif isinstance(fndesc.restype, types.Integer):
        code = context.cast(builder, result, fndesc.restype, types.int64)
    else:
        raise KernelBuildError(
            f"kernel {symbol} returns {fndesc.restype}; expected nothing or an integer status"
        )
    builder.ret(builder.select(status.is_error, ir.Constant(word, FAILED), code))
    return module


def _unpack(builder: Any, context: Any, block: Any, index: int, kind: str) -> Any:
    """The value of kind `kind` that word `index` of the block holds (floats: the bits of a
    float64).
    """
    from llvmlite import ir

    slot = builder.gep(block, [ir.Constant(ir.IntType(64), index)])
    value_type = context.get_value_type(_numba_types()[kind])
    if kind.startswith("f") and not kind.endswith("*"):
        double = builder.load(builder.bitcast(slot, ir.DoubleType().as_pointer()))
        return double if kind == "f64" else builder.fptrunc(double, value_type)
    loaded = builder.load(slot)
    if kind.endswith("*"):
        return builder.inttoptr(loaded, value_type)
    if kind == "bool":
        return builder.icmp_unsigned("!=", loaded, ir.Constant(loaded.type, 0))
    return loaded if value_type.width == 64 else builder.trunc(loaded, value_type)


def _make_internal(module: Any, symbol: str, body_name: str) -> None:
    """Everything but the shim becomes internal, and helpers are always inlined so that loops around
    them vectorise.

    The body itself stays a function: its `noalias` parameters then hold for its whole length.
    """
    for function in module.functions:
        if function.is_declaration or function.name == symbol:
            continue
        function.linkage = "internal"
        is_body = function.name == body_name
        function.add_function_attribute("noinline" if is_body else "alwaysinline")
        if is_body:
            # Numba's name counts the functions compiled so far; this one is the same in every
            # process.
            function.name = f"{symbol}_body"
    for variable in module.global_variables:
        if not variable.is_declaration:
            variable.linkage = "internal"


def _check_undefined(code: bytes, symbol: str) -> None:
    unexpected = sorted(set(objects.undefined_symbols(code)) - ALLOWED_SYMBOLS)
    if unexpected:
        raise KernelBuildError(
            f"kernel {symbol} needs symbols that cached code may not use: {', '.join(unexpected)}. "
            "Only libm and the memory functions are allowed; an allocation, a string or an "
            "exception with arguments in the source is the usual cause"
        )
