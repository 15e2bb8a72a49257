"""Tensor: an array with a place on the tape.

Operators and most methods are installed from the op table by ``eager/methods.py``; here is what a Tensor
*is*: its memory, its metadata, its gradient, and its ways out to Python and NumPy.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from jtorch.core import dtypes as dt, higher, op as op_module, watch
from jtorch.core.device_array import DeviceArray
from jtorch.core.devices import CPU, device
from jtorch.eager.begun import BEGUN, note
from jtorch.eager.hooks import OnOutput, RetainGrad
from jtorch.eager.messages import long_name
from jtorch.ops import axes as ax

if TYPE_CHECKING:  # what methods.py installs, written by tools/stubs.py
    from jtorch.eager.declared import TensorMethods
else:
    TensorMethods = object


_entry = tuple.__getitem__


class Size(tuple):
    """The shape of a tensor: a tuple with ``numel()``."""

    __slots__ = ()

    def numel(self) -> int:
        n = 1
        for k in self:
            n *= k
        return n

    # parts and sums are shapes, too: ``x.new(x.size()[:1] + (3,))`` makes a tensor of that shape

    def __getitem__(self, key: Any) -> Any:
        found = _entry(self, key)
        return Size(found) if key.__class__ is slice else found

    def __add__(self, other: Any) -> Any:
        return Size(tuple.__add__(self, other)) if isinstance(other, tuple) else NotImplemented

    def __radd__(self, other: Any) -> Any:
        return Size(tuple.__add__(other, self)) if isinstance(other, tuple) else NotImplemented

    def __mul__(self, times: Any) -> Any:
        return Size(tuple.__mul__(self, times))

    __rmul__ = __mul__

    def __repr__(self) -> str:
        return f"torch.Size({list(self)})"


class Tensor(TensorMethods, metaclass=watch.TellingClass):
    """A multi-dimensional array that records the ops applied to it.

    >>> import jtorch
    >>> x = jtorch.tensor([1.0, 2.0], requires_grad=True)
    >>> y = (x * x).sum()
    >>> y.backward()
    >>> x.grad
    tensor([2., 4.])

    Source: https://docs.pytorch.org/docs/stable/tensors.html
    """

    __slots__ = (
        "__dict__",  # what users hang on it: 13 ns of 231 a tensor on Python 3.11, 27 of 295 on 3.12
        "__weakref__",
        "_base",  # the tensor this one is a view of
        "_cell",  # [version, weak references to views...], shared by all views: see views.py
        "_data",  # the raw value: a NumPy array, or a traced one while compiling
        "_grad",  # a Tensor, a LazyGrad or None
        "_hooks",  # dict of gradient hooks
        "_how",  # of a view: see ``rebase.steps_of``; None if made under no_grad
        "_index",  # which output of _node
        "_node",  # what made it; None for a leaf
        "_requires_grad",
    )

    if TYPE_CHECKING:  # set on views alone, see the slot
        _how: Any

    def __new__(cls, *args: Any, device: Any = None) -> Any:
        """``Tensor(2, 3)``, ``Tensor([1.0, 2.0])``: see ``construction.py``. Over a raw value: ``wrap``."""
        from jtorch.eager.construction import constructed, of_class

        made = constructed(args, None, device)
        return made if cls is Tensor else of_class(made, cls)

    _unasked: ClassVar[str] = ""  # what the class has that no op would ask: that costs all others too much

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name in ("__torch_function__", "__torch_dispatch__"):
            if name in vars(cls):
                cls._unasked = f"class {cls.__name__}: {name}"

    def hold(self, data: Any, requires_grad: bool = False) -> None:
        """Begin as a leaf over a raw value: what makes a tensor of bare memory, see ``wrap``."""
        if self._unasked:
            raise NotImplementedError(
                f"{self._unasked} of a subclass of Tensor would never be called, as ops take its instances "
                "for tensors and give plain ones. Hold the tensor in an object of a class that is no Tensor: "
                "__torch_function__ of that is asked."
            )
        self._data = data
        self._requires_grad = requires_grad
        self._node: Any = None
        self._index = 0
        self._grad: Any = None
        self._hooks: dict[int, Callable] | None = None
        self._base: Any = None
        self._cell: list[Any] = [0]
        if BEGUN:
            note(self)

    # -- metadata --------------------------------------------------------------------------------------

    @property
    def shape(self) -> Size:
        """The length of each dim."""
        return Size(self._data.shape)

    def size(self, dim: int | None = None, *, axis: int | None = None) -> Any:
        """The shape, or the length of one dim. Raises IndexError for a dim that is not there."""
        shape = self._data.shape
        if dim is None:
            if axis is None:
                return Size(shape)
            dim = axis
        return shape[ax.one(dim, len(shape))]

    @property
    def ndim(self) -> int:
        """How many dims there are."""
        return self._data.ndim

    def dim(self) -> int:
        """How many dims there are."""
        return self._data.ndim

    def numel(self) -> int:
        """How many elements there are."""
        return self._data.size

    nelement = numel

    @property
    def dtype(self) -> dt.dtype:
        """The type of its elements."""
        return dt.OF_NUMPY[self._data.dtype]

    def is_floating_point(self) -> bool:
        """Whether the elements are floats."""
        return self._data.dtype.kind in "fV"

    def is_complex(self) -> bool:
        """Whether the elements are complex numbers."""
        return self._data.dtype.kind == "c"

    def element_size(self) -> int:
        """Bytes per element."""
        return self._data.dtype.itemsize

    @property
    def device(self) -> device:
        """Where its elements lie."""
        data = self._data
        return CPU if isinstance(data, np.ndarray) else getattr(data, "device", CPU)

    @property
    def is_cuda(self) -> bool:
        """Whether they lie on a CUDA device."""
        return self.device.type == "cuda"

    def stride(self, dim: int | None = None, *, axis: int | None = None) -> Any:
        """Steps in elements, per dim; without elements those of a row-by-row tensor, or of how it was cut."""
        data = self._data
        if data.size:
            strides = tuple(s // data.dtype.itemsize for s in data.strides)
        else:
            lengths = [max(n, 1) for n in data.shape]
            strides = tuple(math.prod(lengths[k + 1 :]) for k in range(len(lengths)))
            if self._base is not None:
                from jtorch.eager.empty_views import layout

                strides = (layout(self) or (0, strides))[1]
        dim = axis if dim is None else dim
        return strides if dim is None else strides[dim]

    def is_contiguous(self, memory_format: Any = None) -> bool:
        """Whether the elements lie one after the other, row by row unless told otherwise."""
        if memory_format is not None:
            from jtorch.eager.inspection import lies_in

            return lies_in(self, memory_format)
        return bool(self._data.flags.c_contiguous)

    def data_ptr(self) -> int:
        """The address of the first element."""
        if self._data.__class__ is DeviceArray:
            return self._data.address
        return _concrete(self, "data_ptr()").__array_interface__["data"][0]

    @property
    def _version(self) -> int:
        return int(self._cell[0])

    # -- autograd --------------------------------------------------------------------------------------

    @property
    def requires_grad(self) -> bool:
        """Whether ops on it are recorded for ``backward()``."""
        return self._requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self.requires_grad_(value)

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Start or stop recording ops on this leaf. Raises RuntimeError for a non-leaf or an integer."""
        if self._node is not None and not requires_grad:
            raise RuntimeError(
                "you can only change requires_grad flags of leaf variables. If you want to use a computed "
                "variable in a subgraph that doesn't require differentiation use var_no_grad = "
                "var.detach()."
            )
        if requires_grad and self._data.dtype.kind not in "fcV":
            raise RuntimeError("only Tensors of floating point dtype can require gradients")
        if requires_grad and self._data.dtype.kind == "c":
            from jtorch.eager.unusual import expect_complex

            expect_complex()
        noting = watch.journal.get()
        if noting is not None and is_held_outside(self):
            put = partial(setattr, self, "_requires_grad")
            noting.note(self, self, "requires_grad", lambda: self._requires_grad, put)
        if self._requires_grad != bool(requires_grad):
            told = _teller(self)
            self._requires_grad = bool(requires_grad)
            if requires_grad and len(self._cell) > 1:
                from jtorch.eager.rebase import note_all_for_writes

                note_all_for_writes(self)
            told()
        return self

    @property
    def is_leaf(self) -> bool:
        """Whether it is not the result of a recorded op."""
        return self._node is None

    @property
    def grad_fn(self) -> Any:
        """What ``backward()`` goes on with: the node that made it; None for a leaf."""
        return None if self._node is None else self._node.usable()

    @property
    def grad(self) -> Tensor | None:
        """The gradient accumulated by ``backward()``, of this tensor's shape and dtype."""
        return op_module.CONTEXT.get().evaluator.get_grad(self)

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is not None:
            if not (isinstance(value, Tensor) or getattr(value, "is_sparse", False)):
                raise TypeError(
                    f"assigned grad expected to be a Tensor or None but got grad of type "
                    f"{type(value).__name__}"
                )
            if value is self:
                raise RuntimeError("can't assign Variable as its own grad")
            _check_fits(self, value)
        op_module.CONTEXT.get().evaluator.set_grad(self, value)

    @grad.deleter
    def grad(self) -> None:
        op_module.CONTEXT.get().evaluator.set_grad(self, None)

    def backward(
        self,
        gradient: Tensor | None = None,
        retain_graph: bool | None = None,
        create_graph: bool = False,
        inputs: Any = None,
    ) -> None:
        """Add d(self)/d(leaf) to the ``grad`` of every leaf that ``self`` was computed from.

        ``gradient`` has the shape of ``self`` and may be left out for a scalar. ``inputs`` limits the
        leaves. Raises RuntimeError for a second pass over a freed graph.
        Source: https://docs.pytorch.org/docs/stable/generated/torch.Tensor.backward.html
        """
        from jtorch.eager import differentiation

        differentiation.backward([self], [gradient], retain_graph, create_graph, inputs)

    def detach(self) -> Tensor:
        """The same memory, off the tape."""
        out = wrap(self._data)
        out._cell = self._cell
        return out

    def detach_(self) -> Tensor:
        """Take this very tensor off the tape. Raises RuntimeError for a view."""
        if self._base is not None:
            raise RuntimeError("Can't detach views in-place. Use detach() instead.")
        told = _teller(self)
        if is_held_outside(self):
            _note_place(self, watch.DETACHED)
        if self._node is not None and self._node.extras is not None:
            self._hooks = self._node.extras.hooks_of_leaf(self)
        self._node, self._requires_grad, self._index = None, False, 0
        if op_module.CONTEXT.get().level is not None:
            self.__dict__.pop("_tangent", None)
        told()
        return self

    @property
    def data(self) -> Tensor:
        """The same memory off the tape, without a shared version."""
        return wrap(self._data)

    @data.setter
    def data(self, value: Tensor) -> None:
        if not isinstance(value, Tensor):
            raise TypeError(f"Variable data has to be a tensor, but got {type(value).__name__}")
        if self._requires_grad and value._data.dtype.kind not in "fcV":
            raise RuntimeError(
                "data set to a tensor that requires gradients must be floating point or complex dtype"
            )
        op_module.CONTEXT.get().evaluator.rebinding(self, value)
        set_memory(self, value._data)

    @property
    def output_nr(self) -> int:
        """Which output of ``grad_fn`` this is; 0 for a leaf."""
        return self._index

    def retain_grad(self) -> None:
        """Keep the gradient of a non-leaf in ``grad``, too, as it is after all hooks on this tensor."""
        if not self._requires_grad:
            raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
        if self._node is not None and not self.retains_grad:
            self._node.register_prehook(RetainGrad(self))

    @property
    def retains_grad(self) -> bool:
        """Whether ``retain_grad()`` was called on this non-leaf."""
        return self._node is not None and self._node.retaining(self) is not None

    def register_hook(self, hook: Callable[[Tensor], Tensor | None]) -> Any:
        """Call ``hook(grad)`` when this tensor's gradient is computed; what it returns replaces it."""
        from jtorch.eager.hooks import add_hook

        if not self._requires_grad:
            raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
        if self._node is not None:
            if self._base is not None:
                from jtorch.eager.rebase import note_for_writes

                note_for_writes(self)
            return self._node.register_tensor_hook(OnOutput(hook, self._index))
        self._hooks, handle = add_hook(self._hooks, hook, _hooks_teller(self))
        return handle

    def register_post_accumulate_grad_hook(self, hook: Callable[[Tensor], None]) -> Any:
        """Call ``hook(self)`` after ``backward()`` added to this leaf's ``grad``."""
        from jtorch.eager.hooks import PostAccumulate, add_hook

        if not self._requires_grad:
            raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
        if self._node is not None:
            raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors")
        self._hooks, handle = add_hook(self._hooks, PostAccumulate(hook), _hooks_teller(self))
        return handle

    # -- out to Python and NumPy -------------------------------------------------------------------------

    # an array on the left must not swallow the tensor element by element and lose its tape: see exchange.py
    __array_priority__ = 1000

    def item(self) -> bool | int | float:
        """The one element as a Python number. Raises RuntimeError where there are more."""
        array = _concrete(self, "item()")
        if array.size != 1:
            raise RuntimeError(f"a Tensor with {array.size} elements cannot be converted to Scalar")
        return array.item()

    def tolist(self) -> Any:
        """The elements as Python numbers, in nested lists."""
        return _concrete(self, "tolist()").tolist()

    def __bool__(self) -> bool:
        array = _concrete(self, "bool()")
        if array.size != 1:
            raise RuntimeError(
                "Boolean value of Tensor with no values is ambiguous"
                if array.size == 0
                else "Boolean value of Tensor with more than one value is ambiguous"
            )
        return bool(array.item())

    def __float__(self) -> float:
        if self._data.shape:
            _check_single(self)
        return float(self.item())

    def __int__(self) -> int:
        if self._data.shape:
            _check_single(self)
        return int(self.item())

    def __index__(self) -> int:
        if self._data.dtype.kind not in "iub" or self._data.size != 1:
            raise TypeError("only integer tensors of a single element can be converted to an index")
        if self._data.shape:
            _check_single(self)
        return int(self.item())

    def __len__(self) -> int:
        if not self._data.ndim:
            raise TypeError("len() of a 0-d tensor")
        return self._data.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        if not self._data.ndim:
            raise TypeError("iteration over a 0-d tensor")
        return iter(self.unbind(0))

    def __reversed__(self) -> Tensor:
        """The elements along the first dim from the last to the first."""
        return self.flip(0) if self._data.ndim else self

    def __complex__(self) -> complex:
        return complex(self.item())

    def __contains__(self, element: Any) -> bool:
        changes = hasattr(element, "as_runtime_scalar")
        if not changes and not isinstance(element, (Tensor, bool, int, float, complex)):
            raise RuntimeError(
                f"Tensor.__contains__ only supports Tensor or scalar, but you passed in a {type(element)}."
            )
        return bool((self == element).any())

    __hash__ = object.__hash__  # by identity, in C: the engine looks leaves up

    def __repr__(self) -> str:
        from jtorch.eager.printing import tensor_text

        return tensor_text(self)

    def _repr_html_(self) -> str | None:
        """What a notebook shows; None where this is all of jtorch that is loaded."""
        html = higher.tensor_html
        return None if html is None else html()(self)

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if self._data.ndim == 0 else object.__format__(self, spec)


