"""How a tensor of a module becomes a masked one: the base of ``prune``'s methods, and several in turn.

A pruned parameter ``weight`` is an attribute computed before each call from the parameter ``weight_orig``
and the buffer ``weight_mask``.
Source: https://docs.pytorch.org/docs/stable/nn.html#utilities
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

from jtorch.eager.public import Tensor, ones_like


class BasePruningMethod(ABC):
    """A way to choose what is pruned; also the forward pre-hook that applies the mask.

    Subclasses say ``PRUNING_TYPE``, one of "unstructured", "structured" (which needs an attribute ``dim``)
    and "global", and have ``compute_mask``.

    >>> import jtorch
    >>> from jtorch.nn.utils import prune
    >>> class Below(prune.BasePruningMethod):
    ...     PRUNING_TYPE = "unstructured"
    ...     def compute_mask(self, t, default_mask):
    ...         return default_mask * (t.abs() >= 1)
    >>> Below().prune(jtorch.tensor([0.5, -2.0]))
    tensor([ 0., -2.])

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.prune.BasePruningMethod.html
    """

    PRUNING_TYPE: str
    _tensor_name: Any = None

    def __call__(self, module: Any, inputs: Any) -> None:
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask for ``t``, of its shape, on top of ``default_mask``."""

    def apply_mask(self, module: Any) -> Tensor:
        """The original tensor times the mask."""
        assert self._tensor_name is not None, f"Module {module} has to be pruned"
        mask = getattr(module, f"{self._tensor_name}_mask")
        original = getattr(module, f"{self._tensor_name}_orig")
        return mask.to(dtype=original.dtype) * original

    @classmethod
    def apply(
        cls, module: Any, name: str, *args: Any, importance_scores: Tensor | None = None, **kwargs: Any
    ) -> BasePruningMethod:
        """Prune ``module.<name>`` with ``cls(*args, **kwargs)``, after what pruned it before.

        ``importance_scores``, of the tensor's shape, are judged in the tensor's place. Returns the hook.
        """
        method = _after_earlier(cls(*args, **kwargs), module, name)
        tensor = getattr(module, name)
        scores = _scores(tensor, importance_scores, f"parameter {name} of {module}")
        first = not isinstance(method, PruningContainer)
        if first:
            module.register_parameter(f"{name}_orig", tensor)
            del module._parameters[name]
        try:
            before = ones_like(tensor) if first else getattr(module, f"{name}_mask").detach().clone()
            module.register_buffer(f"{name}_mask", method.compute_mask(scores, default_mask=before))
            setattr(module, name, method.apply_mask(module))
            module.register_forward_pre_hook(method)
        except Exception:
            if first:  # as it was
                module.register_parameter(name, getattr(module, f"{name}_orig"))
                del module._parameters[f"{name}_orig"]
            raise
        return method

    def prune(
        self, t: Tensor, default_mask: Tensor | None = None, importance_scores: Tensor | None = None
    ) -> Tensor:
        """A pruned ``t``, which stays as it is."""
        scores = _scores(t, importance_scores, "tensor t")
        before = ones_like(t) if default_mask is None else default_mask
        return t * self.compute_mask(scores, default_mask=before)

    def remove(self, module: Any) -> None:
        """Make the tensor an ordinary parameter again, with zeros where it is pruned."""
        name = self._tensor_name
        assert name is not None, f"Module {module} has to be pruned before pruning can be removed"
        pruned = self.apply_mask(module)
        if hasattr(module, name):
            delattr(module, name)
        original = module._parameters[f"{name}_orig"]
        original.data = pruned.data
        del module._parameters[f"{name}_orig"]
        del module._buffers[f"{name}_mask"]
        setattr(module, name, original)


def hook_of(module: Any, name: str) -> tuple[int, BasePruningMethod] | None:
    """(key, hook) of what prunes ``module.<name>``, which is one hook at most."""
    found = [
        (key, hook)
        for key, hook in module._forward_pre_hooks.items()
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name
    ]
    assert len(found) <= 1, (
        f"Avoid adding multiple pruning hooks to the same tensor {name} of module {module}. "
        "Use a PruningContainer."
    )
    return found[0] if found else None


def _after_earlier(method: BasePruningMethod, module: Any, name: str) -> BasePruningMethod:
    """``method``, in a container behind what prunes the tensor so far, whose hook is taken away."""
    method._tensor_name = name
    found = hook_of(module, name)
    if found is None:
        return method
    key, earlier = found
    del module._forward_pre_hooks[key]
    container = earlier if isinstance(earlier, PruningContainer) else PruningContainer(earlier)
    container.add_pruning_method(method)
    return container


def _scores(tensor: Tensor, scores: Tensor | None, whose: str) -> Tensor:
    if scores is None:
        return tensor
    assert scores.shape == tensor.shape, (
        f"importance_scores should have the same shape as {whose}, got {scores.shape} vs {tensor.shape}"
    )
    return scores


class PruningContainer(BasePruningMethod):
    """Pruning methods in the order they were applied; each judges what those before it left.

    >>> import jtorch
    >>> from jtorch.nn.utils import prune
    >>> layer = jtorch.nn.Linear(4, 1)
    >>> for _ in range(2):
    ...     layer = prune.l1_unstructured(layer, "weight", amount=1)
    >>> len(next(iter(layer._forward_pre_hooks.values()))), int(layer.weight_mask.sum())
    (2, 2)

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.prune.PruningContainer.html
    """

    def __init__(self, *args: BasePruningMethod) -> None:
        self._pruning_methods: tuple[BasePruningMethod, ...] = ()
        if len(args) == 1:
            self._tensor_name = args[0]._tensor_name
        for method in args:
            self.add_pruning_method(method)

    def add_pruning_method(self, method: Any) -> None:
        """Append ``method``. Raises TypeError for other objects, ValueError for one of another tensor."""
        if not isinstance(method, BasePruningMethod):
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        if method._tensor_name != self._tensor_name:
            raise ValueError(
                f"Can only add pruning methods acting on the parameter named '{self._tensor_name}' to "
                f"PruningContainer {self}. Found '{method._tensor_name}'"
            )
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Iterator[BasePruningMethod]:
        return iter(self._pruning_methods)

    def __getitem__(self, idx: Any) -> Any:
        return self._pruning_methods[idx]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """``default_mask`` with the newest method's mask where ``default_mask`` prunes nothing."""
        method = self._pruning_methods[-1]
        part = _left(method, default_mask)
        mask = default_mask.clone().to(dtype=t.dtype)
        mask[part] = method.compute_mask(t[part], default_mask=default_mask[part]).to(dtype=t.dtype)
        return mask


def _left(method: Any, mask: Tensor) -> Any:
    """The index of what ``mask`` leaves for ``method``: entries, whole channels, or everything."""
    kind = method.PRUNING_TYPE
    if kind == "unstructured":
        return mask == 1
    if kind == "global":
        return (slice(None),) * mask.dim()
    if kind != "structured":
        raise ValueError(f"Unrecognized PRUNING_TYPE {kind}")
    if not hasattr(method, "dim"):
        raise AttributeError(
            'Pruning methods of PRUNING_TYPE "structured" need to have the attribute `dim` defined.'
        )
    dim = method.dim + mask.dim() if method.dim < 0 else method.dim
    if dim < 0:
        raise IndexError(f"Index is out of bounds for tensor with dimensions {mask.dim()}")
    others = [d for d in range(mask.dim()) if d != dim]
    index: list[Any] = [slice(None)] * mask.dim()
    index[dim] = mask.sum(dim=others) != 0
    return tuple(index)
