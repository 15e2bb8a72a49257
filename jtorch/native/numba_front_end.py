"""From a kernel's text to LLVM IR by way of Numba: for what `front_end.py` does not write.

The entry is compiled by Numba's front end; the shim `int64 symbol(int64* args)` that unpacks the
argument block and calls it is written here, so no shim is typed, lowered or named in the source.
Importing this module imports Numba.

Numba's own back end would optimise every helper, wrapper and library on its own. Here everything is
linked into one module and made internal, which is optimised and emitted once.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

from llvmlite import ir
from numba.core import compiler, types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler_lock import global_compiler_lock
from numba.core.errors import NumbaError
from numba.core.registry import cpu_target

from jtorch.native import jit_names
from jtorch.native.build import SCALARS
from jtorch.native.front_end import unpacked

FAILED = 255
"""Status of a kernel whose body raised; real status codes are smaller."""


class UncompiledError(Exception):
    """Numba cannot compile it, in its words."""


def kernel_text(function: Any, arguments: tuple[str, ...] | None, symbol: str) -> str:
    """The module with `symbol`, which calls `function`, inlined helpers and all. Raises UncompiledError."""
    try:
        module, body_name = _module(function, arguments, symbol)
    except NumbaError as error:
        raise UncompiledError(str(error)) from error
    _make_internal(module, symbol, body_name)
    return str(module)


@functools.cache
def _numba_types() -> dict[str, Any]:
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
    with global_compiler_lock:
        previous = codegen._library_class
        codegen._library_class = _link_only_library()
        try:
            yield
        finally:
            codegen._library_class = previous


def _flags() -> Any:
    flags: Any = compiler.Flags()
    flags.no_compile = True
    flags.no_cpython_wrapper = True
    flags.no_cfunc_wrapper = True
    flags.error_model = "numpy"
    flags.nrt = False
    flags.noalias = True
    return flags


def _module(function: Any, arguments: tuple[str, ...] | None, symbol: str) -> tuple[Any, str]:
    """Type and lower the entry, add the shim, link the helpers: one LLVM module and the body's name
    in it.
    """
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

    word = ir.IntType(64)
    module = context.create_module(symbol)
    body_type = context.call_conv.get_function_type(fndesc.restype, fndesc.argtypes)
    body = ir.Function(module, body_type, fndesc.llvm_func_name)
    shim = ir.Function(module, ir.FunctionType(word, [word.as_pointer()]), symbol)
    builder = ir.IRBuilder(shim.append_basic_block("entry"))
    block = shim.args[0]
    values = [block] if raw else [unpacked(builder, block, i, k) for i, k in enumerate(kinds)]
    status, result = context.call_conv.call_function(builder, body, fndesc.restype, fndesc.argtypes, values)
    if fndesc.restype == types.none:
        code = ir.Constant(word, 0)
    elif isinstance(fndesc.restype, types.Integer):
        code = context.cast(builder, result, fndesc.restype, types.int64)
    else:
        raise UncompiledError(f"it returns {fndesc.restype}; expected nothing or an integer status")
    builder.ret(builder.select(status.is_error, ir.Constant(word, FAILED), code))
    return module


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