def _check_fits(tensor: Tensor, grad: Any) -> None:
    """Raise RuntimeError for what cannot be the gradient of ``tensor``: a Tensor, or a sparse one."""
    if getattr(grad, "is_sparse_csr", False):
        raise RuntimeError("attempting to assign a gradient to a tensor that has data of a different type")
    sparse = not isinstance(grad, Tensor)
    shape, dtype = (grad.shape, grad.dtype.numpy) if sparse else (grad._data.shape, grad._data.dtype)
    if tuple(shape) != tuple(tensor._data.shape):
        raise RuntimeError(
            f"attempting to assign a gradient of size '{list(shape)}' to a tensor of size "
            f"'{list(tensor._data.shape)}'. Please ensure that the gradient and the tensor are the same size"
        )
    if dtype != tensor._data.dtype:  # an unpickled dtype is equal, not the same
        mine, its = long_name(tensor._data.dtype), long_name(dtype).lower()
        raise RuntimeError(
            f"attempting to assign a gradient with dtype '{its}' to a tensor with grad_dtype "
            f"'{mine}'. The gradient must match the tensor's dtype."
        )


def _check_single(tensor: Tensor) -> None:
    """Raise PyTorch's error of ``float()`` and ``int()``, which is not that of ``item()``."""
    if math.prod(tensor._data.shape) != 1:
        raise ValueError("only one element tensors can be converted to Python scalars")


