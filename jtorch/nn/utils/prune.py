"""Pruning: parameters with some entries, or whole channels, held at zero by a mask.

Source: https://docs.pytorch.org/docs/stable/nn.html#utilities
"""

from __future__ import annotations

import numbers
from collections.abc import Iterable
from typing import Any

from jtorch.eager.public import Tensor, functions, ones_like, rand, rand_like, zeros_like
from jtorch.nn.module import Module
from jtorch.nn.utils.convert_parameters import parameters_to_vector
from jtorch.nn.utils.pruning import BasePruningMethod, PruningContainer, hook_of

__all__ = [
    "BasePruningMethod", "CustomFromMask", "Identity", "L1Unstructured", "LnStructured", "PruningContainer",
    "RandomStructured", "RandomUnstructured", "custom_from_mask", "global_unstructured", "identity",
    "is_pruned", "l1_unstructured", "ln_structured", "random_structured", "random_unstructured", "remove",
]  # fmt: skip


def _check_amount(amount: Any) -> None:
    if not isinstance(amount, numbers.Real):
        raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
    if not 0 <= float(amount) <= (float("inf") if isinstance(amount, numbers.Integral) else 1):
        raise ValueError(
            f"amount={amount} should either be a float in the range [0, 1] or a non-negative integer"
        )


def _count(amount: Any, size: int) -> int:
    """``amount`` of ``size`` things: a number of them, or a fraction."""
    if not isinstance(amount, numbers.Integral):
        return round(amount * size)
    if int(amount) > size:
        raise ValueError(f"amount={amount} should be smaller than the number of parameters to prune={size}")
    return int(amount)


class Identity(BasePruningMethod):
    """Prunes nothing: only makes the mask and the names.

    >>> import jtorch
    >>> from jtorch.nn.utils import prune
    >>> prune.Identity().prune(jtorch.tensor([5.0, 6.0]))
    tensor([5., 6.])
    """

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return default_mask


class _Unstructured(BasePruningMethod):
    """Prunes ``amount`` entries, or that fraction of them where it is a float."""

    PRUNING_TYPE = "unstructured"

    def __init__(self, amount: float) -> None:
        _check_amount(amount)
        self.amount = amount

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        count = _count(self.amount, t.nelement())
        mask = default_mask.clone()
        if count:
            mask.view(-1)[self.chosen(t, count)] = 0
        return mask

    def chosen(self, t: Tensor, count: int) -> Tensor:
        """Where the entries to prune are in the flat ``t``."""
        raise NotImplementedError


class RandomUnstructured(_Unstructured):
    """Prunes entries at random.

    >>> import jtorch
    >>> from jtorch.nn.utils import prune
    >>> prune.RandomUnstructured(amount=3).prune(jtorch.ones(10)).sum()
    tensor(7.)
    """

    def chosen(self, t: Tensor, count: int) -> Tensor:
        return functions.topk(rand_like(t).view(-1), k=count).indices


class L1Unstructured(_Unstructured):
    """Prunes the entries of smallest magnitude.

    >>> import jtorch
    >>> from jtorch.nn.utils import prune
    >>> prune.L1Unstructured(amount=1).prune(jtorch.tensor([5.0, 1.0, -3.0]))
    tensor([ 5.,  0., -3.])
    """

    def chosen(self, t: Tensor, count: int) -> Tensor:
        return functions.topk(t.abs().reshape(-1), k=count, largest=False).indices


