"""Traced arrays: what stands in a Tensor's place of memory while a function is recorded.

A ``Sym`` behaves like an array, aliasing included: it names a ``Storage`` and the chain of views
from it. Arithmetic on it, and on runtime scalars, records itself with the tracer.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jtorch.compile.graph.ir import Atom, Type
from jtorch.compile.observe.scalar import ARITHMETIC, Scalar, operand_of
from jtorch.compile.observe.stand_ins import is_array_stand_in
from jtorch.compile.record.inputs import ArrayInput, GradInput
from jtorch.compile.record.items import item_of
from jtorch.compile.record.numpy_arrays import beside
from jtorch.core.device_array import ARRAYS
from jtorch.core.dim import is_symbolic
from jtorch.core.errors import CompileError, user_source
from jtorch.core.op import BY_NAME
from jtorch.core.strides import contiguous_strides
from jtorch.eager.batching.values import Batched
from jtorch.eager.tensor import Tensor, wrap


class Storage:
    """Memory while tracing: the variable that holds its content now."""

    __slots__ = ("current", "grad", "lent", "picked", "source", "version")

    def __init__(self, current: Atom, source: ArrayInput | None = None) -> None:
        self.current = current
        self.version = 0
        self.source = source  # the outside array this memory is, if any
        self.grad: GradInput | None = None  # the gradient from outside that this memory is, if any
        self.lent = ""  # the disabled callee that gave it, and may hold it still
        self.picked: Any = None  # of which tensor it is a view in eager mode: see ``picks``


class Flags:
    """The part of ``ndarray.flags`` that Tensor asks for."""

    __slots__ = ("c_contiguous",)

    def __init__(self, c_contiguous: bool) -> None:
        self.c_contiguous = c_contiguous


def _is_contiguous(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """As NumPy and PyTorch have it: no strides matter of axes of one element, nor where there are none."""
    expected = zip(shape, strides, contiguous_strides(shape), strict=True)
    return all(n == 1 or s == e for n, s, e in expected) or 0 in shape


_FEW = 16  # elements that tolist() gives: each takes an equation or two, and a place among the results
_FEW_WAYS = 8  # of those elements that may each decide a branch
_ELEMENTS = (
    "needs the elements of a tensor, which are not known while a function is compiled. Compute with tensors "
    "instead (jtorch.where for a choice), return the tensor and ask for its elements outside, or leave this "
    "function uncompiled."
)
_PLACE = (
    "asks where a tensor lies in memory, which is another place at each call of a compiled function. Ask it "
    "outside and pass the answer in; whether two names are one tensor is asked by `is`."
)
_COPY = (
    "of a tensor is not recorded. Take x.clone() inside (x.detach().clone() for a copy without its graph), "
    "or copy it outside."
)
_REFUSED = {
    **dict.fromkeys(("data_ptr()", "storage_offset()", "untyped_storage()", "is_shared()"), _PLACE),
    **dict.fromkeys(("copy()", "deepcopy()", "pickle"), _COPY),
}


class Sym:
    """A traced array: a storage seen through a chain of views."""

    __slots__ = (
        "chain", "dtype", "element_strides", "in_order", "known", "offset", "shape", "storage", "tracer",
    )  # fmt: skip
    base = None  # what ndarrays say whose memory they share: here the storage does

    def __init__(
        self, tracer: Any, storage: Storage, type: Type, chain: tuple = (), strides: Any = None,
        offset: int = 0,
    ) -> None:  # fmt: skip
        self.tracer = tracer
        self.storage = storage
        self.chain = chain
        self.dtype = type.dtype
        self.shape = type.shape
        self.offset = offset  # in elements, from where the storage begins
        self.element_strides = contiguous_strides(type.shape) if strides is None else strides
        self.in_order = strides is None or tuple(strides) == contiguous_strides(type.shape)
        self.known: tuple[int, Atom] | None = None  # (storage version, variable) of the last read

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return Type(self.dtype, self.shape).size

    @property
    def strides(self) -> tuple[int, ...]:
        return tuple(s * self.dtype.itemsize for s in self.element_strides)

    @property
    def flags(self) -> Flags:
        return Flags(self.in_order or _is_contiguous(self.shape, self.element_strides))

    @property
    def leaked(self) -> bool:
        """Whether the recording that this value belongs to is over."""
        return not self.tracer.open

    @property
    def device(self) -> Any:
        """Where it would lie in eager mode."""
        return self.tracer.device_of(self)

    def shared(self) -> Any:
        """Itself, for a tensor over it: see ``NumpyArray``."""
        return self

    def lies_in(self, value: Any) -> bool:
        """Whether its memory is that of ``value``, which is a Sym or an array from outside."""
        if value.__class__ in ARRAYS:  # which may be recorded as a part of a larger one
            return self.storage.source is not None and self.tracer.lift(value).storage is self.storage
        return value.storage is self.storage

    def concrete(self, wanted_by: str) -> Any:
        self.tracer.check_open(self)
        if wanted_by == "item()":  # which is asked of what this gives
            return self
        if wanted_by == "tolist()" and self._has_few():
            return self
        if wanted_by == "bool()":  # of more than one element it is an error whatever they are
            return np.asarray(self.tracer.branches.decide(self)) if self.size == 1 else np.empty(self.shape)
        if wanted_by == "numpy()":
            self.tracer.only_now("asks for the array of a tensor")
            self.tracer.leave_turn("asks for the array of a tensor")
            return self.tracer.numpy_arrays.of(self)
        raise self.refuse_elements(wanted_by)

    def refuse_elements(self, wanted_by: str) -> CompileError:
        """What to raise where ``wanted_by`` takes nothing but elements."""
        self.tracer.check_open(self)
        return CompileError(f"{user_source()}: {wanted_by} {_REFUSED.get(wanted_by, _ELEMENTS)}")

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *operands: Any, **options: Any) -> Any:
        """A NumPy array on the left of an operator leaves it to us."""
        if method == "__call__" and ufunc in ARITHMETIC and not options:
            return ARITHMETIC[ufunc](self, *operands)
        raise self._not_numpys(ufunc.__name__)

    def __array_function__(self, function: Any, types: Any, operands: Any, options: Any) -> Any:
        raise self._not_numpys(function.__name__)

    def __array__(self, *args: Any, **options: Any) -> Any:
        raise self.tracer.runtime_numbers([]) or self._not_numpys("array")

    def _not_numpys(self, name: str) -> CompileError:
        return CompileError(
            f"{user_source()}: np.{name}() of a NumPy array that was computed with a number that may change "
            f"from call to call: use jtorch.{name}() if it is there, or take float() of the number first."
        )

    def item(self) -> Any:
        """The one element, as a number that a replay knows."""
        return item_of(self)

    def _has_few(self) -> bool:
        return not any(map(is_symbolic, self.shape)) and self.size <= _FEW

    def tolist(self) -> Any:
        """The elements as numbers that a replay knows, in nested lists: each is a result of its own."""
        return _elements(self, self.size <= _FEW_WAYS)

    def __bool__(self) -> bool:
        return self.concrete("bool()")

    def __float__(self) -> float:
        return self.concrete("float()")


def _elements(sym: Sym, decide: bool) -> Any:
    """Its elements as numbers, in nested lists; whether they ``decide`` branches."""
    if sym.shape:
        return [_elements(row._data, decide) for row in wrap(sym).unbind(0)] if sym.shape[0] else []
    item = item_of(sym)
    item.decides = decide
    return item


def _operator(name: str, symbol: str, reflected: bool = False) -> Any:
    op, method = BY_NAME[name], f"__r{symbol}__"

    def operator(self: Any, *other: Any) -> Any:
        if other and (isinstance(other[0], (Tensor, Batched)) or is_array_stand_in(other[0])):
            return NotImplemented  # which know what to do with a traced value
        if len(other) > 1:  # pow(k, 2, 5)
            return NotImplemented
        if other and isinstance(self, Scalar):
            if not reflected and self.answers(other[0], method):
                return NotImplemented
            if isinstance(other[0], (np.generic, np.ndarray)):
                return beside(self, name, other[0], reflected)
            other = (operand_of(self, other[0]),)
            if other[0] is NotImplemented:
                return NotImplemented
        return self.tracer.record(op, *((*other, self) if reflected else (self, *other)))

    return operator


_cls: Any
for _cls in (Sym, Scalar):
    for _symbol, _name in {
        "add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "floordiv": "floor_divide",
        "mod": "remainder", "pow": "pow",
    }.items():  # fmt: skip
        setattr(_cls, f"__{_symbol}__", _operator(_name, _symbol))
        setattr(_cls, f"__r{_symbol}__", _operator(_name, _symbol, reflected=True))
    _cls.__neg__ = _operator("neg", "neg")
