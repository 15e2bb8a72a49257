"""What ``x.numpy()`` gives while a function is recorded: an array whose elements only a replay knows.

It shares the tensor's memory, as the array does. Its arithmetic is NumPy's, with NumPy's dtypes (a Python
number is weak, float32 beside int64 is float64), and is recorded; its elements are NumPy's numbers. So a
Python loop over the array (``for d in delta[::-1]: total = total * gamma + d[0]``) is a chain of equations,
and ``jtorch.tensor`` of a list of them has each call's. What is computed may leave the function. All else is
refused, and the call runs eagerly: writing to the array, functions of NumPy's other than those below, texts,
and a branch on one of many elements, which would be recorded for each way through them.
"""

from __future__ import annotations

import functools
import operator
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from jtorch.compile.observe.scalar import Scalar, StandIn
from jtorch.compile.record.numpy_functions import BOOL, Functions, target_of
from jtorch.core.dim import is_symbolic
from jtorch.core.errors import NOT_THE_USERS, CompileError, Restart
from jtorch.core.op import BY_NAME
from jtorch.eager.tensor import Tensor, wrap

_CAST = BY_NAME["cast"]
DTYPES = frozenset(map(np.dtype, (np.float32, np.float64, np.int32, np.int64)))  # that are computed with
_SAMPLE = np.zeros(1)
_FEW = 8  # elements of an array that one may branch on
_STEPS = 64  # of a loop over an array: for each length it is recorded again, step by step