class _Structured(BasePruningMethod):
    """Prunes whole channels along ``dim``: ``amount`` of them, or that fraction where it is a float."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: float, dim: int = -1) -> None:
        _check_amount(amount)
        self.amount = amount
        self.dim = dim

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        if t.dim() <= 1:
            raise ValueError(
                "Structured pruning can only be applied to multidimensional tensors. Found tensor of shape "
                f"{t.shape} with {t.dim()} dims"
            )
        if self.dim >= t.dim():
            raise IndexError(f"Invalid index {self.dim} for tensor of size {t.shape}")
        count = _count(self.amount, t.shape[self.dim])
        if not count:
            return default_mask
        mask = zeros_like(t)
        index: list[Any] = [slice(None)] * t.dim()
        index[self.dim] = self.kept(t, count)
        mask[tuple(index)] = 1
        return mask.mul_(default_mask.to(dtype=mask.dtype))

    def kept(self, t: Tensor, count: int) -> Tensor:
        """Which channels stay where ``count`` go: their numbers, or True for each."""
        raise NotImplementedError


class RandomStructured(_Structured):
    """Prunes channels at random.

    >>> import jtorch
    >>> from jtorch.nn.utils import prune
    >>> pruned = prune.RandomStructured(amount=1, dim=0).prune(jtorch.ones(3, 2))
    >>> sorted(pruned.sum(1).tolist())
    [0.0, 2.0, 2.0]
    """

    def kept(self, t: Tensor, count: int) -> Tensor:
        drawn = rand(t.shape[self.dim])
        return drawn > functions.kthvalue(drawn, k=count).values


class LnStructured(_Structured):
    """Prunes the channels of smallest Ln-norm; ``n`` is what ``torch.norm`` takes as ``p``.

    >>> import jtorch
    >>> from jtorch.nn.utils import prune
    >>> prune.LnStructured(amount=1, n=2, dim=0).prune(jtorch.tensor([[3.0, 4.0], [1.0, 1.0]]))
    tensor([[3., 4.],
            [0., 0.]])
    """

    def __init__(self, amount: float, n: Any, dim: int = -1) -> None:
        super().__init__(amount, dim)
        self.n = n

    def kept(self, t: Tensor, count: int) -> Tensor:
        others = list(range(t.dim()))
        del others[self.dim]
        norm = functions.norm(t, p=self.n, dim=others)
        return functions.topk(norm, k=len(norm) - count).indices


class CustomFromMask(BasePruningMethod):
    """Prunes what a given mask says.

    >>> import jtorch
    >>> from jtorch.nn.utils import prune
    >>> prune.CustomFromMask(jtorch.tensor([1, 0, 1])).prune(jtorch.tensor([5, 6, 7]))
    tensor([5, 0, 7])
    """

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        assert default_mask.shape == self.mask.shape, (
            f"default_mask shape {default_mask.shape} must match self.mask shape {self.mask.shape}"
        )
        return default_mask * self.mask.to(dtype=default_mask.dtype)


def identity(module: Module, name: str) -> Module:
    """Give ``module.<name>`` a mask of ones. Returns the module, as all these functions do.

    >>> import jtorch
    >>> from jtorch.nn.utils import prune
    >>> layer = prune.identity(jtorch.nn.Linear(2, 1), "weight")
    >>> layer.weight_mask, prune.is_pruned(layer)
    (tensor([[1., 1.]]), True)
    """
    Identity.apply(module, name)
    return module


def random_unstructured(module: Module, name: str, amount: float) -> Module:
    """Prune ``amount`` entries of ``module.<name>`` at random, or that fraction where it is a float.

    Raises TypeError and ValueError for amounts that are no number of entries and no fraction.

    >>> import jtorch
    >>> from jtorch.nn.utils import prune
    >>> layer = prune.random_unstructured(jtorch.nn.Linear(4, 2), "weight", amount=3)
    >>> int((layer.weight == 0).sum())
    3
    """
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(
    module: Module, name: str, amount: float, importance_scores: Tensor | None = None
) -> Module:
    """Prune the entries of smallest magnitude, in ``importance_scores`` where that is given.

    >>> import jtorch
    >>> from jtorch.nn.utils import prune
    >>> layer = jtorch.nn.Linear(4, 1)
    >>> layer.weight.data = jtorch.tensor([[0.1, -3.0, 2.0, -0.2]])
    >>> prune.l1_unstructured(layer, "weight", amount=0.5).weight_mask
    tensor([[0., 1., 1., 0.]])
    """
    L1Unstructured.apply(module, name, amount, importance_scores=importance_scores)
    return module


def random_structured(module: Module, name: str, amount: float, dim: int) -> Module:
    """Prune channels along ``dim`` at random. Raises ValueError for a tensor of one dimension.

    >>> import jtorch
    >>> from jtorch.nn.utils import prune
    >>> layer = prune.random_structured(jtorch.nn.Linear(4, 3), "weight", amount=1, dim=0)
    >>> int((layer.weight_mask.sum(1) == 0).sum())  # one row of three
    1
    """
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: Module, name: str, amount: float, n: Any, dim: int, importance_scores: Tensor | None = None
) -> Module:
    """Prune the channels along ``dim`` whose Ln-norm is smallest.

    >>> import jtorch
    >>> from jtorch.nn.utils import prune
    >>> layer = jtorch.nn.Linear(2, 2)
    >>> layer.weight.data = jtorch.tensor([[3.0, 4.0], [1.0, 1.0]])
    >>> prune.ln_structured(layer, "weight", amount=1, n=2, dim=0).weight_mask
    tensor([[1., 1.],
            [0., 0.]])
    """
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module: Module, name: str, mask: Tensor) -> Module:
    """Prune ``module.<name>`` where ``mask`` is 0.

    >>> import jtorch
    >>> from jtorch.nn.utils import prune
    >>> layer = jtorch.nn.Linear(3, 1)
    >>> layer.weight.data = jtorch.tensor([[1.0, 2.0, 3.0]])
    >>> prune.custom_from_mask(layer, "weight", jtorch.tensor([[1, 0, 1]])).weight.tolist()
    [[1.0, 0.0, 3.0]]
    """
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(
    parameters: Iterable[tuple[Any, str]],
    pruning_method: type[BasePruningMethod],
    importance_scores: dict[tuple[Any, str], Tensor] | None = None,
    **kwargs: Any,
) -> None:
    """Prune several ``(module, name)`` as if they were one tensor, with ``pruning_method(**kwargs)``.

    Raises TypeError for methods that are not unstructured.

    >>> import jtorch
    >>> from jtorch.nn.utils import prune
    >>> layers = [jtorch.nn.Linear(4, 4) for _ in range(2)]
    >>> prune.global_unstructured([(m, "weight") for m in layers], prune.L1Unstructured, amount=0.25)
    >>> sum(int((m.weight == 0).sum()) for m in layers)  # a quarter of 32
    8
    """
    if not isinstance(parameters, Iterable):
        raise TypeError("global_unstructured(): parameters is not an Iterable")
    given = {} if importance_scores is None else importance_scores
    if not isinstance(given, dict):
        raise TypeError("global_unstructured(): importance_scores must be of type dict")
    places = [(module, name, getattr(module, name)) for module, name in parameters]
    scores = parameters_to_vector([given.get((module, name), t) for module, name, t in places])
    masks = [getattr(module, f"{name}_mask", ones_like(t)) for module, name, t in places]
    method = pruning_method(**kwargs)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. '
            f"Found method {pruning_method} of type {method.PRUNING_TYPE}"
        )
    mask = PruningContainer(method).compute_mask(scores, parameters_to_vector(masks))
    start = 0
    for module, name, t in places:
        custom_from_mask(module, name, mask[start : start + t.numel()].view_as(t))
        start += t.numel()


def remove(module: Module, name: str) -> Module:
    """Make ``module.<name>`` an ordinary parameter again, with zeros where it was pruned.

    Raises ValueError where it is not pruned.

    >>> import jtorch
    >>> from jtorch.nn.utils import prune
    >>> layer = prune.random_unstructured(jtorch.nn.Linear(2, 1), "weight", amount=1)
    >>> [name for name, _ in layer.named_parameters()]
    ['bias', 'weight_orig']
    >>> [name for name, _ in prune.remove(layer, "weight").named_parameters()]
    ['bias', 'weight']
    """
    found = hook_of(module, name)
    if found is None:
        raise ValueError(
            f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed"
        )
    key, hook = found
    hook.remove(module)
    del module._forward_pre_hooks[key]
    return module


def is_pruned(module: Module) -> bool:
    """Whether ``module`` or one inside it has a pruned tensor.

    >>> import jtorch
    >>> from jtorch.nn.utils import prune
    >>> layer = jtorch.nn.Linear(2, 1)
    >>> prune.is_pruned(layer), prune.is_pruned(prune.identity(layer, "bias"))
    (False, True)
    """
    hooks = (hook for part in module.modules() for hook in part._forward_pre_hooks.values())
    return any(isinstance(hook, BasePruningMethod) for hook in hooks)
