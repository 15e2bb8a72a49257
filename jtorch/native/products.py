"""Products of matrices in the private OpenBLAS, by the kernel that compiled code uses, from arrays.

A builtin of our own machine code reads the arrays: by way of ctypes, a product that takes 10 us would begin
3 us later.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence

import numpy as np

from jtorch.native import blas, cache, llvm_files
from jtorch.native.builtin import DATA_OFFSET, api, make_builtin
from jtorch.native.contraction import contract as contract
from jtorch.native.executor import layout_is_known

Array = np.ndarray
_TYPE = 8  # of an object's type, from its beginning
_LLVM = {"f32": "float", "f64": "double"}
_DTYPES: dict[np.dtype, str] = {np.dtype(np.float32): "f32", np.dtype(np.float64): "f64"}


def runner(dtype: np.dtype) -> Callable[[Array, Array, Array], int] | None:
    """``run(x, y, out)`` writes the product of two matrices to ``out``, or of a batch of them along its first
    axis, and the first of each factor that has three.

    It runs on this thread, and other Python threads run meanwhile; large products are for ``contract``. The
    result is 0, or 1 where nothing was done: these are no such arrays of ``dtype``, their sizes do not match,
    a layout is none that BLAS takes, or one factor is the other transposed, which NumPy does in half the
    time. None for other dtypes, and where machine code cannot be had or kept.
    """
    kind = _DTYPES.get(dtype)
    return None if kind is None else (_runners() or {}).get(kind)


@cache.once_offered
def _runners() -> dict[str, Callable[..., int]]:
    if not _layout_is_known() or not blas.is_private():  # SciPy's copy is no better than NumPy's
        return {}
    made = {kind: _make(kind, dtype) for dtype, kind in _DTYPES.items()}
    return made if all(_is_right(made[kind], dtype) for dtype, kind in _DTYPES.items()) else {}


def _make(kind: str, dtype: np.dtype) -> Callable[..., int]:
    functions = blas.private_functions(kind)
    places = {"DATA_OFFSET": DATA_OFFSET, "TYPE": _TYPE, "WORDS": blas.ARGUMENT_WORDS, "KIND": _LLVM[kind]}
    text = llvm_files.filled(llvm_files.read("matrix") + _entry(), places)
    address = cache.get_or_build_ir(text, f"product_{kind}")["jtorch_product"]
    record = {
        "make_int": api("PyLong_FromLongLong"), "save": api("PyEval_SaveThread"),
        "restore": api("PyEval_RestoreThread"), "class": id(np.ndarray), "dtype": id(dtype),
        "item": dtype.itemsize, "gemm": functions.gemm, "gemv": functions.gemv,
        "run": blas.gemm_kernel(kind), "one_bits": int(np.float64(1).view(np.int64)),
    }  # fmt: skip
    assert tuple(record) == _RECORD
    return make_builtin("product", address, np.array([*record.values()], np.int64))


def _layout_is_known() -> bool:
    """Whether an ndarray holds its number of axes, sizes and strides where the machine code reads them."""
    array = np.zeros((2, 3, 5), np.float32)[:, :, ::2]
    axes, sizes, strides, _, dtype = (DATA_OFFSET + 8 * k for k in range(1, 6))

    def word(address: int) -> int:
        return ctypes.c_int64.from_address(address).value

    return (
        layout_is_known()
        and (word(id(array) + _TYPE), word(id(array) + dtype)) == (id(np.ndarray), id(np.dtype(np.float32)))
        and ctypes.c_int32.from_address(id(array) + axes).value == 3
        and tuple(word(word(id(array) + sizes) + 8 * k) for k in range(3)) == array.shape
        and tuple(word(word(id(array) + strides) + 8 * k) for k in range(3)) == array.strides
    )


def _is_right(run: Callable[..., int], dtype: np.dtype) -> bool:
    """The whole of it, tried on small numbers: exact in any order of adding."""
    x, y = np.arange(24, dtype=dtype).reshape(2, 3, 4), np.arange(20, dtype=dtype).reshape(5, 4).T
    out = np.empty((2, 3, 5), dtype)
    return run(x, y, out) == 0 and bool((out == np.matmul(x, y)).all())


# What `self` holds: functions of Python; the class of arrays, the dtype and bytes of an element; BLAS's gemm
# and gemv; the kernel of `blas.gemm_kernel`; 1.0 as bits.
_RECORD = tuple(
    "make_int save restore class dtype item gemm gemv run one_bits".split()  # noqa: SIM905
)


def _lines(*lines: str) -> str:
    return "".join(f"  {line}\n" for line in lines)


def _entry() -> str:
    """The builtin: reads three arrays, sees whether they fit, and calls gemv or, with a block, the kernel."""
    text = "\ndefine ptr @jtorch_product(ptr %self, ptr %arguments, i64 %count) {\nentry:\n"
    text += _lines(
        "%record_at = getelementptr i8, ptr %self, i64 DATA_OFFSET",
        "%record = load ptr, ptr %record_at",
        "%block = alloca [WORDS x i64]",
        *(f"%{array}_words = alloca [{len(_OF_MATRIX)} x i64]" for array in "xyo"),
    )
    text += _loads("", "record", _RECORD)
    for name in ("make_int", "save", "restore", "run", "gemv"):
        text += _lines(f"%call_{name} = inttoptr i64 %{name} to ptr")
    for k, array in enumerate("xyo"):
        following = "xyo"[k + 1 : k + 2] or "all"
        text += _lines(
            f"%{array}_at = getelementptr ptr, ptr %arguments, i64 {k}",
            f"%{array} = load ptr, ptr %{array}_at",
            f"%{array}_good = call i1 @matrix("
            f"ptr %{array}, i64 %class, i64 %dtype, i64 %item, ptr %{array}_words)",
            f"br i1 %{array}_good, label %{following}_next, label %refuse",
        )
        text += f"{following}_next:\n" + _loads(f"{array}_", f"{array}_words", _OF_MATRIX)
    return text + _checks() + _gemv() + _gemm() + _END


_OF_MATRIX = ("data", "stride", "rows", "columns", "flag", "leading", "batch")


def _loads(prefix: str, start: str, names: Sequence[str]) -> str:
    """The words from ``start`` on, each under its name."""
    return _lines(
        *(
            f"%{prefix}{name}_at = getelementptr i64, ptr %{start}, i64 {k}\n"
            f"  %{prefix}{name} = load i64, ptr %{prefix}{name}_at"
            for k, name in enumerate(names)
        )
    )


def _checks() -> str:
    conditions = {
        "inner": "eq i64 %x_columns, %y_rows", "down": "eq i64 %o_rows, %x_rows",
        "right": "eq i64 %o_columns, %y_columns", "by_rows": "eq i64 %o_flag, 111",
        "x_alone": "eq i64 %x_batch, -1", "y_alone": "eq i64 %y_batch, -1", "o_alone": "eq i64 %o_batch, -1",
        "x_along": "eq i64 %x_batch, %o_batch", "y_along": "eq i64 %y_batch, %o_batch",
        "apart": "ne i64 %x_data, %y_data", "alike": "eq i64 %x_flag, %y_flag",
        "one_row": "eq i64 %o_rows, 1", "one_column": "eq i64 %o_columns, 1",
    }  # fmt: skip
    return (
        _lines(
            *(f"%{name} = icmp {test}" for name, test in conditions.items()),
            "%x_fits = or i1 %x_alone, %x_along",
            "%y_fits = or i1 %y_alone, %y_along",
            "%no_square = or i1 %apart, %alike",
            "%all_0 = and i1 %inner, %down",
            *(
                f"%all_{k + 1} = and i1 %all_{k}, %{name}"
                for k, name in enumerate(("right", "by_rows", "x_fits", "y_fits", "no_square"))
            ),
            "%area = mul i64 %o_rows, %o_columns",
            "%work = mul i64 %area, %x_columns",
            "%has_vector = or i1 %one_row, %one_column",
            "%some = icmp ne i64 %work, 0",
            "%vector_some = and i1 %has_vector, %some",
            "%vector_alone = and i1 %vector_some, %o_alone",
            *_bounded("x_rows", "x_columns", "y_columns", "x_leading", "y_leading"),
            "%vector = and i1 %vector_alone, %bounded",
            "br i1 %all_5, label %go, label %refuse",
        )
        + "go:\n"
        + _lines(
            "%thread = call ptr %call_save()",
            "br i1 %vector, label %with_vector, label %fill",
        )
    )


def _bounded(*names: str) -> list[str]:
    """Whether all of them fit BLAS's 32 bits."""
    lines = ["%size_0 = add i64 0, 0"]
    lines += [f"%size_{k + 1} = or i64 %size_{k}, %{name}" for k, name in enumerate(names)]
    return [*lines, f"%bounded = icmp ule i64 %size_{len(names)}, 2147483647"]