class NumpyArray(Functions, StandIn):
    """An array over traced ``memory``; with ``is_number`` the number that NumPy gives for an element,
    or a result without axes. ``few``: what it was computed from has few elements."""

    __slots__ = ("copied", "few", "is_number", "memory")

    def __init__(self, memory: Any, is_number: bool = False, few: bool = True) -> None:
        self.memory, self.is_number = memory, is_number
        self.copied = False  # whether the array would share memory that this does not
        self.few = few and not is_symbolic(memory.size) and memory.size <= _FEW
        memory.tracer.numpy_arrays.in_use = True

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        """What ``isinstance`` in the user's code is told."""
        ours = sys._getframe(1).f_code.co_filename.startswith(NOT_THE_USERS)
        return type(self) if ours else self.kind

    def __hash__(self) -> int:
        if self.is_number:
            raise self.refuse("a key")
        raise TypeError("unhashable type: 'numpy.ndarray'")

    @property
    def kind(self) -> type:
        """The class of what this stands for."""
        return self.memory.dtype.type if self.is_number else np.ndarray

    @property
    def tracer(self) -> Any:
        return self.memory.tracer

    def refuse(self, wanted_by: str) -> BaseException:
        return self.memory.refuse_elements(f"{wanted_by} of what .numpy() gives")

    def lies_in(self, value: Any) -> bool:
        """What tells what stands for an array: see ``nested.is_recorded``."""
        return self.memory.lies_in(value)

    def shared(self) -> Any:
        """Its memory, for a tensor over it: a number has none."""
        if self.copied or self.is_number:
            raise self.refuse("the memory")
        return self.memory

    # -- what is known of it ---------------------------------------------------------------------------------

    @property
    def shape(self) -> tuple:
        return tuple(self.memory.shape)

    @property
    def ndim(self) -> int:
        return self.memory.ndim

    @property
    def size(self) -> int:
        return self.memory.size

    @property
    def dtype(self) -> np.dtype:
        return self.memory.dtype

    @property
    def itemsize(self) -> int:
        return self.memory.dtype.itemsize

    @property
    def nbytes(self) -> int:
        return self.size * self.itemsize

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("len() of unsized object")
        return self.memory.shape[0]

    def __getattr__(self, name: str) -> Any:
        if hasattr(self.dtype.type() if self.is_number else _SAMPLE, name):
            raise self.refuse(f"the attribute {name!r}")
        raise AttributeError(f"'{self.kind.__name__}' object has no attribute '{name}'")

    # -- elements and views ----------------------------------------------------------------------------------

    def _view(self, tensor: Tensor) -> Any:
        made = NumpyArray(tensor._data, few=self.few)
        made.copied = self.copied
        return made

    def _copy(self, tensor: Tensor, is_number: bool) -> Any:
        """Of memory of its own: as numbers are."""
        memory = self.tracer.fresh(self.tracer.read(tensor._data))
        return NumpyArray(memory, is_number=is_number, few=self.few)

    def __getitem__(self, item: Any) -> Any:
        parts = item if type(item) is tuple else (item,)
        if any(type(part) in (np.ndarray, NumpyArray) for part in parts):
            return self._picked(parts)
        if self.is_number or not all(map(_is_basic, parts)) or parts.count(Ellipsis) > 1:
            raise self.refuse("an index that is no integer or slice")
        given = wrap(self.memory)
        axis, turned = 0, []
        for k, part in enumerate(parts):
            if part is Ellipsis:
                axis = self.ndim - sum(p is not None and p is not Ellipsis for p in parts[k + 1 :])
                continue
            if type(part) is slice and part.step == -1 and part.start is part.stop is None:
                turned.append(axis)
                parts = (*parts[:k], slice(None), *parts[k + 1 :])
            axis += part is not None
        if turned:
            self.tracer.numpy_arrays.copied(self.memory)
            given = given.flip(*turned)
        if any(type(p) is slice and p.step is not None and not p.step > 0 for p in parts):
            raise self.refuse("a slice with a negative step, other than [::-1],")
        found = given[parts]
        if not found.ndim and Ellipsis not in parts:
            self.tracer.numpy_arrays.take(self)
            return self._copy(found, is_number=True)
        view = self._view(found)
        view.copied = self.copied or bool(turned)
        return view

    def _picked(self, parts: tuple) -> Any:
        """A copy of what arrays of integers name. Integers beside them are such arrays, too, to NumPy: where
        a slice is in between it has other axes first than PyTorch."""
        named = [k for k, part in enumerate(parts) if type(part) in (np.ndarray, NumpyArray, int)]
        if named[-1] - named[0] >= len(named) or self.is_number:
            raise self.refuse("indices with a slice in between")
        indices = [self._index(part) if type(part) in (np.ndarray, NumpyArray) else part for part in parts]
        if not all(part is Ellipsis or isinstance(part, (Tensor, int, slice)) for part in indices):
            raise self.refuse("an index that is no integer, slice or array")
        return NumpyArray(wrap(self.memory)[tuple(indices)]._data, few=self.few)

    def _index(self, array: Any) -> Tensor:
        memory = self.tracer.lift(array)
        if memory.dtype.kind != "i" or not memory.ndim:
            raise self.refuse(f"an index of {memory.dtype}, or without axes,")
        return wrap(memory).to(dtype=np.dtype(np.int64), copy=True)

    def __iter__(self) -> Iterator[Any]:
        if not self.ndim:
            raise TypeError("iteration over a 0-d array")
        count = len(self)
        if not is_symbolic(count) and count > _STEPS:
            raise self.refuse(f"a loop over {count} elements")
        return (self[k] for k in range(count))

    def reshape(self, *shape: Any) -> Any:
        if self.is_number:
            raise self.refuse("a shape")
        sizes = shape[0] if len(shape) == 1 and type(shape[0]) is tuple else shape
        return self._view(wrap(self.memory).reshape(sizes))

    def ravel(self) -> Any:
        return self.reshape(-1)

    def flatten(self) -> Any:
        return self.copy().reshape(-1)

    def squeeze(self, axis: Any = None) -> Any:
        if self.is_number or (axis is not None and (type(axis) is not int or self.shape[axis] != 1)):
            raise self.refuse("a shape")
        given = wrap(self.memory)
        return self._view(given.squeeze() if axis is None else given.squeeze(axis))

    def expand_dims(self, axis: Any) -> Any:
        if self.is_number or type(axis) is not int:
            raise self.refuse("a shape")
        return self._view(wrap(self.memory).unsqueeze(axis))

    def transpose(self, *axes: Any) -> Any:
        if self.is_number:
            raise self.refuse("a shape")
        order = axes[0] if len(axes) == 1 and type(axes[0]) in (tuple, list) else axes
        return self._view(wrap(self.memory).permute(*(order or reversed(range(self.ndim)))))

    @property
    def T(self) -> Any:  # noqa: N802
        return self.transpose()

    def copy(self) -> Any:
        return self._copy(wrap(self.memory).clone(), self.is_number)

    def astype(self, dtype: Any) -> Any:
        target = np.dtype(dtype)
        if target not in DTYPES | {BOOL}:
            raise self.refuse(f"astype({target})")
        return self._copy(wrap(self.in_dtype(self, target)), self.is_number)

    def item(self) -> Any:
        if not is_symbolic(self.size) and self.size != 1:
            raise ValueError("can only convert an array of size 1 to a Python scalar")
        found = self.memory.item()
        found.decides = self.few
        return found

    # -- arithmetic ------------------------------------------------------------------------------------------

    def in_dtype(self, value: Any, dtype: np.dtype) -> Any:
        """The memory of an array, or of one that is none of a tensor's, cast to ``dtype``."""
        tracer = self.tracer
        is_known = type(value) is NumpyArray or tracer.follows(value)
        memory = tracer.lift(value) if is_known else tracer.new(value)  # the function's own, as it is now
        return memory if memory.dtype == dtype else self.tracer.record(_CAST, memory, dtype=dtype)

    def _operand(self, value: Any, target: np.dtype) -> Any:
        if type(value) is NumpyArray:
            return self.in_dtype(value, target)
        if issubclass(type(value), Scalar):
            if target.kind == "i" and target.itemsize < 8:
                raise self.refuse("arithmetic with a number that may not fit")
            return value
        if isinstance(value, np.ndarray):
            return self.in_dtype(value, target)
        number = target.type(value).item()
        if target.kind == "i" and number != value:
            raise self.refuse(f"arithmetic with {value!r}")
        return number

    def _computed(self, name: str, *values: Any) -> Any:
        """An op in the dtype that NumPy computes in."""
        target = target_of(*values)
        if name in _TO_FLOAT and target.kind != "f":
            target = np.dtype(np.float64)
        if name in _EITHER_WAY and not hasattr(values[0], "dtype"):  # the op asks the first for its dtype
            values = values[::-1]
        small = name in _IN_FLOATS and any(getattr(v, "dtype", target) not in DTYPES for v in values)
        small = small or (name in _OF_FLOATS and target.kind != "f")
        own = any(getattr(v, "dtype", target).kind == "V" for v in values)  # bfloat16, beside numbers float32
        if target not in DTYPES or small or own:  # NumPy has exp() of bytes in float16
            raise self.refuse(f"arithmetic in {target}")
        made = self.tracer.record(BY_NAME[name], *(self._operand(value, target) for value in values))
        few = all(v.few for v in values if type(v) is NumpyArray)
        return NumpyArray(made, is_number=not made.ndim, few=few)

    def _of_two(self, name: str, other: Any, reflected: bool = False) -> Any:
        if not _is_operand(other):
            if isinstance(other, Tensor) and name in _ARITHMETIC:  # which knows what to do with an array
                return NotImplemented
            raise self.refuse(f"'{name}' with a {type(other).__name__}")
        return self._computed(name, *((other, self) if reflected else (self, other)))

    def __pow__(self, exponent: Any) -> Any:
        whole = type(exponent) is int or (type(exponent) is float and exponent.is_integer())
        if self.dtype.kind != "f" or not whole:  # roots of NumPy's have other signs than PyTorch's
            raise self.refuse("this power")
        return self._computed("pow", self, exponent)

    def __neg__(self) -> Any:
        return self._computed("neg", self)

    def __abs__(self) -> Any:
        return self._computed("abs", self)

    def __pos__(self) -> Any:
        if self.dtype == BOOL:
            raise self.refuse("this operator")
        return self._copy(wrap(self.memory), is_number=not self.ndim)

    def __bool__(self) -> bool:
        if is_symbolic(self.size) or self.size != 1:
            raise self.refuse("the truth of an array")
        if not self.few:
            raise self.refuse("a branch on one of many elements")
        return bool(self.memory.concrete("bool()"))

    def __matmul__(self, other: Any) -> Any:
        return self.product(self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return self.product(other, self)

    def __invert__(self) -> Any:
        return self.logical("logical_not", self)

    def _reduced(self, name: str, axis: Any, keepdims: bool, **options: Any) -> Any:
        if self.dtype not in DTYPES or (name in ("mean", "std", "var") and self.dtype.kind != "f"):
            raise self.refuse(f"{name}() in {self.dtype}")
        is_known = axis is None or type(axis) is int or (type(axis) is tuple and len(axis) > 0)
        if not is_known or (not self.ndim and axis is not None) or type(keepdims) is not bool:
            raise self.refuse("this axis")
        axes = tuple(range(self.ndim)) if axis is None else axis
        given = wrap(self.memory)
        found = getattr(given, name)(dim=axes, keepdim=keepdims, **options) if self.ndim else given.clone()
        return NumpyArray(found._data, is_number=not found.ndim)

    def max(self, axis: Any = None, keepdims: bool = False) -> Any:
        return self._reduced("amax", axis, keepdims)

    def min(self, axis: Any = None, keepdims: bool = False) -> Any:
        return self._reduced("amin", axis, keepdims)

    def std(self, axis: Any = None, ddof: int = 0, keepdims: bool = False) -> Any:
        return self._spread("std", axis, ddof, keepdims)

    def var(self, axis: Any = None, ddof: int = 0, keepdims: bool = False) -> Any:
        return self._spread("var", axis, ddof, keepdims)

    def _spread(self, name: str, axis: Any, ddof: int, keepdims: bool) -> Any:
        if not self.ndim:
            raise self.refuse(f"{name}() of one number")
        return self._reduced(name, axis, keepdims, correction=ddof)

    # -- NumPy's own functions -------------------------------------------------------------------------------

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *values: Any, **options: Any) -> Any:
        plain = method == "__call__" and not options and all(map(_is_operand, values))
        if plain and ufunc in UFUNCS:
            return self._computed(UFUNCS[ufunc], *values)
        if plain and ufunc in _LOGICAL:
            return self.logical(_LOGICAL[ufunc], *values)
        if plain and ufunc is np.matmul:
            return self.product(*values)
        if plain and ufunc is np.isinf:
            return self._computed("eq", abs(self), np.inf)
        if plain and ufunc is np.square:
            return self._computed("mul", self, self)
        if plain and ufunc is np.power and values[0] is self:
            return self ** values[1]
        raise self.refuse(f"np.{ufunc.__name__}()")

    def __array_function__(self, function: Any, types: Any, values: Any, options: Any) -> Any:
        name = getattr(function, "__name__", "")
        if name in _JOINED and 0 < len(values) <= 2 and type(values[0]) in (list, tuple):
            return self.tracer.numpy_arrays.joined(name, *values, **options)
        if name in _STACKED and len(values) == 1 and type(values[0]) in (list, tuple) and not options:
            return self.with_axes(name, values[0])
        if name == "where" and len(values) == 3 and not options:
            return self.where(*values)
        if name in _METHODS and values and values[0] is self:
            if name == "clip":  # whose bounds have other names there
                options = {key.removeprefix("a_"): value for key, value in options.items()}
            return getattr(self, _METHODS[name])(*values[1:], **options)
        raise self.refuse(f"np.{name}()")