def _concrete(tensor: Tensor, wanted_by: str) -> np.ndarray:
    data = tensor._data
    if data.__class__ is np.ndarray or data.__class__ is DeviceArray:
        return op_module.CONTEXT.get().evaluator.concrete(data, wanted_by)
    return data.concrete(wanted_by)


def _teller(tensor: Tensor, by_write: bool = False) -> Callable[[], None]:
    """What tells, once it is done, of a change to what plans rely on of a tensor. It is as it was where its
    memory, its ``requires_grad`` and its hooks all are: each may change while another is put aside.

    ``by_write``: an op wrote to it. Many do so to an alias that is gone at once (``t.data.add_(y)``): nothing
    is left then. And who asks what else than elements some code changes is not told."""
    array = tensor._data
    if not watch.is_relied_on(array):
        return _nobody
    reference, before = weakref.ref(tensor), _facts_of(tensor)

    def as_before() -> bool:
        now = reference()
        return by_write if now is None else now._data is array and _facts_of(now) == before

    return partial(watch.tell, array, ("tensor", id(tensor)), holds=as_before, by_write=by_write)


def set_memory(tensor: Tensor, data: Any) -> None:
    """Give ``tensor`` other memory, and tell plans that rely on what it had."""
    told = _teller(tensor)
    tensor._data = data
    told()