def _gemv() -> str:
    """One row times a matrix is the matrix, transposed, times a column."""
    chosen = {
        "matrix": ("y_data", "x_data"), "flag": ("y_flag", "x_flag"), "width": ("y_leading", "x_leading"),
        "vector_at": ("x_data", "y_data"), "step": ("x_leading", "y_leading"), "runs": ("x_flag", "y_flag"),
        "as_rows": ("y_rows", "x_rows"), "as_columns": ("y_columns", "x_columns"),
    }  # fmt: skip
    lines = [f"%v_{n} = select i1 %one_row, i64 %{a}, i64 %{b}" for n, (a, b) in chosen.items()]
    lines += [
        "%stored_as_is = icmp eq i64 %v_flag, 111",
        "%m_0 = select i1 %stored_as_is, i64 %v_as_rows, i64 %v_as_columns",
        "%n_0 = select i1 %stored_as_is, i64 %v_as_columns, i64 %v_as_rows",
        "%opposite = sub i64 223, %v_flag",
        "%trans_0 = select i1 %one_row, i64 %opposite, i64 %v_flag",
        # a row in order, or a column that was found to be one, has its elements side by side
        "%row_dense = icmp eq i64 %v_runs, 111",
        "%column_dense = icmp eq i64 %v_runs, 112",
        "%dense = select i1 %one_row, i1 %row_dense, i1 %column_dense",
        "%step_0 = select i1 %dense, i64 1, i64 %v_step",
        "%out_step_0 = select i1 %one_row, i64 1, i64 %o_leading",
        *(f"%g_{n} = trunc i64 %{n}_0 to i32" for n in ("m", "n", "trans", "step", "out_step")),
        "%g_width = trunc i64 %v_width to i32",
        *(f"%{n}_ptr = inttoptr i64 %{w} to ptr" for n, w in
          (("matrix", "v_matrix"), ("vector", "v_vector_at"), ("result", "o_data"))),
        "call void %call_gemv(i32 101, i32 %g_trans, i32 %g_m, i32 %g_n, KIND 1.0, ptr %matrix_ptr,"
        " i32 %g_width, ptr %vector_ptr, i32 %g_step, KIND 0.0, ptr %result_ptr, i32 %g_out_step)",
        "br label %done",
    ]  # fmt: skip
    return "with_vector:\n" + _lines(*lines)


def _gemm() -> str:
    words = (
        "gemm", "x_data", "y_data", "o_data", "matrices", "x_stride", "y_stride", "o_stride",
        "x_flag", "y_flag", "o_rows", "o_columns", "x_columns", "x_leading", "y_leading", "o_leading",
        "one_bits", "zero",
    )  # fmt: skip
    lines = ["%matrices = select i1 %o_alone, i64 1, i64 %o_batch", "%zero = add i64 0, 0"]
    for k, name in enumerate(words):
        lines += [f"%w{k} = getelementptr i64, ptr %block, i64 {k}", f"store i64 %{name}, ptr %w{k}"]
    return "fill:\n" + _lines(*lines, "%status = call i64 %call_run(ptr %block)", "br label %done")


_END = """done:
  %result = phi i64 [ 0, %with_vector ], [ %status, %fill ]
  call void %call_restore(ptr %thread)
  %answer = call ptr %call_make_int(i64 %result)
  ret ptr %answer
refuse:
  %refusal = call ptr %call_make_int(i64 1)
  ret ptr %refusal
}
"""