def beside(scalar: Scalar, name: str, other: Any, reflected: bool) -> NumpyArray:
    """The op ``name`` of a Python number that only a replay knows and one of NumPy's, or an array, in this
    order unless ``reflected``: NumPy's arithmetic, which gives one of its own numbers, and divides by 0."""
    is_known = other.dtype in DTYPES or other.dtype.kind in "biu"
    if not is_known or name not in _ARITHMETIC or target_of(other, scalar) not in DTYPES:
        raise scalar.refuse(f"'{name}' with a NumPy {type(other).__name__} of {other.dtype}")
    is_number = isinstance(other, np.generic)
    memory = scalar.tracer.new(np.asarray(other)) if is_number else scalar.tracer.lift(other)
    try:
        return NumpyArray(memory, is_number=is_number)._of_two(name, scalar, not reflected)
    except CompileError:
        raise scalar.refuse(f"'{name}' with a NumPy {type(other).__name__}") from None


def _is_basic(part: Any) -> bool:
    return part is None or part is Ellipsis or type(part) in (int, slice) or is_symbolic(part)


def _is_operand(value: Any) -> bool:
    number = type(value) in (int, float) or issubclass(type(value), (Scalar, np.integer, np.floating))
    return number or type(value) in (NumpyArray, np.ndarray)


