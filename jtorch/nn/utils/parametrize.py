"""Parameters computed from others: a weight kept orthogonal, symmetric, of a given norm...

A parametrized tensor is a property of the module's class; what it is computed from hangs at
``module.parametrizations.<name>.original`` and is what optimizers see.
Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.parametrize.register_parametrization.html
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from jtorch.core import watch
from jtorch.eager.public import Tensor, no_grad
from jtorch.nn.container import ModuleDict, ModuleList
from jtorch.nn.module import Module
from jtorch.nn.parameter import Parameter


class _Cache:
    """What parametrized tensors are within ``cached()`` blocks, ``depth`` of which are in force."""

    def __init__(self) -> None:
        self.depth = 0
        self.values: dict[tuple[int, str], Tensor] = {}

    def nest(self, change: int) -> None:
        before = self.depth
        self.depth += change
        if not self.depth:
            self.values.clear()
        watch.tell_all("parametrize.cached()", lambda: self.depth == before)


CACHE = _Cache()  # of all threads. Compiled functions run eagerly while it is in use.


@contextmanager
def cached() -> Iterator[None]:
    """Within this block each parametrized tensor is computed once.

    >>> import jtorch
    >>> layer = jtorch.nn.utils.parametrizations.weight_norm(jtorch.nn.Linear(3, 2))
    >>> with jtorch.nn.utils.parametrize.cached():
    ...     print(layer.weight is layer.weight)
    True
    """
    CACHE.nest(+1)
    try:
        yield
    finally:
        CACHE.nest(-1)


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor in the order they apply, and the original tensor or tensors.

    >>> import jtorch
    >>> layer = jtorch.nn.utils.parametrizations.weight_norm(jtorch.nn.Linear(3, 2))
    >>> layer.parametrizations.weight.original0.shape, layer.parametrizations.weight.original1.shape
    (torch.Size([2, 1]), torch.Size([2, 3]))
    """

    def __init__(self, modules: Sequence[Module], original: Tensor, unsafe: bool = False) -> None:
        if not modules:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        new = original
        with no_grad():
            for module in reversed(list(self)):
                if hasattr(module, "right_inverse"):
                    new = module.right_inverse(new)
        self.is_tensor = isinstance(new, Tensor)
        self.ntensors = 1 if self.is_tensor else len(new)
        if self.is_tensor:
            _register(self, "original", _like(original, new))
        else:
            for k, part in enumerate(new):
                _register(self, f"original{k}", _like(original, part))
        if not unsafe:
            self._check(original)

    def _check(self, original: Tensor) -> None:
        made = self()
        if not isinstance(made, Tensor):
            raise ValueError(f"A parametrization must return a tensor. Got {type(made).__name__}.")
        for fact in ("dtype", "shape"):
            mine, wanted = getattr(made, fact), getattr(original, fact)
            if mine != wanted:
                raise ValueError(
                    f"Registering a parametrization may not change the {fact} of the tensor, unless `unsafe` "
                    f"flag is enabled.\nunparametrized {fact}: {wanted}\nparametrized {fact}: {mine}"
                )

    def right_inverse(self, value: Tensor) -> None:
        """Make ``value`` what the parametrized tensor is, by changing the original.

        Raises RuntimeError where a parametrization has no ``right_inverse``.
        """
        with no_grad():
            new: Any = value
            for module in reversed(list(self)):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(
                        f"parametrization {type(module).__name__} does not implement right_inverse."
                    )
                new = module.right_inverse(new)
            parts = [new] if self.is_tensor else list(new)
            for original, part in zip(self.originals(), parts, strict=True):
                original.data = part.detach().clone()

    def originals(self) -> list[Any]:
        names = ["original"] if self.is_tensor else [f"original{k}" for k in range(self.ntensors)]
        return [getattr(self, name) for name in names]

    def forward(self) -> Any:
        if not len(self):
            return self.original
        first, *rest = list(self)
        value = first(*self.originals())
        for module in rest:
            value = module(value)
        return value


def _like(original: Tensor, value: Tensor) -> Tensor:
    """``value`` as a parameter where the original is one."""
    value = value.detach()
    return Parameter(value, original.requires_grad) if isinstance(original, Parameter) else value


def _register(module: Module, name: str, value: Tensor) -> None:
    if isinstance(value, Parameter):
        module.register_parameter(name, value)
    else:
        module.register_buffer(name, value)


