"""Optimizer: parameter groups, their state, and both as dicts in PyTorch's layout.

A subclass says which state a parameter has (``_new_state``) and how one group is updated (``_update``).
Updates work on raw values through the evaluator in force, so a compiled step records the same code:
hyper-parameters come from ``evaluator.scalar``, and every change is a write into memory that exists.
"""

from __future__ import annotations

import copy
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from jtorch import op, watch
from jtorch.eager.grad_mode import enable_grad
from jtorch.eager.tensor import Tensor

_UNCHANGED_BY_LOADING = ("params", "param_names")


class Optimizer:
    """Base class of all optimizers.

    ``params`` is an iterable of tensors, of (name, tensor) pairs, or of dicts that each have "params"
    and options of their own. Source: https://docs.pytorch.org/docs/stable/optim.html
    """

    def __init__(self, params: Any, defaults: dict[str, Any]) -> None:
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, but got "
                + _typename(params)
            )
        self.defaults = defaults
        self.state: defaultdict[Tensor, dict[str, Any]] = defaultdict(dict)
        self.param_groups: list[dict[str, Any]] = []
        self._has_state = False  # whether every parameter's state exists
        groups = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    # -- what a subclass defines -------------------------------------------------------------------------

    def _new_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        """The state of a parameter before its first update."""
        raise NotImplementedError

    def _update(self, group: dict[str, Any], context: op.Context) -> None:
        """Update the parameters of one group from their gradients."""
        raise NotImplementedError

    # -- stepping ----------------------------------------------------------------------------------------

    def init_state(self) -> None:
        """Make the state of every parameter that has none. ``step`` does it; compiling needs it before."""
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                for name, value in self._new_state(p, group).items():
                    state.setdefault(name, value)
        self._has_state = True

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter that has a gradient; returns what ``closure`` returns."""
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        context = op.CONTEXT.get()
        if not self._has_state:
            with context.evaluator.outside():
                self.init_state()
        for group in self.param_groups:
            self._update(group, context)
        return loss

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop all gradients, or overwrite them with zeros."""
        set_grad = op.CONTEXT.get().evaluator.set_grad
        for group in self.param_groups:
            for p in group["params"]:
                if set_to_none:
                    set_grad(p, None)
                elif p.grad is not None:
                    p.grad = p.grad.detach()
                    p.grad.zero_()

    # -- groups ------------------------------------------------------------------------------------------

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters with options of their own, e.g. layers that are unfrozen during training.

        Raises TypeError for what is no tensor, ValueError for one that is no leaf or is here already.
        """
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        group = dict(param_group)
        group["params"], names = _named(group["params"])
        if names:
            group["param_names"] = names
        for p in group["params"]:
            if not isinstance(p, Tensor):
                raise TypeError(
                    "optimizer can only optimize Tensors, but one of the params is " + _typename(p)
                )
            if not p.is_leaf:
                raise ValueError("can't optimize a non-leaf Tensor")
        for name, default in self.defaults.items():
            group.setdefault(name, default)
        self._check_new(group)
        self.param_groups.append(group)
        self._has_state = False
        watch.advance()

    def _check_new(self, group: dict[str, Any]) -> None:
        ids = {id(p) for p in group["params"]}
        if len(ids) != len(group["params"]):
            warnings.warn(
                "optimizer contains a parameter group with duplicate parameters; in future, this will "
                "cause an error; see github.com/pytorch/pytorch/issues/40967 for more information",
                stacklevel=4,
            )
        for other in self.param_groups:
            if ("param_names" in group) != ("param_names" in other):
                kind = "with names" if "param_names" in group else "without names"
                raise ValueError(
                    "all optimizer param groups should be with/without names. "
                    f"cannot add param group {kind} to the optimizer"
                )
            if any(id(p) in ids for p in other["params"]):
                raise ValueError("some parameters appear in more than one parameter group")

    # -- dicts -------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """``{"state": {number: ...}, "param_groups": [...]}``, parameters as numbers in their order."""
        numbers = {id(p): k for k, p in enumerate(self._params())}
        groups = [
            {**{k: v for k, v in group.items() if k != "params"}, "params": _ids(group, numbers)}
            for group in self.param_groups
        ]
        state = {numbers[id(p)]: self._saved_state(p) for p in self.state if id(p) in numbers}
        return {"state": {k: v for k, v in sorted(state.items()) if v}, "param_groups": groups}

    def _params(self) -> Iterator[Tensor]:
        return (p for group in self.param_groups for p in group["params"])

    def _saved_state(self, param: Tensor) -> dict[str, Any]:
        """What of a parameter's state belongs into the state dict."""
        return dict(self.state[param])

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take over options and a copy of the state. Raises ValueError where the groups don't match."""
        saved_groups = copy.deepcopy(list(state_dict["param_groups"]))
        if len(saved_groups) != len(self.param_groups):
            raise ValueError("loaded state dict has a different number of parameter groups")
        pairs = list(zip(self.param_groups, saved_groups, strict=True))
        if any(len(group["params"]) != len(saved["params"]) for group, saved in pairs):
            raise ValueError(
                "loaded state dict contains a parameter group that doesn't match the size of "
                "optimizer's group"
            )
        numbers = [k for _, saved in pairs for k in saved["params"]]
        by_number = dict(zip(numbers, self._params(), strict=True))
        state: defaultdict[Tensor, dict[str, Any]] = defaultdict(dict)
        for k, facts in state_dict["state"].items():
            if k in by_number:
                param = by_number[k]
                state[param] = {name: _fitted(param, name, v) for name, v in facts.items()}
        for group, saved in pairs:
            group.update({k: v for k, v in saved.items() if k not in _UNCHANGED_BY_LOADING})
        self.state = state
        self._has_state = False
        watch.advance()

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for k, group in enumerate(self.param_groups):
            lines.append(f"Parameter Group {k}")
            lines += [f"    {name}: {group[name]}" for name in sorted(group) if name != "params"]
        return "\n".join(lines) + "\n)"