def _refusing(what: str) -> Callable:
    def method(self: NumpyArray, *args: Any, **options: Any) -> Any:
        raise self.refuse(what)

    return method


UFUNCS = {
    np.add: "add", np.subtract: "sub", np.multiply: "mul", np.true_divide: "div", np.equal: "eq",
    np.not_equal: "ne", np.less: "lt", np.less_equal: "le", np.greater: "gt", np.greater_equal: "ge",
    np.exp: "exp", np.log: "log", np.sqrt: "sqrt", np.tanh: "tanh", np.absolute: "abs", np.negative: "neg",
    np.maximum: "maximum", np.minimum: "minimum", np.floor: "floor", np.ceil: "ceil", np.rint: "round",
    np.isnan: "isnan", np.isfinite: "isfinite", np.sin: "sin", np.cos: "cos",
    np.log1p: "log1p", np.expm1: "expm1", np.log2: "log2", np.log10: "log10",
}  # fmt: skip
_LOGICAL = {
    np.logical_and: "logical_and", np.logical_or: "logical_or", np.logical_not: "logical_not",
    np.logical_xor: "logical_xor", np.bitwise_and: "logical_and", np.bitwise_or: "logical_or",
    np.invert: "logical_not",
}  # fmt: skip
_EITHER_WAY = frozenset({"maximum", "minimum"})
_OF_FLOATS = frozenset({"floor", "ceil", "round", "isnan", "isfinite"})  # of integers something else
_IN_FLOATS = frozenset({"exp", "log", "sqrt", "tanh", "sin", "cos", "log1p", "expm1", "log2", "log10"})
_TO_FLOAT = _IN_FLOATS | {"div"}
_JOINED = frozenset({"stack", "concatenate"})
_STACKED = frozenset({"vstack", "hstack"})
_METHODS = {name: name for name in (
    "mean", "sum", "std", "var", "reshape", "squeeze", "transpose", "ravel", "max", "min", "any", "all",
    "argmax", "argmin", "cumsum", "norm", "clip", "round", "dot", "repeat", "expand_dims",
)} | {"amax": "max", "amin": "min"}  # fmt: skip
_ARITHMETIC_OF = {"add": "add", "sub": "sub", "mul": "mul", "truediv": "div"}
_ARITHMETIC = frozenset(_ARITHMETIC_OF.values())
_BITS_OF = {"and": "logical_and", "or": "logical_or", "xor": "logical_xor"}
_OTHERS = ("mod", "floordiv", "lshift", "rshift", "divmod")
_IN_PLACE = ("__imatmul__", *(f"__i{name}__" for name in _BITS_OF))
_REFUSED = {
    **dict.fromkeys(("__setitem__", "__delitem__"), "writing to the elements"),
    **dict.fromkeys(("__float__", "__int__", "__index__", "__complex__", "__round__"), "a number"),
    **dict.fromkeys(("__str__", "__repr__", "__format__"), "a text"),
    **dict.fromkeys(("__array__", "__reduce_ex__", "__dlpack__"), "the memory"),
    **dict.fromkeys(("__copy__", "__deepcopy__", "__contains__"), "this"),
    **dict.fromkeys(_IN_PLACE, "writing to the elements"),
    **dict.fromkeys((f"__{r}{name}__" for r in ("", "r", "i") for name in _OTHERS), "this operator"),
    **dict.fromkeys(("__rpow__", "__ipow__"), "this power"),
}  # fmt: skip


