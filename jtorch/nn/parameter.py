"""Parameters and buffers: tensors that a Module lists among its own, also before their shape is known.

Source: https://docs.pytorch.org/docs/stable/nn.html#parameters
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jtorch.core.dtypes import get_default_dtype
from jtorch.eager.public import Tensor, empty, hold_memory_of


class Parameter(Tensor):
    """A leaf tensor that becomes part of ``parameters()`` when it is assigned to a Module.

    ``data`` is a Tensor (whose memory it shares) or an array; it requires grad unless told otherwise.

    >>> import jtorch
    >>> module = jtorch.nn.Module()
    >>> module.scale = jtorch.nn.Parameter(jtorch.ones(2))
    >>> dict(module.named_parameters())["scale"].requires_grad
    True

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.parameter.Parameter.html
    """

    __slots__ = ()

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        return object.__new__(cls)

    def __init__(self, data: Any = None, requires_grad: bool = True) -> None:
        _share(self, data, "Parameter")
        if requires_grad:
            self.requires_grad_()

    def __deepcopy__(self, memo: dict) -> Parameter:
        """A parameter over a copy of the elements: as in PyTorch, without the gradient."""
        if id(self) not in memo:
            copied = type(self)(self.detach().clone(), self.requires_grad)
            memo[id(self)] = copied
        return memo[id(self)]

    def __repr__(self) -> str:
        return "Parameter containing:\n" + super().__repr__()


class Buffer(Tensor):
    """A tensor that becomes part of ``buffers()`` when it is assigned to a Module.

    Only ``persistent`` ones are in the module's state dict.

    >>> import jtorch
    >>> module = jtorch.nn.Module()
    >>> module.mean = jtorch.nn.Buffer(jtorch.zeros(2))
    >>> module.state_dict()["mean"], list(module.parameters())
    (tensor([0., 0.]), [])

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.parameter.Buffer.html
    """

    __slots__ = ("persistent",)

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        return object.__new__(cls)

    def __init__(self, data: Any = None, *, persistent: bool = True) -> None:
        _share(self, data, "Buffer")
        self.persistent = persistent
        if isinstance(data, Tensor) and data.requires_grad:
            self.requires_grad_()

    def __deepcopy__(self, memo: dict) -> Buffer:
        copy: Any = super()
        copy = copy.__deepcopy__(memo)
        copy.persistent = self.persistent
        return copy

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _rebuild_buffer, (np.array(self.detach().numpy()), self.persistent, self.requires_grad)


def _rebuild_buffer(array: np.ndarray, persistent: bool, requires_grad: bool) -> Buffer:
    buffer = Buffer(array, persistent=persistent)
    if requires_grad:
        buffer.requires_grad_()
    return buffer


def _share(made: Tensor, data: Any, name: str) -> None:
    """Fill a new tensor with the memory of ``data``."""
    if data is None:
        data = np.zeros(0, get_default_dtype().numpy)
    if isinstance(data, Tensor):
        hold_memory_of(made, data)
    elif hasattr(data, "dtype"):
        made.hold(data)
    else:
        raise TypeError(
            f"{name}() wraps a Tensor, got {type(data).__name__}; make one first: {name}(jtorch.tensor(...))"
        )


# -- without a shape yet -----------------------------------------------------------------------------------

_NO_SHAPE = (
    "Can't access the shape of an uninitialized parameter or buffer. This error usually happens in "
    "`load_state_dict` when trying to load an uninitialized parameter into an initialized one. Call "
    "`forward` to initialize the parameters before accessing their attributes."
)


def is_lazy(param: Any) -> bool:
    """Whether it is a parameter or buffer that has no shape yet."""
    return isinstance(param, UninitializedTensor)


class UninitializedTensor(Tensor):
    """What a lazy module holds until its first input tells the shape."""

    __slots__ = ()

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        return object.__new__(cls)

    def materialize(self, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Become an ordinary parameter or buffer of ``shape``, of unknown content."""
        sizes = (shape,) if isinstance(shape, int) else tuple(shape)
        self.data = empty(*sizes, device=device, dtype=dtype or self.dtype)
        self.__class__ = self._becomes()

    def _becomes(self) -> type:
        raise NotImplementedError

    @property
    def shape(self) -> Any:
        raise RuntimeError(_NO_SHAPE)

    def size(self, dim: int | None = None, *, axis: int | None = None) -> Any:
        raise RuntimeError(_NO_SHAPE)

    def share_memory_(self) -> Any:
        raise RuntimeError(
            "Can't share memory on an uninitialized parameter or buffer. Call `forward` to initialize the "
            "parameters before calling `module.share_memory()`."
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"


class UninitializedParameter(UninitializedTensor, Parameter):
    """A parameter whose shape the first input tells.

    >>> import jtorch
    >>> weight = jtorch.nn.UninitializedParameter()
    >>> weight.materialize((2, 3))
    >>> weight.shape, type(weight).__name__
    (torch.Size([2, 3]), 'Parameter')
    """

    __slots__ = ()

    def __init__(self, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> None:
        Parameter.__init__(self, empty(0, device=device, dtype=dtype), requires_grad)

    def _becomes(self) -> type:
        return Parameter

    def __reduce_ex__(self, protocol: Any) -> Any:
        return UninitializedParameter, (self.requires_grad, None, self.dtype)

    def __deepcopy__(self, memo: dict) -> UninitializedParameter:
        copy = memo[id(self)] = UninitializedParameter(self.requires_grad, None, self.dtype)
        return copy


class UninitializedBuffer(UninitializedTensor):
    """A buffer whose shape the first input tells.

    >>> import jtorch
    >>> mean = jtorch.nn.UninitializedBuffer()
    >>> mean.materialize((3,))
    >>> mean.shape
    torch.Size([3])
    """

    __slots__ = ()

    def __init__(self, requires_grad: bool = False, device: Any = None, dtype: Any = None) -> None:
        hold_memory_of(self, empty(0, device=device, dtype=dtype), requires_grad)

    def _becomes(self) -> type:
        return Tensor

    def __reduce_ex__(self, protocol: Any) -> Any:
        return UninitializedBuffer, (self.requires_grad, None, self.dtype)

    def __deepcopy__(self, memo: dict) -> UninitializedBuffer:
        copy = memo[id(self)] = UninitializedBuffer(self.requires_grad, None, self.dtype)
        return copy