def _named(params: Any) -> tuple[list[Any], list[str]]:
    """(parameters, their names or none) from the forms that a group's "params" may have."""
    if isinstance(params, Tensor):
        return [params], []
    if isinstance(params, (set, frozenset)):
        raise TypeError(
            "optimizer parameters need to be organized in ordered collections, but the ordering of tensors "
            "in sets will change between runs. Please use a list instead."
        )
    items: list[Any] = list(params)
    names = [item[0] for item in items if isinstance(item, tuple)]
    if names and len(names) != len(items):
        raise ValueError(
            "all optimizer params should be with/without names. Some param names are missing"
        )
    return [item[1] if isinstance(item, tuple) else item for item in items], names


def _ids(group: dict[str, Any], numbers: dict[int, int]) -> list[int]:
    return [numbers[id(p)] for p in group["params"]]


def _fitted(param: Tensor, name: str, value: Any) -> Any:
    """A copy of a loaded piece of state; tensors take the parameter's dtype, but for the step count."""
    if not isinstance(value, Tensor):
        return copy.deepcopy(value)
    value = value.detach()
    return value.to(copy=True) if name == "step" else value.to(param.dtype, copy=True)


def not_negative(name: str, value: float, inclusive: bool = True) -> None:
    """Raise PyTorch's ValueError for an option below zero (or NaN)."""
    if not (value >= 0.0 if inclusive else value > 0.0):
        raise ValueError(f"Invalid {name}: {value}")


def overwrite(evaluator: op.Evaluator, tensor: Tensor, value: Any) -> None:
    """Write a raw value over a tensor's memory: ``copy_`` for where shape, dtype and tape are known."""
    evaluator.write(tensor, value)
    tensor._cell[0] += 1


def with_gradients(
    evaluator: op.Evaluator, params: Iterable[Tensor]
) -> Iterator[tuple[Tensor, Any]]:
    """(parameter, raw gradient) of those that have one."""
    for p in params:
        g = evaluator.get_grad(p)
        if g is not None:
            yield p, g._data


def _typename(value: Any) -> str:
    cls = type(value)
    return (
        cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"
    )
