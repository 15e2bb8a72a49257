"""Optimizer: parameter groups, their state, and both as dicts in PyTorch's layout.

A subclass says which state a parameter has (``_new_state``) and how one group is updated (``_update``).
Updates work on raw values through the evaluator in force, so a compiled step records the same code:
hyper-parameters come from ``evaluator.scalar``, and every change is a write into memory that exists.
"""

from __future__ import annotations

import copy
import sys
import warnings
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from jtorch.core import op, watch
from jtorch.eager.public import Tensor, enable_grad, zero_gradient
from jtorch.optim.fused import fused
from jtorch.optim.hooks import Hooked, with_hooks

required: Any = object()  # a default that says: each group must name this option


class Optimizer(Hooked):
    """Base class of all optimizers.

    ``params`` is an iterable of tensors, of (name, tensor) pairs, or of dicts that each have "params"
    and options of their own. Source: https://docs.pytorch.org/docs/stable/optim.html

    >>> import jtorch
    >>> body, head = jtorch.nn.Linear(3, 3), jtorch.nn.Linear(3, 2)
    >>> groups = [{"params": body.parameters(), "lr": 0.01}, {"params": head.parameters()}]
    >>> [group["lr"] for group in jtorch.optim.SGD(groups, lr=0.1).param_groups]
    [0.01, 0.1]
    """

    _reads_through_evaluator = frozenset({"step", "zero_grad"})  # what a recording follows by itself

    _made = (0, 0)  # how many states and parameters there were when states were last made

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "step" in cls.__dict__:  # an optimizer that steps in its own way
            cls.step = with_hooks(cls.__dict__["step"])  # type: ignore[method-assign]

    def __init__(self, params: Any, defaults: dict[str, Any]) -> None:
        self._start_hooks()
        self._has_state = False  # whether every parameter's state exists
        self._compiled: Callable[[], None] | None = None  # the updates, where they are fused
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, but got "
                + _typename(params)
            )
        self.defaults = defaults
        self.state: defaultdict[Tensor, dict[str, Any]] = watch.DefaultDict(dict)
        self.param_groups: list[dict[str, Any]] = watch.List()
        groups = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def __getstate__(self) -> dict[str, Any]:
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._start_hooks()
        self._has_state = False
        self._compiled = None
        self.__dict__.update(state)

    # -- what a subclass defines -------------------------------------------------------------------------

    def _new_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        """The state of a parameter before its first update."""
        raise NotImplementedError

    def _update(self, group: dict[str, Any], context: op.Context) -> None:
        """Update the parameters of one group from their gradients."""
        raise NotImplementedError

    def _refuses_sparse(self, group: dict[str, Any]) -> str:
        """Why sparse gradients of that group can't be used; "" where they can."""
        return f"{type(self).__name__} does not support sparse gradients"

    # -- stepping ----------------------------------------------------------------------------------------

    def init_state(self, params: Collection[Tensor] | None = None) -> None:
        """Make the state of every parameter that has none, or of these alone: ``step`` does it for those that
        have a gradient, as in PyTorch."""
        for group in self.param_groups:
            for p in group["params"]:
                if params is not None and p not in params:
                    continue
                new = self._new_state(p, group)
                if not new and p not in self.state:
                    continue
                if not isinstance(self.state[p], watch.Dict):
                    self.state[p] = watch.Dict(self.state[p])
                for name, value in new.items():
                    if name not in self.state[p]:
                        self.state[p][name] = value
        count = sum([len(group["params"]) for group in self.param_groups])
        self._has_state = params is None or len(params) == count
        self._made = len(self.state), count

    @with_hooks
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter that has a gradient; returns what ``closure`` returns."""
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        self._check_relied_on()
        if "jtorch.sparse.tensor" in sys.modules:  # else there are none
            self._check_sparse()
        if not self._has_state:
            evaluator = op.CONTEXT.get().evaluator
            params = {p for p in self._all_params() if evaluator.get_grad(p) is not None}
            with evaluator.outside(self):
                self.init_state(params)
        if all(group.get("fused") for group in self.param_groups):
            self._fused_updates()()
        else:
            self._update_groups()
        return loss

    def _check_relied_on(self) -> None:
        """Notice what was replaced whole: groups, their parameters, the state, which may be made anew."""
        self._tell_of_containers()
        option = op.CONTEXT.get().evaluator.option
        groups, state = option(self.__dict__, "param_groups"), option(self.__dict__, "state")
        count = sum([len(option(group, "params")) for group in groups])
        if (len(state), count) != self._made or not all(state.values()):  # an entry may be there, and empty
            self._has_state = False

    def _check_sparse(self) -> None:
        """Raise RuntimeError where sparse gradients can't be used, before anything is updated."""
        get_grad = op.CONTEXT.get().evaluator.get_grad
        for group in self.param_groups:
            for p in group["params"]:
                grad = get_grad(p)
                refusal = grad is not None and grad.is_sparse and self._refuses_sparse(group)
                if refusal:
                    raise RuntimeError(refusal)

    def _tell_of_containers(self) -> None:
        """Put containers that tell of changes where the user has put plain ones."""
        if not isinstance(self.state, watch.DefaultDict):
            self.state = watch.DefaultDict(dict, self.state)
        if not isinstance(self.param_groups, watch.List):
            self.param_groups = watch.List(self.param_groups)
        for group in self.param_groups:
            if not isinstance(group["params"], watch.List):
                group["params"] = watch.List(group["params"])

    def _update_groups(self) -> None:
        context = op.CONTEXT.get()
        for group in self.param_groups:
            self._update(group, context)

    def _fused_updates(self) -> Callable[[], None]:
        """All updates as one compiled call, where that can be: what ``fused=True`` asks for.

        For four small parameters Adam takes 5 us so, and 70 us one after another.
        """
        if self._compiled is None:
            self._compiled = fused(self._update_groups, self.param_groups)
        return self._compiled

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop all gradients, or overwrite them with zeros."""
        set_grad = op.CONTEXT.get().evaluator.set_grad
        for group in self.param_groups:
            for p in group["params"]:
                if set_to_none:
                    set_grad(p, None)
                elif p.grad is not None:
                    zero_gradient(p.grad)

    # -- groups ------------------------------------------------------------------------------------------

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters with options of their own, e.g. layers that are unfrozen during training.

        Raises TypeError for what is no tensor, ValueError for one that is no leaf or is here already.
        """
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        group = param_group  # the caller's own dict, as in PyTorch
        params, names = _named(group["params"])
        group["params"] = watch.List(params)
        if names:
            group["param_names"] = names
        for p in group["params"]:
            if not isinstance(p, Tensor):
                raise TypeError(
                    "optimizer can only optimize Tensors, but one of the params is " + _typename(p)
                )
            if not (p.is_leaf or getattr(p, "retains_grad", False)):
                raise ValueError("can't optimize a non-leaf Tensor")
        for name, default in self.defaults.items():
            if default is required and name not in group:
                raise ValueError(
                    f"parameter group didn't specify a value of required optimization parameter {name}"
                )
            group.setdefault(name, default)
        self._check_new(group)
        self.param_groups.append(group)
        self._has_state = False
        self._compiled = None
        watch.tell(self.param_groups)

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
        for hook in list(self._hooks["state_dict_pre"].values()):
            hook(self)
        numbers: dict[int, int] = {}
        for k, p in enumerate(self._all_params()):
            numbers.setdefault(id(p), k)
        groups = [
            {**{k: v for k, v in group.items() if k != "params"}, "params": _ids(group, numbers)}
            for group in self.param_groups
        ]
        state = {numbers[id(p)]: self._saved_state(p) for p in self.state if id(p) in numbers}
        made = {"state": {k: v for k, v in sorted(state.items()) if v}, "param_groups": groups}
        return self._passed("state_dict_post", made)

    def _all_params(self) -> Iterator[Tensor]:
        return (p for group in self.param_groups for p in group["params"])

    def _saved_state(self, param: Tensor) -> dict[str, Any]:
        """What of a parameter's state belongs into the state dict: nothing before its first update."""
        state = self.state[param]
        step = state.get("step")
        early = type(self)._new_state is not Optimizer._new_state
        if early and isinstance(step, Tensor) and step.item() == 0:
            return {}
        sharding = getattr(param, "sharding", None)
        return dict(state) if sharding is None else sharding.state(state, param)

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take over a copy of the options, and the state: its tensors are then this optimizer's, as in
        PyTorch, where their dtype is the parameter's. Raises ValueError where the groups don't match."""
        state_dict = self._passed("load_state_dict_pre", dict(state_dict))
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
        by_number = dict(zip(numbers, self._all_params(), strict=True))
        state: defaultdict[Any, dict[str, Any]] = watch.DefaultDict(dict)
        for k, facts in state_dict["state"].items():
            if k in by_number:
                state[by_number[k]] = _fitted(by_number[k], facts)
            else:
                state[k] = facts
        for group, saved in pairs:
            self._replace_options(group, saved)
        before, self.state = self.state, state
        self._has_state = False
        watch.tell(before, holds=lambda: self.state is before)
        for hook in list(self._hooks["load_state_dict_post"].values()):
            hook(self)

    def _replace_options(self, group: dict[str, Any], saved: dict[str, Any]) -> None:
        """The options of ``saved`` in the same dict, which compiled steps and schedulers hold."""
        kept = {k: group[k] for k in ("params", "param_names") if k in group}
        group.clear()
        group.update({k: v for k, v in saved.items() if k != "params"})
        if "param_names" in kept:
            group.setdefault("param_names", kept["param_names"])
        for name, default in self.defaults.items():  # saved before that option was there
            group.setdefault(name, default)
        group["params"] = kept["params"]

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from jtorch.viz.html import optimizer_html

        return optimizer_html(self)

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
        raise ValueError("all optimizer params should be with/without names. Some param names are missing")
    return [item[1] if isinstance(item, tuple) else item for item in items], names


def _ids(group: dict[str, Any], numbers: dict[int, int]) -> list[int]:
    return [numbers[id(p)] for p in group["params"]]


def _fitted(param: Tensor, value: Any, name: Any = None) -> Any:
    """A loaded piece of state: tensors themselves, as in PyTorch, or what they are on the parameter's device
    and in its dtype, neither of which the step count takes."""
    if isinstance(value, Tensor):
        sharding = getattr(param, "sharding", None)  # of a parameter that processes share
        value = value if sharding is None else sharding.taken_from(value)
        if name == "step":
            return value
        return value.to(param.device, param.dtype if param.is_floating_point() else None)
    if isinstance(value, dict):
        return {k: _fitted(param, v, k) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_fitted(param, v) for v in value)
    return copy.deepcopy(value)


def _typename(value: Any) -> str:
    cls = type(value)
    return cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"