def _own_class(module: Module) -> None:
    """Give ``module`` a class of its own, which can hold properties."""
    base = type(module)

    def default_deepcopy(self: Any, memo: dict) -> Any:
        made = memo[id(self)] = self.__new__(self.__class__)
        made.__dict__ = copy.deepcopy(self.__dict__, memo)
        return made

    def getstate(self: Any) -> Any:
        raise RuntimeError(
            "Serialization of parametrized modules is only supported through state_dict(). See:\n"
            "https://pytorch.org/tutorials/beginner/saving_loading_models.html"
            "#saving-loading-a-general-checkpoint-for-inference-and-or-resuming-training"
        )

    facts: dict[str, Any] = {"__getstate__": getstate, "parametrize_base_": base}
    if not hasattr(base, "__deepcopy__"):
        facts["__deepcopy__"] = default_deepcopy
    module.__class__ = type(f"Parametrized{base.__name__}", (base,), facts)


def _install(module: Any, name: str) -> None:
    def getter(self: Any) -> Any:
        if not CACHE.depth:
            return self.parametrizations[name]()
        key = (id(self), name)
        if key not in CACHE.values:
            CACHE.values[key] = self.parametrizations[name]()
        return CACHE.values[key]

    def setter(self: Any, value: Tensor) -> None:
        self.parametrizations[name].right_inverse(value)

    setattr(type(module), name, property(getter, setter))


def register_parametrization(
    module: Any, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Make ``module.<tensor_name>`` the result of ``parametrization`` of what it is now.

    The first one chooses the original by its ``right_inverse``, if it has one, so that the value stays.
    Several apply one after the other. Raises ValueError for a name that is neither parameter nor buffer, and,
    unless ``unsafe``, where shape or dtype would change.

    >>> import jtorch
    >>> class Symmetric(jtorch.nn.Module):
    ...     def forward(self, x):
    ...         return x.triu() + x.triu(1).T
    >>> layer = jtorch.nn.Linear(3, 3)
    >>> layer = jtorch.nn.utils.parametrize.register_parametrization(layer, "weight", Symmetric())
    >>> bool((layer.weight == layer.weight.T).all())
    True
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        listed = module.parametrizations[tensor_name]
        listed.append(parametrization)
        if not unsafe:
            listed._check(listed[0](*listed.originals()))
        return module
    if tensor_name not in module._parameters and tensor_name not in module._buffers:
        raise ValueError(
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized element with name "
            f"'{tensor_name}'"
        )
    original = getattr(module, tensor_name)
    listed = ParametrizationList([parametrization], original, unsafe)
    delattr(module, tensor_name)
    if not is_parametrized(module):
        _own_class(module)
        module.parametrizations = ModuleDict()
    _install(module, tensor_name)
    module.parametrizations[tensor_name] = listed
    return module


def is_parametrized(module: Any, tensor_name: str | None = None) -> bool:
    """Whether ``module``, or its tensor of that name, is parametrized.

    >>> import jtorch
    >>> layer = jtorch.nn.utils.parametrizations.weight_norm(jtorch.nn.Linear(3, 2))
    >>> [jtorch.nn.utils.parametrize.is_parametrized(layer, name) for name in ("weight", "bias")]
    [True, False]
    """
    parametrizations = module._modules.get("parametrizations")
    if parametrizations is None or not isinstance(parametrizations, ModuleDict):
        return False
    return len(parametrizations) > 0 if tensor_name is None else tensor_name in parametrizations


def remove_parametrizations(module: Any, tensor_name: str, leave_parametrized: bool = True) -> Module:
    """Make the tensor an ordinary one again: its value now, or the original unless ``leave_parametrized``.

    Raises ValueError where it is not parametrized, or the original is several tensors.

    >>> import jtorch
    >>> layer = jtorch.nn.utils.parametrizations.weight_norm(jtorch.nn.Linear(3, 2))
    >>> jtorch.nn.utils.parametrize.remove_parametrizations(layer, "weight")
    Linear(in_features=3, out_features=2, bias=True)
    >>> type(layer.weight).__name__
    'Parameter'
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    listed = module.parametrizations[tensor_name]
    if not leave_parametrized and not listed.is_tensor:
        raise ValueError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is parametrized in terms "
            "of a sequence of tensors."
        )
    original = listed.originals()[0]
    value = getattr(module, tensor_name).detach() if leave_parametrized else original
    if listed.is_tensor and leave_parametrized and original.shape == value.shape:
        with no_grad():
            original.data = value.clone()  # the same object, which optimizers know
        value = original
    elif leave_parametrized:
        value = _like(original, value.clone())
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    _register(module, tensor_name, value)
    if not len(module.parametrizations):
        del module.parametrizations
        module.__class__ = type(module).parametrize_base_
    return module


def type_before_parametrizations(module: Any) -> type:
    """The class of ``module`` before it was parametrized.

    >>> import jtorch
    >>> layer = jtorch.nn.utils.parametrizations.weight_norm(jtorch.nn.Linear(3, 2))
    >>> jtorch.nn.utils.parametrize.type_before_parametrizations(layer).__name__
    'Linear'
    """
    return type(module).parametrize_base_ if is_parametrized(module) else type(module)
