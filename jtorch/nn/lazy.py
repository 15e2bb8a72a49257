"""Modules that learn their input's size from their first input.

Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.modules.lazy.LazyModuleMixin.html
"""

from __future__ import annotations

import warnings
from typing import Any

from jtorch.core import op
from jtorch.eager.public import Tensor
from jtorch.nn.linear import Linear
from jtorch.nn.parameter import UninitializedParameter
from jtorch.nn.state import is_lazy


class LazyModuleMixin:
    """Goes before a Module among a class's bases. The class defines ``initialize_parameters(*args)``.

    That is called with the first call's arguments, after which the module becomes a ``cls_to_become``.
    """

    cls_to_become: type | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        module: Any = self
        self._load_hook = module._register_load_state_dict_pre_hook(_materialize_to_load, with_module=True)
        self._initialize_hook = module.register_forward_pre_hook(_infer, with_kwargs=True)
        warnings.warn(
            "Lazy modules are a new feature under heavy development so changes to the API or functionality "
            "can happen at any moment.",
            stacklevel=3,
        )

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Give the parameters their shapes, from the arguments of the first call."""
        raise NotImplementedError(f"initialize_parameters is not implemented for {type(self).__name__}")

    def has_uninitialized_params(self) -> bool:
        """Whether a parameter or buffer still waits for its shape."""
        module: Any = self
        return any(map(is_lazy, [*module._parameters.values(), *module._buffers.values()]))


def _infer(module: Any, args: tuple, kwargs: dict[str, Any]) -> None:
    if isinstance(module, LazyModuleMixin):  # else a recording has done it, of which the hooks were put back
        _become(module, args, kwargs)
    module._initialize_hook.remove()
    module._load_hook.remove()
    del module._initialize_hook, module._load_hook


def _become(module: Any, args: tuple, kwargs: dict[str, Any]) -> None:
    with op.CONTEXT.get().evaluator.outside():  # done once, also where a compiled function does it
        module.initialize_parameters(*args, **kwargs)
    if module.has_uninitialized_params():
        raise RuntimeError(f"module {module._get_name()} has not been fully initialized")
    if module.cls_to_become is not None:
        module.__class__ = module.cls_to_become


def _materialize_to_load(module: Any, state_dict: Any, prefix: str, *_: Any) -> None:
    for name, tensor in [*module._parameters.items(), *module._buffers.items()]:
        given = state_dict.get(prefix + name)
        if is_lazy(tensor) and given is not None and not is_lazy(given):
            tensor.materialize(given.shape)


class LazyLinear(LazyModuleMixin, Linear):
    """A Linear whose ``in_features`` is the length of its first input's last dim.

    >>> import jtorch
    >>> layer = jtorch.nn.LazyLinear(2)
    >>> layer(jtorch.zeros(5, 3)).shape, layer
    (torch.Size([5, 2]), Linear(in_features=3, out_features=2, bias=True))
    """

    cls_to_become = Linear

    def __init__(self, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None) -> None:
        super().__init__(0, 0, False)
        self.out_features = out_features
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        if self.in_features != 0 and not self.has_uninitialized_params():
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:
        if not self.has_uninitialized_params():
            if self.in_features == 0:
                self.in_features = self.weight.shape[-1]
            return
        self.in_features = input.shape[-1]
        weight: Any = self.weight
        bias: Any = self.bias
        weight.materialize((self.out_features, self.in_features))
        if bias is not None:
            bias.materialize((self.out_features,))
        self.reset_parameters()