def _in_place(symbol: str) -> Callable:
    def method(self: NumpyArray, other: Any) -> Any:
        if not self.is_number:
            raise self.refuse("writing to the elements")
        return getattr(operator, symbol)(self, other)

    return method


def _or_refuse(method: Callable) -> Callable:
    """``method`` by jtorch's functions: where they raise, NumPy says something else, or nothing."""

    @functools.wraps(method)
    def call(self: Any, *args: Any, **options: Any) -> Any:
        try:
            return method(self, *args, **options)
        except (CompileError, Restart):
            raise
        except (
            ArithmeticError,
            IndexError,
            NotImplementedError,
            RuntimeError,
            TypeError,
            ValueError,
        ) as error:
            raise self.refuse(f"what raises ({error})") from error

    return call


_RAISING = (
    "__array_function__", "__getitem__", "_computed", "all", "any", "argmax", "argmin", "astype", "clip",
    "copy", "cumsum", "dot", "expand_dims", "flatten", "item", "logical", "max", "mean", "min", "norm",
    "product", "ravel", "repeat", "reshape", "round", "squeeze", "std", "sum", "transpose", "var", "where",
)  # fmt: skip


def _install() -> None:
    for name in _RAISING:
        setattr(NumpyArray, name, _or_refuse(getattr(NumpyArray, name)))
    for name, what in _REFUSED.items():
        setattr(NumpyArray, name, _refusing(what))
    NumpyArray.__array_interface__ = property(_refusing("the memory"))  # type: ignore[attr-defined]
    for symbol, name in _ARITHMETIC_OF.items():
        setattr(NumpyArray, f"__{symbol}__", lambda self, other, name=name: self._of_two(name, other))
        setattr(NumpyArray, f"__r{symbol}__", lambda self, other, name=name: self._of_two(name, other, True))
        setattr(NumpyArray, f"__i{symbol}__", _in_place(symbol))
    for symbol, name in _BITS_OF.items():
        for method in (f"__{symbol}__", f"__r{symbol}__"):
            setattr(NumpyArray, method, lambda self, other, name=name: self.logical(name, self, other))
    for name in ("eq", "ne", "lt", "le", "gt", "ge"):
        setattr(NumpyArray, f"__{name}__", lambda self, other, name=name: self._of_two(name, other))


_install()