def _nobody() -> None:
    """Nobody relies on it."""


def _facts_of(tensor: Tensor) -> tuple[bool, bool, dict[int, Any]]:
    return tensor._requires_grad, tensor._node is None, dict(tensor._hooks or {})


def rehang(
    tensor: Tensor, node: Any, index: int, requires_grad: bool = True, by: str = watch.WRITTEN
) -> None:
    """Another place on the tape for a tensor that may be anybody's: plans that rely on it hear of it, and a
    recording takes it back. (What is recorded is nobody's yet.)"""
    told = _nobody
    if is_held_outside(tensor) and watch.is_relied_on(tensor._data):
        _note_place(tensor, by)
        told = _teller(tensor, by_write=True) if tensor._node is None else _graph_teller(tensor)
    put_on_tape(tensor, (node, index, requires_grad))
    told()


def put_on_tape(tensor: Tensor, place: tuple[Any, int, bool]) -> None:
    """Move ``tensor`` to the output ``index`` of a node: (node, index, whether it requires grad). What
    ``retain_grad`` asked for is of the tensor as it is, so that goes with it; other hooks stay."""
    node = tensor._node
    retaining = node is not None and node.extras is not None and node.give_up_retaining(tensor)
    tensor._node, tensor._index, tensor._requires_grad = place
    if retaining and tensor._requires_grad:
        tensor.retain_grad()


def _note_place(tensor: Tensor, key: str) -> None:
    """Have a recording put ``tensor`` back where it is now on the tape."""
    noting = watch.journal.get()
    if noting is not None:
        noting.note(tensor, tensor, key, partial(_place_of, tensor), partial(put_on_tape, tensor))


def _place_of(tensor: Tensor) -> tuple[Any, int, bool]:
    return tensor._node, tensor._index, tensor._requires_grad


def _graph_teller(tensor: Tensor) -> Callable[[], None]:
    """The same for a tensor that has a graph and is about to get another one."""
    reference, node, index = weakref.ref(tensor), weakref.ref(tensor._node), tensor._index

    def as_before() -> bool:
        now = reference()
        return now is None or (now._node is node() and now._index == index)

    return partial(watch.tell, tensor._data, ("graph", id(tensor)), holds=as_before, by_write=True)


def _hooks_teller(tensor: Tensor) -> Callable[[], None]:
    """What tells that a hook of a tensor came or went."""
    reference = weakref.ref(tensor)

    def tell() -> None:
        if (now := reference()) is not None:
            watch.tell(now._data, "hooks")

    return tell


def wrap(value: Any, edge: Any = None) -> Tensor:
    """A Tensor over a raw value, hung on the tape at ``edge``. In one call: what a compiled step pays."""
    tensor = object.__new__(Tensor)
    tensor._data = value
    tensor._requires_grad = False
    tensor._node = tensor._grad = tensor._hooks = tensor._base = None
    tensor._index = 0
    tensor._cell = [0]
    if edge is not None:
        tensor._node, tensor._index = edge
        tensor._requires_grad = True
    if BEGUN:
        note(tensor)
    return tensor


def hold_memory_of(made: Tensor, tensor: Tensor, requires_grad: bool = False) -> None:
    """Begin ``made``, of which nothing is set, as a leaf over the memory of ``tensor``: both count writes."""
    made.hold(tensor._data, requires_grad)
    made._cell = tensor._cell


def has_elements(tensor: Tensor) -> bool:
    """Whether there are numbers behind it: False for one that is only recorded."""
    return isinstance(tensor._data, (np.ndarray, DeviceArray))


def is_held_outside(tensor: Tensor) -> bool:
    """Whether others than a recording may hold it: it has elements, or is an argument."""
    return has_elements(tensor) or op_module.CONTEXT.get().evaluator.is_argument(tensor)


def reads_elements() -> bool:
    """Whether elements may be looked at now: not while a program is recorded, which also serves others."""
    return op_module.CONTEXT.get().evaluator.reads_elements


def twin_of(tensor: Tensor, requires_grad: bool) -> Tensor:
    """A leaf over the memory of ``tensor``, with its version: while a graph is recorded one that it made."""
    twin = leaf(op_module.CONTEXT.get().evaluator.as_value(tensor._data), requires_grad)
    twin._cell = tensor._cell
    return twin


def leaf(value: Any, requires_grad: bool = True) -> Tensor:
    """A leaf over a raw value."""
    tensor = wrap(value)
    tensor._requires_grad = requires_grad
    return tensor
